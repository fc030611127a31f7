/* warmup: cmd-warmup.c asks a mount's owner, warmup-set.c owns an unmounted set for as long as it
 * takes. */
#ifndef SAMPAN_CLI_WARMUP_INTERNAL_H
#define SAMPAN_CLI_WARMUP_INTERNAL_H

#include "cli-internal.h"

struct warmup_options {
    struct set_options set;
    struct store_options store;
    struct log_options log;
    uint64_t memory, bandwidth;
    int64_t connections;
    const char *from, *partition, *strategy, *sampler;
    bool verify, dry_run, background, json, quiet;
};

/* Paths below the set's root, in memory of their own. */
struct path_list {
    char **items;
    size_t n;
};

/* Fills `result` with the same object that a mount's owner answers. Interrupted (ERR_CANCELLED):
 * *ret_far, as it was told last, all 0 if nothing was fetched yet. */
int warmup_set(const char *set, const struct path_list *paths, const struct warmup_options *o,
               struct bytes *result, struct how_far *ret_far, struct err *err);

#endif
