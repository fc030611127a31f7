/* The CRCs besides CRC-32C (hash.h) that object stores keep of objects. */
#ifndef SAMPAN_BASE_CRC_H
#define SAMPAN_BASE_CRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum crc_kind {
    CRC_32,      /* of zlib, gzip and Ethernet */
    CRC_64_NVME, /* of NVM Express; S3's own default */
};

uint64_t crc_sum(enum crc_kind kind, const void *data, size_t len);

/* All ways, the best first; the last, "table", is usable anywhere. The end has no name. */
extern const struct crc_way {
    const char *name;
    bool (*usable)(void);
    uint64_t (*sum)(enum crc_kind kind, const void *data, size_t len);
} crc_ways[];

#endif
