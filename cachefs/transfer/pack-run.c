/*
 * A sync into packs. The set's current catalog takes the destination's place in the walk: a sample
 * that is unchanged (size and time) keeps its row and its place; others go to new packs.
 *
 * Order of writing: packs, the catalog under its digest, the pointer. Until the pointer is replaced
 * everybody reads the version before, whose packs are all still there; they are removed by a later
 * run, when two newer versions do without them.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "pack-internal.h"

#define SORT_MEMORY   (32u << 20)
#define WASTE_DEFAULT 0.5
#define BATCH_SAMPLES 65536

/* --- the set as it is ------------------------------------------------------------------------- */

static bool starts_with(const char *key, const char *start)
{
    return strncmp(key, start, strlen(start)) == 0;
}

static bool is_ours(const char *key)
{
    return starts_with(key, ".sampan/");
}

/* What the destination's listing tells: its packs and catalogs; or that it is no packed set. */
static int take_listing(struct packing *p, struct err *err)
{
    struct sync_run *r = p->run;
    struct sorted at;
    struct side side;
    int more;
    if (sorter_rewind(r->dst, err))
        return -1;
    while ((more = sorter_next(r->dst, &at, err)) > 0) {
        cleanup_free char *key = xstrndup((const char *)at.key, at.key_len);
        side_of(&side, &at);
        if (side.row.kind == SYNC_FOLDER)
            continue;
        if (!is_ours(key))
            return err_set(err, ERR_USAGE,
                           "%s holds objects (%s) beside packs: a packed set needs a prefix of its "
                           "own",
                           store_uri(r->to), key);
        bool is_pack = starts_with(key, FETCH_PACKED_PACKS);
        if (!is_pack && !starts_with(key, FETCH_PACKED_CATALOG))
            continue;
        struct pack *pack = packs_add(is_pack ? &p->packs : &p->catalogs, key);
        pack->size = side.row.size;
        pack->mtime_ns = side.row.mtime_ns;
        pack->there = true;
    }
    packs_sort(&p->packs);
    return more;
}

/* The objects of a packed set are packs, which no set shows: packed again they would be a set of
 * nothing. */
static int check_sources(struct sync_run *r, struct err *err)
{
    for (size_t i = 0; i < r->conf->n_sources; i++) {
        struct store *from = r->sources[i].store;
        struct packed_pointer pointer;
        int found = fetch_packed_pointer(r->fetch, from, &pointer, err);
        if (found < 0)
            return -1;
        if (found)
            return err_set(err, ERR_USAGE,
                           "%s is a packed set: without --pack it is copied as it is; to pack its "
                           "samples anew, mount it and copy from there",
                           store_uri(from));
    }
    return 0;
}

struct old_rows {
    struct packing *packing;
    struct sorter *to;
    struct bytes data;
};

/* A row of the current catalog as the destination's side of the walk: the ETag holds its place, as
 * "OFFSET OBJECT SUM". */
static int take_row(void *arg, const struct row *row, struct err *err)
{
    struct old_rows *o = arg;
    struct pack *pack = row->object ? packs_find(&o->packing->packs, row->object) : NULL;
    if (!pack)
        return err_set(err, ERR_CORRUPT,
                       "the set's catalog names a pack that is not there: %s (remove %s%s and sync "
                       "again)",
                       row->object ? row->object : row->key, store_uri(o->packing->run->to),
                       FETCH_PACKED_POINTER);
    pack->named = true;
    struct side_row side = {.size = row->size, .mtime_ns = row->mtime_ns, .kind = SYNC_OBJECT};
    bytes_clear(&o->data);
    bytes_add(&o->data, &side, sizeof side);
    bytes_addf(&o->data, "%llx %s %s", (unsigned long long)row->pack_offset, row->object,
               row->etag);
    return sorter_add(o->to, row->key, row->key_len, o->data.data, o->data.len, err);
}

struct place {
    uint64_t offset;
    char object[160], sum[160];
};

static int place_of(const struct side *d, struct place *ret, struct err *err)
{
    unsigned long long offset = 0;
    *ret = (struct place){0};
    int n = sscanf(d->etag, "%llx %159s %159s", &offset, ret->object, ret->sum);
    ret->offset = offset;
    return n >= 2 ? 0 : err_set(err, ERR_CORRUPT, "a place in no pack");
}

