/* Whole runs between local folders: copied, gone on with, packed; failures told; a stop obeyed. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "hash.h"
#include "mem.h"
#include "remove-internal.h"
#include "transfer.h"

#define FILES 300

static char dir[] = "/tmp/sampan-transfer-XXXXXX";
static char *from, *to, *from_uri, *to_uri;

static void write_file(const char *folder, unsigned i, size_t len)
{
    cleanup_free char *path = xasprintf("%s/%u", folder, i);
    cleanup_file FILE *f = fopen(path, "we");
    cr_assert_not_null(f);
    for (size_t k = 0; k < len; k++)
        fputc((int)(hash_mix64(i * 100000ull + k) & 0xff), f);
}

static void begin(void)
{
    cr_assert_not_null(mkdtemp(dir));
    from = xasprintf("%s/from", dir);
    to = xasprintf("%s/to", dir);
    from_uri = xasprintf("file://%s", from);
    to_uri = xasprintf("file://%s", to);
    cr_assert_eq(mkdir(from, 0700), 0);
    for (unsigned i = 0; i < FILES; i++)
        write_file(from, i, i * 37 % 5000);
}

static int forget(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void finish(void)
{
    nftw(dir, forget, 16, FTW_DEPTH | FTW_PHYS);
    free(from);
    free(to);
    free(from_uri);
    free(to_uri);
}

static bool same_file(unsigned i)
{
    char a[6000], b[6000];
    cleanup_free char *x = xasprintf("%s/%u", from, i);
    cleanup_free char *y = xasprintf("%s/%u", to, i);
    cleanup_file FILE *f = fopen(x, "re");
    cleanup_file FILE *g = fopen(y, "re");
    if (!f || !g)
        return false;
    size_t n = fread(a, 1, sizeof a, f), m = fread(b, 1, sizeof b, g);
    return n == m && memcmp(a, b, n) == 0;
}

static int sync_with(struct sync_conf c, const struct sync_watch *watch, struct sync_counts *n,
                     struct err *err)
{
    const char *sources[] = {from_uri};
    c.sources = sources;
    c.n_sources = 1;
    c.destination = to_uri;
    c.temp_dir = dir;
    return sync_run(&c, watch, n, err);
}

Test(run, copies_then_skips_then_deletes, .init = begin, .fini = finish)
{
    struct sync_counts n;
    struct err err = {0};
    cr_assert_eq(sync_with((struct sync_conf){.check_new = true}, NULL, &n, &err), 0, "%s",
                 err.msg);
    cr_expect_eq(n.found, FILES);
    cr_expect_eq(n.copied, FILES);
    cr_expect_eq(n.checked, FILES);
    cr_expect_eq(n.failed, 0);
    for (unsigned i = 0; i < FILES; i++)
        cr_expect(same_file(i), "file %u", i);
    write_file(from, 7, 4999);
    write_file(to, FILES, 5);
    cr_assert_eq(sync_with((struct sync_conf){.delete_dst = true}, NULL, &n, &err), 0, "%s",
                 err.msg);
    cr_expect_eq(n.copied, 1);
    cr_expect_eq(n.skipped, FILES - 1);
    cr_expect_eq(n.deleted, 1);
    cr_expect(same_file(7));
}

static void count_failure(void *arg, const char *key, const char *why)
{
    (void)key;
    cr_expect_gt(strlen(why), 0);
    ++*(unsigned *)arg;
}

Test(run, failures_are_told_and_many_end_it, .init = begin, .fini = finish)
{
    struct sync_counts n;
    struct err err = {0};
    unsigned told = 0;
    const struct sync_watch watch = {.failed = count_failure, .arg = &told};
    cr_assert_eq(mkdir(to, 0700), 0);
    for (unsigned i = 0; i < FILES; i++) { /* a folder with something in it where the file goes */
        cleanup_free char *path = xasprintf("%s/%u", to, i);
        cr_assert_eq(mkdir(path, 0700), 0);
        write_file(path, i, 1);
    }
    cr_assert_eq(sync_with((struct sync_conf){.threads = 4}, &watch, &n, &err), -1);
    cr_expect(strstr(err.msg, "gave up after 200 failures"), "%s", err.msg);
    cr_expect_eq(n.copied, 0);
    cr_expect_geq(n.failed, 200);
    cr_expect_eq(told, n.failed);
}

