/*
 * Listing in parallel. Threads take spans from a stack and list them page by page. A store that
 * lists whole subtrees is asked for single levels only until every thread has work (each sub-folder
 * becomes a span, or, of many, a row of them: list-rows.c), then for subtrees; when threads run
 * idle, a long span is cut at keys that it has not reached (list-split.c), unless pages that follow
 * each other are fast enough. Other stores are walked folder by folder; what they do not say of an
 * object is asked of itself (list-head.c). What is found travels in batches through a bounded queue
 * to the caller's thread, which alone calls fn.
 */
#include <assert.h>
#include <string.h>

#include "clock.h"
#include "do-internal.h"
#include "list-internal.h"
#include "mem.h"

/* A span that is cut ends within a page, whose rest was listed in vain: short ones stay whole. */
#define PAGES_UNCUT   3
#define THREADS_MAX   64
#define PAGE_BODY_MAX (64u << 20)
#define LIST_BODY_MAX (2ull << 30) /* a manifest is one answer */
#define PATH_BYTES    4096u        /* no file system takes more: what is below is not looked at */

static void batch_free(struct batch *b)
{
    if (!b)
        return;
    bytes_release(&b->text);
    free(b);
}

void span_free(struct span *s)
{
    if (!s)
        return;
    free(s->prefix);
    free(s->after);
    free(s->end);
    batch_free(s->ask);
    level_unref(s->above);
    free(s);
}

struct span *span_new(const char *prefix, size_t len, const char *after, const char *end)
{
    struct span *s = xcalloc(1, sizeof *s);
    s->prefix = xstrndup(prefix, len);
    s->after = xstrdup(after);
    s->end = xstrdup(end);
    return s;
}

void listing_push(struct listing *l, struct span *s)
{
    ACQUIRE(&l->lock);
    s->next = l->spans;
    l->spans = s;
    l->n_spans++;
    cond_signal(&l->work);
}

/* --- batches --------------------------------------------------------------------------------- */

void batch_add(struct batch *b, const struct list_item *item)
{
    struct list_item *kept = &b->items[b->n++];
    *kept = *item;
    kept->key = (const char *)(uintptr_t)b->text.len;
    bytes_add(&b->text, item->key, item->key_len);
    bytes_add_char(&b->text, '\0');
    kept->etag = (const char *)(uintptr_t)b->text.len;
    bytes_add_str(&b->text, item->etag ? item->etag : "");
    bytes_add_char(&b->text, '\0');
}

void batch_seal(struct batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        b->items[i].key = b->text.data + (size_t)(uintptr_t)b->items[i].key;
        b->items[i].etag = b->text.data + (size_t)(uintptr_t)b->items[i].etag;
    }
}

/* Hands the batch over; waits for room. -1: the listing has ended meanwhile. */
static int flush(struct lister *me)
{
    struct listing *l = me->l;
    struct batch *b = take_ptr(&me->batch);
    if (!b)
        return 0;
    batch_seal(b);
    ACQUIRE(&l->lock);
    while (l->n_batches >= BATCHES_MAX && !l->stop)
        cond_wait(&l->room, &l->lock);
    if (l->stop) {
        batch_free(b);
        return -1;
    }
    *l->end = b;
    l->end = &b->next;
    l->n_batches++;
    cond_signal(&l->ready);
    return 0;
}

int lister_emit(struct lister *me, const struct list_item *item)
{
    if (!me->batch)
        me->batch = xcalloc(1, sizeof *me->batch);
    batch_add(me->batch, item);
    return me->batch->n == BATCH_ITEMS ? flush(me) : 0;
}

/* --- one span -------------------------------------------------------------------------------- */

static bool is_tree(const struct listing *l)
{
    return !(l->caps & STORE_FLAT_LIST);
}

static void remember(struct bytes *key, const char *text, size_t len)
{
    bytes_clear(key);
    bytes_add(key, text, len);
}

