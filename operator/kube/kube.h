/*
 * Talking to an API server of Kubernetes: who it is and who we are (config.c), and requests to it
 * (client.c, answer.c). Knows paths and bodies, no kind of object.
 *
 * A client has one thread that moves all bytes. Over TLS all requests share one connection of
 * HTTP/2, watches among them. Many threads may ask at once.
 */
#ifndef SAMPAN_OPERATOR_KUBE_H
#define SAMPAN_OPERATOR_KUBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"
#include "http.h"
#include "json.h"
#include "log.h"

/* --- configuration ---------------------------------------------------------------------------- */

struct kube_config {
    char *server;        /* "https://host:port", no slash at the end */
    char *namespace_;    /* of the service account or the context; "default" */
    char *ca_pem;        /* NULL: the system's authorities */
    char *cert_pem;      /* NULL: none */
    struct secret key;   /* of the certificate, as PEM */
    struct secret token; /* unless there is a file */
    char *token_file;    /* read again and again: it is rotated */
    char *ca_file;       /* where ca_pem came from, read again with the token; NULL: it was data */
    char *proxy;         /* NULL: what the environment says */
    bool no_verify;
};

/*
 * `file` and `context` may be NULL. A file that is given wins; then the pod's own service account
 * (KUBERNETES_SERVICE_HOST is set), then the file that KUBECONFIG names. What a kubeconfig asks for
 * and we do not do (exec and auth-provider plugins, passwords) is an error that says so.
 */
int kube_config_load(struct kube_config **ret, const char *file, const char *context,
                     struct err *err);
/* The two ways alone; `folder` is that of the service account. */
int kube_config_file(struct kube_config **ret, const char *file, const char *context,
                     struct err *err);
int kube_config_pod(struct kube_config **ret, const char *folder, const char *host,
                    const char *port, struct err *err);
void kube_config_free(struct kube_config *c);

/* YAML (of the kinds people write by hand: no anchors, no tags) as JSON. */
int kube_yaml(const char *what, const char *text, size_t len, struct bytes *json, struct err *err);

/* --- requests --------------------------------------------------------------------------------- */

struct kube_client_conf {
    const struct kube_config *config;
    struct log *log;
    unsigned qps, burst; /* of all requests but watches and urgent ones; qps 0: no bound */
    /* Until when (clock_mono_ns) a write may be under way; 0: not at all. Asked on the client's
     * thread right before a write is sent, which then has no more time than that. NULL: always. */
    uint64_t (*write_until)(void *arg);
    void *arg;
};

struct kube_request {
    enum http_method method;
    const char *path;         /* "/api/v1/pods?limit=1"; copied */
    const struct bytes *body; /* borrowed until the end; PATCH: a merge patch */
    uint64_t timeout_ns;      /* 0: 30 s. A watch has none */
    bool watch;               /* ends only by itself, or when nothing came for long */
    bool urgent;              /* the lease: waits for no other's turn, and is not fenced */
};

struct kube_client;
int kube_open(struct kube_client **ret, const struct kube_client_conf *conf, struct err *err);
/* Ends what is under way (ERR_CANCELLED), then the thread. NULL is fine. */
void kube_close(struct kube_client *c);

struct kube_answer {
    int status;             /* of HTTP; 0: none came */
    unsigned retry_after_s; /* 0: not said; a minute at most */
    char reason[64];        /* of a refusal: "AlreadyExists"; "": none */
};

/*
 * Asks and waits. 0: the answer was a success and `ret` has its body (NULL where it was empty).
 * -1: `err` says what the server or the network said, `answer` (never NULL) how: class NOT_FOUND
 * for 404, STALE for 409 and 410, DENIED for 401 and 403, USAGE for other 4xx, TRANSIENT for 429,
 * 5xx and failures on the way; CANCELLED when stopped or fenced. What the server put off (429, with
 * a time) is asked again up to 5 times.
 */
int kube_ask(struct kube_client *c, const struct kube_request *r, struct json_doc **ret,
             struct kube_answer *answer, struct err *err);

/*
 * Asks and goes on; both are called on the client's thread, without a lock, `end` exactly once.
 * They may start requests and must not wait. `why` is NULL where the answer was a success and ended
 * as it should. The body of a refusal is not given to `data`.
 */
struct kube_calls {
    void (*data)(void *arg, const char *bytes, size_t n);
    void (*end)(void *arg, const struct kube_answer *answer, const struct err *why);
};
void kube_start(struct kube_client *c, const struct kube_request *r, uint64_t delay_ns,
                const struct kube_calls *calls, void *arg);

void kube_metrics(const struct kube_client *c, struct bytes *out);

/* Fills reason and err from a refusal's body (a Status). Pure. */
int kube_refusal(struct kube_answer *a, const char *what, const char *body, size_t len,
                 struct err *err);

#endif
