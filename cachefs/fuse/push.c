/*
 * The pusher: one thread that brings the samples next in the known order into the kernel's page
 * cache, ahead of the reader, so that its read() makes no round trip at all.
 *
 * The kernel takes pages only for inodes it knows, so the helper (helper.h) opens each
 * name through the mount itself (no round trip once the name is cached), for the time of one call:
 * a descriptor that stayed open would make umount busy. Two ways:
 *
 * - readahead(2): the kernel sends READs, which carry the helper's process id;
 * - FUSE_NOTIFY_STORE: we write the bytes into the page cache.
 *
 * Side by side (110 KiB samples, two cores, idle and busy) they took 54-462 and 53-1023 us a
 * sample: about the same. Readahead is the default, since it needs no copy through a write of the
 * daemon's; store is the way where readahead is refused.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "frontend-internal.h"
#include "mem.h"

#define WINDOW_BYTES  (128ull << 20)
#define WINDOW_MAX    65536
#define IN_FLIGHT_MAX 64
#define IN_FLIGHT_MEM (32ull << 20)
#define HUSH_NS       (2 * NS_PER_S)
#define BATCH         32
#define PREFIXES      512

const char *push_how_name(enum push_how how)
{
    static const char *const names[] = {"readahead", "store", "off"};

    return names[how];
}

/* The paths of folders, by id: most samples share their folder with others. */
struct prefix {
    uint64_t folder; /* 0: free */
    char *path;      /* mount point included, with a trailing '/' */
};

struct pusher {
    struct frontend *f;
    struct catalog *catalog; /* of the present order */
    struct prefix prefixes[PREFIXES];
    unsigned in_flight_max;
    struct push_queue queue;
    bool begun;     /* an order has been followed in this life */
    bool fell_back; /* the second way is in use */
};

static void forget_prefixes(struct pusher *p)
{
    for (size_t i = 0; i < PREFIXES; i++) {
        free(p->prefixes[i].path);
        p->prefixes[i] = (struct prefix){0};
    }
}

static const char *prefix_of(struct pusher *p, uint64_t folder)
{
    struct prefix *slot = &p->prefixes[folder % PREFIXES];
    struct bytes path = {0};

    if (slot->folder == folder)
        return slot->path;
    bytes_add_str(&path, p->f->conf.mountpoint);
    bytes_add_char(&path, '/');
    if (folder != CATALOG_ROOT_ID) {
        if (catalog_path(p->catalog, folder, &path, NULL) < 0) {
            bytes_release(&path);
            return NULL;
        }
        bytes_add_char(&path, '/');
    }
    free(slot->path);
    *slot = (struct prefix){.folder = folder, .path = bytes_take(&path)};
    return slot->path;
}

/* --- the two ways --- */

static int store_piece(struct frontend *f, uint64_t id, uint64_t off, const struct view *v)
{
    struct wire_out_header h = {.error = WIRE_NOTIFY_STORE};
    struct wire_store_out s = {.nodeid = id, .offset = off, .size = (uint32_t)v->len};
    struct iovec iov[3] = {{.iov_base = &h, .iov_len = sizeof(h)},
                           {.iov_base = &s, .iov_len = sizeof(s)},
                           {.iov_base = (void *)v->ptr, .iov_len = v->len}};

    h.len = (uint32_t)(sizeof(h) + sizeof(s) + v->len);
    return helper_notify(&f->helper, iov, 3) < 0 ? -errno : 0;
}

static int push_store(struct frontend *f, uint64_t id, uint64_t size)
{
    int rc = 0;

    for (uint64_t off = 0; off < size && !rc; off += MAX_READ) {
        uint32_t len = (uint32_t)(size - off < MAX_READ ? size - off : MAX_READ);
        struct view view = {0};

        if (read_pushed(f, id, off, len, &view, NULL) < 0)
            return -EIO;
        rc = store_piece(f, id, off, &view);
        counter_add(&f->kept->pushed_bytes, rc == 0 ? view.len : 0);
        view_release(&view);
    }
    return rc;
}

/* --- one sample --- */

