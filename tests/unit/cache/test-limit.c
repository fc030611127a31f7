/* Limits: to the byte under parallel fill; full and failing disks; the free-space floor. */
#include "fixture.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "clock.h"

struct filler {
    struct rig *r;
    uint64_t from;
    atomic_bool *stop;
    uint64_t worst;
};

static void *fill(void *arg)
{
    struct filler *me = arg;
    for (uint64_t i = 0; i < 150; i++)
        cr_assert_eq(rig_read(me->r, me->from + i, 0, UNIT_BYTES, NULL, NULL), 0);
    return NULL;
}

static void *watch(void *arg)
{
    struct filler *me = arg;
    while (!atomic_load(me->stop)) {
        uint64_t now = folder_size(me->r->dir);
        if (now > me->worst)
            me->worst = now;
    }
    return NULL;
}

Test(limit, holds_under_parallel_fill)
{
    const uint64_t limit = 20u << 20;
    for (int compressible = 0; compressible < 2; compressible++) {
        struct rig r;
        struct filler me[8], watcher;
        pthread_t threads[8], watching;
        atomic_bool stop = false;
        rig_begin(&r, 60000, limit, true);
        r.catalog.vary = true;
        r.catalog.compressible = compressible;
        rig_open(&r);
        watcher = (struct filler){&r, 0, &stop, 0};
        thread_start(&watching, "watcher", watch, &watcher);
        for (uint64_t i = 0; i < 8; i++) {
            me[i] = (struct filler){&r, 1 + i * 150, NULL, 0};
            thread_start(&threads[i], "filler", fill, &me[i]);
        }
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
        cr_assert_eq(cache_flush(r.cache, NULL), 0);
        atomic_store(&stop, true);
        pthread_join(watching, NULL);
        uint64_t size = folder_size(r.dir);
        cr_assert(watcher.worst <= limit && size <= limit, "%llu", (unsigned long long)size);
        struct cache_stat st;
        cache_stat(r.cache, &st);
        cr_assert(st.tiers[0].used >= size && st.tiers[0].used <= limit);
        if (!compressible) { /* 36 MB do not fit: filled to the last units, and the rest not kept */
            cr_assert(size > limit - 300000, "%llu", (unsigned long long)size);
            cr_assert(counter_get(&cache_counts(r.cache)->not_kept) > 100);
            cr_assert_str_eq(st.tiers[0].state, "full");
        } else {
            cr_assert(st.compressed && st.ratio < 0.5 && st.units == 1200, "%llu units",
                      (unsigned long long)st.units);
        }
        rig_end(&r);
    }
}

/* Units 1, 2, … ahead of readers, as many as find room. */
static size_t ask_ahead(struct rig *r, struct call *calls, size_t most)
{
    size_t n = 0;
    int rc = 0;
    while (n < most && (rc = call_if_kept(r, &calls[n], 1 + n)) == SOURCE_PENDING)
        n++;
    cr_assert_eq(rc, SOURCE_NO_ROOM, "after %zu: %d %s", n, rc, calls[n < most ? n : 0].err.msg);
    return n;
}

/* What comes first does not take the room of what was promised some. */
Test(limit, what_is_fetched_ahead_has_its_room_before_it_comes)
{
    enum { READERS = 20, MOST = 200 };
    struct rig r;
    struct call readers[READERS], ahead[MOST];
    rig_begin(&r, 100000, 8u << 20, true);
    rig_open(&r);
    rig_release(&r, true);
    for (uint64_t i = 0; i < READERS; i++)
        cr_assert_eq(call_start(&r, &readers[i], 1000 + i, PRIO_READER), SOURCE_PENDING);
    size_t n = ask_ahead(&r, ahead, MOST);
    cr_expect(n > 60 && n < 84, "%zu", n);
    cr_expect_eq(atomic_load(&r.fake.reads), (int)n + READERS,
                 "who finds no room is not asked for");
    rig_release(&r, false);
    for (size_t i = 0; i < READERS; i++) {
        call_wait(&readers[i]);
        view_release(&readers[i].view);
        cr_expect_eq(cache_where(r.cache, 1000 + i), -1);
    }
    for (size_t i = 0; i < n; i++)
        call_wait(&ahead[i]);
    cr_assert_eq(cache_flush(r.cache, NULL), 0);
    cr_expect(cache_has_all(r.cache, 1, n));
    cr_expect_eq(counter_get(&cache_counts(r.cache)->not_kept), READERS);
    cr_expect(folder_size(r.dir) <= 8u << 20);
    rig_end(&r);
}

