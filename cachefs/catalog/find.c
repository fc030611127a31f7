/* Reading single entries, units and numbers of a version. */
#include "catalog-internal.h"

#include "mem.h"
#include "sql.h"

struct borrowed {
    struct catalog *catalog;
    struct conn *conn;
    sqlite3_stmt *stmt;
};

static void give_back(struct borrowed *b)
{
    if (b->stmt)
        sqlite3_reset(b->stmt);
    if (b->conn)
        conn_give(b->catalog, b->conn);
}
#define cleanup_borrowed CLEANUP(give_back)

static int borrow(struct borrowed *b, struct catalog *c, enum stmt which, struct err *err)
{
    b->catalog = c;
    if (conn_take(c, &b->conn, err) < 0)
        return -1;
    return conn_stmt(b->conn, which, &b->stmt, err);
}

static int not_found(struct err *err, uint64_t id)
{
    return err_set(err, ERR_NOT_FOUND, "this version has no entry %llu", (unsigned long long)id);
}

/* --- rows ------------------------------------------------------------------------------------ */

static int bad_row(const struct catalog *c, const char *what, uint64_t id, struct err *err)
{
    return err_set(err, ERR_CORRUPT,
                   "catalog %s is damaged: entry %llu has %s (scan the set again)", c->file,
                   (unsigned long long)id, what);
}

static bool is_name(const char *name, size_t len)
{
    bool dots = name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'));
    return !dots && !memchr(name, '\0', len) && !memchr(name, '/', len);
}

static int row_name(const struct catalog *c, sqlite3_stmt *s, struct entry *e, struct err *err)
{
    int len = sqlite3_column_bytes(s, 2);
    const void *name = sqlite3_column_blob(s, 2);
    bool root = e->id == CATALOG_ROOT_ID;
    if (len < 0 || (size_t)len >= sizeof e->name || root != (len == 0) ||
        (len && !is_name(name, (size_t)len)))
        return bad_row(c, "a name that no builder writes", e->id, err);
    if (len)
        memcpy(e->name, name, (size_t)len);
    e->name[len] = '\0';
    return 0;
}

/* 32 lower-case hex digits are kept as 16 bytes, anything else as text. */
static int row_etag(const struct catalog *c, sqlite3_stmt *s, struct entry *e, struct err *err)
{
    static const char digits[] = "0123456789abcdef";
    int type = sqlite3_column_type(s, 6);
    const unsigned char *etag = sqlite3_column_blob(s, 6);
    int len = sqlite3_column_bytes(s, 6);
    e->etag[0] = '\0';
    if (type == SQLITE_NULL)
        return 0;
    if (type == SQLITE_BLOB && len == 16) {
        for (int i = 0; i < 16; i++) {
            e->etag[2 * i] = digits[etag[i] >> 4];
            e->etag[2 * i + 1] = digits[etag[i] & 15];
        }
        e->etag[32] = '\0';
        return 0;
    }
    if (type != SQLITE_TEXT || len <= 0 || (size_t)len >= sizeof e->etag)
        return bad_row(c, "an etag that no builder writes", e->id, err);
    memcpy(e->etag, etag, (size_t)len);
    e->etag[len] = '\0';
    return 0;
}

int row_entry(const struct catalog *c, sqlite3_stmt *s, struct entry *ret, struct err *err)
{
    int64_t id = sqlite3_column_int64(s, 0), parent = sqlite3_column_int64(s, 1);
    int64_t kind = sqlite3_column_int64(s, 3), size = sqlite3_column_int64(s, 4);
    int64_t source = sqlite3_column_int64(s, 7);
    ret->id = (uint64_t)id;
    if (id < 1 || ret->id >= c->info.next_id || parent < 0 || (parent == 0) != (id == 1))
        return bad_row(c, "a parent that no builder gives", ret->id, err);
    if (kind < 0 || kind > 1 || size < 0 || (uint64_t)size > SIZE_MAX_BYTES || source < 0 ||
        (source >= c->info.n_sources && kind == 0))
        return bad_row(c, "a kind, size or source that no builder writes", ret->id, err);
    ret->parent = (uint64_t)parent;
    ret->folder = kind == 1;
    ret->size = (uint64_t)size;
    ret->mtime_ns = sqlite3_column_int64(s, 5);
    ret->source = (uint32_t)source;
    ret->number = CATALOG_NO_INDEX;
    if (sqlite3_column_type(s, 8) != SQLITE_NULL) {
        ret->number = (uint64_t)sqlite3_column_int64(s, 8);
        if (ret->number >= c->info.numbered)
            return bad_row(c, "a number that was never given", ret->id, err);
    }
    if (row_name(c, s, ret, err) < 0)
        return -1;
    return row_etag(c, s, ret, err);
}

/* --- entries --------------------------------------------------------------------------------- */

