/*
 * What the files of the owner's side share.
 *
 *   serve.c      socket, accepting, connections     ops.c         the table; small operations
 *   connection.c requests of one connection         op-set.c      settings, also kept ones
 *                                                   op-warmup.c   warmup, in front and background
 *                                                   op-extent.c   leases on pack extents
 *                                                   op-outputs.c  of mounts that can be written
 *                                                   op-share.c    what the runtime server sends to
 *                                                                 other machines
 */
#ifndef SAMPAN_CONTROL_SERVE_INTERNAL_H
#define SAMPAN_CONTROL_SERVE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "control-serve.h"
#include "control.h"
#include "json.h"
#include "keeper.h"
#include "sync.h"

#define CONNECTIONS_MAX 32           /* and as many guests */
#define LEASES_MAX      4096         /* of one connection */
#define GUEST_MAX       (256u << 10) /* bytes of a guest's request: it may be anybody */
#define PATHS_MAX       1000000
#define SETTINGS_MAX    8192 /* of the kept text */

struct connection {
    struct control_server *server;
    int sock;
    bool guest; /* came by the socket for those who see the mount alone */
    pthread_t thread;
    atomic_bool finished; /* its thread is at its end: may be joined */
    struct connection *next;
    /* the rest belongs to the connection's thread */
    uint64_t leases[LEASES_MAX];
    size_t n_leases;
};

/* A warmup that nobody waits for. */
struct background {
    pthread_t thread;
    bool started;             /* the thread is to be joined */
    struct json_doc *request; /* holds what `conf` points to */
    const char **paths;
    struct warmup_conf conf;
};

struct control_server {
    struct control_server_conf conf;
    char *path;
    int listener;
    int guests; /* listening, too; -1: nowhere */
    int wake;   /* eventfd: the accepting thread is to end */
    pthread_t thread;
    bool accepting;            /* `thread` runs */
    struct frontend *frontend; /* or NULL */

    /* Held while a setting is applied and kept: what is kept is what was applied last. */
    struct lock settings;
    struct keeper_text *kept_settings; /* guarded by `settings`: an object, as `set` takes it */

    struct lock lock;
    /* below: guarded by lock */
    struct connection *connections;
    size_t n_connections[2]; /* of the owner's user; of guests */
    bool stop;
    bool warming; /* a warmup runs, in front or in the background */
    bool behind;  /* the last one began in the background */
    struct background background;
    atomic_bool cancel_background;
    struct keeper_text *kept_warmup; /* a request, as `warmup` takes it; "": none */
};

struct request {
    struct connection *connection;
    struct volume *volume;
    struct frontend *frontend; /* or NULL */
    struct stage *stage;       /* of a mount that can be written; or NULL */
    struct json root;
    struct json_writer *w;    /* inside the final message's object */
    int fds[CONTROL_FDS_MAX]; /* go with the final message, which closes them */
    size_t n_fds;
};

typedef int op_fn(struct request *r, struct err *err);
struct op {
    const char *name;
    op_fn *handler;
    const char *const *keys; /* all that the request may have, NULL-ended */
    enum op_needs { NEEDS_VOLUME, NEEDS_ANY, NEEDS_NOTHING } needs; /* ANY: volume or stage */
    /* ANYBODY, also guests: it tells of samples that its asker may read, and changes nothing. */
    enum op_asker { OWNER, ANYBODY } asker;
};
const struct op *op_find(const char *name, struct err *err);

op_fn op_set, op_warmup, op_warmup_cancel, op_extent, op_extent_check, op_extent_return, op_share,
    op_catalog;
/* Ends a background warmup and waits for its thread. */
void background_end(struct control_server *s);
/* Puts kept settings to use, starts the kept warmup. */
int settings_resume(struct control_server *s, struct err *err);
int warmup_resume(struct control_server *s, struct err *err);
/* op-outputs.c */
int outputs_flush(struct request *r, struct err *err);
void outputs_stats(struct request *r);
int outputs_probe(struct request *r, struct err *err);
void leases_return(struct connection *c);
/* Notes it as the connection's. -1: it holds too many (the lease is given back). */
int lease_note(struct connection *c, uint64_t lease, struct err *err);
bool lease_return(struct connection *c, uint64_t lease);

/* The "paths" of a request: NULL and 0 if absent. One block: free the array. */
int request_paths(const struct json *root, const char ***ret, size_t *n, struct err *err);

/* connection.c */
void *connection_main(void *connection);
void refusal_text(struct bytes *text, const struct err *err); /* replaces `text` by the message */
bool server_stopping(struct control_server *s);

#endif
