/* The interpreter of a copied program, and the copy itself: it runs on nothing but what lies beside
 * it. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "buf.h"
#include "clock.h"
#include "programs.h"
#include "spawn.h"

static void read_into(struct bytes *b, const char *path)
{
    char chunk[65536];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    cr_assert(fd >= 0);
    for (ssize_t n; (n = read(fd, chunk, sizeof chunk)) > 0;)
        bytes_add(b, chunk, (size_t)n);
    close(fd);
}

Test(programs, the_interpreter_is_another)
{
    struct bytes b = {0};
    struct err err = {0};
    read_into(&b, "/bin/true");
    cr_assert(elf_interpreter(&b) && elf_interpreter(&b)[0] == '/');
    size_t before = b.len;
    cr_assert(elf_set_interpreter(&b, "/some/where/else/ld.so", &err) == 0, "%s", err.msg);
    cr_assert(b.len == before + strlen("/some/where/else/ld.so") + 1);
    cr_assert_str_eq(elf_interpreter(&b), "/some/where/else/ld.so");
    bytes_release(&b);
}

Test(programs, what_is_no_program_is_refused)
{
    static const char *const rows[] = {"",
                                       "\x7f"
                                       "ELF",
                                       "#!/bin/sh\n",
                                       "\x7f"
                                       "ELF\2\1\1"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bytes b = {0};
        struct err err = {0};
        bytes_add(&b, rows[i], strlen(rows[i]));
        bytes_reserve(&b, 4096);
        cr_assert(!elf_interpreter(&b) && elf_set_interpreter(&b, "/x", &err) != 0, "row %zu", i);
        bytes_release(&b);
    }
}

/* Every prefix of a program, and headers that lie. */
Test(programs, torn_programs_are_refused)
{
    struct bytes b = {0};
    read_into(&b, "/bin/true");
    for (size_t n = 0; n < 2048; n += 8) {
        struct bytes torn = {0};
        bytes_add(&torn, b.data, n);
        const char *at = elf_interpreter(&torn);
        cr_assert(!at || (at >= torn.data && at < torn.data + torn.len));
        bytes_release(&torn);
    }
    bytes_release(&b);
}

/* A folder with `sampan` and `sampan-keeper`, which echo. */
struct source {
    char top[32], sampan[64], keeper[64];
};

static void make_source(struct source *s)
{
    struct bytes b = {0};
    snprintf(s->top, sizeof s->top, "/tmp/csi-programs-XXXXXX");
    cr_assert(mkdtemp(s->top));
    snprintf(s->sampan, sizeof s->sampan, "%s/sampan", s->top);
    snprintf(s->keeper, sizeof s->keeper, "%s/sampan-keeper", s->top);
    read_into(&b, "/bin/echo");
    const char *const to[] = {s->sampan, s->keeper};
    for (int i = 0; i < 2; i++) {
        int fd = open(to[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
        cr_assert(fd >= 0 && write(fd, b.data, b.len) == (ssize_t)b.len);
        close(fd);
    }
    bytes_release(&b);
}

static void drop_source(const struct source *s)
{
    char bin[64];
    snprintf(bin, sizeof bin, "%s/bin", s->top);
    cr_expect(unlink(s->sampan) == 0 && unlink(s->keeper) == 0);
    cr_expect(rmdir(bin) == 0 && rmdir(s->top) == 0, "no copy is left");
}

static void expect_runs(const char *copy)
{
    const char *const argv[] = {"sampan", "it", "runs", NULL};
    struct spawn s = {.program = copy,
                      .argv = argv,
                      .host_root = "",
                      .deadline_ns = clock_mono_ns() + 300 * NS_PER_S};
    struct bytes out = {0}, errors = {0};
    struct err err = {0};
    int code = -1;
    cr_assert(spawn_run(&s, &code, &out, &errors, &err) == 0, "%s", err.msg);
    cr_assert(code == 0 && strcmp(out.data, "it runs\n") == 0, "%d: %s", code, errors.data);
    bytes_release(&out);
    bytes_release(&errors);
}

Test(programs, a_copy_runs)
{
    struct source s;
    char *copy = NULL, *again = NULL;
    struct err err = {0};
    make_source(&s);
    cr_assert(programs_copy(s.sampan, s.top, &copy, &err) == 0, "%s", err.msg);
    expect_runs(copy);
    cr_assert(programs_copy(s.sampan, s.top, &again, &err) == 0 && strcmp(again, copy) == 0);
    programs_clean(s.top, copy);
    cr_assert(access(copy, X_OK) == 0);
    programs_clean(s.top, "/elsewhere");
    cr_assert(access(copy, X_OK) != 0);
    drop_source(&s);
    free(copy);
    free(again);
}

/* In the place of the library's: the process is killed when it has removed so many files. */
static int killed_after;

int unlink(const char *path)
{
    int rc = unlinkat(AT_FDCWD, path, 0);
    if (rc == 0 && killed_after > 0 && --killed_after == 0)
        _exit(9);
    return rc;
}

/* True: the cleaning was cut off. */
static bool clean_killed_after(const struct source *s, int files)
{
    int status = 0;
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        killed_after = files;
        programs_clean(s->top, "/elsewhere");
        _exit(0);
    }
    cr_assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status) == 9;
}

/* Who goes back to a version whose copy was being removed gets a whole one. */
Test(programs, what_is_left_of_a_removal_is_no_copy)
{
    struct source s;
    int files = 0;
    bool killed;
    make_source(&s);
    do {
        char *copy = NULL;
        struct err err = {0};
        cr_assert(programs_copy(s.sampan, s.top, &copy, &err) == 0, "%d: %s", files, err.msg);
        expect_runs(copy);
        free(copy);
        killed = clean_killed_after(&s, ++files);
    } while (killed);
    cr_assert_gt(files, 4, "the program, its keeper, interpreter and a library at least");
    drop_source(&s);
}

Test(spawn, a_program_that_does_not_end_is_ended)
{
    const char *const argv[] = {"sleep", "600", NULL};
    struct spawn s = {.program = "/bin/sleep",
                      .argv = argv,
                      .host_root = "",
                      .deadline_ns = clock_mono_ns() + 50 * NS_PER_MS};
    struct bytes out = {0}, errors = {0};
    struct err err = {0};
    int code = -1;
    cr_assert(spawn_run(&s, &code, &out, &errors, &err) != 0);
    cr_assert(strstr(err.msg, "did not end in time") && code == 128 + 15, "%s", err.msg);
}
