/*
 * Writing the file of a version: one transaction without a journal, in a file that nobody else
 * knows yet. Folders come first, in walk order, which gives them their ids and bases; then the rows
 * in tree order, each with an id and a number counted from its folder's bases; then the numbers.
 */
#include "build-internal.h"
#include "digest-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "mem.h"
#include "sql.h"

#define WRITE_CACHE_KIB 16384

struct writer {
    struct catalog_builder *b;
    const char *file;
    sqlite3 *db;
    sqlite3_stmt *node;
    struct list_join list;
    uint64_t next_id;
    uint64_t ids_sum;
    uint64_t *ids; /* of each number; a mapping of an unnamed file */
    size_t ids_bytes;
};

/* --- statements ------------------------------------------------------------------------------ */

static int run_sql(struct writer *w, const char *sql, struct err *err)
{
    return sqlite3_exec(w->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0
                                                                   : sql_error(w->db, w->file, err);
}

static int prepare(struct writer *w, const char *sql, sqlite3_stmt **ret, struct err *err)
{
    return sqlite3_prepare_v2(w->db, sql, -1, ret, NULL) == SQLITE_OK
               ? 0
               : sql_error(w->db, w->file, err);
}

static int insert(struct writer *w, sqlite3_stmt *s, struct err *err)
{
    int rc = sqlite3_step(s) == SQLITE_DONE ? 0 : sql_error(w->db, w->file, err);
    sqlite3_reset(s);
    return rc;
}

static void bind_uint(sqlite3_stmt *s, int at, uint64_t v)
{
    sqlite3_bind_int64(s, at, (int64_t)v);
}

/* --- folders --------------------------------------------------------------------------------- */

static void bind_folder(struct writer *w, const struct sorted *r, const struct folder_rec *f)
{
    const char *key = (const char *)r->key;
    size_t end = r->key_len, start;
    if (end > 0 && key[end - 1] == '\0')
        end--;
    for (start = end; start > 0 && key[start - 1] != '/' && key[start - 1] != '\0';)
        start--;
    bind_uint(w->node, 1, f->id);
    bind_uint(w->node, 2, r->key_len ? w->b->folder[f->parent].id : 0);
    sqlite3_bind_blob64(w->node, 3, key + start, end - start, SQLITE_STATIC);
    bind_uint(w->node, 4, 1);
    bind_uint(w->node, 5, 0);
    sqlite3_bind_int64(w->node, 6, f->mtime_ns);
    sqlite3_bind_null(w->node, 7);
    bind_uint(w->node, 8, 0);
    sqlite3_bind_null(w->node, 9);
    sqlite3_bind_null(w->node, 10);
    sqlite3_bind_null(w->node, 11);
}

static int write_folders(struct writer *w, struct err *err)
{
    struct catalog_builder *b = w->b;
    uint64_t folder_id = w->next_id, unit = w->next_id + b->fresh_folders, number = 0;
    struct sorted r;
    int got = sorter_rewind(b->folders, err);
    while (got == 0 && (got = sorter_next(b->folders, &r, err)) > 0) {
        uint64_t index;
        memcpy(&index, r.data, sizeof index);
        struct folder_rec *f = &b->folder[index];
        if (f->id == 0)
            f->id = folder_id++;
        f->next_unit = unit;
        f->next_number = number;
        unit += f->fresh_units;
        if (counts(b, index))
            number += b->images_only ? f->images : f->files;
        bind_folder(w, &r, f);
        got = insert(w, w->node, err);
    }
    if (got == 0 && unit > IDS_MAX)
        return err_set(err, ERR_LIMIT, "the ids of this catalog's folder are used up");
    w->next_id = unit;
    b->info.next_id = unit;
    return got;
}

/* --- rows ------------------------------------------------------------------------------------ */

static int skip_folder(void *arg, const struct bytes *key, uint64_t folder, uint64_t parent,
                       struct err *err)
{
    (void)arg, (void)key, (void)folder, (void)parent, (void)err;
    return 0;
}

static int skip_leave(void *arg, const struct bytes *key, uint64_t folder, int64_t marker_ns,
                      struct err *err)
{
    (void)arg, (void)key, (void)folder, (void)marker_ns, (void)err;
    return 0;
}

static int sample_id(struct writer *w, struct folder_rec *f, uint64_t size, uint64_t *ret,
                     struct err *err)
{
    *ret = 0;
    if (w->b->old_ids && fread_unlocked(ret, sizeof *ret, 1, w->b->old_ids) != 1)
        return err_sys(err, errno ? errno : EIO, "read a temporary file in %s", w->b->dir);
    if (*ret == 0) {
        *ret = f->next_unit;
        f->next_unit += unit_count(size);
    }
    return 0;
}

/* 32 lower-case hex digits (an MD5, as most stores give) as 16 bytes; false if it is anything else.
 */
static bool pack_etag(const char *etag, size_t len, unsigned char raw[16])
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)etag[i];
        unsigned v = c >= '0' && c <= '9' ? c - 48u : c >= 'a' && c <= 'f' ? c - 87u : 16u;
        if (v == 16 || len != 32)
            return false;
        raw[i / 2] = (unsigned char)(raw[i / 2] << 4 | v);
    }
    return len == 32;
}

