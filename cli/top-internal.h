/*
 * top: what mounts do right now, from two looks at them.
 *
 *   cmd-top.c    options, the terminal, the loop
 *   top-look.c   one look: mounts here, or a server's
 *   top-draw.c   two looks as text (pure)
 *
 * A look is one JSON object {"mounts":[status, …],"jobs":[job, …]}; a status is as `sampan status
 * --json` prints it.
 */
#ifndef SAMPAN_CLI_TOP_INTERNAL_H
#define SAMPAN_CLI_TOP_INTERNAL_H

#include "cli-internal.h"

struct top_where {
    const char *mount;  /* a mount of this machine, or NULL: all of them */
    const char *server; /* the URL of a runtime server instead */
    const char *token_file, *ca_file;
};
int top_look(const struct top_where *where, struct json_doc **ret, struct err *err);

struct top_frame {
    const char *title;         /* "2 mounts", "https://node-3:7716" */
    struct json before, after; /* the two looks */
    double seconds;            /* between them */
};
/* A screen of at most `width` columns and `height` lines. */
void top_screen(const struct top_frame *f, unsigned width, unsigned height, struct bytes *out);
/* A line for each mount; `header` before them. */
void top_lines(const struct top_frame *f, bool header, struct bytes *out);
/* One JSON object on one line. */
void top_json(const struct top_frame *f, struct bytes *out);

#endif
