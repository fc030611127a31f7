/*
 * The inside of fetch: what its files share.
 *
 * A *job* is one thing a caller asked for: a range into his buffer, or a whole request. A *flight*
 * is one try of it on the wire, with an easy handle of its own that is used again and again. The
 * life of a job, and who moves it:
 *
 *   WAITING   in a queue                        job_submit()             f->lock
 *   FLYING    1 flight, or 2 with a hedge       job_start()              engine thread
 *   PARKED    pausing before the next try       job_failed()             engine thread
 *   UNSIGNED  its store looks up credentials    creds_hold()             engine thread
 *   WAITING   again, before those not tried yet job_resume()             engine thread
 *   (gone)    done() was called, memory freed   job_finish()             engine thread
 *
 * From each of these states jobs_give_up() takes what was given up, on the engine's thread between
 * two rounds, when nobody else has a job or a flight in hand.
 *
 * Jobs of local stores go WAITING -> (read by a thread of local.c) -> gone.
 *
 * Threads: the engine's one thread owns the multi handle, all flights and all jobs that do not
 * wait; the pool of local.c; one thread of creds.c that may block. f->lock guards what callers
 * share with them. No callback is called with it held.
 */
#ifndef SAMPAN_FETCH_ENGINE_INTERNAL_H
#define SAMPAN_FETCH_ENGINE_INTERNAL_H

#include <curl/curl.h>

#include "fetch.h"
#include "hedge-internal.h"
#include "pace-internal.h"
#include "queue-internal.h"
#include "rate-internal.h"
#include "retry-internal.h"
#include "sync.h"

#define QUEUE_LIMIT  16384 /* waiting jobs of one priority */
#define DEST_BUCKETS 4096
#define STALE_TRIES  2 /* sightings before a change at the source is believed */
#define REBUILD_MAX  4 /* new signatures, regions or clocks for one job */
#define NEVER_NS     UINT64_MAX

struct flight;

/* A whole request: an answer and a bounded body. All pointers stay valid until done(). */
struct whole {
    struct store *store;
    fetch_build_fn *build; /* called on the engine's thread; must not block */
    void *build_arg;
    size_t max_body;
    struct http_answer *answer;
    struct bytes *body; /* filled only on success */
    fetch_sink_fn *sink;
    enum prio prio;
    void (*done)(void *arg, const struct err *err);
    void *arg;
    const atomic_bool *given_up;
};

struct job {
    struct queue_item item; /* first: a queue item is a job */
    struct job *next;       /* in the one list that its state names */
    struct job *dest_next;  /* in f->by_dest; f->lock */
    bool is_get;
    struct fetch_get get; /* key and etag point into `text` */
    struct whole whole;
    struct flight *main, *hedge;
    unsigned tries, stale_seen, rebuilt;
    /* Tries without an answer: those that the store's being away excuses; when the last ended. */
    unsigned excused;
    uint64_t unanswered_ns;
    bool sum_seen; /* a body had a wrong sum ... */
    uint32_t sum;  /* ... and this CRC-32C */
    bool fresh;    /* the next try opens a connection of its own */
    bool force_creds;
    bool creds_seen; /* credentials were looked up for the coming try */
    bool hedged;
    bool low;          /* holds a slot as prefetch or warmup */
    uint64_t first_ns; /* of the first try; 0: none yet */
    uint64_t sent_ns;  /* of the last */
    uint64_t held_ns;  /* so long the rate limit paused it */
    uint64_t due_ns;   /* PARKED: when it goes on */
    struct err *why;   /* of the last failure, or NULL */
    char text[];
};

struct flight {
    struct fetch *fetch;
    struct flight *next_free;
    size_t place; /* in f->flying */
    CURL *easy;
    bool in_multi;               /* `easy` is at work */
    int fd;                      /* ... with this socket; -1: with none */
    struct plain_origin *origin; /* the request may go over a plain connection to it ... */
    struct plain *plain;         /* ... and does; NULL: the library has it, or makes a connection */
    struct plain_origin *first_put; /* ... or has it to learn how PUTs are answered there */
    struct job *job;
    struct http_req req;
    struct curl_slist *headers;
    struct http_answer answer;
    bool low;          /* its slot counts among those of the lower classes */
    bool paced;        /* it counts among f->n_paced */
    bool checked;      /* the answer's head was judged */
    bool data;         /* ... and its body is what was asked for: bytes go to `to` */
    unsigned char *to; /* dest, or the hedge's own scratch */
    unsigned char *scratch;
    uint64_t skip;      /* bytes of a whole object before the range */
    uint64_t want, got; /* of the range */
    uint64_t beyond;    /* bytes of a whole object after the range */
    bool enough;        /* the range is here; the rest was not worth receiving */
    struct bytes text;  /* the body of a whole request, or the start of an error's */
    uint64_t sunk;      /* bytes that a sink took */
    bool cut;           /* ended by a callback or a clock: `why` says so */
    struct err why;
    uint64_t started_ns, last_ns, last_sent;
    uint64_t paused_ns;             /* since then, by the rate limit; 0: it is not */
    uint64_t floor_ns, floor_bytes; /* progress after the budget's end */
    char detail[CURL_ERROR_SIZE];
};

