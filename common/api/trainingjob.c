#include "trainingjob.h"

static const struct api_field role_fields[] = {
    API_FIELD("entrypoint", API_STRING, trainingjob_role, entrypoint,
              "The command, as a shell takes it.", .max = 65536),
    API_FIELD("workspace", API_STRING, trainingjob_role, workspace,
              "The folder in which it is run.", .max = 4096),
    API_FIELD("min-instance", API_INT, trainingjob_role, min,
              "The fewest pods: it starts with them.", .dflt = "1", .min = 1, .max = 10000),
    API_FIELD("max-instance", API_INT, trainingjob_role, max,
              "The most pods that are of use; without it, as many as the fewest.", API_QUIET,
              .dflt = "-1", .min = -1, .max = 10000),
    API_FIELD("resources", API_ANY, trainingjob_role, resources, "Requests and limits of a pod."),
    API_FIELD("envs", API_ANY, trainingjob_role, envs, "More environment, by name."),
    API_FIELD("tolerations", API_ANY, trainingjob_role, tolerations, "As in a pod."),
    API_FIELD("node_selector", API_ANY, trainingjob_role, node_selector, "As in a pod."),
    API_FIELD("affinity", API_ANY, trainingjob_role, affinity, "As in a pod."),
    API_FIELD("liveness_probe", API_ANY, trainingjob_role, liveness, "As in a container."),
    API_FIELD("readiness_probe", API_ANY, trainingjob_role, readiness, "As in a container."),
    API_FIELD("grace_period_seconds", API_INT, trainingjob_role, grace_s,
              "How long a pod that is stopped may take.", API_QUIET, .dflt = "-1", .min = -1,
              .max = 86400),
    API_FIELD("pre_stop_cmd", API_STRING, trainingjob_role, pre_stop,
              "A command before a pod is stopped.", .max = 65536),
};
static const struct api_rule role_rules[] = {
    {"!has(self.max__dash__instance) || self.max__dash__instance < 0 || "
     "self.max__dash__instance >= self.min__dash__instance",
     "max-instance must not be below min-instance"},
};
static const struct api_object role = {.size = sizeof(struct trainingjob_role),
                                       .doc = "Pods of one role.",
                                       .fields = role_fields,
                                       .n_fields = API_COUNT(role_fields),
                                       .rules = role_rules,
                                       .n_rules = API_COUNT(role_rules)};

static const struct api_field master_fields[] = {
    API_FIELD("etcd-endpoint", API_STRING, trainingjob_master, etcd,
              "An etcd to use; without it the master has its own.", .max = 4096),
    API_FIELD("image", API_STRING, trainingjob_master, image,
              "Image of that etcd; without it, the job's.", .max = 1024),
    API_FIELD("resources", API_ANY, trainingjob_master, resources, "Requests and limits."),
};
static const struct api_object master = {.size = sizeof(struct trainingjob_master),
                                         .doc = "The master of a fault tolerant job.",
                                         .fields = master_fields,
                                         .n_fields = API_COUNT(master_fields)};

static const struct api_field board_fields[] = {
    API_FIELD("image", API_STRING, trainingjob_board, image, "Without it, the job's image.",
              .max = 1024),
    API_FIELD("logdir", API_STRING, trainingjob_board, logdir, "Where the training writes to.",
              .dflt = "/logs", .max = 4096),
    API_FIELD("resources", API_ANY, trainingjob_board, resources, "Requests and limits."),
};
static const struct api_object board = {.size = sizeof(struct trainingjob_board),
                                        .doc = "The tensorboard of a job of style tensor.",
                                        .fields = board_fields,
                                        .n_fields = API_COUNT(board_fields)};

static const struct api_field serving_fields[] = {
    API_FIELD("image", API_STRING, trainingjob_serving, image, "The image with the trained model.",
              API_REQUIRED, .min = 1, .max = 1024),
    API_FIELD("entrypoint", API_STRING, trainingjob_serving, entrypoint,
              "The command, as a shell takes it; without it, the image's own.", .max = 65536),
    API_FIELD("replicas", API_INT, trainingjob_serving, replicas, "How many answer.", .dflt = "1",
              .min = 1, .max = 10000),
    API_FIELD("port", API_INT, trainingjob_serving, port, "Where they answer.", .dflt = "8080",
              .min = 1, .max = 65535),
    API_FIELD("resources", API_ANY, trainingjob_serving, resources, "Requests and limits."),
};
static const struct api_object serving = {.size = sizeof(struct trainingjob_serving),
                                          .doc = "Servers of the trained model.",
                                          .fields = serving_fields,
                                          .n_fields = API_COUNT(serving_fields)};

