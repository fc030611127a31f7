/* The table of routes, and the handlers of /v1, /healthz and /readyz. */
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "server-internal.h"

/* --- jobs ------------------------------------------------------------------------------------- */

/* The job as it stands now, or the error of asking for it. */
static void answer_job(struct request *r, struct answer *a, const char *id, unsigned status)
{
    struct err err = {0};
    struct json_writer w;
    bytes_clear(&a->body);
    answer_json(a, &w);
    if (jobs_write(r->server->jobs, id, &w, &err))
        answer_error(a, &err);
    else
        a->status = status;
}

static void submit_job(struct request *r, struct answer *a)
{
    struct err err = {0};
    cleanup_json struct json_doc *doc = NULL;
    const char *id = "";
    bool new = false;
    if (cluster_relayed(r, a))
        return;
    if (request_json(r, &doc, &err)) {
        answer_error(a, &err);
        return;
    }
    struct json root = json_root(doc);
    const char *posting =
        request_header(r, MEMBERS_RELAYED) ? request_query(r, MEMBERS_POSTING) : NULL;
    if (jobs_submit(r->server->jobs, &root, posting, &new, &err) ||
        json_str(&root, "id", &id, &err)) {
        answer_error(a, &err);
        return;
    }
    answer_job(r, a, id, new ? MHD_HTTP_CREATED : MHD_HTTP_OK);
    snprintf(a->location, sizeof a->location, "/v1/jobs/%s", id);
}

static int check_state(const char *name, struct err *err)
{
    for (int i = 0; i < JOB_STATES; i++)
        if (!name || strcmp(name, job_state_name((enum job_state)i)) == 0)
            return 0;
    return err_set(
        err, ERR_USAGE,
        "state: \"%.40s\": want pending, running, paused, succeeded, failed or cancelled", name);
}

static int check_type(const char *name, struct err *err)
{
    cleanup_bytes struct bytes known = {0};
    for (size_t i = 0; i < n_job_kinds; i++) {
        if (!name || strcmp(name, job_kinds[i].type) == 0)
            return 0;
        bytes_addf(&known, "%s%s", i ? ", " : "", job_kinds[i].type);
    }
    return err_set(err, ERR_USAGE, "type: \"%.40s\": want one of %s", name, known.data);
}

static void list_jobs(struct request *r, struct answer *a)
{
    struct err err = {0};
    struct json_writer w;
    if (check_state(request_query(r, "state"), &err) ||
        check_type(request_query(r, "type"), &err)) {
        answer_error(a, &err);
        return;
    }
    answer_json(a, &w);
    jw_object(&w, NULL);
    jw_array(&w, "jobs");
    if (jobs_write_all(r->server->jobs, request_query(r, "type"), request_query(r, "state"), &w,
                       &err)) {
        answer_error(a, &err);
        return;
    }
    int lost = cluster_list_jobs(r, &w, &err);
    jw_end(&w);
    if (lost)
        jw_str(&w, "lost", err.msg);
    jw_end(&w);
}

static void get_job(struct request *r, struct answer *a)
{
    if (cluster_relayed(r, a))
        return;
    answer_job(r, a, r->id, MHD_HTTP_OK);
}

static void change_job(struct request *r, struct answer *a,
                       int (*change)(struct jobs *, const char *, struct err *))
{
    struct err err = {0};
    if (cluster_relayed(r, a))
        return;
    if (change(r->server->jobs, r->id, &err))
        answer_error(a, &err);
    else
        answer_job(r, a, r->id, MHD_HTTP_OK);
}

static void cancel_job(struct request *r, struct answer *a)
{
    change_job(r, a, jobs_cancel);
}

static void pause_job(struct request *r, struct answer *a)
{
    change_job(r, a, jobs_pause);
}

static void resume_job(struct request *r, struct answer *a)
{
    change_job(r, a, jobs_resume);
}

/* --- the server and its mounts ---------------------------------------------------------------- */

static void write_mount(struct json_writer *w, const char *mountpoint)
{
    cleanup_json struct json_doc *doc = NULL;
    struct err err = {0};
    if (mount_look(mountpoint, "status", &doc, &err)) {
        jw_object(w, NULL);
        jw_str(w, "mountpoint", mountpoint);
        jw_str(w, "state", "lost");
        jw_str(w, "error", err.msg);
        jw_end(w);
        return;
    }
    struct json root = json_root(doc), status = json_get(&root, "status");
    cleanup_bytes struct bytes text = {0};
    json_text(&status, &text);
    jw_raw(w, NULL, text.data);
}

static void get_status(struct request *r, struct answer *a)
{
    struct server *s = r->server;
    struct json_writer w;
    uint64_t count[JOB_STATES] = {0};
    jobs_count(s->jobs, count, NULL);
    answer_json(a, &w);
    jw_object(&w, NULL);
    jw_str(&w, "program", s->conf.version);
    jw_uint(&w, "ordinal", s->conf.ordinal);
    jw_uint(&w, "partitions", s->conf.partitions);
    jw_num(&w, "uptime_s", (double)(clock_mono_ns() - s->began_ns) / NS_PER_S);
    jw_object(&w, "jobs");
    for (int i = 0; i < JOB_STATES; i++)
        jw_uint(&w, job_state_name((enum job_state)i), count[i]);
    jw_end(&w);
    jw_array(&w, "mounts");
    for (size_t i = 0; i < s->conf.n_mounts; i++)
        write_mount(&w, s->mounts[i]);
    jw_end(&w);
    jw_end(&w);
}

