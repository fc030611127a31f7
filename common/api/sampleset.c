#include "sampleset.h"

#define FROZEN_BOUND "cannot be changed once the volume is bound: delete the set and make it anew"

/* --- spec ------------------------------------------------------------------------------------- */

static const struct api_field source_fields[] = {
    API_FIELD("uri", API_STRING, sampleset_source, uri,
              "Where the samples are: s3://BUCKET.ENDPOINT/PREFIX, bos://, http(s)://, webhdfs://, "
              "hdfs:// "
              "or "
              "file:///FOLDER (a folder of each node).",
              .max = 4096, .pattern = "^[a-z0-9]+://"),
    API_FIELD("persistentVolumeClaim", API_OBJECT, sampleset_source, claim,
              "A claim in this namespace that holds the samples, in place of a URI.",
              .object = &api_ref),
    API_FIELD("path", API_STRING, sampleset_source, claim_path,
              "The folder of the claim that is meant.", .max = 4096),
    API_FIELD("at", API_STRING, sampleset_source, at,
              "The folder of the set below which this source appears, where there are several.",
              .max = 4096),
    API_FIELD("endpoint", API_STRING, sampleset_source, endpoint,
              "URL of the store, where the URI names none.", .max = 2048),
    API_FIELD("region", API_STRING, sampleset_source, region, "Region of the store.", .max = 64),
    API_FIELD("secretRef", API_OBJECT, sampleset_source, secret,
              "Keys of the store: access-key and secret-key.", .object = &api_ref),
};
static const struct api_rule source_rules[] = {
    {"has(self.uri) != has(self.persistentVolumeClaim)",
     "give one of uri and persistentVolumeClaim"},
};
static const struct api_object source = {.size = sizeof(struct sampleset_source),
                                         .doc = "A store of samples.",
                                         .fields = source_fields,
                                         .n_fields = API_COUNT(source_fields),
                                         .rules = source_rules,
                                         .n_rules = API_COUNT(source_rules)};

static const struct api_field level_fields[] = {
    API_FIELD("mediumType", API_ENUM, sampleset_level, medium, "What the folders lie on.",
              API_REQUIRED, .choices = "MEM|SSD|HDD"),
    API_FIELD("path", API_STRING, sampleset_level, path,
              "Folders of the node, absolute, with a colon between them.", API_REQUIRED, .min = 1,
              .max = 4096, .pattern = "^/[^:]*(:/[^:]*)*$"),
    API_FIELD("cacheSize", API_INT, sampleset_level, mib,
              "MiB of all its folders together; without it, what the disk has free.",
              .max = 1ll << 40),
};
static const struct api_object level = {.size = sizeof(struct sampleset_level),
                                        .doc = "A level of the cache.",
                                        .fields = level_fields,
                                        .n_fields = API_COUNT(level_fields)};

static const struct api_field cache_fields[] = {
    API_FIELD("levels", API_LIST, sampleset_cache, levels,
              "From the fastest to the slowest; without any, memory at /dev/shm.", .object = &level,
              .max = 8),
    API_FIELD("reclaim", API_ENUM, sampleset_cache, reclaim,
              "What becomes of the cached samples on the nodes when the set is deleted.",
              .choices = "Delete|Retain", .dflt = "Delete"),
    API_FIELD("memory", API_BYTES, sampleset_cache, memory,
              "The most that the program of a mount may take."),
    API_FIELD("profile", API_ENUM, sampleset_cache, profile,
              "samples: many files read whole; shards: big files read in slices.",
              .choices = "samples|shards", .dflt = "samples"),
};
static const struct api_object cache = {.size = sizeof(struct sampleset_cache),
                                        .doc = "Where nodes keep samples.",
                                        .fields = cache_fields,
                                        .n_fields = API_COUNT(cache_fields)};

static const struct api_field csi_fields[] = {
    API_FIELD("driver", API_ENUM, sampleset_csi, driver,
              "The CSI driver; juicefs is accepted and means sampan.", .choices = "sampan|juicefs",
              .dflt = "sampan"),
    API_FIELD("mountOptions", API_ANY, sampleset_csi, options,
              "Options of the mounts, by name, as `sampan mount` has them.",
              .schema = api_schema_options),
    API_FIELD(
        "juiceFSMountOptions", API_ANY, sampleset_csi, juicefs,
        "Options as JuiceFS names them: taken where they have a counterpart, else a condition says "
        "so.",
        .schema = api_schema_options),
};
static const struct api_object csi = {.size = sizeof(struct sampleset_csi),
                                      .doc = "How pods get the samples.",
                                      .fields = csi_fields,
                                      .n_fields = API_COUNT(csi_fields)};

