/* The helper's master, where no helper can be had. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helper.h"

/* All but `left` of the descriptors that this process may have. */
static void use_up_descriptors(int left)
{
    const struct rlimit few = {64, 64};
    int last = -1;

    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;)
        last = fd;
    for (; left > 0; left--)
        close(last--);
}

/* The channel's two ends are the last ones: none is left to be passed on. */
Test(helper, without_descriptors_for_it_the_caller_tells_the_kernel_itself)
{
    char word[] = "told", got[sizeof(word)] = "";
    const struct iovec iov = {.iov_base = word, .iov_len = sizeof(word)};
    struct helper h;
    int device[2];

    helper_init(&h, "/bin/true", NULL, NULL);
    cr_assert_eq(pipe2(device, O_CLOEXEC | O_NONBLOCK), 0);
    h.device = device[1];
    use_up_descriptors(2);
    cr_expect_eq(helper_notify(&h, &iov, 1), (ssize_t)sizeof(word));
    cr_expect_eq(read(device[0], got, sizeof(got)), (ssize_t)sizeof(got), "nobody told it");
    cr_expect_str_eq(got, word);
    helper_stop(&h);
    close(device[0]);
    close(device[1]);
}

static void count(void *arg, int outcome)
{
    cr_expect_eq(outcome, 0, "there are no such files");
    ++*(unsigned *)arg;
}

/* One that takes two messages and ends without a word: what was asked of it, and what waited for
 * its place, is told of as files that are not there. */
Test(helper, all_files_are_told_of_where_it_ends_and_no_other_starts)
{
    static const char script[] = "#!/bin/sh\nexec dd bs=65536 count=2 <&3 >/dev/null 2>&1\n";
    char program[] = "/tmp/sampan-helper-XXXXXX";
    const struct helper_file none = {.ino = 1};
    struct helper h;
    unsigned told = 0;
    int fd = mkstemp(program);

    cr_assert_eq(write(fd, script, sizeof(script) - 1), (ssize_t)sizeof(script) - 1);
    cr_assert(fchmod(fd, 0700) == 0 && close(fd) == 0);
    helper_init(&h, program, count, &told);
    h.device = open("/dev/null", O_RDWR | O_CLOEXEC);
    helper_file(&h, &none, "/none");
    free((char *)h.program);
    h.program = strdup("/none");
    for (int i = 1; i < (HELPER_DEPTH + 1) * HELPER_BATCH; i++)
        helper_file(&h, &none, "/none");
    helper_settle(&h);
    cr_expect_eq(told, (HELPER_DEPTH + 1) * HELPER_BATCH, "of %u", told);
    helper_stop(&h);
    close(h.device);
    unlink(program);
}
