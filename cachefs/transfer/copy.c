/*
 * One object, on a worker: copied, compared, its source deleted.
 *
 * A source may change between its listing and its copy. Reads name what was listed (ETag, size,
 * time) and fail as stale; then the source is looked at again and the copy starts anew, CHANGES_MAX
 * times.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "copy-internal.h"
#include "hash.h"
#include "remove-internal.h"

#define COMPARE_PIECE (4u << 20)

const char *source_key(const struct sync_run *r, const struct side *s, const char *key)
{
    return key + strlen(r->sources[s->row.source].at);
}

void get_of(const struct sync_run *r, const struct side *s, const char *key, bool from_source,
            struct fetch_get *ret)
{
    struct store *store = from_source ? r->sources[s->row.source].store : r->to;
    bool local = store_caps(store) & STORE_LOCAL;
    *ret = (struct fetch_get){
        .store = store,
        .key = from_source ? source_key(r, s, key) : key,
        .object_size = s->row.size,
        .mtime_ns = local && s->row.mtime_ns != LIST_MTIME_UNKNOWN ? s->row.mtime_ns : 0,
        .etag = local ? "" : s->etag,
        .prio = PRIO_WARMUP,
    };
    ret->key_len = strlen(ret->key);
}

/* --- looking ---------------------------------------------------------------------------------- */

int look(struct sync_run *r, struct store *store, const char *key, struct side *ret,
         struct err *err)
{
    if (store_caps(store) & STORE_LOCAL) {
        struct stat st;
        if (store_local_look(store, key, &st, err))
            return -1;
        ret->row.size = (uint64_t)st.st_size;
        ret->row.mtime_ns = clock_ns_of(&st.st_mtim);
        ret->etag[0] = '\0';
        return 0;
    }
    struct http_answer a;
    if (fetch_head(r->fetch, store, key, &a, err))
        return -1;
    if (a.content_length >= 0)
        ret->row.size = (uint64_t)a.content_length;
    if (a.last_modified >= 0)
        ret->row.mtime_ns = a.last_modified * (int64_t)NS_PER_S;
    snprintf(ret->etag, sizeof ret->etag, "%s", a.etag);
    return 0;
}

/* The destination after a write; its ETag too, where it has one. */
static int look_at_copy(const struct copying *c, struct side *ret, struct err *err)
{
    *ret = *c->src;
    if (look(c->run, c->run->to, c->key, ret, err))
        return -1;
    if (ret->row.size == c->src->row.size)
        return 0;
    return err_set(err, ERR_CORRUPT, "the copy has %llu bytes instead of %llu",
                   (unsigned long long)ret->row.size, (unsigned long long)c->src->row.size);
}

/* --- comparing bytes -------------------------------------------------------------------------- */

static int read_both(const struct copying *c, const struct side *dst, uint64_t off, uint32_t len,
                     struct buf *a, struct buf *b, struct err *err)
{
    struct fetch_get g;
    get_of(c->run, c->src, c->key, true, &g);
    g.off = off;
    if (fetch_read(c->run->fetch, &g, a->data, len, err))
        return -1;
    get_of(c->run, dst, c->key, false, &g);
    g.off = off;
    return fetch_read(c->run->fetch, &g, b->data, len, err);
}

int compare_bytes(const struct copying *c, const struct side *dst, struct err *err)
{
    uint64_t size = c->src->row.size;
    if (size != dst->row.size)
        return 0;
    size_t piece = size < COMPARE_PIECE ? (size_t)size + !size : COMPARE_PIECE;
    cleanup_buf struct buf *both = run_buf(c->run, 2 * piece);
    if (!both)
        return err_set(err, ERR_CANCELLED, "told to stop");
    struct buf a = {.data = both->data}, b = {.data = both->data + piece};
    for (uint64_t off = 0; off < size;) {
        uint32_t len = size - off < piece ? (uint32_t)(size - off) : (uint32_t)piece;
        if (read_both(c, dst, off, len, &a, &b, err))
            return -1;
        if (memcmp(a.data, b.data, len) != 0)
            return 0;
        off += len;
    }
    counter_add(&c->run->counts.checked, 1);
    counter_add(&c->run->counts.checked_bytes, size);
    return 1;
}

