/*
 * Tiers: which one takes a unit, and the account of bytes that makes their limits exact.
 *
 * Invariant, whenever the tier's lock is free: used + reserved + foreign <= limit, unless the limit
 * was lowered or others wrote into the folder; then reservations are refused until upkeep made
 * room.
 *
 *   used       sizes of our packs and journals, unlinked ones included until their last view is
 *              gone, and of the index where it lies in this folder
 *   reserved   what the units on their way to the writer may cost at most
 *   foreign    everything else below the folder, looked at once a second while bytes arrive
 */
#include "cache-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "clock.h"
#include "conf.h"
#include "dir.h"

#define PACK_BYTES     (64ull << 20)
#define PACK_BYTES_BIG (256ull << 20)
#define BIG_TIER       (64ull << 30)
#define NEW_PACK_COST  (sizeof(struct pack_head) + sizeof(struct journal_record))
#define DIR_SLACK      4096u /* a folder may grow by a block between two looks at it */

static const char *const kind_names[] = {"mem", "ssd", "hdd"};

const char *tier_kind_name(enum tier_kind k)
{
    return kind_names[k];
}

static int kind_parse(const char *text, size_t len, enum tier_kind *ret)
{
    for (size_t i = 0; i < sizeof kind_names / sizeof kind_names[0]; i++)
        if (strlen(kind_names[i]) == len && memcmp(kind_names[i], text, len) == 0) {
            *ret = (enum tier_kind)i;
            return 0;
        }
    return -1;
}

/* "ssd:/a=1GiB,hdd:/b=1TiB" would be one strange folder. */
static bool holds_another(const char *dir, const char *end)
{
    enum tier_kind kind;
    for (const char *p = dir; (p = memchr(p, ',', (size_t)(end - p))); p++) {
        const char *colon = memchr(p, ':', (size_t)(end - p));
        if (colon && kind_parse(p + 1, (size_t)(colon - p) - 1, &kind) == 0)
            return true;
    }
    return false;
}

int tier_conf_parse(struct tier_conf *ret, const char *text, struct err *err)
{
    const char *colon = strchr(text, ':'), *equals = strrchr(text, '=');
    struct tier_conf out = {0};
    if (!colon || !equals || equals <= colon + 1)
        return err_set(err, ERR_USAGE,
                       "cache tier \"%s\": want TIER:DIR=SIZE, for example "
                       "ssd:/var/cache/sampan=100GiB",
                       text);
    if (kind_parse(text, (size_t)(colon - text), &out.kind))
        return err_set(err, ERR_USAGE, "cache tier \"%s\": unknown kind \"%.*s\" (mem, ssd or hdd)",
                       text, (int)(colon - text), text);
    if (holds_another(colon + 1, equals))
        return err_set(err, ERR_USAGE, "cache tier \"%s\": more than one (give one each time)",
                       text);
    if (conf_size(equals + 1, &out.limit, err))
        return err_wrap(err, "cache tier \"%s\"", text);
    out.dir = xstrndup(colon + 1, (size_t)(equals - colon - 1));
    *ret = out;
    return 0;
}

/* --- opening --------------------------------------------------------------------------------- */

static int make_folder(const char *dir, struct err *err)
{
    cleanup_free char *path = xstrdup(dir);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0755) && errno != EEXIST)
            return err_sys(err, errno, "cache: make the folder %s", path);
        *slash = '/';
    }
    if (mkdir(path, 0700) && errno != EEXIST)
        return err_sys(err, errno, "cache: make the folder %s", path);
    return 0;
}

/* A sixteenth of the tier at most, because a full tier may have to give up a whole pack; but a pack
 * must hold any record. */
static uint64_t pack_bytes_for(uint64_t limit)
{
    uint64_t least = UNIT_BYTES + 65536, most = limit > BIG_TIER ? PACK_BYTES_BIG : PACK_BYTES;
    uint64_t share = limit / 16 / 4096 * 4096;
    return share < least ? least : share < most ? share : most;
}

int tier_open(struct tier *t, const struct tier_conf *conf, struct err *err)
{
    if (make_folder(conf->dir, err))
        return -1;
    t->dir = realpath(conf->dir, NULL);
    if (!t->dir)
        return err_sys(err, errno, "cache: look at the folder %s", conf->dir);
    t->dir_fd = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->dir_fd < 0)
        return err_sys(err, errno, "cache: open the folder %s", t->dir);
    if (faccessat(t->dir_fd, ".", W_OK, AT_EACCESS))
        return err_sys(err, errno, "cache: %s can't be written (give a folder that can)", t->dir);
    health_begin(&t->health, t->dir_fd);
    t->view_fd = cache_read_only_view(t->dir_fd);
    t->kind = conf->kind;
    t->limit = conf->limit;
    t->pack_max = pack_bytes_for(conf->limit);
    /* A folder around the owner's one is not empty, and was chosen by whoever chose that. */
    bool same = strcmp(t->dir, t->c->dir) == 0;
    if ((same || !folder_contains(t->dir, t->c->dir)) &&
        cache_folder_check(t->dir, t->dir_fd, same, err))
        return -1;
    return folder_claim(t->dir, t->dir_fd, t->c->set_id, t->id, &t->marker_fd, err);
}

