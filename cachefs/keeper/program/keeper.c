/*
 * sampan-keeper: holds the device, the state and the control socket's listener of one mount, and
 * sees to it that a cachefs serves them. ../keeper.h tells the whole contract.
 *
 *   started -> [life 1] -> ready: held -> dies -> judged (deaths.c) -> [next life] …
 *           \-> dies before ready: the keeper ends with its code       \-> done: the keeper ends
 *   started to follow a keeper that lives -> says "held" -> its turn: held, with the life there is
 *
 * One thread, one loop over poll(). What comes from a cachefs is believed no further than that
 * cachefs's own mount: messages have one size, descriptors are counted, the layout of the state is
 * read once, at the start, and never again. It opens /proc/vmstat, its own score (score.c) and
 * /dev/null, and no other file; all it starts is a program that it was handed as a descriptor.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "brake-internal.h"
#include "channel.h"
#include "deaths-internal.h"
#include "score-internal.h"

#define FDS_MAX       2 /* beside one message */
#define REFUSING_MS   1000
#define HEARD_AT_ONCE 1024 /* more than a channel holds: who never stops talking is left, too */

struct keeper {
    char *const *argv; /* of each life */
    int program;       /* what runs */
    int next;          /* what was asked for (KEEPER_NEXT), until the life has ended; or -1 */
    int old;           /* what to go back to, until the next one is ready; or -1 */
    int state, dev, listen, report, channel, signals;
    int life; /* its pidfd; -1: none runs */
    struct keeper_state *page;
    struct state_layout layout;

    bool held;         /* a life was ready once: from here on the mount is kept */
    bool ready;        /* this life is */
    bool done;         /* KEEPER_DONE came */
    bool was_degraded; /* before the program that is being tried */
    struct brake brake;
    int stop_signal; /* to be passed on as soon as a life is ready; 0: none */

    struct life_start at_start;
    int score;          /* how readily the kernel kills it for want of memory */
    uint64_t start_at;  /* when the next life is due */
    uint64_t pinged_at; /* the last ping, or look for one */
    uint64_t silent_ms; /* for how long no answer came while we ran ourselves */
    uint64_t ping_ms, hang_ms;
    bool hung; /* and so it was killed */
};

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void drop(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "sampan-keeper: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* --- a life ----------------------------------------------------------------------------------- */

static void inherit(int fd)
{
    if (fd >= 0)
        fcntl(fd, F_SETFD, 0);
}

/* In the new process: nothing but what it is to have goes through the exec. */
static _Noreturn void become_life(const struct keeper *k, int channel)
{
    char text[160];
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    snprintf(text, sizeof text, KEEPER_ENV_FORMAT, channel, k->state, k->dev, k->listen, k->report,
             k->page->keeper.degraded != 0);
    life_score(k->score);
    const int given[] = {channel, k->state, k->dev, k->listen, k->report};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        inherit(given[i]);
    if (setenv(KEEPER_ENV, text, 1) == 0)
        execveat(k->program, "", k->argv, environ, AT_EMPTY_PATH);
    _exit(127);
}

/* Out of descriptors, processes or memory: it may pass. Before there is a mount to keep, somebody
 * waits to hear why there will be none. */
static void start_later(struct keeper *k)
{
    if (!k->held)
        give_up("start the first life");
    k->start_at = now_ms() + REFUSING_MS;
}

static void start_life(struct keeper *k)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
        start_later(k);
        return;
    }
    k->page->keeper.life++;
    k->at_start = life_start_look(k->page);
    pid_t pid = fork();
    if (pid == 0)
        become_life(k, ends[1]);
    close(ends[1]);
    k->life = pid > 0 ? pidfd_open(pid, 0) : -1;
    if (k->life < 0) {
        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        k->page->keeper.life--; /* it never was one */
        close(ends[0]);
        start_later(k);
        return;
    }
    k->channel = ends[0];
    k->ready = k->hung = false;
    k->silent_ms = 0;
    k->pinged_at = now_ms();
}

static void tell(struct keeper *k, int signal)
{
    pidfd_send_signal(k->life, signal, NULL, 0);
}

/* --- what a life says ------------------------------------------------------------------------- */

/* `sampan mount` waits for this byte, and holds whatever our standard streams are. */
static void report_ready(struct keeper *k)
{
    if (k->report < 0)
        return;
    if (write(k->report, KEEPER_REPORT_READY, 1) != 1)
        tell(k, SIGTERM); /* nobody wants the mount any more */
    drop(&k->report);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd <= 2; fd++)
        dup2(null, fd);
    if (null > 2)
        close(null);
}

