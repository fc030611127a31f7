/*
 * The inside of the peer layer.
 *
 *   peer.c          the layer: a read becomes an ask, and how an ask ends
 *   peer-request.c  what waits for one machine becomes a request; its answer
 *   peer-watch.c    the thread that looks at clocks: late readers, checks, the list of members
 *   peer-list.c     the list and the token, and what status says
 *
 * The life of an ask, and who moves it (all under `lock`):
 *
 *   QUEUED   waits in its machine's queue          peer_read()
 *   SENT     part of a request                     requests_start()
 *   (gone)   answered, or handed to the store      ask_good(), ask_next()
 *
 * An ask that was hedged is two: `refs` counts the machine's side and the store's. The first good
 * end answers; the bytes of the machine go to the caller's buffer, those of the store meanwhile to
 * a scratch. Who copies into the caller's buffer holds `copy`, and looks whether it still may.
 */
#ifndef SAMPAN_FETCH_PEER_INTERNAL_H
#define SAMPAN_FETCH_PEER_INTERNAL_H

#include <stdatomic.h>

#include "clock.h"
#include "fetch.h"
#include "hedge-internal.h"
#include "json.h"
#include "log.h"
#include "mem.h"
#include "peer-frames.h"
#include "peer.h"
#include "sync.h"

#define PEERS_MAX       1024
#define PEER_CANDIDATES 2
#define REQUESTS_LOW    2 /* under way to one machine for prefetch and warmup ... */
#define REQUESTS_MAX    4 /* ... and in all: a reader never waits behind those alone */
#define SCRATCH_MAX     (8u << 20)

struct peer_layer;
struct peer_request;

enum peer_state {
    PEER_UNKNOWN, /* nothing was heard of it yet: it may be asked */
    PEER_OK,
    PEER_LOST,    /* it did not answer, or not sensibly */
    PEER_VERSION, /* it serves another version: asked for that one again when it agrees */
    PEER_DENIED,  /* it refuses our token */
};

struct ask {
    struct ask *next;
    struct peer_layer *layer;
    struct source_wait *wait; /* the caller's */
    struct piece piece;       /* .into referenced, .row NULL */
    uint64_t sample;
    uint32_t off, len;   /* what is fetched of the unit */
    uint64_t sample_off; /* where that begins in the sample */
    uint32_t crc;        /* of what came so far */
    uint64_t read_ns;    /* when it was queued at this machine */
    struct peer *peer;
    uint32_t candidates[PEER_CANDIDATES];
    size_t n_candidates, next_candidate;
    bool hedged;
    /* Of a hedged one; under `lock`, the last under `copy`. */
    unsigned refs;
    bool answered, failed;
    struct err *why; /* of the store */
    struct buf *scratch;
    struct catalog *catalog; /* the same as the piece's, with a reference */
    struct source_wait store_wait;
    bool taken; /* the machine's bytes are no longer wanted */
};

struct peer {
    struct peer_layer *layer;
    unsigned refs; /* lock: its place in the list, each ask and request and check */
    uint32_t partition;
    char *url; /* without a slash at the end */
    struct store *store;
    bool listed; /* lock, as all below: it is still in the list */
    enum peer_state state;
    char version[CATALOG_DIGEST + 1]; /* VERSION: the one it does not serve ... */
    uint64_t ids;                     /* ... with these ids */
    char why[200];
    struct ask *first[2], **end[2]; /* queues: readers, others */
    unsigned under_way;
    struct hedge hedge;
    bool checking;
    uint64_t check_ns; /* when it is looked at next; 0: no need */
    uint64_t pause_ns; /* between checks; grows */
    unsigned lies;     /* not outweighed by good samples */
    counter requests, samples, bytes, absent, errors, bad, hedges;
};

