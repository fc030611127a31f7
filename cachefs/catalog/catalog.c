/*
 * Opening a version: what is refused and why, and the connections of its readers.
 *
 * The file is checked in three steps before it is trusted: its first 100 bytes (is it SQLite, ours,
 * of a known format, and as long as it says), its schema's text, and its meta rows against each
 * other. Nothing reads the whole file; single damaged pages show when they are reached.
 *
 * Connections are opened as needed and kept idle, CONN_KEEP at most. The pages come from a mapping,
 * so that they are the system's and not this process's memory.
 */
#include "catalog-internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "early.h"
#include "hash.h"
#include "mem.h"
#include "sql.h"

#define CONN_KEEP      8u
#define CONN_CACHE_KIB 256
#define HEADER_BYTES   100u

static const char *const stmt_text[STMT_COUNT] = {
    [STMT_GET] = SQL_GET,           [STMT_LOOKUP] = SQL_LOOKUP,   [STMT_UNIT] = SQL_UNIT,
    [STMT_CHILDREN] = SQL_CHILDREN, [STMT_NUMBERS] = SQL_NUMBERS, [STMT_WALK] = SQL_WALK,
    [STMT_BAD] = SQL_BAD,
};

/* --- errors ---------------------------------------------------------------------------------- */

int sql_error(sqlite3 *db, const char *file, struct err *err)
{
    int code = sqlite3_errcode(db) & 0xff, sys = sqlite3_system_errno(db);
    const char *why = sqlite3_errmsg(db);
    struct err e = {0};
    if (code == SQLITE_IOERR && arriving_why(db, &e)) {
        if (err)
            *err = e;
        err_wrap(err, "catalog %s", file);
        return -1;
    }
    switch (code) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return err_set(err, ERR_CORRUPT, "catalog %s is damaged: %s (scan the set again)", file,
                       why);
    case SQLITE_FULL:
        return err_sys(err, ENOSPC, "catalog %s", file);
    case SQLITE_NOMEM:
        return err_set(err, ERR_LIMIT, "catalog %s: out of memory", file);
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        if (sys)
            return err_sys(err, sys, "catalog %s: %s", file, why);
        return err_set(err, ERR_FAILED, "catalog %s: %s", file, why);
    default:
        return err_set(err, ERR_FAILED, "catalog %s: %s", file, why);
    }
}

int damaged(const struct catalog *c, const char *what, struct err *err)
{
    return err_set(err, ERR_CORRUPT, "catalog %s is damaged: %s (scan the set again)", c->file,
                   what);
}

int step(const struct catalog *c, sqlite3_stmt *s, struct err *err)
{
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW)
        return 1;
    return rc == SQLITE_DONE ? 0 : sql_error(sqlite3_db_handle(s), c->file, err);
}

/* --- the first 100 bytes --------------------------------------------------------------------- */

static uint32_t be32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int check_header(const unsigned char *head, uint64_t size, const char *file, struct err *err)
{
    if (memcmp(head, "SQLite format 3", 16) != 0 || be32(head + 68) != CATALOG_APP_ID)
        return err_set(err, ERR_CORRUPT, "open %s: this is not a catalog (make one with scan)",
                       file);
    uint32_t format = be32(head + 60);
    if (format > CATALOG_FORMAT)
        return err_set(err, ERR_CORRUPT,
                       "open %s: the catalog has format %u, this program knows up to %u "
                       "(use a newer program, or scan again)",
                       file, format, CATALOG_FORMAT);
    if (format < 1)
        return err_set(err, ERR_CORRUPT, "open %s: the catalog was never finished (scan again)",
                       file);
    uint64_t page = (uint64_t)head[16] << 8 | head[17];
    uint64_t want = (page == 1 ? 65536 : page) * be32(head + 28);
    if (want != size)
        return err_set(err, ERR_CORRUPT,
                       "open %s: the catalog has %llu bytes and should have %llu (truncated? copy "
                       "it or scan again)",
                       file, (unsigned long long)size, (unsigned long long)want);
    return 0;
}

static int check_arriving(const struct catalog *c, uint64_t size, struct err *err)
{
    unsigned char head[HEADER_BYTES];
    if (size < sizeof head)
        return err_set(err, ERR_CORRUPT, "%s: %llu bytes are too few for a catalog", c->file,
                       (unsigned long long)size);
    return arriving_await(c->arriving, err) || arriving_head(c->arriving, head, sizeof head, err) ||
                   check_header(head, size, c->file, err)
               ? -1
               : 0;
}

