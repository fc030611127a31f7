/*
 * The content of one file: a sparse staged file, and a map of its blocks where not all of them are
 * here alone.
 *
 * The states of a block, and who moves it:
 *
 *   ABSENT    only in the store     truncation never makes one; content_load(), a listing's change
 *   FETCHING  on its way            need_run(); back to ABSENT if that fails
 *   CLEAN     here, as stored       need_run() after the bytes; content_published()
 *   DIRTY     here alone            stage_write() and its like, after the bytes
 *
 * Of an ABSENT block only the bytes below map->base_len are in the store, the rest are zeros: so a
 * file that was cut and then grew shows no old bytes. The map is shared memory of a file: a killed
 * process leaves it as it was. Everything is done under c->lock, which need_run() gives up while it
 * waits for the store.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "clock.h"
#include "file.h"
#include "mem.h"
#include "content-internal.h"
#include "owed-internal.h"

#define MAP_MAGIC  "sampmap1"
#define RUN_BLOCKS 4                  /* fetched at once */
#define MAP_MOST   ((size_t)64 << 20) /* of a file of 64 TiB */

void content_name(uint64_t ino, bool map, char out[32])
{
    snprintf(out, 32, "%016llx%s", (unsigned long long)ino, map ? ".map" : "");
}

uint64_t content_blocks(uint64_t size)
{
    return (size + STAGE_BLOCK - 1) / STAGE_BLOCK;
}

/* --- references ------------------------------------------------------------------------------ */

struct content *content_ref(struct stage *s, struct node *n)
{
    if (!n->content) {
        struct content *c = xcalloc(1, sizeof *c);
        c->stage = s;
        c->node = n;
        c->fd = c->map_fd = -1;
        lock_init(&c->lock, RANK_STAGE_FILE, "stage-file");
        cond_init(&c->cond);
        n->content = c;
        drop_list_remove(s, n);
    }
    n->content->refs++;
    return n->content;
}

static void unmap(struct content *c)
{
    if (c->map)
        munmap(c->map, c->map_size);
    if (c->map_fd >= 0)
        close(c->map_fd);
    c->map = NULL;
    c->map_size = 0;
    c->map_fd = -1;
}

void content_unref(struct stage *s, struct content *c)
{
    if (--c->refs)
        return;
    struct node *n = c->node;
    n->content = NULL;
    unmap(c);
    if (c->fd >= 0)
        close(c->fd);
    uploading_free(c->up);
    cond_destroy(&c->cond);
    lock_destroy(&c->lock);
    free(c);
    if (!(n->row.flags & N_STAGED))
        content_discard(s, n); /* another writer's object took its place while it was in use */
    drop_list_add(s, n);
    node_reap(s, n);
}

void content_discard(struct stage *s, struct node *n)
{
    char name[32];
    content_name(n->row.ino, false, name);
    unlinkat(s->data_fd, name, 0);
    content_name(n->row.ino, true, name);
    unlinkat(s->data_fd, name, 0);
    atomic_fetch_sub(&s->used, n->charged);
    n->charged = 0;
}

/* --- the map --------------------------------------------------------------------------------- */

static size_t map_bytes(uint64_t size)
{
    size_t bytes = sizeof(struct map) + (size_t)content_blocks(size);
    return (bytes + 4095) & ~(size_t)4095;
}

/* btrfs writes a page of a file somewhere else each time: on a full disk a store into the mapping
 * would kill us, though the blocks are allocated. For files of which this is said it does not. What
 * it then does not sum is a map, which is checked when it is loaded. Other file systems refuse. */
static void keep_in_place(int fd)
{
    int flags;
    if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags))
        return;
    flags |= FS_NOCOW_FL;
    (void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

/* Opens the map and makes it long enough for `size`. */
static int map_open(struct content *c, uint64_t size, int flags, struct err *err)
{
    char name[32];
    content_name(c->node->row.ino, true, name);
    if (c->map_fd < 0)
        c->map_fd = openat(c->stage->data_fd, name, O_RDWR | O_CLOEXEC | flags, 0600);
    if (flags & O_CREAT)
        keep_in_place(c->map_fd); /* it is empty: later it is too late */
    size_t bytes = map_bytes(size);
    struct stat st;
    /* No store has an object that large: it would only fill the disk. */
    if (bytes > MAP_MOST)
        return err_set(err, ERR_LIMIT, "no room: %s: the map of a file of %llu bytes",
                       c->stage->dir, (unsigned long long)size);
    if (c->map_fd < 0 || fstat(c->map_fd, &st))
        return err_sys(err, errno, "open %s/data/%s", c->stage->dir, name);
    if ((uint64_t)st.st_size < bytes && posix_fallocate(c->map_fd, 0, (off_t)bytes))
        return err_set(err, ERR_LIMIT, "no room: %s: the map of a file's blocks", c->stage->dir);
    if (c->map && bytes <= c->map_size)
        return 0;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->map_fd, 0);
    if (at == MAP_FAILED) /* the old one stays: without any, all blocks would be here alone */
        return err_sys(err, errno, "map %s/data/%s", c->stage->dir, name);
    if (c->map)
        munmap(c->map, c->map_size);
    c->map = at;
    c->map_size = bytes;
    return 0;
}

