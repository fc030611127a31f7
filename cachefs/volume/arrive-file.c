/*
 * A catalog that is on its way, as it lies in the folder: the part, and the map of what is in it.
 */
#define LOG_MODULE "volume"
#include "arrive-internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "early.h"
#include "file.h"
#include "hash.h"

#define SIZE_MOST (1ull << 40)
#define PART      ".catalog.part"
#define MAP       ".map"

static const char map_title[16] = "sampan arriving";

/* --- what an address names -------------------------------------------------------------------- */

const char *arrival_digest(const char *uri)
{
    const char *slash = strrchr(uri, '/');
    return slash && hex_is(slash + 1, CATALOG_DIGEST) ? slash + 1 : NULL;
}

static bool ends_in(const char *text, const char *end, size_t before)
{
    size_t n = strlen(end);
    return before >= n && memcmp(text + before - n, end, n) == 0;
}

bool version_is_object(const struct volume *v)
{
    const char *uri = v->conf.catalog;
    if (!uri || !strstr(uri, "://"))
        return false;
    bool web = strncmp(uri, "http://", 7) == 0 || strncmp(uri, "https://", 8) == 0;
    const char *slash = strrchr(uri, '/');
    return !web || !ends_in(uri, "/v1/catalog/", (size_t)(slash - uri) + 1);
}

bool arrival_has_versions(const char *folder)
{
    cleanup_free char *current = xasprintf("%s/current", folder);
    struct stat st;
    return lstat(current, &st) == 0 || errno != ENOENT;
}

int arrival_open_store(struct arrival *a, const struct volume_conf *conf, struct err *err)
{
    const char *digest = arrival_digest(conf->catalog);
    if (!digest)
        return err_set(err, ERR_USAGE,
                       "--catalog %s: want an address that ends in a version's name, %d "
                       "hexadecimal digits",
                       conf->catalog, CATALOG_DIGEST);
    memcpy(a->digest, digest, CATALOG_DIGEST + 1);
    cleanup_free char *folder = xstrndup(conf->catalog, (size_t)(digest - conf->catalog));
    return store_open(&a->store, folder, &conf->store, err);
}

/* --- its size, and what tells it from another ------------------------------------------------- */

/* The answer to a HEAD has no words: a byte is asked for, to hear why. */
static int say_denied(struct arrival *a, struct err *err)
{
    char byte;
    struct err e = {0};
    const struct fetch_get g = {.store = a->store,
                                .key = a->digest,
                                .key_len = CATALOG_DIGEST,
                                .len = 1,
                                .object_size = FETCH_SIZE_UNKNOWN,
                                .etag = "",
                                .dest = &byte,
                                .prio = PRIO_READER};
    if (err && err->class == ERR_DENIED && fetch_get_wait(a->fetch, &g, &e) &&
        e.class == ERR_DENIED)
        *err = e;
    return -1;
}

static int ask(struct arrival *a, struct map_head *ret, struct err *err)
{
    struct http_answer answer = {0};
    int64_t size;
    if (store_caps(a->store) & STORE_LOCAL) {
        cleanup_free char *file = xasprintf("%s/%s", store_local_dir(a->store), a->digest);
        struct stat st;
        if (stat(file, &st))
            return err_sys(err, errno, "%s", file);
        size = st.st_size;
        ret->mtime_ns = clock_ns_of(&st.st_mtim);
    } else {
        if (fetch_head(a->fetch, a->store, a->digest, &answer, err))
            return say_denied(a, err);
        size = answer.content_length;
        store_etag_add(ret->etag, &answer);
    }
    if (size <= 0 || (uint64_t)size > SIZE_MOST)
        return err_set(err, ERR_CORRUPT, "%s%s: %lld bytes are no catalog", store_uri(a->store),
                       a->digest, (long long)size);
    ret->size = (uint64_t)size;
    return 0;
}

bool arrival_is_another(struct arrival *a)
{
    struct map_head now = {0};
    struct err err = {0};
    if (ask(a, &now, &err))
        return err.class == ERR_CORRUPT;
    return now.size != a->head.size || now.mtime_ns != a->head.mtime_ns ||
           strcmp(now.etag, a->head.etag) != 0;
}

