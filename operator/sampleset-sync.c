/*
 * Listing a set (or copying it to its store first, with spec.sync), once and again by the clock.
 *
 * A job's id says what it is for: KIND-SUM-N, the N-th try at what the sum is of, or KIND-SUM-rT-N
 * for the round that was due at T. It follows from what is there, and sending it twice is sending
 * it once: so from any state in which we were cut off, the same job is found.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cron.h"
#include "hash.h"
#include "mem.h"
#include "object.h"
#include "sampleset-internal.h"

#define SYNCED        "Synced"
#define POLL_S        5
#define RETRY_FIRST_S 60
#define RETRY_MOST_S  3600
#define ROUNDS_MOST   100000 /* missed ones that are passed over */

/* --- ids -------------------------------------------------------------------------------------- */

static char *base_of(const struct set_plan *p, const char *kind, int64_t due)
{
    char hex[65];
    const struct sampleset_sync *sync = p->spec->sync;
    cleanup_free char *text =
        xasprintf("%s\n%s\n%s\n%s\n%s\n%s\n%d", p->uid, kind, p->store.uri ? p->store.uri : "",
                  p->store.endpoint ? p->store.endpoint : "", p->from.uri ? p->from.uri : "",
                  p->from.endpoint ? p->from.endpoint : "", sync && sync->delete);
    sha256_hex(hex, text, strlen(text));
    return due ? xasprintf("%s-%.8s-r%" PRId64, kind, hex, due) : xasprintf("%s-%.8s", kind, hex);
}

/* The try that an id is of its base; 0: it is of another. */
static int64_t try_of(const char *id, const char *base)
{
    size_t len = strlen(base);
    if (!id || strncmp(id, base, len) != 0 || id[len] != '-' ||
        strspn(id + len + 1, "0123456789") != strlen(id + len + 1))
        return 0;
    return strtoll(id + len + 1, NULL, 10);
}

/* --- what is sent ----------------------------------------------------------------------------- */

/* The URI of several sources is their set file, which knows where those that are claims lie. */
static void write_sources(const struct set_plan *p, struct json_writer *w)
{
    cleanup_json struct json_doc *doc = NULL;
    struct json root = {0};
    if (!p->spec->sources.n)
        jw_str(w, NULL, p->from.uri);
    else if (json_parse(&doc, "sources", p->from.uri, strlen(p->from.uri), NULL) == 0)
        root = json_root(doc);
    struct json all = json_get(&root, "sources");
    for (size_t i = 0; i < json_count(&all); i++) {
        struct json one = json_at(&all, i);
        jw_str(w, NULL, part_text(&one, "uri"));
    }
}

static void write_copy(const struct set_plan *p, struct json_writer *w)
{
    jw_array(w, "sources");
    write_sources(p, w);
    jw_end(w);
    jw_str(w, "destination", p->store.uri);
    if (p->from.endpoint)
        jw_str(w, "endpoint", p->from.endpoint);
    if (p->from.region)
        jw_str(w, "region", p->from.region);
    if (p->spec->sync->delete)
        jw_bool(w, "deleteDst", true);
    store_write_keys(w, "credentials", p->from.secret_object);
    store_write_keys(w, "destinationCredentials", p->store.secret_object);
}

static void send_job(struct set_plan *p, const char *kind, const char *id)
{
    cleanup_free char *url = part_server_url(p->ns, p->name, 0, "/v1/jobs");
    struct action *a = act_send(&p->late, "POST", url);
    struct json_writer w;
    jw_init(&w, &a->body);
    jw_object(&w, NULL);
    jw_str(&w, "id", id);
    jw_str(&w, "type", strcmp(kind, "copy") == 0 ? "sync" : "scan");
    jw_object(&w, "options");
    if (strcmp(kind, "copy") == 0)
        write_copy(p, &w);
    jw_end(&w);
    jw_end(&w);
}

/* --- one job ---------------------------------------------------------------------------------- */

struct errand {
    const char *kind;
    char *base;
    const char *was; /* the id in the status, if it is of this base; else NULL */
    int64_t tries;
    char *id;
    char *error;
};

static void take_id(struct set_plan *p, const char *id)
{
    free(p->sync_job);
    p->sync_job = xstrdup(id);
}

static enum set_sync begin(struct set_plan *p, struct errand *e)
{
    take_id(p, e->id);
    send_job(p, e->kind, e->id);
    plan_again(p, 1);
    return SYNC_RUNS;
}

