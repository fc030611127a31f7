/* Sources of batches: which one, and the order of those that hold their samples in memory. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch-internal.h"
#include "buf.h"

#define DEFAULT_SAMPLER "torch-distributed"

/* A SPEC may say what the job itself knows, as one does that a mount was given, too. */
enum own_key { OWN_RANKS, OWN_RANK, OWN_BATCH, OWN_KEYS };
static const char *const own_keys[OWN_KEYS] = {"ranks=", "rank=", "batch-size="};

static enum own_key own_key(const char *key, size_t len)
{
    unsigned i = 0;
    while (i < OWN_KEYS &&
           (len < strlen(own_keys[i]) || strncmp(key, own_keys[i], strlen(own_keys[i])) != 0))
        i++;
    return i;
}

bool batch_is_own_key(const char *key, size_t len)
{
    return own_key(key, len) != OWN_KEYS;
}

static int known_key(const struct batch_options *o, const char *key, size_t len, bool *ret,
                     struct err *err)
{
    const enum own_key own = own_key(key, len);
    const unsigned long long want = own == OWN_RANKS ? o->ranks : o->batch;
    *ret = own != OWN_KEYS;
    if (!*ret || own == OWN_RANK || strtoull(key + strlen(own_keys[own]), NULL, 10) == want)
        return 0;
    return err_set(err, ERR_USAGE, "--sampler: %.*s: but %s %llu (leave it away)", (int)len, key,
                   own == OWN_RANKS ? "the job has" : "--batch_size is", want);
}

int batch_spec(const struct batch_options *o, char *out, size_t size, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    if (!o->sampler)
        bytes_addf(&text, DEFAULT_SAMPLER ",seed=%llu,shuffle=%s", (unsigned long long)o->seed,
                   o->train ? "true" : "false");
    for (const char *key = o->sampler; key && *key;) {
        size_t len = strcspn(key, ",");
        bool known;
        if (known_key(o, key, len, &known, err))
            return -1;
        if (!known)
            bytes_addf(&text, "%s%.*s", text.len ? "," : "", (int)len, key);
        key += len + (key[len] == ',');
    }
    bytes_addf(&text, ",ranks=%u,rank=%u,batch-size=%zu", o->ranks, o->rank, o->batch);
    if (text.len >= size)
        return err_set(err, ERR_USAGE, "--sampler: longer than %zu letters", size);
    memcpy(out, text.data, text.len + 1);
    return 0;
}

bool batch_deals(const struct batch_options *o)
{
    char text[1400];
    struct order_spec spec; /* if it cannot be read, opening the source says why */
    return o->ranks == 1 || batch_spec(o, text, sizeof text, NULL) ||
           order_spec_parse(&spec, text, NULL) || order_spec_deals(&spec);
}

/* --- dealing ---------------------------------------------------------------------------------- */

int dealer_init(struct dealer *d, const struct batch_options *o, uint64_t samples, struct err *err)
{
    char text[1400];
    *d = (struct dealer){.n = samples, .of = *o};
    if (samples == 0)
        return err_set(err, ERR_NOT_FOUND, "%s: %s: no sample is there", batch_option(o), o->data);
    if (batch_spec(o, text, sizeof text, err))
        return -1;
    if (order_spec_parse(&d->spec, text, err))
        return err_wrap(err, "--sampler");
    if (o->resume) {
        if (order_token_parse(&d->token, o->resume, err))
            return err_wrap(err, "resume");
        if (d->token.n != samples) /* it names samples by their numbers */
            return err_set(err, ERR_USAGE,
                           "%s: resume token: of a set of %" PRIu64 " samples, here are %" PRIu64,
                           batch_option(o), d->token.n, samples);
        if (d->token.spec.kind != d->spec.kind)
            return err_set(err, ERR_USAGE, "%s: resume token: of the sampler %s, not %s",
                           batch_option(o), order_kind_name(d->token.spec.kind),
                           order_kind_name(d->spec.kind));
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
    size_t n = left < d->of.batch ? (size_t)left : d->of.batch;
    for (size_t i = 0; i < n; i++)
        numbers[i] = order_at(d->order, d->at + i);
    d->at += n;
    return batch_own(&d->of, numbers, n);
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
    return (order_length(d->order) - d->at + d->of.batch - 1) / d->of.batch;
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
    long long classes;
    int end = 0;
    if (!o->data || !*o->data)
        return err_set(err, ERR_USAGE, "%s: missing (a folder, or synthetic:SAMPLES,CLASSES)",
                       batch_option(o));
    if (strncmp(o->data, "synthetic:", 10) == 0) {
        if (sscanf(o->data, "synthetic:%llu,%lld%n", &samples, &classes, &end) < 2 ||
            o->data[end] || strchr(o->data, '-') || classes < 2 || classes > INT_MAX)
            return err_set(err, ERR_USAGE,
                           "%s: %s: want synthetic:SAMPLES,CLASSES (of 2 classes or more)",
                           batch_option(o), o->data);
        return batch_synthetic(ret, kind, o, samples, (int)classes, err);
    }
    return kind == MODEL_PICTURES ? batch_pictures(ret, o, err) : batch_ratings(ret, o, err);
}

void batch_close(struct batches *b)
{
    if (b)
        b->ops->close(b);
}

/* `mine` is what `o` says; *theirs the same ranks and batches in the order that the token has. (It
 * does not keep a list.) */
static int specs_of(const struct batch_options *o, const char *token, struct order_spec *mine,
                    struct order_spec *theirs, struct err *err)
{
    char text[1400];
    struct order_token t;
    if (batch_spec(o, text, sizeof text, err) || order_spec_parse(mine, text, err) ||
        order_token_parse(&t, token, err))
        return -1;
    *theirs = *mine;
    theirs->kind = t.spec.kind;
    theirs->seed = t.spec.seed;
    theirs->shuffle = t.spec.shuffle;
    theirs->drop_last = t.spec.drop_last;
    theirs->workers = t.spec.workers;
    theirs->generator = t.spec.generator;
    theirs->persistent = t.spec.persistent;
    theirs->rotate = t.spec.rotate;
    return 0;
}

bool batch_reorders(const struct batch_options *o, const char *token)
{
    struct order_spec mine, theirs; /* another kind, and none, are refused by opening the source */
    return specs_of(o, token, &mine, &theirs, NULL) == 0 && mine.kind == theirs.kind &&
           !order_spec_same(&mine, &theirs);
}

int batch_place(const struct batch_options *o, uint64_t samples, uint64_t pass, uint64_t batches,
                char token[BATCH_TOKEN_LEN], struct err *err)
{
    struct order_spec mine, theirs;
    struct order *order;
    struct order_token t;
    if (specs_of(o, token, &mine, &theirs, err))
        return -1;
    theirs.epoch = pass;
    if (order_new(&order, &theirs, samples, err))
        return -1;
    uint64_t at = batches * o->batch, all = order_length(order);
    int failed = order_token_of(order, at < all ? at : all, &t, err);
    order_free(order);
    if (!failed)
        order_token_print(&t, token);
    return failed;
}
