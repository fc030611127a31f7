/* Shared by the files of the runtime server; nobody outside includes it. */
#ifndef SAMPAN_SERVER_INTERNAL_H
#define SAMPAN_SERVER_INTERNAL_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "buf.h"
#include "clock.h"
#include "control.h"
#include "http-clients.h"
#include "http-reply.h"
#include "jobs.h"
#include "json.h"
#include "log.h"
#include "members.h"
#include "metrics.h"
#include "object.h"
#include "server.h"
#include "sync.h"

#define BODY_MAX    (1u << 20)  /* of a request */
#define LIST_MAX    (64u << 20) /* of one that is a list of paths */
#define CONNECTIONS 512
#define PER_ADDRESS 128
#define IDLE_S      20 /* a connection that says nothing is closed */
#define REQUEST_S   20 /* for each of a request's head and body */
#define WORKERS     4

/* --- requests and answers (http.c) ------------------------------------------------------------ */

enum method { GET, POST, DELETE };

struct request {
    struct server *server;
    struct MHD_Connection *connection;
    const struct route *route;
    char id[256]; /* what stands for {id} in the route's path */
    struct bytes body;
    bool too_large;
    uint64_t began_ns;
};

struct answer {
    unsigned status;  /* 0: the handler queued the answer itself */
    const char *type; /* NULL: application/json */
    struct bytes body;
    char location[300];
    const char *allow; /* of 405 */
};

const char *request_header(const struct request *r, const char *name); /* or NULL */
const char *request_query(const struct request *r, const char *name);  /* or NULL */

int request_json(const struct request *r, struct json_doc **ret, struct err *err);

/* An error as an answer: its class says the status. */
void answer_error(struct answer *a, const struct err *err);
/* An object is open in `w` until answer_json_end(). */
void answer_json(struct answer *a, struct json_writer *w);

int http_start(struct server *s, struct err *err);
void http_stop(struct server *s);

/* --- the table (routes.c) --------------------------------------------------------------------- */

enum guard { OPEN, TOKEN, COMPAT };
struct route {
    enum method method;
    const char *path; /* "{id}" stands for one part */
    enum guard guard;
    void (*serve)(struct request *r, struct answer *a);
};
/* How long a body it takes. */
size_t route_body_max(const struct route *route);
#define METHODS_MAX 32
/* The route of a request, or NULL; then ret_methods has those that the path takes ("GET, HEAD"), ""
 * if there is no such path. */
const struct route *route_find(const char *method, const char *path, char ret_id[256],
                               char ret_methods[METHODS_MAX]);
extern const struct route compat_routes[];
extern const size_t n_compat_routes;

/* --- auth.c ----------------------------------------------------------------------------------- */

struct network {
    unsigned char address[16]; /* IPv4 as ::ffff:a.b.c.d */
    unsigned bits;
};
struct auth {
    const char *token_file; /* NULL: everybody may */
    struct lock lock;
    char *token;                     /* under lock, with the next one */
    struct timespec read_at, bad_at; /* when the file was changed that is in use, or of no use */
    struct network *compat;
    size_t n_compat;
    struct log *log;
};
int auth_open(struct auth *a, const struct server_conf *conf, struct err *err);
void auth_close(struct auth *a);
bool auth_token_is(struct auth *a, const char *header);
/* The token as it is now, to show to another server; nothing where everybody may ask. */
void auth_token_copy(struct auth *a, struct secret *ret);
bool auth_is_compat_peer(const struct auth *a, const struct sockaddr *peer);
/* Does another site's page ask through its reader's browser? `open` is a server that wants no
 * token: it must also be called by a name of this machine alone. */
bool auth_is_foreign_page(bool open, const char *site, const char *origin, const char *host);
/* IPv4 as ::ffff:a.b.c.d; false for what is neither. */
bool address_bytes(const struct sockaddr *addr, unsigned char ret[16]);
/* Listens on "ADDR:PORT"; *ret_loopback tells whether only this machine can reach it. */
int listen_open(const char *text, int *ret, uint16_t *ret_port, bool *ret_loopback,
                struct err *err);
int networks_parse(const char *text, struct network **ret, size_t *n, struct err *err);

/* --- limits.c --------------------------------------------------------------------------------- */

#define LIMITS_SETS 256

