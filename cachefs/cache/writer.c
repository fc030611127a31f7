/*
 * The writer of a tier: one thread that appends what waits, several units in one pwritev; then
 * their journal records; then each index entry turns to READY in a pack and the buffer may go.
 * Between batches it does the tier's upkeep (evict.c).
 */
#include "cache-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "clock.h"
#include "crc.h"

#define BATCH_UNITS 16u
#define IDLE_NS     (10 * NS_PER_S)
/* A step of settling takes less than that: all of a million units takes a third of a second. */
#define SETTLE_PAUSE_NS (10 * NS_PER_MS)
/* A batch costs two system calls and a wake-up, whatever it holds: its first unit waits for others,
 * but not long. */
#define GATHER_NS      (2 * NS_PER_MS)
#define BLOCKS_AT_ONCE (256u << 10) /* below that asking costs as much as it saves */

/* --- appending ------------------------------------------------------------------------------- */

static struct pack *ready_pack(struct tier *t, uint64_t bytes, struct err *err)
{
    if (t->active && atomic_load(&t->active->size) + bytes > t->pack_max) {
        pack_seal(t->active);
        t->active = NULL;
    }
    if (!t->active && pack_create(t, &t->active, err))
        return NULL;
    return t->active;
}

/*
 * Asks for the blocks of an append in one piece. A file system that gives them one by one, as bytes
 * are copied, spends half of the append on that (ext4: 23 us of 115 KB, and 14 us so). The file's
 * end stays where it is, and a refusal means nothing: the append itself will tell. Not where the
 * disk begins at once: a warmup took a sixth longer so, with less CPU time.
 */
static void ask_for_blocks(struct tier *t, const struct pack *p, uint64_t bytes)
{
    if (bytes < BLOCKS_AT_ONCE || t->kind == TIER_MEM || t->no_blocks_at_once)
        return;
    int rc = fallocate(p->fd, FALLOC_FL_KEEP_SIZE, (off_t)atomic_load(&p->size), (off_t)bytes);
    t->no_blocks_at_once = rc < 0 && (errno == EOPNOTSUPP || errno == ENOSYS);
}

/* Where each record lands, and what it takes there: all of them in the end. */
static uint64_t lay_out(const struct pack *p, struct record *r, size_t n)
{
    uint64_t from = atomic_load(&p->size), at = from;
    for (size_t i = 0; i < n; i++) {
        r[i].offset = at;
        r[i].bytes = record_bytes(at, r[i].head.flags, r[i].head.raw, r[i].head.stored);
        at += r[i].bytes;
    }
    return at - from;
}

/* Why nothing more was written than up to there: the next byte tells. */
static int why_short(const struct pack *p, uint64_t at)
{
    return pwrite(p->fd, "", 1, (off_t)at) < 0 ? errno : ENOSPC;
}

/* Fill [from, to) of the file. */
static int write_pieces(const struct pack *p, const struct iovec *iov, int n, uint64_t from,
                        uint64_t to, struct err *err)
{
    ssize_t wrote = pwritev(p->fd, iov, n, (off_t)from);
    if (wrote != (ssize_t)(to - from))
        return err_sys(err, wrote < 0 ? errno : why_short(p, from + (uint64_t)wrote),
                       "append to pack %u in %s", p->number, p->tier->dir);
    return 0;
}

/*
 * Large units go past the page cache, but for those of a warmup: their readers come later, and find
 * them there, unless the set is so large that they would not stay.
 */
static size_t write_large(struct pack *p, const struct record *r, uint64_t offset, bool for_reader)
{
    struct cache *c = p->tier->c;
    if (r->head.stored < LARGE_BYTES || !(for_reader || behind_needed(c)))
        return 0;
    return direct_write(c->conf.pool, p, r->payload, r->head.stored, offset);
}

