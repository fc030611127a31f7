/*
 * Sorted rows as a tree. Rows of one path come as a group: the first source wins, the others are
 * reported. Where a path is a file and a folder, the folder stays (it may hold many), the file is
 * reported. Folders exist because something is below them, or because they have an object of their
 * own.
 */
#include "build-internal.h"

#include "mem.h"

#define LOOK_EVERY 4096 /* paths between two looks at the stop flag */

struct open_folder {
    size_t key_len;
    uint64_t index;
    int64_t marker_ns;
};

struct tree {
    struct sorter *rows;
    const struct tree_ops *ops;
    void *arg;
    struct sorted ahead; /* the next record, if `more` */
    int more;

    struct bytes key;      /* of the group at hand */
    struct tree_row row;   /* the file of the group, if has_file */
    struct tree_row other; /* one more file of it */
    bool has_file, has_folder;
    int64_t marker_ns;

    struct bytes path; /* key of the innermost open folder */
    struct open_folder *open;
    size_t n_open, cap;
    uint64_t n_folders;
};

static void unpack(const struct sorted *r, struct tree_row *row)
{
    const unsigned char *etag = r->data + sizeof row->p;
    memcpy(&row->p, r->data, sizeof row->p);
    memcpy(row->etag, etag, row->p.etag_len);
    row->etag[row->p.etag_len] = '\0';
    bytes_clear(&row->object);
    bytes_add(&row->object, etag + row->p.etag_len, row->p.object_len);
}

/* A fixed choice among rows of one path, so that the order of listing never matters. */
static bool better(const struct tree_row *a, const struct tree_row *b)
{
    if (a->p.source != b->p.source)
        return a->p.source < b->p.source;
    if (a->p.mtime_ns != b->p.mtime_ns)
        return a->p.mtime_ns > b->p.mtime_ns;
    if (a->p.size != b->p.size)
        return a->p.size > b->p.size;
    return strcmp(a->etag, b->etag) < 0;
}

static int report(struct tree *t, const char *why, struct err *err)
{
    return t->ops->bad ? t->ops->bad(t->arg, &t->key, why, err) : 0;
}

static int take_file(struct tree *t, struct err *err)
{
    if (!t->has_file) {
        unpack(&t->ahead, &t->row);
        t->has_file = true;
        return 0;
    }
    unpack(&t->ahead, &t->other);
    bool same_source = t->other.p.source == t->row.p.source;
    if (better(&t->other, &t->row)) {
        struct tree_row swap = t->row;
        t->row = t->other;
        t->other = swap;
    }
    return report(
        t, same_source ? "the source lists this name twice" : "an earlier source has the same path",
        err);
}

/* Reads all records of one path. 1: there was one, 0: the end. */
static int next_group(struct tree *t, struct err *err)
{
    if (t->more <= 0)
        return t->more;
    bytes_clear(&t->key);
    bytes_add(&t->key, t->ahead.key, t->ahead.key_len);
    t->has_file = t->has_folder = false;
    t->marker_ns = 0;
    do {
        struct packed_row p;
        memcpy(&p, t->ahead.data, sizeof p);
        if (p.folder) {
            t->has_folder = true;
            t->marker_ns = p.mtime_ns > t->marker_ns ? p.mtime_ns : t->marker_ns;
        } else if (take_file(t, err) < 0) {
            return -1;
        }
        t->more = sorter_next(t->rows, &t->ahead, err);
    } while (t->more > 0 && t->ahead.key_len == t->key.len &&
             memcmp(t->ahead.key, t->key.data, t->key.len) == 0);
    return t->more < 0 ? -1 : 1;
}

static bool next_is_below(const struct tree *t)
{
    return t->more > 0 && t->ahead.key_len > t->key.len && t->ahead.key[t->key.len] == '\0' &&
           memcmp(t->ahead.key, t->key.data, t->key.len) == 0;
}

static int enter_folder(struct tree *t, size_t key_len, struct err *err)
{
    uint64_t parent = t->n_open ? t->open[t->n_open - 1].index : 0;
    if (t->n_open == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 16;
        t->open = xrealloc(t->open, t->cap * sizeof *t->open);
    }
    bytes_clear(&t->path);
    bytes_add(&t->path, t->key.data, key_len);
    t->open[t->n_open++] = (struct open_folder){.key_len = key_len, .index = t->n_folders};
    return t->ops->enter(t->arg, &t->path, t->n_folders++, parent, err);
}

static int leave_folder(struct tree *t, struct err *err)
{
    const struct open_folder *f = &t->open[t->n_open - 1];
    t->path.len = f->key_len;
    if (t->ops->leave(t->arg, &t->path, f->index, f->marker_ns, err) < 0)
        return -1;
    t->n_open--;
    return 0;
}

/* Leaves what the key is not below, enters what is on its way; `dir_len`: of the folder it is in.
 */
static int go_to(struct tree *t, size_t dir_len, struct err *err)
{
    for (;;) {
        size_t len = t->open[t->n_open - 1].key_len;
        if (len == 0 || (dir_len >= len && memcmp(t->key.data, t->path.data, len) == 0 &&
                         (dir_len == len || t->key.data[len] == '\0')))
            break;
        if (leave_folder(t, err) < 0)
            return -1;
    }
    for (size_t at = t->open[t->n_open - 1].key_len; at < dir_len;) {
        size_t from = at ? at + 1 : 0;
        const char *end = memchr(t->key.data + from, '\0', dir_len - from);
        at = end ? (size_t)(end - t->key.data) : dir_len;
        if (enter_folder(t, at, err) < 0)
            return -1;
    }
    return 0;
}

static int place_group(struct tree *t, struct err *err)
{
    const char *slash = memrchr(t->key.data, '\0', t->key.len);
    size_t dir_len = slash ? (size_t)(slash - t->key.data) : 0;
    if (t->has_file && (t->has_folder || next_is_below(t))) {
        t->has_file = false;
        if (report(t, "a folder has the same name", err) < 0)
            return -1;
    }
    if (t->has_folder) {
        if (go_to(t, t->key.len, err) < 0)
            return -1;
        t->open[t->n_open - 1].marker_ns = t->marker_ns;
    }
    if (!t->has_file)
        return 0;
    if (go_to(t, dir_len, err) < 0)
        return -1;
    return t->ops->sample(t->arg, &t->key, t->open[t->n_open - 1].index, &t->row, err);
}

static int look_up(const struct catalog_builder *b, struct err *err)
{
    if (b->stop && b->stop(b->stop_arg))
        return err_set(err, ERR_CANCELLED, "the catalog in %s was told to stop being built",
                       b->dir);
    return 0;
}

static int run(struct tree *t, const struct catalog_builder *b, struct err *err)
{
    int got;
    if (enter_folder(t, 0, err) < 0)
        return -1;
    for (uint64_t n = 0; (got = next_group(t, err)) > 0; n++)
        if ((n % LOOK_EVERY == 0 && look_up(b, err)) || place_group(t, err) < 0)
            return -1;
    while (got == 0 && t->n_open > 0)
        got = leave_folder(t, err);
    return got;
}

int tree_pass(struct catalog_builder *b, const struct tree_ops *ops, void *arg, struct err *err)
{
    struct tree t = {.rows = b->rows, .ops = ops, .arg = arg};
    int rc = -1;
    if (sorter_rewind(b->rows, err) == 0) {
        t.more = sorter_next(b->rows, &t.ahead, err);
        rc = run(&t, b, err);
    }
    bytes_release(&t.key);
    bytes_release(&t.path);
    bytes_release(&t.row.object);
    bytes_release(&t.other.object);
    free(t.open);
    return rc;
}
