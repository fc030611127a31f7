/* What the files of `sync` share: cmd-sync.c, and sync-workers.c where other nodes do the work. */
#ifndef SAMPAN_CLI_WORKERS_INTERNAL_H
#define SAMPAN_CLI_WORKERS_INTERNAL_H

#include "cli-internal.h"
#include "transfer.h"

struct sync_options {
    struct store_options store;
    struct log_options log;
    const char *dst_endpoint, *dst_region, *dst_credentials;
    struct conf_list include, exclude;
    const char *start, *end, *files_from, *share, *worker, *token_file;
    int64_t limit, threads;
    uint64_t bwlimit, memory, pack;
    bool match_full_path, update, force_update, existing, ignore_existing;
    bool check_new, check_all, delete_src, delete_dst, allow_empty;
    bool dirs, perms, links, no_fsync, dry, repack, json, quiet;
};

/* The same as sync_run(), by the servers of --worker: `c` says what. */
int workers_sync(const struct sync_options *o, const struct sync_conf *c,
                 const struct sync_watch *watch, struct sync_counts *ret, struct err *err);

#endif
