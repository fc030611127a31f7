/* The helper and its master's side: helper.h says why there is one. */
#include "helper.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cleanup.h"
#include "mem.h"

#define READAHEAD_STEP (1u << 20)
#define CHANNEL_FD     3 /* in the helper */
#define DEVICE_FD      4
#define NOTIFY_MAX     8192 /* names are at most 255 bytes; longer ones are written by ourselves */
#define NOTIFY_TRIES   3    /* of helpers that are killed; what was told twice harms nobody */

enum ask_kind { ASK_FILES, ASK_RELEASE, ASK_NOTIFY };

/* The head of a message, and what follows: `count` files, each with its path, or a notification. */
struct ask {
    uint32_t kind, count;
};

struct file_head {
    struct helper_file file;
    uint32_t len; /* of the path that follows, its NUL included */
};

#define FILES_MAX (HELPER_BATCH * (sizeof(struct file_head) + HELPER_PATH_MAX))

struct message {
    struct ask ask;
    char rest[FILES_MAX > NOTIFY_MAX ? FILES_MAX : NOTIFY_MAX];
};

struct helper_batch {
    struct message message;
    size_t len; /* of `rest` */
};

/* The answer: what became of each file, or of the one thing asked. */
struct outcomes {
    uint32_t count;
    int of[HELPER_BATCH];
};

/* --- the work, wherever it is done --- */

/* -1: it is not there under its name (any more), or something else is. */
static int open_file(const struct helper_file *file, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOATIME);

    if (fd < 0 && errno == EPERM) /* O_NOATIME is for the owner of the file */
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || st.st_ino != file->ino || st.st_dev != file->dev) {
        close(fd);
        return -1;
    }
    return fd;
}

static int read_ahead(int fd, uint64_t size)
{
    for (uint64_t off = 0; off < size; off += READAHEAD_STEP)
        if (readahead(fd, (off_t)off, size - off < READAHEAD_STEP ? size - off : READAHEAD_STEP) <
            0)
            return -errno;
    return 1;
}

static void put_down(int *held)
{
    if (*held >= 0)
        close(*held);
    *held = -1;
}

static int do_file(const struct helper_file *file, const char *path, int *held)
{
    put_down(held);
    cleanup_close int fd = open_file(file, path);
    if (fd < 0)
        return 0;
    if (!file->hold)
        return read_ahead(fd, file->size);
    *held = take_fd(&fd);
    return 1;
}

/* --- in the helper --- */

/* A path that ends outside of the message ends the work. */
static void do_files(const struct message *m, size_t len, int *held, struct outcomes *ret)
{
    struct file_head head;
    size_t at = 0;

    while (ret->count < m->ask.count && ret->count < HELPER_BATCH && len - at >= sizeof(head)) {
        memcpy(&head, m->rest + at, sizeof(head));
        at += sizeof(head);
        if (!head.len || head.len > len - at || m->rest[at + head.len - 1])
            return;
        ret->of[ret->count++] = do_file(&head.file, m->rest + at, held);
        at += head.len;
    }
}

static void serve(const struct message *m, size_t got, int *held, struct outcomes *ret)
{
    size_t len = got - sizeof(m->ask);

    *ret = (struct outcomes){0};
    if (m->ask.kind == ASK_FILES) {
        do_files(m, len, held, ret);
        return;
    }
    ret->count = 1;
    ret->of[0] = 1;
    if (m->ask.kind == ASK_NOTIFY)
        ret->of[0] = write(DEVICE_FD, m->rest, len) < 0 ? -errno : 1;
    else
        put_down(held);
}

int helper_main(void)
{
    static struct message m;
    struct outcomes outcomes;
    int held = -1;
    ssize_t n;

    while ((n = recv(CHANNEL_FD, &m, sizeof(m), 0)) > 0 || (n < 0 && errno == EINTR)) {
        if (n < (ssize_t)sizeof(m.ask))
            continue;
        serve(&m, (size_t)n, &held, &outcomes);
        if (send(CHANNEL_FD, &outcomes, sizeof(outcomes), MSG_NOSIGNAL) < 0)
            break;
    }
    return 0;
}

/* --- its master's side --- */

void helper_init(struct helper *h, const char *program, void (*told)(void *arg, int outcome),
                 void *arg)
{
    *h = (struct helper){.program = program ? xstrdup(program) : NULL,
                         .device = -1,
                         .channel = -1,
                         .held = -1,
                         .batch = xcalloc(1, sizeof(*h->batch)),
                         .told = told,
                         .arg = arg};
    lock_init(&h->lock, RANK_METRICS, "fuse helper");
}

/* Both ends at once have other numbers than those they get in the helper. Without one of them (no
 * descriptor is left) it could only end, and what it was asked for would be lost. */
static int spawn(struct helper *h, int end)
{
    char word[] = HELPER_WORD, name[] = "sampan";
    char *argv[] = {name, word, NULL}, *env[] = {NULL};
    cleanup_close int channel = fcntl(end, F_DUPFD_CLOEXEC, 10);
    cleanup_close int device = fcntl(h->device, F_DUPFD_CLOEXEC, 10);
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int e;

    if (channel < 0 || device < 0)
        return errno;
    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd < CHANNEL_FD; fd++) /* whoever waits for ours to be closed is not to wait */
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, channel, CHANNEL_FD);
    posix_spawn_file_actions_adddup2(&actions, device, DEVICE_FD);
    posix_spawn_file_actions_addclosefrom_np(&actions, DEVICE_FD + 1);
    e = posix_spawn(&pid, h->program, &actions, NULL, argv, env);
    posix_spawn_file_actions_destroy(&actions);
    if (!e)
        atomic_store(&h->pid, pid);
    return e;
}

