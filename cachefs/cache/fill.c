/*
 * Units on their way in: one flight a unit.
 *
 * A fill is listed in its stripe from the moment a reader leads until it failed, was not kept, or
 * its bytes are in a pack; others join its waiters while it runs and read its buffer once it is
 * ready.
 *
 *   fill_lead()   nothing -> RUNNING         the leader is its first waiter; the layer below is
 *                                            asked
 *   came()        RUNNING -> READY, listed   a tier has reserved room: the writer gets it
 *                 RUNNING -> gone            an error, or no tier keeps it: it passes (passing.c)
 *                 RUNNING -> gone            given up by all that waited, and ended for that
 *   publish()     READY -> gone              (writer.c) the index entry is set in the same hold of
 *                                            the lock
 *
 * A piece that is fetched alone (passing.c) is listed nowhere, and goes with its answer.
 * Who finds no room for a fill: slots.c.
 */
#include "cache-internal.h"

#include <errno.h>
#include <string.h>

struct fill *fill_find(struct stripe *s, uint64_t unit)
{
    for (struct fill *f = s->fills; f; f = f->next)
        if (f->piece.unit == unit)
            return f;
    return NULL;
}

void fill_unlist(struct stripe *s, struct fill *f)
{
    struct fill **at = &s->fills;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
}

struct waiter *waiter_new(const struct piece *p, struct source_wait *wait, bool ahead)
{
    struct waiter *w = xcalloc(1, sizeof *w);
    w->piece = *p;
    w->wait = wait;
    w->ahead = ahead;
    return w;
}

void fill_join(struct fill *f, const struct piece *p, struct source_wait *wait, bool ahead)
{
    struct waiter *w = waiter_new(p, wait, ahead);
    w->next = f->waiters;
    f->waiters = w;
}

void fill_unref(struct fill *f)
{
    if (atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) > 1)
        return;
    catalog_unref(f->piece.catalog);
    buf_unref(f->buf); /* may resume a parked reader */
    slots_give(f, true);
}

/* Does a unit begin with a page? A large one does, since it is written past the page cache. */
static uint32_t paged(const struct cache *c, uint32_t raw)
{
    bool fits = raw >= PAGED_LEAST && atomic_load(&c->roomy);
    return fits || raw >= LARGE_BYTES ? UNIT_PAGED : 0;
}

struct fill *fill_carried(struct tier *t, uint64_t unit, const struct place *was)
{
    struct fill *f = slots_take(t->c, true /* ahead */, false);
    if (!f)
        return NULL;
    f->piece = (struct piece){.unit = unit, .prio = PRIO_PREFETCH};
    f->state = FILL_READY;
    f->tier = t;
    f->paged = paged(t->c, was->raw) & was->flags; /* no larger than it was */
    f->reserved = reservation(was->raw, f->paged);
    f->len = was->raw;
    f->first = was->flags & UNIT_FIRST;
    f->was = *was;
    f->carried = true;
    f->buf = pool_get(t->c->conf.pool, was->raw);
    if (f->buf)
        return f;
    slots_give(f, true);
    return NULL;
}

/* --- answering ------------------------------------------------------------------------------- */

static void release_buf(struct view *v)
{
    buf_unref(v->owner);
}

void buf_view(struct buf *b, uint32_t len, const struct piece *p, struct view *ret)
{
    struct unit_span span = piece_span(p, len);
    *ret = (struct view){.ptr = b->data + span.off,
                         .len = span.len,
                         .origin = FROM_MEM,
                         .release = release_buf,
                         .owner = buf_ref(b)};
}

static void answer_all(struct fill *f, struct waiter *list, enum origin from, const struct err *err)
{
    for (struct waiter *w = list, *next; w; w = next) {
        next = w->next;
        struct view view = {0};
        if (!err && !w->ahead) {
            buf_view(f->buf, f->len, &w->piece, &view);
            view.origin = from;
        }
        w->wait->done(w->wait, err || w->ahead ? NULL : &view, err);
        free(w);
    }
}

