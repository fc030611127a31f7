/*
 * The routes of the Paddle Operator's runtime server, as a thin layer over the same jobs:
 *
 *   POST /upload/{sync,warmup,rmr,clear}Options    its options; header "filename": the job's name
 *   GET  /{sync,warmup,rmr,clear}Options/NAME      what was posted, secrets masked
 *   GET  /{sync,warmup,rmr,clear}Result/NAME       {"status":"running|success|fail","message":…}
 *   GET  /cacheStatus/cacheInfo.json               sizes as text
 *
 * compat-options.c reads the options. A job NAME of type T is our job "T.NAME", of this server
 * alone: the original's controller posts to each server what is for all of them.
 */
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "mem.h"
#include "server-internal.h"

static const struct err no_name = {.class = ERR_USAGE,
                                   .msg = "want the header \"filename\" with the job's name"};

/* --- jobs ------------------------------------------------------------------------------------- */

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
    if (compat_options(r->server, type, &body, &w, err))
        return -1;
    jw_end(&w);
    jw_end(&w);
    return 0;
}

/* "terminate": what runs or waits is cancelled, as the original killed its running command.
 * Templates, which it knew not, stay. */
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
            if (!json_has(&job, "schedule") && json_str(&job, "id", &id, NULL) == 0)
                jobs_cancel(s->jobs, id, NULL);
        }
    }
}

static void post_options(struct request *r, struct answer *a, const char *type)
{
    const char *name = request_header(r, "filename");
    const char *terminate = request_query(r, "terminate");
    cleanup_wiped struct bytes text = {0}; /* may hold keys */
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
    if (jobs_submit(r->server->jobs, &root, NULL, &new, &err))
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
        if (mount_look(s->mounts[i], "status", &doc, &err))
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
COMPAT_ROUTES(sync)
COMPAT_ROUTES(rmr)

#define COMPAT_ROWS(type)                                    \
    {POST, "/upload/" #type "Options", COMPAT, post_##type}, \
        {GET, "/" #type "Options/{id}", COMPAT, get_##type}, \
    {                                                        \
        GET, "/" #type "Result/{id}", COMPAT, result_##type  \
    }

const struct route compat_routes[] = {
    COMPAT_ROWS(warmup),
    COMPAT_ROWS(clear),
    COMPAT_ROWS(sync),
    COMPAT_ROWS(rmr),
    {GET, "/cacheStatus/cacheInfo.json", COMPAT, get_cache_info},
};
const size_t n_compat_routes = sizeof compat_routes / sizeof compat_routes[0];
