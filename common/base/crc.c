/*
 * CRCs of up to 64 bits, bit-reversed: the lowest bit of a value is its highest power.
 *
 * Four ways. Anywhere, eight bytes a step by tables. With carry-less multiplication, of 16 bytes or
 * of 64 at once, long texts are folded: a block of 16 bytes that moves past n others is its halves
 * times x^(8n+63) and x^(8n-1) mod P (a product of two reversed values of 64 bits is the reversed
 * product times x), and is added to the 16 bytes there. What is left at last has the same sum as
 * all of the text. For CRC-32C there is an instruction; on x86 it has a latency of three cycles and
 * can start every cycle, so three lanes run side by side over a block, and a lane's sum is moved
 * past the bytes that follow it by one multiplication with x^(8n-33) mod P.
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
    [CRC_32C] = {.poly = 0x82f63b78, .start = UINT32_MAX},
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

/* --- two sums become one ---------------------------------------------------------------------- */

/* a times b mod P. */
static uint64_t multiply(const struct crc *c, uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    for (uint64_t bit = c->start ^ c->start >> 1; bit; bit >>= 1) {
        if (a & bit)
            product ^= b;
        b = next_power(c, b);
    }
    return product;
}

uint32_t crc32c_combine(uint32_t a, uint32_t b, uint64_t len_b)
{
    const struct crc *c = crc_of(CRC_32C);
    uint64_t sum = a, past = 1u << (31 - 8); /* a byte is x^8 */
    for (; len_b; len_b >>= 1, past = multiply(c, past, past))
        if (len_b & 1)
            sum = multiply(c, sum, past);
    return (uint32_t)sum ^ b;
}

/* --- anywhere: tables ------------------------------------------------------------------------- */

static uint64_t add_by_table(enum crc_kind kind, uint64_t sum, const void *data, size_t len)
{
    const struct crc *c = crc_of(kind);
    const unsigned char *p = data;
    sum ^= c->start;
    for (; len >= 8; p += 8, len -= 8) {
        uint64_t rest = sum;
        sum = 0;
        for (int i = 0; i < 8; i++, rest >>= 8)
            sum ^= c->row[7 - i][(rest ^ p[i]) & 0xff];
    }
    while (len--)
        sum = (sum >> 8) ^ c->row[0][(sum ^ *p++) & 0xff];
    return sum ^ c->start;
}

static bool always(enum crc_kind kind)
{
    (void)kind;
    return true;
}

#if defined(__x86_64__)
#include <immintrin.h>

/* --- x86: folding, 16 bytes at once ----------------------------------------------------------- */

#define TARGET __attribute__((target("sse4.2,pclmul")))

TARGET static inline __m128i narrow_factors(struct factors f)
{
    return _mm_set_epi64x((long long)f.last, (long long)f.first);
}

/* `moved`, past the bytes that its factors are for, and `onto`: one sum. */
TARGET static inline __m128i narrow_onto(__m128i onto, __m128i moved, __m128i factors)
{
    return _mm_xor_si128(onto, _mm_xor_si128(_mm_clmulepi64_si128(moved, factors, 0x00),
                                             _mm_clmulepi64_si128(moved, factors, 0x11)));
}

TARGET static inline __m128i load(const unsigned char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* What is folded has this sum where it begins a text: nothing came before it, not even the start.
 */
static uint64_t sum_of_folded(enum crc_kind kind, const unsigned char *folded, size_t len,
                              const unsigned char *rest, size_t rest_len)
{
    uint64_t sum = crc_add(kind, crcs[kind].start, folded, len);
    return crc_add(kind, sum, rest, rest_len);
}

TARGET static uint64_t add_narrow(enum crc_kind kind, uint64_t sum, const void *data, size_t len)
{
    const struct crc *c = crc_of(kind);
    const unsigned char *p = data;
    __m128i lane[4], factors = narrow_factors(c->past_64);
    for (int i = 0; i < 4; i++)
        lane[i] = load(p + 16 * i);
    lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi64_si128((long long)(sum ^ c->start)));
    for (p += 64, len -= 64; len >= 64; p += 64, len -= 64)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            lane[i] = narrow_onto(load(p + 16 * i), lane[i], factors);
    factors = narrow_factors(c->past_16);
    for (int i = 1; i < 4; i++)
        lane[i] = narrow_onto(lane[i], lane[i - 1], factors);
    unsigned char folded[16];
    _mm_storeu_si128((__m128i *)(void *)folded, lane[3]);
    return sum_of_folded(kind, folded, sizeof folded, p, len);
}