/* The fill that they waited for ended before they had a chance: readers are parked and try again,
 * work ahead of readers is refused. `leader` (or NULL) is told by others: was it among them? */
static bool begin_anew(struct cache *c, struct waiter *list, const struct source_wait *leader,
                       const char *why)
{
    bool led = false;
    for (struct waiter *w = list, *next; w; w = next) {
        next = w->next;
        struct err err = {0};
        if (w->wait == leader) {
            led = true;
        } else if (!w->ahead) {
            slots_park(c, &w->piece, w->wait);
        } else {
            err_set(&err, ERR_LIMIT, "%s", why);
            w->wait->done(w->wait, NULL, &err);
        }
        free(w);
    }
    return led;
}

/* --- the flight ------------------------------------------------------------------------------ */

/* The bytes are in f->buf, or it is an error. */
static int check_bytes(struct fill *f, const struct view *v, struct err *err)
{
    if (v->len != f->len)
        return err_set(err, ERR_CORRUPT, "unit %llu: the source gave %zu bytes, want %u",
                       (unsigned long long)f->piece.unit, v->len, f->len);
    if (v->len && v->ptr != f->buf->data)
        memcpy(f->buf->data, v->ptr, v->len);
    f->buf->len = v->len;
    return 0;
}

/* Reserves room in a tier, and in the index. */
static bool find_tier(struct fill *f)
{
    struct cache *c = f->c;
    f->paged = paged(c, f->len);
    f->reserved = reservation(f->len, f->paged);
    if (index_cover(&c->index, f->piece.unit) == 0)
        f->tier = tier_choose(c, f->reserved, cache_pinned(c, f->piece.unit));
    return f->tier != NULL;
}

/* So many bytes of it are what these readers wait for. */
static uint64_t bytes_taken(const struct fill *f, const struct waiter *list)
{
    uint64_t sum = 0;
    for (const struct waiter *w = list; w; w = w->next)
        sum += w->ahead ? 0 : piece_span(&w->piece, f->len).len;
    return sum;
}

static void end_passage(struct fill *f)
{
    if (f->passes)
        passing_give_back(f->c, f->len);
    f->passes = false;
}

static void give_room_back(struct fill *f)
{
    end_passage(f);
    if (f->tier)
        tier_settle(f->tier, f->reserved, 0);
    f->tier = NULL;
}

/* The bytes are in f->buf and the view is released, or it is an error. */
static int take_in(struct fill *f, struct view *view, const struct err *failed, struct err *err)
{
    if (failed)
        *err = *failed;
    if (!view)
        return -1;
    int rc = check_bytes(f, view, err);
    view_release(view);
    return rc;
}

/* One piece, for the one that leads. */
static void came_alone(struct fill *f, struct view *view, const struct err *failed)
{
    struct err err = {0};
    enum origin from = view ? view->origin : FROM_STORE;
    int rc = take_in(f, view, failed, &err);
    if (rc == 0)
        counter_add(&f->c->counts->not_kept, 1);
    answer_all(f, take_ptr(&f->waiters), from, rc ? &err : NULL);
    fill_unref(f);
}