static enum set_sync failed(struct set_plan *p, struct errand *e, const struct json *job)
{
    const char *why = part_text(job, "error");
    int64_t wait = RETRY_FIRST_S, ended = part_time(part_text(job, "ended"));
    for (int64_t n = 1; n < e->tries && wait < RETRY_MOST_S; n++)
        wait *= 2;
    wait = wait < RETRY_MOST_S ? wait : RETRY_MOST_S;
    int64_t left = ended >= 0 ? ended + wait - view_now(p->v) : wait;
    take_id(p, e->id);
    e->error = xstrdup(why && *why ? why : "it was cancelled");
    if (left > 0) {
        plan_again(p, (unsigned)left);
        return SYNC_FAILED;
    }
    free(e->id);
    e->id = xasprintf("%s-%" PRId64, e->base, e->tries + 1);
    return begin(p, e);
}

/* `tries` is what the id says: how often it was begun. */
static enum set_sync look(struct set_plan *p, struct errand *e)
{
    cleanup_free char *path = xasprintf("/v1/jobs/%s", e->id);
    cleanup_free char *url = part_server_url(p->ns, p->name, 0, path);
    const struct view_answer *a = view_fetch(p->v, url);
    if (!a)
        return SYNC_RUNS;
    const char *state = part_text(&a->body, "state");
    take_id(p, e->id);
    if (a->status == 404)
        return begin(p, e);
    if (a->status != 200 || !state) {
        plan_again(p, POLL_S);
        return SYNC_RUNS;
    }
    if (strcmp(state, "succeeded") == 0)
        return SYNC_DONE;
    if (strcmp(state, "failed") == 0 || strcmp(state, "cancelled") == 0)
        return failed(p, e, &a->body);
    plan_again(p, POLL_S);
    return SYNC_RUNS;
}

/* Done when the server says so. */
static enum set_sync run(struct set_plan *p, const char *kind, int64_t due, char **ret_error)
{
    struct errand e = {.kind = kind, .base = base_of(p, kind, due)};
    const char *was = part_text(&p->status, "syncJobName");
    enum set_sync result;
    e.tries = try_of(was, e.base);
    e.was = e.tries ? was : NULL;
    if (!e.tries)
        e.tries = 1;
    e.id = xasprintf("%s-%" PRId64, e.base, e.tries);
    result = !p->n_rows || !p->rows[0].ready ? SYNC_WAITS : e.was ? look(p, &e) : begin(p, &e);
    if (result == SYNC_WAITS && e.was)
        take_id(p, e.was);
    *ret_error = e.error;
    free(e.base);
    free(e.id);
    return result;
}

static bool is_at(const struct set_plan *p, const char *kind, int64_t due)
{
    cleanup_free char *base = base_of(p, kind, due);
    return try_of(part_text(&p->status, "syncJobName"), base) > 0;
}

/* Copying, where it is wanted, and then listing. */
static enum set_sync run_all(struct set_plan *p, int64_t due, char **ret_error)
{
    *ret_error = NULL;
    if (p->spec->sync && !is_at(p, "list", due)) {
        enum set_sync copied = run(p, "copy", due, ret_error);
        if (copied != SYNC_DONE)
            return copied;
    }
    return run(p, "list", due, ret_error);
}

/* --- by the clock ----------------------------------------------------------------------------- */

/* The last moment up to now, after `last`, at which a round was due; 0: none. *ret_next: the next
 * one, or -1. */
static int64_t due_at(struct set_plan *p, int64_t last, int64_t *ret_next)
{
    const struct api_schedule *r = p->spec->refresh;
    struct cron cron;
    struct zone *zone = NULL;
    struct err err = {0};
    int64_t due = 0, at;
    *ret_next = -1;
    if (cron_parse(&cron, r->cron, &err) || zone_open(&zone, r->zone ? r->zone : "UTC", &err)) {
        part_condition_warn(&p->conditions, "Refreshed", "InvalidSchedule", "spec.refresh: %s",
                            err.msg);
        return 0;
    }
    for (int n = 0; n < ROUNDS_MOST && (at = cron_next(&cron, zone, last)) >= 0; n++) {
        *ret_next = at;
        if (at > view_now(p->v))
            break;
        due = last = at;
    }
    zone_free(zone);
    return due;
}

