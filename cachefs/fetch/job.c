/*
 * The life of a job on the engine's thread: started, landed well or badly, parked, finished.
 */
#include <assert.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>

#include "clock.h"
#include "engine-internal.h"
#include "hash.h"
#include "mem.h"

#define RETRY_BASE_NS   (100 * NS_PER_MS)
#define RETRY_CAP_NS    (10 * NS_PER_S)
#define WHOLE_PATIENCE  3           /* times try_timeout: listings and uploads may think longer */
#define PROGRESS_BYTES  (64u << 10) /* a try_timeout, for a try that outlives its job's budget */
#define BUDGETS_AT_MOST 4           /* after that even progress does not help who reads */

const struct store *job_store(const struct job *j)
{
    return j->is_get ? j->get.store : j->whole.store;
}

void get_name(const struct fetch_get *g, struct bytes *out)
{
    store_add_object_uri(out, store_uri(g->store), g->key, g->key_len);
}

void job_name(const struct job *j, struct bytes *out)
{
    if (j->is_get)
        get_name(&j->get, out);
    else
        bytes_add_str(out, store_uri(j->whole.store));
}

/* --- the end --------------------------------------------------------------------------------- */

static void count_failure(struct fetch *f, const struct err *err)
{
    if (err->class == ERR_STALE)
        counter_add(&f->counts->stale, 1);
    else if (err->class != ERR_CANCELLED && err->class != ERR_NOT_FOUND) /* that is an answer */
        counter_add(&f->counts->failures, 1);
}

void job_finish(struct fetch *f, struct job *j, const struct err *err)
{
    assert(!j->main && !j->hedge && !j->item.queued);
    if (j->is_get) {
        ACQUIRE(&f->lock);
        dest_forget(f, j);
    }
    if (err)
        count_failure(f, err);
    if (j->is_get)
        j->get.done(j->get.arg, err);
    else
        j->whole.done(j->whole.arg, err);
    free(j->why);
    free(j);
}

void job_finish_failed(struct fetch *f, struct job *j, const struct err *why)
{
    cleanup_bytes struct bytes name = {0};
    job_name(j, &name);
    struct err err = *why;
    if (j->tries > 1 && why->class != ERR_CANCELLED && why->class != ERR_STALE)
        err_set(&err, why->class, "%s (gave up after %u tries)", why->msg, j->tries);
    err.sys = why->sys;
    err_wrap(&err, j->is_get ? "get %s" : "%s", name.data);
    job_finish(f, j, &err);
}

void job_end_flights(struct fetch *f, struct job *j)
{
    if (j->main)
        flight_end(f, j->main);
    if (j->hedge)
        flight_end(f, j->hedge);
    j->main = j->hedge = NULL;
}

/* --- second requests -------------------------------------------------------------------------- */

static bool is_reader(const struct job *j)
{
    return job_prio(j) == PRIO_READER;
}

static struct hedge *hedge_of(struct fetch *f, const struct job *j)
{
    return &f->hedges[!is_reader(j)];
}

/* Nothing waits for a slot, and no store asks for patience. */
static bool line_is_idle(struct fetch *f)
{
    if (f->parked)
        return false;
    ACQUIRE(&f->lock);
    return !queues_have(&f->http, QUEUES_ALL);
}

/* --- success --------------------------------------------------------------------------------- */

static void land_well(struct fetch *f, struct flight *fl)
{
    struct job *j = fl->job;
    uint64_t took = f->now_ns - fl->started_ns;
    retry_budget_success(&f->retry_budget);
    if (j->is_get) {
        histogram_add(&f->counts->latency, f->now_ns - j->first_ns);
        hedge_learn(hedge_of(f, j), j->get.len, took, (uint32_t)f->n_flying);
        if (fl == j->hedge) {
            /* The first flight must not write any more once the bytes are in place. */
            if (j->main)
                flight_end(f, j->main);
            j->main = NULL;
            memcpy(j->get.dest, fl->scratch, j->get.len);
            counter_add(&f->counts->hedge_wins, 1);
        }
    } else {
        if (fl->first_put)
            plain_learn(fl);
        if (j->whole.answer)
            *j->whole.answer = fl->answer;
        if (j->whole.body) {
            bytes_release(j->whole.body);
            *j->whole.body = fl->text;
            fl->text = (struct bytes){0};
        }
    }
    job_end_flights(f, j);
    job_finish(f, j, NULL);
}

