/* A decision about a SampleJob, in parts; samplejob.c has their order. */
#ifndef SAMPAN_OPERATOR_SAMPLEJOB_INTERNAL_H
#define SAMPAN_OPERATOR_SAMPLEJOB_INTERNAL_H

#include "parts.h"
#include "samplejob.h"
#include "sampleset.h"

struct job_plan {
    struct view *v;
    struct actions *out;
    struct actions late; /* requests to servers: after the status, which they must not hold up */
    const struct json *object;
    struct json status;
    const char *ns, *name, *uid, *phase; /* `phase` is the old one, "" at first */
    char *finalizer;
    struct samplejob_spec *spec;
    struct part_conditions conditions;
    unsigned again; /* seconds; 0: not by the clock */

    const struct json *set;
    const char *set_ns, *set_name;
    struct sampleset_spec *set_spec;

    /* The status to be. */
    const char *new_phase;
    char *job, *message, *progress;
    char *started, *ended, *next, *last_run, *last_success;
    struct bytes parts, runs; /* items of an array, with commas; empty: none */
};

static inline void job_again(struct job_plan *p, unsigned seconds)
{
    if (!p->again || seconds < p->again)
        p->again = seconds;
}

/* Takes `text` in place of what `*to` holds. */
static inline void job_text(char **to, char *text)
{
    free(*to);
    *to = text;
}

/* Over for good, or until its options change. */
bool job_is_over(const char *phase);

/* --- samplejob-options.c ---------------------------------------------------------------------- */

/* Writes the server's options for what the spec says (docs/openapi.yaml) as an object. False: they
 * cannot be had, and a condition says why; *ret_wait tells whether that may change by itself. With
 * `secrets` keys are written, too. */
bool job_options(struct job_plan *p, bool secrets, struct bytes *out, bool *ret_wait);
/* The server's name for the type. */
const char *job_wire_type(const struct job_plan *p);
/* Which set the spec names, by whichever field; NULL: none. */
const char *job_set_name(const struct job_plan *p);

/* --- samplejob-run.c -------------------------------------------------------------------------- */

/* One run: waits, posts, polls. */
void job_run(struct job_plan *p);
/* Ends what runs at the servers. True: it has ended, or was never there. */
bool job_stop(struct job_plan *p);

/* --- samplejob-schedule.c --------------------------------------------------------------------- */

#define JOB_PARENT_ANNOTATION "sampan.io/parent" /* of a run by the clock: NS/NAME */

/* A job that comes again by the clock: makes runs, and forgets them. Deletions are added to
 * `drops`: they follow the status. */
void job_schedule(struct job_plan *p, struct actions *drops);

#endif