static uint64_t reserved(struct rig *r)
{
    ACQUIRE(&r->cache->tiers[0]->lock);
    return r->cache->tiers[0]->reserved;
}

Test(limit, room_reserved_for_what_does_not_come_is_given_back)
{
    enum { MOST = 200 };
    struct rig r;
    struct call calls[MOST];
    rig_begin(&r, 100000, 8u << 20, true);
    rig_open(&r);
    atomic_store(&r.fake.refusing, true);
    cr_expect_eq(call_if_kept(&r, &calls[0], 1), -1);
    cr_expect_eq(calls[0].err.class, ERR_LIMIT);
    cr_expect_eq(reserved(&r), 0);
    atomic_store(&r.fake.refusing, false);
    for (int dropped = 0; dropped < 2; dropped++) { /* or its fetch fails */
        rig_release(&r, true);
        atomic_store(&r.fake.failing, !dropped);
        size_t n = ask_ahead(&r, calls, MOST);
        cr_expect(reserved(&r) > 6u << 20);
        for (size_t i = 0; i < n && dropped; i++)
            cache_drop(r.cache, 1 + i);
        rig_release(&r, false);
        for (size_t i = 0; i < n; i++) {
            call_wait(&calls[i]);
            cr_expect_eq(atomic_load(&calls[i].done), dropped ? 1 : -1);
        }
        cr_expect_eq(reserved(&r), 0);
    }
    rig_end(&r);
}

/* Who wants it kept does not wait for a flight of which nobody knows whether it will be. */
Test(limit, a_readers_flight_promises_nothing)
{
    struct rig r;
    struct call reader, ahead, again;
    rig_begin(&r, 100000, 8u << 20, true);
    rig_open(&r);
    rig_release(&r, true);
    cr_assert_eq(call_start(&r, &reader, 1, PRIO_WARMUP), SOURCE_PENDING);
    cr_expect_eq(call_if_kept(&r, &ahead, 1), 0);
    cr_expect_eq(call_if_kept(&r, &ahead, 2), SOURCE_PENDING);
    cr_expect_eq(call_if_kept(&r, &again, 2), SOURCE_PENDING);
    rig_release(&r, false);
    call_wait(&reader);
    view_release(&reader.view);
    call_wait(&ahead);
    call_wait(&again);
    cr_expect_eq(atomic_load(&r.fake.reads), 2);
    rig_end(&r);
}

Test(limit, a_full_cache_keeps_what_it_has)
{
    struct rig r;
    rig_begin(&r, 100000, 2u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 60);
    int kept = 0;
    for (uint64_t u = 1; u <= 60; u++)
        kept += cache_where(r.cache, u) == 0;
    cr_assert(kept >= 15 && kept < 21, "%d", kept);
    cr_assert(cache_has_all(r.cache, 1, (uint64_t)kept));
    cr_assert_eq(counter_get(&cache_counts(r.cache)->evicted_units), 0);
    rig_end(&r);
}

Test(limit, the_next_tier_takes_what_the_first_cannot)
{
    struct rig r;
    rig_begin(&r, 100000, 1u << 20, false);
    char *second = xasprintf("%s-second", r.dir);
    r.conf.n_tiers = 2;
    r.conf.tiers[1] = (struct tier_conf){.kind = TIER_HDD, .dir = second, .limit = 4u << 20};
    rig_open(&r);
    rig_fill(&r, 1, 30);
    cr_assert_eq(cache_where(r.cache, 1), 0);
    cr_assert_eq(cache_where(r.cache, 30), 1);
    cr_assert(cache_has_all(r.cache, 1, 30));
    cr_assert(folder_size(second) <= 4u << 20);
    cache_evict_to(r.cache, 1u << 20);
    cr_assert(folder_size(second) + folder_size(r.dir) <= (1u << 20) + 80000);
    char *copy = xstrdup(second);
    rig_end(&r);
    rig_remove(copy);
    free(copy);
}

