/*
 * Units that no tier keeps, held for the readers that are in the midst of them.
 *
 * A read() is smaller than a unit, so a unit that went with the first of its reads would be fetched
 * once more for the next. One is held from its fill's end until all its bytes were handed out,
 * until it has to make way, or until nobody has read it for IDLE_NS; to everybody else it is
 * ABSENT. What is to be fetched ahead reserves its room, while half of it is free; what readers
 * wait for takes the place of what was not read for the longest time.
 *
 * Not so a block of a large sample. Readers of more such files than there is room for would each
 * take the place of the others' blocks, over and over, and have all of them fetched twice. So a
 * reader's block, too, reserves its room first, for which only what was not read for REST_NS makes
 * way; where there is none it is fetched alone, piece by piece as it is read, to its end: nothing
 * of it is held, and nothing is fetched twice.
 *
 *   invariant: held == the bytes of all in the list + those reserved; it fits the share, but for
 *              what was there when the pool became smaller
 *   invariant: while a reader is parked it makes way, unit by unit, so that it is never what a
 *              reader waits for (slots_make_way())
 */
#include "cache-internal.h"

#include "clock.h"

#define SHARE   2 /* of the pool: a half */
#define IDLE_NS (30 * NS_PER_S)
#define REST_NS (5 * NS_PER_S)

struct passing_unit {
    struct passing_unit *next;
    uint64_t unit;
    struct buf *buf;
    uint32_t len;
    uint64_t taken; /* bytes handed out */
    uint64_t used_ns;
};

void passing_init(struct cache *c)
{
    lock_init(&c->passing.lock, RANK_CACHE_TIER, "cache passing");
}

void passing_destroy(struct cache *c)
{
    passing_clear(c);
    lock_destroy(&c->passing.lock);
}

static uint64_t share(const struct cache *c)
{
    return pool_limit(c->conf.pool) / SHARE;
}

static struct passing_unit **find(struct passing *p, uint64_t unit)
{
    struct passing_unit **at = &p->oldest;
    while (*at && (*at)->unit != unit)
        at = &(*at)->next;
    return at;
}

static struct passing_unit *take_off(struct passing_unit **at)
{
    struct passing_unit *u = *at;
    *at = u->next;
    u->next = NULL;
    return u;
}

/* Takes it off for good: it goes into the list of those to be let go, without a lock. */
static void let_go(struct passing *p, struct passing_unit **at, struct passing_unit **gone)
{
    struct passing_unit *u = take_off(at);
    p->held -= u->len;
    atomic_fetch_sub(&p->in_pool, u->buf->cap);
    u->next = *gone;
    *gone = u;
}

static void come_down_to(struct passing *p, uint64_t most, struct passing_unit **gone)
{
    while (p->oldest && p->held > most)
        let_go(p, &p->oldest, gone);
}

static void append(struct passing *p, struct passing_unit *u)
{
    struct passing_unit **at = &p->oldest;
    while (*at)
        at = &(*at)->next;
    *at = u;
    u->used_ns = clock_mono_ns();
}

void passing_free(struct passing_unit *gone)
{
    for (struct passing_unit *u = gone, *next; u; u = next) {
        next = u->next;
        buf_unref(u->buf); /* may resume a parked reader */
        free(u);
    }
}

uint64_t cache_in_flight(struct cache *c)
{
    uint64_t used = pool_used(c->conf.pool), held = atomic_load(&c->passing.in_pool);
    return used > held ? used - held : 0;
}

bool passing_reserve(struct cache *c, uint32_t len, bool ahead)
{
    struct passing *p = &c->passing;
    struct passing_unit *gone = NULL;
    uint64_t most = ahead ? share(c) / 2 : share(c), now = clock_mono_ns();
    bool fits;
    {
        ACQUIRE(&p->lock);
        while (!ahead && p->held + len > most && p->oldest && p->oldest->used_ns + REST_NS <= now)
            let_go(p, &p->oldest, &gone);
        fits = p->held + len <= most;
        p->held += fits ? len : 0;
    }
    passing_free(gone);
    return fits;
}