static const struct api_field sync_fields[] = {
    API_FIELD("destination", API_STRING, sampleset_sync, destination,
              "URI of the store that the samples are copied to, and read from after that.",
              API_REQUIRED, .min = 1, .max = 4096),
    API_FIELD("secretRef", API_OBJECT, sampleset_sync, secret, "Keys of the destination.",
              .object = &api_ref),
    API_FIELD("delete", API_BOOL, sampleset_sync, delete,
              "Remove from the destination what the source no longer has.", .dflt = "false"),
};
static const struct api_object sync_options = {
    .size = sizeof(struct sampleset_sync),
    .doc = "Copies the samples instead of reading them in place.",
    .fields = sync_fields,
    .n_fields = API_COUNT(sync_fields)};

static const struct api_field autoscale_fields[] = {
    API_FIELD("minPartitions", API_INT, sampleset_autoscale, min, "Never fewer.", API_REQUIRED,
              .min = 1, .max = 1000),
    API_FIELD("maxPartitions", API_INT, sampleset_autoscale, max, "Never more.", API_REQUIRED,
              .min = 1, .max = 1000),
    API_FIELD(
        "by", API_ENUM, sampleset_autoscale, by,
        "Capacity: as many as hold the whole set. HitRatio: more while too few reads are local.",
        .choices = "Capacity|HitRatio", .dflt = "Capacity"),
    API_FIELD("hitPercent", API_INT, sampleset_autoscale, hit_percent,
              "The share of local reads to reach.", .dflt = "90", .min = 1, .max = 100),
};
static const struct api_rule autoscale_rules[] = {
    {"self.minPartitions <= self.maxPartitions", "minPartitions must not be above maxPartitions"},
};
static const struct api_object autoscale = {.size = sizeof(struct sampleset_autoscale),
                                            .doc = "Changes partitions by itself.",
                                            .fields = autoscale_fields,
                                            .n_fields = API_COUNT(autoscale_fields),
                                            .rules = autoscale_rules,
                                            .n_rules = API_COUNT(autoscale_rules)};

static const struct api_field runtime_fields[] = {
    API_FIELD("image", API_STRING, sampleset_runtime, image,
              "Image of the servers, in place of the operator's own.", .max = 1024),
    API_FIELD("resources", API_ANY, sampleset_runtime, resources,
              "Requests and limits of a server's container.", .schema = api_schema_resources),
    API_FIELD("serviceAccountName", API_STRING, sampleset_runtime, service_account,
              "Account of the servers' pods.", .max = 253),
    API_FIELD("labels", API_MAP, sampleset_runtime, labels, "More labels of the servers' pods."),
    API_FIELD("annotations", API_MAP, sampleset_runtime, annotations,
              "More annotations of the servers' pods."),
};
static const struct api_object runtime = {.size = sizeof(struct sampleset_runtime),
                                          .doc = "The Cache Runtime Servers.",
                                          .fields = runtime_fields,
                                          .n_fields = API_COUNT(runtime_fields)};

