/*
 * From the bytes of a file to the pixels of a sample. Pure: no file, no thread, no clock.
 *
 *   augment.c   which part of a picture, and whether it is mirrored: draws by counters
 *   decoder.c   what the bytes are, whatever the file is called, and whose they are
 *   jpeg.c      that part as RGB, scaled by the DCT as far as the size that comes out allows
 *   png.c       that part as RGB
 *   resample.c  that part at the size that comes out, mirrored, as bytes or normalised
 */
#ifndef SAMPAN_LOADER_PICTURE_INTERNAL_H
#define SAMPAN_LOADER_PICTURE_INTERNAL_H

#include "loader.h"

/* A part of a picture, in pixels; a pixel's middle lies at one half. */
struct box {
    double x, y, w, h;
};

/* --- augment.c -------------------------------------------------------------------------------- */

/* Philox 4x32, ten rounds: 128 random bits as a function of counter and key. */
void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t ret[4]);

struct augment {
    enum loader_crop crop;
    uint32_t out_w, out_h, resize;
    bool flip; /* may be mirrored */
    uint64_t seed, epoch, number;
};
/* The shorter side before a centre crop of that size. */
uint32_t augment_resize(uint32_t height, uint32_t width);
/* Of a picture of w x h pixels (at least 1 x 1). */
void augment_box(const struct augment *a, uint32_t w, uint32_t h, struct box *ret, bool *ret_flip);

/* --- decoder.c -------------------------------------------------------------------------------- */

struct region {
    const uint8_t *rgb; /* the decoder's; until its next picture */
    size_t stride;
    uint32_t w, h;
    struct box box; /* the part that is wanted, in pixels of the region */
    bool flip;
};

struct decoder; /* of one thread */
struct decoder *decoder_new(void);
void decoder_free(struct decoder *d); /* NULL is fine */
/* CORRUPT: no picture, or a damaged one; LIMIT: the part has more than max_pixels (of a JPEG even
 * at an eighth), or the whole where it can only be decoded as a whole (progressive, interlaced). */
int decoder_run(struct decoder *d, const void *data, size_t len, const struct augment *a,
                uint64_t max_pixels, struct region *ret, struct err *err);

/* The pixels of a row (a column) of n that the filter reads for out_n values of its part
 * at .. at + len: never none. */
struct span {
    uint32_t from, to;
};
struct span span_of(double at, double len, uint32_t out_n, uint32_t n);

/* Memory that only grows; what was in it is lost when it does. */
struct room {
    uint8_t *at;
    size_t cap;
};
void room_reserve(struct room *r, size_t size);
void room_release(struct room *r);

/* --- jpeg.c, png.c ---------------------------------------------------------------------------- */

/* As decoder_run(), of bytes that begin and end as such a file does. */
struct jpeg;
struct jpeg *jpeg_new(void);
void jpeg_free(struct jpeg *j); /* NULL is fine */
int jpeg_decode(struct jpeg *j, const void *data, size_t len, const struct augment *a,
                uint64_t max_pixels, struct region *ret, struct err *err);

struct png_reader;
struct png_reader *png_reader_new(void);
void png_reader_free(struct png_reader *p); /* NULL is fine */
int png_reader_decode(struct png_reader *p, const void *data, size_t len, const struct augment *a,
                      uint64_t max_pixels, struct region *ret, struct err *err);

/* --- resample.c ------------------------------------------------------------------------------- */

/* (value - 255 * mean) / (255 * std), as a row of factors and offsets of one output width. */
struct normal {
    float *factor, *offset; /* 3 * w */
    uint32_t w;
};
void normal_init(struct normal *n, uint32_t w, const float mean[3], const float std[3]);
void normal_release(struct normal *n);

struct resample; /* scratch of one thread */
struct resample *resample_new(void);
void resample_free(struct resample *s); /* NULL is fine */
/* A triangle filter as wide as the scale asks for (no aliasing). `out` has out_w * out_h * 3
 * values: floats with `n`, bytes without. */
void resample_run(struct resample *s, const struct region *r, uint32_t out_w, uint32_t out_h,
                  const struct normal *n, void *out);

#endif
