/*
 * Decisions of what stays: pure functions of facts, so that they are tested without a disk. evict.c
 * and tier.c gather the facts and carry the decisions out.
 */
#ifndef SAMPAN_CACHE_POLICY_INTERNAL_H
#define SAMPAN_CACHE_POLICY_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#define AGE_BUCKETS 272u

/* Bytes by "minutes since last use": single minutes up to 64, then 8 steps for each power of two.
 */
struct ages {
    uint64_t bytes[2][AGE_BUCKETS]; /* [pinned] */
};
unsigned age_bucket(uint32_t minutes);
void ages_add(struct ages *a, bool pinned, uint32_t minutes, uint64_t bytes);

/* --- policy-pinned.c: who goes when room must be made ---------------------------------------- */

/* Of each kind: units in buckets above `from` go; those in bucket `from` go until `part` bytes
 * went. */
struct victims {
    unsigned from[2]; /* [pinned]; AGE_BUCKETS: none of that kind goes */
    uint64_t part[2];
};
void policy_pinned_pick(const struct ages *a, uint64_t need, struct victims *ret);
/* Does this one go? Takes its bytes off `part` where it counts. */
bool policy_pinned_goes(struct victims *v, bool pinned, uint32_t minutes, uint64_t bytes);

/* --- policy-scan.c: does a newcomer get in when the cache is full? --------------------------- */

struct newcomer {
    bool fits; /* there is room without touching anybody */
    bool pinned;
    bool left; /* units that nobody wants any more take room */
};
enum admission { ADMIT, ADMIT_LATER, ADMIT_NEVER };
enum admission policy_scan_admit(const struct newcomer *n);
/* May a unit that is `minutes` old go for a pinned newcomer? */
bool policy_scan_goes(bool pinned, uint32_t minutes);

#endif
