/*
 * What is asked of the store; no lock held.
 */
#ifndef SAMPAN_STAGE_REMOTE_INTERNAL_H
#define SAMPAN_STAGE_REMOTE_INTERNAL_H

#include "stage-internal.h"

/* Stores with folders of their own (to be made and removed, or in the way) are those that rename by
 * themselves, too. */
#define STORE_FOLDERS (STORE_LOCAL | STORE_APPENDS)
#define STORE_RENAME  (STORE_LOCAL | STORE_APPENDS)
struct seen { /* what the store has */
    char etag[160];
    uint64_t size;
    int64_t mtime_ns;
    char mark[STORE_MARK_SIZE]; /* of remote_look(): as in object_meta */
};
struct level_item {
    const char *name; /* without '/' */
    bool folder;
    bool known; /* meta is the object's own */
    struct object_meta meta;
    const struct seen *seen;
};
typedef int level_fn(void *arg, const struct level_item *item, struct err *err);
int remote_level(struct stage *s, const char *prefix, level_fn *fn, void *arg, struct err *err);
int remote_look(struct stage *s, const char *key, struct object_meta *meta, bool *ret_known,
                struct seen *ret, struct err *err);
/* `watch`: what its thread sees to meanwhile, in stores with STORE_META; or NULL. */
int remote_put(struct stage *s, const char *key, const void *body, size_t len,
               const struct object_meta *meta, const struct fetch_watch *watch, struct seen *ret,
               struct err *err);
/* `temp`: where it grows first (STORE_APPENDS), or NULL. */
int remote_put_file(struct stage *s, const char *key, const char *temp, int fd, uint64_t len,
                    const struct object_meta *meta, struct seen *ret, struct err *err);
int remote_marker(struct stage *s, const char *key, const struct object_meta *meta,
                  struct err *err);
int remote_link(struct stage *s, const char *key, const char *target,
                const struct object_meta *meta, struct seen *ret, struct err *err);
int remote_target(struct stage *s, const char *key, uint64_t size, struct bytes *ret,
                  struct err *err);
/* To another key, or onto itself with other attributes. *ret_left: the old key is still there. */
int remote_move(struct stage *s, const char *from, const char *to, const struct object_meta *meta,
                const char *etag, bool *ret_left, struct seen *ret, struct err *err);
int remote_delete(struct stage *s, const char *key, struct err *err);
int remote_delete_many(struct stage *s, const char *const *keys, size_t n, struct err *err);
void count_upload(struct stage *s, uint64_t len);
int remote_abort(struct stage *s, const char *key, const char *upload, struct err *err);
/* All of that key but this one; NULL: all. */
int remote_abort_others(struct stage *s, const char *key, const char *keep, struct err *err);
int remote_read(struct stage *s, const char *key, const struct record *row, uint64_t off, void *buf,
                uint32_t len, struct err *err);

#endif