static int write_records(struct pack *p, const struct record *r, size_t n, uint64_t end,
                         bool for_reader, struct err *err)
{
    static const unsigned char zeros[PAGE_BYTES];
    struct iovec iov[BATCH_UNITS * 5];
    uint64_t from = atomic_load(&p->size);
    int k = 0;
    for (size_t i = 0; i < n; i++) {
        size_t table = r[i].head.chunks * sizeof r[i].table[0];
        size_t lead = record_lead(r[i].offset, r[i].head.flags, r[i].head.raw);
        size_t filled = lead + r[i].head.stored;
        size_t done = write_large(p, &r[i], r[i].offset + lead, for_reader);
        iov[k++] = (struct iovec){(void *)&r[i].head, sizeof r[i].head};
        iov[k++] = (struct iovec){(void *)r[i].table, table};
        iov[k++] = (struct iovec){(void *)zeros, lead - sizeof r[i].head - table};
        if (done) {
            if (write_pieces(p, iov, k, from, r[i].offset + lead, err))
                return -1;
            from = r[i].offset + lead + done;
            k = 0;
        }
        iov[k++] = (struct iovec){(void *)(r[i].payload + done), r[i].head.stored - done};
        iov[k++] = (struct iovec){(void *)zeros, r[i].bytes - filled};
    }
    return write_pieces(p, iov, k, from, end, err);
}

static int write_journal(struct pack *p, const struct record *r, size_t n, struct err *err)
{
    struct journal_record out[BATCH_UNITS];
    for (size_t i = 0; i < n; i++)
        out[i] = (struct journal_record){.unit = r[i].unit,
                                         .offset = r[i].offset,
                                         .bytes = (uint32_t)r[i].bytes,
                                         .stored = r[i].head.stored,
                                         .raw = r[i].head.raw,
                                         .flags = r[i].head.flags,
                                         .chunks = r[i].head.chunks};
    return journal_append(p, out, n, err);
}

/* After a failed append: back to the last good end, or on to another pack. */
static void cut_back(struct tier *t, struct pack *p)
{
    struct stat st;
    bool cut = ftruncate(p->fd, (off_t)atomic_load(&p->size)) == 0;
    cut = ftruncate(p->journal_fd, (off_t)atomic_load(&p->journal_size)) == 0 && cut;
    if (cut)
        return;
    if (fstat(p->fd, &st) == 0 && (uint64_t)st.st_size > atomic_load(&p->size))
        atomic_store(&p->size, (uint64_t)st.st_size);
    if (fstat(p->journal_fd, &st) == 0 && (uint64_t)st.st_size > atomic_load(&p->journal_size))
        atomic_store(&p->journal_size, (uint64_t)st.st_size);
    pack_seal(p);
    t->active = NULL;
}

static uint64_t file_bytes(const struct pack *p)
{
    return p ? atomic_load(&p->size) + atomic_load(&p->journal_size) : 0;
}

int writer_append(struct tier *t, struct record *r, size_t n, bool for_reader, uint64_t *ret_grown,
                  struct err *err)
{
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++)
        most += record_most(r[i].head.flags, r[i].head.raw, r[i].head.stored);
    *ret_grown = 0;
    struct pack *old = t->active;
    uint64_t old_bytes = file_bytes(old);
    struct pack *p = ready_pack(t, most, err);
    if (!p)
        return -1;
    uint64_t before = p == old ? old_bytes : 0, total = lay_out(p, r, n);
    if (for_reader)
        ask_for_blocks(t, p, total);
    int rc = write_records(p, r, n, atomic_load(&p->size) + total, for_reader, err);
    if (rc == 0)
        rc = write_journal(p, r, n, err);
    if (rc == 0)
        atomic_store(&p->size, atomic_load(&p->size) + total);
    else
        cut_back(t, p);
    *ret_grown = file_bytes(p) - before;
    ACQUIRE(&t->lock);
    p->appends++;
    return rc;
}

struct place writer_entry(const struct tier *t, const struct record *r, uint8_t flags,
                          uint32_t used)
{
    return (struct place){.used = used,
                          .pack = t->active->number,
                          .offset64 = (uint32_t)(r->offset / RECORD_ALIGN),
                          .stored = r->head.stored,
                          .raw = r->head.raw,
                          .tier = (uint8_t)t->place,
                          .flags = (uint8_t)(flags | r->head.flags | UNIT_IN_PACK)};
}

/* --- a batch of fills ------------------------------------------------------------------------ */

static unsigned char *scratch_of(struct tier *t)
{
    if (!t->scratch)
        t->scratch = xmalloc(compress_bound());
    return t->scratch;
}

