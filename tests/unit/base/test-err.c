#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "err.h"

Test(err, every_class_has_its_errno_and_exit_code)
{
    static const struct {
        enum err_class class;
        const char *name;
        int sys, code;
    } rows[] = {
        {ERR_NONE, "none", 0, 0},
        {ERR_NOT_FOUND, "not-found", ENOENT, 3},
        {ERR_TRANSIENT, "transient", EIO, 1},
        {ERR_CORRUPT, "corrupt", EIO, 1},
        {ERR_STALE, "stale", ESTALE, 1},
        {ERR_DENIED, "denied", EACCES, 4},
        {ERR_LIMIT, "limit", ENOSPC, 4},
        {ERR_USAGE, "usage", EINVAL, 2},
        {ERR_CANCELLED, "cancelled", EINTR, 130},
        {ERR_FAILED, "failed", EIO, 1},
        {ERR_BUG, "bug", EIO, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err e = {.class = rows[i].class};
        cr_expect_str_eq(err_class_name(rows[i].class), rows[i].name);
        cr_expect_eq(err_errno(&e), rows[i].sys, "%s", rows[i].name);
        cr_expect_eq(err_exit_code(&e), rows[i].code, "%s", rows[i].name);
    }
}

Test(err, context_is_put_before)
{
    struct err e = {0};
    cr_expect_eq(err_set(&e, ERR_DENIED, "403 %s", "AccessDenied"), -1);
    cr_expect_eq(err_wrap(&e, "list %s", "s3://b"), -1);
    err_wrap(&e, "mount");
    cr_expect_str_eq(e.msg, "mount: list s3://b: 403 AccessDenied");
    cr_expect_eq(e.class, ERR_DENIED);
    err_clear(&e);
    cr_expect_str_eq(e.msg, "");
    cr_expect_eq(e.class, ERR_NONE);
}

Test(err, errno_gives_class_and_words)
{
    struct err e = {0};
    err_sys(&e, ENOENT, "open %s", "/x");
    cr_expect_str_eq(e.msg, "open /x: No such file or directory");
    cr_expect_eq(e.class, ERR_NOT_FOUND);
    cr_expect_eq(err_errno(&e), ENOENT);
    err_sys(&e, ENOSPC, "write");
    cr_expect_eq(e.class, ERR_LIMIT);
    err_sys(&e, EROFS, "write");
    cr_expect_eq(e.class, ERR_DENIED);
}

Test(err, null_is_allowed_and_long_texts_are_cut)
{
    cr_expect_eq(err_set(NULL, ERR_FAILED, "x"), -1);
    cr_expect_eq(err_sys(NULL, EIO, "x"), -1);
    cr_expect_eq(err_wrap(NULL, "x"), -1);
    char text[3000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct err e = {0};
    err_set(&e, ERR_FAILED, "%s", text);
    cr_expect_eq(strlen(e.msg), sizeof e.msg - 1);
    err_wrap(&e, "outer");
    cr_expect_eq(strncmp(e.msg, "outer: aaa", 10), 0);
    err_set(&e, ERR_FAILED, "why: %s", "short");
    err_set(&e, ERR_FAILED, "again %s", e.msg); /* its own text as an argument */
    cr_expect_str_eq(e.msg, "again why: short");
}

Test(err, a_thread_that_cannot_be_started_says_what_to_raise)
{
    struct err e = {0};
    cr_expect_eq(err_thread(NULL, EAGAIN, "x"), -1);
    cr_expect_eq(err_thread(&e, EAGAIN, "start a thread"), -1);
    cr_expect(strstr(e.msg, "start a thread: ") == e.msg && strstr(e.msg, "pids.max"), "%s", e.msg);
    cr_expect_eq(e.sys, EAGAIN);
    struct rlimit was, bounded;
    getrlimit(RLIMIT_AS, &was);
    cr_expect_eq(strstr(e.msg, "ulimit -v") != NULL, was.rlim_cur != RLIM_INFINITY, "%s", e.msg);
    bounded = (struct rlimit){RLIM_INFINITY - 1, was.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_AS, &bounded), 0);
    err_thread(&e, EAGAIN, "start a thread");
    cr_expect(strstr(e.msg, "raise ulimit -v, ulimit -u, or pids.max"), "%s", e.msg);
    setrlimit(RLIMIT_AS, &was);
    err_thread(&e, EPERM, "start a thread");
    cr_expect_str_eq(e.msg, "start a thread: Operation not permitted");
}
