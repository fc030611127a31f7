/*
 * A life's link to its keeper: one thread that answers pings and, when the channel ends, starts a
 * new keeper over this very process.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "keeper.h"
#include "mem.h"
#include "sync.h"

#define LOOK_NS (20 * NS_PER_MS)
#define TRIES   5 /* at a new keeper, with a pause between them */

struct keeper {
    struct keeper_conf conf;
    struct keeper_fds fds;
    struct keeper_state *state;
    bool refuses;
    int wake; /* eventfd: the thread is to end */
    pthread_t thread;
    bool started;
    uint64_t last_seen[KEEPER_DESKS_MAX]; /* of the thread: what lay on each desk */

    struct lock lock;
    /* below: guarded by lock */
    int channel; /* -1: there is no keeper */
    int heir;    /* the channel to a keeper that follows when this one has let go; or -1 */
    bool giving; /* the old one may still let go */
    bool moved;  /* the new one watches */
    struct cond changed;
    bool held; /* there is a mount to be kept: a new keeper is worth starting */
    bool done; /* there is none any more */
};

/* --- the environment -------------------------------------------------------------------------- */

static int parse_kept(const char *text, struct keeper *k, struct err *err)
{
    int refuse;
    struct keeper_fds *f = &k->fds;
    if (sscanf(text, KEEPER_ENV_FORMAT, &k->channel, &f->state, &f->dev, &f->listen, &f->report,
               &refuse) != 6 ||
        k->channel < 0 || f->state < 0 || (f->dev >= 0) != (f->listen >= 0))
        return err_set(err, ERR_USAGE, KEEPER_ENV "=%s: not from a keeper", text);
    const int all[] = {k->channel, f->state, f->dev, f->listen, f->report};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] >= 0 && fcntl(all[i], F_SETFD, FD_CLOEXEC))
            return err_sys(err, errno, KEEPER_ENV "=%s: descriptor %d", text, all[i]);
    k->refuses = refuse != 0;
    return 0;
}

