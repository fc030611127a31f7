/* clear: drops local copies; the data stays in the store. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "cli-internal.h"
#include "mem.h"

struct clear_options {
    bool json;
};

static const struct conf_row rows[] = {JSON_ROW(clear_options, json)};

static int clear_mount(const struct control_mount *m, const char *below, const struct conf *conf,
                       bool json, struct err *err)
{
    cleanup_bytes struct bytes request = {0};
    cleanup_json struct json_doc *answer = NULL;
    struct json_writer w;
    ask_begin(&w, &request, "clear");
    if (ask_paths(&w, m, below, conf, 1, err) || ask(m, &w, &request, NULL, NULL, &answer, err))
        return -1;
    struct json root = json_root(answer);
    return report_dropped(json_uint_at(&root, "samples"), json_uint_at(&root, "bytes"), json, err);
}

/* A cache folder that no process serves: its files are removed, nobody else's. */
static int clear_folder(const char *dir, bool json, struct err *err)
{
    uint64_t bytes = 0;
    if (cache_erase(dir, &bytes, err))
        return -1;
    return report_dropped(UINT64_MAX, bytes, json, err);
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct clear_options *o = options;
    cleanup_mount struct control_mount m = {0};
    cleanup_free char *below = NULL, *dir = NULL;
    struct err why = {0};
    struct stat st;
    if (mount_of(conf_arg(conf, 0), &m, &below, &why) == 0)
        return clear_mount(&m, below, conf, o->json, err);
    if (why.class != ERR_NOT_FOUND || stat(conf_arg(conf, 0), &st) || !S_ISDIR(st.st_mode)) {
        *err = why;
        return -1;
    }
    dir = realpath(conf_arg(conf, 0), NULL);
    if (!dir)
        return err_sys(err, errno, "look up %s", conf_arg(conf, 0));
    if (mount_by_folder(dir, &m))
        return clear_mount(&m, "", conf, o->json, err);
    if (conf_n_args(conf) > 1)
        return err_set(err, ERR_USAGE, "%s: not mounted: it can be cleared as a whole only", dir);
    return clear_folder(dir, o->json, err);
}

const struct command cmd_clear = {
    .name = "clear",
    .args = "MOUNT|CACHEDIR [PATH...]",
    .summary = "drop the local copies; the data stays in the store",
    .about =
        "Drops what a mount has cached, all or at and below PATH, the kernel's pages of it "
        "included. A large file (--profile shards) that is open goes when it is closed. CACHEDIR "
        "names the cache folder of a set that is not mounted; it is cleared as a whole, and a "
        "folder that is no cache is refused.",
    .min_args = 1,
    .max_args = -1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct clear_options),
    .run = run,
};
