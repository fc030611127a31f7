/* The state: what is refused, and what a kill between two stores leaves. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cleanup.h"
#include "keeper.h"

static struct keeper_state *new_state(int *ret_fd)
{
    struct keeper_state *s = NULL;
    struct err err = {0};
    cr_assert_eq(keeper_state_make(4, 10000, ret_fd, &err), 0, "%s", err.msg);
    cr_assert_eq(keeper_state_map(*ret_fd, &s, &err), 0, "%s", err.msg);
    return s;
}

static void foreign(struct keeper_state *s)
{
    memcpy(s->magic, "another", 8);
}
static void half_written(struct keeper_state *s)
{
    memset(s->magic, 0, sizeof s->magic);
}
static void other_layout(struct keeper_state *s)
{
    s->layout++;
}
static void no_desks(struct keeper_state *s)
{
    s->n_desks = 0;
}
static void many_desks(struct keeper_state *s)
{
    s->n_desks = 5;
}
static void huge_desks(struct keeper_state *s)
{
    s->desk_bytes = UINT64_MAX / 4 / KEEPER_PAGE * KEEPER_PAGE;
}
static void moved_slots(struct keeper_state *s)
{
    s->slots += 8;
}
static void moved_tail(struct keeper_state *s)
{
    s->tail = 0;
}
static void long_init(struct keeper_state *s)
{
    s->init_len = KEEPER_INIT_MAX + 1;
}

Test(state, check_believes_nothing)
{
    static const struct {
        void (*spoil)(struct keeper_state *s);
        const char *why;
    } rows[] = {
        {foreign, "not a keeper's state, or half-written"},
        {half_written, "not a keeper's state, or half-written"},
        {other_layout, "a keeper's state of another version"},
        {no_desks, "a keeper's state whose sizes contradict each other"},
        {many_desks, "a keeper's state whose sizes contradict each other"},
        {huge_desks, "a keeper's state whose sizes contradict each other"},
        {moved_slots, "a keeper's state whose sizes contradict each other"},
        {moved_tail, "a keeper's state whose sizes contradict each other"},
        {long_init, "a keeper's state whose sizes contradict each other"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int fd;
        struct keeper_state *s = new_state(&fd), *again;
        uint64_t bytes = s->bytes;
        struct err err = {0};
        cr_expect_null(keeper_state_check(s, bytes));
        cr_expect_not_null(keeper_state_check(s, bytes - 1));
        cr_expect_not_null(keeper_state_check(s, 100));
        rows[i].spoil(s);
        cr_expect_str_eq(keeper_state_check(s, bytes), rows[i].why, "row %zu", i);
        cr_expect_eq(keeper_state_map(fd, &again, &err), -1, "row %zu", i);
        munmap(s, bytes);
        close(fd);
    }
}

Test(state, only_a_sealed_memfd_is_mapped)
{
    cleanup_close int plain = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct keeper_state *s;
    struct err err = {0};
    cr_expect_eq(keeper_state_map(plain, &s, &err), -1);
    cr_expect_str_eq(err.msg, "take over the mount: the state is not a sealed memfd");
    int fd;
    s = new_state(&fd);
    cr_expect_eq(ftruncate(fd, 0), -1, "nobody can shrink it");
    keeper_state_unmap(s);
    close(fd);
}

Test(state, is_sparse)
{
    int fd;
    struct keeper_state *s = new_state(&fd);
    keeper_text_set(keeper_text(s, "long", 16 << 20), "short", NULL);
    FILE *f = fopen("/proc/self/status", "r");
    char line[128];
    unsigned long kb = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "RssShmem: %lu", &kb) == 1)
            break;
    fclose(f);
    cr_expect_lt(kb, 200);
    keeper_state_unmap(s);
    close(fd);
}

/* --- areas ------------------------------------------------------------------------------------ */

Test(area, stays_where_it_was_and_keeps_its_bytes)
{
    int fd;
    struct err err = {0};
    struct keeper_state *s = new_state(&fd), *next = NULL;
    char *a = keeper_area(s, "a", 1, 1000), *b = keeper_area(s, "b", 1, 1000);
    cr_assert(a && b && a != b);
    for (int i = 0; i < 1000; i++)
        cr_expect_eq(a[i], 0);
    memset(a, 'a', 1000);
    memset(b, 'b', 1000);
    cr_assert_eq(keeper_state_map(fd, &next, &err), 0, "%s", err.msg); /* the next life's view */
    const char *a2 = keeper_area(next, "a", 1, 1000), *b2 = keeper_area(next, "b", 1, 1000);
    cr_expect_arr_eq(a2, a, 1000);
    cr_expect_arr_eq(b2, b, 1000);
    keeper_state_unmap(next);
    keeper_state_unmap(s);
    close(fd);
}

