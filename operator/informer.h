/*
 * Keeps one kind of the cache true: lists it page by page, then watches from there on. A watch that
 * ends goes on from the last version; one that fell too far behind (410) starts with a list again.
 * Runs on the client's thread alone, from requests that begin each other.
 */
#ifndef SAMPAN_OPERATOR_INFORMER_H
#define SAMPAN_OPERATOR_INFORMER_H

#include <stdbool.h>

#include "cache.h"
#include "kube.h"

struct informer_conf {
    struct kube_client *client;
    struct cache *cache;
    struct log *log;
    enum kind kind;
    const char *selector;      /* of labels; NULL: all objects */
    bool optional;             /* the server need not know the kind: then there are none of it */
    void (*synced)(void *arg); /* once, when the kind was listed; on the client's thread */
    void *arg;
};
struct informer;
/* It ends with the client: free it after kube_close(). */
struct informer *informer_start(const struct informer_conf *conf);
void informer_free(struct informer *i);

/* Relists (a 410 among them), and watches begun. */
struct informer_numbers {
    uint64_t lists, watches, failures;
};
void informer_numbers(const struct informer *i, struct informer_numbers *ret);

/* How long to wait after the n-th failure in a row: from 0.5 s to 10 s, and at least what the
 * server asked for; `dice` is any number. Pure. */
uint64_t informer_back_off(unsigned failures, unsigned retry_after_s, uint64_t dice);

/* "/apis/apps/v1/namespaces/ns/statefulsets/name": of an object, or of all where `name` is NULL.
 * The caller frees it. */
char *kind_path(enum kind kind, const char *ns, const char *name);

#endif
