/*
 * The life of a mount:
 *
 *   signals blocked, signal thread -> volume -> mount, first request answered -> control socket
 *   -> registered -> "ready" -> … until unmounted … -> unregistered, socket, mount, volume
 *
 * Each step is undone in reverse by serve(), from wherever the start got to.
 */
#define LOG_MODULE "mount"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "control-serve.h"
#include "control.h"
#include "frontend.h"
#include "mem.h"
#include "serve-internal.h"
#include "sync.h"
#ifdef SAMPAN_TEST_LAYERS
#include "layers.h"
#endif

struct mount {
    struct serve_conf *conf;
    struct log_file log;
    struct progress progress;
    struct volume *volume;
    struct control_server *control;
    bool registered;
    uint64_t began_ns;
    pthread_t signal_thread;
    bool signal_thread_runs;

    struct lock lock;          /* guards the two below */
    struct frontend *frontend; /* NULL before it is mounted and after it is gone */
    bool stop;                 /* asked to end */
};

/* --- ending ----------------------------------------------------------------------------------- */

static void ask_to_end(struct mount *m)
{
    ACQUIRE(&m->lock);
    m->stop = true;
    if (m->frontend)
        frontend_stop(m->frontend);
}

static void on_shutdown(void *arg)
{
    ask_to_end(arg);
}

static bool is_mounted(struct mount *m)
{
    ACQUIRE(&m->lock);
    return m->frontend != NULL;
}

/* Before there is a mount nothing waits that could be told to stop: the start is broken off. What
 * it has left is removed by the caller's cleanup on the way out of the process. */
static void break_off(struct mount *m)
{
    struct err why = {0};
    err_set(&why, ERR_CANCELLED, "interrupted");
    progress_end(&m->progress);
    owner_unmake((struct owner *)m->conf->owner);
    if (m->conf->start)
        daemon_failed(m->conf->start, &why);
    _exit(130);
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
        if (!is_mounted(m))
            break_off(m);
        ask_to_end(m);
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
        return err_sys(err, error, "start a thread");
    m->signal_thread_runs = true;
    return 0;
}

/* --- status ----------------------------------------------------------------------------------- */

static void write_status(void *arg, struct bytes *json)
{
    struct mount *m = arg;
    const struct serve_conf *conf = m->conf;
    struct json_writer w;
    jw_init(&w, json);
    jw_object(&w, NULL);
    jw_str(&w, "mountpoint", conf->mountpoint);
    jw_str(&w, "uri", conf->set);
    jw_int(&w, "pid", getpid());
    jw_int(&w, "keeper_pid", 0);
    jw_int(&w, "restarts", 0);
    jw_num(&w, "uptime_s", (double)(clock_mono_ns() - m->began_ns) / NS_PER_S);
    jw_str(&w, "profile", conf->options->profile);
    volume_status(m->volume, &w);
    {
        ACQUIRE(&m->lock);
        if (m->frontend)
            frontend_status(m->frontend, &w);
    }
    jw_str(&w, "dir", conf->owner->dir);
    jw_end(&w);
}

/* --- starting --------------------------------------------------------------------------------- */

static int open_volume(struct mount *m, struct err *err)
{
    const struct mount_options *o = m->conf->options;
    struct volume_conf conf = {
        .set = m->conf->set,
        .catalog = o->catalog,
        .store = *m->conf->store,
        .memory = o->memory,
        .refresh_ns = o->refresh,
        .sampler = o->sampler,
        .prefetch = (unsigned)o->prefetch,
        .rescan = o->rescan,
        .log = m->log.log,
    };
    conf.store.log = m->log.log;
    conf.layers =
        getenv("SAMPAN_LAYERS"); /* faults put into a live mount; a release refuses them */
#ifdef SAMPAN_TEST_LAYERS
    conf.build_layers = layers_build;
#endif
    fetch_conf_defaults(&conf.fetch);
    conf.fetch.connections = (unsigned)o->connections;
    conf.fetch.bandwidth = o->bandwidth;
    conf.fetch.hedge = !o->no_hedge;
    conf.fetch.verify_md5 = o->verify_etag;
    conf.fetch.log = m->log.log;
    owner_to_volume(m->conf->owner, &conf);
    int result = volume_open(&m->volume, &conf, progress_volume, &m->progress, err);
    progress_end(&m->progress);
    return result;
}