int catalog_get(struct catalog *c, uint64_t id, struct entry *ret, struct err *err)
{
    cleanup_borrowed struct borrowed b = {0};
    if (id == 0 || id >= c->info.next_id)
        return not_found(err, id);
    if (borrow(&b, c, STMT_GET, err) < 0)
        return -1;
    sqlite3_bind_int64(b.stmt, 1, (int64_t)id);
    int got = step(c, b.stmt, err);
    if (got < 0)
        return -1;
    return got ? row_entry(c, b.stmt, ret, err) : not_found(err, id);
}

static int lookup_with(struct catalog *c, sqlite3_stmt *s, uint64_t parent, const char *name,
                       size_t len, struct entry *ret, struct err *err)
{
    sqlite3_reset(s);
    sqlite3_bind_int64(s, 1, (int64_t)parent);
    sqlite3_bind_blob64(s, 2, name, len, SQLITE_STATIC);
    int got = step(c, s, err);
    if (got < 0)
        return -1;
    if (!got)
        return err_set(err, ERR_NOT_FOUND, "no such name");
    return row_entry(c, s, ret, err);
}

int catalog_lookup(struct catalog *c, uint64_t parent, const char *name, size_t name_len,
                   struct entry *ret, struct err *err)
{
    cleanup_borrowed struct borrowed b = {0};
    if (name_len == 0 || name_len > 255 || parent >= c->info.next_id)
        return err_set(err, ERR_NOT_FOUND, "no such name");
    if (borrow(&b, c, STMT_LOOKUP, err) < 0)
        return -1;
    return lookup_with(c, b.stmt, parent, name, name_len, ret, err);
}

int catalog_find(struct catalog *c, const char *path, struct entry *ret, struct err *err)
{
    if (catalog_get(c, CATALOG_ROOT_ID, ret, err) < 0)
        return -1;
    cleanup_borrowed struct borrowed b = {0};
    if (borrow(&b, c, STMT_LOOKUP, err) < 0)
        return -1;
    for (const char *p = path + strspn(path, "/"); *p;) {
        size_t len = strcspn(p, "/");
        if (len > 255 || !ret->folder)
            return err_set(err, ERR_NOT_FOUND, "%s: no such sample or folder", path);
        if (lookup_with(c, b.stmt, ret->id, p, len, ret, err) < 0)
            return err_wrap(err, "%s", path);
        p += len;
        p += strspn(p, "/");
    }
    return 0;
}

/* Puts the path of `e` (not its own name) before what `path` holds from `at` on. */
static int climb(struct catalog *c, sqlite3_stmt *s, struct entry e, struct bytes *path, size_t at,
                 struct err *err)
{
    while (e.parent != CATALOG_ROOT_ID && e.parent != 0) {
        sqlite3_reset(s);
        sqlite3_bind_int64(s, 1, (int64_t)e.parent);
        int got = step(c, s, err);
        if (got < 0 || (got && row_entry(c, s, &e, err) < 0))
            return -1;
        size_t len = strlen(e.name);
        if (!got || !e.folder || path->len - at + len + 1 > PATH_BYTES_MAX)
            return bad_row(c, "no way up to the root", e.id, err);
        bytes_reserve(path, len + 1);
        memmove(path->data + at + len + 1, path->data + at, path->len - at + 1);
        memcpy(path->data + at, e.name, len);
        path->data[at + len] = '/';
        path->len += len + 1;
    }
    return 0;
}

int catalog_path(struct catalog *c, uint64_t id, struct bytes *ret, struct err *err)
{
    struct entry e;
    size_t at = ret->len;
    if (catalog_get(c, id, &e, err) < 0)
        return -1;
    cleanup_borrowed struct borrowed b = {0};
    if (borrow(&b, c, STMT_GET, err) < 0)
        return -1;
    bytes_add_str(ret, e.name);
    return climb(c, b.stmt, e, ret, at, err);
}

/* --- units ----------------------------------------------------------------------------------- */

/* The object's key: its own column, or the path below its source's place in the tree. */
static int unit_key(struct catalog *c, struct borrowed *b, const struct entry *e, struct bytes *key,
                    struct err *err)
{
    if (sqlite3_column_type(b->stmt, 9) != SQLITE_NULL) {
        const void *object = sqlite3_column_blob(b->stmt, 9);
        bytes_add(key, object, (size_t)sqlite3_column_bytes(b->stmt, 9));
        return 0;
    }
    sqlite3_stmt *get;
    if (conn_stmt(b->conn, STMT_GET, &get, err) < 0)
        return -1;
    bytes_add_str(key, e->name);
    if (climb(c, get, *e, key, 0, err) < 0)
        return -1;
    const char *at = c->source_ats[e->source];
    size_t skip = strlen(at);
    if (skip > key->len || memcmp(key->data, at, skip) != 0)
        return bad_row(c, "a path outside its source's folder", e->id, err);
    memmove(key->data, key->data + skip, key->len - skip + 1);
    key->len -= skip;
    return 0;
}