static bool has_narrow(enum crc_kind kind)
{
    (void)kind;
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

/* --- x86: folding, 64 bytes at once ----------------------------------------------------------- */

#define TARGET_WIDE __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))

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

TARGET_WIDE static uint64_t add_wide(enum crc_kind kind, uint64_t sum, const void *data, size_t len)
{
    const struct crc *c = crc_of(kind);
    const unsigned char *p = data;
    __m512i lane[4], factors = wide_factors(c->past_256);
    for (int i = 0; i < 4; i++)
        lane[i] = _mm512_loadu_si512(p + 64 * i);
    __m128i before = _mm_cvtsi64_si128((long long)(sum ^ c->start));
    lane[0] = _mm512_xor_si512(lane[0], _mm512_zextsi128_si512(before));
    for (p += 256, len -= 256; len >= 256; p += 256, len -= 256)
        for (int i = 0; i < 4; i++)
            lane[i] = wide_onto(_mm512_loadu_si512(p + 64 * i), lane[i], factors);
    factors = wide_factors(c->past_64);
    for (int i = 1; i < 4; i++)
        lane[i] = wide_onto(lane[i], lane[i - 1], factors);
    unsigned char folded[64];
    _mm512_storeu_si512(folded, lane[3]);
    return sum_of_folded(kind, folded, sizeof folded, p, len);
}

static bool has_wide(enum crc_kind kind)
{
    return has_narrow(kind) && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("vpclmulqdq");
}

/* --- x86: the instruction of CRC-32C ---------------------------------------------------------- */

#define LANE_LONG  4096
#define LANE_SHORT 256

/* x^(8n-33) mod P for one and for two lanes of n bytes. */
struct shift {
    uint32_t one, two;
};
static const struct shift shift_long = {0x82f89c77, 0x54a86326};
static const struct shift shift_short = {0xb9e02b86, 0xdd7e3b0c};

static uint64_t load64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

TARGET static uint64_t move_past(uint64_t sum, uint32_t factor)
{
    __m128i product =
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)sum), _mm_cvtsi32_si128((int)factor), 0);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

TARGET static inline uint64_t three_lanes(uint64_t sum, const unsigned char *p, size_t lane,
                                          struct shift shift)
{
    uint64_t a = sum, b = 0, c = 0;
    for (size_t i = 0; i < lane; i += 8) {
        a = _mm_crc32_u64(a, load64(p + i));
        b = _mm_crc32_u64(b, load64(p + lane + i));
        c = _mm_crc32_u64(c, load64(p + 2 * lane + i));
    }
    return move_past(a, shift.two) ^ move_past(b, shift.one) ^ c;
}

TARGET static uint64_t add_lanes(enum crc_kind kind, uint64_t sum, const void *data, size_t len)
{
    (void)kind;
    const unsigned char *p = data;
    sum ^= UINT32_MAX;
    for (; len >= 3 * LANE_LONG; p += 3 * LANE_LONG, len -= 3 * LANE_LONG)
        sum = three_lanes(sum, p, LANE_LONG, shift_long);
    for (; len >= 3 * LANE_SHORT; p += 3 * LANE_SHORT, len -= 3 * LANE_SHORT)
        sum = three_lanes(sum, p, LANE_SHORT, shift_short);
    for (; len >= 8; p += 8, len -= 8)
        sum = _mm_crc32_u64(sum, load64(p));
    while (len--)
        sum = _mm_crc32_u8((uint32_t)sum, *p++);
    return sum ^ UINT32_MAX;
}

static bool has_lanes(enum crc_kind kind)
{
    return kind == CRC_32C && has_narrow(kind);
}

#define WAYS_HERE                                                              \
    {"avx512", 1024, has_wide, add_wide}, {"sse4.2", 0, has_lanes, add_lanes}, \
        {"pclmul", 64, has_narrow, add_narrow},

#elif defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

/* --- ARM: the instruction of CRC-32C ---------------------------------------------------------- */

__attribute__((target("+crc"))) static uint64_t add_by_instruction(enum crc_kind kind, uint64_t sum,
                                                                   const void *data, size_t len)
{
    (void)kind;
    const unsigned char *p = data;
    uint32_t crc = ~(uint32_t)sum;
    for (; len >= 8; p += 8, len -= 8) {
        uint64_t v;
        memcpy(&v, p, sizeof v);
        crc = __crc32cd(crc, v);
    }
    while (len--)
        crc = __crc32cb(crc, *p++);
    return ~crc;
}

static bool has_instruction(enum crc_kind kind)
{
    return kind == CRC_32C && (getauxval(AT_HWCAP) & HWCAP_CRC32);
}
#define WAYS_HERE {"armv8", 0, has_instruction, add_by_instruction},

#else
#define WAYS_HERE
#endif

/* --- the best of them ------------------------------------------------------------------------- */

const struct crc_way crc_ways[] = {WAYS_HERE{"table", 0, always, add_by_table}, {0}};

static const struct crc_way *best_way(enum crc_kind kind, size_t len)
{
    const struct crc_way *way = crc_ways;
    while (len < way->least || !way->usable(kind))
        way++;
    return way;
}

uint64_t crc_add(enum crc_kind kind, uint64_t sum, const void *data, size_t len)
{
    return best_way(kind, len)->add(kind, sum, data, len);
}

const char *crc32c_how(void)
{
    return best_way(CRC_32C, SIZE_MAX)->name;
}