static void stop_soon(void *arg, enum sync_phase phase, const struct sync_counts *n, uint64_t total)
{
    (void)n, (void)total;
    if (phase == SYNC_COPYING)
        atomic_store((atomic_bool *)arg, true);
}

Test(run, stopped_it_says_so_and_goes_on_later, .init = begin, .fini = finish)
{
    struct sync_counts n;
    struct err err = {0};
    atomic_bool stop = false;
    const struct sync_watch watch = {.progress = stop_soon, .arg = &stop};
    const struct sync_conf slow = {.stop = &stop, .bandwidth = 300000, .threads = 2};
    cr_assert_eq(sync_with(slow, &watch, &n, &err), -1);
    cr_expect_eq(err.class, ERR_CANCELLED);
    cr_expect_lt(n.copied, FILES);
    cr_assert_eq(sync_with((struct sync_conf){0}, NULL, &n, &err), 0, "%s", err.msg);
    for (unsigned i = 0; i < FILES; i++)
        cr_expect(same_file(i), "file %u", i);
}

static void note_moving(void *arg, enum sync_phase phase, const struct sync_counts *n,
                        uint64_t total)
{
    (void)phase, (void)total;
    if (n->moving_bytes > *(uint64_t *)arg)
        *(uint64_t *)arg = n->moving_bytes;
}

Test(run, tells_how_much_of_a_long_object_is_copied, .init = begin, .fini = finish)
{
    struct sync_counts n;
    struct err err = {0};
    uint64_t moving = 0;
    const struct sync_watch watch = {.progress = note_moving, .arg = &moving};
    cr_assert_eq(sync_with((struct sync_conf){0}, NULL, &n, &err), 0, "%s", err.msg);
    write_file(from, FILES, 2 * FETCH_PUT_WHOLE);
    const struct sync_conf slow = {.bandwidth = FETCH_PUT_WHOLE, .force_update = true};
    cr_assert_eq(sync_with(slow, &watch, &n, &err), 0, "%s", err.msg);
    cr_expect(moving > 0 && moving <= 2 * FETCH_PUT_WHOLE, "%llu", (unsigned long long)moving);
    cr_expect_eq(n.moving_bytes, 0);
    cr_expect(same_file(FILES));
}

Test(run, packs_hold_everything_once, .init = begin, .fini = finish)
{
    struct sync_counts n;
    struct err err = {0};
    const struct sync_conf pack = {.pack_size = 8u << 20, .check_new = true};
    cr_assert_eq(sync_with(pack, NULL, &n, &err), 0, "%s", err.msg);
    cr_expect_eq(n.copied, FILES);
    cr_expect_eq(n.packed, FILES);
    cr_expect_eq(n.packs, 1);
    cr_assert_eq(sync_with(pack, NULL, &n, &err), 0, "%s", err.msg);
    cr_expect_eq(n.copied, 0);
    cr_expect_eq(n.packs, 0);
    cr_expect_eq(n.packed, FILES);
    write_file(from, 3, 4321);
    cr_assert_eq(sync_with(pack, NULL, &n, &err), 0, "%s", err.msg);
    cr_expect_eq(n.copied, 1);
    cr_expect_eq(n.skipped, FILES - 1);
    cr_expect_eq(n.packed, FILES);
    struct sync_conf plain = {.limit = 1, .delete_dst = true};
    cr_expect_eq(sync_with(plain, NULL, &n, &err), -1);
    cr_expect_eq(err.class, ERR_USAGE);
}

