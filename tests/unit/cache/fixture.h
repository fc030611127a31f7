/*
 * A cache over a source that nobody has to be fetched from: the bytes of a unit follow from its
 * number. The source answers at once, later from threads of its own, with an error, or with a wrong
 * length.
 */
#ifndef SAMPAN_TEST_CACHE_FIXTURE_H
#define SAMPAN_TEST_CACHE_FIXTURE_H

#include <criterion/criterion.h>

#include "cache-internal.h"

struct catalog {  /* what the units of a test look like */
    uint32_t len; /* of every unit … */
    bool vary;    /* … or between 1 and len */
    bool compressible;
    bool half;       /* … but every other 32 KiB of it is not */
    bool blocks;     /* units are blocks of larger samples */
    uint64_t end;    /* units from here on are of another version; 0: all are of this one */
    atomic_int refs; /* by fills */
};
uint32_t unit_len(const struct catalog *k, uint64_t unit);
void unit_fill(const struct catalog *k, uint64_t unit, unsigned char *out);
bool unit_equal(const struct catalog *k, uint64_t unit, uint32_t off, const void *data, size_t len);

#define FAKE_THREADS 2
struct fake {
    struct source source; /* first */
    const struct catalog *catalog;
    struct lock lock;
    struct cond wake;
    struct ask *queue;
    bool threaded, held, stop; /* held: answers wait */
    atomic_int reads, raised;
    _Atomic uint64_t bytes; /* that these fetched */
    atomic_bool failing, short_answers, refusing;
    atomic_bool stubborn;          /* what is given up ends by fake_end_unwanted() only */
    void (*on_refusal)(void *arg); /* called before a read is refused; NULL: nothing is */
    void *on_refusal_arg;
    void (*on_raise)(void *arg); /* called when a read is raised; NULL: nothing is */
    void *on_raise_arg;
    pthread_t threads[FAKE_THREADS];
};

int fake_end_unwanted(struct fake *f); /* returns how many */

struct rig {
    char dir[64];
    struct catalog catalog;
    struct fake fake;
    struct pool *pool;
    struct cache_conf conf;
    struct cache *cache;
    struct source *top;
};

/* One tier of `limit` bytes in a folder of its own, below which the owner's folder lies. */
void rig_begin(struct rig *r, uint32_t len, uint64_t limit, bool threaded);
void rig_open(struct rig *r);
int rig_try_open(struct rig *r, struct err *err);
void rig_close(struct rig *r);
void rig_end(struct rig *r);                           /* closes, and removes the folder */
void rig_release(struct rig *r, bool held);            /* lets the fake answer, or makes it wait */
char *rig_path(const struct rig *r, const char *name); /* static */
void rig_remove(const char *dir);
uint64_t folder_size(const char *dir); /* sum of the sizes of all files below */

/* Reads and waits. 0: *ret_origin says from where, and the bytes were right; -1: *err. */
int rig_read(struct rig *r, uint64_t unit, uint32_t off, uint32_t len, enum origin *ret_origin,
             struct err *err);
void rig_fill(struct rig *r, uint64_t from, uint64_t n);      /* reads whole units, then flushes */
int rig_ahead(struct rig *r, uint64_t unit, struct err *err); /* waits too */

struct call { /* one read that may be pending */
    struct source_wait wait;
    struct view view;
    struct err err;
    atomic_int done; /* 1 ok, -1 failed */
};
int call_start(struct rig *r, struct call *c, uint64_t unit, enum prio prio);
int call_piece(struct rig *r, struct call *c, uint64_t unit, uint32_t off, uint32_t len);
int call_if_kept(struct rig *r, struct call *c, uint64_t unit); /* ahead of readers */
/* The same, with a token to take it back by. */
int call_ahead(struct rig *r, struct call *c, uint64_t unit, const atomic_bool *token);
void call_wait(struct call *c);

#endif
