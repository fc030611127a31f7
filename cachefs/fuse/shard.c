/* Files of whole objects: shard-internal.h tells their life. */
#include "shard-internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache.h"
#include "cleanup.h"
#include "crc.h"
#include "mem.h"

#define SHARD_MAGIC 0x31647268734e4d53ull /* "SMNshrd1" */

struct sums_head {
    uint64_t magic, id, size;
};
struct block_sum {
    uint32_t crc, present;
};

static off_t sum_at(uint64_t block)
{
    return (off_t)(sizeof(struct sums_head) + block * sizeof(struct block_sum));
}

/* What a shard takes on the disk at most. */
static uint64_t cost(uint64_t size)
{
    return size + (uint64_t)sum_at(unit_blocks(size));
}

static void path_of(const char *dir, uint64_t id, const char *kind, char *out, size_t size)
{
    snprintf(out, size, "%s/%llu.%s", dir, (unsigned long long)id, kind);
}

/* The inverse: is `name` the `kind` of an object? */
static bool is_file_of(const char *name, const char *kind, uint64_t *ret_id)
{
    unsigned long long id;
    int end = 0;

    if (sscanf(name, "%llu.%n", &id, &end) != 1 || !end || strcmp(name + end, kind) != 0)
        return false;
    *ret_id = id;
    return true;
}

static void remove_files(const char *dir, uint64_t id)
{
    char path[4200];

    path_of(dir, id, "data", path, sizeof(path));
    unlink(path);
    path_of(dir, id, "sums", path, sizeof(path));
    unlink(path);
}

static void close_files(struct shard *x)
{
    if (x->data >= 0)
        close(x->data);
    if (x->sums >= 0)
        close(x->sums);
    x->data = x->sums = -1;
}

static void shard_free(struct shard *x)
{
    close_files(x);
    free((void *)x->present);
    free((void *)x->held);
    free(x);
}

static void hold(struct shard *x, uint64_t block, bool here)
{
    int64_t len = shard_block_len(x, block);

    if (atomic_exchange(&x->held[block], here) != here && x->tier)
        cache_guests_hold(x->tier, block ? 0 : here ? 1 : -1, here ? len : -len);
}

/* All of it at once: with `sign` 1 from now on, with -1 no more. */
static void count_all(struct shard *x, struct tier *tier, int sign)
{
    x->tier = tier;
    for (uint64_t i = 0; tier && i < x->n_blocks; i++)
        if (atomic_load(&x->held[i]))
            cache_guests_hold(tier, i ? 0 : sign, sign * (int64_t)shard_block_len(x, i));
}

/* All 0 where there is none. */
static struct block_sum read_sum(const struct shard *x, uint64_t block)
{
    struct block_sum sum;

    if (pread(x->sums, &sum, sizeof(sum), sum_at(block)) != (ssize_t)sizeof(sum))
        return (struct block_sum){0};
    return sum;
}

static bool open_files(const struct shards *s, struct shard *x, int flags)
{
    char path[4200];

    path_of(s->dir, x->id, "data", path, sizeof(path));
    x->data = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
    path_of(s->dir, x->id, "sums", path, sizeof(path));
    x->sums = x->data < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC | flags, 0600);
    return x->sums >= 0;
}

