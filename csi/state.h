/*
 * Records that outlive the plugin: one small JSON file each, in a folder of their kind.
 *
 * A record is written aside, synced and renamed, so that it is there as a whole or not at all,
 * whenever the plugin is killed. Its file is named by a hash, because ids come from outside and may
 * be longer than a file's name; the id itself stands inside, as "id", and the format that it is
 * written in, as "format" (none: 1).
 *
 * What an older version wrote is read. What a newer one wrote, or nobody, is strange: it is told
 * once, and neither replaced nor removed; whoever asks for its id is told which file it is.
 *
 * Records hold no secrets.
 */
#ifndef SAMPAN_CSI_STATE_H
#define SAMPAN_CSI_STATE_H

#include <stdbool.h>

#include "buf.h"
#include "err.h"
#include "json.h"
#include "log.h"

#define STATE_FORMAT 1

/* 32 hex digits that stand for `id` in names of files and folders. */
#define STATE_NAME_BYTES 33
void state_name(const char *id, char ret[STATE_NAME_BYTES]);

/* A folder of records; made, with those above it, if it is missing. */
struct state_dir {
    char *path;
    /* Called before each change (tests end the process here); may be NULL. */
    void (*step)(void *arg, const char *what);
    void *step_arg;
    char (*strange)[STATE_NAME_BYTES]; /* as state_walk() found them */
    size_t n_strange;
};
int state_open(struct state_dir *d, const char *parent, const char *name, struct err *err);
void state_close(struct state_dir *d);

/* What every record begins with; the caller adds the rest and ends the object. */
void state_begin(struct json_writer *w, struct bytes *out, const char *id);
/* -1 (and ENOTRECOVERABLE) if the id's record is strange. */
int state_known(const struct state_dir *d, const char *id, struct err *err);
/* A strange record is still there: nobody knows what it speaks of. */
bool state_has_strange(const struct state_dir *d);

/* One that state_walk() would find too long (1 MiB) is refused; what was there stays. */
int state_write(struct state_dir *d, const char *id, const struct bytes *json, struct err *err);
/* No such record: fine. A power cut does not bring it back. */
int state_remove(struct state_dir *d, const char *id, struct err *err);
/* Calls `each` with every record. 0: it took it; 1: it does not understand it, and took nothing; -1
 * ends the walk. Called once, before anything else is asked. */
typedef int state_each(void *arg, const struct json *record, struct err *err);
int state_walk(struct state_dir *d, state_each *each, void *arg, struct log *log, struct err *err);

/* --- files beside records --------------------------------------------------------------------- */

/* The same for any file: aside, synced, renamed. `mode` of a new file. */
int file_write_whole(const char *path, const void *data, size_t len, unsigned mode,
                     struct err *err);
/* Appends what is in it, at most `max` bytes of it. */
int file_read_whole(const char *path, size_t max, struct bytes *ret, struct err *err);
/* mkdir -p, mode 0700. */
int folder_make(const char *path, struct err *err);

#endif
