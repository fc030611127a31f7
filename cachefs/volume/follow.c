/*
 * A machine without a server of the set: nobody tells its mount which version is to be served. If
 * it knows a service that has all servers (one URL as `peers`), it asks that one every few seconds
 * and goes where they are, to a newer version and back to an older one, pinned or not. A version
 * that it has not got it takes from one of them (pin.c).
 *
 * As long as something was heard, its own refreshes rest, and what a scan finds is kept, not
 * served: two listers would have two opinions. Where nothing is heard any more, what is served
 * stays.
 *
 * A mount that has a partition is one of those that are asked for: its server tells it (guide.c of
 * the runtime server). It follows nobody, nor does one whose version was named.
 */
#define LOG_MODULE "volume"
#include "volume-internal.h"

#include <string.h>

#include "log.h"

/* Lock held. */
static bool may_follow(const struct volume *v)
{
    return !v->division.partitions && !named_catalog(v);
}

bool follow_wants(void *arg)
{
    struct volume *v = arg;
    ACQUIRE(&v->lock);
    return v->follow.ready && may_follow(v);
}

void follow_start(struct volume *v)
{
    ACQUIRE(&v->lock);
    v->follow.ready = true;
}

bool follow_is_on(struct volume *v)
{
    ACQUIRE(&v->lock);
    return v->follow.on && may_follow(v);
}

void follow_others(struct volume *v)
{
    ACQUIRE(&v->lock);
    v->follow.on = v->follow.due = false;
    v->follow.why[0] = '\0';
}

/* Lock held. */
static bool is_there(const struct volume *v)
{
    return strcmp(catalog_info(v->versions[0])->digest, v->follow.version) == 0 &&
           v->pinned == v->follow.pinned;
}

/* --- going there ------------------------------------------------------------------------------ */

/* False: the volume closes. */
static bool next_step(struct volume *v, struct follow *ret)
{
    ACQUIRE(&v->lock);
    while (!atomic_load(&v->closing) && !v->follow.due)
        cond_wait(&v->changed, &v->lock);
    v->follow.due = false;
    *ret = v->follow;
    return !atomic_load(&v->closing);
}

/* What fails again and again is logged once. */
static void step_failed(struct volume *v, const struct err *err)
{
    {
        ACQUIRE(&v->lock);
        bool known = strncmp(v->follow.why, err->msg, sizeof v->follow.why - 1) == 0;
        snprintf(v->follow.why, sizeof v->follow.why, "%.*s", (int)sizeof v->follow.why - 1,
                 err->msg);
        if (known)
            return;
    }
    log_warn(v->conf.log, "the version of the set's servers is not served here: %s", err->msg);
}

static void *follow_main(void *arg)
{
    struct volume *v = arg;
    struct follow to;
    while (next_step(v, &to)) {
        struct err err = {0};
        if (version_go_to(v, to.version, to.pinned, &err) == 0) {
            ACQUIRE(&v->lock);
            v->follow.why[0] = '\0';
        } else if (err.class != ERR_CANCELLED) {
            step_failed(v, &err);
        }
    }
    return NULL;
}

void follow_heard(void *arg, const char *version, bool pinned)
{
    struct volume *v = arg;
    struct follow *f = &v->follow;
    ACQUIRE(&v->lock);
    if (atomic_load(&v->closing) || !may_follow(v))
        return;
    f->on = true;
    snprintf(f->version, sizeof f->version, "%s", version);
    f->pinned = pinned;
    if (is_there(v)) {
        f->why[0] = '\0';
        return;
    }
    f->due = true;
    if (!f->started)
        f->started = thread_start(&f->thread, "follow", follow_main, v) == 0; /* or the next time */
    cond_broadcast(&v->changed);
}

void follow_stop(struct volume *v)
{
    bool started;
    {
        ACQUIRE(&v->lock);
        started = v->follow.started;
    }
    if (started)
        pthread_join(v->follow.thread, NULL);
}

void follow_status(struct volume *v, struct json_writer *w)
{
    ACQUIRE(&v->lock);
    bool on = v->follow.on && may_follow(v);
    jw_bool(w, "follows", on);
    jw_str(w, "follows_why", on ? v->follow.why : "");
}
