/* The Cache Runtime Servers of a set: `sampan serve`, one a cache node, as a StatefulSet with its
 * service and token. */
#ifndef SAMPAN_OPERATOR_BUILD_RUNTIME_H
#define SAMPAN_OPERATOR_BUILD_RUNTIME_H

#include "sampleset-internal.h"

#define RUNTIME_PORT       7716
#define RUNTIME_POD_LABEL  "sampan.io/runtime" /* value: the StatefulSet's name */
#define RUNTIME_TOKEN_NAME "token"             /* suffix of the Secret, and its key */

char *build_token_name(const struct set_plan *p); /* of the Secret; the caller frees */

/* Each is `members` of a child. */
void build_token(const struct set_plan *p, struct bytes *out);
void build_service(const struct set_plan *p, struct bytes *out);
void build_statefulset(const struct set_plan *p, struct bytes *out);

#endif