/* --- failure --------------------------------------------------------------------------------- */

static enum retry_how how_to_go_on(struct job *j, enum again again, const struct err *err)
{
    if (err->class == ERR_STALE)
        return ++j->stale_seen < STALE_TRIES ? RETRY_PAUSE : RETRY_NEVER;
    switch (again) {
    case AGAIN_LATER:
        return RETRY_PAUSE;
    case AGAIN_NEW_CREDS:
        j->force_creds = true;
        __attribute__((fallthrough));
    case AGAIN_NOW:
        return ++j->rebuilt <= REBUILD_MAX ? RETRY_AT_ONCE : RETRY_NEVER;
    default:
        return RETRY_NEVER;
    }
}

/* Of its budget, in which what the rate limit holds up is not counted. */
static uint64_t spent_ns(const struct fetch *f, const struct job *j)
{
    return j->first_ns ? f->now_ns - j->first_ns - j->held_ns : 0;
}

static void park(struct fetch *f, struct job *j, uint64_t pause_ns)
{
    j->due_ns = f->now_ns + pause_ns;
    j->next = f->parked;
    f->parked = j;
    f->n_parked++;
    engine_due(f, j->due_ns);
}

/* Anything but silence, or what a gateway says in the place of a server that is away. */
static bool is_answered(const struct flight *fl)
{
    int status = fl->answer.status;
    return status && (status < 502 || status > 504);
}

static struct store *store_of(const struct flight *fl)
{
    return (struct store *)job_store(fl->job);
}

/* Tries tell an object that cannot be had, or a wrong address, from what passes: none of that is
 * said by a store that did answer, and since this job's try before has answered nobody. */
static void note_silence(struct fetch *f, struct flight *fl)
{
    struct job *j = fl->job;
    uint64_t since = store_silent_since_ns(store_of(fl), f->now_ns);
    j->excused += since <= j->unanswered_ns && f->now_ns - since < f->conf.away_ns;
    j->unanswered_ns = f->now_ns;
}

void job_failed(struct fetch *f, struct job *j, enum again again, unsigned retry_after_s,
                const struct err *err)
{
    if (err->class == ERR_CORRUPT)
        counter_add(&f->counts->mismatches, 1);
    /* Somebody sits and waits for a whole request, and a wrong address must soon be told. */
    unsigned max_tries = j->is_get ? f->conf.max_tries : (f->conf.max_tries + 1) / 2;
    const struct retry_policy policy = {.max_tries = max_tries,
                                        .base_ns = RETRY_BASE_NS,
                                        .cap_ns = RETRY_CAP_NS,
                                        .budget_ns = f->conf.budget_ns};
    f->seed = hash_mix64(f->seed + 1);
    const struct retry_ask ask = {.how = how_to_go_on(j, again, err),
                                  .tries = j->tries ? j->tries : 1,
                                  .excused = j->excused,
                                  .elapsed_ns = f->conf.unhurried ? 0 : spent_ns(f, j),
                                  .server_asks_ns = retry_after_s * NS_PER_S,
                                  .now_ns = f->now_ns,
                                  .random = f->seed};
    uint64_t pause;
    if (!retry_decide(&policy, &f->retry_budget, &ask, &pause)) {
        job_finish_failed(f, j, err);
        return;
    }
    counter_add(&f->counts->retries, 1);
    if (!j->why)
        j->why = xmalloc(sizeof *j->why);
    *j->why = *err;
    j->creds_seen = false;
    if (pause)
        park(f, j, pause);
    else
        job_resume(f, j);
}

