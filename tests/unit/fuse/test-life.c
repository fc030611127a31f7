/*
 * Lives of a front end one after another on one mount: each is a process, killed with SIGKILL; what
 * the last one had in hand is answered by the next. Needs root and /dev/fuse.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "fake-volume.h"
#include "frontend-internal.h"
#include "keeper.h"

#define FOREVER (600 * NS_PER_S)

struct world {
    char top[32], source[64], mount[64], pack[64];
    struct keeper_state *state;
    int dev;
};

struct life {
    uint64_t delay_ns;
    bool refuse, unreadable;
    const char *mask;
};

static void write_file(const char *dir, const char *name, size_t size, char byte)
{
    char path[128], block[1000];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "w");
    memset(block, byte, sizeof(block));
    for (size_t i = 0; i < size; i += sizeof(block))
        fwrite(block, 1, sizeof(block), f);
    fclose(f);
}

static bool may_mount(void)
{
    return geteuid() == 0 && access("/dev/fuse", R_OK | W_OK) == 0;
}

static struct world new_world(void)
{
    struct world w = {.top = "/tmp/fuse-life-XXXXXX", .dev = -1};
    struct err err = {0};
    int fd;

    cr_assert(mkdtemp(w.top));
    snprintf(w.source, sizeof(w.source), "%s/src", w.top);
    snprintf(w.mount, sizeof(w.mount), "%s/mnt", w.top);
    snprintf(w.pack, sizeof(w.pack), "%s/pack", w.top);
    mkdir(w.source, 0700);
    mkdir(w.mount, 0700);
    write_file(w.source, "a", 3000, 'a');
    write_file(w.source, "b", 200000, 'b');
    cr_assert_eq(keeper_state_make(FRONTEND_DESKS, FRONTEND_DESK_BYTES, &fd, &err), 0, "%s",
                 err.msg);
    cr_assert_eq(keeper_state_map(fd, &w.state, &err), 0, "%s", err.msg);
    close(fd);
    return w;
}

static void end_world(struct world *w)
{
    char command[96];

    umount2(w->mount, MNT_DETACH);
    snprintf(command, sizeof(command), "%s/src/a", w->top);
    unlink(command);
    snprintf(command, sizeof(command), "%s/src/b", w->top);
    unlink(command);
    unlink(w->pack);
    rmdir(w->source);
    rmdir(w->mount);
    rmdir(w->top);
    keeper_state_unmap(w->state);
}

static void status_text(void *arg, struct bytes *out)
{
    bytes_addf(out, "{\"pid\":%d}", (int)getpid());
    (void)arg;
}

static void live(const struct world *w, const struct life *how, int tell)
{
    struct volume *v = how->refuse ? NULL : fake_volume_new(w->source, w->pack);
    if (how->unreadable)
        fake_volume_unreadable(v);
    struct frontend_conf conf = {.mountpoint = w->mount,
                                 .dev = w->dev,
                                 .state = w->state,
                                 .refuse = how->refuse,
                                 .connections = 8,
                                 .status = status_text};
    struct frontend *f;
    struct err err = {0};
    int dev = -1;

    if (how->mask)
        setenv("SAMPAN_FUSE_MASK", how->mask, 1);
    if (v)
        fake_volume_delay(v, how->delay_ns);
    if (frontend_mount(&f, v, &conf, &err) == 0 && frontend_start(f, &err) == 0)
        dev = frontend_device(f);
    else
        fprintf(stderr, "life: %s\n", err.msg);
    if (write(tell, &dev, sizeof(dev)) != (ssize_t)sizeof(dev) || dev < 0)
        _exit(1);
    for (;;)
        pause();
}

/* Starts a life and waits until it serves. The first one's device becomes ours too. */
static pid_t begin_life(struct world *w, struct life how)
{
    int tell[2], dev = -1;

    cr_assert_eq(pipe(tell), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
        live(w, &how, tell[1]);
    }
    close(tell[1]);
    cr_assert_eq(read(tell[0], &dev, sizeof(dev)), (ssize_t)sizeof(dev));
    close(tell[0]);
    cr_assert_geq(dev, 0);
    if (w->dev < 0) {
        int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

        w->dev = (int)syscall(SYS_pidfd_getfd, pidfd, dev, 0);
        close(pidfd);
        cr_assert_geq(w->dev, 0);
    }
    return pid;
}

