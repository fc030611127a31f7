/*
 * The work of a cluster's job, on server 0: each server that has a part in it gets a child job, and
 * is asked about it until all have ended.
 *
 *   not asked --submit--> asked --state, twice a second--> ended: succeeded, failed, cancelled
 *        ^                  |
 *        +--- it has none --+        no answer: lost, asked again; too long: given up (ended)
 *
 * A child's id follows from the job's, and submitting is idempotent: so it does not matter when
 * this server is killed, and the next life goes on where the children are. The job's posting goes
 * along: what ended under that id for an earlier job, which this server lost, is not taken over.
 * Children are the job's: one that somebody paused is resumed, one that somebody cancelled is a
 * failure.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "fanout-internal.h"
#include "hash.h"
#include "mem.h"

#define POLL_NS     (500 * NS_PER_MS)
#define ROW_NS      (2 * NS_PER_S) /* between two rows that tell of progress alone */
#define TURN_US     (100 * 1000)
#define FAREWELL_NS (10 * NS_PER_S) /* for the children to stop */
#define ID_LONGEST  180

/* --- names ------------------------------------------------------------------------------------ */

void fanout_child_id(const char *id, unsigned partition, struct bytes *ret)
{
    size_t len = strlen(id);
    if (len <= ID_LONGEST)
        bytes_addf(ret, "%s.p%u", id, partition);
    else
        bytes_addf(ret, "%.*s-%016llx.p%u", ID_LONGEST - 17, id,
                   (unsigned long long)hash64(id, len, 0), partition);
}

bool fanout_is_child(const char *id, unsigned *ret_partition)
{
    const char *dot = strrchr(id, '.');
    if (!dot || dot == id || dot[1] != 'p' || dot[2] < '0' || dot[2] > '9' || strlen(dot) > 7)
        return false;
    char *end;
    unsigned long n = strtoul(dot + 2, &end, 10);
    *ret_partition = (unsigned)n;
    return !*end;
}

/* --- rows ------------------------------------------------------------------------------------- */

static void set_error(struct child *c, const char *text)
{
    if (c->error && strcmp(c->error, text) == 0)
        return;
    free(c->error);
    c->error = xstrdup(text);
    c->told_ns = 0;
}

static void set_child_state(struct child *c, enum job_state state)
{
    if (c->state != state)
        c->told_ns = 0;
    c->state = state;
}

/* A change of state or error at once, progress now and then: each row is a write to the disk. */
static void tell_row(struct fanout *f, struct child *c)
{
    uint64_t now = clock_mono_ns();
    bool moved = memcmp(&c->progress, &c->told_progress, sizeof c->progress) != 0;
    if (c->told_ns && (!moved || now - c->told_ns < ROW_NS) && !(c->ended && moved))
        return;
    c->told_ns = now;
    c->told_progress = c->progress;
    job_tell_partition(f->run, c->partition, c->state, &c->progress, c->error);
}

static void tell_sum(struct fanout *f)
{
    struct job_progress sum = fanout_progress(f->children, f->n);
    job_tell(f->run, &sum);
}

/* --- one child -------------------------------------------------------------------------------- */

static enum job_state state_named(const char *name)
{
    for (int i = 0; i < JOB_STATES; i++)
        if (strcmp(job_state_name((enum job_state)i), name) == 0)
            return (enum job_state)i;
    return JOB_PENDING;
}

void fanout_read(const struct json *job, enum job_state *ret_state, struct job_progress *ret)
{
    const char *state = "";
    struct json progress = json_get(job, "progress");
    int64_t eta = -1;
    json_str(job, "state", &state, NULL);
    json_int(&progress, "eta_s", 0, INT64_MAX, &eta, NULL);
    *ret_state = state_named(state);
    *ret = (struct job_progress){.items = json_uint_at(&progress, "items"),
                                 .bytes = json_uint_at(&progress, "bytes"),
                                 .total_items = json_uint_at(&progress, "total"),
                                 .total_bytes = json_uint_at(&progress, "total_bytes"),
                                 .failed = json_uint_at(&progress, "failed"),
                                 .eta_s = eta};
}

