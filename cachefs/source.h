/*
 * The one interface of the data path. Layers stack (volume/stack.c builds them): the cache over
 * the store; in tests `fault`, `delay` and `count` slide between any two.
 *
 * A piece is a byte range of one *unit*: a whole sample of at most UNIT_BYTES, or one UNIT_BYTES
 * block of a larger one. Units are numbered by the catalog: a sample with id X and size S owns the
 * units X, X+1, … X+blocks-1 and nobody else ever gets those numbers again. So a unit number alone
 * names bytes that never change.
 *
 * A read answers in one of three ways:
 *
 * - 0: `ret` holds the bytes; release it with view_release().
 * - SOURCE_PENDING: wait->done will be called exactly once, on another thread, perhaps before
 * read() returns; `wait` must stay valid until then. done() must not block: it may run on the
 * engine's only thread.
 * - -1: `err` says why; wait->done is not called.
 */
#ifndef SAMPAN_SOURCE_H
#define SAMPAN_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"

#define UNIT_BYTES     (4u << 20)
#define SOURCE_PENDING 1
#define SOURCE_NO_ROOM 2 /* ahead(): it could not stay until a reader comes */

enum prio { PRIO_READER, PRIO_PREFETCH, PRIO_WARMUP, PRIO_COUNT };

/* Where the bytes of a view came from. */
enum origin { FROM_MEM, FROM_DISK, FROM_PEER, FROM_STORE, FROM_COUNT };

struct catalog;
struct unit_info;

struct piece {
    /* The version that knows the unit; referenced by the caller until done. */
    struct catalog *catalog;
    uint64_t unit;
    uint32_t off, len; /* inside the unit; a len past the unit's end is cut */
    enum prio prio;
    /* ahead(): room for it is reserved before it is asked for, or it is not asked for: room to keep
     * it, or where this is false, to hold it until a reader comes soon. */
    bool if_kept;
    /* ahead(), with if_kept: what is on its way for somebody who was promised no room for it is
     * waited for, and may not be kept. */
    bool waits;
    /* read(): a lower layer fetches these bytes alone, not their unit. */
    bool alone;
    /* A lower layer puts what it fetches here, from the beginning (NULL: it may choose); not owned.
     */
    struct buf *into;
    /* What the catalog says of the unit, where the caller has looked it up (6 us a row in a version
     * of 1 M); else NULL. Valid during the call: who keeps a piece for later clears it. */
    const struct unit_info *row;
    /* NULL, or the token of who asks: see give_up(). Valid until done(). */
    const atomic_bool *given_up;
};

/* Bytes of a unit. */
struct unit_span {
    uint32_t off, len;
};

/* The piece of a unit of `unit_len` bytes, cut at its end. */
static inline struct unit_span piece_span(const struct piece *p, uint32_t unit_len)
{
    uint32_t off = p->off < unit_len ? p->off : unit_len;
    return (struct unit_span){off, p->len < unit_len - off ? p->len : unit_len - off};
}

/* What a lower layer fetches for it. */
static inline struct unit_span piece_fetched(const struct piece *p, uint32_t unit_len)
{
    return p->alone ? piece_span(p, unit_len) : (struct unit_span){0, unit_len};
}

struct view {
    const void *ptr;
    size_t len;
    enum origin origin;
    void (*release)(struct view *v); /* NULL: nothing to release */
    void *owner;
    uint64_t owner2;
};

static inline void view_release(struct view *v)
{
    if (v->release)
        v->release(v);
    v->release = NULL;
}

struct source_wait {
    /* `view` is the callee's to release when err is NULL; it is NULL for ahead(). */
    void (*done)(struct source_wait *wait, struct view *view, const struct err *err);
};

struct source {
    const struct source_ops *ops;
    struct source *inner; /* the next layer down, or NULL */
};

struct source_ops {
    const char *name;

    /* See above. Any number of threads at once. */
    int (*read)(struct source *s, const struct piece *p, struct view *ret, struct source_wait *wait,
                struct err *err);

    /*
     * Makes the unit of `p` local, at p->prio, handing out nothing. 0: it is here already (or, with
     * p->if_kept and without p->waits, on its way for somebody who was promised no room for it);
     * SOURCE_PENDING: begun (done() follows, with a NULL view); SOURCE_NO_ROOM: see p->if_kept; -1
     * with ERR_LIMIT: no room in the queue or the pool now, try later; -1 otherwise: it can't be
     * had. NULL: a layer that keeps nothing.
     */
    int (*ahead)(struct source *s, const struct piece *p, struct source_wait *wait,
                 struct err *err);

    /* Forgets local copies of the unit, if any. NULL: keeps nothing. */
    void (*drop)(struct source *s, uint64_t unit);

    /* Waits until no read is under way here and frees the layer; then the caller closes `inner`. */
    void (*close)(struct source *s);

    /* A read of this unit (into p->into) under way is wanted at p->prio now. NULL: no matter. */
    void (*raise)(struct source *s, const struct piece *p);

    /*
     * Reads are taken back: who asked sets the token that their pieces name, begins no more with
     * it, and calls this once for all of them. done() still comes once for each, soon, mostly with
     * ERR_CANCELLED: what nobody else waits for ends, what another waits for goes on. NULL: all
     * reads end as they would have.
     */
    void (*give_up)(struct source *s);
};

static inline int source_read(struct source *s, const struct piece *p, struct view *ret,
                              struct source_wait *wait, struct err *err)
{
    return s->ops->read(s, p, ret, wait, err);
}

static inline int source_ahead(struct source *s, const struct piece *p, struct source_wait *wait,
                               struct err *err)
{
    return s->ops->ahead(s, p, wait, err);
}

static inline bool source_given_up(const atomic_bool *token)
{
    return token && atomic_load(token);
}
/* How such a read ends. */
static inline int err_given_up(struct err *err)
{
    return err_set(err, ERR_CANCELLED, "cancelled: nobody wants it any more");
}

static inline void source_give_up(struct source *s)
{
    if (s->ops->give_up)
        s->ops->give_up(s);
}

#endif
