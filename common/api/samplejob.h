/*
 * SampleJob: one piece of work on a SampleSet, or one that comes again by the clock.
 *
 * Phases: "" -> Pending (its options are with the servers) -> Running -> Succeeded | Failed; with a
 * schedule: Scheduled between runs.
 */
#ifndef SAMPAN_API_SAMPLEJOB_H
#define SAMPAN_API_SAMPLEJOB_H

#include "parts.h"

struct samplejob_sync {
    char *source, *destination, *start, *end, *include, *exclude, *manager, *worker;
    int64_t threads, http_port, mbit;
    bool update, force_update, perms, dirs, dry, delete_src, delete_dst, no_https;
};
struct samplejob_strategy {
    char *name;
};
struct samplejob_warmup {
    struct api_strings paths;
    int64_t partitions, threads;
    char *strategy, *file, *sampler;
    struct samplejob_strategy *nested; /* {strategy: {strategyName: …}}: as the wire has it */
    bool verify;
};
struct samplejob_rmr {
    struct api_strings paths;
    bool skip_trash;
};
struct samplejob_clear {
    struct api_strings paths;
};
struct samplejob_evict {
    uint64_t older_than, unused_for, to_size;
    char *from;
    bool dry; /* refused: passed over it would remove what was only to be named */
};
struct samplejob_spec {
    char *type, *sample_set;
    struct api_ref *set, *secret;
    struct samplejob_sync *sync;
    struct samplejob_warmup *warmup;
    struct samplejob_rmr *rmr;
    struct samplejob_clear *clear;
    struct samplejob_evict *evict;
    bool terminate;
    struct api_schedule *schedule;
    struct api_strings depends_on;
    int64_t ttl_s; /* -1: for ever */
    int64_t retries;
};

struct samplejob_part {
    int64_t partition, items, total;
    uint64_t bytes;
    char *state, *message;
};
struct samplejob_run {
    char *name, *phase, *started, *ended, *message;
};
struct samplejob_status {
    char *phase, *set, *job, *progress, *message, *started, *ended, *next, *last_run, *last_success;
    struct api_list parts; /* struct samplejob_part */
    struct api_list runs;  /* struct samplejob_run, the newest first */
    struct api_list conditions;
    int64_t generation;
};

#define SAMPLEJOB_NO_DRY_EVICT                                                                \
    "dry is not known to evict (of from: store, the command sampan evict MOUNT --store says " \
    "what would go, as long as it has no --yes)"

extern const struct api_kind api_samplejob;

#endif