static const struct api_field spec_fields[] = {
    API_FIELD("image", API_STRING, trainingjob_spec, image, "The image of all pods.", API_REQUIRED,
              .min = 1, .max = 1024),
    API_FIELD("style", API_ENUM, trainingjob_spec, style,
              "edl: a Job of trainers and a ReplicaSet of servers. tensor: a ReplicaSet and a "
              "Service for each task.",
              .choices = "edl|tensor", .dflt = "edl"),
    API_FIELD("port", API_INT, trainingjob_spec, port, "The first port of servers.", .dflt = "7164",
              .min = 1, .max = 65535),
    API_FIELD("ports_num", API_INT, trainingjob_spec, ports, "How many ports.", .dflt = "1",
              .min = 1, .max = 1000),
    API_FIELD("ports_num_for_sparse", API_INT, trainingjob_spec, sparse_ports,
              "How many more, for sparse parameters.", .dflt = "1", .max = 1000),
    API_FIELD("passes", API_INT, trainingjob_spec, passes, "Passes over the samples.", .dflt = "1",
              .min = 1, .max = 1000000),
    API_FIELD("fault_tolerant", API_BOOL, trainingjob_spec, fault_tolerant,
              "A master deals out tasks, and trainers may come and go.", .dflt = "false"),
    API_FIELD("local_job", API_BOOL, trainingjob_spec, local, "Trainers without servers.",
              .dflt = "false"),
    API_FIELD("host_network", API_BOOL, trainingjob_spec, host_network,
              "Pods are on the network of their nodes.", .dflt = "false"),
    API_FIELD("volumes", API_ANY, trainingjob_spec, volumes, "As in a pod."),
    API_FIELD("VolumeMounts", API_ANY, trainingjob_spec, volume_mounts, "As in a container."),
    API_FIELD("imagePullSecrets", API_ANY, trainingjob_spec, image_pull_secrets, "As in a pod."),
    API_FIELD("master", API_OBJECT, trainingjob_spec, master, "The master.", .object = &master),
    API_FIELD("pserver", API_OBJECT, trainingjob_spec, pserver, "Parameter servers.",
              .object = &role),
    API_FIELD("trainer", API_OBJECT, trainingjob_spec, trainer, "Trainers.", API_REQUIRED,
              .object = &role),
    API_FIELD("tensorboard", API_OBJECT, trainingjob_spec, board, "The one tensorboard.",
              .object = &board),
    API_FIELD("serving", API_OBJECT, trainingjob_spec, serving, "Servers of the trained model.",
              .object = &serving),
};
static const struct api_object spec = {.size = sizeof(struct trainingjob_spec),
                                       .doc = "What is to be trained, and on how much.",
                                       .fields = spec_fields,
                                       .n_fields = API_COUNT(spec_fields)};

static const struct api_field status_fields[] = {
    API_FIELD("phase", API_ENUM, trainingjob_status, phase, "The state in one word.",
              .choices = "|Creating|Running|Scaling|Succeed|Failed|Timeout"),
    API_FIELD("message", API_STRING, trainingjob_status, message, "Why it waits or failed."),
    API_FIELD("running", API_INT, trainingjob_status, running, "Trainers that run."),
    API_FIELD("succeeded", API_INT, trainingjob_status, succeeded, "Trainers that ended well."),
    API_FIELD("failed", API_INT, trainingjob_status, failed, "Trainers that failed."),
    API_FIELD("parallelism", API_INT, trainingjob_status, parallelism, "Trainers wanted now."),
    API_FIELD("startTime", API_TIME, trainingjob_status, started, "When all ran first."),
    API_FIELD("completionTime", API_TIME, trainingjob_status, ended, "When it ended."),
    API_FIELD("observedGeneration", API_INT, trainingjob_status, generation,
              "The metadata.generation that this status is of."),
    API_FIELD("conditions", API_LIST, trainingjob_status, conditions, "What holds.",
              .object = &api_condition, .list_key = "type"),
};
static const struct api_object status = {.size = sizeof(struct trainingjob_status),
                                         .doc = "How it stands.",
                                         .fields = status_fields,
                                         .n_fields = API_COUNT(status_fields)};

static const struct api_column columns[] = {
    {"STATUS", "string", ".status.phase", "The state in one word", 0},
    {"RUNNING", "integer", ".status.running", "Trainers that run", 0},
    {"AGE", "date", ".metadata.creationTimestamp", "Since when it exists", 0},
};

const struct api_kind api_trainingjob = {
    .group = "paddlepaddle.org",
    .version = "v1",
    .kind = "TrainingJob",
    .plural = "trainingjobs",
    .singular = "trainingjob",
    .short_name = "tj",
    .doc = "Servers and trainers of which the cluster may take and to which it may give pods.",
    .spec = &spec,
    .status = &status,
    .columns = columns,
    .n_columns = API_COUNT(columns),
};
