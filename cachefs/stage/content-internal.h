/*
 * The content of a node while somebody uses it: its staged file, the map of its blocks, the room
 * that they take, and the upload that carries it to the store.
 */
#ifndef SAMPAN_STAGE_CONTENT_INTERNAL_H
#define SAMPAN_STAGE_CONTENT_INTERNAL_H

#include "remote-internal.h"

#define BLOCK_ABSENT   0 /* only in the store */
#define BLOCK_CLEAN    1 /* here, as in the store */
#define BLOCK_DIRTY    2 /* here alone */
#define BLOCK_FETCHING 3 /* on its way; after a kill: absent */

struct map { /* data/INO.map */
    char magic[8];
    uint64_t base_len; /* so many bytes of the stored object count; what follows was cut off */
    unsigned char blocks[];
};

struct uploading;

struct content {
    struct stage *stage;
    struct node *node;
    unsigned refs;    /* s->lock */
    struct lock lock; /* all below */
    struct cond cond;
    bool loaded;
    int fd;
    uint64_t size;
    struct map *map; /* NULL: every block is here alone */
    size_t map_size;
    int map_fd;
    uint64_t gen;   /* of the node's row, when it was loaded */
    bool draining;  /* an upload was overtaken too often: changes wait */
    bool appending; /* nothing was ever written but at the end */
    uint64_t next_read;
    struct uploading *up; /* begun and not ended */
};

/* A reference; s->lock held. */
struct content *content_ref(struct stage *s, struct node *n);
void content_unref(struct stage *s, struct content *c); /* s->lock held */
/* c->lock held. The staged file is open; made, with all blocks absent, where there is none. */
int content_load(struct content *c, struct err *err);
/* From the staged file, as it is: what blocks are absent is not looked at. */
int content_read(const struct content *c, uint64_t off, void *buf, size_t len, struct err *err);
/* Where the object is and what it must be: a copy, without name and target, for asking the store
 * with no lock held. */
void content_row(const struct content *c, struct record *ret);
/* Blocks that hold [off, off + len) are here, or STAGE_WAIT. */
int content_need(struct content *c, uint64_t off, uint64_t len, bool wait, struct err *err);
/* Bytes of a change that came to no end, in blocks that are ABSENT still: they count for nothing.
 */
void content_clear_absent(const struct content *c, uint64_t off, uint64_t len);
/* The node says DIRTY in the journal, and not SYNCED on the disk; or STAGE_WAIT. */
int content_dirty(struct content *c, bool wait, struct err *err);
/* The map has room for `size`; blocks past the old end are here: zeros. */
int content_grow(struct content *c, uint64_t size, struct err *err);
/* Refused, it has cut nothing. */
int content_truncate(struct content *c, uint64_t size, bool wait, struct err *err);
/* All blocks are as the store has them now. True: there is a map, the row must say so. */
bool content_published(struct content *c);
bool content_is_synced(const struct content *c); /* takes s->lock */
int content_sync(struct content *c, struct err *err);
uint64_t content_blocks(uint64_t size);
/* Whether [off, off + len) is as in the stored object, whose bytes all count there. */
bool content_same(const struct content *c, uint64_t off, uint64_t len);
void content_name(uint64_t ino, bool map, char out[32]);
/* The staged content of a node goes; nobody uses it. s->lock held; the row is the caller's. */
void content_discard(struct stage *s, struct node *n);

/* io.c: no lock held. A reference for one call; NULL: err. */
struct content *handle_content(struct stage *s, uint64_t fh, struct err *err);
struct content *content_take(struct stage *s, struct node *n);
void content_done(struct content *c);

/* room.c: the disk. No lock, or any of ours. */
/* `len` more bytes may be written; drops clean content to make room. s->lock NOT held. */
int room_take(struct stage *s, uint64_t len, struct err *err);
void room_give(struct stage *s, uint64_t len);
/* What the node's file takes now replaces what was charged (`taken` was reserved). */
void room_settle(struct stage *s, struct node *n, int fd, uint64_t taken);
void room_recount(struct stage *s, struct node *n, int fd); /* s->lock held for both */
void drop_list_add(struct stage *s, struct node *n);        /* s->lock held, as below */
void drop_list_remove(struct stage *s, struct node *n);
/* Clean content goes. Its bytes go first: on a full disk the journal has no room before, and what a
 * next life makes of a row whose file is gone is the same. */
