/* CRCs: that of Sampan's own files (CRC-32C) and those that object stores keep of objects. */
#ifndef SAMPAN_BASE_CRC_H
#define SAMPAN_BASE_CRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum crc_kind {
    CRC_32,      /* of zlib, gzip and Ethernet */
    CRC_32C,     /* of iSCSI; processors have an instruction for it */
    CRC_64_NVME, /* of NVM Express; S3's own default */
};

/* The sum of a text that goes on; `sum` is that of what came before, 0 where nothing did. */
uint64_t crc_add(enum crc_kind kind, uint64_t sum, const void *data, size_t len);

static inline uint32_t crc32c(uint32_t sum, const void *data, size_t len)
{
    return (uint32_t)crc_add(CRC_32C, sum, data, len);
}

/* As TFRecords keep it: a sum over what holds sums would be no good one. */
static inline uint32_t crc32c_masked(const void *data, size_t len)
{
    uint32_t c = crc32c(0, data, len);
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

/* The sum of a text whose first part has the sum `a` and whose rest, of `len_b` bytes, has `b`. */
uint32_t crc32c_combine(uint32_t a, uint32_t b, uint64_t len_b);

const char *crc32c_how(void); /* the name of the way that long texts take here */

/* All ways, the best first; the last, "table", is for any text anywhere. The end has no name. */
extern const struct crc_way {
    const char *name;
    size_t least; /* bytes of a text: shorter ones go another way */
    bool (*usable)(enum crc_kind kind);
    uint64_t (*add)(enum crc_kind kind, uint64_t sum, const void *data, size_t len);
} crc_ways[];

#endif