Test(limit, foreign_bytes_count)
{
    struct rig r;
    rig_begin(&r, 100000, 3u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 25);
    FILE *f = fopen(rig_path(&r, "notes"), "w");
    cr_assert(f);
    cr_assert_eq(ftruncate(fileno(f), 1u << 20), 0);
    fclose(f);
    clock_advance(2 * NS_PER_S);
    rig_fill(&r, 1000, 1);
    cache_evict_to(r.cache, UINT64_MAX / 2);
    rig_close(&r);
    rig_open(&r); /* upkeep runs at once */
    for (int i = 0; i < 30000 && folder_size(r.dir) > 3u << 20; i++)
        usleep(10000);
    cr_assert(folder_size(r.dir) <= 3u << 20);
    rig_end(&r);
}

struct looker {
    struct tier *tier;
    atomic_int looks;
    atomic_bool stop;
};

static void *look(void *arg)
{
    struct looker *me = arg;
    do {
        tier_look(me->tier);
        atomic_fetch_add(&me->looks, 1);
    } while (!atomic_load(&me->stop));
    return NULL;
}

/* Also those that are told of while the writer looks at the folder, as it does after each start. */
Test(limit, guests_are_counted_once)
{
    const uint64_t files = 2000, bytes = files * 10000;
    struct cache_stat st;
    struct rig r;
    rig_begin(&r, 1000, 64u << 20, false);
    cr_assert_eq(mkdir(rig_path(&r, CACHE_GUESTS), 0700), 0);
    for (uint64_t i = 0; i < files; i++) {
        char name[64];
        snprintf(name, sizeof name, CACHE_GUESTS "/%llu.data", (unsigned long long)i);
        int fd = open(rig_path(&r, name), O_WRONLY | O_CREAT, 0600);
        cr_assert_eq(ftruncate(fd, 10000), 0);
        close(fd);
    }
    for (int turn = 0; turn < 5; turn++) {
        rig_open(&r);
        struct looker looker = {.tier = r.cache->tiers[0]};
        pthread_t thread;
        thread_start(&thread, "looker", look, &looker);
        while (atomic_load(&looker.looks) < 2)
            usleep(100);
        atomic_store(&looker.stop, true); /* one look is under way, most likely */
        struct tier *t = cache_guests(r.cache, rig_path(&r, CACHE_GUESTS), NULL, NULL);
        cr_assert(t && cache_guests_take(t, bytes));
        pthread_join(thread, NULL);
        cache_stat(r.cache, &st);
        cr_expect_geq(st.tiers[0].used, bytes);
        cr_expect_lt(st.tiers[0].used, bytes + bytes / 2);
        rig_close(&r);
    }
    rig_end(&r);
}

/* A look that was begun before files went may end after one that was begun since. */
Test(limit, what_is_gone_is_not_counted_by_an_earlier_look)
{
    const uint64_t files = 2000, bytes = files * 10000;
    struct cache_stat st;
    struct rig r;
    rig_begin(&r, 1000, 64u << 20, false);
    rig_open(&r);
    for (int turn = 0; turn < 5; turn++) {
        char name[64];
        snprintf(name, sizeof name, "others-%d", turn);
        cleanup_free char *folder = xstrdup(rig_path(&r, name));
        cleanup_free char *away = xstrdup(rig_path(&r, ""));
        away[strlen(away) - 1] = '-'; /* beside the cache's folder */
        cr_assert_eq(mkdir(folder, 0700), 0);
        for (uint64_t i = 0; i < files; i++) {
            cleanup_free char *file = xasprintf("%s/%llu", folder, (unsigned long long)i);
            int fd = open(file, O_WRONLY | O_CREAT, 0600);
            cr_assert_eq(ftruncate(fd, 10000), 0);
            close(fd);
        }
        struct looker looker = {.tier = r.cache->tiers[0]};
        pthread_t thread;
        thread_start(&thread, "looker", look, &looker);
        while (atomic_load(&looker.looks) < 2)
            usleep(100);
        usleep(500); /* one is under way, most likely */
        cr_assert_eq(rename(folder, away), 0);
        atomic_store(&looker.stop, true);
        tier_look(r.cache->tiers[0]);
        pthread_join(thread, NULL);
        cache_stat(r.cache, &st);
        cr_expect_lt(st.tiers[0].used, bytes / 2);
        cr_assert_eq(rename(away, folder), 0);
        for (uint64_t i = 0; i < files; i++) {
            cleanup_free char *file = xasprintf("%s/%llu", folder, (unsigned long long)i);
            unlink(file);
        }
        cr_assert_eq(rmdir(folder), 0);
    }
    rig_end(&r);
}

