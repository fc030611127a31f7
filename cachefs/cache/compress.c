/*
 * LZ4, chunk by chunk, where it pays. A set's first units are tried: only if they shrink by an
 * eighth or more are units of this set compressed at all, because plain chunks are answered
 * straight from the mapping and compressed ones need a buffer and the processor.
 */
#include "cache-internal.h"

#include <lz4.h>
#include <string.h>

#define TRIAL_UNITS 64u
#define TRIAL_BYTES (8u << 20)

/* An eighth or more is saved. */
static bool pays(uint64_t stored, uint64_t raw)
{
    return stored <= raw - raw / 8 - (raw % 8 != 0);
}

/* The size of a chunk once stored; `out` has CHUNK_BYTES. */
static uint32_t compress_chunk(const unsigned char *data, uint32_t len, unsigned char *out)
{
    int n = LZ4_compress_default((const char *)data, (char *)out, (int)len, (int)len - 1);
    if (n > 0)
        return (uint32_t)n;
    memcpy(out, data, len);
    return len;
}

void trial_add(struct trial *t, const unsigned char *data, size_t len, unsigned char *scratch)
{
    uint64_t stored = 0;
    for (uint32_t i = 0; i < chunks_of((uint32_t)len); i++)
        stored +=
            compress_chunk(data + (size_t)i * CHUNK_BYTES, chunk_len((uint32_t)len, i), scratch);
    ACQUIRE(&t->lock);
    t->units++;
    t->raw += len;
    t->stored += stored;
    if (t->units >= TRIAL_UNITS || t->raw >= TRIAL_BYTES)
        atomic_store(&t->verdict, t->raw && pays(t->stored, t->raw) ? 1 : -1);
}

double trial_ratio(struct trial *t)
{
    ACQUIRE(&t->lock);
    if (!atomic_load(&t->verdict) || !t->raw)
        return 0;
    return (double)t->stored / (double)t->raw;
}

size_t compress_bound(void)
{
    return UNIT_BYTES;
}

size_t compress_unit(const unsigned char *data, size_t len, struct chunk *table, unsigned char *out)
{
    size_t stored = 0;
    for (uint32_t i = 0; i < chunks_of((uint32_t)len); i++) {
        table[i].stored = compress_chunk(data + (size_t)i * CHUNK_BYTES,
                                         chunk_len((uint32_t)len, i), out + stored);
        stored += table[i].stored;
    }
    return len && pays(stored, len) ? stored : 0;
}

bool decompress_chunk(const unsigned char *stored, size_t stored_len, unsigned char *out,
                      size_t len)
{
    if (stored_len == len) {
        memcpy(out, stored, len);
        return true;
    }
    return LZ4_decompress_safe((const char *)stored, (char *)out, (int)stored_len, (int)len) ==
           (int)len;
}
