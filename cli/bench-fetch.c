/* bench fetch: whole objects through the engine alone: what the store and the link give. */
#include <inttypes.h>
#include <string.h>

#include "bench-internal.h"
#include "clock.h"
#include "mem.h"
#include "sync.h"

#define MEMORY      (256u << 20)
#define LARGEST_GET (64u << 20)
#define LISTINGS    16

struct object {
    struct store *store;
    char *key, *etag;
    size_t key_len;
    uint64_t size;
    int64_t mtime_ns;
};

struct objects {
    struct object *items;
    size_t n, cap, most;
    struct store *store; /* that is being listed */
};

struct run {
    struct fetch *fetch;
    struct store **stores; /* one a source of the set */
    size_t n_stores;
    struct pool *pool;
    struct objects objects;

    struct lock lock; /* guards all below */
    struct cond changed;
    size_t under_way;
    uint64_t done, bytes, errors;
    struct err first_error;
};

struct get {
    struct run *run;
    struct buf *buf;
    uint32_t len;
};

static int take_item(void *arg, const struct list_item *item, struct err *err)
{
    struct objects *o = arg;
    if (item->folder || item->unfinished || item->dangling)
        return 0;
    if (o->n == o->most)
        return err_set(err, ERR_CANCELLED, "enough");
    if (o->n == o->cap) {
        o->cap = o->cap ? 2 * o->cap : 1024;
        o->items = xrealloc(o->items, o->cap * sizeof *o->items);
    }
    o->items[o->n++] = (struct object){
        .store = o->store,
        .key = xstrndup(item->key, item->key_len),
        .key_len = item->key_len,
        .etag = xstrdup(item->etag ? item->etag : ""),
        .size = item->size,
        .mtime_ns = item->mtime_ns,
    };
    return 0;
}

static int list_objects(struct run *r, const char *set, struct err *err)
{
    for (size_t i = 0; i < r->n_stores && r->objects.n < r->objects.most; i++) {
        _Atomic uint64_t seen = 0;
        struct err why = {0};
        r->objects.store = r->stores[i];
        if (fetch_list(r->fetch, r->stores[i], LISTINGS, take_item, &r->objects, &seen, &why) &&
            !(why.class == ERR_CANCELLED && r->objects.n == r->objects.most)) {
            *err = why;
            return -1;
        }
    }
    if (!r->objects.n)
        return err_set(err, ERR_NOT_FOUND, "nothing to fetch: %s: the listing is empty", set);
    return 0;
}

static void on_done(void *arg, const struct err *err)
{
    struct get *g = arg;
    struct run *r = g->run;
    buf_unref(g->buf);
    {
        ACQUIRE(&r->lock);
        r->under_way--;
        r->done++;
        if (err) {
            if (r->errors++ == 0)
                r->first_error = *err;
        } else {
            r->bytes += g->len;
        }
        cond_signal(&r->changed);
    }
    free(g);
}

static void wait_below(struct run *r, size_t most)
{
    ACQUIRE(&r->lock);
    while (r->under_way > most)
        cond_wait(&r->changed, &r->lock);
}

static void begin(struct run *r, const struct object *o)
{
    uint32_t len = o->size > LARGEST_GET ? LARGEST_GET : (uint32_t)o->size;
    struct buf *buf;
    while (!(buf = pool_get(r->pool, len ? len : 1))) {
        size_t now;
        {
            ACQUIRE(&r->lock);
            now = r->under_way;
        }
        wait_below(r, now ? now - 1 : 0);
    }
    struct get *g = xcalloc(1, sizeof *g);
    *g = (struct get){.run = r, .buf = buf, .len = len};
    struct fetch_get get = {
        .store = o->store,
        .key = o->key,
        .key_len = o->key_len,
        .len = len,
        .object_size = o->size,
        .mtime_ns = o->mtime_ns,
        .etag = o->etag,
        .dest = buf->data,
        .prio = PRIO_READER,
        .done = on_done,
        .arg = g,
    };
    {
        ACQUIRE(&r->lock);
        r->under_way++;
    }
    struct err err = {0};
    if (fetch_get(r->fetch, &get, &err))
        on_done(g, &err);
}

