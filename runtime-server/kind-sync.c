/*
 * sync: a destination is made to hold what its sources hold (transfer.h). Keys come with the job,
 * or from the server's own environment. Local folders are only those below the server's mounts: a
 * client's word must not reach the rest of the node.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dir.h"
#include "mem.h"
#include "object.h"
#include "owner.h"
#include "server-internal.h"
#include "transfer.h"

#define FAILURES_LISTED 100

/* --- options ---------------------------------------------------------------------------------- */

static const struct {
    const char *key;
    size_t offset;
} flags[] = {
    {"update", offsetof(struct sync_conf, update)},
    {"forceUpdate", offsetof(struct sync_conf, force_update)},
    {"existing", offsetof(struct sync_conf, existing)},
    {"ignoreExisting", offsetof(struct sync_conf, ignore_existing)},
    {"checkNew", offsetof(struct sync_conf, check_new)},
    {"checkAll", offsetof(struct sync_conf, check_all)},
    {"deleteSrc", offsetof(struct sync_conf, delete_src)},
    {"deleteDst", offsetof(struct sync_conf, delete_dst)},
    {"allowEmpty", offsetof(struct sync_conf, allow_empty)},
    {"dirs", offsetof(struct sync_conf, dirs)},
    {"repack", offsetof(struct sync_conf, repack)},
    {"perms", offsetof(struct sync_conf, perms)},
    {"links", offsetof(struct sync_conf, links)},
    {"dry", offsetof(struct sync_conf, dry)},
    {"matchFullPath", offsetof(struct sync_conf, match_full_path)},
};

/* The folder of a file:// URI, links resolved, if it is below one of our mounts; else NULL. What
 * does not exist yet is judged by the folder above it. */
static char *real_of_ours(const struct server *s, const char *path)
{
    cleanup_free char *copy = xstrdup(path);
    cleanup_free char *real = NULL;
    struct stat st;
    if (path_leads_up(path))
        return NULL;
    while (!(real = realpath(copy, NULL))) {
        if (lstat(copy, &st) == 0)
            return NULL; /* a link to what does not exist yet, say */
        char *slash = strrchr(copy, '/');
        if (!slash || slash == copy)
            return NULL;
        *slash = '\0';
    }
    for (size_t i = 0; i < s->conf.n_mounts; i++) {
        size_t n = strlen(s->mounts[i]);
        if (strncmp(real, s->mounts[i], n) == 0 && (real[n] == '/' || !real[n]))
            return xasprintf("%s%s", real, path + strlen(copy));
    }
    return NULL;
}

int options_real_uri(const struct server *s, const char *where, const char *uri, char **ret,
                     struct err *err)
{
    if (!strstr(uri, "://"))
        return err_set(err, ERR_USAGE, "options.%s: want a URI (s3://BUCKET/PREFIX, …)", where);
    if (store_check_uri(uri, err))
        return err_wrap(err, "options.%s", where);
    const char *folder = store_uri_folder(uri);
    cleanup_free char *real = folder ? real_of_ours(s, folder) : NULL;
    if (folder && !real)
        return err_set(err, ERR_DENIED,
                       "options.%s: \"%s\": a local folder must lie below a mount of this server",
                       where, uri);
    *ret = folder ? xasprintf("file://%s", real) : xstrdup(uri);
    return 0;
}

int options_check_uri(const struct server *s, const char *where, const char *uri, struct err *err)
{
    cleanup_free char *real = NULL;
    return options_real_uri(s, where, uri, &real, err);
}

int options_copy_uris(const struct server *s, const struct json *o, const char *name,
                      struct json_writer *w, struct err *err)
{
    struct json uris = json_get(o, name);
    if (json_want_array(&uris, err))
        return -1;
    jw_array(w, name);
    for (size_t i = 0; i < json_count(&uris); i++) {
        struct json item = json_at(&uris, i);
        cleanup_free char *where = xasprintf("%s[%zu]", name, i);
        const char *uri;
        if (json_as_str(&item, &uri, err) || options_check_uri(s, where, uri, err))
            return -1;
        jw_str(w, NULL, uri);
    }
    jw_end(w);
    return 0;
}