static int take_catalog(struct packing *p, struct err *err)
{
    struct sync_run *r = p->run;
    int found = fetch_packed_pointer(r->fetch, r->to, &p->old, err);
    if (found < 0)
        return -1;
    p->has_old = found;
    struct old_rows rows = {.packing = p, .to = sorter_new(r->temp_dir, SORT_MEMORY)};
    int result = 0;
    if (found) {
        cleanup_free char *file = xasprintf("%s/previous", p->dir);
        result = fetch_packed_catalog(r->fetch, r->to, &p->old, file, &p->previous, err);
        if (result == 0)
            result = catalog_rows(p->previous, take_row, &rows, err);
    }
    bytes_release(&rows.data);
    sorter_free(r->dst);
    r->dst = rows.to;
    return result;
}

/* --- the walks -------------------------------------------------------------------------------- */

enum fate { FATE_DROP, FATE_KEEP, FATE_WRITE };

static bool is_unchanged(const struct sync_conf *c, const struct side *s, const struct side *d)
{
    return !c->force_update && s->row.size == d->row.size &&
           (s->row.mtime_ns == LIST_MTIME_UNKNOWN || s->row.mtime_ns == d->row.mtime_ns);
}

static enum fate fate_of(const struct join *j)
{
    const struct sync_conf *c = j->run->conf;
    if (j->is_left_out)
        return FATE_KEEP;
    if (!j->s.there)
        return j->run->deletes ? FATE_DROP : FATE_KEEP;
    if (!j->d.there)
        return FATE_WRITE;
    bool tells_time = j->s.row.mtime_ns != LIST_MTIME_UNKNOWN;
    if (c->update && tells_time && j->s.row.mtime_ns < j->d.row.mtime_ns)
        return FATE_KEEP;
    return is_unchanged(c, &j->s, &j->d) ? FATE_KEEP : FATE_WRITE;
}

static struct pack *pack_of(const struct packing *p, const struct side *d, struct place *place,
                            struct err *err)
{
    if (place_of(d, place, err))
        return NULL;
    struct pack *pack = packs_find(&p->packs, place->object);
    if (!pack)
        err_set(err, ERR_BUG, "a sample in no pack");
    return pack;
}

static void count_fate(struct sync_run *r, const struct join *j, enum fate fate)
{
    struct live_counts *n = &r->counts;
    if (j->is_left_out)
        return;
    if (!j->s.there) {
        counter_add(fate == FATE_DROP ? &n->deleted : &n->extra, 1);
    } else if (fate == FATE_KEEP) {
        counter_add(&n->skipped, 1);
        counter_add(&n->skipped_bytes, j->s.row.size);
    } else if (r->conf->dry) {
        counter_add(&n->copied, 1);
        counter_add(&n->copied_bytes, j->s.row.size);
    }
    if (r->conf->dry && fate != FATE_KEEP && r->watch && r->watch->would)
        r->watch->would(r->watch->arg, fate == FATE_DROP ? SYNC_DELETE : SYNC_COPY, j->key.data,
                        j->s.there ? j->s.row.size : j->d.row.size);
}

/* The new catalog has all of the old one that is not dropped, what this run leaves out included. */
static int walk_begin(struct join *j, struct sync_run *r, bool counts, struct err *err)
{
    if (join_begin(j, r, counts, err))
        return -1;
    j->shows_kept = true;
    return 1;
}

/* The first walk: how much of each pack lives on. */
static int weigh(struct packing *p, struct err *err)
{
    struct sync_run *r = p->run;
    struct join j;
    struct place place;
    int more = walk_begin(&j, r, true, err);
    while (more > 0 && !run_is_over(r) && (more = join_next(&j, err)) > 0) {
        enum fate fate = fate_of(&j);
        count_fate(r, &j, fate);
        run_tell(r, false);
        if (fate != FATE_KEEP)
            continue;
        struct pack *pack = pack_of(p, &j.d, &place, err);
        if (!pack) {
            more = -1;
            break;
        }
        pack->live += j.d.row.size;
        pack->n_live++;
    }
    join_end(&j);
    return more < 0 ? -1 : 0;
}

