/* The Lease, asked for and renewed. */
#define LOG_MODULE "lease"
#include "lead.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "informer.h"
#include "mem.h"
#include "sync.h"

#define ASK_NS   (4 * NS_PER_S)
#define STUCK_NS (60 * NS_PER_S)

struct lead {
    struct lead_conf conf;
    struct lock lock;
    struct cond changed;
    pthread_t thread;
    bool started;
    /* --- under the lock --- */
    struct lease lease;
    bool stopping, told; /* told: what `changed` was called with last */
    uint64_t ticked_at;  /* when the thread began its last step */
};

struct lead *lead_new(const struct lead_conf *conf)
{
    struct lead *l = xcalloc(1, sizeof *l);
    l->conf = *conf;
    lock_init(&l->lock, RANK_LEAD, "lead");
    cond_init(&l->changed);
    lease_init(&l->lease, &conf->times, conf->identity);
    l->ticked_at = clock_mono_ns();
    return l;
}

void lead_free(struct lead *l)
{
    if (!l)
        return;
    cond_destroy(&l->changed);
    lock_destroy(&l->lock);
    free(l);
}

/* --- one step --------------------------------------------------------------------------------- */

static int ask(struct lead *l, enum lease_step step, const struct bytes *body,
               struct json_doc **ret, struct kube_answer *answer, struct err *err)
{
    bool create = step == LEASE_CREATE;
    cleanup_free char *path = kind_path(KIND_LEASE, l->conf.ns, create ? NULL : l->conf.name);
    const struct kube_request r = {.method = step == LEASE_LOOK ? HTTP_GET
                                             : create           ? HTTP_POST
                                                                : HTTP_PATCH,
                                   .path = path,
                                   .body = step == LEASE_LOOK ? NULL : body,
                                   .timeout_ns = ASK_NS,
                                   .urgent = true};
    return kube_ask(l->conf.client, &r, ret, answer, err);
}

static void learn(struct lead *l, enum lease_step step, const struct json *object,
                  uint64_t asked_at)
{
    ACQUIRE(&l->lock);
    if (step == LEASE_LOOK)
        lease_seen(&l->lease, object, clock_mono_ns());
    else
        lease_written(&l->lease, object, asked_at);
}

/* A refusal: 404 says that there is none, 409 that another was first. */
static void take_refusal(struct lead *l, enum lease_step step, const struct kube_answer *answer)
{
    ACQUIRE(&l->lock);
    if (answer->status == 404 && step == LEASE_LOOK)
        lease_seen(&l->lease, NULL, clock_mono_ns());
    else
        lease_doubt(&l->lease);
}

static int do_step(struct lead *l, enum lease_step step, bool release)
{
    cleanup_bytes struct bytes body = {0};
    cleanup_json struct json_doc *doc = NULL;
    struct kube_answer answer = {0};
    struct err err = {0};
    uint64_t asked_at = clock_mono_ns();
    {
        ACQUIRE(&l->lock);
        lease_body(&l->lease, step, release, l->conf.ns, l->conf.name, clock_wall_ns(), &body);
    }
    if (ask(l, step, &body, &doc, &answer, &err) || !doc) {
        bool usual = answer.status == 404 || answer.status == 409 || err.class == ERR_CANCELLED;
        if (!usual)
            log_warn(l->conf.log, "%s", err.msg);
        take_refusal(l, step, &answer);
        return answer.status == 404 && step == LEASE_LOOK ? 0 : -1;
    }
    struct json root = json_root(doc);
    learn(l, step, &root, asked_at);
    return 0;
}

/* --- the thread ------------------------------------------------------------------------------- */

static void tell(struct lead *l)
{
    bool leads, news;
    {
        ACQUIRE(&l->lock);
        leads = !l->stopping && lease_leads(&l->lease, clock_mono_ns());
        news = leads != l->told;
        l->told = leads;
    }
    if (!news)
        return;
    log_info(l->conf.log, leads ? "leading as %s" : "%s leads no more", l->conf.identity);
    l->conf.changed(l->conf.arg, leads);
}

static enum lease_step next_step(struct lead *l, bool *stopping)
{
    ACQUIRE(&l->lock);
    *stopping = l->stopping;
    l->ticked_at = clock_mono_ns();
    enum lease_step step = lease_next(&l->lease, clock_mono_ns());
    return step == LEASE_WAIT ? LEASE_LOOK : step; /* it is time to look again */
}

static void rest(struct lead *l)
{
    ACQUIRE(&l->lock);
    uint64_t until = clock_mono_ns() + l->conf.times.retry;
    for (uint64_t now; !l->stopping && (now = clock_mono_ns()) < until;)
        cond_wait_for(&l->changed, &l->lock, until - now);
}

static bool may_act_at_once(struct lead *l, enum lease_step step)
{
    ACQUIRE(&l->lock);
    enum lease_step next = lease_next(&l->lease, clock_mono_ns());
    return step == LEASE_LOOK && !l->stopping &&
           (next == LEASE_CREATE || next == LEASE_TAKE || next == LEASE_RENEW);
}

static void *lead_main(void *arg)
{
    struct lead *l = arg;
    for (;;) {
        bool stopping;
        enum lease_step step = next_step(l, &stopping);
        if (stopping)
            return NULL;
        int result = do_step(l, step, false);
        tell(l);
        if (result || !may_act_at_once(l, step))
            rest(l);
    }
}

int lead_start(struct lead *l, struct kube_client *client, struct err *err)
{
    l->conf.client = client;
    int error = thread_start(&l->thread, "lease", lead_main, l);
    if (error)
        return err_thread(err, error, "start a thread");
    l->started = true;
    return 0;
}

void lead_stop(struct lead *l)
{
    bool held;
    if (!l || !l->started)
        return;
    {
        ACQUIRE(&l->lock);
        l->stopping = true;
        cond_broadcast(&l->changed);
    }
    pthread_join(l->thread, NULL);
    l->started = false;
    {
        ACQUIRE(&l->lock);
        held = l->lease.renewed_at && l->lease.known;
    }
    if (held && do_step(l, LEASE_RENEW, true) == 0)
        log_info(l->conf.log, "gave the lease back");
}

bool lead_leads(struct lead *l)
{
    ACQUIRE(&l->lock);
    return !l->stopping && lease_leads(&l->lease, clock_mono_ns());
}

uint64_t lead_write_until(void *lead)
{
    struct lead *l = lead;
    ACQUIRE(&l->lock);
    return l->stopping ? 0 : lease_write_until(&l->lease, clock_mono_ns());
}

bool lead_healthy(struct lead *l, struct err *why)
{
    ACQUIRE(&l->lock);
    uint64_t silent = clock_mono_ns() - l->ticked_at;
    if (silent < STUCK_NS)
        return true;
    err_set(why, ERR_BUG, "the lease's thread has not moved for %llu s",
            (unsigned long long)(silent / NS_PER_S));
    return false;
}
