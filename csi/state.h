/*
 * Records that outlive the plugin: one small JSON file each, in a folder of their kind.
 *
 * A record is written aside, synced and renamed, so that it is there as a whole or not at all,
 * whenever the plugin is killed. Its file is named by a hash, because ids come from outside and may
 * be longer than a file's name; the id itself stands inside, as "id".
 *
 * Records hold no secrets.
 */
#ifndef SAMPAN_CSI_STATE_H
#define SAMPAN_CSI_STATE_H

#include "buf.h"
#include "err.h"
#include "json.h"

/* A folder of records; made, with those above it, if it is missing. */
struct state_dir {
    char *path;
    /* Called before each change (tests end the process here); may be NULL. */
    void (*step)(void *arg, const char *what);
    void *step_arg;
};
int state_open(struct state_dir *d, const char *parent, const char *name, struct err *err);
void state_close(struct state_dir *d);

/* 32 hex digits that stand for `id` in names of files and folders. */
#define STATE_NAME_BYTES 33
void state_name(const char *id, char ret[STATE_NAME_BYTES]);

int state_write(struct state_dir *d, const char *id, const struct bytes *json, struct err *err);
/* No such record: fine. */
int state_remove(struct state_dir *d, const char *id, struct err *err);
/* Calls `each` with every record. A file that is none is skipped, and counted in *ret_bad. A
 * failure of `each` ends the walk. */
typedef int state_each(void *arg, const struct json *record, struct err *err);
int state_walk(struct state_dir *d, state_each *each, void *arg, size_t *ret_bad, struct err *err);

/* --- files beside records --------------------------------------------------------------------- */

/* The same for any file: aside, synced, renamed. `mode` of a new file. */
int file_write_whole(const char *path, const void *data, size_t len, unsigned mode,
                     struct err *err);
/* Appends what is in it, at most `max` bytes of it. */
int file_read_whole(const char *path, size_t max, struct bytes *ret, struct err *err);
/* mkdir -p, mode 0700. */
int folder_make(const char *path, struct err *err);

#endif