static void end_life(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* A process: a life forked from one that has files of the mount open would have them too, and wait
 * for itself when it closes them. */
struct reader {
    pid_t pid;
    char path[96];
    char byte;
    int outcome; /* 0: right; an errno; -1: wrong bytes */
    size_t got;
};

static void read_all(struct reader *r)
{
    static char block[4096];
    int fd = open(r->path, O_RDONLY);
    ssize_t n;

    r->outcome = fd < 0 ? errno : 0;
    while (!r->outcome && (n = read(fd, block, sizeof(block))) != 0) {
        if (n < 0)
            r->outcome = errno;
        for (ssize_t i = 0; i < n; i++)
            if (block[i] != r->byte)
                r->outcome = -1;
        r->got += n > 0 ? (size_t)n : 0;
    }
}

static struct reader *begin_read(const struct world *w, char name)
{
    struct reader *r =
        mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    r->byte = name;
    snprintf(r->path, sizeof(r->path), "%s/%c", w->mount, name);
    pid_t pid = fork();
    if (pid == 0) {
        read_all(r);
        _exit(0);
    }
    r->pid = pid;
    return r;
}

/* What came of it; the reader is gone. */
static struct reader end_read(struct reader *r)
{
    struct reader copy;

    waitpid(r->pid, NULL, 0);
    copy = *r;
    munmap(r, sizeof(*r));
    return copy;
}

static unsigned in_hand(const struct world *w)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < KEEPER_SLOTS; i++)
        n += keeper_slot(w->state, i)->request.len != 0;
    return n;
}

static void wait_for_parked(const struct world *w)
{
    while (!in_hand(w))
        usleep(1000);
}

static void a_parked_read_is_answered_by_the_next_life(const char *mask)
{
    struct world w = new_world();
    pid_t first = begin_life(&w, (struct life){.delay_ns = FOREVER, .mask = mask});

    struct reader *a = begin_read(&w, 'a'), *b = begin_read(&w, 'b');
    wait_for_parked(&w);
    end_life(first);
    cr_assert_eq(w.state->can_resend, mask == NULL);
    pid_t second = begin_life(&w, (struct life){.delay_ns = 0});
    struct reader got_a = end_read(a), got_b = end_read(b);
    cr_assert_eq(got_a.outcome, 0);
    cr_assert_eq(got_b.outcome, 0);
    cr_assert_eq(got_a.got + got_b.got, 203000);
    cr_assert_eq(in_hand(&w), 0);
    end_life(second);
    end_world(&w);
}

Test(life, what_was_in_hand_is_sent_again)
{
    if (may_mount())
        a_parked_read_is_answered_by_the_next_life(NULL);
}

Test(life, what_was_in_hand_is_served_from_the_state)
{
    if (may_mount())
        a_parked_read_is_answered_by_the_next_life("resend");
}

