#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "fake-volume.h"
#include "shard-internal.h"

static char dir[64];
static unsigned char block[UNIT_BYTES], got[UNIT_BYTES];

#define SMALL ((uint64_t)2 * SHARD_PAGE_BYTES) /* what an object of a page at most takes */

static void begin(void)
{
    snprintf(dir, sizeof(dir), "/tmp/fuse-shards-XXXXXX");
    cr_assert(mkdtemp(dir));
    for (size_t i = 0; i < sizeof(block); i++)
        block[i] = (unsigned char)(i * 7 + i / 999);
}

static void end(struct shards *s)
{
    struct shard *x;

    while ((x = TAILQ_FIRST(&s->by_use))) {
        x->users = 0;
        shards_drop(s, x->id);
    }
    shards_close(s);
    cr_assert_eq(rmdir(dir), 0); /* nothing is left behind */
}

static void put(struct shard *x, uint64_t i)
{
    struct err err = {0};

    cr_assert_eq(shard_put(x, i, block, shard_block_len(x, i), &err), 0, "%s", err.msg);
}

Test(shard, is_filled_block_by_block)
{
    struct shards s;
    struct err err = {0};

    begin();
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    struct shard *x = shards_use(&s, 9, UNIT_BYTES + 5);
    cr_assert(x);
    cr_assert_eq(x->n_blocks, 2);
    cr_assert_eq(shard_block_len(x, 0), UNIT_BYTES);
    cr_assert_eq(shard_block_len(x, 1), 5);
    cr_assert_eq(shards_read(&s, 9, 0, got, 1), -1);
    put(x, 1);
    cr_assert_eq(shards_read(&s, 10, 0, got, 1), 1);
    cr_assert(!shard_complete(x));
    cr_assert_eq(shard_put(x, 0, block, 5, &err), -1); /* of the wrong size */
    put(x, 0);
    cr_assert(shard_complete(x));
    cr_assert(shards_complete(&s, 9));
    cr_assert_eq(shards_read(&s, 9, 5, got, UNIT_BYTES), UNIT_BYTES - 5);
    cr_assert_arr_eq(got, block + 5, UNIT_BYTES - 5);
    cr_assert_eq(shards_read(&s, 10, 5, got, 1), 0);
    shards_unuse(&s, x);
    end(&s);
}

Test(shard, shares_the_limit_of_its_tier)
{
    struct shards s;
    struct err err = {0};
    struct fake_tier tier = {.limit = 3000};

    begin();
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    shards_unuse(&s, shards_use(&s, 1, 1000));
    shards_unuse(&s, shards_use(&s, 2, 1900));
    uint64_t one_less = shards_used(&s) - 1;
    tier.limit = one_less;
    shards_set_tier(&s, (struct tier *)(void *)&tier); /* what does not fit goes */
    cr_assert_eq(tier.taken, shards_used(&s));
    cr_assert_leq(tier.taken, one_less);
    cr_assert_null(shards_use(&s, 3, 2500)); /* another may fill what is left of the tier */
    cr_assert_eq(tier.taken, shards_used(&s));
    shards_drop(&s, 1);
    shards_drop(&s, 2);
    cr_assert_eq(tier.taken, 0);
    cr_assert(shards_use(&s, 3, 2500));
    cr_assert_eq(tier.taken, shards_used(&s));
    end(&s);
}

/* What is open stays, and is counted all the same. */
Test(shard, what_is_open_beyond_the_limit_is_counted_too)
{
    struct shards s;
    struct err err = {0};
    struct fake_tier tier = {.limit = 1500};

    begin();
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    struct shard *x = shards_use(&s, 1, 1000);
    shards_unuse(&s, shards_use(&s, 2, 1000));
    struct shard *y = shards_use(&s, 3, 1000);
    put(x, 0);
    shards_set_tier(&s, (struct tier *)(void *)&tier);
    cr_expect_eq(tier.taken, shards_used(&s));
    cr_expect_eq(tier.taken, 2 * SMALL);
    cr_expect_eq(tier.bytes, 1000);
    shards_unuse(&s, x);
    shards_unuse(&s, y);
    shards_drop(&s, 1);
    cr_expect_eq(tier.taken, SMALL);
    cr_expect_eq(tier.bytes, 0);
    end(&s);
}