static void unit_fill(struct unit_info *ret, const struct entry *e, uint64_t block, int64_t pack)
{
    ret->sample = e->id;
    ret->block = (uint32_t)block;
    ret->len = unit_length(e->size, block);
    ret->offset = block * UNIT_BYTES;
    ret->size = e->size;
    ret->source = e->source;
    ret->mtime_ns = e->mtime_ns;
    memcpy(ret->etag, e->etag, sizeof ret->etag);
    ret->pack_offset = (uint64_t)pack;
}

int catalog_unit(struct catalog *c, uint64_t unit, struct unit_info *ret, struct err *err)
{
    cleanup_borrowed struct borrowed b = {0};
    cleanup_bytes struct bytes key = {0};
    struct entry e = {0};
    if (unit == 0 || unit >= c->info.next_id)
        return err_set(err, ERR_NOT_FOUND, "this version has no unit %llu",
                       (unsigned long long)unit);
    if (borrow(&b, c, STMT_UNIT, err) < 0)
        return -1;
    sqlite3_bind_int64(b.stmt, 1, (int64_t)unit);
    int got = step(c, b.stmt, err);
    if (got < 0 || (got && row_entry(c, b.stmt, &e, err) < 0))
        return -1;
    if (!got || e.folder || unit - e.id >= unit_count(e.size))
        return err_set(err, ERR_NOT_FOUND, "this version has no unit %llu",
                       (unsigned long long)unit);
    if (unit - e.id > UINT32_MAX || sqlite3_column_int64(b.stmt, 10) < 0)
        return bad_row(c, "a place in its object that no builder gives", e.id, err);
    if (unit_key(c, &b, &e, &key, err) < 0)
        return -1;
    unit_fill(ret, &e, unit - e.id, sqlite3_column_int64(b.stmt, 10));
    ret->packed = sqlite3_column_type(b.stmt, 9) != SQLITE_NULL;
    ret->key = key;
    key = (struct bytes){0};
    return 0;
}

void unit_info_release(struct unit_info *u)
{
    bytes_release(&u->key);
}

/* --- numbers --------------------------------------------------------------------------------- */

static uint64_t le64(const unsigned char *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

/* Numbers [from, to) of one chunk. A row of 8 bytes is a run of consecutive ids. */
static int chunk_ids(struct catalog *c, sqlite3_stmt *s, uint64_t chunk, unsigned from, unsigned to,
                     uint64_t *out, struct err *err)
{
    sqlite3_reset(s);
    sqlite3_bind_int64(s, 1, (int64_t)chunk);
    int got = step(c, s, err);
    if (got < 0)
        return -1;
    const unsigned char *ids = got ? sqlite3_column_blob(s, 0) : NULL;
    int len = got ? sqlite3_column_bytes(s, 0) : 0;
    uint64_t left = c->info.numbered - chunk * NUMBERS_CHUNK;
    unsigned n = left < NUMBERS_CHUNK ? (unsigned)left : NUMBERS_CHUNK;
    bool run = len == 8 && n > 1;
    if (!ids || (!run && (unsigned)len != 8 * n))
        return err_set(
            err, ERR_CORRUPT,
            "catalog %s is damaged: numbers from %llu on are missing (scan the set again)", c->file,
            (unsigned long long)chunk * NUMBERS_CHUNK);
    for (unsigned i = from; i < to; i++) {
        uint64_t id = run ? le64(ids) + i : le64(ids + 8ul * i);
        if (id <= CATALOG_ROOT_ID || id >= c->info.next_id)
            return bad_row(c, "a number but was never there", id, err);
        *out++ = id;
    }
    return 0;
}

int catalog_numbers(struct catalog *c, uint64_t first, uint64_t n, uint64_t *out, struct err *err)
{
    cleanup_borrowed struct borrowed b = {0};
    if (first > c->info.numbered || n > c->info.numbered - first)
        return err_set(err, ERR_USAGE, "number %llu is outside the %llu of this version",
                       (unsigned long long)(first > c->info.numbered ? first : first + n - 1),
                       (unsigned long long)c->info.numbered);
    if (n == 0)
        return 0;
    if (borrow(&b, c, STMT_NUMBERS, err) < 0)
        return -1;
    while (n > 0) {
        unsigned from = (unsigned)(first % NUMBERS_CHUNK);
        unsigned some = n < NUMBERS_CHUNK - from ? (unsigned)n : NUMBERS_CHUNK - from;
        if (chunk_ids(c, b.stmt, first / NUMBERS_CHUNK, from, from + some, out, err) < 0)
            return -1;
        first += some;
        out += some;
        n -= some;
    }
    return 0;
}
