/*
 * Listing in parallel: what its parts share.
 *
 * list.c        the work: a stack of *spans* (a folder, a range of keys below it, or objects to be
 *               asked about), the threads that list them, and the batches that carry what they find
 *               to the caller's thread
 * list-split.c  where to cut a span in two (pure)
 * list-rows.c   many folders of a page as few spans
 * list-circle.c whether a folder holds itself (pure)
 * list-head.c   what a listing does not say is asked of the objects themselves
 */
#ifndef SAMPAN_FETCH_LIST_INTERNAL_H
#define SAMPAN_FETCH_LIST_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "object.h"
#include "sync.h"

#define BATCH_ITEMS 1000
#define BATCHES_MAX 64

struct batch {
    struct batch *next;
    struct list_item items[BATCH_ITEMS]; /* key and etag are offsets into text until it is sealed */
    size_t n;
    struct bytes text;
};
void batch_add(struct batch *b, const struct list_item *item); /* n < BATCH_ITEMS */
void batch_seal(struct batch *b);

/* What a web server's folder lists, for those below it: its sum is whole before they are spans. */
struct level {
    struct level *above;
    _Atomic unsigned refs;
    uint64_t sum;
    uint64_t files, folders;
};
struct level *level_new(struct level *above); /* takes a reference of its own */
struct level *level_ref(struct level *v);     /* NULL is fine */
void level_unref(struct level *v);
void level_add(struct level *v, const char *prefix, const struct list_item *item);
bool level_is_circle(const struct level *v);

/*
 * The keys k below `prefix` with after < k <= end ("" as `end`: without one), one level of them if
 * `folders`, otherwise all that is below. Or, with `ask`, the objects of that batch. With
 * `n_folders` a *row*: at most so many folders that follow each other in a level. The objects
 * between them, which lie in the level itself, are the level's span's.
 */
struct span {
    struct span *next;
    char *prefix, *after, *end;
    bool folders;
    size_t n_folders;
    struct batch *ask;
    struct level *above; /* of a web server's folder: that of the folder it lies in */
};
struct span *span_new(const char *prefix, size_t len, const char *after, const char *end);
void span_free(struct span *s); /* NULL is fine */

struct listing {
    struct fetch *fetch;
    struct store *store;
    unsigned caps;
    unsigned n_threads;
    bool tags;         /* each object is to have what tells its versions apart */
    bool marks;        /* objects that mark folders are told, those of folders with content, too */
    _Atomic bool deaf; /* the server answers no HEAD */
    _Atomic bool walks_anew;  /* each listing costs the server a walk of the whole folder */
    _Atomic uint64_t page_ns; /* the least that a page took which went on where one had ended */
    struct lock lock;
    struct cond work;  /* a span was added, or it is over */
    struct cond ready; /* a batch was added, or a thread ended */
    struct cond room;  /* a batch was taken */
    /* all below: lock */
    struct span *spans;
    size_t n_spans;
    unsigned idle, ended;
    struct batch *first, **end;
    size_t n_batches;
    bool stop, failed;
    struct err err;
};

/* One thread's view while it lists a span. */
struct lister {
    struct listing *l;
    struct span *span;
    struct batch *batch;
    struct batch *ask;        /* objects of the page that are to be asked about */
    struct bytes first, last; /* the least and the greatest key of the page */
    struct level *level;      /* of the folder that is listed, or NULL */
    struct span *below;       /* folders that become spans when it, or a page, is all read: the
                                 last one first */
    bool past_end;
    uint64_t n_items; /* met in the span */
};
/* Hands an item on; waits for room. -1: the listing has ended meanwhile. */
int lister_emit(struct lister *me, const struct list_item *item);
void listing_push(struct listing *l, struct span *s);
bool listing_is_over(struct listing *l);

/*
 * At most `most` keys, ascending, between `last` and the end of the span, at which it may be cut.
 * `first` and `last` are the least and the greatest key of the page that was just listed. Nothing
 * is known about the keys to come, but that names are numbers, hexadecimal ones or words more often
 * than not: so each key is `last` cut off where the page's keys begin to differ, or nearer to the
 * prefix, with its last character raised within its kind, and once beyond. None contains a '/' in a
 * span of one level, or ends within a character. `ret` has room for `most`, to be released.
 */
size_t span_cuts(const struct span *s, const char *first, const char *last, size_t most,
                 struct bytes *ret);

/* A key that all that follows the folder `key` is beyond, and nothing in it; an object's stays. */
void key_beyond(struct bytes *key);

/*
 * The folders that a page of a level named, me->below, become spans: each by itself while threads
 * need work, otherwise rows of them, for folders that hold little would cost a request each.
 * `after` lies before the first one, and beyond the level's folders of earlier pages.
 */
void rows_push(struct lister *me, const char *after);

/* Whether a HEAD of the object is to tell what its listing does not. */
bool head_wanted(struct listing *l, const struct list_item *item);
void head_later(struct lister *me, const struct list_item *item);
void head_push(struct lister *me); /* the page is done: what was put off becomes work for anybody */
int head_span(struct lister *me,
              struct err *err); /* asks about all of the span, and hands them on */

#endif
