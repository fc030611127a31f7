/* The bottom layer of the data path: units of the catalog, read from their sources' stores. */
#include <assert.h>
#include <string.h>

#include "fetch.h"
#include "gather-internal.h"
#include "mem.h"
#include "older-internal.h"
#include "same-internal.h"
#include "sync.h"

#define GATHERED_MAX (256u << 10) /* a larger sample is worth a request of its own */

struct store_layer {
    struct source source; /* first: the layer is a source */
    struct fetch *fetch;
    struct gather *gather;
    struct older *older;
    struct store **stores;
    size_t n_stores;
    struct lock lock;
    struct cond idle;
    size_t under_way; /* lock */
};

/* One read, from the call to done(). */
struct store_read {
    struct store_layer *layer;
    struct source_wait *wait;
    struct buf *into;
    struct unit_span fetched; /* of the unit; `into` holds it */
    uint32_t off, len;        /* of that, what is asked for */
    struct fetch_get get;     /* what was asked for; key and etag point into `text` */
    bool older;               /* and an older version of it since */
    bool asked;               /* whether the object still is what the catalog says */
    char text[];
};

static void view_unref(struct view *v)
{
    buf_unref(v->owner);
}

static void count(struct store_layer *l, int change)
{
    ACQUIRE(&l->lock);
    l->under_way += (size_t)change;
    if (l->under_way == 0)
        cond_broadcast(&l->idle);
}

/* A piece of the `got` bytes in `into`. */
static struct view view_of(struct buf *into, uint32_t got, uint32_t off, uint32_t len)
{
    into->len = got;
    uint32_t start = off < got ? off : got;
    return (struct view){.ptr = into->data + start,
                         .len = len < got - start ? len : got - start,
                         .origin = FROM_STORE,
                         .release = view_unref,
                         .owner = into};
}

static void on_done(void *arg, const struct err *err)
{
    struct store_read *r = arg;
    struct store_layer *layer = r->layer;
    if (err && err->class == ERR_STALE && !r->older && older_may_be(layer->older, &r->get)) {
        r->older = true;
        older_get(layer->older, &r->get, err);
        return;
    }
    if (!err && !r->asked && same_must_be_asked(&r->get)) {
        r->asked = true;
        same_ask(layer->fetch, &r->get);
        return;
    }
    if (err) {
        buf_unref(r->into);
        r->wait->done(r->wait, NULL, err);
    } else {
        struct view v = view_of(r->into, r->fetched.len, r->off, r->len);
        r->wait->done(r->wait, &v, NULL);
    }
    free(r);
    count(layer, -1);
}

static int check_unit(const struct store_layer *l, const struct piece *p,
                      const struct unit_info *unit, struct err *err)
{
    if (unit->source >= l->n_stores)
        return err_set(err, ERR_CORRUPT, "the catalog names source %u of %zu (scan again)",
                       unit->source, l->n_stores);
    if (piece_fetched(p, unit->len).len > p->into->cap)
        return err_set(err, ERR_CORRUPT, "the catalog gives unit %llu %u bytes (scan again)",
                       (unsigned long long)p->unit, unit->len);
    return 0;
}

static int start(struct store_layer *l, const struct piece *p, const struct unit_info *unit,
                 struct source_wait *wait, struct err *err)
{
    struct unit_span fetched = piece_fetched(p, unit->len);
    size_t etag_len = strlen(unit->etag);
    struct store_read *r = xmalloc(sizeof *r + unit->key.len + 1 + etag_len + 1);
    *r = (struct store_read){.layer = l,
                             .wait = wait,
                             .into = buf_ref(p->into),
                             .fetched = fetched,
                             .off = p->off - fetched.off,
                             .len = p->len};
    /* A packed sample's sum is that of the whole sample. */
    bool summed = unit->packed && fetched.len == unit->size && store_etag_is_sum(unit->etag);
    const struct fetch_get g = {
        .store = l->stores[unit->source],
        .key = unit->key.data,
        .key_len = unit->key.len,
        .off = unit->pack_offset + unit->offset + fetched.off,
        .len = fetched.len,
        .object_size = unit->packed ? FETCH_SIZE_UNKNOWN : unit->size,
        .mtime_ns = unit->packed ? 0 : unit->mtime_ns,
        .etag = unit->packed && !summed ? "" : unit->etag,
        .sum_of_range = summed,
        .dest = p->into->data,
        .prio = p->prio,
        .done = on_done,
        .arg = r,
        .given_up = p->given_up,
    };
    r->get = g;
    r->get.key = memcpy(r->text, unit->key.data, unit->key.len + 1);
    r->get.etag = memcpy(r->text + unit->key.len + 1, g.etag, strlen(g.etag) + 1);
    count(l, +1);
    if (unit->packed && p->prio != PRIO_READER && unit->len <= GATHERED_MAX) {
        gather_add(l->gather, &g);
        return SOURCE_PENDING;
    }
    if (fetch_get(l->fetch, &g, err) == 0)
        return SOURCE_PENDING;
    buf_unref(r->into);
    free(r);
    count(l, -1);
    return -1;
}

static int store_read(struct source *s, const struct piece *p, struct view *ret,
                      struct source_wait *wait, struct err *err)
{
    struct store_layer *l = (struct store_layer *)s;
    assert(p->into); /* fetch allocates no body: the layer above brings the memory */
    struct unit_info own = {0};
    const struct unit_info *unit = p->row ? p->row : &own;
    if (!p->row && catalog_unit(p->catalog, p->unit, &own, err))
        return -1;
    int result = check_unit(l, p, unit, err);
    if (result == 0 && unit->len == 0)
        *ret = view_of(buf_ref(p->into), 0, 0, 0);
    else if (result == 0)
        result = start(l, p, unit, wait, err);
    unit_info_release(&own);
    return result;
}

static void store_raise(struct source *s, const struct piece *p)
{
    const struct store_layer *l = (const struct store_layer *)s;
    if (p->into)
        gather_raise(l->gather, p->into->data, p->prio);
}

static void store_give_up(struct source *s)
{
    const struct store_layer *l = (const struct store_layer *)s;
    gather_give_up(l->gather);
}

static void store_layer_close(struct source *s)
{
    struct store_layer *l = (struct store_layer *)s;
    {
        ACQUIRE(&l->lock);
        while (l->under_way)
            cond_wait(&l->idle, &l->lock);
    }
    gather_free(l->gather);
    older_free(l->older);
    cond_destroy(&l->idle);
    lock_destroy(&l->lock);
    free(l->stores);
    free(l);
}

static const struct source_ops store_ops = {
    .name = "store",
    .read = store_read,
    .close = store_layer_close,
    .raise = store_raise,
    .give_up = store_give_up,
};

int fetch_source_new(struct source **ret, struct fetch *f, struct store *const *stores, size_t n,
                     struct err *err)
{
    if (n == 0)
        return err_set(err, ERR_BUG, "a data path without stores");
    struct store_layer *l = xcalloc(1, sizeof *l);
    l->source.ops = &store_ops;
    l->fetch = f;
    l->stores = xcalloc(n, sizeof *l->stores);
    memcpy(l->stores, stores, n * sizeof *l->stores);
    l->n_stores = n;
    l->gather = gather_new(f);
    l->older = older_new(f);
    lock_init(&l->lock, RANK_FETCH_QUEUE, "fetch-layer");
    cond_init(&l->idle);
    *ret = &l->source;
    return 0;
}
