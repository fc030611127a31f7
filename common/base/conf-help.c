/* The help text of a table of options. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conf.h"

#define HELP_COLUMN 30
#define HELP_WIDTH  79 /* a terminal that nobody made wider */

/* Words of `text`, wrapped, each line beginning at HELP_COLUMN; the first line stands at `column`.
 */
static void add_wrapped(struct bytes *out, const char *text, size_t column)
{
    bool first = true;
    while (*text) {
        size_t len = strcspn(text, " ");
        if (!first && column + 1 + len > HELP_WIDTH) {
            bytes_addf(out, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else if (!first) {
            bytes_add_char(out, ' ');
            column++;
        }
        bytes_add(out, text, len);
        column += len;
        first = false;
        text += len;
        text += strspn(text, " ");
    }
    bytes_add_char(out, '\n');
}

void conf_notes(const struct conf_row *row, struct bytes *text)
{
    if (row->type == CONF_LIST)
        bytes_add_str(text, "; repeatable");
    char least[32];
    if (row->type == CONF_SIZE && row->min) {
        conf_format_size((uint64_t)row->min, least);
        bytes_addf(text, "; at least %s", least);
    }
    if (row->type == CONF_DURATION && row->min) {
        conf_format_duration((double)row->min / 1e9, least);
        bytes_addf(text, "; at least %s", least);
    }
    if (row->type == CONF_INT && (row->min || row->max))
        bytes_addf(text, "; %" PRId64 " to %" PRId64, row->min, row->max);
    if (row->dflt && *row->dflt && row->type != CONF_FLAG)
        bytes_addf(text, " (%s)", row->dflt);
}

void conf_help(const struct conf_row *rows, size_t n_rows, struct bytes *text)
{
    for (size_t i = 0; i < n_rows; i++) {
        const struct conf_row *row = &rows[i];
        size_t start = text->len;
        bytes_addf(text, "  %s%s", strlen(row->name) == 1 ? "-" : "--", row->name);
        if (row->type == CONF_ENUM)
            bytes_addf(text, " %s", row->choices);
        else if (row->arg && row->type != CONF_FLAG)
            bytes_addf(text, " %s", row->arg);
        size_t column = text->len - start;
        if (column + 2 > HELP_COLUMN)
            bytes_addf(text, "\n%*s", HELP_COLUMN, "");
        else
            bytes_addf(text, "%*s", (int)(HELP_COLUMN - column), "");
        cleanup_bytes struct bytes help = {0};
        bytes_add_str(&help, row->help ? row->help : "");
        conf_notes(row, &help);
        add_wrapped(text, help.len ? help.data : "", HELP_COLUMN);
    }
}
