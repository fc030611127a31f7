/* Does it fit? Asked before the first byte is fetched. Pure. */
#include "conf.h"
#include "pack-sizes.h"
#include "plan.h"
#include "source.h"

/* What a unit takes besides its bytes, at most: its head and padding in the pack, its record in the
 * pack's journal; a large one a page. (A cache that has room for more than the set takes that page
 * for smaller ones, too.) */
#define UNIT_OVERHEAD (RECORD_HEAD_BYTES + RECORD_ALIGN - 1 + JOURNAL_RECORD_BYTES)

uint64_t plan_stored_bytes(uint64_t size, double ratio)
{
    uint64_t units = size / UNIT_BYTES + 1, page = size < LARGE_BYTES ? 0 : PAGE_BYTES;
    return (uint64_t)((double)size * ratio) + units * (UNIT_OVERHEAD + page) +
           (size / CHUNK_BYTES + 1) * CHUNK_HEAD_BYTES;
}

void plan_fit_add(struct plan_fit *f, uint64_t id, uint64_t size)
{
    f->samples++;
    f->want += plan_stored_bytes(size, f->ratio);
    if (f->want <= f->room)
        f->fitting = f->samples;
    else if (!f->first_too_many_id)
        f->first_too_many_id = id;
}

int plan_fit_check(const struct plan_fit *f, const char *path, struct err *err)
{
    if (f->want <= f->room)
        return 0;
    char samples[64], want[32], room[32];
    conf_format_count(f->samples, "sample", samples);
    conf_format_size(f->want, want);
    conf_format_size(f->room, room);
    return err_set(err, ERR_LIMIT,
                   "%s take%s %s, the cache has room for %s: %llu of them, from %s on, do "
                   "not fit (give it a larger --cache, more partitions, or name fewer paths)",
                   samples, f->samples == 1 ? "s" : "", want, room,
                   (unsigned long long)(f->samples - f->fitting), path);
}
