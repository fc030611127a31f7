/*
 * The routes of the Paddle Operator's runtime server, as a thin layer over the same jobs:
 *
 *   POST /upload/{warmup,clear}Options     header "filename" = the job's name; body = its options
 *   GET  /{warmup,clear}Options/NAME       what was posted, secrets masked
 *   GET  /{warmup,clear}Result/NAME        {"status":"running|success|fail","message":…}
 *   GET  /cacheStatus/cacheInfo.json       sizes as text
 *
 * Its paths are those of its own pods (/mnt/SET/PATH); ours are relative to the set. A job NAME of
 * type T is our job "T.NAME".
 */
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "mem.h"
#include "server-internal.h"

static const struct err no_name = {.class = ERR_USAGE,
                                   .msg = "want the header \"filename\" with the job's name"};

/* --- secrets in what was posted --------------------------------------------------------------- */

/* "scheme://KEY:SECRET@host" loses what is before the '@'. */
static void add_masked(struct bytes *out, const char *text)
{
    for (const char *url; (url = strstr(text, "://")); text = url) {
        url += 3;
        bytes_add(out, text, (size_t)(url - text));
        size_t len = strcspn(url, "/ \t\r\n\"'");
        const char *at = memrchr(url, '@', len);
        if (at) {
            bytes_add_str(out, "***:***");
            url = at;
        }
    }
    bytes_add_str(out, text);
}

static void mask_node(const struct json *node, struct json_writer *w, const char *key)
{
    const char *text;
    if (json_as_str(node, &text, NULL) == 0) {
        cleanup_bytes struct bytes masked = {0};
        add_masked(&masked, text);
        jw_str(w, key, masked.data ? masked.data : "");
        return;
    }
    bool array = json_want_array(node, NULL) == 0, object = json_want_object(node, NULL) == 0;
    if (!array && !object) {
        cleanup_bytes struct bytes plain = {0};
        json_text(node, &plain);
        jw_raw(w, key, plain.data);
        return;
    }
    if (array)
        jw_array(w, key);
    else
        jw_object(w, key);
    for (size_t i = 0; i < json_count(node); i++) {
        struct json child = array ? json_at(node, i) : json_member(node, i);
        mask_node(&child, w, array ? NULL : child.key);
    }
    jw_end(w);
}

/* --- options ---------------------------------------------------------------------------------- */

/* "/mnt/SET/a/b" -> "a/b"; anything else is not in the set. */
static const char *path_in_set(const char *path)
{
    if (strncmp(path, "/mnt/", 5) != 0)
        return NULL;
    path += 5;
    path += strcspn(path, "/");
    return *path ? path + 1 : path;
}

/* Paths below the set's root; any other (a cache folder), or the root itself, means all. */
static int copy_paths(const struct json *body, struct json_writer *w, struct err *err)
{
    if (!json_has(body, "paths"))
        return 0;
    struct json paths = json_get(body, "paths");
    size_t n = json_count(&paths);
    if (json_want_array(&paths, err))
        return -1;
    for (size_t i = 0; i < n; i++) {
        struct json item = json_at(&paths, i);
        const char *path;
        if (json_as_str(&item, &path, err))
            return -1;
        path = path_in_set(path);
        if (!path || !*path)
            return 0;
    }
    if (!n)
        return 0;
    jw_array(w, "paths");
    for (size_t i = 0; i < n; i++) {
        struct json item = json_at(&paths, i);
        const char *path = "";
        json_as_str(&item, &path, NULL);
        jw_str(w, NULL, path_in_set(path));
    }
    jw_end(w);
    return 0;
}

static int build_job(const struct request *r, const char *type, const char *name, struct bytes *ret,
                     struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    struct json_writer w;
    if (request_json(r, &doc, err))
        return -1;
    struct json body = json_root(doc);
    if (json_want_object(&body, err))
        return -1;
    cleanup_free char *id = xasprintf("%s.%s", type, name);
    jw_init(&w, ret);
    jw_object(&w, NULL);
    jw_str(&w, "id", id);
    jw_str(&w, "type", type);
    jw_object(&w, "options");
    if (copy_paths(&body, &w, err))
        return -1;
    mask_node(&body, &w, "compat");
    jw_end(&w);
    jw_end(&w);
    return 0;
}

