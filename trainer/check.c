/* What is looked at before ranks learn together or judge: whether all have one model, and whether
 * data fits what is learned from; and what was left out of it. */
#include <inttypes.h>
#include <string.h>

#include "hash.h"
#include "train-internal.h"

#define LOG_MODULE "train"
#define SKIPS_SAID 100 /* that are named; the others are counted */

/* --- one model -------------------------------------------------------------------------------- */

/* What all ranks must have alike, or sums would add up numbers of different things. */
struct likeness {
    uint64_t floats, params, shapes, classes, samples;
};

static struct likeness likeness_of(const struct run *r)
{
    const struct net *n = r->n;
    const struct checkpoint_about *about = &r->about;
    struct likeness l = {.floats = net_floats(n),
                         .params = net_n_params(n),
                         .samples = r->o->own_data ? 0 : r->batches->samples};
    for (size_t i = 0; i < net_n_params(n); i++) {
        const struct param *p = net_param(n, i);
        l.shapes = hash64(p->name, strlen(p->name), l.shapes);
        l.shapes = hash64(p->dims, (size_t)p->n_dims * sizeof *p->dims, l.shapes);
    }
    for (size_t i = 0; i < about->n_classes; i++)
        l.classes = hash64(about->classes[i], strlen(about->classes[i]), l.classes);
    return l;
}

int check_ranks(struct run *r, struct err *err)
{
    if (r->ps || r->c->ranks == 1)
        return 0; /* servers compare for themselves */
    struct likeness own = likeness_of(r), first = own;
    if (r->c->ops->share(r->c, &first, sizeof first, err))
        return -1;
    if (memcmp(&own, &first, sizeof own) == 0)
        return 0;
    if (own.shapes == first.shapes && own.classes != first.classes)
        return err_set(err, ERR_USAGE,
                       "rank %u has classes of other names than rank 0: a label would mean two "
                       "things (the same class folders in the --data of all ranks)",
                       r->c->rank);
    if (own.shapes == first.shapes)
        return err_set(err, ERR_USAGE,
                       "rank %u has %" PRIu64 " samples in --data, rank 0 has %" PRIu64
                       ": they must be the same (--own_data: each has its own)",
                       r->c->rank, own.samples, first.samples);
    return err_set(err, ERR_USAGE,
                   "rank %u has another model than rank 0: %" PRIu64 " parameters of %" PRIu64
                   " numbers, not %" PRIu64 " of %" PRIu64
                   " (the same --model, --image and --hidden on all ranks, and data with the same "
                   "classes or ids?)",
                   r->c->rank, own.params, own.floats, first.params, first.floats);
}

/* --- data that fits --------------------------------------------------------------------------- */

static const char *name_of(const struct batches *b, int label)
{
    const char *name =
        b->ops->class_name && label < b->shape.classes ? b->ops->class_name(b, label) : NULL;
    return name ? name : "";
}

int check_test(const struct run *r, struct err *err)
{
    const struct batches *own = r->batches, *test = r->test;
    for (int i = 0; i < own->shape.classes || i < test->shape.classes; i++)
        if (strcmp(name_of(own, i), name_of(test, i)) != 0)
            return err_set(err, ERR_USAGE,
                           "--test_data: class %d is '%s', of --data it is '%s': labels would not "
                           "be the same (the same class folders in both, empty ones too)",
                           i, name_of(test, i), name_of(own, i));
    if (own->shape.classes != test->shape.classes)
        return err_set(err, ERR_USAGE, "--test_data: %d classes, --data has %d",
                       test->shape.classes, own->shape.classes);
    return 0;
}

int check_ids(const struct run *r, const struct net_batch *in, struct err *err)
{
    const struct net *n = r->shape ? r->shape : r->n;
    for (int i = 0; i < net_n_ids(n); i++)
        for (size_t k = 0; k < in->n * (size_t)net_ids_width(n, i); k++)
            if (in->ids[i][k] >= r->about.shape.rows[i])
                return err_set(err, ERR_USAGE,
                               "--test_data: id %d of input %d: what is learned from --data has %d "
                               "(the same users.dat and movies.dat in both)",
                               in->ids[i][k], i, r->about.shape.rows[i]);
    return 0;
}

/* --- what is not there ------------------------------------------------------------------------ */

void tell_empty_classes(const struct run *r)
{
    const char *name = NULL;
    uint32_t n = r->batches->ops->empty ? r->batches->ops->empty(r->batches, &name) : 0;
    if (n)
        log_warn(r->log, "--data: %u of %d class folders %s empty, the first: %s", n,
                 r->batches->shape.classes, n == 1 ? "is" : "are", name);
}

void tell_undealt(struct run *r)
{
    const struct batch_options o = run_source(r, r->o->data, true);
    if (is_first(r) && !batch_deals(&o))
        log_warn(r->log,
                 "--sampler %s: each of %u ranks reads all samples, none a share of them (those "
                 "called distributed deal, and so does local)",
                 r->o->sampler, o.ranks);
}

void tell_skips(struct run *r, struct batches *of, uint64_t *said)
{
    struct loader_skip skips[16];
    if (!r->o->skip_bad || !of->ops->skips || *said > SKIPS_SAID)
        return;
    const char *whose = of == r->test ? "--test_data: " : "";
    uint32_t n = of->ops->skips(of, skips, 16);
    for (uint32_t i = n; i-- > 0 && *said < SKIPS_SAID; (*said)++) {
        report_break(&r->report);
        log_warn(r->log, "%sleft out: %s", whose, skips[i].why);
    }
    if (*said == SKIPS_SAID) {
        log_warn(r->log, "%sothers that are left out are counted, not named", whose);
        (*said)++;
    }
}
