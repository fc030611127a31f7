/* The layer that asks other machines first: see peer.h; states and who moves them: peer-internal.h.
 */
#define LOG_MODULE "fetch"
#include "peer-internal.h"

#include <assert.h>
#include <string.h>

void layer_enter(struct peer_layer *l)
{
    l->under_way++;
}

void layer_leave(struct peer_layer *l)
{
    ACQUIRE(&l->lock);
    if (--l->under_way == 0)
        cond_broadcast(&l->idle);
}

/* --- an ask's life ---------------------------------------------------------------------------- */

static struct ask *ask_new(struct peer_layer *l, const struct piece *p, const struct unit_info *row,
                           struct source_wait *wait)
{
    struct ask *a = xcalloc(1, sizeof *a);
    struct unit_span fetched = piece_fetched(p, row->len);
    *a = (struct ask){.layer = l,
                      .wait = wait,
                      .piece = *p,
                      .sample = row->sample,
                      .off = fetched.off,
                      .len = fetched.len,
                      .sample_off = (uint64_t)row->block * UNIT_BYTES + fetched.off,
                      .refs = 1};
    a->piece.row = NULL;
    buf_ref(p->into);
    return a;
}

static void ask_free(struct ask *a)
{
    if (a->peer)
        peer_unref(a->peer);
    buf_unref(a->piece.into);
    buf_unref(a->scratch);
    if (a->catalog)
        catalog_unref(a->catalog);
    free(a->why);
    free(a);
}

/* One side of it has ended. */
static void ask_put(struct ask *a)
{
    struct peer_layer *l = a->layer;
    {
        ACQUIRE(&l->lock);
        if (--a->refs)
            return;
    }
    ask_free(a);
    layer_leave(l);
}

static void release_into(struct view *v)
{
    buf_unref(v->owner);
}

static void answer_good(struct ask *a, enum origin from)
{
    struct buf *into = a->piece.into;
    uint32_t off = a->piece.off - a->off < a->len ? a->piece.off - a->off : a->len;
    uint32_t room = a->len - off;
    into->len = a->len;
    struct view v = {.ptr = into->data + off,
                     .len = a->piece.len < room ? a->piece.len : room,
                     .origin = from,
                     .release = release_into,
                     .owner = buf_ref(into)};
    a->wait->done(a->wait, &v, NULL);
}

/* True: the caller is the one to answer. */
static bool take_answer(struct ask *a)
{
    ACQUIRE(&a->layer->lock);
    bool first = !a->answered;
    a->answered = true;
    return first;
}

bool ask_is_wanted(struct ask *a)
{
    return !a->taken;
}

void ask_good(struct ask *a)
{
    if (take_answer(a))
        answer_good(a, FROM_PEER);
    ask_put(a);
}

/* One side of a hedged ask failed: the other one may still do it. Which of the two is the last is
 * told by `failed`, not by the references: the first one may still have its own. `why`: the
 * store's, whose word it is whichever is the last; NULL: the machine's side. */
static void side_failed(struct ask *a, const struct err *why)
{
    bool last;
    {
        ACQUIRE(&a->layer->lock);
        last = !a->answered && a->failed;
        a->failed = true;
        if (why) {
            a->why = xmalloc(sizeof *a->why);
            *a->why = *why;
        }
    }
    if (last)
        a->wait->done(a->wait, NULL, a->why);
    ask_put(a);
}

bool ask_given_up(const struct ask *a)
{
    return !a->hedged && source_given_up(a->piece.given_up);
}

static void ask_cancel(struct ask *a)
{
    struct err err = {0};
    err_given_up(&err);
    a->wait->done(a->wait, NULL, &err);
    ask_put(a);
}

/* --- the store -------------------------------------------------------------------------------- */

/* From here on the read is the store's alone. */
static void to_store(struct ask *a)
{
    struct source *inner = a->layer->source.inner;
    struct source_wait *wait = a->wait;
    struct view view = {0};
    struct err err = {0};
    int rc = source_read(inner, &a->piece, &view, wait, &err);
    if (rc == 0)
        wait->done(wait, &view, NULL);
    else if (rc == -1)
        wait->done(wait, NULL, &err);
    ask_put(a);
}

static void store_came(struct ask *a, struct view *view)
{
    struct peer_layer *l = a->layer;
    bool ours = take_answer(a);
    if (ours) {
        {
            ACQUIRE(&l->copy);
            a->taken = true;
        }
        memcpy(a->piece.into->data, view->ptr, view->len);
    }
    view_release(view);
    if (ours)
        answer_good(a, FROM_STORE);
    ask_put(a);
}

