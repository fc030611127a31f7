/*
 * What a listing does not say is asked of the objects themselves: an index page gives no ETag and
 * may round sizes, a manifest's sum says nothing of a large object's blocks. Without it an object
 * that is replaced by one of the same size could not be told from the one that was listed, and the
 * blocks of a large one could be mixed. A server that answers no HEAD is believed what it listed.
 * A page may name what is not there, as a link of the server's folder that leads nowhere: the
 * others are still the set.
 */
#include <string.h>

#include "do-internal.h"
#include "list-internal.h"
#include "mem.h"
#include "source.h"

#define ASKED_TOGETHER 64 /* the share of one thread */

bool head_wanted(struct listing *l, const struct list_item *item)
{
    if (item->folder || !(l->caps & STORE_HEADS))
        return false;
    if (item->size == LIST_SIZE_UNKNOWN)
        return true;
    if (!l->tags || atomic_load_explicit(&l->deaf, memory_order_relaxed))
        return false;
    bool manifest = l->caps & STORE_FLAT_LIST;
    return manifest ? item->size > UNIT_BYTES : !*item->etag;
}

void head_later(struct lister *me, const struct list_item *item)
{
    if (!me->ask)
        me->ask = xcalloc(1, sizeof *me->ask);
    batch_add(me->ask, item);
    if (me->ask->n == ASKED_TOGETHER)
        head_push(me);
}

void head_push(struct lister *me)
{
    if (!me->ask)
        return;
    struct span *s = xcalloc(1, sizeof *s);
    s->ask = take_ptr(&me->ask);
    batch_seal(s->ask);
    listing_push(me->l, s);
}

/* Of an object whose size is known a refusal is no failure: reading it will tell. */
static bool may_go_on(struct listing *l, const struct list_item *item, const struct err *why)
{
    if (item->size == LIST_SIZE_UNKNOWN || why->class == ERR_TRANSIENT ||
        why->class == ERR_CANCELLED)
        return false;
    if (why->class != ERR_NOT_FOUND && why->class != ERR_DENIED)
        atomic_store_explicit(&l->deaf, true, memory_order_relaxed);
    return true;
}

struct first_byte {
    struct store *store;
    const char *key;
};

static int build_first_byte(void *arg, struct http_req *r, struct err *err)
{
    const struct first_byte *b = arg;
    return store_req_get(b->store, b->key, strlen(b->key), 0, 1, r, err);
}

/* Some servers leave the length out of a HEAD (Apache, of an empty file): what comes with the first
 * byte tells it. */
static int length_by_get(struct listing *l, const char *key, int64_t *ret, struct err *err)
{
    struct first_byte b = {l->store, key};
    struct http_answer a;
    struct err why = {0};
    http_answer_init(&a);
    int result = whole_wait(l->fetch, l->store, PRIO_PREFETCH, build_first_byte, &b, SMALL_BODY, &a,
                            NULL, &why);
    *ret = a.status == 200 ? a.content_length : a.range_total;
    bool told = *ret >= 0 && (result == 0 || a.status == 416);
    return told ? 0
                : err_set(err, ERR_FAILED,
                          "%s: the server gives \"%s\" no length (use a manifest.tsv)",
                          store_uri(l->store), key);
}

/* Only what describes this very version is taken over; a manifest's size and time stand. */
static int ask(struct listing *l, struct list_item *item, char etag[160], struct err *err)
{
    struct http_answer a;
    struct err why = {0};
    if (head_wait(l->fetch, l->store, PRIO_PREFETCH, item->key, &a, &why)) {
        if (may_go_on(l, item, &why))
            return 0;
        if (why.class == ERR_NOT_FOUND) {
            item->dangling = true;
            return 0;
        }
        if (err)
            *err = why;
        return -1;
    }
    if (a.content_length < 0 && item->size == LIST_SIZE_UNKNOWN &&
        length_by_get(l, item->key, &a.content_length, err))
        return -1;
    store_etag_add(etag, &a);
    if (l->caps & STORE_FLAT_LIST)
        return 0;
    if (a.content_length >= 0)
        item->size = (uint64_t)a.content_length;
    if (a.last_modified >= 0)
        item->mtime_ns = a.last_modified * 1000000000ll;
    return 0;
}

int head_span(struct lister *me, struct err *err)
{
    const struct batch *b = me->span->ask;
    for (size_t i = 0; i < b->n && !listing_is_over(me->l); i++) {
        struct list_item item = b->items[i];
        char etag[160];
        snprintf(etag, sizeof etag, "%s", item.etag);
        item.etag = etag;
        if (!atomic_load_explicit(&me->l->deaf, memory_order_relaxed) ||
            item.size == LIST_SIZE_UNKNOWN)
            if (ask(me->l, &item, etag, err))
                return -1;
        if (lister_emit(me, &item))
            return err_set(err, ERR_CANCELLED, "listing stopped");
    }
    return 0;
}
