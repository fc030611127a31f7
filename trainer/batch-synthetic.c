/*
 * Made-up samples, each a function of its number and the seed: for tests, and to measure a model
 * without its data.
 *
 * A picture is its class's pattern with noise over it, so that any model learns it; a rating is 5
 * where user and movie have the same remainder by 3, else 1.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batch-internal.h"
#include "conf.h"
#include "hash.h"
#include "mem.h"

#define NOISE      2.0f
#define MOVIE_ROWS 60
#define WORTH      (1u << 19) /* numbers that are worth waking threads for: a millisecond's */

struct synthetic {
    struct batches base;
    struct dealer dealer;
    enum model_data kind;
    uint64_t seed;
    size_t most;                 /* samples of a batch */
    size_t picture;              /* numbers of one */
    struct loader_memory memory; /* where pictures lie; without alloc: plain memory */
    float *x, *targets;
    int32_t *labels, *ids[N_MOVIE_IDS];
    uint64_t *numbers;
};

/* -1 to 1 */
static float draw(uint64_t key, uint64_t i)
{
    return (float)(hash_mix64(key + i * 0x9e3779b97f4a7c15ull) >> 40) * 0x1p-23f - 1;
}

static void picture(struct synthetic *s, size_t at, uint64_t number)
{
    int label = (int)(hash_mix64(s->seed ^ (number + 1)) % (uint64_t)s->base.shape.classes);
    uint64_t pattern = hash_mix64(s->seed + 77 + (uint64_t)label);
    uint64_t noise = hash_mix64(s->seed + 1000003 * (number + 1));
    float *x = s->x + at * s->picture;
    s->labels[at] = label;
    for (size_t i = 0; i < s->picture; i++)
        x[i] = draw(pattern, i) + NOISE * draw(noise, i);
}

static void rating(struct synthetic *s, size_t at, uint64_t number)
{
    uint64_t r = hash_mix64(s->seed + number);
    int user = (int)(r % MOVIE_ROWS), movie = (int)(r / MOVIE_ROWS % MOVIE_ROWS);
    s->ids[MOVIE_USER][at] = user;
    s->ids[MOVIE_GENDER][at] = user % 2;
    s->ids[MOVIE_AGE][at] = user % 7;
    s->ids[MOVIE_JOB][at] = user % 21;
    s->ids[MOVIE_ID][at] = movie;
    for (int i = 0; i < MOVIE_GENRES_MAX; i++)
        s->ids[MOVIE_GENRES][at * MOVIE_GENRES_MAX + (size_t)i] = i == 0 ? movie % 18 : -1;
    for (int i = 0; i < MOVIE_TITLE_MAX; i++)
        s->ids[MOVIE_TITLE][at * MOVIE_TITLE_MAX + (size_t)i] = i < 2 ? (movie + i) % 50 : -1;
    s->targets[at] = user % 3 == movie % 3 ? 5 : 1;
}

static int begin(struct batches *b, uint64_t pass, struct err *err)
{
    return dealer_begin(&((struct synthetic *)b)->dealer, pass, err);
}

static int next(struct batches *b, struct net_batch *ret, struct err *err)
{
    (void)err;
    struct synthetic *s = (struct synthetic *)b;
    size_t n = dealer_next(&s->dealer, s->numbers);
    /* On all cores that compute: a GPU takes a batch in less time than one core makes it. */
#pragma omp parallel for if (s->kind == MODEL_PICTURES && n * s->picture > WORTH)
    for (size_t i = 0; i < n; i++)
        (s->kind == MODEL_PICTURES ? picture : rating)(s, i, s->numbers[i]);
    *ret = (struct net_batch){.n = n, .x = s->x, .labels = s->labels, .targets = s->targets};
    for (int i = 0; i < N_MOVIE_IDS; i++)
        ret->ids[i] = s->ids[i];
    return n > 0;
}

static int token(struct batches *b, char ret[BATCH_TOKEN_LEN], struct err *err)
{
    return dealer_token(&((struct synthetic *)b)->dealer, ret, err);
}

static void figures(struct batches *b, struct batch_figures *ret)
{
    *ret = (struct batch_figures){.left = dealer_batches(&((struct synthetic *)b)->dealer)};
}

static size_t picture_bytes(const struct synthetic *s) /* of a batch */
{
    return s->most * s->picture * sizeof *s->x;
}

static void synthetic_close(struct batches *b)
{
    struct synthetic *s = (struct synthetic *)b;
    dealer_release(&s->dealer);
    if (s->x && s->memory.alloc)
        s->memory.free(s->memory.arg, s->x, picture_bytes(s));
    else
        free(s->x);
    free(s->targets);
    free(s->labels);
    for (int i = 0; i < N_MOVIE_IDS; i++)
        free(s->ids[i]);
    free(s->numbers);
    free(s);
}

static const struct batches_ops ops = {begin, next, token, figures,        NULL,
                                       NULL,  NULL, NULL,  synthetic_close};

/* More than that the system may promise, but never gives. */
static size_t machine_memory(void)
{
    return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

static int take_room(struct synthetic *s, const struct batch_options *o, struct err *err)
{
    size_t bytes = picture_bytes(s);
    if (s->memory.alloc)
        return (s->x = s->memory.alloc(s->memory.arg, bytes, err)) ? 0 : -1;
    if (bytes < machine_memory() && (s->x = calloc(1, bytes)))
        return 0;
    char size[32];
    conf_format_size(bytes, size);
    return err_set(err, ERR_LIMIT,
                   "%s: no room for batches of %s (a smaller --batch_size or --image needs less)",
                   batch_option(o), size);
}

int batch_synthetic(struct batches **ret, enum model_data kind, const struct batch_options *o,
                    uint64_t samples, int classes, struct err *err)
{
    int failed = 0;
    struct synthetic *s = xcalloc(1, sizeof *s);
    s->base = (struct batches){
        .ops = &ops,
        .samples = samples,
        .shape = {.h = o->height,
                  .w = o->width,
                  .c = 3,
                  .classes = classes,
                  .rows = {MOVIE_ROWS, 2, 7, 21, MOVIE_ROWS, 18, 50}},
    };
    s->kind = kind;
    s->seed = hash_mix64(o->seed);
    s->picture = (size_t)o->height * (size_t)o->width * 3;
    s->numbers = xcalloc(o->batch, sizeof *s->numbers);
    s->labels = xcalloc(o->batch, sizeof *s->labels);
    s->targets = xcalloc(o->batch, sizeof *s->targets);
    s->most = o->batch;
    s->memory = o->memory;
    if (kind == MODEL_PICTURES)
        failed = take_room(s, o, err);
    for (int i = 0; i < N_MOVIE_IDS; i++)
        s->ids[i] = xcalloc(o->batch * MOVIE_TITLE_MAX, sizeof *s->ids[i]);
    if (failed || dealer_init(&s->dealer, o, samples, err)) {
        synthetic_close(&s->base);
        return -1;
    }
    s->base.pass_batches = dealer_batches(&s->dealer);
    *ret = &s->base;
    return 0;
}
