/* One look at mounts: at those of this machine over their control sockets, or over HTTP at all that
 * a runtime server speaks for. */
#include <string.h>

#include "clock.h"
#include "http.h"
#include "secret-file.h"
#include "top-internal.h"

#define CONNECT_NS (5 * NS_PER_S)
#define ANSWER_NS  (20 * NS_PER_S)
#define ANSWER_MAX (64u << 20)

/* --- this machine ----------------------------------------------------------------------------- */

static void add_mount(struct json_writer *w, const struct control_mount *m)
{
    cleanup_json struct json_doc *doc = NULL;
    cleanup_bytes struct bytes text = {0};
    struct err err = {0};
    if (!m->alive || ask_status(m, &doc, &err)) {
        jw_object(w, NULL);
        jw_str(w, "mountpoint", m->mountpoint);
        jw_str(w, "uri", m->uri);
        jw_str(w, "state", m->alive ? "recovering" : "dead");
        status_zeros(w);
        jw_end(w);
        return;
    }
    struct json root = json_root(doc), status = json_get(&root, "status");
    json_text(&status, &text);
    jw_raw(w, NULL, text.data);
}

static int add_mounts(struct json_writer *w, const char *path, struct err *err)
{
    if (path) {
        cleanup_mount struct control_mount m = {0};
        if (mount_of(path, &m, NULL, err))
            return -1;
        add_mount(w, &m);
        return 0;
    }
    struct control_mount *all;
    size_t n;
    if (control_mounts(&all, &n, err))
        return -1;
    for (size_t i = 0; i < n; i++)
        add_mount(w, &all[i]);
    control_mounts_free(all, n);
    return 0;
}

/* --- a server --------------------------------------------------------------------------------- */

/* What a server says with a status that is not 200, in its own words. */
static int refusal(int status, const struct bytes *body, const char *server, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    const char *why = "";
    if (json_parse(&doc, "answer", body->data ? body->data : "", body->len, NULL) == 0) {
        struct json root = json_root(doc);
        why = json_str_at(&root, "error");
    }
    return err_set(err, status == 401 || status == 403 ? ERR_DENIED : ERR_FAILED, "%s: %d: %s%s",
                   server, status, *why ? why : "no runtime server answers there",
                   status == 401 ? " (--token-file FILE)" : "");
}

static int get(const struct top_where *where, const struct secret *token, const char *path,
               struct bytes *ret, struct err *err)
{
    const struct http_peer peer = {.ca_file = where->ca_file, .connect_timeout_ns = CONNECT_NS};
    cleanup_http_req struct http_req req;
    struct http_answer head;
    size_t len = strlen(where->server);
    while (len && where->server[len - 1] == '/')
        len--;
    http_req_init(&req, HTTP_GET);
    bytes_addf(&req.url, "%.*s%s", (int)len, where->server, path);
    if (token->len)
        http_header(&req, "Authorization", "Bearer %s", token->text);
    if (http_do(&req, &peer, ANSWER_NS, ANSWER_MAX, &head, ret, err))
        return -1;
    return head.status == 200 ? 0 : refusal(head.status, ret, where->server, err);
}

static int add_list(const struct top_where *where, const struct secret *token, const char *path,
                    const char *key, struct json_writer *w, struct err *err)
{
    cleanup_bytes struct bytes body = {0}, text = {0};
    cleanup_json struct json_doc *doc = NULL;
    if (get(where, token, path, &body, err) || json_parse(&doc, path, body.data, body.len, err))
        return -1;
    struct json root = json_root(doc), list = json_get(&root, key);
    if (json_want_array(&list, err))
        return err_wrap(err, "%s", where->server);
    json_text(&list, &text);
    jw_raw(w, key, text.data);
    return 0;
}

static int look_at_server(const struct top_where *where, struct json_writer *w, struct err *err)
{
    cleanup_secret struct secret token = {0};
    if (where->token_file && secret_read(&token, where->token_file, err))
        return err_wrap(err, "--token-file");
    return add_list(where, &token, "/v1/status", "mounts", w, err) ||
                   add_list(where, &token, "/v1/jobs?state=running", "jobs", w, err)
               ? -1
               : 0;
}

int top_look(const struct top_where *where, struct json_doc **ret, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    jw_init(&w, &text);
    jw_object(&w, NULL);
    if (where->server) {
        if (look_at_server(where, &w, err))
            return -1;
    } else {
        jw_array(&w, "mounts");
        if (add_mounts(&w, where->mount, err))
            return -1;
        jw_end(&w);
        jw_array(&w, "jobs");
        jw_end(&w);
    }
    jw_end(&w);
    return json_parse(ret, "look", text.data, text.len, err);
}
