/* Damage and restarts: nothing wrong is ever delivered, and what is whole is found again. */
#include "fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "crc.h"

static void flip(const char *path, uint64_t at)
{
    unsigned char byte;
    int fd = open(path, O_RDWR);
    cr_assert(fd >= 0, "%s", path);
    cr_assert_eq(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= 0x40;
    cr_assert_eq(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

static uint64_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

static void read_all(struct rig *r, uint64_t n)
{
    struct err err = {0};
    for (uint64_t u = 1; u <= n; u++)
        cr_assert_eq(rig_read(r, u, 0, UNIT_BYTES, NULL, &err), 0, "%s", err.msg);
}

Test(damage, flips_in_a_pack_are_healed_and_counted)
{
    for (int lz4 = 0; lz4 < 2; lz4++) {
        struct rig r;
        rig_begin(&r, 300000, 64u << 20, false);
        r.catalog.compressible = lz4;
        rig_open(&r);
        atomic_store(&r.cache->trial.verdict, lz4 ? 1 : -1);
        rig_fill(&r, 1, 20);
        uint64_t size = size_of(rig_path(&r, "00000000.pack"));
        int before = atomic_load(&r.fake.reads);
        uint64_t flips = 0;
        for (uint64_t at = 64; at < size; at += size / 7, flips++)
            flip(rig_path(&r, "00000000.pack"), at);
        read_all(&r, 20); /* compares every byte */
        uint64_t corrupt = counter_get(&cache_counts(r.cache)->corrupt);
        cr_assert(corrupt > 0 && corrupt <= flips);
        cr_assert_eq((uint64_t)(atomic_load(&r.fake.reads) - before), corrupt);
        cr_assert_eq(cache_flush(r.cache, NULL), 0);
        read_all(&r, 20);
        cr_assert_eq(counter_get(&cache_counts(r.cache)->corrupt), corrupt);
        rig_end(&r);
    }
}

Test(damage, verify_tells)
{
    struct rig r;
    struct err err = {0};
    rig_begin(&r, 5000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 2);
    cr_assert_eq(cache_verify(r.cache, 1, &err), 0);
    cr_assert_eq(cache_verify(r.cache, 9, &err), -1);
    cr_assert_eq(err.class, ERR_NOT_FOUND);
    flip(rig_path(&r, "00000000.pack"), 64 + 200);
    cr_assert_eq(cache_verify(r.cache, 1, &err), -1);
    cr_assert_eq(err.class, ERR_CORRUPT);
    cr_assert_eq(cache_where(r.cache, 1), -1);
    cr_assert_eq(cache_verify(r.cache, 2, &err), 0);
    rig_end(&r);
}

Test(damage, a_cut_pack_is_no_crash)
{
    struct rig r;
    rig_begin(&r, 100000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 10);
    cr_assert_eq(truncate(rig_path(&r, "00000000.pack"), 300000), 0);
    read_all(&r, 10);
    cr_assert(counter_get(&cache_counts(r.cache)->corrupt) >= 6);
    rig_end(&r);
}

/* Units are not kept where their entries cannot be, and packs are begun all the same. */
Test(damage, a_cut_index_is_no_crash)
{
    struct rig r;
    rig_begin(&r, 2u << 20, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 1);
    cr_assert_eq(truncate(rig_path(&r, "own/index"), 0), 0);
    rig_fill(&r, 2, 4);
    cr_assert(size_of(rig_path(&r, "00000001.pack")) > 0);
    read_all(&r, 5);
    rig_end(&r);
}

#define BEGUN 200 /* packs by each of two tiers */

static void *begin_packs(void *arg)
{
    struct tier *t = arg;
    struct pack *p;
    for (int i = 0; i < BEGUN; i++)
        if (!tier_charge(t, sizeof(struct pack_head) + sizeof(struct journal_record)) ||
            pack_create(t, &p, NULL))
            return arg;
    return NULL;
}

Test(damage, the_index_is_believed_whoever_begins_packs)
{
    struct rig r;
    struct index_head head;
    pthread_t threads[2];
    void *failed;
    rig_begin(&r, 1000, 64u << 20, false);
    char *second = xasprintf("%s-second", r.dir);
    r.conf.n_tiers = 2;
    r.conf.tiers[1] = (struct tier_conf){.kind = TIER_HDD, .dir = second, .limit = 64u << 20};
    rig_open(&r);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, begin_packs, r.cache->tiers[i]), 0);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(pthread_join(threads[i], &failed), 0);
        cr_assert_null(failed);
    }
    int fd = open(rig_path(&r, "own/index"), O_RDONLY);
    cr_assert_eq(pread(fd, &head, sizeof head, 0), sizeof head);
    close(fd);
    cr_assert_eq(head.crc, crc32c(0, (char *)&head + 8, offsetof(struct index_head, unused) - 8));
    cr_assert(head.next_pack[0] >= BEGUN && head.next_pack[1] >= BEGUN);
    char *copy = xstrdup(second);
    rig_end(&r);
    rig_remove(copy);
    free(copy);
}