void flight_landed(struct fetch *f, struct flight *fl, CURLcode code)
{
    struct job *j = fl->job;
    struct err err = {0};
    enum again again = OVER;
    if (is_answered(fl))
        store_answered(store_of(fl));
    else
        note_silence(f, fl);
    if (answer_judge(f, fl, code, &again, &err) == 0) {
        land_well(f, fl);
        return;
    }
    unsigned retry_after_s = fl->answer.retry_after_s;
    if (!j->is_get && j->whole.answer)
        *j->whole.answer = fl->answer;
    if (fl == j->main)
        j->main = NULL;
    else
        j->hedge = NULL;
    flight_end(f, fl);
    if (!j->main && !j->hedge) /* otherwise the other one may still do it */
        job_failed(f, j, again, retry_after_s, &err);
}

/* --- take-off -------------------------------------------------------------------------------- */

static uint64_t patience_ns(const struct fetch *f, const struct job *j)
{
    return j->is_get ? f->conf.try_timeout_ns : WHOLE_PATIENCE * f->conf.try_timeout_ns;
}

static bool may_hedge(const struct fetch *f, const struct job *j)
{
    return f->conf.hedge && j->is_get && !j->hedged && j->tries == 1 && j->main &&
           atomic_load_explicit(&f->bandwidth, memory_order_relaxed) == 0;
}

/* When to look whether the flight is late. */
static uint64_t late_ns(struct fetch *f, const struct job *j)
{
    if (!may_hedge(f, j))
        return NEVER_NS;
    return is_reader(j) ? hedge_after_ns(hedge_of(f, j), j->get.len) : HEDGE_LOOK_NS;
}

static void watch(struct fetch *f, struct job *j)
{
    engine_due(f, f->now_ns + patience_ns(f, j));
    uint64_t late = late_ns(f, j);
    if (late != NEVER_NS)
        engine_due(f, f->now_ns + late);
}

void job_start(struct fetch *f, struct job *j)
{
    if (creds_hold(f, j)) {
        slot_give(f, j->low);
        return;
    }
    struct err err = {0};
    if (!j->first_ns)
        j->first_ns = f->now_ns;
    j->tries++;
    j->sent_ns = f->now_ns;
    j->main = flight_start(f, j, false, j->low, &err);
    if (!j->main) {
        slot_give(f, j->low);
        job_failed(f, j, OVER, 0, &err);
        return;
    }
    if (j->is_get && j->tries == 1)
        hedge_request(hedge_of(f, j));
    watch(f, j);
}

/* A second request for a late one. False: no slot is free, or 5 % are used up. */
static bool start_hedge(struct fetch *f, struct job *j)
{
    enum prio prio = job_prio(j);
    bool low;
    {
        ACQUIRE(&f->lock);
        if (!(slots_classes(f, f->now_ns) & 1u << prio) || !hedge_take(hedge_of(f, j)))
            return false;
        slot_take(f, prio, f->now_ns, &low);
    }
    j->hedged = true;
    j->hedge = flight_start(f, j, true, low, NULL);
    if (!j->hedge) {
        slot_give(f, low);
        return true;
    }
    counter_add(&f->counts->hedges, 1);
    watch(f, j);
    return true;
}

/* --- clocks ---------------------------------------------------------------------------------- */

/* So much of the request's body has arrived: what the socket took may lie in its buffer, which on a
 * slow line holds what is sent in minutes. */
static uint64_t arrived(const struct flight *fl)
{
    curl_off_t sent = 0;
    int fd = fl->fd, waits = 0;
    if (fl->plain)
        sent = (curl_off_t)plain_sent(fl, &fd);
    else if (curl_easy_getinfo(fl->easy, CURLINFO_SIZE_UPLOAD_T, &sent))
        return 0;
    if (fd < 0 || ioctl(fd, SIOCOUTQ, &waits) || waits > sent)
        waits = 0;
    return (uint64_t)(sent - waits);
}

