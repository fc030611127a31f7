/*
 * warmup: in front (progress every half second; it ends when its client goes) or in the background
 * (its progress is in `status`). One at a time.
 */
#define LOG_MODULE "control"
#include "serve-internal.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "clock.h"
#include "log.h"
#include "mem.h"

#define FAILURES_LISTED 10000

/* --- in front -------------------------------------------------------------------------------- */

struct watched {
    struct connection *connection;
    uint64_t began_ns;
    struct bytes failures; /* a JSON array's elements */
    struct json_writer w;  /* into it */
    size_t n_failures;
};

/* A client that says no more, but listens, wants it to end. One that is gone may have been killed,
 * and ask for the same again. */
static enum warmup_wish wish_of(int sock)
{
    struct pollfd p = {.fd = sock, .events = POLLRDHUP};
    if (poll(&p, 1, 0) <= 0)
        return WARMUP_GO_ON;
    if (p.revents & (POLLHUP | POLLERR))
        return WARMUP_END;
    return p.revents & POLLRDHUP ? WARMUP_TAKE_BACK : WARMUP_GO_ON;
}

static enum warmup_wish send_progress(void *arg, const struct warmup_far *far)
{
    struct watched *watched = arg;
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    double elapsed = (double)(clock_mono_ns() - watched->began_ns) / 1e9, percent = far->percent;
    jw_init(&w, &text);
    jw_object(&w, NULL);
    jw_object(&w, "progress");
    jw_uint(&w, "done", far->done);
    jw_uint(&w, "total", far->total);
    jw_uint(&w, "bytes", far->bytes);
    jw_uint(&w, "total_bytes", far->total_bytes);
    jw_num(&w, "percent", percent);
    jw_num(&w, "eta_s", percent > 0 ? elapsed / percent * (100 - percent) : 0);
    jw_end(&w);
    jw_end(&w);
    if (server_stopping(watched->connection->server)) /* first: it shuts the socket down itself */
        return WARMUP_TAKE_BACK;
    enum warmup_wish wish = wish_of(watched->connection->sock);
    if (wish != WARMUP_END && control_send(watched->connection->sock, &text, -1, NULL))
        return WARMUP_END;
    return wish;
}

static void list_failure(void *arg, const char *path, const char *why)
{
    struct watched *watched = arg;
    if (watched->n_failures++ >= FAILURES_LISTED)
        return;
    jw_object(&watched->w, NULL);
    jw_str(&watched->w, "path", path);
    jw_str(&watched->w, "why", why);
    jw_end(&watched->w);
}

static void write_result(struct request *r, const struct warmup_result *result,
                         const struct watched *watched)
{
    size_t omitted =
        watched->n_failures > FAILURES_LISTED ? watched->n_failures - FAILURES_LISTED : 0;
    jw_object(r->w, "result");
    jw_uint(r->w, "samples", result->samples);
    jw_uint(r->w, "bytes", result->bytes);
    jw_num(r->w, "seconds", result->seconds);
    jw_uint(r->w, "already", result->already);
    jw_uint(r->w, "fetched", result->fetched);
    jw_uint(r->w, "failed", result->failed);
    jw_raw(r->w, "failures", watched->failures.data);
    jw_uint(r->w, "failures_omitted", omitted);
    jw_bool(r->w, "verified", result->verified);
    jw_uint(r->w, "unfit", result->unfit);
    jw_uint(r->w, "unfit_bytes", result->unfit_bytes);
    jw_str(r->w, "first_unfit", result->first_unfit);
    jw_uint(r->w, "room", result->room);
    jw_end(r->w);
}

static int warm_in_front(struct request *r, const struct warmup_conf *conf, struct err *err)
{
    struct watched watched = {.connection = r->connection, .began_ns = clock_mono_ns()};
    struct warmup_result result;
    jw_init(&watched.w, &watched.failures);
    jw_array(&watched.w, NULL);
    int rc = volume_warmup(r->volume, conf, send_progress, list_failure, &watched, &result, err);
    jw_end(&watched.w);
    if (!rc)
        write_result(r, &result, &watched);
    bytes_release(&watched.failures);
    return rc;
}

/* --- in the background ----------------------------------------------------------------------- */

static enum warmup_wish go_on(void *arg, const struct warmup_far *far)
{
    struct control_server *s = arg;
    (void)far;
    return atomic_load(&s->cancel_background) || server_stopping(s) ? WARMUP_TAKE_BACK
                                                                    : WARMUP_GO_ON;
}

static void log_failure(void *arg, const char *path, const char *why)
{
    struct control_server *s = arg;
    log_warn(s->conf.log, "warmup: %s: %s", path, why);
}

/* No life is to begin it again. */
static void keep_nothing(struct control_server *s)
{
    ACQUIRE(&s->lock);
    keeper_text_set(s->kept_warmup, "", NULL);
}

static void unclaim(struct control_server *s)
{
    ACQUIRE(&s->lock);
    s->warming = false;
}

