/*
 * The external sorter.
 *
 * A record is {u32 key_len, u32 data_len, key, data}, the same in the arena and in the file.
 * States:
 *
 *   adding    records gather in the arena; runs may already be in the file
 *   reading   either all records are in the (sorted) arena and there is no run, or the arena is
 *             freed and every record is in a run
 */
#include "sort.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "file.h"
#include "mem.h"

#define HEAD        (2 * sizeof(uint32_t))
#define RUN_BUFFER  (128u << 10) /* read ahead of each run while merging */
#define SPILL_CHUNK (1u << 20)   /* one write of a spilled run */
#define FIRST_ARENA (256u << 10)

struct run {
    uint64_t at, end; /* what of the file is not in the buffer yet */
    unsigned char *buf;
    size_t have, used, cap;
};

struct sorter {
    char *dir;
    int fd; /* -1: nothing spilled */
    uint64_t file_end;
    uint64_t count;
    bool reading;

    unsigned char *arena;
    size_t used, cap, limit;
    uint32_t *order; /* places of the records in the arena */
    size_t n, order_cap;
    size_t next; /* reading without runs: index into order */

    struct run *runs;
    size_t n_runs;
    uint64_t *starts; /* of each run in the file; starts[n_runs] is the end of the last */
    size_t *heap;     /* runs that have a record, the smallest first */
    size_t n_heap;
    bool advance; /* the record on top was handed out */
};

struct sorter *sorter_new(const char *dir, size_t arena)
{
    struct sorter *s = xcalloc(1, sizeof *s);
    assert(arena < UINT32_MAX);
    s->dir = xstrdup(dir);
    s->fd = -1;
    s->limit = arena;
    s->starts = xcalloc(1, sizeof *s->starts);
    return s;
}

void sorter_set_memory(struct sorter *s, size_t arena)
{
    assert(arena < UINT32_MAX);
    s->limit = arena;
}

static void drop_runs(struct sorter *s)
{
    for (size_t i = 0; s->runs && i < s->n_runs; i++)
        free(s->runs[i].buf);
    free(s->runs);
    free(s->heap);
    s->runs = NULL;
    s->heap = NULL;
}

static void drop_arena(struct sorter *s)
{
    free(s->arena);
    free(s->order);
    s->arena = NULL;
    s->order = NULL;
    s->used = s->cap = s->n = s->order_cap = 0;
}

void sorter_free(struct sorter *s)
{
    if (!s)
        return;
    drop_runs(s);
    drop_arena(s);
    if (s->fd >= 0)
        close(s->fd);
    free(s->starts);
    free(s->dir);
    free(s);
}

uint64_t sorter_count(const struct sorter *s)
{
    return s->count;
}

static void record_at(const unsigned char *p, struct sorted *ret)
{
    uint32_t head[2];
    memcpy(head, p, HEAD);
    *ret = (struct sorted){p + HEAD, head[0], p + HEAD + head[0], head[1]};
}

static int compare(const struct sorted *a, const struct sorted *b)
{
    size_t len = a->key_len < b->key_len ? a->key_len : b->key_len;
    int c = len ? memcmp(a->key, b->key, len) : 0;
    if (c)
        return c;
    return a->key_len < b->key_len ? -1 : a->key_len > b->key_len;
}

static bool in_order(const struct sorter *s, uint32_t a, uint32_t b)
{
    struct sorted x, y;
    record_at(s->arena + a, &x);
    record_at(s->arena + b, &y);
    return compare(&x, &y) <= 0;
}

/* Stable; linear where the halves are in order already, as listings mostly are. */
static void merge_sort(const struct sorter *s, uint32_t *a, uint32_t *spare, size_t n)
{
    if (n < 2)
        return;
    size_t half = n / 2;
    merge_sort(s, a, spare, half);
    merge_sort(s, a + half, spare, n - half);
    if (in_order(s, a[half - 1], a[half]))
        return;
    memcpy(spare, a, half * sizeof *a);
    size_t i = 0, j = half, to = 0;
    while (i < half)
        a[to++] = j == n || in_order(s, spare[i], a[j]) ? spare[i++] : a[j++];
}

