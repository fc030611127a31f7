/*
 * Who keeps what: which of P partitions (one a node) owns a sample. A pure function of the options,
 * the sample's number and its key, so every node computes its own share and nothing is passed
 * around: shares are disjoint and their union is the set.
 *
 *   sequence  contiguous ranges of the reading order, equally many bytes each
 *   random    what the partition's ranks read in that epoch: the owner is a sample's first reader
 *   local     the same, of the `local` sampler: contiguous shares, dealt anew every `rotate` epochs
 *   hash      weighted rendezvous over the key: for unknown orders
 *
 * With random and local, a sample that is read again by a rank of another partition (the sampler
 * pads, to make the ranks equally long) is kept there too, and samples that no rank reads are dealt
 * as by hash. So are all, where every rank reads the whole set: then nobody is its first reader.
 */
#ifndef SAMPAN_ORDER_OWNER_H
#define SAMPAN_ORDER_OWNER_H

#include "order.h"

#ifdef __cplusplus
extern "C" {
#endif

enum owner_strategy { OWNER_SEQUENCE, OWNER_RANDOM, OWNER_HASH, OWNER_LOCAL };
int owner_strategy_parse(enum owner_strategy *ret, const char *text, struct err *err);
const char *owner_strategy_name(enum owner_strategy s);
/* The strategy that serves a sampler. */
enum owner_strategy owner_strategy_for(const struct order_spec *sampler);

#define OWNER_PARTITIONS_MAX 65535u
#define OWNER_NO_NUMBER      UINT64_MAX /* a sample outside the reading order */

/* "I/P": partition I of P, counted from 0. */
int owner_share_parse(const char *text, uint32_t *ret_partition, uint32_t *ret_partitions,
                      struct err *err);

/* Bytes of all samples with a number below `number`; asked for 0..numbered. -1: err says why. */
typedef int owner_bytes_fn(void *arg, uint64_t number, uint64_t *ret, struct err *err);

/* "W0,W1,…": what share of the set each partition gets where it is dealt by key; as many as there
 * are partitions, not all of them 0. */
#define OWNER_WEIGHTS_MAX 256
struct owner_weights {
    uint32_t n; /* 0: equal */
    uint64_t of[OWNER_WEIGHTS_MAX];
};
bool owner_weights_same(const struct owner_weights *a, const struct owner_weights *b);
int owner_weights_parse(struct owner_weights *ret, const char *text, struct err *err);

struct owner_conf {
    enum owner_strategy strategy;
    uint32_t partitions;
    struct order_spec sampler; /* random, local: whose epoch */
    uint64_t samples;          /* all of them */
    bool may_be_empty;         /* more partitions than samples are no mistake */
    uint64_t numbered;         /* those in the reading order: numbers below this */
    owner_bytes_fn *bytes;     /* sequence; NULL: all samples are equally large */
    void *arg;
    const uint64_t *weights; /* of dealing by key: one a partition; NULL: equal */
};

struct owners;
/* No partition, or more partitions than samples, is ERR_USAGE. */
int owners_new(struct owners **ret, const struct owner_conf *conf, struct err *err);
void owners_free(struct owners *o); /* NULL is fine */

/* The owner of the sample with this number (or OWNER_NO_NUMBER) and key. */
uint32_t owners_of(const struct owners *o, uint64_t number, uint64_t key);
/* The partitions that keep the sample for a repeat only: at most `max` of them, ascending. */
size_t owners_repeats(const struct owners *o, uint64_t number, uint32_t *ret, size_t max);

/* Where a partition owns a range of numbers (sequence; or there is only one): from *ret_first to
 * below *ret_end. False: it owns single ones. */
bool owners_range(const struct owners *o, uint32_t partition, uint64_t *ret_first,
                  uint64_t *ret_end);

/* A key for who has nothing but numbers. Where there are paths, the key is a hash of the path: it
 * stays when the set grows. */
uint64_t owner_key(uint64_t number);

/* The ranks of a partition: *ret_first and as many as returned (0: none). With P partitions and no
 * ranks-per-node, the ranks are spread evenly if P divides them, else one a partition. */
uint32_t owner_ranks(const struct order_spec *s, uint32_t partitions, uint32_t partition,
                     uint32_t *ret_first);

#ifdef __cplusplus
}
#endif

#endif
