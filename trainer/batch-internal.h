/* Sources of batches in files of their own, and what those that hold their samples share. */
#ifndef SAMPAN_TRAIN_BATCH_INTERNAL_H
#define SAMPAN_TRAIN_BATCH_INTERNAL_H

#include "batch.h"
#include "order.h"

int batch_pictures(struct batches **ret, const struct batch_options *o, struct err *err);
int batch_ratings(struct batches **ret, const struct batch_options *o, struct err *err);
int batch_synthetic(struct batches **ret, enum model_data kind, const struct batch_options *o,
                    uint64_t samples, int classes, struct err *err);

/* The sampler's text with this rank in it. A text that was made for another number of ranks, or
 * another batch, is an error. */
int batch_spec(const struct batch_options *o, char *out, size_t size, struct err *err);

/*
 * Who judges takes each sample once, however many ranks there are: without `o->sampler` rank r
 * reads r, r + ranks and so on, and what makes the ranks equally long is another's, and the last
 * one.
 */
static inline size_t batch_own(const struct batch_options *o, const uint64_t *numbers, size_t n)
{
    return !o->train && n && numbers[n - 1] % o->ranks != o->rank ? n - 1 : n;
}

/* A place in the order of a set whose samples are at hand by their number. */
struct dealer {
    struct order_spec spec;
    struct order *order;
    uint64_t n, at; /* samples of the set; place in this rank's order */
    struct batch_options of;
    struct order_token token; /* where to begin, if `resumes` */
    bool resumes;
};
int dealer_init(struct dealer *d, const struct batch_options *o, uint64_t samples, struct err *err);
int dealer_begin(struct dealer *d, uint64_t pass, struct err *err);
/* The numbers of the next batch: how many, 0 at the end of the pass. */
size_t dealer_next(struct dealer *d, uint64_t *numbers);
int dealer_token(struct dealer *d, char ret[BATCH_TOKEN_LEN], struct err *err);
uint64_t dealer_batches(const struct dealer *d); /* from where it is to the end of the pass */
void dealer_release(struct dealer *d);

#endif