static void on_ready(struct keeper *k)
{
    if (k->dev < 0)
        return; /* it never said what to hold */
    k->ready = true;
    if (!k->held)
        k->page->keeper.began = (int64_t)time(NULL);
    k->held = true;
    report_ready(k);
    brake_put_off_trial(&k->brake, now_ms());
    if (k->old >= 0) {
        drop(&k->old);
        k->brake.trial_ms = 0;
        k->page->keeper.upgrade_outcome = UPGRADE_DONE;
    }
    if (k->stop_signal)
        tell(k, k->stop_signal);
}

static void on_next(struct keeper *k, int *program)
{
    drop(&k->next);
    k->next = *program;
    *program = -1;
    k->page->keeper.upgrades++;
    k->page->keeper.upgrade_outcome = UPGRADE_STARTING;
}

/*
 * Another keeper waits for its turn, and holds all that this one does. The word is said first: if
 * that one has gone in the meantime, this one stays. Sent, and not written, it goes into a socket
 * alone and waits for nobody, whatever a cachefs hands us.
 */
static void on_yield(const struct keeper *k, int turn)
{
    bool idle = k->held && k->ready && k->next < 0 && k->old < 0 && !k->done && !k->stop_signal;
    if (idle && send(turn, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
        exit(0);
}

/* Takes what it keeps out of `fds`. */
static void on_message(struct keeper *k, const struct keeper_message *m, int fds[FDS_MAX])
{
    switch (m->word) {
    case KEEPER_PONG:
        if (k->ready || k->old < 0) /* a program that is being tried must get ready as well */
            k->silent_ms = 0;
        break;
    case KEEPER_HOLD:
        if (k->dev < 0 && fds[0] >= 0 && fds[1] >= 0) {
            k->dev = fds[0];
            k->listen = fds[1];
            fds[0] = fds[1] = -1;
        }
        break;
    case KEEPER_READY:
        on_ready(k);
        break;
    case KEEPER_NEXT:
        if (k->held && fds[0] >= 0)
            on_next(k, &fds[0]);
        break;
    case KEEPER_DONE:
        k->done = true;
        drop(&k->dev); /* or our hold on it would keep the connection open for ever */
        drop(&k->listen);
        break;
    case KEEPER_YIELD:
        on_yield(k, fds[0]);
        break;
    }
}

static void take_descriptors(struct msghdr *msg, int fds[FDS_MAX])
{
    size_t n = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (n < FDS_MAX)
                fds[n++] = fd;
            else
                close(fd);
        }
    }
}

static void hear(struct keeper *k)
{
    for (int left = HEARD_AT_ONCE; left > 0 && k->channel >= 0; left--) {
        union {
            struct cmsghdr align;
            char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
        } control;
        struct keeper_message m;
        struct iovec iov = {&m, sizeof m};
        struct msghdr msg = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
        int fds[FDS_MAX] = {-1, -1};
        ssize_t n = recvmsg(k->channel, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n >= 0)
            take_descriptors(&msg, fds); /* an empty message may bring some, too */
        if (n == sizeof m)
            on_message(k, &m, fds);
        for (size_t i = 0; i < FDS_MAX; i++)
            drop(&fds[i]);
        if (n <= 0)
            drop(&k->channel);
    }
}

/* --- its end ---------------------------------------------------------------------------------- */

static struct death look_at_death(struct keeper *k)
{
    struct death d = {.hung = k->hung};
    siginfo_t info = {0};
    /* One that we adopted is not our child: how it ended, its parent alone learns. */
    if (waitid(P_PIDFD, (id_t)k->life, &info, WEXITED) == 0) {
        d.known = true;
        d.signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
        d.code = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
    }
    d.out_of_memory = d.signal == SIGKILL && !k->hung && life_oom_kills() > k->at_start.oom_kills;
    d.answered = atomic_load(&k->page->answered) != k->at_start.answered;
    return d;
}

static void run_next(struct keeper *k)
{
    struct keeper_part *part = &k->page->keeper;
    drop(&k->old);
    k->old = k->program;
    k->program = k->next;
    k->next = -1;
    k->was_degraded = part->degraded;
    part->degraded = part->idle_deaths = 0;
}

