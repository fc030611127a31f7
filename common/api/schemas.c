/* Parts of objects that Kubernetes itself defines, as lines of YAML for the definitions. Lists have
 * bounds, so that rules over them have a price that the API server accepts. */
#include "parts.h"

#define TEXT "{type: string, maxLength: 317}"
#define REQUIREMENTS                                                                               \
    "{type: array, maxItems: 32, items: {type: object, required: [key, operator], properties: "    \
    "{key: {type: string, description: \"The label.\", maxLength: 317}, operator: {type: string, " \
    "description: \"How it compares to the values.\", enum: [In, NotIn, Exists, DoesNotExist, "    \
    "Gt, Lt]}, values: {type: array, description: \"What it is compared to.\", maxItems: 256, "    \
    "items: " TEXT "}}}}"
#define TERM                                                                                     \
    "{type: object, properties: {matchExpressions: " REQUIREMENTS ", matchFields: " REQUIREMENTS \
    "}}"
#define SELECTOR                                                                                \
    "{type: object, description: \"A node must match one of the terms.\", properties: "         \
    "{nodeSelectorTerms: {type: array, description: \"Terms: a node must match all of one.\", " \
    "maxItems: 32, items: " TERM "}}}"

const char api_schema_node_affinity[] =
    "type: object\n"
    "properties:\n"
    "  required: " SELECTOR "\n"
    "  requiredDuringSchedulingIgnoredDuringExecution: " SELECTOR "\n"
    "  preferredDuringSchedulingIgnoredDuringExecution: {type: array, description: \"Better "
    "nodes.\", maxItems: 32, items: {type: object, properties: {weight: {type: integer, minimum: "
    "1, maximum: 100}, preference: " TERM "}}}\n";

const char api_schema_tolerations[] =
    "type: array\n"
    "maxItems: 64\n"
    "items:\n"
    "  type: object\n"
    "  properties:\n"
    "    key: {type: string, description: \"The taint; without it, all.\"}\n"
    "    operator: {type: string, description: \"Equal or Exists.\", enum: [Equal, Exists]}\n"
    "    value: {type: string, description: \"The taint's value.\"}\n"
    "    effect: {type: string, description: \"The taint's effect; without it, all.\", enum: "
    "[\"\", NoSchedule, PreferNoSchedule, NoExecute]}\n"
    "    tolerationSeconds: {type: integer, format: int64, description: \"For how long.\"}\n";

#define QUANTITIES "{type: object, additionalProperties: {x-kubernetes-int-or-string: true}}"
const char api_schema_quantities[] = "type: object\n"
                                     "additionalProperties: {x-kubernetes-int-or-string: true}\n";
const char api_schema_resources[] = "type: object\n"
                                    "properties:\n"
                                    "  requests: " QUANTITIES "\n"
                                    "  limits: " QUANTITIES "\n";

/* What is in it, the API server checks when a pod is made of it. */
const char api_schema_pod_template[] =
    "type: object\n"
    "properties:\n"
    "  metadata: {type: object, description: \"Labels and annotations of the pods.\", "
    "x-kubernetes-preserve-unknown-fields: true}\n"
    "  spec: {type: object, description: \"As `kubectl explain pod.spec` says.\", "
    "x-kubernetes-preserve-unknown-fields: true}\n";

const char api_schema_options[] = "type: object\n"
                                  "x-kubernetes-preserve-unknown-fields: true\n";

const char api_schema_refs[] =
    "type: array\n"
    "items: {type: object, x-kubernetes-preserve-unknown-fields: true}\n";
