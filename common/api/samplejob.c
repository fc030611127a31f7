#include "samplejob.h"

static const struct api_field sync_fields[] = {
    API_FIELD("source", API_STRING, samplejob_sync, source,
              "URI to copy from; without it, the source of the set.", .max = 4096),
    API_FIELD("destination", API_STRING, samplejob_sync, destination,
              "URI to copy to, or a folder of the set; without it, the destination of the set.",
              .max = 4096),
    API_FIELD("start", API_STRING, samplejob_sync, start, "The first key that is copied.",
              .max = 4096),
    API_FIELD("end", API_STRING, samplejob_sync, end, "The last key that is copied.", .max = 4096),
    API_FIELD("threads", API_INT, samplejob_sync, threads, "How many are copied at once.",
              .max = 1024),
    API_FIELD("http-port", API_INT, samplejob_sync, http_port,
              "Accepted from older files; it means nothing here.", .max = 65535),
    API_FIELD("update", API_BOOL, samplejob_sync, update,
              "Copy again what is newer at the source."),
    API_FIELD("force-update", API_BOOL, samplejob_sync, force_update, "Copy again all there is."),
    API_FIELD("perms", API_BOOL, samplejob_sync, perms, "Keep owner and mode."),
    API_FIELD("dirs", API_BOOL, samplejob_sync, dirs, "Copy folders that hold nothing, too."),
    API_FIELD("dry", API_BOOL, samplejob_sync, dry, "Say what would be done, and do nothing."),
    API_FIELD("delete-src", API_BOOL, samplejob_sync, delete_src,
              "Remove from the source what has been copied."),
    API_FIELD("delete-dst", API_BOOL, samplejob_sync, delete_dst,
              "Remove from the destination what the source does not have."),
    API_FIELD("include", API_STRING, samplejob_sync, include, "Only keys of this pattern.",
              .max = 4096),
    API_FIELD("exclude", API_STRING, samplejob_sync, exclude, "No keys of this pattern.",
              .max = 4096),
    API_FIELD("manager", API_STRING, samplejob_sync, manager,
              "Accepted from older files; server 0 coordinates.", .max = 1024),
    API_FIELD("worker", API_STRING, samplejob_sync, worker,
              "Accepted from older files; all servers copy.", .max = 4096),
    API_FIELD("bwlimit", API_INT, samplejob_sync, mbit, "Mbit/s of all together; 0: no limit.",
              .max = 10000000),
    API_FIELD("no-https", API_BOOL, samplejob_sync, no_https, "Plain HTTP to the stores."),
};
static const struct api_object sync_options = {.size = sizeof(struct samplejob_sync),
                                               .doc = "What to copy, and how.",
                                               .fields = sync_fields,
                                               .n_fields = API_COUNT(sync_fields)};

static const struct api_field strategy_fields[] = {
    API_FIELD("strategyName", API_ENUM, samplejob_strategy, name, "How samples are dealt.",
              .choices = "sequence|random|hash|local"),
};
static const struct api_object strategy = {.size = sizeof(struct samplejob_strategy),
                                           .doc = "How samples are dealt to partitions.",
                                           .fields = strategy_fields,
                                           .n_fields = API_COUNT(strategy_fields)};

static const struct api_field warmup_fields[] = {
    API_FIELD("paths", API_STRINGS, samplejob_warmup, paths,
              "Files and folders of the set; without any, all of it.", .max = 100000),
    API_FIELD("partitions", API_INT, samplejob_warmup, partitions,
              "Over how many partitions; without it, those of the set.", .max = 1000),
    API_FIELD("strategyName", API_ENUM, samplejob_warmup, strategy,
              "How samples are dealt to partitions.", .choices = "sequence|random|hash|local"),
    API_FIELD("strategy", API_OBJECT, samplejob_warmup, nested,
              "The same, in the form that the servers' protocol has.", .object = &strategy),
    API_FIELD("sampler", API_STRING, samplejob_warmup, sampler,
              "The order of reading, as `sampan warmup --sampler` takes it.", .max = 1024),
    API_FIELD("file", API_STRING, samplejob_warmup, file,
              "A file of the set with a path a line, in place of paths.", .max = 4096),
    API_FIELD("threads", API_INT, samplejob_warmup, threads,
              "How many samples are fetched at once on a node.", .max = 1024),
    API_FIELD("verify", API_BOOL, samplejob_warmup, verify, "Read all back and check its sums."),
};
static const struct api_object warmup = {.size = sizeof(struct samplejob_warmup),
                                         .doc = "What to make local, and where.",
                                         .fields = warmup_fields,
                                         .n_fields = API_COUNT(warmup_fields)};

