/*
 * READ: one look into the volume, one reply straight from the view it gives. Bytes that are not
 * here yet park the request (a record on the heap, the request itself in a slot), never the thread;
 * done() replies when they come. That may be before the worker has parked it: whoever of the two
 * comes second puts it away.
 *
 * A reply is written from a mapping of a pack. If the disk below fails at that moment, the kernel's
 * copy stops with EFAULT (the process is not hit by SIGBUS, as it does not touch the page itself)
 * and the READ has ended with EIO: no other reply can be given. The local copy is dropped; what the
 * kernel read ahead it asks for again as soon as a reader wants it, and that one is served from
 * elsewhere.
 */
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "frontend-internal.h"
#include "mem.h"

#define LOG_MODULE "fuse"
#include "log.h"

struct parked {
    struct volume_read read; /* first: the volume gives it back */
    struct frontend *f;
    uint64_t unique;
    uint64_t ino, off;
    uint32_t size, pid;
    uint32_t slot;
    _Atomic bool settled; /* the worker has parked it, or it was answered */
};

/* Tells the log, at most once a second: a broken store must not fill a disk with lines. */
static void complain(struct frontend *f, uint64_t ino, const struct err *err)
{
    uint64_t now = clock_mono_ns();
    uint64_t last = atomic_load_explicit(&f->last_complaint_ns, memory_order_relaxed);

    if (now - last < NS_PER_S && last)
        return;
    if (atomic_compare_exchange_strong(&f->last_complaint_ns, &last, now))
        log_warn(f->log, "read of id %llu failed: %s", (unsigned long long)ino, err->msg);
}

/* After the reply. */
static void put_away(struct parked *p)
{
    struct frontend *f = p->f;

    if (p->slot != HAND_NO_SLOT)
        hand_unpark(&f->hand, p->slot);
    if (p->read.push)
        atomic_fetch_sub(&f->push.in_flight, 1);
    free(p);
    atomic_fetch_sub(&f->parked, 1); /* the last touch of `f`: see wait_for_parked() */
}

/* ENOENT: the kernel gave the request up (its reader was killed). ENODEV, EINVAL and the like come
 * at the end of a connection. Neither is a failure of ours. */
static void count_reply(struct parked *p, int rc, size_t len)
{
    if (rc < 0)
        return;
    if (!p->read.push) {
        counter_add(&p->f->kept->reads, 1);
        counter_add(&p->f->kept->read_bytes, len);
    } else {
        counter_add(&p->f->kept->pushed_bytes, len);
    }
}

static void fail(struct parked *p, const struct err *err)
{
    const struct failed_read read = {
        .ino = p->ino, .off = p->off, .size = p->size, .pid = p->pid, .error = err_errno(err)};

    again_note(&p->f->again, &read, p->read.started_ns, clock_mono_ns());
    counter_add(&p->f->kept->read_errors, 1);
    complain(p->f, p->ino, err);
    dev_reply(p->f, p->unique, -err_errno(err), NULL, 0);
}

static void drop_units(struct parked *p)
{
    uint64_t first = p->ino + p->off / UNIT_BYTES;
    uint64_t last = p->ino + (p->off + (p->size ? p->size - 1 : 0)) / UNIT_BYTES;

    for (uint64_t unit = first; unit <= last; unit++)
        cache_drop(volume_cache(p->f->volume), unit);
}

static void answer(struct parked *p, struct view *view)
{
    struct err err = {0};
    size_t len = view->len;
    int rc = dev_reply(p->f, p->unique, 0, view->ptr, len);

    view_release(view);
    if (rc != -EFAULT) {
        count_reply(p, rc, len);
        return;
    }
    counter_add(&p->f->kept->refetched, 1);
    drop_units(p);
    err_set(&err, ERR_FAILED, "the cached copy can't be read: it is fetched anew when asked for");
    complain(p->f, p->ino, &err);
}

static void settle(struct parked *p)
{
    if (atomic_exchange(&p->settled, true))
        put_away(p);
}

static void came(struct volume_read *r, struct view *view, const struct err *err)
{
    struct parked *p = (struct parked *)(void *)r;

    if (err)
        fail(p, err);
    else
        answer(p, view);
    settle(p);
}

