/* The blocks of whole objects: written, verified, read. shard-internal.h tells their life. */
#include "shard-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "cache.h"
#include "cleanup.h"
#include "crc.h"
#include "mem.h"

struct block_sum {
    uint32_t crc, present;
};

off_t shard_sum_at(uint64_t block)
{
    return (off_t)(SHARD_HEAD_BYTES + block * sizeof(struct block_sum));
}

static uint64_t in_pages(uint64_t bytes)
{
    return (bytes + SHARD_PAGE_BYTES - 1) / SHARD_PAGE_BYTES * SHARD_PAGE_BYTES;
}

uint64_t shard_cost(uint64_t size)
{
    return in_pages(size) + in_pages((uint64_t)shard_sum_at(unit_blocks(size)));
}

/* All 0 where there is none. */
static struct block_sum read_sum(const struct shard *x, uint64_t block)
{
    struct block_sum sum;

    if (pread(x->sums, &sum, sizeof(sum), shard_sum_at(block)) != (ssize_t)sizeof(sum))
        return (struct block_sum){0};
    return sum;
}

bool shard_has_sum(const struct shard *x, uint64_t block)
{
    return read_sum(x, block).present == 1;
}

static void hold(struct shard *x, uint64_t block, bool here)
{
    if (atomic_exchange(&x->held[block], here) != here && x->tier)
        cache_guests_hold(x->tier, x->id + block, shard_block_len(x, block), block == 0, here);
}

static void set_present(struct shard *x, uint64_t block)
{
    if (!atomic_exchange(&x->present[block], 1))
        atomic_fetch_add(&x->n_present, 1);
    hold(x, block, true);
}

/* As the disk has it now. `buf` is of UNIT_BYTES. */
static bool block_is_right(const struct shard *x, uint64_t block, void *buf)
{
    struct block_sum sum = read_sum(x, block);
    uint32_t len = shard_block_len(x, block);

    return sum.present == 1 &&
           pread(x->data, buf, len, (off_t)(block * UNIT_BYTES)) == (ssize_t)len &&
           crc32c(0, buf, len) == sum.crc;
}

/* Verifies one block that an earlier process left, with `buf` of UNIT_BYTES. Any thread. */
static void check_block(struct shard *x, uint64_t block, void *buf)
{
    if (atomic_load(&x->present[block]))
        return;
    if (block_is_right(x, block, buf))
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

int shard_has_room(const struct shard *shard, uint64_t block, struct err *err)
{
    if (!shard->tier || cache_guests_may_write(shard->tier, shard_block_len(shard, block)))
        return 0;
    return err_set(err, ERR_LIMIT,
                   "the disk has too little free space (make room there, or lower --free-space)");
}

int shard_put(struct shard *shard, uint64_t block, const void *bytes, size_t len, struct err *err)
{
    struct block_sum sum = {.crc = crc32c(0, bytes, len), .present = 1};

    if (len != shard_block_len(shard, block))
        return err_set(err, ERR_CORRUPT, "block %llu has %zu bytes, not %u",
                       (unsigned long long)block, len, shard_block_len(shard, block));
    if (shard_has_room(shard, block, err) < 0)
        return -1;
    errno = ENOSPC; /* what a short write means */
    if (pwrite(shard->data, bytes, len, (off_t)(block * UNIT_BYTES)) != (ssize_t)len ||
        pwrite(shard->sums, &sum, sizeof(sum), shard_sum_at(block)) != (ssize_t)sizeof(sum)) {
        err_sys(err, errno, "write a whole object");
        give_back(shard, block);
        return -1;
    }
    set_present(shard, block);
    return 0;
}

/* --- for the cache, whose guests they are --- */

/* It is fetched anew; the shard goes with its last user, as none is written over. */
static void give_up(struct shards *s, struct shard *x, uint64_t block)
{
    hold(x, block, false);
    shards_doom(s, x);
}

static int64_t read_block(struct shard *x, uint64_t block, uint32_t off, void *buf, uint32_t len)
{
    uint32_t all = shard_block_len(x, block);

    if (!atomic_load(&x->present[block])) {
        cleanup_free char *whole = xmalloc(UNIT_BYTES);
        check_block(x, block, whole);
    }
    if (!atomic_load(&x->present[block]))
        return -1;
    off = off < all ? off : all;
    len = len < all - off ? len : all - off;
    ssize_t n = pread(x->data, buf, len, (off_t)(block * UNIT_BYTES + off));
    return n == (ssize_t)len ? n : -1;
}

int64_t shards_read(void *shards, uint64_t unit, uint32_t off, void *buf, uint32_t len)
{
    struct shards *s = shards;
    struct shard *x = shards_use_holder(s, unit);

    if (!x)
        return -1;
    int64_t n = read_block(x, unit - x->id, off, buf, len);
    if (n < 0)
        give_up(s, x, unit - x->id);
    shards_unuse(s, x);
    return n;
}

int shards_verify(void *shards, uint64_t unit, struct err *err)
{
    struct shards *s = shards;
    struct shard *x = shards_use_holder(s, unit);
    cleanup_free char *buf = xmalloc(UNIT_BYTES);

    if (!x)
        return err_set(err, ERR_NOT_FOUND, "unit %llu: its whole object can't be opened in %s",
                       (unsigned long long)unit, s->dir);
    bool right = block_is_right(x, unit - x->id, buf);
    if (!right)
        give_up(s, x, unit - x->id);
    shards_unuse(s, x);
    if (right)
        return 0;
    return err_set(err, ERR_CORRUPT, "unit %llu: a whole object in %s: a checksum does not match",
                   (unsigned long long)unit, s->dir);
}