/* A version that is pinned is not replaced. */
static bool refreshes(const struct set_plan *p)
{
    return p->spec->refresh && !p->spec->refresh->suspend && !p->spec->version;
}

static void keep_time(struct set_plan *p, int64_t t)
{
    char text[PART_TIME_BYTES];
    part_time_text(t, text);
    free(p->refreshed_at);
    p->refreshed_at = xstrdup(text);
}

static void refresh(struct set_plan *p)
{
    int64_t last = part_time(p->refreshed_at), next, due = due_at(p, last, &next);
    char *error = NULL;
    if (due) {
        enum set_sync result = run_all(p, due, &error);
        if (result == SYNC_FAILED)
            part_condition_warn(&p->conditions, "Refreshed", "Failed",
                                "looking at the source again failed: %s (the next round tries it "
                                "again)",
                                error);
        else if (result == SYNC_DONE)
            part_condition(&p->conditions, "Refreshed", "True", "Refreshed",
                           "the source was looked at as it was due");
        else
            part_condition(&p->conditions, "Refreshed", "Unknown", "Running",
                           "the source is being looked at");
        if (result == SYNC_DONE || result == SYNC_FAILED)
            keep_time(p, due);
        free(error);
    } else if (part_condition_was(&p->conditions, "Refreshed")) {
        struct part_conditions *c = &p->conditions;
        part_condition_keep(c, "Refreshed");
    }
    if (next > view_now(p->v))
        plan_again(p, (unsigned)(next - view_now(p->v)));
}

/* --- all -------------------------------------------------------------------------------------- */

static void say(struct set_plan *p, const char *error)
{
    struct part_conditions *c = &p->conditions;
    const char *reason = part_condition_reason_was(c, SYNCED);
    switch (p->sync) {
    case SYNC_WAITS:
        part_condition(c, SYNCED, "False", "Waiting", "server 0 is not ready yet");
        break;
    case SYNC_RUNS: /* why the last try failed is known until another outcome is */
        if (reason && strcmp(reason, "Failed") == 0)
            part_condition_keep(c, SYNCED);
        else
            part_condition(c, SYNCED, "False", "Running", "job %s is under way",
                           p->sync_job ? p->sync_job : "");
        break;
    case SYNC_FAILED:
        part_condition_warn(c, SYNCED, "Failed",
                            "%s (correct the source or its keys; it is tried again by itself)",
                            error ? error : "it failed");
        break;
    case SYNC_DONE:
        part_condition(c, SYNCED, "True", p->spec->sync ? "Copied" : "Listed", "%s",
                       p->spec->sync ? "the samples are at the destination"
                                     : "the source is listed");
        break;
    }
}

/* It was done, for what is asked for now: a refresh's job is of another base, but of the same sum.
 */
static bool is_done(const struct set_plan *p)
{
    cleanup_free char *base = base_of(p, "list", 0), *copy = base_of(p, "copy", 0);
    const char *was = part_text(&p->status, "syncJobName");
    const char *held = part_condition_was(&p->conditions, SYNCED);
    if (!was || !held || strcmp(held, "True") != 0)
        return false;
    return strncmp(was, base, strlen(base)) == 0 || strncmp(was, copy, strlen(copy)) == 0;
}

void set_sync(struct set_plan *p)
{
    const char *was = part_text(&p->status, "syncJobName"),
               *at = part_text(&p->status, "refreshedAt");
    char *error = NULL;
    p->sync_job = was ? xstrdup(was) : NULL;
    p->refreshed_at = at ? xstrdup(at) : NULL;
    if (p->spec->no_sync) {
        p->sync = SYNC_DONE;
        part_condition(&p->conditions, SYNCED, "True", "NotWanted",
                       "spec.noSync: the samples are taken as they are");
        return;
    }
    if (!p->store_ok) {
        p->sync = is_done(p) ? SYNC_DONE : SYNC_WAITS;
        if (p->sync == SYNC_DONE)
            part_condition_keep(&p->conditions, SYNCED);
        else
            part_condition(&p->conditions, SYNCED, "False", "Waiting", "the source cannot be used");
        return;
    }
    p->sync = is_done(p) ? SYNC_DONE : run_all(p, 0, &error);
    say(p, error);
    free(error);
    if (p->sync != SYNC_DONE)
        return;
    if (part_time(p->refreshed_at) < 0)
        keep_time(p, view_now(p->v));
    if (refreshes(p))
        refresh(p);
}