Test(damage, a_restart_finds_all)
{
    struct rig r;
    struct cache_stat st;
    rig_begin(&r, 20000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 100);
    rig_close(&r);
    rig_open(&r);
    cache_stat(r.cache, &st);
    cr_assert_eq(st.units, 100);
    cr_assert_eq(st.bytes, 2000000);
    read_all(&r, 100);
    rig_fill(&r, 101, 10);
    cr_assert_eq(atomic_load(&r.fake.reads), 110);
    cr_assert(st.tiers[0].used >= folder_size(r.dir) - 10 * 20100);
    cr_assert_eq(size_of(rig_path(&r, "00000001.pack")), 0); /* appended to the same one */
    rig_end(&r);
}

/* Bytes of packs that entries point to. */
static uint64_t live_bytes(const struct rig *r)
{
    uint64_t sum = 0;
    for (const struct pack *p = r->cache->tiers[0]->packs; p; p = p->next)
        sum += atomic_load(&p->live);
    return sum;
}

/* A restart looks at entries when they are used, or behind: each counts once, whoever comes first.
 */
Test(damage, a_restart_counts_each_entry_once)
{
    const uint64_t n = 1000, bytes = 1000; /* eight pages of the index */
    struct rig r;
    struct cache_stat st;
    struct err err = {0};
    rig_begin(&r, bytes, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, n);
    uint64_t live = live_bytes(&r);
    cr_assert_eq(live, n * record_bytes(0, 0, bytes, bytes));
    rig_close(&r);
    rig_open(&r);
    cache_drop(r.cache, 5);
    cache_pin(r.cache, 300, 1, true);
    cr_assert_eq(rig_read(&r, 600, 0, bytes, NULL, &err), 0, "%s", err.msg);
    cache_drop(r.cache, 600);
    rig_fill(&r, 5, 1);
    cache_stat(r.cache, &st);
    cr_assert_eq(st.units, n - 1);
    cr_assert_eq(st.bytes, (n - 1) * bytes);
    cr_assert_eq(live_bytes(&r), live - record_bytes(0, 0, bytes, bytes));
    cache_clear(r.cache);
    cr_assert_eq(live_bytes(&r), 0);
    rig_end(&r);
}

static void *read_and_drop(void *rig)
{
    struct rig *r = rig;
    struct err err = {0};
    for (uint64_t u = 1; u <= 2000; u++) {
        cr_assert_eq(rig_read(r, u, 0, UNIT_BYTES, NULL, &err), 0, "%s", err.msg);
        if (u % 3 == 0)
            cache_drop(r->cache, u);
    }
    return NULL;
}

Test(damage, a_restart_is_settled_under_readers)
{
    struct rig r;
    struct cache_stat st;
    pthread_t readers[4];
    rig_begin(&r, 500, 64u << 20, true);
    rig_open(&r);
    rig_fill(&r, 1, 2000);
    for (int round = 0; round < 5; round++) {
        rig_close(&r);
        rig_open(&r);
        for (size_t i = 0; i < 4; i++)
            cr_assert_eq(pthread_create(&readers[i], NULL, read_and_drop, &r), 0);
        for (size_t i = 0; i < 4; i++)
            pthread_join(readers[i], NULL);
        cr_assert_eq(cache_flush(r.cache, NULL), 0);
        cache_stat(r.cache, &st);
        uint64_t there = 0;
        for (uint64_t u = 1; u <= 2000; u++)
            there += cache_where(r.cache, u) >= 0;
        cr_assert_eq(st.units, there);
    }
    rig_end(&r);
}