static void run_old(struct keeper *k, const struct death *d)
{
    struct keeper_part *part = &k->page->keeper;
    death_describe(d, part->upgrade_why, sizeof part->upgrade_why);
    part->upgrade_outcome = UPGRADE_FAILED;
    part->degraded = k->was_degraded;
    close(k->program);
    k->program = k->old;
    k->old = -1;
}

/* The next life is due at once, unless lives do nothing but die. */
static void after_death(struct keeper *k, const struct death *d)
{
    static const unsigned pauses_ms[KEEPER_BRAKE] = {0, 50, 100, 200, 400};
    struct keeper_part *part = &k->page->keeper;
    bool brake = death_count(part, d);
    if (death_is_crash(d))
        suspects_count(part, &k->layout, k->state);
    if (d->answered && !part->degraded)
        k->brake.trial_ms = 0;
    if (brake && !part->degraded)
        brake_put_on(&k->brake, part);
    const uint32_t n =
        *(volatile uint32_t *)&part->idle_deaths; /* read once: a life can write it */
    if (n && n <= KEEPER_BRAKE)
        k->start_at += pauses_ms[n - 1];
    else if (n)
        k->start_at += REFUSING_MS;
}

/* All that a mount is has gone, and no life would come to say so. */
static bool mount_is_gone(const struct keeper *k)
{
    struct pollfd p = {.fd = k->dev, .events = POLLIN};
    return poll(&p, 1, 0) > 0 && (p.revents & POLLERR);
}

static void on_death(struct keeper *k)
{
    hear(k); /* its last words */
    struct death d = look_at_death(k);
    drop(&k->channel);
    drop(&k->life);
    k->start_at = now_ms();
    if (!k->held || k->done)
        exit(d.code);
    if (k->next >= 0)
        run_next(k);
    else if (k->old >= 0 && !k->ready)
        run_old(k, &d);
    else if (k->brake.trying)
        brake_release(&k->page->keeper);
    else
        after_death(k, &d);
    k->brake.trying = false;
    if (k->page->keeper.idle_deaths && mount_is_gone(k))
        exit(0);
}

/* --- pings ------------------------------------------------------------------------------------ */

/*
 * Time counts as silence only if we ran through it ourselves: after a SIGSTOP of the keeper, or a
 * freeze of both, the gap between two looks is long and says nothing about the life.
 */
