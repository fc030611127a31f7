/* Long objects of stores that have no uploads in parts: a file that grows without a name, and a
 * WebHDFS object that grows under a temporary one. Both appear whole, by a rename. */
#include <string.h>

#include "clock.h"
#include "hash.h"
#include "mem.h"
#include "upload-internal.h"

#define FILE_PIECE   (4u << 20)
#define APPEND_PIECE (8u << 20)

/* Hands the bytes over piece by piece; the first piece has off 0. */
typedef int take_fn(void *arg, const void *data, size_t len, bool first, struct err *err);

static int pump(const struct fetch_stream *p, size_t piece, take_fn *take, void *arg,
                struct err *err)
{
    cleanup_free void *buf = xmalloc(piece);
    for (uint64_t off = 0; off < p->len;) {
        size_t len = p->len - off < piece ? (size_t)(p->len - off) : piece;
        if (p->read(p->arg, off, buf, len, err) || take(arg, buf, len, off == 0, err))
            return -1;
        off += len;
    }
    return p->check ? p->check(p->arg, err) : 0;
}

/* --- files ------------------------------------------------------------------------------------ */

static int to_file(void *arg, const void *data, size_t len, bool first, struct err *err)
{
    (void)first;
    return store_local_append(arg, data, len, err);
}

int stream_to_file(const struct fetch_stream *p, struct err *err)
{
    struct local_file *file;
    if (store_local_begin(p->store, p->key, &file, err))
        return -1;
    if (pump(p, FILE_PIECE, to_file, file, err)) {
        store_local_abort(file);
        return -1;
    }
    return store_local_commit(file, p->opts.attrs, !p->opts.hasty, err);
}

/* --- WebHDFS ---------------------------------------------------------------------------------- */

struct growing {
    struct fetch *fetch;
    struct store *store;
    char *temp;
};

static int to_object(void *arg, const void *data, size_t len, bool first, struct err *err)
{
    const struct growing *g = arg;
    return first ? fetch_put(g->fetch, g->store, g->temp, data, len, err)
                 : put_append(g->fetch, g->store, g->temp, data, len, err);
}

/* An append that was tried again may have been done twice. */
static int check_length(const struct growing *g, uint64_t want, struct err *err)
{
    struct http_answer a;
    if (fetch_head(g->fetch, g->store, g->temp, &a, err))
        return -1;
    if (a.content_length >= 0 && (uint64_t)a.content_length == want)
        return 0;
    return err_set(err, ERR_TRANSIENT, "it came out with %lld bytes instead of %llu (try again)",
                   (long long)a.content_length, (unsigned long long)want);
}

char *fetch_temp_name(const char *key)
{
    const char *slash = strrchr(key, '/');
    int folder = slash ? (int)(slash + 1 - key) : 0;
    uint64_t mark = hash_mix64(hash64(key, strlen(key), 0) ^ clock_mono_ns());
    return xasprintf("%.*s.sampan-put-%016llx", folder, key, (unsigned long long)mark);
}

int stream_by_appending(struct fetch *f, const struct fetch_stream *p, struct err *err)
{
    cleanup_free char *temp = p->temp ? xstrdup(p->temp) : fetch_temp_name(p->key);
    struct growing g = {f, p->store, temp};
    int result = pump(p, APPEND_PIECE, to_object, &g, err);
    if (result == 0)
        result = check_length(&g, p->len, err);
    if (result == 0)
        result = fetch_delete(f, p->store, p->key, err); /* a rename replaces nothing there */
    if (result == 0)
        result = fetch_rename(f, p->store, temp, p->key, err);
    if (result)
        fetch_delete(f, p->store, temp, NULL);
    return result ? err_wrap(err, "write \"%s\"", p->key) : 0;
}