/* The packs went (a disk was wiped), the index did not: its entries lead nowhere. */
Test(damage, entries_without_their_packs_are_dropped)
{
    struct rig r;
    struct cache_stat st;
    struct err err = {0};
    rig_begin(&r, 1000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 400);
    rig_close(&r);
    cr_assert_eq(unlink(rig_path(&r, "00000000.pack")), 0);
    rig_open(&r);
    cr_assert_eq(rig_read(&r, 200, 0, 1000, NULL, &err), 0, "%s", err.msg);
    cr_assert_eq(cache_where(r.cache, 399), -1);
    cr_assert_eq(cache_flush(r.cache, NULL), 0);
    cache_stat(r.cache, &st);
    cr_assert_eq(st.units, 1);
    cr_assert_eq(atomic_load(&r.fake.reads), 401);
    rig_end(&r);
}

static const struct breakage {
    const char *what;
    const char *file; /* flipped at `at`, or removed */
    int64_t at;
    uint64_t least; /* units that must be found */
} breakages[] = {
    {"index header", "own/index", 20, 100},
    {"index entry", "own/index", 4096 + 32 * 50 + 12, 99},
    {"index gone", "own/index", -1, 100},
    {"journal record", "00000000.idx", 48 * 50 + 9, 100},
    {"journal gone", "00000000.idx", -1, 100},
};

