/*
 * Memory: allocation that does not fail, and the bounded pool.
 *
 * The pool. A capacity is rounded up to a class: eight classes for each power of two, so that at
 * most one byte in nine is waste. The rounded size is what is charged. A released buffer goes to
 * its class's idle list; idle buffers are given back, the largest first, when room is needed for
 * another class, and all of them when the system has no memory. Invariant, whenever the lock is
 * free: used + idle <= limit, unless the limit was lowered below what is in use.
 *
 * A refusal that ends when a buffer comes back (EAGAIN) is told from one that nothing here ends
 * (ENOMEM) under the lock: whoever is told to wait is sure to be called. A buffer that is being
 * made may never be: where no other is out, its end is waited for.
 */
#include "mem.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "sync.h"

void mem_exhausted(void)
{
    fprintf(stderr, "out of memory: the system has none left\n");
    abort();
}

static void *must(void *p, size_t size)
{
    if (!p && size)
        mem_exhausted();
    return p;
}

void *xmalloc(size_t size)
{
    return must(malloc(size ? size : 1), size);
}

void *xcalloc(size_t n, size_t size)
{
    return must(calloc(n ? n : 1, size ? size : 1), n && size ? n : 0);
}

void *xrealloc(void *p, size_t size)
{
    return must(realloc(p, size ? size : 1), size);
}

char *xstrdup(const char *s)
{
    return must(strdup(s), strlen(s) + 1);
}

char *xstrndup(const char *s, size_t n)
{
    return must(strndup(s, n), n + 1);
}

char *xvasprintf(const char *fmt, va_list ap)
{
    char *text;
    int n = vasprintf(&text, fmt, ap);
    return must(n < 0 ? NULL : text, 1);
}

char *xasprintf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = xvasprintf(fmt, ap);
    va_end(ap);
    return text;
}

/* --- the pool --------------------------------------------------------------------------------- */

#define CLASS_MIN_BITS  9 /* 512 bytes */
#define CLASS_MAX_BITS  40
#define CLASSES         ((CLASS_MAX_BITS - CLASS_MIN_BITS) * 8 + 1)
#define MAP_DIRECTLY_AT (64u << 10) /* from here on pages come from, and go back to, the system */

/* Buffers of this size lie in huge pages where the system gives some: a device that fills one takes
 * few long pieces of memory, a virtual disk a third of the time. */
#define HUGE_BYTES (2u << 20)

struct slot {
    struct buf buf; /* first: a buf pointer is a slot pointer */
    struct slot *next;
    unsigned class;
};

struct pool {
    struct lock lock;
    struct cond made; /* a buffer that was charged is out, or will not be had */
    size_t limit;
    size_t used; /* handed out, and being made */
    size_t out;  /* handed out: each comes back through put_back() */
    size_t idle;
    bool refused; /* a pool_get() was told to wait since the last call of on_space */
    void (*on_space)(void *arg);
    void *on_space_arg;
    struct slot *lists[CLASSES];
};

static size_t class_size(unsigned class)
{
    unsigned bits = CLASS_MIN_BITS + class / 8;
    return ((size_t)1 << bits) + (size_t)(class % 8) * ((size_t)1 << (bits - 3));
}

static unsigned class_of(size_t cap)
{
    if (cap <= (size_t)1 << CLASS_MIN_BITS)
        return 0;
    unsigned bits = 63 - (unsigned)__builtin_clzll(cap);
    size_t step = (size_t)1 << (bits - 3);
    size_t over = cap - ((size_t)1 << bits);
    return (bits - CLASS_MIN_BITS) * 8 + (unsigned)((over + step - 1) / step);
}