int keeper_attach(struct keeper **ret, struct err *err)
{
    const char *text = getenv(KEEPER_ENV);
    *ret = NULL;
    if (!text)
        return 0;
    struct keeper *k = xcalloc(1, sizeof *k);
    k->wake = k->heir = -1;
    cond_init(&k->changed);
    lock_init(&k->lock, RANK_METRICS, "keeper");
    int rc = parse_kept(text, k, err);
    unsetenv(KEEPER_ENV);
    if (!rc)
        rc = keeper_state_map(k->fds.state, &k->state, err);
    if (!rc)
        keeper_state_claim_older(&k->fds.state);
    if (rc) {
        cond_destroy(&k->changed);
        lock_destroy(&k->lock);
        free(k);
        return -1;
    }
    k->held = k->fds.dev >= 0;
    prctl(PR_SET_NAME, "sampan"); /* started from a descriptor, it has that one's number */
    *ret = k;
    return 0;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void end_thread(struct keeper *k)
{
    if (!k->started)
        return;
    k->started = false;
    eventfd_write(k->wake, 1);
    pthread_join(k->thread, NULL);
}

void keeper_detach(struct keeper *k)
{
    if (!k)
        return;
    end_thread(k);
    close_fd(&k->wake);
    close_fd(&k->channel);
    close_fd(&k->heir);
    close_fd(&k->fds.state);
    close_fd(&k->fds.dev);
    close_fd(&k->fds.listen);
    close_fd(&k->fds.report);
    keeper_state_unmap(k->state);
    cond_destroy(&k->changed);
    lock_destroy(&k->lock);
    free(k);
}

struct keeper_state *keeper_state(struct keeper *k)
{
    return k ? k->state : NULL;
}

const struct keeper_fds *keeper_held(const struct keeper *k)
{
    return &k->fds;
}

bool keeper_refuses(const struct keeper *k)
{
    return k->refuses;
}

pid_t keeper_pid(const struct keeper *k)
{
    struct lock *lock = (struct lock *)(uintptr_t)&k->lock;
    ACQUIRE(lock);
    return k->channel < 0 ? 0 : k->state->keeper.keeper_pid;
}

/* --- saying ----------------------------------------------------------------------------------- */

static int say(struct keeper *k, enum keeper_word word, const int *fds, size_t n, struct err *err)
{
    struct keeper_message m = {.word = word};
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    struct iovec iov = {&m, sizeof m};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n) {
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(n * sizeof *fds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n * sizeof *fds);
        memcpy(CMSG_DATA(c), fds, n * sizeof *fds);
    }
    ACQUIRE(&k->lock);
    ssize_t sent;
    do
        sent = sendmsg(k->channel, &msg, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? err_sys(err, errno, "tell the keeper") : 0;
}

int keeper_hold(struct keeper *k, int dev, int listen, struct err *err)
{
    const int fds[] = {dev, listen};
    int own_dev = fcntl(dev, F_DUPFD_CLOEXEC, 3), own_listen = fcntl(listen, F_DUPFD_CLOEXEC, 3);
    if (own_dev < 0 || own_listen < 0) {
        int e = errno;
        close_fd(&own_dev);
        close_fd(&own_listen);
        return err_sys(err, e, "hold the mount");
    }
    k->fds.dev = own_dev;
    k->fds.listen = own_listen;
    return say(k, KEEPER_HOLD, fds, 2, err);
}

static void set_held(struct keeper *k, bool held)
{
    ACQUIRE(&k->lock);
    k->held = held;
}

int keeper_ready(struct keeper *k, struct err *err)
{
    /* First, so that a keeper killed from here on is replaced by one that holds the mount. */
    set_held(k, true);
    if (say(k, KEEPER_READY, NULL, 0, err) == 0)
        return 0;
    set_held(k, false);
    return -1;
}

int keeper_next(struct keeper *k, const char *program, struct err *err)
{
    cleanup_close int fd = open(program, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "start %s next", program);
    if (faccessat(fd, "", X_OK, AT_EMPTY_PATH))
        return err_sys(err, errno, "start %s next", program);
    return say(k, KEEPER_NEXT, &fd, 1, err);
}

int keeper_done(struct keeper *k, struct err *err)
{
    {
        ACQUIRE(&k->lock);
        k->done = true;
    }
    int rc = say(k, KEEPER_DONE, NULL, 0, err);
    end_thread(k);
    close_fd(&k->fds.dev); /* or our own hold on it would keep the connection open */
    close_fd(&k->fds.listen);
    return rc;
}

/* --- listening -------------------------------------------------------------------------------- */

static bool asked_to_end(struct keeper *k, int ms)
{
    struct pollfd p = {.fd = k->wake, .events = POLLIN};
    return poll(&p, 1, ms) > 0;
}

static void set_channel(struct keeper *k, int channel)
{
    ACQUIRE(&k->lock);
    close_fd(&k->channel);
    k->channel = channel;
}

static bool wants_new(struct keeper *k)
{
    ACQUIRE(&k->lock);
    return k->held && !k->done;
}

/* The report is the keeper's to write when it has read that we are ready. If it was killed, we
 * write it: once too often does no harm, whoever waits reads one byte. */
static void report_instead(struct keeper *k)
{
    if (k->fds.report >= 0 && write(k->fds.report, KEEPER_REPORT_READY, 1) < 0)
        errno = 0; /* nobody waits any more */
    close_fd(&k->fds.report);
}

/* True: there is a new one. `tries` counts those since one has spoken: they may start and end at
 * once, too. */
static bool renew(struct keeper *k, unsigned *tries, struct err *why)
{
    if (!wants_new(k)) {
        err_set(why, ERR_FAILED, "the keeper was killed before the mount was ready");
        return false;
    }
    report_instead(k);
    while (*tries < TRIES) {
        cleanup_free char *program = NULL;
        int channel = -1;
        if (*tries && asked_to_end(k, (int)(200 * *tries)))
            return false;
        ++*tries;
        if (keeper_find(&program, why) ||
            keeper_start(program, k->conf.argv, &k->fds, /* adopt= */ true, &channel, why))
            continue;
        set_channel(k, channel);
        return true;
    }
    if (why->class == ERR_NONE)
        err_set(why, ERR_FAILED, "the new one ends as soon as it is started (tried %d times)",
                TRIES);
    return false;
}

/* Does every desk hold what it held at the last ping? */
static bool is_stuck(struct keeper *k)
{
    bool stuck = k->conf.watch_desks;
    for (uint32_t i = 0; i < k->state->n_desks && k->conf.watch_desks; i++) {
        const struct keeper_request *r = keeper_desk(k->state, i);
        bool held =
            atomic_load_explicit((const _Atomic uint32_t *)&r->len, memory_order_acquire) != 0;
        uint64_t unique = held ? r->unique : 0;
        if (!unique || unique != k->last_seen[i])
            stuck = false;
        k->last_seen[i] = unique;
    }
    return stuck;
}

/* One message; false: the channel has ended. */
static bool answer(struct keeper *k)
{
    struct keeper_message m;
    ssize_t n = recv(k->channel, &m, sizeof m, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    if (m.word == KEEPER_PING && !is_stuck(k))
        say(k, KEEPER_PONG, NULL, 0, NULL);
    return true;
}

/* The one that was to follow is now the one there is. */
static bool follow(struct keeper *k)
{
    ACQUIRE(&k->lock);
    if (k->heir < 0)
        return false;
    close_fd(&k->channel);
    k->channel = k->heir;
    k->heir = -1;
    k->giving = false;
    return true;
}

static void tell_moved(struct keeper *k)
{
    ACQUIRE(&k->lock);
    k->moved = true;
    cond_broadcast(&k->changed);
}

static void *link_main(void *arg)
{
    struct keeper *k = arg;
    bool is_new = false;  /* the keeper has not spoken yet … */
    bool follows = false; /* … and was to follow the one before */
    unsigned tries = 0;
    for (;;) {
        struct pollfd fds[] = {{.fd = k->channel, .events = POLLIN},
                               {.fd = k->wake, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[1].revents)
            return NULL;
        if (answer(k)) {
            if (follows)
                tell_moved(k);
            else if (is_new && k->conf.renewed)
                k->conf.renewed(k->conf.arg);
            is_new = follows = false;
            tries = 0;
            continue;
        }
        struct err why = {0};
        follows = follow(k);
        if (follows)
            continue;
        set_channel(k, -1);
        is_new = renew(k, &tries, &why);
        if (!is_new) {
            if (k->conf.lost && !asked_to_end(k, 0))
                k->conf.lost(k->conf.arg, &why);
            return NULL;
        }
    }
}

/* --- another keeper --------------------------------------------------------------------------- */

/* The first word of the new one. */
static int wait_until_held(int channel, const char *program, struct err *err)
{
    struct pollfd p = {.fd = channel, .events = POLLIN};
    struct keeper_message m = {0};
    int n;
    do
        n = poll(&p, 1, (int)keeper_hang_ms());
    while (n < 0 && errno == EINTR);
    if (n == 0)
        return err_set(err, ERR_FAILED, "%s did not take over within %d ms", program,
                       (int)keeper_hang_ms());
    if (recv(channel, &m, sizeof m, MSG_DONTWAIT) == sizeof m && m.word == KEEPER_HELD)
        return 0;
    return err_set(err, ERR_FAILED, "%s did not take over: it ended", program);
}

/* Lock held. One that was to follow and has ended is forgotten. */
static bool heir_waits(struct keeper *k)
{
    struct pollfd p = {.fd = k->heir, .events = 0};
    if (k->heir >= 0 && poll(&p, 1, 0) > 0)
        close_fd(&k->heir);
    return k->heir >= 0;
}

/*
 * Lock held. A keeper that does not let go (it is stopped, say) may do so later: the one that
 * follows stays for that, and the link's thread goes on with it then.
 */
static int wait_until_moved(struct keeper *k, const char *program, struct err *err)
{
    uint64_t end = clock_mono_ns() + keeper_hang_ms() * NS_PER_MS;
    bool gone = false;
    while (!k->moved && !gone && clock_mono_ns() < end) {
        cond_wait_for(&k->changed, &k->lock, LOOK_NS);
        gone = k->giving && !heir_waits(k);
    }
    if (k->moved)
        return 0;
    return err_set(err, ERR_FAILED, "%s did not take over: %s", program,
                   gone ? "it ended" : "the keeper before it does not let go");
}

/* From here the link's thread goes on with `channel` when the old keeper has ended. */
static int hand_over(struct keeper *k, int channel, int turn, const char *program, struct err *err)
{
    {
        ACQUIRE(&k->lock);
        k->heir = channel;
        k->giving = true;
        k->moved = false;
    }
    int rc = say(k, KEEPER_YIELD, &turn, 1, err);
    close(turn);
    ACQUIRE(&k->lock);
    return rc ? rc : wait_until_moved(k, program, err);
}

int keeper_replace(struct keeper *k, const char *program, struct err *err)
{
    int turn[2];
    cleanup_close int channel = -1, follower = -1;
    {
        ACQUIRE(&k->lock);
        if (heir_waits(k))
            return err_set(err, ERR_LIMIT, "a keeper waits already for the one before it to end");
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, turn))
        return err_sys(err, errno, "start the keeper");
    int rc = keeper_follow(program, k->conf.argv, &k->fds, turn[0], &channel, &follower, err);
    close(turn[0]);
    if (!rc)
        rc = wait_until_held(channel, program, err);
    if (!rc)
        return hand_over(k, take_fd(&channel), turn[1], program, err);
    close(turn[1]);
    if (follower >= 0) /* it may hang, and hold the device for ever */
        pidfd_send_signal(follower, SIGKILL, NULL, 0);
    return rc;
}

int keeper_watch(struct keeper *k, const struct keeper_conf *conf, struct err *err)
{
    k->conf = *conf;
    k->wake = eventfd(0, EFD_CLOEXEC);
    if (k->wake < 0)
        return err_sys(err, errno, "watch the keeper");
    int e = thread_start(&k->thread, "keeper", link_main, k);
    if (e)
        return err_thread(err, e, "watch the keeper: start a thread");
    k->started = true;
    return 0;
}
