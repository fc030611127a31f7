/*
 * Where a pod may run: what we want is AND-ed to what the user wants.
 *
 * Terms of a required node affinity are alternatives: one that holds is enough. So ours goes into
 * each of them, beside the user's own expressions. A term without any expression matches no node
 * and stays as it is: with ours in it, it would match some.
 */
#include <string.h>

#include "build-pod.h"

#define REQUIRED  "requiredDuringSchedulingIgnoredDuringExecution"
#define PREFERRED "preferredDuringSchedulingIgnoredDuringExecution"

static void expression(struct json_writer *w, const struct build_place *place)
{
    jw_object(w, NULL);
    jw_str(w, "key", place->label);
    jw_str(w, "operator", "In");
    jw_array(w, "values");
    jw_str(w, NULL, place->value);
    jw_end(w);
    jw_end(w);
}

static void term(struct json_writer *w, const struct json *user, const struct build_place *place)
{
    static const char *const ours[] = {"matchExpressions", NULL};
    struct json expressions = json_get(user, "matchExpressions"),
                fields = json_get(user, "matchFields");
    if (user->node && !json_count(&expressions) && !json_count(&fields)) {
        build_copy(w, NULL, user);
        return;
    }
    jw_object(w, NULL);
    build_copy_members(w, user, ours);
    jw_array(w, "matchExpressions");
    build_copy_items(w, &expressions);
    expression(w, place);
    jw_end(w);
    jw_end(w);
}

static void required(struct json_writer *w, const struct json *user,
                     const struct build_place *place)
{
    static const char *const ours[] = {"nodeSelectorTerms", NULL};
    struct json terms = json_get(user, "nodeSelectorTerms"), none = {0};
    jw_object(w, REQUIRED);
    build_copy_members(w, user, ours);
    jw_array(w, "nodeSelectorTerms");
    for (size_t i = 0; i < json_count(&terms); i++) {
        struct json t = json_at(&terms, i);
        term(w, &t, place);
    }
    if (!json_count(&terms))
        term(w, &none, place);
    jw_end(w);
    jw_end(w);
}

static void preferred(struct json_writer *w, const struct json *user,
                      const struct build_place *place)
{
    jw_array(w, PREFERRED);
    build_copy_items(w, user);
    jw_object(w, NULL);
    jw_int(w, "weight", 100);
    jw_object(w, "preference");
    jw_array(w, "matchExpressions");
    expression(w, place);
    jw_end(w);
    jw_end(w);
    jw_end(w);
    jw_end(w);
}

static void node_affinity(struct json_writer *w, const struct json *user,
                          const struct build_place *place)
{
    struct json must = json_get(user, REQUIRED), rather = json_get(user, PREFERRED);
    jw_object(w, "nodeAffinity");
    if (place->required)
        required(w, &must, place);
    else
        build_copy(w, REQUIRED, &must);
    if (place->required)
        build_copy(w, PREFERRED, &rather);
    else
        preferred(w, &rather, place);
    jw_end(w);
}

void build_affinity(struct json_writer *w, const struct json *user, const struct build_place *place)
{
    static const char *const ours[] = {"nodeAffinity", NULL};
    struct json of_nodes = json_get(user, "nodeAffinity");
    if (!place->label) {
        build_copy(w, "affinity", user);
        return;
    }
    jw_object(w, "affinity");
    build_copy_members(w, user, ours);
    node_affinity(w, &of_nodes, place);
    jw_end(w);
}