struct creds_desk;

struct fetch {
    struct fetch_conf conf;                  /* connections: f->lock */
    struct fetch_counts own_counts, *counts; /* counts: own_counts, or the caller's */
    struct lock lock;
    struct queues http, local;         /* f->lock */
    struct job *by_dest[DEST_BUCKETS]; /* f->lock */
    unsigned busy, busy_low;           /* flights and local reads; those below readers; f->lock */
    uint64_t reader_seen_ns;           /* when a reader was admitted last; f->lock */
    bool asleep;                       /* the engine waits and wants to be woken; f->lock */
    bool stopping;                     /* f->lock */
    bool given_up;                     /* some tokens were set since the last look; f->lock */
    bool rate_changed;                 /* since the last look; f->lock */
    struct rate rate;                  /* f->lock */
    _Atomic uint64_t bandwidth;        /* rate.per_s, for a look without the lock */

    /* The rest belongs to the engine's thread. */
    pthread_t thread;
    int epoll_fd, wake_fd;
    CURLM *multi;
    uint64_t curl_due_ns; /* what the library's timer asked for */
    uint64_t now_ns;      /* of this round */
    uint64_t next_due_ns; /* no clock of ours runs out before */
    uint64_t outstanding; /* bytes asked for and not yet received */
    struct flight **flying;
    size_t n_flying, cap_flying;
    unsigned unpauses; /* calls of flights_unpause() */
    struct flight *idle;
    bool proxied; /* the environment names a proxy */
    struct plain_origin *origins;
    struct plain *dead;        /* closed in this round */
    unsigned n_idle, cap_idle; /* plain connections that wait */
    char *aside;               /* for bytes that go nowhere, or to a text */
    struct job *parked;
    size_t n_parked;
    size_t scratch_used;
    struct retry_budget retry_budget;
    struct hedge hedges[2]; /* of readers; of those below them */
    struct pace pace;       /* of those below readers */
    unsigned n_paced;       /* those under way */
    bool bound;             /* more of them wait, and only the pace holds them back */
    uint64_t seed;
    bool md5_seen, md5_useless; /* an ETag was its object's MD5; or none was, and one differed */
    struct creds_desk *creds;
    struct local_pool *local_pool;
};

/* engine.c */
int fetch_whole(struct fetch *f, const struct whole *w, struct err *err);
void engine_wake(const struct fetch *f); /* any thread */
void engine_due(struct fetch *f, uint64_t at_ns);
void job_finish(struct fetch *f, struct job *j, const struct err *err);
void job_resume(struct fetch *f, struct job *j);
void dest_forget(struct fetch *f, struct job *j); /* f->lock held */
/*
 * Slots: at most conf.connections are taken at any moment, by flights and local reads together.
 * slots_classes() says whose jobs may take one now (a bit each); both need f->lock.
 */
unsigned slots_classes(const struct fetch *f, uint64_t now_ns);
void slot_take(struct fetch *f, enum prio prio, uint64_t now_ns, bool *ret_low);
void slot_give(struct fetch *f, bool low); /* no lock held */

/* flight.c: the wire */
/* The slot was taken; `low` says as what. On failure it is the caller's to give back. */
struct flight *flight_start(struct fetch *f, struct job *j, bool hedge, bool low, struct err *err);
void flight_end(struct fetch *f, struct flight *fl); /* the handle goes back to the idle ones */
void flight_free(struct flight *fl);
/* Goes on with what the rate limit holds, those of readers first (others at each eighth call);
 * returns when to come back, or NEVER_NS. */
uint64_t flights_unpause(struct fetch *f);
bool flight_is_readers(const struct flight *fl);

