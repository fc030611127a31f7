/* The key from which the tokens of runtime servers follow (parts.h). */
#ifndef SAMPAN_OPERATOR_KEY_H
#define SAMPAN_OPERATOR_KEY_H

#include "kube.h"

/* From a file. */
int key_from_file(struct secret *ret, const char *file, struct err *err);
/* From the Secret `name` of namespace `ns`, which is made where there is none. */
int key_from_secret(struct secret *ret, struct kube_client *client, const char *ns,
                    const char *name, struct err *err);

#endif