void drop_content(struct stage *s, struct node *n);

/* part.c */
uint64_t part_offset(unsigned part); /* from 1 */
uint64_t part_length(unsigned part); /* of a whole one */
unsigned part_at(uint64_t off);      /* the part that holds this byte */
#define PARTS_MAX 10000u

/* upload.c, upload-send.c: an upload in parts. c->lock held. */
/* What an earlier life, or an earlier user of the content, began. Before anything is changed: a
 * change that does not know of a part leaves it counting. */
void upload_take_up(struct content *c);
/* Bytes [off, off + len) are about to change: what was sent of them counts no more. */
int upload_overtaken(struct content *c, uint64_t off, uint64_t len, struct err *err);
/* Whether a part in the middle was completed and may go up. */
bool upload_has_work(const struct content *c);
void uploading_free(struct uploading *up);
/* Ends for nothing: the store is told later. s->lock held, too. */
int upload_give_up(struct content *c, struct err *err);
/* Carries parts up; `finish`: all of them, and makes an object of them: what was stored, and of
 * which change of the content, is in *ret. Neither lock held. The worker's. */
struct snapshot {
    bool wished; /* given: it is stored because somebody wishes so (N_PUBLISH) */
    struct seen seen;
    struct object_meta meta;
    uint64_t seq;
};
#define PUBLISH_WITHDRAWN 1 /* the wish is no more: nothing was stored */
/* s->lock held. */
static inline bool snapshot_is_withdrawn(const struct snapshot *snap, const struct node *n)
{
    return snap->wished && !(n->row.flags & N_PUBLISH);
}
int upload_parts(struct content *c, const char *key, bool finish, struct snapshot *ret,
                 struct err *err);
/* After upload_parts() made an object, and the row says so. No lock held. */
void upload_forget(struct content *c);

/* ours.c: an upload that replaces the node's own object, parts of which it copies. Killed before
 * the row says what the store has now, the next life would ask for those parts in vain: so what
 * will be there is written down before. */
/* On the disk. No lock held. */
int ours_expect(struct content *c, const char *key, const struct part_tag *parts, unsigned n,
                uint64_t size, struct err *err);
/* The row's object is there no more. If that is our own doing, the row has the new one now: true.
 * It has the same bytes wherever nothing was changed here. c->lock held, given up meanwhile. */
bool ours_adopt(struct content *c);
/* The node is DIRTY, and the store's object has nothing that it lacks: the bytes that it begins
 * with. So it is of a PUT of ours, or no loss. Nothing is written down for a PUT, so one whose
 * answer nobody heard is known by that alone, where ETags are MD5s. s->lock held, given up
 * meanwhile. */
bool ours_begins(struct stage *s, struct node *n, const struct seen *seen);

/* memory.c: content in memory, within what conf allows; one body alone always may. Waits until
 * others gave some back, unless `busy` (bodies of the caller's own are under way, and will give
 * some back). False: busy, waited in vain, or the stage stops. Whoever has some of `coming` waits
 * for the network alone, so those who send may wait for it. No lock held. */
bool memory_take(struct stage *s, struct memory_use *m, uint64_t len, bool busy);
void memory_give(struct stage *s, struct memory_use *m, uint64_t len); /* s->lock NOT held */

/* publish.c: the content of one node goes to the store as an object; `wished`: unless nobody wishes
 * so any more (owed_withdraw()). `call`: of a light file (carry.c) who waits for it, on his
 * own thread; NULL: it is a worker's. No lock held. */
int node_publish(struct stage *s, struct node *n, const char *key, bool wished,
                 const struct stage_call *call, struct err *err);

/* carry.c: who carries his own file up may wait no longer meanwhile: then he leaves, once. */
struct carrier {
    const struct stage_call *call;
    bool left;
};
void carrier_look(void *carrier); /* of a fetch_watch */

#endif
