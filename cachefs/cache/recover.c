/*
 * After a restart: which packs there are, whether the index may be believed, and where to append.
 *
 * A kill leaves the index as it was: it is mapped, and its entries are compared with the packs when
 * they are used, or behind (settle.c).
 * After a power loss, or where its header is damaged or names other tiers, it is made anew from the
 * journals. Nothing is read of the packs themselves: their records are checked whenever they are
 * used.
 */
#include "cache-internal.h"

#include <string.h>
#include <unistd.h>

#define LOG_MODULE "cache"
#include "log.h"

static void take_record(void *arg, struct pack *p, const struct journal_record *r)
{
    struct cache *c = arg;
    if (index_cover(&c->index, r->unit))
        return;
    struct place e = {
        .used = atomic_load(&c->now_min),
        .pack = p->number,
        .offset64 = (uint32_t)(r->offset / RECORD_ALIGN),
        .stored = r->stored,
        .raw = r->raw,
        .tier = (uint8_t)p->tier->place,
        .flags = (uint8_t)((r->flags & (UNIT_LZ4 | UNIT_FIRST | UNIT_PAGED)) | UNIT_IN_PACK)};
    ACQUIRE(&stripe_of(c, r->unit)->lock);
    struct place old;
    if (!place_load(c, r->unit, &old) || !same_place(&old, &e))
        place_set(c, r->unit, e);
}

static bool same_tiers(const struct cache *c)
{
    static const unsigned char none[TIER_ID_BYTES];
    for (size_t i = 0; i < CACHE_MAX_TIERS; i++)
        if (memcmp(c->index.head.tier_ids[i], i < c->conf.n_tiers ? c->tiers[i]->id : none,
                   TIER_ID_BYTES) != 0)
            return false;
    return true;
}

static void store_head(struct cache *c)
{
    struct index_head *h = &c->index.head;
    memset(h->tier_ids, 0, sizeof h->tier_ids);
    for (size_t i = 0; i < c->conf.n_tiers; i++) {
        struct tier *t = c->tiers[i];
        memcpy(h->tier_ids[i], t->id, TIER_ID_BYTES);
        h->next_pack[i] = t->next_pack;
    }
    index_head_store(&c->index);
}

/* Numbers are never used again, even where the pack with the highest is gone. */
static void keep_numbers(struct cache *c)
{
    for (size_t i = 0; i < c->conf.n_tiers; i++)
        if (c->index.head.next_pack[i] > c->tiers[i]->next_pack)
            c->tiers[i]->next_pack = c->index.head.next_pack[i];
}

static void count_record(void *arg, struct pack *p, const struct journal_record *r)
{
    (void)p;
    (void)r;
    ++*(uint64_t *)arg;
}

/* What an interrupted append left behind its last whole record goes away; then appending goes on.
 */
static void continue_last(struct tier *t, bool no_power_loss)
{
    struct pack *last = NULL;
    uint64_t records = 0, end;
    for (struct pack *p = t->packs; p; p = p->next)
        if (!last || p->number > last->number)
            last = p;
    if (!last || atomic_load(&last->size) < sizeof(struct pack_head))
        return;
    if (!(no_power_loss && journal_tail(last, &records, &end) == 0)) {
        records = 0;
        if (journal_each(last, count_record, &records, &end))
            return;
    }
    if (end >= t->pack_max || pack_reopen(last, NULL))
        return;
    uint64_t journal = (records + 1) * sizeof(struct journal_record);
    if (ftruncate(last->fd, (off_t)end) || ftruncate(last->journal_fd, (off_t)journal)) {
        pack_seal(last);
        return;
    }
    t->used -= atomic_load(&last->size) + atomic_load(&last->journal_size);
    atomic_store(&last->size, end);
    atomic_store(&last->journal_size, journal);
    t->used += end + journal;
    t->active = last;
}

static int rebuild(struct cache *c, struct err *err)
{
    if (index_reset(&c->index, err))
        return -1;
    for (size_t i = 0; i < c->conf.n_tiers; i++)
        for (struct pack *p = c->tiers[i]->packs; p; p = p->next)
            pack_each_record(p, take_record, c);
    return 0;
}

int recover(struct cache *c, bool index_usable, struct err *err)
{
    bool usable = index_usable && same_tiers(c);
    bool any = false;
    if (usable)
        keep_numbers(c);
    for (size_t i = 0; i < c->conf.n_tiers; i++) {
        continue_last(c->tiers[i], usable);
        any = any || c->tiers[i]->packs;
    }
    c->index_believed = usable || !any;
    if (usable)
        atomic_store(&c->trial.verdict, c->index.head.verdict);
    if (usable)
        settle_begin(c);
    else if (rebuild(c, err))
        return -1;
    if (c->index.tier && usable)
        c->index.tier->used += index_bytes(&c->index);
    else if (c->index.tier)
        c->index.tier->used += INDEX_HEAD; /* the rest was charged as it grew */
    store_head(c);
    if (!usable && any)
        log_warn(c->conf.log, "the index was made anew from the journals units=%llu",
                 (unsigned long long)atomic_load(&c->units));
    return 0;
}
