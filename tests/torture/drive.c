/*
 * drive: a set's volume without a mount, step by step, every byte compared. What torture fails,
 * kills and cuts the power of.
 *
 *   drive SRC REF DIR STEP…
 *
 * SRC is the source (file://), REF holds the same files under the same names: what is compared
 * with, so that faults put into SRC do not reach the comparison. DIR is the cache folder. Steps:
 *
 *   scan         a version of the catalog is made
 *   version      says which one is published
 *   open         opens the volume (scans if need be)
 *   close, die   in order, or at once as by kill -9
 *   read         reads all samples
 *   rescan       scans while it is open
 *   flush        waits until all is on the disk
 *   clear, evict:BYTES
 *   check        verifies all that is cached
 *   local        says how many samples are cached
 *   edit:K       changes the files of edit/
 *   lose         removes the catalog folder, and a file comes first: its ids name other samples
 *                then
 *   floor:N      at least N samples must be cached
 *   published:DIGEST   … must be the current version
 *
 * `flush` and `scan` mark what they have reached (mark:…, seen by meddle). Of the samples below
 * edit/ no floor speaks. A step that fails ends the run with its error: one line, exit 1. Exit 66:
 * wrong bytes, or less than there must be. Exit 0: all went well.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../unit/volume/read-wait.h"
#include "mem.h"
#include "volume.h"

#define EDITED "edit/"
#define LIMIT  (64ull << 20)

struct drive {
    const char *src, *ref, *dir;
    char *uri;
    struct volume_conf conf;
    struct volume *volume;
};

struct samples {
    uint64_t *ids;
    size_t n;
};

/* Seen by meddle, and of no use to anybody else. */
static void mark(const char *what, const char *value)
{
    cleanup_free char *name = xasprintf("mark:%s%s", what, value);
    (void)!access(name, F_OK);
}

__attribute__((noreturn)) static void wrong(const char *what, const char *where, uint64_t at)
{
    fprintf(stderr, "drive: WRONG: %s: %s at %" PRIu64 "\n", what, where, at);
    _exit(66);
}

/* --- samples -------------------------------------------------------------------------------------
 */

static bool add_id(void *arg, const struct entry *e)
{
    struct samples *s = arg;
    if (s->n % 256 == 0)
        s->ids = xrealloc(s->ids, (s->n + 256) * sizeof *s->ids);
    s->ids[s->n++] = e->id;
    return true;
}

static int list_samples(struct drive *d, struct samples *ret, struct err *err)
{
    struct catalog *c = volume_catalog(d->volume);
    int rc = catalog_walk(c, 0, add_id, ret, err);
    catalog_unref(c);
    return rc;
}

static int sample_of(struct drive *d, uint64_t id, struct bytes *path, uint64_t *ret_size,
                     struct err *err)
{
    struct entry e;
    struct catalog *c = volume_catalog(d->volume);
    bytes_clear(path);
    int rc = catalog_get(c, id, &e, err) || catalog_path(c, id, path, err) ? -1 : 0;
    catalog_unref(c);
    *ret_size = e.size;
    return rc;
}

static int compare_view(const struct view *v, const unsigned char *want, uint64_t size, uint64_t at,
                        const char *path)
{
    if (v->len == 0 || at + v->len > size)
        wrong("length", path, at);
    if (memcmp(v->ptr, want + at, v->len) != 0)
        wrong("bytes", path, at);
    return 0;
}

static int read_sample(struct drive *d, uint64_t id, const char *path, uint64_t size,
                       struct err *err)
{
    char name[4200];
    struct stat st;
    snprintf(name, sizeof name, "%s/%s", d->ref, path);
    cleanup_close int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || (uint64_t)st.st_size != size)
        wrong("size, or no such file", path, size);
    if (size == 0)
        return 0;
    unsigned char *want = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (want == MAP_FAILED)
        return err_sys(err, errno, "map %s", name);
    int rc = 0;
    for (uint64_t at = 0; at < size && !rc;) {
        struct view v;
        rc = volume_read_wait(d->volume, id, at, 1u << 20, &v, err);
        if (!rc) {
            compare_view(&v, want, size, at, path);
            at += v.len;
            view_release(&v);
        }
    }
    munmap(want, size);
    return rc ? err_wrap(err, "read %s", path) : 0;
}

static int step_read(struct drive *d, const char *arg, struct err *err)
{
    struct samples s = {0};
    cleanup_bytes struct bytes path = {0};
    uint64_t size;
    (void)arg;
    int rc = list_samples(d, &s, err);
    for (size_t i = 0; i < s.n && !rc; i++) {
        rc = sample_of(d, s.ids[i], &path, &size, err);
        if (!rc)
            rc = read_sample(d, s.ids[i], path.data, size, err);
    }
    free(s.ids);
    return rc;
}

