#include "support.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "mem.h"

#define STEP (128u << 10)

void world_new(struct world *w)
{
    w->root = xstrdup("/tmp/sampan-unit-volume.XXXXXX");
    cr_assert_not_null(mkdtemp(w->root));
    w->src = xasprintf("%s/src", w->root);
    w->own = xasprintf("%s/own", w->root);
    w->cache = xasprintf("%s/cache", w->root);
    w->uri = xasprintf("file://%s", w->src);
    cr_assert_eq(mkdir(w->src, 0700), 0);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

void world_free(struct world *w)
{
    nftw(w->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(w->root);
    free(w->src);
    free(w->own);
    free(w->cache);
    free(w->uri);
}

unsigned char content_at(unsigned seed, uint64_t at)
{
    return (unsigned char)(seed * 37 + at * 7 + (at >> 9) * 11 + (at >> 17) * 5);
}

static void make_folders(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(path, 0700);
        *p = '/';
    }
}

static int create(const struct world *w, const char *path)
{
    cleanup_free char *full = xasprintf("%s/%s", w->src, path);
    make_folders(full);
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    cr_assert(fd >= 0, "%s: %s", full, strerror(errno));
    return fd;
}

void put_file(const struct world *w, const char *path, uint64_t size, unsigned seed)
{
    cleanup_close int fd = create(w, path);
    unsigned char *data = xmalloc(STEP);
    for (uint64_t at = 0; at < size;) {
        size_t n = size - at < STEP ? (size_t)(size - at) : STEP;
        for (size_t i = 0; i < n; i++)
            data[i] = content_at(seed, at + i);
        cr_assert_eq(write(fd, data, n), (ssize_t)n);
        at += n;
    }
    free(data);
    struct timespec times[2] = {{.tv_sec = 1000000 + (time_t)seed},
                                {.tv_sec = 1000000 + (time_t)seed}};
    cr_assert_eq(futimens(fd, times), 0);
}

void put_text(const struct world *w, const char *path, const char *text)
{
    cleanup_close int fd = create(w, path);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

void drop_file(const struct world *w, const char *path)
{
    cleanup_free char *full = xasprintf("%s/%s", w->src, path);
    cr_assert_eq(unlink(full), 0);
}

void world_conf(const struct world *w, struct volume_conf *ret)
{
    *ret = (struct volume_conf){.set = w->uri, .dir = w->own, .memory = 256 << 20, .n_tiers = 1};
    fetch_conf_defaults(&ret->fetch);
    ret->fetch.connections = 8;
    ret->tiers[0] = (struct tier_conf){TIER_SSD, w->cache, 256 << 20};
    ret->build_layers = layers_build;
}

struct volume *world_open(const struct volume_conf *conf)
{
    struct volume *v = NULL;
    struct err err = {0};
    cr_assert_eq(volume_open(&v, conf, NULL, NULL, &err), 0, "%s", err.msg);
    return v;
}

uint64_t id_of(struct volume *v, const char *path)
{
    struct entry e;
    struct err err = {0};
    struct catalog *c = volume_catalog(v);
    cr_assert_eq(catalog_find(c, path, &e, &err), 0, "%s: %s", path, err.msg);
    catalog_unref(c);
    return e.id;
}

void check_range(struct volume *v, uint64_t id, unsigned seed, uint64_t off, uint32_t len,
                 uint32_t want)
{
    struct view view;
    struct err err = {0};
    cr_assert_eq(volume_read_wait(v, id, off, len, &view, &err), 0, "%s", err.msg);
    cr_assert_eq(view.len, want, "%zu bytes, want %u, at %llu", view.len, want,
                 (unsigned long long)off);
    const unsigned char *data = view.ptr;
    for (uint32_t i = 0; i < want; i++)
        cr_assert(data[i] == content_at(seed, off + i), "wrong byte at %llu",
                  (unsigned long long)off + i);
    view_release(&view);
}

void check_sample(struct volume *v, uint64_t id, uint64_t size, unsigned seed)
{
    uint64_t at = 0;
    do {
        uint32_t want = size - at < STEP ? (uint32_t)(size - at) : STEP;
        check_range(v, id, seed, at, STEP, want);
        at += want;
    } while (at < size);
}

void check_file(struct volume *v, const char *path, uint64_t size, unsigned seed)
{
    check_sample(v, id_of(v, path), size, seed);
}

void wait_until(bool (*cond)(void *arg), void *arg, const char *what)
{
    uint64_t began = clock_mono_ns();
    while (!cond(arg)) {
        cr_assert(clock_mono_ns() - began < 300 * NS_PER_S, "never came true: %s", what);
        usleep(2000);
    }
}

void status_text(struct volume *v, struct bytes *ret)
{
    struct json_writer w;
    jw_init(&w, ret);
    jw_object(&w, NULL);
    volume_status(v, &w);
    jw_end(&w);
}

bool status_has(struct volume *v, const char *text)
{
    cleanup_bytes struct bytes status = {0};
    status_text(v, &status);
    return strstr(status.data, text) != NULL;
}

int64_t status_int(struct volume *v, const char *path)
{
    cleanup_bytes struct bytes text = {0};
    cleanup_json struct json_doc *doc = NULL;
    struct err err = {0};
    int64_t n = 0;
    char group[32] = "";
    const char *dot = strchr(path, '.');
    status_text(v, &text);
    cr_assert_eq(json_parse(&doc, "status", text.data, text.len, &err), 0, "%s", err.msg);
    struct json root = json_root(doc);
    struct json at = root;
    if (dot) {
        snprintf(group, sizeof group, "%.*s", (int)(dot - path), path);
        at = json_get(&root, group);
        path = dot + 1;
    }
    cr_assert_eq(json_int(&at, path, 0, INT64_MAX, &n, &err), 0, "%s", err.msg);
    return n;
}

struct digest served(struct volume *v)
{
    struct digest d;
    struct catalog *c = volume_catalog(v);
    memcpy(d.text, catalog_info(c)->digest, sizeof d.text);
    catalog_unref(c);
    return d;
}
