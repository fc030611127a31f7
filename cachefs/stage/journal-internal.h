/*
 * The journal: one row a node, the keys that must go, and uploads in parts that were begun. s->lock
 * is held for all but open and sync, or where it says otherwise.
 */
#ifndef SAMPAN_STAGE_JOURNAL_INTERNAL_H
#define SAMPAN_STAGE_JOURNAL_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "err.h"

struct sqlite3;
struct sqlite3_stmt;
struct stage;
struct node;
struct record;
struct stage_call;

enum stmt {
    ST_BEGIN,
    ST_COMMIT,
    ST_ROLLBACK,
    ST_PUT,
    ST_DROP,
    ST_DOOM,
    ST_UNDOOM,
    ST_CALL,
    ST_CALL_DROP,
    ST_META,
    ST_UPLOAD,
    ST_UPLOAD_DROP,
    ST_PART,
    ST_PART_DROP,
    ST_PARTS_DROP,
    ST_COUNT
};

struct journal {
    struct sqlite3 *db;
    struct sqlite3_stmt *stmts[ST_COUNT];
    int wal_fd;
    unsigned call_slot;
};

int journal_open(struct stage *s, struct err *err);
/* Whether `meta` says so: "boot" of which the last life was, "clean" 1 if it was not killed. */
bool journal_is(struct stage *s, const char *key, uint64_t value);
int journal_load(struct stage *s, struct err *err);
void journal_close(struct stage *s);
int journal_begin(struct stage *s, struct err *err);
int journal_commit(struct stage *s, struct err *err);
void journal_rollback(struct stage *s);
int journal_put(struct stage *s, const struct node *n, struct err *err);
int journal_put_record(struct stage *s, const struct record *r, struct err *err);
int journal_drop(struct stage *s, uint64_t ino, struct err *err);
int journal_doom(struct stage *s, const char *key, const char *upload, uint64_t ino,
                 struct err *err);
int journal_undoom(struct stage *s, const char *key, const char *upload, struct err *err);
int journal_call(struct stage *s, const struct stage_call *c, uint64_t ino, struct err *err);
/* The call was refused: it has no answer, and changes something again when it comes again. */
int journal_call_drop(struct stage *s, const struct stage_call *c, struct err *err);
int journal_meta(struct stage *s, const char *key, uint64_t value, struct err *err);
#define UPLOAD_GROWS "~" /* as `id`: `key` is a temporary name of what grows there */
int journal_upload(struct stage *s, uint64_t ino, const char *key, const char *id, struct err *err);
int journal_upload_drop(struct stage *s, uint64_t ino, struct err *err); /* with its parts */
int journal_part(struct stage *s, uint64_t ino, unsigned part, uint64_t len, const char *etag,
                 struct err *err);
#define PART_WHOLE 0     /* no part: length and ETag of what all of them will be */
#define PART_MARK  10001 /* nor is that: the mark of the upload, and the mtime beside it */
int journal_part_drop(struct stage *s, uint64_t ino, unsigned part, struct err *err);
/* The upload of a node, if one was begun: id and parts. Gives false if there is none. */
typedef void journal_part_fn(void *arg, unsigned part, uint64_t len, const char *etag);
bool journal_find_upload(struct stage *s, uint64_t ino, char **ret_key, char **ret_id,
                         journal_part_fn *fn, void *arg);
/* One row alone, in a transaction of its own. */
int journal_save(struct stage *s, const struct node *n, struct err *err);
/* What was committed is on the disk when it returns. No lock. */
int journal_sync(struct stage *s, struct err *err);
/*
 * What ended in the store (a delete, a move) has ended on the disk, too. Else a machine that stops
 * would begin it again, and take away what was stored under that key meanwhile: it stands before
 * each change of the store, and before a caller hears that something is stored. No lock.
 */
int journal_barrier(struct stage *s, struct err *err);
int journal_barrier_held(struct stage *s, struct err *err); /* s->lock held, and given up */
/*
 * Copies the journal's log into it, without keeping others waiting; true: the log is long. It is
 * begun anew by the next write, if none came meanwhile. No lock, or s->lock so that none comes.
 */
bool journal_checkpoint(struct stage *s);
/* The answer of an earlier life to this very call. s->lock held. */
bool call_answered(struct stage *s, const struct stage_call *c, uint64_t *ret_ino);

#endif
