/*
 * Leases: another process reads a unit's stored bytes by itself.
 *
 * A lease keeps its pack. Stored bytes are never overwritten, so what a holder reads stays true;
 * only the space of a retired pack waits for it, and that for 30 s at most: then the lease is
 * revoked, and the holder learns it from cache_extent_valid() after its copy.
 */
#include "cache-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>

#include "clock.h"

#define REVOKE_NS (30 * NS_PER_S)

struct lease {
    uint64_t id;
    struct pack *pack;
    struct lease *next;
};

struct leases {
    struct lock lock;
    struct lease *first;
    uint64_t last_id;
};

void leases_init(struct cache *c)
{
    c->leases = xcalloc(1, sizeof *c->leases);
    lock_init(&c->leases->lock, RANK_CACHE_EVICT, "cache leases");
}

static void end_lease(struct lease *l)
{
    pack_unref(l->pack);
    free(l);
}

void leases_destroy(struct cache *c)
{
    while (c->leases->first) {
        struct lease *l = c->leases->first;
        c->leases->first = l->next;
        end_lease(l);
    }
    lock_destroy(&c->leases->lock);
    free(c->leases);
}

static uint64_t add_lease(struct cache *c, struct pack *p)
{
    struct lease *l = xcalloc(1, sizeof *l);
    ACQUIRE(&c->leases->lock);
    l->id = ++c->leases->last_id;
    l->pack = p;
    l->next = c->leases->first;
    c->leases->first = l;
    return l->id;
}

#ifdef OPEN_TREE_CLONE
int cache_read_only_view(int fd)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY, .propagation = MS_PRIVATE};
    int view = open_tree(fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (view < 0 || mount_setattr(view, "", AT_EMPTY_PATH, &attr, sizeof attr) == 0)
        return view;
    close(view);
    return -1;
}
#else
int cache_read_only_view(int fd)
{
    (void)fd;
    return -1;
}
#endif

/* A descriptor of its own, for reading only: ours can write. */
static int open_pack(const struct pack *p, struct err *err)
{
    char name[32];
    pack_name(name, p->number, "pack");
    int folder = p->tier->view_fd >= 0 ? p->tier->view_fd : p->tier->dir_fd;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? fd : err_sys(err, errno, "open %s/%s", p->tier->dir, name);
}

int cache_part_lease(struct cache *c, const struct cache_part *p, int *ret_fd, uint64_t *ret_lease,
                     struct err *err)
{
    int fd = open_pack(p->pack, err);
    if (fd < 0)
        return -1;
    pack_ref(p->pack); /* the part holds one: it is there */
    *ret_fd = fd;
    *ret_lease = add_lease(c, p->pack);
    return 0;
}

int cache_extent_lease(struct cache *c, uint64_t unit, struct extent *ret, struct err *err)
{
    struct extent_ref x;
    if (!place_find(c, unit, &x))
        return err_set(err, ERR_NOT_FOUND, "unit %llu is not in a pack", (unsigned long long)unit);
    int fd = open_pack(x.pack, err);
    if (fd < 0) {
        pack_unref(x.pack);
        return -1;
    }
    uint32_t head = record_lead(x.offset, x.entry.flags, x.entry.raw);
    *ret = (struct extent){.fd = fd,
                           .offset = x.offset + head,
                           .stored = x.entry.stored,
                           .raw = x.entry.raw,
                           .head = head,
                           .lease = add_lease(c, x.pack)};
    return 0;
}

bool cache_extent_valid(struct cache *c, uint64_t lease)
{
    ACQUIRE(&c->leases->lock);
    for (struct lease *l = c->leases->first; l; l = l->next)
        if (l->id == lease)
            return true;
    return false;
}

void cache_extent_return(struct cache *c, uint64_t lease)
{
    struct lease *found = NULL;
    {
        ACQUIRE(&c->leases->lock);
        struct lease **at = &c->leases->first;
        while (*at && (*at)->id != lease)
            at = &(*at)->next;
        found = *at;
        if (found)
            *at = found->next;
    }
    if (found)
        end_lease(found);
}

static bool is_due(struct pack *p, uint64_t now)
{
    ACQUIRE(&p->tier->lock);
    return p->retired_ns && now - p->retired_ns > REVOKE_NS;
}

void leases_expire(struct cache *c)
{
    struct lease *due = NULL;
    uint64_t now = clock_mono_ns();
    {
        ACQUIRE(&c->leases->lock);
        for (struct lease **at = &c->leases->first; *at;) {
            struct lease *l = *at;
            if (!is_due(l->pack, now)) {
                at = &l->next;
                continue;
            }
            *at = l->next;
            l->next = due;
            due = l;
        }
    }
    while (due) {
        struct lease *l = due;
        due = l->next;
        end_lease(l);
    }
}