/* --- copying ---------------------------------------------------------------------------------- */

/* The store's own sum of what it was sent. Some kinds of encryption give ETags that look like an
 * MD5 and are none: if no object had one that fits, none is believed. */
static int check_written(struct sync_run *r, const char *etag, const void *data, size_t len,
                         struct err *err)
{
    if (!hex_is(etag, MD5_DIGITS) || atomic_load(&r->md5_useless))
        return 0;
    char sum[64];
    snprintf(sum, sizeof sum, "sum:md5:%.32s", etag);
    if (store_check_sum(sum, data, len, NULL) == 0) {
        atomic_store(&r->md5_seen, true);
        return 0;
    }
    if (atomic_load(&r->md5_seen))
        return err_set(err, ERR_CORRUPT, "the store has other bytes than it was sent (its MD5)");
    atomic_store(&r->md5_useless, true);
    return 0;
}

static int copy_small(const struct copying *c, const struct fetch_put_opts *opts, struct err *err)
{
    struct sync_run *r = c->run;
    size_t len = (size_t)c->src->row.size;
    char etag[160];
    struct fetch_get g;
    cleanup_buf struct buf *body = run_buf(r, len + !len);
    if (!body)
        return err_set(err, ERR_CANCELLED, "told to stop");
    get_of(r, c->src, c->key, true, &g);
    if (fetch_read(r->fetch, &g, body->data, len, err) ||
        fetch_put_bytes(r->fetch, r->to, c->key, body->data, len, opts, etag, err))
        return -1;
    if (*etag && strcmp(etag, c->src->etag) == 0)
        return 0; /* both servers have the same sum */
    return check_written(r, etag, body->data, len, err);
}

struct stream {
    const struct copying *c;
    struct fetch_get get;
};

static int read_source(void *arg, uint64_t off, void *buf, size_t len, struct err *err)
{
    const struct stream *s = arg;
    struct fetch_get get = s->get;
    if (run_is_over(s->c->run))
        return err_set(err, ERR_CANCELLED, "told to stop");
    get.off = off;
    if (fetch_read(s->c->run->fetch, &get, buf, len, err))
        return -1;
    counter_add(&s->c->task->moved, len);
    counter_add(&s->c->run->counts.moving_bytes, len);
    return 0;
}

/* It is copied, or begun anew. */
static void moves_no_more(struct sync_run *r, struct task *t)
{
    atomic_fetch_sub_explicit(&r->counts.moving_bytes, atomic_exchange(&t->moved, 0),
                              memory_order_relaxed);
}

int check_unchanged(struct sync_run *r, const struct side *listed, const char *key, struct err *err)
{
    struct store *store = r->sources[listed->row.source].store;
    struct side now = *listed;
    if (*listed->etag && !(store_caps(store) & STORE_LOCAL))
        return 0;
    if (look(r, store, source_key(r, listed, key), &now, err))
        return -1;
    bool same_time =
        now.row.mtime_ns / (int64_t)NS_PER_S == listed->row.mtime_ns / (int64_t)NS_PER_S;
    if (now.row.size == listed->row.size &&
        (same_time || listed->row.mtime_ns == LIST_MTIME_UNKNOWN))
        return 0;
    return err_set(err, ERR_STALE, "it changed while it was copied");
}

static int check_source(void *arg, struct err *err)
{
    const struct stream *s = arg;
    return check_unchanged(s->c->run, s->c->src, s->c->key, err);
}

