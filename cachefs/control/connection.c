/* One connection: requests are read, handled and answered one after the other. */
#define LOG_MODULE "control"
#include "serve-internal.h"

#include <sys/socket.h>

#include "log.h"

void refusal_text(struct bytes *text, const struct err *err)
{
    struct json_writer w;
    bytes_clear(text);
    jw_init(&w, text);
    jw_object(&w, NULL);
    jw_bool(&w, "ok", false);
    jw_str(&w, "class", err_class_name(err->class));
    jw_str(&w, "error", err->msg);
    jw_end(&w);
}

static int run_op(struct request *r, struct bytes *text, struct err *err)
{
    const struct connection *c = r->connection;
    const struct json *root = &r->root;
    struct json_writer w;
    const char *name;
    if (json_want_object(root, err) || json_str(root, "op", &name, err))
        return -1;
    const struct op *op = op_find(name, err);
    if (!op || json_only_keys(root, op->keys, err))
        return -1;
    if (c->guest && op->asker != ANYBODY)
        return err_set(err, ERR_DENIED, "%s: this socket only tells where samples lie", name);
    if (op->needs == NEEDS_VOLUME && c->server->conf.stage)
        return err_set(err, ERR_USAGE,
                       "%s: this mount can be written: it has no samples, versions or order", name);
    if (op->needs != NEEDS_NOTHING && !c->server->conf.volume && !c->server->conf.stage)
        return err_set(err, ERR_FAILED,
                       "%s: the mount is degraded and serves nothing (sampan status says why)",
                       name);
    r->w = &w;
    jw_init(&w, text);
    jw_object(&w, NULL);
    jw_bool(&w, "ok", true);
    if (op->handler(r, err))
        return -1;
    jw_end(&w);
    return 0;
}

static void close_fds(struct request *r)
{
    while (r->n_fds)
        close(r->fds[--r->n_fds]);
}

/* -1: the connection is of no more use. */
static int serve_one(struct connection *c, const struct bytes *msg)
{
    cleanup_bytes struct bytes text = {0};
    cleanup_json struct json_doc *doc = NULL;
    struct request r = {
        .connection = c,
        .volume = c->server->conf.volume,
        .frontend = c->server->frontend,
        .stage = c->server->conf.stage,
    };
    struct err err = {0};
    int rc = json_parse(&doc, "request", msg->data ? msg->data : "", msg->len, &err);
    if (!rc) {
        r.root = json_root(doc);
        rc = run_op(&r, &text, &err);
    }
    if (rc) {
        close_fds(&r);
        refusal_text(&text, &err);
    }
    rc = control_send_fds(c->sock, &text, r.fds, r.n_fds, &err);
    close_fds(&r);
    if (!rc)
        return 0;
    if (text.len <= CONTROL_MAX)
        return -1;
    refusal_text(&text, &err); /* the answer was too long: say so */
    return control_send(c->sock, &text, -1, NULL);
}

void *connection_main(void *arg)
{
    struct connection *c = arg;
    cleanup_bytes struct bytes msg = {0};
    struct err err = {0};
    const size_t most = c->guest ? GUEST_MAX : CONTROL_MAX;
    while (!server_stopping(c->server)) {
        if (control_recv_short(c->sock, most, &msg, &err)) {
            if (err.class != ERR_NOT_FOUND)
                log_debug(c->server->conf.log, "a client is gone: %s", err.msg);
            break;
        }
        if (serve_one(c, &msg))
            break;
    }
    leases_return(c);
    shutdown(c->sock, SHUT_RDWR); /* the client learns now; the descriptor goes when it is joined */
    atomic_store(&c->finished, true);
    return NULL;
}