static int report(struct run *r, double seconds, bool json, struct err *err)
{
    const struct fetch_counts *c = fetch_counts(r->fetch);
    cleanup_bytes struct bytes out = {0};
    double rate = (double)r->done / seconds, bytes_rate = (double)r->bytes / seconds;
    if (json) {
        struct json_writer w;
        jw_init(&w, &out);
        jw_object(&w, NULL);
        jw_uint(&w, "objects", r->done);
        jw_uint(&w, "bytes", r->bytes);
        write_seconds(&w, "seconds", seconds);
        jw_num(&w, "objects_per_s", rate);
        jw_num(&w, "bytes_per_s", bytes_rate);
        jw_num(&w, "p50_us", (double)histogram_quantile_ns(&c->latency, 0.50) / 1e3);
        jw_num(&w, "p99_us", (double)histogram_quantile_ns(&c->latency, 0.99) / 1e3);
        jw_uint(&w, "errors", r->errors);
        jw_uint(&w, "retries", counter_get(&c->retries));
        jw_uint(&w, "in_flight_max", counter_get(&c->in_flight_max));
        jw_end(&w);
        bytes_add_char(&out, '\n');
    } else {
        char size[32], objects[64], errors[64];
        conf_format_size((uint64_t)bytes_rate, size);
        conf_format_count(r->done, "object", objects);
        conf_format_count(r->errors, "error", errors);
        bytes_addf(&out, "%s in %.2f s: %.0f objects/s, %s/s, %" PRIu64 " tried again, %s\n",
                   objects, seconds, rate, size, counter_get(&c->retries), errors);
    }
    return print_out(&out, err);
}

static int fetch_all(struct run *r, const char *set, const struct bench_options *o, struct err *err)
{
    if (list_objects(r, set, err))
        return -1;
    struct progress progress;
    progress_init(&progress, o->quiet);
    uint64_t began = clock_mono_ns();
    for (size_t i = 0; i < r->objects.n; i++) {
        wait_below(r, 2 * (size_t)o->connections);
        begin(r, &r->objects.items[i]);
        progress_show(&progress, "objects", &(struct how_far){.done = i, .total = r->objects.n});
    }
    wait_below(r, 0);
    double seconds = (double)(clock_mono_ns() - began) / 1e9;
    progress_end(&progress);
    if (report(r, seconds, o->json, err))
        return -1;
    if (!r->errors)
        return 0;
    *err = r->first_error;
    err->class = ERR_FAILED;
    char failed[64];
    conf_format_count(r->errors, "object", failed);
    return err_wrap(err, "%s failed; the first", failed);
}

static void run_release(struct run *r)
{
    if (r->fetch)
        fetch_free(r->fetch);
    for (size_t i = 0; i < r->n_stores; i++)
        store_close(r->stores[i]);
    free(r->stores);
    pool_free(r->pool);
    for (size_t i = 0; i < r->objects.n; i++) {
        free(r->objects.items[i].key);
        free(r->objects.items[i].etag);
    }
    free(r->objects.items);
    cond_destroy(&r->changed);
    lock_destroy(&r->lock);
}

/* What a mount shows comes from there; keys and endpoint are those of our own options. */
static int set_of(const char *arg, char **ret, struct err *err)
{
    cleanup_mount struct control_mount m = {0};
    int is_mount = mount_of_set(arg, &m, err);
    if (is_mount < 0)
        return -1;
    *ret = xstrdup(is_mount ? m.uri : arg);
    return 0;
}

static int open_stores(struct run *r, const char *set, const struct store_conf *conf,
                       struct err *err)
{
    struct set sources;
    int result = 0;
    if (volume_sources(&sources, set, err))
        return -1;
    r->stores = xcalloc(sources.n ? sources.n : 1, sizeof *r->stores);
    for (size_t i = 0; i < sources.n && !result; i++) {
        result = store_open(&r->stores[i], sources.sources[i].uri, conf, err);
        r->n_stores += !result;
        if (!result)
            result = store_creds_refresh(r->stores[i], false, err);
    }
    set_release(&sources);
    return result;
}

int bench_fetch(const char *set, const struct bench_options *o, struct err *err)
{
    cleanup_free char *source = NULL;
    struct run r = {.objects.most = o->samples ? (size_t)o->samples : SIZE_MAX};
    struct store_conf store;
    struct fetch_conf fetch;
    lock_init(&r.lock, RANK_FETCH_QUEUE, "fetch bench");
    cond_init(&r.changed);
    r.pool = pool_new(MEMORY);
    store_conf_of(&o->store, &store);
    fetch_conf_defaults(&fetch);
    fetch.connections = (unsigned)o->connections;
    fetch.hedge = false; /* what the store gives, not what we make of it */
    int result = set_of(set, &source, err) || open_stores(&r, source, &store, err) ? -1 : 0;
    if (!result)
        result = fetch_new(&r.fetch, &fetch, err);
    if (!result)
        result = fetch_all(&r, source, o, err);
    run_release(&r);
    return result;
}
