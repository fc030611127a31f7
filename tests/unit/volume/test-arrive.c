/* A catalog in a store, served while it comes: what is here serves without the store, what is
 * missing is an error and nothing else, and only what is whole and right gets a version's name. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "early.h"
#include "file.h"
#include "mem.h"
#include "support.h"

#define SAMPLES  3000
#define CHUNK    (256u << 10)
#define MAP_HEAD 512u

struct published {
    struct world w;
    struct volume_conf conf;
    char *pub, *folder; /* the store's folder; the owner's folder of versions */
    char *object, *gone, *kept, *part, *map;
    char digest[CATALOG_DIGEST + 1], uri[300];
    char *bytes;
    size_t size, chunks;
};

static void sample_path(unsigned i, char ret[300])
{
    snprintf(ret, 300, "c%02u/%0200u.jpg", i % 10, i);
}

static void read_whole(const char *path, char **ret, size_t *ret_size)
{
    struct stat st;
    cleanup_close int fd = open(path, O_RDONLY);
    cr_assert(fd >= 0 && fstat(fd, &st) == 0, "%s: %s", path, strerror(errno));
    *ret = xmalloc((size_t)st.st_size + 1);
    *ret_size = (size_t)st.st_size;
    cr_assert_eq(file_read(fd, *ret, *ret_size, 0), st.st_size);
}

static void write_whole(const char *path, const void *data, size_t size)
{
    unlink(path);
    cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    cr_assert(fd >= 0 && file_write(fd, data, size, 0) == 0, "%s: %s", path, strerror(errno));
}

static void name_version(struct published *p, const char *digest)
{
    memcpy(p->digest, digest, sizeof p->digest);
    free(p->object), free(p->gone), free(p->kept), free(p->part), free(p->map);
    p->object = xasprintf("%s/%s", p->pub, digest);
    p->gone = xasprintf("%s.gone", p->object);
    p->kept = xasprintf("%s/%s.catalog", p->folder, digest);
    p->part = xasprintf("%s.part", p->kept);
    p->map = xasprintf("%s.map", p->part);
    snprintf(p->uri, sizeof p->uri, "file://%s", p->object);
}

/* The served version as an object of the store. */
static void publish(struct published *p, struct volume *v)
{
    struct err err = {0};
    struct catalog *c = volume_catalog(v);
    name_version(p, catalog_info(c)->digest);
    cr_assert_eq(catalog_copy_file(catalog_file(c), p->object, &err), 0, "%s", err.msg);
    catalog_unref(c);
    free(p->bytes);
    read_whole(p->object, &p->bytes, &p->size);
    p->chunks = (p->size + CHUNK - 1) / CHUNK;
}

/* A version by another owner's scan; this one's folder is empty. */
static void begin(struct published *p)
{
    *p = (struct published){0};
    world_new(&p->w);
    char path[300];
    for (unsigned i = 0; i < SAMPLES; i++) {
        sample_path(i, path);
        put_file(&p->w, path, i < 2 ? 1000 : 0, i);
    }
    world_conf(&p->w, &p->conf);
    p->pub = xasprintf("%s/pub", p->w.root);
    p->folder = xasprintf("%s/catalog", p->w.own);
    cr_assert_eq(mkdir(p->pub, 0700), 0);
    struct volume_conf other = p->conf;
    cleanup_free char *own = xasprintf("%s/other", p->w.root);
    cleanup_free char *cache = xasprintf("%s/other-cache", p->w.root);
    other.dir = own;
    other.tiers[0].dir = cache;
    struct volume *v = world_open(&other);
    publish(p, v);
    volume_close(v);
    p->conf.catalog = p->uri;
    cr_assert_gt(p->chunks, 4);
}

static void end(struct published *p)
{
    free(p->object), free(p->gone), free(p->kept), free(p->part), free(p->map);
    free(p->pub), free(p->folder), free(p->bytes);
    world_free(&p->w);
}

static bool has_name(void *arg)
{
    const struct published *p = arg;
    return access(p->kept, F_OK) == 0 && access(p->part, F_OK) && access(p->map, F_OK);
}

static bool is_without_part(void *arg)
{
    const struct published *p = arg;
    return access(p->part, F_OK) && access(p->map, F_OK);
}

static void check_kept(const struct published *p)
{
    char *got;
    size_t size;
    read_whole(p->kept, &got, &size);
    cr_expect(size == p->size && memcmp(got, p->bytes, size) == 0);
    free(got);
}

