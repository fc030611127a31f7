/*
 * The journal of a pack: the file N.idx beside N.pack, 48 bytes for each record appended
 * (docs/formats/journal.md). From the journals a lost index is rebuilt by sequential reads, and
 * reclaim learns which units a pack once took.
 */
#include "cache-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "crc.h"

#define BATCH 1024u

static uint32_t journal_crc(const struct journal_record *r)
{
    return crc32c(0, r, sizeof *r - sizeof r->crc);
}

static int write_all(struct pack *p, const void *data, size_t len, struct err *err)
{
    uint64_t at = atomic_load(&p->journal_size);
    ssize_t n = pwrite(p->journal_fd, data, len, (off_t)at);
    if (n != (ssize_t)len)
        return err_sys(err, n < 0 ? errno : ENOSPC, "cache: append to the journal of pack %u in %s",
                       p->number, p->tier->dir);
    atomic_store(&p->journal_size, at + len);
    return 0;
}

int journal_create(struct pack *p, struct err *err)
{
    struct journal_record head = {.magic = JOURNAL_MAGIC, .pack = p->number};
    head.crc = journal_crc(&head);
    return write_all(p, &head, sizeof head, err);
}

int journal_append(struct pack *p, const struct journal_record *r, size_t n, struct err *err)
{
    struct journal_record out[64];
    while (n > 0) {
        size_t now = n < 64 ? n : 64;
        for (size_t i = 0; i < now; i++) {
            out[i] = r[i];
            out[i].magic = JOURNAL_MAGIC;
            out[i].pack = p->number;
            out[i].crc = journal_crc(&out[i]);
        }
        if (write_all(p, out, now * sizeof out[0], err))
            return -1;
        r += now;
        n -= now;
    }
    return 0;
}

static bool record_fits(const struct pack *p, const struct journal_record *r, uint64_t size)
{
    return r->magic == JOURNAL_MAGIC && r->crc == journal_crc(r) && r->pack == p->number &&
           r->raw <= UNIT_BYTES && r->stored <= r->raw &&
           r->bytes == record_bytes(r->offset, r->flags, r->raw, r->stored) &&
           r->offset % RECORD_ALIGN == 0 && r->offset >= sizeof(struct pack_head) &&
           r->offset <= size && r->bytes <= size - r->offset;
}

static bool head_fits(const struct pack *p, const struct journal_record *r)
{
    return r->magic == JOURNAL_MAGIC && r->crc == journal_crc(r) && r->pack == p->number &&
           r->bytes == 0;
}

/*
 * 0: all records were given, the end of the furthest one is in *ret_end. -1: there is no journal,
 * or its middle is damaged (some records may have been given). A bad last record is a torn tail:
 * dropped.
 */
int journal_each(struct pack *p, record_fn *fn, void *arg, uint64_t *ret_end)
{
    char name[32];
    pack_name(name, p->number, "idx");
    cleanup_close int fd = openat(p->tier->dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    cleanup_free struct journal_record *batch = xmalloc(BATCH * sizeof *batch);
    uint64_t size = atomic_load(&p->size), end = sizeof(struct pack_head), at = 0;
    bool torn = false;
    for (;;) {
        ssize_t n = pread(fd, batch, BATCH * sizeof *batch, (off_t)at);
        size_t records = n < 0 ? 0 : (size_t)n / sizeof *batch;
        if (n < 0 || (at == 0 && (!records || !head_fits(p, &batch[0]))))
            return -1;
        if (!records)
            break;
        for (size_t i = at == 0; i < records; i++) {
            if (torn)
                return -1;
            torn = !record_fits(p, &batch[i], size);
            if (torn)
                continue;
            fn(arg, p, &batch[i]);
            if (batch[i].offset + batch[i].bytes > end)
                end = batch[i].offset + batch[i].bytes;
        }
        at += records * sizeof *batch;
    }
    *ret_end = end;
    return 0;
}

/* Offsets rise, for a pack is only ever appended to: what stands last in the journal ends last. */
int journal_tail(struct pack *p, uint64_t *ret_records, uint64_t *ret_end)
{
    char name[32];
    struct stat st;
    struct journal_record head, last[16];
    const uint64_t most = sizeof last / sizeof last[0];
    pack_name(name, p->number, "idx");
    cleanup_close int fd = openat(p->tier->dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || pread(fd, &head, sizeof head, 0) != sizeof head ||
        !head_fits(p, &head))
        return -1;
    uint64_t all = (uint64_t)st.st_size / sizeof head, n = all - 1 < most ? all - 1 : most;
    uint64_t size = atomic_load(&p->size), end = sizeof(struct pack_head);
    ssize_t want = (ssize_t)(n * sizeof head);
    if (pread(fd, last, (size_t)want, (off_t)((all - n) * sizeof head)) != want)
        return -1;
    if (n && !record_fits(p, &last[n - 1], size)) { /* the torn tail of an append */
        all--;
        n--;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (!record_fits(p, &last[i], size) || last[i].offset < end)
            return -1;
        end = last[i].offset + last[i].bytes;
    }
    if (!n && all > 1)
        return -1;
    *ret_records = all - 1;
    *ret_end = end;
    return 0;
}
