/* How two stores lie to each other: one server, one inside the other, or apart; and which keys are
 * the trash. */
#include <string.h>

#include "mem.h"
#include "object-internal.h"

/* What a request to the store is sent to and signed with, without the bucket. */
struct place {
    char *base, *region, *key;
};

static void place_release(struct place *p)
{
    free(p->base);
    free(p->region);
    free(p->key);
}

/* "https://bucket.host" -> "https://host" */
static char *without_bucket(const char *base, const char *bucket)
{
    const char *host = strstr(base, "://");
    size_t len = strlen(bucket);
    host = host ? host + 3 : base;
    if (strncmp(host, bucket, len) != 0 || host[len] != '.')
        return xstrdup(base);
    return xasprintf("%.*s%s", (int)(host - base), base, host + len + 1);
}

static struct place place_of(const struct store *s)
{
    struct lock *lock = (struct lock *)&s->lock;
    ACQUIRE(lock);
    const char *base = s->endpoint.base ? s->endpoint.base : "";
    const char *key = s->creds.access_key;
    return (struct place){
        .base = s->bucket ? without_bucket(base, s->bucket) : xstrdup(base),
        .region = xstrdup(s->endpoint.region ? s->endpoint.region : ""),
        .key = xstrdup(key ? key : ""),
    };
}

bool stores_of_a_kind(const struct store *a, const struct store *b)
{
    return a->ops == b->ops;
}

bool stores_share_server(const struct store *to, const struct store *from)
{
    if (to->ops != from->ops || !(to->ops->caps & STORE_COPY) || !to->ops->copy_from)
        return false;
    CLEANUP(place_release) struct place a = place_of(to);
    CLEANUP(place_release) struct place b = place_of(from);
    return strcmp(a.base, b.base) == 0 && strcmp(a.region, b.region) == 0 &&
           strcmp(a.key, b.key) == 0 && to->creds_conf.anonymous == from->creds_conf.anonymous;
}

/* A local folder by its real name; what is not there yet keeps its own below what is. */
static char *real_dir(const char *dir)
{
    cleanup_free char *head = xstrdup(dir);
    for (;;) {
        cleanup_free char *real = realpath(*head ? head : "/", NULL);
        if (real)
            return xasprintf("%s%s", strcmp(real, "/") == 0 ? "" : real, dir + strlen(head));
        char *slash = strrchr(head, '/');
        if (!slash)
            return xstrdup(dir);
        *slash = '\0';
    }
}

static enum store_relation relation(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    while (n && a[n - 1] == '/')
        n--;
    while (m && b[m - 1] == '/')
        m--;
    if (n == m && memcmp(a, b, n) == 0)
        return STORES_SAME;
    if (n < m && memcmp(a, b, n) == 0 && (n == 0 || b[n] == '/'))
        return STORE_HOLDS_OTHER;
    if (m < n && memcmp(a, b, m) == 0 && (m == 0 || a[m] == '/'))
        return STORE_IN_OTHER;
    return STORES_APART;
}

enum store_relation stores_relation(const struct store *a, const struct store *b)
{
    if (a->ops != b->ops)
        return STORES_APART;
    if (a->dir) {
        cleanup_free char *x = real_dir(a->dir);
        cleanup_free char *y = real_dir(b->dir);
        return relation(x, y);
    }
    CLEANUP(place_release) struct place p = place_of(a);
    CLEANUP(place_release) struct place q = place_of(b);
    if (strcmp(p.base, q.base) != 0 || !a->bucket != !b->bucket ||
        (a->bucket && strcmp(a->bucket, b->bucket) != 0))
        return STORES_APART;
    return relation(a->prefix ? a->prefix : "", b->prefix ? b->prefix : "");
}

bool store_is_trash(const char *key)
{
    static const char trash[] = STORE_TRASH;
    const char *at = strstr(key, trash);
    while (at && at != key && at[-1] != '/')
        at = strstr(at + 1, trash);
    return at != NULL;
}

bool store_is_output(const char *key)
{
    size_t len = strlen(STORE_OUTPUT);
    return strncmp(key, STORE_OUTPUT, len) == 0 && (key[len] == '/' || key[len] == '\0');
}