static void check_first(const struct published *p, struct volume *v)
{
    char path[300];
    (void)p;
    sample_path(1, path);
    check_file(v, path, 1000, 1);
}

static bool count_one(void *arg, const struct entry *e)
{
    *(unsigned *)arg += !e->folder;
    return true;
}

static int walk(struct volume *v, unsigned *ret_n, struct err *err)
{
    struct catalog *c = volume_catalog(v);
    *ret_n = 0;
    int rc = catalog_walk(c, 0, count_one, ret_n, err);
    catalog_unref(c);
    return rc;
}

static void check_all(struct published *p, struct volume *v)
{
    struct err err = {0};
    unsigned n;
    check_first(p, v);
    cr_assert_eq(walk(v, &n, &err), 0, "%s", err.msg);
    cr_expect_eq(n, SAMPLES);
}

/* As a process that died has left it: `have` says of each chunk whether it is there. */
static void leave(const struct published *p, const bool *have, const char *boot)
{
    cleanup_free char *bytes = xcalloc(1, p->size), *map = xcalloc(1, MAP_HEAD + p->chunks);
    struct stat st;
    char now[40];
    uint64_t numbers[3] = {p->size, 0, CHUNK};
    if (stat(p->object, &st))
        cr_assert_eq(stat(p->gone, &st), 0);
    numbers[1] = (uint64_t)(st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec);
    boot_id_read(now);
    memcpy(map, "sampan arriving", 15);
    memcpy(map + 16, boot ? boot : now, strlen(boot ? boot : now));
    memcpy(map + 216, numbers, sizeof numbers);
    for (size_t i = 0; i < p->chunks; i++) {
        size_t at = i * CHUNK, len = p->size - at < CHUNK ? p->size - at : CHUNK;
        if (have[i])
            memcpy(bytes + at, p->bytes + at, len);
        map[MAP_HEAD + i] = have[i] || boot ? 2 : 0;
    }
    mkdir(p->w.own, 0700);
    mkdir(p->folder, 0700);
    write_whole(p->part, bytes, p->size);
    write_whole(p->map, map, MAP_HEAD + p->chunks);
}

static void refuse(struct published *p, enum err_class want, const char *text)
{
    struct volume *v = NULL;
    struct err err = {0};
    cr_assert_eq(volume_open(&v, &p->conf, NULL, NULL, &err), -1, "%s", p->conf.catalog);
    cr_expect_eq(err.class, want, "%s", err.msg);
    cr_expect(strstr(err.msg, text), "%s: want \"%s\"", err.msg, text);
    cr_expect(access(p->kept, F_OK) && access(p->part, F_OK) && access(p->map, F_OK), "%s", text);
}

Test(arrive, it_is_served_and_then_kept)
{
    struct published p;
    begin(&p);
    struct volume *v = world_open(&p.conf);
    check_all(&p, v);
    wait_until(has_name, &p, "the whole catalog");
    check_kept(&p);
    check_all(&p, v);
    volume_close(v);
    cr_assert_eq(unlink(p.object), 0); /* nobody is asked any more */
    v = world_open(&p.conf);
    check_all(&p, v);
    volume_close(v);
    p.conf.catalog = NULL; /* it is the folder's own */
    v = world_open(&p.conf);
    check_all(&p, v);
    volume_close(v);
    end(&p);
}

/* An id that cannot be looked up is no id that nobody knows. */
static void check_ids_known(struct volume *v, enum err_class otherwise)
{
    struct catalog *now = volume_catalog(v);
    for (uint64_t id = 1; id < catalog_info(now)->next_id; id += 97) {
        struct err err = {0};
        struct catalog *c = volume_catalog_of(v, id, &err);
        cr_expect(c || err.class == otherwise, "id %" PRIu64 ": %s", id, err.msg);
        if (c)
            catalog_unref(c);
    }
    catalog_unref(now);
}