static void *background_main(void *arg)
{
    struct control_server *s = arg;
    struct background *b = &s->background;
    struct warmup_result result;
    struct err err = {0};
    if (volume_warmup(s->conf.volume, &b->conf, go_on, log_failure, s, &result, &err))
        log_warn(s->conf.log, "warmup: %s", err.msg);
    else
        log_info(s->conf.log, "warmup: samples=%llu fetched=%llu already=%llu failed=%llu",
                 (unsigned long long)result.samples, (unsigned long long)result.fetched,
                 (unsigned long long)result.already, (unsigned long long)result.failed);
    if (!server_stopping(s))
        keep_nothing(s);
    unclaim(s);
    return NULL;
}

/* The thread of the one before has ended (or is about to: `warming` is false already). */
static void join_last(struct control_server *s)
{
    struct background *b = &s->background;
    if (b->started)
        pthread_join(b->thread, NULL);
    b->started = false;
    json_doc_free(b->request);
    free(b->paths);
    b->request = NULL;
    b->paths = NULL;
}

/* What a request says; the strings are the request's. Free *ret_paths. */
static int warmup_of(const struct json *root, struct warmup_conf *ret, const char ***ret_paths,
                     struct err *err)
{
    *ret = (struct warmup_conf){0};
    if (request_paths(root, ret_paths, &ret->n_paths, err))
        return -1;
    ret->paths = *ret_paths;
    if (json_str_or(root, "partition", NULL, &ret->partition, err) ||
        json_str_or(root, "strategy", NULL, &ret->strategy, err) ||
        json_str_or(root, "sampler", NULL, &ret->sampler, err) ||
        json_bool_or(root, "verify", false, &ret->verify, err) ||
        json_bool_or(root, "dry_run", false, &ret->dry_run, err)) {
        free(*ret_paths);
        *ret_paths = NULL;
        return -1;
    }
    return 0;
}

/* `text` is the request: the thread has a copy of its own. */
static int warm_behind(struct control_server *s, const struct bytes *text, struct err *err)
{
    struct background *b = &s->background;
    join_last(s);
    if (json_parse(&b->request, "warmup", text->data, text->len, err))
        return -1;
    struct json root = json_root(b->request);
    if (warmup_of(&root, &b->conf, &b->paths, err))
        return -1;
    if (volume_warmup_claim(s->conf.volume, err))
        return -1;
    b->conf.claimed = true;
    int error = thread_start(&b->thread, "warmup", background_main, s);
    if (error) {
        volume_warmup_disclaim(s->conf.volume);
        return err_thread(err, error, "start the warmup");
    }
    b->started = true;
    return 0;
}

static void keep(struct control_server *s, const struct bytes *text)
{
    struct err err = {0};
    ACQUIRE(&s->lock);
    if (atomic_load(&s->cancel_background))
        return; /* cancelled already */
    if (keeper_text_set(s->kept_warmup, text->data, &err))
        log_warn(s->conf.log, "the warmup will not outlive this process: %s", err.msg);
}

void background_end(struct control_server *s)
{
    atomic_store(&s->cancel_background, true);
    join_last(s);
}

/* --- both ------------------------------------------------------------------------------------ */

static int claim(struct control_server *s, bool background, struct err *err)
{
    ACQUIRE(&s->lock);
    if (s->warming)
        return err_set(err, ERR_LIMIT, "a warmup is running already (see `sampan status`)");
    s->warming = true;
    s->behind = background;
    atomic_store(&s->cancel_background, false); /* from here on it can be cancelled */
    return 0;
}

static int start_behind(struct request *r, struct err *err)
{
    struct control_server *s = r->connection->server;
    cleanup_bytes struct bytes text = {0};
    json_text(&r->root, &text);
    keep(s, &text);
    if (warm_behind(s, &text, err)) {
        keep_nothing(s);
        return -1;
    }
    jw_bool(r->w, "started", true);
    return 0;
}

int op_warmup(struct request *r, struct err *err)
{
    struct control_server *s = r->connection->server;
    struct warmup_conf conf;
    cleanup_free const char **paths = NULL;
    bool background;
    if (json_bool_or(&r->root, "background", false, &background, err) ||
        warmup_of(&r->root, &conf, &paths, err))
        return -1;
    background = background && !conf.dry_run;
    if (claim(s, background, err))
        return -1;
    int rc = background ? start_behind(r, err) : warm_in_front(r, &conf, err);
    if (!background || rc)
        unclaim(s);
    return rc;
}

int warmup_resume(struct control_server *s, struct err *err)
{
    const char *text = keeper_text_get(s->kept_warmup);
    cleanup_bytes struct bytes request = {0};
    if (!*text)
        return 0;
    bytes_add_str(&request, text);
    if (claim(s, true, err))
        return -1;
    if (warm_behind(s, &request, err)) {
        unclaim(s);
        return -1;
    }
    return 0;
}

int op_warmup_cancel(struct request *r, struct err *err)
{
    struct control_server *s = r->connection->server;
    (void)err;
    ACQUIRE(&s->lock);
    bool cancelled = s->warming && s->behind;
    jw_bool(r->w, "cancelled", cancelled);
    atomic_store(&s->cancel_background, true);
    if (cancelled) /* now: this life may end before the warmup's thread has */
        keeper_text_set(s->kept_warmup, "", NULL);
    return 0;
}
