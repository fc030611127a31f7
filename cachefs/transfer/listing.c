/*
 * Both sides listed at once, each into a sorter. The sorter spills to one unnamed file, so that
 * lists of any length take SORT_MEMORY a side.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "sync-internal.h"

#define SORT_MEMORY      (32u << 20)
#define LISTINGS_AT_ONCE 16
#define TELL_EVERY_NS    (50 * NS_PER_MS)

struct lister {
    struct sync_run *run;
    pthread_t thread;
    bool started, is_source;
    struct sorter *to;
    uint32_t source; /* being listed */
    struct bytes key, row;
    bool done; /* run->lock */
    int result;
    struct err err;
};

static int add(struct lister *l, const char *key, size_t len, const struct side_row *row,
               const char *etag, struct err *err)
{
    struct sync_run *r = l->run;
    if (run_is_over(r))
        return err_set(err, ERR_CANCELLED, "told to stop");
    bytes_clear(&l->key);
    if (l->is_source)
        bytes_add_str(&l->key, r->sources[l->source].at);
    bytes_add(&l->key, key, len);
    if (store_is_trash(l->key.data))
        return 0;
    if (l->is_source) {
        counter_add(&r->counts.found, 1); /* what is left out is taken off again by the walk */
        counter_add(&r->counts.found_bytes, row->size);
    }
    bytes_clear(&l->row);
    bytes_add(&l->row, row, sizeof *row);
    bytes_add_str(&l->row, etag);
    return sorter_add(l->to, l->key.data, l->key.len, l->row.data, l->row.len, err);
}

/* What a writer that died has left at the destination. */
static void remove_left(struct lister *l, const struct list_item *item)
{
    struct sync_run *r = l->run;
    if (!l->is_source && !r->conf->dry && store_is_left(item, store_now_ns(r->to))) {
        cleanup_free char *key = xstrndup(item->key, item->key_len);
        fetch_delete(r->fetch, r->to, key, NULL);
    }
}

/*
 * A link of a source behind which there may be an object, or a folder of them, at other times: what
 * the destination has of it is no extra. Whether a pattern leaves it out is asked of both.
 */
static void note_dangling(struct lister *l, const struct list_item *item)
{
    struct sync_run *r = l->run;
    const struct sync_conf *c = r->conf;
    bytes_clear(&l->key);
    bytes_add_str(&l->key, r->sources[l->source].at);
    bytes_add(&l->key, item->key, item->key_len);
    cleanup_free char *folder = xasprintf("%s/", l->key.data);
    if (store_is_trash(folder) ||
        !sync_rules_pass(c->rules, c->n_rules, c->match_full_path, l->key.data, l->key.len) ||
        !sync_rules_pass(c->rules, c->n_rules, c->match_full_path, folder, l->key.len + 1))
        return;
    r->n_dangling++;
    if (!c->files_from &&
        (!c->shares || sync_share(l->key.data, l->key.len, c->shares) == c->share))
        run_left_out(r, l->key.data, "a link that leads nowhere or may not be followed");
}

/* Of a folder's files it is their size and time, which copies share whatever their bytes are. */
static const char *vouching_etag(const struct lister *l, const struct list_item *item)
{
    const struct sync_run *r = l->run;
    const struct store *s = l->is_source ? r->sources[l->source].store : r->to;
    return (store_caps(s) & STORE_LOCAL) || !item->etag ? "" : item->etag;
}

static int on_item(void *arg, const struct list_item *item, struct err *err)
{
    struct lister *l = arg;
    if (item->key_len == 0)
        return 0;
    if (item->dangling) {
        if (l->is_source)
            note_dangling(l, item);
        return 0;
    }
    if (item->unfinished) {
        remove_left(l, item);
        return 0;
    }
    struct side_row row = {.size = item->folder ? 0 : item->size,
                           .mtime_ns = item->mtime_ns,
                           .source = l->source,
                           .kind = item->folder ? SYNC_FOLDER : SYNC_OBJECT};
    return add(l, item->key, item->key_len, &row, vouching_etag(l, item), err);
}

