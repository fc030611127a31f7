/* help: what a command does; its manual page; completion for shells. */
#include <stdio.h>

#include "cli-internal.h"

struct help_options {
    bool man;
    const char *completion;
};

static const struct conf_row rows[] = {
    {"man", CONF_FLAG, AT(help_options, man), .help = "Print the manual page's source (man -l -)"},
    {"completion", CONF_ENUM, AT(help_options, completion), .choices = "bash|zsh",
     .help = "Print a completion script for this shell"},
};

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct help_options *o = options;
    cleanup_bytes struct bytes text = {0};
    const struct command *c = NULL;
    if (o->completion) {
        if (manual_completion(o->completion, &text, err))
            return -1;
        return print_out(&text, err);
    }
    if (conf_n_args(conf) && !(c = command_find(conf_arg(conf, 0), err)))
        return -1;
    if (o->man)
        manual_man(c, &text);
    else if (c)
        manual_help(c, &text);
    else
        manual_overview(&text);
    return print_out(&text, err);
}

const struct command cmd_help = {
    .name = "help",
    .args = "[COMMAND]",
    .summary = "tell about the commands, or about one in full",
    .about =
        "Prints what man sampan-COMMAND says. With --man the page's source, with --completion a "
        "script that completes commands and options. SAMPAN_CONFIG is not read.",
    .max_args = 1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct help_options),
    .no_config = true,
    .run = run,
};