static int copy_sources(const struct server *s, const struct json *o, struct json_writer *w,
                        struct err *err)
{
    struct json sources = json_get(o, "sources");
    if (options_copy_uris(s, o, "sources", w, err))
        return -1;
    if (json_count(&sources) == 0)
        return err_set(err, ERR_USAGE, "options.sources: want at least one URI");
    return 0;
}

/* [{"include":PATTERN} or {"exclude":PATTERN}, …], in the order in which they count. */
static int copy_rules(const struct json *o, struct json_writer *w, struct err *err)
{
    static const char *const keys[] = {"include", "exclude", NULL};
    if (!json_has(o, "rules"))
        return 0;
    struct json rules = json_get(o, "rules");
    if (json_want_array(&rules, err))
        return -1;
    jw_array(w, "rules");
    for (size_t i = 0; i < json_count(&rules); i++) {
        struct json item = json_at(&rules, i);
        const char *pattern;
        if (json_want_object(&item, err) || json_only_keys(&item, keys, err))
            return -1;
        const char *key = json_has(&item, "include") ? "include" : "exclude";
        if (json_count(&item) != 1 || json_str(&item, key, &pattern, err))
            return err_set(err, ERR_USAGE,
                           "options.rules[%zu]: want {\"include\":PATTERN} or "
                           "{\"exclude\":PATTERN}",
                           i);
        struct sync_rule rule = {*key == 'i', pattern};
        if (sync_rules_check(&rule, 1, err))
            return err_wrap(err, "options.rules[%zu]", i);
        jw_object(w, NULL);
        jw_str(w, key, pattern);
        jw_end(w);
    }
    jw_end(w);
    return 0;
}

static int copy_flags(const struct json *o, struct json_writer *w, struct err *err)
{
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        bool on;
        if (json_bool_or(o, flags[i].key, false, &on, err))
            return -1;
        if (on)
            jw_bool(w, flags[i].key, true);
    }
    return 0;
}

/* Texts that are kept as they are. */
static const char *const texts[] = {
    "start", "end", "endpoint", "region", "scope", "destinationEndpoint", "destinationRegion"};
static const char *const secret_names[] = {"credentials", "destinationCredentials", NULL};

static int copy_texts(const struct json *o, struct json_writer *w, struct err *err)
{
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *text;
        if (json_str_or(o, texts[i], "", &text, err))
            return -1;
        if (*text && strcmp(texts[i], "scope") != 0)
            jw_str(w, texts[i], text);
    }
    return 0;
}

/* "I/N": only the keys that fall to share I of N. */
static int copy_share(const struct json *o, int64_t pack, struct json_writer *w, struct err *err)
{
    const char *share;
    uint32_t i, n;
    if (!json_has(o, "share"))
        return 0;
    if (json_str(o, "share", &share, err))
        return -1;
    if (owner_share_parse(share, &i, &n, err))
        return err_wrap(err, "options.share");
    if (pack)
        return err_set(err, ERR_USAGE, "options.share: goes with no options.pack");
    jw_str(w, "share", share);
    return 0;
}

static int copy_scope(const struct server *s, const struct json *o, struct json_writer *w,
                      struct err *err)
{
    bool cluster;
    int64_t lost_after;
    if (cluster_scope(s, o, &cluster, err) ||
        json_int_or(o, "lost_after_s", 1, INT32_MAX, LOST_AFTER_S, &lost_after, err))
        return -1;
    if (cluster && json_has(o, "share"))
        return err_set(err, ERR_USAGE,
                       "options.share: each server has its own (leave it out, or "
                       "give \"scope\": \"node\")");
    if (cluster)
        jw_str(w, "scope", "cluster");
    if (cluster && json_has(o, "lost_after_s"))
        jw_int(w, "lost_after_s", lost_after);
    return 0;
}

