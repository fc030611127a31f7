/* Reading many entries: directory pages, walks, bad names. */
#include "catalog-internal.h"

#include "mem.h"

void key_to_path(char *key, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!key[i])
            key[i] = '/';
}

void path_to_key(char *path, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (path[i] == '/')
            path[i] = '\0';
}

int key_compare(const struct bytes *a, const struct bytes *b)
{
    size_t len = a->len < b->len ? a->len : b->len;
    int c = len ? memcmp(a->data, b->data, len) : 0;
    return c ? c : (a->len > b->len) - (a->len < b->len);
}

/* --- a directory page ------------------------------------------------------------------------ */

/* The cookie of a child is its id: it names the child's place in name order, whatever its value. */
static int cookie_name(struct catalog *c, uint64_t parent, uint64_t cookie, struct entry *ret,
                       struct err *err)
{
    struct err why = {0};
    ret->name[0] = '\0';
    if (cookie == 0 || (catalog_get(c, cookie, ret, &why) == 0 && ret->parent == parent))
        return 0;
    if (!why.class || why.class == ERR_NOT_FOUND)
        return err_set(err, ERR_STALE, "a directory position of another version");
    if (err)
        *err = why;
    return -1;
}

/* A row of STMT_CHILDREN. */
static int child_entry(struct catalog *c, sqlite3_stmt *s, struct entry *ret, struct err *err)
{
    if (!sqlite3_column_int(s, 11)) {
        damaged(c, "a row has another name than the index of names", err);
        return -1;
    }
    return row_entry(c, s, ret, err);
}

static int page_rows(struct catalog *c, struct conn *k, uint64_t parent, const char *name,
                     catalog_page_fn *fn, void *arg, struct err *err)
{
    sqlite3_stmt *s;
    struct entry e;
    int got;
    if (conn_stmt(k, STMT_CHILDREN, &s, err) < 0)
        return -1;
    sqlite3_bind_int64(s, 1, (int64_t)parent);
    sqlite3_bind_blob64(s, 2, name, strlen(name), SQLITE_STATIC);
    while ((got = step(c, s, err)) > 0) {
        if (child_entry(c, s, &e, err) < 0)
            return -1;
        /* Whoever goes on after such a name would come back. */
        if (strcmp(e.name, name) <= 0)
            return damaged(c, "names of a folder are out of order", err);
        if (!fn(arg, &e, e.id))
            return 0;
    }
    return got;
}

int catalog_page(struct catalog *c, uint64_t parent, uint64_t after, catalog_page_fn *fn, void *arg,
                 struct err *err)
{
    struct entry e;
    struct conn *k;
    if (cookie_name(c, parent, after, &e, err) < 0 || conn_take(c, &k, err) < 0)
        return -1;
    int rc = page_rows(c, k, parent, e.name, fn, arg, err);
    conn_give(c, k);
    return rc;
}

/* --- tree order ------------------------------------------------------------------------------ */

static void enter(struct tree_walk *w, uint64_t folder)
{
    if (w->depth == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 16;
        w->levels = xrealloc(w->levels, w->cap * sizeof *w->levels);
    }
    w->levels[w->depth++] = (struct tree_level){folder, w->key.len};
    sqlite3_reset(w->stmt);
    sqlite3_bind_int64(w->stmt, 1, (int64_t)folder);
    sqlite3_bind_blob64(w->stmt, 2, "", 0, SQLITE_STATIC);
}

/* Back in the parent of the folder that has just ended: on after that folder's own name. Without
 * that name the parent would seem to have ended, too. */
static int leave(struct tree_walk *w, struct err *err)
{
    size_t end = w->levels[--w->depth].key_len;
    if (w->depth == 0)
        return 0;
    size_t start = w->levels[w->depth - 1].key_len;
    start += start > 0;
    sqlite3_reset(w->stmt);
    sqlite3_bind_int64(w->stmt, 1, (int64_t)w->levels[w->depth - 1].folder);
    if (sqlite3_bind_blob64(w->stmt, 2, w->key.data + start, end - start, SQLITE_TRANSIENT))
        return sql_error(sqlite3_db_handle(w->stmt), w->catalog->file, err);
    return 0;
}

int tree_walk_begin(struct tree_walk *w, struct catalog *c, uint64_t folder, struct err *err)
{
    *w = (struct tree_walk){.catalog = c, .left = c->info.samples + c->info.folders};
    if (conn_take(c, &w->conn, err) < 0)
        return -1;
    if (conn_stmt(w->conn, STMT_CHILDREN, &w->stmt, err) < 0) {
        tree_walk_end(w);
        return -1;
    }
    enter(w, folder);
    return 0;
}

static void take_object(struct tree_walk *w)
{
    bytes_clear(&w->object);
    w->has_object = sqlite3_column_type(w->stmt, 9) != SQLITE_NULL;
    if (w->has_object) {
        const void *object = sqlite3_column_blob(w->stmt, 9);
        bytes_add(&w->object, object, (size_t)sqlite3_column_bytes(w->stmt, 9));
    }
    w->pack_offset = (uint64_t)sqlite3_column_int64(w->stmt, 10);
}

