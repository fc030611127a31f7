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
    e.mtime_ns = CATALOG_NO_MTIME;
    attr_of_entry(&f, &e, &st);
    cr_assert_eq(st.st_mtim.tv_sec, 0);
    cr_assert_eq(st.st_mtim.tv_nsec, 0);
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
