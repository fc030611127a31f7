/* A store's credentials: when they are looked for anew, by one of all who need them; and whether a
 * request carries those of now. */
#include <string.h>

#include "clock.h"
#include "object-internal.h"

/* Before credentials end, by the store's clock: to one that is hours ahead of it new keys would
 * look ended, too, and be looked for anew before each request. */
#define RENEW_EARLY_NS (5 * 60 * NS_PER_S)
#define FORCE_APART_NS (1 * NS_PER_S) /* many requests find a token expired at once: one renews */

static bool needs_creds(const struct store *s)
{
    return !s->creds_conf.anonymous && (s->ops == &s3_ops || s->ops == &bos_ops);
}

/* Lock held. */
static bool refresh_due(const struct store *s, bool force)
{
    if (!s->creds.access_key)
        return true;
    if (force && clock_mono_ns() - s->refreshed_ns >= FORCE_APART_NS)
        return true;
    return (s->creds.expire_ns != UINT64_MAX &&
            (uint64_t)store_now_ns(s) + RENEW_EARLY_NS >= s->creds.expire_ns) ||
           creds_files_changed(&s->creds);
}

int store_creds_refresh(struct store *s, bool force, struct err *err)
{
    if (!needs_creds(s))
        return 0;
    lock_take(&s->lock);
    while (s->refreshing) /* somebody is asking already: their answer will do */
        cond_wait(&s->refreshed, &s->lock);
    if (!refresh_due(s, force)) {
        lock_drop(&s->lock);
        return 0;
    }
    s->refreshing = true;
    lock_drop(&s->lock);

    struct creds found = {0};
    struct err why = {0};
    int result = creds_find(&found, &s->creds_conf, &why);

    lock_take(&s->lock);
    if (result == 0) {
        struct creds old = s->creds;
        s->creds = found;
        found = old;
        explicit_bzero(&s->key, sizeof s->key);
        s->refreshed_ns = clock_mono_ns();
    }
    /* Renewing early may fail as long as what we have is still good. */
    bool still_good =
        s->creds.access_key && !force && s->creds.expire_ns > (uint64_t)store_now_ns(s);
    s->refreshing = false;
    cond_broadcast(&s->refreshed);
    lock_drop(&s->lock);
    creds_release(&found);
    if (result && !still_good) {
        if (err)
            *err = why;
        return -1;
    }
    return 0;
}

uint64_t store_creds_expire_ns(const struct store *s)
{
    if (!needs_creds(s))
        return UINT64_MAX;
    struct lock *lock = (struct lock *)&s->lock;
    ACQUIRE(lock);
    return s->creds.access_key ? s->creds.expire_ns : 0;
}

/* Whether the request carries the key: "Credential=KEY/" (S3), "bce-auth-v1/KEY/" (BOS). */
static bool is_signed_with(const struct http_req *r, const char *key)
{
    const char *text = http_header_get(r, "Authorization");
    const char *at = text ? strpbrk(text, "=/") : NULL;
    size_t len = strlen(key);
    return at && strncmp(at + 1, key, len) == 0 && at[1 + len] == '/';
}

bool creds_changed_since(struct store *s, const struct http_req *r)
{
    ACQUIRE(&s->lock);
    return s->creds.access_key &&
           (!is_signed_with(r, s->creds.access_key) || creds_files_changed(&s->creds));
}
