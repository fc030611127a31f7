/* What a cluster in memory has come to, as text to compare. */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "model-internal.h"

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A line an object, in an order that does not tell which was made first. */
char *model_text(struct model *m)
{
    json_t *copy = json_deep_copy(m->objects), *o, *c;
    struct bytes out = {0};
    size_t i, k;
    cleanup_free char **lines = xcalloc(json_array_size(copy) + 1, sizeof *lines);
    json_array_foreach(copy, i, o)
    {
        static const char *const gone[] = {"resourceVersion", "uid", "creationTimestamp",
                                           "generation", "ownerReferences"};
        for (k = 0; k < sizeof gone / sizeof gone[0]; k++)
            json_object_del(model_meta(o), gone[k]);
        json_object_del(model_child(model_meta(o), "labels"), "sampan.io/owner");
        json_object_del(model_child(model_meta(o), "annotations"), "sampan.io/made-of");
        json_object_del(o, "spec");
        json_t *status = json_object_get(o, "status");
        json_array_foreach(json_object_get(status, "conditions"), k, c)
        {
            json_object_del(c, "lastTransitionTime");
            json_object_del(c, "observedGeneration");
        }
        static const char *const times[] = {"refreshedAt", "startTime", "completionTime",
                                            "syncJobName", "jobName"};
        for (k = 0; k < sizeof times / sizeof times[0]; k++)
            json_object_del(status, times[k]);
        lines[i] = json_dumps(o, JSON_SORT_KEYS);
    }
    qsort(lines, json_array_size(copy), sizeof *lines, by_text);
    for (i = 0; i < json_array_size(copy); i++) {
        bytes_addf(&out, "%s\n", lines[i]);
        free(lines[i]);
    }
    json_decref(copy);
    return bytes_take(&out);
}
