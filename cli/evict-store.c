/* evict --store: removes old samples of a mounted set from its source. */
#include <inttypes.h>
#include <string.h>

#include "clock.h"
#include "evict-internal.h"
#include "mem.h"
#include "program.h"
#include "retire.h"

#define NAMED 5 /* paths shown of those that would go */

/* The set as its source has it now. */
static int ask_rescan(const struct control_mount *m, struct err *err)
{
    cleanup_bytes struct bytes request = {0};
    cleanup_json struct json_doc *answer = NULL;
    struct json_writer w;
    ask_begin(&w, &request, "rescan");
    return ask(m, &w, &request, NULL, NULL, &answer, err);
}

static int open_current(const struct control_mount *m, struct catalog **ret, struct err *err)
{
    const char *slash = strrchr(m->socket, '/');
    cleanup_free char *dir = xasprintf("%.*s/catalog", (int)(slash - m->socket), m->socket);
    return catalog_current(ret, dir, err);
}

static void say_failed(void *arg, const char *key, const char *why)
{
    (void)arg;
    say_failure("evict: failed", key, why);
}

static void show(void *arg, const struct remove_counts *n)
{
    progress_show(arg, "removed", &(struct how_far){.done = n->removed, .total = n->objects});
}

static int add_json(struct bytes *out, const struct retire *r, const struct evict_options *o,
                    const struct remove_counts *n)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_uint(&w, "samples", retire_samples(r));
    jw_uint(&w, "bytes", retire_bytes(r));
    jw_bool(&w, "dry", !o->yes);
    jw_uint(&w, "removed", n->removed);
    jw_uint(&w, "failed", n->failed);
    jw_end(&w);
    bytes_add_char(out, '\n');
    return 0;
}

static int add_text(struct bytes *out, const struct retire *r, const struct evict_options *o,
                    const struct remove_counts *n, struct err *err)
{
    char size[32], all[64];
    uint64_t samples = retire_samples(r);
    conf_format_size(retire_bytes(r), size);
    conf_format_count(samples, "sample", all);
    if (o->yes) {
        bytes_addf(out, "%" PRIu64 " of %s (%s) removed from the store%s\n", n->removed, all, size,
                   o->skip_trash ? "" : "; in .trash/ of their source for a day");
        return 0;
    }
    bytes_addf(out, "would remove %s, %s, from the store%s\n", all, size,
               samples ? " (--yes removes them); the oldest:" : "");
    for (uint64_t i = 0; i < samples && i < NAMED; i++) {
        cleanup_bytes struct bytes path = {0};
        if (retire_path(r, i, &path, err))
            return -1;
        add_one_line(out, "  %s", path.data);
    }
    return 0;
}

static int report(const struct retire *r, const struct evict_options *o,
                  const struct remove_counts *n, struct err *err)
{
    cleanup_bytes struct bytes out = {0};
    if (o->json ? add_json(&out, r, o, n) : add_text(&out, r, o, n, err))
        return -1;
    return print_out(&out, err);
}

/* What was removed is told although it was not all; the mount is not waited for then. */
static int remove_chosen(const struct control_mount *m, struct retire *r,
                         const struct evict_options *o, struct remove_counts *n, struct err *err)
{
    struct store_conf conf;
    struct progress progress;
    cleanup_free char *endpoint = NULL;
    store_conf_of(&o->conf, &conf);
    if (ask_endpoint(m, &conf, &endpoint, err))
        return -1;
    progress_init(&progress, o->quiet);
    const struct remove_watch watch = {
        .failed = say_failed, .progress = show, .arg = &progress, .stop = catch_interrupts()};
    int rc = retire_run(r, &conf, o->skip_trash, &watch, n, err);
    progress_end(&progress);
    cleanup_free char *at = shell_word(m->mountpoint);
    if (rc && err->class == ERR_CANCELLED)
        err_set(err, ERR_CANCELLED,
                "interrupted: %" PRIu64 " of %" PRIu64
                " samples were removed (sampan scan %s shows what is left)",
                n->removed, retire_samples(r), at);
    return rc ? -1 : ask_rescan(m, err);
}

int evict_store(const struct control_mount *m, const struct evict_options *o, uint64_t to,
                struct err *err)
{
    struct catalog *c;
    struct retire *r = NULL;
    struct remove_counts n = {0};
    struct retire_conf conf = {.by_age = o->older_than > 0,
                               .before_ns = clock_wall_ns() - (int64_t)o->older_than,
                               .to = to};
    if (ask_rescan(m, err) || open_current(m, &c, err))
        return -1;
    int rc = retire_new(&r, c, &conf, err);
    if (!rc && o->yes)
        rc = remove_chosen(m, r, o, &n, err);
    bool told = !rc || (o->yes && err->class == ERR_CANCELLED);
    if (told && report(r, o, &n, rc ? NULL : err))
        rc = -1;
    retire_free(r);
    catalog_unref(c);
    return rc ? rc : n.failed ? 1 : 0;
}