/* Spans from several places of a folder: the store lists in the order of keys, and from any key. */
static bool lists_from_keys(const struct listing *l)
{
    return (l->caps & STORE_FLAT_LIST) && (l->caps & STORE_WRITES);
}

static void go_below(struct lister *me, struct span *s)
{
    if (!me->level && !lists_from_keys(me->l)) {
        listing_push(me->l, s);
        return;
    }
    s->next = me->below;
    me->below = s;
}

static bool lies_in_level(const struct span *s, const struct list_item *item)
{
    size_t prefix = strlen(s->prefix);
    return item->key_len <= prefix || !memchr(item->key + prefix, '/', item->key_len - prefix);
}

static int on_item(void *arg, const struct list_item *item, struct err *err)
{
    struct lister *me = arg;
    const struct span *s = me->span;
    cleanup_free char *key = xstrndup(item->key, item->key_len);
    me->n_items++;
    if (me->level)
        level_add(me->level, s->prefix, item);
    if (*s->end && strcmp(key, s->end) > 0) {
        me->past_end = true; /* another span's; a page may name folders after files, so go on */
        return 0;
    }
    if (!me->last.len || strcmp(key, me->last.data) > 0)
        remember(&me->last, key, item->key_len);
    if (!me->first.len || strcmp(key, me->first.data) < 0)
        remember(&me->first, key, item->key_len);
    if (s->n_folders && lies_in_level(s, item))
        return 0;
    bool below = item->folder && item->key_len > strlen(s->prefix);
    if (below && s->folders && item->key_len <= PATH_BYTES)
        go_below(me, span_new(key, item->key_len, "", ""));
    if (below && s->folders && !is_tree(me->l))
        return 0; /* a common prefix is no object: its contents speak for it */
    struct list_item kept = *item;
    if (item->folder && !is_tree(me->l))
        kept.mtime_ns = LIST_MTIME_UNKNOWN; /* whether its marker is seen depends on the spans */
    if (head_wanted(me->l, item))
        head_later(me, &kept);
    else if (lister_emit(me, &kept))
        return err_set(err, ERR_CANCELLED, "listing stopped");
    return 0;
}

struct page {
    const struct listing *l;
    const struct span *span;
    const char *token;
};

static int build_page(void *arg, struct http_req *r, struct err *err)
{
    const struct page *p = arg;
    return store_req_list(p->l->store, p->span->prefix, p->span->folders, p->token,
                          *p->token ? "" : p->span->after, r, err);
}

/* Whether pages from several places of a folder are worth their price. MinIO goes through all of a
 * folder anew for each place: 50 000 objects took 1.4 s in one row and 8 s from 16 places. */
static bool may_cut(const struct listing *l)
{
    return !atomic_load_explicit(&l->walks_anew, memory_order_relaxed) &&
           atomic_load_explicit(&l->page_ns, memory_order_relaxed) >= l->fetch->conf.cut_page_ns;
}

/* `goes_on`: where another page had ended. */
static void page_took(struct listing *l, const struct http_answer *a, bool goes_on, uint64_t ns)
{
    if (strcasecmp(a->server, "MinIO") == 0)
        atomic_store_explicit(&l->walks_anew, true, memory_order_relaxed);
    uint64_t least = atomic_load_explicit(&l->page_ns, memory_order_relaxed);
    while (goes_on && ns < least && !atomic_compare_exchange_weak(&l->page_ns, &least, ns))
        ;
}