/* The bytes that went out since the last look are life signs too. */
static void look_at_upload(struct fetch *f, struct flight *fl)
{
    uint64_t now = fl->req.body_len ? arrived(fl) : 0;
    if (now <= fl->last_sent)
        return;
    fl->last_sent = now;
    fl->last_ns = f->now_ns;
}

/* After its job's budget a try goes on only while it moves at a useful rate. */
static const char *over_budget(struct fetch *f, struct flight *fl)
{
    uint64_t elapsed = spent_ns(f, fl->job);
    if (elapsed < f->conf.budget_ns)
        return NULL;
    if (fl->job->is_get && !f->conf.unhurried && elapsed >= BUDGETS_AT_MOST * f->conf.budget_ns)
        return "far too slow: not finished within four times the time budget";
    look_at_upload(f, fl);
    uint64_t moved = fl->got + fl->text.len + fl->sunk + fl->last_sent;
    if (!fl->floor_ns || f->now_ns - fl->floor_ns >= f->conf.try_timeout_ns) {
        uint64_t least = f->conf.unhurried ? PROGRESS_BYTES / 16 : PROGRESS_BYTES;
        if (fl->floor_ns && moved - fl->floor_bytes < least)
            return "too slow: not finished within the time budget";
        fl->floor_ns = f->now_ns;
        fl->floor_bytes = moved;
    }
    return NULL;
}

static bool straggles(struct fetch *f, const struct flight *fl)
{
    const struct hedge_look look = {.len = fl->job->get.len,
                                    .got = fl->got,
                                    .took_ns = f->now_ns - fl->started_ns,
                                    .silent_ns = f->now_ns - fl->last_ns,
                                    .crowd = (uint32_t)f->n_flying};

    return hedge_straggles(hedge_of(f, fl->job), &look) && line_is_idle(f);
}

static void check_late(struct fetch *f, struct flight *fl)
{
    struct job *j = fl->job;
    uint64_t after = late_ns(f, j), took = f->now_ns - fl->started_ns;
    if (after == NEVER_NS)
        return;
    if (took < after)
        engine_due(f, fl->started_ns + after);
    else if (!(is_reader(j) || straggles(f, fl)) || !start_hedge(f, j))
        engine_due(f, f->now_ns + after); /* what is in its way may have ended then */
}

static void check_flight(struct fetch *f, struct flight *fl)
{
    struct job *j = fl->job;
    uint64_t patience = patience_ns(f, j);
    if (fl->paused_ns) {
        engine_due(f, f->now_ns + patience);
        return;
    }
    if (f->now_ns - fl->last_ns >= patience)
        look_at_upload(f, fl);
    const char *why = over_budget(f, fl);
    if (!why && f->now_ns - fl->last_ns >= patience)
        why = "no byte came for as long as a try may be silent";
    if (why) {
        fl->cut = true;
        err_set(&fl->why, ERR_TRANSIENT, "%s", why);
        flight_landed(f, fl, CURLE_OK);
        return;
    }
    engine_due(f, fl->last_ns + patience);
    if (fl == j->main)
        check_late(f, fl);
}

static void wake_parked(struct fetch *f)
{
    struct job *kept = NULL, *next;
    for (struct job *j = f->parked; j; j = next) {
        next = j->next;
        if (j->due_ns <= f->now_ns) {
            f->n_parked--;
            job_resume(f, j);
        } else {
            engine_due(f, j->due_ns);
            j->next = kept;
            kept = j;
        }
    }
    f->parked = kept;
}

void jobs_check_clocks(struct fetch *f)
{
    if (f->now_ns < f->next_due_ns)
        return;
    f->next_due_ns = NEVER_NS;
    engine_due(f, flights_unpause(f));
    /* Backwards: an end moves the last one, seen already, to the freed place. */
    for (size_t i = f->n_flying; i-- > 0;)
        if (i < f->n_flying)
            check_flight(f, f->flying[i]);
    wake_parked(f);
}
