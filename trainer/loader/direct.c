/* Reading from packs: what threads that read do. direct-ask.c learns where samples lie. */
#include <string.h>
#include <sys/mman.h>

#include "clock.h"
#include "direct-ask-internal.h"
#include "guard.h"
#include "crc.h"
#include "mem.h"

#define LOOK_AGAIN_NS (200 * 1000ull)
#define HINT_MAX      8192
#define CACHE_LINE    64

struct direct_hand *direct_hand(struct direct *d)
{
    struct direct_hand *h = xcalloc(1, sizeof *h);
    ACQUIRE(&d->lock);
    h->next = d->hands;
    d->hands = h;
    return h;
}

/* The hand says which pack it uses before it believes the place: who forgets a pack clears the
 * places first and looks at the hands then, so that one of both sees the other. */
bool direct_find(struct direct *d, struct direct_hand *h, uint64_t number, size_t *ret_len)
{
    struct place *p = &d->places[number];
    uint32_t pack = atomic_load_explicit(&p->pack, memory_order_acquire);
    if (pack == PLACE_UNKNOWN || pack == PLACE_NEVER) {
        direct_drop(h); /* its file is read then: that may take long */
        return false;
    }
    /* Only this thread writes what its hand holds. */
    if (atomic_load_explicit(&h->pack, memory_order_relaxed) != pack) {
        atomic_store(&h->pack, pack);
        if (atomic_load(&p->pack) != pack) {
            direct_drop(h);
            return false;
        }
    }
    h->place = p;
    *ret_len = p->len;
    return true;
}

void direct_drop(struct direct_hand *h)
{
    h->place = NULL;
    atomic_store_explicit(&h->pack, PLACE_UNKNOWN, memory_order_release);
}

bool direct_knows(const struct direct *d, uint64_t number)
{
    uint32_t pack = atomic_load_explicit(&d->places[number].pack, memory_order_relaxed);
    return pack != PLACE_UNKNOWN && pack != PLACE_NEVER;
}

/* Samples lie at random: the processor's own read-ahead ends at each page's border. */
void direct_hint(struct direct *d, const struct direct_hand *h, uint64_t number)
{
    const struct place *p = &d->places[number];
    uint32_t held = atomic_load_explicit(&h->pack, memory_order_relaxed);
    if (held == PLACE_UNKNOWN || atomic_load(&p->pack) != held)
        return;
    const unsigned char *at = d->packs[held].map + p->offset;
    size_t near = p->len < HINT_MAX ? p->len : HINT_MAX;
    for (size_t i = 0; i < near; i += CACHE_LINE)
        __builtin_prefetch(at + i);
}

struct copying {
    void *to;
    const void *from;
    size_t len;
};

static void copy(void *arg)
{
    const struct copying *c = arg;
    memcpy(c->to, c->from, c->len);
}

bool direct_copy(struct direct *d, struct direct_hand *h, void *to)
{
    struct place *p = h->place;
    struct copying c = {to, d->packs[atomic_load(&h->pack)].map + p->offset, p->len};
    bool good = guard_run(copy, &c);
    if (good && (d->verify_always || !atomic_load_explicit(&p->checked, memory_order_relaxed))) {
        good = crc32c(0, to, p->len) == p->crc;
        atomic_store_explicit(&p->checked, good, memory_order_relaxed);
    }
    if (!good) { /* the mount finds out by itself, and repairs it elsewhere */
        uint32_t was = atomic_load(&h->pack);
        ACQUIRE(&d->lock);
        d->known -= atomic_compare_exchange_strong(&p->pack, &was, PLACE_NEVER);
        direct_drop(h);
    }
    return good;
}

static bool in_use(struct direct *d, uint32_t pack)
{
    for (struct direct_hand *h = d->hands; h; h = h->next)
        if (atomic_load(&h->pack) == pack)
            return true;
    return false;
}

void pack_forget(struct direct *d, uint32_t pack)
{
    int64_t lost = 0;
    for (size_t i = 0; i < d->n; i++) {
        uint32_t was = pack;
        lost += atomic_compare_exchange_strong(&d->places[i].pack, &was, PLACE_UNKNOWN);
    }
    ACQUIRE(&d->lock);
    while (in_use(d, pack))
        cond_wait_for(&d->wake, &d->lock, LOOK_AGAIN_NS); /* a copy takes microseconds */
    munmap((void *)d->packs[pack].map, d->packs[pack].size);
    d->packs[pack] = (struct pack){0};
    d->known -= lost;
}

void direct_wait(struct direct *d)
{
    ACQUIRE(&d->lock);
    while (!d->asked_all && !d->stop)
        cond_wait(&d->asked, &d->lock);
}

void direct_epoch(struct direct *d)
{
    ACQUIRE(&d->lock);
    d->epoch_began = true;
    cond_broadcast(&d->wake);
}

bool direct_tell(struct direct *d, uint64_t epoch)
{
    ACQUIRE(&d->lock);
    d->tell = d->known == (int64_t)d->n && d->sock >= 0 && !d->tell_failed;
    while (!d->tell && d->telling)
        cond_wait(&d->asked, &d->lock); /* an older epoch must not be told after this one */
    if (!d->tell)
        return false;
    d->epoch = epoch;
    cond_broadcast(&d->wake);
    return true;
}

void direct_figures(struct direct *d, uint64_t *ret_known, uint64_t *ret_revoked, char *ret_why,
                    size_t why_size)
{
    ACQUIRE(&d->lock);
    *ret_known = d->known > 0 ? (uint64_t)d->known : 0;
    *ret_revoked = d->revoked;
    snprintf(ret_why, why_size, "%s", d->why);
}
