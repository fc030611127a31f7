/*
 * Sums.
 *
 * CRC-32C on x86: the instruction has a latency of three cycles and can start every cycle, so three
 * lanes run side by side over a block; a lane's sum is then moved past the bytes that follow it by
 * one carry-less multiplication with x^(8n-33) mod P (bit-reversed, as all values here).
 * Where 64 bytes can be multiplied at once, long texts are folded instead, in half the time: 256
 * bytes are moved past the 256 that follow and added to those, until 64 are left to be summed.
 */
#include "hash.h"

#include <pthread.h>
#include <string.h>

/* --- the portable one: eight bytes a step ----------------------------------------------------- */

#define POLY 0x82f63b78u

struct table {
    uint32_t row[8][256];
    uint32_t power[32]; /* x^(2^i) mod P, bit-reversed as all values here */
};

static struct table table; /* constant once `table_once` has run */
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

/* a times b mod P. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
        if (a & bit)
            product ^= b;
        b = (b >> 1) ^ (b & 1 ? POLY : 0);
    }
    return product;
}

static void table_fill(void)
{
    table.power[0] = 1u << 30;
    for (int i = 1; i < 32; i++)
        table.power[i] = multiply(table.power[i - 1], table.power[i - 1]);
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t v = i;
        for (int bit = 0; bit < 8; bit++)
            v = (v >> 1) ^ (v & 1 ? POLY : 0);
        table.row[0][i] = v;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            table.row[k][i] = (table.row[k - 1][i] >> 8) ^ table.row[0][table.row[k - 1][i] & 0xff];
}

static uint64_t load64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t crc32c_table(uint32_t crc, const void *data, size_t len)
{
    pthread_once(&table_once, table_fill);
    const unsigned char *p = data;
    crc = ~crc;
    for (; len >= 8; p += 8, len -= 8) {
        uint32_t lo = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                             (uint32_t)p[3] << 24);
        crc = table.row[7][lo & 0xff] ^ table.row[6][lo >> 8 & 0xff] ^
              table.row[5][lo >> 16 & 0xff] ^ table.row[4][lo >> 24] ^ table.row[3][p[4]] ^
              table.row[2][p[5]] ^ table.row[1][p[6]] ^ table.row[0][p[7]];
    }
    while (len--)
        crc = (crc >> 8) ^ table.row[0][(crc ^ *p++) & 0xff];
    return ~crc;
}

/* The powers repeat after 31 squarings: x^(2^31) is x. */
uint32_t crc32c_combine(uint32_t a, uint32_t b, uint64_t len_b)
{
    pthread_once(&table_once, table_fill);
    for (unsigned i = 3; len_b; i++, len_b >>= 1) /* a byte is x^8 */
        if (len_b & 1)
            a = multiply(table.power[i % 31], a);
    return a ^ b;
}

/* --- the processor's instruction -------------------------------------------------------------- */

#if defined(__x86_64__)
#include <immintrin.h>

#define LANE_LONG  4096
#define LANE_SHORT 256
#define TARGET     __attribute__((target("sse4.2,pclmul")))

/* x^(8n-33) mod P for one and for two lanes of n bytes. */
struct shift {
    uint32_t one, two;
};
static const struct shift shift_long = {0x82f89c77, 0x54a86326};
static const struct shift shift_short = {0xb9e02b86, 0xdd7e3b0c};

TARGET static uint64_t move_past(uint64_t crc, uint32_t factor)
{
    __m128i product =
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi32_si128((int)factor), 0);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

TARGET static inline uint64_t three_lanes(uint64_t crc, const unsigned char *p, size_t lane,
                                          struct shift shift)
{
    uint64_t a = crc, b = 0, c = 0;
    for (size_t i = 0; i < lane; i += 8) {
        a = _mm_crc32_u64(a, load64(p + i));
        b = _mm_crc32_u64(b, load64(p + lane + i));
        c = _mm_crc32_u64(c, load64(p + 2 * lane + i));
    }
    return move_past(a, shift.two) ^ move_past(b, shift.one) ^ c;
}

