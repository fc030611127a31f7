/* The table of commands, and the life of one: find, parse, run, print its error. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli-internal.h"
#include "mem.h"

extern const struct command cmd_mount, cmd_umount, cmd_set, cmd_flush, cmd_scan, cmd_warmup,
    cmd_clear, cmd_evict, cmd_status, cmd_stats, cmd_doctor, cmd_bench, cmd_config, cmd_version,
    cmd_help;

const struct command *const commands[] = {
    &cmd_mount,  &cmd_umount, &cmd_set,    &cmd_flush,   &cmd_scan,
    &cmd_warmup, &cmd_clear,  &cmd_evict,  &cmd_status,  &cmd_stats,
    &cmd_doctor, &cmd_bench,  &cmd_config, &cmd_version, &cmd_help,
};
const size_t n_commands = COUNT(commands);

const struct command *command_find(const char *name, struct err *err)
{
    const char *names[COUNT(commands)];
    for (size_t i = 0; i < n_commands; i++) {
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
        names[i] = commands[i]->name;
    }
    const char *near = conf_nearest(name, names, n_commands);
    if (near)
        err_set(err, ERR_USAGE, "unknown command \"%s\" (did you mean \"%s\"?)", name, near);
    else
        err_set(err, ERR_USAGE, "unknown command \"%s\" (sampan help lists those known)", name);
    return NULL;
}

/* The names of all commands' options: keys that a shared configuration file may hold. */
static const char **all_keys(size_t *ret_n)
{
    size_t n = 0;
    for (size_t i = 0; i < n_commands; i++)
        n += commands[i]->n_rows;
    const char **keys = xcalloc(n, sizeof *keys);
    n = 0;
    for (size_t i = 0; i < n_commands; i++)
        for (size_t k = 0; k < commands[i]->n_rows; k++)
            keys[n++] = commands[i]->rows[k].name;
    *ret_n = n;
    return keys;
}

int command_parse(const struct command *c, struct conf **ret, void *options, int argc,
                  char *const *argv, struct err *err)
{
    size_t n;
    const char **keys = all_keys(&n);
    int result = conf_parse_shared(ret, c->rows, c->n_rows, keys, n, options, argc, argv, err);
    free(keys);
    return result;
}

int print_out(const struct bytes *text, struct err *err)
{
    if (fwrite(text->data, 1, text->len, stdout) != text->len || fflush(stdout))
        return err_sys(err, errno, "write the result to stdout");
    return 0;
}

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
            result = c->run(conf, options, err);
    }
    conf_free(conf);
    return result;
}

/* One line whatever the text holds; a name with a line end in it must not look like two errors. */
static int complain(const char *command, const struct err *err)
{
    char text[sizeof err->msg];
    snprintf(text, sizeof text, "%s", err->msg[0] ? err->msg : "failed without a reason");
    for (char *p = text; *p; p++)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    fprintf(stderr, "sampan%s%s: %s\n", command ? " " : "", command ? command : "", text);
    int code = err_exit_code(err);
    return code ? code : 1;
}

static void interrupted(int signal)
{
    (void)signal;
    static const char end[] = "\r\033[K";
    if (isatty(STDERR_FILENO) && write(STDERR_FILENO, end, sizeof end - 1) < 0)
        _exit(130);
    _exit(130);
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
    signal(SIGINT, interrupted);
    if (argc < 2) {
        cleanup_bytes struct bytes text = {0};
        manual_overview(&text);
        fputs(text.data, stderr);
        return 2;
    }
    const struct command *c = command_find(verb_of(argv[1]), &err);
    if (!c)
        return complain(NULL, &err);
    int result =
        c->run_raw ? c->run_raw(argc - 1, argv + 1, &err) : run_parsed(c, argc - 1, argv + 1, &err);
    return result < 0 ? complain(c->name, &err) : result;
}