Test(arrive, what_is_here_serves_without_the_store_and_what_is_missing_is_an_error)
{
    struct published p;
    bool have[64];
    size_t served = 0;
    begin(&p);
    cr_assert_lt(p.chunks, sizeof have);
    cr_assert_eq(rename(p.object, p.gone), 0);
    for (size_t k = 0; k < p.chunks; k++) {
        for (size_t i = 0; i < p.chunks; i++)
            have[i] = i != k;
        leave(&p, have, NULL);
        struct volume *v = NULL;
        struct err err = {0};
        char path[300];
        struct entry e;
        unsigned n;
        if (volume_open(&v, &p.conf, NULL, NULL, &err)) {
            cr_expect_eq(err.class, ERR_STALE, "without chunk %zu: %s", k, err.msg);
            continue;
        }
        struct catalog *c = volume_catalog(v);
        sample_path(1, path);
        int rc = catalog_find(c, path, &e, &err);
        cr_expect(rc == 0 || err.class == ERR_STALE, "without chunk %zu: %s", k, err.msg);
        cr_expect(rc || e.size == 1000);
        served += rc == 0;
        catalog_unref(c);
        if (walk(v, &n, &err) == 0)
            cr_expect_eq(n, SAMPLES, "without chunk %zu", k); /* it is of the index alone */
        check_ids_known(v, ERR_STALE);
        cr_expect(access(p.kept, F_OK), "without chunk %zu it has its name", k);
        volume_close(v);
    }
    /* The first one is always needed; a look-up needs few of the others. */
    cr_expect(served >= p.chunks / 2 && served < p.chunks, "%zu of %zu", served, p.chunks);

    cr_assert_eq(rename(p.gone, p.object), 0); /* the rest comes */
    struct volume *v = world_open(&p.conf);
    check_all(&p, v);
    wait_until(has_name, &p, "the whole catalog");
    check_kept(&p);
    volume_close(v);
    end(&p);
}

Test(arrive, a_map_that_cannot_be_true_is_not_believed)
{
    struct published p;
    bool none[64] = {0};
    begin(&p);
    for (int i = 0; i < 5; i++) {
        leave(&p, none, i == 0 ? "00000000-0000-0000-0000-000000000000" : NULL);
        char *map;
        size_t size;
        read_whole(p.map, &map, &size);
        memset(map + MAP_HEAD, 2, p.chunks);
        map[224 + 8 + 2] = (char)(map[224 + 8 + 2] ^ (i == 1)); /* other chunks */
        map[3] = (char)(map[3] ^ (i == 2));
        if (i > 0)
            write_whole(p.map, map, i == 3 ? size - 1 : size);
        if (i == 4) /* of a shorter file */
            cr_assert_eq(truncate(p.part, (off_t)p.size - 4096), 0);
        free(map);
        struct volume *v = world_open(&p.conf);
        check_all(&p, v);
        wait_until(has_name, &p, "the whole catalog");
        check_kept(&p);
        volume_close(v);
        cr_assert_eq(unlink(p.kept), 0);
        cleanup_free char *current = xasprintf("%s/current", p.folder);
        cr_assert_eq(unlink(current), 0);
    }
    end(&p);
}

Test(arrive, what_is_no_such_catalog_is_refused_and_leaves_nothing)
{
    static const char no_digest[] = "file:///tmp/catalog";
    struct published p;
    begin(&p);
    p.conf.catalog = no_digest;
    refuse(&p, ERR_USAGE, "64");
    p.conf.catalog = p.uri;
    cr_assert_eq(rename(p.object, p.gone), 0);
    refuse(&p, ERR_NOT_FOUND, p.digest);
    write_whole(p.object, p.bytes, p.size / 2);
    refuse(&p, ERR_CORRUPT, "truncated");
    write_whole(p.object, p.bytes, 10);
    refuse(&p, ERR_CORRUPT, "too few");
    memset(p.bytes, 'x', 100);
    write_whole(p.object, p.bytes, p.size);
    refuse(&p, ERR_CORRUPT, "not a catalog");
    write_whole(p.object, p.bytes, 0);
    refuse(&p, ERR_CORRUPT, "no catalog");
    cr_assert_eq(unlink(p.object), 0);
    char other[CATALOG_DIGEST + 1];
    memcpy(other, p.digest, sizeof other);
    other[0] = other[0] == 'a' ? 'b' : 'a';
    cleanup_free char *was = xstrdup(p.gone);
    name_version(&p, other);
    cr_assert_eq(rename(was, p.object), 0);
    refuse(&p, ERR_CORRUPT, "another than its name says");
    end(&p);
}

static bool is_refused(void *arg)
{
    struct entry e;
    struct err err = {0};
    struct catalog *c = volume_catalog(arg);
    int rc = catalog_find(c, "c07", &e, &err);
    catalog_unref(c);
    return rc && err.class == ERR_CORRUPT;
}

