/* What becomes an object at once and whole: a file that grows without a name, and a WebHDFS object
 * under a temporary one (HDFS shows what a connection that broke has brought, as if it were all).
 */
#include <string.h>

#include "clock.h"
#include "hash.h"
#include "mem.h"
#include "sync.h"
#include "upload-internal.h"

#define FILE_PIECE   (4u << 20)
#define FILE_THREADS 4
#define APPEND_PIECE (8u << 20)

/* Hands the bytes over piece by piece; the first piece has off 0. */
typedef int take_fn(void *arg, const void *data, size_t len, bool first, struct err *err);

static int pump(const struct fetch_stream *p, size_t piece, take_fn *take, void *arg,
                struct err *err)
{
    piece = p->len < piece ? (size_t)p->len : piece;
    cleanup_free void *buf = xmalloc(piece ? piece : 1);
    uint64_t off = 0;
    do {
        size_t len = p->len - off < piece ? (size_t)(p->len - off) : piece;
        if ((len && p->read(p->arg, off, buf, len, err)) || take(arg, buf, len, off == 0, err))
            return -1;
        off += len;
    } while (off < p->len);
    return p->check ? p->check(p->arg, err) : 0;
}

/* --- files ------------------------------------------------------------------------------------ */

/* Pieces are read and written by some threads, each the next one: a store that takes its time to
 * answer is asked for several at once. */
struct filling {
    const struct fetch_stream *from;
    struct local_file *file;
    _Atomic uint64_t next; /* the first byte of the next piece */
    struct lock lock;
    struct err err; /* lock; the first one */
};

static int fill_piece(const struct filling *f, uint64_t off, void *buf, struct err *err)
{
    const struct fetch_stream *p = f->from;
    size_t len = p->len - off < FILE_PIECE ? (size_t)(p->len - off) : FILE_PIECE;
    return p->read(p->arg, off, buf, len, err) || store_local_write(f->file, buf, len, off, err)
               ? -1
               : 0;
}

static void *fill_main(void *arg)
{
    struct filling *f = arg;
    struct err err = {0};
    cleanup_free void *buf = xmalloc(FILE_PIECE);
    for (uint64_t off; (off = atomic_fetch_add(&f->next, FILE_PIECE)) < f->from->len;) {
        if (fill_piece(f, off, buf, &err) == 0)
            continue;
        atomic_store(&f->next, f->from->len); /* nobody begins another */
        ACQUIRE(&f->lock);
        if (!f->err.class)
            f->err = err;
        break;
    }
    return NULL;
}

static int fill(struct filling *f, struct err *err)
{
    const struct fetch_stream *p = f->from;
    pthread_t helpers[FILE_THREADS - 1];
    unsigned n = 0, most = p->parallel ? FILE_THREADS - 1 : 0;
    lock_init(&f->lock, RANK_FETCH_QUEUE, "fetch-fill");
    store_local_size(f->file, p->len);
    while (n < most && thread_start(&helpers[n], "fetch-fill", fill_main, f) == 0)
        n++;
    fill_main(f);
    while (n)
        pthread_join(helpers[--n], NULL);
    lock_destroy(&f->lock);
    if (f->err.class) {
        if (err)
            *err = f->err;
        return -1;
    }
    return p->check ? p->check(p->arg, err) : 0;
}

int stream_to_file(const struct fetch_stream *p, struct err *err)
{
    struct filling f = {.from = p};
    struct local_file *file;
    if (store_local_begin(p->store, p->key, &file, err))
        return -1;
    f.file = file;
    if (fill(&f, err)) {
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
    return put_piece(g->fetch, g->store, g->temp, data, len, !first, err);
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
    return xasprintf("%.*s" STORE_TEMP_PREFIX "%016llx", folder, key, (unsigned long long)mark);
}

int stream_by_appending(struct fetch *f, const struct fetch_stream *p, struct err *err)
{
    cleanup_free char *temp = p->temp ? xstrdup(p->temp) : fetch_temp_name(p->key);
    struct growing g = {f, p->store, temp};
    int result = pump(p, APPEND_PIECE, to_object, &g, err);
    if (result == 0 && p->len > APPEND_PIECE)
        result = check_length(&g, p->len, err);
    if (result == 0)
        result = fetch_rename_own(f, p->store, temp, p->key, (int64_t)p->len, err);
    if (result)
        fetch_delete(f, p->store, temp, NULL);
    return result ? err_wrap(err, "write \"%s\"", p->key) : 0;
}
