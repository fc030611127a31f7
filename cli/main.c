/* The life of a command: find it, parse its options, run it, print its error. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "helper.h"
#include "mem.h"
#include "program.h"
#include "serve-internal.h"

static int check_args(const struct command *c, const struct conf *conf, struct err *err)
{
    size_t n = conf_n_args(conf);
    if (n >= (size_t)c->min_args && (c->max_args < 0 || n <= (size_t)c->max_args))
        return 0;
    return err_set(err, ERR_USAGE, "want %s, got %zu argument%s (see: sampan help %s)",
                   *c->args ? c->args : "no arguments", n, n == 1 ? "" : "s", c->name);
}

static int run_parsed(const struct command *c, int argc, char *const *argv, struct err *err)
{
    struct conf *conf;
    cleanup_free void *options = xcalloc(1, c->options_size);
    if (command_parse(c, &conf, options, argc, argv, err))
        return -1;
    int result;
    if (conf_help_asked(conf)) {
        cleanup_bytes struct bytes text = {0};
        manual_help(c, &text);
        result = print_out(&text, err);
    } else {
        result = check_args(c, conf, err);
        if (!result)
            result = check_ca_file(c, options, err);
        if (!result)
            result = check_log_level(c, conf, options, err);
        if (!result)
            result = c->run(conf, options, err);
    }
    conf_free(conf);
    return result;
}

/* "umount: /mnt: busy" from a library reads "sampan umount: /mnt: busy" here. */
static const char *without_verb(const char *text, const char *verb)
{
    size_t len = verb ? strlen(verb) : 0;
    if (!len || strncmp(text, verb, len) != 0)
        return text;
    if (strncmp(text + len, ": ", 2) == 0)
        return text + len + 2;
    return strncmp(text + len, " /", 2) == 0 ? text + len + 1 : text;
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), n = strlen(end);
    return len >= n && strcmp(text + len - n, end) == 0;
}

/* What to do about a full disk, where the message ends with what the system calls it. */
static const char *cure_of(const struct err *err)
{
    if (!err->sys || !ends_with(err->msg, strerror(err->sys)))
        return "";
    switch (err->sys) {
    case ENOSPC:
    case EDQUOT:
        return " (make room there)";
    case EFBIG:
        return " (raise ulimit -f)";
    default:
        return "";
    }
}

static int complain(const char *command, const struct err *err)
{
    cleanup_free char *name = xasprintf("sampan%s%s", command ? " " : "", command ? command : "");
    struct err said = {0};
    err_set(&said, err->class, "%s%s", without_verb(err->msg, command), cure_of(err));
    said.sys = err->sys;
    return program_complain(name, &said);
}

/* What a command says that has nothing to take back when it is interrupted; a handler has no other
 * way to it. */
static char interrupted_text[64];

static void interrupted(int signal)
{
    (void)signal;
    static const char clear[] = "\r\033[K"; /* a bar may stand there */
    if (isatty(STDERR_FILENO) && write(STDERR_FILENO, clear, sizeof clear - 1) < 0)
        _exit(130);
    if (write(STDERR_FILENO, interrupted_text, strlen(interrupted_text)) < 0)
        _exit(130);
    _exit(130);
}

static void say_when_interrupted(const char *verb)
{
    snprintf(interrupted_text, sizeof interrupted_text, "sampan %s: interrupted\n", verb);
    signal(SIGINT, interrupted);
}

/* "sampan --help" and "sampan --version" are habits from other programs. */
static const char *verb_of(const char *word)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return "help";
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
        return "version";
    return word;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    program_keep_standard();
    program_hear_children();
    program_bear_file_limit();
    if (argc == 2 && strcmp(argv[1], HELPER_WORD) == 0)
        return helper_main();
    if (getenv(KEEPER_ENV))
        return life_main(argv);
    if (argc < 2) {
        cleanup_bytes struct bytes text = {0};
        manual_overview(&text);
        fputs(text.data, stderr);
        return 2;
    }
    const struct command *c = command_find(verb_of(argv[1]), &err);
    if (!c)
        return complain(NULL, &err);
    say_when_interrupted(c->name);
    command_say_slips(c);
    int result =
        c->run_raw ? c->run_raw(argc - 1, argv + 1, &err) : run_parsed(c, argc - 1, argv + 1, &err);
    return result < 0 ? complain(c->name, &err) : result;
}
