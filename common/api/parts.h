/* What several kinds have: conditions, references, the cron schedule, schemas of Kubernetes' own.
 */
#ifndef SAMPAN_API_PARTS_H
#define SAMPAN_API_PARTS_H

#include "api.h"

#define API_COUNT(a) (sizeof(a) / sizeof(a)[0])
/* A row of a table; its flags, and more of its members by name, may follow. */
#define API_FIELD(name_, type_, struct_, member, ...)                             \
    {                                                                             \
        .name = name_, .type = type_, .offset = offsetof(struct struct_, member), \
        .doc = __VA_ARGS__                                                        \
    }
#define API_GROUP "batch.paddlepaddle.org"

struct api_condition {
    char *type, *status, *reason, *message, *since;
    int64_t generation;
};
extern const struct api_object api_condition;

/* Another object; without a namespace, in that of the one that names it. */
struct api_ref {
    char *name, *namespace;
};
extern const struct api_object api_ref;

struct api_set_ref {
    char *name, *namespace, *mount_path;
};
extern const struct api_object api_set_ref;

struct api_schedule {
    char *cron, *zone, *concurrency;
    bool suspend;
    int64_t kept_done, kept_failed;
};
extern const struct api_object api_schedule;

/* Schemas of what Kubernetes defines, for API_ANY: enough for `kubectl explain` and for a mistake
 * to be refused when it is made. */
extern const char api_schema_node_affinity[], api_schema_tolerations[], api_schema_resources[],
    api_schema_quantities[], api_schema_pod_template[], api_schema_options[], api_schema_refs[];

#endif