Test(limit, guests_leave_the_free_space_floor_alone)
{
    struct rig r;
    rig_begin(&r, 1000, 64u << 20, false);
    cr_assert_eq(mkdir(rig_path(&r, CACHE_GUESTS), 0700), 0);
    rig_open(&r);
    struct tier *t = cache_guests(r.cache, rig_path(&r, CACHE_GUESTS), NULL, NULL);
    cr_expect(cache_guests_may_write(t, 1));
    rig_close(&r);
    r.conf.free_bytes = 1ull << 60;
    rig_open(&r);
    t = cache_guests(r.cache, rig_path(&r, CACHE_GUESTS), NULL, NULL);
    cr_expect_not(cache_guests_may_write(t, 1));
    cr_expect_not(cache_guests_take(t, 1));
    cr_expect_eq(cache_guests_found(t, 1u << 20), 0); /* it lies there already */
    uint64_t over = cache_guests_found(t, 64u << 20);
    cr_expect(over > 1u << 20 && over < 2u << 20, "%llu", (unsigned long long)over);
    rig_end(&r);
}

Test(limit, a_file_size_limit_is_a_full_disk)
{
    struct rig r;
    struct rlimit old, low;
    struct cache_stat st;
    signal(SIGXFSZ, SIG_IGN);
    rig_begin(&r, 100000, 64u << 20, false);
    rig_open(&r);
    getrlimit(RLIMIT_FSIZE, &old);
    low = old;
    low.rlim_cur = 1u << 20;
    rig_fill(&r, 1, 5);
    setrlimit(RLIMIT_FSIZE, &low);
    rig_fill(&r, 6, 25);
    cache_stat(r.cache, &st);
    cr_assert_str_eq(st.tiers[0].state, "full");
    cr_assert(counter_get(&cache_counts(r.cache)->append_errors) > 0);
    setrlimit(RLIMIT_FSIZE, &old);
    cr_assert(cache_has_all(r.cache, 1, 5));
    cr_assert_eq(rig_read(&r, 1, 0, UNIT_BYTES, NULL, NULL), 0);
    clock_advance(6 * NS_PER_S);
    rig_fill(&r, 100, 5);
    cr_assert(cache_has_all(r.cache, 100, 5));
    cache_stat(r.cache, &st);
    cr_assert_str_eq(st.tiers[0].state, "ok");
    for (uint64_t u = 1; u <= 30; u++)
        cr_assert_eq(rig_read(&r, u, 0, UNIT_BYTES, NULL, NULL), 0);
    cr_assert_eq(cache_counts(r.cache)->corrupt, 0);
    rig_end(&r);
}

