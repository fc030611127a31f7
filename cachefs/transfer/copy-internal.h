/* copy.c copies one object; meta.c knows what stands beside its bytes, and links. */
#ifndef SAMPAN_TRANSFER_COPY_INTERNAL_H
#define SAMPAN_TRANSFER_COPY_INTERNAL_H

#include "sync-internal.h"

/* What a copy needs, from its task. */
struct copying {
    struct sync_run *run;
    struct task *task;
    const char *key;
    struct side *src, *dst;
    const struct sync_source *source;
    const char *from; /* the key as the source has it */
};

#define CHANGES_MAX 3 /* so often a copy is begun anew */

/* What an object is now: fills size, time and ETag. Follows links, as reading does. */
int look(struct sync_run *r, struct store *store, const char *key, struct side *ret,
         struct err *err);

/* After many reads: where there are no ETags, they are of one object only if it is still what it
 * was when it was listed. ERR_STALE if it is not. */
int check_unchanged(struct sync_run *r, const struct side *listed, const char *key,
                    struct err *err);

/* 1: equal, 0: not. */
int compare_bytes(const struct copying *c, const struct side *dst, struct err *err);

struct meta {
    struct object_meta m;
    bool known; /* false: of `m` the time alone means something */
    char etag[160];
};

/* `follow`: of what a local link leads to. */
int meta_look(struct sync_run *r, struct store *s, const char *key, bool follow, struct meta *ret,
              struct err *err);
void meta_to_attrs(const struct meta *m, struct local_attrs *ret);

/* Not by a listing's kind alone: a small object of S3 may be one, a HEAD says so. */
bool may_be_link(const struct store *s, const struct side *side);
/* 1: the source is a link, to *ret; 0: it is none. */
int link_target(const struct copying *c, struct meta *meta, struct bytes *ret, struct err *err);
int put_link(const struct copying *c, const struct meta *meta, const struct bytes *target,
             struct err *err);
/* 1: equal (links with one target, or objects with the same bytes), 0: not. */
int compare_links(const struct copying *c, struct err *err);
int check_parents(const struct copying *c, struct err *err);

#endif