static int copy_large(const struct copying *c, const struct fetch_put_opts *opts, struct err *err)
{
    struct sync_run *r = c->run;
    struct stream s = {.c = c};
    uint64_t kept = 0;
    cleanup_free char *resume = take_ptr(&c->task->resume); /* once: a failed upload is aborted */
    get_of(r, c->src, c->key, true, &s.get);
    const struct fetch_stream p = {.store = r->to,
                                   .key = c->key,
                                   .len = c->src->row.size,
                                   .read = read_source,
                                   .parallel = true,
                                   .check = check_source,
                                   .arg = &s,
                                   .opts = *opts,
                                   .resume = resume,
                                   .ret_kept = &kept};
    if (!large_enter(r))
        return err_set(err, ERR_CANCELLED, "told to stop");
    int result = fetch_put_stream(r->fetch, &p, err);
    large_leave(r);
    struct side copy;
    counter_add(&r->counts.resumed_bytes, kept);
    if (result == 0 && !(store_caps(r->to) & STORE_LOCAL))
        result = look_at_copy(c, &copy, err);
    if (result == 0 && kept && opts->meta) /* the upload was begun with that of another day */
        result = meta_refresh(r, c->src->row.source, c->key, err);
    return result;
}

static int copy_plain(const struct copying *c, const struct meta *meta, struct err *err)
{
    struct sync_run *r = c->run;
    struct local_attrs attrs;
    bool told = r->conf->perms && meta->known && (store_caps(r->to) & STORE_META);
    meta_to_attrs(meta, &attrs);
    attrs.has_mode = attrs.has_owner = r->conf->perms && meta->known;
    /* One syncfs at the end does for all; but what is deleted at the source is synced before. And
     * so is what is written in any order: after a power cut it might have its size, and not its
     * bytes. */
    bool large = c->src->row.size >= FETCH_PUT_WHOLE;
    const struct fetch_put_opts opts = {.attrs = &attrs,
                                        .meta = told ? &meta->m : NULL,
                                        .hasty =
                                            r->conf->hasty || (!large && !r->conf->delete_src)};
    return large ? copy_large(c, &opts, err) : copy_small(c, &opts, err);
}

static int copy_link(const struct copying *c, const struct meta *meta, const struct bytes *target,
                     struct err *err)
{
    bool names_of_a_bucket =
        !(store_caps(c->source->store) & STORE_LOCAL) && (store_caps(c->run->to) & STORE_LOCAL);
    c->src->row.kind = SYNC_LINK;
    if (!names_of_a_bucket || c->task->kind == TASK_LINK)
        return put_link(c, meta, target, err);
    run_put_off(c->run, c->task);
    c->task->is_put_off = true;
    return 0;
}

/* 1: the server has no such request, or has it not for this object: it goes through here. */
static int copy_by_server(const struct copying *c, struct err *err)
{
    struct sync_run *r = c->run;
    struct err why = {0};
    if (!c->source->same_server || c->src->row.size >= FETCH_COPY_MAX)
        return 1;
    if (fetch_copy(r->fetch, r->to, c->key, c->source->store, c->from, c->src->etag, &why) == 0)
        return 0;
    if (why.class == ERR_FAILED || why.class == ERR_USAGE)
        return 1;
    *err = why;
    return -1;
}

static int copy_object(const struct copying *c, struct err *err)
{
    struct sync_run *r = c->run;
    cleanup_bytes struct bytes target = {0};
    struct meta meta = {.m.mtime_ns = c->src->row.mtime_ns};
    int copied = copy_by_server(c, err);
    if (copied <= 0)
        return copied;
    bool looked = r->conf->links && may_be_link(c->source->store, c->src);
    int is_link = looked ? link_target(c, &meta, &target, err) : 0;
    if (is_link < 0 || check_parents(c, err))
        return -1;
    if (is_link)
        return copy_link(c, &meta, &target, err);
    if (r->conf->perms && !looked &&
        meta_look(r, c->source->store, c->from, !r->conf->links, &meta, err))
        return -1;
    return copy_plain(c, &meta, err);
}