struct peer_layer {
    struct source source; /* first */
    struct peer_conf conf;
    atomic_bool on; /* there are machines to ask */
    struct pool *scratches;
    struct lock copy; /* RANK_FETCH_QUEUE + 1 */
    struct lock lock; /* RANK_FETCH_QUEUE: guards all below, never held while anything is called */
    struct cond wake, idle;
    struct fetch *fetch; /* an engine of their own, from the first list on; then constant */
    struct peer **peers; /* by partition; NULL: nobody */
    size_t n_peers;
    char *list;    /* as it was set */
    char *service; /* its URL, or NULL */
    struct store *service_store;
    uint64_t members_ns; /* when it is asked next */
    bool members_asked;  /* that is under way */
    char members_why[200];
    char *token_file;
    struct secret token;
    struct timespec token_at;
    struct peer_request *requests;    /* under way */
    size_t under_way;                 /* asks, requests, checks */
    char version[CATALOG_DIGEST + 1]; /* of the last read: what checks ask for */
    uint64_t ids;
    bool stop, poked;
    pthread_t thread;
    bool started;
};

/* peer.c */
void ask_good(struct ask *a);
/* The machine has not got it (`why` NULL) or failed: the next one, or the store. No lock held. */
void ask_next(struct ask *a, const struct err *why);
void ask_hedge(struct ask *a); /* lock was dropped after a->hedged and a->refs were set */
bool ask_is_wanted(struct ask *a);
/* Its caller has taken it back. Not told of a hedged one: who asked for it may be gone. */
bool ask_given_up(const struct ask *a);
void layer_enter(struct peer_layer *l); /* lock held */
void layer_leave(struct peer_layer *l); /* no lock held; touches nothing afterwards */

/* peer-request.c */
void requests_start(struct peer *p); /* no lock held; the caller has a reference */
/* Lock held. Those that were not sent; the caller gives them to ask_next(). */
struct ask *peer_take_queue(struct peer *p);
/* What an answer says of a machine. No lock held. */
enum peer_state peer_state_of(int status);
void peer_put_down(struct peer *p, enum peer_state state, const struct err *why);
int peer_build(struct peer_layer *l, struct http_req *r, enum http_method method, const char *url,
               const char *path);
void peer_batch_body(struct bytes *out, const char *version, uint64_t ids,
                     const struct ask *const *asks, size_t n);
/* Lock held. Those all of whose asks were given up; fetch_give_up() follows. One goes on while it
 * carries anything that is wanted. */
void requests_give_up(struct peer_layer *l);
/* Lock held. What was sent as prefetch is a reader's from now on: as late as theirs, and as urgent
 * at the store should the machine fail. False: it is in no request. */
bool requests_raise(struct peer_layer *l, const struct buf *into, enum prio prio);
/* Late readers: sent to the store as well. Returns when to look again. */
uint64_t requests_hedge(struct peer_layer *l, uint64_t now);

/* peer-watch.c */
int watch_start(struct peer_layer *l, struct err *err);
void watch_stop(struct peer_layer *l);
void watch_poke(struct peer_layer *l); /* lock held */

/* peer-list.c */
struct peer *peer_of(struct peer_layer *l, uint32_t partition);             /* lock held; or NULL */
void peer_ref(struct peer *p);                                              /* lock held */
void peer_unref(struct peer *p);                                            /* no lock held */
bool peer_usable(const struct peer *p, const struct catalog_info *version); /* lock held */
/* Takes the place of the list. `urls`: by partition, NULL where nobody is known. */
int peers_replace(struct peer_layer *l, char *const *urls, size_t n, struct err *err);
void peers_drop_all(struct peer_layer *l);
int version_parse_answer(const void *text, size_t len, char ret_version[CATALOG_DIGEST + 1],
                         bool *ret_pinned, struct err *err);
int members_parse_answer(const void *text, size_t len, char ***ret_urls, size_t *ret_n,
                         struct err *err);
void urls_free(char **urls, size_t n);
void token_refresh(struct peer_layer *l); /* lock held: the file may have changed */

#endif
