/* What is written besides scalars: histograms, curves of precision and recall, pictures as PNG. */
#include <math.h>
#include <string.h>
#include <zlib.h>

#include "events-internal.h"
#include "mem.h"

#define BINS 30

void histogram_of(struct histogram *ret, const float *x, size_t n)
{
    *ret = (struct histogram){.min = INFINITY, .max = -INFINITY};
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            continue;
        ret->min = fmin(ret->min, x[i]);
        ret->max = fmax(ret->max, x[i]);
        ret->sum += x[i];
        ret->squares += (double)x[i] * x[i];
        ret->n++;
    }
    if (ret->n == 0)
        ret->min = ret->max = 0;
    double width = ret->max > ret->min ? (ret->max - ret->min) / BINS : 1e-6;
    for (int i = 0; i <= BINS; i++)
        ret->edges[i] = ret->min + width * i;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            continue;
        int bin = (int)((x[i] - ret->min) / width);
        ret->counts[bin < 0 ? 0 : bin >= BINS ? BINS - 1 : bin]++;
    }
}

void events_pr_add(struct events_pr *p, double score, int right)
{
    int i = (int)(score * (EVENTS_THRESHOLDS - 1));
    i = i < 0 ? 0 : i >= EVENTS_THRESHOLDS ? EVENTS_THRESHOLDS - 1 : i;
    if (right)
        p->right[i]++;
    else
        p->wrong[i]++;
}

void pr_curve_of(struct pr_curve *ret, const struct events_pr *p)
{
    uint64_t rights = 0, wrongs = 0, tp = 0, fp = 0;
    for (int i = 0; i < EVENTS_THRESHOLDS; i++) {
        rights += p->right[i];
        wrongs += p->wrong[i];
    }
    for (int i = EVENTS_THRESHOLDS - 1; i >= 0; i--) {
        tp += p->right[i];
        fp += p->wrong[i];
        ret->tp[i] = tp;
        ret->fp[i] = fp;
        ret->tn[i] = wrongs - fp;
        ret->fn[i] = rights - tp;
        ret->precision[i] = tp + fp ? (double)tp / (double)(tp + fp) : 1;
        ret->recall[i] = rights ? (double)tp / (double)rights : 0;
    }
}

/* --- PNG -------------------------------------------------------------------------------------- */

static void add_u32(struct bytes *out, uint32_t n)
{
    unsigned char b[4] = {n >> 24, n >> 16 & 255, n >> 8 & 255, n & 255};
    bytes_add(out, b, 4);
}

static void chunk(struct bytes *out, const char type[4], const void *data, size_t len)
{
    add_u32(out, (uint32_t)len);
    bytes_add(out, type, 4);
    bytes_add(out, data, len);
    uLong sum = crc32(0, (const Bytef *)type, 4);
    add_u32(out, (uint32_t)crc32(sum, data, (uInt)len));
}

void png_encode(struct bytes *out, const uint8_t *rgb, int height, int width)
{
    static const unsigned char magic[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    size_t row = (size_t)width * 3;
    cleanup_bytes struct bytes head = {0}, rows = {0};
    add_u32(&head, (uint32_t)width);
    add_u32(&head, (uint32_t)height);
    bytes_add(&head, "\x08\x02\0\0\0", 5); /* 8 bits, RGB */
    for (int y = 0; y < height; y++) {
        bytes_add_char(&rows, 0); /* no filter */
        bytes_add(&rows, rgb + (size_t)y * row, row);
    }
    uLongf packed_len = compressBound(rows.len);
    cleanup_free Bytef *packed = xmalloc(packed_len);
    compress2(packed, &packed_len, (const Bytef *)rows.data, rows.len, 6);
    bytes_add(out, magic, sizeof magic);
    chunk(out, "IHDR", head.data, head.len);
    chunk(out, "IDAT", packed, packed_len);
    chunk(out, "IEND", "", 0);
}
