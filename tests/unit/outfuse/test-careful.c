/* After a death that some request caused: suspects, and those that are refused. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

static struct kernel *k;
static struct stage *s;
static struct keeper_state *state;

static void begin(void)
{
    k = calloc(1, sizeof(*k));
    s = fake_stage();
}

static void end(void)
{
    fake_let_go(s);
    kernel_stop(k);
    kernel_state_free(state);
    fake_free(s);
    free(k);
}

TestSuite(careful, .init = begin, .fini = end);

static const struct wire_mkdir_in dir = {.mode = 0755};

/* The suspect that a mkdir of this name in the root is. */
static struct keeper_suspect suspect_mkdir(const char *name, uint32_t deaths)
{
    char at[sizeof(struct keeper_request) + sizeof(dir) + 256] = {0};
    struct keeper_request *r = (void *)at;

    kernel_lay(r, 2, WIRE_MKDIR, STAGE_ROOT, &dir, sizeof(dir), name, strlen(name) + 1);
    return (struct keeper_suspect){
        .opcode = WIRE_MKDIR, .deaths = deaths, .nodeid = STAGE_ROOT, .offset = keeper_place(r)};
}

static int make(const char *name)
{
    return kernel_ask_name(k, WIRE_MKDIR, STAGE_ROOT, &dir, sizeof(dir), name);
}

static void resend_mkdir(const char *name, uint64_t unique)
{
    char at[sizeof(struct keeper_request) + sizeof(dir) + 256] = {0};
    struct keeper_request *r = (void *)at;

    kernel_lay(r, unique | WIRE_RESENT, WIRE_MKDIR, STAGE_ROOT, &dir, sizeof(dir), name,
               strlen(name) + 1);
    cr_assert_eq(send(k->sock, r, r->len, 0), (ssize_t)r->len);
}

/* All lanes are done with what they answered. */
static void stop_and_begin_anew(void)
{
    kernel_stop(k);
    memset(k, 0, sizeof(*k));
    kernel_start(k, s);
}

Test(careful, what_killed_three_times_is_refused_and_nothing_else)
{
    state = kernel_state(true);
    state->keeper.suspects[0] = suspect_mkdir("bad", KEEPER_DEATHS);
    kernel_adopt(k, s, state);
    cr_assert_eq(kernel_take(k), WIRE_NOTIFY_RESEND);
    cr_assert_eq(state->careful, 0, "there is nothing to find out");
    cr_assert_eq(make("bad"), -EIO);
    cr_assert_eq(make("good"), 0);
    cr_assert_eq(make("bad"), -EIO);
    cr_assert_eq(state->keeper.suspects[0].deaths, KEEPER_DEATHS);
    cr_assert_eq(fake_changes(s), 1);
}

Test(careful, what_is_answered_is_absolved_and_the_first_new_request_ends_it)
{
    state = kernel_state(true);
    state->keeper.suspects[0] = suspect_mkdir("a", 1);
    state->keeper.suspects[1] = suspect_mkdir("b", 2);
    state->keeper.suspects[2] = suspect_mkdir("c", KEEPER_DEATHS);
    kernel_adopt(k, s, state);
    cr_assert_eq(kernel_take(k), WIRE_NOTIFY_RESEND);
    cr_assert_eq(state->careful, 1);
    resend_mkdir("a", 40);
    cr_assert_eq(kernel_take(k), 0);
    resend_mkdir("c", 42);
    cr_assert_eq(kernel_take(k), -EIO);
    cr_assert_eq(state->careful, 1);
    cr_assert_eq(state->keeper.suspects[0].opcode, 0);
    cr_assert_eq(state->keeper.suspects[1].opcode, WIRE_MKDIR);
    cr_assert_eq(make("new"), 0);
    cr_assert_eq(state->careful, 0);
    cr_assert_eq(state->keeper.suspects[1].opcode, 0, "its caller does not ask any more");
    cr_assert_eq(state->keeper.suspects[2].opcode, WIRE_MKDIR);
}

Test(careful, what_waits_for_the_store_stays_a_suspect_until_it_is_answered)
{
    state = kernel_state(true);
    state->keeper.suspects[0] = suspect_mkdir("slow", 2);
    kernel_adopt(k, s, state);
    cr_assert_eq(kernel_take(k), WIRE_NOTIFY_RESEND);
    resend_mkdir("slow", 40);
    cr_assert_eq(make("new"), 0, "a store that is away stops nobody else for long");
    cr_assert_eq(state->careful, 0);
    cr_assert_eq(state->keeper.suspects[0].opcode, WIRE_MKDIR);
    fake_let_go(s);
    cr_assert_eq(kernel_take(k), 0);
    cr_assert_eq(k->head.unique, 40 | WIRE_RESENT);
    stop_and_begin_anew();
    cr_assert_eq(state->keeper.suspects[0].opcode, 0);
}

Test(careful, where_the_kernel_cannot_resend)
{
    state = kernel_state(false);
    state->keeper.suspects[0] = suspect_mkdir("bad", KEEPER_DEATHS);
    state->keeper.suspects[1] = suspect_mkdir("good", 1);
    kernel_lay(keeper_desk(state, 2), 40, WIRE_MKDIR, 1, &dir, sizeof(dir), "bad", 4);
    kernel_lay(keeper_desk(state, 3), 42, WIRE_MKDIR, 1, &dir, sizeof(dir), "good", 5);
    kernel_adopt(k, s, state);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(kernel_take(k), k->head.unique == 40 ? -EIO : 0);
    cr_assert_eq(state->careful, 0);
    stop_and_begin_anew();
    cr_assert_eq(state->keeper.suspects[0].opcode, WIRE_MKDIR);
    cr_assert_eq(state->keeper.suspects[1].opcode, 0);
    cr_assert_eq(fake_changes(s), 1);
}
