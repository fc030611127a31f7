/*
 * The planning pass: walks the sorted rows beside the previous version. Afterwards it is known
 * which rows keep their ids, what each folder holds, what changed, and the digest; nothing is
 * written.
 */
#include "build-internal.h"

#include <errno.h>

#include "dir.h"
#include "mem.h"

struct plan {
    struct catalog_builder *b;
    struct digest *digest;
    struct list_join list;
    struct tree_walk before; /* of the previous version */
    int more;                /* `before` stands at an entry that was not passed */
    struct bytes order;      /* sorting key of a folder */
};

/* --- the previous version -------------------------------------------------------------------- */

static int step_before(struct plan *p, struct err *err)
{
    p->more = tree_walk_next(&p->before, err);
    return p->more < 0 ? -1 : 0;
}

/* Passes what comes before `key` (NULL: everything); a sample passed over is one removed. */
static int pass_before(struct plan *p, const struct bytes *key, bool *ret_same, struct err *err)
{
    int c = -1;
    while (p->more > 0 && (!key || (c = key_compare(&p->before.key, key)) < 0)) {
        p->b->diff.removed += !p->before.entry.folder;
        if (step_before(p, err) < 0)
            return -1;
    }
    if (ret_same)
        *ret_same = p->more > 0 && c == 0;
    return 0;
}

static bool unchanged(const struct plan *p, const struct tree_row *row)
{
    const struct entry *e = &p->before.entry;
    return row->p.size == e->size && row->p.mtime_ns == e->mtime_ns &&
           p->b->previous_source[row->p.source] == (int64_t)e->source &&
           strcmp(row->etag, e->etag) == 0;
}

static int old_sample(struct plan *p, const struct bytes *key, const struct tree_row *row,
                      uint64_t *ret, struct err *err)
{
    bool same = false;
    *ret = 0;
    if (!p->b->previous)
        return 0;
    if (pass_before(p, key, &same, err) < 0)
        return -1;
    if (!same || p->before.entry.folder) {
        p->b->diff.added++;
    } else {
        if (unchanged(p, row))
            *ret = p->before.entry.id;
        else
            p->b->diff.changed++;
        if (step_before(p, err) < 0)
            return -1;
    }
    if (fwrite_unlocked(ret, sizeof *ret, 1, p->b->old_ids) != 1)
        return err_sys(err, errno, "write a temporary file in %s", p->b->dir);
    return 0;
}

static int old_folder(struct plan *p, const struct bytes *key, uint64_t *ret, struct err *err)
{
    bool same = false;
    if (!p->b->previous)
        return 0;
    if (pass_before(p, key, &same, err) < 0)
        return -1;
    if (!same || !p->before.entry.folder)
        return 0;
    *ret = p->before.entry.id;
    return step_before(p, err);
}

/* --- the pass -------------------------------------------------------------------------------- */

/* First-level folders by name, below each the folders by their whole path: the first '/' sorts
 * before any other byte, all others as what they are. */
static int sort_folder(struct plan *p, const struct bytes *key, uint64_t index, struct err *err)
{
    bytes_clear(&p->order);
    bytes_add(&p->order, key->data, key->len);
    size_t first = key->len ? strnlen(p->order.data, p->order.len) : 0;
    if (key->len && first == key->len)
        bytes_add_char(&p->order, '\0');
    if (first < key->len)
        key_to_path(p->order.data + first + 1, p->order.len - first - 1);
    return sorter_add(p->b->folders, p->order.data, p->order.len, &index, sizeof index, err);
}

static int plan_enter(void *arg, const struct bytes *key, uint64_t folder, uint64_t parent,
                      struct err *err)
{
    struct plan *p = arg;
    struct catalog_builder *b = p->b;
    struct folder_rec rec = {.parent = parent};
    if (folder == 0)
        rec.id = CATALOG_ROOT_ID;
    else if (old_folder(p, key, &rec.id, err) < 0)
        return -1;
    if (b->n_folders == b->folder_cap) {
        b->folder_cap = b->folder_cap ? 2 * b->folder_cap : 64;
        b->folder = xrealloc(b->folder, b->folder_cap * sizeof *b->folder);
    }
    b->folder[b->n_folders++] = rec;
    b->fresh_folders += rec.id == 0;
    return sort_folder(p, key, folder, err);
}