static void push_batch(struct packing *p)
{
    if (!p->batch)
        return;
    struct task *t = task_new(TASK_PACK, "", 0);
    t->batch = take_ptr(&p->batch);
    run_push(p->run, t);
}

static struct pack_sample *new_sample(struct packing *p, const struct join *j, uint64_t size)
{
    uint64_t most = p->run->conf->pack_size;
    if (p->batch && (p->batch->bytes + size > most || p->batch->n >= BATCH_SAMPLES))
        push_batch(p);
    if (!p->batch) {
        p->batch = xcalloc(1, sizeof *p->batch);
        p->batch->packing = p;
    }
    struct pack_batch *b = p->batch;
    if (b->n == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 64;
        b->samples = xrealloc(b->samples, b->cap * sizeof *b->samples);
    }
    struct pack_sample *s = &b->samples[b->n++];
    *s = (struct pack_sample){.key = xstrdup(j->key.data), .src = j->s};
    b->bytes += size;
    return s;
}

int pack_keep_row(struct packing *p, const char *key, const struct side *d, struct err *err)
{
    struct place place;
    if (place_of(d, &place, err))
        return -1;
    const struct row row = {.key = key,
                            .key_len = strlen(key),
                            .size = d->row.size,
                            .mtime_ns = d->row.mtime_ns,
                            .etag = place.sum,
                            .object = place.object,
                            .pack_offset = place.offset};
    return pack_add_row(p, &row, err);
}

/* One key of the second walk: a row, or a sample of a pack to be. */
static int settle(struct packing *p, const struct join *j, struct err *err)
{
    enum fate fate = fate_of(j);
    struct place place;
    if (fate == FATE_DROP)
        return 0;
    if (fate == FATE_WRITE) {
        const struct row row = {
            .key = j->key.data, .key_len = j->key.len, .size = j->s.row.size, .etag = ""};
        if (!catalog_holds_row(&row))
            return pack_add_row(p, &row, err); /* to be told among the bad names */
        new_sample(p, j, j->s.row.size)->old = j->d;
        return 0;
    }
    const struct pack *pack = pack_of(p, &j->d, &place, err);
    if (!pack)
        return -1;
    if (!pack->rewrite)
        return pack_keep_row(p, j->key.data, &j->d, err);
    struct pack_sample *s = new_sample(p, j, j->d.row.size);
    s->src = s->old = j->d;
    s->old_object = xstrdup(place.object);
    s->old_offset = place.offset;
    snprintf(s->src.etag, sizeof s->src.etag, "%s", place.sum);
    return 0;
}

static int settle_all(struct packing *p, struct err *err)
{
    struct sync_run *r = p->run;
    struct join j;
    int more = walk_begin(&j, r, false, err);
    while (more > 0 && !run_is_over(r) && (more = join_next(&j, err)) > 0) {
        if (settle(p, &j, err))
            more = -1;
        run_tell(r, false);
    }
    join_end(&j);
    push_batch(p);
    run_drain(r);
    ACQUIRE(&p->lock);
    if (more >= 0 && p->failed) {
        *err = p->err;
        more = -1;
    }
    return more < 0 ? -1 : 0;
}

int pack_add_row(struct packing *p, const struct row *row, struct err *err)
{
    ACQUIRE(&p->lock);
    if (p->failed) {
        *err = p->err;
        return -1;
    }
    if (catalog_builder_add(p->builder, row, err) == 0)
        return 0;
    p->failed = true;
    p->err = *err;
    return -1;
}

/* --- publishing and cleaning up --------------------------------------------------------------- */

/* What the source has and the set can't is a failure, never left out in silence. */
static int tell_bad(void *arg, const char *key, size_t len, const char *why, struct err *err)
{
    (void)err;
    cleanup_free char *name = xstrndup(key, len);
    cleanup_free char *said = xasprintf("no set can have it: %s", why);
    run_left_out(arg, name, said);
    return 0;
}

