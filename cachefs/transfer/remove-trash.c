/* The trash: what its folders are called, and when they go. By the store's clock: a machine whose
 * own is a day off would take what others threw away just now for old, or name what it throws away
 * itself so that others do. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "hash.h"
#include "remove-internal.h"

#define KEPT_S        86400
#define SORT_MEMORY   (4u << 20)
#define LIST_PARALLEL 8

bool store_renames(const struct store *s)
{
    return store_caps(s) & (STORE_LOCAL | STORE_APPENDS);
}

static int64_t now_s(const struct removal *r)
{
    return store_now_ns(r->parent) / (int64_t)NS_PER_S;
}

char *trash_folder(const struct removal *r)
{
    time_t now = (time_t)now_s(r);
    struct tm tm;
    char text[32];
    gmtime_r(&now, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H%M%SZ", &tm);
    return xasprintf(STORE_TRASH "%s-%04x/", text,
                     (unsigned)(hash_mix64(clock_mono_ns() ^ (uint64_t)getpid()) & 0xffff));
}

bool remove_is_expired(const char *name, int64_t now_s)
{
    struct tm tm = {0};
    int used = 0;
    if (sscanf(name, "%4d-%2d-%2dT%2d%2d%2dZ-%*4x%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
               &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &used) != 6 ||
        used != 23 || name[used])
        return false; /* not ours */
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    time_t then = timegm(&tm);
    return then > 0 && now_s - (int64_t)then > KEPT_S;
}

struct expiring {
    struct removal *r;
    const struct remove_watch *watch;
    const struct remove_counts *counts; /* of the removal that this goes before */
    struct sorter *keys;
    struct names folders;
    uint64_t n, told_ns;
};

static int take(struct expiring *x, const char *key, bool folder, struct err *err)
{
    static const uint64_t no_size = 0;
    if (remove_told_to_stop(x->watch, x->counts, &x->told_ns))
        return err_set(err, ERR_CANCELLED, "interrupted");
    cleanup_free char *first = xstrndup(key, strcspn(key, "/"));
    if (!remove_is_expired(first, now_s(x->r)))
        return 0;
    cleanup_free char *full = xasprintf(STORE_TRASH "%s", key);
    x->n += !folder;
    if (!folder)
        return sorter_add(x->keys, full, strlen(full), &no_size, sizeof no_size, err);
    names_add(&x->folders, full);
    return 0;
}

static int on_item(void *arg, const struct list_item *item, struct err *err)
{
    struct expiring *x = arg;
    cleanup_free char *key = xstrndup(item->key, item->key_len);
    return take(x, key, item->folder && !(store_caps(x->r->parent) & STORE_FLAT_LIST), err);
}

static int on_local(void *arg, const char *key, const struct stat *st, struct err *err)
{
    return take(arg, key + strlen(STORE_TRASH), S_ISDIR(st->st_mode), err);
}

static void on_progress(void *arg, const struct remove_counts *so_far)
{
    struct expiring *x = arg;
    (void)so_far;
    remove_told_to_stop(x->watch, x->counts, &x->told_ns);
}

static bool told_to_stop(void *arg)
{
    const struct expiring *x = arg;
    return remove_is_over(x->watch);
}

/* Best effort: what stays is tried again by the next removal. */
void trash_expire(struct removal *r, const struct remove_watch *watch, struct remove_counts *counts)
{
    const char *tmp = secure_getenv("TMPDIR");
    struct expiring x = {
        .r = r,
        .watch = watch,
        .counts = counts,
        .keys = sorter_new(tmp && *tmp ? tmp : "/tmp", SORT_MEMORY),
    };
    struct remove_counts done = {0};
    const struct remove_watch quiet = {.progress = on_progress, .arg = &x, .told = told_to_stop};
    int result =
        store_caps(r->parent) & STORE_LOCAL
            ? store_local_walk(r->parent, STORE_TRASH, on_local, &x, NULL)
            : fetch_list_below(r->fetch, r->parent, STORE_TRASH, LIST_PARALLEL, on_item, &x, NULL);
    if (result == 0 && (x.n || x.folders.n))
        remove_keys(r, x.keys, &x.folders, "", &quiet, &done, NULL);
    counts->expired = done.removed;
    names_release(&x.folders);
    sorter_free(x.keys);
}