/* A new map, all blocks in `state`. Not in force before the row says N_MAP. */
static int map_make(struct content *c, uint64_t size, int state, uint64_t base_len, struct err *err)
{
    unmap(c);
    if (map_open(c, size, O_CREAT | O_TRUNC, err))
        return -1;
    assert(c->map);
    memcpy(c->map->magic, MAP_MAGIC, 8);
    c->map->base_len = base_len;
    memset(c->map->blocks, state, content_blocks(size));
    return 0;
}

static int map_check(struct content *c, struct err *err)
{
    if (map_open(c, c->size, 0, err))
        return -1;
    assert(c->map);
    if (memcmp(c->map->magic, MAP_MAGIC, 8) != 0)
        return err_set(err, ERR_CORRUPT, "damaged: %s/data/%016llx.map: it is no map of blocks",
                       c->stage->dir, (unsigned long long)c->node->row.ino);
    if (c->map->base_len > c->size)
        c->map->base_len = c->size; /* cut between the file and the map */
    for (uint64_t i = 0; i < content_blocks(c->size); i++)
        if (c->map->blocks[i] >= BLOCK_FETCHING)
            c->map->blocks[i] = BLOCK_ABSENT;
    content_clear_absent(c, 0, c->size); /* killed between bytes and map */
    return 0;
}

/* A file system that knows no holes keeps them: then only a fetch replaces what it brings. */
void content_clear_absent(const struct content *c, uint64_t off, uint64_t len)
{
    uint64_t end = content_blocks(off + len < c->size ? off + len : c->size);
    for (uint64_t b = off / STAGE_BLOCK, from; c->map && b < end; b++) {
        for (from = b; b < end && c->map->blocks[b] == BLOCK_ABSENT;)
            b++;
        if (b > from)
            (void)fallocate(c->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                            (off_t)(from * STAGE_BLOCK), (off_t)((b - from) * STAGE_BLOCK));
    }
}

/* --- opening --------------------------------------------------------------------------------- */

static int open_staged(struct content *c, int flags, struct err *err)
{
    char name[32];
    content_name(c->node->row.ino, false, name);
    c->fd = openat(c->stage->data_fd, name, O_RDWR | O_CLOEXEC | flags, 0600);
    if (c->fd < 0)
        return err_sys(err, errno, "open %s/data/%s", c->stage->dir, name);
    return 0;
}

/* Nothing is here: a sparse file of the right size, all of it in the store. It gets its size last:
 * while the journal does not speak of the map, zeros of the right length would be believed. */
static int stage_absent(struct content *c, struct err *err)
{
    struct stage *s = c->stage;
    struct node *n = c->node;
    if (open_staged(c, O_CREAT | O_TRUNC, err))
        return -1;
    c->size = n->row.size;
    if (map_make(c, c->size, BLOCK_ABSENT, c->size, err))
        return -1;
    ACQUIRE(&s->lock);
    unsigned flags = n->row.flags;
    n->row.flags |= N_STAGED | N_MAP;
    int result = journal_save(s, n, err);
    if (result == 0 && ftruncate(c->fd, (off_t)c->size))
        result =
            err_sys(err, errno, "make a staged file of %llu bytes", (unsigned long long)c->size);
    room_recount(s, n, c->fd);
    if (result)
        n->row.flags = flags;
    return result;
}

/* Another writer's object took its place since: what is here counts no more. */
static void forget_old(struct content *c)
{
    unmap(c);
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->loaded = false;
    c->next_read = 0;
}

static int open_present(struct content *c, unsigned flags, struct err *err)
{
    struct stat st;
    if (open_staged(c, 0, err))
        return -1;
    if (fstat(c->fd, &st))
        return err_sys(err, errno, "look at a staged file");
    c->size = (uint64_t)st.st_size;
    c->appending = !(flags & (N_STORED | N_MAP));
    return flags & N_MAP ? map_check(c, err) : 0;
}

