#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "secret-file.h"

static int read_text(const char *text, size_t len, struct secret *ret, struct err *err)
{
    char path[] = "/tmp/sampan-secret-XXXXXX";
    int fd = mkstemp(path);

    cr_assert_eq(write(fd, text, len), (ssize_t)len);
    close(fd);
    int rc = secret_read(ret, path, err);
    unlink(path);
    return rc;
}

Test(secret_file, what_an_editor_adds_is_no_part_of_it)
{
    struct secret s = {0};
    struct err err = {0};

    cr_assert_eq(read_text("hush hush \t\r\n\n", 13, &s, &err), 0, "%s", err.msg);
    cr_expect_str_eq(s.text, "hush hush");
    cr_expect_eq(s.len, strlen("hush hush"));
    secret_release(&s);
}

Test(secret_file, one_that_is_too_long_is_refused_not_cut)
{
    char text[SECRET_FILE_MAX + 1];
    struct secret s = {0};
    struct err err = {0};

    memset(text, 'x', sizeof text);
    cr_expect_eq(read_text(text, SECRET_FILE_MAX, &s, &err), 0);
    cr_expect_eq(s.len, SECRET_FILE_MAX);
    secret_release(&s);
    cr_expect_eq(read_text(text, sizeof text, &s, &err), -1);
    cr_expect_eq(err.class, ERR_USAGE);
    cr_expect_null(s.text);
    cr_expect_null(strstr(err.msg, "xxx"));
}

Test(secret_file, one_that_is_not_there_is_named)
{
    struct secret s = {0};
    struct err err = {0};

    cr_expect_eq(secret_read(&s, "/nowhere/token", &err), -1);
    cr_expect_not_null(strstr(err.msg, "/nowhere/token"));
}