static void read_flags(const struct json *o, struct sync_conf *c)
{
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        bool on = false;
        json_bool_or(o, flags[i].key, false, &on, NULL);
        *(bool *)(void *)((char *)c + flags[i].offset) = on;
    }
}

/* What is plain in the options; texts are the options'. */
static int read_conf(const struct json *o, struct sync_conf *c, struct err *err)
{
    int64_t threads = 16, bandwidth = 0, pack = 0, limit = 0;
    const char *share;
    json_int(o, "threads", 1, 256, &threads, NULL);
    json_int(o, "bandwidth", 0, INT64_MAX, &bandwidth, NULL);
    json_int(o, "pack", 0, INT64_MAX, &pack, NULL);
    json_int(o, "limit", 0, INT64_MAX, &limit, NULL);
    read_flags(o, c);
    c->threads = (unsigned)threads;
    c->bandwidth = (uint64_t)bandwidth;
    c->pack_size = (uint64_t)pack;
    c->limit = (uint64_t)limit;
    json_str_or(o, "start", NULL, &c->start, NULL);
    json_str_or(o, "end", NULL, &c->end, NULL);
    json_str_or(o, "endpoint", NULL, &c->from.endpoint, NULL);
    json_str_or(o, "region", NULL, &c->from.region, NULL);
    json_str_or(o, "destinationEndpoint", c->from.endpoint, &c->to.endpoint, NULL);
    json_str_or(o, "destinationRegion", c->from.region, &c->to.region, NULL);
    if (json_str(o, "share", &share, NULL) == 0 &&
        owner_share_parse(share, &c->share, &c->shares, err))
        return -1;
    return json_str(o, "destination", &c->destination, err);
}

/* What no run could do together is not begun. */
static int check_together(const struct json *o, struct err *err)
{
    struct json sources = json_get(o, "sources");
    struct sync_conf c = {.n_sources = json_count(&sources)};
    if (read_conf(o, &c, err))
        return -1;
    return sync_check(&c, err) ? err_wrap(err, "options") : 0;
}

int check_sync(void *server, const struct json *o, struct bytes *ret, struct bytes *secret,
               struct err *err)
{
    static const char *const keys[] = {"sources",
                                       "destination",
                                       "rules",
                                       "threads",
                                       "bandwidth",
                                       "pack",
                                       "limit",
                                       "share",
                                       "start",
                                       "end",
                                       "endpoint",
                                       "region",
                                       "update",
                                       "forceUpdate",
                                       "existing",
                                       "ignoreExisting",
                                       "checkNew",
                                       "checkAll",
                                       "deleteSrc",
                                       "deleteDst",
                                       "allowEmpty",
                                       "dirs",
                                       "repack",
                                       "perms",
                                       "links",
                                       "dry",
                                       "matchFullPath",
                                       "scope",
                                       "credentials",
                                       "compat",
                                       "lost_after_s",
                                       "destinationCredentials",
                                       "destinationEndpoint",
                                       "destinationRegion",
                                       NULL};
    const char *destination;
    int64_t threads, bandwidth, pack, limit;
    struct json_writer w;
    jw_init(&w, ret);
    jw_object(&w, NULL);
    if (json_only_keys(o, keys, err) || copy_scope(server, o, &w, err) ||
        copy_sources(server, o, &w, err) || json_str(o, "destination", &destination, err) ||
        options_check_uri(server, "destination", destination, err) || copy_rules(o, &w, err) ||
        json_int_or(o, "threads", 1, 256, 16, &threads, err) ||
        json_int_or(o, "bandwidth", 0, INT64_MAX, 0, &bandwidth, err) ||
        json_int_or(o, "limit", 0, INT64_MAX, 0, &limit, err) ||
        json_int_or(o, "pack", 0, 64 << 20, 0, &pack, err) || copy_flags(o, &w, err) ||
        copy_texts(o, &w, err) || copy_share(o, pack, &w, err) || check_together(o, err) ||
        secrets_take(o, secret_names, &w, secret, err))
        return -1;
    options_copy_compat(o, &w);
    jw_str(&w, "destination", destination);
    jw_int(&w, "threads", threads);
    jw_int(&w, "bandwidth", bandwidth);
    jw_int(&w, "limit", limit);
    jw_int(&w, "pack", pack);
    jw_end(&w);
    return 0;
}