/* `raw` stays until the row is written: a copy could fail for want of memory. */
static void bind_etag(sqlite3_stmt *s, const char *etag, size_t len, unsigned char raw[16])
{
    if (len == 0)
        sqlite3_bind_null(s, 7);
    else if (pack_etag(etag, len, raw))
        sqlite3_bind_blob(s, 7, raw, 16, SQLITE_STATIC);
    else
        sqlite3_bind_text(s, 7, etag, (int)len, SQLITE_STATIC);
}

static int sample_number(struct writer *w, struct folder_rec *f, const struct bytes *key,
                         uint64_t folder, uint64_t *ret, struct err *err)
{
    *ret = CATALOG_NO_INDEX;
    if (w->b->list)
        return list_join_number(&w->list, key, ret, err);
    if (is_numbered(w->b, folder, key))
        *ret = f->next_number++;
    return 0;
}

static int write_sample(void *arg, const struct bytes *key, uint64_t folder,
                        const struct tree_row *row, struct err *err)
{
    struct writer *w = arg;
    struct folder_rec *f = &w->b->folder[folder];
    const char *slash = memrchr(key->data, '\0', key->len);
    const char *name = slash ? slash + 1 : key->data;
    uint64_t id, number;
    unsigned char raw[16] = {0};
    if (sample_id(w, f, row->p.size, &id, err) < 0 ||
        sample_number(w, f, key, folder, &number, err) < 0)
        return -1;
    w->ids_sum = ids_add(w->ids_sum, id);
    bind_uint(w->node, 1, id);
    bind_uint(w->node, 2, f->id);
    sqlite3_bind_blob64(w->node, 3, name, key->len - (size_t)(name - key->data), SQLITE_STATIC);
    bind_uint(w->node, 4, 0);
    bind_uint(w->node, 5, row->p.size);
    sqlite3_bind_int64(w->node, 6, row->p.mtime_ns);
    bind_etag(w->node, row->etag, row->p.etag_len, raw);
    bind_uint(w->node, 8, row->p.source);
    if (number == CATALOG_NO_INDEX) {
        sqlite3_bind_null(w->node, 9);
    } else {
        bind_uint(w->node, 9, number);
        w->ids[number] = id;
    }
    if (row->p.has_object) {
        sqlite3_bind_blob64(w->node, 10, row->object.data ? row->object.data : "", row->object.len,
                            SQLITE_STATIC);
        bind_uint(w->node, 11, row->p.pack_offset);
    } else {
        sqlite3_bind_null(w->node, 10);
        sqlite3_bind_null(w->node, 11);
    }
    return insert(w, w->node, err);
}

static int write_rows(struct writer *w, struct err *err)
{
    const struct tree_ops ops = {.enter = skip_folder, .sample = write_sample, .leave = skip_leave};
    if (w->b->old_ids)
        rewind(w->b->old_ids);
    if (list_join_begin(&w->list, w->b, err) < 0)
        return -1;
    return tree_pass(w->b, &ops, w, err);
}

/* --- numbers --------------------------------------------------------------------------------- */