Test(arrive, rows_that_are_not_the_versions_get_no_name_and_are_refused)
{
    struct published p;
    char path[300];
    begin(&p);
    sample_path(SAMPLES - 3, path);
    char *name = memmem(p.bytes, p.size, path + 4, strlen(path + 4));
    cr_assert_not_null(name);
    name[10] = '1'; /* as a store or a wire may do it: nothing else is amiss */
    write_whole(p.object, p.bytes, p.size);
    struct volume *v = world_open(&p.conf);
    check_first(&p, v);
    wait_until(is_refused, v, "the end of the wrong catalog");
    cr_expect(access(p.kept, F_OK) && access(p.part, F_OK) && access(p.map, F_OK));
    check_ids_known(v, ERR_CORRUPT);
    cr_expect(status_has(v, "\"state\":\"degraded\"") && status_has(v, "\"refused\":true") &&
              status_has(v, "is not that version"));
    volume_close(v);
    name[10] = '0';
    write_whole(p.object, p.bytes, p.size);
    v = world_open(&p.conf);
    check_all(&p, v);
    wait_until(has_name, &p, "the whole catalog");
    cr_expect(status_has(v, "\"state\":\"ready\"") && !status_has(v, "catalog_arriving"));
    volume_close(v);
    end(&p);
}

Test(arrive, an_object_that_was_replaced_meanwhile_is_not_mixed_with_what_is_here)
{
    struct published p;
    bool have[64] = {0};
    begin(&p);
    for (size_t i = 0; i + 1 < p.chunks; i++)
        have[i] = true;
    leave(&p, have, NULL);
    struct timespec later[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 2000000000}};
    cr_assert_eq(utimensat(AT_FDCWD, p.object, later, 0), 0);
    struct volume *v = NULL;
    struct err err = {0};
    unsigned n;
    if (volume_open(&v, &p.conf, NULL, NULL, &err) == 0) {
        if (walk(v, &n, &err) == 0) /* the last chunk may be the index's alone */
            cr_expect_eq(n, SAMPLES);
        wait_until(is_without_part, &p, "the end of what was begun");
        volume_close(v);
    } else {
        cr_expect_eq(err.class, ERR_STALE, "%s", err.msg);
    }
    v = world_open(&p.conf);
    check_all(&p, v);
    wait_until(has_name, &p, "the whole catalog");
    check_kept(&p);
    volume_close(v);
    end(&p);
}

/* Ids of a folder that knows other versions must agree: all of it comes before it is served. */
Test(arrive, a_folder_with_versions_takes_what_goes_on_from_them)
{
    struct published p;
    struct err err = {0};
    begin(&p);
    p.conf.catalog = NULL;
    struct volume *v = world_open(&p.conf); /* ids of its own */
    put_file(&p.w, "c00/new.jpg", 500, 77);
    cr_assert_eq(volume_rescan(v, NULL, &err), 0, "%s", err.msg);
    struct catalog *c = volume_catalog(v);
    cleanup_free char *file = xstrdup(catalog_file(c));
    catalog_unref(c);
    publish(&p, v);
    volume_close(v);
    cr_assert_eq(unlink(file), 0);
    cleanup_free char *current = xasprintf("%s/current", p.folder);
    cleanup_free char *dir = xasprintf("%s", p.folder);
    cr_assert_eq(unlink(current), 0);
    DIR *d = opendir(dir);
    for (const struct dirent *e; (e = readdir(d));)
        if (strlen(e->d_name) == CATALOG_DIGEST + 8)
            cr_assert_eq(symlink(e->d_name, current), 0); /* the version before is the newest */
    closedir(d);
    p.conf.catalog = p.uri;
    char *name = memmem(p.bytes, p.size, "new.jpg", 7);
    cr_assert_not_null(name);
    name[0] = 'm'; /* it is checked as one that comes while it is served */
    write_whole(p.object, p.bytes, p.size);
    refuse(&p, ERR_CORRUPT, "catalog");
    name[0] = 'n';
    write_whole(p.object, p.bytes, p.size);
    v = world_open(&p.conf);
    cr_expect(has_name(&p));
    check_file(v, "c00/new.jpg", 500, 77);
    check_first(&p, v);
    volume_close(v);

    /* Another's, whose ids mean other samples. */
    struct volume_conf other = p.conf;
    cleanup_free char *own = xasprintf("%s/third", p.w.root);
    cleanup_free char *cache = xasprintf("%s/third-cache", p.w.root);
    other.dir = own;
    other.tiers[0].dir = cache;
    other.catalog = NULL;
    drop_file(&p.w, "c00/new.jpg");
    put_file(&p.w, "a00/before.jpg", 100, 5);
    v = world_open(&other);
    publish(&p, v);
    volume_close(v);
    refuse(&p, ERR_USAGE, "another cache folder");
    end(&p);
}
