/*
 * The bytes on the disk: docs/formats/pack.md and docs/formats/journal.md describe them. Integers
 * are little-endian; all sizes are fixed.
 */
#ifndef SAMPAN_CACHE_FORMAT_INTERNAL_H
#define SAMPAN_CACHE_FORMAT_INTERNAL_H

#include <assert.h>
#include <stdint.h>

#include "pack-sizes.h"
#include "source.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the formats are written as they lie");

#define CHUNKS_MAX    (UNIT_BYTES / CHUNK_BYTES)
#define PAGED_LEAST   (64u << 10) /* stored as they are: from here on a page's padding is little */
#define TIER_ID_BYTES 16
#define ENTRY_BYTES   32u
#define INDEX_HEAD    4096u

#define PACK_MAGIC    0x314b5053u /* "SPK1" */
#define RECORD_MAGIC  0x31435253u /* "SRC1" */
#define JOURNAL_MAGIC 0x314e4a53u /* "SJN1" */
#define INDEX_MAGIC   0x31584953u /* "SIX1" */

/* Flags of a record and of an entry. */
#define UNIT_IN_PACK 1u /* entry: the place is set */
#define UNIT_LZ4     2u /* chunks are LZ4 blocks where table[i].stored is less than their raw size */
#define UNIT_FIRST   4u  /* begins a sample */
#define UNIT_PINNED  8u  /* entry */
#define UNIT_LEFT    16u /* entry: nobody wants it, nor read it since it was left: the first to go */
#define UNIT_PAGED   32u                     /* the chunks begin with a page of the pack */
#define UNIT_PAST    64u                     /* entry: the set as it is now does not name it */
#define UNIT_FATE    (UNIT_LEFT | UNIT_PAST) /* what a copy in another pack inherits */

struct pack_head { /* 64 bytes */
    uint32_t magic, number;
    unsigned char tier_id[TIER_ID_BYTES];
    unsigned char spare[36];
    uint32_t crc; /* of all before it */
};

struct record_head { /* 32 bytes, then `chunks` times struct chunk, then the chunks: record_lead()
                      */
    uint32_t magic;
    uint16_t flags, chunks;
    uint64_t unit;
    uint32_t raw, stored;
    uint32_t spare;
    uint32_t crc; /* of all before it and of the chunk table */
};

struct chunk {
    uint32_t crc; /* of the stored bytes */
    uint32_t stored;
};

struct journal_record { /* 48 bytes; the first of a file is its header: unit = 0, bytes = 0 */
    uint32_t magic, pack;
    uint64_t unit;
    uint64_t offset;
    uint32_t bytes, stored, raw; /* bytes: of the whole record with its padding */
    uint16_t flags, chunks;
    uint32_t spare;
    uint32_t crc;
};

struct place {      /* 32 bytes of the index */
    uint32_t check; /* of the unit's number and all but `used`; 0 where all is 0: ABSENT */
    uint32_t used;  /* minutes since 1970 */
    uint32_t pack;
    uint32_t offset64; /* in units of RECORD_ALIGN */
    uint32_t stored, raw;
    uint8_t tier, flags;
    uint16_t spare16;
    uint32_t spare;
};

struct index_head {
    uint32_t magic, crc; /* crc of all after it, up to `unused` */
    uint64_t set_hash;
    unsigned char tier_ids[8][TIER_ID_BYTES]; /* in the order of the tiers' places */
    uint32_t next_pack[8];
    char boot_id[40];
    uint32_t clean;  /* closed in order */
    int32_t verdict; /* of the LZ4 trial */
    double ratio;
    unsigned char unused[INDEX_HEAD - 232];
};

static_assert(sizeof(struct pack_head) == 64, "format");
static_assert(sizeof(struct record_head) == RECORD_HEAD_BYTES, "format");
static_assert(sizeof(struct chunk) == CHUNK_HEAD_BYTES, "format");
static_assert(sizeof(struct journal_record) == JOURNAL_RECORD_BYTES, "format");
static_assert(sizeof(struct place) == ENTRY_BYTES, "format");
static_assert(sizeof(struct index_head) == INDEX_HEAD, "format");

static inline uint64_t align_up(uint64_t n)
{
    return (n + RECORD_ALIGN - 1) & ~(uint64_t)(RECORD_ALIGN - 1);
}

static inline uint32_t chunks_of(uint32_t raw)
{
    return (raw + CHUNK_BYTES - 1) / CHUNK_BYTES;
}

/* Bytes of a chunk before compression. */
static inline uint32_t chunk_len(uint32_t raw, uint32_t i)
{
    uint32_t from = i * CHUNK_BYTES;
    return raw - from < CHUNK_BYTES ? raw - from : CHUNK_BYTES;
}

/* From where the record begins to its chunks. */
static inline uint32_t record_lead(uint64_t offset, uint32_t flags, uint32_t raw)
{
    uint64_t lead = sizeof(struct record_head) + chunks_of(raw) * sizeof(struct chunk);
    if (flags & UNIT_PAGED)
        lead += -(offset + lead) % PAGE_BYTES;
    return (uint32_t)lead;
}

/* With its padding. */
static inline uint64_t record_bytes(uint64_t offset, uint32_t flags, uint32_t raw, uint32_t stored)
{
    return align_up((uint64_t)record_lead(offset, flags, raw) + stored);
}

/* At most, wherever it begins. */
static inline uint64_t record_most(uint32_t flags, uint32_t raw, uint32_t stored)
{
    uint64_t most = record_bytes(0, 0, raw, stored);
    return flags & UNIT_PAGED ? most + PAGE_BYTES : most;
}

static inline uint64_t place_offset(const struct place *e)
{
    return (uint64_t)e->offset64 * RECORD_ALIGN;
}

static inline uint64_t place_bytes(const struct place *e)
{
    return record_bytes(place_offset(e), e->flags, e->raw, e->stored);
}

#endif
