/*
 * The node as a whole: opened, watched, closed.
 *
 * The watch is one thread. It sleeps on the processes behind all mounts (pidfds) and wakes when one
 * ends or when a call pokes it; then it looks at every set: one that is served is held
 * (set_hold()), one that is not is revived or mounted again, with its binds. While something is
 * unsettled it looks every 100 ms, else every 10 s. Pods that are cut off are looked at after each
 * heal, and every 10 s.
 */
#define LOG_MODULE "watch"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>

#include "clock.h"
#include "mem.h"
#include "node-internal.h"
#include "programs.h"

#define SETTLED_MS   10000
#define UNSETTLED_MS 100
#define WORK_NS      (300 * NS_PER_S)
#define AGAIN_NS     (5 * NS_PER_S) /* after a set that could not be mounted again */

struct watch {
    pthread_t thread;
    int wake;
    _Atomic bool stop;
    /* The thread's: when the next try after a failure, and the next look at pods are due. */
    uint64_t not_before, look_at;
};

/* --- what is held ----------------------------------------------------------------------------- */

void set_let_go(struct set *s)
{
    for (int i = 0; s->holds && i < MOUNT_FDS; i++)
        close(s->held[i]);
    s->holds = false;
}

void set_hold(struct node *n, struct set *s)
{
    struct mount_look look;
    struct err why = {0};
    set_let_go(s);
    s->dev = n->mounter->ops->look(n->mounter, s->mountpoint, &look, NULL) ? 0 : look.dev;
    s->holds = n->mounter->ops->hold(n->mounter, s->mountpoint, s->held, &why) == 0;
    s->hold_after = s->holds ? 0 : clock_mono_ns() + AGAIN_NS;
    if (!s->holds)
        log_warn(n->conf.log, "set %s: its descriptors cannot be had: %s", s->uri, why.msg);
}

/* --- healing ---------------------------------------------------------------------------------- */

/* A target that shows a mount that is no more shows the new one. */
static void rebind(struct node *n, struct volume *v, struct target *t)
{
    cleanup_free char *mountpoint = set_mountpoint(n, v->set);
    struct mount_look there, set;
    struct err why = {0};
    if (n->mounter->ops->look(n->mounter, t->path, &there, NULL) || !there.mounted || !there.ours ||
        n->mounter->ops->look(n->mounter, mountpoint, &set, NULL))
        return;
    if (there.dev != set.dev)
        cut_off_note(n, v, t, there.dev);
    if (set_bind(n, v->set, t->path, t->read_only, volume_is_direct(v), &why))
        log_warn(n->conf.log, "volume %s: %s", v->id, why.msg);
}

/* False: a call works on one of them, which looks at its own target alone. */
static bool rebind_volumes(struct node *n, const char *key)
{
    size_t count;
    bool all = true;
    char **ids = volumes_of_set(n, key, &count);
    for (size_t i = 0; i < count; i++) {
        cleanup_volume struct volume_scope scope = {n, NULL};
        if (volume_try(n, ids[i], &scope.volume)) {
            all = false;
            continue;
        }
        struct volume *v = scope.volume;
        for (size_t t = 0; t < v->n_targets; t++)
            rebind(n, v, &v->targets[t]);
    }
    ids_free(ids, count);
    return all;
}

/* False: it failed, and is tried again later. */
static bool heal_one(struct node *n, const char *key)
{
    size_t volumes;
    struct err why = {0};
    bool anew = false;
    char **ids = volumes_of_set(n, key, &volumes);
    ids_free(ids, volumes);
    uint64_t deadline = clock_mono_ns() + WORK_NS;
    int result =
        volumes ? set_heal(n, key, &anew, deadline, &why) : set_down(n, key, deadline, &why);
    if (result)
        log_error(n->conf.log, "%s", why.msg);
    else if (anew && !rebind_volumes(n, key))
        set_note_anew(n, key);
    return result == 0;
}

static bool heal_all(struct node *n)
{
    size_t count;
    bool all = true;
    char **keys = sets_keys(n, &count);
    for (size_t i = 0; i < count; i++)
        all = heal_one(n, keys[i]) && all;
    ids_free(keys, count);
    return all;
}

void node_heal(struct node *n)
{
    heal_all(n);
    cut_off_look(n);
}

/* --- another program -------------------------------------------------------------------------- */

