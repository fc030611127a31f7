/*
 * Resampling with a triangle filter, rows first, then columns: what Pillow and torchvision call
 * bilinear with antialiasing. Whole numbers throughout, so that every machine gives the same bytes:
 * columns in floats, which hold them exactly, as the vector units have these everywhere.
 */
#include <math.h>
#include <string.h>

#include "mem.h"
#include "picture-internal.h"

/* Of a weight: all weights of a pixel fit 16 bits, their sum is exactly ONE. */
#define BITS 14
#define ONE  (1 << BITS)

/* What each value of one axis is made of. */
struct taps {
    uint32_t *first; /* the first source pixel, and how many there are */
    uint32_t *count;
    int16_t *weight; /* room for `each` of them a value */
    float *factor;   /* the same numbers */
    uint32_t each;
    size_t first_cap, count_cap, weight_cap, factor_cap;
};

struct resample {
    struct taps x, y;
    uint8_t *rows; /* out_h rows of the region's width */
    int32_t *sums;
    float *wide;   /* one of them as floats, and one value that is read and not used */
    uint8_t *line; /* one row that comes out */
    size_t rows_cap, sums_cap, wide_cap, line_cap;
};

struct resample *resample_new(void)
{
    return xcalloc(1, sizeof(struct resample));
}

static void taps_release(struct taps *t)
{
    free(t->first);
    free(t->count);
    free(t->weight);
    free(t->factor);
}

void resample_free(struct resample *s)
{
    if (!s)
        return;
    taps_release(&s->x);
    taps_release(&s->y);
    free(s->rows);
    free(s->sums);
    free(s->wide);
    free(s->line);
    free(s);
}

static void *reserve(void *at, size_t *cap, size_t n, size_t each)
{
    if (n <= *cap)
        return at;
    free(at);
    *cap = n;
    return xcalloc(n, each);
}

static double triangle(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* One value's weights: rounded, and what rounding leaves over goes to the largest. */
static void set_weights(struct taps *t, uint32_t i, double middle, double reach, uint32_t n)
{
    double from = floor(middle - reach + 0.5), to = floor(middle + reach + 0.5);
    uint32_t first = from > 0 ? (uint32_t)from : 0;
    uint32_t end = to < n ? (uint32_t)(to > 0 ? to : 0) : n;
    if (first >= n)
        first = n - 1;
    if (end <= first)
        end = first + 1;
    int16_t *weight = t->weight + (size_t)i * t->each;
    double sum = 0;
    for (uint32_t k = first; k < end; k++)
        sum += triangle((k + 0.5 - middle) / reach);
    int32_t left = ONE;
    uint32_t largest = 0;
    for (uint32_t k = first; k < end; k++) {
        double share = sum > 0 ? triangle((k + 0.5 - middle) / reach) / sum : 1.0 / (end - first);
        weight[k - first] = (int16_t)lround(share * ONE);
        left -= weight[k - first];
        if (weight[k - first] > weight[largest])
            largest = k - first;
    }
    weight[largest] = (int16_t)(weight[largest] + left);
    for (uint32_t k = first; k < end; k++)
        t->factor[(size_t)i * t->each + k - first] = weight[k - first];
    t->first[i] = first;
    t->count[i] = end - first;
}

/* `out_n` values of the part [at, at + len) of n pixels. */
static void taps_set(struct taps *t, double at, double len, uint32_t out_n, uint32_t n)
{
    double scale = len / out_n, reach = scale > 1 ? scale : 1;
    t->each = 2 * (uint32_t)ceil(reach) + 1;
    t->first = reserve(t->first, &t->first_cap, out_n, sizeof *t->first);
    t->count = reserve(t->count, &t->count_cap, out_n, sizeof *t->count);
    t->weight = reserve(t->weight, &t->weight_cap, (size_t)out_n * t->each, sizeof *t->weight);
    t->factor = reserve(t->factor, &t->factor_cap, (size_t)out_n * t->each, sizeof *t->factor);
    for (uint32_t i = 0; i < out_n; i++)
        set_weights(t, i, at + (i + 0.5) * scale, reach, n);
}

/* The vector units take these loops: they are most of the work. */
static void add_row(int32_t *restrict sums, const uint8_t *restrict from, int16_t weight, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sums[i] += (int16_t)from[i] * weight;
}

static void round_row(uint8_t *restrict to, const int32_t *restrict sums, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)(sums[i] >> BITS);
}