static int check_file(const char *file, uint64_t *ret_bytes, struct err *err)
{
    unsigned char head[HEADER_BYTES];
    struct stat st;
    if (early_is_lost(file))
        return err_set(err, ERR_CORRUPT,
                       "open %s: the machine went down before the catalog was on the disk (scan "
                       "again, or copy it again)",
                       file);
    cleanup_close int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(err, errno, "open catalog %s", file);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_CORRUPT, "open catalog %s: it is not a regular file", file);
    ssize_t n = pread(fd, head, sizeof head, 0);
    if (n < 0)
        return err_sys(err, errno, "read catalog %s", file);
    if (n < (ssize_t)sizeof head)
        return err_set(err, ERR_CORRUPT,
                       "open %s: %zd bytes are too few for a catalog (make one with scan)", file,
                       n);
    *ret_bytes = (uint64_t)st.st_size;
    return check_header(head, *ret_bytes, file, err);
}

/* --- connections ----------------------------------------------------------------------------- */

static void conn_close(struct conn *k)
{
    for (int i = 0; i < STMT_COUNT; i++)
        sqlite3_finalize(k->stmts[i]);
    sqlite3_close(k->db);
    free(k);
}

static int conn_open(const struct catalog *c, struct conn **ret, struct err *err)
{
    struct conn *k = xcalloc(1, sizeof *k);
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
    /* Not mapped: a file that is cut, or a disk that fails, is an error here and no SIGBUS, which
     * would take every reader along. A look-up at random in 1 M rows costs 7.6 us instead of 6.1, a
     * page of a folder the same. No cell_size_check: it looks at all cells of every page that comes
     * in, and single reads keep their own checks. */
    char *pragmas = xasprintf("PRAGMA cache_size=-%d; PRAGMA mmap_size=0; PRAGMA query_only=ON",
                              CONN_CACHE_KIB);
    int rc = sqlite3_open_v2(c->uri, &k->db, flags, arriving_vfs(c->arriving));
    if (rc == SQLITE_OK) {
        sqlite3_db_config(k->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(k->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        sqlite3_db_config(k->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
        sqlite3_db_config(k->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
        rc = sqlite3_exec(k->db, pragmas, NULL, NULL, NULL);
    }
    free(pragmas);
    if (rc != SQLITE_OK) {
        sql_error(k->db, c->file, err);
        conn_close(k);
        return -1;
    }
    *ret = k;
    return 0;
}

int conn_take(struct catalog *c, struct conn **ret, struct err *err)
{
    /* Pages that a connection keeps are not asked for again: whether they are still believed is. */
    if (c->arriving && arriving_await(c->arriving, err))
        return -1;
    {
        ACQUIRE(&c->lock);
        if (c->idle) {
            *ret = c->idle;
            c->idle = (*ret)->next;
            c->n_idle--;
            return 0;
        }
    }
    return conn_open(c, ret, err);
}

void conn_give(struct catalog *c, struct conn *k)
{
    for (int i = 0; i < STMT_COUNT; i++)
        sqlite3_reset(k->stmts[i]);
    {
        ACQUIRE(&c->lock);
        if (c->n_idle < CONN_KEEP) {
            k->next = c->idle;
            c->idle = k;
            c->n_idle++;
            return;
        }
    }
    conn_close(k);
}

int conn_stmt(struct conn *k, enum stmt which, sqlite3_stmt **ret, struct err *err)
{
    if (!k->stmts[which] &&
        sqlite3_prepare_v3(k->db, stmt_text[which], -1, SQLITE_PREPARE_PERSISTENT, &k->stmts[which],
                           NULL) != SQLITE_OK)
        return sql_error(k->db, sqlite3_db_filename(k->db, "main"), err);
    sqlite3_reset(k->stmts[which]);
    *ret = k->stmts[which];
    return 0;
}

/* --- schema and meta ------------------------------------------------------------------------- */

/* In the order of SQL_SCHEMA: by name. */
static const char *const schema[] = {SQL_TABLE_BAD,  SQL_TABLE_META,    (SQL_TABLE_NODE),
                                     SQL_INDEX_NAME, SQL_TABLE_NUMBERS, SQL_TABLE_SOURCE};

static void cleanup_stmt_fn(sqlite3_stmt **s)
{
    sqlite3_finalize(*s);
}
#define cleanup_stmt CLEANUP(cleanup_stmt_fn)

static int prepare(const struct catalog *c, struct conn *k, const char *sql, sqlite3_stmt **ret,
                   struct err *err)
{
    if (sqlite3_prepare_v2(k->db, sql, -1, ret, NULL) != SQLITE_OK)
        return sql_error(k->db, c->file, err);
    return 0;
}

static int check_schema(struct catalog *c, struct conn *k, struct err *err)
{
    cleanup_stmt sqlite3_stmt *s = NULL;
    if (prepare(c, k, SQL_SCHEMA, &s, err) < 0)
        return -1;
    size_t i = 0, n = sizeof schema / sizeof *schema;
    int got;
    while ((got = step(c, s, err)) > 0) {
        const char *sql = (const char *)sqlite3_column_text(s, 0);
        if (i >= n || !sql || strcmp(sql, schema[i]) != 0)
            return damaged(c, "its tables are not those of a catalog", err);
        i++;
    }
    if (got < 0)
        return -1;
    return i == n ? 0 : damaged(c, "a table is missing", err);
}

enum meta {
    META_SAMPLES,
    META_BYTES,
    META_FOLDERS,
    META_NUMBERED,
    META_BAD,
    META_NEXT_ID,
    META_SCANNED,
    META_SOURCES,
    META_LISTED,
    META_LINEAGE,
    META_IDS,
    META_NUMBERS_COUNT
};

static const char *const meta_names[META_NUMBERS_COUNT] = {
    [META_SAMPLES] = "samples",    [META_BYTES] = "bytes",     [META_FOLDERS] = "folders",
    [META_NUMBERED] = "numbered",  [META_BAD] = "bad_names",   [META_NEXT_ID] = "next_id",
    [META_SCANNED] = "scanned_at", [META_SOURCES] = "sources", [META_LISTED] = "listed",
    [META_LINEAGE] = "lineage",    [META_IDS] = "ids",
};

/* Returns a bit mask of what was found; bit META_NUMBERS_COUNT is the digest. */
static unsigned take_meta(struct catalog *c, sqlite3_stmt *s, int64_t *values)
{
    const char *key = (const char *)sqlite3_column_text(s, 0);
    if (!key)
        return 0;
    if (strcmp(key, "digest") == 0) {
        const char *text = (const char *)sqlite3_column_text(s, 1);
        if (!text || !hex_is(text, CATALOG_DIGEST))
            return 0;
        memcpy(c->info.digest, text, CATALOG_DIGEST + 1);
        return 1u << META_NUMBERS_COUNT;
    }
    for (unsigned i = 0; i < META_NUMBERS_COUNT; i++)
        if (strcmp(key, meta_names[i]) == 0 && sqlite3_column_type(s, 1) == SQLITE_INTEGER) {
            values[i] = sqlite3_column_int64(s, 1);
            return values[i] >= 0 ? 1u << i : 0;
        }
    return 0;
}

static int read_meta(struct catalog *c, struct conn *k, struct err *err)
{
    cleanup_stmt sqlite3_stmt *s = NULL;
    int64_t v[META_NUMBERS_COUNT] = {0};
    unsigned found = 0;
    int got;
    if (prepare(c, k, SQL_META, &s, err) < 0)
        return -1;
    while ((got = step(c, s, err)) > 0)
        found |= take_meta(c, s, v);
    if (got < 0)
        return -1;
    if ((found | 1u << META_LINEAGE | 1u << META_IDS) != (1u << (META_NUMBERS_COUNT + 1)) - 1)
        return damaged(c, "its meta rows are incomplete", err);
    int64_t most = (int64_t)(c->file_bytes / NODE_BYTES_MIN);
    if (v[META_SAMPLES] > most || v[META_FOLDERS] > most || v[META_NUMBERED] > v[META_SAMPLES] ||
        v[META_SOURCES] > UINT16_MAX || v[META_NEXT_ID] <= v[META_SAMPLES] + v[META_FOLDERS] ||
        v[META_NEXT_ID] > (int64_t)IDS_MAX)
        return damaged(c, "its counts contradict each other", err);
    c->info.samples = (uint64_t)v[META_SAMPLES];
    c->info.bytes = (uint64_t)v[META_BYTES];
    c->info.folders = (uint64_t)v[META_FOLDERS];
    c->info.numbered = (uint64_t)v[META_NUMBERED];
    c->info.bad_names = (uint64_t)v[META_BAD];
    c->info.next_id = (uint64_t)v[META_NEXT_ID];
    c->info.scanned_at = v[META_SCANNED];
    c->info.n_sources = (uint32_t)v[META_SOURCES];
    c->info.lineage = (uint64_t)v[META_LINEAGE];
    c->info.ids = (uint64_t)v[META_IDS];
    c->listed = v[META_LISTED] != 0;
    return 0;
}

static int read_sources(struct catalog *c, struct conn *k, struct err *err)
{
    cleanup_stmt sqlite3_stmt *s = NULL;
    uint32_t n = 0;
    int got;
    if (prepare(c, k, SQL_SOURCES, &s, err) < 0)
        return -1;
    c->source_uris = xcalloc(c->info.n_sources + 1, sizeof *c->source_uris);
    c->source_ats = xcalloc(c->info.n_sources + 1, sizeof *c->source_ats);
    while ((got = step(c, s, err)) > 0) {
        const char *uri = (const char *)sqlite3_column_text(s, 1);
        const char *at = (const char *)sqlite3_column_text(s, 2);
        if (n >= c->info.n_sources || sqlite3_column_int64(s, 0) != n || !uri || !at)
            return damaged(c, "its sources are not as counted", err);
        c->source_uris[n] = xstrdup(uri);
        c->source_ats[n++] = xstrdup(at);
    }
    if (got < 0)
        return -1;
    return n == c->info.n_sources ? 0 : damaged(c, "a source is missing", err);
}

/* The root is there, and the highest id is below next_id: two seeks, whatever the size. */
static int check_ends(struct catalog *c, struct conn *k, struct err *err)
{
    cleanup_stmt sqlite3_stmt *s = NULL;
    sqlite3_stmt *get = NULL;
    struct entry root;
    if (prepare(c, k, SQL_LAST_ID, &s, err) < 0 || step(c, s, err) < 0)
        return -1;
    if ((uint64_t)sqlite3_column_int64(s, 0) >= c->info.next_id)
        return damaged(c, "it has an id that it says is unused", err);
    if (conn_stmt(k, STMT_GET, &get, err) < 0)
        return -1;
    sqlite3_bind_int64(get, 1, (int64_t)CATALOG_ROOT_ID);
    int got = step(c, get, err);
    if (got < 0 || (got && row_entry(c, get, &root, err) < 0))
        return -1;
    return got && root.folder ? 0 : damaged(c, "it has no root folder", err);
}

/* --- life ------------------------------------------------------------------------------------ */

/* A file name inside a URI: what would end the path there is written as %XX. */
static char *sqlite_uri(const char *file)
{
    struct bytes b = {0};
    bytes_add_str(&b, "file:");
    for (const char *p = file; *p; p++) {
        if (*p == '%' || *p == '?' || *p == '#')
            bytes_addf(&b, "%%%02X", (unsigned char)*p);
        else
            bytes_add_char(&b, *p);
    }
    bytes_add_str(&b, "?immutable=1&mode=ro");
    return bytes_take(&b);
}

static int load(struct catalog *c, struct err *err)
{
    struct conn *k;
    if (conn_open(c, &k, err) < 0)
        return -1;
    int rc = check_schema(c, k, err) || read_meta(c, k, err) || read_sources(c, k, err) ||
                     check_ends(c, k, err)
                 ? -1
                 : 0;
    conn_give(c, k);
    return rc;
}

static struct catalog *catalog_alloc(char *file, uint64_t bytes)
{
    struct catalog *c = xcalloc(1, sizeof *c);
    c->file_bytes = bytes;
    atomic_init(&c->refs, 1);
    c->file = file;
    c->uri = sqlite_uri(c->file);
    lock_init(&c->lock, RANK_CATALOG, "catalog");
    return c;
}

static int loaded(struct catalog *c, struct catalog **ret, struct err *err)
{
    if (load(c, err) < 0) {
        catalog_unref(c);
        return -1;
    }
    *ret = c;
    return 0;
}

int catalog_open(struct catalog **ret, const char *file, struct err *err)
{
    cleanup_free char *real = realpath(file, NULL);
    if (!real)
        return err_sys(err, errno, "open catalog %s", file);
    uint64_t file_bytes = 0;
    if (check_file(real, &file_bytes, err) < 0)
        return -1;
    return loaded(catalog_alloc(take_ptr(&real), file_bytes), ret, err);
}

int catalog_open_arriving(struct catalog **ret, const char *file, const struct catalog_pages *pages,
                          struct err *err)
{
    struct catalog *c = catalog_alloc(xstrdup(file), pages->size);
    if (arriving_new(&c->arriving, pages, err) || check_arriving(c, pages->size, err)) {
        catalog_unref(c);
        return -1;
    }
    return loaded(c, ret, err);
}

int catalog_whole(const struct catalog *c, uint64_t wait_ns, struct err *err)
{
    return c->arriving ? arriving_whole(c->arriving, wait_ns, err) : 0;
}

struct catalog *catalog_ref(struct catalog *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void catalog_unref(struct catalog *c)
{
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) > 1)
        return;
    while (c->idle) {
        struct conn *k = c->idle;
        c->idle = k->next;
        conn_close(k);
    }
    for (uint32_t i = 0; c->source_uris && i < c->info.n_sources; i++) {
        free(c->source_uris[i]);
        free(c->source_ats[i]);
    }
    free(c->source_uris);
    free(c->source_ats);
    arriving_free(c->arriving);
    lock_destroy(&c->lock);
    free(c->uri);
    free(c->file);
    free(c);
}

const struct catalog_info *catalog_info(const struct catalog *c)
{
    return &c->info;
}

const char *catalog_file(const struct catalog *c)
{
    return c->file;
}

const char *catalog_source_uri(const struct catalog *c, uint32_t i)
{
    assert(i < c->info.n_sources);
    return c->source_uris[i];
}

const char *catalog_source_at(const struct catalog *c, uint32_t i)
{
    assert(i < c->info.n_sources);
    return c->source_ats[i];
}