static bool runs(int pid, const char *program)
{
    char exe[4096];
    cleanup_free char *link = xasprintf("/proc/%d/exe", pid);
    ssize_t len = pid > 0 ? readlink(link, exe, sizeof exe - 1) : -1;
    exe[len > 0 ? len : 0] = '\0';
    return len > 0 && strcmp(exe, program) == 0;
}

static void upgrade_one(struct node *n, struct set *s)
{
    const char *program = n->conf.program;
    const char *const argv[] = {"sampan", "upgrade",     "--program", program,
                                "--",     s->mountpoint, NULL};
    struct mount_serving serving;
    struct err why = {0};
    n->mounter->ops->serving(n->mounter, s->mountpoint, &serving);
    if (!serving.alive || runs(serving.pid, program))
        return;
    if (n->mounter->ops->run(n->mounter, argv, clock_mono_ns() + WORK_NS, NULL, &why)) {
        log_warn(n->conf.log, "set %s: it goes on with its old program: %s", s->uri, why.msg);
        return;
    }
    log_info(n->conf.log, "set %s: handed over to %s", s->uri, program);
    set_hold(n, s); /* an older one may have handed out the open file that has the state's lock */
}

bool node_upgrade(struct node *n)
{
    size_t count;
    bool all = sets_are_idle(n); /* keys of others are not told */
    char **keys = sets_keys(n, &count);
    for (size_t i = 0; i < count; i++) {
        struct set *s = set_try(n, keys[i]);
        all = all && s;
        if (s)
            upgrade_one(n, s);
        if (s)
            set_end(n, s);
    }
    ids_free(keys, count);
    return all;
}

/* True: nothing is left to do. */
static bool change_programs(struct node *n)
{
    if (!node_upgrade(n))
        return false;
    programs_clean(n->conf.state, n->conf.program);
    return true;
}

/* --- watching --------------------------------------------------------------------------------- */

struct watched {
    struct pollfd *fds;
    size_t n;
    bool lost, unsettled;
};

