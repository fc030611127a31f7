/*
 * Many servers as one. Server 0 has the cluster's jobs; each other has the children that it was
 * given, and its own. Whoever is asked passes on what is not its own:
 *
 *   ID.pK     server K, or 0  a job that is here      nobody else
 *   another   server 0        what was passed on      nobody else (no request goes in circles)
 */
#define LOG_MODULE "cluster"
#include <errno.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/random.h>

#include "hash.h"
#include "http.h"
#include "mem.h"
#include "server-internal.h"

/* --- who we are ------------------------------------------------------------------------------- */

static void token_of(void *arg, struct secret *ret)
{
    struct server *s = arg;
    auth_token_copy(&s->auth, ret);
}

int cluster_start(struct server *s, struct err *err)
{
    unsigned char random[(MEMBERS_INSTANCE - 1) / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_sys(err, errno, "random bytes");
    hex_encode(s->instance, random, sizeof random);
    const struct members_conf conf = {.peers = s->conf.peers,
                                      .ordinal = s->conf.ordinal,
                                      .partitions = s->conf.partitions,
                                      .instance = s->instance,
                                      .ca_file = s->conf.ca_file,
                                      .token = token_of,
                                      .arg = s,
                                      .log = s->conf.log};
    if (members_open(&s->members, &conf, err))
        return -1;
    owed_init(s);
    return 0;
}

void cluster_stop(struct server *s)
{
    owed_free(s);
    members_close(s->members);
}

void serve_identity(struct request *r, struct answer *a)
{
    const struct server *s = r->server;
    struct json_writer w;
    answer_json(a, &w);
    jw_object(&w, NULL);
    jw_uint(&w, "ordinal", s->conf.ordinal);
    jw_uint(&w, "partitions", s->conf.partitions);
    jw_str(&w, "instance", s->instance);
    jw_str(&w, "program", s->conf.version);
    jw_end(&w);
}

void serve_members(struct request *r, struct answer *a)
{
    struct json_writer w;
    answer_json(a, &w);
    members_write(r->server->members, &w);
}

/* --- whose job it is -------------------------------------------------------------------------- */

int cluster_scope(const struct server *s, const struct json *options, bool *ret, struct err *err)
{
    const char *scope;
    if (json_str_or(options, "scope", "", &scope, err))
        return -1;
    bool cluster = strcmp(scope, "cluster") == 0;
    if (*scope && !cluster && strcmp(scope, "node") != 0)
        return err_set(err, ERR_USAGE, "options.scope: \"%s\": want cluster or node", scope);
    *ret = members_are_several(s->members) && (cluster || !*scope);
    return 0;
}

bool cluster_is_job(const struct json *options)
{
    const char *scope;
    return json_str(options, "scope", &scope, NULL) == 0 && strcmp(scope, "cluster") == 0;
}

static bool is_here(const struct server *s, const char *id)
{
    cleanup_bytes struct bytes error = {0};
    enum job_state state;
    return jobs_state(s->jobs, id, &state, &error, NULL) == 0;
}

/* The server that a request for this job is for. */
static unsigned holder_of(const struct server *s, const char *id)
{
    unsigned child;
    if (is_here(s, id))
        return s->conf.ordinal;
    if (fanout_is_child(id, &child) && child < s->conf.partitions && child != s->conf.ordinal)
        return child;
    return 0;
}

/* A new job of the whole cluster is for server 0. What is wrong with it is found where it is read.
 */
static unsigned holder_of_new(struct request *r)
{
    const struct server *s = r->server;
    cleanup_json struct json_doc *doc = NULL;
    bool cluster = false;
    if (r->route->serve == serve_list_post)
        return 0; /* all lists are */
    if (request_json(r, &doc, NULL))
        return s->conf.ordinal;
    struct json root = json_root(doc);
    if (json_want_object(&root, NULL))
        return s->conf.ordinal;
    struct json options = json_get(&root, "options");
    if (json_has(&root, "options")) {
        if (json_want_object(&options, NULL) || cluster_scope(s, &options, &cluster, NULL))
            return s->conf.ordinal;
    } else {
        cluster = true;
    }
    return cluster ? 0 : s->conf.ordinal;
}

static void relay(struct request *r, struct answer *a, unsigned to)
{
    static const char *const names[] = {[GET] = "GET", [POST] = "POST", [DELETE] = "DELETE"};
    struct member_answer answer = {0};
    struct err err = {0};
    const char *path = r->route->path, *hole = strstr(path, "{id}");
    cleanup_bytes struct bytes url = {0};
    bytes_add(&url, path, hole ? (size_t)(hole - path) : strlen(path));
    if (hole) {
        url_encode(&url, r->id, strlen(r->id), false);
        bytes_add_str(&url, hole + 4);
    }
    if (members_call(r->server->members, to, names[r->route->method], url.data,
                     r->route->method == POST ? &r->body : NULL, &answer, &err)) {
        err_wrap(&err, to == 0 ? "server 0, which has the cluster's jobs, is lost"
                               : "the server that has this job is lost");
        answer_error(a, &err);
    } else {
        a->status = answer.status;
        bytes_clear(&a->body);
        bytes_add(&a->body, answer.body.data, answer.body.len);
    }
    bytes_release(&answer.body);
}

bool cluster_relayed(struct request *r, struct answer *a)
{
    const struct server *s = r->server;
    if (!members_are_several(s->members) || request_header(r, MEMBERS_RELAYED))
        return false;
    unsigned to = strstr(r->route->path, "{id}") ? holder_of(s, r->id) : holder_of_new(r);
    if (to == s->conf.ordinal)
        return false;
    relay(r, a, to);
    if (a->status == MHD_HTTP_NOT_FOUND && to != 0 && s->conf.ordinal != 0)
        relay(r, a, 0); /* nobody's child: a client may choose such an id */
    return true;
}

/* --- all jobs --------------------------------------------------------------------------------- */

static void add_query(struct request *r, const char *name, struct bytes *url, char *sep)
{
    const char *value = request_query(r, name);
    if (!value)
        return;
    bytes_addf(url, "%c%s=", *sep, name);
    url_encode(url, value, strlen(value), false);
    *sep = '&';
}

static int read_jobs(struct member_answer *answer, struct json_writer *w, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    if (answer->status != MHD_HTTP_OK)
        return err_set(err, ERR_TRANSIENT, "server 0 answers with status %u", answer->status);
    if (json_parse(&doc, "jobs", answer->body.data, answer->body.len, err))
        return -1;
    struct json root = json_root(doc), jobs = json_get(&root, "jobs");
    for (size_t i = 0; i < json_count(&jobs); i++) {
        struct json job = json_at(&jobs, i), options = json_get(&job, "options");
        cleanup_bytes struct bytes text = {0};
        if (!cluster_is_job(&options))
            continue;
        json_text(&job, &text);
        jw_raw(w, NULL, text.data);
    }
    return 0;
}

int cluster_list_jobs(struct request *r, struct json_writer *w, struct err *err)
{
    struct server *s = r->server;
    struct member_answer answer = {0};
    cleanup_bytes struct bytes url = {0};
    char sep = '?';
    if (!members_are_several(s->members) || s->conf.ordinal == 0 ||
        request_header(r, MEMBERS_RELAYED))
        return 0;
    bytes_add_str(&url, "/v1/jobs");
    add_query(r, "type", &url, &sep);
    add_query(r, "state", &url, &sep);
    int rc = members_call(s->members, 0, "GET", url.data, NULL, &answer, err);
    if (!rc)
        rc = read_jobs(&answer, w, err);
    bytes_release(&answer.body);
    return rc;
}

/* --- asking for one job ----------------------------------------------------------------------- */

static int ask_here(struct server *s, enum job_ask what, const char *id, const char *posting,
                    const struct bytes *body, struct bytes *ret, struct err *err)
{
    struct json_writer w;
    int rc = 0;
    jw_init(&w, ret);
    if (what == ASK_SUBMIT) {
        cleanup_json struct json_doc *doc = NULL;
        bool new;
        if (json_parse(&doc, "job", body->data, body->len, err))
            return -1;
        struct json root = json_root(doc);
        rc = jobs_submit(s->jobs, &root, posting, &new, err);
    } else if (what != ASK_STATE) {
        rc = (what == ASK_PAUSE    ? jobs_pause
              : what == ASK_RESUME ? jobs_resume
                                   : jobs_cancel)(s->jobs, id, err);
    }
    return rc ? -1 : jobs_write(s->jobs, id, &w, err);
}

/* The other server's error as our own. */
static int error_of(unsigned ordinal, const struct member_answer *answer, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    const char *text = "no reason is given";
    unsigned status = answer->status;
    enum err_class class = status == 400                                     ? ERR_USAGE
                           : status == 404                                   ? ERR_NOT_FOUND
                           : status == 403 || status == 409 || status == 413 ? ERR_DENIED
                                                                             : ERR_TRANSIENT;
    if (json_parse(&doc, "error", answer->body.data, answer->body.len, NULL) == 0) {
        struct json root = json_root(doc);
        json_str(&root, "error", &text, NULL);
    }
    err_set(err, class, "server %u: %s (status %u)", ordinal, text, status);
    if (err && status == 409)
        err->sys = EEXIST;
    return -1;
}

static int ask_there(struct server *s, unsigned ordinal, enum job_ask what, const char *id,
                     const char *posting, const struct bytes *body, struct bytes *ret,
                     struct err *err)
{
    static const struct {
        const char *method, *tail;
    } asks[] = {[ASK_SUBMIT] = {"POST", ""},
                [ASK_STATE] = {"GET", ""},
                [ASK_PAUSE] = {"POST", "/pause"},
                [ASK_RESUME] = {"POST", "/resume"},
                [ASK_CANCEL] = {"DELETE", ""}};
    struct member_answer answer = {0};
    const struct bytes none = {0};
    bool posts = *asks[what].method == 'P';
    cleanup_free char *path = what != ASK_SUBMIT ? xasprintf("/v1/jobs/%s%s", id, asks[what].tail)
                              : *posting ? xasprintf("/v1/jobs?" MEMBERS_POSTING "=%s", posting)
                                         : xstrdup("/v1/jobs");
    int rc = members_call(s->members, ordinal, asks[what].method, path,
                          body    ? body
                          : posts ? &none
                                  : NULL,
                          &answer, err);
    if (!rc && answer.status >= 300)
        rc = error_of(ordinal, &answer, err);
    if (!rc)
        bytes_add(ret, answer.body.data, answer.body.len);
    bytes_release(&answer.body);
    return rc;
}

int cluster_ask(struct server *s, unsigned ordinal, enum job_ask what, const char *id,
                const char *posting, const struct bytes *body, struct json_doc **ret,
                struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    int rc = ordinal == s->conf.ordinal
                 ? ask_here(s, what, id, posting, body, &text, err)
                 : ask_there(s, ordinal, what, id, posting, body, &text, err);
    return rc ? -1 : json_parse(ret, "job", text.data, text.len, err);
}