/* --- the two files ---------------------------------------------------------------------------- */

static void count_chunks(struct arrival *a)
{
    a->n_chunks = (size_t)((a->head.size + CHUNK - 1) / CHUNK);
    a->state = xcalloc(a->n_chunks, 1);
}

void arrival_close_files(struct arrival *a)
{
    if (a->fd >= 0)
        close(a->fd);
    if (a->map_fd >= 0)
        close(a->map_fd);
    a->fd = a->map_fd = -1;
}

void arrival_remove_files(const struct arrival *a)
{
    unlink(a->map); /* without it the other is believed by nobody */
    unlink(a->part);
}

static bool head_is_good(const struct map_head *h, const struct map_head *want)
{
    return memcmp(h->title, want->title, sizeof h->title) == 0 &&
           memcmp(h->boot, want->boot, sizeof h->boot) == 0 && *h->boot && h->chunk == CHUNK &&
           h->size > 0 && h->size <= SIZE_MOST && memchr(h->etag, '\0', sizeof h->etag);
}

/* What a process before this one has brought. False: nothing that can be used. */
static bool resume(struct arrival *a)
{
    struct map_head h;
    struct stat st, map_st;
    a->fd = open(a->part, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    a->map_fd = open(a->map, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (a->fd < 0 || a->map_fd < 0 || fstat(a->fd, &st) || fstat(a->map_fd, &map_st) ||
        file_read(a->map_fd, &h, sizeof h, 0) != sizeof h || !head_is_good(&h, &a->head) ||
        (uint64_t)st.st_size != h.size ||
        (uint64_t)map_st.st_size != MAP_HEAD + (h.size + CHUNK - 1) / CHUNK)
        return false;
    a->head = h;
    count_chunks(a);
    if (file_read(a->map_fd, a->state, a->n_chunks, MAP_HEAD) != (ssize_t)a->n_chunks) {
        free(take_ptr(&a->state));
        return false;
    }
    for (size_t i = 0; i < a->n_chunks; i++) {
        a->state[i] = a->state[i] == HERE ? HERE : ABSENT;
        a->n_here += a->state[i] == HERE;
    }
    return true;
}

/* All of its room is taken now: a full disk is the mount's error, not a reader's. */
static int make_part(struct arrival *a, struct err *err)
{
    a->fd = open(a->part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (a->fd < 0)
        return err_sys(err, errno, "write %s", a->part);
    int e = posix_fallocate(a->fd, 0, (off_t)a->head.size);
    return e ? err_sys(err, e, "make room for %s", a->part) : 0;
}

static int make_map(struct arrival *a, struct err *err)
{
    cleanup_free char *fresh = xasprintf("%s.new", a->map);
    a->map_fd = open(fresh, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (a->map_fd < 0 || file_write(a->map_fd, &a->head, sizeof a->head, 0) ||
        ftruncate(a->map_fd, (off_t)(MAP_HEAD + a->n_chunks)) || rename(fresh, a->map)) {
        int why = errno;
        unlink(fresh);
        return err_sys(err, why, "write %s", a->map);
    }
    return 0;
}

int arrival_open_files(struct arrival *a, struct err *err)
{
    a->part = xasprintf("%s/%s" PART, a->folder, a->digest);
    a->map = xasprintf("%s" MAP, a->part);
    memcpy(a->head.title, map_title, sizeof map_title);
    a->head.chunk = CHUNK;
    boot_id_read(a->head.boot);
    if (resume(a))
        return 0;
    arrival_close_files(a);
    arrival_remove_files(a);
    if (ask(a, &a->head, err))
        return err_wrap(err, "version %.12s", a->digest);
    count_chunks(a);
    if (make_part(a, err) || make_map(a, err)) {
        arrival_remove_files(a);
        return -1;
    }
    return 0;
}

void arrival_tidy(const char *folder, const char *but)
{
    cleanup_dir DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));) {
        bool is_part = strlen(e->d_name) > CATALOG_DIGEST &&
                       strncmp(e->d_name + CATALOG_DIGEST, PART, sizeof PART - 1) == 0;
        if (is_part && (!but || strncmp(e->d_name, but, CATALOG_DIGEST) != 0))
            unlinkat(dirfd(d), e->d_name, 0);
    }
}