static void came(struct fill *f, struct view *view, const struct err *failed)
{
    struct cache *c = f->c;
    if (f->piece.alone) {
        came_alone(f, view, failed);
        return;
    }
    struct err err = {0};
    enum origin from = view ? view->origin : FROM_STORE;
    bool bad = take_in(f, view, failed, &err) != 0;
    if (!bad && !f->tier)
        find_tier(f);

    struct passing_unit *gone = NULL;
    struct stripe *s = stripe_of(c, f->piece.unit);
    struct waiter *waiters;
    bool keep, given_up = bad && err.class == ERR_CANCELLED && atomic_load(&f->given_up);
    {
        ACQUIRE(&s->lock);
        waiters = take_ptr(&f->waiters);
        f->unwanted |= guests_have(c, f->piece.unit);
        keep = !bad && f->tier && !f->unwanted;
        f->state = FILL_READY;
        if (keep)
            atomic_fetch_add(&f->refs, 1);
        else
            fill_unlist(s, f);
        if (!keep && !bad && !f->unwanted)
            gone = passing_put(c, f, bytes_taken(f, waiters));
    }
    passing_free(gone);
    end_passage(f);
    if (!keep)
        give_room_back(f);
    if (!keep)
        slots_make_way(c);
    if (!bad && !keep)
        counter_add(&c->counts->not_kept, 1);
    if (keep)
        writer_push(f->tier, f); /* first: a flush that follows an answer waits for this unit too */
    if (given_up) {
        fill_unref(f); /* first: its slot and its memory may be what they need */
        begin_anew(c, waiters, NULL, "another's fetch of it was cancelled just now");
        return;
    }
    answer_all(f, waiters, from, bad ? &err : NULL);
    fill_unref(f);
}

static void inner_done(struct source_wait *wait, struct view *view, const struct err *err)
{
    came((struct fill *)(void *)wait, err ? NULL : view, err);
}

/* The inner layer refused at once: the leader is told by the return value, all others try anew.
 * False: the leader was given up meanwhile, and has had its answer. */
static bool refused(struct fill *f, const struct source_wait *leader)
{
    struct cache *c = f->c;
    struct stripe *s = stripe_of(c, f->piece.unit);
    struct waiter *waiters;
    {
        ACQUIRE(&s->lock);
        waiters = take_ptr(&f->waiters);
        if (!f->piece.alone)
            fill_unlist(s, f);
    }
    give_room_back(f);
    fill_unref(f);
    return begin_anew(c, waiters, leader, "the queue below the cache is full");
}

static int ask_inner(struct fill *f, const struct unit_info *row, struct source_wait *leader,
                     struct err *err)
{
    struct source *inner = f->c->source.inner;
    struct view view = {0};
    struct err failed = {0};
    f->wait.done = inner_done;
    if (f->len == 0) { /* nothing to ask for */
        view.origin = FROM_STORE;
        came(f, &view, NULL);
        return SOURCE_PENDING;
    }
    struct piece asked = f->piece;
    asked.row = row;
    if (!asked.alone)
        asked.given_up = &f->given_up;
    int rc = source_read(inner, &asked, &view, &f->wait, &failed);
    if (rc == 0)
        came(f, &view, NULL);
    if (rc >= 0 || !refused(f, leader))
        return SOURCE_PENDING;
    if (err)
        *err = failed;
    return -1;
}

/* What the catalog says of the unit. */
static int unit_facts(const struct piece *p, struct unit_info *ret, struct err *err)
{
    if (catalog_unit(p->catalog, p->unit, ret, err))
        return -1;
    if (ret->len > UNIT_BYTES)
        return err_set(err, ERR_BUG, "unit %llu has %u bytes", (unsigned long long)p->unit,
                       ret->len);
    return 0;
}

/* What is fetched ahead stays until a reader comes, or is not fetched. */
static bool find_room(struct fill *f)
{
    if (find_tier(f))
        return true;
    f->passes = !f->piece.if_kept && !passing_is_alone(f->c, f->piece.unit) &&
                passing_reserve(f->c, f->len, true);
    return f->passes;
}

static bool find_room_for_block(struct fill *f)
{
    if (passing_is_alone(f->c, f->piece.unit))
        return false;
    f->passes = passing_reserve(f->c, f->len, false);
    return f->passes || find_tier(f);
}

/* Only what the reader wants of the block is fetched. */
static void cut_to_piece(struct fill *f)
{
    struct unit_span span = piece_span(&f->piece, f->len);
    passing_alone(f->c, f->piece.unit, span.off + span.len == f->len);
    f->piece.alone = true;
    f->len = span.len;
}