void touches_sync(const struct json *o, struct bytes *ret)
{
    const char *uri = "";
    struct json sources = json_get(o, "sources");
    bool moves = false;
    json_str(o, "destination", &uri, NULL);
    options_touch_uri(o, uri, ret);
    json_bool_or(o, "deleteSrc", false, &moves, NULL);
    for (size_t i = 0; moves && i < json_count(&sources); i++) {
        struct json item = json_at(&sources, i);
        json_as_str(&item, &uri, NULL);
        options_touch_uri(o, uri, ret);
    }
}

/* --- the work --------------------------------------------------------------------------------- */

struct syncing {
    struct job_run *run;
    atomic_bool stop;
    struct json_writer failures;
    size_t n_failures;
};

static void on_progress(void *arg, enum sync_phase phase, const struct sync_counts *n,
                        uint64_t total)
{
    struct syncing *s = arg;
    struct job_progress p = {.items = phase == SYNC_LISTING ? 0 : n->copied + n->skipped,
                             .bytes = n->copied_bytes + n->moving_bytes + n->skipped_bytes,
                             .total_items = total,
                             .total_bytes = phase == SYNC_LISTING ? 0 : n->found_bytes,
                             .failed = n->failed,
                             .eta_s = -1};
    job_tell(s->run, &p);
    if (job_wanted(s->run) != JOB_GO_ON)
        atomic_store(&s->stop, true);
}

static void on_failed(void *arg, const char *key, const char *why)
{
    struct syncing *s = arg;
    if (s->n_failures++ >= FAILURES_LISTED)
        return;
    jw_object(&s->failures, NULL);
    jw_str(&s->failures, "path", key);
    jw_str(&s->failures, "why", why);
    jw_end(&s->failures);
}

static void write_counts(struct bytes *result, const struct sync_counts *n, const char *failures)
{
    struct json_writer w;
    jw_init(&w, result);
    jw_object(&w, NULL);
    jw_uint(&w, "found", n->found);
    jw_uint(&w, "found_bytes", n->found_bytes);
    jw_uint(&w, "copied", n->copied);
    jw_uint(&w, "copied_bytes", n->copied_bytes);
    jw_uint(&w, "skipped", n->skipped);
    jw_uint(&w, "skipped_bytes", n->skipped_bytes);
    jw_uint(&w, "excluded", n->excluded);
    jw_uint(&w, "checked", n->checked);
    jw_uint(&w, "checked_bytes", n->checked_bytes);
    jw_uint(&w, "deleted", n->deleted);
    jw_uint(&w, "deleted_src", n->deleted_src);
    jw_uint(&w, "extra", n->extra);
    jw_uint(&w, "aborted_uploads", n->aborted_uploads);
    jw_uint(&w, "resumed_bytes", n->resumed_bytes);
    jw_uint(&w, "failed", n->failed);
    jw_num(&w, "seconds", n->seconds);
    jw_raw(&w, "failures", failures);
    jw_end(&w);
}

static const char **read_sources(const struct json *o, size_t *ret_n)
{
    struct json list = json_get(o, "sources");
    const char **sources = xcalloc(json_count(&list) + 1, sizeof *sources);
    for (size_t i = 0; i < json_count(&list); i++) {
        struct json item = json_at(&list, i);
        json_as_str(&item, &sources[i], NULL);
    }
    *ret_n = json_count(&list);
    return sources;
}