static const struct api_field spec_fields[] = {
    API_FIELD("partitions", API_INT, sampleset_spec, partitions,
              "Over how many nodes the samples are kept. May be changed at any time.", .dflt = "1",
              .min = 1, .max = 1000),
    API_FIELD("source", API_OBJECT, sampleset_spec, source, "Where the samples are.", API_FIXED,
              .object = &source, .why = "source " FROZEN_BOUND),
    API_FIELD("sources", API_LIST, sampleset_spec, sources,
              "Several sources joined into one set, in place of one.", .object = &source,
              .max = 64),
    API_FIELD("secretRef", API_OBJECT, sampleset_spec, secret,
              "Keys of the store: access-key and secret-key; either this or that of the source is "
              "enough.",
              .object = &api_ref),
    API_FIELD("noSync", API_BOOL, sampleset_spec, no_sync,
              "Take the samples as they are: nothing is listed or copied before the set is used.",
              .dflt = "false"),
    API_FIELD("sync", API_OBJECT, sampleset_spec, sync, "Copy the samples to another store first.",
              .object = &sync_options),
    API_FIELD("csi", API_OBJECT, sampleset_spec, csi, "How pods get the samples.", API_FIXED,
              .object = &csi, .why = "csi " FROZEN_BOUND),
    API_FIELD("cache", API_OBJECT, sampleset_spec, cache, "Where nodes keep samples.", API_FIXED,
              .object = &cache, .why = "cache " FROZEN_BOUND),
    API_FIELD("nodeAffinity", API_ANY, sampleset_spec, node_affinity,
              "Which nodes keep samples: {required: {nodeSelectorTerms: [...]}}.", API_FIXED,
              .why = "nodeAffinity " FROZEN_BOUND, .schema = api_schema_node_affinity),
    API_FIELD("nodeSelector", API_MAP, sampleset_spec, node_selector,
              "Labels of the nodes that keep samples."),
    API_FIELD("tolerations", API_ANY, sampleset_spec, tolerations,
              "Taints that the servers may live with, as in a pod.",
              .schema = api_schema_tolerations),
    API_FIELD("version", API_STRING, sampleset_spec, version,
              "Go to this version of the set, and stay there (status.versions names those that are "
              "kept); "
              "without it, the newest.",
              .max = 128),
    API_FIELD("sampler", API_STRING, sampleset_spec, sampler,
              "The order in which jobs read, as `sampan mount --sampler` takes it; without it, "
              "what the job "
              "that uses the set shows.",
              .max = 1024),
    API_FIELD("strategy", API_ENUM, sampleset_spec, strategy,
              "How samples are dealt to partitions.", .choices = "sequence|random|hash|local"),
    API_FIELD("refresh", API_OBJECT, sampleset_spec, refresh,
              "Look at the source again by the clock and publish a new version when it changed.",
              .object = &api_schedule),
    API_FIELD("autoscale", API_OBJECT, sampleset_spec, autoscale,
              "Change partitions by hit ratio or capacity.", .object = &autoscale),
    API_FIELD("runtime", API_OBJECT, sampleset_spec, runtime, "The servers on the cache nodes.",
              .object = &runtime),
    API_FIELD(
        "sharedTo", API_STRINGS, sampleset_spec, shared_to,
        "Namespaces whose jobs may use the set by its name alone; \"*\": all. Absent: all for a "
        "set in paddle-system, else none but its own.",
        .max = 256),
};
static const struct api_rule spec_rules[] = {
    {"has(self.source) != (has(self.sources) && size(self.sources) > 0)",
     "give one of source and sources"},
};
static const struct api_object spec = {.size = sizeof(struct sampleset_spec),
                                       .doc = "What is wanted.",
                                       .fields = spec_fields,
                                       .n_fields = API_COUNT(spec_fields),
                                       .rules = spec_rules,
                                       .n_rules = API_COUNT(spec_rules)};

/* --- status ----------------------------------------------------------------------------------- */

static const struct api_field numbers_fields[] = {
    API_FIELD("totalSize", API_STRING, sampleset_numbers, total, "Bytes of all samples."),
    API_FIELD("totalFiles", API_STRING, sampleset_numbers, files, "How many samples there are."),
    API_FIELD("cachedSize", API_STRING, sampleset_numbers, cached, "Bytes kept on nodes."),
    API_FIELD("diskSize", API_STRING, sampleset_numbers, disk_size, "Size of the cache disks."),
    API_FIELD("diskUsed", API_STRING, sampleset_numbers, disk_used, "What is used of them."),
    API_FIELD("diskAvail", API_STRING, sampleset_numbers, disk_avail, "What is free on them."),
    API_FIELD("diskUsageRate", API_STRING, sampleset_numbers, disk_rate, "Used, in percent."),
    API_FIELD("errorMassage", API_STRING, sampleset_numbers, error,
              "What is wrong with these figures (spelled as it always was)."),
};
static const struct api_object numbers = {.size = sizeof(struct sampleset_numbers),
                                          .doc = "Sizes, for people.",
                                          .fields = numbers_fields,
                                          .n_fields = API_COUNT(numbers_fields)};

static const struct api_field servers_fields[] = {
    API_FIELD("specReplicas", API_INT, sampleset_servers, wanted, "Servers that should be there."),
    API_FIELD("readyReplicas", API_INT, sampleset_servers, ready, "Servers that are ready."),
    API_FIELD("runtimeReady", API_STRING, sampleset_servers, shown, "Both, as READY/WANTED."),
};
static const struct api_object servers = {.size = sizeof(struct sampleset_servers),
                                          .doc = "The Cache Runtime Servers.",
                                          .fields = servers_fields,
                                          .n_fields = API_COUNT(servers_fields)};

