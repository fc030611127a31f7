/*
 * After a restart: what the index says is compared with the packs, behind what is served.
 *
 * An index that may be believed as a whole (recover.c) holds entries that nobody has looked at:
 * each must name a record in a pack that is there, and the counts (`live` of the packs, units,
 * bytes, samples) are those of all entries. Doing that before the first read would take time that
 * grows with the number of cached units, and readers wait. So a page of the index is settled when
 * it is first used, by whoever holds its stripe, and the others by the tiers' writers, in steps;
 * whoever needs the sums does at once what is left.
 *
 *   a page of the index   its entries                      counted   who may use them
 *   not settled           as the last life left them       no        nobody
 *   settled               each lies in a pack of a tier    yes       who holds the stripe
 *   bad                   can't be read: the disk          no        nobody: nothing is known there
 *
 * place_load() is the way to an entry, and settles its page; each_place() settles all before.
 */
#include "cache-internal.h"

#define LOG_MODULE "cache"
#include "log.h"

#define STEP_PAGES 256u /* 1 MiB of the index: a millisecond or two */

void settle_init(struct cache *c)
{
    lock_init(&c->settling.lock, RANK_CACHE_SETTLE, "cache settling");
    atomic_store(&c->settling.over, true);
}

void settle_begin(struct cache *c)
{
    struct settling *s = &c->settling;
    s->pages = (atomic_load(&c->index.n_units) + PAGE_ENTRIES - 1) / PAGE_ENTRIES;
    s->done = xcalloc(s->pages / 64 + 1, sizeof *s->done);
    s->bad = xcalloc(s->pages / 64 + 1, sizeof *s->bad);
    atomic_store(&s->over, false);
}

void settle_destroy(struct cache *c)
{
    free(c->settling.done);
    free(c->settling.bad);
    lock_destroy(&c->settling.lock);
}

static bool bit_of(_Atomic uint64_t *bits, uint64_t page)
{
    return atomic_load_explicit(&bits[page / 64], memory_order_relaxed) >> page % 64 & 1;
}

/* Bits of one word are of pages with other stripes. */
static void set_bit(_Atomic uint64_t *bits, uint64_t page)
{
    atomic_fetch_or_explicit(&bits[page / 64], 1ull << page % 64, memory_order_relaxed);
}

static bool lies_in_pack(const struct cache *c, const struct place *e)
{
    const struct pack *p = e->tier < c->conf.n_tiers ? tier_pack(c->tiers[e->tier], e->pack) : NULL;
    return p && e->raw <= UNIT_BYTES && e->stored <= e->raw &&
           place_offset(e) + place_bytes(e) <= atomic_load(&p->size);
}

/* Stripe held. */
static void settle_entry(void *arg, uint64_t unit, const struct place *e)
{
    struct cache *c = arg;
    if (!(e->flags & UNIT_IN_PACK))
        return;
    if (lies_in_pack(c, e)) {
        place_count(c, e, 1);
        return;
    }
    struct place pinned = {.flags = UNIT_PINNED, .used = e->used};
    index_store(&c->index, unit, e->flags & UNIT_PINNED ? &pinned : NULL);
    atomic_fetch_add(&c->settling.lost, 1);
}

/* Stripe held. */
static void settle_page(struct cache *c, uint64_t page)
{
    struct settling *s = &c->settling;
    if (bit_of(s->done, page))
        return;
    if (!index_page(&c->index, page * PAGE_ENTRIES, settle_entry, c)) {
        set_bit(s->bad, page);
        atomic_store(&s->any_bad, true);
    }
    set_bit(s->done, page);
}

bool settle(struct cache *c, uint64_t unit)
{
    struct settling *s = &c->settling;
    uint64_t page = unit / PAGE_ENTRIES;
    if ((settled(c) && !atomic_load_explicit(&s->any_bad, memory_order_relaxed)) ||
        page >= s->pages)
        return true;
    settle_page(c, page);
    return !bit_of(s->bad, page);
}

bool settled(struct cache *c)
{
    return atomic_load_explicit(&c->settling.over, memory_order_acquire);
}

static void report(struct cache *c)
{
    uint64_t lost = atomic_load(&c->settling.lost);
    if (lost)
        log_warn(c->conf.log, "entries without their record were dropped units=%llu",
                 (unsigned long long)lost);
}

bool settle_step(struct cache *c)
{
    struct settling *s = &c->settling;
    if (settled(c))
        return false;
    ACQUIRE(&s->lock);
    uint64_t end = s->next + STEP_PAGES < s->pages ? s->next + STEP_PAGES : s->pages;
    index_will_need(&c->index, s->next * PAGE_ENTRIES, 2ull * STEP_PAGES * PAGE_ENTRIES);
    for (uint64_t page = s->next; page < end; page++) {
        if (page % 64 == 0)
            page = index_skip_hole(&c->index, page * PAGE_ENTRIES) / PAGE_ENTRIES;
        if (page >= end) {
            end = page < s->pages ? page : s->pages;
            break;
        }
        ACQUIRE(&stripe_of(c, page * PAGE_ENTRIES)->lock);
        settle_page(c, page);
    }
    s->next = end;
    if (end < s->pages)
        return true;
    if (!atomic_exchange(&s->over, true))
        report(c);
    return false;
}

void settle_all(struct cache *c)
{
    while (settle_step(c))
        ;
}

void each_place(struct cache *c, index_each_fn *fn, void *arg)
{
    settle_all(c);
    index_each(&c->index, fn, arg);
}