/* True: it is answered. False: `p` waits, and may be answered by the time this returns. */
static bool ask(struct parked *p)
{
    struct view view = {0};
    struct err err = {0};
    int rc = volume_read(p->f->volume, p->ino, p->off, p->size, &p->read, &view, &err);

    if (rc == SOURCE_PENDING)
        return false;
    if (rc == 0)
        answer(p, &view);
    else
        fail(p, &err);
    return true;
}

static void read_snapshot(struct frontend *f, const struct wire_in_header *h,
                          const struct wire_read_in *in)
{
    size_t size = in->size < MAX_READ ? in->size : MAX_READ;
    char *text = xmalloc(size + 1);
    ssize_t n = snapshots_read(&f->snapshots, h->nodeid, in->offset, text, size, NULL);

    if (n < 0)
        dev_reply(f, h->unique, -ESTALE, NULL, 0);
    else
        dev_reply(f, h->unique, 0, text, (size_t)n);
    free(text);
}

/* --- reading ahead by ourselves --- */

struct waiting {
    struct volume_read read; /* first */
    struct lock lock;
    struct cond came;
    bool done;
    struct view view;
    struct err err;
};

static void waiting_came(struct volume_read *r, struct view *view, const struct err *err)
{
    struct waiting *w = (struct waiting *)(void *)r;
    ACQUIRE(&w->lock);

    if (err)
        w->err = *err;
    else
        w->view = *view;
    w->done = true;
    cond_signal(&w->came);
}

int read_pushed(struct frontend *f, uint64_t id, uint64_t off, uint32_t len, struct view *ret,
                struct err *err)
{
    struct waiting w = {.read = {.done = waiting_came, .push = true}};
    int rc;

    lock_init(&w.lock, RANK_METRICS, "fuse read ahead");
    cond_init(&w.came);
    rc = volume_read(f->volume, id, off, len, &w.read, ret, err);
    if (rc == SOURCE_PENDING) {
        ACQUIRE(&w.lock);
        while (!w.done)
            cond_wait(&w.came, &w.lock);
        rc = w.err.class == ERR_NONE ? 0 : -1;
        *ret = w.view;
        if (rc < 0 && err)
            *err = w.err;
    }
    cond_destroy(&w.came);
    lock_destroy(&w.lock);
    return rc;
}

/* --- READ --- */

/* Is it the pusher that reads, or the helper in its place? */
static bool push_asks(const struct frontend *f, uint32_t pid)
{
    return pid && ((int)pid == atomic_load_explicit(&f->helper.pid, memory_order_relaxed) ||
                   (int)pid == atomic_load_explicit(&f->push.tid, memory_order_relaxed));
}

/* Those that need no volume. */
static bool read_by_ourselves(struct frontend *f, const struct wire_in_header *h,
                              const struct wire_read_in *in)
{
    int error = again_error(&f->again, h->pid, h->nodeid, in->offset, clock_mono_ns());

    if (error)
        dev_reply(f, h->unique, -error, NULL, 0);
    else if (ino_is_snapshot(h->nodeid))
        read_snapshot(f, h, in);
    else if (ino_is_ours(h->nodeid))
        dev_reply(f, h->unique, -EISDIR, NULL, 0);
    else
        return false;
    return true;
}

void op_read(struct frontend *f, const struct wire_in_header *h, const struct wire_read_in *in,
             uint32_t slot)
{
    struct parked *p;

    if (read_by_ourselves(f, h, in)) {
        if (slot != HAND_NO_SLOT)
            hand_unpark(&f->hand, slot);
        return;
    }
    p = xcalloc(1, sizeof(*p));
    p->f = f;
    p->unique = h->unique;
    p->ino = h->nodeid;
    p->off = in->offset;
    p->size = in->size < MAX_READ ? in->size : MAX_READ;
    p->pid = h->pid;
    p->read.done = came;
    p->read.push = push_asks(f, h->pid);
    atomic_fetch_add(&f->parked, 1);
    if (p->read.push)
        push_arrived(f, p->size);
    else if (in->offset == 0)
        push_seen(f, h->nodeid);
    p->slot = slot;
    if (ask(p)) {
        put_away(p);
        return;
    }
    if (slot == HAND_NO_SLOT)
        p->slot = hand_park(&f->hand, h);
    settle(p);
}