/* What became of a file (helper.h). */
void push_told(void *arg, int outcome)
{
    struct frontend *f = arg;
    struct push *push = &f->push;

    atomic_store(&push->last, outcome);
    if (!outcome)
        counter_add(&f->kept->push_skipped, 1);
    else if (atomic_load(&push->how) == PUSH_READAHEAD)
        counter_add(outcome < 0 ? &f->kept->push_failed : &f->kept->pushed, 1);
}

/* The file is held open, so the kernel knows the inode. */
static int store_held(struct pusher *p, uint64_t id, uint64_t size)
{
    struct kept *kept = p->f->kept;
    int rc;

    helper_settle(&p->f->helper);
    if (atomic_load(&p->f->push.last) <= 0)
        return 0; /* it is not there under its name any more */
    rc = push_store(p->f, id, size);
    helper_release(&p->f->helper);
    counter_add(rc < 0 ? &kept->push_failed : &kept->pushed, 1);
    return rc;
}

/* 0, or why this way is none. Of a readahead that is heard of later. */
static int push_one(struct pusher *p, uint64_t id, enum push_how how)
{
    struct push *push = &p->f->push;
    struct helper_file file = {.ino = id, .dev = p->f->mount_dev, .hold = how == PUSH_STORE};
    char path[HELPER_PATH_MAX];
    const char *prefix;
    struct entry e;

    if (catalog_get(p->catalog, id, &e, NULL) < 0 || !(prefix = prefix_of(p, e.parent)) ||
        snprintf(path, sizeof(path), "%s%s", prefix, e.name) >= (int)sizeof(path)) {
        counter_add(&p->f->kept->push_skipped, 1);
        return 0;
    }
    file.size = e.size;
    p->queue.asked += how == PUSH_READAHEAD ? e.size : 0;
    helper_file(&p->f->helper, &file, path);
    if (how == PUSH_STORE)
        return store_held(p, id, e.size);
    return atomic_load(&push->last) < 0 ? atomic_load(&push->last) : 0;
}

static bool stopping(struct push *push)
{
    ACQUIRE(&push->lock);

    return push->stopping;
}

/* Is it too late for this position: the reader is past it, or the end has come? */
static bool too_late(struct push *push, uint64_t pos)
{
    ACQUIRE(&push->lock);

    return push->stopping || pos < push->w.reader;
}

/* Waits out a time in which nothing may be opened. */
static void wait_hushed(struct push *push)
{
    ACQUIRE(&push->lock);
    uint64_t now;

    while (!push->stopping && (now = clock_mono_ns()) < atomic_load(&push->hushed_until))
        cond_wait_for(&push->moved, &push->lock, atomic_load(&push->hushed_until) - now);
}

void push_hush(struct frontend *f)
{
    atomic_store(&f->push.hushed_until, clock_mono_ns() + HUSH_NS);
}

/* Waits until at most `most` READs of ours are under way. */
static void wait_in_flight(struct pusher *p, unsigned most)
{
    struct push *push = &p->f->push;
    ACQUIRE(&push->lock);

    while (!push->stopping && atomic_load(&push->in_flight) > most)
        cond_wait_for(&push->moved, &push->lock, NS_PER_MS / 2);
}

/* Waits until the kernel has little of ours in its queue. */
static void wait_queued(struct pusher *p)
{
    struct push *push = &p->f->push;

    if (p->queue.asked < atomic_load(&push->arrived) + PUSH_QUEUE_BYTES)
        return;
    helper_settle(&p->f->helper);
    p->queue.idle = 0;
    ACQUIRE(&push->lock);
    while (!push->stopping && push_queue_is_full(&p->queue, atomic_load(&push->arrived),
                                                 atomic_load(&push->in_flight) > 0))
        cond_wait_for(&push->moved, &push->lock, NS_PER_MS / 2);
}

void push_arrived(struct frontend *f, uint32_t size)
{
    atomic_fetch_add(&f->push.in_flight, 1);
    atomic_fetch_add_explicit(&f->push.arrived, size, memory_order_relaxed);
}

/* --- choosing the way --- */

