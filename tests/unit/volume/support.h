/* Sample sets in temporary folders, and volumes over them. */
#ifndef SAMPAN_TESTS_VOLUME_SUPPORT_H
#define SAMPAN_TESTS_VOLUME_SUPPORT_H

#include "layers.h"
#include "read-wait.h"
#include "volume.h"

struct world {
    char *root;  /* everything lies below it */
    char *src;   /* the source's folder */
    char *own;   /* the owner's folder */
    char *cache; /* the tier's folder */
    char *uri;   /* file://src */
};

void world_new(struct world *w);
void world_free(struct world *w); /* removes all of it */

/* The byte at `at` of content number `seed`. */
unsigned char content_at(unsigned seed, uint64_t at);
/* Writes src/path, making folders; mtime = 1 000 000 + seed seconds, so that another seed shows. */
void put_file(const struct world *w, const char *path, uint64_t size, unsigned seed);
void put_text(const struct world *w, const char *path, const char *text);
void drop_file(const struct world *w, const char *path);

/* A tier of 256 MiB, no free-space floor, 8 connections. */
void world_conf(const struct world *w, struct volume_conf *ret);
struct volume *world_open(const struct volume_conf *conf); /* must succeed */

uint64_t id_of(struct volume *v, const char *path);
/* Reads [off, off+len) and compares; the answer must have `want` bytes. */
void check_range(struct volume *v, uint64_t id, unsigned seed, uint64_t off, uint32_t len,
                 uint32_t want);
/* Reads the whole sample in steps of 128 KiB and compares. */
void check_sample(struct volume *v, uint64_t id, uint64_t size, unsigned seed);
void check_file(struct volume *v, const char *path, uint64_t size, unsigned seed);

/* Waits (at most 20 s) until cond(arg) holds. */
void wait_until(bool (*cond)(void *arg), void *arg, const char *what);
/* The integer at "a.b" of volume_status(). */
int64_t status_int(struct volume *v, const char *path);
void status_text(struct volume *v, struct bytes *ret);
bool status_has(struct volume *v, const char *text);

struct digest {
    char text[CATALOG_DIGEST + 1];
};
/* The version that is served now. */
struct digest served(struct volume *v);

#endif