/* `out` has room for what it may store compressed; returns how much of it was used. */
static size_t make_record(struct tier *t, const struct fill *f, struct record *r,
                          unsigned char *out)
{
    struct trial *trial = &t->c->trial;
    const unsigned char *data = f->buf->data;
    int verdict = atomic_load(&trial->verdict);
    size_t packed = 0;
    if (verdict == 0)
        trial_add(trial, data, f->len, scratch_of(t));
    if (verdict > 0)
        packed = compress_unit(data, f->len, r->table, out);
    uint32_t chunks = chunks_of(f->len);
    for (uint32_t i = 0; i < chunks && !packed; i++)
        r->table[i].stored = chunk_len(f->len, i);
    r->unit = f->piece.unit;
    r->payload = packed ? out : data;
    r->head = (struct record_head){
        .magic = RECORD_MAGIC,
        .chunks = (uint16_t)chunks,
        .unit = r->unit,
        .raw = f->len,
        .stored = packed ? (uint32_t)packed : f->len,
        .flags = (uint16_t)((f->first ? UNIT_FIRST : 0) | (packed ? UNIT_LZ4 : f->paged))};
    const unsigned char *at = r->payload;
    for (uint32_t i = 0; i < chunks; i++) {
        r->table[i].crc = crc32c(0, at, r->table[i].stored);
        at += r->table[i].stored;
    }
    record_seal(&r->head, r->table);
    return packed;
}

/* Is it of a version that is not served any more, and of no sample of the one that is? */
static bool is_past(struct cache *c, const struct piece *p)
{
    struct unit_info row = {0};
    struct err err = {0};
    struct catalog *now = NULL;
    {
        ACQUIRE(&c->served_lock);
        if (c->served && c->served != p->catalog)
            now = catalog_ref(c->served);
    }
    bool past = now && catalog_unit(now, p->unit, &row, &err) && err.class == ERR_NOT_FOUND;
    unit_info_release(&row);
    catalog_unref(now);
    return past;
}

/* READY in memory -> READY in a pack, or ABSENT if the append failed or it was dropped meanwhile.
 */
static void publish(struct tier *t, struct fill *f, const struct record *r)
{
    struct cache *c = t->c;
    struct stripe *s = stripe_of(c, f->piece.unit);
    bool kept = false, past = r && is_past(c, &f->piece);
    {
        ACQUIRE(&s->lock);
        uint8_t flags = past ? UNIT_FATE : f->carried ? f->was.flags & UNIT_FATE : 0;
        uint32_t used = f->carried ? f->was.used : atomic_load(&c->now_min);
        if (r && !f->unwanted)
            kept = place_set(c, f->piece.unit, writer_entry(t, r, flags, used));
        fill_unlist(s, f);
    }
    if (kept && past)
        atomic_store(&t->left, true);
    if (f->carried)
        counter_add(&c->counts->evicted_units, !kept && !f->unwanted);
    else if (kept)
        counter_add(&c->counts->appended_bytes, f->len);
    else
        counter_add(&c->counts->not_kept, 1);
    fill_unref(f);
}

static size_t take_batch(struct tier *t, struct fill *batch[BATCH_UNITS])
{
    size_t n = 0;
    uint64_t raw = 0;
    ACQUIRE(&t->lock);
    while (n < BATCH_UNITS && t->queue && (n == 0 || raw + t->queue->len <= UNIT_BYTES)) {
        batch[n] = t->queue;
        raw += batch[n]->len;
        t->queue = batch[n]->queue_next;
        n++;
    }
    if (!t->queue)
        t->queue_tail = &t->queue;
    return n;
}

static void note_result(struct tier *t, const struct err *failed, size_t n)
{
    if (failed)
        counter_add(&t->c->counts->append_errors, 1);
    ACQUIRE(&t->lock);
    t->done += n;
    if (failed)
        health_error(&t->health, t->dir_fd, failed);
    else if (t->health.state != HEALTH_OK && t->health.retry_ns &&
             health_usable(&t->health, clock_mono_ns()))
        health_good(&t->health); /* what was queued before the failure may fit, and proves little */
    cond_broadcast(&t->ended);
}

