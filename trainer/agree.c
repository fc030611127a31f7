/* All ranks of a job were given the same, and have one model and the same samples: else each would
 * go its own way, or wait for what another one never does. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "buf.h"
#include "hash.h"
#include "mem.h"
#include "train-internal.h"

#define TOLD_MAX 4096 /* a sampler's text has at most 1400 */
/* Of what ranks say to each other, here and in store-internal.h: counted up with each change, for a
 * version has many builds. */
#define PROTOCOL "2"

/* In what a rank differs from rank 0 (0: in nothing) all hear of each. *ret_rank is the first one
 * that does, *ret what it said; 0: none. */
static int hear_others(struct run *r, unsigned own, uint32_t *ret_rank, unsigned *ret,
                       struct err *err)
{
    cleanup_free float *said = xcalloc(r->c->ranks, sizeof *said);
    said[r->c->rank] = (float)own;
    if (r->c->ops->sum(r->c, said, r->c->ranks, err))
        return -1;
    for (*ret_rank = 0; *ret_rank < r->c->ranks - 1 && said[*ret_rank] == 0;)
        ++*ret_rank;
    *ret = (unsigned)said[*ret_rank];
    return 0;
}

/* --- options ---------------------------------------------------------------------------------- */

static void tell(struct bytes *to, const char *option, const char *value)
{
    bytes_addf(to, "%s %s\n", option, value && *value ? value : "(none)");
}

static void tell_int(struct bytes *to, const char *option, int64_t value)
{
    bytes_addf(to, "%s %" PRId64 "\n", option, value);
}

static void tell_number(struct bytes *to, const char *option, double value)
{
    bytes_addf(to, "%s %.9g\n", option, value);
}

static void tell_given(struct bytes *to, const char *option, bool given)
{
    tell(to, option, given ? "given" : "not given");
}

/* Without what the job itself knows: a SPEC may say it, each rank its own (batch.c). */
static void tell_sampler(struct bytes *to, const char *spec)
{
    cleanup_bytes struct bytes shared = {0};
    for (const char *key = spec; key && *key;) {
        size_t len = strcspn(key, ",");
        if (!batch_is_own_key(key, len))
            bytes_addf(&shared, "%s%.*s", shared.len ? "," : "", (int)len, key);
        key += len + (key[len] == ',');
    }
    tell(to, "--sampler", shared.data);
}

/* A line an option, after that of the program: what ranks share is laid out as it says. Paths may
 * differ, and what is a rank's own: threads, devices, logs. */
static void tell_all(const struct options *o, struct bytes *to)
{
    bool names = strcmp(o->resume, "auto") != 0 && strcmp(o->resume, "never") != 0;
    tell(to, "sampan-train", SAMPAN_VERSION ", protocol " PROTOCOL);
    tell(to, "--model", o->model);
    tell_int(to, "--image", o->image);
    tell_int(to, "--hidden", o->hidden);
    tell_int(to, "--batch_size", o->batch_size);
    tell_int(to, "--num_passes", o->num_passes);
    tell_int(to, "--max_steps", o->max_steps);
    tell_int(to, "--seed", o->seed);
    tell_sampler(to, o->sampler);
    tell_given(to, "--own_data", o->own_data);
    tell(to, "--optimizer", o->optimizer);
    tell_number(to, "--learning_rate", o->rate);
    tell_number(to, "--momentum", o->momentum_number);
    tell_number(to, "--weight_decay", o->decay);
    tell_number(to, "--label_smoothing", o->smoothing);
    tell_number(to, "--ema", o->ema_keep);
    tell(to, "--schedule", o->schedule);
    tell_int(to, "--warmup_passes", o->warmup_passes);
    tell_int(to, "--rate_passes", o->rate_passes);
    tell_number(to, "--rate_factor", o->factor);
    tell_given(to, "--save_dir", o->save_dir != NULL);
    tell(to, "--resume", names ? "DIR" : o->resume);
    tell_int(to, "--saving_period", o->saving_period);
    tell_int(to, "--saving_period_by_batches", o->saving_period_by_batches);
    tell_given(to, "--test_data", o->test_data != NULL);
    tell_int(to, "--test_period", o->test_period);
}

/* The first line of `a` that is another one in `b`, counted from 1; 0: they are the same. Both
 * lines are left in *ret_a and *ret_b. */
static unsigned first_other(char *a, char *b, const char **ret_a, const char **ret_b)
{
    char *rest_a, *rest_b;
    unsigned n = 1;
    *ret_a = strtok_r(a, "\n", &rest_a);
    *ret_b = strtok_r(b, "\n", &rest_b);
    while (*ret_a && *ret_b && strcmp(*ret_a, *ret_b) == 0) {
        *ret_a = strtok_r(NULL, "\n", &rest_a);
        *ret_b = strtok_r(NULL, "\n", &rest_b);
        n++;
    }
    return *ret_a && *ret_b ? n : 0;
}

/* "--seed 8" */
static int refuse_own(const struct run *r, const char *own, const char *first, struct err *err)
{
    int name = (int)strcspn(own, " ");
    return err_set(err, ERR_USAGE, "%.*s is %s on rank %u, and %s on rank 0: it must be the same",
                   name, own, own + name + 1, r->c->rank, first + name + 1);
}

