/*
 * Packs: append-only files of records (docs/formats/pack.md).
 *
 * Life of a pack: created by the tier's writer (active), sealed when full, retired when no entry
 * points into it any more: then it leaves the tier's list and its files are unlinked. Its bytes
 * stay charged until the last view of it is released. The struct itself lives as long as the tier,
 * so that a reader with a stale pointer finds `refs` at 0 and nothing worse.
 *
 * Bytes are written with pwrite (writer.c) and read through one mapping, guarded, or past the page
 * cache (direct.c), and never handed out unverified.
 */
#include "cache-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "crc.h"

#define DIRECT_LEAST (256u << 10) /* less of a large unit is read through the page cache */

void pack_name(char out[32], uint32_t number, const char *suffix)
{
    snprintf(out, 32, "%08u.%s", number, suffix);
}

struct pack *pack_new(struct tier *t, uint32_t number)
{
    struct pack *p = xcalloc(1, sizeof *p);
    p->tier = t;
    p->number = number;
    p->fd = p->direct_fd = p->journal_fd = -1;
    p->map_len = t->pack_max;
    atomic_init(&p->refs, 1);
    return p;
}

bool pack_ref(struct pack *p)
{
    int refs = atomic_load_explicit(&p->refs, memory_order_relaxed);
    while (refs > 0)
        if (atomic_compare_exchange_weak_explicit(&p->refs, &refs, refs + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    return false;
}

void pack_unref(struct pack *p)
{
    if (atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) > 1)
        return;
    const unsigned char *map = atomic_load(&p->map);
    if (map)
        munmap((void *)map, p->map_len);
    pack_seal(p);
    tier_discharge(p->tier, atomic_load(&p->size) + atomic_load(&p->journal_size));
}

/* --- making ---------------------------------------------------------------------------------- */

static int write_head(struct pack *p, struct err *err)
{
    struct pack_head head = {.magic = PACK_MAGIC, .number = p->number};
    memcpy(head.tier_id, p->tier->id, sizeof head.tier_id);
    head.crc = crc32c(0, &head, sizeof head - sizeof head.crc);
    ssize_t n = pwrite(p->fd, &head, sizeof head, 0);
    if (n != sizeof head)
        return err_sys(err, n < 0 ? errno : ENOSPC, "cache: begin pack %u in %s", p->number,
                       p->tier->dir);
    atomic_store(&p->size, sizeof head);
    return 0;
}

static int open_files(struct pack *p, int flags, struct err *err)
{
    char name[32];
    pack_name(name, p->number, "pack");
    p->fd = openat(p->tier->dir_fd, name, O_RDWR | O_CLOEXEC | flags, 0600);
    if (p->fd < 0)
        return err_sys(err, errno, "cache: open %s/%s", p->tier->dir, name);
    pack_name(name, p->number, "idx");
    p->journal_fd = openat(p->tier->dir_fd, name, O_RDWR | O_CLOEXEC | flags, 0600);
    if (p->journal_fd < 0)
        return err_sys(err, errno, "cache: open %s/%s", p->tier->dir, name);
    return 0;
}

void pack_unlink(const struct tier *t, uint32_t number)
{
    char name[32];
    pack_name(name, number, "pack");
    unlinkat(t->dir_fd, name, 0);
    pack_name(name, number, "idx");
    unlinkat(t->dir_fd, name, 0);
}

int pack_create(struct tier *t, struct pack **ret, struct err *err)
{
    uint32_t number;
    {
        ACQUIRE(&t->lock);
        number = t->next_pack++;
    }
    struct pack *p = pack_new(t, number);
    if (open_files(p, O_CREAT | O_EXCL, err) || write_head(p, err) || journal_create(p, err)) {
        pack_unlink(t, number);
        pack_seal(p);
        free(p);
        return -1;
    }
    if (tier_add_pack(t, p)) {
        pack_unlink(t, number);
        pack_seal(p);
        free(p);
        return err_set(err, ERR_LIMIT, "cache: %s: pack numbers are used up (clear the cache)",
                       t->dir);
    }
    struct index *ix = &t->c->index;
    ACQUIRE(&ix->lock); /* other tiers' writers begin packs, too */
    ix->head.next_pack[t->place] = number + 1;
    index_head_store(ix);
    *ret = p;
    return 0;
}

int pack_reopen(struct pack *p, struct err *err)
{
    if (open_files(p, 0, err)) {
        pack_seal(p);
        return -1;
    }
    return 0;
}

void pack_seal(struct pack *p)
{
    if (p->fd >= 0)
        close(p->fd);
    if (p->direct_fd >= 0)
        close(p->direct_fd);
    if (p->journal_fd >= 0)
        close(p->journal_fd);
    p->fd = p->direct_fd = p->journal_fd = -1;
}

/* --- reading --------------------------------------------------------------------------------- */

const unsigned char *pack_map(struct pack *p, struct err *err)
{
    const unsigned char *map = atomic_load_explicit(&p->map, memory_order_acquire);
    if (map)
        return map;
    ACQUIRE(&p->tier->lock);
    map = atomic_load(&p->map);
    if (map)
        return map;
    char name[32];
    pack_name(name, p->number, "pack");
    cleanup_close int fd = openat(p->tier->dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        err_sys(err, errno, "cache: open %s/%s", p->tier->dir, name);
        return NULL;
    }
    if (p->map_len < atomic_load(&p->size))
        p->map_len = atomic_load(&p->size);
    void *at = mmap(NULL, p->map_len, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        err_sys(err, errno, "cache: map %s/%s", p->tier->dir, name);
        return NULL;
    }
    atomic_store_explicit(&p->map, at, memory_order_release);
    return at;
}

/* One look at a record: which chunks, and what was found. */
struct look {
    const unsigned char *record, *payload;
    const struct extent_ref *x;
    uint64_t unit;
    uint32_t first, end;        /* chunks [first, end) */
    uint32_t skip, stored;      /* of these chunks: bytes before them, bytes of them */
    const unsigned char *bytes; /* of these chunks: in the mapping, or in `direct` */
    struct buf *direct;         /* what was read past the page cache, or NULL */
    unsigned char *out;         /* where decompressed bytes go, or NULL */
    struct record_head head;
    struct chunk table[CHUNKS_MAX];
    bool ok;
};

static void look_at_head(void *arg)
{
    struct look *k = arg;
    memcpy(&k->head, k->record, sizeof k->head);
    if (k->head.chunks > CHUNKS_MAX)
        return;
    memcpy(k->table, k->record + sizeof k->head, k->head.chunks * sizeof k->table[0]);
    k->ok = record_ok(&k->head, k->table) && k->head.unit == k->unit &&
            k->head.raw == k->x->entry.raw && k->head.stored == k->x->entry.stored &&
            !((k->head.flags ^ k->x->entry.flags) & UNIT_PAGED);
}

static void look_at_chunks(void *arg)
{
    struct look *k = arg;
    const unsigned char *at = k->bytes;
    unsigned char *out = k->out;
    for (uint32_t i = k->first; i < k->end; i++) {
        if (crc32c(0, at, k->table[i].stored) != k->table[i].crc)
            return;
        uint32_t len = chunk_len(k->head.raw, i);
        if (out && !decompress_chunk(at, k->table[i].stored, out, len))
            return;
        at += k->table[i].stored;
        out = out ? out + len : NULL;
    }
    k->ok = true;
}

/* Pages of a stretch of at most a unit. */
struct pages {
    uintptr_t from;
    size_t n, missing;
};

static struct pages pages_of(const unsigned char *at, size_t len)
{
    unsigned char in_memory[UNIT_BYTES / PAGE_BYTES + 2];
    uintptr_t from = (uintptr_t)at & ~(uintptr_t)(PAGE_BYTES - 1);
    struct pages ret = {from, ((uintptr_t)at + len - from + PAGE_BYTES - 1) / PAGE_BYTES, 0};
    if (ret.n > sizeof in_memory || mincore((void *)from, ret.n * PAGE_BYTES, in_memory))
        return ret;
    for (size_t i = 0; i < ret.n; i++)
        ret.missing += !(in_memory[i] & 1);
    return ret;
}

/*
 * Asks for pages that are not in memory in one go. Without it the kernel stops reading ahead on a
 * file that is read in random order, and each page of a sample becomes a trip to the disk.
 */
static void make_resident(const struct pages *p)
{
    if (p->missing)
        madvise((void *)p->from, p->n * PAGE_BYTES, MADV_WILLNEED);
}

/* After this the head and the table are true. */
static enum pack_result look_begin(struct look *k, const struct extent_ref *x, uint64_t unit)
{
    struct pack *p = x->pack;
    uint64_t bytes = place_bytes(&x->entry);
    *k = (struct look){.x = x, .unit = unit};
    if (x->entry.raw > UNIT_BYTES || x->offset + bytes > atomic_load(&p->size))
        return PACK_BAD;
    struct err err = {0};
    const unsigned char *map = pack_map(p, &err);
    if (!map)
        return err.class == ERR_LIMIT ? PACK_UNMAPPED : PACK_IO;
    k->record = map + x->offset;
    /* A fault at the head would make the kernel read around it, megabytes on some disks, which is
     * waited for. Around a small sample that is welcome: it brings the neighbours. */
    if (x->entry.stored >= LARGE_BYTES && p->tier->kind != TIER_MEM) {
        struct pages head =
            pages_of(k->record, record_lead(x->offset, x->entry.flags, x->entry.raw));
        make_resident(&head);
    }
    if (!guard_run(look_at_head, k))
        return PACK_IO;
    if (!k->ok)
        return PACK_BAD;
    k->payload = k->record + record_lead(x->offset, k->head.flags, k->head.raw);
    return PACK_OK;
}

/* Brings the chunks near: into the page cache, or past it with `pool`. */
static void fetch_chunks(struct look *k, struct pool *pool)
{
    const struct extent_ref *x = k->x;
    k->bytes = k->payload + k->skip;
    if (x->pack->tier->kind == TIER_MEM)
        return;
    struct pages p = pages_of(k->bytes, k->stored);
    if (pool && x->entry.stored >= LARGE_BYTES && k->stored >= DIRECT_LEAST && p.missing > p.n / 2)
        k->direct = direct_read(pool, x->pack, x->offset + (uint64_t)(k->bytes - k->record),
                                k->stored, &k->bytes);
    if (!k->direct)
        make_resident(&p);
}

/* `pool`: NULL, or for what is read past the page cache; k->direct is the caller's then, whatever
 * is returned. */
static enum pack_result look_chunks(struct look *k, struct pool *pool)
{
    for (uint32_t i = 0; i < k->first; i++)
        k->skip += k->table[i].stored;
    for (uint32_t i = k->first; i < k->end; i++)
        k->stored += k->table[i].stored;
    fetch_chunks(k, pool);
    k->ok = false;
    if (!guard_run(look_at_chunks, k))
        return PACK_IO;
    return k->ok ? PACK_OK : PACK_BAD;
}

static void release_mapped(struct view *v)
{
    struct pack *p = v->owner;
    if (p->tier->kind == TIER_MEM) {
        /* Pages of a memory file system count as ours while they are mapped. */
        uintptr_t from = (uintptr_t)v->ptr & ~(uintptr_t)4095;
        madvise((void *)from, (uintptr_t)v->ptr + v->len - from, MADV_DONTNEED);
    }
    behind_drop(p->tier, v->ptr, v->len);
    pack_unref(p);
}

static void release_buf(struct view *v)
{
    buf_unref(v->owner);
}

static enum pack_result view_unpacked(struct cache *c, struct look *k, uint32_t off, uint32_t len,
                                      struct view *ret)
{
    uint32_t from = k->first * CHUNK_BYTES;
    uint32_t to = k->end * CHUNK_BYTES < k->head.raw ? k->end * CHUNK_BYTES : k->head.raw;
    struct buf *buf = pool_get(c->conf.pool, to - from);
    if (!buf)
        return errno == ENOMEM ? PACK_NO_MEMORY : PACK_NO_ROOM;
    k->out = buf->data;
    enum pack_result rc = look_chunks(k, c->conf.pool);
    if (rc != PACK_OK) {
        buf_unref(buf);
        return rc;
    }
    if (!k->direct)
        behind_drop(k->x->pack->tier, k->bytes, k->stored);
    buf->len = to - from;
    *ret = (struct view){
        .ptr = buf->data + (off - from), .len = len, .release = release_buf, .owner = buf};
    return PACK_OK;
}

static enum pack_result view_plain(struct cache *c, struct look *k, uint32_t off, uint32_t len,
                                   struct view *ret)
{
    enum pack_result rc = look_chunks(k, c->conf.pool);
    if (rc != PACK_OK)
        return rc;
    *ret = (struct view){.ptr = k->bytes + (off - k->first * CHUNK_BYTES), .len = len};
    if (k->direct) {
        ret->release = release_buf;
        ret->owner = take_ptr(&k->direct);
    } else if (pack_ref(k->x->pack)) {
        ret->release = release_mapped;
        ret->owner = k->x->pack;
    }
    return PACK_OK;
}

enum pack_result pack_view(struct cache *c, const struct extent_ref *x, uint64_t unit, uint32_t off,
                           uint32_t len, struct view *ret)
{
    struct look k;
    enum pack_result rc = look_begin(&k, x, unit);
    if (rc != PACK_OK)
        return rc;
    off = off < k.head.raw ? off : k.head.raw;
    len = len < k.head.raw - off ? len : k.head.raw - off;
    if (len) {
        k.first = off / CHUNK_BYTES;
        k.end = (off + len - 1) / CHUNK_BYTES + 1;
    }
    if ((k.head.flags & UNIT_LZ4) && len)
        rc = view_unpacked(c, &k, off, len, ret);
    else
        rc = view_plain(c, &k, off, len, ret);
    buf_unref(k.direct);
    if (rc == PACK_OK)
        ret->origin = x->pack->tier->kind == TIER_MEM ? FROM_MEM : FROM_DISK;
    return rc;
}

enum pack_result pack_whole(const struct extent_ref *x, uint64_t unit, bool *ret_plain,
                            uint64_t *ret_offset, uint32_t *ret_crc)
{
    struct look k;
    enum pack_result rc = look_begin(&k, x, unit);
    if (rc != PACK_OK)
        return rc;
    *ret_plain = !(k.head.flags & UNIT_LZ4);
    *ret_offset = x->offset + (uint64_t)(k.payload - k.record);
    *ret_crc = 0;
    for (uint32_t i = 0; i < k.head.chunks; i++)
        *ret_crc = crc32c_combine(*ret_crc, k.table[i].crc, k.table[i].stored);
    return PACK_OK;
}

enum pack_result pack_verify(const struct extent_ref *x, uint64_t unit)
{
    struct look k;
    enum pack_result rc = look_begin(&k, x, unit);
    k.end = k.head.chunks;
    return rc == PACK_OK ? look_chunks(&k, NULL) : rc;
}

struct record_copy {
    unsigned char *to;
    const unsigned char *from;
    size_t len;
};

static void copy_record(void *arg)
{
    struct record_copy *c = arg;
    memcpy(c->to, c->from, c->len);
}

enum pack_result pack_copy(const struct extent_ref *x, uint64_t unit, unsigned char *out,
                           uint64_t bytes)
{
    enum pack_result rc = pack_verify(x, unit);
    const unsigned char *map = atomic_load(&x->pack->map);
    if (rc != PACK_OK)
        return rc;
    struct record_copy copy = {out, map + x->offset, bytes};
    return guard_run(copy_record, &copy) ? PACK_OK : PACK_IO;
}

/* --- walking a pack whose journal is gone ---------------------------------------------------- */

struct walk {
    const unsigned char *map;
    uint64_t at, size;
    struct record_head head;
    struct chunk table[CHUNKS_MAX];
    bool found;
};

/* The next whole record at or after `at`: damaged stretches are stepped over. */
static void walk_next(void *arg)
{
    struct walk *w = arg;
    for (; w->at + sizeof w->head <= w->size; w->at += RECORD_ALIGN) {
        memcpy(&w->head, w->map + w->at, sizeof w->head);
        if (w->head.magic != RECORD_MAGIC || w->head.chunks > CHUNKS_MAX)
            continue;
        size_t table = w->head.chunks * sizeof w->table[0];
        if (w->at + sizeof w->head + table > w->size)
            continue;
        memcpy(w->table, w->map + w->at + sizeof w->head, table);
        if (!record_ok(&w->head, w->table) ||
            w->at + record_bytes(w->at, w->head.flags, w->head.raw, w->head.stored) > w->size)
            continue;
        w->found = true;
        return;
    }
}

static uint64_t walk_records(struct pack *p, record_fn *fn, void *arg)
{
    struct walk w = {
        .map = pack_map(p, NULL), .at = sizeof(struct pack_head), .size = atomic_load(&p->size)};
    uint64_t end = w.at;
    while (w.map) {
        w.found = false;
        if (!guard_run(walk_next, &w) || !w.found)
            break;
        uint64_t bytes = record_bytes(w.at, w.head.flags, w.head.raw, w.head.stored);
        struct journal_record r = {.pack = p->number,
                                   .unit = w.head.unit,
                                   .offset = w.at,
                                   .bytes = (uint32_t)bytes,
                                   .stored = w.head.stored,
                                   .raw = w.head.raw,
                                   .flags = w.head.flags,
                                   .chunks = w.head.chunks};
        fn(arg, p, &r);
        end = w.at += bytes;
    }
    return end;
}

uint64_t pack_each_record(struct pack *p, record_fn *fn, void *arg)
{
    uint64_t end;
    if (journal_each(p, fn, arg, &end) == 0)
        return end;
    return walk_records(p, fn, arg);
}
