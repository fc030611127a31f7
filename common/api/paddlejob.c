#include "paddlejob.h"

static const struct api_field role_fields[] = {
    API_FIELD("replicas", API_INT, paddlejob_role, replicas, "How many pods.", API_REQUIRED,
              .max = 10000),
    API_FIELD("requests", API_INT, paddlejob_role, requests, "The fewest pods that can train.",
              API_QUIET, .dflt = "-1", .min = -1, .max = 10000),
    API_FIELD("limits", API_INT, paddlejob_role, limits, "The most pods that are of use.",
              API_QUIET, .dflt = "-1", .min = -1, .max = 10000),
    API_FIELD("template", API_ANY, paddlejob_role, template, "The pods, as in a Deployment.",
              .schema = api_schema_pod_template),
};
static const struct api_object role = {.size = sizeof(struct paddlejob_role),
                                       .doc = "Pods of one role.",
                                       .fields = role_fields,
                                       .n_fields = API_COUNT(role_fields)};

static const struct api_field scheduling_fields[] = {
    API_FIELD("minAvailable", API_INT, paddlejob_scheduling, min_available,
              "Pods that must be there at once; without it, all.", API_QUIET, .dflt = "-1",
              .min = -1, .max = 30000),
    API_FIELD("queue", API_STRING, paddlejob_scheduling, queue, "Volcano's queue.", .max = 253),
    API_FIELD("priorityClass", API_STRING, paddlejob_scheduling, priority,
              "Priority class of the group.", .max = 253),
    API_FIELD("minResources", API_ANY, paddlejob_scheduling, min_resources,
              "What must be free at once; without it, the sum of the pods' requests.",
              .schema = api_schema_quantities),
};
static const struct api_object scheduling = {.size = sizeof(struct paddlejob_scheduling),
                                             .doc = "Scheduling of all pods as one, with Volcano.",
                                             .fields = scheduling_fields,
                                             .n_fields = API_COUNT(scheduling_fields)};

static const struct api_field output_fields[] = {
    API_FIELD("sampleSetRef", API_OBJECT, paddlejob_output, set,
              "A SampleSet whose store takes the results.", .object = &api_ref),
    API_FIELD("persistentVolumeClaim", API_OBJECT, paddlejob_output, claim,
              "A claim that takes the results.", .object = &api_ref),
    API_FIELD("mountPath", API_STRING, paddlejob_output, mount_path,
              "Where it is in the first container of each pod.", API_REQUIRED, .min = 1,
              .max = 4096, .pattern = "^/"),
};
static const struct api_rule output_rules[] = {
    {"has(self.sampleSetRef) != has(self.persistentVolumeClaim)",
     "give one of sampleSetRef and persistentVolumeClaim"},
};
static const struct api_object output = {.size = sizeof(struct paddlejob_output),
                                         .doc = "Where checkpoints and logs go.",
                                         .fields = output_fields,
                                         .n_fields = API_COUNT(output_fields),
                                         .rules = output_rules,
                                         .n_rules = API_COUNT(output_rules)};

static const struct api_field spec_fields[] = {
    API_FIELD("cleanPodPolicy", API_ENUM, paddlejob_spec, clean,
              "When pods are deleted; without it, when the job has completed.",
              .choices = "|Always|Never|OnFailure|OnCompletion"),
    API_FIELD("schedulingPolicy", API_OBJECT, paddlejob_spec, scheduling,
              "Scheduling of all pods as one, with Volcano.", .object = &scheduling),
    API_FIELD("intranet", API_ENUM, paddlejob_spec, intranet,
              "How pods reach each other; without it, by their addresses.",
              .choices = "|PodIP|Service|Host"),
    API_FIELD("withGloo", API_INT, paddlejob_spec, gloo,
              "Gloo: 0 for none, 1 for workers, 2 for servers too.", .max = 2),
    API_FIELD("sampleSetRef", API_OBJECT, paddlejob_spec, set,
              "The samples: they appear in each pod, and worker i runs where partition i is kept.",
              .object = &api_set_ref),
    API_FIELD(
        "placement", API_ENUM, paddlejob_spec, placement,
        "Whether a worker waits for the node of its partition (Required), would rather have it "
        "(Preferred), or does not mind (None); without it, Required where that node can hold it.",
        .choices = "Required|Preferred|None"),
    API_FIELD("startPolicy", API_ENUM, paddlejob_spec, start_policy,
              "Ready: wait until the samples are ready. Immediate: do not.",
              .choices = "Ready|Immediate", .dflt = "Ready"),
    API_FIELD("sampler", API_STRING, paddlejob_spec, sampler,
              "The order of reading, where it does not follow from the replicas and their GPUs.",
              .max = 1024),
    API_FIELD("output", API_OBJECT, paddlejob_spec, output, "Where checkpoints and logs go.",
              .object = &output),
    API_FIELD("ps", API_OBJECT, paddlejob_spec, ps, "Parameter servers.", .object = &role),
    API_FIELD("worker", API_OBJECT, paddlejob_spec, worker, "Workers.", .object = &role),
    API_FIELD("heter", API_OBJECT, paddlejob_spec, heter, "Workers of other hardware.",
              .object = &role),
    API_FIELD("elastic", API_INT, paddlejob_spec, elastic,
              "Set: pods may come and go while it trains. 0: one whose training fails ends, and is "
              "started again; 1: its launcher starts the training again.",
              API_QUIET, .dflt = "-1", .min = -1, .max = 100),
    API_FIELD("backoffLimit", API_INT, paddlejob_spec, backoff_limit,
              "How often failed pods are made anew before the job has failed.", .dflt = "0",
              .max = 10000),
    API_FIELD("ttlSecondsAfterFinished", API_INT, paddlejob_spec, ttl_s,
              "The job is deleted so long after its end; -1: never.", API_QUIET, .dflt = "-1",
              .min = -1, .max = 1ll << 32),
    API_FIELD("suspend", API_BOOL, paddlejob_spec, suspend,
              "While true there are no pods; a queue decides when it is false.", .dflt = "false"),
};
static const struct api_rule spec_rules[] = {
    {"has(self.worker) || has(self.ps)", "give worker, or ps and worker"},
    {"!has(self.sampleSetRef) || has(self.sampleSetRef.mountPath)",
     "sampleSetRef wants a mountPath"},
};
static const struct api_object spec = {.size = sizeof(struct paddlejob_spec),
                                       .doc = "What is to be trained, and on how much.",
                                       .fields = spec_fields,
                                       .n_fields = API_COUNT(spec_fields),
                                       .rules = spec_rules,
                                       .n_rules = API_COUNT(spec_rules)};

