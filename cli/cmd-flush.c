/* flush: waits until all that was written or fetched is stored. */
#include "cli-internal.h"
#include "pending-internal.h"

static int run(const struct conf *conf, const void *options, struct err *err)
{
    (void)options;
    cleanup_mount struct control_mount m = {0};
    if (mount_of(conf_arg(conf, 0), &m, NULL, err))
        return -1;
    return pending_flush(&m, "flush", err);
}

const struct command cmd_flush = {
    .name = "flush",
    .args = "MOUNT",
    .summary = "wait until all that was written is stored",
    .about =
        "Returns when everything that the mount has taken in so far lies on its disks or, of a "
        "mount "
        "that can be written, in its store. What failed before is tried again at once; if it fails "
        "again, the first such file is named, and all stay listed in `sampan status`.",
    .min_args = 1,
    .max_args = 1,
    .options_size = 1,
    .run = run,
};