/* Cached samples that no edit changes; *ret_bad: cached yet damaged ones. */
static int count_local(struct drive *d, size_t *ret_local, size_t *ret_bad, struct err *err)
{
    struct samples s = {0};
    cleanup_bytes struct bytes path = {0};
    *ret_local = *ret_bad = 0;
    int rc = list_samples(d, &s, err);
    for (size_t i = 0; i < s.n && !rc; i++) {
        uint64_t size;
        bool bad = false;
        struct err why = {0};
        rc = sample_of(d, s.ids[i], &path, &size, err);
        if (rc || size == 0 || strncmp(path.data, EDITED, strlen(EDITED)) == 0 ||
            !cache_has_all(volume_cache(d->volume), s.ids[i], unit_count(size)))
            continue;
        for (uint64_t u = 0; u < unit_count(size); u++)
            bad = bad || (cache_verify(volume_cache(d->volume), s.ids[i] + u, &why) &&
                          why.class == ERR_CORRUPT);
        *(bad ? ret_bad : ret_local) += 1;
    }
    free(s.ids);
    return rc;
}

static int step_local(struct drive *d, const char *arg, struct err *err)
{
    size_t local, bad;
    (void)arg;
    if (count_local(d, &local, &bad, err))
        return -1;
    printf("local %zu\n", local);
    return 0;
}

static int step_check(struct drive *d, const char *arg, struct err *err)
{
    size_t local, bad;
    (void)arg;
    if (count_local(d, &local, &bad, err))
        return -1;
    if (bad)
        wrong("damaged samples in the cache", d->dir, bad);
    return 0;
}

static int step_floor(struct drive *d, const char *arg, struct err *err)
{
    size_t local, bad;
    if (count_local(d, &local, &bad, err))
        return -1;
    if (local < strtoull(arg, NULL, 10))
        wrong("samples that were flushed are not cached: want", arg, local);
    return 0;
}

/* --- versions ------------------------------------------------------------------------------------
 */

static char *published(struct drive *d)
{
    cleanup_free char *folder = xasprintf("%s/catalog", d->dir);
    struct catalog *c;
    if (catalog_current(&c, folder, NULL))
        return xstrdup("none");
    char *digest = xstrdup(catalog_info(c)->digest);
    catalog_unref(c);
    return digest;
}

static int step_version(struct drive *d, const char *arg, struct err *err)
{
    cleanup_free char *digest = published(d);
    (void)arg, (void)err;
    printf("version %s\n", digest);
    return 0;
}

static int step_published(struct drive *d, const char *arg, struct err *err)
{
    cleanup_free char *digest = published(d);
    (void)err;
    if (strcmp(digest, arg) != 0)
        wrong("another version is published", digest, 0);
    return 0;
}

static int step_scan(struct drive *d, const char *arg, struct err *err)
{
    struct scan_result r = {0};
    (void)arg;
    mark("publishing", "");
    if (volume_scan(&d->conf, NULL, NULL, NULL, &r, err))
        return -1;
    mark("published:", r.digest);
    free(r.file);
    return 0;
}

static int step_rescan(struct drive *d, const char *arg, struct err *err)
{
    (void)arg;
    mark("publishing", "");
    if (volume_rescan(d->volume, NULL, err))
        return -1;
    cleanup_free char *digest = published(d);
    mark("published:", digest);
    return 0;
}

/* --- the cache -----------------------------------------------------------------------------------
 */

static int step_open(struct drive *d, const char *arg, struct err *err)
{
    (void)arg;
    return volume_open(&d->volume, &d->conf, NULL, NULL, err);
}

static int step_close(struct drive *d, const char *arg, struct err *err)
{
    (void)arg, (void)err;
    volume_close(take_ptr(&d->volume));
    return 0;
}

static int step_flush(struct drive *d, const char *arg, struct err *err)
{
    char text[32];
    size_t local, bad;
    (void)arg;
    if (cache_flush(volume_cache(d->volume), err) || count_local(d, &local, &bad, err))
        return -1;
    snprintf(text, sizeof text, "%zu", local);
    mark("flushed:", text);
    return 0;
}

static int step_clear(struct drive *d, const char *arg, struct err *err)
{
    struct drop_result r;
    (void)arg;
    mark("flushed:", "0");
    return volume_clear(d->volume, NULL, 0, NULL, NULL, &r, err);
}

static int step_evict(struct drive *d, const char *arg, struct err *err)
{
    struct drop_result r;
    mark("flushed:", "0");
    return volume_evict_to(d->volume, strtoull(arg, NULL, 10), &r, err);
}

