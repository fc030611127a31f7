/* A folder's file that says which run writes there. */
#define LOG_MODULE "train"
#include "claim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "file.h"
#include "mem.h"

#define TEXT_MAX 200
#define WAIT_NS  (2 * NS_PER_S) /* for one that is just ending */

struct claim {
    char *dir, *path;
    struct log *log;
    int fd; /* the lock */
    bool ours;
    char machine[80];    /* "machine NAME," */
    char text[TEXT_MAX]; /* who we are: that, the process, since when */
};

static void introduce(struct claim *c)
{
    char host[65] = "?", when[CLOCK_TEXT];
    gethostname(host, sizeof host - 1);
    clock_text(clock_wall_ns() / (int64_t)NS_PER_S, when);
    snprintf(c->machine, sizeof c->machine, "machine %s,", host);
    snprintf(c->text, sizeof c->text, "%s process %d, since %s", c->machine, (int)getpid(), when);
}

/* The first line, without its end. */
static int read_text(int fd, char ret[TEXT_MAX])
{
    ssize_t n = file_read(fd, ret, TEXT_MAX - 1, 0);
    ret[n > 0 ? n : 0] = '\0';
    ret[strcspn(ret, "\n")] = '\0';
    return n < 0 ? -1 : 0;
}

static int write_text(const struct claim *c, struct err *err)
{
    char line[TEXT_MAX + 1];
    snprintf(line, sizeof line, "%s\n", c->text);
    if (ftruncate(c->fd, 0) || file_write(c->fd, line, strlen(line), 0) || fsync(c->fd))
        return err_sys(err, errno, "write %s", c->path);
    return 0;
}

/* Who held it may have removed it just now: then the lock is on a file that nobody else finds. */
static bool has_name(const struct claim *c)
{
    struct stat held, named;
    return fstat(c->fd, &held) == 0 && stat(c->path, &named) == 0 && held.st_dev == named.st_dev &&
           held.st_ino == named.st_ino;
}

/* 1: locked, or no locks are to be had. 0: another one removed it meanwhile. */
static int lock(const struct claim *c, struct err *err)
{
    char who[TEXT_MAX];
    if (file_lock(c->fd, WAIT_NS) == 0)
        return has_name(c);
    if (errno != EWOULDBLOCK) {
        log_warn(c->log, "%s: %s: it is not known whether another run writes there, too", c->path,
                 strerrordesc_np(errno));
        return 1;
    }
    if (read_text(c->fd, who) || !who[0])
        snprintf(who, sizeof who, "its name is not known");
    return err_set(err, ERR_FAILED, "another run writes there: %s (%s)", who, c->path);
}

/* Of a run that was killed, or lives on another machine. */
static void tell_before(const struct claim *c)
{
    char who[TEXT_MAX];
    if (read_text(c->fd, who) == 0 && who[0] && strncmp(who, c->machine, strlen(c->machine)) != 0)
        log_info(c->log,
                 "%s: before, %s wrote there; should it still run, it ends at its next checkpoint",
                 c->path, who);
}

static int take(struct claim *c, struct err *err)
{
    int got;
    if (mkdir(c->dir, 0755) && errno != EEXIST)
        return err_sys(err, errno, "make %s", c->dir);
    do {
        if (c->fd >= 0)
            close(c->fd);
        c->fd = open(c->path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (c->fd < 0)
            return err_sys(err, errno, "make %s", c->path);
        got = lock(c, err);
    } while (got == 0);
    if (got < 0)
        return -1;
    c->ours = true;
    tell_before(c);
    return write_text(c, err);
}

int claim_take(struct claim **ret, const char *dir, const char *name, struct log *log,
               struct err *err)
{
    struct claim *c = xcalloc(1, sizeof *c);
    *c = (struct claim){
        .dir = xstrdup(dir), .path = xasprintf("%s/%s", dir, name), .log = log, .fd = -1};
    introduce(c);
    if (take(c, err)) {
        claim_release(c);
        return -1;
    }
    *ret = c;
    return 0;
}

/* 1: the file says so. 0: another one says it is its. -1: errno. */
static int says_ours(const struct claim *c, char who[TEXT_MAX])
{
    cleanup_close int fd = open(c->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read_text(fd, who))
        return -1;
    return strncmp(who, c->text, strlen(who)) == 0; /* a disk that is full takes a part of it */
}

int claim_keep(struct claim *c, struct err *err)
{
    char who[TEXT_MAX];
    int got = says_ours(c, who);
    if (got < 0 && errno == ENOENT) {
        log_warn(c->log, "%s was removed, and is made again", c->path);
        return take(c, err);
    }
    if (got < 0)
        return err_sys(err, errno, "read %s", c->path);
    c->ours = got > 0;
    return got > 0
               ? 0
               : err_set(err, ERR_FAILED, "another run has taken it over: %s (%s)", who, c->path);
}

void claim_release(struct claim *c)
{
    char who[TEXT_MAX];
    if (!c)
        return;
    if (c->ours && says_ours(c, who) > 0)
        unlink(c->path);
    if (c->fd >= 0)
        close(c->fd);
    free(c->dir);
    free(c->path);
    free(c);
}