static void settle(struct push *push, enum push_how how, const char *why)
{
    lock_take(&push->lock);
    snprintf(push->why, sizeof(push->why), "%s", why);
    lock_drop(&push->lock);
    atomic_store(&push->how, how);
}

/* A way that the kernel refuses is given up for the next one. */
static void fall_back(struct pusher *p, int rc)
{
    struct push *push = &p->f->push;
    char why[160];

    snprintf(why, sizeof(why), "%s refused: %s", push_how_name(atomic_load(&push->how)),
             strerror(-rc));
    settle(push, p->fell_back || !p->f->mode.notify ? PUSH_OFF : PUSH_STORE, why);
    p->fell_back = true;
}

static bool is_refusal(int rc)
{
    return rc == -ENOSYS || rc == -EINVAL || rc == -EPERM || rc == -EOPNOTSUPP;
}

/* Pushes the samples ids[0..n) of these positions. */
static void push_batch(struct pusher *p, const uint64_t *positions, const uint64_t *ids, size_t n)
{
    struct push *push = &p->f->push;

    for (size_t i = 0; i < n && atomic_load(&push->how) != PUSH_OFF; i++) {
        wait_in_flight(p, p->in_flight_max - 1);
        wait_queued(p);
        wait_hushed(push);
        if (too_late(push, positions[i]))
            continue;
        int rc = push_one(p, ids[i], atomic_load(&push->how));
        if (is_refusal(rc))
            fall_back(p, rc);
    }
}

/* --- the thread --- */

static uint64_t window_samples(const struct frontend *f, const struct catalog_info *info,
                               unsigned *ret_in_flight)
{
    uint64_t bytes = f->conf.push_window ? f->conf.push_window : WINDOW_BYTES;
    uint64_t mean = info->samples ? info->bytes / info->samples : 0;
    uint64_t n, flight;

    mean = mean < 4096 ? 4096 : mean;
    n = bytes / mean;
    flight = IN_FLIGHT_MEM / mean;
    *ret_in_flight = flight < 2 ? 2 : flight > IN_FLIGHT_MAX ? IN_FLIGHT_MAX : (unsigned)flight;
    return n < WINDOW_MAX ? n : WINDOW_MAX;
}

/* Has anybody said that the order is another one now? */
static bool take_news(struct push *push)
{
    ACQUIRE(&push->lock);
    bool news = push->news;

    push->news = false;
    return news;
}

/* Where another life left this order: the position its reader was seen at, or UINT64_MAX. The
 * window of what is fetched ahead moves there too. */
static uint64_t left_at(struct pusher *p, uint64_t length)
{
    const struct kept *kept = p->f->kept;
    uint64_t pos = atomic_load(&kept->seen), id;

    if (p->begun || !p->f->adopted || !atomic_load(&kept->seen_id) ||
        atomic_load(&kept->order_length) != length || pos >= length ||
        volume_order_ids(p->f->volume, pos, 1, &id, NULL) < 0 || id != atomic_load(&kept->seen_id))
        return UINT64_MAX;
    volume_seen(p->f->volume, id);
    return pos;
}

/* Takes over the order of now. Called without the lock. */
static void follow_order(struct pusher *p)
{
    struct frontend *f = p->f;
    struct push *push = &f->push;
    uint64_t gen = 0, length;

    if (!take_news(push)) /* before the order is looked at: news of a later one is kept */
        return;
    length = volume_order_length(f->volume, &gen);
    if (gen == push->gen && atomic_load(&push->active) == (length > 0))
        return;
    forget_prefixes(p);
    catalog_unref(p->catalog);
    p->catalog = volume_catalog(f->volume);
    uint64_t window = window_samples(f, catalog_info(p->catalog), &p->in_flight_max);
    uint64_t pos = left_at(p, length);
    ACQUIRE(&push->lock);
    push->gen = gen;
    push_window_reset(&push->w, length, window);
    if (pos != UINT64_MAX)
        push_window_resume(&push->w, pos, atomic_load(&f->kept->push_next));
    p->begun = p->begun || length > 0;
    atomic_store(&push->active, length > 0);
}

