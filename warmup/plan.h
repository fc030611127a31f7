/*
 * Who keeps what of one version of a set: a pure function of the version and the options, so every
 * node computes its own share and all shares fit together. Also what that means: bytes per
 * partition, whether they fit, and which part of its reads a partition finds at home.
 *
 * Stands on catalog and order alone; the volume (its own share) and the commands (everybody's) both
 * use it.
 */
#ifndef SAMPAN_WARMUP_PLAN_H
#define SAMPAN_WARMUP_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "catalog.h"
#include "err.h"
#include "owner.h"

struct plan_conf {
    struct catalog *catalog; /* borrowed; NULL: `count` samples of `sample_bytes` each */
    uint64_t count, sample_bytes;
    enum owner_strategy strategy;
    uint32_t partitions;
    bool may_be_empty; /* more partitions than samples are no mistake */
    struct order_spec sampler;
    struct owner_weights weights; /* of what is dealt by hash */
};

struct plan;
int plan_new(struct plan **ret, const struct plan_conf *conf, struct err *err);
void plan_free(struct plan *p); /* NULL is fine */

/* One sample and who keeps it. */
#define PLAN_REPEATS 16
struct plan_sample {
    uint64_t id;     /* 0 without a catalog */
    uint64_t number; /* OWNER_NO_NUMBER: outside the reading order */
    uint64_t size;
    uint32_t owner;
    size_t n_repeats; /* more partitions that keep it, for the sampler's repeats */
    uint32_t repeats[PLAN_REPEATS];
};
bool plan_keeps(const struct plan_sample *s, uint32_t partition);
/* All samples: by number without a catalog, else by id. fn returns false to stop. */
typedef bool plan_fn(void *arg, const struct plan_sample *s);
int plan_each(struct plan *p, plan_fn *fn, void *arg, struct err *err);

/* --- what it means (summary.c) ------------------------------------------------------------------
 */

struct plan_part {
    uint64_t samples, bytes;               /* owned: the sums over all parts are the set's */
    uint64_t repeat_samples, repeat_bytes; /* kept besides, for repeats */
    uint64_t stored;                       /* room that all it keeps takes in packs, at most */
    uint64_t reads, local;                 /* of its ranks in the epoch; found in this partition */
};
/* `ret` has an entry a partition. Where every rank reads the whole set, so do those of each
 * partition. */
int plan_summary(struct plan *p, struct plan_part *ret, struct err *err);
/* The same of a plan that nobody needs otherwise. Where the sampler deals numbers alone, round
 * after round in the same way, the rounds in the middle are not counted one by one. */
int plan_sum(const struct plan_conf *conf, struct plan_part *ret, struct err *err);
/* Share of reads found at home; 1 if there are none. */
double plan_local_share(const struct plan_part *part);

/* --- room (capacity.c) --------------------------------------------------------------------------
 */

/* What a sample takes in packs, at most. `ratio`: stored / raw of its bytes (1: uncompressed). */
uint64_t plan_stored_bytes(uint64_t size, double ratio);

/* Samples in the order in which they are to be kept, against the room there is. */
struct plan_fit {
    uint64_t room;
    double ratio;
    uint64_t want;              /* of all samples taken so far */
    uint64_t samples, fitting;  /* taken, and how many of the first of them fit */
    uint64_t first_too_many_id; /* the first that does not; 0: all do */
};
void plan_fit_add(struct plan_fit *f, uint64_t id, uint64_t size);
/* ERR_LIMIT, naming the first sample that does not fit by `path`, unless all do. */
int plan_fit_check(const struct plan_fit *f, const char *path, struct err *err);

#endif