/* Before each block: the limit counts all of a file, the disk what was written of it. */
Test(shard, leaves_the_free_space_floor_of_its_tier_alone)
{
    struct shards s;
    struct err err = {0};
    struct fake_tier tier = {.limit = 64 << 20, .disk_room = 4};

    begin();
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    shards_set_tier(&s, (struct tier *)(void *)&tier);
    struct shard *x = shards_use(&s, 9, UNIT_BYTES + 5);
    cr_expect_eq(shard_put(x, 1, block, 5, &err), -1);
    cr_expect_eq(err.class, ERR_LIMIT);
    cr_expect(strstr(err.msg, "--free-space"), "%s", err.msg);
    tier.disk_room = 5;
    put(x, 1);
    end(&s);
}

/* Of small objects the disk takes far more than their bytes. */
Test(shard, what_the_disk_takes_is_counted)
{
    static const uint64_t sizes[] = {1, SHARD_PAGE_BYTES, SHARD_PAGE_BYTES + 1, UNIT_BYTES + 5};
    struct shards s;
    struct err err = {0};
    uint64_t taken = 0;

    begin();
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    for (uint64_t i = 0; i < 4; i++) {
        struct shard *x = shards_use(&s, 10 * i + 1, sizes[i]);
        struct stat st;
        for (uint64_t b = 0; b < x->n_blocks; b++)
            put(x, b);
        cr_assert_eq(fsync(x->data) | fsync(x->sums), 0);
        cr_assert_eq(fstat(x->data, &st), 0);
        taken += (uint64_t)st.st_blocks * 512;
        cr_assert_eq(fstat(x->sums, &st), 0);
        taken += (uint64_t)st.st_blocks * 512;
    }
    cr_expect_eq(shards_used(&s), UNIT_BYTES + 9 * SHARD_PAGE_BYTES);
    cr_expect_leq(taken, shards_used(&s));
    end(&s);
}

Test(shard, half_a_block_takes_no_room)
{
    struct shards s;
    struct err err = {0};
    struct rlimit limit;
    struct stat before, after;

    begin();
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    struct shard *x = shards_use(&s, 9, 2 * UNIT_BYTES);
    put(x, 0);
    cr_assert_eq(fstat(x->data, &before), 0);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = UNIT_BYTES + UNIT_BYTES / 2; /* a disk that is full there */
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_expect_eq(shard_put(x, 1, block, UNIT_BYTES, &err), -1);
    cr_expect_eq(err.sys, ENOSPC);
    cr_assert_eq(fstat(x->data, &after), 0);
    cr_expect_eq(after.st_blocks, before.st_blocks);
    cr_expect_eq(after.st_size, before.st_size);
    end(&s);
}

/* Blocks are, and an object with its first; of an earlier process too, until one proves torn. */
Test(shard, what_is_cached_is_counted)
{
    struct shards s;
    struct err err = {0};
    struct fake_tier tier = {.limit = 64 << 20, .disk_room = UINT64_MAX};
    char path[128];

    begin();
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    shards_set_tier(&s, (struct tier *)(void *)&tier);
    struct shard *x = shards_use(&s, 9, UNIT_BYTES + 5);
    cr_expect_eq(tier.bytes, 0);
    put(x, 1);
    cr_expect(tier.samples == 0 && tier.bytes == 5);
    put(x, 0);
    put(x, 0);
    cr_expect(tier.samples == 1 && tier.bytes == UNIT_BYTES + 5);
    shards_close(&s);
    snprintf(path, sizeof(path), "%s/9.data", dir);
    int fd = open(path, O_WRONLY);
    cr_assert_eq(pwrite(fd, "x", 1, UNIT_BYTES + 1), 1);
    close(fd);
    tier = (struct fake_tier){.limit = 64 << 20};
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    shards_set_tier(&s, (struct tier *)(void *)&tier);
    cr_expect(tier.samples == 1 && tier.bytes == UNIT_BYTES + 5);
    x = shards_use(&s, 9, UNIT_BYTES + 5);
    shard_check(x);
    cr_expect(tier.samples == 1 && tier.bytes == UNIT_BYTES);
    shards_drop(&s, 9);
    cr_expect(tier.samples == 1 && tier.bytes == UNIT_BYTES); /* it is in use */
    shards_unuse(&s, x);
    cr_expect(tier.samples == 0 && tier.bytes == 0);
    end(&s);
}

