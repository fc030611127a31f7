/*
 * What the kernel is told when a listing brings another writer's change: entries and pages that are
 * no longer true. One thread and the helper process, because a notification may wait for a lock of
 * the kernel (see the header); the stage only leaves a note. Notes are bounded: names that don't
 * fit any more are dropped, they expire by themselves within the refresh interval; pages never are,
 * but one note a file is enough, however often it changes while a notification waits.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "mem.h"
#include "outfuse-internal.h"

#define NAMES_MAX 65536

static void notify(struct outfuse *f, int code, const void *body, size_t len, const char *name)
{
    struct wire_out_header h = {.error = code};
    struct iovec iov[3] = {{.iov_base = &h, .iov_len = sizeof(h)},
                           {.iov_base = (void *)body, .iov_len = len},
                           {.iov_base = (void *)name, .iov_len = name ? strlen(name) + 1 : 0}};

    h.len = (uint32_t)(sizeof(h) + len + iov[2].iov_len);
    /* What the kernel does not know (ENOENT) it need not forget. */
    if (helper_notify(&f->news.helper, iov, name ? 3 : 2) > 0)
        counter_add(&f->news.told, 1);
}

static void tell(struct outfuse *f, const struct news_item *item)
{
    if (item->name) {
        struct wire_inval_entry_out entry = {.parent = item->ino,
                                             .namelen = (uint32_t)strlen(item->name)};
        notify(f, WIRE_NOTIFY_INVAL_ENTRY, &entry, sizeof(entry), item->name);
    } else {
        struct wire_inval_inode_out inode = {.ino = item->ino};
        notify(f, WIRE_NOTIFY_INVAL_INODE, &inode, sizeof(inode), NULL);
    }
}

/* Takes all notes; false: no more will come. */
static bool take(struct news *n, struct news_item **ret, size_t *ret_n)
{
    ACQUIRE(&n->lock);
    while (!n->n && !n->stop)
        cond_wait(&n->due, &n->lock);
    *ret = take_ptr(&n->items);
    *ret_n = n->n;
    n->n = n->cap = 0;
    return !n->stop;
}

static void *news_run(void *arg)
{
    struct outfuse *f = arg;
    struct news_item *items;
    size_t n;
    bool more;

    do {
        more = take(&f->news, &items, &n);
        for (size_t i = 0; i < n; i++) {
            if (more)
                tell(f, &items[i]);
            free(items[i].name);
        }
        free(items);
    } while (more);
    return NULL;
}

/* Pages before names, each file's together. */
static int pages_first(const void *a, const void *b)
{
    const struct news_item *x = a, *y = b;

    if (!x->name != !y->name)
        return x->name ? 1 : -1;
    return (x->ino > y->ino) - (x->ino < y->ino);
}

/* Under the lock. */
static void merge_pages(struct news *n)
{
    size_t kept = 0;

    qsort(n->items, n->n, sizeof(*n->items), pages_first);
    for (size_t i = 0; i < n->n; i++) {
        const struct news_item *item = &n->items[i];
        if (item->name || !kept || n->items[kept - 1].ino != item->ino)
            n->items[kept++] = *item;
    }
    n->n = kept;
}

/* Under the lock. */
static void make_room(struct news *n)
{
    if (n->n)
        merge_pages(n);
    if (n->n > n->cap / 2 || !n->cap) { /* else what it gained pays for the next time */
        n->cap = n->cap ? 2 * n->cap : 64;
        n->items = xrealloc(n->items, n->cap * sizeof(*n->items));
    }
}

/* A stage_changed_fn. */
static void news_changed(void *outfuse, uint64_t ino, const char *name)
{
    struct outfuse *f = outfuse;
    struct news *n = &f->news;

    if (!name) {
        ACQUIRE(&f->seen_lock);
        struct seen *s = &f->seen[ino % SEEN_PLACES];
        if (s->ino == ino)
            s->ino = 0;
    }
    ACQUIRE(&n->lock);
    if (n->stop || (name && n->n >= NAMES_MAX)) {
        counter_add(&n->dropped, 1);
        return;
    }
    if (n->n == n->cap)
        make_room(n);
    n->items[n->n++] = (struct news_item){.ino = ino, .name = name ? xstrdup(name) : NULL};
    cond_signal(&n->due);
}

int news_start(struct outfuse *f, struct err *err)
{
    f->news.helper.device = f->dev;
    int e = thread_start(&f->news.thread, "fuse-news", news_run, f);

    if (e)
        return err_thread(err, e, "start a thread");
    f->news.started = true;
    stage_on_change(f->stage, news_changed, f);
    return 0;
}

void news_stop(struct outfuse *f)
{
    if (!f->news.started)
        return;
    stage_on_change(f->stage, NULL, NULL);
    {
        ACQUIRE(&f->news.lock);
        f->news.stop = true;
        cond_broadcast(&f->news.due);
    }
    pthread_join(f->news.thread, NULL);
    f->news.started = false;
}
