/* The table of commands. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli-internal.h"
#include "mem.h"
#include "program.h"

extern const struct command cmd_mount, cmd_umount, cmd_set, cmd_flush, cmd_scan, cmd_warmup,
    cmd_sync, cmd_rmr, cmd_clear, cmd_evict, cmd_upgrade, cmd_status, cmd_stats, cmd_top,
    cmd_doctor, cmd_plan, cmd_serve, cmd_bench, cmd_config, cmd_version, cmd_help, cmd_revive;

const struct command *const commands[] = {
    &cmd_mount,  &cmd_umount, &cmd_set,   &cmd_flush,   &cmd_scan,   &cmd_warmup,  &cmd_sync,
    &cmd_rmr,    &cmd_clear,  &cmd_evict, &cmd_upgrade, &cmd_status, &cmd_stats,   &cmd_top,
    &cmd_doctor, &cmd_plan,   &cmd_serve, &cmd_bench,   &cmd_config, &cmd_version, &cmd_help,
};
const size_t n_commands = COUNT(commands);

const struct command *command_find(const char *name, struct err *err)
{
    const char *names[COUNT(commands)];
    if (strcmp(name, cmd_revive.name) == 0)
        return &cmd_revive; /* for other programs: shown to nobody */
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
    if (c->no_config)
        unsetenv("SAMPAN_CONFIG");
    int result = conf_parse_shared(ret, c->rows, c->n_rows, keys, n, options, argc, argv, err);
    free(keys);
    return result;
}

static void say_slip(void *arg, const char *variable, const char *meant)
{
    fprintf(stderr, "sampan %s: %s: no option reads this variable (did you mean %s?)\n",
            (const char *)arg, variable, meant);
}

void command_say_slips(const struct command *c)
{
    size_t n;
    const char **keys = all_keys(&n);
    conf_env_slips(keys, n, say_slip, (void *)(uintptr_t)c->name);
    free(keys);
}

void add_one_line(struct bytes *out, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cleanup_free char *line = xvasprintf(fmt, ap);
    va_end(ap);
    one_line(line);
    bytes_addf(out, "%s\n", line);
}

void say_failure(const char *verb, const char *key, const char *why)
{
    cleanup_free char *text = xasprintf("%s: %s: %s", verb, key, why);
    one_line(text);
    fprintf(stderr, "sampan %s\n", text);
}

/* One write() where that is possible: a reader that has seen enough closes its end, and what it
 * asked for has then been said in whole. */
int print_out(const struct bytes *text, struct err *err)
{
    for (size_t at = 0; at < text->len;) {
        ssize_t n = write(STDOUT_FILENO, text->data + at, text->len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "write the result to stdout");
        at += (size_t)n;
    }
    return 0;
}