static int plan_sample(void *arg, const struct bytes *key, uint64_t folder,
                       const struct tree_row *row, struct err *err)
{
    struct plan *p = arg;
    struct folder_rec *f = &p->b->folder[folder];
    uint64_t old, number = CATALOG_NO_INDEX;
    if (old_sample(p, key, row, &old, err) < 0)
        return -1;
    if (p->b->list && list_join_number(&p->list, key, &number, err) < 0)
        return -1;
    digest_sample(p->digest, key->data, key->len, row->p.size, row->p.mtime_ns, row->etag,
                  row->p.source,
                  row->p.has_object ? row->object.data ? row->object.data : "" : NULL,
                  row->object.len, row->p.pack_offset, number);
    f->files++;
    f->images += name_is_image(key->data, key->len);
    f->fresh_units += old ? 0 : unit_count(row->p.size);
    if (row->p.mtime_ns > f->mtime_ns)
        f->mtime_ns = row->p.mtime_ns;
    p->b->info.samples++;
    p->b->info.bytes += row->p.size;
    if (p->b->info.bytes > SIZE_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "the sizes that the source gives add up to over 4 EiB");
    return 0;
}

static int plan_leave(void *arg, const struct bytes *key, uint64_t folder, int64_t marker_ns,
                      struct err *err)
{
    struct plan *p = arg;
    struct folder_rec *f = &p->b->folder[folder], *above = &p->b->folder[f->parent];
    (void)err;
    if (marker_ns > f->mtime_ns)
        f->mtime_ns = marker_ns;
    if (f->mtime_ns > above->mtime_ns)
        above->mtime_ns = f->mtime_ns;
    digest_folder(p->digest, key->data, key->len, f->mtime_ns);
    return 0;
}

static int plan_bad(void *arg, const struct bytes *key, const char *why, struct err *err)
{
    struct plan *p = arg;
    return bad_add_key(p->b, key->data, key->len, why, err);
}

/* --- around it ------------------------------------------------------------------------------- */

static int hash_bad(struct plan *p, struct err *err)
{
    struct sorted r;
    int got = sorter_rewind(p->b->bad, err);
    while (got == 0 && (got = sorter_next(p->b->bad, &r, err)) > 0) {
        digest_bad(p->digest, (const char *)r.key, r.key_len, (const char *)r.data);
        got = 0;
    }
    return got;
}

/* Folder `i` as the numbering sees it: with folders there, files in the root don't count. */
bool counts(const struct catalog_builder *b, uint64_t i)
{
    return i > 0 || b->n_folders == 1;
}

static void count_numbers(struct catalog_builder *b)
{
    uint64_t files = 0, images = 0;
    for (uint64_t i = 0; i < b->n_folders; i++)
        if (counts(b, i)) {
            files += b->folder[i].files;
            images += b->folder[i].images;
        }
    b->images_only = images > 0;
    b->info.numbered = b->list ? b->list_lines : images ? images : files;
    b->info.folders = b->n_folders - 1;
    b->info.bad_names = sorter_count(b->bad);
    b->info.n_sources = b->n_sources;
    if (!b->previous)
        b->diff.added = b->info.samples;
}

bool is_numbered(const struct catalog_builder *b, uint64_t folder, const struct bytes *key)
{
    return counts(b, folder) && (!b->images_only || name_is_image(key->data, key->len));
}

static int plan_pass(struct plan *p, struct err *err)
{
    const struct tree_ops ops = {
        .enter = plan_enter, .sample = plan_sample, .leave = plan_leave, .bad = plan_bad};
    for (uint32_t i = 0; i < p->b->n_sources; i++)
        digest_source(p->digest, p->b->uris[i], p->b->ats[i]);
    if (p->b->previous && step_before(p, err) < 0)
        return -1;
    if (list_join_begin(&p->list, p->b, err) < 0 || tree_pass(p->b, &ops, p, err) < 0 ||
        list_join_end(&p->list, err) < 0 || pass_before(p, NULL, NULL, err) < 0)
        return -1;
    return hash_bad(p, err);
}

static int open_before(struct plan *p, struct err *err)
{
    int fd = unnamed_file(p->b->dir, err);
    if (fd < 0)
        return -1;
    p->b->old_ids = fdopen(fd, "w+");
    if (!p->b->old_ids) {
        close(fd);
        return err_sys(err, errno, "open a temporary file in %s", p->b->dir);
    }
    return tree_walk_begin(&p->before, p->b->previous, CATALOG_ROOT_ID, err);
}

int plan_version(struct catalog_builder *b, struct err *err)
{
    struct plan p = {.b = b};
    if (b->list && list_resolve(b, err) < 0)
        return -1;
    if (b->previous && open_before(&p, err) < 0)
        return -1;
    p.digest = digest_begin(b->n_sources);
    int rc = plan_pass(&p, err);
    digest_end(p.digest, b->info.digest);
    if (b->previous)
        tree_walk_end(&p.before);
    bytes_release(&p.order);
    if (rc == 0)
        count_numbers(b);
    return rc;
}
