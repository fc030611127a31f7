/*
 * What each type of job does. Those here ask the owner of a mount, who knows what is done already:
 * so a job that is run again after a pause or a kill does the rest.
 */
#include <string.h>

#include "dir.h"
#include "mem.h"
#include "server-internal.h"

/* --- options ---------------------------------------------------------------------------------- */

void options_copy_compat(const struct json *o, struct json_writer *w)
{
    if (!json_has(o, "compat"))
        return;
    struct json compat = json_get(o, "compat");
    cleanup_bytes struct bytes text = {0};
    json_text(&compat, &text);
    jw_raw(w, "compat", text.data);
}

int options_begin(const struct server *s, const struct json *o, bool on_mount,
                  struct json_writer *w, struct bytes *ret, struct err *err)
{
    const char *named, *mount = "";
    bool cluster;
    int64_t lost_after;
    if (json_str_or(o, "mount", "", &named, err) || cluster_scope(s, o, &cluster, err) ||
        json_int_or(o, "lost_after_s", 1, INT32_MAX, LOST_AFTER_S, &lost_after, err))
        return -1;
    jw_init(w, ret);
    jw_object(w, NULL);
    if (cluster) {
        /* Each server knows its own mounts. */
        jw_str(w, "scope", "cluster");
        if (json_has(o, "lost_after_s"))
            jw_int(w, "lost_after_s", lost_after);
        if (*named)
            jw_str(w, "mount", named);
    } else {
        if ((on_mount || *named) && mount_choose(s, named, &mount, err))
            return -1;
        if (json_has(o, "scope") && members_are_several(s->members))
            jw_str(w, "scope", "node");
        if (on_mount || *named)
            jw_str(w, "mount", mount);
    }
    options_copy_compat(o, w);
    return 0;
}

/* A path in the set: relative, without a part that leads out of it. */
int options_check_path(const char *path, struct err *err)
{
    return !path_leads_up(path)
               ? 0
               : err_set(err, ERR_USAGE,
                         "options.paths: \"%.200s\": leads out of the set (want a path below its "
                         "root)",
                         path);
}

int options_copy_paths(const struct json *o, struct json_writer *w, struct err *err)
{
    if (!json_has(o, "paths"))
        return 0;
    struct json paths = json_get(o, "paths");
    if (json_want_array(&paths, err))
        return -1;
    jw_array(w, "paths");
    for (size_t i = 0; i < json_count(&paths); i++) {
        struct json item = json_at(&paths, i);
        const char *path;
        if (json_as_str(&item, &path, err) || options_check_path(path, err))
            return -1;
        if (!*path) /* of a variable that was never set, perhaps: all would go for it */
            return err_set(err, ERR_USAGE,
                           "options.paths[%zu]: is empty (want a path of the set; no paths at all "
                           "stand for all of it)",
                           i);
        while (path[0] == '/' && path[1])
            path++;
        jw_str(w, NULL, path); /* "/" stays: another server gets these options as they are */
    }
    jw_end(w);
    return 0;
}

/* A job of the cluster takes turns with others of the cluster, and its children with what else
 * their servers do: it holds up none of its own. */
static const char *options_turn(const struct json *o)
{
    return cluster_is_job(o) ? "cluster" : "";
}

/* The set's root, or each path below it, as lines "MOUNT/PATH". */
void options_touch_paths(const struct json *o, struct bytes *ret)
{
    const char *mount = "", *turn = options_turn(o);
    struct json paths = json_get(o, "paths");
    json_str(o, "mount", &mount, NULL);
    if (!json_has(o, "paths") || json_count(&paths) == 0)
        bytes_addf(ret, "%s%s/\n", turn, mount);
    for (size_t i = 0; json_has(o, "paths") && i < json_count(&paths); i++) {
        struct json item = json_at(&paths, i);
        const char *path = "";
        json_as_str(&item, &path, NULL);
        bytes_addf(ret, "%s%s/%s\n", turn, mount, path + (*path == '/'));
    }
}

void options_touch_uri(const struct json *o, const char *uri, struct bytes *ret)
{
    const char *folder = store_uri_folder(uri), *share;
    const char *place = folder ? folder : uri;
    size_t len = strlen(place);
    while (len && place[len - 1] == '/')
        len--;
    bytes_addf(ret, "%s%.*s", options_turn(o), (int)len, place);
    /* Two shares have no key in common: each is a place of its own below the address. */
    if (json_str(o, "share", &share, NULL) == 0)
        bytes_addf(ret, "/\001%s", share);
    bytes_add_char(ret, '\n');
}

/* --- asking the owner ------------------------------------------------------------------------- */

struct asking {
    struct job_run *run;
    struct asked before;
    bool wished; /* the runner is to stop */
};

/* What is still to be asked for is taken to be like what was. Bytes are done as the work is, which
 * goes through them twice to verify them. */