static int take_row(struct tree_walk *w, struct err *err)
{
    if (child_entry(w->catalog, w->stmt, &w->entry, err) < 0)
        return -1;
    w->key.len = w->levels[w->depth - 1].key_len;
    if (w->key.len > PATH_BYTES_MAX || w->left == 0)
        return damaged(w->catalog, "a folder has no end", err);
    w->left--;
    if (w->key.len > 0)
        bytes_add_char(&w->key, '\0');
    bytes_add_str(&w->key, w->entry.name);
    take_object(w);
    w->descend = w->entry.folder;
    return 0;
}

int tree_walk_next(struct tree_walk *w, struct err *err)
{
    if (w->descend) {
        w->descend = false;
        enter(w, w->entry.id);
    }
    while (w->depth > 0) {
        int got = step(w->catalog, w->stmt, err);
        if (got < 0)
            return -1;
        if (got)
            return take_row(w, err) < 0 ? -1 : 1;
        if (leave(w, err))
            return -1;
    }
    return 0;
}

void tree_walk_end(struct tree_walk *w)
{
    if (w->conn)
        conn_give(w->catalog, w->conn);
    free(w->levels);
    bytes_release(&w->key);
    bytes_release(&w->object);
    *w = (struct tree_walk){0};
}

int catalog_walk_below(struct catalog *c, uint64_t folder, catalog_walk_fn *fn, void *arg,
                       struct err *err)
{
    struct tree_walk w;
    int got;
    if (tree_walk_begin(&w, c, folder, err) < 0)
        return -1;
    while ((got = tree_walk_next(&w, err)) > 0)
        if (!w.entry.folder && !fn(arg, &w.entry)) {
            got = 0;
            break;
        }
    tree_walk_end(&w);
    return got;
}

/* The walk's row as a builder takes it; `path` and `object` keep its strings. */
static void row_of(const struct tree_walk *w, struct bytes *path, struct row *ret)
{
    bytes_clear(path);
    bytes_add(path, w->key.data, w->key.len);
    for (size_t i = 0; i < path->len; i++)
        if (path->data[i] == '\0')
            path->data[i] = '/';
    *ret = (struct row){.key = path->data,
                        .key_len = path->len,
                        .size = w->entry.size,
                        .mtime_ns = w->entry.mtime_ns,
                        .etag = w->entry.etag,
                        .source = w->entry.source,
                        .object = !w->has_object   ? NULL
                                  : w->object.data ? w->object.data
                                                   : "",
                        .pack_offset = w->pack_offset};
}

int catalog_rows(struct catalog *c, catalog_row_fn *fn, void *arg, struct err *err)
{
    struct tree_walk w;
    cleanup_bytes struct bytes path = {0};
    struct row row;
    int got;
    if (tree_walk_begin(&w, c, CATALOG_ROOT_ID, err) < 0)
        return -1;
    while ((got = tree_walk_next(&w, err)) > 0) {
        if (w.entry.folder)
            continue;
        row_of(&w, &path, &row);
        if (fn(arg, &row, err)) {
            got = -1;
            break;
        }
    }
    tree_walk_end(&w);
    return got;
}

/* --- all in id order, and bad names ---------------------------------------------------------- */

static int walk_rows(struct catalog *c, struct conn *k, uint64_t after, catalog_walk_fn *fn,
                     void *arg, struct err *err)
{
    sqlite3_stmt *s;
    struct entry e;
    int got;
    if (conn_stmt(k, STMT_WALK, &s, err) < 0)
        return -1;
    sqlite3_bind_int64(s, 1, (int64_t)after);
    while ((got = step(c, s, err)) > 0) {
        if (row_entry(c, s, &e, err) < 0)
            return -1;
        if (!fn(arg, &e))
            return 0;
    }
    return got;
}

int catalog_walk(struct catalog *c, uint64_t after_id, catalog_walk_fn *fn, void *arg,
                 struct err *err)
{
    struct conn *k;
    if (after_id >= c->info.next_id)
        return 0;
    if (conn_take(c, &k, err) < 0)
        return -1;
    int rc = walk_rows(c, k, after_id, fn, arg, err);
    conn_give(c, k);
    return rc;
}

static int bad_rows(struct catalog *c, struct conn *k, catalog_bad_fn *fn, void *arg,
                    struct err *err)
{
    sqlite3_stmt *s;
    int got;
    if (conn_stmt(k, STMT_BAD, &s, err) < 0)
        return -1;
    while ((got = step(c, s, err)) > 0) {
        const void *key = sqlite3_column_blob(s, 0);
        size_t len = (size_t)sqlite3_column_bytes(s, 0);
        const char *why = (const char *)sqlite3_column_text(s, 1);
        int told = fn(arg, key ? key : "", len, why ? why : "", err);
        if (told)
            return told < 0 ? -1 : 0;
    }
    return got;
}

int catalog_bad_names(struct catalog *c, catalog_bad_fn *fn, void *arg, struct err *err)
{
    struct conn *k;
    if (conn_take(c, &k, err) < 0)
        return -1;
    int rc = bad_rows(c, k, fn, arg, err);
    conn_give(c, k);
    return rc;
}