struct bucket;
struct limits {
    double rate; /* requests a second from one address; 0: any */
    struct lock lock;
    struct bucket *buckets; /* under lock */
};
void limits_init(struct limits *l, double rate);
void limits_destroy(struct limits *l);
/* May this address ask once more? */
bool limits_take(struct limits *l, const struct sockaddr *peer, uint64_t now);
void limits_refused(struct limits *l, const struct sockaddr *peer, uint64_t now);

/* --- mounts.c --------------------------------------------------------------------------------- */

/* One request to the owner of a mount; `fields` is a JSON object's inside ("" or "\"paths\":[…]").
 * Without `progress`, which may call it off (control.h), an owner that hangs is not asked. */
typedef bool mount_progress_fn(void *arg, const struct json *progress);
int mount_ask(const char *mountpoint, const char *op, const char *fields,
              mount_progress_fn *progress, void *arg, struct json_doc **ret, struct err *err);
/* The same for what is answered at once ("ping", "status", "stats"): an owner that hangs is lost
 * after a while, and holds up nobody who asks. */
int mount_look(const char *mountpoint, const char *op, struct json_doc **ret, struct err *err);
/* The address of the store that it was mounted with; NULL: none was given. */
int mount_endpoint(const char *mountpoint, char **ret, struct err *err);
/* Which mount a job means: its "mount" option, or the only one. */
int mount_choose(const struct server *s, const char *named, const char **ret, struct err *err);

/* --- cluster.c: many servers as one ----------------------------------------------------------- */

int cluster_start(struct server *s, struct err *err);
void cluster_stop(struct server *s);
void serve_identity(struct request *r, struct answer *a);
void serve_members(struct request *r, struct answer *a);

/* A job of the whole cluster is server 0's; it has a child "ID.pK" on each server K that works for
 * it. Reads options.scope: "cluster", "node"; absent: cluster where there are several servers. */
int cluster_scope(const struct server *s, const struct json *options, bool *ret, struct err *err);
/* Of options as they are kept. */
bool cluster_is_job(const struct json *options);
/* A job's request that another server is to answer was answered by it (or by why it cannot be). */
bool cluster_relayed(struct request *r, struct answer *a);
/* The cluster's jobs of server 0, into the array of GET /v1/jobs; why not, if it is lost. */
int cluster_list_jobs(struct request *r, struct json_writer *w, struct err *err);

/* Asks any server for a job, ourselves without a detour; `ret` gets the job's object. `posting`:
 * jobs_submit(). */
enum job_ask { ASK_SUBMIT, ASK_STATE, ASK_PAUSE, ASK_RESUME, ASK_CANCEL };
int cluster_ask(struct server *s, unsigned ordinal, enum job_ask what, const char *id,
                const char *posting, const struct bytes *body, struct json_doc **ret,
                struct err *err);

/* --- fanout.c: the work of a cluster's job ---------------------------------------------------- */

#define LOST_AFTER_S 600
int fanout_run(struct job_run *r, struct server *s, const struct json *options,
               struct bytes *result, struct err *err);
void fanout_child_id(const char *id, unsigned partition, struct bytes *ret);
/* Is this the name of a child? Which server's? */
bool fanout_is_child(const char *id, unsigned *ret_partition);
/* What the child's server says of it. */
void fanout_read(const struct json *job, enum job_state *ret_state, struct job_progress *ret);

/* --- compat-options.c ------------------------------------------------------------------------- */

/* Writes our options for those that the Paddle Operator's controller posts, into an open object;
 * what it posted, without secrets, goes along as "compat". */
int compat_options(struct server *s, const char *type, const struct json *body,
                   struct json_writer *w, struct err *err);

/* --- lists.c: lists of paths, by the digest of their content ---------------------------------- */

void serve_list_post(struct request *r, struct answer *a);
void serve_list_get(struct request *r, struct answer *a);
/* Keeps a list, cleaned; `ret_digest` names it. */
int lists_keep(const struct server *s, const char *text, size_t len, char ret_digest[65],
               uint64_t *ret_paths, uint64_t *ret_duplicates, struct err *err);
/* Could a job refer to it? */
int lists_check(const struct server *s, const char *digest, struct err *err);
/* Its lines; fetched from server 0 if it is not here. */
int lists_get(struct server *s, const char *digest, struct bytes *ret, struct err *err);

