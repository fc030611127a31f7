/* Runs the tests of one program one after the other, each in a child process. */
#include <criterion/criterion.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_FAILED  77
#define EXIT_SKIPPED 78
#define TIMEOUT_S    900
#define SUITES_MAX   64

static struct plain_test *tests;
static int failures; /* of the test that runs in this process */

static struct {
    const char *name;
    const struct plain_extra *extra;
} suites[SUITES_MAX];
static size_t n_suites;

void plain_register(struct plain_test *t)
{
    t->next = tests;
    tests = t;
}

void plain_register_suite(const char *name, const struct plain_extra *extra)
{
    if (n_suites == SUITES_MAX)
        abort();
    suites[n_suites].name = name;
    suites[n_suites++].extra = extra;
}

void plain_failed(bool fatal, const char *file, int line, const char *what, const char *fmt, ...)
{
    fprintf(stderr, "%s:%d: %s", file, line, what);
    if (*fmt) {
        fputs(": ", stderr);
        va_list ap;
        va_start(ap, fmt);
        vfprintf(stderr, fmt, ap);
        va_end(ap);
    }
    fputc('\n', stderr);
    failures++;
    if (fatal)
        _exit(EXIT_FAILED);
}

void plain_skip(void)
{
    _exit(EXIT_SKIPPED);
}

static const struct plain_extra *suite_of(const struct plain_test *t)
{
    static const struct plain_extra none;
    for (size_t i = 0; i < n_suites; i++)
        if (strcmp(suites[i].name, t->suite) == 0)
            return suites[i].extra;
    return &none;
}

static void run_in_child(const struct plain_test *t)
{
    const struct plain_extra *suite = suite_of(t);
    alarm(TIMEOUT_S);
    if (suite->init)
        suite->init();
    if (t->extra->init)
        t->extra->init();
    t->run();
    if (t->extra->fini)
        t->extra->fini();
    if (suite->fini)
        suite->fini();
    exit(failures ? EXIT_FAILED : 0); /* through the sanitizer's own exit code */
}

enum verdict { PASSED, FAILED, SKIPPED };

static enum verdict run(const struct plain_test *t)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        run_in_child(t);
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return FAILED;
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED)
        return SKIPPED;
    if (t->extra->signal)
        return WIFSIGNALED(status) && WTERMSIG(status) == t->extra->signal ? PASSED : FAILED;
    return WIFEXITED(status) && WEXITSTATUS(status) == t->extra->exit_code ? PASSED : FAILED;
}

/* Arguments of Criterion's runner are accepted and ignored, but for --filter PATTERN. */
int main(int argc, char **argv)
{
    static const struct option options[] = {{"filter", required_argument, NULL, 'f'}, {0}};
    const char *filter = "*";
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, "j:", options, NULL)) != -1;)
        if (c == 'f')
            filter = optarg;
    unsigned n[3] = {0};
    for (const struct plain_test *t = tests; t; t = t->next) {
        char name[200];
        snprintf(name, sizeof name, "%s/%s", t->suite, t->name);
        if (fnmatch(filter, name, 0) || t->extra->disabled || suite_of(t)->disabled)
            continue;
        enum verdict v = run(t);
        n[v]++;
        if (v == FAILED)
            fprintf(stderr, "[FAIL] %s\n", name);
    }
    printf("[====] Synthesis: Tested: %u | Passing: %u | Failing: %u | Crashing: 0 \n",
           n[PASSED] + n[FAILED], n[PASSED], n[FAILED]);
    return n[FAILED] ? 1 : 0;
}