static void store_done(struct source_wait *wait, struct view *view, const struct err *err)
{
    struct ask *a = (struct ask *)(void *)((char *)wait - offsetof(struct ask, store_wait));
    if (err)
        side_failed(a, err);
    else
        store_came(a, view);
}

void ask_hedge(struct ask *a)
{
    struct view view = {0};
    struct err err = {0};
    struct piece p = a->piece;
    p.into = a->scratch;
    p.off = a->off;
    p.len = a->len;
    p.given_up = NULL; /* the token may be gone before this side has ended */
    a->store_wait.done = store_done;
    int rc = source_read(a->layer->source.inner, &p, &view, &a->store_wait, &err);
    if (rc == 0)
        store_came(a, &view);
    else if (rc == -1)
        side_failed(a, &err);
}

/* --- whom to ask ------------------------------------------------------------------------------ */

/* Lock held. The next candidate that can be asked, or NULL. */
static struct peer *choose(struct ask *a)
{
    const struct catalog_info *version = catalog_info(a->piece.catalog);
    if (a->layer->ids != version->ids || strcmp(a->layer->version, version->digest) != 0) {
        memcpy(a->layer->version, version->digest, sizeof a->layer->version);
        a->layer->ids = version->ids;
    }
    while (a->next_candidate < a->n_candidates) {
        struct peer *p = peer_of(a->layer, a->candidates[a->next_candidate++]);
        if (p && peer_usable(p, version))
            return p;
    }
    return NULL;
}

/* Lock held. */
static void enqueue(struct ask *a, struct peer *p)
{
    unsigned which = a->piece.prio != PRIO_READER;
    a->peer = p;
    peer_ref(p);
    a->crc = 0;
    a->read_ns = clock_mono_ns();
    a->next = NULL;
    *p->end[which] = a;
    p->end[which] = &a->next;
    if (!which)
        hedge_request(&p->hedge);
}

/* Queues it at a machine. False: there is none to ask, or no need to. */
static bool try_peers(struct ask *a)
{
    struct peer_layer *l = a->layer;
    struct peer *p;
    {
        ACQUIRE(&l->lock);
        p = l->stop || ask_given_up(a) ? NULL : choose(a);
        if (!p)
            return false;
        enqueue(a, p);
        peer_ref(p); /* `a` may be gone soon */
    }
    requests_start(p);
    peer_unref(p);
    return true;
}

void ask_next(struct ask *a, const struct err *why)
{
    struct peer_layer *l = a->layer;
    struct peer *before = NULL;
    bool hedged;
    {
        ACQUIRE(&l->lock);
        hedged = a->hedged;
        if (!hedged)
            before = take_ptr(&a->peer);
    }
    if (hedged) {
        side_failed(a, NULL);
        return;
    }
    if (before)
        peer_unref(before);
    if (ask_given_up(a)) {
        ask_cancel(a);
    } else if (why && why->class == ERR_CANCELLED) {
        a->wait->done(a->wait, NULL, why);
        ask_put(a);
    } else if (!try_peers(a)) {
        to_store(a);
    }
}

/* --- the source ------------------------------------------------------------------------------- */

static int ask_peers(struct peer_layer *l, const struct piece *p, const struct unit_info *row,
                     struct source_wait *wait)
{
    uint32_t owners[PEER_CANDIDATES];
    size_t n = row->len ? l->conf.owners(l->conf.arg, row->sample, owners, PEER_CANDIDATES) : 0;
    if (!n || piece_fetched(p, row->len).len > p->into->cap)
        return 0;
    struct ask *a = ask_new(l, p, row, wait);
    memcpy(a->candidates, owners, n * sizeof *owners);
    a->n_candidates = n;
    {
        ACQUIRE(&l->lock);
        layer_enter(l);
    }
    if (try_peers(a))
        return SOURCE_PENDING;
    ask_put(a);
    return 0;
}

static int layer_read(struct source *s, const struct piece *p, struct view *ret,
                      struct source_wait *wait, struct err *err)
{
    struct peer_layer *l = (struct peer_layer *)(void *)s;
    if (!atomic_load_explicit(&l->on, memory_order_relaxed) || !p->into)
        return source_read(s->inner, p, ret, wait, err);
    struct unit_info own = {0};
    struct piece with_row = *p;
    if (!p->row) {
        if (catalog_unit(p->catalog, p->unit, &own, err))
            return -1;
        with_row.row = &own;
    }
    int rc = ask_peers(l, p, with_row.row, wait);
    if (!rc)
        rc = source_read(s->inner, &with_row, ret, wait, err);
    unit_info_release(&own);
    return rc;
}

