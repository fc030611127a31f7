/* What is looked at before ranks judge: whether data fits what is learned from; and what was left
 * out of it. */
#include <string.h>

#include "train-internal.h"

#define LOG_MODULE "train"
#define SKIPS_SAID 100 /* that are named; the others are counted */

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