/* Whole objects (--profile shards) lie below the first tier on a disk and share its limit. */
static const struct tier_conf *disk_tier(const struct owner *o)
{
    for (size_t i = 0; i < o->n_tiers; i++)
        if (o->tiers[i].kind != TIER_MEM)
            return &o->tiers[i];
    return NULL;
}

static int start_frontend(struct mount *m, struct err *err)
{
    const struct mount_options *o = m->conf->options;
    const struct tier_conf *disk = disk_tier(m->conf->owner);
    cleanup_free char *shards_dir = disk ? xasprintf("%s/shards", disk->dir) : NULL;
    struct frontend_conf conf = {
        .mountpoint = m->conf->mountpoint,
        .uid = o->uid < 0 ? getuid() : (uid_t)o->uid,
        .gid = o->gid < 0 ? getgid() : (gid_t)o->gid,
        .allow_other = o->allow_other,
        .shards = strcmp(o->profile, "shards") == 0,
        .shards_dir = shards_dir,
        .shards_limit = disk ? disk->limit - disk->limit / 8 : 0,
        .connections = (unsigned)o->connections,
        .push_window = o->push_window,
        .dev = -1,
        .status = write_status,
        .status_arg = m,
        .log = m->log.log,
    };
    struct frontend *f;
    if (frontend_mount(&f, m->volume, &conf, err))
        return -1;
    if (frontend_start(f, err)) {
        frontend_free(f);
        return -1;
    }
    ACQUIRE(&m->lock);
    m->frontend = f;
    if (m->stop)
        frontend_stop(f);
    return 0;
}

static int start_control(struct mount *m, struct err *err)
{
    cleanup_free char *path = xasprintf("%s/control.sock", m->conf->owner->dir);
    struct control_server_conf conf = {
        .socket_path = path,
        .volume = m->volume,
        .frontend = m->frontend,
        .status = write_status,
        .shutdown = on_shutdown,
        .arg = m,
        .log = m->log.log,
    };
    if (control_serve(&m->control, &conf, err) ||
        control_register(m->conf->mountpoint, m->conf->set, path, err))
        return -1;
    m->registered = true;
    return 0;
}

/* Valid, but seldom what was meant. */
static void warn_if_empty(struct mount *m)
{
    struct catalog *c = volume_catalog(m->volume);
    bool empty = catalog_info(c)->samples == 0;
    catalog_unref(c);
    if (!empty)
        return;
    log_warn(m->log.log, "the set is empty: nothing is listed in %s", m->conf->set);
    if (!m->conf->options->quiet)
        fprintf(
            stderr,
            "sampan mount: the set is empty: %s: nothing is listed there (is the name right?)\n",
            m->conf->set);
}

static int tell_ready(struct mount *m, struct err *err)
{
    m->conf->was_ready = true;
    if (!m->conf->start)
        return 0;
    struct daemon_start *start = m->conf->start;
    m->conf->start = NULL;
    return daemon_ready(start, err);
}

static int start(struct mount *m, struct err *err)
{
    const struct mount_options *o = m->conf->options;
    if (log_file_open(&m->log, &o->log, o->foreground, err) || start_signals(m, err) ||
        open_volume(m, err) || start_frontend(m, err) || start_control(m, err))
        return -1;
    log_info(m->log.log, "mounted %s at %s: %s (%s)", m->conf->set, m->conf->mountpoint,
             frontend_mode(m->frontend), frontend_why(m->frontend));
    warn_if_empty(m);
    return tell_ready(m, err);
}

static void end(struct mount *m)
{
    if (m->registered)
        control_unregister(m->conf->mountpoint);
    if (m->control)
        control_server_free(m->control);
    struct frontend *f;
    {
        ACQUIRE(&m->lock);
        f = take_ptr(&m->frontend);
    }
    if (f)
        frontend_free(f);
    volume_close(m->volume);
    if (m->signal_thread_runs) {
        pthread_kill(m->signal_thread, SIGUSR2);
        pthread_join(m->signal_thread, NULL);
    }
    lock_destroy(&m->lock);
    log_info(m->log.log, "unmounted %s", m->conf->mountpoint);
    log_file_close(&m->log);
}

int serve(struct serve_conf *conf, struct err *err)
{
    struct mount m = {.conf = conf, .began_ns = clock_mono_ns()};
    lock_init(&m.lock, RANK_MOUNT, "mount");
    /* Whoever runs this in the background sees errors alone, unless a person watches. */
    progress_init(&m.progress, conf->options->quiet || !isatty(STDERR_FILENO));
    int result = start(&m, err);
    if (!result)
        frontend_wait(m.frontend);
    end(&m);
    return result;
}