/* What mounts of the set follow on machines without a server of it. */
static void get_version(struct request *r, struct answer *a)
{
    cleanup_json struct json_doc *doc = NULL;
    struct json_writer w;
    struct err err = {0};
    const char *mount, *version;
    bool pinned = false;
    if (mount_choose(r->server, "", &mount, &err)) {
        err.class = ERR_NOT_FOUND;
        answer_error(a, &err);
        return;
    }
    int rc = mount_look(mount, "status", &doc, &err);
    struct json root = {0}, status = {0};
    if (!rc) {
        root = json_root(doc);
        status = json_get(&root, "status");
    }
    if (rc || json_str(&status, "version", &version, &err) ||
        json_bool_or(&status, "pinned", false, &pinned, &err)) {
        answer_error(a, &err);
        return;
    }
    answer_json(a, &w);
    jw_object(&w, NULL);
    jw_str(&w, "version", version);
    jw_bool(&w, "pinned", pinned);
    jw_end(&w);
}

static void get_health(struct request *r, struct answer *a)
{
    (void)r;
    a->status = MHD_HTTP_OK;
    a->type = "text/plain";
    bytes_add_str(&a->body, "ok\n");
}

/* Ready: every mount answers. Why not is said without what only token holders may know. */
static void get_ready(struct request *r, struct answer *a)
{
    struct server *s = r->server;
    size_t lost = 0;
    for (size_t i = 0; i < s->conf.n_mounts; i++) {
        cleanup_json struct json_doc *doc = NULL;
        lost += mount_look(s->mounts[i], "ping", &doc, NULL) != 0;
    }
    a->status = lost ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK;
    a->type = "text/plain";
    if (lost)
        bytes_addf(&a->body, "%zu of %zu mounts do not answer\n", lost, s->conf.n_mounts);
    else
        bytes_add_str(&a->body, "ready\n");
}

/* --- the table -------------------------------------------------------------------------------- */

static const struct route routes[] = {
    {GET, "/healthz", OPEN, get_health},
    {GET, "/readyz", OPEN, get_ready},
    {GET, "/", OPEN, serve_to_ui},
    {GET, "/ui", OPEN, serve_ui},
    {GET, "/ui/", OPEN, serve_to_ui},
    {GET, "/ui/{id}", OPEN, serve_ui},
    {GET, "/metrics", TOKEN, serve_metrics},
    {GET, "/events", TOKEN, serve_events},
    {GET, "/v1/status", TOKEN, get_status},
    {GET, "/v1/identity", TOKEN, serve_identity},
    {GET, "/v1/members", TOKEN, serve_members},
    {GET, "/v1/version", TOKEN, get_version},
    {POST, "/v1/samples:batch", TOKEN, serve_samples},
    {GET, "/v1/catalog/{id}", TOKEN, serve_catalog},
    {POST, "/v1/settings", TOKEN, serve_settings},
    {POST, "/v1/lists", TOKEN, serve_list_post},
    {GET, "/v1/lists/{id}", TOKEN, serve_list_get},
    {POST, "/v1/jobs", TOKEN, submit_job},
    {GET, "/v1/jobs", TOKEN, list_jobs},
    {GET, "/v1/jobs/{id}", TOKEN, get_job},
    {DELETE, "/v1/jobs/{id}", TOKEN, cancel_job},
    {POST, "/v1/jobs/{id}/pause", TOKEN, pause_job},
    {POST, "/v1/jobs/{id}/resume", TOKEN, resume_job},
};

size_t route_body_max(const struct route *route)
{
    return route->serve == serve_list_post ? LIST_MAX : BODY_MAX;
}

/* `{id}` takes one part of the path, never empty and never more than fits. */
static bool matches(const char *pattern, const char *path, char ret_id[256])
{
    const char *hole = strstr(pattern, "{id}");
    if (!hole)
        return strcmp(pattern, path) == 0;
    size_t head = (size_t)(hole - pattern);
    if (strncmp(pattern, path, head) != 0)
        return false;
    size_t len = strcspn(path + head, "/");
    if (len == 0 || len > 255 || strcmp(path + head + len, hole + 4) != 0)
        return false;
    memcpy(ret_id, path + head, len);
    ret_id[len] = '\0';
    return true;
}

static const struct route *find_in(const struct route *table, size_t n, const char *method,
                                   const char *path, char ret_id[256],
                                   char ret_methods[METHODS_MAX])
{
    static const char *const names[] = {[GET] = "GET", [POST] = "POST", [DELETE] = "DELETE"};
    for (size_t i = 0; i < n; i++) {
        if (!matches(table[i].path, path, ret_id))
            continue;
        const char *name = names[table[i].method];
        if (strcmp(name, method) == 0 || (table[i].method == GET && strcmp(method, "HEAD") == 0))
            return &table[i];
        size_t len = strlen(ret_methods);
        snprintf(ret_methods + len, METHODS_MAX - len, "%s%s%s", len ? ", " : "", name,
                 table[i].method == GET ? ", HEAD" : "");
    }
    return NULL;
}

const struct route *route_find(const char *method, const char *path, char ret_id[256],
                               char ret_methods[METHODS_MAX])
{
    ret_methods[0] = '\0';
    const struct route *r =
        find_in(routes, sizeof routes / sizeof routes[0], method, path, ret_id, ret_methods);
    return r ? r : find_in(compat_routes, n_compat_routes, method, path, ret_id, ret_methods);
}