/* Cuts off what is to come of the span for threads that have nothing to do. */
static void share(struct lister *me)
{
    struct listing *l = me->l;
    struct span *s = me->span;
    struct bytes cuts[THREADS_MAX] = {0};
    size_t room, n;
    {
        ACQUIRE(&l->lock);
        room = l->idle > l->n_spans ? l->idle - l->n_spans : 0;
    }
    n = room ? span_cuts(s, me->first.data, me->last.data, room, cuts) : 0;
    for (size_t i = 0; i < n; i++) {
        const char *end = i + 1 < n ? cuts[i + 1].data : s->end;
        struct span *part = span_new(s->prefix, strlen(s->prefix), cuts[i].data, end);
        part->folders = s->folders;
        /* A cut within a folder leaves no whole ones: such a part stays what is listed flat. */
        part->n_folders = s->folders || !s->n_folders ? s->n_folders : 1;
        listing_push(l, part);
    }
    if (n) {
        free(s->end);
        s->end = bytes_take(&cuts[0]);
    }
    for (size_t i = 0; i < n; i++)
        bytes_release(&cuts[i]);
}

bool listing_is_over(struct listing *l)
{
    ACQUIRE(&l->lock);
    return l->stop;
}

static int list_pages(struct lister *me, struct err *err)
{
    struct listing *l = me->l;
    bool cuts = lists_from_keys(l);
    size_t max = cuts ? PAGE_BODY_MAX : LIST_BODY_MAX;
    cleanup_bytes struct bytes token = {0}, body = {0}, next = {0}, before = {0};
    bytes_add_str(&token, "");
    bytes_add_str(&before, me->span->after);
    unsigned pages = 0;
    do {
        struct page p = {l, me->span, token.len ? token.data : ""};
        struct http_answer a;
        uint64_t asked = clock_mono_ns();
        if (whole_wait(l->fetch, l->store, PRIO_PREFETCH, build_page, &p, max, &a, &body, err))
            return -1;
        page_took(l, &a, token.len, clock_mono_ns() - asked);
        bytes_clear(&next);
        bytes_clear(&me->first);
        bytes_clear(&me->last);
        me->past_end = false;
        const char *unnamed = l->marks && cuts ? NULL : me->span->prefix;
        if (store_parse_list(l->store, unnamed, body.data, body.len, on_item, me, &next, err))
            return -1;
        head_push(me);
        if (cuts) {
            rows_push(me, before.data);
            if (me->last.len)
                remember(&before, me->last.data, me->last.len);
            key_beyond(&before);
        }
        if (page_turn(l->store, &token, &next, err))
            return -1;
        if (cuts && ++pages >= PAGES_UNCUT && token.len && me->last.len && !me->past_end &&
            may_cut(l))
            share(me);
    } while (token.len && !me->past_end && !listing_is_over(l));
    return 0;
}

/* A folder of a web server, which may be a link to one above it. */
static int list_page_of_links(struct lister *me, struct err *err)
{
    struct span *s = me->span, *below;
    me->level = level_new(s->above);
    int rc = list_pages(me, err);
    if (rc == 0 && level_is_circle(me->level))
        rc = err_set(err, ERR_FAILED,
                     "%s%s: it lists the same as folders above it: is there a link that leads "
                     "back? (take it out, or write a manifest.tsv)",
                     store_uri(me->l->store), s->prefix);
    while ((below = me->below)) {
        me->below = below->next;
        below->above = level_ref(me->level);
        if (rc == 0)
            listing_push(me->l, below);
        else
            span_free(below);
    }
    level_unref(take_ptr(&me->level));
    return rc;
}

/*
 * A common prefix that turns out to hold nothing is there for the sake of the object that marks it,
 * which the listing of the folder itself does not name.
 */
static int emit_if_empty(struct lister *me, struct err *err)
{
    const struct span *s = me->span;
    if (is_tree(me->l) || me->n_items || !*s->prefix || *s->after)
        return 0;
    const struct list_item item = {.key = s->prefix,
                                   .key_len = strlen(s->prefix),
                                   .mtime_ns = LIST_MTIME_UNKNOWN,
                                   .etag = "",
                                   .folder = true};
    return lister_emit(me, &item) ? err_set(err, ERR_CANCELLED, "listing stopped") : 0;
}

