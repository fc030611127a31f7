/*
 * What a controller sees when it decides: one object, and whatever it looks up beside it.
 *
 * A decide() is a pure function of a view: it looks things up by the functions below and returns
 * actions (actions.h). What it looks up for the first time may not be at hand yet (a secret, the
 * answer of a runtime server): then the look-up gives NULL and the view is incomplete. Whoever
 * called decide() throws its actions away, gets what was asked for, and calls it again; so decide()
 * may return early as soon as view_incomplete() says so, and nothing is ever done on half the
 * facts. What was looked up and does not exist is NULL in a complete view.
 *
 * Everything a view gives lives as long as the view.
 */
#ifndef SAMPAN_OPERATOR_VIEW_H
#define SAMPAN_OPERATOR_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json.h"
#include "kinds.h"

struct view;

/* The answer of a runtime server. */
struct view_answer {
    int status;        /* of HTTP; 0: none came, `error` says why */
    struct json body;  /* .node NULL: no JSON */
    const char *error; /* NULL unless status is 0 */
};

struct view_list {
    const struct json *const *items; /* by namespace and name */
    size_t n;
};

/* The object that is decided about; never NULL. */
const struct json *view_object(const struct view *v);
enum kind view_kind(const struct view *v); /* its kind */
/* NULL: none, or not known yet. `ns` NULL for kinds without a namespace. */
const struct json *view_get(struct view *v, enum kind kind, const char *ns, const char *name);
/* Objects in `ns` (NULL: in all) with the label key=value (key NULL: all; value NULL: any). A
 * MARK_… of object.h is as good as a label. */
struct view_list view_list(struct view *v, enum kind kind, const char *ns, const char *key,
                           const char *value);
/* GET of a runtime server's URL; asked at most once a decision. NULL: not known yet. */
const struct view_answer *view_fetch(struct view *v, const char *url);

bool view_incomplete(const struct view *v);
int64_t view_now(const struct view *v); /* Unix seconds */

void view_free(struct view *v);

#endif