Test(limit, a_small_file_system)
{
    struct rig r;
    struct cache_stat st;
    rig_begin(&r, 100000, 64u << 20, false);
    if (mount("none", r.dir, "tmpfs", 0, "size=4m")) {
        rig_end(&r);
        cr_skip_test("no right to mount");
    }
    r.conf.tiers[0].kind = TIER_MEM;
    rig_open(&r);
    rig_fill(&r, 1, 80);
    cache_stat(r.cache, &st);
    cr_assert_str_eq(st.tiers[0].state, "full");
    for (uint64_t u = 1; u <= 80; u++)
        cr_assert_eq(rig_read(&r, u, 0, UNIT_BYTES, NULL, NULL), 0);
    cr_assert(cache_has_all(r.cache, 1, 20));
    rig_close(&r);
    r.conf.free_fraction = 0.5;
    cr_assert_eq(umount(r.dir), 0);
    cr_assert_eq(mount("none", r.dir, "tmpfs", 0, "size=4m"), 0);
    rig_open(&r);
    rig_fill(&r, 1, 80);
    cr_assert(tier_free_bytes(r.cache->tiers[0]) >= 2u << 20);
    cr_assert(tier_free_bytes(r.cache->tiers[0]) < (2u << 20) + 250000);
    rig_close(&r);
    umount(r.dir);
    rig_end(&r);
}

static uint64_t excess;

static int add_excess(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)path, (void)at;
    uint64_t room = (uint64_t)st->st_blocks * 512, pages = ((uint64_t)st->st_size + 4095) / 4096;
    if (type == FTW_F && room > pages * 4096)
        excess += room - pages * 4096;
    return 0;
}

/* Blocks are asked for before the bytes come: none may stay where none came. A file system in
 * memory gives just what it is asked for, in pages. */
Test(limit, packs_hold_no_blocks_beyond_their_bytes)
{
    struct rig r;
    struct cache_stat st;
    rig_begin(&r, 1000000, 64u << 20, false);
    if (mount("none", r.dir, "tmpfs", 0, "size=16m")) {
        rig_end(&r);
        cr_skip_test("no right to mount");
    }
    rig_open(&r);
    for (uint64_t u = 1; u <= 30; u++) {
        rig_fill(&r, u, 1);
        cr_assert_eq(nftw(r.dir, add_excess, 16, FTW_PHYS), 0);
        cr_assert_eq(excess, 0);
    }
    cache_stat(r.cache, &st);
    cr_assert_str_eq(st.tiers[0].state, "full");
    cr_assert(counter_get(&cache_counts(r.cache)->append_errors) > 0);
    cr_assert(cache_has_all(r.cache, 1, 12));
    for (uint64_t u = 1; u <= 30; u++)
        cr_assert_eq(rig_read(&r, u, 0, UNIT_BYTES, NULL, NULL), 0);
    rig_close(&r);
    umount(r.dir);
    rig_end(&r);
}

Test(limit, a_failing_disk_is_set_aside)
{
    struct rig r;
    struct cache_stat st;
    rig_begin(&r, 100000, 64u << 20, false);
    if (mount("none", r.dir, "tmpfs", 0, "size=32m")) {
        rig_end(&r);
        cr_skip_test("no right to mount");
    }
    rig_open(&r);
    rig_fill(&r, 1, 5);
    cr_assert_eq(rig_read(&r, 1, 0, UNIT_BYTES, NULL, NULL), 0);
    close(r.cache->tiers[0]->active->fd); /* every append fails with EBADF */
    r.cache->tiers[0]->active->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    rig_fill(&r, 10, 3);
    cache_stat(r.cache, &st);
    cr_assert_str_eq(st.tiers[0].state, "failed");
    cr_assert(st.tiers[0].why[0]);
    uint64_t errors = counter_get(&cache_counts(r.cache)->append_errors);
    for (uint64_t u = 1; u <= 20; u++)
        cr_assert_eq(rig_read(&r, u, 0, UNIT_BYTES, NULL, NULL), 0);
    cr_assert(cache_has_all(r.cache, 1, 5));
    cr_assert_eq(counter_get(&cache_counts(r.cache)->append_errors), errors);
    clock_advance(31 * NS_PER_S);
    rig_fill(&r, 30, 5);
    cr_assert(cache_has_all(r.cache, 31, 4));
    cache_stat(r.cache, &st);
    cr_assert_str_eq(st.tiers[0].state, "ok");
    rig_close(&r);
    umount(r.dir);
    rig_end(&r);
}
