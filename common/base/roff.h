/*
 * Manual pages, as roff: text that is read as text, and a table of options. Who writes a page
 * writes its headings (".SH NAME\n") as they are; all other text goes through here.
 */
#ifndef SAMPAN_BASE_ROFF_H
#define SAMPAN_BASE_ROFF_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "conf.h"

/* The page's title, and its section NAME: "sampan-mount" and what it does. */
void roff_begin(struct bytes *out, const char *name, const char *summary);
/* A dot at a line's start, backslashes and dashes are what they look like. */
void roff_str(struct bytes *out, const char *text);
void roff_paragraph(struct bytes *out, const char *text, size_t len);
/* The section OPTIONS; `variables`: a variable SAMPAN_NAME gives each, too. */
void roff_options(struct bytes *out, const struct conf_row *rows, size_t n_rows, bool variables);

/* Paragraphs are parted by an empty line. */
typedef void paragraph_fn(struct bytes *out, const char *text, size_t len);
void each_paragraph(const char *text, struct bytes *out, paragraph_fn *fn);

#endif
