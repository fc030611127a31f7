/* flush: waits until all that was written or fetched is stored. */
#include "cli-internal.h"

static int run(const struct conf *conf, const void *options, struct err *err)
{
    (void)options;
    cleanup_mount struct control_mount m = {0};
    cleanup_bytes struct bytes request = {0};
    cleanup_json struct json_doc *answer = NULL;
    struct json_writer w;
    ask_begin(&w, &request, "flush");
    if (mount_of(conf_arg(conf, 0), &m, NULL, err))
        return -1;
    return ask(&m, &w, &request, NULL, NULL, &answer, err);
}

const struct command cmd_flush = {
    .name = "flush",
    .args = "MOUNT",
    .summary = "wait until all that was written is stored",
    .about = "Returns when everything that the mount has taken in so far lies on its disks.",
    .min_args = 1,
    .max_args = 1,
    .options_size = 1,
    .run = run,
};