/* Positions to push now, rising. If there are none it waits for the reader or for news. */
static size_t take_batch(struct frontend *f, uint64_t *positions)
{
    struct push *push = &f->push;
    ACQUIRE(&push->lock);
    size_t n = 0;

    while (n < BATCH) {
        uint64_t pos = push_window_take(&push->w);

        if (pos == UINT64_MAX)
            break;
        positions[n++] = pos;
    }
    if (n)
        atomic_store(&f->kept->push_next, push->w.next);
    else if (!push->stopping && !push->news)
        cond_wait(&push->moved, &push->lock);
    return n;
}

/* One call for the whole run: positions rise, with a tripwire left out now and then. */
static size_t ids_of(struct frontend *f, const uint64_t *positions, size_t n, uint64_t *ids)
{
    uint64_t run[2 * BATCH];
    uint64_t first = positions[0];
    uint64_t span = positions[n - 1] - first + 1;
    size_t got = 0;

    if (span <= 2 * BATCH && volume_order_ids(f->volume, first, span, run, NULL) == 0)
        for (; got < n; got++)
            ids[got] = run[positions[got] - first];
    return got;
}

static void *push_run(void *arg)
{
    struct pusher *p = arg;
    struct push *push = &p->f->push;
    uint64_t positions[BATCH] = {0}, ids[BATCH] = {0};

    atomic_store(&push->tid, gettid());
    while (!stopping(push)) {
        follow_order(p);
        size_t n = take_batch(p->f, positions);
        if (n && atomic_load(&push->how) != PUSH_OFF)
            push_batch(p, positions, ids, ids_of(p->f, positions, n, ids));
        helper_settle(&p->f->helper);
    }
    forget_prefixes(p);
    catalog_unref(p->catalog);
    free(p);
    return NULL;
}

/* The order changed (volume_on_order()). */
static void push_news(void *frontend)
{
    struct frontend *f = frontend;
    ACQUIRE(&f->push.lock);

    f->push.news = true;
    cond_broadcast(&f->push.moved);
}

int push_start(struct frontend *f, struct err *err)
{
    struct push *push = &f->push;
    struct pusher *p = xcalloc(1, sizeof(*p));
    int e;

    p->f = f;
    p->in_flight_max = IN_FLIGHT_MAX;
    push->gen = UINT64_MAX;
    push->news = true;
    settle(push, PUSH_READAHEAD, "as fast as NOTIFY_STORE, without its copy");
    if (f->conf.shards)
        settle(push, PUSH_OFF, "big files are read ahead by the kernel");
    p->catalog = volume_catalog(f->volume);
    e = thread_start(&push->thread, "fuse-push", push_run, p);
    if (e) {
        catalog_unref(p->catalog);
        free(p);
        return err_thread(err, e, "start a thread");
    }
    push->started = true;
    volume_on_order(f->volume, push_news, f);
    push_news(f); /* of an order that was set in between */
    return 0;
}

void push_stop(struct frontend *f)
{
    struct push *push = &f->push;

    if (!push->started)
        return;
    volume_on_order(f->volume, NULL, NULL);
    lock_take(&push->lock);
    push->stopping = true;
    cond_broadcast(&push->moved);
    lock_drop(&push->lock);
    pthread_join(push->thread, NULL);
    push->started = false;
}

void push_seen(struct frontend *f, uint64_t id)
{
    struct push *push = &f->push;
    uint64_t pos = volume_seen(f->volume, id);

    if (pos == UINT64_MAX || !atomic_load_explicit(&push->active, memory_order_relaxed))
        return;
    ACQUIRE(&push->lock);
    push_window_seen(&push->w, pos, clock_mono_ns());
    atomic_store_explicit(&f->kept->order_length, push->w.length, memory_order_relaxed);
    atomic_store_explicit(&f->kept->seen, pos, memory_order_relaxed);
    atomic_store_explicit(&f->kept->seen_id, id, memory_order_relaxed);
    if (push_window_is_worth(&push->w))
        cond_signal(&push->moved);
}
