/* rmr: removes from the store what a URI or a path of a mount names, with all below it. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli-internal.h"
#include "mem.h"
#include "program.h"
#include "remove.h"

struct rmr_options {
    struct store_options store;
    bool yes, all, skip_trash, dry, json, quiet;
};

static const struct conf_row rows[] = {
    {"yes", CONF_FLAG, AT(rmr_options, yes), .help = "Do not ask"},
    {"all", CONF_FLAG, AT(rmr_options, all), .help = "Let a URI name a whole bucket"},
    {"skip-trash", CONF_FLAG, AT(rmr_options, skip_trash),
     .help = "Remove for good; without it, what goes lies in .trash/ for a day"},
    {"dry", CONF_FLAG, AT(rmr_options, dry), .help = "Say what would go, and remove nothing"},
    STORE_ROWS(rmr_options, store),
    JSON_ROW(rmr_options, json),
    QUIET_ROW(rmr_options, quiet),
};

/* One argument, on its way. */
struct target {
    char *uri, *endpoint;
    struct control_mount mount; /* whose path it was; socket NULL: it was a URI */
    struct removal *removal;
    struct remove_counts counts;
    struct bytes trash;
};

static void target_release(struct target *t)
{
    remove_close(t->removal);
    control_mount_release(&t->mount);
    bytes_release(&t->trash);
    free(t->uri);
    free(t->endpoint);
}

/* --- what a path of a mount is at its source -------------------------------------------------- */

static int uri_of_path(struct target *t, const char *arg, struct err *err)
{
    cleanup_free char *below = NULL;
    if (mount_of(arg, &t->mount, &below, err))
        return -1;
    if (!*below)
        return err_set(err, ERR_USAGE,
                       "%s is a whole set: name its URI to remove it from the store", arg);
    const char *slash = strrchr(t->mount.socket, '/');
    cleanup_free char *file =
        xasprintf("%.*s/catalog/current", (int)(slash - t->mount.socket), t->mount.socket);
    if (access(file, F_OK) != 0 && errno == ENOENT)
        return err_set(err, ERR_USAGE,
                       "%s: this mount can be written: it has no versions (rm -r removes it there)",
                       arg);
    return remove_uri_of(file, below, &t->uri, err);
}

/* --- finding ---------------------------------------------------------------------------------- */

static int find(struct target *t, const char *arg, const struct rmr_options *o, struct err *err)
{
    struct store_conf conf;
    bool is_root = false;
    store_conf_of(&o->store, &conf);
    if (strstr(arg, "://"))
        t->uri = xstrdup(arg);
    else if (uri_of_path(t, arg, err) || ask_endpoint(&t->mount, &conf, &t->endpoint, err))
        return -1;
    else
        conf.no_links = true;
    if (remove_open(&t->removal, t->uri, &conf, &is_root, err))
        return -1;
    if (is_root && !(o->yes && o->all))
        return err_set(err, ERR_USAGE, "%s is everything there (give --yes --all if that is meant)",
                       t->uri);
    return remove_find(t->removal, NULL, &t->counts, err);
}

static int confirm(const struct target *t, const struct rmr_options *o, struct err *err)
{
    char size[32], objects[64], answer[16];
    conf_format_size(t->counts.bytes, size);
    conf_format_count(t->counts.objects, "object", objects);
    if (!o->json && !o->quiet) {
        cleanup_bytes struct bytes line = {0};
        add_one_line(&line, "%s: %s, %s", t->uri, objects, size);
        fwrite(line.data, 1, line.len, stderr);
    }
    if (o->yes || o->dry)
        return 0;
    if (!isatty(STDIN_FILENO))
        return err_set(err, ERR_USAGE,
                       "%s: %s, %s: not removed, as nobody can be asked (give --yes)", t->uri,
                       objects, size);
    fprintf(stderr, "remove them%s? [y/N] ", o->skip_trash ? " for good" : "");
    fflush(stderr);
    if (!fgets(answer, sizeof answer, stdin) || (answer[0] != 'y' && answer[0] != 'Y'))
        return err_set(err, ERR_CANCELLED, "%s: left alone", t->uri);
    return 0;
}

/* --- removing --------------------------------------------------------------------------------- */

struct telling {
    const struct rmr_options *options;
    struct progress progress;
    struct bytes failures;
    struct json_writer writer;
};

static void say_failed(void *arg, const char *key, const char *why)
{
    struct telling *t = arg;
    if (t->options->json) {
        if (t->failures.len > (1u << 20))
            return; /* counted on */
        jw_object(&t->writer, NULL);
        jw_str(&t->writer, "path", key);
        jw_str(&t->writer, "error", why);
        jw_end(&t->writer);
        return;
    }
    say_failure("rmr: failed", key, why);
}

static void show(void *arg, const struct remove_counts *n)
{
    struct telling *t = arg;
    progress_show(&t->progress, "removed",
                  &(struct how_far){.done = n->removed, .total = n->objects});
}

/* A mount that showed what is gone looks again; its own matter if it cannot. */
static void rescan(const struct control_mount *m)
{
    cleanup_bytes struct bytes request = {0};
    cleanup_json struct json_doc *answer = NULL;
    struct json_writer w;
    if (!m->socket)
        return;
    ask_begin(&w, &request, "rescan");
    ask(m, &w, &request, NULL, NULL, &answer, NULL);
}

