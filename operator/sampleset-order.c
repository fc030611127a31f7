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

static void tell(struct set_plan *p, size_t k)
{
    cleanup_free char *url = part_server_url(p->ns, p->name, (int64_t)k, "/v1/settings");
    struct action *a = act_send(&p->late, "POST", url);
    struct json_writer w;
    jw_init(&w, &a->body);
    jw_object(&w, NULL);
    jw_str(&w, "sampler", p->sampler);
    jw_end(&w);
}

static void tell_mounts(struct set_plan *p)
{
    for (size_t k = 0; k < p->n_rows; k++) {
        struct json order = json_get(&p->rows[k].mount, "order");
        if (order.node && !sampler_agrees(part_text(&order, "sampler"), p->sampler))
            tell(p, k);
    }
}

void set_order(struct set_plan *p)
{
    struct order_spec spec;
    struct err err = {0};
    p->sampler = sampler_complete(p->spec->sampler, object_annotation(p->object, SAMPLER_NOTE));
    if (!p->sampler) {
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
