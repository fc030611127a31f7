/*
 * Errors as values.
 *
 * A function that can fail returns 0 (or a count) on success and -1 on failure, takes `struct err
 * *` last, leaves it untouched on success and fills it on failure. NULL is allowed: the caller does
 * not care why. Context is added on the way up with err_wrap(), so that the text reads from the
 * outside in: "mount: scan s3://b/p: list: 403 AccessDenied". Library code never logs an error it
 * returns.
 */
#ifndef SAMPAN_BASE_ERR_H
#define SAMPAN_BASE_ERR_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum err_class {
    ERR_NONE = 0,
    ERR_NOT_FOUND, /* the thing named does not exist: ENOENT, exit 3 */
    ERR_TRANSIENT, /* may work when tried again: EIO, exit 1 */
    ERR_CORRUPT,   /* bytes are not what they should be: EIO, exit 1 */
    ERR_STALE,     /* the source changed under us: ESTALE, exit 1 */
    ERR_DENIED,    /* permission or credentials: EACCES, exit 4 */
    ERR_LIMIT,     /* a bound was reached (disk, memory, connections): ENOSPC, exit 4 */
    ERR_USAGE,     /* the caller asked for nonsense: EINVAL, exit 2 */
    ERR_CANCELLED, /* told to stop: EINTR, exit 130 */
    ERR_FAILED,    /* failed for good for another reason: EIO, exit 1 */
    ERR_BUG        /* our own invariant broke: EIO, exit 1 */
};

struct err {
#ifdef __cplusplus
    enum err_class error_class; /* `class` is a word of that language */
#else
    enum err_class class;
#endif
    int sys; /* the errno to answer with; 0: the one of the class */
    char msg[1000];
};

/* Fills `e` (if any). Always returns -1, so that `return err_set(...)` reads well. */
__attribute__((format(printf, 3, 4))) int err_set(struct err *e, enum err_class c, const char *fmt,
                                                  ...);

/* The same from an errno: the class follows from it and ": strerror" is appended. Returns -1. */
__attribute__((format(printf, 3, 4))) int err_sys(struct err *e, int errnum, const char *fmt, ...);

/* The same where a thread or a process can't be started: what to raise is said. */
int err_thread(struct err *e, int errnum, const char *what);

/* Puts "context: " before the message of a filled `e`. Returns -1. */
__attribute__((format(printf, 2, 3))) int err_wrap(struct err *e, const char *fmt, ...);

void err_clear(struct err *e);
int err_errno(const struct err *e);     /* positive errno for a reader */
int err_exit_code(const struct err *e); /* of a program that ends with it (docs: cli.md) */
const char *err_class_name(enum err_class c);

#ifdef __cplusplus
}
#endif

#endif
