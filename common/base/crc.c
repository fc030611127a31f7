/*
 * CRCs of up to 64 bits, bit-reversed: the lowest bit of a value is its highest power.
 *
 * Eight bytes a step by tables. With carry-less multiplication long texts are folded first: a block
 * of 16 bytes that moves past n others is its halves times x^(8n+63) and x^(8n-1) mod P (a product
 * of two reversed values of 64 bits is the reversed product times x), and is added to the 16 bytes
 * there. What is left at last has the same sum as all of the text, and goes through the tables.
 */
#include "crc.h"

#include <pthread.h>
#include <string.h>

struct factors {
    uint64_t first, last; /* of the halves of 16 bytes */
};

struct crc {
    uint64_t poly, start; /* all ones: so many bits it has */
    uint64_t row[8][256];
    struct factors past_256, past_64, past_16;
};

static struct crc crcs[] = {
    [CRC_32] = {.poly = 0xedb88320, .start = UINT32_MAX},
    [CRC_64_NVME] = {.poly = 0x9a6c9329ac4bc9b5, .start = UINT64_MAX},
}; /* constant once `once` has run */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* a times x mod P. */
static uint64_t next_power(const struct crc *c, uint64_t a)
{
    return (a >> 1) ^ (a & 1 ? c->poly : 0);
}

/* x^n mod P as a reversed value of 64 bits, whatever the width of P. */
static uint64_t power(const struct crc *c, unsigned n)
{
    uint64_t a = c->start ^ c->start >> 1; /* 1 */
    while (n--)
        a = next_power(c, a);
    return c->start == UINT32_MAX ? a << 32 : a;
}

static struct factors factors_past(const struct crc *c, unsigned bytes)
{
    return (struct factors){power(c, 8 * bytes + 63), power(c, 8 * bytes - 1)};
}

