/*
 * The index: for each unit that is in a pack, where. An array of 32-byte entries addressed by the
 * unit's number, in a sparse file that is mapped in chunks which never move: a reader needs no lock
 * to find the entry, and the stripe's lock to read or change it. The file only grows.
 *
 * Each entry carries a check of itself and of its unit's number, so a torn or damaged one reads as
 * "nothing known". `used` is outside the check: it changes often and may be lost.
 *
 * Touching a page of the file can fail (disk full in a hole, disk broken): all touches are guarded.
 */
#include "cache-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc.h"
#include "early.h"
#include "hash.h"

static uint32_t entry_check(uint64_t unit, const struct place *e)
{
    uint64_t h = hash_mix64(unit + 0x9e3779b97f4a7c15ull);
    h = hash_mix64(h ^ ((uint64_t)e->pack << 32 | e->offset64));
    h = hash_mix64(h ^ ((uint64_t)e->stored << 32 | e->raw));
    h = hash_mix64(h ^ ((uint64_t)e->tier << 56 | (uint64_t)e->flags << 48 |
                        (uint64_t)e->spare16 << 32 | e->spare));
    return (uint32_t)h | 1; /* never 0 */
}

/* --- the header ------------------------------------------------------------------------------ */

static uint32_t head_crc(const struct index_head *h)
{
    return crc32c(0, (const char *)h + 8, offsetof(struct index_head, unused) - 8);
}

struct head_copy {
    struct index_head *to;
    const struct index_head *from;
};

static void copy_head(void *arg)
{
    struct head_copy *c = arg;
    memcpy(c->to, c->from, offsetof(struct index_head, unused));
}

static bool store_head(struct index *ix)
{
    struct head_copy store = {ix->mapped, &ix->head};
    ix->head.crc = head_crc(&ix->head);
    return guard_run(copy_head, &store);
}

/* One that cannot be written says what it said before: at worst the index is made anew. */
void index_head_store(struct index *ix)
{
    store_head(ix);
}

/* May the entries be believed? After a power loss they may be older than the packs, or torn. */
static bool head_usable(const struct index_head *h, uint64_t set_hash, const char *boot)
{
    if (h->magic != INDEX_MAGIC || h->crc != head_crc(h) || h->set_hash != set_hash)
        return false;
    return h->clean || (boot[0] && memcmp(h->boot_id, boot, sizeof h->boot_id) == 0);
}

/* --- mapping --------------------------------------------------------------------------------- */

static int map_chunk(struct index *ix, uint64_t k)
{
    void *at = mmap(NULL, INDEX_CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ix->fd,
                    (off_t)(INDEX_HEAD + k * INDEX_CHUNK_BYTES));
    if (at == MAP_FAILED)
        return -1;
    madvise(at, INDEX_CHUNK_BYTES, MADV_RANDOM);
    atomic_store_explicit(&ix->chunks[k], at, memory_order_release);
    return 0;
}

/* Maps what [0, n_units) needs, then lets readers see it. */
static int publish_units(struct index *ix, uint64_t n_units)
{
    for (uint64_t k = 0; k * INDEX_CHUNK_UNITS < n_units; k++)
        if (!atomic_load_explicit(&ix->chunks[k], memory_order_relaxed) && map_chunk(ix, k))
            return -1;
    atomic_store_explicit(&ix->n_units, n_units, memory_order_release);
    return 0;
}

