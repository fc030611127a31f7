/* evict: makes room in a mount's cache. */
#include <inttypes.h>

#include "cli-internal.h"

struct evict_options {
    const char *to;
    uint64_t older_than;
    bool json;
};

static const struct conf_row rows[] = {
    {"to", CONF_STRING, AT(evict_options, to), .arg = "SIZE",
     .help = "Drop what is least worth keeping until the cache is no larger than this"},
    {"older-than", CONF_DURATION, AT(evict_options, older_than), .arg = "DUR",
     .help = "Drop samples that were last changed at the source longer ago than this"},
    JSON_ROW(evict_options, json),
};

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct evict_options *o = options;
    cleanup_mount struct control_mount m = {0};
    cleanup_bytes struct bytes request = {0}, out = {0};
    cleanup_json struct json_doc *answer = NULL;
    struct json_writer w;
    uint64_t to = 0;
    if (!o->to == !o->older_than)
        return err_set(err, ERR_USAGE, "want --to SIZE or --older-than DUR");
    if (o->to && conf_size(o->to, &to, err))
        return err_wrap(err, "--to");
    if (mount_of(conf_arg(conf, 0), &m, NULL, err))
        return -1;
    ask_begin(&w, &request, "evict");
    if (o->to)
        jw_uint(&w, "to", to);
    else
        jw_uint(&w, "older_than_s", o->older_than / 1000000000u);
    if (ask(&m, &w, &request, NULL, NULL, &answer, err))
        return -1;
    struct json root = json_root(answer);
    uint64_t samples = json_uint_at(&root, "samples"), bytes = json_uint_at(&root, "bytes");
    if (o->json) {
        jw_init(&w, &out);
        jw_object(&w, NULL);
        jw_uint(&w, "samples", samples);
        jw_uint(&w, "bytes", bytes);
        jw_end(&w);
        bytes_add_char(&out, '\n');
    } else {
        char size[32];
        conf_format_size(bytes, size);
        bytes_addf(&out, "%" PRIu64 " samples, %s dropped\n", samples, size);
    }
    return print_out(&out, err);
}

const struct command cmd_evict = {
    .name = "evict",
    .args = "MOUNT",
    .summary = "make room in the cache",
    .about = "Drops cached copies; the data stays in the store, and readers fetch it again.",
    .min_args = 1,
    .max_args = 1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct evict_options),
    .run = run,
};
