/*
 * A range over a unit's border: read in parts, copied into one buffer.
 *
 * Buffers come from a pool of their own. Where it is empty the read is parked, in the order of
 * arrival, and goes on when a buffer comes back: a reader waits a moment, and memory stays bounded.
 * Where the system has no memory and none could come back, the read fails.
 *
 *   gather_read --buffer--> parts are read --last part done--> finish
 *        |                       ^
 *        +---- none ---> parked -+ gather_kick, when the pool has room again
 */
#include <errno.h>

#include "volume-internal.h"

struct part {
    struct source_wait wait;
    struct gather *gather;
    uint32_t at, len; /* in the buffer */
};

struct gather {
    struct volume *v;
    struct volume_read *r;
    struct gather *next; /* parked */
    struct buf *buf;
    uint64_t off;
    uint32_t len;
    atomic_int left; /* parts not finished, and one for who starts them */
    atomic_int origin;
    atomic_bool failed;
    struct err err; /* the first failure; written once, before `left` falls */
    size_t n;
    struct part parts[];
};

static void buffer_release(struct view *view)
{
    buf_unref(view->owner);
}

static struct gather *gather_new(struct volume *v, struct volume_read *r, uint64_t off,
                                 uint32_t len)
{
    size_t n = (size_t)((off + len - 1) / UNIT_BYTES - off / UNIT_BYTES + 1);
    struct gather *g = xcalloc(1, sizeof *g + n * sizeof g->parts[0]);
    g->v = v;
    g->r = r;
    g->off = off;
    g->len = len;
    g->n = n;
    atomic_init(&g->left, (int)n + 1);
    uint32_t at = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t room = UNIT_BYTES - (uint32_t)((off + at) % UNIT_BYTES);
        g->parts[i].gather = g;
        g->parts[i].at = at;
        g->parts[i].len = len - at < room ? len - at : room;
        at += g->parts[i].len;
    }
    return g;
}

static void part_failed(struct gather *g, const struct err *err)
{
    if (!atomic_exchange(&g->failed, true))
        g->err = *err;
}

static void part_arrived(struct part *p, struct view *view)
{
    struct gather *g = p->gather;
    if (view->len == p->len) {
        memcpy(g->buf->data + p->at, view->ptr, p->len);
        if (view->origin > (enum origin)atomic_load(&g->origin))
            atomic_store(&g->origin, (int)view->origin);
    } else {
        struct err err = {0};
        err_set(&err, ERR_BUG, "unit of %zu bytes where %u were wanted", view->len, p->len);
        part_failed(g, &err);
    }
    view_release(view);
}

/* The answer: 0 and *ret, or -1 and *err. Frees the gather. */
static int gather_end(struct gather *g, struct view *ret, struct err *err)
{
    int rc = 0;
    if (atomic_load(&g->failed)) {
        *err = g->err;
        buf_unref(g->buf);
        rc = -1;
    } else {
        g->buf->len = g->len;
        *ret = (struct view){
            .ptr = g->buf->data,
            .len = g->len,
            .origin = (enum origin)atomic_load(&g->origin),
            .release = buffer_release,
            .owner = g->buf,
        };
    }
    free(g);
    return rc;
}

/* The last one out answers, unless that is the starter, who answers by returning. */
static void gather_answer(struct gather *g)
{
    struct volume *v = g->v;
    struct volume_read *r = g->r;
    struct view view;
    struct err err = {0};
    int rc = gather_end(g, &view, &err);
    read_account(v, r, rc ? NULL : &view, &err);
    r->done(r, rc ? NULL : &view, rc ? &err : NULL);
    gate_leave(&v->gate);
}

static bool gather_leave(struct gather *g)
{
    return atomic_fetch_sub(&g->left, 1) == 1;
}

static void part_done(struct source_wait *wait, struct view *view, const struct err *err)
{
    struct part *p = (struct part *)wait;
    struct gather *g = p->gather;
    if (err)
        part_failed(g, err);
    else
        part_arrived(p, view);
    if (gather_leave(g))
        gather_answer(g);
}

/* Reads all parts. True: they are finished already, and the gather is the caller's to end. */
static bool gather_start(struct gather *g)
{
    struct volume_read *r = g->r;
    for (size_t i = 0; i < g->n; i++) {
        struct part *p = &g->parts[i];
        struct piece piece = {
            .catalog = r->catalog,
            .unit = r->id + (g->off + p->at) / UNIT_BYTES,
            .off = (uint32_t)((g->off + p->at) % UNIT_BYTES),
            .len = p->len,
            .prio = r->push ? PRIO_PREFETCH : PRIO_READER,
        };
        struct view view;
        struct err err = {0};
        p->wait.done = part_done;
        int rc = source_read(g->v->top, &piece, &view, &p->wait, &err);
        if (rc == SOURCE_PENDING)
            continue;
        if (rc)
            part_failed(g, &err);
        else
            part_arrived(p, &view);
        gather_leave(g); /* never the last: the starter's own count is still in */
    }
    return gather_leave(g);
}

static void park(struct gather *g)
{
    ACQUIRE(&g->v->lock);
    *g->v->parked_tail = g;
    g->v->parked_tail = &g->next;
}

static int no_memory(uint32_t len, struct err *err)
{
    err_set(err, ERR_LIMIT,
            "cannot read: no memory for %u bytes: the system has none left (free some)", len);
    if (err)
        err->sys = ENOMEM;
    return -1;
}

/* The first that is parked, out of the list: with a buffer, or with none where none will come. */
static struct gather *unpark(struct volume *v)
{
    ACQUIRE(&v->lock);
    struct gather *g = v->parked;
    if (!g)
        return NULL;
    struct buf *buf = pool_get(v->gather_pool, g->len);
    if (!buf && errno != ENOMEM)
        return NULL; /* the pool remembers the refusal and calls gather_kick() */
    g->buf = buf;
    v->parked = g->next;
    if (!v->parked)
        v->parked_tail = &v->parked;
    return g;
}

void gather_kick(void *volume)
{
    for (struct gather *g; (g = unpark(volume));) {
        struct err err = {0};
        if (!g->buf) {
            no_memory(g->len, &err);
            part_failed(g, &err);
            gather_answer(g);
        } else if (gather_start(g)) {
            gather_answer(g);
        }
    }
}

int gather_read(struct volume *v, struct volume_read *r, uint64_t off, uint32_t len,
                struct view *ret, struct err *err)
{
    if (len > pool_limit(v->gather_pool))
        return err_set(err, ERR_LIMIT, "a read of %u bytes at once: at most %zu", len,
                       pool_limit(v->gather_pool));
    struct gather *g = gather_new(v, r, off, len);
    g->buf = pool_get(v->gather_pool, len);
    if (!g->buf && errno == ENOMEM) {
        free(g);
        return no_memory(len, err);
    }
    if (!g->buf) {
        park(g);
        gather_kick(v); /* room may have come before it was parked */
        return SOURCE_PENDING;
    }
    return gather_start(g) ? gather_end(g, ret, err) : SOURCE_PENDING;
}
