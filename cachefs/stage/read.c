/*
 * Reading an open file: from what is here, from what must be fetched, and past the stage where it
 * is full. Bytes of two contents are never given to one reader.
 */
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "file.h"
#include "mem.h"
#include "content-internal.h"

#define READ_AHEAD  (4ull * STAGE_BLOCK)
#define STALE_TRIES 3

int content_read(const struct content *c, uint64_t off, void *buf, size_t len, struct err *err)
{
    ssize_t n = file_read(c->fd, buf, len, off);
    if (n != (ssize_t)len)
        return err_sys(err, n < 0 ? errno : EIO, "read a staged file in %s", c->stage->dir);
    return 0;
}

/* From the store, to the reader alone. c->lock is given up meanwhile. */
static int read_remote(struct content *c, uint64_t off, void *buf, size_t len, struct err *err)
{
    struct stage *s = c->stage;
    uint64_t gen = c->gen;
    CLEANUP(record_release) struct record row;
    content_row(c, &row);
    lock_drop(&c->lock);
    int result = remote_read(s, row.skey, &row, off, buf, (uint32_t)len, err);
    lock_take(&c->lock);
    if (result == 0 && c->gen != gen)
        return err_set(err, ERR_STALE,
                       "replaced by another writer while it was read (open it again)");
    return result;
}

static bool is_absent(const struct content *c, uint64_t off)
{
    unsigned char state = c->map ? c->map->blocks[off / STAGE_BLOCK] : BLOCK_DIRTY;
    return state == BLOCK_ABSENT || state == BLOCK_FETCHING;
}

/* There is no room to keep what comes: it goes to the reader alone, block by block. */
static int read_through(struct content *c, uint64_t off, char *buf, size_t len, struct err *err)
{
    while (len) {
        uint64_t end = (off / STAGE_BLOCK + 1) * STAGE_BLOCK;
        size_t n = end - off < len ? (size_t)(end - off) : len;
        if (off + n > c->size) { /* cut meanwhile */
            memset(buf, 0, n);
        } else if (is_absent(c, off)) {
            uint64_t base = c->map->base_len;
            size_t stored = off >= base ? 0 : base - off < n ? (size_t)(base - off) : n;
            memset(buf + stored, 0, n - stored);
            if (stored && read_remote(c, off, buf, stored, err))
                return -1;
        } else if (content_read(c, off, buf, n, err)) {
            return -1;
        }
        off += n;
        buf += n;
        len -= n;
    }
    return 0;
}

struct given {
    size_t len;
    bool from_store; /* some of it was waited for */
};

/* All of it is in the store, and the disk has no room even to say what is here: it goes to the
 * reader alone. Otherwise it fails as it did. */
static int read_unstaged(struct content *c, bool wait, uint64_t off, void *buf, size_t len,
                         struct given *ret, struct err *why)
{
    CLEANUP(record_release) struct record row;
    content_row(c, &row);
    if (why->class != ERR_LIMIT || row.flags & (N_STAGED | N_DIRTY) || !(row.flags & N_STORED))
        return -1;
    if (off >= row.size)
        return 0;
    if (!wait)
        return STAGE_WAIT;
    c->gen = row.gen;
    ret->from_store = true;
    ret->len = len < row.size - off ? len : (size_t)(row.size - off);
    *why = (struct err){0};
    return buf ? read_remote(c, off, buf, ret->len, why) : 0;
}

/* `buf` NULL: for stage_await(). */
static int read_content(struct content *c, bool wait, uint64_t off, void *buf, size_t len,
                        struct given *ret, struct err *err)
{
    struct err unloaded = {0};
    ret->len = 0;
    if (content_load(c, &unloaded)) {
        int result = read_unstaged(c, wait, off, buf, len, ret, &unloaded);
        if (result < 0 && err)
            *err = unloaded;
        return result;
    }
    if (off >= c->size)
        return 0;
    if (len > c->size - off)
        len = (size_t)(c->size - off);
    uint64_t want = off == c->next_read && len < READ_AHEAD ? READ_AHEAD : len;
    struct err why = {0};
    int result = content_need(c, off, len, false, &why);
    if (result == STAGE_WAIT && wait) {
        ret->from_store = true;
        result = content_need(c, off, want, true, &why);
    }
    if (result == STAGE_WAIT)
        return STAGE_WAIT;
    if (result && why.class != ERR_LIMIT) {
        if (err)
            *err = why;
        return -1;
    }
    if (off >= c->size)
        return 0; /* cut while it came */
    if (len > c->size - off)
        len = (size_t)(c->size - off);
    if (!buf) {
        ret->len = len;
        return 0;
    }
    if (result ? read_through(c, off, buf, len, err) : content_read(c, off, buf, len, err))
        return -1;
    c->next_read = off + len;
    ret->len = len;
    return 0;
}