/* Takes over what the child's server says of it. */
static void take(struct child *c, const struct json *job)
{
    const char *error = "";
    struct json result = json_get(job, "result");
    cleanup_bytes struct bytes text = {0};
    enum job_state state;
    json_str(job, "error", &error, NULL);
    fanout_read(job, &state, &c->progress);
    c->asked = true;
    c->lost_ns = 0;
    set_child_state(c, state);
    set_error(c, error);
    c->ended = job_state_final(c->state);
    if (!c->ended)
        return;
    json_text(&result, &text);
    free(c->result);
    c->result = bytes_take(&text);
}

static void give_up(struct child *c, const char *why)
{
    set_child_state(c, JOB_FAILED);
    set_error(c, why);
    c->ended = true;
}

/* It does not answer: that is waited for, but not for ever. */
static void lose(struct fanout *f, struct child *c, const char *why)
{
    uint64_t now = clock_mono_ns();
    cleanup_bytes struct bytes url = {0};
    cleanup_free char *text = NULL;
    members_state(f->server->members, c->partition, &url, NULL);
    c->lost_ns = c->lost_ns ? c->lost_ns : now;
    bool over = now - c->lost_ns >= f->lost_after_ns;
    text = xasprintf("server %u%s%s%s is lost: %s (%s %llu s)", c->partition, url.len ? " (" : "",
                     url.len ? url.data : "", url.len ? ")" : "", why,
                     over ? "given up after" : "asked again for",
                     (unsigned long long)(f->lost_after_ns / NS_PER_S));
    set_error(c, text);
    if (!over)
        return;
    give_up(c, text);
    f->owed = true; /* it may still be at work */
}

static int ask(struct fanout *f, const struct child *c, enum job_ask what, struct json_doc **ret,
               struct err *err)
{
    cleanup_bytes struct bytes id = {0};
    cleanup_wiped struct bytes body = {0};
    fanout_child_id(job_id(f->run), c->partition, &id);
    if (what == ASK_SUBMIT)
        fanout_body(f, c->partition, id.data, &body);
    return cluster_ask(f->server, c->partition, what, id.data, job_posting(f->run),
                       body.len ? &body : NULL, ret, err);
}

/* Asks and takes over the answer. */
static int ask_and_take(struct fanout *f, struct child *c, enum job_ask what, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    if (ask(f, c, what, &doc, err))
        return -1;
    struct json job = json_root(doc);
    take(c, &job);
    return 0;
}

static void step(struct fanout *f, struct child *c)
{
    cleanup_bytes struct bytes why = {0};
    struct err err = {0};
    uint64_t now = clock_mono_ns();
    if (c->ended || now < c->due_ns)
        return;
    c->due_ns = now + POLL_NS;
    if (members_state(f->server->members, c->partition, NULL, &why) == MEMBER_LOST) {
        lose(f, c, why.data);
    } else if (ask_and_take(f, c, c->asked ? ASK_STATE : ASK_SUBMIT, &err)) {
        if (err.class == ERR_NOT_FOUND && c->asked)
            c->asked = false; /* it lost its state: it gets the job again */
        else if (err.class == ERR_TRANSIENT || err.class == ERR_FAILED)
            lose(f, c, err.msg);
        else
            give_up(c, err.msg);
    } else if (c->state == JOB_PAUSED) {
        ask_and_take(f, c, ASK_RESUME, NULL);
    }
    tell_row(f, c);
}

/* --- stopping --------------------------------------------------------------------------------- */

static bool at_rest(const struct child *c, enum job_ask what)
{
    return c->ended || (what == ASK_PAUSE && c->state == JOB_PAUSED);
}

/* One that never heard of the job rests, too. */
static bool stop_child(struct fanout *f, struct child *c, enum job_ask what)
{
    struct err err = {0};
    if (ask_and_take(f, c, what, &err) == 0)
        return at_rest(c, what);
    if (err.class == ERR_NOT_FOUND) {
        set_child_state(c, what == ASK_CANCEL ? JOB_CANCELLED : JOB_PAUSED);
        set_error(c, "");
        c->ended = what == ASK_CANCEL;
        return true;
    }
    if (err_errno(&err) == EEXIST) /* it has ended meanwhile */
        return ask_and_take(f, c, ASK_STATE, NULL) == 0 && at_rest(c, what);
    c->told_ns = 0;
    set_error(c, err.msg);
    return false;
}