void flight_go(struct fetch *f, struct flight *fl); /* sends its request off, once more */
void flight_leave_multi(struct fetch *f, struct flight *fl);
/* Receiving: may it, by the rate limit (false: it is paused); so many bytes came; the head is right
 * (false: fl->why says what is not); these bytes of the body are taken (false: the flight ends). */
bool flight_is_limited(const struct fetch *f);
bool flight_may_receive(struct flight *fl);
void flight_note_bytes(struct flight *fl, size_t len);
bool flight_check_head(struct flight *fl);
bool flight_take(struct flight *fl, const char *data, size_t len);

/* plain.c: plain connections */
/* True: the request went out over an idle one. Otherwise, if fl->origin is set, a connection made
 * by the library is wanted: plain_connected() takes it over. */
bool plain_go(struct fetch *f, struct flight *fl, bool fresh);
void plain_connected(struct fetch *f, struct flight *fl);
void plain_learn(struct flight *fl); /* from a good answer to what the library sent */
void plain_event(struct fetch *f, struct plain *c, uint32_t events);
void plain_read(struct fetch *f, struct flight *fl); /* goes on after a pause */
/* So much of the request's body the socket took. */
size_t plain_sent(const struct flight *fl, int *ret_fd);
void plain_leave(struct fetch *f, struct flight *fl);
void plain_bury(struct fetch *f); /* frees what was closed in this round of events */
void plain_free(struct fetch *f);

/* answer.c: judging what came */
enum again { OVER, AGAIN_LATER, AGAIN_NOW, AGAIN_NEW_CREDS };
/* Before the first byte of the body. -1: fl->why says what is wrong. */
int answer_check_head(struct flight *fl);
/* After the transfer: 0 if all of it is right, otherwise -1, `err` and how to go on. */
int answer_judge(struct fetch *f, struct flight *fl, CURLcode code, enum again *ret,
                 struct err *err);

/* An object that is not what the catalog says, or is not there. ERR_STALE. */
int stale_size(struct err *err, int64_t came, uint64_t size);
int stale_deleted(struct err *err);

/* job.c: the life of a job on the engine's thread */
/* A failed try that the job's other flight does not make up for. */
void job_failed(struct fetch *f, struct job *j, enum again again, unsigned retry_after_s,
                const struct err *err);
void job_start(struct fetch *f, struct job *j);
void flight_landed(struct fetch *f, struct flight *fl, CURLcode code);
void jobs_check_clocks(struct fetch *f);
void job_end_flights(struct fetch *f, struct job *j);
/* The end of one that failed for good: done() gets the object's name, the reason, the tries. */
void job_finish_failed(struct fetch *f, struct job *j, const struct err *why);
/* "s3://b/k" for error texts; appends. */
void get_name(const struct fetch_get *g, struct bytes *out);
void job_name(const struct job *j, struct bytes *out);
const struct store *job_store(const struct job *j);

/* give-up.c */
bool job_unwanted(const struct job *j); /* its token is set */
/* f->lock held. The engine's thread looks at all tokens before it admits or waits again. */
void jobs_look_at_tokens(struct fetch *f);
void jobs_give_up(struct fetch *f); /* those whose token is set */
void jobs_cancel_all(struct fetch *f);
int err_stopping(struct err *err); /* how a job ends whose engine does */
/* Moves those of a list of which `which` says so to `taken`; returns how many. */
size_t jobs_take(struct job **list, bool (*which)(const struct job *j), struct job **taken);

/* creds.c */
void creds_new(struct fetch *f);
void creds_stop(struct fetch *f); /* f->stopping is set; waits for the look-up under way */
void creds_free(struct fetch *f);
/* As jobs_take(), of the jobs held. */
void creds_take_waiting(struct fetch *f, bool (*which)(const struct job *j), struct job **taken);
/* True: the job was kept and comes back through creds_collect() when its store has credentials. */
bool creds_hold(struct fetch *f, struct job *j);
void creds_collect(struct fetch *f);

/* local.c */
void local_new(struct fetch *f);
void local_stop(struct fetch *f); /* f->stopping is set */
void local_free(struct fetch *f);
/* Work came; f->lock held. -1: there is no thread to do it and none can be had. */
int local_work(struct fetch *f, struct err *err);
void local_poke(struct fetch *f);         /* room came, or a limit changed; f->lock held */
void local_rate_changed(struct fetch *f); /* f->lock held */

static inline enum prio job_prio(const struct job *j)
{
    return (enum prio)atomic_load_explicit(&j->item.prio, memory_order_relaxed);
}

#endif
