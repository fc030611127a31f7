/* Sums: CRC-32C (with the processor's instructions where there are any), a fast 64-bit hash, hex.
 */
#ifndef SAMPAN_BASE_HASH_H
#define SAMPAN_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void *data, size_t len); /* start with 0 */
/* The sum of a text whose first part has the sum `a` and whose rest, of `len_b` bytes, has `b`. */
uint32_t crc32c_combine(uint32_t a, uint32_t b, uint64_t len_b);
const char *crc32c_how(void); /* the name of the way that is taken here */

/* All ways, the best first; the last, "table", is usable anywhere. The end has no name. */
extern const struct crc32c_way {
    const char *name;
    bool (*usable)(void);
    uint32_t (*sum)(uint32_t crc, const void *data, size_t len);
} crc32c_ways[];

uint64_t hash64(const void *data, size_t len, uint64_t seed); /* not for secrets */
uint64_t hash_mix64(uint64_t x);                              /* a bijection */

void sha256_hex(char out[65], const void *data, size_t len);

void hex_encode(char *out, const void *data, size_t len); /* 2 * len + 1 bytes, lower case */
int hex_digit(char c);                                    /* its value, or -1 */
int hex_decode(void *out, size_t out_len,
               const char *hex); /* 0, or -1 if it isn't 2*out_len digits */

#endif
