/* What to do with a key, from what is seen of it on both sides. Pure. */
#include <string.h>

#include "clock.h"
#include "hash.h"
#include "transfer.h"

uint32_t sync_share(const char *key, size_t len, uint32_t n)
{
    return (uint32_t)(hash_mix64(hash64(key, len, 0)) % n);
}

static int64_t seconds(int64_t ns)
{
    int64_t s = ns / (int64_t)NS_PER_S;
    return ns % (int64_t)NS_PER_S < 0 ? s - 1 : s;
}

/* Stores keep times of different grain: whole seconds are compared. 0 also if one is unknown. */
static int newer(const struct sync_seen *a, const struct sync_seen *b)
{
    if (a->mtime_ns == LIST_MTIME_UNKNOWN || b->mtime_ns == LIST_MTIME_UNKNOWN)
        return 0;
    int64_t x = seconds(a->mtime_ns), y = seconds(b->mtime_ns);
    return x > y ? 1 : x < y ? -1 : 0;
}

static bool same_etag(const struct sync_seen *a, const struct sync_seen *b)
{
    return *a->etag && strcmp(a->etag, b->etag) == 0;
}

static enum sync_act decide_both(const struct sync_conf *c, const struct sync_seen *source,
                                 const struct sync_seen *destination)
{
    if (source->kind == SYNC_FOLDER || c->ignore_existing)
        return SYNC_SKIP;
    bool link = source->kind == SYNC_LINK || destination->kind == SYNC_LINK;
    bool folder = destination->kind == SYNC_FOLDER;
    /* A bucket's listing shows links as objects: they have the length of their target. */
    bool other = source->kind != destination->kind &&
                 (folder || !c->links || source->size != destination->size);
    if (c->force_update || other)
        return SYNC_COPY;
    if (link)
        return SYNC_COMPARE;
    int age = c->update ? newer(source, destination) : 0;
    if (age)
        return age > 0 ? SYNC_COPY : SYNC_SKIP;
    if (source->size != destination->size)
        return SYNC_COPY;
    if (c->check_all)
        return SYNC_COMPARE;
    /* Of one size is enough to leave it alone, not to delete where it came from. */
    if (!c->delete_src)
        return SYNC_SKIP;
    return same_etag(source, destination) ? SYNC_DELETE_SRC : SYNC_COMPARE;
}

enum sync_act sync_decide(const struct sync_conf *c, const struct sync_seen *source,
                          const struct sync_seen *destination)
{
    if (!source->there)
        return c->delete_dst ? SYNC_DELETE : SYNC_EXTRA;
    if (!destination->there)
        return c->existing ? SYNC_SKIP : SYNC_COPY;
    return decide_both(c, source, destination);
}