/* --- the world around ----------------------------------------------------------------------------
 */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static int write_both(struct drive *d, const char *name, unsigned seed, size_t len, struct err *err)
{
    unsigned char *data = xmalloc(len + 1);
    const char *const tops[] = {d->src, d->ref};
    for (size_t i = 0; i < len; i++)
        data[i] = (unsigned char)(seed * 31 + i * 7 + (i >> 8) * 13);
    int rc = 0;
    for (int i = 0; i < 2 && !rc; i++) {
        cleanup_free char *path = xasprintf("%s/%s", tops[i], name);
        unlink(path);
        cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        struct timespec t[2] = {{1000000 + (time_t)seed, 0}, {1000000 + (time_t)seed, 0}};
        if (fd < 0 || write(fd, data, len) != (ssize_t)len || futimens(fd, t))
            rc = err_sys(err, errno, "edit %s", path);
    }
    free(data);
    return rc;
}

static int step_lose(struct drive *d, const char *arg, struct err *err)
{
    cleanup_free char *folder = xasprintf("%s/catalog", d->dir);
    (void)arg;
    if (write_both(d, "0-comes-first", 1, 2000, err))
        return -1;
    mark("publishing", "");
    mark("flushed:", "0"); /* its ids are gone, and what is filed under them */
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) ? err_sys(err, errno, "%s", folder)
                                                              : 0;
}

static int step_die(struct drive *d, const char *arg, struct err *err)
{
    (void)d, (void)arg, (void)err;
    return raise(SIGKILL);
}

/* One file changes its bytes alone, one its size, one comes, one goes. */
static int step_edit(struct drive *d, const char *arg, struct err *err)
{
    unsigned k = (unsigned)strtoul(arg, NULL, 10);
    char fresh[32], old[32];
    snprintf(fresh, sizeof fresh, EDITED "new-%u", k);
    snprintf(old, sizeof old, EDITED "new-%u", k - 1);
    cleanup_free char *in_src = xasprintf("%s/%s", d->src, old);
    cleanup_free char *in_ref = xasprintf("%s/%s", d->ref, old);
    unlink(in_src);
    unlink(in_ref);
    return write_both(d, EDITED "same-size", k, 3000, err) ||
                   write_both(d, EDITED "size", k, 1000 + k * 77, err) ||
                   write_both(d, fresh, k, 700 * k, err)
               ? -1
               : 0;
}

/* --- the run -------------------------------------------------------------------------------------
 */

static const struct step {
    const char *name;
    int (*run)(struct drive *d, const char *arg, struct err *err);
    bool needs_volume;
} steps[] = {
    {"scan", step_scan, false},
    {"version", step_version, false},
    {"open", step_open, false},
    {"close", step_close, true},
    {"read", step_read, true},
    {"rescan", step_rescan, true},
    {"flush", step_flush, true},
    {"clear", step_clear, true},
    {"evict", step_evict, true},
    {"check", step_check, true},
    {"edit", step_edit, false},
    {"lose", step_lose, false},
    {"local", step_local, true},
    {"floor", step_floor, true},
    {"published", step_published, false},
    {"die", step_die, false},
};

static int run_step(struct drive *d, const char *word, struct err *err)
{
    const char *colon = strchr(word, ':');
    size_t len = colon ? (size_t)(colon - word) : strlen(word);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (strlen(steps[i].name) != len || strncmp(steps[i].name, word, len) != 0)
            continue;
        if (steps[i].needs_volume && !d->volume)
            return err_set(err, ERR_USAGE, "%s: open first", word);
        return steps[i].run(d, colon ? colon + 1 : "", err);
    }
    return err_set(err, ERR_USAGE, "no such step: %s", word);
}

static void configure(struct drive *d)
{
    d->uri = xasprintf("file://%s", d->src);
    d->conf = (struct volume_conf){.set = d->uri, .dir = d->dir, .memory = 64 << 20, .n_tiers = 1};
    fetch_conf_defaults(&d->conf.fetch);
    d->conf.fetch.connections = 4;
    d->conf.fetch.max_tries = 2;
    d->conf.fetch.budget_ns = 3000000000u;
    d->conf.tiers[0] = (struct tier_conf){TIER_SSD, d->dir, LIMIT};
}

int main(int argc, char **argv)
{
    struct err err = {0};
    if (argc < 5) {
        fprintf(stderr, "usage: drive SRC REF DIR STEP...\n");
        return 2;
    }
    struct drive d = {.src = argv[1], .ref = argv[2], .dir = argv[3]};
    configure(&d);
    int rc = 0;
    for (int i = 4; i < argc && !rc; i++) {
        rc = run_step(&d, argv[i], &err);
        if (rc)
            fprintf(stderr, "drive: %s: %s\n", argv[i], err.msg);
    }
    volume_close(d.volume);
    free(d.uri);
    return rc ? 1 : 0;
}
