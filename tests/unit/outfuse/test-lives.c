/* What a killed life leaves, and the next one makes of it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "device.h"
#include "kernel.h"
#include "mountinfo.h"

#define MKDIR_NUMBER 40

static const struct wire_mkdir_in dir = {.mode = 0755};

Test(lives, what_was_in_hand_is_served_where_the_kernel_cannot_resend)
{
    struct kernel *k = calloc(1, sizeof(*k));
    struct stage *s = fake_stage();
    struct keeper_state *state = kernel_state(false);
    const struct wire_read_in in = {.size = 4096};
    unsigned seen = 0;

    kernel_lay(keeper_desk(state, 3), MKDIR_NUMBER, WIRE_MKDIR, 1, &dir, sizeof(dir), "d", 2);
    kernel_lay(&keeper_slot(state, 4095)->request, 42, WIRE_READDIR, 1, &in, sizeof(in), NULL, 0);
    kernel_adopt(k, s, state);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(kernel_take(k), 0);
        seen |= k->head.unique == MKDIR_NUMBER ? 1 : k->head.unique == 42 ? 2 : 4;
    }
    cr_assert_eq(seen, 3);
    cr_assert_eq(fake_changes(s), 1);
    kernel_stop(k);
    for (uint32_t i = 0; i < state->n_desks; i++)
        cr_assert_eq(keeper_desk(state, i)->len, 0);
    cr_assert_eq(keeper_slot(state, 4095)->request.len, 0);
    kernel_state_free(state);
    fake_free(s);
    free(k);
}

Test(lives, a_repeat_changes_nothing)
{
    struct kernel *k = calloc(1, sizeof(*k));
    struct stage *s = fake_stage();
    struct keeper_state *state = kernel_state(true);
    struct wire_entry_out first, again;
    struct {
        struct wire_in_header h;
        struct wire_mkdir_in in;
        char name[2];
    } __attribute__((packed)) resent;

    kernel_adopt(k, s, state);
    cr_assert_eq(kernel_take(k), WIRE_NOTIFY_RESEND);
    uint64_t unique = kernel_send(k, WIRE_MKDIR, 1, &dir, sizeof(dir), "d", 2);
    cr_assert_eq(kernel_take(k), 0);
    memcpy(&first, k->body, sizeof(first));
    /* The kernel marks it, and wants the answer under the number as it sent it. */
    resent.h = (struct wire_in_header){
        .len = sizeof(resent), .opcode = WIRE_MKDIR, .unique = unique | WIRE_RESENT, .nodeid = 1};
    resent.in = dir;
    memcpy(resent.name, "d", 2);
    cr_assert_eq(send(k->sock, &resent, sizeof(resent), 0), (ssize_t)sizeof(resent));
    cr_assert_eq(kernel_take(k), 0);
    cr_assert_eq(k->head.unique, unique | WIRE_RESENT);
    memcpy(&again, k->body, sizeof(again));
    cr_assert_eq(again.nodeid, first.nodeid);
    cr_assert_eq(fake_changes(s), 1);
    kernel_stop(k);
    kernel_state_free(state);
    fake_free(s);
    free(k);
}

Test(lives, a_kernel_that_resends_is_asked_to)
{
    struct kernel *k = calloc(1, sizeof(*k));
    struct stage *s = fake_stage();
    struct keeper_state *state = kernel_state(true);

    kernel_lay(keeper_desk(state, 0), MKDIR_NUMBER, WIRE_MKDIR, 1, &dir, sizeof(dir), "d", 2);
    kernel_adopt(k, s, state);
    cr_assert_eq(kernel_take(k), WIRE_NOTIFY_RESEND);
    cr_assert_eq(k->head.unique, 0);
    cr_assert_eq(kernel_ask_name(k, WIRE_LOOKUP, 1, NULL, 0, "d"), -ENOENT);
    cr_assert_eq(fake_changes(s), 0);
    kernel_stop(k);
    kernel_state_free(state);
    fake_free(s);
    free(k);
}

Test(lives, bytes_that_are_written_are_not_written_again)
{
    struct kernel *k = calloc(1, sizeof(*k));
    struct stage *s = fake_stage();
    struct keeper_state *state = kernel_state(false);
    struct stage_call c = {.wait = true};
    struct stage_attr a;
    uint64_t fh;

    cr_assert_eq(stage_create(s, &c, 1, "f", 0644, O_CREAT | O_RDWR, &a, &fh, NULL), 0);
    struct wire_write_in in = {.fh = fh, .size = 3};
    kernel_lay(keeper_desk(state, 1), 40, WIRE_WRITE, a.st.st_ino, &in, sizeof(in), "old", 3);
    keeper_desk(state, 1)->padding = HAND_DONE; /* it was in the stage when that life ended */
    kernel_adopt(k, s, state);
    cr_assert_eq(kernel_take(k), 0);
    struct wire_write_out out;
    memcpy(&out, k->body, sizeof(out));
    cr_assert_eq(out.size, 3);
    cr_assert_eq(fake_writes(s), 0);
    kernel_stop(k);
    kernel_state_free(state);
    fake_free(s);
    free(k);
}

