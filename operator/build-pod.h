/*
 * A pod out of the template that a user wrote: ours is added, theirs is kept. Of the template's
 * containers only the first is touched.
 */
#ifndef SAMPAN_OPERATOR_BUILD_POD_H
#define SAMPAN_OPERATOR_BUILD_POD_H

#include "build.h"

/* A claim that is mounted into the first container. */
struct build_mount {
    const char *volume, *claim, *path;
};

/* The node label that a pod wants. */
struct build_place {
    const char *label, *value; /* label NULL: it does not mind */
    bool required;             /* else it would rather have it, with the greatest weight */
};

/* A pod waits before its own containers start until both files say the same: what its annotation
 * wants, and what the ConfigMap has. By then the ConfigMap is where the containers get it from. */
struct build_barrier {
    const char *image; /* NULL: no barrier */
    const char *annotation, *config_map, *key;
};

struct build_pod {
    const struct json *template; /* {metadata, spec}; its node may be NULL */
    const struct pairs *env;     /* a name that the user gives already is left to the user */
    const char *env_from;        /* a ConfigMap, or NULL */
    const struct build_mount *mounts;
    size_t n_mounts;
    struct build_place place;
    struct build_barrier barrier;
    const char *restart_policy; /* NULL: the user's */
    const char *scheduler;      /* NULL: the user's */
    bool host_network;          /* with `port` kept free for it on the node */
    int64_t port;               /* 0: none is declared */
    size_t n_ports;             /* so many from `port` on, named p-0, p-1, … */
};

#define BUILD_BARRIER "sampan-barrier" /* the init container, and its volume */

/* Writes the member "spec" of a pod. */
void build_pod_spec(struct json_writer *w, const struct build_pod *b);

/* Writes the member "affinity": the user's, with the place AND-ed into every one of its terms. */
void build_affinity(struct json_writer *w, const struct json *user,
                    const struct build_place *place);

/* How many devices (resources named *gpu*, *dcu*, *npu*, *xpu*) the containers of a template
 * ask for. */
int64_t build_devices(const struct json *template);
/* Can the node hold a pod of the template, when it is empty? *why names what it lacks (the caller
 * frees; NULL where it can). */
bool build_fits(const struct json *template, const struct json *node, char **why);

/* Resources of several pods, added up. */
struct build_sum {
    struct build_amount {
        char *name;
        int64_t milli;
    } * items;
    size_t n;
};
/* Adds `times` pods' requests (limits where there are no requests). */
void build_sum_add(struct build_sum *s, const struct json *template, int64_t times);
void build_sum_write(const struct build_sum *s, struct json_writer *w, const char *key);
void build_sum_release(struct build_sum *s);

#endif