/* It may be lost already: then what is under way is what could not be sent. */
static void lose(struct helper *h)
{
    if (h->channel >= 0) {
        close(h->channel);
        h->channel = -1;
        while (waitpid(atomic_load(&h->pid), NULL, 0) < 0 && errno == EINTR)
            ;
        atomic_store(&h->pid, 0);
    }
    h->under_way = 0;
    for (; h->files_under_way; h->files_under_way--)
        h->told(h->arg, 0);
}

/* False: there is none, and the caller does the work itself. */
static bool is_there(struct helper *h)
{
    int ends[2];

    if (h->channel >= 0)
        return true;
    if (!h->program || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return false;
    if (spawn(h, ends[1]) == 0)
        h->channel = ends[0];
    else
        close(ends[0]);
    close(ends[1]);
    return h->channel >= 0;
}

static bool put(struct helper *h, const struct ask *ask, const void *rest, size_t len)
{
    struct iovec iov[2] = {{.iov_base = (void *)ask, .iov_len = sizeof(*ask)},
                           {.iov_base = (void *)rest, .iov_len = len}};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = len ? 2 : 1};
    ssize_t n;

    do {
        n = sendmsg(h->channel, &m, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n > 0;
}

static bool get(struct helper *h, struct outcomes *ret)
{
    ssize_t n;

    do {
        n = recv(h->channel, ret, sizeof(*ret), 0);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(*ret) && ret->count <= HELPER_BATCH;
}

/* Hears of files until at most `most` messages are under way. */
static void hear(struct helper *h, unsigned most)
{
    struct outcomes outcomes;

    while (h->under_way > most) {
        if (!get(h, &outcomes)) {
            lose(h);
            return;
        }
        h->under_way--;
        h->files_under_way -= outcomes.count;
        for (uint32_t i = 0; i < outcomes.count; i++)
            h->told(h->arg, outcomes.of[i]);
    }
}

/* Sends the files that wait. */
static void flush(struct helper *h)
{
    struct message *m = &h->batch->message;

    if (!m->ask.count)
        return;
    h->files_under_way += m->ask.count;
    if (put(h, &m->ask, m->rest, h->batch->len))
        h->under_way++;
    else
        lose(h);
    m->ask.count = 0;
    h->batch->len = 0;
}

void helper_settle(struct helper *h)
{
    ACQUIRE(&h->lock);

    flush(h);
    hear(h, 0);
}

static void add(struct helper_batch *b, const struct helper_file *file, const char *path)
{
    struct file_head head = {.file = *file, .len = (uint32_t)strlen(path) + 1};

    b->message.ask = (struct ask){.kind = ASK_FILES, .count = b->message.ask.count + 1};
    memcpy(b->message.rest + b->len, &head, sizeof(head));
    memcpy(b->message.rest + b->len + sizeof(head), path, head.len);
    b->len += sizeof(head) + head.len;
}

void helper_file(struct helper *h, const struct helper_file *file, const char *path)
{
    ACQUIRE(&h->lock);

    if (!is_there(h)) {
        h->told(h->arg, do_file(file, path, &h->held));
        return;
    }
    add(h->batch, file, path);
    if (h->batch->message.ask.count < HELPER_BATCH)
        return;
    hear(h, HELPER_DEPTH - 1);
    is_there(h); /* or they are lost */
    flush(h);
}

/* Asks and waits for the outcome. False: the helper was killed. */
static bool ask_now(struct helper *h, enum ask_kind kind, const void *rest, size_t len,
                    int *ret_outcome)
{
    const struct ask ask = {.kind = kind};
    struct outcomes outcomes;

    flush(h);
    hear(h, 0);
    if (h->channel < 0 || !put(h, &ask, rest, len) || !get(h, &outcomes)) {
        lose(h);
        return false;
    }
    *ret_outcome = outcomes.of[0];
    return true;
}

void helper_release(struct helper *h)
{
    ACQUIRE(&h->lock);
    int outcome;

    put_down(&h->held);
    if (h->channel >= 0)
        ask_now(h, ASK_RELEASE, NULL, 0, &outcome);
}

ssize_t helper_notify(struct helper *h, const struct iovec *iov, int count)
{
    char whole[NOTIFY_MAX];
    size_t len = 0;

    for (int i = 0; i < count; i++) {
        if (iov[i].iov_len > sizeof(whole) - len)
            return writev(h->device, iov, count);
        memcpy(whole + len, iov[i].iov_base, iov[i].iov_len);
        len += iov[i].iov_len;
    }
    ACQUIRE(&h->lock);
    int outcome = -EIO;
    for (int tries = 0; tries < NOTIFY_TRIES; tries++) {
        if (!is_there(h))
            return writev(h->device, iov, count);
        if (ask_now(h, ASK_NOTIFY, whole, len, &outcome))
            break;
    }
    if (outcome > 0)
        return (ssize_t)len;
    errno = -outcome;
    return -1;
}

void helper_stop(struct helper *h)
{
    {
        ACQUIRE(&h->lock);
        flush(h);
        hear(h, 0);
        put_down(&h->held);
        lose(h);
    }
    free(h->batch);
    free((char *)h->program);
    lock_destroy(&h->lock);
}
