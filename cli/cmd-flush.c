/* flush: waits until all that was written or fetched is stored. */
#include "cli-internal.h"
#include "pending-internal.h"

/* Nobody is there who could store anything: that is no success. (umount goes on nevertheless: what
 * is pending stays in the cache folder.) */
static int refuse_where_none_serves(const struct control_mount *m, struct err *err)
{
    cleanup_json struct json_doc *answer = NULL;
    if (ask_status(m, &answer, err))
        return -1;
    struct json root = json_root(answer), status = json_get(&root, "status");
    if (!status_refuses(&status))
        return 0;
    return err_set(err, ERR_FAILED,
                   "%s is degraded and stores nothing (sampan status says why; what is pending "
                   "stays in the cache folder until sampan upgrade or mount starts it again)",
                   m->mountpoint);
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    (void)options;
    cleanup_mount struct control_mount m = {0};
    if (mount_of(conf_arg(conf, 0), &m, NULL, err))
        return -1;
    return refuse_where_none_serves(&m, err) || pending_flush(&m, "flush", /* torn= */ true, err)
               ? -1
               : 0;
}

const struct command cmd_flush = {
    .name = "flush",
    .args = "MOUNT",
    .summary = "wait until all that was written is stored",
    .about =
        "Returns when everything that the mount has taken in so far lies on its disks or, of a "
        "mount that can be written, in its store. What failed before is tried again at once; if it "
        "fails again, the first such file is named, and all stay listed in `sampan status`. What "
        "a machine that stopped may have left incomplete is stored as it is.",
    .min_args = 1,
    .max_args = 1,
    .options_size = 1,
    .run = run,
};