Test(shard, of_another_lineage_is_another_object)
{
    struct shards s;
    struct err err = {0};

    begin();
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    put(shards_use(&s, 9, 5), 0);
    shards_close(&s);
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 2, &err), 0);
    cr_assert_eq(shards_used(&s), 0);
    cr_assert(!shard_complete(shards_use(&s, 9, 5)));
    end(&s);
}

Test(shard, survives_a_restart_but_not_a_flipped_bit)
{
    struct shards s;
    struct err err = {0};
    char path[128];

    begin();
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    struct shard *x = shards_use(&s, 9, 2 * UNIT_BYTES);
    put(x, 0);
    put(x, 1);
    shards_close(&s);
    snprintf(path, sizeof(path), "%s/9.data", dir);
    int fd = open(path, O_WRONLY);
    cr_assert_eq(pwrite(fd, "x", 1, UNIT_BYTES + 100), 1);
    close(fd);
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    cr_assert_gt(shards_used(&s), 2 * UNIT_BYTES);
    x = shards_use(&s, 9, 2 * UNIT_BYTES);
    cr_assert(!shard_complete(x)); /* nothing counts before it was verified */
    cr_assert_eq(shards_read(&s, 9, 10, got, 100), 100);
    shard_check(x);
    cr_assert_eq(atomic_load(&x->n_present), 1);
    cr_assert_eq(shards_read(&s, 10, 0, got, 1), -1);
    put(x, 1);
    cr_assert(shard_complete(x));
    shards_unuse(&s, x);
    end(&s);
}

