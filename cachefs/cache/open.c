/* Opening, flushing and closing a cache. */
#include "cache-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hash.h"

#define FILLS_DEFAULT 512u

/* The folder is ours as long as the file `lock` in it is locked; it names the process for others.
 */
static int take_lock(struct cache *c, struct err *err)
{
    char pid[32] = "";
    cleanup_free char *path = xasprintf("%s/lock", c->dir);
    c->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (c->lock_fd < 0)
        return err_sys(err, errno, "cache: open %s", path);
    if (flock(c->lock_fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK)
            return err_sys(err, errno, "cache: lock %s", path);
        ssize_t n = pread(c->lock_fd, pid, sizeof pid - 1, 0);
        pid[n > 0 ? strspn(pid, "0123456789") : 0] = '\0';
        err_set(err, ERR_LIMIT,
                "cache: %s is in use by process %s (unmount that mount, or give this "
                "one another folder)",
                c->dir, pid[0] ? pid : "?");
        if (err)
            err->sys = EBUSY;
        return -1;
    }
    int n = snprintf(pid, sizeof pid, "%d\n", (int)getpid());
    if (ftruncate(c->lock_fd, 0) || pwrite(c->lock_fd, pid, (size_t)n, 0) != n)
        return err_sys(err, errno ? errno : ENOSPC, "cache: write %s", path);
    return 0;
}

static int own_folder(struct cache *c, const char *dir, struct err *err)
{
    if (mkdir(dir, 0700) && errno != EEXIST)
        return err_sys(err, errno, "cache: make the folder %s", dir);
    c->dir = realpath(dir, NULL);
    if (!c->dir)
        return err_sys(err, errno, "cache: look at the folder %s", dir);
    return take_lock(c, err);
}

static struct tier *tier_new(struct cache *c, int place)
{
    struct tier *t = xcalloc(1, sizeof *t);
    atomic_init(&t->left, true); /* who made room last may have ended before all was gone */
    t->c = c;
    t->place = place;
    t->dir_fd = t->marker_fd = t->view_fd = -1;
    t->queue_tail = &t->queue;
    lock_init(&t->lock, RANK_CACHE_TIER, "cache tier");
    cond_init(&t->wake);
    cond_init(&t->ended);
    return t;
}

static int open_tiers(struct cache *c, const struct cache_conf *conf, struct err *err)
{
    if (conf->n_tiers == 0 || conf->n_tiers > CACHE_MAX_TIERS)
        return err_set(err, ERR_USAGE, "cache: %zu tiers: want 1 to %d", conf->n_tiers,
                       CACHE_MAX_TIERS);
    for (size_t i = 0; i < conf->n_tiers; i++) {
        struct tier *t = c->tiers[i] = tier_new(c, (int)i);
        if (tier_open(t, &conf->tiers[i], err))
            return -1;
        for (size_t k = 0; k < i; k++)
            if (folder_contains(t->dir, c->tiers[k]->dir) ||
                folder_contains(c->tiers[k]->dir, t->dir))
                return err_set(err, ERR_USAGE,
                               "cache: tiers %s and %s lie in one another (give each "
                               "a folder of its own)",
                               c->tiers[k]->dir, t->dir);
        if (tier_find_packs(t, err))
            return -1;
        if (!c->index.tier && folder_contains(t->dir, c->dir))
            c->index.tier = t;
    }
    return 0;
}

static int start(struct cache *c, struct err *err)
{
    for (size_t i = 0; i < c->conf.n_tiers; i++) {
        struct tier *t = c->tiers[i];
        tier_look(t);
        t->poked = true; /* the limit may be lower than it was */
        if (writer_start(t, err))
            return -1;
    }
    return 0;
}

static struct cache *cache_alloc(const struct cache_conf *conf)
{
    struct cache *c = xcalloc(1, sizeof *c);
    c->conf = *conf;
    c->counts = conf->counts ? conf->counts : &c->own_counts;
    c->conf.set_id = c->set_id = xstrdup(conf->set_id ? conf->set_id : "");
    c->conf.dir = NULL;
    c->set_hash = hash64(c->set_id, strlen(c->set_id), 0);
    c->lock_fd = c->index.fd = -1;
    c->stripes = aligned_alloc(64, STRIPES * sizeof *c->stripes);
    if (!c->stripes)
        mem_exhausted();
    for (size_t i = 0; i < STRIPES; i++) {
        c->stripes[i].fills = NULL;
        lock_init(&c->stripes[i].lock, RANK_CACHE_FILL, "cache stripe");
    }
    c->index.stripes = c->stripes;
    lock_init(&c->trial.lock, RANK_CACHE_TIER, "cache trial");
    slots_init(c, conf->fills_max ? conf->fills_max : FILLS_DEFAULT);
    lock_init(&c->served_lock, RANK_CACHE_TIER, "cache served");
    passing_init(c);
    leases_init(c);
    settle_init(c);
    cache_tick(c);
    c->behind_above = behind_measure();
    return c;
}