/*
 * A warmup ends with a flush: the disk begins now instead of then. Of 230 MB in 0.42 s, 0.12 s were
 * spent in that flush alone. Nobody waits for the disk behind a reader.
 */
static void begin_writeback(const struct tier *t, const struct record *r, size_t n)
{
    if (t->kind != TIER_MEM)
        sync_file_range(t->active->fd, (off_t)r[0].offset,
                        (off_t)(r[n - 1].offset + r[n - 1].bytes - r[0].offset),
                        SYNC_FILE_RANGE_WRITE);
}

static bool is_warmup(struct fill *const *batch, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (batch[i]->piece.prio == PRIO_WARMUP)
            return true;
    return false;
}

bool writer_batch(struct tier *t)
{
    struct fill *batch[BATCH_UNITS];
    size_t n = take_batch(t, batch);
    if (!n)
        return false;
    cleanup_free struct record *r = xmalloc(n * sizeof *r);
    uint64_t reserved = 0, grown;
    size_t packed = 0;
    for (size_t i = 0; i < n; i++) {
        bool lz4 = atomic_load(&t->c->trial.verdict) >= 0;
        packed += make_record(t, batch[i], &r[i], lz4 ? scratch_of(t) + packed : NULL);
        reserved += batch[i]->reserved;
    }
    struct err err = {0};
    bool warmup = is_warmup(batch, n);
    int rc = writer_append(t, r, n, !warmup, &grown, &err);
    if (rc == 0 && warmup)
        begin_writeback(t, r, n);
    tier_settle(t, reserved, grown);
    for (size_t i = 0; i < n; i++)
        publish(t, batch[i], rc ? NULL : &r[i]);
    note_result(t, rc ? &err : NULL, n);
    return true;
}

/* --- the thread ------------------------------------------------------------------------------ */

void writer_push(struct tier *t, struct fill *f)
{
    ACQUIRE(&t->lock);
    f->queue_next = NULL;
    *t->queue_tail = f;
    t->queue_tail = &f->queue_next;
    t->queued++;
    uint64_t waiting = t->queued - t->done;
    if (waiting == 1 || waiting >= BATCH_UNITS)
        cond_signal(&t->wake); /* in between the writer has been told, and gathers */
}

void writer_poke(struct tier *t)
{
    ACQUIRE(&t->lock);
    t->poked = true;
    cond_signal(&t->wake);
}

/* Waits for work; false: it is time to end, and nothing is left. What is to be settled waits for
 * readers after a restart: they have the processors first. */
static bool wait_for_work(struct tier *t)
{
    bool upkeep = settled(t->c);
    ACQUIRE(&t->lock);
    if (!t->queue && !(t->poked && upkeep) && !t->stop)
        cond_wait_for(&t->wake, &t->lock, upkeep ? IDLE_NS : SETTLE_PAUSE_NS);
    if (t->queue && t->queue->len < LARGE_BYTES && t->queued - t->done < BATCH_UNITS && !t->stop)
        cond_wait_for(&t->wake, &t->lock, GATHER_NS);
    return t->queue || !t->stop;
}

static void *writer_main(void *arg)
{
    struct tier *t = arg;
    while (wait_for_work(t)) {
        bool busy = writer_batch(t);
        bool poked;
        if (settle_step(t->c))
            continue; /* upkeep goes by the counts */
        {
            ACQUIRE(&t->lock);
            poked = t->poked;
            t->poked = false;
        }
        uint64_t now = clock_mono_ns();
        if (!busy || poked || now - t->upkeep_ns > NS_PER_S) {
            t->upkeep_ns = now;
            evict_upkeep(t);
        }
    }
    return NULL;
}

int writer_start(struct tier *t, struct err *err)
{
    int error = thread_start(&t->thread, "cache-writer", writer_main, t);
    if (error)
        return err_thread(err, error, "start the thread that writes the cache");
    t->started = true;
    return 0;
}

void writer_stop(struct tier *t)
{
    if (!t->started)
        return;
    {
        ACQUIRE(&t->lock);
        t->stop = true;
        cond_signal(&t->wake);
    }
    pthread_join(t->thread, NULL);
    t->started = false;
}