static bool is_known(const struct shard *x, const struct sums_head *want)
{
    struct sums_head head = {0};

    return pread(x->sums, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
           memcmp(&head, want, sizeof(head)) == 0;
}

static struct sums_head head_of(const struct shards *s, const struct shard *x)
{
    return (struct sums_head){.magic = s->magic, .id = x->id, .size = x->size};
}

/* Opens or makes the files of a shard; files of another size are begun anew. */
static bool make_files(const struct shards *s, struct shard *x)
{
    const struct sums_head head = head_of(s, x);

    if (!open_files(s, x, O_CREAT))
        return false;
    if (!is_known(x, &head) && (ftruncate(x->sums, 0) < 0 || ftruncate(x->data, 0) < 0 ||
                                pwrite(x->sums, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
                                ftruncate(x->sums, sum_at(x->n_blocks)) < 0))
        return false;
    return ftruncate(x->data, (off_t)x->size) == 0;
}

/* NULL: the disk refuses. */
static struct shard *shard_open(const struct shards *s, uint64_t id, uint64_t size)
{
    struct shard *x = xcalloc(1, sizeof(*x));

    x->id = id;
    x->size = size;
    x->n_blocks = unit_blocks(size);
    x->present = xcalloc(x->n_blocks ? x->n_blocks : 1, 1);
    x->held = xcalloc(x->n_blocks ? x->n_blocks : 1, 1);
    if (!make_files(s, x)) {
        shard_free(x);
        return NULL;
    }
    for (uint64_t i = 0; i < x->n_blocks; i++)
        atomic_store(&x->held[i], read_sum(x, i).present == 1);
    return x;
}

/* Takes `x` out of the list and removes its files. */
static void forget(struct shards *s, struct shard *x)
{
    struct shard **at = &s->list;

    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
    s->used -= cost(x->size);
    remove_files(s->dir, x->id);
    count_all(x, x->tier, -1);
    if (s->tier)
        cache_guests_give(s->tier, cost(x->size));
    shard_free(x);
}

static bool make_room(struct shards *s, uint64_t need)
{
    if (need > s->limit)
        return false;
    while (s->used + need > s->limit) {
        struct shard *oldest = NULL;

        for (struct shard *x = s->list; x; x = x->next)
            if (!x->users && (!oldest || x->used_at < oldest->used_at))
                oldest = x;
        if (!oldest)
            return false;
        forget(s, oldest);
    }
    return true;
}

static struct shard *find(struct shards *s, uint64_t id)
{
    struct shard *x = s->list;

    while (x && x->id != id)
        x = x->next;
    return x;
}

static struct shard *add(struct shards *s, uint64_t id, uint64_t size)
{
    struct shard *x = NULL;

    if (!make_room(s, cost(size)) || (s->tier && !cache_guests_take(s->tier, cost(size))))
        return NULL;
    x = shard_open(s, id, size);
    if (!x) {
        remove_files(s->dir, id);
        if (s->tier)
            cache_guests_give(s->tier, cost(size));
        return NULL;
    }
    count_all(x, s->tier, 1);
    s->used += cost(size);
    x->next = s->list;
    s->list = x;
    return x;
}

/* Opens the files of one that nobody used till now. NULL: they are gone, and so is it, or
 * *ret_refused: they could not be opened. */
static struct shard *open_again(struct shards *s, struct shard *x, bool *ret_refused)
{
    const struct sums_head head = head_of(s, x);

    if (open_files(s, x, 0) && is_known(x, &head))
        return x;
    *ret_refused = x->sums < 0 && errno != ENOENT;
    close_files(x);
    if (!*ret_refused)
        forget(s, x);
    return NULL;
}

struct shard *shards_use(struct shards *s, uint64_t id, uint64_t size)
{
    ACQUIRE(&s->lock);
    struct shard *x = find(s, id);
    bool refused = false;

    if (x && !x->users)
        x = open_again(s, x, &refused);
    if (!x && !refused)
        x = add(s, id, size);
    if (x) {
        x->users++;
        x->used_at = ++s->clock;
    }
    return x;
}

void shards_unuse(struct shards *s, struct shard *shard)
{
    ACQUIRE(&s->lock);

    if (!--shard->users)
        close_files(shard);
}

void shards_drop(struct shards *s, uint64_t id)
{
    ACQUIRE(&s->lock);
    struct shard *x = find(s, id);

    if (x && !x->users)
        forget(s, x);
}

bool shards_complete(struct shards *s, uint64_t id)
{
    ACQUIRE(&s->lock);
    const struct shard *x = find(s, id);

    return x && shard_complete(x);
}

uint64_t shards_used(struct shards *s)
{
    ACQUIRE(&s->lock);

    return s->used;
}

/* Takes up what an earlier process left: pairs of files whose sums say what they are. */
static void take_up(struct shards *s, const char *name)
{
    struct sums_head head;
    struct shard *x = NULL;
    uint64_t id;
    char path[4200];

    if (!is_file_of(name, "sums", &id) || find(s, id))
        return;
    snprintf(path, sizeof(path), "%s/%s", s->dir, name);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
        head.magic == s->magic && head.id == id)
        x = add(s, id, head.size);
    if (x)
        close_files(x);
    else
        remove_files(s->dir, id);
}

static void remove_orphan(struct shards *s, const char *name)
{
    uint64_t id;

    if (is_file_of(name, "data", &id) && !find(s, id))
        remove_files(s->dir, id);
}

bool shards_remove_all(const char *dir)
{
    cleanup_dir DIR *d = opendir(dir);
    const struct dirent *e;
    bool found = false;

    while (d && (e = readdir(d))) {
        uint64_t id;

        if (!is_file_of(e->d_name, "data", &id) && !is_file_of(e->d_name, "sums", &id))
            continue;
        remove_files(dir, id);
        found = true;
    }
    return found;
}

int shards_open(struct shards *s, const char *dir, uint64_t limit, uint64_t lineage,
                struct err *err)
{
    memset(s, 0, sizeof(*s));
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return err_sys(err, errno, "folder of whole objects %s", dir);
    for (int pass = 0; pass < 2; pass++) {
        cleanup_dir DIR *d = opendir(dir);
        const struct dirent *e;

        if (!d)
            return err_sys(err, errno, "folder of whole objects %s", dir);
        if (!pass) {
            s->dir = xstrdup(dir);
            s->limit = limit;
            s->magic = SHARD_MAGIC ^ lineage; /* ids of another lineage name other objects */
            lock_init(&s->lock, RANK_PUSH, "fuse shards");
        }
        while ((e = readdir(d)))
            pass ? remove_orphan(s, e->d_name) : take_up(s, e->d_name);
    }
    return 0;
}

void shards_set_tier(struct shards *s, struct tier *tier)
{
    ACQUIRE(&s->lock);

    while (!cache_guests_take(tier, s->used)) {
        struct shard *x = s->list;

        while (x && x->users)
            x = x->next;
        if (!x)
            return; /* all that is left is open: it shares no limit in this process */
        forget(s, x);
    }
    s->tier = tier;
    for (struct shard *x = s->list; x; x = x->next)
        count_all(x, tier, 1);
}

void shards_close(struct shards *s)
{
    if (!s->dir)
        return;
    while (s->list) {
        struct shard *x = s->list;

        s->list = x->next;
        shard_free(x);
    }
    free(s->dir);
    lock_destroy(&s->lock);
}

/* --- blocks --- */

static void set_present(struct shard *x, uint64_t block)
{
    if (!atomic_exchange(&x->present[block], 1))
        atomic_fetch_add(&x->n_present, 1);
    hold(x, block, true);
}

/* Verifies one block that an earlier process left, with `buf` of UNIT_BYTES. Any thread. */
static void check_block(struct shard *x, uint64_t block, void *buf)
{
    struct block_sum sum = read_sum(x, block);
    uint32_t len = shard_block_len(x, block);

    if (atomic_load(&x->present[block]))
        return;
    if (sum.present == 1 && pread(x->data, buf, len, (off_t)(block * UNIT_BYTES)) == (ssize_t)len &&
        crc32c(0, buf, len) == sum.crc)
        set_present(x, block);
    else
        hold(x, block, false);
}

void shard_check(struct shard *shard)
{
    cleanup_free char *buf = xmalloc(UNIT_BYTES);

    for (uint64_t i = 0; i < shard->n_blocks; i++)
        check_block(shard, i, buf);
    atomic_store(&shard->checked, true);
}

/* Half a block would fill a disk to its last byte, and leave no room for catalogs. */
static void give_back(const struct shard *x, uint64_t block)
{
    (void)fallocate(x->data, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t)(block * UNIT_BYTES), shard_block_len(x, block));
}