/* --- jobs ------------------------------------------------------------------------------------- */

/* "terminate": what runs or waits is cancelled, as the original killed its running command. */
static void terminate_all(struct server *s)
{
    static const char *const states[] = {"running", "pending"};
    for (size_t k = 0; k < 2; k++) {
        cleanup_bytes struct bytes text = {0};
        cleanup_json struct json_doc *doc = NULL;
        struct json_writer w;
        jw_init(&w, &text);
        jw_array(&w, NULL);
        if (jobs_write_all(s->jobs, NULL, states[k], &w, NULL))
            return;
        jw_end(&w);
        if (json_parse(&doc, "jobs", text.data, text.len, NULL))
            return;
        struct json list = json_root(doc);
        for (size_t i = 0; i < json_count(&list); i++) {
            struct json job = json_at(&list, i);
            const char *id;
            if (json_str(&job, "id", &id, NULL) == 0)
                jobs_cancel(s->jobs, id, NULL);
        }
    }
}

static void post_options(struct request *r, struct answer *a, const char *type)
{
    const char *name = request_header(r, "filename");
    const char *terminate = request_query(r, "terminate");
    cleanup_bytes struct bytes text = {0};
    cleanup_json struct json_doc *doc = NULL;
    struct err err = {0};
    bool new;
    if (!name || !*name) {
        answer_error(a, &no_name);
        return;
    }
    a->status = MHD_HTTP_OK;
    if (terminate && strcmp(terminate, "true") == 0) {
        terminate_all(r->server);
        return;
    }
    if (terminate && strcmp(terminate, "false") != 0) {
        err_set(&err, ERR_USAGE, "terminate: \"%.100s\": want true or false", terminate);
        answer_error(a, &err);
        return;
    }
    if (build_job(r, type, name, &text, &err) ||
        json_parse(&doc, "job", text.data, text.len, &err)) {
        answer_error(a, &err);
        return;
    }
    struct json root = json_root(doc);
    if (jobs_submit(r->server->jobs, &root, &new, &err))
        answer_error(a, &err);
}

static void get_options(struct request *r, struct answer *a, const char *type)
{
    cleanup_free char *id = xasprintf("%s.%s", type, r->id);
    cleanup_bytes struct bytes text = {0};
    cleanup_json struct json_doc *doc = NULL;
    struct err err = {0};
    struct json_writer w;
    jw_init(&w, &text);
    if (jobs_write(r->server->jobs, id, &w, &err) ||
        json_parse(&doc, "job", text.data, text.len, &err)) {
        answer_error(a, &err);
        return;
    }
    struct json root = json_root(doc), options = json_get(&root, "options");
    struct json compat = json_get(&options, "compat");
    a->status = MHD_HTTP_OK;
    json_text(json_has(&options, "compat") ? &compat : &options, &a->body);
}

static void get_result(struct request *r, struct answer *a, const char *type)
{
    static const char *const words[] = {
        [JOB_PENDING] = NULL,        [JOB_RUNNING] = "running", [JOB_PAUSED] = "running",
        [JOB_SUCCEEDED] = "success", [JOB_FAILED] = "fail",     [JOB_CANCELLED] = "fail",
    };
    cleanup_free char *id = xasprintf("%s.%s", type, r->id);
    cleanup_bytes struct bytes error = {0};
    struct err err = {0};
    enum job_state state;
    struct json_writer w;
    if (jobs_state(r->server->jobs, id, &state, &error, &err)) {
        answer_error(a, &err);
        return;
    }
    if (!words[state]) {
        err_set(&err, ERR_NOT_FOUND, "job %s has not started yet", r->id);
        answer_error(a, &err);
        return;
    }
    answer_json(a, &w);
    jw_object(&w, NULL);
    jw_str(&w, "status", words[state]);
    jw_str(&w, "message", state == JOB_CANCELLED ? "terminated" : error.data ? error.data : "");
    jw_end(&w);
}

/* --- sizes ------------------------------------------------------------------------------------ */

struct sizes {
    uint64_t set_bytes, set_samples, cached;
    uint64_t disk, used, avail; /* KiB, of the disks under the tiers */
    dev_t seen[64];             /* a disk under two tiers counts once */
    size_t n_seen;
};

