/* Two walks in tree order side by side: what changed; and one walk against the digest. */
#include "catalog-internal.h"
#include "digest-internal.h"

#include "mem.h"
#include "sql.h"

/* --- diff ------------------------------------------------------------------------------------ */

struct diff {
    catalog_diff_fn *fn;
    void *arg;
    struct bytes path;
    bool stop;
};

static void tell(struct diff *d, char kind, const struct tree_walk *w, uint64_t old_id,
                 uint64_t new_id)
{
    if (d->stop)
        return;
    bytes_clear(&d->path);
    bytes_add(&d->path, w->key.data, w->key.len);
    key_to_path(d->path.data, d->path.len);
    d->stop = !d->fn(d->arg, kind, d->path.data, d->path.len, w->entry.folder, old_id, new_id);
}

static bool same_sample(const struct entry *a, const struct entry *b)
{
    return a->id == b->id && a->size == b->size && a->mtime_ns == b->mtime_ns &&
           strcmp(a->etag, b->etag) == 0;
}

static void compare_pair(struct diff *d, const struct tree_walk *a, const struct tree_walk *b)
{
    if (a->entry.folder != b->entry.folder) {
        tell(d, '-', a, a->entry.id, 0);
        tell(d, '+', b, 0, b->entry.id);
    } else if (a->entry.folder
                   ? a->entry.mtime_ns != b->entry.mtime_ns || a->entry.id != b->entry.id
                   : !same_sample(&a->entry, &b->entry)) {
        tell(d, '~', b, a->entry.id, b->entry.id);
    }
}

static int diff_walks(struct diff *d, struct tree_walk *a, struct tree_walk *b, struct err *err)
{
    int in_a = tree_walk_next(a, err), in_b = in_a < 0 ? 0 : tree_walk_next(b, err);
    while (in_a >= 0 && in_b >= 0 && (in_a || in_b) && !d->stop) {
        int c = !in_a ? 1 : !in_b ? -1 : key_compare(&a->key, &b->key);
        if (c < 0)
            tell(d, '-', a, a->entry.id, 0);
        else if (c > 0)
            tell(d, '+', b, 0, b->entry.id);
        else
            compare_pair(d, a, b);
        if (c <= 0)
            in_a = tree_walk_next(a, err);
        if (c >= 0 && in_a >= 0)
            in_b = tree_walk_next(b, err);
    }
    return in_a < 0 || in_b < 0 ? -1 : 0;
}

int catalog_diff(struct catalog *a, struct catalog *b, catalog_diff_fn *fn, void *arg,
                 struct err *err)
{
    struct diff d = {.fn = fn, .arg = arg};
    struct tree_walk wa = {0}, wb = {0};
    int rc = -1;
    if (tree_walk_begin(&wa, a, CATALOG_ROOT_ID, err) < 0)
        return -1;
    if (tree_walk_begin(&wb, b, CATALOG_ROOT_ID, err) == 0) {
        rc = diff_walks(&d, &wa, &wb, err);
        tree_walk_end(&wb);
    }
    tree_walk_end(&wa);
    bytes_release(&d.path);
    return rc;
}

/* --- verify ---------------------------------------------------------------------------------- */

/* The folders on the way to the entry at hand: each is hashed after all that is below it. */
struct open_folder {
    size_t key_len;
    int64_t mtime_ns;
};

struct verify {
    struct digest *digest;
    struct open_folder *open;
    size_t n_open, cap;
    struct bytes key; /* of the innermost open folder */
    uint64_t samples, bytes, folders, bad;
    uint64_t ids;
    uint64_t numbered;
    uint64_t chunk[NUMBERS_CHUNK]; /* ids of the numbers from `chunk_first` on */
    uint64_t chunk_first, chunk_n;
};

static void open_folder(struct verify *v, const struct bytes *key, int64_t mtime_ns)
{
    if (v->n_open == v->cap) {
        v->cap = v->cap ? 2 * v->cap : 16;
        v->open = xrealloc(v->open, v->cap * sizeof *v->open);
    }
    bytes_clear(&v->key);
    bytes_add(&v->key, key->data, key->len);
    v->open[v->n_open++] = (struct open_folder){key->len, mtime_ns};
}