static const struct api_field partition_fields[] = {
    API_FIELD("index", API_INT, sampleset_partition, index, "Which partition, from 0.",
              API_REQUIRED),
    API_FIELD("node", API_STRING, sampleset_partition, node, "The node that keeps it."),
    API_FIELD("pod", API_STRING, sampleset_partition, pod, "Its server."),
    API_FIELD("state", API_STRING, sampleset_partition, state,
              "Pending, Warming, Ready, Partial or Lost."),
    API_FIELD("message", API_STRING, sampleset_partition, message, "Why, where it is not Ready."),
    API_FIELD("samples", API_INT, sampleset_partition, samples, "Samples of this partition."),
    API_FIELD("cachedSamples", API_INT, sampleset_partition, cached_samples,
              "Those that are there."),
    API_FIELD("bytes", API_BYTES, sampleset_partition, bytes, "Bytes of this partition."),
    API_FIELD("cachedBytes", API_BYTES, sampleset_partition, cached_bytes,
              "Bytes of it that are there."),
};
static const struct api_object partition = {.size = sizeof(struct sampleset_partition),
                                            .doc = "A partition and its node.",
                                            .fields = partition_fields,
                                            .n_fields = API_COUNT(partition_fields)};

static const struct api_field status_fields[] = {
    API_FIELD("phase", API_ENUM, sampleset_status, phase, "The state in one word.",
              .choices = "|Bound|Mount|Syncing|SyncFailed|PartialReady|Ready"),
    API_FIELD("version", API_STRING, sampleset_status, version,
              "The version of the set that is served: the digest of its list."),
    API_FIELD("versions", API_STRINGS, sampleset_status, versions,
              "The versions that are kept, which spec.version may name, the served one first."),
    API_FIELD("order", API_ENUM, sampleset_status, order,
              "Whether the order of reading is known; until it is, samples are dealt by hash.",
              .choices = "known|unknown"),
    API_FIELD("cacheStatus", API_OBJECT, sampleset_status, cache, "Sizes, for people.",
              .object = &numbers),
    API_FIELD("runtimeStatus", API_OBJECT, sampleset_status, runtime, "The servers.",
              .object = &servers),
    API_FIELD("partitions", API_LIST, sampleset_status, partitions, "Partitions and their nodes.",
              .object = &partition, .list_key = "index"),
    API_FIELD("usedBy", API_STRINGS, sampleset_status, used_by,
              "Jobs that use the set, as NAMESPACE/NAME."),
    API_FIELD("syncJobName", API_STRING, sampleset_status, sync_job,
              "The copying or listing that is under way or was last."),
    API_FIELD("refreshedAt", API_TIME, sampleset_status, refreshed_at,
              "When the source was looked at last."),
    API_FIELD("observedGeneration", API_INT, sampleset_status, generation,
              "The metadata.generation that this status is of."),
    API_FIELD("conditions", API_LIST, sampleset_status, conditions,
              "What holds and what is missing.", .object = &api_condition, .list_key = "type"),
};
static const struct api_object status = {.size = sizeof(struct sampleset_status),
                                         .doc = "What there is.",
                                         .fields = status_fields,
                                         .n_fields = API_COUNT(status_fields)};

static const struct api_column columns[] = {
    {"TOTAL SIZE", "string", ".status.cacheStatus.totalSize", "Bytes of all samples", 0},
    {"CACHED SIZE", "string", ".status.cacheStatus.cachedSize", "Bytes kept on nodes", 0},
    {"AVAIL SPACE", "string", ".status.cacheStatus.diskAvail", "Free on the cache disks", 0},
    {"RUNTIME", "string", ".status.runtimeStatus.runtimeReady", "Servers that are ready", 0},
    {"PHASE", "string", ".status.phase", "The state in one word", 0},
    {"AGE", "date", ".metadata.creationTimestamp", "Since when it exists", 0},
    {"VERSION", "string", ".status.version", "The version that is served", 1},
    {"ORDER", "string", ".status.order", "Whether the order of reading is known", 1},
};

const struct api_kind api_sampleset = {
    .group = API_GROUP,
    .version = "v1alpha1",
    .kind = "SampleSet",
    .plural = "samplesets",
    .singular = "sampleset",
    .short_name = "ss",
    .doc = "Samples of a store, cached on nodes, one partition a node.",
    .spec = &spec,
    .status = &status,
    .columns = columns,
    .n_columns = API_COUNT(columns),
};