static struct sync_rule *read_rules(const struct json *o, size_t *ret_n)
{
    struct json list = json_get(o, "rules");
    size_t n = json_has(o, "rules") ? json_count(&list) : 0;
    struct sync_rule *rules = xcalloc(n + 1, sizeof *rules);
    for (size_t i = 0; i < n; i++) {
        struct json item = json_at(&list, i);
        rules[i].include = json_has(&item, "include");
        json_str(&item, rules[i].include ? "include" : "exclude", &rules[i].pattern, NULL);
    }
    *ret_n = n;
    return rules;
}

/* Of one store: both ends have the keys. */
static int read_keys(const struct json *o, const char *secret, struct sync_conf *c,
                     struct job_keys *from, struct job_keys *to, struct err *err)
{
    if (secrets_read(o, secret, "credentials", from, &c->from.keys, err) ||
        secrets_read(o, secret, "destinationCredentials", to, &c->to.keys, err))
        return -1;
    if (!c->to.keys)
        c->to.keys = c->from.keys;
    return 0;
}

static int sync_local(struct job_run *r, struct sync_conf *c, struct bytes *result, struct err *err)
{
    struct syncing syncing = {.run = r};
    struct sync_counts counts = {0};
    const struct sync_watch watch = {on_progress, on_failed, NULL, &syncing};
    cleanup_bytes struct bytes failures = {0};
    c->stop = &syncing.stop;
    jw_init(&syncing.failures, &failures);
    jw_array(&syncing.failures, NULL);
    int rc = sync_run(c, &watch, &counts, err);
    jw_end(&syncing.failures);
    if (rc && atomic_load(&syncing.stop))
        return 0; /* as it was wished: what is done will be skipped */
    on_progress(&syncing, SYNC_PUBLISHING, &counts, counts.found);
    write_counts(result, &counts, failures.data);
    if (!rc && counts.failed)
        return err_set(err, ERR_FAILED, "%llu of %llu objects could not be copied (see result)",
                       (unsigned long long)counts.failed, (unsigned long long)counts.found);
    return rc;
}

/* The URIs as they are used: what lay below a mount when the job was posted may be a link to
 * elsewhere now, or the mount may be another server's. The destination comes last. */
static int real_uris(const struct server *s, const struct sync_conf *c, char **ret, struct err *err)
{
    for (size_t i = 0; i < c->n_sources; i++)
        if (options_real_uri(s, "sources", c->sources[i], &ret[i], err))
            return -1;
    return options_real_uri(s, "destination", c->destination, &ret[c->n_sources], err);
}

static int sync_real(const struct server *s, struct job_run *r, struct sync_conf *c,
                     struct bytes *result, struct err *err)
{
    char **uris = xcalloc(c->n_sources + 1, sizeof *uris);
    size_t n = c->n_sources;
    int rc = real_uris(s, c, uris, err);
    c->sources = (const char *const *)uris;
    c->destination = uris[n];
    c->from.no_links = c->to.no_links = true;
    if (rc == 0)
        rc = sync_local(r, c, result, err);
    for (size_t i = 0; i <= n; i++)
        free(uris[i]);
    free(uris);
    return rc;
}

int run_sync(struct job_run *r, void *server, const struct json *o, struct bytes *result,
             struct err *err)
{
    struct server *s = server;
    struct sync_conf c = {.log = s->conf.log};
    cleanup_job_keys struct job_keys from = {0}, to = {0};
    if (cluster_is_job(o))
        return fanout_run(r, s, o, result, err);
    cleanup_free const char **sources = read_sources(o, &c.n_sources);
    cleanup_free struct sync_rule *rules = read_rules(o, &c.n_rules);
    c.sources = sources;
    c.rules = rules;
    c.from.log = c.to.log = s->conf.log;
    if (read_conf(o, &c, err) || read_keys(o, job_secret(r), &c, &from, &to, err))
        return -1;
    return sync_real(s, r, &c, result, err);
}