/* Room is made before it is touched: a full disk is then an error here and no signal later. */
static int map_ids(struct writer *w, struct err *err)
{
    w->ids_bytes = w->b->info.numbered * sizeof *w->ids;
    if (w->ids_bytes == 0)
        return 0;
    cleanup_close int fd = unnamed_file(w->b->dir, err);
    if (fd < 0)
        return -1;
    int rc = posix_fallocate(fd, 0, (off_t)w->ids_bytes);
    if (rc)
        return err_sys(err, rc, "make a temporary file in %s", w->b->dir);
    void *p = mmap(NULL, w->ids_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return err_sys(err, errno, "map a temporary file in %s", w->b->dir);
    w->ids = p;
    return 0;
}

static size_t put_ids(unsigned char *out, const uint64_t *ids, size_t n)
{
    bool run = true;
    for (size_t i = 1; i < n; i++)
        run = run && ids[i] == ids[0] + i;
    size_t keep = run ? 1 : n;
    for (size_t i = 0; i < keep; i++)
        for (int k = 0; k < 8; k++)
            out[8 * i + (size_t)k] = (unsigned char)(ids[i] >> (8 * k));
    return 8 * keep;
}

static int write_numbers(struct writer *w, struct err *err)
{
    unsigned char out[8 * NUMBERS_CHUNK];
    sqlite3_stmt *s = NULL;
    int rc = prepare(w, SQL_ADD_NUMBERS, &s, err);
    uint64_t n = w->b->info.numbered;
    for (uint64_t at = 0; rc == 0 && at < n; at += NUMBERS_CHUNK) {
        size_t some = n - at < NUMBERS_CHUNK ? (size_t)(n - at) : NUMBERS_CHUNK;
        size_t len = put_ids(out, w->ids + at, some);
        bind_uint(s, 1, at / NUMBERS_CHUNK);
        sqlite3_bind_blob64(s, 2, out, len, SQLITE_STATIC);
        rc = insert(w, s, err);
    }
    sqlite3_finalize(s);
    return rc;
}

/* --- the rest -------------------------------------------------------------------------------- */

static int write_bad(struct writer *w, struct err *err)
{
    struct sorted r;
    sqlite3_stmt *s = NULL;
    int got = prepare(w, SQL_ADD_BAD, &s, err);
    if (got == 0)
        got = sorter_rewind(w->b->bad, err);
    while (got == 0 && (got = sorter_next(w->b->bad, &r, err)) > 0) {
        sqlite3_bind_blob64(s, 1, r.key_len ? (const void *)r.key : "", r.key_len, SQLITE_STATIC);
        sqlite3_bind_text(s, 2, (const char *)r.data, -1, SQLITE_STATIC);
        got = insert(w, s, err);
    }
    sqlite3_finalize(s);
    return got;
}

static int write_sources(struct writer *w, struct err *err)
{
    sqlite3_stmt *s = NULL;
    int rc = prepare(w, SQL_ADD_SOURCE, &s, err);
    for (uint32_t i = 0; rc == 0 && i < w->b->n_sources; i++) {
        bind_uint(s, 1, i);
        sqlite3_bind_text(s, 2, w->b->uris[i], -1, SQLITE_STATIC);
        sqlite3_bind_text(s, 3, w->b->ats[i], -1, SQLITE_STATIC);
        rc = insert(w, s, err);
    }
    sqlite3_finalize(s);
    return rc;
}

static int write_meta(struct writer *w, struct err *err)
{
    const struct catalog_info *i = &w->b->info;
    const struct {
        const char *key;
        uint64_t value;
    } rows[] = {
        {"samples", i->samples},
        {"bytes", i->bytes},
        {"folders", i->folders},
        {"numbered", i->numbered},
        {"bad_names", i->bad_names},
        {"next_id", i->next_id},
        {"sources", i->n_sources},
        {"scanned_at", (uint64_t)(clock_wall_ns() / (int64_t)NS_PER_S)},
        {"listed", w->b->list != NULL},
        {"lineage", i->lineage},
        {"ids", ids_end(w->ids_sum)},
    };
    sqlite3_stmt *s = NULL;
    int rc = prepare(w, SQL_ADD_META, &s, err);
    for (size_t k = 0; rc == 0 && k < sizeof rows / sizeof *rows; k++) {
        sqlite3_bind_text(s, 1, rows[k].key, -1, SQLITE_STATIC);
        bind_uint(s, 2, rows[k].value);
        rc = insert(w, s, err);
    }
    if (rc == 0) {
        sqlite3_bind_text(s, 1, "digest", -1, SQLITE_STATIC);
        sqlite3_bind_text(s, 2, i->digest, -1, SQLITE_STATIC);
        rc = insert(w, s, err);
    }
    sqlite3_finalize(s);
    return rc;
}

static int begin(struct writer *w, struct err *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(w->file, &w->db, flags, NULL) != SQLITE_OK)
        return sql_error(w->db, w->file, err);
    cleanup_free char *sql =
        xasprintf("PRAGMA page_size=4096; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; "
                  "PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-%d; "
                  "PRAGMA application_id=%u; BEGIN; "
                  "%s; %s; %s; %s; %s; %s;",
                  WRITE_CACHE_KIB, CATALOG_APP_ID, SQL_TABLE_META, SQL_TABLE_SOURCE, SQL_TABLE_NODE,
                  SQL_INDEX_NAME, SQL_TABLE_NUMBERS, SQL_TABLE_BAD);
    if (run_sql(w, sql, err) < 0)
        return -1;
    return prepare(w, SQL_ADD_NODE, &w->node, err);
}

static int commit(struct writer *w, struct err *err)
{
    cleanup_free char *sql = xasprintf("PRAGMA user_version=%u; COMMIT", CATALOG_FORMAT);
    return run_sql(w, sql, err);
}

static int write_all(struct writer *w, struct err *err)
{
    if (begin(w, err) < 0 || map_ids(w, err) < 0 || write_folders(w, err) < 0 ||
        write_rows(w, err) < 0 || write_numbers(w, err) < 0 || write_bad(w, err) < 0 ||
        write_sources(w, err) < 0 || write_meta(w, err) < 0)
        return -1;
    return commit(w, err);
}

int write_version(struct catalog_builder *b, const char *file, uint64_t next_id, struct err *err)
{
    struct writer w = {.b = b, .file = file, .next_id = next_id};
    int rc = write_all(&w, err);
    sqlite3_finalize(w.node);
    if (sqlite3_close(w.db) != SQLITE_OK && rc == 0)
        rc = err_set(err, ERR_BUG, "close %s: statements are open", file);
    if (w.ids)
        munmap(w.ids, w.ids_bytes);
    return rc;
}
