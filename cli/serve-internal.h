/* A mount from opening its volume to the last of its teardown (serve.c), run by `mount`. */
#ifndef SAMPAN_CLI_SERVE_INTERNAL_H
#define SAMPAN_CLI_SERVE_INTERNAL_H

#include "cli-internal.h"

struct mount_options {
    struct set_options set;
    struct store_options store;
    struct log_options log;
    uint64_t memory, refresh, bandwidth, push_window;
    int64_t connections, prefetch, uid, gid;
    const char *catalog, *sampler, *profile;
    bool rescan, allow_other, no_hedge, verify_etag, no_keeper, foreground, quiet;
};

struct serve_conf {
    const struct mount_options *options;
    const char *set;
    const char *mountpoint; /* absolute */
    const struct owner *owner;
    const struct store_conf *store;
    struct daemon_start *start; /* NULL: in the foreground. NULL again once it has been told */
    bool was_ready;             /* set when the mount was usable */
};

/* Returns when the mount is gone: 0, or -1 if it never became usable. */
int serve(struct serve_conf *conf, struct err *err);

#endif
