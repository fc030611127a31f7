/*
 * The part of Criterion's interface that our tests use, for builds that the real one cannot serve: its
 * shared arena wants addresses that the thread sanitizer keeps for its shadow. Each test runs in a
 * child process of its own (runner.c).
 */
#ifndef SAMPAN_TESTS_PLAIN_CRITERION_H
#define SAMPAN_TESTS_PLAIN_CRITERION_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plain_extra {
    int signal; /* the test must end by it */
    int exit_code;
    bool disabled;
    double timeout;
    void (*init)(void);
    void (*fini)(void);
    const char *description;
    int sentinel;
};

struct plain_test {
    const char *suite, *name;
    void (*run)(void);
    const struct plain_extra *extra;
    const struct plain_extra *(*suite_extra)(void); /* NULL: no TestSuite() */
    struct plain_test *next;
};

void plain_register(struct plain_test *t);
void plain_register_suite(const char *name, const struct plain_extra *extra);
void plain_failed(bool fatal, const char *file, int line, const char *what, const char *fmt, ...);
_Noreturn void plain_skip(void);

#define Test(s, n, ...)                                                                            \
    static void s##_##n##_run(void);                                                               \
    __attribute__((constructor)) static void s##_##n##_register(void)                              \
    {                                                                                              \
        static const struct plain_extra extra = {.sentinel = 0, ##__VA_ARGS__};                    \
        static struct plain_test test = {#s, #n, s##_##n##_run, &extra, NULL, NULL};               \
        plain_register(&test);                                                                     \
    }                                                                                              \
    static void s##_##n##_run(void)

#define TestSuite(s, ...)                                                                          \
    __attribute__((constructor)) static void s##_suite_register(void)                              \
    {                                                                                              \
        static const struct plain_extra extra = {.sentinel = 0, ##__VA_ARGS__};                    \
        plain_register_suite(#s, &extra);                                                          \
    }

#define PLAIN(fatal, cond, text, ...)                                                              \
    do {                                                                                           \
        if (!(cond))                                                                               \
            plain_failed((fatal), __FILE__, __LINE__, (text), "" __VA_ARGS__);                     \
    } while (0)

#define PLAIN_STR(a, b) (strcmp((a), (b)) == 0)

#define cr_assert(c, ...)               PLAIN(true, c, #c, __VA_ARGS__)
#define cr_expect(c, ...)               PLAIN(false, c, #c, __VA_ARGS__)
#define cr_assert_not(c, ...)           PLAIN(true, !(c), "not " #c, __VA_ARGS__)
#define cr_expect_not(c, ...)           PLAIN(false, !(c), "not " #c, __VA_ARGS__)
#define cr_assert_eq(a, b, ...)         PLAIN(true, (a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_expect_eq(a, b, ...)         PLAIN(false, (a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...)        PLAIN(true, (a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...)        PLAIN(false, (a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...)         PLAIN(true, (a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...)         PLAIN(false, (a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...)        PLAIN(true, (a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...)        PLAIN(false, (a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...)         PLAIN(true, (a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...)         PLAIN(false, (a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...)        PLAIN(true, (a) >= (b), #a " >= " #b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...)        PLAIN(false, (a) >= (b), #a " >= " #b, __VA_ARGS__)
#define cr_assert_null(a, ...)          PLAIN(true, (a) == NULL, #a " is NULL", __VA_ARGS__)
#define cr_expect_null(a, ...)          PLAIN(false, (a) == NULL, #a " is NULL", __VA_ARGS__)
#define cr_assert_not_null(a, ...)      PLAIN(true, (a) != NULL, #a " is not NULL", __VA_ARGS__)
#define cr_expect_not_null(a, ...)      PLAIN(false, (a) != NULL, #a " is not NULL", __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...)     PLAIN(true, PLAIN_STR(a, b), #a " eq " #b, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...)     PLAIN(false, PLAIN_STR(a, b), #a " eq " #b, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...)    PLAIN(true, !PLAIN_STR(a, b), #a " ne " #b, __VA_ARGS__)
#define cr_expect_str_neq(a, b, ...)    PLAIN(false, !PLAIN_STR(a, b), #a " ne " #b, __VA_ARGS__)
#define cr_assert_str_empty(a, ...)     PLAIN(true, !*(a), #a " is empty", __VA_ARGS__)
#define cr_expect_str_empty(a, ...)     PLAIN(false, !*(a), #a " is empty", __VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...)  PLAIN(true, !memcmp(a, b, n), #a " eq " #b, __VA_ARGS__)
#define cr_expect_arr_eq(a, b, n, ...)  PLAIN(false, !memcmp(a, b, n), #a " eq " #b, __VA_ARGS__)
#define cr_assert_arr_neq(a, b, n, ...) PLAIN(true, memcmp(a, b, n), #a " ne " #b, __VA_ARGS__)
#define cr_expect_arr_neq(a, b, n, ...) PLAIN(false, memcmp(a, b, n), #a " ne " #b, __VA_ARGS__)
#define cr_assert_float_eq(a, b, e, ...)                                                           \
    PLAIN(true, (a) - (b) <= (e) && (b) - (a) <= (e), #a " eq " #b, __VA_ARGS__)
#define cr_expect_float_eq(a, b, e, ...)                                                           \
    PLAIN(false, (a) - (b) <= (e) && (b) - (a) <= (e), #a " eq " #b, __VA_ARGS__)
#define cr_assert_fail(...) PLAIN(true, false, "reached", __VA_ARGS__)
#define cr_fatal(...)       PLAIN(true, false, "reached", __VA_ARGS__)
#define cr_fail(...)        PLAIN(false, false, "reached", __VA_ARGS__)
#define cr_skip_test(...)   plain_skip()
#define cr_skip(...)        plain_skip()
#define cr_log_info(...)    ((void)0)
#define cr_log_warn(...)    ((void)0)

#endif