static void normalise_row(float *restrict to, const uint8_t *restrict from,
                          const struct normal *restrict n)
{
    const float *factor = n->factor, *offset = n->offset;
    for (size_t i = 0; i < 3 * (size_t)n->w; i++)
        to[i] = (float)from[i] * factor[i] + offset[i];
}

static void shrink_rows(struct resample *s, const struct region *r, uint32_t out_h)
{
    size_t n = 3 * (size_t)r->w;
    s->rows = reserve(s->rows, &s->rows_cap, n * out_h, 1);
    s->sums = reserve(s->sums, &s->sums_cap, n, sizeof *s->sums);
    for (uint32_t y = 0; y < out_h; y++) {
        const int16_t *weight = s->y.weight + (size_t)y * s->y.each;
        for (size_t i = 0; i < n; i++)
            s->sums[i] = ONE / 2;
        for (uint32_t k = 0; k < s->y.count[y]; k++)
            if (weight[k])
                add_row(s->sums, r->rgb + (s->y.first[y] + k) * r->stride, weight[k], n);
        round_row(s->rows + y * n, s->sums, n);
    }
}

/* A pixel, and what lies behind it: red, green, blue and one value that nobody asks for. */
typedef float pixel __attribute__((vector_size(4 * sizeof(float))));
typedef int32_t pixel_whole __attribute__((vector_size(4 * sizeof(int32_t))));

/* All sums are below 255 * ONE, and so exact. */
_Static_assert(256 * (ONE + 1) <= 1 << 24, "whole numbers of a float");

static void widen_row(float *restrict to, const uint8_t *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = from[i];
}

static void shrink_row(const struct resample *s, uint32_t out_w, bool flip, uint8_t *to)
{
    for (uint32_t x = 0; x < out_w; x++) {
        const float *factor = s->x.factor + (size_t)x * s->x.each;
        const float *p = s->wide + 3 * (size_t)s->x.first[x];
        pixel sum = {(float)ONE / 2, (float)ONE / 2, (float)ONE / 2, 0};
        for (uint32_t k = 0; k < s->x.count[x]; k++, p += 3) {
            pixel one;
            memcpy(&one, p, sizeof one);
            sum += one * factor[k];
        }
        pixel_whole all = __builtin_convertvector(sum / (float)ONE, pixel_whole);
        uint8_t *q = to + 3 * (size_t)(flip ? out_w - 1 - x : x);
        q[0] = (uint8_t)all[0];
        q[1] = (uint8_t)all[1];
        q[2] = (uint8_t)all[2];
    }
}

void resample_run(struct resample *s, const struct region *r, uint32_t out_w, uint32_t out_h,
                  const struct normal *n, void *out)
{
    size_t row = 3 * (size_t)out_w, width = 3 * (size_t)r->w;
    taps_set(&s->x, r->box.x, r->box.w, out_w, r->w);
    taps_set(&s->y, r->box.y, r->box.h, out_h, r->h);
    shrink_rows(s, r, out_h);
    s->wide = reserve(s->wide, &s->wide_cap, width + 1, sizeof *s->wide);
    s->line = reserve(s->line, &s->line_cap, row, 1);
    for (uint32_t y = 0; y < out_h; y++) {
        uint8_t *to = n ? s->line : (uint8_t *)out + y * row;
        widen_row(s->wide, s->rows + y * width, width);
        shrink_row(s, out_w, r->flip, to);
        if (n)
            normalise_row((float *)out + y * row, to, n);
    }
}

void normal_init(struct normal *n, uint32_t w, const float mean[3], const float std[3])
{
    *n = (struct normal){xcalloc(3 * (size_t)w, sizeof(float)),
                         xcalloc(3 * (size_t)w, sizeof(float)), w};
    for (size_t i = 0; i < 3 * (size_t)w; i++) {
        double deviation = std[i % 3] != 0 ? std[i % 3] : 1;
        n->factor[i] = (float)(1 / (255 * deviation));
        n->offset[i] = (float)(-mean[i % 3] / deviation);
    }
}

void normal_release(struct normal *n)
{
    free(n->factor);
    free(n->offset);
    *n = (struct normal){0};
}
