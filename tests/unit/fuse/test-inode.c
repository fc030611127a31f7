#include <criterion/criterion.h>
#include <string.h>

#include "clock.h"
#include "frontend-internal.h"

static struct frontend f = {.conf = {.uid = 7, .gid = 8}};

Test(inode, our_numbers_lie_above_all_ids)
{
    cr_assert(!ino_is_ours(CATALOG_ROOT_ID));
    cr_assert(!ino_is_ours((1ull << 62) - 1));
    cr_assert(ino_is_ours(INO_CONTROL_DIR));
    cr_assert(!ino_is_snapshot(INO_CONTROL_DIR));
    cr_assert(ino_is_snapshot(INO_SNAPSHOTS));
}

Test(inode, directory_offsets_go_around_the_dots)
{
    cr_assert_eq(dir_cookie(0), 0);
    cr_assert_eq(dir_cookie(1), 0);
    cr_assert_eq(dir_cookie(2), 0);
    for (uint64_t cookie = 1; cookie < 5; cookie++)
        cr_assert_eq(dir_cookie(dir_offset(cookie)), cookie);
    cr_assert_eq(dir_offset(1), 3);
}

Test(inode, attributes_of_a_sample)
{
    struct entry e = {.id = 42, .size = 112640, .mtime_ns = 1500000000250000000};
    struct stat st;

    attr_of_entry(&f, &e, &st);
    cr_assert_eq(st.st_ino, 42);
    cr_assert_eq(st.st_mode, S_IFREG | 0444);
    cr_assert_eq(st.st_size, 112640);
    cr_assert_eq(st.st_blocks, 220);
    cr_assert_eq(st.st_nlink, 1);
    cr_assert_eq(st.st_uid, 7);
    cr_assert_eq(st.st_gid, 8);
    cr_assert_eq(st.st_mtim.tv_sec, 1500000000);
    cr_assert_eq(st.st_mtim.tv_nsec, 250000000);
}

Test(inode, attributes_of_a_folder_and_of_old_times)
{
    struct entry e = {.id = 2, .folder = true, .mtime_ns = -1};
    struct stat st;

    attr_of_entry(&f, &e, &st);
    cr_assert_eq(st.st_mode, S_IFDIR | 0555);
    cr_assert_eq(st.st_mtim.tv_sec, -1);
    cr_assert_eq(st.st_mtim.tv_nsec, 999999999);
}

Test(inode, a_size_of_one_byte_takes_a_block)
{
    struct entry e = {.id = 2, .size = 1};
    struct stat st;

    attr_of_entry(&f, &e, &st);
    cr_assert_eq(st.st_blocks, 1);
    e.size = 0;
    attr_of_entry(&f, &e, &st);
    cr_assert_eq(st.st_blocks, 0);
}

Test(snapshots, each_keeps_its_text)
{
    struct snapshots *s = calloc(1, sizeof(*s));
    struct snapshot about;
    char buf[8] = "";

    snapshots_init(s);
    uint64_t a = snapshots_add(s, strdup("first"), 5, 1);
    uint64_t b = snapshots_add(s, strdup("second"), 6, 1);
    cr_assert_neq(a, b);
    cr_assert_eq(snapshots_read(s, a, 0, buf, 8, &about), 5);
    cr_assert_eq(memcmp(buf, "first", 5), 0);
    cr_assert_eq(about.len, 5);
    cr_assert_eq(about.ino, a);
    cr_assert_eq(snapshots_read(s, b, 4, buf, 8, NULL), 2);
    cr_assert_eq(memcmp(buf, "nd", 2), 0);
    cr_assert_eq(snapshots_read(s, b, 6, buf, 8, NULL), 0);
    cr_assert_eq(snapshots_read(s, b, UINT64_MAX, buf, 8, NULL), 0);
    snapshots_forget(s, a, 1);
    cr_assert_eq(snapshots_read(s, a, 0, buf, 8, NULL), -1);
    snapshots_destroy(s);
    free(s);
}

Test(snapshots, the_table_is_bounded)
{
    struct snapshots *s = calloc(1, sizeof(*s));
    char buf[1];

    snapshots_init(s);
    uint64_t first = snapshots_add(s, strdup("x"), 1, 1);
    for (int i = 0; i < SNAPSHOTS_MAX - 1; i++)
        snapshots_add(s, strdup("y"), 1, 1);
    cr_assert_eq(snapshots_read(s, first, 0, buf, 1, NULL), 1);
    uint64_t last = snapshots_add(s, strdup("z"), 1, 1);
    cr_assert_eq(snapshots_read(s, first, 0, buf, 1, NULL), -1);
    /* Forgetting what is gone touches nobody else. */
    snapshots_forget(s, first, 1);
    cr_assert_eq(snapshots_read(s, last, 0, buf, 1, NULL), 1);
    cr_assert_eq(buf[0], 'z');
    snapshots_destroy(s);
    free(s);
}

Test(snapshots, a_held_one_outlives_any_number_of_others)
{
    struct snapshots *s = calloc(1, sizeof(*s));
    char buf[1];

    snapshots_init(s);
    uint64_t held = snapshots_add(s, strdup("h"), 1, 1);
    for (int i = 0; i < 3 * SNAPSHOTS_MAX; i++)
        snapshots_forget(s, snapshots_add(s, strdup("y"), 1, 2), 1);
    cr_assert_eq(snapshots_read(s, held, 0, buf, 1, NULL), 1);
    cr_assert_eq(buf[0], 'h');
    snapshots_destroy(s);
    free(s);
}

Test(snapshots, who_looks_twice_before_reading_gets_the_same)
{
    struct snapshots *s = calloc(1, sizeof(*s));
    char buf[1];

    snapshots_init(s);
    cr_assert_eq(snapshots_again(s, 5), 0);
    uint64_t a = snapshots_add(s, strdup("a"), 1, 5);
    cr_assert_eq(snapshots_again(s, 5), a);
    cr_assert_eq(snapshots_again(s, 6), 0);
    snapshots_forget(s, a, 1);
    cr_assert_eq(snapshots_read(s, a, 0, NULL, 0, NULL), 0); /* still looked up once */
    cr_assert_eq(snapshots_read(s, a, 0, buf, 1, NULL), 1);
    cr_assert_eq(snapshots_again(s, 5), 0); /* it was read */
    uint64_t b = snapshots_add(s, strdup("b"), 1, 5);
    clock_advance(2 * NS_PER_S);
    cr_assert_eq(snapshots_again(s, 5), 0); /* too old */
    cr_assert_neq(a, b);
    snapshots_destroy(s);
    free(s);
}