TARGET static uint32_t crc32c_lanes(uint32_t start, const void *data, size_t len)
{
    const unsigned char *p = data;
    uint64_t crc = ~start;
    for (; len >= 3 * LANE_LONG; p += 3 * LANE_LONG, len -= 3 * LANE_LONG)
        crc = three_lanes(crc, p, LANE_LONG, shift_long);
    for (; len >= 3 * LANE_SHORT; p += 3 * LANE_SHORT, len -= 3 * LANE_SHORT)
        crc = three_lanes(crc, p, LANE_SHORT, shift_short);
    for (; len >= 8; p += 8, len -= 8)
        crc = _mm_crc32_u64(crc, load64(p));
    while (len--)
        crc = _mm_crc32_u8((uint32_t)crc, *p++);
    return ~(uint32_t)crc;
}

static bool has_lanes(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

#define FOLD_BYTES  256
#define FOLD_LEAST  1024 /* below it the end costs more than folding saves */
#define TARGET_WIDE __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))

/* Of 16 bytes that move past n: x^(8n-33) mod P for the last 8, x^(8n+31) for the first. */
static const struct factors {
    long long last, first;
} past_256 = {0xb9e02b86, 0xdcb17aa4}, past_64 = {0x9e4addf8, 0x740eef02};

TARGET_WIDE static inline __m512i wide_factors(struct factors f)
{
    return _mm512_broadcast_i32x4(_mm_set_epi64x(f.last, f.first));
}

/* `moved`, past the bytes that its factors are for, and `onto`: one sum. */
TARGET_WIDE static inline __m512i fold_onto(__m512i onto, __m512i moved, __m512i factors)
{
    __m512i first = _mm512_clmulepi64_epi128(moved, factors, 0x00);
    __m512i last = _mm512_clmulepi64_epi128(moved, factors, 0x11);
    return _mm512_xor_si512(onto, _mm512_xor_si512(first, last));
}

TARGET_WIDE static uint32_t crc32c_folded(uint32_t start, const void *data, size_t len)
{
    const unsigned char *p = data;
    if (len < FOLD_LEAST)
        return crc32c_lanes(start, data, len);
    __m512i lane[4], factors = wide_factors(past_256);
    for (int i = 0; i < 4; i++)
        lane[i] = _mm512_loadu_si512(p + 64 * i);
    lane[0] = _mm512_xor_si512(lane[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~start)));
    for (p += FOLD_BYTES, len -= FOLD_BYTES; len >= FOLD_BYTES; p += FOLD_BYTES, len -= FOLD_BYTES)
        for (int i = 0; i < 4; i++)
            lane[i] = fold_onto(_mm512_loadu_si512(p + 64 * i), lane[i], factors);
    factors = wide_factors(past_64);
    for (int i = 1; i < 4; i++)
        lane[i] = fold_onto(lane[i], lane[i - 1], factors);
    unsigned char rest[64];
    _mm512_storeu_si512(rest, lane[3]);
    uint64_t crc = 0;
    for (size_t i = 0; i < sizeof rest; i += 8)
        crc = _mm_crc32_u64(crc, load64(rest + i));
    return crc32c_lanes(~(uint32_t)crc, p, len);
}

static bool has_folded(void)
{
    return has_lanes() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
}
#define WAYS_HERE {"avx512", has_folded, crc32c_folded}, {"sse4.2", has_lanes, crc32c_lanes},

#elif defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

__attribute__((target("+crc"))) static uint32_t crc32c_instruction(uint32_t crc, const void *data,
                                                                   size_t len)
{
    const unsigned char *p = data;
    crc = ~crc;
    for (; len >= 8; p += 8, len -= 8)
        crc = __crc32cd(crc, load64(p));
    while (len--)
        crc = __crc32cb(crc, *p++);
    return ~crc;
}

static bool has_instruction(void)
{
    return getauxval(AT_HWCAP) & HWCAP_CRC32;
}
#define WAYS_HERE {"armv8", has_instruction, crc32c_instruction},

#else
#define WAYS_HERE
#endif

static bool always(void)
{
    return true;
}

const struct crc32c_way crc32c_ways[] = {WAYS_HERE{"table", always, crc32c_table}, {0}};

static const struct crc32c_way *best_way(void)
{
    const struct crc32c_way *way = crc32c_ways;
    while (!way->usable())
        way++;
    return way;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
    return best_way()->sum(crc, data, len);
}

const char *crc32c_how(void)
{
    return best_way()->name;
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
