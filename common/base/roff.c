/* Manual pages, as roff. */
#include "roff.h"

#include <ctype.h>
#include <string.h>

static void add_text(struct bytes *out, const char *text, size_t len)
{
    bool line_start = true;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (line_start && (c == '.' || c == '\''))
            bytes_add_str(out, "\\&");
        if (c == '\\')
            bytes_add_str(out, "\\e");
        else if (c == '-')
            bytes_add_str(out, "\\-");
        else
            bytes_add_char(out, c);
        line_start = c == '\n';
    }
}

void roff_str(struct bytes *out, const char *text)
{
    add_text(out, text, strlen(text));
}

void roff_paragraph(struct bytes *out, const char *text, size_t len)
{
    bytes_add_str(out, ".PP\n");
    add_text(out, text, len);
    bytes_add_char(out, '\n');
}

void each_paragraph(const char *text, struct bytes *out, paragraph_fn *fn)
{
    while (text && *text) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        fn(out, text, len);
        text = end ? end + 2 : NULL;
    }
}

void roff_begin(struct bytes *out, const char *name, const char *summary)
{
    cleanup_bytes struct bytes page = {0}, title = {0};
    for (; *name; name++) { /* "sampan-train ui" is a page of one word */
        char c = *name == ' ' ? '-' : *name;
        bytes_add_char(&page, c);
        bytes_add_char(&title, (char)toupper((unsigned char)c));
    }
    bytes_add_str(out, ".TH ");
    add_text(out, title.data, title.len);
    bytes_add_str(out, " 1 \"\" \"sampan " SAMPAN_VERSION "\" \"Sampan\"\n.SH NAME\n");
    add_text(out, page.data, page.len);
    bytes_add_str(out, " \\- ");
    roff_str(out, summary);
    bytes_add_char(out, '\n');
}

static void add_variable(struct bytes *out, const char *name)
{
    bytes_add_str(out, ". Variable \\fBSAMPAN_");
    for (; *name; name++)
        bytes_add_char(out, *name == '-' ? '_' : (char)toupper((unsigned char)*name));
    bytes_add_str(out, "\\fR");
}

static void add_option(struct bytes *out, const struct conf_row *row, bool variable)
{
    bool is_short = strlen(row->name) == 1;
    bytes_add_str(out, ".TP\n\\fB");
    roff_str(out, is_short ? "-" : "--");
    roff_str(out, row->name);
    bytes_add_str(out, "\\fR");
    const char *arg = row->type == CONF_ENUM ? row->choices : row->arg;
    if (arg && row->type != CONF_FLAG) {
        bytes_add_str(out, " \\fI");
        roff_str(out, arg);
        bytes_add_str(out, "\\fR");
    }
    bytes_add_char(out, '\n');
    cleanup_bytes struct bytes help = {0};
    bytes_add_str(&help, row->help);
    conf_notes(row, &help);
    add_text(out, help.data, help.len);
    if (variable)
        add_variable(out, row->name);
    bytes_add_str(out, ".\n");
}

void roff_options(struct bytes *out, const struct conf_row *rows, size_t n_rows, bool variables)
{
    if (n_rows)
        bytes_add_str(out, ".SH OPTIONS\n");
    for (size_t i = 0; i < n_rows; i++)
        add_option(out, &rows[i], variables);
}