/* --- owed.c: what servers that were lost are still to be told ------------------------------- */

void owed_init(struct server *s); /* before the jobs begin to run */
int owed_start(struct server *s, struct err *err);
void owed_stop(struct server *s); /* no thread any more, but jobs may still be told of */
void owed_free(struct server *s);
/* The job's children may not all have heard what it is now. Any thread. */
void owed_later(struct server *s, const char *id);

/* --- kinds.c, events.c, prom.c ---------------------------------------------------------------- */

/* kinds.c: what the kinds share. The canonical options are begun with scope and mount, and what the
 * Paddle Operator's own form of them was ("compat"); the object stays open. */
int options_begin(const struct server *s, const struct json *o, bool on_mount,
                  struct json_writer *w, struct bytes *ret, struct err *err);
void options_copy_compat(const struct json *o, struct json_writer *w);
/* A path in the set: relative, without a part that leads out of it. */
int options_check_path(const char *path, struct err *err);
int options_copy_paths(const struct json *o, struct json_writer *w, struct err *err);
/* What stands before all that a job touches. */
void options_touch_paths(const struct json *o, struct bytes *ret);
/* What a job writes or removes there; a local folder is told as paths of mounts are. */
void options_touch_uri(const struct json *o, const char *uri, struct bytes *ret);
void options_paths_field(const struct json *o, struct bytes *fields);
/* Asks the owner of the job's mount, and tells of its progress. `asked`, of a job that asks for a
 * part of its work each time: what was done before, and which share of it all will be done then.
 * 1: it is to stop, and nothing is to be said. */
struct asked {
    uint64_t items, bytes;
    double share; /* up to 1 */
};
int owner_ask(struct job_run *r, struct server *s, const struct json *o, const char *op,
              const char *fields, const struct asked *asked, struct json_doc **ret,
              struct err *err);
/* Runs one operation of the owner whose answer's fields are the job's result. */
int owner_run(struct job_run *r, struct server *s, const struct json *o, const char *op,
              const char *fields, struct bytes *result, struct err *err);

/* kind-warmup.c */
int check_warmup(void *server, const struct json *o, struct bytes *ret, struct bytes *secret,
                 struct err *err);
int run_warmup(struct job_run *r, void *server, const struct json *o, struct bytes *result,
               struct err *err);

/* kind-rmr.c */
int check_rmr(void *server, const struct json *o, struct bytes *ret, struct bytes *secret,
              struct err *err);
void touches_rmr(const struct json *o, struct bytes *ret);
int run_rmr(struct job_run *r, void *server, const struct json *o, struct bytes *result,
            struct err *err);

/* kind-evict.c */
int check_evict(void *server, const struct json *o, struct bytes *ret, struct bytes *secret,
                struct err *err);
int run_evict(struct job_run *r, void *server, const struct json *o, struct bytes *result,
              struct err *err);

/* secrets.c: keys that come with a job. They go into its secret; what is kept and shown is that
 * there are some. */
#define SECRET_MASK "***"
struct job_keys {
    struct json_doc *doc;
    struct store_keys keys;
};
void job_keys_release(struct job_keys *k);
#define cleanup_job_keys CLEANUP(job_keys_release)
/* Takes options.NAME of all the names (NULL-ended) into `secret`, and writes a mask for each. */
int secrets_take(const struct json *o, const char *const *names, struct json_writer *w,
                 struct bytes *secret, struct err *err);
/* The keys of that name in a job's secret: *ret_keys is NULL if the options have none. A mask alone
 * is ERR_DENIED. */
int secrets_read(const struct json *o, const char *secret, const char *name, struct job_keys *ret,
                 const struct store_keys **ret_keys, struct err *err);
/* A URI that jobs may name: none with keys in it, and no local folder but of our mounts, links
 * resolved. Checked when it is posted, and again when it is used. */
int options_check_uri(const struct server *s, const char *where, const char *uri, struct err *err);
/* The same, and the URI with links resolved: for a store that follows none (store_conf.no_links),
 * so that what is opened is what was checked. */
int options_real_uri(const struct server *s, const char *where, const char *uri, char **ret,
                     struct err *err);
/* Copies options.NAME, an array of such URIs. */
int options_copy_uris(const struct server *s, const struct json *o, const char *name,
                      struct json_writer *w, struct err *err);

