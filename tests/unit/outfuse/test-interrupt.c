/* A signal comes to somebody who waits for the store. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "kernel.h"

Test(signals, which_of_them_end)
{
    static const struct {
        const char *status;
        bool ends;
    } rows[] = {
        {"Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\nSigBlk:\t0\n", false},
        /* SIGKILL, in the thread's own set as the kernel puts it. */
        {"Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0\nSigBlk:\t0\nSigIgn:\t0\n", true},
        /* SIGINT to the process, handled. */
        {"\nSigPnd:\t0\nShdPnd:\t0000000000000002\nSigBlk:\t0\nSigIgn:\t0\nSigCgt:\t2\n", true},
        /* SIGTERM, but blocked; SIGHUP, but ignored. */
        {"\nSigPnd:\t0\nShdPnd:\t4000\nSigBlk:\t4000\nSigIgn:\t0\n", false},
        {"\nSigPnd:\t1\nShdPnd:\t0\nSigBlk:\t0\nSigIgn:\t1\n", false},
        /* SIGALRM, SIGCHLD, SIGPROF, SIGUSR1, all handled. */
        {"\nSigPnd:\t0000000004012200\nShdPnd:\t0\nSigBlk:\t0\nSigIgn:\t0\n", false},
        {"", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_eq(signals_end(rows[i].status), rows[i].ends, "row %zu", i);
    cr_expect_not(caller_must_end(0), "of another PID namespace");
    cr_expect_not(caller_must_end((uint32_t)getpid()));
}

Test(signals, who_was_killed)
{
#define STAT(flags, code)                                                                      \
    "77 (a name) with) D 1 77 77 0 -1 " flags " 100 0 0 0 1 2 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 " \
    "0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0 " code "\n"
    cr_expect(stat_was_killed(STAT("4194564", "9")));
    cr_expect(stat_was_killed(STAT("4", "14")));
    cr_expect_not(stat_was_killed(STAT("4194304", "9")), "not on its way out");
    cr_expect_not(stat_was_killed(STAT("4194564", "256")), "exit(1)");
    cr_expect_not(stat_was_killed(STAT("4194564", "0")));
    cr_expect_not(stat_was_killed(""));
    cr_expect_not(stat_was_killed("77 (x) D 1"));
    cr_expect_not(caller_was_killed(0));
    cr_expect_not(caller_was_killed((uint32_t)getpid()));
}

static struct kernel *k;
static struct stage *s;

static void begin(void)
{
    s = fake_stage();
    k = kernel_new(s);
}

static void end(void)
{
    kernel_free(k);
}

TestSuite(interrupt, .init = begin, .fini = end);

/* A process that has ended: so must its requests. */
static uint32_t gone(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    return (uint32_t)pid;
}

static void interrupt(uint64_t unique)
{
    const struct wire_interrupt_in in = {.unique = unique};

    kernel_send(k, WIRE_INTERRUPT, 0, &in, sizeof(in), NULL, 0);
}

Test(interrupt, a_close_that_waits_is_given_up)
{
    uint64_t fh;
    uint64_t ino = kernel_create(k, "slow", &fh);
    const struct wire_flush_in in = {.fh = fh};

    k->pid = gone();
    uint64_t unique = kernel_send(k, WIRE_FLUSH, ino, &in, sizeof(in), NULL, 0);
    interrupt(unique);
    cr_assert_eq(kernel_take(k), -EINTR);
    cr_assert_eq(k->head.unique, unique);
    cr_assert_eq(kernel_ask_name(k, WIRE_LOOKUP, 1, NULL, 0, "x"), -ENOENT);
    cr_assert(kernel_silent(k), "answered once");
}

Test(interrupt, a_caller_that_lives_on_waits_on)
{
    uint64_t fh;
    uint64_t ino = kernel_create(k, "slow", &fh);
    const struct wire_flush_in in = {.fh = fh};

    k->pid = (uint32_t)getpid();
    uint64_t unique = kernel_send(k, WIRE_FLUSH, ino, &in, sizeof(in), NULL, 0);
    interrupt(unique);
    cr_assert_eq(kernel_ask_name(k, WIRE_LOOKUP, 1, NULL, 0, "x"), -ENOENT);
    cr_assert(kernel_silent(k));
    fake_let_go(s);
    cr_assert_eq(kernel_take(k), 0);
    cr_assert_eq(k->head.unique, unique);
}