Test(area, of_another_version_or_size_is_zeroed)
{
    int fd;
    struct keeper_state *s = new_state(&fd);
    static const struct {
        uint32_t version;
        size_t bytes;
    } rows[] = {{2, 100}, {2, 50}, {2, 5000}, {3, 5000}};
    memset(keeper_area(s, "x", 1, 100), 'x', 100);
    char *neighbour = keeper_area(s, "y", 1, 100);
    memset(neighbour, 'y', 100);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *p = keeper_area(s, "x", rows[i].version, rows[i].bytes);
        for (size_t k = 0; k < rows[i].bytes; k++)
            cr_assert_eq(p[k], 0, "row %zu byte %zu", i, k);
        memset(p, 'x', rows[i].bytes);
        cr_expect_eq(keeper_area(s, "x", rows[i].version, rows[i].bytes), p);
    }
    for (int k = 0; k < 100; k++)
        cr_expect_eq(neighbour[k], 'y');
    keeper_state_unmap(s);
    close(fd);
}

Test(area, a_full_tail_and_scribbled_entries_are_refused)
{
    int fd;
    struct keeper_state *s = new_state(&fd);
    cr_expect_null(keeper_area(s, "too much", 1, KEEPER_TAIL_BYTES + 1));
    cr_expect_not_null(keeper_area(s, "most", 1, KEEPER_TAIL_BYTES - 4096));
    cr_expect_null(keeper_area(s, "rest", 1, 8192));
    cr_expect_null(keeper_area(s, "", 1, 8));
    cr_expect_null(keeper_area(s, "a name that is much too long", 1, 8));
    s->areas[0].offset = s->bytes; /* "most", by a life that ran wild */
    cr_expect_null(keeper_area(s, "most", 1, KEEPER_TAIL_BYTES - 4096));
    s->areas[0].offset = UINT64_MAX - 63;
    cr_expect_null(keeper_area(s, "most", 1, KEEPER_TAIL_BYTES - 4096));
    char *p = keeper_area(s, "most", 1, 64);
    cr_assert_not_null(p, "a new place for it");
    cr_expect(p >= (char *)s + s->tail && p + 64 <= (char *)s + s->bytes);
    keeper_state_unmap(s);
    close(fd);
}

Test(area, without_a_keeper_is_plain_memory)
{
    char *p = keeper_area(NULL, "x", 1, 100000);
    cr_assert_not_null(p);
    p[99999] = 'x';
    struct keeper_text *t = keeper_text(NULL, "t", 10);
    cr_expect_str_eq(keeper_text_get(t), "");
    cr_expect_eq(keeper_text_set(t, "0123456789", NULL), 0);
    cr_expect_str_eq(keeper_text_get(t), "0123456789");
    cr_expect_str_eq(keeper_text_get(NULL), "");
}

/* --- texts ------------------------------------------------------------------------------------ */

Test(text, changes_as_a_whole)
{
    int fd;
    struct err err = {0};
    struct keeper_state *s = new_state(&fd);
    struct keeper_text *t = keeper_text(s, "t", 20);
    cr_expect_str_eq(keeper_text_get(t), "");
    static const char *const texts[] = {"one", "two two", "", "01234567890123456789"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        cr_expect_eq(keeper_text_set(t, texts[i], &err), 0);
        cr_expect_str_eq(keeper_text_get(t), texts[i]);
        cr_expect_str_eq(keeper_text_get(keeper_text(s, "t", 20)), texts[i], "the next life");
    }
    cr_expect_eq(keeper_text_set(t, "012345678901234567890", &err), -1);
    cr_expect_eq(err.class, ERR_LIMIT);
    cr_expect_str_eq(keeper_text_get(t), "01234567890123456789");
    keeper_state_unmap(s);
    close(fd);
}

/* The two halves lie behind one another, `flip` before them: a writer that is killed in the middle
 * has changed only the half that does not count. */
Test(text, a_kill_between_the_halves_leaves_the_old_one)
{
    int fd;
    struct keeper_state *s = new_state(&fd);
    struct keeper_text *t = keeper_text(s, "t", 15);
    keeper_text_set(t, "old old", NULL);
    char *halves = (char *)t + 8;
    size_t counts = (size_t)(keeper_text_get(t) - halves);
    char *other = halves + (counts ? 0 : 16);
    for (size_t n = 0; n <= 15; n++) { /* killed after n bytes */
        memset(other, 'n', n);
        cr_expect_str_eq(keeper_text_get(t), "old old");
        cr_expect_str_eq(keeper_text_get(keeper_text(s, "t", 15)), "old old");
    }
    keeper_text_set(t, "new", NULL);
    cr_expect_str_eq(keeper_text_get(t), "new");
    *(uint32_t *)(void *)t = 77; /* scribbled over */
    cr_expect_str_eq(keeper_text_get(t), "");
    keeper_state_unmap(s);
    close(fd);
}