static int open_content(struct content *c, unsigned flags, struct err *err)
{
    if (flags & N_STAGED) {
        if (open_present(c, flags, err) == 0)
            return 0;
        if (err->sys != ENOENT || (flags & (N_STORED | N_DIRTY | N_ORPHAN)) != N_STORED)
            return -1;
        forget_old(c); /* somebody removed it here: all of it is in the store */
    }
    return stage_absent(c, err);
}

int content_load(struct content *c, struct err *err)
{
    struct stage *s = c->stage;
    struct err why = {0};
    unsigned flags;
    uint64_t gen;
    {
        ACQUIRE(&s->lock);
        flags = c->node->row.flags;
        gen = c->node->row.gen;
    }
    if (c->loaded && c->gen == gen)
        return 0;
    forget_old(c);
    if (open_content(c, flags, &why)) {
        forget_old(c);
        disk_lacks(s, &why);
        if (err)
            *err = why;
        return -1;
    }
    upload_take_up(c);
    c->gen = gen;
    c->loaded = true;
    return 0;
}

/* --- blocks ---------------------------------------------------------------------------------- */

bool content_same(const struct content *c, uint64_t off, uint64_t len)
{
    if (!c->map || off + len > c->map->base_len)
        return false;
    for (uint64_t b = off / STAGE_BLOCK; b * STAGE_BLOCK < off + len; b++)
        if (c->map->blocks[b] == BLOCK_DIRTY)
            return false;
    return true;
}

/* The staged file gets the node's mtime. s->lock held. */
static void content_stamp(const struct content *c)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                      clock_timespec(c->node->row.mtime_ns)};
    futimens(c->fd, times);
}

/* What of a block that was fetched counts, and is free for it. */
static size_t taken_of(const struct content *c, uint64_t b, uint64_t start, uint64_t len)
{
    uint64_t at = b * STAGE_BLOCK, n = at - start < len ? len - (at - start) : 0;
    if (n > STAGE_BLOCK)
        n = STAGE_BLOCK;
    if (at + n > c->map->base_len) /* cut meanwhile */
        n = at < c->map->base_len ? c->map->base_len - at : 0;
    return n;
}

static bool is_fetching(const struct content *c, uint64_t b)
{
    return c->map && b < content_blocks(c->size) && c->map->blocks[b] == BLOCK_FETCHING;
}

bool content_is_synced(const struct content *c)
{
    ACQUIRE(&c->stage->lock);
    return c->node->row.flags & N_SYNCED;
}

/* The map of a content that is SYNCED is believed after the machine's end, so that it may call a
 * block CLEAN only when its bytes are on the disk. */
static int sync_taken(const struct content *c, struct err *err)
{
    struct stage *s = c->stage;
    if (!content_is_synced(c) || fdatasync(c->fd) == 0)
        return 0;
    int code = errno;
    err_sys(err, code, "sync a staged file in %s", s->dir);
    return disk_failed(s, DISK_DATA_SYNC, code, err);
}

/* Puts what came for blocks [first, end) where nothing newer was written meanwhile. */
static int take_run(struct content *c, uint64_t first, uint64_t end, const char *buf, uint64_t len,
                    struct err *err)
{
    struct stage *s = c->stage;
    uint64_t start = first * STAGE_BLOCK;
    if (room_take(s, len, err))
        return -1;
    int result = 0;
    for (uint64_t b = first; b < end && result == 0; b++) {
        uint64_t at = b * STAGE_BLOCK;
        size_t n = is_fetching(c, b) ? taken_of(c, b, start, len) : 0;
        if (n && file_write(c->fd, buf + (at - start), n, at))
            result = err_sys(err, errno, "write a staged file in %s", s->dir);
    }
    if (result == 0)
        result = sync_taken(c, err);
    for (uint64_t b = first; b < end && result == 0; b++)
        if (is_fetching(c, b))
            c->map->blocks[b] = BLOCK_CLEAN;
    ACQUIRE(&s->lock);
    room_settle(s, c->node, c->fd, len);
    if (c->node->row.flags & N_DIRTY)
        content_stamp(c); /* the file's own time is the truth while it is dirty */
    return result;
}

void content_row(const struct content *c, struct record *ret)
{
    struct stage *s = c->stage;
    ACQUIRE(&s->lock);
    *ret = c->node->row;
    ret->name = NULL;
    ret->target = NULL;
    ret->etag = xstrdup(c->node->row.etag);
    ret->skey = node_stored_key(c->node);
}