static int open_mapped(struct index *ix, struct stat *st, struct err *err)
{
    ix->fd = open(ix->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (ix->fd < 0 || fstat(ix->fd, st))
        return err_sys(err, errno, "cache: open the index %s", ix->path);
    if (st->st_size < (off_t)INDEX_HEAD && ftruncate(ix->fd, INDEX_HEAD))
        return err_sys(err, errno, "cache: make the index %s", ix->path);
    void *at = mmap(NULL, INDEX_HEAD, PROT_READ | PROT_WRITE, MAP_SHARED, ix->fd, 0);
    if (at == MAP_FAILED)
        return err_sys(err, errno, "cache: map the index %s", ix->path);
    ix->mapped = at;
    return 0;
}

int index_open(struct index *ix, const char *dir, uint64_t set_hash, bool *ret_usable,
               struct err *err)
{
    lock_init(&ix->lock, RANK_CACHE_EVICT, "cache index");
    ix->path = xasprintf("%s/index", dir);
    struct stat st = {0};
    if (open_mapped(ix, &st, err))
        return -1;
    char boot[40];
    boot_id_read(boot);
    struct head_copy load = {&ix->head, ix->mapped};
    bool readable = guard_run(copy_head, &load);
    *ret_usable = readable && head_usable(&ix->head, set_hash, boot);
    bool was_clean = ix->head.clean;
    if (!*ret_usable)
        ix->head = (struct index_head){.magic = INDEX_MAGIC, .set_hash = set_hash};
    ix->head.clean = 0;
    memcpy(ix->head.boot_id, boot, sizeof boot);
    if (!store_head(ix))
        return err_set(err, ERR_LIMIT,
                       "cache: write the index: %s: no space or a failing disk "
                       "(make room there, or give another folder)",
                       ix->path);
    /* From now on entries change: the disk must not go on saying that they are all there. */
    if (was_clean && msync(ix->mapped, INDEX_HEAD, MS_SYNC))
        return err_sys(err, errno, "cache: write the index %s", ix->path);
    if (!*ret_usable)
        return index_reset(ix, err);
    uint64_t units =
        st.st_size > (off_t)INDEX_HEAD ? ((uint64_t)st.st_size - INDEX_HEAD) / ENTRY_BYTES : 0;
    uint64_t most = CACHE_UNITS_MAX;
    if (publish_units(ix, units < most ? units : most))
        return err_sys(err, errno, "cache: map the index %s", ix->path);
    return 0;
}

int index_reset(struct index *ix, struct err *err)
{
    atomic_store(&ix->n_units, 0);
    if (ftruncate(ix->fd, INDEX_HEAD))
        return err_sys(err, errno, "cache: empty the index %s", ix->path);
    return 0;
}

/* Only entries that are on the disk may be called complete there: after a power loss `clean` is all
 * that speaks for them. */
void index_close(struct index *ix, bool clean)
{
    if (ix->mapped && clean && fdatasync(ix->fd) == 0) {
        ix->head.clean = 1;
        store_head(ix);
    }
    for (size_t k = 0; k < INDEX_CHUNKS; k++) {
        struct place *at = atomic_load(&ix->chunks[k]);
        if (at)
            munmap(at, INDEX_CHUNK_BYTES);
    }
    if (ix->mapped)
        munmap(ix->mapped, INDEX_HEAD);
    if (ix->fd >= 0)
        close(ix->fd);
    free(ix->path);
    lock_destroy(&ix->lock);
}

uint64_t index_bytes(const struct index *ix)
{
    return INDEX_HEAD + atomic_load(&ix->n_units) * ENTRY_BYTES;
}

static uint64_t entries_bytes(uint64_t last_unit)
{
    return ((last_unit + 1) * ENTRY_BYTES + INDEX_STEP - 1) / INDEX_STEP * INDEX_STEP;
}

uint64_t index_growth(const struct index *ix, uint64_t unit)
{
    uint64_t have = atomic_load(&ix->n_units);
    return unit < have || !ix->tier ? 0 : entries_bytes(unit) - have * ENTRY_BYTES;
}

int index_cover(struct index *ix, uint64_t unit)
{
    if (unit < atomic_load_explicit(&ix->n_units, memory_order_acquire))
        return 0;
    if (unit >= CACHE_UNITS_MAX)
        return -1;
    ACQUIRE(&ix->lock);
    uint64_t have = atomic_load(&ix->n_units);
    if (unit < have)
        return 0;
    uint64_t want = entries_bytes(unit);
    uint64_t grow = want - have * ENTRY_BYTES;
    if (ix->tier && !tier_charge(ix->tier, grow))
        return -1;
    if (ftruncate(ix->fd, (off_t)(INDEX_HEAD + want)) || publish_units(ix, want / ENTRY_BYTES)) {
        struct err why = {0};
        err_sys(&why, errno, "cache: grow the index %s", ix->path);
        if (ix->tier)
            tier_failed(ix->tier, grow, &why);
        return -1;
    }
    return 0;
}

/* --- entries --------------------------------------------------------------------------------- */

static struct place *entry_at(const struct index *ix, uint64_t unit)
{
    if (unit >= atomic_load_explicit(&ix->n_units, memory_order_acquire))
        return NULL;
    struct place *chunk =
        atomic_load_explicit(&ix->chunks[unit / INDEX_CHUNK_UNITS], memory_order_acquire);
    return chunk + unit % INDEX_CHUNK_UNITS;
}

struct entry_copy {
    struct place *to;
    const struct place *from;
};

static void copy_entry(void *arg)
{
    struct entry_copy *c = arg;
    *c->to = *c->from;
}

bool index_load(const struct index *ix, uint64_t unit, struct place *ret)
{
    struct entry_copy copy = {ret, entry_at(ix, unit)};
    if (!copy.from || !guard_run(copy_entry, &copy))
        return false;
    return ret->check && ret->check == entry_check(unit, ret);
}

bool index_store(struct index *ix, uint64_t unit, struct place *e)
{
    struct place zero = {0};
    struct entry_copy copy = {entry_at(ix, unit), e ? e : &zero};
    if (!copy.to)
        return !e;
    if (e)
        e->check = entry_check(unit, e);
    return guard_run(copy_entry, &copy);
}

struct page_copy {
    const struct place *page;
    struct place copy[PAGE_ENTRIES];
};

static void copy_page(void *arg)
{
    struct page_copy *p = arg;
    memcpy(p->copy, p->page, sizeof p->copy);
}

static void each_of(const struct page_copy *page, uint64_t unit, uint64_t n, index_each_fn *fn,
                    void *arg)
{
    for (uint64_t i = 0; i < PAGE_ENTRIES && unit + i < n; i++)
        if (page->copy[i].check && page->copy[i].check == entry_check(unit + i, &page->copy[i]))
            fn(arg, unit + i, &page->copy[i]);
}

bool index_page(struct index *ix, uint64_t unit, index_each_fn *fn, void *arg)
{
    struct page_copy page = {.page = entry_at(ix, unit)};
    if (!page.page)
        return true;
    if (!guard_run(copy_page, &page))
        return false;
    each_of(&page, unit, atomic_load(&ix->n_units), fn, arg);
    return true;
}

static bool load_page(struct index *ix, uint64_t unit, struct page_copy *ret)
{
    ret->page = entry_at(ix, unit);
    if (!ret->page)
        return false;
    ACQUIRE(&ix->stripes[unit / PAGE_ENTRIES % STRIPES].lock);
    return guard_run(copy_page, ret);
}

uint64_t index_skip_hole(const struct index *ix, uint64_t unit)
{
    off_t at = (off_t)(INDEX_HEAD + unit * ENTRY_BYTES);
    off_t data = lseek(ix->fd, at, SEEK_DATA);
    if (data < 0)
        return errno == ENXIO ? UINT64_MAX : unit;
    return data > at ? ((uint64_t)data - INDEX_HEAD) / 4096 * PAGE_ENTRIES : unit;
}

void index_will_need(const struct index *ix, uint64_t unit, uint64_t n)
{
    posix_fadvise(ix->fd, (off_t)(INDEX_HEAD + unit * ENTRY_BYTES), (off_t)(n * ENTRY_BYTES),
                  POSIX_FADV_WILLNEED);
}

void index_each(struct index *ix, index_each_fn *fn, void *arg)
{
    uint64_t n = atomic_load(&ix->n_units);
    struct page_copy page;
    for (uint64_t unit = 0; unit < n; unit += PAGE_ENTRIES) {
        if (unit / PAGE_ENTRIES % 64 == 0)
            unit = index_skip_hole(ix, unit);
        if (unit >= n)
            return;
        if (load_page(ix, unit, &page))
            each_of(&page, unit, n, fn, arg);
    }
}
