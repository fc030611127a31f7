/*
 * The disk: what the staged files take, the limit, the free-space floor, and which clean content
 * goes first. `used` counts blocks of the disk, asked from the file system after each write (which
 * includes blocks that it only promised), so holes cost nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "content-internal.h"

#define SLACK        8192         /* a write may touch a block more at either end */
#define JOURNAL_ROOM (1ull << 20) /* of the disk that content leaves to the journal */
#define FILES_ROOM   32           /* and inodes, to files that are to be made */

void drop_list_add(struct stage *s, struct node *n)
{
    if (n->in_drop || n->content || n->busy || n->queued ||
        (n->row.flags & (N_STAGED | N_DIRTY)) != N_STAGED)
        return;
    n->newer = NULL;
    n->older = s->drop_last;
    *(s->drop_last ? &s->drop_last->newer : &s->drop_first) = n;
    s->drop_last = n;
    n->in_drop = true;
}

void drop_list_remove(struct stage *s, struct node *n)
{
    if (!n->in_drop)
        return;
    *(n->older ? &n->older->newer : &s->drop_first) = n->newer;
    *(n->newer ? &n->newer->older : &s->drop_last) = n->older;
    n->newer = n->older = NULL;
    n->in_drop = false;
}

void drop_content(struct stage *s, struct node *n)
{
    n->row.flags &= ~(unsigned)(N_STAGED | N_MAP);
    if (n->known_before && n->row.size < NOTED_BYTES)
        n->row.flags |= N_OPEN;
    drop_list_remove(s, n);
    content_discard(s, n);
    journal_save(s, n, NULL);
}

/* The oldest clean content goes. False: there is none. s->lock held. */
static bool drop_one(struct stage *s)
{
    if (!s->drop_first)
        return false;
    drop_content(s, s->drop_first);
    return true;
}

static uint64_t unit_of(const struct statvfs *v)
{
    return v->f_frsize ? v->f_frsize : 4096;
}

/* What is kept free, and what is free of that disk. False: nobody knows. */
static bool look_at_disk(const struct stage *s, uint64_t *ret_floor, uint64_t *ret_free)
{
    struct statvfs v;
    if (fstatvfs(s->data_fd, &v))
        return false;
    uint64_t floor = (uint64_t)((double)(v.f_blocks * unit_of(&v)) * s->conf.free_fraction);
    if (floor < s->conf.free_bytes)
        floor = s->conf.free_bytes;
    *ret_floor = floor < JOURNAL_ROOM ? JOURNAL_ROOM : floor;
    *ret_free = v.f_bavail * unit_of(&v);
    return true;
}

static bool disk_has(const struct stage *s, uint64_t len)
{
    uint64_t floor, free_now; /* else the write itself will tell */
    return !look_at_disk(s, &floor, &free_now) || free_now >= floor + len;
}

bool room_is_short(const struct stage *s)
{
    struct statvfs v;
    if (fstatvfs(s->data_fd, &v))
        return false;
    bool few = v.f_files && v.f_favail < FILES_ROOM; /* 0: it has no number of them */
    return few || v.f_bavail * unit_of(&v) < JOURNAL_ROOM;
}

void room_want(struct stage *s)
{
    s->room_due = true;
    cond_signal(&s->clock);
}

void room_make(struct stage *s)
{
    while (room_is_short(s) && drop_one(s)) {
    }
}

static bool drop_one_for(struct stage *s)
{
    ACQUIRE(&s->lock);
    return drop_one(s);
}

/* What does not fit is at no time counted: another's might, meanwhile. `ret_used`: what is. */
static bool fits(struct stage *s, uint64_t want, uint64_t *ret_used)
{
    *ret_used = atomic_load(&s->used);
    do {
        if (s->conf.limit && *ret_used + want > s->conf.limit)
            return false;
    } while (!atomic_compare_exchange_weak(&s->used, ret_used, *ret_used + want));
    return true;
}

int room_take(struct stage *s, uint64_t len, struct err *err)
{
    uint64_t want = len + SLACK, used;
    for (;;) {
        bool disk = disk_has(s, want);
        if (disk && fits(s, want, &used))
            return 0;
        if (drop_one_for(s))
            continue;
        return disk ? err_set(err, ERR_LIMIT,
                              "no room: %s: %llu of %llu bytes hold what is not stored yet (wait, "
                              "or raise the limit of the stage)",
                              s->dir, (unsigned long long)used, (unsigned long long)s->conf.limit)
                    : err_set(err, ERR_LIMIT,
                              "no room: %s: the disk is full up to the space kept free (make room)",
                              s->dir);
    }
}

void room_give(struct stage *s, uint64_t len)
{
    atomic_fetch_sub(&s->used, len + SLACK);
}

void room_recount(struct stage *s, struct node *n, int fd)
{
    struct stat st;
    if (fstat(fd, &st))
        return;
    uint64_t now = (uint64_t)st.st_blocks * 512;
    atomic_fetch_add(&s->used, now - n->charged); /* may wrap round: it is a difference */
    n->charged = now;
}

void room_settle(struct stage *s, struct node *n, int fd, uint64_t taken)
{
    room_recount(s, n, fd);
    room_give(s, taken);
}

int stage_statfs(struct stage *s, struct statvfs *ret, struct err *err)
{
    uint64_t floor, disk;
    if (!look_at_disk(s, &floor, &disk))
        return err_sys(err, errno, "look at the disk of %s", s->dir);
    disk = disk > floor ? disk - floor : 0;
    uint64_t used = atomic_load(&s->used);
    uint64_t room = s->conf.limit > used ? s->conf.limit - used : s->conf.limit ? 0 : disk;
    if (room > disk)
        room = disk;
    /* The store has no end: what limits a writer is the stage, which empties by itself. */
    const uint64_t vast = 1ull << 50;
    *ret = (struct statvfs){.f_bsize = 4096,
                            .f_frsize = 4096,
                            .f_blocks = vast / 4096,
                            .f_bfree = (vast - used) / 4096,
                            .f_bavail = (room ? vast - used : 0) / 4096,
                            .f_files = 1ull << 40,
                            .f_ffree = (1ull << 40) - s->n_nodes,
                            .f_favail = (1ull << 40) - s->n_nodes,
                            .f_namemax = NAME_MAX};
    return 0;
}