/* c->lock is given up meanwhile. */
static int fetch_run(struct content *c, struct record *row, uint64_t off, void *buf, uint64_t len,
                     struct err *err)
{
    struct stage *s = c->stage;
    content_row(c, row);
    lock_drop(&c->lock);
    int result = remote_read(s, row->skey, row, off, buf, (uint32_t)len, err);
    lock_take(&c->lock);
    counter_add(&s->counts->fetched_bytes, result ? 0 : len);
    return result;
}

/* The memory for it is there: the lock was given up for that, too. */
static int take_memory(struct content *c, uint64_t len, struct err *err)
{
    struct stage *s = c->stage;
    lock_drop(&c->lock);
    bool got = memory_take(s, &s->coming, len, false);
    lock_take(&c->lock);
    return got ? 0
               : err_sys(err, EIO, "fetch %llu bytes: no answer for those that wait before",
                         (unsigned long long)len);
}

/* Fetches blocks [first, end), all ABSENT. c->lock is given up meanwhile. */
static int need_run(struct content *c, uint64_t first, uint64_t end, struct err *err)
{
    struct stage *s = c->stage;
    uint64_t off = first * STAGE_BLOCK, until = end * STAGE_BLOCK;
    if (until > c->map->base_len)
        until = c->map->base_len;
    uint64_t len = until > off ? until - off : 0;
    for (uint64_t b = first; b < end; b++)
        c->map->blocks[b] = BLOCK_FETCHING;
    CLEANUP(record_release) struct record row = {.gen = c->gen};
    cleanup_free char *buf = NULL;
    int result = len ? take_memory(c, len, err) : 0;
    bool taken = len && result == 0;
    if (taken) {
        buf = xmalloc(len);
        result = fetch_run(c, &row, off, buf, len, err);
    }
    uint64_t gen;
    {
        ACQUIRE(&s->lock);
        gen = c->node->row.gen;
    }
    if (result == 0 && gen == row.gen)
        result = take_run(c, first, end, buf, len, err);
    for (uint64_t b = first; c->map && b < end && b < content_blocks(c->size); b++)
        if (c->map->blocks[b] == BLOCK_FETCHING)
            c->map->blocks[b] = BLOCK_ABSENT;
    cond_broadcast(&c->cond);
    if (taken)
        memory_give(s, &s->coming, len);
    if (result == 0 && gen != row.gen)
        return err_set(err, ERR_STALE,
                       "replaced by another writer while it was read (open it again)");
    return result;
}

/* Moved at the store while we asked, or replaced by an upload of ours. */
static bool is_elsewhere(struct content *c, const struct record *asked)
{
    CLEANUP(record_release) struct record now;
    content_row(c, &now);
    return now.gen == c->gen &&
           (strcmp(now.skey, asked->skey) != 0 || strcmp(now.etag, asked->etag) != 0);
}

/* How far the blocks from `b` on are ABSENT now. */
static uint64_t run_end(const struct content *c, uint64_t b, uint64_t last)
{
    uint64_t end = b + 1;
    if (last > content_blocks(c->size))
        last = content_blocks(c->size);
    while (end < last && end - b < RUN_BLOCKS && c->map->blocks[end] == BLOCK_ABSENT)
        end++;
    return end;
}

static int need_block(struct content *c, uint64_t b, uint64_t last, struct err *err)
{
    for (unsigned tries = 0;; tries++) {
        uint64_t end = run_end(c, b, last); /* they may have been written since the last try */
        CLEANUP(record_release) struct record asked;
        struct err why = {0};
        content_row(c, &asked);
        if (need_run(c, b, end, &why) == 0)
            return 0;
        if (why.class == ERR_STALE && tries < 3)
            ours_adopt(c);
        if (tries == 3 || !is_elsewhere(c, &asked)) {
            if (err)
                *err = why;
            return -1;
        }
        if (!c->map || b >= content_blocks(c->size) || c->map->blocks[b] != BLOCK_ABSENT)
            return 0; /* the caller looks again */
    }
}

int content_need(struct content *c, uint64_t off, uint64_t len, bool wait, struct err *err)
{
    for (;;) {
        if (!c->map || off >= c->size)
            return 0;
        uint64_t last = content_blocks(off + len < c->size ? off + len : c->size);
        uint64_t b = off / STAGE_BLOCK;
        while (b < last && c->map->blocks[b] != BLOCK_ABSENT && c->map->blocks[b] != BLOCK_FETCHING)
            b++;
        if (b == last)
            return 0;
        if (!wait)
            return STAGE_WAIT;
        if (c->map->blocks[b] == BLOCK_FETCHING)
            cond_wait(&c->cond, &c->lock);
        else if (need_block(c, b, last, err))
            return -1;
    }
}

/* --- changing -------------------------------------------------------------------------------- */

