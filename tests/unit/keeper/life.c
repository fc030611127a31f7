/* See life.h. */
#include "life.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

uint64_t life_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static const char *my_part(struct keeper_state *s)
{
    const char *p = keeper_text_get(keeper_text(s, "script", SCRIPT_MAX));
    for (uint32_t i = 1; i < s->keeper.life; i++) {
        const char *comma = strchr(p, ',');
        if (!comma)
            break;
        p = comma + 1;
    }
    return p;
}

static void take_in_hand(struct keeper_request *r, uint64_t nodeid)
{
    uint64_t offset = 4096;
    r->opcode = 15;
    r->nodeid = nodeid;
    memcpy((char *)r + sizeof *r + 8, &offset, sizeof offset);
    atomic_store_explicit((_Atomic uint32_t *)&r->len, 80, memory_order_release);
}

static _Noreturn void be_done(struct keeper *k)
{
    keeper_done(k, NULL);
    _exit(0);
}

static void wait_for_term(void)
{
    sigset_t set;
    int signal;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigwait(&set, &signal);
}

/* One that waits for its turn says what it holds, and goes when the turn will never come. */
static void start_follower(struct keeper *k)
{
    static char name[] = "a-life";
    char *const argv[] = {name, NULL};
    struct keeper_message m = {0};
    struct err err = {0};
    int turn[2], channel;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, turn) ||
        keeper_follow(getenv("SAMPAN_KEEPER"), argv, keeper_held(k), turn[0], &channel, NULL,
                      &err) ||
        recv(channel, &m, sizeof m, 0) != sizeof m || m.word != KEEPER_HELD)
        _exit(97);
    close(turn[0]);
    close(turn[1]);
    if (recv(channel, &m, sizeof m, 0) != 0)
        _exit(98);
    close(channel);
}

static int channel_fd; /* for words that no keeper.h says */

static void send_raw(const void *text, size_t len, int fd)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {(void *)(uintptr_t)text, len};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof control.room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    if (sendmsg(channel_fd, &msg, 0) < 0)
        _exit(86);
}

static bool has_hung_up(int fd, int patience_ms)
{
    struct pollfd p = {.fd = fd, .events = 0};
    return poll(&p, 1, patience_ms) == 1 && p.revents & POLLHUP;
}

static void litter(struct keeper *k)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        _exit(87);
    send_raw("", 0, ends[1]);
    close(ends[1]);
    bool closed = has_hung_up(ends[0], 60000);
    keeper_detach(k);
    _exit(closed ? 0 : 88);
}

/* Its turn is said where nobody listens, and nothing more fits in: once into a pipe, once into a
 * socket. We keep the other ends. */
static void yield_into(int fd)
{
    static const struct keeper_message yield = {.word = KEEPER_YIELD};
    char full[4096] = {0};
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (write(fd, full, sizeof full) > 0 || write(fd, full, 1) > 0) {
    }
    fcntl(fd, F_SETFL, 0);
    send_raw(&yield, sizeof yield, fd);
    close(fd);
}

static void yield_to_nobody(void)
{
    int pipes[2], sockets[2];
    if (pipe2(pipes, O_CLOEXEC) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
        _exit(85);
    yield_into(pipes[1]);
    yield_into(sockets[1]);
}

static void do_step(struct keeper *k, char step)
{
    struct keeper_state *s = keeper_state(k);
    struct err err = {0};
    switch (step) {
    case 'r':
        if (keeper_held(k)->dev < 0 &&
            keeper_hold(k, eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC), &err))
            _exit(90);
        if (keeper_ready(k, &err))
            _exit(91);
        break;
    case 'a':
        atomic_fetch_add(&s->answered, 1);
        break;
    case 'q':
        take_in_hand(keeper_desk(s, 1), 7);
        break;
    case 'Q':
        take_in_hand(&keeper_slot(s, KEEPER_SLOTS - 1)->request, 8);
        break;
    case 'D':
        for (uint32_t i = 0; i < s->n_desks; i++) {
            keeper_desk(s, i)->unique = 100 + i;
            take_in_hand(keeper_desk(s, i), 9);
        }
        break;
    case 's':
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
        break;
    case 'k':
        raise(SIGKILL);
        break;
    case 'e':
        _exit(3);
    case 'x':
        _exit(0);
    case 'd':
        be_done(k);
    case 'h':
        raise(SIGSTOP);
        break;
    case 'n':
        if (keeper_next(k, "/bin/true", &err))
            _exit(92);
        break;
    case 'm':
        if (keeper_next(k, "/proc/self/exe", &err))
            _exit(93);
        break;
    case 'R':
        if (keeper_replace(k, getenv("SAMPAN_KEEPER"), &err))
            _exit(96);
        break;
    case 'F':
        if (keeper_replace(k, "/bin/false", &err) != -1 || !strstr(err.msg, "/bin/false"))
            _exit(96);
        break;
    case 'l':
        litter(k);
        break;
    case 'y':
        yield_to_nobody();
        break;
    case 'Y':
        start_follower(k);
        break;
    case 'w':
        wait_for_term();
        be_done(k);
    }
}

__attribute__((constructor)) static void be_a_life(int argc, char **argv)
{
    (void)argc;
    struct keeper *k;
    struct err err = {0};
    sigset_t term;
    if (!getenv(KEEPER_ENV))
        return;
    int channel = -1;
    sscanf(getenv(KEEPER_ENV), "channel=%d", &channel);
    alarm(900); /* a test that failed has left us alone */
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    const struct keeper_conf conf = {.watch_desks = true, .argv = argv};
    if (keeper_attach(&k, &err))
        _exit(94);
    struct keeper_state *s = keeper_state(k);
    /* Of our own: the link closes its end when the keeper hangs up. */
    if (strpbrk(my_part(s), "ly"))
        channel_fd = fcntl(channel, F_DUPFD_CLOEXEC, 3);
    if (keeper_watch(k, &conf, &err))
        _exit(94);
    struct life_notes *notes = keeper_area(s, "lives", 1, sizeof *notes);
    struct life_note *mine = &notes->of[s->keeper.life % LIVES_NOTED];
    mine->refuses = keeper_refuses(k);
    mine->has_dev = keeper_held(k)->dev >= 0;
    mine->at_ms = life_now_ms();
    atomic_store(&mine->pid, getpid());
    for (const char *step = my_part(s); *step && *step != ','; step++)
        do_step(k, *step);
    _exit(95);
}