static void add_disk(struct sizes *z, const char *dir)
{
    struct stat st;
    struct statvfs v;
    if (z->n_seen == 64 || stat(dir, &st) || statvfs(dir, &v))
        return;
    for (size_t i = 0; i < z->n_seen; i++)
        if (z->seen[i] == st.st_dev)
            return;
    z->seen[z->n_seen++] = st.st_dev;
    z->disk += v.f_blocks * v.f_frsize / 1024;
    z->used += (v.f_blocks - v.f_bfree) * v.f_frsize / 1024;
    z->avail += v.f_bavail * v.f_frsize / 1024;
}

static uint64_t number_at(const struct json *o, const char *key)
{
    int64_t n = 0;
    return json_int(o, key, 0, INT64_MAX, &n, NULL) ? 0 : (uint64_t)n;
}

static void add_mount(struct sizes *z, const struct json *status)
{
    struct json set = json_get(status, "set"), cache = json_get(status, "cache");
    struct json tiers = json_get(&cache, "tiers");
    z->set_bytes += number_at(&set, "bytes");
    z->set_samples += number_at(&set, "samples");
    z->cached += number_at(&cache, "bytes");
    for (size_t i = 0; i < json_count(&tiers); i++) {
        struct json tier = json_at(&tiers, i);
        const char *dir;
        if (json_str(&tier, "dir", &dir, NULL) == 0)
            add_disk(z, dir);
    }
}

static void jw_number_text(struct json_writer *w, const char *key, uint64_t n)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    jw_str(w, key, text);
}

static void get_cache_info(struct request *r, struct answer *a)
{
    struct server *s = r->server;
    struct sizes z = {0};
    struct err err = {0};
    struct json_writer w;
    for (size_t i = 0; i < s->conf.n_mounts; i++) {
        cleanup_json struct json_doc *doc = NULL;
        if (mount_ask(s->mounts[i], "status", "", NULL, NULL, &doc, &err))
            continue;
        struct json root = json_root(doc), status = json_get(&root, "status");
        add_mount(&z, &status);
    }
    char rate[16];
    uint64_t usable = z.used + z.avail;
    snprintf(rate, sizeof rate, "%llu%%",
             (unsigned long long)(usable ? (z.used * 100 + usable - 1) / usable : 0));
    answer_json(a, &w);
    jw_object(&w, NULL);
    jw_number_text(&w, "totalSize", z.set_bytes);
    jw_number_text(&w, "totalFiles", z.set_samples);
    jw_number_text(&w, "cachedSize", z.cached < z.set_bytes ? z.cached : z.set_bytes);
    jw_number_text(&w, "diskSize", z.disk);
    jw_number_text(&w, "diskUsed", z.used);
    jw_number_text(&w, "diskAvail", z.avail);
    jw_str(&w, "diskUsageRate", rate);
    jw_str(&w, "errorMassage", err.msg); /* the field's name is the original's */
    jw_end(&w);
}

/* --- the table -------------------------------------------------------------------------------- */

#define COMPAT_ROUTES(type)                                        \
    static void post_##type(struct request *r, struct answer *a)   \
    {                                                              \
        post_options(r, a, #type);                                 \
    }                                                              \
    static void get_##type(struct request *r, struct answer *a)    \
    {                                                              \
        get_options(r, a, #type);                                  \
    }                                                              \
    static void result_##type(struct request *r, struct answer *a) \
    {                                                              \
        get_result(r, a, #type);                                   \
    }
COMPAT_ROUTES(warmup)
COMPAT_ROUTES(clear)

#define COMPAT_ROWS(type)                                    \
    {POST, "/upload/" #type "Options", COMPAT, post_##type}, \
        {GET, "/" #type "Options/{id}", COMPAT, get_##type}, \
    {                                                        \
        GET, "/" #type "Result/{id}", COMPAT, result_##type  \
    }

const struct route compat_routes[] = {
    COMPAT_ROWS(warmup),
    COMPAT_ROWS(clear),
    {GET, "/cacheStatus/cacheInfo.json", COMPAT, get_cache_info},
};
const size_t n_compat_routes = sizeof compat_routes / sizeof compat_routes[0];
