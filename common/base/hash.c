#include "hash.h"

#include <string.h>

static uint64_t load64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* --- a fast 64-bit hash: multiply and fold, 16 bytes a step ----------------------------------- */

#define PRIME_A 0x9e3779b97f4a7c15ull
#define PRIME_B 0xd6e8feb86659fd93ull
#define PRIME_C 0xa0761d6478bd642full

static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t hash64(const void *data, size_t len, uint64_t seed)
{
    const unsigned char *p = data;
    uint64_t h = hash_mix64(seed ^ PRIME_A) ^ len;
    for (; len >= 16; p += 16, len -= 16)
        h = fold(load64(p) ^ h ^ PRIME_B, load64(p + 8) ^ PRIME_C);
    unsigned char tail[16] = {0};
    if (len)
        memcpy(tail, p, len);
    h = fold(load64(tail) ^ h ^ PRIME_B, load64(tail + 8) ^ PRIME_A);
    return hash_mix64(h);
}

uint64_t hash_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* --- hex -------------------------------------------------------------------------------------- */

void hex_encode(char *out, const void *data, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p = data;
    for (size_t i = 0; i < len; i++) {
        *out++ = digits[p[i] >> 4];
        *out++ = digits[p[i] & 15];
    }
    *out = '\0';
}

bool hex_is(const char *text, size_t digits)
{
    return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int hex_decode(void *out, size_t out_len, const char *hex)
{
    if (strlen(hex) != 2 * out_len)
        return -1;
    unsigned char *p = out;
    for (size_t i = 0; i < out_len; i++) {
        int hi = hex_digit(hex[2 * i]), lo = hex_digit(hex[2 * i + 1]);
        if (hi < 0 || lo < 0)
            return -1;
        p[i] = (unsigned char)(hi << 4 | lo);
    }
    return 0;
}