static void report_one(struct bytes *out, const struct target *t, const struct rmr_options *o)
{
    char size[32], objects[64];
    size_t at = out->len;
    const struct remove_counts *n = &t->counts;
    conf_format_size(n->bytes, size);
    conf_format_count(n->objects, "object", objects);
    bytes_addf(out, "%s: %s%" PRIu64 " of %s (%s)", t->uri, o->dry ? "would remove " : "removed ",
               o->dry ? n->objects : n->removed, objects, size);
    if (n->failed)
        bytes_addf(out, ", %" PRIu64 " failed", n->failed);
    if (n->expired)
        bytes_addf(out, ", %" PRIu64 " of the trash were a day old and are gone", n->expired);
    if (t->trash.len)
        bytes_addf(out, "; in %s for a day", t->trash.data);
    one_line(out->data + at);
    bytes_add_char(out, '\n');
}

static void report_json(struct json_writer *w, const struct target *t)
{
    jw_object(w, NULL);
    jw_str(w, "uri", t->uri);
    jw_uint(w, "objects", t->counts.objects);
    jw_uint(w, "bytes", t->counts.bytes);
    jw_uint(w, "removed", t->counts.removed);
    jw_uint(w, "failed", t->counts.failed);
    jw_uint(w, "expired", t->counts.expired);
    jw_str(w, "trash", t->trash.len ? t->trash.data : NULL);
    jw_end(w);
}

static int report(const struct target *all, size_t n, const struct rmr_options *o,
                  const struct telling *t, struct err *err)
{
    cleanup_bytes struct bytes out = {0};
    struct json_writer w;
    if (o->json) {
        jw_init(&w, &out);
        jw_object(&w, NULL);
        jw_array(&w, "removed");
        for (size_t i = 0; i < n; i++)
            report_json(&w, &all[i]);
        jw_end(&w);
        jw_bool(&w, "dry", o->dry);
        jw_raw(&w, "failures", t->failures.data);
        jw_end(&w);
        bytes_add_char(&out, '\n');
    }
    for (size_t i = 0; i < n && !o->json; i++)
        report_one(&out, &all[i], o);
    return print_out(&out, err);
}

static int remove_all(struct target *all, size_t n, const struct rmr_options *o, struct telling *t,
                      struct err *err)
{
    const struct remove_watch watch = {
        .failed = say_failed, .progress = show, .arg = t, .stop = catch_interrupts()};
    for (size_t i = 0; i < n && !o->dry; i++) {
        if (remove_run(all[i].removal, o->skip_trash, &watch, &all[i].counts, &all[i].trash, err))
            return -1;
        rescan(&all[i].mount);
    }
    return 0;
}

static int say_interrupted(const struct target *all, size_t n, struct err *err)
{
    uint64_t removed = 0, objects = 0;
    for (size_t i = 0; i < n; i++) {
        removed += all[i].counts.removed;
        objects += all[i].counts.objects;
    }
    return err_set(err, ERR_CANCELLED,
                   "interrupted: %" PRIu64 " of %" PRIu64
                   " objects were removed (the same call removes the rest)",
                   removed, objects);
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct rmr_options *o = options;
    size_t n = conf_n_args(conf), failed = 0;
    struct target *all = xcalloc(n, sizeof *all);
    struct telling t = {.options = o};
    jw_init(&t.writer, &t.failures);
    jw_array(&t.writer, NULL);
    progress_init(&t.progress, o->quiet);
    int result = 0;
    /* All is found and agreed to before the first goes. */
    for (size_t i = 0; i < n && result == 0; i++)
        result = find(&all[i], conf_arg(conf, i), o, err);
    for (size_t i = 0; i < n && result == 0; i++)
        result = confirm(&all[i], o, err);
    bool agreed = result == 0;
    if (agreed)
        result = remove_all(all, n, o, &t, err);
    progress_end(&t.progress);
    jw_end(&t.writer);
    if (result && agreed && err->class == ERR_CANCELLED)
        say_interrupted(all, n, err);
    if (agreed && report(all, n, o, &t, result ? NULL : err))
        result = -1;
    for (size_t i = 0; i < n; i++) {
        failed += all[i].counts.failed;
        target_release(&all[i]);
    }
    free(all);
    bytes_release(&t.failures);
    return result ? result : failed ? 1 : 0;
}

const struct command cmd_rmr = {
    .name = "rmr",
    .args = "URI|MOUNTPATH...",
    .summary = "remove from the store, with all below, after showing what",
    .about =
        "Removes the object that URI names and everything below URI/ from the store; a path of a "
        "mount of samples stands for what it is at its source (at the --endpoint of the mount, "
        "unless another is given), and the mount looks again afterwards. It says how much that is "
        "and asks; where nobody can be asked it needs --yes. "
        "Links of a local folder are removed, not followed, nor is one on the way of a mount's "
        "path; a whole bucket needs --yes --all.\n\n"
        "What is removed lies for a day in .trash/ beside it, which sets do not show, unless "
        "--skip-trash is given; the next rmr beside it removes what is older.\n\n"
        "Interrupted it ends within seconds and says how much was removed; nothing lies in both "
        "places, unless the store did not answer. The exit code is 1 if something could not be "
        "removed.",
    .min_args = 1,
    .max_args = -1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct rmr_options),
    .run = run,
};
