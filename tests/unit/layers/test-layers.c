/* The layers that other tests rely on. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <unistd.h>

#include "clock.h"
#include "layers.h"

static unsigned char bytes_of_all[8] = "sampans";

static int plain_read(struct source *s, const struct piece *p, struct view *ret,
                      struct source_wait *wait, struct err *err)
{
    (void)s;
    (void)p;
    (void)wait;
    (void)err;
    *ret = (struct view){.ptr = bytes_of_all, .len = 8, .origin = FROM_STORE};
    return 0;
}

static void plain_close(struct source *s)
{
    (void)s;
}

static const struct source_ops plain_ops = {
    .name = "plain", .read = plain_read, .close = plain_close};
static struct source plain = {&plain_ops, NULL};

static struct source *build(const char *spec)
{
    struct source *top = NULL;
    struct err err = {0};
    cr_assert_eq(layers_build(&top, spec, &plain, &err), 0, "%s", err.msg);
    return top;
}

static void end(struct source *top)
{
    while (top != &plain) {
        struct source *inner = top->inner;
        top->ops->close(top);
        top = inner;
    }
}

/* The class of the error of one read; ERR_NONE if it gave all 8 bytes. */
static enum err_class read_class(struct source *top, uint64_t unit)
{
    struct piece p = {.unit = unit, .len = 8};
    struct view v;
    struct source_wait w;
    struct err err = {0};
    if (source_read(top, &p, &v, &w, &err))
        return err.class;
    return v.len == 8 ? ERR_NONE : ERR_CORRUPT;
}

Test(layers, faults_come_when_they_are_due)
{
    static const struct {
        const char *spec;
        const char *calls; /* '.' right, 'x' failed */
    } rows[] = {
        {"fault=read:every:3:failed", "..x..x..x."},
        {"fault=read:first:2:failed", "xx........"},
        {"fault=read:after:7:failed", ".......xxx"},
        {"fault=read:unit:4:failed", "....x....."},
        {"fault=all:always:failed", "xxxxxxxxxx"},
        {"fault=ahead:always:failed", ".........."},
        {"fault=read:every:2:failed;fault=read:first:2:failed", "xxxx.x.x.x"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct source *top = build(rows[i].spec);
        char got[11] = {0};
        for (unsigned unit = 0; unit < 10; unit++)
            got[unit] = read_class(top, unit) == ERR_NONE ? '.' : 'x';
        cr_expect_str_eq(got, rows[i].calls, "%s: %s", rows[i].spec, got);
        end(top);
    }
}

Test(layers, classes_and_short_reads)
{
    struct source *top = build("fault=read:always:stale");
    cr_expect_eq(read_class(top, 1), ERR_STALE);
    end(top);
    top = build("fault=read:always:short");
    cr_expect_eq(read_class(top, 1), ERR_CORRUPT);
    end(top);
}

Test(layers, counts)
{
    struct layer_counts n;
    struct source *top = build("count=above;fault=read:first:1:failed;count=below");
    for (unsigned i = 0; i < 5; i++)
        read_class(top, i);
    cr_assert_eq(layers_count("above", &n), 0);
    cr_expect(n.reads == 5 && n.errors == 1 && n.bytes == 32 && n.in_flight == 0);
    cr_assert_eq(layers_count("below", &n), 0);
    cr_expect(n.reads == 4 && n.errors == 0);
    end(top);
    cr_expect_eq(layers_count("above", &n), -1);
}

Test(layers, bad_specs_are_named)
{
    static const char *const specs[] = {"nothing",
                                        "fault=read:every:0:failed",
                                        "fault=write:always:failed",
                                        "fault=read:always:sadly",
                                        "fault=read:every:x:failed",
                                        "delay=read:soon",
                                        "delay=read:5:101",
                                        "count="};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct source *top;
        struct err err = {0};
        cr_expect_eq(layers_build(&top, specs[i], &plain, &err), -1, "%s", specs[i]);
        cr_expect_eq(err.class, ERR_USAGE, "%s: %s", specs[i], err.msg);
    }
}