static void tell_progress(const struct asking *a, const struct json *progress)
{
    const struct asked *before = &a->before;
    uint64_t done = json_uint_at(progress, "done"), total = json_uint_at(progress, "total");
    uint64_t total_bytes = json_uint_at(progress, "total_bytes");
    double eta = -1, percent = 0, all = (double)(before->items + total) / before->share;
    json_num(progress, "eta_s", &eta, NULL);
    json_num(progress, "percent", &percent, NULL);
    if (total > done)
        eta *= (all - (double)(before->items + done)) / (double)(total - done);
    struct job_progress p = {
        .items = before->items + done,
        .total_items = (uint64_t)(all + 0.5),
        .bytes = before->bytes + (uint64_t)(percent / 100 * (double)total_bytes),
        .total_bytes = (uint64_t)((double)(before->bytes + total_bytes) / before->share),
        .eta_s = eta >= 0 ? (int64_t)(eta + 0.5) : -1};
    job_tell(a->run, &p);
}

/* An owner that says nothing is not waited for either, once the job is to stop: what it does then
 * goes on to its end without us. */
static bool on_progress(void *arg, const struct json *progress)
{
    struct asking *a = arg;
    if (progress)
        tell_progress(a, progress);
    a->wished = job_wanted(a->run) != JOB_GO_ON;
    return !a->wished;
}

int owner_ask(struct job_run *r, struct server *s, const struct json *o, const char *op,
              const char *fields, const struct asked *asked, struct json_doc **ret, struct err *err)
{
    const char *named, *mount;
    struct asking a = {.run = r, .before = asked ? *asked : (struct asked){.share = 1}};
    if (json_str(o, "mount", &named, err) || mount_choose(s, named, &mount, err))
        return -1;
    int rc = mount_ask(mount, op, fields, on_progress, &a, ret, err);
    return rc && a.wished ? 1 : rc;
}

void options_paths_field(const struct json *o, struct bytes *fields)
{
    if (!json_has(o, "paths"))
        return;
    struct json paths = json_get(o, "paths");
    bytes_addf(fields, "%s\"paths\":", fields->len ? "," : "");
    json_text(&paths, fields);
}

/* --- clear, scan ------------------------------------------------------------------------------ */

int owner_run(struct job_run *r, struct server *s, const struct json *o, const char *op,
              const char *fields, struct bytes *result, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    if (cluster_is_job(o))
        return fanout_run(r, s, o, result, err);
    int rc = owner_ask(r, s, o, op, fields, NULL, &doc, err);
    if (rc)
        return rc < 0 ? -1 : 0;
    struct json root = json_root(doc);
    uint64_t samples = json_uint_at(&root, "samples"), bytes = json_uint_at(&root, "bytes");
    json_text(&root, result);
    struct job_progress p = {.items = samples,
                             .total_items = samples,
                             .bytes = bytes,
                             .total_bytes = bytes,
                             .eta_s = -1};
    job_tell(r, &p);
    return 0;
}

static int check_clear(void *server, const struct json *o, struct bytes *ret, struct bytes *secret,
                       struct err *err)
{
    static const char *const keys[] = {"scope", "lost_after_s", "mount", "paths", "compat", NULL};
    struct json_writer w;
    (void)secret;
    if (json_only_keys(o, keys, err) || options_begin(server, o, true, &w, ret, err) ||
        options_copy_paths(o, &w, err))
        return -1;
    jw_end(&w);
    return 0;
}

static int run_clear(struct job_run *r, void *server, const struct json *o, struct bytes *result,
                     struct err *err)
{
    cleanup_bytes struct bytes fields = {0};
    options_paths_field(o, &fields);
    return owner_run(r, server, o, "clear", fields.data ? fields.data : "", result, err);
}

static int check_scan(void *server, const struct json *o, struct bytes *ret, struct bytes *secret,
                      struct err *err)
{
    static const char *const keys[] = {"scope", "lost_after_s", "mount", "compat", NULL};
    struct json_writer w;
    (void)secret;
    if (json_only_keys(o, keys, err) || options_begin(server, o, true, &w, ret, err))
        return -1;
    jw_end(&w);
    return 0;
}

static int run_scan(struct job_run *r, void *server, const struct json *o, struct bytes *result,
                    struct err *err)
{
    return owner_run(r, server, o, "rescan", "", result, err);
}

const struct job_kind job_kinds[] = {
    {"warmup", check_warmup, options_touch_paths, cluster_is_job, run_warmup},
    {"clear", check_clear, options_touch_paths, cluster_is_job, run_clear},
    {"evict", check_evict, options_touch_paths, cluster_is_job, run_evict},
    {"scan", check_scan, options_touch_paths, cluster_is_job, run_scan},
    {"rmr", check_rmr, touches_rmr, cluster_is_job, run_rmr},
    {"sync", check_sync, touches_sync, cluster_is_job, run_sync},
};
const size_t n_job_kinds = sizeof job_kinds / sizeof job_kinds[0];