static struct pack *found_pack(struct tier *t, uint32_t number, uint64_t size)
{
    char name[32];
    struct stat st;
    struct pack *p = pack_new(t, number);
    p->appends = 1; /* an earlier run may have been killed, or did not ask */
    atomic_store(&p->size, size);
    if (p->map_len < size)
        p->map_len = size;
    pack_name(name, number, "idx");
    if (fstatat(t->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        atomic_store(&p->journal_size, (uint64_t)st.st_size);
    return p;
}

/* The number of "NNNNNNNN.suffix"; false for any other name. */
static bool own_number(const char *name, const char *suffix, uint32_t *ret)
{
    char again[32];
    unsigned long n = strtoul(name, NULL, 10);
    if (n >= (unsigned long)PACK_LEAF * PACK_LEAVES)
        return false;
    pack_name(again, (uint32_t)n, suffix);
    *ret = (uint32_t)n;
    return strcmp(again, name) == 0;
}

int tier_find_packs(struct tier *t, struct err *err)
{
    cleanup_dir DIR *d = dir_open(t->dir_fd, ".", 0);
    if (!d)
        return err_sys(err, errno, "cache: list %s", t->dir);
    for (const struct dirent *e; (e = dir_next(d));) {
        uint32_t number;
        struct stat st;
        char name[32];
        if (own_number(e->d_name, "idx", &number)) {
            /* A journal without its pack is of no use to anybody. */
            pack_name(name, number, "pack");
            if (faccessat(t->dir_fd, name, F_OK, 0))
                unlinkat(t->dir_fd, e->d_name, 0);
            continue;
        }
        if (!own_number(e->d_name, "pack", &number) ||
            fstatat(t->dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
            continue;
        if (number >= t->next_pack)
            t->next_pack = number + 1;
        if (st.st_size < (off_t)sizeof(struct pack_head)) { /* its maker was killed */
            pack_unlink(t, number);
            continue;
        }
        struct pack *p = found_pack(t, number, (uint64_t)st.st_size);
        t->used += atomic_load(&p->size) + atomic_load(&p->journal_size);
        tier_add_pack(t, p);
    }
    return 0;
}

void tier_close(struct tier *t)
{
    for (struct pack *p = t->packs; p; p = p->next)
        pack_unref(p);
    for (struct pack *p = t->made, *next; p; p = next) {
        next = p->next_made;
        assert(atomic_load(&p->refs) == 0); /* else a view outlived the cache */
        free(p);
    }
    for (size_t i = 0; i < PACK_LEAVES; i++)
        free(atomic_load(&t->leaves[i]));
    if (t->marker_fd >= 0)
        close(t->marker_fd);
    if (t->dir_fd >= 0)
        close(t->dir_fd);
    if (t->view_fd >= 0)
        close(t->view_fd);
    free(t->scratch);
    free(t->dir);
    cond_destroy(&t->wake);
    cond_destroy(&t->ended);
    lock_destroy(&t->lock);
    free(t);
}

/* --- packs by number ------------------------------------------------------------------------- */

struct pack *tier_pack(const struct tier *t, uint32_t number)
{
    if (number >= PACK_LEAF * PACK_LEAVES)
        return NULL;
    _Atomic(struct pack *) *leaf =
        atomic_load_explicit(&t->leaves[number / PACK_LEAF], memory_order_acquire);
    return leaf ? atomic_load_explicit(&leaf[number % PACK_LEAF], memory_order_acquire) : NULL;
}

int tier_add_pack(struct tier *t, struct pack *p)
{
    if (p->number >= PACK_LEAF * PACK_LEAVES)
        return -1;
    ACQUIRE(&t->lock);
    _Atomic(struct pack *) *leaf = atomic_load(&t->leaves[p->number / PACK_LEAF]);
    if (!leaf) {
        leaf = xcalloc(PACK_LEAF, sizeof *leaf);
        atomic_store_explicit(&t->leaves[p->number / PACK_LEAF], leaf, memory_order_release);
    }
    p->next = t->packs;
    t->packs = p;
    p->next_made = t->made;
    t->made = p;
    atomic_store_explicit(&leaf[p->number % PACK_LEAF], p, memory_order_release);
    return 0;
}

/* --- the account ----------------------------------------------------------------------------- */

uint64_t reservation(uint32_t raw, uint32_t paged)
{
    return record_most(paged, raw, raw) + sizeof(struct journal_record) + NEW_PACK_COST;
}

uint64_t tier_free_bytes(const struct tier *t)
{
    struct statvfs fs;
    if (fstatvfs(t->dir_fd, &fs))
        return 0;
    return (uint64_t)fs.f_bavail * fs.f_frsize;
}

/* Lock held. What is promised but not written yet will be taken from the disk too. */
static uint64_t disk_room(const struct tier *t)
{
    const struct cache_conf *conf = &t->c->conf;
    struct statvfs fs;
    if (conf->free_fraction <= 0 && conf->free_bytes == 0)
        return UINT64_MAX;
    if (fstatvfs(t->dir_fd, &fs))
        return UINT64_MAX; /* the append will tell */
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    double share = conf->free_fraction * (double)fs.f_blocks * (double)fs.f_frsize;
    uint64_t floor = share > (double)conf->free_bytes ? (uint64_t)share : conf->free_bytes;
    uint64_t taken = floor + t->reserved;
    return free_bytes > taken ? free_bytes - taken : 0;
}

static bool above_floor(const struct tier *t, uint64_t bytes)
{
    return disk_room(t) >= bytes;
}

/* Lock held. What counts against the limit ... */
static uint64_t limit_taken(const struct tier *t)
{
    return t->used + t->reserved + t->foreign + t->guests + DIR_SLACK;
}

/* ... and what is left of it. */
static uint64_t limit_room(const struct tier *t)
{
    uint64_t taken = limit_taken(t);
    return taken < t->limit ? t->limit - taken : 0;
}

/* Lock held. */
static bool within_limit(const struct tier *t, uint64_t bytes)
{
    return bytes <= limit_room(t);
}

uint64_t tier_room(struct tier *t)
{
    ACQUIRE(&t->lock);
    if (!health_usable(&t->health, clock_mono_ns()))
        return 0;
    uint64_t taken = limit_taken(t) + t->pack_max;
    uint64_t room = taken < t->limit ? t->limit - taken : 0, disk = disk_room(t);
    return room < disk ? room : disk;
}

uint64_t tier_capacity(struct tier *t)
{
    uint64_t index = t->c->index.tier == t ? index_bytes(&t->c->index) : 0;
    ACQUIRE(&t->lock);
    if (t->health.state == HEALTH_FAILED)
        return 0;
    uint64_t others = t->foreign + t->guests + index + DIR_SLACK;
    uint64_t most = others < t->limit ? t->limit - others : 0;
    uint64_t disk = disk_room(t), packs = t->used - index;
    if (disk == UINT64_MAX)
        disk = tier_free_bytes(t);
    return packs + disk < most ? packs + disk : most;
}

/* Lock held. */
static bool may_take(struct tier *t, uint64_t bytes)
{
    if (!health_usable(&t->health, clock_mono_ns()))
        return false;
    if (!within_limit(t, bytes)) {
        health_full(&t->health, "its limit is reached");
        return false;
    }
    if (!above_floor(t, bytes)) {
        health_full(&t->health, "the disk's free space is at the floor (make room there, or lower "
                                "--free-space)");
        return false;
    }
    if (t->health.state == HEALTH_FULL && t->health.retry_ns == 0)
        health_good(&t->health);
    return true;
}

bool tier_reserve(struct tier *t, uint64_t bytes)
{
    ACQUIRE(&t->lock);
    if (!may_take(t, bytes))
        return false;
    t->reserved += bytes;
    return true;
}

void tier_settle(struct tier *t, uint64_t reserved, uint64_t used)
{
    assert(used <= reserved);
    ACQUIRE(&t->lock);
    assert(t->reserved >= reserved);
    t->reserved -= reserved;
    t->used += used;
}

/* What a look that was begun earlier tells is older news, whenever it ends: it may have files in it
 * that are gone since, or the guests of cache_guests(). */
void tier_look(struct tier *t)
{
    uint64_t number;
    bool has_guests;
    {
        ACQUIRE(&t->lock);
        number = ++t->looks;
        has_guests = t->has_guests;
    }
    uint64_t foreign = folder_foreign(t, has_guests);
    ACQUIRE(&t->lock);
    health_look(&t->health, t->dir_fd);
    if (number < t->looked)
        return;
    t->looked = number;
    t->foreign = foreign;
}

struct tier *cache_guests(struct cache *c, const char *dir, const struct guests_ops *ops, void *arg)
{
    cleanup_free char *real = realpath(dir, NULL);
    for (size_t i = 0; real && i < c->conf.n_tiers; i++) {
        struct tier *t = c->tiers[i];
        cleanup_free char *place = xasprintf("%s/" CACHE_GUESTS, t->dir);
        if (strcmp(place, real) != 0)
            continue;
        if (!guests_begin(t, ops, arg))
            return NULL;
        ACQUIRE(&t->lock);
        t->has_guests = true;
        t->looked = ++t->looks;
        t->foreign = folder_foreign(t, true);
        return t;
    }
    return NULL;
}

uint64_t cache_guests_room(struct tier *t)
{
    ACQUIRE(&t->lock);
    uint64_t room = limit_room(t), disk = disk_room(t);
    return room < disk ? room : disk;
}

bool cache_guests_take(struct tier *t, uint64_t bytes)
{
    ACQUIRE(&t->lock);
    if (!within_limit(t, bytes) || !above_floor(t, bytes))
        return false;
    t->guests += bytes;
    return true;
}

void cache_guests_refused(struct tier *t)
{
    uint64_t now = clock_mono_ns();
    {
        ACQUIRE(&t->lock);
        if (now - t->refused_ns < NS_PER_S)
            return;
        t->refused_ns = now;
    }
    writer_poke(t);
}

uint64_t cache_guests_found(struct tier *t, uint64_t bytes)
{
    ACQUIRE(&t->lock);
    t->guests += bytes;
    uint64_t taken = limit_taken(t);
    return taken > t->limit ? taken - t->limit : 0;
}

void cache_guests_give(struct tier *t, uint64_t bytes)
{
    ACQUIRE(&t->lock);
    t->guests -= bytes < t->guests ? bytes : t->guests;
}

bool cache_guests_may_write(struct tier *t, uint64_t bytes)
{
    ACQUIRE(&t->lock);
    return above_floor(t, bytes) && tier_free_bytes(t) >= bytes;
}

bool tier_charge(struct tier *t, uint64_t bytes)
{
    ACQUIRE(&t->lock);
    if (!may_take(t, bytes))
        return false;
    t->used += bytes;
    return true;
}

void tier_discharge(struct tier *t, uint64_t bytes)
{
    ACQUIRE(&t->lock);
    assert(t->used >= bytes);
    t->used -= bytes;
}

void tier_failed(struct tier *t, uint64_t charged, const struct err *why)
{
    ACQUIRE(&t->lock);
    assert(t->used >= charged);
    t->used -= charged;
    health_error(&t->health, t->dir_fd, why);
}

/* What the pinned samples that are missing will take, by their mean. */
static uint64_t missing_bytes(const struct cache *c)
{
    uint64_t expected = atomic_load(&c->expected_samples), here = atomic_load(&c->pinned_samples);
    if (here >= expected)
        return 0;
    return (uint64_t)((double)atomic_load(&c->expected_bytes) * (double)(expected - here) /
                      (double)expected);
}

/* Would so much that is not pinned leave room for the pinned that is missing? */
static bool tiers_leave_room(struct cache *c, uint64_t bytes)
{
    uint64_t missing = missing_bytes(c);
    return missing == 0 || cache_room(c) >= missing + bytes;
}

/* A newcomer finds no room: what is left is to go from all tiers, and for a pinned one what is idle
 * from the last. */
static void tier_want_room(struct cache *c, uint64_t bytes, bool pinned)
{
    for (size_t i = 0; i < c->conf.n_tiers; i++) {
        struct tier *t = c->tiers[i];
        const struct newcomer n = {.pinned = pinned && i + 1 == c->conf.n_tiers,
                                   .left = atomic_load(&t->left)};
        if (policy_scan_admit(&n) != ADMIT_LATER)
            continue;
        {
            ACQUIRE(&t->lock);
            t->left_wanted += n.left ? bytes : 0;
            t->room_wanted += n.pinned ? bytes : 0;
        }
        writer_poke(t);
    }
}

/* The first tier that has room; the bytes are reserved there. NULL: the unit is not kept. */
struct tier *tier_choose(struct cache *c, uint64_t bytes, bool pinned)
{
    if (!pinned && !tiers_leave_room(c, bytes))
        return NULL;
    for (size_t i = 0; i < c->conf.n_tiers; i++)
        if (tier_reserve(c->tiers[i], bytes))
            return c->tiers[i];
    tier_want_room(c, bytes, pinned);
    return NULL;
}
