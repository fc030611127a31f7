/* How a view gets at its facts: from the caches of the operator (round.c), or from a test. */
#ifndef SAMPAN_OPERATOR_VIEW_INTERNAL_H
#define SAMPAN_OPERATOR_VIEW_INTERNAL_H

#include "view.h"

/* `get` and `fetch`: false where the answer is not known yet; else *ret, which may be NULL. What
 * they give lives as long as `arg`. */
struct view_source {
    bool (*get)(void *arg, enum kind kind, const char *ns, const char *name,
                const struct json **ret);
    /* Calls `add` for each object that matches; in any order. */
    void (*list)(void *arg, enum kind kind, const char *ns, const char *key, const char *value,
                 void (*add)(void *to, const struct json *object), void *to);
    bool (*fetch)(void *arg, const char *url, const struct view_answer **ret);
    void (*free)(void *arg); /* with the view; NULL: nothing */
};

/* `object` is borrowed; it may lack the members that say its kind, as items of a list do. */
struct view *view_new(const struct view_source *source, void *arg, enum kind kind,
                      const struct json *object, int64_t now);

#endif
