/* The members that every object of Kubernetes has. Each is NULL where it is absent or no string. */
#ifndef SAMPAN_OPERATOR_OBJECT_H
#define SAMPAN_OPERATOR_OBJECT_H

#include <stdbool.h>

#include "json.h"
#include "kinds.h"

const char *object_name(const struct json *o);
const char *object_namespace(const struct json *o);
const char *object_uid(const struct json *o);
const char *object_version(const struct json *o); /* metadata.resourceVersion */
const char *object_label(const struct json *o, const char *key);
const char *object_annotation(const struct json *o, const char *key);
bool object_is_deleted(const struct json *o); /* has a deletionTimestamp: waits for finalizers */
bool object_is_managed(const struct json *o); /* has our label */

/* What objects are listed by as if it were a label; no label's key begins like these. */
#define MARK_NAME ":name" /* metadata.name, whatever the namespace */
#define MARK_USES ":uses" /* the name of a SampleSet that a job's spec names, in any namespace */
/* The names that MARK_USES finds the object by; each once. */
void object_uses(const struct json *o, void (*add)(void *arg, const char *name), void *arg);

/* By namespace and name. */
int object_compare(const struct json *a, const struct json *b);
/* Is it in `ns` (NULL: any) and has the label or mark key=value (key NULL: any object; value NULL:
 * any)? */
bool object_matches(const struct json *o, const char *ns, const char *key, const char *value);

#endif