static int say_dirty(struct content *c, bool wait, bool *ret_was_synced, struct err *err)
{
    struct stage *s = c->stage;
    struct node *n = c->node;
    unsigned flags = n->row.flags;
    *ret_was_synced = flags & N_SYNCED;
    if (n->row.gen != c->gen)
        return err_set(err, ERR_STALE, "replaced by another writer meanwhile (open it again)");
    if (flags & N_DIRTY && !*ret_was_synced)
        return 0;
    if (*ret_was_synced && !wait)
        return STAGE_WAIT; /* not the network, but the disk may take its time */
    n->row.flags = (flags | N_DIRTY) & ~(unsigned)N_SYNCED;
    if (journal_save(s, n, err)) {
        n->row.flags = flags;
        return -1;
    }
    dirty_add(s, n);
    return 0;
}

/* The disk must not go on saying that bytes are as they were synced when they change. */
int content_dirty(struct content *c, bool wait, struct err *err)
{
    bool was_synced;
    int result;
    {
        ACQUIRE(&c->stage->lock);
        result = say_dirty(c, wait, &was_synced, err);
    }
    return result == 0 && was_synced ? journal_sync(c->stage, err) : result;
}

/* All of it was cut off: no map is needed any more. Where the journal can't say so it stays, and is
 * as true. */
static void drop_map(struct content *c)
{
    struct stage *s = c->stage;
    struct node *n = c->node;
    c->map->base_len = 0;
    {
        ACQUIRE(&s->lock);
        n->row.flags &= ~(unsigned)N_MAP;
        if (journal_save(s, n, NULL)) {
            n->row.flags |= N_MAP;
            return;
        }
    }
    char name[32];
    content_name(n->row.ino, true, name);
    unmap(c);
    unlinkat(s->data_fd, name, 0);
}

int content_grow(struct content *c, uint64_t size, struct err *err)
{
    if (!c->map || size <= c->size)
        return 0;
    if (map_open(c, size, 0, err))
        return -1;
    assert(c->map);
    uint64_t old = content_blocks(c->size);
    memset(c->map->blocks + old, BLOCK_DIRTY, content_blocks(size) - old);
    return 0;
}

static int resize(struct content *c, uint64_t size, struct err *err)
{
    if (content_grow(c, size, err))
        return -1;
    if (ftruncate(c->fd, (off_t)size))
        return err_sys(err, errno, "cut or lengthen a staged file");
    c->size = size;
    c->appending = size == 0;
    if (c->map && c->map->base_len > size)
        c->map->base_len = size;
    if (c->map && size == 0)
        drop_map(c);
    return 0;
}

int content_truncate(struct content *c, uint64_t size, bool wait, struct err *err)
{
    struct stage *s = c->stage;
    if (size > INT64_MAX)
        return err_sys(err, EFBIG, "make a file of %llu bytes", (unsigned long long)size);
    while (c->draining) {
        if (!wait)
            return STAGE_WAIT;
        cond_wait(&c->cond, &c->lock);
    }
    if (size == c->size)
        return 0;
    uint64_t from = size < c->size ? size : c->size;
    uint64_t to = size < c->size ? c->size : size;
    int result = content_dirty(c, wait, err);
    if (result)
        return result;
    if (upload_overtaken(c, from, to - from, err) || resize(c, size, err))
        return -1;
    ACQUIRE(&s->lock);
    c->node->seq++;
    room_recount(s, c->node, c->fd);
    c->node->row.size = size;
    c->node->row.mtime_ns = clock_wall_ns();
    c->node->explicit_mtime = false;
    return 0;
}

bool content_published(struct content *c)
{
    uint64_t size = c->size;
    if (!c->map && size < STAGE_MULTIPART)
        return false;
    if (!c->map && map_make(c, size, BLOCK_CLEAN, size, NULL)) {
        unmap(c);
        return false; /* the next change carries it all up again, no more */
    }
    c->map->base_len = size;
    for (uint64_t b = 0; b < content_blocks(size); b++)
        if (c->map->blocks[b] == BLOCK_DIRTY)
            c->map->blocks[b] = BLOCK_CLEAN;
    return true;
}

int content_sync(struct content *c, struct err *err)
{
    if (fdatasync(c->fd) || (c->map_fd >= 0 && (msync(c->map, c->map_size, MS_SYNC) != 0)) ||
        fsync(c->stage->data_fd)) { /* its name */
        int code = errno;
        err_sys(err, code, "sync a staged file in %s", c->stage->dir);
        return disk_failed(c->stage, DISK_DATA_SYNC, code, err);
    }
    disk_good(c->stage, DISK_DATA_SYNC);
    return 0;
}