Test(interrupt, more_than_there_are_lanes)
{
    enum { MANY = 150 };
    uint64_t fh, waiting[MANY];
    uint64_t ino = kernel_create(k, "slow", &fh);
    const struct wire_flush_in flush = {.fh = fh};

    k->pid = gone();
    for (int i = 0; i < MANY; i++)
        waiting[i] = kernel_send(k, WIRE_FLUSH, ino, &flush, sizeof(flush), NULL, 0);
    for (int i = MANY; i-- > 0;)
        interrupt(waiting[i]);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(kernel_take(k), -EINTR);
    cr_assert(kernel_silent(k));
}

/* The lane answers in vain later, which a socket takes for an answer and the kernel does not. */
Test(interrupt, one_that_only_looks_is_answered_at_once)
{
    uint64_t fh;
    uint64_t ino = kernel_create(k, "slow", &fh);
    const struct wire_read_in in = {.fh = fh, .size = 10};

    k->pid = gone();
    uint64_t unique = kernel_send(k, WIRE_READ, ino, &in, sizeof(in), NULL, 0);
    interrupt(unique);
    cr_assert_eq(kernel_take(k), -EINTR);
    cr_assert_eq(k->head.unique, unique);
}

static void until_it_failed_again(void)
{
    for (unsigned seen = fake_failures(s); fake_failures(s) < seen + 3;)
        cr_assert(kernel_silent(k), "it is not tried again");
}

Test(interrupt, what_fails_for_the_moment_is_tried_on)
{
    const struct wire_mkdir_in in = {.mode = 0755};

    k->pid = (uint32_t)getpid();
    uint64_t unique = kernel_send(k, WIRE_MKDIR, 1, &in, sizeof(in), "slow-trouble", 13);
    until_it_failed_again();
    fake_let_go(s);
    cr_assert_eq(kernel_take(k), 0);
    cr_assert_eq(k->head.unique, unique);
    cr_assert_eq(fake_changes(s), 1);
    cr_assert_eq(counter_get(&k->front->errors), 0);
}

Test(interrupt, who_tries_on_can_be_stopped)
{
    const struct wire_mkdir_in in = {.mode = 0755};

    k->pid = (uint32_t)getpid();
    uint64_t unique = kernel_send(k, WIRE_MKDIR, 1, &in, sizeof(in), "slow-trouble", 13);
    until_it_failed_again();
    interrupt(unique); /* of one who lives on: nothing */
    until_it_failed_again();
    k->pid = gone();
    unique = kernel_send(k, WIRE_MKDIR, 1, &in, sizeof(in), "slow-trouble", 13);
    interrupt(unique);
    cr_assert_eq(kernel_take(k), -EINTR);
    cr_assert_eq(k->head.unique, unique);
    fake_let_go(s);
    cr_assert_eq(kernel_take(k), 0);
    cr_assert_eq(fake_changes(s), 1);
}

/* Workers carry some, lanes the others; one worker at least reads on. */
Test(interrupt, light_closes_hold_up_nobody)
{
    enum { MANY = 2 * CREW_WORKERS };
    uint64_t fh;
    uint64_t ino = kernel_create(k, "slow-light", &fh);
    const struct wire_flush_in in = {.fh = fh};

    k->pid = (uint32_t)getpid();
    for (int i = 0; i < MANY; i++)
        kernel_send(k, WIRE_FLUSH, ino, &in, sizeof(in), NULL, 0);
    cr_assert_eq(kernel_ask_name(k, WIRE_LOOKUP, 1, NULL, 0, "x"), -ENOENT);
    cr_assert(kernel_silent(k));
    fake_let_go(s);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(kernel_take(k), 0);
    cr_assert(kernel_silent(k));
}

/* Whether the first is carried by a worker or, where these have enough, in a lane. */
Test(interrupt, who_carries_is_told_at_once_and_once)
{
    enum { MANY = CREW_WORKERS };
    uint64_t fh, carried[MANY];
    uint64_t ino = kernel_create(k, "slow-light", &fh);
    const struct wire_flush_in in = {.fh = fh};

    k->pid = gone();
    for (int i = 0; i < MANY; i++)
        carried[i] = kernel_send(k, WIRE_FLUSH, ino, &in, sizeof(in), NULL, 0);
    for (int i = 0; i < MANY; i++)
        interrupt(carried[i]);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(kernel_take(k), -EINTR);
    fake_let_go(s);
    cr_assert_eq(kernel_ask_name(k, WIRE_LOOKUP, 1, NULL, 0, "x"), -ENOENT);
    lanes_rest(k->front, UINT64_C(10) * 1000 * 1000 * 1000);
    cr_assert(kernel_silent(k), "answered once");
    cr_assert_eq(counter_get(&k->front->given_up), MANY);
}
