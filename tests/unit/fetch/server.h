/* A server of tests/servers/faultsrv.py for one test, and the bytes that it makes up. */
#ifndef SAMPAN_TEST_FETCH_SERVER_H
#define SAMPAN_TEST_FETCH_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fetch.h"

struct server {
    pid_t pid;
    int stop_fd; /* closed: the server ends */
    unsigned port;
    struct store *store; /* of bucket "b" */
};

void server_start(struct server *s);
void server_stop(struct server *s);
struct store *server_bucket(const struct server *s, const char *bucket);
/* An engine that tries so often. */
struct fetch *engine_new(unsigned max_tries);
/* What the server answers to a path of its own, as a number: "/_peak". */
unsigned server_number(const struct server *s, const char *path);

/* The bytes of an object of bucket "b" and its ETag. */
void made_up(const char *key, uint64_t off, size_t len, unsigned char *out);
void made_up_etag(const char *key, char out[9]);

/* Removes the folder of a catalog's only version, and lets go of it. */
void catalog_remove(struct catalog *c, const char *dir);

/* A fetch_get that can be waited for. */
struct got {
    unsigned char *dest;
    char etag[9];
    struct fetch_get get;
    _Atomic int done; /* how often done() was called */
    struct err err;
    _Atomic unsigned *order;
    unsigned place; /* when it ended, counted by *order */
};
void got_prepare(struct got *g, const struct server *s, const char *key, uint64_t off, uint32_t len,
                 uint64_t size);
void got_wait(struct got *g);
bool got_right(const struct got *g); /* no error, and the right bytes */
void got_release(struct got *g);

#endif