static void sort_arena(struct sorter *s)
{
    uint32_t *spare = xmalloc((s->n / 2 + 1) * sizeof *spare);
    merge_sort(s, s->order, spare, s->n);
    free(spare);
}

static int write_all(struct sorter *s, const void *data, size_t len, struct err *err)
{
    if (file_write(s->fd, data, len, s->file_end))
        return err_sys(err, errno, "sort: write a temporary file in %s", s->dir);
    s->file_end += len;
    return 0;
}

int unnamed_file(const char *dir, struct err *err)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        cleanup_free char *path = xasprintf("%s/.sort-XXXXXX", dir);
        fd = mkostemp(path, O_CLOEXEC);
        if (fd >= 0)
            unlink(path);
    }
    return fd < 0 ? err_sys(err, errno, "make a temporary file in %s", dir) : fd;
}

/* Sorts the arena, appends it to the file as a run and empties it. */
static int spill(struct sorter *s, struct err *err)
{
    if (s->n == 0)
        return 0;
    if (s->fd < 0 && (s->fd = unnamed_file(s->dir, err)) < 0)
        return -1;
    sort_arena(s);
    cleanup_bytes struct bytes out = {0};
    for (size_t i = 0; i < s->n; i++) {
        struct sorted r;
        record_at(s->arena + s->order[i], &r);
        bytes_add(&out, s->arena + s->order[i], HEAD + r.key_len + r.data_len);
        if (out.len >= SPILL_CHUNK || i + 1 == s->n) {
            if (write_all(s, out.data, out.len, err) < 0)
                return -1;
            bytes_clear(&out);
        }
    }
    s->n_runs++;
    s->starts = xrealloc(s->starts, (s->n_runs + 1) * sizeof *s->starts);
    s->starts[s->n_runs] = s->file_end;
    s->used = s->n = 0;
    return 0;
}

static void grow(struct sorter *s, size_t need)
{
    while (s->used + need > s->cap) {
        s->cap = s->cap ? 2 * s->cap : FIRST_ARENA;
        if (s->cap > s->limit && s->used + need <= s->limit)
            s->cap = s->limit;
        s->arena = xrealloc(s->arena, s->cap);
    }
    if (s->n == s->order_cap) {
        s->order_cap = s->order_cap ? 2 * s->order_cap : 4096;
        s->order = xrealloc(s->order, s->order_cap * sizeof *s->order);
    }
}

int sorter_add(struct sorter *s, const void *key, size_t key_len, const void *data, size_t data_len,
               struct err *err)
{
    assert(!s->reading);
    size_t need = HEAD + key_len + data_len;
    if (key_len > UINT32_MAX / 4 || data_len > UINT32_MAX / 4)
        return err_set(err, ERR_LIMIT, "sort: a record of %zu bytes", need);
    if (s->used + need > s->limit && spill(s, err) < 0)
        return -1;
    grow(s, need);
    uint32_t head[2] = {(uint32_t)key_len, (uint32_t)data_len};
    unsigned char *p = s->arena + s->used;
    memcpy(p, head, HEAD);
    if (key_len)
        memcpy(p + HEAD, key, key_len);
    if (data_len)
        memcpy(p + HEAD + key_len, data, data_len);
    s->order[s->n++] = (uint32_t)s->used;
    s->used += need;
    s->count++;
    return 0;
}

