/* What the kernel asks a second time after a long wait in vain. */
#include <criterion/criterion.h>
#include <errno.h>

#include "again.h"

#define S NS_PER_S

static const struct failed_read one = {
    .ino = 7, .off = 1 << 20, .size = 1 << 20, .pid = 42, .error = EIO};

static struct again *after(uint64_t waited_ns)
{
    static struct again a;
    a = (struct again){0};
    again_init(&a);
    again_note(&a, &one, 100 * S, 100 * S + waited_ns);
    return &a;
}

Test(again, one_question_of_the_same_thread_is_answered_as_before)
{
    struct again *a = after(60 * S);
    cr_expect_eq(again_error(a, 42, 7, (1 << 20) + 4096, 160 * S), EIO);
    cr_expect_eq(again_error(a, 42, 7, (1 << 20) + 4096, 160 * S), 0, "told once");
}

Test(again, all_other_questions_are_asked)
{
    struct again *a = after(60 * S);
    cr_expect_eq(again_error(a, 43, 7, 1 << 20, 160 * S), 0, "another thread");
    cr_expect_eq(again_error(a, 42, 8, 1 << 20, 160 * S), 0, "another sample");
    cr_expect_eq(again_error(a, 42, 7, 0, 160 * S), 0, "before it");
    cr_expect_eq(again_error(a, 42, 7, 2 << 20, 160 * S), 0, "behind it");
    cr_expect_eq(again_error(a, 42, 7, 1 << 20, 161 * S), 0, "later");
    cr_expect_eq(again_error(after(4 * S), 42, 7, 1 << 20, 104 * S), 0, "no long wait");
}

Test(again, each_of_many_has_its_answer)
{
    struct again *a = after(60 * S);
    for (uint32_t i = 0; i < AGAIN_KEPT; i++) {
        struct failed_read r = {.ino = 100 + i, .size = 4096, .pid = i, .error = (int)i + 1};
        again_note(a, &r, 0, 200 * S);
    }
    for (uint32_t i = 0; i < AGAIN_KEPT; i++)
        cr_expect_eq(again_error(a, i, 100 + i, 0, 200 * S), (int)i + 1);
}
