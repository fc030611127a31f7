/* A SET argument (URI, set file, catalog file) as open stores, and what identifies the set. */
#define LOG_MODULE "volume"
#include "volume-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "log.h"

static bool is_catalog_file(const char *path)
{
    static const char magic[16] = "SQLite format 3";
    char head[sizeof magic];
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd >= 0 && pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head &&
           memcmp(head, magic, sizeof magic) == 0;
}

static int set_from_catalog(struct set *ret, const char *file, struct err *err)
{
    struct catalog *c;
    if (catalog_open(&c, file, err))
        return -1;
    uint32_t n = catalog_info(c)->n_sources;
    *ret = (struct set){.sources = xcalloc(n ? n : 1, sizeof *ret->sources), .n = n};
    for (uint32_t i = 0; i < n; i++) {
        ret->sources[i].uri = xstrdup(catalog_source_uri(c, i));
        ret->sources[i].at = xstrdup(catalog_source_at(c, i));
    }
    catalog_unref(c);
    return 0;
}

int volume_sources(struct set *ret, const char *arg, struct err *err)
{
    return is_catalog_file(arg) ? set_from_catalog(ret, arg, err) : set_from_arg(ret, arg, err);
}

/* Where the bytes come from, but not with which key: temporary credentials have a new one each
 * time, and the bytes in the cache stay the set's. */
static void add_identity(struct bytes *out, const char *at, const struct store *s)
{
    cleanup_bytes struct bytes text = {0};
    store_identity(s, &text);
    const char *key = text.data ? strstr(text.data, " key=") : NULL;
    int len = key ? (int)(key - text.data) : (int)text.len;
    bytes_addf(out, "%s=%s %.*s\n", at, store_uri(s), len, text.data ? text.data : "");
}

static int open_stores(struct sources *s, const struct store_conf *conf, struct err *err)
{
    s->stores = xcalloc(s->set.n ? s->set.n : 1, sizeof *s->stores);
    for (size_t i = 0; i < s->set.n; i++) {
        if (store_open(&s->stores[i], s->set.sources[i].uri, conf, err))
            return -1;
        add_identity(&s->identity, s->set.sources[i].at, s->stores[i]);
    }
    return 0;
}

int sources_open(struct sources *ret, const struct volume_conf *conf, struct err *err)
{
    struct sources s = {0};
    if (is_catalog_file(conf->set))
        s.catalog_file = xstrdup(conf->set);
    int rc = volume_sources(&s.set, conf->set, err);
    if (!rc)
        rc = open_stores(&s, &conf->store, err);
    if (rc) {
        sources_close(&s);
        return -1;
    }
    *ret = s;
    return 0;
}

void sources_close(struct sources *s)
{
    for (size_t i = 0; s->stores && i < s->set.n; i++)
        if (s->stores[i])
            store_close(s->stores[i]);
    free(s->stores);
    set_release(&s->set);
    bytes_release(&s->identity);
    free(s->catalog_file);
    *s = (struct sources){0};
}

static bool same_uri(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    while (n > 0 && a[n - 1] == '/')
        n--;
    while (m > 0 && b[m - 1] == '/')
        m--;
    return n == m && memcmp(a, b, n) == 0;
}

bool sources_match(const struct sources *s, struct catalog *c)
{
    if (catalog_info(c)->n_sources != s->set.n)
        return false;
    for (uint32_t i = 0; i < s->set.n; i++) {
        const char *uri = catalog_source_uri(c, i);
        if (!same_uri(uri, store_uri(s->stores[i])) && !same_uri(uri, s->set.sources[i].uri))
            return false;
        if (strcmp(catalog_source_at(c, i), s->set.sources[i].at) != 0)
            return false;
    }
    return true;
}

int catalog_folder(const struct volume_conf *conf, struct bytes *ret, struct err *err)
{
    if (mkdir(conf->dir, 0700) && errno != EEXIST)
        return err_sys(err, errno, "make the owner's folder %s", conf->dir);
    bytes_clear(ret);
    bytes_addf(ret, "%s/catalog", conf->dir);
    if (mkdir(ret->data, 0700))
        return errno == EEXIST ? 0 : err_sys(err, errno, "make %s", ret->data);
    /* A version is durable only if its folder's name is. */
    if (file_sync_name(ret->data)) {
        int why = errno;
        rmdir(ret->data);
        return err_sys(err, why, "make %s durable", ret->data);
    }
    return 0;
}
