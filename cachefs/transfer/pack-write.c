/*
 * One pack, on a worker: its samples are read side by side into their places in one buffer, summed,
 * written as one object, and become rows. A sample that cannot be read is left out and is a
 * failure; a sample larger than a pack is a pack of its own and streams.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "copy-internal.h"
#include "crc.h"
#include "pack-internal.h"

#define READS_AT_ONCE 32

void pack_batch_free(struct pack_batch *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->n; i++) {
        free(b->samples[i].key);
        free(b->samples[i].old_object);
        free(b->samples[i].err);
    }
    free(b->samples);
    free(b);
}

/* --- failures --------------------------------------------------------------------------------- */

static void sample_failed(struct sync_run *r, const struct pack_batch *b,
                          const struct pack_sample *s, const struct err *why)
{
    struct err err = {0};
    if (why->class == ERR_CANCELLED)
        return;
    run_failed(r, s->key, why);
    if (s->old.there)
        pack_keep_row(b->packing, s->key, &s->old, &err); /* a failure is kept for the walk's end */
}

static void all_failed(struct sync_run *r, const struct pack_batch *b, const struct err *err)
{
    for (size_t i = 0; i < b->n; i++)
        if (!b->samples[i].failed)
            sample_failed(r, b, &b->samples[i], err);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void get_sample(const struct sync_run *r, const struct pack_sample *s, struct fetch_get *ret)
{
    if (!s->old_object) {
        get_of(r, &s->src, s->key, true, ret);
        return;
    }
    bool summed = store_etag_is_sum(s->src.etag);
    *ret = (struct fetch_get){.store = r->to,
                              .key = s->old_object,
                              .key_len = strlen(s->old_object),
                              .off = s->old_offset,
                              .object_size = FETCH_SIZE_UNKNOWN,
                              .etag = summed ? s->src.etag : "",
                              .sum_of_range = summed,
                              .prio = PRIO_WARMUP};
}

static void on_read(void *arg, const struct err *err)
{
    struct pack_sample *s = arg;
    struct pack_batch *b = s->batch;
    if (err) {
        s->err = xmalloc(sizeof *s->err);
        *s->err = *err;
    }
    ACQUIRE(&b->lock);
    b->under_way--;
    cond_signal(&b->ended);
}

static void wait_below(struct pack_batch *b, unsigned most)
{
    ACQUIRE(&b->lock);
    while (b->under_way >= most)
        cond_wait(&b->ended, &b->lock);
}

static void start_read(struct sync_run *r, struct pack_batch *b, struct pack_sample *s,
                       unsigned char *to)
{
    struct fetch_get g;
    struct err err = {0};
    get_sample(r, s, &g);
    g.len = (uint32_t)s->src.row.size;
    g.dest = to;
    g.done = on_read;
    g.arg = s;
    s->batch = b;
    {
        ACQUIRE(&b->lock);
        b->under_way++;
    }
    if (fetch_get(r->fetch, &g, &err))
        on_read(s, &err);
}

static void read_all(struct sync_run *r, struct pack_batch *b, unsigned char *data)
{
    lock_init(&b->lock, RANK_FETCH_QUEUE, "sync-pack-read");
    cond_init(&b->ended);
    uint64_t at = 0;
    for (size_t i = 0; i < b->n; i++) {
        struct pack_sample *s = &b->samples[i];
        s->offset = at;
        at += s->src.row.size;
        wait_below(b, READS_AT_ONCE);
        if (run_is_over(r))
            s->failed = true;
        else
            start_read(r, b, s, data + s->offset);
    }
    wait_below(b, 1);
    cond_destroy(&b->ended);
    lock_destroy(&b->lock);
}

/* A source that changed since it was listed: as it is now. */
static int look_now(struct sync_run *r, struct pack_sample *s, struct err *err)
{
    const struct sync_source *from = &r->sources[s->src.row.source];
    return look(r, from->store, source_key(r, &s->src, s->key), &s->src, err);
}

/* Of the same length it still fits. */
static int read_again(struct sync_run *r, struct pack_sample *s, unsigned char *data,
                      struct err *err)
{
    uint64_t size = s->src.row.size;
    struct fetch_get g;
    if (look_now(r, s, err))
        return -1;
    if (s->src.row.size != size)
        return err_set(err, ERR_STALE, "it changed since it was listed (sync again)");
    get_sample(r, s, &g);
    return fetch_read(r->fetch, &g, data + s->offset, s->src.row.size, err);
}

/* Takes out what could not be read, so that the pack has no holes; returns its length. */
static size_t close_gaps(struct sync_run *r, struct pack_batch *b, unsigned char *data)
{
    size_t end = 0;
    for (size_t i = 0; i < b->n; i++) {
        struct pack_sample *s = &b->samples[i];
        if (s->err && s->err->class == ERR_STALE && !s->old_object &&
            read_again(r, s, data, s->err) == 0)
            free(take_ptr(&s->err));
        if (s->err)
            sample_failed(r, b, s, s->err);
        s->failed |= s->err != NULL;
        if (s->failed)
            continue;
        if (end != s->offset)
            memmove(data + end, data + s->offset, s->src.row.size);
        s->offset = end;
        end += s->src.row.size;
    }
    return end;
}

/* --- writing ---------------------------------------------------------------------------------- */

static int new_name(char out[64], struct err *err)
{
    uint64_t number[2];
    if (getrandom(number, sizeof number, 0) != (ssize_t)sizeof number)
        return err_sys(err, errno, "draw a name");
    snprintf(out, 64, FETCH_PACKED_PACKS "%016llx%016llx", (unsigned long long)number[0],
             (unsigned long long)number[1]);
    return 0;
}

struct in_memory {
    const unsigned char *data;
};

static int read_memory(void *arg, uint64_t off, void *buf, size_t len, struct err *err)
{
    (void)err;
    const struct in_memory *m = arg;
    memcpy(buf, m->data + off, len);
    return 0;
}

/* What was written, with what it was written from. */
static int compare_pack(struct sync_run *r, const struct fetch_stream *p, struct err *err)
{
    const size_t piece = 4u << 20;
    cleanup_free unsigned char *back = xmalloc(piece), *wanted = xmalloc(piece);
    struct fetch_get g = {.store = r->to,
                          .key = p->key,
                          .key_len = strlen(p->key),
                          .object_size = p->len,
                          .etag = "",
                          .prio = PRIO_WARMUP};
    for (g.off = 0; g.off < p->len; g.off += piece) {
        size_t n = p->len - g.off < piece ? p->len - g.off : piece;
        if (p->read(p->arg, g.off, wanted, n, err) || fetch_read(r->fetch, &g, back, n, err))
            return -1;
        if (memcmp(back, wanted, n) == 0)
            continue;
        if (p->check && p->check(p->arg, err)) /* it is the source that changed */
            return -1;
        return err_set(err, ERR_CORRUPT, "the pack has other bytes than were written");
    }
    counter_add(&r->counts.checked, 1);
    counter_add(&r->counts.checked_bytes, p->len);
    return 0;
}

static int stream_pack(struct sync_run *r, const struct fetch_stream *p, struct err *err)
{
    if (!large_enter(r))
        return err_set(err, ERR_CANCELLED, "told to stop");
    int result = fetch_put_stream(r->fetch, p, err);
    large_leave(r);
    return result;
}

static int put_pack(struct sync_run *r, const char *name, const unsigned char *data, size_t len,
                    struct err *err)
{
    struct in_memory m = {data};
    const struct fetch_stream p = {.store = r->to,
                                   .key = name,
                                   .len = len,
                                   .read = read_memory,
                                   .arg = &m,
                                   .opts = {.hasty = true}};
    int result = len < FETCH_PUT_WHOLE
                     ? fetch_put_bytes(r->fetch, r->to, name, data, len, &p.opts, NULL, err)
                     : stream_pack(r, &p, err);
    return result == 0 && r->conf->check_new ? compare_pack(r, &p, err) : result;
}

static int add_sample(struct sync_run *r, struct packing *p, const struct pack_sample *s,
                      const char *name, const char *sum, struct err *err)
{
    const struct row row = {.key = s->key,
                            .key_len = strlen(s->key),
                            .size = s->src.row.size,
                            .mtime_ns = s->src.row.mtime_ns,
                            .etag = sum,
                            .object = name,
                            .pack_offset = s->offset};
    if (!s->old_object) {
        counter_add(&r->counts.copied, 1);
        counter_add(&r->counts.copied_bytes, s->src.row.size);
    }
    return pack_add_row(p, &row, err);
}

static int write_filled(struct sync_run *r, struct pack_batch *b, const unsigned char *data,
                        size_t len, struct err *err)
{
    char name[64], sum[64];
    bool any = false;
    for (size_t i = 0; i < b->n; i++)
        any |= !b->samples[i].failed;
    if (!any)
        return 0;
    if (new_name(name, err) || put_pack(r, name, data, len, err))
        return -1;
    counter_add(&r->counts.packs, 1);
    run_went_well(r);
    for (size_t i = 0; i < b->n; i++) {
        const struct pack_sample *s = &b->samples[i];
        snprintf(sum, sizeof sum, "sum:crc32c:%08x",
                 s->failed ? 0 : crc32c(0, data + s->offset, s->src.row.size));
        if (!s->failed && add_sample(r, b->packing, s, name, sum, err))
            return 0; /* the walk's end says so */
    }
    return 0;
}

/* --- a sample that is a pack ------------------------------------------------------------------ */

struct whole_sample {
    struct sync_run *run;
    const struct pack_sample *sample;
    struct fetch_get get;
    uint64_t base;
};

static int read_sample(void *arg, uint64_t off, void *buf, size_t len, struct err *err)
{
    struct whole_sample *w = arg;
    if (run_is_over(w->run))
        return err_set(err, ERR_CANCELLED, "told to stop");
    w->get.off = w->base + off;
    return fetch_read(w->run->fetch, &w->get, buf, len, err);
}

static int check_sample(void *arg, struct err *err)
{
    const struct whole_sample *w = arg;
    const struct pack_sample *s = w->sample;
    return s->old_object ? 0 : check_unchanged(w->run, &s->src, s->key, err);
}

static int stream_sample(struct sync_run *r, const struct pack_sample *s, const char *name,
                         struct err *err)
{
    struct whole_sample w = {.run = r, .sample = s};
    get_sample(r, s, &w.get);
    w.base = w.get.off;
    w.get.sum_of_range = false;
    if (s->old_object)
        w.get.etag = "";
    const struct fetch_stream p = {.store = r->to,
                                   .key = name,
                                   .len = s->src.row.size,
                                   .read = read_sample,
                                   .check = check_sample,
                                   .arg = &w,
                                   .opts = {.hasty = true}};
    if (stream_pack(r, &p, err))
        return -1;
    return r->conf->check_new ? compare_pack(r, &p, err) : 0;
}

static int write_large(struct sync_run *r, struct pack_batch *b, struct err *err)
{
    struct pack_sample *s = &b->samples[0];
    char name[64];
    if (new_name(name, err))
        return -1;
    for (unsigned i = 0; stream_sample(r, s, name, err); i++)
        if (err->class != ERR_STALE || s->old_object || i == CHANGES_MAX || look_now(r, s, err))
            return -1;
    counter_add(&r->counts.packs, 1);
    s->offset = 0;
    add_sample(r, b->packing, s, name, "", err); /* a failure is kept for the walk's end */
    return 0;
}

void pack_write(struct sync_run *r, struct pack_batch *b)
{
    struct err err = {0};
    if (b->bytes > r->conf->pack_size) {
        if (write_large(r, b, &err))
            all_failed(r, b, &err);
        return;
    }
    cleanup_buf struct buf *data = run_buf(r, b->bytes + !b->bytes);
    if (!data)
        return;
    read_all(r, b, data->data);
    size_t len = close_gaps(r, b, data->data);
    if (!run_is_over(r) && write_filled(r, b, data->data, len, &err))
        all_failed(r, b, &err);
}