/* A sample larger than a pack is a pack of its own. */
Test(run, packs_of_every_size_are_read_back, .init = begin, .fini = finish)
{
    struct sync_counts n;
    struct err err = {0};
    const struct sync_conf pack = {.pack_size = 8u << 20, .check_new = true};
    write_file(from, FILES, 9u << 20);
    cr_assert_eq(sync_with(pack, NULL, &n, &err), 0, "%s", err.msg);
    cr_expect_eq(n.checked, n.packs);
    cr_expect_eq(n.checked_bytes, n.copied_bytes);
}

/* How many packs are at the destination; all of them look two hours old afterwards. */
static unsigned age_packs(void)
{
    cleanup_free char *packs = xasprintf("%s/.sampan/packs", to);
    const struct timespec times[2] = {{.tv_sec = time(NULL) - 7200}, {.tv_sec = time(NULL) - 7200}};
    cleanup_dir DIR *d = opendir(packs);
    unsigned n = 0;
    cr_assert_not_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            cr_assert_eq(utimensat(dirfd(d), e->d_name, times, 0), 0);
            n++;
        }
    return n;
}

static void change_the_last(void *arg, enum sync_phase phase, const struct sync_counts *so_far,
                            uint64_t total)
{
    bool *changed = arg;
    (void)so_far, (void)total;
    if (phase == SYNC_COPYING && !*changed)
        write_file(from, 99, 99 * 37);
    *changed |= phase == SYNC_COPYING;
}

/* Changed since it was listed, not in its length: it is packed as it is now. */
Test(run, packs_have_what_changed, .init = begin, .fini = finish)
{
    struct sync_counts n;
    struct err err = {0};
    bool changed = false;
    const struct sync_watch watch = {.progress = change_the_last, .arg = &changed};
    const struct sync_conf c = {.pack_size = 8 << 20, .bandwidth = 400000};
    const struct sync_conf newer = {.pack_size = 8 << 20, .update = true};
    cr_assert_eq(sync_with(c, &watch, &n, &err), 0, "%s", err.msg);
    cr_expect(changed);
    cr_expect_eq(n.failed, 0);
    cr_expect_eq(n.copied, FILES);
    cr_assert_eq(sync_with(newer, NULL, &n, &err), 0, "%s", err.msg);
    cr_expect_eq(n.copied, 0, "its time is of what was packed");
}

Test(run, packs_of_the_version_before_stay_until_another_is_made, .init = begin, .fini = finish)
{
    struct sync_counts n;
    struct err err = {0};
    const struct sync_conf pack = {.pack_size = 8u << 20};
    cr_assert_eq(sync_with(pack, NULL, &n, &err), 0, "%s", err.msg);
    for (unsigned i = 0; i < FILES; i++)
        write_file(from, i, i * 37 % 5000 + 1);
    cr_assert_eq(sync_with(pack, NULL, &n, &err), 0, "%s", err.msg);
    cr_expect_eq(n.copied, FILES);
    cr_expect_eq(age_packs(), 2, "the first version may be mounted");
    cr_assert_eq(sync_with(pack, NULL, &n, &err), 0, "%s", err.msg);
    cr_expect_eq(age_packs(), 2, "no other version was made");
    write_file(from, 7, 4999);
    cr_assert_eq(sync_with(pack, NULL, &n, &err), 0, "%s", err.msg);
    cr_expect_eq(n.packs_deleted, 1);
    cr_expect_eq(age_packs(), 2);
}

