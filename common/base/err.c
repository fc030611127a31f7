#include "err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

struct class_row {
    const char *name;
    int sys;
    int exit_code;
};

static const struct class_row class_rows[] = {
    [ERR_NONE] = {"none", 0, 0},
    [ERR_NOT_FOUND] = {"not-found", ENOENT, 3},
    [ERR_TRANSIENT] = {"transient", EIO, 1},
    [ERR_CORRUPT] = {"corrupt", EIO, 1},
    [ERR_STALE] = {"stale", ESTALE, 1},
    [ERR_DENIED] = {"denied", EACCES, 4},
    [ERR_LIMIT] = {"limit", ENOSPC, 4},
    [ERR_USAGE] = {"usage", EINVAL, 2},
    [ERR_CANCELLED] = {"cancelled", EINTR, 130},
    [ERR_FAILED] = {"failed", EIO, 1},
    [ERR_BUG] = {"bug", EIO, 1},
};

static enum err_class class_of_errno(int errnum)
{
    switch (errnum) {
    case ENOENT:
    case ENOTDIR:
        return ERR_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERR_DENIED;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
        return ERR_LIMIT;
    case EINVAL:
    case ENAMETOOLONG:
        return ERR_USAGE;
    case ESTALE:
        return ERR_STALE;
    case EAGAIN:
    case EINTR:
    case ETIMEDOUT:
    case ECONNRESET:
    case ECONNREFUSED:
        return ERR_TRANSIENT;
    default:
        return ERR_FAILED;
    }
}

int err_set(struct err *e, enum err_class c, const char *fmt, ...)
{
    if (!e)
        return -1;
    char text[sizeof e->msg]; /* the arguments may point into e->msg itself */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    e->class = c;
    e->sys = 0;
    memcpy(e->msg, text, sizeof text);
    return -1;
}

int err_sys(struct err *e, int errnum, const char *fmt, ...)
{
    if (!e)
        return -1;
    char what[sizeof e->msg];
    char why[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    e->class = class_of_errno(errnum);
    e->sys = errnum;
    snprintf(e->msg, sizeof e->msg, "%.*s: %s", (int)sizeof what - (int)sizeof why - 3, what,
             strerror_r(errnum, why, sizeof why));
    return -1;
}

int err_thread(struct err *e, int errnum, const char *what)
{
    struct rlimit space; /* its stack takes some, and where there is none that is EAGAIN, too */
    if (errnum != EAGAIN)
        return err_sys(e, errnum, "%s", what);
    bool bounded = getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY;
    err_set(e, class_of_errno(errnum),
            "%s: no more tasks are allowed here, or there is no memory for one (raise %sulimit -u, "
            "or pids.max of the control group)",
            what, bounded ? "ulimit -v, " : "");
    if (e)
        e->sys = errnum;
    return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    if (!e)
        return -1;
    char context[sizeof e->msg / 2];
    char old[sizeof e->msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(context, sizeof context, fmt, ap);
    va_end(ap);
    memcpy(old, e->msg, sizeof old);
    snprintf(e->msg, sizeof e->msg, "%s: %.*s", context, (int)(sizeof e->msg - strlen(context) - 3),
             old);
    return -1;
}

void err_clear(struct err *e)
{
    if (e)
        *e = (struct err){0};
}

int err_errno(const struct err *e)
{
    return e->sys ? e->sys : class_rows[e->class].sys;
}

int err_exit_code(const struct err *e)
{
    return class_rows[e->class].exit_code;
}

const char *err_class_name(enum err_class c)
{
    return class_rows[c].name;
}