/* kind-sync.c */
int check_sync(void *server, const struct json *o, struct bytes *ret, struct bytes *secret,
               struct err *err);
void touches_sync(const struct json *o, struct bytes *ret);
int run_sync(struct job_run *r, void *server, const struct json *o, struct bytes *result,
             struct err *err);

extern const struct job_kind job_kinds[];
extern const size_t n_job_kinds;

#define EVENTS_KEPT  1024
#define EVENTS_BYTES (8u << 20)

struct event {
    struct event *next;
    uint64_t seq;
    char *text; /* as it goes over the wire */
    size_t len;
};
struct listener;
struct events {
    struct lock telling; /* of a job: looked up and added as one, so that the newest comes last */
    struct lock lock;
    uint64_t seq;         /* of the newest */
    struct event *oldest; /* at most EVENTS_KEPT of them, and of EVENTS_BYTES beside the newest */
    struct event **end;
    unsigned n;
    size_t bytes; /* of their texts */
    struct listener *listeners;
    unsigned n_listeners;
    bool stopping;
};
void events_init(struct events *e);
void events_stop(struct events *e); /* wakes all listeners for their end */
void events_destroy(struct events *e);
void events_add(struct events *e, const char *name, const char *data);
void events_job_changed(void *server, const char *id);
void serve_events(struct request *r, struct answer *a);

void serve_metrics(struct request *r, struct answer *a);

/* --- other machines ------------------------------------------------------------------------------
 */

#define PEER_WAIT_NS (2 * NS_PER_S) /* for a connection, or for memory */

struct link;
struct peers {
    struct lock lock;
    struct cond changed;
    struct link *idle; /* lock, as all up to `stopping` */
    unsigned *n_links; /* of each mount */
    uint64_t memory;   /* of answers that are being sent */
    bool stopping;
    counter requests, samples, bytes;
};
void peers_init(struct server *s);
void peers_stop(struct server *s); /* nobody waits any more */
void peers_destroy(struct server *s);
/* links.c: connections to the owners, kept and shared. */
struct link {
    struct link *next; /* of the idle ones */
    size_t mount;
    int sock;               /* -1: it broke */
    unsigned refs;          /* peers.lock: its list or user, and each answer that holds leases */
    struct bytes returning; /* peers.lock: leases to give back: "1,2,3" */
};
struct link *link_take(struct server *s, size_t mount, struct err *err);
void link_give(struct peers *p, struct link *l); /* to the idle ones */
void link_unref(struct peers *p, struct link *l);
/* One request and its final answer, with CONTROL_FDS_MAX descriptors at most. */
int link_call(struct server *s, struct link *l, const struct bytes *request, int *fds,
              size_t *ret_n, struct json_doc **ret, struct err *err);
/* samples.c, catalog.c */
void serve_samples(struct request *r, struct answer *a);
void serve_catalog(struct request *r, struct answer *a);

/* guide.c: what mounts are told. The thread runs between these, where the options ask for it. */
struct guide;
int guide_start(struct server *s, struct err *err);
void guide_stop(struct server *s); /* before the members go */
void serve_settings(struct request *r, struct answer *a);

/* ui.c */
void serve_ui(struct request *r, struct answer *a);
void serve_to_ui(struct request *r, struct answer *a);

/* --- the server ------------------------------------------------------------------------------- */

struct server {
    struct server_conf conf; /* its strings are ours */
    char **mounts;
    struct auth auth;
    struct limits limits;
    struct http_clients clients;
    struct jobs *_Atomic jobs; /* NULL until they are open: their first events find it so */
    struct events events;
    struct members *members;
    char instance[MEMBERS_INSTANCE]; /* of this life */
    struct peers peers;
    struct owed *owed;
    struct guide *guide;
    int listener;
    uint16_t port;
    struct MHD_Daemon *daemon; /* replaced when the certificate changes, by the thread below */
    int64_t cert_at;           /* its last change that was looked at */
    char *cert, *key;
    struct lock cert_lock;
    struct cond cert_stop;
    bool stopping; /* under cert_lock */
    pthread_t cert_thread;
    bool cert_thread_runs;
    uint64_t began_ns;
    counter requests, refused, limited, failed;
    struct histogram latency; /* from a request's head to its answer */
};

#endif
