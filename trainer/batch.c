/* Sources of batches: which one, and the order of those that hold their samples in memory. */
#include <stdio.h>
#include <string.h>

#include "batch-internal.h"

#define DEFAULT_SAMPLER "torch-distributed"

void batch_spec(const struct batch_options *o, char *out, size_t size)
{
    if (o->sampler)
        snprintf(out, size, "%s,ranks=%u,rank=%u,batch-size=%zu", o->sampler, o->ranks, o->rank,
                 o->batch);
    else
        snprintf(out, size, DEFAULT_SAMPLER ",seed=%llu,shuffle=%s,ranks=%u,rank=%u,batch-size=%zu",
                 (unsigned long long)o->seed, o->train ? "true" : "false", o->ranks, o->rank,
                 o->batch);
}

/* --- dealing ---------------------------------------------------------------------------------- */

int dealer_init(struct dealer *d, const struct batch_options *o, uint64_t samples, struct err *err)
{
    char text[1400];
    *d = (struct dealer){.n = samples, .batch = o->batch};
    if (samples == 0)
        return err_set(err, ERR_NOT_FOUND, "--data: %s: no sample is there", o->data);
    batch_spec(o, text, sizeof text);
    if (order_spec_parse(&d->spec, text, err))
        return err_wrap(err, "--sampler");
    if (o->resume) {
        if (order_token_parse(&d->token, o->resume, err))
            return err_wrap(err, "resume");
        d->resumes = true;
    }
    return order_new(&d->order, &d->spec, samples, err);
}

int dealer_begin(struct dealer *d, uint64_t pass, struct err *err)
{
    struct order *order = NULL;
    d->spec.epoch = pass;
    int failed = d->resumes ? order_resume(&order, &d->token, d->spec.ranks, d->spec.rank, err)
                            : order_new(&order, &d->spec, d->n, err);
    if (failed)
        return -1;
    order_free(d->order);
    d->order = order;
    d->at = 0;
    d->resumes = false;
    return 0;
}

size_t dealer_next(struct dealer *d, uint64_t *numbers)
{
    uint64_t left = order_length(d->order) - d->at;
    size_t n = left < d->batch ? (size_t)left : d->batch;
    for (size_t i = 0; i < n; i++)
        numbers[i] = order_at(d->order, d->at + i);
    d->at += n;
    return n;
}

int dealer_token(struct dealer *d, char ret[BATCH_TOKEN_LEN], struct err *err)
{
    _Static_assert(ORDER_TOKEN_TEXT <= BATCH_TOKEN_LEN, "a token fits");
    struct order_token t;
    if (order_token_of(d->order, d->at, &t, err))
        return -1;
    order_token_print(&t, ret);
    return 0;
}

uint64_t dealer_batches(const struct dealer *d)
{
    return (order_length(d->order) + d->batch - 1) / d->batch;
}

void dealer_release(struct dealer *d)
{
    order_free(d->order);
    d->order = NULL;
}

/* --- which ------------------------------------------------------------------------------------ */

int batch_open(struct batches **ret, enum model_data kind, const struct batch_options *o,
               struct err *err)
{
    unsigned long long samples;
    int classes = 10, end = 0;
    if (!o->data || !*o->data)
        return err_set(err, ERR_USAGE, "--data: missing (a folder, or synthetic:SAMPLES,CLASSES)");
    if (strncmp(o->data, "synthetic:", 10) == 0) {
        if (sscanf(o->data, "synthetic:%llu,%d%n", &samples, &classes, &end) < 2 || o->data[end] ||
            classes < 2)
            return err_set(err, ERR_USAGE, "--data: %s: want synthetic:SAMPLES,CLASSES", o->data);
        return batch_synthetic(ret, kind, o, samples, classes, err);
    }
    return kind == MODEL_PICTURES ? batch_pictures(ret, o, err) : batch_ratings(ret, o, err);
}

void batch_close(struct batches *b)
{
    if (b)
        b->ops->close(b);
}