/* All hear of it, rank 0 too, whose own options are those that others are compared with. */
static int refuse_other(const struct options *o, uint32_t rank, unsigned line, struct err *err)
{
    cleanup_bytes struct bytes all = {0};
    char *rest, *one;
    tell_all(o, &all);
    one = strtok_r(all.data, "\n", &rest);
    while (--line)
        one = strtok_r(NULL, "\n", &rest);
    return err_set(err, ERR_USAGE, "%.*s differs on rank %u from rank 0 (see its log)",
                   (int)strcspn(one, " "), one, rank);
}

int run_agree(struct run *r, struct err *err)
{
    cleanup_bytes struct bytes own = {0};
    char first[TOLD_MAX] = "";
    const char *own_line, *first_line;
    uint32_t rank;
    unsigned others;
    if (r->is_async || r->c->ranks == 1)
        return 0;
    tell_all(r->o, &own);
    snprintf(first, sizeof first, "%s", own.data);
    if (r->c->ops->share(r->c, first, sizeof first, err))
        return -1;
    unsigned line = first_other(own.data, first, &own_line, &first_line);
    if (hear_others(r, line, &rank, &others, err))
        return -1;
    if (line)
        return refuse_own(r, own_line, first_line, err);
    return others ? refuse_other(r->o, rank, others, err) : 0;
}

/* --- model and samples ------------------------------------------------------------------------ */

/* What all ranks must have alike, or sums would add up numbers of different things. */
struct likeness {
    uint64_t floats, params, shapes, classes, samples, digest;
};
_Static_assert(sizeof(struct likeness) == 48, "another size is another PROTOCOL");
enum unlike { UNLIKE_NONE, UNLIKE_MODEL, UNLIKE_CLASSES, UNLIKE_COUNT, UNLIKE_SAMPLES };

static struct likeness likeness_of(const struct run *r)
{
    const struct net *n = r->shape ? r->shape : r->n; /* with servers: of no batch's rows */
    const struct checkpoint_about *about = &r->about;
    struct likeness l = {.floats = net_floats(n),
                         .params = net_n_params(n),
                         .samples = r->o->own_data ? 0 : r->batches->samples,
                         .digest = r->o->own_data ? 0 : r->batches->digest};
    for (size_t i = 0; i < net_n_params(n); i++) {
        const struct param *p = net_param(n, i);
        l.shapes = hash64(p->name, strlen(p->name), l.shapes);
        l.shapes = hash64(p->dims, (size_t)p->n_dims * sizeof *p->dims, l.shapes);
    }
    for (size_t i = 0; i < about->n_classes; i++)
        l.classes = hash64(about->classes[i], strlen(about->classes[i]), l.classes);
    return l;
}

static enum unlike compare(const struct likeness *a, const struct likeness *b)
{
    if (a->floats != b->floats || a->params != b->params || a->shapes != b->shapes)
        return UNLIKE_MODEL;
    if (a->classes != b->classes)
        return UNLIKE_CLASSES;
    if (a->samples != b->samples)
        return UNLIKE_COUNT;
    return a->digest != b->digest ? UNLIKE_SAMPLES : UNLIKE_NONE;
}

static int refuse_unlike(const struct run *r, enum unlike how, const struct likeness *own,
                         const struct likeness *first, struct err *err)
{
    switch (how) {
    case UNLIKE_CLASSES:
        return err_set(err, ERR_USAGE,
                       "rank %u has classes of other names than rank 0: a label would mean two "
                       "things (the same class folders in the --data of all ranks)",
                       r->c->rank);
    case UNLIKE_COUNT:
        return err_set(err, ERR_USAGE,
                       "rank %u has %" PRIu64 " samples in --data, rank 0 has %" PRIu64
                       ": they must be the same (--own_data: each has its own)",
                       r->c->rank, own->samples, first->samples);
    case UNLIKE_SAMPLES:
        return err_set(err, ERR_USAGE,
                       "rank %u has other samples in --data than rank 0, though as many: a number "
                       "would mean two of them (the same files on all ranks; --own_data: each has "
                       "its own)",
                       r->c->rank);
    default:
        return err_set(err, ERR_USAGE,
                       "rank %u has another model than rank 0: %" PRIu64 " parameters of %" PRIu64
                       " numbers, not %" PRIu64 " of %" PRIu64
                       " (the same --model, --image and --hidden on all ranks, and data with the "
                       "same classes or ids?)",
                       r->c->rank, own->params, own->floats, first->params, first->floats);
    }
}

int check_ranks(struct run *r, struct err *err)
{
    static const char *const has[] = {"", "another model", "classes of other names",
                                      "more or fewer samples in --data", "other samples in --data"};
    uint32_t rank;
    unsigned others;
    if (r->c->ranks == 1)
        return 0;
    struct likeness own = likeness_of(r), first = own;
    if (r->c->ops->share(r->c, &first, sizeof first, err))
        return -1;
    enum unlike how = compare(&own, &first);
    if (hear_others(r, how, &rank, &others, err))
        return -1;
    if (how)
        return refuse_unlike(r, how, &own, &first, err);
    return others ? err_set(err, ERR_USAGE, "rank %u has %s than rank 0 (see its log)", rank,
                            has[others])
                  : 0;
}
