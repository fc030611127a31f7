/*
 * The draws of a sample: a counter-based generator, so that they depend on (seed, epoch, number)
 * and on nothing that happened before. The geometry is that of RandomResizedCrop(scale=(0.08, 1),
 * ratio=(3/4, 4/3)), RandomHorizontalFlip and Resize + CenterCrop.
 */
#include <math.h>

#include "picture-internal.h"

#define ROUNDS     10
#define ATTEMPTS   10
#define AREA_MIN   0.08
#define ASPECT_MAX (4.0 / 3.0)
#define DRAW_FLIP  255u /* which draw of a sample; the attempts have 0 .. ATTEMPTS-1 */

void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t ret[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t p0 = (uint64_t)0xd2511f53u * c0, p1 = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    ret[0] = c0;
    ret[1] = c1;
    ret[2] = c2;
    ret[3] = c3;
}

static void draw(const struct augment *a, uint32_t which, uint32_t ret[4])
{
    /* Numbers have 32 bits, as those of the order. */
    const uint32_t counter[4] = {(uint32_t)a->number, (uint32_t)a->epoch,
                                 (uint32_t)(a->epoch >> 32), which};
    const uint32_t key[2] = {(uint32_t)a->seed, (uint32_t)(a->seed >> 32)};
    philox(counter, key, ret);
}

static double unit(uint32_t bits) /* [0, 1) */
{
    return bits * 0x1p-32;
}

static uint32_t below(uint32_t bits, uint32_t n)
{
    return (uint32_t)(((uint64_t)bits * n) >> 32);
}

/* The largest part in the middle whose aspect is allowed: what is left when no attempt fits. */
static void middle(uint32_t w, uint32_t h, struct box *ret)
{
    double aspect = (double)w / h;
    double cw = aspect > ASPECT_MAX ? round(h * ASPECT_MAX) : w;
    double ch = aspect < 1 / ASPECT_MAX ? round(w * ASPECT_MAX) : h;
    *ret = (struct box){floor((w - cw) / 2), floor((h - ch) / 2), cw, ch};
}

static void random_part(const struct augment *a, uint32_t w, uint32_t h, struct box *ret)
{
    const double aspects = log(ASPECT_MAX);
    for (uint32_t i = 0; i < ATTEMPTS; i++) {
        uint32_t r[4];
        draw(a, i, r);
        double area = (double)w * h * (AREA_MIN + unit(r[0]) * (1 - AREA_MIN));
        double aspect = exp((2 * unit(r[1]) - 1) * aspects);
        double cw = round(sqrt(area * aspect)), ch = round(sqrt(area / aspect));
        if (cw < 1 || ch < 1 || cw > w || ch > h)
            continue;
        *ret = (struct box){below(r[2], w - (uint32_t)cw + 1), below(r[3], h - (uint32_t)ch + 1),
                            cw, ch};
        return;
    }
    middle(w, h, ret);
}

/* The middle `out` of `resized` pixels that n make: whole ones, of two middles the even one, as the
 * frameworks cut. */
static void middle_of(uint32_t n, uint32_t resized, uint32_t out, double *ret_at, double *ret_len)
{
    if (out > resized)
        out = resized;
    double each = (double)n / resized;
    *ret_at = nearbyint((resized - out) / 2.0) * each;
    *ret_len = out * each;
}

static void centre_part(const struct augment *a, uint32_t w, uint32_t h, struct box *ret)
{
    uint64_t shorter = w < h ? w : h;
    middle_of(w, (uint32_t)(a->resize * (uint64_t)w / shorter), a->out_w, &ret->x, &ret->w);
    middle_of(h, (uint32_t)(a->resize * (uint64_t)h / shorter), a->out_h, &ret->y, &ret->h);
}

uint32_t augment_resize(uint32_t height, uint32_t width)
{
    uint64_t larger = height > width ? height : width;
    return (uint32_t)((larger * 256 + 112) / 224);
}

void augment_box(const struct augment *a, uint32_t w, uint32_t h, struct box *ret, bool *ret_flip)
{
    uint32_t r[4];
    *ret_flip = false;
    switch (a->crop) {
    case LOADER_CROP_RANDOM:
        random_part(a, w, h, ret);
        draw(a, DRAW_FLIP, r);
        *ret_flip = a->flip && (r[0] >> 31);
        break;
    case LOADER_CROP_CENTRE:
        centre_part(a, w, h, ret);
        break;
    case LOADER_CROP_NONE:
        *ret = (struct box){0, 0, w, h};
        break;
    }
}
