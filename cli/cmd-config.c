/* config: the options of a command with their values and where each came from. */
#include <string.h>

#include "cli-internal.h"
#include "mem.h"

/* As lines of a configuration file: what is not set is a comment. */
static void add_line(struct bytes *text, const char *name, const char *value, const char *origin)
{
    bytes_addf(text, "%s%-*s = %-24s # %s\n", *value ? "" : "# ", *value ? 20 : 18, name, value,
               origin);
}

static void add_row(struct bytes *text, struct json_writer *w, const struct conf *conf,
                    const struct conf_row *row, const void *options)
{
    cleanup_bytes struct bytes value = {0};
    bytes_add(&value, "", 0);
    conf_print_value(conf, row, options, &value);
    const char *origin = conf_origin_name(conf_origin_of(conf, row->name));
    if (!w && row->type == CONF_LIST && value.len) {
        const struct conf_list *list = (const void *)((const char *)options + row->offset);
        for (size_t i = 0; i < list->n; i++)
            add_line(text, row->name, list->items[i], origin);
        return;
    }
    if (!w) {
        add_line(text, row->name, value.data, origin);
        return;
    }
    jw_object(w, NULL);
    jw_str(w, "name", row->name);
    jw_strn(w, "value", value.data, value.len);
    jw_str(w, "origin", origin);
    jw_end(w);
}

/* argv: the command's name and the options it would get. */
static int show(const struct command *c, int argc, char *const *argv, bool json, struct bytes *text,
                struct err *err)
{
    struct conf *conf;
    cleanup_free void *options = xcalloc(1, c->options_size);
    if (command_parse(c, &conf, options, argc, argv, err))
        return -1;
    struct json_writer w;
    if (json) {
        jw_init(&w, text);
        jw_object(&w, NULL);
        jw_str(&w, "command", c->name);
        jw_array(&w, "options");
    } else {
        bytes_addf(text, "# %s\n", c->name);
    }
    for (size_t i = 0; i < c->n_rows; i++)
        add_row(text, json ? &w : NULL, conf, &c->rows[i], options);
    if (json) {
        jw_end(&w);
        jw_end(&w);
        bytes_add_char(text, '\n');
    }
    conf_free(conf);
    return 0;
}

static int show_all(bool json, char *const *argv, struct bytes *text, struct err *err)
{
    for (size_t i = 0; i < n_commands; i++) {
        if (!commands[i]->n_rows)
            continue;
        if (text->len && !json)
            bytes_add_char(text, '\n');
        if (show(commands[i], 1, argv, json, text, err))
            return err_wrap(err, "%s", commands[i]->name);
    }
    return 0;
}

static int run_raw(int argc, char *const *argv, struct err *err)
{
    bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
    if (json) {
        argc--;
        argv++;
    }
    cleanup_bytes struct bytes text = {0};
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        manual_help(command_find("config", NULL), &text);
        return print_out(&text, err);
    }
    int result;
    if (argc > 1 && argv[1][0] != '-') {
        const struct command *c = command_find(argv[1], err);
        result = c ? show(c, argc - 1, argv + 1, json, &text, err) : -1;
    } else if (argc > 1) {
        return err_set(
            err, ERR_USAGE,
            "\"%s\" before the command's name (sampan config [--json] COMMAND [OPTIONS])", argv[1]);
    } else {
        result = show_all(json, argv, &text, err);
    }
    return result ? result : print_out(&text, err);
}

const struct command cmd_config = {
    .name = "config",
    .args = "[--json] [COMMAND [OPTIONS]]",
    .summary = "print options with their values and where each came from",
    .about =
        "Prints the options that COMMAND (all commands, if none is named) would run with if it "
        "were given OPTIONS now, and where each value came from: the command line, a SAMPAN_ "
        "variable, --config FILE or the default.\n\nWhat is printed for one COMMAND is itself a "
        "configuration file: lines of key = value, in which a # between blanks begins a comment.",
    .run_raw = run_raw,
};