static void watch_process(struct watched *w, int pid)
{
    int fd = pid > 0 ? pidfd_open(pid, 0) : -1;
    if (fd < 0) {
        w->unsettled = true; /* gone, and its successor has not registered yet */
        return;
    }
    w->fds = xrealloc(w->fds, (w->n + 1) * sizeof *w->fds);
    w->fds[w->n++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static void look_at_sets(struct node *n, struct watched *w)
{
    size_t count;
    char **keys = sets_keys(n, &count);
    for (size_t i = 0; i < count; i++) {
        cleanup_free char *mountpoint = set_mountpoint(n, keys[i]);
        struct mount_serving s;
        n->mounter->ops->serving(n->mounter, mountpoint, &s);
        if (!s.alive) {
            w->lost = true;
            continue;
        }
        watch_process(w, s.pid);
        if (s.keeper_pid)
            watch_process(w, s.keeper_pid);
    }
    ids_free(keys, count);
}

/* True: it was poked. */
static bool sleep_on(struct watch *watch, struct watched *w, int ms)
{
    w->fds = xrealloc(w->fds, (w->n + 1) * sizeof *w->fds);
    w->fds[w->n++] = (struct pollfd){.fd = watch->wake, .events = POLLIN};
    bool poked = poll(w->fds, w->n, ms) > 0 && w->fds[w->n - 1].revents;
    if (poked) {
        uint64_t count;
        ssize_t ignored = read(watch->wake, &count, sizeof count);
        (void)ignored;
    }
    for (size_t i = 0; i + 1 < w->n; i++)
        close(w->fds[i].fd);
    free(w->fds);
    return poked;
}

static void *watch_main(void *arg)
{
    struct node *n = arg;
    struct watch *watch = n->watch;
    bool changed = !n->conf.program;
    heal_all(n);
    while (!watch->stop) {
        struct watched w = {0};
        changed = changed || change_programs(n);
        look_at_sets(n, &w);
        bool held = sets_are_held(n);
        if ((w.lost || !held) && clock_mono_ns() >= watch->not_before) {
            if (!heal_all(n))
                watch->not_before = clock_mono_ns() + AGAIN_NS;
            watch->look_at = 0;
        }
        if (clock_mono_ns() >= watch->look_at) {
            cut_off_look(n);
            watch->look_at = clock_mono_ns() + SETTLED_MS * NS_PER_MS;
        }
        bool soon = w.lost || w.unsettled || !held || !changed;
        if (sleep_on(watch, &w, soon ? UNSETTLED_MS : SETTLED_MS))
            watch->look_at = 0;
    }
    return NULL;
}

static int watch_start(struct node *n, struct err *err)
{
    struct watch *w = xcalloc(1, sizeof *w);
    w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    n->watch = w;
    int error = w->wake < 0 ? errno : thread_start(&w->thread, "watch", watch_main, n);
    if (!error)
        return 0;
    if (w->wake >= 0)
        close(w->wake);
    free(take_ptr(&n->watch));
    return err_thread(err, error, "start the watch over mounts");
}

void node_watch_poke(struct node *n)
{
    uint64_t one = 1;
    ssize_t ignored = n->watch ? write(n->watch->wake, &one, sizeof one) : 0;
    (void)ignored;
}

static void watch_stop(struct node *n)
{
    if (!n->watch)
        return;
    n->watch->stop = true;
    node_watch_poke(n);
    pthread_join(n->watch->thread, NULL);
    close(n->watch->wake);
    free(take_ptr(&n->watch));
}

/* --- the node --------------------------------------------------------------------------------- */

int node_open(struct node **ret, const struct node_conf *conf, struct err *err)
{
    struct node *n = xcalloc(1, sizeof *n);
    n->conf = *conf;
    n->mounter = conf->mounter;
    n->mounts = xasprintf("%s/mnt", conf->state);
    lock_init(&n->lock, RANK_NODE, "node");
    cond_init(&n->cond);
    int result = state_open(&n->volumes_dir, conf->state, "volumes", err);
    if (!result)
        result = state_open(&n->sets_dir, conf->state, "sets", err);
    n->volumes_dir.step = n->sets_dir.step = conf->step;
    n->volumes_dir.step_arg = n->sets_dir.step_arg = conf->step_arg;
    if (result || folder_make(n->mounts, err) || folder_make(conf->run, err) ||
        volumes_load(n, err) || sets_load(n, err) || (!conf->no_watch && watch_start(n, err))) {
        node_close(n);
        return -1;
    }
    *ret = n;
    return 0;
}

void node_close(struct node *n)
{
    if (!n)
        return;
    watch_stop(n);
    volumes_free(n);
    sets_free(n);
    state_close(&n->volumes_dir);
    state_close(&n->sets_dir);
    free(n->mounts);
    cond_destroy(&n->cond);
    lock_destroy(&n->lock);
    free(n);
}

void node_metrics(struct node *n, struct bytes *out)
{
    static const struct metric_row rows[] = {
        {"sampan_csi_volumes", NULL, METRIC_GAUGE, 0, "Volumes staged or published here"},
        {"sampan_csi_sets", NULL, METRIC_GAUGE, sizeof(counter), "Sets mounted for them"},
        {"sampan_csi_mounts_total", NULL, METRIC_COUNTER, 2 * sizeof(counter),
         "Mounts made by this process"},
        {"sampan_csi_revived_total", NULL, METRIC_COUNTER, 3 * sizeof(counter),
         "Mounts whose processes were all killed, and that went on"},
        {"sampan_csi_healed_total", NULL, METRIC_COUNTER, 4 * sizeof(counter),
         "Mounts that were lost, and made again"},
        {"sampan_csi_lost_total", NULL, METRIC_COUNTER, 5 * sizeof(counter),
         "Mounts that were lost"},
        {"sampan_csi_pods_cut_off", NULL, METRIC_GAUGE, 6 * sizeof(counter),
         "Pods that still see a mount which was lost, and must restart"},
        {"sampan_csi_events_total", NULL, METRIC_COUNTER, 7 * sizeof(counter),
         "Events of pods told to the cluster"},
        {"sampan_csi_event_failures_total", NULL, METRIC_COUNTER, 8 * sizeof(counter),
         "Events of pods that could not be told"},
    };
    uint64_t volumes = 0, sets = 0, cut_off = 0, told, untold;
    lock_take(&n->lock);
    for (const struct volume *v = n->volumes; v; v = v->next) {
        volumes += v->recorded;
        cut_off += v->n_cut_off;
    }
    for (const struct set *s = n->sets; s; s = s->next)
        sets += *s->uri != '\0';
    lock_drop(&n->lock);
    n->stats.volumes = volumes;
    n->stats.sets = sets;
    n->stats.cut_off = cut_off;
    events_counts(n->conf.events, &told, &untold);
    n->stats.told = told;
    n->stats.untold = untold;
    metrics_text(out, rows, sizeof rows / sizeof rows[0], &n->stats);
}