static void cache_free(struct cache *c, bool clean)
{
    for (size_t i = 0; i < CACHE_MAX_TIERS && c->tiers[i]; i++)
        writer_stop(c->tiers[i]);
    leases_destroy(c);
    if (c->index.path) {
        if (clean)
            c->index.head.verdict = atomic_load(&c->trial.verdict);
        index_close(&c->index, clean);
    }
    for (size_t i = 0; i < CACHE_MAX_TIERS && c->tiers[i]; i++)
        tier_close(c->tiers[i]);
    passing_destroy(c);
    guests_end(c);
    catalog_unref(c->served);
    lock_destroy(&c->served_lock);
    slots_destroy(c);
    settle_destroy(c);
    lock_destroy(&c->trial.lock);
    for (size_t i = 0; i < STRIPES; i++)
        lock_destroy(&c->stripes[i].lock);
    free(c->stripes);
    if (c->lock_fd >= 0)
        close(c->lock_fd);
    free(c->set_id);
    free(c->dir);
    free(c);
}

int cache_open(struct cache **ret, const struct cache_conf *conf, struct err *err)
{
    bool usable;
    struct cache *c = cache_alloc(conf);
    guard_install();
    if (own_folder(c, conf->dir, err) || index_open(&c->index, c->dir, c->set_hash, &usable, err) ||
        open_tiers(c, conf, err) || recover(c, usable, err) || start(c, err)) {
        cache_free(c, false);
        return -1;
    }
    *ret = c;
    return 0;
}

void cache_close(struct source *s)
{
    struct cache *c = (struct cache *)(void *)s;
    slots_drain(c);
    cache_free(c, true);
}

/* --- flushing -------------------------------------------------------------------------------- */

static int sync_file(struct tier *t, uint32_t number, const char *suffix, struct err *err)
{
    char name[32];
    pack_name(name, number, suffix);
    cleanup_close int fd = openat(t->dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "open %s/%s", t->dir, name);
    return fdatasync(fd) ? err_sys(err, errno, "sync %s/%s", t->dir, name) : 0;
}

/* The last pack below number *pack that was appended to since it was last on the disk; false: none.
 * From the last to the first: a writer that appends all the while keeps nobody here. */
static bool next_unsynced(struct tier *t, uint32_t *pack, uint64_t *ret_appends)
{
    const struct pack *found = NULL;
    ACQUIRE(&t->lock);
    for (const struct pack *p = t->packs; p; p = p->next)
        if (p->synced < p->appends && p->number < *pack && (!found || p->number > found->number))
            found = p;
    if (found) {
        *pack = found->number;
        *ret_appends = found->appends;
    }
    return found;
}

/* Noted once it has succeeded: what failed, or is under way for somebody else, is done again. */
static int sync_pack(struct tier *t, uint32_t number, uint64_t appends, struct err *err)
{
    if (sync_file(t, number, "pack", err) || sync_file(t, number, "idx", err))
        return -1;
    /* New packs, and the marker, must have their names on the disk too. */
    if (fsync(t->dir_fd))
        return err_sys(err, errno, "sync %s", t->dir);
    struct pack *p = tier_pack(t, number);
    ACQUIRE(&t->lock);
    if (p && p->synced < appends)
        p->synced = appends;
    return 0;
}

static void drain_tier(struct tier *t)
{
    ACQUIRE(&t->lock);
    uint64_t asked = t->queued;
    while (t->done < asked)
        cond_wait(&t->ended, &t->lock);
}

void cache_drain(struct cache *c)
{
    for (size_t i = 0; i < c->conf.n_tiers; i++)
        drain_tier(c->tiers[i]);
}

static int flush_tier(struct tier *t, struct err *err)
{
    drain_tier(t);
    uint32_t number = UINT32_MAX;
    uint64_t appends;
    while (next_unsynced(t, &number, &appends))
        if (sync_pack(t, number, appends, err))
            return -1;
    return 0;
}

int cache_flush(struct cache *c, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < c->conf.n_tiers; i++)
        if (flush_tier(c->tiers[i], rc ? NULL : err))
            rc = -1;
    return rc ? err_wrap(err, "cache") : 0;
}
