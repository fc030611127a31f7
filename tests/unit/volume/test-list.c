/* List files, gates and spilled arrays. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <unistd.h>

#include "volume-internal.h"

Test(list, lines_become_paths)
{
    static const struct {
        const char *text, *root, *want;
    } rows[] = {
        {"a/1.jpg\na/2.jpg\n", "", "a/1.jpg\na/2.jpg\n"},
        {"a/1.jpg 0\na/2.jpg 17", "", "a/1.jpg\na/2.jpg\n"},
        {"a b.jpg\t5\r\n", "", "a b.jpg\n"},
        {"a b.jpg\r\n\r\n\nc\n", "x", "x/a b.jpg\n\n\nx/c\n"},
        {"\xef\xbb\xbf"
         "a 1\r\n",
         "", "a\n"},
        {"a 1/b.jpg 3\n", "", "a 1/b.jpg\n"},
        {"./x.jpg   12\n", "", "x.jpg\n"},
        {"x.jpg 1\n", "train", "train/x.jpg\n"},
        {"x.jpg 1\n", "/train/", "train/x.jpg\n"},
        {"", "train", ""},
        {"12\n", "", "12\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cleanup_bytes struct bytes out = {0};
        list_clean(rows[i].text, strlen(rows[i].text), rows[i].root, &out);
        cr_expect_str_eq(out.data ? out.data : "", rows[i].want, "row %zu: %s", i,
                         out.data ? out.data : "");
    }
}

Test(spill, is_zero_writable_and_leaves_no_file)
{
    struct spill s;
    struct err err = {0};
    cr_assert_eq(spill_new(&s, "/tmp", 1 << 20, &err), 0, "%s", err.msg);
    unsigned char *data = s.data;
    for (size_t i = 0; i < 1 << 20; i += 4096)
        cr_assert_eq(data[i], 0);
    data[(1 << 20) - 1] = 7;
    spill_free(&s);
    cr_assert_null(s.data);
    cr_assert_eq(spill_new(&s, "/tmp", 0, &err), 0);
    spill_free(&s);
}

Test(spill, a_small_one_needs_no_file)
{
    struct spill s;
    struct err err = {0};
    cr_assert_eq(spill_new(&s, "/nonexistent", 4096, &err), 0, "%s", err.msg);
    unsigned char *data = s.data;
    cr_assert_eq(data[4095], 0);
    data[4095] = 7;
    spill_free(&s);
}

Test(spill, says_where_there_is_no_room)
{
    struct spill s;
    struct err err = {0};
    cr_assert_eq(spill_new(&s, "/nonexistent", 1 << 20, &err), -1);
    cr_assert_not_null(strstr(err.msg, "/nonexistent"), "%s", err.msg);
    err_clear(&err);
    cr_assert_eq(spill_new(&s, "/tmp", (size_t)1 << 55, &err), -1);
    cr_assert_not_null(strstr(err.msg, "no room"), "%s", err.msg);
}

static struct gate gate;

static void *leave_later(void *arg)
{
    usleep(20000);
    gate_leave(&gate);
    return arg;
}

Test(gate, close_waits_and_then_lets_nobody_in)
{
    gate_init(&gate);
    cr_assert(gate_enter(&gate));
    cr_assert(gate_enter(&gate));
    gate_leave(&gate);
    pthread_t t;
    pthread_create(&t, NULL, leave_later, NULL);
    gate_close(&gate);
    cr_assert_eq(atomic_load(&gate.inside), 0);
    cr_assert_not(gate_enter(&gate));
    pthread_join(t, NULL);
    gate_destroy(&gate);
}