static void ping(struct keeper *k)
{
    const struct keeper_message m = {.word = KEEPER_PING};
    uint64_t now = now_ms(), gap = now - k->pinged_at;
    if (gap < k->ping_ms)
        return;
    k->pinged_at = now;
    if (gap < 2 * k->ping_ms)
        k->silent_ms += gap;
    if (k->held && !k->hung && !k->done && k->silent_ms > k->hang_ms) {
        k->hung = true;
        tell(k, SIGKILL);
    }
    send(k->channel, &m, sizeof m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* What lacked may be there again: memory, tasks, a disk. */
static void try_again(struct keeper *k)
{
    bool busy = k->done || k->hung || k->next >= 0 || k->old >= 0 || k->stop_signal;
    if (busy || !k->ready || !brake_trial_is_due(&k->brake, &k->page->keeper, now_ms()))
        return;
    k->brake.trying = true;
    tell(k, SIGKILL);
}

static void on_signal(struct keeper *k)
{
    struct signalfd_siginfo info;
    if (read(k->signals, &info, sizeof info) != sizeof info ||
        (info.ssi_signo != SIGTERM && info.ssi_signo != SIGINT))
        return;
    k->stop_signal = (int)info.ssi_signo;
    if (k->life < 0 && !k->held)
        exit(128 + k->stop_signal);
    if (k->life >= 0 && (k->ready || !k->held))
        tell(k, k->stop_signal);
}

static _Noreturn void keep(struct keeper *k)
{
    for (;;) {
        uint64_t now = now_ms();
        if (k->life < 0 && now >= k->start_at)
            start_life(k);
        uint64_t due = k->life < 0 ? k->start_at : k->pinged_at + k->ping_ms;
        struct pollfd fds[] = {{.fd = k->signals, .events = POLLIN},
                               {.fd = k->channel, .events = POLLIN},
                               {.fd = k->life, .events = POLLIN}};
        if (poll(fds, 3, due > now ? (int)(due - now) : 0) < 0)
            continue;
        if (fds[0].revents)
            on_signal(k);
        if (fds[1].revents)
            hear(k);
        if (fds[2].revents) {
            on_death(k);
        } else if (k->life >= 0) {
            ping(k);
            try_again(k);
        }
    }
}

/* --- the start -------------------------------------------------------------------------------- */

/* Only a memfd that nobody can shrink is mapped: or a cachefs could kill us with a SIGBUS. */
static void map_state(struct keeper *k)
{
    struct stat st;
    int seals = fcntl(k->state, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(k->state, &st))
        give_up("the state is not a sealed memfd");
    k->page = mmap(NULL, sizeof *k->page, PROT_READ | PROT_WRITE, MAP_SHARED, k->state, 0);
    if (k->page == MAP_FAILED)
        give_up("map the state");
    struct keeper_state seen = {0}; /* what is checked is what is used */
    if ((uint64_t)st.st_size >= sizeof seen)
        seen = *k->page;
    const char *why = keeper_state_check(&seen, (uint64_t)st.st_size);
    if (why) {
        fprintf(stderr, "sampan-keeper: %s\n", why);
        exit(1);
    }
    k->layout = state_layout_of(&seen);
}

/*
 * A keeper that is to follow one that lives: it says that it holds all, and does nothing before the
 * other has let go. Where nobody has the other end any more, that will never be: either the other
 * one was not told, or it has gone without a word, and then the life starts a keeper anew.
 */
static void wait_for_turn(const struct keeper *k, int turn)
{
    const struct keeper_message m = {.word = KEEPER_HELD};
    char byte;
    if (turn < 0)
        return;
    if (send(k->channel, &m, sizeof m, MSG_NOSIGNAL) != sizeof m || read(turn, &byte, 1) != 1)
        exit(0);
    close(turn);
}

/* Closes what was not named, so that no life inherits it either. */
static void close_others(const struct keeper *k, int turn)
{
    const int mine[] = {k->program, k->state,   k->dev,  k->listen,
                        k->report,  k->channel, k->life, turn};
    unsigned from = 3;
    for (;;) {
        unsigned next = ~0u;
        for (size_t i = 0; i < sizeof mine / sizeof mine[0]; i++)
            if (mine[i] >= (int)from && (unsigned)mine[i] < next)
                next = (unsigned)mine[i];
        if (next > from)
            close_range(from, next == ~0u ? next : next - 1, 0);
        if (next == ~0u)
            return;
        fcntl((int)next, F_SETFD, FD_CLOEXEC);
        from = next + 1;
    }
}

static void set_times(struct keeper *k)
{
    k->hang_ms = keeper_hang_ms();
    k->ping_ms = k->hang_ms / 4 < KEEPER_PING_MS ? k->hang_ms / 4 : KEEPER_PING_MS;
}

static void take_signals(struct keeper *k)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);  /* taken and passed over: a terminal's end ends no mount */
    sigaddset(&set, SIGPIPE); /* an errno is enough */
    sigprocmask(SIG_SETMASK, &set, NULL);
    signal(SIGCHLD, SIG_DFL); /* an inherited "ignore" would reap our children */
    k->signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (k->signals < 0)
        give_up("take signals");
}

int main(int argc, char **argv)
{
    struct keeper k = {.next = -1, .old = -1};
    int turn;
    if (argc < 3 || sscanf(argv[1], KEEPER_ARGS_FORMAT, &k.program, &k.state, &k.dev, &k.listen,
                           &k.report, &k.channel, &k.life, &turn) != 8) {
        fprintf(stderr, "sampan-keeper: started by `sampan mount` only\n");
        return 2;
    }
    k.argv = argv + 2;
    k.score = keeper_score();
#ifndef __SANITIZE_ADDRESS__   /* its search for leaks traces the process */
    prctl(PR_SET_DUMPABLE, 0); /* the environment may hold credentials */
#endif
    close_others(&k, turn);
    take_signals(&k);
    set_times(&k);
    map_state(&k);
    wait_for_turn(&k, turn);
    k.page->keeper.keeper_pid = getpid();
    k.held = k.dev >= 0; /* a mount that was left to us, with its life or without */
    k.ready = k.held && k.life >= 0;
    k.at_start = life_start_look(k.page);
    k.start_at = now_ms();
    brake_put_off_trial(&k.brake, k.start_at);
    k.pinged_at = k.start_at - k.ping_ms; /* one that we adopt hears of us at once */
    keep(&k);
}
