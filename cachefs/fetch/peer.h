/*
 * Other machines as a layer of the data path, between cache and store: a miss whose owner is
 * another machine is asked from that one first (POST /v1/samples:batch, docs/formats/peer.md).
 *
 * What waits for one machine at one moment goes out as one request. A reader who waits longer than
 * that machine's 95th percentile, and than the store usually takes (to ask it earlier gains
 * nothing, and a narrow link to it is everybody's), is asked from the store as well. Every byte is
 * checked on arrival. A machine that fails in any way costs at most one timeout: what waited for it
 * goes on to the store, and it is left alone until a check in the background finds it well. Without
 * machines, or without an owner, the layer is one look at a counter.
 *
 * Nothing goes in circles: who is asked by this layer answers from what is cached there.
 */
#ifndef SAMPAN_FETCH_PEER_H
#define SAMPAN_FETCH_PEER_H

#include "err.h"
#include "json.h"
#include "source.h"

struct fetch_counts;
struct log;

/* The partitions of other machines that may keep the sample, the likeliest first, at most `max`.
 * Any thread; must not block. */
typedef size_t peer_owners_fn(void *arg, uint64_t sample, uint32_t *ret, size_t max);

/* A service tells, with its members, which version its servers serve: heard every few seconds, for
 * as long as it is wanted. Another thread, with no lock held; must not block. */
typedef bool peer_wants_version_fn(void *arg);
typedef void peer_version_fn(void *arg, const char *version, bool pinned);

struct peer_conf {
    peer_owners_fn *owners;
    peer_wants_version_fn *wants_version; /* NULL: never */
    peer_version_fn *on_version;
    void *arg;                        /* of all three */
    bool no_hedge;                    /* late readers wait */
    uint64_t patience_ns;             /* with a machine that says nothing; 0: 2.1 s */
    const struct fetch_counts *store; /* tells what the store usually takes; or NULL */
    const char *ca_file;              /* of https; NULL: the system's. Borrowed */
    struct log *log;
};

/* Over `inner`, which the caller still closes after this one. */
int peer_source_new(struct source **ret, const struct peer_conf *conf, struct source *inner,
                    struct err *err);
/*
 * Who the others are: "": nobody; "URL,URL…" in the order of the partitions (this machine's own may
 * be there, it is never asked); one URL alone: a service, whose GET /v1/members is polled; a file
 * with a URL a line. On a mistake nothing changes. What is under way ends as it was begun.
 */
int peer_set_list(struct source *s, const char *text, struct err *err);
/* Is there anybody to ask? */
bool peer_any(const struct source *s);
/* The file whose token is shown to them; it is read again when it changes. "": none. */
int peer_set_token_file(struct source *s, const char *file, struct err *err);
/* "peers": an array with a row for each. */
void peer_status(struct source *s, struct json_writer *w);
/* Ends what waits for other machines, now, with ERR_CANCELLED; then close() has no network to wait
 * for. */
void peer_stop(struct source *s);

/* --- the catalog ------------------------------------------------------------------------------ */

struct peer_catalog {
    const char *url;        /* http(s)://HOST:PORT/v1/catalog/DIGEST or …/current */
    const char *token_file; /* NULL or "": none */
    const char *ca_file;
    const char *had;         /* "DIGEST-IDS" of the one that is here; NULL: none */
    const atomic_bool *stop; /* it is broken off once that is set; NULL: never */
};
/* Into `file`, unchecked. Waits. 1: it is there; 0: the server has still the one that was had; -1.
 */
int peer_catalog_fetch(const struct peer_catalog *c, const char *file, struct err *err);
/* The version of that name from the first of the other machines that keeps it. NOT_FOUND: none
 * does; another error: one that may have it could not be asked. */
int peer_catalog_any(struct source *s, const char *digest, const char *file, struct err *err);

#endif
