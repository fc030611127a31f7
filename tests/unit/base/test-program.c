#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

/* What a program that ends with `err` says. Returns its exit code. */
static int ended(const struct err *err, char said[200])
{
    const struct program_about about = {.name = "sampan-x"};
    cleanup_file FILE *f = tmpfile();
    cleanup_close int own = dup(STDERR_FILENO);
    cr_assert(f && own >= 0 && dup2(fileno(f), STDERR_FILENO) == STDERR_FILENO);
    int code = program_end(&about, -1, err);
    dup2(own, STDERR_FILENO);
    rewind(f);
    said[fread(said, 1, 199, f)] = '\0';
    return code;
}

/* A name with a line end in it must not look like two errors. */
Test(program, an_error_is_one_line)
{
    char said[200];
    struct err err = {0};
    err_set(&err, ERR_NOT_FOUND, "open a\nb\x1b[31m: there is none");
    cr_expect_eq(ended(&err, said), 3);
    cr_expect_str_eq(said, "sampan-x: open a b [31m: there is none\n");
}

Test(program, what_failed_never_ends_well)
{
    char said[200];
    cr_expect_eq(ended(&(struct err){0}, said), 1);
    cr_expect_str_eq(said, "sampan-x: failed without a reason\n");
}