static void *map_pages(size_t cap, int flags)
{
    void *at = mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* Begins where a huge page does, if there is room to look for such a place. */
static void *map_huge(size_t cap)
{
    char *at = map_pages(cap + HUGE_BYTES, 0);
    if (!at)
        return map_pages(cap, MAP_POPULATE);
    size_t before = -(uintptr_t)at % HUGE_BYTES;
    if (before)
        munmap(at, before);
    munmap(at + before + cap, HUGE_BYTES - before);
    madvise(at + before, cap, MADV_HUGEPAGE);
    madvise(at + before, cap, MADV_POPULATE_WRITE);
    return at + before;
}

static struct slot *slot_new(struct pool *p, unsigned class)
{
    size_t cap = class_size(class);
    void *data;
    if (cap >= MAP_DIRECTLY_AT) {
        data = cap >= HUGE_BYTES ? map_huge(cap) : map_pages(cap, MAP_POPULATE);
        if (!data)
            return NULL;
    } else {
        data = aligned_alloc(64, cap);
        if (!data)
            return NULL;
    }
    struct slot *s = xcalloc(1, sizeof *s);
    s->class = class;
    s->buf.pool = p;
    s->buf.cap = cap;
    s->buf.data = data;
    return s;
}

static void slots_free(struct slot *list)
{
    while (list) {
        struct slot *next = list->next;
        if (list->buf.cap >= MAP_DIRECTLY_AT)
            munmap(list->buf.data, list->buf.cap);
        else
            free(list->buf.data);
        free(list);
        list = next;
    }
}

/* Takes idle slots off their lists, the largest first, until at most `keep` idle bytes are left.
 * The caller frees them once it has dropped the lock. */
static struct slot *take_idle(struct pool *p, size_t keep)
{
    struct slot *taken = NULL;
    for (unsigned c = CLASSES; c-- > 0 && p->idle > keep;) {
        while (p->lists[c] && p->idle > keep) {
            struct slot *s = p->lists[c];
            p->lists[c] = s->next;
            p->idle -= s->buf.cap;
            s->next = taken;
            taken = s;
        }
    }
    return taken;
}

static size_t room_for_idle(const struct pool *p)
{
    return p->limit > p->used ? p->limit - p->used : 0;
}

struct pool *pool_new(size_t limit)
{
    struct pool *p = xcalloc(1, sizeof *p);
    lock_init(&p->lock, RANK_POOL, "pool");
    cond_init(&p->made);
    p->limit = limit;
    return p;
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    assert(p->used == 0);
    pool_trim(p);
    cond_destroy(&p->made);
    lock_destroy(&p->lock);
    free(p);
}

static bool has_room(const struct pool *p, size_t cap)
{
    return cap <= p->limit && p->used <= p->limit - cap;
}

/* Charges the class. Returns false if the limit forbids it; `ret` gets an idle slot or NULL (make a
 * new one), `trash` what had to be given back to make room. */
static bool reserve(struct pool *p, unsigned class, struct slot **ret, struct slot **trash)
{
    size_t cap = class_size(class);
    ACQUIRE(&p->lock);
    while (!has_room(p, cap) && p->used && !p->out)
        cond_wait(&p->made, &p->lock);
    *ret = p->lists[class];
    if (*ret && p->used + p->idle <= p->limit) {
        p->lists[class] = (*ret)->next;
        p->idle -= cap;
        p->out += cap;
    } else {
        *ret = NULL;
        if (!has_room(p, cap)) {
            p->refused = true;
            return false;
        }
        *trash = take_idle(p, p->limit - p->used - cap);
    }
    p->used += cap;
    return true;
}

/* The system refused a slot that was charged. 0: what was idle went back to it, try again; else the
 * charge is taken back, and the errno says whether waiting for a buffer helps. */
static int system_refused(struct pool *p, size_t cap)
{
    struct slot *trash;
    {
        ACQUIRE(&p->lock);
        trash = take_idle(p, 0);
        if (!trash) {
            p->used -= cap;
            p->refused = p->refused || p->out;
            cond_broadcast(&p->made);
            return p->out ? EAGAIN : ENOMEM;
        }
    }
    slots_free(trash);
    return 0;
}

/* Makes a slot of a class that was charged; NULL and an errno if it cannot be had. */
static struct slot *make_slot(struct pool *p, unsigned class)
{
    struct slot *s;
    while (!(s = slot_new(p, class))) {
        int refusal = system_refused(p, class_size(class));
        if (refusal) {
            errno = refusal;
            return NULL;
        }
    }
    ACQUIRE(&p->lock);
    p->out += s->buf.cap;
    cond_broadcast(&p->made);
    return s;
}

struct buf *pool_get(struct pool *p, size_t cap)
{
    unsigned class = class_of(cap);
    struct slot *s = NULL, *trash = NULL;
    if (cap > (size_t)1 << CLASS_MAX_BITS || !reserve(p, class, &s, &trash)) {
        errno = EAGAIN;
        return NULL;
    }
    slots_free(trash);
    if (!s && !(s = make_slot(p, class)))
        return NULL;
    s->next = NULL;
    s->buf.len = 0;
    atomic_store_explicit(&s->buf.refs, 1, memory_order_relaxed);
    return &s->buf;
}

struct buf *buf_ref(struct buf *b)
{
    int before = atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
    return b;
}

static void put_back(struct pool *p, struct slot *s)
{
    struct slot *trash = NULL;
    void (*fn)(void *) = NULL;
    void *arg = NULL;
    {
        ACQUIRE(&p->lock);
        p->used -= s->buf.cap;
        p->out -= s->buf.cap;
        p->idle += s->buf.cap;
        s->next = p->lists[s->class];
        p->lists[s->class] = s;
        trash = take_idle(p, room_for_idle(p)); /* only when the limit was lowered meanwhile */
        if (p->refused) {
            p->refused = false;
            fn = p->on_space;
            arg = p->on_space_arg;
        }
    }
    slots_free(trash);
    if (fn)
        fn(arg);
}

void buf_unref(struct buf *b)
{
    if (!b)
        return;
    int before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before == 1)
        put_back(b->pool, (struct slot *)b);
}

size_t pool_used(const struct pool *p)
{
    struct lock *l = (struct lock *)&p->lock;
    ACQUIRE(l);
    return p->used;
}

size_t pool_limit(const struct pool *p)
{
    struct lock *l = (struct lock *)&p->lock;
    ACQUIRE(l);
    return p->limit;
}

void pool_set_limit(struct pool *p, size_t limit)
{
    struct slot *trash;
    void (*fn)(void *) = NULL;
    void *arg = NULL;
    {
        ACQUIRE(&p->lock);
        if (limit > p->limit && p->refused) {
            p->refused = false;
            fn = p->on_space;
            arg = p->on_space_arg;
        }
        p->limit = limit;
        trash = take_idle(p, room_for_idle(p));
    }
    slots_free(trash);
    if (fn)
        fn(arg);
}

void pool_trim(struct pool *p)
{
    struct slot *trash;
    {
        ACQUIRE(&p->lock);
        trash = take_idle(p, 0);
    }
    slots_free(trash);
}

void pool_on_space(struct pool *p, void (*fn)(void *arg), void *arg)
{
    ACQUIRE(&p->lock);
    p->on_space = fn;
    p->on_space_arg = arg;
}