int shard_put(struct shard *shard, uint64_t block, const void *bytes, size_t len, struct err *err)
{
    struct block_sum sum = {.crc = crc32c(0, bytes, len), .present = 1};

    if (len != shard_block_len(shard, block))
        return err_set(err, ERR_CORRUPT, "block %llu has %zu bytes, not %u",
                       (unsigned long long)block, len, shard_block_len(shard, block));
    if (shard->tier && !cache_guests_may_write(shard->tier, len))
        return err_set(err, ERR_LIMIT,
                       "the disk's free space is at the floor (make room there, or lower "
                       "--free-space)");
    errno = ENOSPC; /* what a short write means */
    if (pwrite(shard->data, bytes, len, (off_t)(block * UNIT_BYTES)) != (ssize_t)len ||
        pwrite(shard->sums, &sum, sizeof(sum), sum_at(block)) != (ssize_t)sizeof(sum)) {
        err_sys(err, errno, "write a whole object");
        give_back(shard, block);
        return -1;
    }
    set_present(shard, block);
    return 0;
}

int shard_fd_for(struct shard *shard, uint64_t off, uint64_t len)
{
    cleanup_free char *buf = NULL;

    if (!len || off >= shard->size)
        return -1;
    if (len > shard->size - off)
        len = shard->size - off;
    for (uint64_t i = off / UNIT_BYTES; i <= (off + len - 1) / UNIT_BYTES; i++) {
        if (!atomic_load(&shard->present[i]) && !atomic_load(&shard->checked)) {
            if (!buf)
                buf = xmalloc(UNIT_BYTES);
            check_block(shard, i, buf);
        }
        if (!atomic_load(&shard->present[i]))
            return -1;
    }
    return shard->data;
}