static const struct api_field rmr_fields[] = {
    API_FIELD("paths", API_STRINGS, samplejob_rmr, paths, "Files and folders of the set.",
              API_REQUIRED, .min = 1, .max = 100000),
    API_FIELD("skipTrash", API_BOOL, samplejob_rmr, skip_trash,
              "Remove for good, not into the trash for a day."),
};
static const struct api_object rmr = {.size = sizeof(struct samplejob_rmr),
                                      .doc = "What to remove from the source.",
                                      .fields = rmr_fields,
                                      .n_fields = API_COUNT(rmr_fields)};

static const struct api_field clear_fields[] = {
    API_FIELD("paths", API_STRINGS, samplejob_clear, paths,
              "Files and folders of the set, or cache folders; without any, all that is cached.",
              .max = 100000),
};
static const struct api_object clear = {.size = sizeof(struct samplejob_clear),
                                        .doc = "Which local copies to drop.",
                                        .fields = clear_fields,
                                        .n_fields = API_COUNT(clear_fields)};

static const struct api_field evict_fields[] = {
    API_FIELD("olderThan", API_DURATION, samplejob_evict, older_than, "Samples of this age."),
    API_FIELD("unusedFor", API_DURATION, samplejob_evict, unused_for,
              "Samples that nobody has read for so long."),
    API_FIELD("toSize", API_BYTES, samplejob_evict, to_size,
              "Until no more than this is left, the least used first."),
    API_FIELD("from", API_ENUM, samplejob_evict, from,
              "cache: local copies; store: the samples themselves.", .choices = "cache|store",
              .dflt = "cache"),
    API_FIELD("dry", API_BOOL, samplejob_evict, dry,
              "Refused when true, rather than passed over: an evict cannot only say what it would "
              "do."),
};
static const struct api_rule evict_rules[] = {
    {"[has(self.olderThan), has(self.unusedFor), has(self.toSize)].filter(x, x).size() == 1",
     "give exactly one of olderThan, unusedFor and toSize"},
    {"!has(self.dry) || !self.dry", SAMPLEJOB_NO_DRY_EVICT},
};
static const struct api_object evict = {.size = sizeof(struct samplejob_evict),
                                        .doc = "Which old samples to retire.",
                                        .fields = evict_fields,
                                        .n_fields = API_COUNT(evict_fields),
                                        .rules = evict_rules,
                                        .n_rules = API_COUNT(evict_rules)};

static const struct api_field spec_fields[] = {
    API_FIELD("type", API_ENUM, samplejob_spec, type, "What to do.", API_REQUIRED | API_FIXED,
              .choices = "sync|warmup|rmr|clear|evict|scan",
              .why = "type cannot be changed: make another job"),
    API_FIELD("sampleSetRef", API_OBJECT, samplejob_spec, set, "The set to work on.", API_FIXED,
              .object = &api_ref, .why = "sampleSetRef cannot be changed: make another job"),
    API_FIELD("sampleset", API_STRING, samplejob_spec, sample_set,
              "The set to work on, by its name alone, as older files have it.", .max = 253),
    API_FIELD("secretRef", API_OBJECT, samplejob_spec, secret,
              "Keys of the stores between which is copied.", .object = &api_ref),
    API_FIELD("syncOptions", API_OBJECT, samplejob_spec, sync, "For type sync.",
              .object = &sync_options),
    API_FIELD("warmupOptions", API_OBJECT, samplejob_spec, warmup, "For type warmup.",
              .object = &warmup),
    API_FIELD("rmrOptions", API_OBJECT, samplejob_spec, rmr, "For type rmr.", .object = &rmr),
    API_FIELD("clearOptions", API_OBJECT, samplejob_spec, clear, "For type clear.",
              .object = &clear),
    API_FIELD("evictOptions", API_OBJECT, samplejob_spec, evict, "For type evict.",
              .object = &evict),
    API_FIELD("terminate", API_BOOL, samplejob_spec, terminate,
              "Stop this job, whatever it is doing.", .dflt = "false"),
    API_FIELD("schedule", API_OBJECT, samplejob_spec, schedule, "Do it again by the clock.",
              .object = &api_schedule),
    API_FIELD("dependsOn", API_STRINGS, samplejob_spec, depends_on,
              "Jobs of this namespace that must have succeeded before.", .max = 64),
    API_FIELD("ttlSecondsAfterFinished", API_INT, samplejob_spec, ttl_s,
              "The job is deleted so long after its end; -1: never.", API_QUIET, .dflt = "-1",
              .min = -1, .max = 1ll << 32),
    API_FIELD("backoffLimit", API_INT, samplejob_spec, retries,
              "How often it is tried again after a failure.", .dflt = "0", .max = 100),
};
static const struct api_rule spec_rules[] = {
    {"has(self.sampleSetRef) != has(self.sampleset)", "give one of sampleSetRef and sampleset"},
    {"self.type != 'rmr' || has(self.rmrOptions)", "type rmr wants rmrOptions"},
    {"self.type != 'evict' || has(self.evictOptions)", "type evict wants evictOptions"},
};
static const struct api_object spec = {.size = sizeof(struct samplejob_spec),
                                       .doc = "What is to be done.",
                                       .fields = spec_fields,
                                       .n_fields = API_COUNT(spec_fields),
                                       .rules = spec_rules,
                                       .n_rules = API_COUNT(spec_rules)};

