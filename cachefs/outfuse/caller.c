/*
 * Whether a caller that got a signal is to end. The kernel tells of any signal that comes while a
 * request is under way, and answers EINTR to the caller if we do; a timer, a profiler or a child
 * that ended must not make a close() fail, so the signal itself is looked up.
 *
 * A process that a signal ended closes its files on its way out, where no signal reaches it any
 * more and nobody hears what close() says. One that ends by itself is waited for: who started it
 * may want what it wrote.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "outfuse-internal.h"

#define BIT(signal) (1ull << ((signal)-1))

static uint64_t mask_at(const char *text, const char *name)
{
    const char *row = strstr(text, name);

    return row ? strtoull(row + strlen(name), NULL, 16) : 0;
}

bool signals_end(const char *status)
{
    /* Handled or not, these ask to end. What else ends a process shows as a pending SIGKILL. */
    const uint64_t ask = BIT(SIGINT) | BIT(SIGQUIT) | BIT(SIGTERM) | BIT(SIGHUP);
    uint64_t pending = mask_at(status, "\nSigPnd:") | mask_at(status, "\nShdPnd:");
    uint64_t heard = ~(mask_at(status, "\nSigBlk:") | mask_at(status, "\nSigIgn:"));

    return pending & (BIT(SIGKILL) | (ask & heard));
}

/* Reads /proc/PID/NAME. False: there is no such process, or (*ret "") it can't be read. */
static bool read_proc(uint32_t pid, const char *name, char *ret, size_t size)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);
    bool gone = n < 0 && (errno == ENOENT || errno == ESRCH);

    ret[n > 0 ? n : 0] = '\0';
    return !gone;
}

bool caller_must_end(uint32_t pid)
{
    char text[8192];

    /* 0: of another PID namespace, where nobody can tell. */
    return pid && (!read_proc(pid, "status", text, sizeof(text)) || signals_end(text));
}

/* proc(5): the flags are the seventh word behind the name, the exit code is the last one. */
bool stat_was_killed(const char *stat)
{
    const uint64_t exiting = 4; /* PF_EXITING */
    const char *at = strrchr(stat, ')'), *last = strrchr(stat, ' ');

    for (int word = 0; at && word < 7; word++)
        if ((at = strchr(at, ' ')))
            at++;
    return at && last && strtoull(at, NULL, 10) & exiting &&
           strtoull(last, NULL, 10) & 0x7f; /* as wait(2) tells it: the signal */
}

bool caller_was_killed(uint32_t pid)
{
    char text[2048];

    return pid && read_proc(pid, "stat", text, sizeof(text)) && stat_was_killed(text);
}
