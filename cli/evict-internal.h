/* evict: cmd-evict.c makes room in a cache, evict-store.c removes at the source. */
#ifndef SAMPAN_CLI_EVICT_INTERNAL_H
#define SAMPAN_CLI_EVICT_INTERNAL_H

#include "cli-internal.h"

struct evict_options {
    struct store_options conf;
    const char *to;
    uint64_t older_than, unused_for;
    bool store, yes, skip_trash, json, quiet;
};

/* Removes old samples of the mounted set from its source, or says what would go. Returns the exit
 * code, or -1. */
int evict_store(const struct control_mount *m, const struct evict_options *o, uint64_t to,
                struct err *err);

#endif