static int put_catalog(struct packing *p, const char *file, struct packed_pointer *new,
                       struct err *err)
{
    struct sync_run *r = p->run;
    struct catalog *c;
    struct stat st;
    cleanup_close int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st))
        return err_sys(err, errno, "open %s", file);
    if (catalog_open(&c, file, err))
        return -1;
    *new = (struct packed_pointer){.size = (uint64_t)st.st_size};
    memcpy(new->digest, catalog_info(c)->digest, sizeof new->digest);
    atomic_store(&r->counts.packed, catalog_info(c)->samples);
    int told = catalog_bad_names(c, tell_bad, r, err);
    catalog_unref(c);
    if (told)
        return -1;
    if (p->has_old && strcmp(new->digest, p->old.digest) == 0)
        return 0;
    if (p->has_old)
        memcpy(new->previous, p->old.digest, sizeof new->previous);
    cleanup_free char *key = xasprintf(FETCH_PACKED_CATALOG "%s", new->digest);
    return fetch_put_file(r->fetch, r->to, key, fd, (uint64_t)st.st_size, err);
}

static int publish(struct packing *p, struct packed_pointer *new, struct err *err)
{
    struct sync_run *r = p->run;
    cleanup_free char *file = NULL;
    cleanup_bytes struct bytes text = {0};
    r->phase = SYNC_PUBLISHING;
    run_tell(r, true);
    if (catalog_builder_finish(p->builder, NULL, &file, NULL, err))
        return err_wrap(err, "make the set's catalog");
    if (put_catalog(p, file, new, err))
        return err_wrap(err, "publish the set's catalog");
    if (p->has_old && strcmp(new->digest, p->old.digest) == 0) {
        *new = p->old;
        return 0;
    }
    packed_pointer_write(new, &text);
    return fetch_put(r->fetch, r->to, FETCH_PACKED_POINTER, text.data, text.len, err);
}

static int on_upload(void *arg, const char *key, const char *upload, struct err *err)
{
    struct sync_run *r = arg;
    (void)err;
    if (is_ours(key) && fetch_upload_abort(r->fetch, r->to, key, upload, NULL) == 0)
        counter_add(&r->counts.aborted_uploads, 1);
    return 0;
}

/* --- all of it -------------------------------------------------------------------------------- */

static int work(struct packing *p, struct err *err)
{
    struct sync_run *r = p->run;
    const struct sync_conf *c = r->conf;
    const struct catalog_source_row source = {store_uri(r->to), ""};
    struct packed_pointer new = {0};
    if (check_sources(r, err) || take_listing(p, err) || take_catalog(p, err) ||
        run_check_empty(r, err))
        return -1;
    r->phase = SYNC_COPYING;
    if (weigh(p, err))
        return -1;
    if (c->dry || run_is_over(r))
        return 0;
    if (store_caps(r->to) & STORE_MULTIPART)
        fetch_uploads(r->fetch, r->to, "", on_upload, r, NULL);
    packs_plan(&p->packs, c->pack_size, c->pack_waste > 0 ? c->pack_waste : WASTE_DEFAULT,
               c->repack);
    if (catalog_builder_new(&p->builder, p->dir, p->previous, &source, 1, err) ||
        settle_all(p, err))
        return -1;
    if (run_is_over(r))
        return 0;
    /* Packs before the pointer to them, also for a disk that stops. */
    if (run_sync_disk(r, err) || publish(p, &new, err))
        return -1;
    pack_remove_old(p, &new);
    return 0;
}

int run_pack(struct sync_run *r, struct err *err)
{
    struct packing p = {.run = r};
    if (pack_dir_make(r->temp_dir, &p.dir, &p.dir_fd, err))
        return -1;
    lock_init(&p.lock, RANK_VOLUME + 1, "sync-pack");
    int result = work(&p, err);
    run_drain(r); /* no worker is in a batch of `p` any more */
    pack_batch_free(p.batch);
    catalog_builder_free(p.builder);
    if (p.previous)
        catalog_unref(p.previous);
    packs_release(&p.packs);
    packs_release(&p.catalogs);
    lock_destroy(&p.lock);
    pack_dir_remove(p.dir, p.dir_fd);
    return result;
}