Test(damage, a_pack_that_was_killed_as_it_began_hides_no_garbage)
{
    struct rig r;
    rig_begin(&r, 1u << 20, 256u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 40); /* more than one pack */
    rig_close(&r);
    uint64_t before = folder_size(r.dir);
    int fd = open(rig_path(&r, "00000050.pack"), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    close(fd);
    rig_open(&r);
    cr_expect_eq(access(rig_path(&r, "00000050.pack"), F_OK), -1);
    cr_expect_eq(r.cache->tiers[0]->next_pack, 51);
    for (uint64_t u = 1; u <= 40; u++)
        if (u % 5)
            cache_drop(r.cache, u);
    writer_poke(r.cache->tiers[0]);
    for (int i = 0; i < 3000 && folder_size(r.dir) > before * 7 / 10; i++)
        usleep(10000);
    cr_expect_leq(folder_size(r.dir), before * 7 / 10);
    rig_end(&r);
}

Test(damage, index_and_journal_are_made_anew)
{
    for (size_t i = 0; i < sizeof breakages / sizeof breakages[0]; i++)
        for (int lose_index = 0; lose_index < 2; lose_index++) {
            const struct breakage *b = &breakages[i];
            struct rig r;
            struct cache_stat st;
            rig_begin(&r, 20000, 64u << 20, false);
            rig_open(&r);
            rig_fill(&r, 1, 100);
            rig_close(&r);
            if (b->at < 0)
                unlink(rig_path(&r, b->file));
            else
                flip(rig_path(&r, b->file), (uint64_t)b->at);
            if (lose_index)
                unlink(rig_path(&r, "own/index"));
            rig_open(&r);
            cache_stat(r.cache, &st);
            cr_assert(st.units >= (lose_index ? 100 : b->least), "%s: %llu units", b->what,
                      (unsigned long long)st.units);
            read_all(&r, 100);
            cr_assert(atomic_load(&r.fake.reads) <= 101, "%s", b->what);
            rig_fill(&r, 200, 5);
            rig_close(&r);
            rig_open(&r);
            read_all(&r, 100);
            cr_assert_eq(cache_counts(r.cache)->corrupt, 0, "%s", b->what);
            rig_end(&r);
        }
}

Test(damage, an_index_of_another_boot_is_not_believed)
{
    struct rig r;
    struct cache_stat st;
    rig_begin(&r, 20000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 50);
    rig_close(&r);
    struct index_head head;
    int fd = open(rig_path(&r, "own/index"), O_RDWR);
    cr_assert_eq(pread(fd, &head, sizeof head, 0), sizeof head);
    head.clean = 0;
    head.boot_id[0] ^= 1;
    head.crc = crc32c(0, (char *)&head + 8, offsetof(struct index_head, unused) - 8);
    cr_assert_eq(pwrite(fd, &head, sizeof head, 0), sizeof head);
    /* The power failed before these bytes were on the disk. */
    unsigned char zeros[32 * 40] = {0};
    cr_assert_eq(pwrite(fd, zeros, sizeof zeros, 4096), sizeof zeros);
    close(fd);
    rig_open(&r);
    cache_stat(r.cache, &st);
    cr_assert_eq(st.units, 50);
    rig_end(&r);
}

Test(damage, a_torn_tail_goes_away)
{
    struct rig r;
    rig_begin(&r, 20000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 10);
    rig_close(&r);
    uint64_t size = size_of(rig_path(&r, "00000000.pack"));
    cr_assert_eq(truncate(rig_path(&r, "00000000.pack"), (off_t)size + 777), 0);
    uint64_t journal = size_of(rig_path(&r, "00000000.idx"));
    cr_assert_eq(truncate(rig_path(&r, "00000000.idx"), (off_t)journal + 17), 0);
    rig_open(&r);
    cr_assert_eq(size_of(rig_path(&r, "00000000.pack")), size);
    cr_assert_eq(size_of(rig_path(&r, "00000000.idx")), journal);
    rig_fill(&r, 1, 20);
    cr_assert_eq(atomic_load(&r.fake.reads), 20);
    rig_end(&r);
}

/* The child fills until it is killed; the parent finds a cache that serves no wrong byte. */
static void fill_for_ever(struct rig *r, uint64_t from)
{
    rig_open(r);
    for (uint64_t u = from;; u++)
        if (rig_read(r, 1 + u % 3000, 0, UNIT_BYTES, NULL, NULL))
            _exit(1);
}

Test(damage, killed_in_mid_fill)
{
    struct rig r;
    rig_begin(&r, 50000, 200u << 20, false);
    r.catalog.vary = true;
    for (int i = 0; i < 12; i++) {
        pid_t pid = fork();
        if (pid == 0)
            fill_for_ever(&r, (uint64_t)i * 100);
        usleep(20000 + (useconds_t)i * 7000);
        kill(pid, SIGKILL);
        int status;
        waitpid(pid, &status, 0);
        cr_assert(WIFSIGNALED(status), "child ended by itself");
        rig_open(&r);
        struct cache_stat st;
        cache_stat(r.cache, &st);
        uint64_t have = 0;
        for (uint64_t u = 1; u <= 3000; u++)
            have += cache_where(r.cache, u) >= 0;
        cr_assert_eq(have, st.units);
        for (uint64_t u = 1; u <= 3000; u++)
            if (cache_where(r.cache, u) >= 0)
                cr_assert_eq(cache_verify(r.cache, u, NULL), 0);
        cr_assert(folder_size(r.dir) <= st.tiers[0].used);
        rig_close(&r);
    }
    rig_end(&r);
}

Test(damage, an_emptied_folder_may_be_another_sets)
{
    struct rig r;
    uint64_t bytes = 0;
    rig_begin(&r, 5000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 2);
    rig_close(&r);
    cr_assert_eq(cache_erase(r.conf.tiers[0].dir, &bytes, NULL), 0);
    cr_assert(bytes > 10000);
    r.conf.set_id = "set#10"; /* longer than that one's name, which begins as it does */
    rig_open(&r);
    cr_expect_eq(cache_where(r.cache, 1), -1);
    rig_fill(&r, 1, 1);
    rig_close(&r);
    r.conf.set_id = "set#1";
    cr_expect_eq(rig_try_open(&r, NULL), -1, "it is that one's now");
    r.conf.set_id = "set#10";
    rig_open(&r);
    cr_expect_neq(cache_where(r.cache, 1), -1);
    rig_end(&r);
}

Test(damage, folders_of_others_are_refused)
{
    struct rig r;
    struct err err = {0};
    rig_begin(&r, 5000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 1);

    struct rig twin = r;
    twin.cache = NULL;
    twin.top = NULL;
    cr_assert_eq(rig_try_open(&twin, &err), -1);
    char want[64];
    snprintf(want, sizeof want, "in use by process %d", (int)getpid());
    cr_assert(strstr(err.msg, want), "%s", err.msg);
    twin.conf.dir = rig_path(&r, "other");
    cr_assert_eq(rig_try_open(&twin, &err), -1);
    cr_assert(strstr(err.msg, "is in use by another mount"), "%s", err.msg);
    rig_close(&r);

    r.conf.set_id = "set#2";
    cr_assert_eq(rig_try_open(&r, &err), -1);
    cr_assert(strstr(err.msg, "holds the cache of another set, set#1"), "%s", err.msg);
    r.conf.set_id = "set#1";

    char *own = (char *)r.conf.dir;
    char owner[] = "/tmp/sampan-cache-owner-XXXXXX";
    cr_assert(mkdtemp(owner));
    r.conf.dir = owner;
    unlink(rig_path(&r, "sampan-cache"));
    cr_assert_eq(rig_try_open(&r, &err), -1);
    cr_assert(strstr(err.msg, "is not empty and not a cache of ours"), "%s", err.msg);
    rig_remove(owner);
    r.conf.dir = own;
    rig_end(&r);
}

Test(damage, a_folder_with_files_of_a_user_is_refused)
{
    struct rig r;
    struct err err = {0};
    rig_begin(&r, 5000, 64u << 20, false);
    char *own = (char *)r.conf.dir;
    r.conf.dir = r.dir;
    fclose(fopen(rig_path(&r, "index.html"), "w"));
    cr_assert_eq(rig_try_open(&r, &err), -1);
    cr_assert(strstr(err.msg, "it has 'index.html'"), "%s", err.msg);
    cr_assert_eq(access(rig_path(&r, "sampan-cache"), F_OK), -1);

    /* What a start that was killed leaves is no obstacle, and a marked folder may hold anything. */
    unlink(rig_path(&r, "index.html"));
    cr_assert_eq(mkdir(rig_path(&r, "catalog"), 0700), 0);
    cr_assert_eq(rig_try_open(&r, &err), 0, "%s", err.msg);
    rig_close(&r);
    fclose(fopen(rig_path(&r, "index.html"), "w"));
    cr_assert_eq(rig_try_open(&r, &err), 0, "%s", err.msg);
    rig_close(&r);
    r.conf.dir = own;
    rig_end(&r);
}

Test(damage, a_pack_with_a_bad_journal_is_rewritten)
{
    for (int gone = 0; gone < 2; gone++) {
        struct rig r;
        rig_begin(&r, 200, 64u << 20, false);
        rig_open(&r);
        rig_fill(&r, 1, 300);
        rig_close(&r);
        if (gone)
            unlink(rig_path(&r, "00000000.idx"));
        else
            flip(rig_path(&r, "00000000.idx"), 48 * 249 + 9); /* some records, then the walk */
        unlink(rig_path(&r, "own/index"));
        rig_open(&r); /* the pack is walked, and gets no journal again */
        for (uint64_t u = 1; u <= 100; u++)
            cache_drop(r.cache, u);
        /* What lives fits, what lies there does not: the pack is rewritten, and nothing goes. */
        cache_evict_to(r.cache, 65000);
        cr_assert_eq(size_of(rig_path(&r, "00000000.pack")), 0);
        cr_assert(size_of(rig_path(&r, "00000001.pack")) > 50000);
        int before = atomic_load(&r.fake.reads);
        read_all(&r, 300);
        cr_assert(atomic_load(&r.fake.reads) <=
                  before + 101); /* the flipped one, and the dropped */
        rig_end(&r);
    }
}

static const struct marker {
    const char *text;
    size_t zeros; /* after the text */
    bool opens;
} markers[] = {
    /* what a power cut leaves of one that was just made */
    {"", 0, true},
    {"", 141, true},
    {"sampan-c", 0, true},
    {"sampan-cache 1\nset set#1\ntier 0123", 0, true},
    /* what something else may have put there */
    {"sampan-cache 2\nset set#1\n", 0, false},
    {"notes of mine", 0, false},
    {"sampan-cache 1\nset set#1\n", 3, false},
    {"sampan-cache 1\nset set#1\ntier nonsense\n", 0, false},
};

Test(damage, a_torn_marker_is_made_anew)
{
    for (size_t i = 0; i < sizeof markers / sizeof markers[0]; i++) {
        const struct marker *m = &markers[i];
        static const char zeros[256];
        struct rig r;
        struct err err = {0};
        rig_begin(&r, 100, 64u << 20, false);
        int fd = open(rig_path(&r, "sampan-cache"), O_WRONLY | O_CREAT, 0600);
        cr_assert(fd >= 0);
        cr_assert_eq(write(fd, m->text, strlen(m->text)), (ssize_t)strlen(m->text));
        cr_assert_eq(write(fd, zeros, m->zeros), (ssize_t)m->zeros);
        close(fd);
        cr_assert_eq(rig_try_open(&r, &err) == 0, m->opens, "%zu: %s", i, err.msg);
        rig_end(&r);
    }
}

static bool tier_synced(const struct tier *t)
{
    bool all = true;
    for (struct pack *p = t->packs; p; p = p->next)
        all &= p->synced == p->appends;
    return all;
}

static bool all_synced(struct rig *r)
{
    return tier_synced(r->cache->tiers[0]);
}

/* No file can be opened until the returned limit is set again. */
static struct rlimit no_descriptors(void)
{
    struct rlimit was, none = {0};
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
    none.rlim_max = was.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    return was;
}

/* Who asks for it to be on the disk was told that it is not: asked again, it is tried again. */
Test(damage, what_did_not_reach_the_disk_is_tried_again)
{
    struct rig r;
    struct err err = {0};
    rig_begin(&r, 5000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 2);
    cr_expect(all_synced(&r));
    cr_assert_eq(rig_read(&r, 3, 0, UNIT_BYTES, NULL, &err), 0, "%s", err.msg);
    struct rlimit was = no_descriptors();
    int rc = cache_flush(r.cache, &err);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
    cr_expect_eq(rc, -1);
    cr_expect_not(all_synced(&r));
    cr_assert_eq(cache_flush(r.cache, NULL), 0);
    cr_expect(all_synced(&r));
    rig_end(&r);
}

Test(damage, what_does_not_reach_one_tiers_disk_keeps_no_other_from_its_own)
{
    struct rig r;
    struct err err = {0};
    char name[32];
    rig_begin(&r, 300000, 2u << 20, false);
    char *second = xasprintf("%s-second", r.dir);
    r.conf.n_tiers = 2;
    r.conf.tiers[1] = (struct tier_conf){.kind = TIER_HDD, .dir = second, .limit = 64u << 20};
    rig_open(&r);
    for (uint64_t unit = 1; unit <= 10; unit++)
        cr_assert_eq(rig_read(&r, unit, 0, UNIT_BYTES, NULL, &err), 0, "%s", err.msg);
    cache_drain(r.cache);
    struct tier *const *tiers = r.cache->tiers;
    cr_assert(!tier_synced(tiers[0]) && !tier_synced(tiers[1]));
    pack_name(name, tiers[0]->packs->number, "pack"); /* can't be opened any more: it is a loop */
    cr_assert_eq(unlinkat(tiers[0]->dir_fd, name, 0), 0);
    cr_assert_eq(symlinkat(name, tiers[0]->dir_fd, name), 0);
    cr_expect_eq(cache_flush(r.cache, &err), -1);
    cr_expect(strstr(err.msg, tiers[0]->dir), "%s", err.msg);
    cr_expect(tier_synced(tiers[1]));
    char *copy = xstrdup(second);
    rig_end(&r);
    rig_remove(copy);
    free(copy);
}

/* Nothing is wrong with a record whose pack can't be mapped: its reader is served, and it stays. */
Test(damage, what_cannot_be_mapped_is_fetched_and_stays)
{
    struct rig r;
    struct err err = {0};
    enum origin from;
    rig_begin(&r, 300000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 2);
    struct rlimit was = no_descriptors();
    cr_expect_eq(rig_read(&r, 1, 100, 2000, &from, &err), 0, "%s", err.msg);
    cr_expect_eq(from, FROM_STORE);
    cr_expect_eq(cache_verify(r.cache, 1, &err), -1);
    cr_expect_eq(err.class, ERR_LIMIT, "%s", err.msg);
    atomic_store(&r.fake.failing, true);
    cr_expect_eq(rig_read(&r, 1, 0, UNIT_BYTES, &from, &err), -1);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
    cr_expect_eq(rig_read(&r, 1, 0, UNIT_BYTES, &from, &err), 0, "%s", err.msg);
    cr_expect_eq(from, FROM_DISK);
    cr_expect_eq(cache_verify(r.cache, 1, &err), 0, "%s", err.msg);
    cr_expect_eq(counter_get(&cache_counts(r.cache)->corrupt), 0);
    rig_end(&r);
}

/* What lives in a pack that can't be read now is not given up with it. */
Test(damage, what_cannot_be_mapped_is_not_reclaimed)
{
    struct rig r;
    struct err err = {0};
    enum origin from;
    rig_begin(&r, 300000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 10);
    for (uint64_t unit = 1; unit < 10; unit++)
        cache_drop(r.cache, unit);
    struct rlimit was = no_descriptors();
    cache_reclaim(r.cache, 64u << 20);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
    atomic_store(&r.fake.failing, true);
    cr_expect_eq(rig_read(&r, 10, 0, UNIT_BYTES, &from, &err), 0, "%s", err.msg);
    cr_expect_eq(from, FROM_DISK);
    rig_end(&r);
}