/* Hashes the open folders that `key` is not below; NULL: all. */
static void close_folders(struct verify *v, const struct bytes *key)
{
    while (v->n_open > 0) {
        const struct open_folder *f = &v->open[v->n_open - 1];
        if (key && (f->key_len == 0 || (key->len > f->key_len && key->data[f->key_len] == '\0' &&
                                        memcmp(key->data, v->key.data, f->key_len) == 0)))
            return;
        digest_folder(v->digest, v->key.data, f->key_len, f->mtime_ns);
        v->n_open--;
        if (v->n_open > 0)
            v->key.len = v->open[v->n_open - 1].key_len;
    }
}

static int verify_bad(void *arg, const char *key, size_t len, const char *why, struct err *err)
{
    struct verify *v = arg;
    (void)err;
    digest_bad(v->digest, key, len, why);
    v->bad++;
    return 0;
}

/* What says which sample has a number must name the one that says it has it. */
static int verify_number(struct verify *v, struct catalog *c, const struct entry *e,
                         struct err *err)
{
    if (e->number == CATALOG_NO_INDEX)
        return 0;
    v->numbered++;
    if (e->number - v->chunk_first >= v->chunk_n) {
        v->chunk_first = e->number - e->number % NUMBERS_CHUNK;
        v->chunk_n = c->info.numbered - v->chunk_first;
        if (v->chunk_n > NUMBERS_CHUNK)
            v->chunk_n = NUMBERS_CHUNK;
        if (catalog_numbers(c, v->chunk_first, v->chunk_n, v->chunk, err) < 0)
            return -1;
    }
    return v->chunk[e->number - v->chunk_first] == e->id
               ? 0
               : damaged(c, "a number is another sample's", err);
}

static int verify_rows(struct verify *v, struct tree_walk *w, struct err *err)
{
    const struct entry *e = &w->entry;
    bool listed = w->catalog->listed;
    int got;
    while ((got = tree_walk_next(w, err)) > 0) {
        close_folders(v, &w->key);
        if (e->folder) {
            open_folder(v, &w->key, e->mtime_ns);
            v->folders++;
            continue;
        }
        if (verify_number(v, w->catalog, e, err) < 0)
            return -1;
        digest_sample(v->digest, w->key.data, w->key.len, e->size, e->mtime_ns, e->etag, e->source,
                      w->has_object ? w->object.data ? w->object.data : "" : NULL, w->object.len,
                      w->pack_offset, listed ? e->number : CATALOG_NO_INDEX);
        v->ids = ids_add(v->ids, e->id);
        v->samples++;
        v->bytes += e->size;
    }
    close_folders(v, NULL);
    return got;
}

static int verify_all(struct verify *v, struct catalog *c, struct err *err)
{
    struct entry root;
    struct tree_walk w;
    const struct bytes none = {0};
    if (catalog_get(c, CATALOG_ROOT_ID, &root, err) < 0)
        return -1;
    for (uint32_t i = 0; i < c->info.n_sources; i++)
        digest_source(v->digest, c->source_uris[i], c->source_ats[i]);
    open_folder(v, &none, root.mtime_ns);
    if (tree_walk_begin(&w, c, CATALOG_ROOT_ID, err) < 0)
        return -1;
    int rc = verify_rows(v, &w, err);
    tree_walk_end(&w);
    return rc < 0 ? -1 : catalog_bad_names(c, verify_bad, v, err);
}

int catalog_verify(struct catalog *c, struct err *err)
{
    struct verify v = {.digest = digest_begin(c->info.n_sources)};
    char digest[CATALOG_DIGEST + 1];
    int rc = verify_all(&v, c, err);
    digest_end(v.digest, digest);
    free(v.open);
    bytes_release(&v.key);
    if (rc < 0)
        return -1;
    if (strcmp(digest, c->info.digest) != 0 || v.samples != c->info.samples ||
        v.bytes != c->info.bytes || v.folders != c->info.folders || v.bad != c->info.bad_names ||
        v.numbered != c->info.numbered || (c->info.ids && ids_end(v.ids) != c->info.ids))
        return err_set(err, ERR_CORRUPT,
                       "catalog %s is damaged: its rows are not those of version %.12s (copy it or "
                       "scan the set again)",
                       c->file, c->info.digest);
    return 0;
}
