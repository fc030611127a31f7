/* What long-running programs have in common. */
#define LOG_MODULE "program"
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "buf.h"
#include "mem.h"
#include "roff.h"

void program_keep_standard(void)
{
    /* Opened the wrong way round: to print, or to read, fails as it did. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            abort();
}

void program_hear_children(void)
{
    signal(SIGCHLD, SIG_DFL);
}

void program_bear_file_limit(void)
{
    signal(SIGXFSZ, SIG_IGN);
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
    struct err why = {0};
    if (log_check_modules(o->level, &why)) /* it may be meant for a program that this one starts */
        log_warn(*ret, "--log-level: %s", why.msg);
    return 0;
}

int program_printed(struct err *err)
{
    bool failed = fflush(stdout) || ferror(stdout);
    return failed ? err_sys(err, errno, "print what was asked for") : 1;
}

int program_print_help(const struct program_about *about, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    conf_help(about->rows, about->n_rows, &text);
    printf("%s: %s\n\nusage: %s [OPTIONS]%s%s\n       %s --version\n       %s --man\n\n%s",
           about->name, about->summary, about->name, about->args ? " " : "",
           about->args ? about->args : "", about->name, about->name, text.data);
    return program_printed(err);
}

static void print_man(const struct program_about *about)
{
    cleanup_bytes struct bytes text = {0};
    roff_begin(&text, about->name, about->summary);
    bytes_addf(&text, ".SH SYNOPSIS\n\\fB%s\\fR [\\fIOPTIONS\\fR] \\fI", about->name);
    roff_str(&text, about->args ? about->args : "");
    bytes_add_str(&text, "\\fR\n");
    if (about->more)
        bytes_add_str(&text, ".SH DESCRIPTION\n");
    each_paragraph(about->more, &text, roff_paragraph);
    roff_options(&text, about->rows, about->n_rows, !about->words_only);
    bytes_add_str(&text, ".SH EXIT STATUS\n0 done, or told to end; 1 the work failed; 2 wrong "
                         "usage; 3 the thing named does not exist; 4 refused (permission, "
                         "credentials, a limit).\n.SH SEE ALSO\n\\fBsampan\\fR(1)\n");
    fputs(text.data, stdout);
}

int program_told(const struct program_about *about, int argc, char *const *argv, struct err *err)
{
    if (argc != 2)
        return 0;
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        printf("%s %s\n", about->name, SAMPAN_VERSION);
    else if (strcmp(argv[1], "--man") == 0)
        print_man(about);
    else
        return 0;
    return program_printed(err);
}

int program_options(struct conf **ret, const struct program_about *about, void *options, int argc,
                    char *const *argv, struct err *err)
{
    int told = program_told(about, argc, argv, err);
    if (told || conf_parse(ret, about->rows, about->n_rows, options, argc, argv, err))
        return told ? told : -1;
    if (conf_help_asked(*ret))
        return program_print_help(about, err);
    if (conf_n_args(*ret))
        return err_set(err, ERR_USAGE, "%s: no such argument", conf_arg(*ret, 0));
    return 0;
}

static void blank(char *text, char but)
{
    for (char *p = text; *p; p++)
        if (((unsigned char)*p < ' ' || *p == 0x7f) && *p != but)
            *p = ' ';
}

void one_line(char *text)
{
    blank(text, '\0');
}

void disarm(char *text)
{
    blank(text, '\n');
}

char *shell_word(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "@%+=:,./_-";
    struct bytes word = {0};
    if (*text && text[strspn(text, plain)] == '\0')
        return xstrdup(text);
    bytes_add_str(&word, "'");
    for (const char *c = text; *c; c++)
        if (*c == '\'')
            bytes_add_str(&word, "'\\''");
        else
            bytes_add_char(&word, *c);
    bytes_add_str(&word, "'");
    return word.data;
}

int program_complain(const char *name, const struct err *err)
{
    char text[sizeof err->msg];
    snprintf(text, sizeof text, "%s", err->msg[0] ? err->msg : "failed without a reason");
    one_line(text);
    fprintf(stderr, "%s: %s\n", name, text);
    int code = err_exit_code(err);
    return code ? code : 1;
}

int program_end(const struct program_about *about, int result, const struct err *err)
{
    return result >= 0 ? 0 : program_complain(about->name, err);
}
