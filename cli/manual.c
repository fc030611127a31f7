/* Help, manual pages and shell completion: three views of the table of commands and their rows. */
#include <string.h>

#include "cli-internal.h"
#include "mem.h"
#include "roff.h"

#define SUMMARY_COLUMN 12
#define TEXT_WIDTH     79

void manual_overview(struct bytes *out)
{
    bytes_add_str(out,
                  "sampan carries samples to training: a bucket becomes a folder at the speed of\n"
                  "the local disk.\n\nusage: sampan COMMAND [OPTIONS] ARGS\n\n");
    for (size_t i = 0; i < n_commands; i++)
        bytes_addf(out, "  %-*s%s\n", SUMMARY_COLUMN, commands[i]->name, commands[i]->summary);
    bytes_add_str(out,
                  "\nsampan help COMMAND tells more. Options also come from SAMPAN_NAME variables\n"
                  "and --config FILE.\n");
}

/* A paragraph in lines of at most TEXT_WIDTH, below an empty line. */
static void add_paragraph(struct bytes *out, const char *text, size_t len)
{
    size_t column = 0;
    bytes_add_char(out, '\n');
    while (len) {
        size_t word = 0;
        while (word < len && text[word] != ' ')
            word++;
        if (column && column + 1 + word > TEXT_WIDTH) {
            bytes_add_char(out, '\n');
            column = 0;
        } else if (column) {
            bytes_add_char(out, ' ');
            column++;
        }
        bytes_add(out, text, word);
        column += word;
        text += word;
        len -= word;
        while (len && *text == ' ') {
            text++;
            len--;
        }
    }
    bytes_add_char(out, '\n');
}

void manual_help(const struct command *c, struct bytes *out)
{
    bytes_addf(out, "sampan %s: %s\n\nusage: sampan %s%s%s%s\n", c->name, c->summary, c->name,
               c->n_rows ? " [OPTIONS]" : "", *c->args ? " " : "", c->args);
    each_paragraph(c->about, out, add_paragraph);
    if (!c->n_rows)
        return;
    bytes_add_str(out, "\noptions:\n");
    conf_help(c->rows, c->n_rows, out);
}

/* --- manual pages ----------------------------------------------------------------------------- */

static void add_man_tail(struct bytes *out)
{
    bytes_add_str(out,
                  ".SH EXIT STATUS\n"
                  "0 done; 1 the work failed; 2 wrong usage; 3 the thing named does not exist; 4 "
                  "refused (permission, credentials, a limit); 130 interrupted.\n");
}

static void man_overview(struct bytes *out)
{
    roff_begin(out, "sampan", "sample sets as folders at the speed of the local disk");
    bytes_add_str(out,
                  ".SH SYNOPSIS\n\\fBsampan\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR] \\fIARGS\\fR\n"
                  ".SH COMMANDS\n");
    for (size_t i = 0; i < n_commands; i++) {
        bytes_addf(out, ".TP\n\\fBsampan\\-%s\\fR(1)\n", commands[i]->name);
        roff_str(out, commands[i]->summary);
        bytes_add_char(out, '\n');
    }
    bytes_add_str(
        out, ".SH OPTIONS\nOptions come, in falling priority, from the command line, from "
             "variables SAMPAN_NAME, from \\fB\\-\\-config\\fR \\fIFILE\\fR (lines of key = value, "
             "the same names) and from the defaults; \\fBsampan config\\fR shows the result.\n");
    add_man_tail(out);
}

void manual_man(const struct command *c, struct bytes *out)
{
    if (!c) {
        man_overview(out);
        return;
    }
    cleanup_free char *name = xasprintf("sampan-%s", c->name);
    roff_begin(out, name, c->summary);
    bytes_addf(out, ".SH SYNOPSIS\n\\fBsampan %s\\fR%s \\fI", c->name,
               c->n_rows ? " [\\fIOPTIONS\\fR]" : "");
    roff_str(out, c->args);
    bytes_add_str(out, "\\fR\n.SH DESCRIPTION\n");
    each_paragraph(c->about, out, roff_paragraph);
    roff_options(out, c->rows, c->n_rows, /*variables*/ true);
    add_man_tail(out);
    bytes_add_str(out, ".SH SEE ALSO\n\\fBsampan\\fR(1)\n");
}

/* --- completion ------------------------------------------------------------------------------- */

static void add_words(struct bytes *out)
{
    for (size_t i = 0; i < n_commands; i++)
        bytes_addf(out, "%s%s", i ? " " : "", commands[i]->name);
}

/* config takes options of its own before the name of a command, and that command's after it. */
static bool names_command(const struct command *c)
{
    return strcmp(c->name, "config") == 0;
}

static void add_flags(struct bytes *out, const struct command *c)
{
    for (size_t i = 0; i < c->n_rows; i++)
        bytes_addf(out, "%s%s ", strlen(c->rows[i].name) == 1 ? "-" : "--", c->rows[i].name);
    bytes_addf(out, "--%s --help", names_command(c) ? "json" : "config");
}

static void add_bash_choices(struct bytes *out, const struct command *c)
{
    for (size_t i = 0; i < c->n_rows; i++) {
        if (c->rows[i].type != CONF_ENUM)
            continue;
        bytes_addf(out, "        %s--%s) words=\"", c->name, c->rows[i].name);
        for (const char *p = c->rows[i].choices; *p; p++)
            bytes_add_char(out, *p == '|' ? ' ' : *p);
        bytes_add_str(out, "\" ;;\n");
    }
}

