/*
 * SampleSet: samples of a store, cached on nodes, one partition a node.
 *
 * Phases: "" -> Bound (its volume) -> Mount (its servers) -> Syncing (listing, or copying where a
 * destination is given) | SyncFailed -> PartialReady -> Ready.
 */
#ifndef SAMPAN_API_SAMPLESET_H
#define SAMPAN_API_SAMPLESET_H

#include "parts.h"

struct sampleset_source {
    char *uri, *at, *endpoint, *region;
    struct api_ref *secret, *claim;
    char *claim_path;
};
struct sampleset_level {
    char *medium, *path;
    int64_t mib; /* of all its paths together; 0: what the disk has */
};
struct sampleset_cache {
    struct api_list levels; /* struct sampleset_level */
    char *reclaim, *profile;
    uint64_t memory;
};
struct sampleset_csi {
    char *driver, *options, *juicefs;
};
struct sampleset_sync {
    char *destination;
    struct api_ref *secret;
    bool delete;
};
struct sampleset_autoscale {
    int64_t min, max, hit_percent;
    char *by;
};
struct sampleset_runtime {
    char *image, *resources, *service_account;
    struct api_map labels, annotations;
};
struct sampleset_spec {
    int64_t partitions;
    struct sampleset_source *source;
    struct api_list sources; /* struct sampleset_source */
    struct api_ref *secret;
    bool no_sync;
    struct sampleset_sync *sync;
    struct sampleset_csi *csi;
    struct sampleset_cache *cache;
    char *node_affinity, *tolerations;
    struct api_map node_selector;
    char *version, *sampler, *strategy;
    struct api_schedule *refresh;
    struct sampleset_autoscale *autoscale;
    struct sampleset_runtime *runtime;
    struct api_strings shared_to;
};

struct sampleset_numbers {
    char *total, *files, *cached, *disk_size, *disk_used, *disk_avail, *disk_rate, *error;
};
struct sampleset_servers {
    int64_t wanted, ready;
    char *shown; /* "2/2" */
};
struct sampleset_partition {
    int64_t index, samples, cached_samples;
    uint64_t bytes, cached_bytes;
    char *node, *pod, *state, *message;
};
struct sampleset_status {
    char *phase, *version, *order;
    struct sampleset_numbers *cache;
    struct sampleset_servers *runtime;
    struct api_list partitions; /* struct sampleset_partition */
    struct api_list conditions; /* struct api_condition */
    struct api_strings versions, used_by;
    char *sync_job, *refreshed_at;
    int64_t generation;
};

extern const struct api_kind api_sampleset;

#endif