static int list_span(struct lister *me, struct err *err)
{
    struct listing *l = me->l;
    me->n_items = 0;
    if (me->span->ask)
        return head_span(me, err);
    if (l->caps & STORE_LOCAL) {
        me->span->folders = true;
        return store_local_list(l->store, me->span->prefix, false, on_item, me, err);
    }
    if (is_tree(l) && !(l->caps & STORE_WRITES))
        return list_page_of_links(me, err);
    return list_pages(me, err) ? -1 : emit_if_empty(me, err);
}

/* --- threads --------------------------------------------------------------------------------- */

/* The next span, or NULL when all is listed (nobody works who could add one) or it is over. */
static struct span *next_span(struct listing *l)
{
    ACQUIRE(&l->lock);
    l->idle++;
    while (!l->stop && !l->spans && l->idle < l->n_threads)
        cond_wait(&l->work, &l->lock);
    if (l->stop || !l->spans) {
        cond_broadcast(&l->work);
        return NULL; /* still counted as idle: so the others end too */
    }
    struct span *s = l->spans;
    l->spans = s->next;
    l->n_spans--;
    l->idle--;
    /* Levels are asked for one by one until all have work; a walk has no other way. */
    bool manifest = !is_tree(l) && !(l->caps & STORE_WRITES);
    size_t enough = 2 * (size_t)l->n_threads;
    if (!s->ask && (s->n_folders > enough || (!*s->after && !*s->end)))
        s->folders = is_tree(l) || (!manifest && l->n_spans < enough);
    return s;
}

static void *lister_main(void *arg)
{
    struct listing *l = arg;
    struct lister me = {.l = l};
    struct err err = {0};
    bool failed = false;
    while (!failed && (me.span = next_span(l))) {
        failed = list_span(&me, &err) != 0;
        span_free(me.span);
    }
    if (!failed)
        flush(&me);
    while ((me.span = me.below)) { /* of a page that failed */
        me.below = me.span->next;
        span_free(me.span);
    }
    batch_free(me.batch);
    batch_free(me.ask);
    bytes_release(&me.first);
    bytes_release(&me.last);
    ACQUIRE(&l->lock);
    if (failed && !l->failed && !l->stop) {
        l->failed = true;
        l->err = err;
    }
    l->stop |= failed;
    l->ended++;
    cond_broadcast(&l->work);
    cond_broadcast(&l->room);
    cond_signal(&l->ready);
    return NULL;
}

/* --- the caller's thread --------------------------------------------------------------------- */

/* The next batch; NULL when all threads have ended and nothing is left. */
static struct batch *take_batch(struct listing *l)
{
    ACQUIRE(&l->lock);
    while (!l->first && l->ended < l->n_threads)
        cond_wait(&l->ready, &l->lock);
    struct batch *b = l->first;
    if (!b)
        return NULL;
    l->first = b->next;
    if (!l->first)
        l->end = &l->first;
    l->n_batches--;
    cond_signal(&l->room);
    return b;
}

static void stop(struct listing *l)
{
    ACQUIRE(&l->lock);
    l->stop = true;
    cond_broadcast(&l->work);
    cond_broadcast(&l->room);
}

static int drain(struct listing *l, list_fn *fn, void *arg, _Atomic uint64_t *ret_seen,
                 struct err *err)
{
    struct batch *b;
    int result = 0;
    while ((b = take_batch(l))) {
        for (size_t i = 0; i < b->n && result == 0; i++) {
            result = fn(arg, &b->items[i], err);
            if (result == 0 && ret_seen)
                atomic_fetch_add_explicit(ret_seen, 1, memory_order_relaxed);
        }
        batch_free(b);
        if (result)
            stop(l);
    }
    return result;
}

enum list_more { LIST_PLAIN, LIST_TAGS, LIST_MARKS }; /* see struct listing */