static void count_read(struct stage *s, const struct stage_call *call, size_t n, bool from_store)
{
    counter_add(&s->counts->reads, 1);
    counter_add(&s->counts->read_bytes, n);
    counter_add(&s->counts->store_reads, from_store);
    histogram_add(&s->counts->read_latency, call->since_ns ? clock_mono_ns() - call->since_ns : 0);
}

/* What was read is of the content that is there now, which is the one that was opened: it counts as
 * given. False: another writer replaced it meanwhile. */
static bool may_give(struct content *c, uint64_t fh, size_t len)
{
    struct stage *s = c->stage;
    ACQUIRE(&s->lock);
    if (c->node->row.gen != c->gen || handle_is_stale(c->node, fh))
        return false;
    c->node->given |= len > 0;
    return true;
}

/* The store has another object than the one that was opened: who opens it again shall find that
 * one. 0: it goes on in the handle, which was opened to write. */
static int look_again(struct content *c, uint64_t fh, bool wait, struct err *err)
{
    struct stage *s = c->stage;
    struct node *n = c->node;
    ACQUIRE(&s->lock);
    if (n->row.gen == c->gen && n->parent && !(n->row.flags & N_DIRTY)) {
        struct node *folder = n->parent;
        folder->pins++;
        n->pins++;
        int result = folder_refresh(s, folder, wait, true, err);
        n->pins--;
        folder->pins--;
        if (result)
            return result;
    }
    return n->row.gen != c->gen && !handle_is_stale(n, fh)
               ? 0
               : err_set(err, ERR_STALE,
                         "replaced by another writer since it was opened (open it again)");
}

/* c->lock held, given up while the store is asked. */
static int read_handle(struct content *c, uint64_t fh, bool wait, uint64_t off, void *buf,
                       size_t len, struct given *ret, struct err *err)
{
    for (unsigned tries = 0;; tries++) {
        struct err why = {0};
        int result = read_content(c, wait, off, buf, len, ret, &why);
        if (result == 0 && may_give(c, fh, buf ? ret->len : 0))
            return 0;
        if (result == STAGE_WAIT)
            return result;
        if (result && (why.class != ERR_STALE || tries == STALE_TRIES)) {
            if (err)
                *err = why;
            return -1;
        }
        lock_drop(&c->lock);
        result = look_again(c, fh, wait, err);
        lock_take(&c->lock);
        if (result)
            return result;
    }
}

static int read_or_await(struct stage *s, const struct stage_call *call, uint64_t fh, uint64_t off,
                         void *buf, size_t len, struct given *ret, struct err *err)
{
    struct content *c = handle_content(s, fh, err);
    if (!c)
        return -1;
    int result;
    {
        ACQUIRE(&c->lock);
        result = read_handle(c, fh, call->wait, off, buf, len, ret, err);
    }
    content_done(c);
    if (result < 0)
        counter_add(&s->counts->read_errors, 1);
    return result;
}

int stage_read(struct stage *s, const struct stage_call *call, uint64_t fh, uint64_t off, void *buf,
               size_t len, size_t *ret_n, struct err *err)
{
    struct given given = {0};
    int result = read_or_await(s, call, fh, off, buf, len, &given, err);
    *ret_n = given.len;
    if (result == 0)
        count_read(s, call, given.len, given.from_store || call->from_store);
    return result;
}

int stage_await(struct stage *s, const struct stage_call *call, uint64_t fh, uint64_t off,
                size_t len, bool *ret_from_store, struct err *err)
{
    struct given given = {0};
    int result = read_or_await(s, call, fh, off, NULL, len, &given, err);
    *ret_from_store = given.from_store;
    return result;
}
