/* Sums of records. */
#include "cache-internal.h"

#include "crc.h"

static uint32_t record_crc(const struct record_head *head, const struct chunk *table)
{
    uint32_t crc = crc32c(0, head, sizeof *head - sizeof head->crc);
    return crc32c(crc, table, (size_t)head->chunks * sizeof *table);
}

void record_seal(struct record_head *head, const struct chunk *table)
{
    head->crc = record_crc(head, table);
}

/* Nothing of a head may be believed before this: `table` must have room for CHUNKS_MAX. */
bool record_ok(const struct record_head *head, const struct chunk *table)
{
    if (head->magic != RECORD_MAGIC || head->chunks > CHUNKS_MAX || head->raw > UNIT_BYTES ||
        head->chunks != chunks_of(head->raw) || head->stored > head->raw)
        return false;
    if (record_crc(head, table) != head->crc)
        return false;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < head->chunks; i++) {
        if (table[i].stored > chunk_len(head->raw, i))
            return false;
        sum += table[i].stored;
    }
    bool plain = !(head->flags & UNIT_LZ4);
    return sum == head->stored && (!plain || head->stored == head->raw);
}
