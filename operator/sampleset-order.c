/*
 * In which order a set is read: what its spec names, else what the last job named; ranks that
 * neither says follow from that job. Mounts of its nodes that do not have that order are told by
 * their servers. A mount that knows more of it, from the job itself, is left alone.
 */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "object.h"
#include "order.h"
#include "sampler.h"
#include "sampleset-internal.h"

#define ORDER "OrderKnown"

bool set_order_shown(const struct set_plan *p)
{
    for (size_t k = 0; k < p->n_rows; k++) {
        struct json order = json_get(&p->rows[k].mount, "order");
        const char *sampler = part_text(&order, "sampler");
        if (sampler && *sampler)
            return true;
    }
    return false;
}

static void tell_mounts(struct set_plan *p)
{
    for (size_t k = 0; k < p->n_rows; k++) {
        struct json order = json_get(&p->rows[k].mount, "order");
        if (order.node && !sampler_agrees(part_text(&order, "sampler"), p->sampler))
            set_tell(p, k, "sampler", p->sampler);
    }
}

void set_order(struct set_plan *p)
{
    struct order_spec spec;
    struct err err = {0};
    p->sampler = sampler_complete(p->spec->sampler, object_annotation(p->object, SAMPLER_NOTE));
    if (!p->sampler && set_order_shown(p)) {
        /* Without the order's own words: each epoch has others. */
        part_condition(&p->conditions, ORDER, "True", "ToldByReaders",
                       "who reads the samples has told the mounts the order");
    } else if (!p->sampler) {
        part_condition(&p->conditions, ORDER, "Unknown", "Unknown",
                       "nobody has said in which order samples are read (spec.sampler, or that of "
                       "a job): nodes keep them by a hash of their names");
    } else if (order_spec_parse(&spec, p->sampler, &err)) {
        part_condition_warn(&p->conditions, ORDER, "InvalidSampler",
                            "%s (correct spec.sampler, of the set or of its last job)", err.msg);
        free(p->sampler);
        p->sampler = NULL;
    } else {
        part_condition(&p->conditions, ORDER, "True", "Known", "samples are read by %s",
                       p->sampler);
        tell_mounts(p);
    }
}
