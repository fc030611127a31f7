/* Whole pieces of files. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file.h"

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