static int get_buffer(struct cache *c, struct fill *f, bool ahead, struct err *err)
{
    struct pool *pool = c->conf.pool;
    size_t want = f->len + f->len / 8 + 512; /* classes round up */
    if (want > pool_limit(pool))
        return err_set(err, ERR_LIMIT,
                       "a unit of %u bytes: the memory for samples is %zu bytes "
                       "(raise --memory)",
                       f->len, pool_limit(pool));
    uint64_t used = cache_in_flight(c);
    if (ahead && used && used + want > pool_limit(pool) / 4 * 3)
        return LEAD_NO_ROOM;
    f->buf = pool_get(pool, f->len ? f->len : 1);
    if (f->buf)
        return 0;
    return errno == ENOMEM ? cache_no_memory(f->len, err) : LEAD_NO_ROOM;
}

/* Lists the fill with its first waiter, unless somebody was faster. */
static bool list_fill(struct fill *f, const struct piece *p, struct source_wait *wait, bool ahead)
{
    struct cache *c = f->c;
    struct stripe *s = stripe_of(c, p->unit);
    struct place e;
    f->piece.off = 0;
    f->piece.len = f->len;
    f->piece.into = f->buf;
    f->piece.row = NULL;
    f->piece.given_up = NULL;
    ACQUIRE(&s->lock);
    if (guests_have(c, p->unit) || fill_find(s, p->unit) ||
        (place_load(c, p->unit, &e) && (e.flags & UNIT_IN_PACK)) ||
        (!p->if_kept && passing_has(c, p->unit)))
        return false;
    fill_join(f, p, wait, ahead);
    catalog_ref(f->piece.catalog); /* who is taken back lets go of its own */
    f->prio = p->prio;
    f->next = s->fills;
    s->fills = f;
    return true;
}

/* Nobody else can wait for it: it is in no list. */
static void begin_alone(struct fill *f, struct source_wait *wait)
{
    struct piece from_start = f->piece;
    from_start.off = 0; /* in the buffer */
    fill_join(f, &from_start, wait, false);
    catalog_ref(f->piece.catalog);
    f->piece.into = f->buf;
    f->piece.row = NULL;
}

static void cleanup_unit_info_fn(struct unit_info *u)
{
    unit_info_release(u);
}
#define cleanup_unit_info CLEANUP(cleanup_unit_info_fn)

int fill_lead(struct cache *c, const struct piece *p, struct source_wait *wait, bool ahead,
              bool resumed, struct err *err)
{
    cleanup_unit_info struct unit_info row = {0};
    if (!c->source.inner)
        return err_set(err, ERR_NOT_FOUND, "unit %llu is not cached", (unsigned long long)p->unit);
    /* Before room is looked for: who asks another version when this one does not know the unit must
     * be told at once, not once it was parked. */
    if (unit_facts(p, &row, err))
        return -1;
    struct fill *f = slots_take(c, ahead, resumed);
    if (!f)
        return LEAD_NO_ROOM;
    f->piece = *p;
    f->len = row.len;
    f->first = row.block == 0;
    int rc = 0;
    if (ahead)
        rc = find_room(f) ? 0 : LEAD_NOT_KEPT;
    else if (p->alone || (row.size > UNIT_BYTES && !find_room_for_block(f)))
        cut_to_piece(f);
    if (rc == 0)
        rc = get_buffer(c, f, ahead, err);
    if (rc == 0 && f->piece.alone)
        begin_alone(f, wait);
    else if (rc == 0 && !list_fill(f, p, wait, ahead))
        rc = LEAD_LOST;
    if (rc) {
        give_room_back(f);
        buf_unref(f->buf);
        f->buf = NULL;
        slots_give(f, !(rc == LEAD_NO_ROOM && resumed)); /* that one stays first in line */
        return rc;
    }
    counter_add(&c->counts->misses, 1);
    return ask_inner(f, &row, wait, err);
}
