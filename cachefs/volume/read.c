/*
 * One read.
 *
 * A sample of at most UNIT_BYTES is its own unit: the id is the piece, no catalog is asked, and a
 * hit is one call into the cache. Beyond that the row is looked up, because a wrong offset would
 * run into the numbers of another sample; a range over a unit's border goes to gather.c.
 *
 * The catalog of a piece is the current version. Where that one does not know the id (the row
 * changed since a reader learned the number), the layers below say NOT_FOUND at once, and the older
 * versions are asked; an id that no version knows, or an object that is gone, is ESTALE for a
 * reader.
 */
#include "volume-internal.h"

#include <errno.h>

#include "clock.h"

static void note_stale(struct volume *v, uint64_t id, const struct err *err)
{
    ACQUIRE(&v->lock);
    struct stale_object *s = NULL;
    uint64_t oldest = v->n_stale > STALE_KEPT ? v->n_stale - STALE_KEPT : 0;
    for (uint64_t i = oldest; i < v->n_stale; i++)
        if (v->stale[i % STALE_KEPT].id == id)
            s = &v->stale[i % STALE_KEPT];
    if (!s)
        s = &v->stale[v->n_stale++ % STALE_KEPT];
    s->id = id;
    s->at_ns = clock_wall_ns();
    snprintf(s->why, sizeof s->why, "%.*s", (int)sizeof s->why - 1, err->msg);
}

/* What a reader is told. The listing promised this object: that it is gone is a change at the
 * source. */
static void error_for_reader(struct volume *v, uint64_t id, struct err *err)
{
    if (err->class == ERR_NOT_FOUND) {
        err->class = ERR_STALE;
        err->sys = 0;
    }
    if (err->class == ERR_STALE)
        note_stale(v, id, err);
}

void read_account(struct volume *v, struct volume_read *r, const struct view *view, struct err *err)
{
    struct read_counts *n = &v->counts->reads;
    histogram_add(&n->latency, clock_mono_ns() - r->started_ns);
    counter_add(&n->total, 1);
    if (r->push)
        counter_add(&n->pushed, 1);
    if (view) {
        counter_add(&n->bytes, view->len);
        counter_add(&n->from[view->origin], 1);
        counter_add(&n->bytes_from[view->origin], view->len);
    } else {
        counter_add(&n->errors, 1);
        error_for_reader(v, r->id, err);
    }
    if (r->catalog)
        catalog_unref(take_ptr(&r->catalog));
}

static void unit_done(struct source_wait *wait, struct view *view, const struct err *err)
{
    struct volume_read *r =
        (struct volume_read *)(void *)((char *)wait - offsetof(struct volume_read, wait));
    struct volume *v = r->volume;
    struct err told = err ? *err : (struct err){0};
    read_account(v, r, err ? NULL : view, &told);
    r->done(r, err ? NULL : view, err ? &told : NULL); /* may free r */
    gate_leave(&v->gate);
}

static int unit_read(struct volume *v, struct volume_read *r, uint64_t unit, uint32_t off,
                     uint32_t len, struct view *ret, struct err *err)
{
    struct piece p = {
        .catalog = r->catalog,
        .unit = unit,
        .off = off,
        .len = len,
        .prio = r->push ? PRIO_PREFETCH : PRIO_READER,
    };
    r->wait.done = unit_done;
    return source_read(v->top, &p, ret, &r->wait, err);
}

/* The current version does not know this id. Puts the one that does in its place. */
static bool use_older_version(struct volume *v, struct volume_read *r)
{
    struct entry e;
    struct catalog *older = version_of(v, r->id, &e, NULL);
    if (!older)
        return false;
    bool other = older != r->catalog;
    catalog_unref(r->catalog);
    r->catalog = older;
    return other;
}

static int small_read(struct volume *v, struct volume_read *r, uint32_t off, uint32_t len,
                      struct view *ret, struct err *err)
{
    r->catalog = volume_catalog(v);
    int rc = unit_read(v, r, r->id, off, len, ret, err);
    if (rc == -1 && err->class == ERR_NOT_FOUND && use_older_version(v, r)) {
        err_clear(err);
        rc = unit_read(v, r, r->id, off, len, ret, err);
    }
    return rc;
}

static int big_read(struct volume *v, struct volume_read *r, uint64_t off, uint32_t len,
                    struct view *ret, struct err *err)
{
    struct entry e;
    r->catalog = version_of(v, r->id, &e, err);
    if (!r->catalog)
        return -1;
    if (off >= e.size) {
        *ret = (struct view){.ptr = "", .origin = FROM_MEM};
        return 0;
    }
    if (len > e.size - off)
        len = (uint32_t)(e.size - off);
    uint64_t block = off / UNIT_BYTES;
    if ((off + len - 1) / UNIT_BYTES != block)
        return gather_read(v, r, off, len, ret, err);
    return unit_read(v, r, r->id + block, (uint32_t)(off % UNIT_BYTES), len, ret, err);
}

int volume_read(struct volume *v, uint64_t id, uint64_t off, uint32_t len, struct volume_read *r,
                struct view *ret, struct err *err)
{
    struct err scratch = {0};
    if (!err)
        err = &scratch;
    if (!gate_enter(&v->gate))
        return err_set(err, ERR_CANCELLED, "the volume is closing");
    r->started_ns = clock_mono_ns();
    r->volume = v;
    r->catalog = NULL;
    r->id = id;
    if (r->push)
        ahead_pushed(v, id);
    else
        ahead_reader(v, id, off);
    bool small = off < UNIT_BYTES && off + len <= UNIT_BYTES;
    int rc =
        small ? small_read(v, r, (uint32_t)off, len, ret, err) : big_read(v, r, off, len, ret, err);
    if (rc == SOURCE_PENDING)
        return rc; /* `r` may be gone already; done() leaves the gate */
    read_account(v, r, rc ? NULL : ret, err);
    gate_leave(&v->gate);
    return rc;
}