Test(remove, takes_what_is_named, .init = begin, .fini = finish)
{
    struct remove_counts n;
    struct removal *r;
    struct err err = {0};
    bool root = true;
    cleanup_bytes struct bytes trash = {0};
    cr_assert_eq(remove_open(&r, from_uri, NULL, &root, &err), 0, "%s", err.msg);
    cr_expect_not(root);
    cr_assert_eq(remove_find(r, NULL, &n, &err), 0, "%s", err.msg);
    cr_expect_eq(n.objects, FILES);
    cr_assert_eq(remove_run(r, true, NULL, &n, &trash, &err), 0, "%s", err.msg);
    cr_expect_eq(n.removed, FILES);
    cr_expect_eq(n.failed, 0);
    cr_expect_neq(access(from, F_OK), 0);
    remove_close(r);
    cr_assert_eq(remove_open(&r, from_uri, NULL, &root, &err), 0, "%s", err.msg);
    cr_expect_eq(remove_find(r, NULL, &n, &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND);
    remove_close(r);
}

/* Cuts what the sorter keeps in its unnamed file, below `dir`. */
static void cut_unnamed(off_t by)
{
    cleanup_free char *below = xasprintf("%s/", dir);
    for (int fd = 3; fd < 256; fd++) {
        struct stat st;
        char path[64], at[256] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, at, sizeof at - 1) > 0 && strncmp(at, below, strlen(below)) == 0 &&
            fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > by)
            cr_assert_eq(ftruncate(fd, st.st_size - by), 0);
    }
}

Test(remove, a_sorter_that_breaks_is_an_error, .init = begin, .fini = finish)
{
    enum { KEYS = 100, DATA = 8192 };
    static const char data[DATA];
    struct removal *r;
    struct err err = {0};
    bool root;
    cr_assert_eq(remove_open(&r, from_uri, NULL, &root, &err), 0, "%s", err.msg);
    for (int told = 0; told < 2; told++) {
        struct remove_counts n = {0};
        struct names folders = {0};
        struct sorter *keys = sorter_new(dir, 256u << 10);
        for (int i = 0; i < KEYS; i++) {
            char key[16];
            int len = snprintf(key, sizeof key, "none-%03d", i);
            cr_assert_eq(sorter_add(keys, key, (size_t)len, data, DATA, &err), 0, "%s", err.msg);
        }
        cr_assert_eq(sorter_rewind(keys, &err), 0, "%s", err.msg);
        cut_unnamed(DATA);
        cr_expect_eq(remove_keys(r, keys, &folders, "", NULL, &n, told ? &err : NULL), -1);
        sorter_free(keys);
    }
    cr_expect(strstr(err.msg, "temporary file"), "%s", err.msg);
    remove_close(r);
}

static bool is_gone(void *arg)
{
    return access(arg, F_OK) != 0;
}

/* Its file goes before its folders: then it is told to stop. */
Test(remove, stopped_while_old_trash_goes_it_leaves_the_rest, .init = begin, .fini = finish)
{
    cleanup_free char *trash = xasprintf("%s/.trash", dir);
    cleanup_free char *old = xasprintf("%s/2001-01-01T000000Z-0001", trash);
    cleanup_free char *file = xasprintf("%s/1", old);
    struct remove_counts n;
    struct removal *r;
    struct err err = {0};
    cleanup_bytes struct bytes at = {0};
    bool root;
    const struct remove_watch watch = {.arg = file, .told = is_gone};
    cr_assert_eq(mkdir(trash, 0700), 0);
    cr_assert_eq(mkdir(old, 0700), 0);
    write_file(old, 1, 10);
    cr_assert_eq(remove_open(&r, from_uri, NULL, &root, &err), 0, "%s", err.msg);
    cr_assert_eq(remove_find(r, &watch, &n, &err), 0, "%s", err.msg);
    cr_expect_eq(remove_run(r, false, &watch, &n, &at, &err), -1);
    cr_expect_eq(err.class, ERR_CANCELLED);
    cr_expect_eq(n.expired, 1);
    cr_expect_eq(n.removed, 0);
    cr_expect_eq(access(old, F_OK), 0, "it went on though it was told to stop");
    cr_expect_eq(access(from, F_OK), 0);
    remove_close(r);
}