static void listing_init(struct listing *l, struct fetch *f, struct store *s, const char *prefix,
                         unsigned parallel, enum list_more more)
{
    *l = (struct listing){.fetch = f,
                          .store = s,
                          .caps = store_caps(s),
                          .tags = more == LIST_TAGS,
                          .marks = more == LIST_MARKS,
                          .page_ns = UINT64_MAX};
    if (l->tags && (l->caps & STORE_HEADS))
        parallel = THREADS_MAX; /* most of them wait for an answer about one object */
    l->end = &l->first;
    l->n_threads = parallel < 1 ? 1 : parallel < THREADS_MAX ? parallel : THREADS_MAX;
    lock_init(&l->lock, RANK_FETCH_QUEUE, "fetch-list");
    cond_init(&l->work);
    cond_init(&l->ready);
    cond_init(&l->room);
    listing_push(l, span_new(prefix, strlen(prefix), "", ""));
}

static void listing_release(struct listing *l)
{
    while (l->spans) {
        struct span *s = l->spans;
        l->spans = s->next;
        span_free(s);
    }
    cond_destroy(&l->work);
    cond_destroy(&l->ready);
    cond_destroy(&l->room);
    lock_destroy(&l->lock);
}

/* Starts the threads; those that can't be had count as ended. */
static unsigned start(struct listing *l, pthread_t *threads, struct err *err)
{
    unsigned n = 0;
    int e = 0;
    while (n < l->n_threads && (e = thread_start(&threads[n], "fetch-list", lister_main, l)) == 0)
        n++;
    ACQUIRE(&l->lock);
    l->idle += l->n_threads - n;
    l->ended += l->n_threads - n;
    cond_broadcast(&l->work);
    if (n == 0)
        err_thread(err, e, "start a thread that lists");
    return n;
}

static int list_from(struct fetch *f, struct store *s, const char *prefix, unsigned parallel,
                     enum list_more more, list_fn *fn, void *arg, _Atomic uint64_t *ret_seen,
                     struct err *err)
{
    struct listing l;
    pthread_t threads[THREADS_MAX];
    listing_init(&l, f, s, prefix, parallel, more);
    unsigned n = start(&l, threads, err);
    int result = n ? drain(&l, fn, arg, ret_seen, err) : -1;
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    if (result == 0 && l.failed) {
        result = -1;
        if (err)
            *err = l.err;
        err_wrap(err, "list");
    }
    listing_release(&l);
    return result;
}

int fetch_list(struct fetch *f, struct store *s, unsigned parallel, list_fn *fn, void *arg,
               _Atomic uint64_t *ret_seen, struct err *err)
{
    return list_from(f, s, "", parallel, LIST_PLAIN, fn, arg, ret_seen, err);
}

int fetch_list_versions(struct fetch *f, struct store *s, unsigned parallel, list_fn *fn, void *arg,
                        _Atomic uint64_t *ret_seen, struct err *err)
{
    return list_from(f, s, "", parallel, LIST_TAGS, fn, arg, ret_seen, err);
}

int fetch_list_marks(struct fetch *f, struct store *s, unsigned parallel, list_fn *fn, void *arg,
                     struct err *err)
{
    return list_from(f, s, "", parallel, LIST_MARKS, fn, arg, NULL, err);
}

/* Takes the prefix off. */
struct below {
    size_t prefix;
    list_fn *fn;
    void *arg;
};

static int on_below(void *arg, const struct list_item *item, struct err *err)
{
    const struct below *b = arg;
    if (item->key_len <= b->prefix)
        return 0; /* the folder's own marker */
    struct list_item inner = *item;
    inner.key += b->prefix;
    inner.key_len -= b->prefix;
    return b->fn(b->arg, &inner, err);
}

int fetch_list_below(struct fetch *f, struct store *s, const char *prefix, unsigned parallel,
                     list_fn *fn, void *arg, struct err *err)
{
    struct below b = {strlen(prefix), fn, arg};
    struct err e = {0};
    if (list_from(f, s, prefix, parallel, LIST_PLAIN, on_below, &b, NULL, &e) == 0 ||
        e.class == ERR_NOT_FOUND)
        return 0;
    if (err)
        *err = e;
    return -1;
}