Test(life, a_guilty_request_is_refused_and_a_suspect_absolved)
{
    if (!may_mount())
        return;
    struct world w = new_world();
    struct keeper_suspect *s = w.state->keeper.suspects;
    pid_t pid = begin_life(&w, (struct life){.delay_ns = FOREVER});

    struct reader *a = begin_read(&w, 'a');
    wait_for_parked(&w);
    end_life(pid);
    s[0] = (struct keeper_suspect){.opcode = WIRE_READ, .deaths = 1, .nodeid = 2};
    s[1] = (struct keeper_suspect){.opcode = WIRE_READ, .deaths = 3, .nodeid = 3};
    pid = begin_life(&w, (struct life){.delay_ns = NS_PER_MS});
    cr_assert_eq(end_read(a).outcome, 0);
    /* A new request: all that was in hand is answered. */
    cr_assert_eq(end_read(begin_read(&w, 'b')).outcome, EIO);
    cr_assert_eq(s[0].opcode, 0);
    cr_assert_eq(s[1].deaths, 3);
    cr_assert_eq(w.state->careful, 0);
    end_life(pid);
    end_world(&w);
}

Test(life, one_that_refuses_answers_eio_at_once)
{
    if (!may_mount())
        return;
    struct world w = new_world();
    pid_t pid = begin_life(&w, (struct life){.delay_ns = FOREVER});

    struct reader *a = begin_read(&w, 'a');
    wait_for_parked(&w);
    end_life(pid);
    pid = begin_life(&w, (struct life){.refuse = true});
    cr_assert_eq(end_read(begin_read(&w, 'b')).outcome, EIO);
    cr_assert_eq(end_read(a).outcome, EIO);
    end_life(pid);
    pid = begin_life(&w, (struct life){0}); /* and the mount is well again */
    cr_assert_eq(end_read(begin_read(&w, 'b')).outcome, 0);
    end_life(pid);
    end_world(&w);
}

/* Its READ ends with EIO, and the kernel, which read ahead, asks again. */
Test(life, a_copy_that_cannot_be_read_is_dropped)
{
    if (!may_mount())
        return;
    struct world w = new_world();
    pid_t pid = begin_life(&w, (struct life){.unreadable = true});

    /* The kernel may ask again before the copy has gone. */
    int outcome = -EIO;
    for (int tries = 0; tries < 10 && outcome; tries++)
        outcome = end_read(begin_read(&w, 'a')).outcome;
    cr_assert_eq(outcome, 0);
    end_life(pid);
    end_world(&w);
}

/* Opens the text now, and reads when told whose it is. */
static struct reader *begin_old_text(const char *path)
{
    struct reader *r =
        mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sigset_t told;
    int opened[2], signal;
    char byte, text[64] = "";

    sigemptyset(&told);
    sigaddset(&told, SIGUSR1);
    cr_assert_eq(pipe(opened), 0);
    pid_t pid = fork();
    if (pid == 0) {
        sigprocmask(SIG_BLOCK, &told, NULL);
        int fd = open(path, O_RDONLY);
        if (write(opened[1], "o", 1) == 1 && !sigwait(&told, &signal))
            r->outcome = pread(fd, text, sizeof(text) - 1, 0) < 0
                             ? -errno
                             : atoi(text + strlen("{\"pid\":"));
        _exit(0);
    }
    r->pid = pid;
    cr_assert_eq(read(opened[0], &byte, 1), 1);
    close(opened[0]);
    close(opened[1]);
    return r;
}

Test(life, a_status_text_outlives_the_life_that_wrote_it)
{
    if (!may_mount())
        return;
    struct world w = new_world();
    char path[96], text[64];
    pid_t pid = begin_life(&w, (struct life){0}), first = pid;

    snprintf(path, sizeof(path), "%s/.sampan/status.json", w.mount);
    struct reader *old = begin_old_text(path);
    end_life(pid);
    pid = begin_life(&w, (struct life){0});
    for (int i = 0; i < 3; i++) {
        int now = open(path, O_RDONLY);
        ssize_t n = read(now, text, sizeof(text) - 1);

        cr_assert_gt(n, 0);
        text[n] = '\0';
        cr_assert_eq(atoi(text + strlen("{\"pid\":")), pid, "%s", text);
        close(now);
    }
    kill(old->pid, SIGUSR1);
    cr_assert_eq(end_read(old).outcome, first);
    end_life(pid);
    end_world(&w);
}
