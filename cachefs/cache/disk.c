/*
 * A failing or full disk set aside: nothing new is written to it until a pause is over; then one
 * append may try, and a success makes it good again. Reads go on all the while. A folder that was
 * removed never comes back: what is open of it can still be read and written, and is lost in the
 * end.
 */
#include "cache-internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "clock.h"
#include "file.h"

#define FAILED_PAUSE_NS (30 * NS_PER_S)
#define FULL_PAUSE_NS   (5 * NS_PER_S)
#define CURE_MAX        64

static bool means_full(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

void health_begin(struct health *h, int dir_fd)
{
    struct stat st;
    h->no_links = fstat(dir_fd, &st) || !st.st_nlink;
}

bool health_look(struct health *h, int dir_fd)
{
    struct stat st;
    if (h->no_links || fstat(dir_fd, &st) || st.st_nlink)
        return true;
    h->state = HEALTH_FAILED;
    h->retry_ns = UINT64_MAX;
    snprintf(h->why, sizeof h->why, "its folder was removed (unmount, and mount again)");
    return false;
}

static const char *cure_of(int error, int dir_fd)
{
    switch (error) {
    case ENOSPC:
        return file_few_inodes(dir_fd, 1, NULL)
                   ? " (no inode is left there, see df -i: remove other files)"
                   : " (make room on that disk)";
    case EDQUOT:
        return " (make room there, or raise the quota)";
    case EFBIG:
        return " (raise ulimit -f)";
    default:
        return "";
    }
}

void health_error(struct health *h, int dir_fd, const struct err *e)
{
    if (!health_look(h, dir_fd))
        return;
    bool full = means_full(e->sys);
    h->state = full ? HEALTH_FULL : HEALTH_FAILED;
    h->retry_ns = clock_mono_ns() + (full ? FULL_PAUSE_NS : FAILED_PAUSE_NS);
    snprintf(h->why, sizeof h->why, "%.*s%s", (int)(sizeof h->why - CURE_MAX), e->msg,
             cure_of(e->sys, dir_fd));
}

void health_full(struct health *h, const char *why)
{
    if (h->state != HEALTH_OK)
        return;
    h->state = HEALTH_FULL;
    h->retry_ns = 0;
    snprintf(h->why, sizeof h->why, "%s", why);
}

void health_good(struct health *h)
{
    h->state = HEALTH_OK;
    h->why[0] = '\0';
}

bool health_usable(const struct health *h, uint64_t now_ns)
{
    return h->state == HEALTH_OK || now_ns >= h->retry_ns;
}
