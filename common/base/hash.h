/* Sums that are no CRC: a fast one of 64 bits, SHA-256; and bytes as digits. */
#ifndef SAMPAN_BASE_HASH_H
#define SAMPAN_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t hash64(const void *data, size_t len, uint64_t seed); /* not for secrets */
uint64_t hash_mix64(uint64_t x);                              /* a bijection */

void sha256_hex(char out[65], const void *data, size_t len);

void hex_encode(char *out, const void *data, size_t len); /* 2 * len + 1 bytes, lower case */
bool hex_is(const char *text, size_t digits);             /* so many, lower case, no more */
int hex_digit(char c);                                    /* its value, or -1 */
int hex_decode(void *out, size_t out_len,
               const char *hex); /* 0, or -1 if it isn't 2*out_len digits */
#define BASE64_BYTES(len) (((len) + 2) / 3 * 4 + 1)
void base64_encode(char *out, const void *data, size_t len); /* BASE64_BYTES(len) */

#endif