/* It is counted no more, and goes with its last user. */
Test(shard, a_block_that_rots_is_found_when_it_is_verified)
{
    struct shards s;
    struct err err = {0};
    struct fake_tier tier = {.limit = 64 << 20, .disk_room = UINT64_MAX};

    begin();
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    shards_set_tier(&s, (struct tier *)(void *)&tier);
    struct shard *x = shards_use(&s, 9, UNIT_BYTES + 5);
    put(x, 0);
    put(x, 1);
    cr_assert_eq(pwrite(x->data, "x", 1, UNIT_BYTES + 1), 1);
    cr_expect_eq(shards_verify(&s, 9, &err), 0);
    cr_expect_eq(shards_verify(&s, 10, &err), -1);
    cr_expect_eq(err.class, ERR_CORRUPT);
    cr_expect(tier.samples == 1 && tier.bytes == UNIT_BYTES);
    cr_expect_eq(shards_verify(&s, 11, &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND);
    shards_unuse(&s, x);
    cr_expect(TAILQ_EMPTY(&s.by_use));
    cr_expect(tier.samples == 0 && tier.bytes == 0);
    end(&s);
}

#define IDLE_NS (CACHE_IDLE_MINUTES * 60 * NS_PER_S)

Test(shard, the_limit_holds_and_the_oldest_unused_goes)
{
    struct shards s;
    struct err err = {0};

    begin();
    cr_assert_eq(shards_open(&s, dir, 3 * SMALL - 1, 1, &err), 0);
    struct shard *a = shards_use(&s, 1, 1000);
    struct shard *b = shards_use(&s, 2, 1000);
    cr_assert(a && b);
    cr_assert(!shards_use(&s, 3, 1000));  /* both are in use */
    cr_assert(!shards_use(&s, 4, 50000)); /* never */
    shards_unuse(&s, a);
    shards_unuse(&s, b);
    b = shards_use(&s, 2, 1000);
    shards_unuse(&s, b);
    cr_assert(!shards_use(&s, 3, 1000)); /* both were used just now */
    cr_assert_eq(shards_used(&s), 2 * SMALL);
    clock_advance(IDLE_NS);
    struct shard *c = shards_use(&s, 3, 1000);
    cr_assert(c);
    cr_assert_leq(shards_used(&s), 3 * SMALL - 1);
    cr_assert_eq(TAILQ_FIRST(&s.by_use)->id, 2); /* 1 was the oldest */
    cr_assert_eq(TAILQ_LAST(&s.by_use, shard_queue)->id, 3);
    end(&s);
}

/* In whatever order the folder lists them. */
Test(shard, after_a_restart_the_oldest_go_first_too)
{
    enum { N = 40 };
    struct shards s;
    struct err err = {0};
    char path[128];

    begin();
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    for (uint64_t id = 1; id <= N; id++)
        shards_unuse(&s, shards_use(&s, id, 1000));
    uint64_t half = shards_used(&s) / 2;
    shards_close(&s);
    for (uint64_t id = 1; id <= N; id++) {
        const struct timespec at[2] = {{.tv_sec = 1000 + (int64_t)(id * 7 % 41)},
                                       {.tv_sec = 1000 + (int64_t)(id * 7 % 41)}};
        snprintf(path, sizeof(path), "%s/%llu.sums", dir, (unsigned long long)id);
        cr_assert_eq(utimensat(AT_FDCWD, path, at, 0), 0);
    }
    cr_assert_eq(shards_open(&s, dir, half, 1, &err), 0);
    cr_expect_eq(shards_used(&s), half);
    int64_t last = 0;
    struct shard *x;
    TAILQ_FOREACH (x, &s.by_use, by_use) {
        cr_expect_gt(x->used_at, last);
        cr_expect_gt(x->id * 7 % 41, N / 2, "%llu", (unsigned long long)x->id);
        last = x->used_at;
    }
    end(&s);
}

/* Every unit leads to its object, and one of no object to none. */
Test(shard, is_found_by_each_of_its_units)
{
    enum { N = 500, UNITS = 3 };
    struct shards s;
    struct err err = {0};

    begin();
    cr_assert_eq(shards_open(&s, dir, 1ull << 40, 1, &err), 0);
    for (uint64_t i = 0; i < N; i++) { /* all residues, in a mixed order; each with a gap behind */
        uint64_t id = 10 + i * 211 % N * (UNITS + 1);
        shards_unuse(&s, shards_use(&s, id, UNITS * UNIT_BYTES - i));
    }
    for (uint64_t unit = 0; unit < 20 + N * (UNITS + 1); unit++) {
        bool is_one =
            unit >= 10 && unit < 10 + N * (UNITS + 1) && (unit - 10) % (UNITS + 1) < UNITS;
        struct shard *x = shards_use_holder(&s, unit);
        cr_assert_eq(x != NULL, is_one, "%llu", (unsigned long long)unit);
        cr_assert(!x || x->id == 10 + (unit - 10) / (UNITS + 1) * (UNITS + 1));
        if (x)
            shards_unuse(&s, x);
    }
    cr_expect_null(shards_use(&s, 9, 2 * UNIT_BYTES)); /* its second unit is another's */
    cr_expect_null(shards_use(&s, 11, 5));
    end(&s);
}

Test(shard, one_that_is_pinned_goes_for_no_other)
{
    struct shards s;
    struct err err = {0};
    struct fake_tier tier = {.limit = 64 << 20, .pinned = 1};

    begin();
    cr_assert_eq(shards_open(&s, dir, 3 * SMALL - 1, 1, &err), 0);
    shards_set_tier(&s, (struct tier *)(void *)&tier);
    shards_unuse(&s, shards_use(&s, 1, 1000));
    shards_unuse(&s, shards_use(&s, 2, 900));
    clock_advance(IDLE_NS);
    shards_unuse(&s, shards_use(&s, 3, 1500));
    clock_advance(IDLE_NS);
    cr_expect_eq(shards_used(&s), 2 * SMALL); /* 2 went, though 1 is older */
    cr_expect_null(shards_use(&s, 4, 3 * SHARD_PAGE_BYTES));
    cr_expect_eq(shards_used(&s), 2 * SMALL); /* nor did 3, which does not suffice */
    end(&s);
}

static bool is_odd(const void *ctx, uint64_t unit)
{
    (void)ctx;
    return unit % 2;
}

/* In order, over and over: what fits stays, and is there each time. */
Test(shard, a_set_larger_than_the_limit_keeps_what_fits)
{
    struct shards s;
    struct err err = {0};

    begin();
    cr_assert_eq(shards_open(&s, dir, 5 * SMALL, 1, &err), 0);
    for (int epoch = 0; epoch < 5; epoch++)
        for (uint64_t id = 1; id <= 10; id++) {
            struct shard *x = shards_use(&s, id, 1000);
            cr_expect_eq(x != NULL, id <= 5);
            if (!x)
                continue;
            cr_expect_eq(shard_complete(x), epoch > 0);
            put(x, 0);
            shards_unuse(&s, x);
            clock_advance(IDLE_NS / 12);
        }
    end(&s);
}

/* Packs may have what is left of the tier: none goes for a new one that does not fit beside them.
 * The tier is told, and may get back what packs keep of dropped units. */
Test(shard, none_goes_where_packs_leave_no_room)
{
    struct shards s;
    struct err err = {0};
    struct fake_tier tier = {.limit = 10 * SMALL};

    begin();
    cr_assert_eq(shards_open(&s, dir, 3 * SMALL - 1, 1, &err), 0);
    shards_set_tier(&s, (struct tier *)(void *)&tier);
    shards_unuse(&s, shards_use(&s, 1, 1000));
    shards_unuse(&s, shards_use(&s, 2, 1000));
    clock_advance(IDLE_NS);
    tier.taken += 8 * SMALL;
    cr_expect_null(shards_use(&s, 3, 4 * SHARD_PAGE_BYTES));
    cr_expect_eq(tier.refused, 1);
    cr_expect_eq(shards_used(&s), 2 * SMALL);
    shards_unuse(&s, shards_use(&s, 3, 1000)); /* one is enough */
    cr_expect_eq(tier.refused, 1);
    cr_expect_eq(shards_used(&s), 2 * SMALL);
    cr_expect_eq(tier.taken, 10 * SMALL);
    tier.taken -= 8 * SMALL;
    end(&s);
}

/* At once, or with the last user; also where that is the end of the process. */
Test(shard, what_is_named_no_more_goes)
{
    struct shards s;
    struct err err = {0};

    begin();
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    for (uint64_t id = 1; id <= 4; id++)
        shards_unuse(&s, shards_use(&s, id, 1000));
    struct shard *x = shards_use(&s, 2, 1000);
    shards_name(&s, is_odd, NULL);
    cr_expect_eq(shards_used(&s), 3 * SMALL);
    shards_unuse(&s, x);
    cr_expect_eq(shards_used(&s), 2 * SMALL);
    shards_use(&s, 6, 1000);
    shards_name(&s, is_odd, NULL);
    shards_close(&s);
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    cr_expect_eq(shards_used(&s), 2 * SMALL);
    cr_expect_eq(shards_spare(&s, NULL, NULL), shards_used(&s));
    cr_expect_eq(shards_spare(&s, is_odd, NULL), 0);
    shards_shrink(&s, 0, is_odd, NULL);
    cr_expect_eq(shards_used(&s), 2 * SMALL);
    shards_shrink(&s, SMALL + 100, NULL, NULL);
    cr_expect_eq(shards_used(&s), SMALL);
    shards_shrink(&s, 0, NULL, NULL);
    cr_expect(TAILQ_EMPTY(&s.by_use));
    end(&s);
}

static size_t descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    size_t n = 0;

    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* As many objects as fit on a disk may lie there. */
Test(shard, nobodys_has_no_descriptor)
{
    struct shards s;
    struct err err = {0};
    char path[128];

    begin();
    size_t before = descriptors();
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    struct shard *x = shards_use(&s, 8, 5);
    struct shard *y = shards_use(&s, 9, 5);
    put(x, 0);
    put(y, 0);
    cr_expect_eq(descriptors(), before + 4);
    shards_unuse(&s, x);
    shards_unuse(&s, y);
    cr_expect_eq(descriptors(), before);
    x = shards_use(&s, 8, 5);
    cr_expect(shard_complete(x)); /* it was verified, and still is */
    cr_expect_eq(shards_read(&s, 8, 0, got, 5), 5);
    shards_unuse(&s, x);
    snprintf(path, sizeof(path), "%s/9.data", dir);
    cr_assert_eq(unlink(path), 0);
    y = shards_use(&s, 9, 5);
    cr_expect_not(shard_complete(y)); /* somebody removed it meanwhile */
    shards_close(&s);
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    cr_expect_eq(descriptors(), before);
    end(&s);
}

/* Of the same size, and at another time of the file system's clock, which may be coarse. */
static void write_later(const char *path)
{
    struct stat before, now;
    int fd = open(path, O_WRONLY);

    cr_assert_eq(fstat(fd, &before), 0);
    do {
        cr_assert_eq(pwrite(fd, "x", 1, 100), 1);
        cr_assert_eq(fstat(fd, &now), 0);
    } while (memcmp(&now.st_ctim, &before.st_ctim, sizeof(now.st_ctim)) == 0);
    close(fd);
}

/* Readers of a complete one get what the kernel reads there, without a look at it. */
Test(shard, one_that_was_changed_behind_us_is_verified_anew)
{
    struct shards s;
    struct err err = {0};
    char path[128];

    begin();
    cr_assert_eq(shards_open(&s, dir, 64 << 20, 1, &err), 0);
    struct shard *x = shards_use(&s, 9, UNIT_BYTES + 5);
    put(x, 0);
    put(x, 1);
    shards_unuse(&s, x);
    snprintf(path, sizeof(path), "%s/9.data", dir);
    cr_assert_eq(truncate(path, UNIT_BYTES + 1), 0);
    x = shards_use(&s, 9, UNIT_BYTES + 5);
    cr_expect_not(shard_complete(x));
    shard_check(x);
    cr_expect_eq(atomic_load(&x->n_present), 1);
    put(x, 1);
    cr_expect(shard_complete(x));
    shards_unuse(&s, x);
    x = shards_use(&s, 9, UNIT_BYTES + 5);
    cr_expect(shard_complete(x)); /* what was written here is known */
    shards_unuse(&s, x);
    write_later(path);
    x = shards_use(&s, 9, UNIT_BYTES + 5);
    cr_expect_not(shard_complete(x));
    cr_expect_eq(shards_read(&s, 9, 0, got, 100), -1);
    cr_expect_eq(shards_read(&s, 10, 0, got, 5), 5);
    shards_unuse(&s, x);
    end(&s);
}

Test(shard, foreign_and_broken_files)
{
    static const char *const names[] = {"5.sums", "6.data", "7.sums.tmp", "note"};
    struct shards s;
    struct err err = {0};
    char path[128];

    begin();
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        FILE *f = fopen(path, "w");
        fputs("not a shard", f);
        fclose(f);
    }
    cr_assert_eq(shards_open(&s, dir, 1 << 20, 1, &err), 0);
    cr_assert_eq(shards_used(&s), 0);
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        cr_assert_eq(access(path, F_OK) == 0, i >= 2, "%s", names[i]);
        unlink(path);
    }
    /* Another size under the same id is begun anew. */
    struct shard *x = shards_use(&s, 8, 100);
    put(x, 0);
    shards_close(&s);
    cr_assert_eq(shards_open(&s, dir, 1 << 20, 1, &err), 0);
    shards_drop(&s, 8);
    x = shards_use(&s, 8, 200);
    shard_check(x);
    cr_assert_eq(atomic_load(&x->n_present), 0);
    end(&s);
    cr_assert_eq(shards_open(&s, "/proc/nowhere", 1, 1, &err), -1);
}