/* All children are told; those that do not hear it will be told once they are back. */
static void stop_children(struct fanout *f, enum job_ask what)
{
    uint64_t until = clock_mono_ns() + FAREWELL_NS;
    bool rest = false;
    while (!rest && clock_mono_ns() < until) {
        bool wait = false;
        rest = true;
        for (unsigned i = 0; i < f->n; i++) {
            struct child *c = &f->children[i];
            if (at_rest(c, what))
                continue;
            bool lost = members_state(f->server->members, c->partition, NULL, NULL) == MEMBER_LOST;
            if (!lost && stop_child(f, c, what))
                continue;
            rest = false;
            wait = wait || !lost;
        }
        if (!wait)
            break;
        if (!rest)
            usleep(TURN_US);
    }
    f->owed = f->owed || !rest;
    for (unsigned i = 0; i < f->n; i++)
        tell_row(f, &f->children[i]);
    tell_sum(f);
}

/* --- all of it -------------------------------------------------------------------------------- */

static void free_children(struct fanout *f)
{
    for (unsigned i = 0; i < f->n; i++) {
        free(f->children[i].error);
        free(f->children[i].result);
    }
    free(f->children);
}

static void make_children(struct fanout *f)
{
    unsigned partitions = members_partitions(f->server->members);
    f->n = fanout_is_single(f->type, f->options) ? 1 : partitions;
    f->children = xcalloc(f->n, sizeof *f->children);
    for (unsigned i = 0; i < f->n; i++) {
        struct child *c = &f->children[i];
        c->partition = i;
        c->progress.eta_s = -1;
        c->error = xstrdup("");
        if (job_try(f->run) == 1)
            tell_row(f, c);
    }
}

/* Steps until all have ended (0), or a wish ends it (1). */
static int follow(struct fanout *f)
{
    for (;;) {
        bool ended = true;
        enum job_wish wish = job_wanted(f->run);
        if (wish != JOB_GO_ON) {
            if (!job_is_closing(f->run)) /* else they go on without us */
                stop_children(f, wish == JOB_CANCEL ? ASK_CANCEL : ASK_PAUSE);
            return 1;
        }
        for (unsigned i = 0; i < f->n; i++) {
            step(f, &f->children[i]);
            ended = ended && f->children[i].ended;
        }
        tell_sum(f);
        if (ended)
            return 0;
        usleep(TURN_US);
    }
}

static int judge(const struct fanout *f, struct err *err)
{
    const struct child *first = NULL;
    unsigned failed = 0;
    for (unsigned i = 0; i < f->n; i++)
        if (f->children[i].state != JOB_SUCCEEDED) {
            first = first ? first : &f->children[i];
            failed++;
        }
    if (!first)
        return 0;
    return err_set(err, ERR_FAILED, "%u of %u partitions failed; partition %u: %s", failed, f->n,
                   first->partition,
                   first->state == JOB_CANCELLED ? "its job was cancelled on its server"
                                                 : first->error);
}

int fanout_run(struct job_run *r, struct server *s, const struct json *options,
               struct bytes *result, struct err *err)
{
    struct fanout f = {.run = r, .server = s, .options = options, .type = job_type(r)};
    cleanup_job_keys struct job_keys from = {0}, to = {0};
    const struct store_keys *keys;
    /* A mask without keys is not handed on. Who only tells children to stop, needs none. */
    if (job_wanted(r) == JOB_GO_ON &&
        (secrets_read(options, job_secret(r), "credentials", &from, &keys, err) ||
         secrets_read(options, job_secret(r), "destinationCredentials", &to, &keys, err)))
        return -1;
    int64_t lost_after = LOST_AFTER_S;
    while (!atomic_load(&s->jobs))
        usleep(1000); /* they are being opened, and this is one of them */
    json_int_or(options, "lost_after_s", 1, INT32_MAX, LOST_AFTER_S, &lost_after, NULL);
    f.lost_after_ns = (uint64_t)lost_after * NS_PER_S;
    make_children(&f);
    int rc = follow(&f) ? 0 : judge(&f, err);
    bool ended = true;
    for (unsigned i = 0; i < f.n; i++)
        ended = ended && f.children[i].ended;
    if (ended && fanout_sum(&f, result, rc ? NULL : err))
        rc = -1;
    if (f.owed)
        owed_later(s, job_id(r));
    free_children(&f);
    return rc;
}
