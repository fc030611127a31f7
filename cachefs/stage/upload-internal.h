/* An upload in parts: what upload.c knows of it, for upload-send.c. All is under c->lock. */
#ifndef SAMPAN_STAGE_UPLOAD_INTERNAL_H
#define SAMPAN_STAGE_UPLOAD_INTERNAL_H

#include "content-internal.h"

#define SMALL_BODY (1u << 20) /* of an answer */

struct sent {
    uint64_t len; /* 0: not sent, or not any more */
    char *etag;
    bool flying, stale;
};

struct uploading {
    char *key, *id;
    struct object_meta meta;
    struct sent *parts; /* parts[0] is part 1 */
    unsigned n;
};

struct sent *upload_part(struct uploading *up, unsigned part);
unsigned upload_n_parts(uint64_t size);
uint64_t upload_part_length(const struct content *c, unsigned part); /* as the file is now */
/* It arrived, and its bytes are in the file still. */
bool upload_part_counts(const struct content *c, unsigned part);
/* The next part to send, or 0. Without `finish` only whole ones that nobody writes to any more. */
unsigned upload_next_part(const struct content *c, bool finish);
/* The upload for this key is c->up, begun if there is none. The lock is given up meanwhile. */
int upload_have(struct content *c, const char *key, struct err *err);
/* It has ended: nobody looks for it any more. */
void upload_drop(struct content *c);

#endif
