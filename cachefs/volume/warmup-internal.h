/*
 * A warmup, between its files:
 *
 *   warmup.c        what is to be local, rounds of fetching and looking, how it ended
 *   warmup-fetch.c  a round's fetching: units on their way, places, samples that are done
 */
#ifndef SAMPAN_VOLUME_WARMUP_INTERNAL_H
#define SAMPAN_VOLUME_WARMUP_INTERNAL_H

#include "volume-internal.h"

#define SAMPLE_WORK (64u << 10) /* what a sample costs besides its bytes, in bytes */

struct warm_failure {
    struct warm_failure *next;
    uint64_t id;
    char why[400];
};

struct warm {
    struct volume *v;
    struct catalog *catalog;
    struct targets targets;
    const struct warmup_conf *conf;
    bool verify;
    warmup_tick_fn *tick;
    warmup_fail_fn *fail;
    void *arg;
    struct warmup_result result;
    uint64_t ticked_ns;
    uint64_t looked; /* work that was verified, in this round */
    enum warmup_wish wish;
    bool is_share;
    atomic_bool given_up; /* the token of its reads; set when no more of them are begun */
    bool packed;          /* the samples lie in packs */

    struct lock lock;
    struct cond changed;
    unsigned outstanding;                  /* guarded by lock, as all below */
    struct warm_failure *failures, **tail; /* not reported yet */
    uint64_t done, fetched_bytes;
    uint64_t work;                 /* of samples that are done */
    uint64_t parts, parts_fetched; /* bytes that are there of large ones that are not */
};

static inline uint64_t warm_work_of(const struct target *t)
{
    return t->size + SAMPLE_WORK;
}
/* Told to stop. */
static inline bool warm_ends(const struct warm *w)
{
    return w->wish != WARMUP_GO_ON;
}

/* On the caller's thread, every TICK_NS or `now`: tells failures and progress, asks what is
 * wished. */
#define TICK_NS (500 * NS_PER_MS)
void warm_tick(struct warm *w, bool now);
/* Any thread; told at the next tick. */
void warm_failed(struct warm *w, uint64_t id, const char *why);

/* Fetches all targets that are open, and returns when nothing is on its way any more. */
void warm_fetch(struct warm *w);

#endif