/* The same where the kernel sends it again: by its number. */
Test(lives, bytes_that_are_written_and_sent_again_are_not_written_again)
{
    struct kernel *k = calloc(1, sizeof(*k));
    struct stage *s = fake_stage();
    struct keeper_state *state = kernel_state(true);
    struct stage_call c = {.wait = true};
    struct stage_attr a;
    uint64_t fh;

    cr_assert_eq(stage_create(s, &c, 1, "f", 0644, O_CREAT | O_RDWR, &a, &fh, NULL), 0);
    struct wire_write_in in = {.fh = fh, .size = 3};
    kernel_lay(keeper_desk(state, 1), 40, WIRE_WRITE, a.st.st_ino, &in, sizeof(in), "one", 3);
    keeper_desk(state, 1)->padding = HAND_DONE;
    kernel_lay(&keeper_slot(state, 7)->request, 42, WIRE_WRITE, a.st.st_ino, &in, sizeof(in), "two",
               3);
    kernel_adopt(k, s, state);
    cr_assert_eq(kernel_take(k), WIRE_NOTIFY_RESEND);
    for (uint64_t unique = 40; unique <= 42; unique += 2) {
        k->unique = (unique | WIRE_RESENT) - 2;
        cr_assert_eq(kernel_ask(k, WIRE_WRITE, a.st.st_ino, &in, sizeof(in),
                                unique == 40 ? "one" : "two", 3),
                     0);
        struct wire_write_out out;
        memcpy(&out, k->body, sizeof(out));
        cr_assert_eq(out.size, 3);
    }
    cr_assert_eq(fake_writes(s), 1, "the one that was not done");
    kernel_stop(k);
    kernel_state_free(state);
    fake_free(s);
    free(k);
}

Test(lives, a_life_that_refuses_answers_eio)
{
    struct kernel *k = calloc(1, sizeof(*k));
    struct keeper_state *state = kernel_state(true);
    const struct wire_read_in in = {.size = 4096};
    const struct wire_forget_in forget = {.lookups = 1};

    kernel_adopt(k, NULL, state);
    cr_assert_eq(kernel_take(k), WIRE_NOTIFY_RESEND);
    cr_assert_eq(kernel_ask_name(k, WIRE_LOOKUP, 1, NULL, 0, "x"), -EIO);
    kernel_send(k, WIRE_FORGET, 5, &forget, sizeof(forget), NULL, 0);
    cr_assert_eq(kernel_ask(k, WIRE_READ, 5, &in, sizeof(in), NULL, 0), -EIO);
    kernel_stop(k);
    kernel_state_free(state);
    free(k);
}

Test(lives, a_state_of_another_kind_of_mount)
{
    struct keeper_state *state = kernel_state(true);
    struct err err = {0};
    struct outfuse *f;
    struct outfuse_conf conf = {
        .mountpoint = "/nowhere", .source = "x", .dev = open("/dev/null", O_RDWR), .state = state};

    state->n_desks = 4;
    cr_assert_eq(outfuse_mount(&f, NULL, &conf, &err), -1);
    cr_assert_str_eq(err.msg, "the state left by another life is not of a mount that can be "
                              "written");
    state->n_desks = OUTFUSE_DESKS;
    kernel_state_free(state);
}

/* What was negotiated is not known, or the state is none: the next life may do better. */
Test(lives, a_mount_that_is_not_taken_over_stays)
{
    struct keeper_state *state = kernel_state(true);
    struct mount_row row;
    struct err err = {0};
    struct outfuse *f;
    char folder[] = "/tmp/sampan-unit-outfuse.XXXXXX";
    struct mount_conf how = {.mountpoint = folder, .source = "x", .writable = true};
    int dev;

    if (geteuid() != 0 || access("/dev/fuse", R_OK | W_OK) < 0)
        cr_skip_test("needs root and /dev/fuse");
    cr_assert(mkdtemp(folder) && mount_fuse(&how, &dev, &err) == 0, "%s", err.msg);
    struct outfuse_conf conf = {
        .mountpoint = folder, .source = "x", .dev = dup(dev), .state = state};
    state->n_desks = 4;
    cr_expect_eq(outfuse_mount(&f, NULL, &conf, &err), -1);
    cr_expect_eq(mount_find(folder, &row, NULL), 0, "unmounted by one that found no state");
    state->n_desks = OUTFUSE_DESKS;
    conf.dev = dup(dev);
    state->init_len = 0;
    cr_assert_eq(outfuse_mount(&f, NULL, &conf, &err), 0, "%s", err.msg);
    cr_expect_eq(outfuse_start(f, &err), -1);
    cr_expect(strstr(err.msg, "holds no INIT"), "%s", err.msg);
    outfuse_free(f);
    cr_expect_eq(mount_find(folder, &row, NULL), 0, "unmounted by one that knew no INIT");
    umount2(folder, MNT_DETACH);
    rmdir(folder);
    close(dev);
    kernel_state_free(state);
}