static int on_local(void *arg, const char *key, const struct stat *st, struct err *err)
{
    struct lister *l = arg;
    if (store_is_temp(key))
        return 0;
    struct side_row row = {.size = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
                           .mtime_ns = clock_ns_of(&st->st_mtim),
                           .source = l->source};
    if (S_ISDIR(st->st_mode))
        row.kind = SYNC_FOLDER;
    else if (S_ISLNK(st->st_mode))
        row.kind = SYNC_LINK;
    else if (!S_ISREG(st->st_mode))
        return 0; /* a device, a pipe, a socket */
    return add(l, key, strlen(key), &row, "", err);
}

static int on_upload(void *arg, const char *key, const char *upload, struct err *err)
{
    struct lister *l = arg;
    return sorter_add(l->run->uploads, key, strlen(key), upload, strlen(upload), err);
}

/* Links of a destination are never followed where something may be deleted. */
static bool walks(const struct lister *l, const struct store *s)
{
    const struct sync_conf *c = l->run->conf;
    return (store_caps(s) & STORE_LOCAL) && (c->links || (!l->is_source && c->delete_dst));
}

static int list_store(struct lister *l, struct store *s, struct err *err)
{
    if (walks(l, s))
        return store_local_walk(s, "", on_local, l, err);
    const struct sync_conf *c = l->run->conf;
    if (!l->is_source && c->dirs && c->delete_dst) /* what marks a folder goes with its content */
        return fetch_list_marks(l->run->fetch, s, LISTINGS_AT_ONCE, on_item, l, err);
    return fetch_list(l->run->fetch, s, LISTINGS_AT_ONCE, on_item, l, NULL, err);
}

static int list_sources(struct lister *l, struct err *err)
{
    for (l->source = 0; l->source < l->run->n_sources; l->source++) {
        struct store *s = l->run->sources[l->source].store;
        if (list_store(l, s, err))
            return err_wrap(err, "list %s", store_uri(s));
    }
    return 0;
}

static int list_destination(struct lister *l, struct err *err)
{
    struct sync_run *r = l->run;
    struct err e = {0};
    /* A folder that is not there yet: nothing is in it. A prefix is always there, a bucket that is
     * not there will not come. */
    bool made_by_writing = !(store_caps(r->to) & STORE_FLAT_LIST);
    if (list_store(l, r->to, &e) && (e.class != ERR_NOT_FOUND || !made_by_writing)) {
        *err = e;
        return err_wrap(err, "list %s", store_uri(r->to));
    }
    /* A store that does not tell of uploads has none to be aborted, as far as can be known. */
    if ((store_caps(r->to) & STORE_MULTIPART) && !r->conf->dry) {
        r->uploads = sorter_new(r->temp_dir, SORT_MEMORY / 8);
        fetch_uploads(r->fetch, r->to, "", on_upload, l, NULL);
    }
    return 0;
}

static void *lister_main(void *arg)
{
    struct lister *l = arg;
    struct err err = {0};
    int result = l->is_source ? list_sources(l, &err) : list_destination(l, &err);
    ACQUIRE(&l->run->lock);
    l->result = result;
    l->err = err;
    l->done = true;
    cond_signal(&l->run->ended);
    return NULL;
}

static bool wait_a_little(struct sync_run *r, const struct lister *a, const struct lister *b)
{
    ACQUIRE(&r->lock);
    bool done = (a->done || !a->started) && (b->done || !b->started);
    if (!done)
        cond_wait_for(&r->ended, &r->lock, TELL_EVERY_NS);
    return !done;
}

static int start(struct lister *l, struct err *err)
{
    int e = thread_start(&l->thread, "sync-list", lister_main, l);
    l->started = e == 0;
    return e ? err_thread(err, e, "start a thread that lists") : 0;
}

static int finish(struct lister *l, int result, struct err *err)
{
    if (l->started)
        pthread_join(l->thread, NULL);
    bytes_release(&l->key);
    bytes_release(&l->row);
    if (result == 0 && l->result && err)
        *err = l->err;
    return result ? result : l->result;
}

int run_list(struct sync_run *r, struct err *err)
{
    r->src = sorter_new(r->temp_dir, SORT_MEMORY);
    r->dst = sorter_new(r->temp_dir, SORT_MEMORY);
    struct lister from = {.run = r, .is_source = true, .to = r->src};
    struct lister to = {.run = r, .to = r->dst};
    int result = start(&from, err);
    if (result == 0)
        result = start(&to, err);
    while (wait_a_little(r, &from, &to))
        run_tell(r, false);
    result = finish(&from, result, err);
    return finish(&to, result, err);
}
