/*
 * What the tests of a stage share: a stage over a local folder or over the S3 of
 * tests/servers/s3mem.py, and calls that fail the test when they fail.
 */
#ifndef SAMPAN_TEST_STAGE_H
#define SAMPAN_TEST_STAGE_H

#include <fcntl.h>
#include <sys/types.h>

#include "stage.h"

struct bench {
    char root[64]; /* of this test: stage/, and bucket/ where the store is a folder */
    char dir[96], bucket[96];
    bool s3;
    pid_t pid; /* the server's */
    int stop_fd;
    unsigned port;
    struct store *store;
    struct fetch *fetch;
    struct stage *s;
    struct stage_conf conf;
};

void bench_start(struct bench *b, bool s3);
void bench_stop(struct bench *b);
void bench_open(struct bench *b, bool fresh); /* the stage, as conf says */
void bench_close(struct bench *b);
/* Another mount of the same store, with a stage of its own. */
void bench_other(struct bench *b, const struct bench *of);

/* The same in two steps: a process with threads should not fork, so a child connects by itself. */
void bench_start_bare(struct bench *b, bool s3);
void bench_connect(struct bench *b); /* store and engine */

/* A GET of the server's own, as text: "/_count/PUT". */
void ask(const struct bench *b, const char *path, char *ret, size_t size);
unsigned ask_number(const struct bench *b, const char *path);

extern const struct stage_call waits, hurries;

/* Each fails the test if the call fails. */
uint64_t t_lookup(struct bench *b, uint64_t parent, const char *name);
uint64_t t_create(struct bench *b, uint64_t parent, const char *name, uint64_t *ret_fh);
uint64_t t_open(struct bench *b, uint64_t ino, int flags);
uint64_t t_mkdir(struct bench *b, uint64_t parent, const char *name);
void t_write(struct bench *b, uint64_t fh, uint64_t off, const char *text);
void t_close(struct bench *b, uint64_t fh); /* flush and release */
void t_file(struct bench *b, uint64_t parent, const char *name, const char *text);
void t_rename(struct bench *b, uint64_t from, const char *name, uint64_t to, const char *new_name);
void t_unlink(struct bench *b, uint64_t parent, const char *name);
uint64_t t_size(struct bench *b, uint64_t ino);
/* The file's text is that; NULL: there is no such file. */
void expect_text(struct bench *b, uint64_t parent, const char *name, const char *text);
/* The errno of a lookup: 0 if it is there. */
int lookup_errno(struct bench *b, uint64_t parent, const char *name);
/* What the store has under a key; NULL: nothing. */
void expect_stored(struct bench *b, const char *key, const char *text);
char *t_pending(struct bench *b); /* what stage_pending() tells: {"pending":…}, the caller's */
/* These words stand in it. */
void expect_pending(struct bench *b, const char *words);
void t_until_pending(struct bench *b, const char *words);
/* The names in a folder, sorted, joined by blanks. */
void names_in(struct bench *b, uint64_t ino, char *ret, size_t size);
void sum_of(const void *data, size_t len, char ret[33]); /* MD5 */
void t_settle(struct bench *b);
/* The disk takes no more of the journal; or does again. */
void t_journal_full(const struct bench *b, bool full);

/* Runs `fn` once over a local folder and once over S3. */
void on_both(void (*fn)(struct bench *b), void (*configure)(struct stage_conf *c));

#endif