/* Lock held. A read that waits as prefetch is a reader's from now on. */
static bool raise_queued(struct peer *p, const void *into, enum prio prio)
{
    for (struct ask **at = &p->first[1]; *at; at = &(*at)->next) {
        struct ask *a = *at;
        if (a->piece.into != into)
            continue;
        if (prio != PRIO_READER)
            return true;
        *at = a->next;
        if (!*at)
            p->end[1] = at;
        a->piece.prio = prio;
        a->next = NULL;
        *p->end[0] = a;
        p->end[0] = &a->next;
        return true;
    }
    return false;
}

static void layer_raise(struct source *s, const struct piece *piece)
{
    struct peer_layer *l = (struct peer_layer *)(void *)s;
    struct peer *found = NULL;
    bool sent;
    {
        ACQUIRE(&l->lock);
        sent = requests_raise(l, piece->into, piece->prio);
        for (size_t i = 0; i < l->n_peers && !found && !sent; i++)
            if (l->peers[i] && raise_queued(l->peers[i], piece->into, piece->prio))
                found = l->peers[i];
        if (found)
            peer_ref(found);
    }
    if (found) {
        requests_start(found);
        peer_unref(found);
    } else if (!sent && s->inner->ops->raise) {
        s->inner->ops->raise(s->inner, piece);
    }
}

/* Lock held. Moves those that wait and were given up to `taken`. */
static void take_given_up(struct peer *p, struct ask **taken)
{
    for (unsigned which = 0; which < 2; which++) {
        struct ask **at = &p->first[which];
        while (*at) {
            struct ask *a = *at;
            if (!ask_given_up(a)) {
                at = &a->next;
                continue;
            }
            *at = a->next;
            a->next = *taken;
            *taken = a;
        }
        p->end[which] = at;
    }
}

static void layer_give_up(struct source *s)
{
    struct peer_layer *l = (struct peer_layer *)(void *)s;
    struct ask *taken = NULL;
    struct fetch *f;
    {
        ACQUIRE(&l->lock);
        for (size_t i = 0; i < l->n_peers; i++)
            if (l->peers[i])
                take_given_up(l->peers[i], &taken);
        requests_give_up(l);
        f = l->fetch;
    }
    while (taken) {
        struct ask *a = taken;
        taken = a->next;
        ask_cancel(a);
    }
    if (f)
        fetch_give_up(f);
    source_give_up(s->inner);
}

static void layer_drop(struct source *s, uint64_t unit)
{
    if (s->inner->ops->drop)
        s->inner->ops->drop(s->inner, unit);
}

void peer_stop(struct source *s)
{
    struct peer_layer *l = (struct peer_layer *)(void *)s;
    struct fetch *f;
    watch_stop(l);
    {
        ACQUIRE(&l->lock);
        f = l->fetch;
    }
    if (f)
        fetch_stop(f);
}

static void layer_close(struct source *s)
{
    struct peer_layer *l = (struct peer_layer *)(void *)s;
    peer_stop(s);
    peers_drop_all(l);
    {
        ACQUIRE(&l->lock);
        while (l->under_way)
            cond_wait(&l->idle, &l->lock);
    }
    fetch_free(l->fetch);
    if (l->service_store)
        store_close(l->service_store);
    pool_free(l->scratches);
    cond_destroy(&l->wake);
    cond_destroy(&l->idle);
    lock_destroy(&l->lock);
    lock_destroy(&l->copy);
    secret_release(&l->token);
    free(l->token_file);
    free(l->service);
    free(l->list);
    free(l);
}

static const struct source_ops peer_ops = {
    .name = "peer",
    .read = layer_read,
    .drop = layer_drop,
    .close = layer_close,
    .raise = layer_raise,
    .give_up = layer_give_up,
};

int peer_source_new(struct source **ret, const struct peer_conf *conf, struct source *inner,
                    struct err *err)
{
    (void)err;
    struct peer_layer *l = xcalloc(1, sizeof *l);
    l->source.ops = &peer_ops;
    l->source.inner = inner;
    l->conf = *conf;
    l->scratches = pool_new(SCRATCH_MAX);
    lock_init(&l->lock, RANK_FETCH_QUEUE, "fetch-peers");
    lock_init(&l->copy, RANK_FETCH_QUEUE + 1, "fetch-peers-copy");
    cond_init(&l->wake);
    cond_init(&l->idle);
    *ret = &l->source;
    return 0;
}
