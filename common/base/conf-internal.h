/* What the files of conf share. */
#ifndef SAMPAN_BASE_CONF_INTERNAL_H
#define SAMPAN_BASE_CONF_INTERNAL_H

#include "conf.h"

struct conf {
    const struct conf_row *rows;
    size_t n_rows;
    const char *const *elsewhere; /* borrowed during conf_parse_shared() alone */
    size_t n_elsewhere;
    enum conf_origin *origins; /* one a row */
    unsigned n_listed;         /* items given to all lists so far */
    struct conf_list *lists;   /* one a row; items grow here and are lent to the caller's struct */
    char **strings;            /* all that was stored; freed with the conf */
    size_t n_strings;
    const char **args;
    size_t n_args;
    bool help_asked;
};

/* Stores `text` into the caller's struct. A list's items from a stronger origin replace those of a
 * weaker one. `label` is how the user wrote the option, for errors. */
int conf_store(struct conf *c, size_t row, enum conf_origin origin, const char *label,
               const char *text, void *out, struct err *err);

#endif