static const struct api_field part_fields[] = {
    API_FIELD("partition", API_INT, samplejob_part, partition, "Which partition, from 0.",
              API_REQUIRED),
    API_FIELD("state", API_STRING, samplejob_part, state, "What its server says."),
    API_FIELD("message", API_STRING, samplejob_part, message, "Why it failed."),
    API_FIELD("items", API_INT, samplejob_part, items, "Done."),
    API_FIELD("total", API_INT, samplejob_part, total, "To do."),
    API_FIELD("bytes", API_BYTES, samplejob_part, bytes, "Bytes of those done."),
};
static const struct api_object part = {.size = sizeof(struct samplejob_part),
                                       .doc = "One partition's share.",
                                       .fields = part_fields,
                                       .n_fields = API_COUNT(part_fields)};

static const struct api_field run_fields[] = {
    API_FIELD("name", API_STRING, samplejob_run, name, "Its id with the servers.", API_REQUIRED),
    API_FIELD("phase", API_STRING, samplejob_run, phase, "How it ended, or stands."),
    API_FIELD("startTime", API_TIME, samplejob_run, started, "When it began."),
    API_FIELD("completionTime", API_TIME, samplejob_run, ended, "When it ended."),
    API_FIELD("message", API_STRING, samplejob_run, message, "Why it failed."),
};
static const struct api_object run = {.size = sizeof(struct samplejob_run),
                                      .doc = "One run by the clock.",
                                      .fields = run_fields,
                                      .n_fields = API_COUNT(run_fields)};

static const struct api_field status_fields[] = {
    API_FIELD("phase", API_ENUM, samplejob_status, phase, "The state in one word.",
              .choices = "|Waiting|Pending|Running|Scheduled|Suspended|Succeeded|Failed|Cancelled"),
    API_FIELD("sampleSet", API_STRING, samplejob_status, set,
              "The set that it works on, by whichever field the spec names it."),
    API_FIELD("jobName", API_STRING, samplejob_status, job, "Its id with the servers."),
    API_FIELD("progress", API_STRING, samplejob_status, progress, "How far it is, for people."),
    API_FIELD("message", API_STRING, samplejob_status, message, "Why it waits or failed."),
    API_FIELD("startTime", API_TIME, samplejob_status, started, "When it began."),
    API_FIELD("completionTime", API_TIME, samplejob_status, ended, "When it ended."),
    API_FIELD("nextScheduleTime", API_TIME, samplejob_status, next, "When it runs next."),
    API_FIELD("lastScheduleTime", API_TIME, samplejob_status, last_run, "When it ran last."),
    API_FIELD("lastSuccessfulTime", API_TIME, samplejob_status, last_success,
              "When it succeeded last."),
    API_FIELD("partitions", API_LIST, samplejob_status, parts, "How far each partition is.",
              .object = &part, .list_key = "partition"),
    API_FIELD("runs", API_LIST, samplejob_status, runs, "The last runs, the newest first.",
              .object = &run, .list_key = "name"),
    API_FIELD("observedGeneration", API_INT, samplejob_status, generation,
              "The metadata.generation that this status is of."),
    API_FIELD("conditions", API_LIST, samplejob_status, conditions, "What holds.",
              .object = &api_condition, .list_key = "type"),
};
static const struct api_object status = {.size = sizeof(struct samplejob_status),
                                         .doc = "How it stands.",
                                         .fields = status_fields,
                                         .n_fields = API_COUNT(status_fields)};

static const struct api_column columns[] = {
    {"TYPE", "string", ".spec.type", "What it does", 0},
    {"SET", "string", ".status.sampleSet", "The set it works on", 0},
    {"PHASE", "string", ".status.phase", "The state in one word", 0},
    {"PROGRESS", "string", ".status.progress", "How far it is", 0},
    {"AGE", "date", ".metadata.creationTimestamp", "Since when it exists", 0},
    {"NEXT", "string", ".status.nextScheduleTime", "When it runs next", 1},
    {"MESSAGE", "string", ".status.message", "Why it waits or failed", 1},
};

const struct api_kind api_samplejob = {
    .group = API_GROUP,
    .version = "v1alpha1",
    .kind = "SampleJob",
    .plural = "samplejobs",
    .singular = "samplejob",
    .short_name = "sj",
    .doc = "One piece of work on a SampleSet, or one that comes again by the clock.",
    .spec = &spec,
    .status = &status,
    .columns = columns,
    .n_columns = API_COUNT(columns),
};
