/*
 * The three services of the driver: each file has a table of methods and their handlers.
 *
 *   identity.c    who the plugin is, whether it is ready
 *   controller.c  volumes of StorageClasses, and snapshots    (created.h keeps what was made)
 *   node.c        stage, publish and their undoing            (volumes.h, sets.h)
 */
#ifndef SAMPAN_CSI_SERVICE_H
#define SAMPAN_CSI_SERVICE_H

#include <stdbool.h>

#include "log.h"
#include "rpc.h"

struct node;       /* node.h */
struct controller; /* controller.h */

/* What every handler gets as `arg`. */
struct plugin {
    const char *driver_name, *node_id;
    struct node *node;             /* NULL: not started with --node */
    struct controller *controller; /* NULL: not started with --controller */
    struct log *log;
    /* Whether the plugin can do its work; false: `err` says what is missing. */
    bool (*ready)(const struct plugin *p, struct err *err);
};

#define METHOD(service, Name, name, fn, seconds)                                                 \
    {                                                                                            \
        "/csi.v1." service "/" #Name, PB_OF(name##_request), PB_OF(name##_response), fn, seconds \
    }

extern const struct rpc_method identity_methods[], controller_methods[], node_methods[];
extern const size_t n_identity_methods, n_controller_methods, n_node_methods;

/* Every method of the services that `p` has; the caller frees the array. */
const struct rpc_method **service_methods(const struct plugin *p, size_t *ret_n);

#endif
