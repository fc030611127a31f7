/*
 * The life of a mount:
 *
 *   signals blocked, signal thread -> what is served -> control socket, nobody answered yet
 *   -> mount, first request answered -> registered -> clients answered -> "ready"
 *   -> … until unmounted … -> mount, unregistered, socket, what was served
 *
 * Each step is undone in reverse by serve(), from wherever the start got to. A process that takes
 * over a mount from the one before it ("successor") undoes nothing if it fails: the keeper tries
 * again.
 */
#define LOG_MODULE "mount"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "mem.h"
#include "serve-internal.h"

/* --- ending ----------------------------------------------------------------------------------- */

void serve_end_now(struct mount *m)
{
    ACQUIRE(&m->lock);
    m->stop = true;
    if (m->mounted)
        m->served->stop(m);
}

/* Asked to end, by a signal or over the control socket. */
static void end_soon(struct mount *m)
{
    if (m->served->end_soon)
        m->served->end_soon(m);
    else
        serve_end_now(m);
}

static void on_shutdown(void *arg)
{
    end_soon(arg);
}

/* Before there is a mount nothing waits that could be told to stop: the start is broken off. What
 * it has left is removed by the caller's cleanup on the way out of the process. The lock is held
 * until then: who has mounted meanwhile waits for it, and hands nothing to the keeper, which would
 * start lives without a cache. */
void serve_break_off(struct mount *m, const struct err *why)
{
    ACQUIRE(&m->lock);
    if (m->mounted)
        return;
    progress_end(&m->progress);
    owner_unmake((struct owner *)m->conf->owner);
    if (m->conf->start)
        daemon_failed(m->conf->start, why);
    _exit(err_exit_code(why));
}

static void *signal_main(void *arg)
{
    struct mount *m = arg;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGUSR2); /* from serve(): end this thread */
    for (;;) {
        int signal;
        if (sigwait(&set, &signal))
            continue;
        if (signal == SIGUSR2)
            return NULL;
        log_info(m->log.log, "signal %d (%s): unmounting", signal, strsignal(signal));
        if (!m->successor && !m->conf->was_ready) {
            struct err why = {0};
            err_set(&why, ERR_CANCELLED, "interrupted");
            serve_break_off(m, &why);
        }
        end_soon(m); /* a successor ends what it takes over, as soon as it has it */
    }
}

static int start_signals(struct mount *m, struct err *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* all threads inherit it: only sigwait() gets them */
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    int error = thread_start(&m->signal_thread, "signals", signal_main, m);
    if (error)
        return err_thread(err, error, "start a thread");
    m->signal_thread_runs = true;
    return 0;
}

/* --- status ----------------------------------------------------------------------------------- */

/* Where its store was looked for: in another environment the same URI may mean another store. */
static char *endpoint_of(const struct serve_conf *conf)
{
    if (strncmp(conf->set, "s3://", 5) == 0)
        return store_endpoint(conf->store);
    return conf->store->endpoint ? xstrdup(conf->store->endpoint) : NULL;
}

void serve_status(void *arg, struct bytes *json)
{
    struct mount *m = arg;
    const struct serve_conf *conf = m->conf;
    cleanup_free char *endpoint = endpoint_of(conf);
    struct json_writer w;
    jw_init(&w, json);
    jw_object(&w, NULL);
    jw_str(&w, "mountpoint", conf->mountpoint);
    jw_str(&w, "uri", conf->set);
    jw_str(&w, "endpoint", endpoint ? endpoint : "");
    jw_int(&w, "pid", getpid());
    under_keeper_status(m, &w);
    jw_num(&w, "uptime_s", (double)(clock_mono_ns() - m->began_ns) / NS_PER_S);
    jw_str(&w, "profile", conf->options->writable ? "outputs" : conf->options->profile);
    if (under_keeper_refuses(m))
        under_keeper_refused_status(m, &w);
    else
        m->served->status(m, &w);
    jw_str(&w, "dir", conf->owner->dir);
    jw_end(&w);
}

const struct served *served_of(const struct mount_options *o)
{
    return o->writable ? &serves_outputs : &serves_samples;
}

/* --- starting --------------------------------------------------------------------------------- */

static int open_served(struct mount *m, struct err *err)
{
    int result = under_keeper_refuses(m) ? 0 : m->served->open(m, err);
    progress_end(&m->progress);
    return result;
}

