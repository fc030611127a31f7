/* The table of commands: every view of it is whole. */
#include <criterion/criterion.h>
#include <string.h>

#include "cli-internal.h"

Test(commands, rows_are_whole)
{
    for (size_t i = 0; i < n_commands; i++) {
        const struct command *c = commands[i];
        cr_expect(c->name && c->args && c->summary && c->about, "%s", c->name);
        cr_expect(!c->run != !c->run_raw, "%s has one way to run", c->name);
        cr_expect_neq(c->summary[strlen(c->summary) - 1], '.', "%s", c->name);
        for (size_t k = 0; k < c->n_rows; k++) {
            const struct conf_row *row = &c->rows[k];
            cr_expect(row->help && *row->help, "%s --%s", c->name, row->name);
            cr_expect_lt(row->offset, c->options_size, "%s --%s", c->name, row->name);
            bool needs_arg = row->type != CONF_FLAG && row->type != CONF_ENUM;
            cr_expect(!needs_arg || row->arg, "%s --%s", c->name, row->name);
            for (size_t j = 0; j < k; j++)
                cr_expect_str_neq(row->name, c->rows[j].name, "%s has it twice", c->name);
        }
    }
}

Test(commands, defaults_parse)
{
    for (size_t i = 0; i < n_commands; i++) {
        char name[] = "x";
        char *argv[] = {name, NULL};
        struct conf *conf;
        struct err e = {0};
        void *options = calloc(1, commands[i]->options_size + 1);
        cr_expect_eq(command_parse(commands[i], &conf, options, 1, argv, &e), 0, "%s: %s",
                     commands[i]->name, e.msg);
        conf_free(conf);
        free(options);
    }
}

Test(commands, unknown_ones_suggest_the_nearest)
{
    struct err e = {0};
    cr_expect_null(command_find("mout", &e));
    cr_expect_eq(e.class, ERR_USAGE);
    cr_expect_str_eq(e.msg, "unknown command \"mout\" (did you mean \"mount\"?)");
    cr_expect_null(command_find("frobnicate", &e));
    cr_expect_not_null(strstr(e.msg, "sampan help"));
    cr_expect_str_eq(command_find("umount", &e)->name, "umount");
}

Test(manual, every_command_and_option_is_everywhere)
{
    struct bytes overview = {0}, bash = {0}, zsh = {0};
    manual_overview(&overview);
    cr_assert_eq(manual_completion("bash", &bash, NULL), 0);
    cr_assert_eq(manual_completion("zsh", &zsh, NULL), 0);
    for (size_t i = 0; i < n_commands; i++) {
        const struct command *c = commands[i];
        struct bytes help = {0}, man = {0};
        manual_help(c, &help);
        manual_man(c, &man);
        cr_expect_not_null(strstr(overview.data, c->summary), "%s", c->name);
        cr_expect_eq(strncmp(man.data, ".TH SAMPAN", 10), 0);
        for (size_t k = 0; k < c->n_rows; k++) {
            char flag[64];
            bool is_short = strlen(c->rows[k].name) == 1;
            snprintf(flag, sizeof flag, "%s%s", is_short ? "-" : "--", c->rows[k].name);
            cr_expect_not_null(strstr(help.data, flag), "help %s: %s", c->name, flag);
            cr_expect_not_null(strstr(bash.data, flag), "bash: %s", flag);
            cr_expect_not_null(strstr(zsh.data, flag), "zsh: %s", flag);
        }
        bytes_release(&help);
        bytes_release(&man);
    }
    struct err e = {0};
    cr_expect_eq(manual_completion("fish", &bash, &e), -1);
    cr_expect_eq(e.class, ERR_USAGE);
    bytes_release(&overview);
    bytes_release(&bash);
    bytes_release(&zsh);
}