static const struct api_field counts_fields[] = {
    API_FIELD("pending", API_INT, paddlejob_counts, pending, "Not yet on a node."),
    API_FIELD("starting", API_INT, paddlejob_counts, starting, "On a node, not yet ready."),
    API_FIELD("running", API_INT, paddlejob_counts, running, "All containers are ready."),
    API_FIELD("failed", API_INT, paddlejob_counts, failed, "Ended in failure."),
    API_FIELD("succeeded", API_INT, paddlejob_counts, succeeded, "Ended well."),
    API_FIELD("unknown", API_INT, paddlejob_counts, unknown, "Their node does not answer."),
    API_FIELD("refs", API_ANY, paddlejob_counts, refs, "The pods.", .schema = api_schema_refs),
};
static const struct api_object counts = {.size = sizeof(struct paddlejob_counts),
                                         .doc = "Pods of one role.",
                                         .fields = counts_fields,
                                         .n_fields = API_COUNT(counts_fields)};

static const struct api_field status_fields[] = {
    API_FIELD(
        "phase", API_ENUM, paddlejob_status, phase, "The state in one word.",
        .choices =
            "|Pending|Starting|Running|Scaling|Aborting|Aborted|Restarting|Completing|Completed|"
            "Terminating|Terminated|Failed|Succeed|Suspended|Unknown"),
    API_FIELD("mode", API_ENUM, paddlejob_status, mode, "How it trains.",
              .choices = "|PS|Collective|Single"),
    API_FIELD("message", API_STRING, paddlejob_status, message, "Why it waits or failed."),
    API_FIELD("ps", API_OBJECT, paddlejob_status, ps, "Parameter servers.", .object = &counts),
    API_FIELD("worker", API_OBJECT, paddlejob_status, worker, "Workers.", .object = &counts),
    API_FIELD("heter", API_OBJECT, paddlejob_status, heter, "Workers of other hardware.",
              .object = &counts),
    API_FIELD("elastic", API_ENUM, paddlejob_status, elastic, "How a change of size stands.",
              .choices = "NONE|DOING|DONE|ERROR"),
    API_FIELD("restarts", API_INT, paddlejob_status, restarts, "Pods made anew so far."),
    API_FIELD("startTime", API_TIME, paddlejob_status, started, "When all pods ran first."),
    API_FIELD("completionTime", API_TIME, paddlejob_status, ended, "When it ended."),
    API_FIELD("observedGeneration", API_INT, paddlejob_status, generation,
              "The metadata.generation that this status is of."),
    API_FIELD("conditions", API_LIST, paddlejob_status, conditions, "What holds.",
              .object = &api_condition, .list_key = "type"),
};
static const struct api_object status = {.size = sizeof(struct paddlejob_status),
                                         .doc = "How it stands.",
                                         .fields = status_fields,
                                         .n_fields = API_COUNT(status_fields)};

static const struct api_column columns[] = {
    {"STATUS", "string", ".status.phase", "The state in one word", 0},
    {"MODE", "string", ".status.mode", "How it trains", 0},
    {"AGE", "date", ".metadata.creationTimestamp", "Since when it exists", 0},
    {"MESSAGE", "string", ".status.message", "Why it waits or failed", 1},
};

const struct api_kind api_paddlejob = {
    .group = API_GROUP,
    .version = "v1",
    .kind = "PaddleJob",
    .plural = "paddlejobs",
    .singular = "paddlejob",
    .short_name = "pdj",
    .doc = "A training of parameter servers and workers, or of workers alone.",
    .spec = &spec,
    .status = &status,
    .columns = columns,
    .n_columns = API_COUNT(columns),
};
