/* What long-running programs have in common. */
#include "program.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "buf.h"

void program_keep_standard(void)
{
    /* Opened the wrong way round: to print, or to read, fails as it did. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            abort();
}

void program_keep_secrets(void)
{
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
#ifndef __SANITIZE_ADDRESS__ /* its search for leaks traces the process */
    prctl(PR_SET_DUMPABLE, 0);
#endif
}

void program_raise_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files))
        return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

void program_hold_signals(sigset_t *ret)
{
    sigemptyset(ret);
    sigaddset(ret, SIGTERM);
    sigaddset(ret, SIGINT);
    sigaddset(ret, SIGHUP);
    pthread_sigmask(SIG_BLOCK, ret, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int program_log_open(struct log **ret, const struct program_log *o, struct err *err)
{
    enum log_format format = strcmp(o->format, "json") == 0 ? LOG_JSON : LOG_TEXT;
    *ret = log_new(stderr, LOG_INFO, format, NULL);
    if (log_set_levels(*ret, o->level))
        return err_set(err, ERR_USAGE, "--log-level: %s: no level (error, warn, info or debug)",
                       o->level);
    return 0;
}

static int print_help(const struct program_about *about, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    conf_help(about->rows, about->n_rows, &text);
    printf("%s: %s\n\nusage: %s [OPTIONS]\n       %s --version\n\n%s", about->name, about->summary,
           about->name, about->name, text.data);
    return fflush(stdout) ? err_set(err, ERR_FAILED, "print help") : 1;
}

bool program_version(const char *name, int argc, char *const *argv)
{
    if (argc != 2 || (strcmp(argv[1], "--version") != 0 && strcmp(argv[1], "-V") != 0))
        return false;
    printf("%s %s\n", name, SAMPAN_VERSION);
    return true;
}

int program_options(struct conf **ret, const struct program_about *about, void *options, int argc,
                    char *const *argv, struct err *err)
{
    if (program_version(about->name, argc, argv))
        return fflush(stdout) ? err_set(err, ERR_FAILED, "print the version") : 1;
    if (conf_parse(ret, about->rows, about->n_rows, options, argc, argv, err))
        return -1;
    if (conf_help_asked(*ret))
        return print_help(about, err);
    if (conf_n_args(*ret))
        return err_set(err, ERR_USAGE, "%s: no such argument", conf_arg(*ret, 0));
    return 0;
}

int program_end(const struct program_about *about, int result, const struct err *err)
{
    if (result >= 0)
        return 0;
    fprintf(stderr, "%s: %s\n", about->name, err->msg);
    return err_exit_code(err);
}