static int copy_once(const struct copying *c, struct err *err)
{
    if (c->src->row.kind != SYNC_FOLDER)
        return copy_object(c, err);
    return check_parents(c, err) || fetch_folder(c->run->fetch, c->run->to, c->key, err) ? -1 : 0;
}

static int take_folder(void *arg, const char *key, const struct stat *st, struct err *err)
{
    if (!S_ISDIR(st->st_mode))
        return err_set(err, ERR_FAILED, "there is something");
    names_add(arg, key);
    return 0;
}

/* A folder that at most folders are in, and these too. */
static bool remove_empty(struct store *s, const char *key)
{
    struct names folders = {0};
    cleanup_free char *top = xasprintf("%s/", key);
    names_add(&folders, top);
    bool gone = store_local_walk(s, top, take_folder, &folders, NULL) == 0;
    names_deepest_first(&folders);
    for (size_t i = 0; i < folders.n && gone; i++)
        gone = store_local_remove_folder(s, folders.list[i], NULL) == 0;
    names_release(&folders);
    return gone;
}

/* Folders that a run does not look at are no content: one that has an object's name goes, unless
 * something is in it. */
static bool make_way(const struct copying *c)
{
    const struct sync_run *r = c->run;
    struct stat st;
    return (store_caps(r->to) & STORE_LOCAL) && !r->conf->dirs && c->src->row.kind != SYNC_FOLDER &&
           store_local_stat(r->to, c->key, &st, NULL) == 0 && S_ISDIR(st.st_mode) &&
           remove_empty(r->to, c->key);
}

static int copy(const struct copying *c, struct err *err)
{
    if (!store_can_name(c->run->to, c->key))
        return err_set(err, ERR_FAILED,
                       "its name is not UTF-8, which keys of the destination are (rename it)");
    for (unsigned i = 0;; i++) {
        struct err e = {0};
        if (copy_once(c, &e) == 0 || (make_way(c) && copy_once(c, &e) == 0))
            return 0;
        /* Another run took its upload for one that was left behind. */
        bool upload_gone = e.class == ERR_NOT_FOUND && c->src->row.size >= FETCH_PUT_WHOLE;
        moves_no_more(c->run, c->task);
        if ((e.class == ERR_STALE || upload_gone) && i < CHANGES_MAX &&
            look(c->run, c->source->store, c->from, c->src, &e) == 0)
            continue;
        if (e.class == ERR_STALE)
            err_set(&e, ERR_STALE, "it changes at the source while it is copied");
        *err = e;
        return -1;
    }
}

/* --- tasks ------------------------------------------------------------------------------------ */

static int check_copy(const struct copying *c, struct err *err)
{
    struct side copy;
    if (look_at_copy(c, &copy, err))
        return -1;
    int equal = compare_bytes(c, &copy, err);
    if (equal > 0)
        return 0;
    return equal < 0 ? err_wrap(err, "compare the copy")
                     : err_set(err, ERR_CORRUPT, "the copy has other bytes than its source");
}

static int delete_source(const struct copying *c, struct err *err)
{
    if (fetch_delete(c->run->fetch, c->source->store, c->from, err))
        return err_wrap(err, "delete the source");
    counter_add(&c->run->counts.deleted_src, 1);
    return 0;
}

/* A copy that is about to be the only one is compared unless the store has vouched for it. */
static int do_copy(const struct copying *c, struct err *err)
{
    const struct sync_conf *conf = c->run->conf;
    if (copy(c, err))
        return -1;
    if (c->task->is_put_off)
        return 0;
    bool is_object = c->src->row.kind == SYNC_OBJECT;
    if (is_object && (conf->check_new || conf->check_all || conf->delete_src) && check_copy(c, err))
        return -1;
    counter_add(&c->run->counts.copied, 1);
    counter_add(&c->run->counts.copied_bytes, c->src->row.size);
    return conf->delete_src && c->src->row.kind != SYNC_FOLDER ? delete_source(c, err) : 0;
}

