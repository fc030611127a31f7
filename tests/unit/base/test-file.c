/* Whole pieces of files. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "file.h"
#include "mem.h"

Test(file, what_was_written_is_read_up_to_the_end)
{
    char back[16] = "";
    int fd = memfd_create("file", MFD_CLOEXEC);
    cr_assert_eq(file_write(fd, "hello", 5, 3), 0);
    cr_assert_eq(file_read(fd, back, 8, 0), 8);
    cr_assert_eq(memcmp(back, "\0\0\0hello", 8), 0);
    cr_assert_eq(file_read(fd, back, sizeof back, 6), 2, "fewer at the end");
    cr_assert_eq(memcmp(back, "lo", 2), 0);
    cr_assert_eq(file_read(fd, back, sizeof back, 8), 0);
    cr_assert_eq(file_read(fd, back, 0, 0), 0);
    cr_assert_eq(file_write(fd, "", 0, 100), 0);
    close(fd);
}

Test(file, errors_keep_their_number)
{
    char byte = 0;
    int pipes[2];
    cr_assert_eq(pipe(pipes), 0);
    cr_assert_eq(file_read(pipes[0], &byte, 1, 0), -1);
    cr_assert_eq(errno, ESPIPE);
    cr_assert_eq(file_write(pipes[1], &byte, 1, 0), -1);
    cr_assert_eq(errno, ESPIPE);
    close(pipes[0]);
    close(pipes[1]);
}

Test(file, a_lock_is_waited_for_no_longer_than_asked)
{
    char path[] = "/tmp/sampan-lock-XXXXXX";
    cleanup_close int one = mkostemp(path, O_CLOEXEC);
    cleanup_close int two = open(path, O_RDONLY | O_CLOEXEC);
    cr_assert(one >= 0 && two >= 0);
    unlink(path);
    cr_assert_eq(file_lock(one, 0), 0);
    cr_expect_eq(file_lock(two, 50 * NS_PER_MS), -1);
    cr_expect_eq(errno, EWOULDBLOCK);
    cr_assert_eq(flock(one, LOCK_UN), 0);
    cr_expect_eq(file_lock(two, 0), 0);
    cr_expect_eq(file_lock(-1, 10 * NS_PER_S), -1);
    cr_expect_eq(errno, EBADF, "no reason to wait");
}