static int start_served(struct mount *m, struct err *err)
{
    if (m->served->mount(m, err))
        return -1;
    ACQUIRE(&m->lock);
    m->mounted = true;
    if (m->stop)
        m->served->stop(m);
    return 0;
}

static int start_control(struct mount *m, struct err *err)
{
    m->socket = xasprintf("%s/control.sock", m->conf->owner->dir);
    struct control_server_conf conf = {
        .socket_path = m->socket,
        .listener = under_keeper_copy(m, /* device= */ false),
        .status = serve_status,
        .shutdown = on_shutdown,
        .about = under_keeper_about,
        .upgrade = under_keeper_upgrade,
        .descriptor = under_keeper_descriptor,
        .state = keeper_state(m->conf->keeper),
        .arg = m,
        .log = m->log.log,
    };
    m->served->control(m, &conf);
    struct control_server *server;
    if (control_serve(&server, &conf, err))
        return -1;
    ACQUIRE(&m->lock);
    m->control = server;
    return 0;
}

int serve_set(void *mount, const char *key, const char *value, struct err *err)
{
    struct mount *m = mount;
    return control_set(m->control, key, value, err);
}

/* What the life before was told goes first: a client that waits may change it again. A kept setting
 * that is refused now is no reason to serve nothing. */
static int answer_clients(struct mount *m, struct err *err)
{
    struct err refused = {0};
    if (m->successor && !under_keeper_refuses(m) && control_resume(m->control, &refused))
        log_warn(m->log.log, "kept settings: %s", refused.msg);
    return control_accept(m->control, m->frontend, err);
}

static int tell_ready(struct mount *m, struct err *err)
{
    struct serve_conf *conf = m->conf;
    struct daemon_start *start = take_ptr(&conf->start);
    if (conf->keeper) {
        /* The keeper tells who waits: what it holds and what was said are then one thing. */
        bool waited = start != NULL;
        if (waited) {
            close(daemon_pipe(start));
            free(start);
        }
        if ((waited && daemon_let_go(err)) || keeper_ready(conf->keeper, err))
            return -1;
    } else if (start && daemon_ready(start, err)) {
        return -1;
    }
    conf->was_ready = true;
    return 0;
}

static int start(struct mount *m, struct err *err)
{
    const struct mount_options *o = m->conf->options;
    if (log_file_open(&m->log, &o->log, o->foreground, err) || start_signals(m, err) ||
        under_keeper_watch(m, err) || open_served(m, err) || start_control(m, err) ||
        start_served(m, err) || (m->conf->keeper && under_keeper_hold(m, err)) ||
        under_keeper_register(m, err) || answer_clients(m, err))
        return -1;
    log_info(m->log.log, "%s %s at %s: %s (%s)", m->successor ? "took over" : "mounted",
             m->conf->set, m->conf->mountpoint, m->served->mode(m), m->served->why(m));
    if (!m->successor && m->served->look)
        m->served->look(m);
    return tell_ready(m, err);
}

static void end(struct mount *m)
{
    struct keeper *k = m->conf->keeper;
    struct control_server *control;
    bool was_mounted;
    {
        ACQUIRE(&m->lock);
        was_mounted = m->mounted;
        m->mounted = false;
        control = take_ptr(&m->control);
    }
    if (was_mounted)
        m->served->detach(m);
    if (k)
        keeper_done(k, NULL); /* it lets go of the device, so that ours is the last one */
    if (m->registered)
        control_unregister(m->conf->mountpoint);
    control_server_free(control);
    m->served->close(m);
    if (m->signal_thread_runs) {
        pthread_kill(m->signal_thread, SIGUSR2);
        pthread_join(m->signal_thread, NULL);
    }
    lock_destroy(&m->lock);
    log_info(m->log.log, "unmounted %s", m->conf->mountpoint);
    log_file_close(&m->log);
    free(m->socket);
}

int serve(struct serve_conf *conf, struct err *err)
{
    struct mount m = {
        .conf = conf, .served = served_of(conf->options), .began_ns = clock_mono_ns()};
    m.successor = conf->keeper && keeper_held(conf->keeper)->dev >= 0;
    lock_init(&m.lock, RANK_MOUNT, "mount");
    /* Whoever runs this in the background sees errors alone, unless a person watches. */
    progress_init(&m.progress, conf->options->quiet || !isatty(STDERR_FILENO));
    int result = start(&m, err);
    if (result && m.successor)
        under_keeper_fail(&m, err);
    if (!result)
        m.served->wait(&m);
    if (m.leave)
        under_keeper_leave(&m);
    end(&m);
    return result;
}
