/*
 * The servers of a cluster: which there are, where, and whether they answer.
 *
 * A cluster has `partitions` servers, numbered from 0. Their addresses come from --peers; which of
 * them has which number each says itself (GET /v1/identity), so that an order of names or a moved
 * address misleads nobody. Where as many addresses are named as there are partitions, their order
 * is what is believed until they have spoken.
 *
 *   UNKNOWN   not asked yet, or no address is known
 *   OK        it answered, with its number and our count of partitions
 *   LOST      it did not, twice in a row (or ever), or it is another cluster's
 *
 * Each address is asked every few seconds by one of a few threads, lost ones with the same
 * patience: a dead server costs those threads time, and no caller.
 */
#ifndef SAMPAN_SERVER_MEMBERS_H
#define SAMPAN_SERVER_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"
#include "json.h"
#include "log.h"

#define MEMBERS_RELAYED                                                           \
    "X-Sampan-Relayed"      /* a header: another server asks, it is not passed on \
                             */
#define MEMBERS_INSTANCE 17 /* bytes of one life's name, with the NUL */

/* In the query of a job that is posted with that header: jobs_submit(). */
#define MEMBERS_POSTING "posting"

enum member_state { MEMBER_UNKNOWN, MEMBER_OK, MEMBER_LOST };

struct members_conf {
    const char *peers; /* members_parse(); NULL: this server alone */
    unsigned ordinal, partitions;
    const char *instance; /* of this life: tells us from another server of our number */
    const char *ca_file;  /* of those with https; NULL: the system's */
    /* The token to show, now; none: leaves *ret empty. Thread-safe. */
    void (*token)(void *arg, struct secret *ret);
    void *arg;
    struct log *log;
};

struct members;
/* Reads the list; refuses one that is wrong. */
int members_open(struct members **ret, const struct members_conf *conf, struct err *err);
void members_close(struct members *m); /* NULL is fine */
/* Are there others? Without --peers, or with one partition, there are none. */
bool members_are_several(const struct members *m);
unsigned members_partitions(const struct members *m);

/* How one of them is now; `ret_url` and `ret_why` (may be NULL) get "" where there is nothing to
 * say. Of this server itself always OK. */
enum member_state members_state(struct members *m, unsigned ordinal, struct bytes *ret_url,
                                struct bytes *ret_why);
/* The object of GET /v1/members. */
void members_write(struct members *m, struct json_writer *w);

/* One request to another server, with our token. Any status is an answer; -1: none came. */
struct member_answer {
    unsigned status;
    struct bytes body;
};
struct member_peer {
    const char *url, *ca_file;
    const char *token; /* NULL or "": none */
};
/* ... to a server that is named. */
int member_request(const struct member_peer *to, const char *method, const char *path,
                   const struct bytes *body, uint64_t timeout_ns, struct member_answer *ret,
                   struct err *err);
int members_call(struct members *m, unsigned ordinal, const char *method, const char *path,
                 const struct bytes *body, struct member_answer *ret, struct err *err);

/* --- the list (members-list.c), pure but for the file and the names --------------------------- */

/*
 * "URL[,URL…]", or the name of a file with a URL a line ('#' begins a comment). A URL is
 * http(s)://HOST:PORT and no more; "{k}" in it stands for each number of 0 to partitions-1. One URL
 * alone without "{k}", where there are several partitions, is a service: the name of all of them.
 */
struct member_list {
    char **urls; /* without a slash at the end */
    size_t n;
    bool service; /* urls[0] is a name for all */
};
void member_list_release(struct member_list *l);
#define cleanup_member_list CLEANUP(member_list_release)
bool members_is_file(const char *peers);
int members_parse(const char *text, bool lines, unsigned partitions, struct member_list *ret,
                  struct err *err);
/* What --peers says now: the file read, the service's name looked up (may take a while). */
int members_read(const char *peers, unsigned partitions, struct member_list *ret, struct err *err);

#endif