static void crc_fill(struct crc *c)
{
    for (unsigned i = 0; i < 256; i++) {
        c->row[0][i] = i;
        for (int bit = 0; bit < 8; bit++)
            c->row[0][i] = next_power(c, c->row[0][i]);
    }
    for (unsigned i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            c->row[k][i] = (c->row[k - 1][i] >> 8) ^ c->row[0][c->row[k - 1][i] & 0xff];
    c->past_256 = factors_past(c, 256);
    c->past_64 = factors_past(c, 64);
    c->past_16 = factors_past(c, 16);
}

static void fill(void)
{
    for (size_t i = 0; i < sizeof crcs / sizeof crcs[0]; i++)
        crc_fill(&crcs[i]);
}

static const struct crc *crc_of(enum crc_kind kind)
{
    pthread_once(&once, fill);
    return &crcs[kind];
}

static uint64_t by_table(const struct crc *c, uint64_t sum, const unsigned char *p, size_t len)
{
    for (; len >= 8; p += 8, len -= 8) {
        uint64_t rest = sum;
        sum = 0;
        for (int i = 0; i < 8; i++, rest >>= 8)
            sum ^= c->row[7 - i][(rest ^ p[i]) & 0xff];
    }
    while (len--)
        sum = (sum >> 8) ^ c->row[0][(sum ^ *p++) & 0xff];
    return sum;
}

static uint64_t sum_by_table(enum crc_kind kind, const void *data, size_t len)
{
    const struct crc *c = crc_of(kind);
    return c->start ^ by_table(c, c->start, data, len);
}

/* --- folding ---------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET      __attribute__((target("sse4.1,pclmul")))
#define TARGET_WIDE __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.1")))

TARGET static inline __m128i narrow_factors(struct factors f)
{
    return _mm_set_epi64x((long long)f.last, (long long)f.first);
}

/* `moved`, past the bytes that its factors are for, and `onto`: one sum. */
TARGET static inline __m128i fold_onto(__m128i onto, __m128i moved, __m128i factors)
{
    return _mm_xor_si128(onto, _mm_xor_si128(_mm_clmulepi64_si128(moved, factors, 0x00),
                                             _mm_clmulepi64_si128(moved, factors, 0x11)));
}

TARGET static inline __m128i load(const unsigned char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* Four blocks side by side become one; the rest of the text follows it. */
TARGET static uint64_t finish(const struct crc *c, const __m128i lane[4], const unsigned char *p,
                              size_t len)
{
    __m128i factors = narrow_factors(c->past_16), all = lane[0];
    for (int i = 1; i < 4; i++)
        all = fold_onto(lane[i], all, factors);
    for (; len >= 16; p += 16, len -= 16)
        all = fold_onto(load(p), all, factors);
    unsigned char left[16];
    _mm_storeu_si128((__m128i *)(void *)left, all);
    return c->start ^ by_table(c, by_table(c, 0, left, sizeof left), p, len);
}

TARGET static uint64_t sum_narrow(enum crc_kind kind, const void *data, size_t len)
{
    const struct crc *c = crc_of(kind);
    const unsigned char *p = data;
    if (len < 64)
        return sum_by_table(kind, data, len);
    __m128i lane[4], factors = narrow_factors(c->past_64);
    for (int i = 0; i < 4; i++)
        lane[i] = load(p + 16 * i);
    lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi64_si128((long long)c->start));
    for (p += 64, len -= 64; len >= 64; p += 64, len -= 64)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            lane[i] = fold_onto(load(p + 16 * i), lane[i], factors);
    return finish(c, lane, p, len);
}

static bool has_narrow(void)
{
    return __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("pclmul");
}

TARGET_WIDE static inline __m512i wide_factors(struct factors f)
{
    return _mm512_broadcast_i32x4(narrow_factors(f));
}

TARGET_WIDE static inline __m512i wide_onto(__m512i onto, __m512i moved, __m512i factors)
{
    __m512i first = _mm512_clmulepi64_epi128(moved, factors, 0x00);
    __m512i last = _mm512_clmulepi64_epi128(moved, factors, 0x11);
    return _mm512_xor_si512(onto, _mm512_xor_si512(first, last));
}

TARGET_WIDE static uint64_t sum_wide(enum crc_kind kind, const void *data, size_t len)
{
    const struct crc *c = crc_of(kind);
    const unsigned char *p = data;
    if (len < 512)
        return sum_narrow(kind, data, len);
    __m512i lane[4], factors = wide_factors(c->past_256);
    for (int i = 0; i < 4; i++)
        lane[i] = _mm512_loadu_si512(p + 64 * i);
    __m128i start = _mm_cvtsi64_si128((long long)c->start);
    lane[0] = _mm512_xor_si512(lane[0], _mm512_zextsi128_si512(start));
    for (p += 256, len -= 256; len >= 256; p += 256, len -= 256)
        for (int i = 0; i < 4; i++)
            lane[i] = wide_onto(_mm512_loadu_si512(p + 64 * i), lane[i], factors);
    factors = wide_factors(c->past_64);
    for (int i = 1; i < 4; i++)
        lane[i] = wide_onto(lane[i], lane[i - 1], factors);
    __m128i narrow[4];
    _mm512_storeu_si512(narrow, lane[3]);
    return finish(c, narrow, p, len);
}

static bool has_wide(void)
{
    return has_narrow() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("vpclmulqdq");
}
#define WAYS_HERE {"avx512", has_wide, sum_wide}, {"pclmul", has_narrow, sum_narrow},

#else
#define WAYS_HERE
#endif

static bool always(void)
{
    return true;
}

const struct crc_way crc_ways[] = {WAYS_HERE{"table", always, sum_by_table}, {0}};

uint64_t crc_sum(enum crc_kind kind, const void *data, size_t len)
{
    const struct crc_way *way = crc_ways;
    while (!way->usable())
        way++;
    return way->sum(kind, data, len);
}