void passing_give_back(struct cache *c, uint32_t len)
{
    ACQUIRE(&c->passing.lock);
    c->passing.held -= len;
}

/* Lock held. NULL: it is none of them. */
static struct passing_alone *find_alone(struct passing *p, uint64_t unit)
{
    for (unsigned i = 0; i < PASSING_ALONE; i++)
        if (p->alone[i].used_ns && p->alone[i].unit == unit)
            return &p->alone[i];
    return NULL;
}

bool passing_is_alone(struct cache *c, uint64_t unit)
{
    struct passing *p = &c->passing;
    ACQUIRE(&p->lock);
    const struct passing_alone *a = find_alone(p, unit);
    return a && clock_mono_ns() < a->used_ns + IDLE_NS;
}

void passing_alone(struct cache *c, uint64_t unit, bool ends)
{
    struct passing *p = &c->passing;
    ACQUIRE(&p->lock);
    struct passing_alone *a = find_alone(p, unit);
    if (!a && !ends)
        a = &p->alone[p->next_alone++ % PASSING_ALONE];
    if (a)
        *a = (struct passing_alone){unit, ends ? 0 : clock_mono_ns()};
}

struct passing_unit *passing_put(struct cache *c, struct fill *f, uint64_t taken)
{
    struct passing *p = &c->passing;
    struct passing_unit *gone = NULL;
    ACQUIRE(&p->lock);
    if (f->passes)
        p->held -= f->len;
    f->passes = false;
    if (taken >= f->len || f->len > share(c))
        return NULL;
    come_down_to(p, share(c) - f->len, &gone);
    if (p->held + f->len > share(c))
        return gone;
    struct passing_unit *u = xcalloc(1, sizeof *u);
    *u = (struct passing_unit){
        .unit = f->piece.unit, .buf = buf_ref(f->buf), .len = f->len, .taken = taken};
    p->held += u->len;
    atomic_fetch_add(&p->in_pool, u->buf->cap);
    append(p, u);
    return gone;
}

bool passing_find(struct cache *c, const struct piece *want, struct view *ret)
{
    struct passing *p = &c->passing;
    struct passing_unit *gone = NULL;
    {
        ACQUIRE(&p->lock);
        struct passing_unit **at = find(p, want->unit), *u = *at;
        if (!u)
            return false;
        buf_view(u->buf, u->len, want, ret);
        u->taken += ret->len;
        if (u->taken >= u->len)
            let_go(p, at, &gone);
        else
            append(p, take_off(at));
    }
    passing_free(gone);
    return true;
}

bool passing_has(struct cache *c, uint64_t unit)
{
    ACQUIRE(&c->passing.lock);
    return *find(&c->passing, unit) != NULL;
}

void passing_drop(struct cache *c, uint64_t unit)
{
    struct passing *p = &c->passing;
    struct passing_unit *gone = NULL;
    {
        ACQUIRE(&p->lock);
        struct passing_unit **at = find(p, unit);
        if (*at)
            let_go(p, at, &gone);
    }
    passing_free(gone);
}

/* Those that nobody has read since, or one of them; they lie in that order. False: none. */
static bool drop_unused_since(struct cache *c, uint64_t ns, bool one)
{
    struct passing *p = &c->passing;
    struct passing_unit *gone = NULL;
    {
        ACQUIRE(&p->lock);
        while (p->oldest && p->oldest->used_ns <= ns && !(one && gone))
            let_go(p, &p->oldest, &gone);
    }
    passing_free(gone);
    return gone != NULL;
}

void passing_clear(struct cache *c)
{
    drop_unused_since(c, UINT64_MAX, false);
}

void cache_pool_shrank(struct cache *c)
{
    struct passing_unit *gone = NULL;
    {
        ACQUIRE(&c->passing.lock);
        come_down_to(&c->passing, share(c), &gone);
    }
    passing_free(gone);
    pool_trim(c->conf.pool);
}

bool passing_make_way(struct cache *c)
{
    return drop_unused_since(c, UINT64_MAX, true);
}

void passing_expire(struct cache *c)
{
    uint64_t now = clock_mono_ns();
    if (now > IDLE_NS)
        drop_unused_since(c, now - IDLE_NS, false);
}