/* The destination has what the source has; --perms and --delete-src are still to be done. */
static int leave_alone(const struct copying *c, struct err *err)
{
    const struct sync_conf *conf = c->run->conf;
    if (conf->perms && meta_refresh(c->run, c->src->row.source, c->key, err))
        return -1;
    counter_add(&c->run->counts.skipped, 1);
    counter_add(&c->run->counts.skipped_bytes, c->src->row.size);
    return conf->delete_src ? delete_source(c, err) : 0;
}

static int do_compare(const struct copying *c, struct err *err)
{
    bool is_link = c->src->row.kind == SYNC_LINK || c->dst->row.kind == SYNC_LINK;
    int equal = is_link ? compare_links(c, err) : compare_bytes(c, c->dst, err);
    if (equal < 0 && err->class == ERR_STALE)
        equal = 0;
    if (equal < 0)
        return err_wrap(err, "compare");
    return equal ? leave_alone(c, err) : do_copy(c, err);
}

/* As it was listed? 0: another object, or none. */
static int is_as_listed(const struct copying *c, const struct side *listed, struct err *err)
{
    struct side now = *listed;
    if (look(c->run, c->run->to, c->key, &now, err) == 0)
        return strcmp(now.etag, listed->etag) == 0;
    if (err->class != ERR_NOT_FOUND)
        return -1;
    err_clear(err);
    return 0;
}

/* Both sides had one ETag when they were listed; either may be another object by now, or gone. */
static int do_delete_source(const struct copying *c, struct err *err)
{
    const struct side listed = *c->src;
    if (look(c->run, c->source->store, c->from, c->src, err))
        return -1;
    int kept = is_as_listed(c, c->dst, err);
    if (kept < 0)
        return -1;
    if (!kept || strcmp(c->src->etag, listed.etag) != 0)
        return do_copy(c, err);
    return leave_alone(c, err);
}

static void not_deleted(void *arg, const char *key, const struct err *why)
{
    struct sync_run *r = arg;
    run_failed(r, key, why);
    atomic_fetch_sub_explicit(&r->counts.deleted, 1, memory_order_relaxed);
}

static void do_delete(struct sync_run *r, const struct task *t)
{
    const char **keys = xcalloc(t->n_keys, sizeof *keys);
    const char *key = t->keys.data;
    for (size_t i = 0; i < t->n_keys; i++) {
        keys[i] = key;
        key += strlen(key) + 1;
    }
    counter_add(&r->counts.deleted, t->n_keys);
    fetch_delete_many(r->fetch, r->to, keys, t->n_keys, not_deleted, r);
    free(keys);
}

static int do_key(const struct copying *c, struct err *err)
{
    switch (c->task->kind) {
    case TASK_COPY:
    case TASK_LINK:
        return do_copy(c, err);
    case TASK_COMPARE:
        return do_compare(c, err);
    case TASK_REFRESH:
        return meta_refresh(c->run, c->src->row.source, c->key, err);
    default:
        return do_delete_source(c, err);
    }
}

void do_task(struct sync_run *r, struct task *t)
{
    if (t->kind == TASK_DELETE) {
        do_delete(r, t);
        return;
    }
    if (t->kind == TASK_PACK) {
        pack_write(r, t->batch);
        return;
    }
    struct err err = {0};
    const struct copying c = {.run = r,
                              .task = t,
                              .key = t->keys.data,
                              .src = &t->src,
                              .dst = &t->dst,
                              .source = &r->sources[t->src.row.source],
                              .from = source_key(r, &t->src, t->keys.data)};
    int result = do_key(&c, &err);
    moves_no_more(r, t);
    if (result == 0)
        run_went_well(r);
    else if (!run_blocked(r, t, &err))
        run_failed(r, t->keys.data, &err);
}