static void completion_bash(struct bytes *out)
{
    bytes_add_str(out, "# bash completion for sampan\n_sampan() {\n"
                       "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
                       "verb=${COMP_WORDS[1]} words= named=2\n"
                       "    if [ \"$verb\" = config ]; then # what it names\n"
                       "        [ \"${COMP_WORDS[2]-}\" != --json ] || named=3\n"
                       "        [ \"$COMP_CWORD\" -le $named ] || verb=${COMP_WORDS[named]}\n"
                       "    fi\n"
                       "    case $cur$prev in # --option=value is three words here\n"
                       "    =*) cur= ;;\n"
                       "    *=) prev=${COMP_WORDS[COMP_CWORD-2]} ;;\n"
                       "    esac\n"
                       "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words=\"");
    add_words(out);
    bytes_add_str(out, "\"\n    else\n        case $verb$prev in\n");
    for (size_t i = 0; i < n_commands; i++)
        add_bash_choices(out, commands[i]);
    bytes_add_str(out, "        esac\n        if [ -z \"$words\" ] && [[ $cur == -* ]]; then\n"
                       "            case $verb in\n");
    for (size_t i = 0; i < n_commands; i++) {
        bytes_addf(out, "            %s) words=\"", commands[i]->name);
        add_flags(out, commands[i]);
        bytes_add_str(out, "\" ;;\n");
    }
    bytes_add_str(
        out, "            esac\n        elif [ -z \"$words\" ] && [[ $verb == help || $verb == "
             "config ]]; then\n            words=\"");
    add_words(out);
    bytes_add_str(out, "\"\n        fi\n    fi\n"
                       "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\n"
                       "complete -o default -F _sampan sampan\n");
}

/* Text inside single quotes inside an _arguments specification. */
static void add_zsh_text(struct bytes *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            bytes_add_str(out, "'\\''");
        else if (*text == '[' || *text == ']' || *text == ':' || *text == '\\')
            bytes_addf(out, "\\%c", *text);
        else
            bytes_add_char(out, *text);
    }
}

static void add_zsh_option(struct bytes *out, const struct conf_row *row)
{
    bool letter = strlen(row->name) == 1, value = row->type != CONF_FLAG;
    bytes_addf(out, " \\\n            '%s%s%s%s[", row->type == CONF_LIST ? "*" : "",
               letter ? "-" : "--", row->name, value && !letter ? "=" : "");
    add_zsh_text(out, row->help);
    bytes_add_char(out, ']');
    if (row->type == CONF_ENUM) {
        bytes_addf(out, ":%s:(", row->name);
        for (const char *p = row->choices; *p; p++)
            bytes_add_char(out, *p == '|' ? ' ' : *p);
        bytes_add_char(out, ')');
    } else if (row->type != CONF_FLAG) {
        bytes_add_char(out, ':');
        add_zsh_text(out, row->arg ? row->arg : "value");
        bytes_add_str(out, ":_files");
    }
    bytes_add_char(out, '\'');
}

static void completion_zsh(struct bytes *out)
{
    bytes_add_str(out, "#compdef sampan\n_sampan() {\n    local -a verbs\n    verbs=(\n");
    for (size_t i = 0; i < n_commands; i++) {
        bytes_addf(out, "        '%s:", commands[i]->name);
        add_zsh_text(out, commands[i]->summary);
        bytes_add_str(out, "'\n");
    }
    bytes_add_str(out, "    )\n    if (( CURRENT == 2 )); then\n        _describe command verbs\n"
                       "        return\n    fi\n"
                       "    if [[ $words[2] == config ]]; then # what it names\n"
                       "        local before=1\n        [[ $words[3] == --json ]] && before=2\n"
                       "        (( CURRENT > before + 2 )) && { shift $before words; "
                       "(( CURRENT -= before )); }\n    fi\n    case $words[2] in\n");
    for (size_t i = 0; i < n_commands; i++) {
        bytes_addf(out, "    %s)\n        shift words; (( CURRENT-- ))\n        _arguments",
                   commands[i]->name);
        for (size_t k = 0; k < commands[i]->n_rows; k++)
            add_zsh_option(out, &commands[i]->rows[k]);
        bool of_verbs = names_command(commands[i]) || strcmp(commands[i]->name, "help") == 0;
        bytes_addf(out, " \\\n            %s \\\n            '--help[Show help]' %s\n        ;;\n",
                   names_command(commands[i])
                       ? "'--json[Print the result as JSON]'"
                       : "'--config=[Read options from this file]:FILE:_files'",
                   of_verbs ? "'1:command:{_describe command verbs}' '*:argument:_files'"
                            : "'*:argument:_files'");
    }
    bytes_add_str(out, "    esac\n}\n_sampan \"$@\"\n");
}

int manual_completion(const char *shell, struct bytes *out, struct err *err)
{
    if (strcmp(shell, "bash") == 0)
        completion_bash(out);
    else if (strcmp(shell, "zsh") == 0)
        completion_zsh(out);
    else
        return err_set(err, ERR_USAGE, "--completion: \"%s\" is not one of bash|zsh", shell);
    return 0;
}