/* Has at least `want` bytes of the run in its buffer, or all that is left. */
static int fill(struct sorter *s, struct run *r, size_t want, struct err *err)
{
    if (r->have - r->used >= want)
        return 0;
    if (r->used)
        memmove(r->buf, r->buf + r->used, r->have - r->used);
    r->have -= r->used;
    r->used = 0;
    if (want > r->cap) {
        r->cap = want;
        r->buf = xrealloc(r->buf, r->cap);
    }
    while (r->have < want && r->at < r->end) {
        size_t room = r->cap - r->have;
        if (room > r->end - r->at)
            room = (size_t)(r->end - r->at);
        ssize_t n = pread(s->fd, r->buf + r->have, room, (off_t)r->at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(err, n < 0 ? errno : EIO, "sort: read a temporary file in %s", s->dir);
        r->have += (size_t)n;
        r->at += (uint64_t)n;
    }
    return 0;
}

/* 1: the run's next record is whole in its buffer, 0: no more. */
static int run_peek(struct sorter *s, struct run *r, struct sorted *ret, struct err *err)
{
    if (fill(s, r, HEAD, err) < 0)
        return -1;
    if (r->have - r->used < HEAD)
        return 0;
    record_at(r->buf + r->used, ret);
    if (fill(s, r, HEAD + ret->key_len + ret->data_len, err) < 0)
        return -1;
    record_at(r->buf + r->used, ret);
    return 1;
}

static bool run_before(const struct sorter *s, size_t a, size_t b)
{
    struct sorted x, y;
    record_at(s->runs[a].buf + s->runs[a].used, &x);
    record_at(s->runs[b].buf + s->runs[b].used, &y);
    int c = compare(&x, &y);
    return c ? c < 0 : a < b;
}

static void sift_down(struct sorter *s, size_t i)
{
    for (;;) {
        size_t least = i, left = 2 * i + 1, right = left + 1;
        if (left < s->n_heap && run_before(s, s->heap[left], s->heap[least]))
            least = left;
        if (right < s->n_heap && run_before(s, s->heap[right], s->heap[least]))
            least = right;
        if (least == i)
            return;
        size_t t = s->heap[i];
        s->heap[i] = s->heap[least];
        s->heap[least] = t;
        i = least;
    }
}

static int open_runs(struct sorter *s, struct err *err)
{
    if (!s->runs) {
        s->runs = xcalloc(s->n_runs, sizeof *s->runs);
        s->heap = xcalloc(s->n_runs, sizeof *s->heap);
    }
    s->n_heap = 0;
    s->advance = false;
    for (size_t i = 0; i < s->n_runs; i++) {
        struct run *r = &s->runs[i];
        struct sorted first;
        if (!r->buf) {
            r->cap = RUN_BUFFER;
            r->buf = xmalloc(r->cap);
        }
        r->have = r->used = 0;
        r->at = s->starts[i];
        r->end = s->starts[i + 1];
        int got = run_peek(s, r, &first, err);
        if (got < 0)
            return -1;
        if (got)
            s->heap[s->n_heap++] = i;
    }
    for (size_t i = s->n_heap / 2; i-- > 0;)
        sift_down(s, i);
    return 0;
}

int sorter_rewind(struct sorter *s, struct err *err)
{
    if (!s->reading) {
        if (s->n_runs) {
            if (spill(s, err) < 0)
                return -1;
            drop_arena(s);
        } else {
            sort_arena(s);
        }
        s->reading = true;
    }
    s->next = 0;
    return s->n_runs ? open_runs(s, err) : 0;
}

static int merge_next(struct sorter *s, struct sorted *ret, struct err *err)
{
    if (s->advance) {
        struct run *top = &s->runs[s->heap[0]];
        struct sorted r;
        record_at(top->buf + top->used, &r);
        top->used += HEAD + r.key_len + r.data_len;
        s->advance = false;
        int got = run_peek(s, top, &r, err);
        if (got < 0)
            return -1;
        if (!got)
            s->heap[0] = s->heap[--s->n_heap];
        sift_down(s, 0);
    }
    if (s->n_heap == 0)
        return 0;
    const struct run *top = &s->runs[s->heap[0]];
    record_at(top->buf + top->used, ret);
    s->advance = true;
    return 1;
}

int sorter_next(struct sorter *s, struct sorted *ret, struct err *err)
{
    assert(s->reading);
    if (s->n_runs)
        return merge_next(s, ret, err);
    if (s->next == s->n)
        return 0;
    record_at(s->arena + s->order[s->next++], ret);
    return 1;
}
