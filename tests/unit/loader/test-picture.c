/* From bytes to pixels: draws, parts, decoding, resampling; and what is refused. */
#include <criterion/criterion.h>
#include <math.h>
#include <png.h>
#include <string.h>

#include "picture-internal.h"
#include "pictures.h"

Test(picture, philox_gives_the_published_vectors)
{
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t got[4];
        philox(rows[i].counter, rows[i].key, got);
        cr_expect_eq(memcmp(got, rows[i].want, sizeof got), 0, "row %zu: %08x", i, got[0]);
    }
}

Test(picture, random_parts_lie_inside_and_differ)
{
    static const uint32_t sizes[][2] = {{500, 375}, {1, 1}, {1, 5000}, {3000, 2}, {224, 224}};
    unsigned flips = 0, different = 0;
    struct box last = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (uint64_t n = 0; n < 500; n++) {
            struct augment a = {LOADER_CROP_RANDOM, 224, 224, 256, true, 7, 3, n};
            uint32_t w = sizes[i][0], h = sizes[i][1];
            struct box b, again;
            bool flip, same;
            augment_box(&a, w, h, &b, &flip);
            augment_box(&a, w, h, &again, &same);
            cr_assert(b.x >= 0 && b.y >= 0 && b.w >= 1 && b.h >= 1 && b.x + b.w <= w &&
                          b.y + b.h <= h,
                      "%ux%u sample %d: %g,%g %gx%g", w, h, (int)n, b.x, b.y, b.w, b.h);
            cr_assert(memcmp(&b, &again, sizeof b) == 0 && flip == same);
            if (i == 0) {
                flips += flip;
                different += memcmp(&b, &last, sizeof b) != 0;
                cr_assert(b.w * b.h >= 0.07 * w * h && b.w / b.h > 0.74 && b.w / b.h < 1.35);
            }
            last = b;
        }
    }
    cr_expect(flips > 200 && flips < 300, "%u of 500 mirrored", flips);
    cr_expect(different > 490);
}

Test(picture, centre_parts_are_those_of_resize_and_crop)
{
    struct augment a = {LOADER_CROP_CENTRE, 224, 224, 256, true, 0, 0, 0};
    struct box b;
    bool flip;
    augment_box(&a, 512, 256, &b, &flip);
    cr_expect(b.x == 144 && b.y == 16 && b.w == 224 && b.h == 224 && !flip);
    augment_box(&a, 128, 512, &b, &flip);
    cr_expect(b.x == 8 && b.w == 112 && b.h == 112 && b.y == 200);
    /* 341 pixels a row after Resize: 58.5 are left on each side, 58 is cut off. */
    augment_box(&a, 500, 375, &b, &flip);
    cr_expect_float_eq(b.x, 58 * 500 / 341.0, 1e-9);
    cr_expect_float_eq(b.w, 224 * 500 / 341.0, 1e-9);
    cr_expect(b.y == 16 * 375 / 256.0 && b.h == 224 * 375 / 256.0);
    a.out_w = 600; /* wider than all of it */
    augment_box(&a, 512, 256, &b, &flip);
    cr_expect(b.x == 0 && b.w == 512 && b.y == 16);
    a.crop = LOADER_CROP_NONE;
    augment_box(&a, 128, 512, &b, &flip);
    cr_expect(b.x == 0 && b.y == 0 && b.w == 128 && b.h == 512);
}

/* --- decoding ----------------------------------------------------------------------------------
 */

static int pixels_of(const struct made *m, const struct augment *a, uint64_t max_pixels,
                     uint8_t *out, struct err *err)
{
    struct decoder *d = decoder_new();
    struct resample *s = resample_new();
    struct region r;
    int rc = decoder_run(d, m->data, m->len, a, max_pixels, &r, err);
    if (!rc)
        resample_run(s, &r, a->out_w, a->out_h, NULL, out);
    resample_free(s);
    decoder_free(d);
    return rc;
}

Test(picture, every_kind_of_jpeg_gives_its_colours)
{
    static const enum look looks[] = {LOOK_RGB, LOOK_PROGRESSIVE, LOOK_CMYK};
    struct augment a = {.crop = LOADER_CROP_NONE, .out_w = 64, .out_h = 48};
    uint8_t out[64 * 48 * 3];
    for (size_t i = 0; i < 3; i++) {
        struct made m = make_jpeg(looks[i], 256, 192, 0);
        struct err e = {0};
        cr_assert_eq(pixels_of(&m, &a, 1 << 20, out, &e), 0, "%s", e.msg);
        for (int y = 0; y < 48; y += 5)
            for (int x = 0; x < 64; x += 5) {
                const uint8_t *p = out + 3 * (y * 64 + x);
                int red = (int)(255 * (x + 0.5) / 64), green = (int)(255 * (y + 0.5) / 48);
                cr_assert(abs(p[0] - red) < 8 && abs(p[1] - green) < 8 && p[2] < 12,
                          "look %zu at %d,%d: %d %d %d", i, x, y, p[0], p[1], p[2]);
            }
        free(m.data);
    }
    struct made grey = make_jpeg(LOOK_GREY, 100, 100, 0);
    struct err e = {0};
    cr_assert_eq(pixels_of(&grey, &a, 1 << 20, out, &e), 0, "%s", e.msg);
    cr_expect(out[0] == out[1] && out[1] == out[2] && out[0] < 10);
    cr_expect(out[189] == out[190] && out[189] > 245);
    free(grey.data);
}

/* What is decoded of a part is what the whole picture has there. */
static void check_parts(enum look look)
{
    struct made m = make_jpeg(look, 509, 381, 77);
    static uint8_t whole[509 * 381 * 3], part[224 * 224 * 3], want[224 * 224 * 3];
    struct augment a = {.crop = LOADER_CROP_NONE, .out_w = 509, .out_h = 381};
    struct err e = {0};
    cr_assert_eq(pixels_of(&m, &a, 1 << 20, whole, &e), 0, "%s", e.msg);
    struct resample *s = resample_new();
    for (uint64_t n = 0; n < 60; n++) {
        struct augment r = {LOADER_CROP_RANDOM, 224, 224, 256, true, 1, 0, n};
        struct region all = {.rgb = whole, .stride = 3 * 509, .w = 509, .h = 381};
        augment_box(&r, 509, 381, &all.box, &all.flip);
        if (all.box.w >= 448 && all.box.h >= 448)
            continue; /* scaled by the DCT */
        resample_run(s, &all, 224, 224, NULL, want);
        cr_assert_eq(pixels_of(&m, &r, 1 << 20, part, &e), 0, "%s", e.msg);
        cr_assert_eq(memcmp(part, want, sizeof part), 0, "look %d, sample %d", look, (int)n);
    }
    resample_free(s);
    free(m.data);
}

/* Nor do parts that are scaled by the DCT to a half differ from the whole that is. */
static void check_halved_parts(enum look look)
{
    struct made m = make_jpeg(look, 510, 382, 77);
    static uint8_t whole[255 * 191 * 3], part[64 * 64 * 3], want[64 * 64 * 3];
    struct augment a = {.crop = LOADER_CROP_NONE, .out_w = 255, .out_h = 191};
    struct err e = {0};
    int compared = 0;
    cr_assert_eq(pixels_of(&m, &a, 1 << 20, whole, &e), 0, "%s", e.msg);
    struct resample *s = resample_new();
    for (uint64_t n = 0; n < 60; n++) {
        struct augment r = {LOADER_CROP_RANDOM, 64, 64, 256, true, 1, 0, n};
        struct region all = {.rgb = whole, .stride = 3 * 255, .w = 255, .h = 191};
        augment_box(&r, 510, 382, &all.box, &all.flip);
        struct box *b = &all.box;
        if (b->w < 128 || b->h < 128 || (b->w >= 256 && b->h >= 256))
            continue;
        *b = (struct box){b->x / 2, b->y / 2, b->w / 2, b->h / 2};
        resample_run(s, &all, 64, 64, NULL, want);
        cr_assert_eq(pixels_of(&m, &r, 1 << 20, part, &e), 0, "%s", e.msg);
        cr_assert_eq(memcmp(part, want, sizeof part), 0, "look %d, sample %d", look, (int)n);
        compared++;
    }
    cr_expect_gt(compared, 20);
    resample_free(s);
    free(m.data);
}

Test(picture, a_part_is_as_in_the_whole_picture)
{
    check_parts(LOOK_RGB);
    check_parts(LOOK_CMYK);
    check_parts(LOOK_COARSE);
    check_halved_parts(LOOK_RGB);
    check_halved_parts(LOOK_COARSE);
}

Test(picture, scaling_by_the_dct_keeps_the_picture)
{
    struct made m = make_jpeg(LOOK_RGB, 1999, 1501, 10);
    uint8_t out[32 * 32 * 3];
    struct augment a = {.crop = LOADER_CROP_NONE, .out_w = 32, .out_h = 32};
    struct err e = {0};
    cr_assert_eq(pixels_of(&m, &a, 300 * 200, out, &e), 0, "an eighth fits: %s", e.msg);
    for (int i = 0; i < 32; i++) {
        int want = (int)(255 * (i + 0.5) / 32);
        cr_expect(abs(out[3 * (32 * 16 + i)] - want) < 4, "column %d", i);
        cr_expect(abs(out[3 * (32 * i + 16) + 1] - want) < 4, "row %d", i);
    }
    cr_expect_eq(pixels_of(&m, &a, 100 * 100, out, &e), -1);
    cr_expect_eq(e.class, ERR_LIMIT);
    free(m.data);
}

Test(picture, one_pixel_and_four_hundred_million)
{
    static const uint32_t sizes[] = {1, 20000};
    uint8_t out[224 * 224 * 3];
    for (size_t i = 0; i < 2; i++) {
        struct made m = make_plain_jpeg(sizes[i], sizes[i], 200, 100, 50);
        struct augment a = {LOADER_CROP_RANDOM, 224, 224, 256, true, 0, 0, i};
        struct err e = {0};
        cr_assert_eq(pixels_of(&m, &a, 64 << 20, out, &e), 0, "%s", e.msg);
        for (size_t k = 0; k < sizeof out; k += 3)
            cr_assert(abs(out[k] - 200) < 4 && abs(out[k + 1] - 100) < 4 &&
                      abs(out[k + 2] - 50) < 4);
        a.crop = LOADER_CROP_NONE;
        a.out_w = a.out_h = 20;
        cr_expect_eq(pixels_of(&m, &a, 1 << 20, out, &e), i == 0 ? 0 : -1);
        if (i)
            cr_expect_str_eq(e.msg, "2500x2500 pixels even when scaled down: at most 1048576");
        free(m.data);
    }
}

Test(picture, what_is_no_whole_picture_is_told_apart)
{
    struct made whole = make_jpeg(LOOK_RGB, 300, 200, 0), long_one = make_jpeg(LOOK_RGB, 64, 64, 1);
    static const struct {
        const char *bytes;
        size_t len;
        const char *want;
    } rows[] = {
        {"", 0, "an empty file"},
        {"\x89PNG\r\n\x1a\n....", 12, "cut off: 12 bytes without the mark of the end"},
        {"GIF89a..", 8, "a GIF file by its first bytes, neither JPEG nor PNG (convert it)"},
        {"<html>", 6, "a text file by its first bytes, neither JPEG nor PNG (convert it)"},
        {"\xff", 1, "neither JPEG nor PNG: a single byte"},
        {"\xff\xd8", 2, "cut off: 2 bytes without the mark of the end"},
        {"\xff\xd8\xff", 3, "cut off: 3 bytes without the mark of the end"},
        {"\xff\xd8\xd9", 3, "cut off: 3 bytes without the mark of the end"},
        {"\x89PNG", 4, "neither JPEG nor PNG: it begins with 89 50"},
        {"hello", 5, "neither JPEG nor PNG: it begins with 68 65"},
        {"\xff\xd8\xff\xd9", 4, "damaged JPEG: JPEG datastream contains no image"},
    };
    struct augment a = {LOADER_CROP_CENTRE, 32, 32, 36, true, 0, 0, 0};
    uint8_t out[32 * 32 * 3];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct made m = {(unsigned char *)rows[i].bytes, rows[i].len};
        struct err e = {0};
        cr_expect_eq(pixels_of(&m, &a, 1 << 20, out, &e), -1, "row %zu", i);
        cr_expect_str_eq(e.msg, rows[i].want);
        cr_expect_eq(e.class, ERR_CORRUPT);
    }
    for (size_t len = 4; len < whole.len; len += 97) {
        struct made m = {whole.data, len};
        struct err e = {0};
        cr_expect_eq(pixels_of(&m, &a, 1 << 20, out, &e), -1, "%zu bytes", len);
        cr_expect_not_null(strstr(e.msg, "cut off: "), "%s", e.msg);
    }
    /* Torn in the middle: the end is that of another picture. */
    memcpy(whole.data + whole.len / 2, long_one.data + 2, 100);
    struct err e = {0};
    cr_expect_eq(pixels_of(&whole, &a, 1 << 20, out, &e), -1);
    free(whole.data);
    free(long_one.data);
}

/* Tables of the picture before do not stand for those that the next one lacks. */
Test(picture, nothing_is_kept_of_the_picture_before)
{
    struct made m = make_jpeg(LOOK_RGB, 64, 48, 0);
    struct augment a = {LOADER_CROP_CENTRE, 32, 32, 36, true, 0, 0, 0};
    struct decoder *d = decoder_new();
    struct region r;
    struct err e = {0};
    cr_assert_eq(decoder_run(d, m.data, m.len, &a, 1 << 20, &r, &e), 0, "%s", e.msg);
    for (size_t i = 0; i + 1 < m.len; i++)
        if (m.data[i] == 0xff && m.data[i + 1] == 0xdb)
            m.data[i + 1] = 0xfe; /* a comment */
    cr_expect_eq(decoder_run(d, m.data, m.len, &a, 1 << 20, &r, &e), -1);
    cr_expect_not_null(strstr(e.msg, "Quantization table"), "%s", e.msg);
    decoder_free(d);
    free(m.data);
}

/* The first draw whose part lies in this many rows at the top, or columns anywhere. */
static struct augment draw_of(uint32_t w, uint32_t h, uint32_t rows, uint32_t columns)
{
    struct augment a = {.crop = LOADER_CROP_RANDOM, .out_w = 32, .out_h = 32};
    struct box b;
    bool flip;
    do {
        a.number++;
        augment_box(&a, w, h, &b, &flip);
    } while (b.y + b.h > rows || b.w > columns);
    return a;
}

/* A camera's thumbnail is a picture of its own, with an end, before that of the file. */
Test(picture, the_end_of_a_thumbnail_is_not_that_of_the_picture)
{
    static const uint8_t exif[] = {0xff, 0xd8, 0xff, 0xe1, 0, 12,   'E',  'x',  'i', 'f', 0,
                                   0xff, 0xd8, 0xff, 0xd9, 0, 0xff, 0xff, 0xfe, 0,   2};
    struct made m = make_jpeg(LOOK_RGB, 300, 200, 0);
    struct made with = {malloc(sizeof exif + m.len), sizeof exif + m.len - 2};
    struct augment a = draw_of(300, 200, 60, 300);
    uint8_t out[32 * 32 * 3];
    struct err e = {0};
    memcpy(with.data, exif, sizeof exif);
    memcpy(with.data + sizeof exif, m.data + 2, m.len - 2);
    cr_expect_eq(pixels_of(&with, &a, 1 << 20, out, &e), 0, "%s", e.msg);
    with.len -= m.len / 3; /* below the part that is wanted */
    cr_expect_eq(pixels_of(&with, &a, 1 << 20, out, &e), -1);
    cr_expect_eq(strncmp(e.msg, "cut off: ", 9), 0, "%s", e.msg);
    free(with.data);
    free(m.data);
}

Test(picture, no_more_than_a_part_is_kept_of_four_colours)
{
    struct made m = make_jpeg(LOOK_CMYK, 2000, 120, 0);
    struct augment a = draw_of(2000, 120, 120, 200);
    struct decoder *d = decoder_new();
    struct region r;
    struct err e = {0};
    cr_assert_eq(decoder_run(d, m.data, m.len, &a, 1 << 15, &r, &e), 0, "%s", e.msg);
    cr_expect_leq(r.w * r.h, 1 << 15);
    decoder_free(d);
    free(m.data);
}

Test(picture, a_large_progressive_one_is_refused_before_it_takes_memory)
{
    struct made m = make_jpeg(LOOK_PROGRESSIVE, 1200, 900, 0);
    struct augment a = {LOADER_CROP_CENTRE, 32, 32, 36, true, 0, 0, 0};
    uint8_t out[32 * 32 * 3];
    struct err e = {0};
    cr_expect_eq(pixels_of(&m, &a, 1000000, out, &e), -1);
    cr_expect_str_eq(e.msg, "a progressive picture of 1200x900 pixels: at most 1000000");
    cr_expect_eq(pixels_of(&m, &a, 1200 * 900, out, &e), 0);
    free(m.data);
}

static void put_bytes(struct made *m, const void *bytes, size_t n)
{
    m->data = realloc(m->data, m->len + n);
    memcpy(m->data + m->len, bytes, n);
    m->len += n;
}

/* Grey, progressive, of scans that say of 32767 blocks at once that they are empty. */
static struct made make_scans(uint16_t w, uint16_t h, int scans)
{
    static const uint8_t head[] = {0xff, 0xd8, 0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0,
                                   0,    0,    0,    0,    0, 0,  0,    0, 0, 0, 0, 0xe0};
    static const uint8_t quality[] = {0xff, 0xdb, 0, 67, 0};
    const uint8_t frame[] = {
        0xff,       0xc2, 0, 11,   8, (uint8_t)(h >> 8), (uint8_t)h, (uint8_t)(w >> 8),
        (uint8_t)w, 1,    1, 0x11, 0};
    static const uint8_t scan[] = {0xff, 0xda, 0, 8, 1, 1, 0, 1, 63, 0};
    /* 0, and 14 bits of 1, eight times; a byte of 0xff is followed by one of 0 */
    static const uint8_t runs[] = {0x7f, 0xfe, 0xff, 0, 0xfd, 0xff, 0, 0xfb, 0xff, 0, 0xf7, 0xff,
                                   0,    0xef, 0xff, 0, 0xdf, 0xff, 0, 0xbf, 0xff, 0, 0x7f};
    uint8_t ones[64];
    struct made m = {0};
    memset(ones, 1, sizeof ones);
    put_bytes(&m, head, sizeof head);
    put_bytes(&m, quality, sizeof quality);
    put_bytes(&m, ones, sizeof ones);
    put_bytes(&m, frame, sizeof frame);
    for (int i = 0; i < scans; i++) {
        put_bytes(&m, scan, sizeof scan);
        put_bytes(&m, runs, sizeof runs);
    }
    put_bytes(&m, "\xff\xd9", 2);
    return m;
}

Test(picture, scans_are_few_of_a_picture_that_is_large)
{
    static const struct {
        uint16_t side;
        int scans, most;
    } pictures[] = {
        {64, 200, 200}, {64, 201, 200}, {1448, 200, 200}, {4000, 52, 52}, {4000, 53, 52}};
    for (size_t i = 0; i < sizeof pictures / sizeof pictures[0]; i++) {
        struct made m = make_scans(pictures[i].side, pictures[i].side, pictures[i].scans);
        struct augment a = {LOADER_CROP_CENTRE, 32, 32, 36, true, 0, 0, 0};
        uint8_t out[32 * 32 * 3];
        char want[80];
        struct err e = {0};
        int code = pixels_of(&m, &a, 64 << 20, out, &e);
        snprintf(want, sizeof want, "damaged JPEG: more than %d scans of %ux%u pixels",
                 pictures[i].most, pictures[i].side, pictures[i].side);
        cr_expect_eq(code, pictures[i].scans > pictures[i].most ? -1 : 0, "%zu: %s", i, e.msg);
        cr_expect_str_eq(e.msg, code ? want : "");
        free(m.data);
    }
}

/* --- PNG ---------------------------------------------------------------------------------------
 */

static const struct png_kind {
    int type, bits;
} png_kinds[] = {
    {PNG_COLOR_TYPE_RGB, 8},        {PNG_COLOR_TYPE_RGB, 16},        {PNG_COLOR_TYPE_RGB_ALPHA, 8},
    {PNG_COLOR_TYPE_RGB_ALPHA, 16}, {PNG_COLOR_TYPE_GRAY, 1},        {PNG_COLOR_TYPE_GRAY, 2},
    {PNG_COLOR_TYPE_GRAY, 4},       {PNG_COLOR_TYPE_GRAY, 8},        {PNG_COLOR_TYPE_GRAY, 16},
    {PNG_COLOR_TYPE_GRAY_ALPHA, 8}, {PNG_COLOR_TYPE_GRAY_ALPHA, 16}, {PNG_COLOR_TYPE_PALETTE, 2},
    {PNG_COLOR_TYPE_PALETTE, 8},
};

/* What make_png() put there. */
static void png_pixel(const struct png_kind *k, int x, int y, int w, int h, int tint,
                      uint8_t ret[3])
{
    int red = 255 * x / (w - 1), green = 255 * y / (h - 1);
    if (k->type == PNG_COLOR_TYPE_PALETTE) {
        ret[0] = (uint8_t)(red / 64 * 64), ret[1] = 9, ret[2] = (uint8_t)(red / 64 + 1);
    } else if (k->type & PNG_COLOR_MASK_COLOR) {
        ret[0] = (uint8_t)red, ret[1] = (uint8_t)green, ret[2] = (uint8_t)tint;
    } else {
        int most = k->bits < 8 ? (1 << k->bits) - 1 : 255; /* black to white in as many steps */
        ret[0] = ret[1] = ret[2] =
            (uint8_t)((k->bits < 8 ? red >> (8 - k->bits) : red) * 255 / most);
    }
}

Test(picture, every_kind_of_png_gives_its_colours)
{
    enum { W = 53, H = 37 };
    static uint8_t out[W * H * 3];
    struct augment a = {.crop = LOADER_CROP_NONE, .out_w = W, .out_h = H};
    for (size_t i = 0; i < 2 * sizeof png_kinds / sizeof png_kinds[0]; i++) {
        const struct png_kind *k = &png_kinds[i / 2];
        struct made m = make_png(k->type, k->bits, i % 2, W, H, 77);
        struct err e = {0};
        cr_assert_eq(pixels_of(&m, &a, W * H, out, &e), 0, "%s", e.msg);
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                const uint8_t *p = out + 3 * (y * W + x);
                uint8_t want[3];
                png_pixel(k, x, y, W, H, 77, want);
                cr_assert_eq(memcmp(p, want, 3), 0, "kind %zu at %d,%d: %d %d %d, want %d %d %d", i,
                             x, y, p[0], p[1], p[2], want[0], want[1], want[2]);
            }
        free(m.data);
    }
}

Test(picture, a_part_of_a_png_is_as_in_the_whole)
{
    static uint8_t whole[301 * 211 * 3], part[32 * 32 * 3], want[32 * 32 * 3];
    struct resample *s = resample_new();
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        struct made m = make_png(PNG_COLOR_TYPE_RGB, 8, interlaced, 301, 211, 5);
        struct augment a = {.crop = LOADER_CROP_NONE, .out_w = 301, .out_h = 211};
        struct err e = {0};
        cr_assert_eq(pixels_of(&m, &a, 1 << 20, whole, &e), 0, "%s", e.msg);
        for (uint64_t n = 0; n < 60; n++) {
            struct augment r = {LOADER_CROP_RANDOM, 32, 32, 36, true, 1, 0, n};
            struct region all = {.rgb = whole, .stride = 3 * 301, .w = 301, .h = 211};
            augment_box(&r, 301, 211, &all.box, &all.flip);
            resample_run(s, &all, 32, 32, NULL, want);
            cr_assert_eq(pixels_of(&m, &r, 1 << 20, part, &e), 0, "%s", e.msg);
            cr_assert_eq(memcmp(part, want, sizeof part), 0, "sample %d", (int)n);
        }
        free(m.data);
    }
    resample_free(s);
}

Test(picture, a_png_that_is_cut_off_or_damaged_is_refused)
{
    struct augment a = {LOADER_CROP_CENTRE, 32, 32, 36, true, 0, 0, 0};
    static uint8_t out[32 * 32 * 3];
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        struct made whole = make_png(PNG_COLOR_TYPE_RGB, 8, interlaced, 90, 80, 9);
        for (size_t len = 8; len < whole.len; len++) {
            struct made m = {whole.data, len};
            struct err e = {0};
            cr_assert_eq(pixels_of(&m, &a, 1 << 20, out, &e), -1, "%zu bytes", len);
            cr_assert_not_null(strstr(e.msg, "cut off: "), "%s", e.msg);
            cr_assert_eq(e.class, ERR_CORRUPT);
        }
        /* Torn in the middle, and closed again: pixels are missing. */
        memmove(whole.data + whole.len / 2, whole.data + whole.len - 12, 12);
        struct made torn = {whole.data, whole.len / 2 + 12};
        struct err e = {0};
        cr_expect_eq(pixels_of(&torn, &a, 1 << 20, out, &e), -1);
        cr_expect_eq(strncmp(e.msg, "damaged PNG: ", 13), 0, "%s", e.msg);
        cr_expect_eq(e.class, ERR_CORRUPT);
        free(whole.data);
    }
}

Test(picture, a_png_with_more_pixels_than_allowed_is_refused)
{
    static uint8_t out[32 * 32 * 3];
    struct augment a = {LOADER_CROP_CENTRE, 32, 32, 36, true, 0, 0, 0};
    static const struct {
        uint32_t w, h;
        bool interlaced;
        uint64_t allowed;
        const char *want; /* NULL: it is decoded */
    } rows[] = {
        {900, 300, false, 330 * 330, NULL}, /* the middle, and what is around it */
        {900, 300, false, 200 * 200, "a part of a PNG of 294x294 pixels: at most 40000"},
        {900, 300, true, 330 * 330, "an interlaced PNG of 900x300 pixels: at most 108900"},
        {900, 300, true, 900 * 300, NULL},
        {65501, 1, false, 1 << 20, "a PNG of 65501x1 pixels: at most 65500 a side"},
        {1, 65501, false, 1 << 20, "a PNG of 1x65501 pixels: at most 65500 a side"},
        {1, 1, true, 1, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct made m =
            make_png(PNG_COLOR_TYPE_GRAY, 1, rows[i].interlaced, rows[i].w, rows[i].h, 0);
        struct err e = {0};
        int rc = pixels_of(&m, &a, rows[i].allowed, out, &e);
        cr_expect_eq(rc, rows[i].want ? -1 : 0, "row %zu: %s", i, e.msg);
        if (rows[i].want) {
            cr_expect_str_eq(e.msg, rows[i].want);
            cr_expect_eq(e.class, ERR_LIMIT);
        }
        free(m.data);
    }
}

/* --- resampling --------------------------------------------------------------------------------
 */

Test(picture, resampling_keeps_what_is_even_and_mirrors)
{
    static uint8_t in[7 * 5 * 3], out[90 * 40 * 3], mirrored[90 * 40 * 3];
    struct resample *s = resample_new();
    static const uint32_t sizes[][2] = {{1, 1}, {7, 5}, {3, 2}, {90, 40}};
    memset(in, 137, sizeof in);
    for (size_t i = 0; i < 4; i++) {
        struct region r = {in, 21, 7, 5, {0.25, 0.5, 6.5, 4.25}, false};
        resample_run(s, &r, sizes[i][0], sizes[i][1], NULL, out);
        for (size_t k = 0; k < 3 * (size_t)sizes[i][0] * sizes[i][1]; k++)
            cr_assert_eq(out[k], 137);
    }
    for (size_t k = 0; k < sizeof in; k++)
        in[k] = (uint8_t)(k * 37);
    struct region same = {in, 21, 7, 5, {0, 0, 7, 5}, false};
    resample_run(s, &same, 7, 5, NULL, out);
    cr_expect_eq(memcmp(out, in, sizeof in), 0, "at its own size it is itself");
    same.flip = true;
    resample_run(s, &same, 7, 5, NULL, mirrored);
    for (int y = 0; y < 5; y++)
        for (int x = 0; x < 7; x++)
            cr_assert_eq(memcmp(mirrored + 3 * (7 * y + x), out + 3 * (7 * y + 6 - x), 3), 0);
    resample_free(s);
}

Test(picture, normalised_values_are_those_of_the_formula)
{
    uint8_t in[3] = {0, 128, 255};
    float out[3];
    const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0};
    struct region r = {in, 3, 1, 1, {0, 0, 1, 1}, false};
    struct normal n;
    struct resample *s = resample_new();
    normal_init(&n, 1, mean, std);
    resample_run(s, &r, 1, 1, &n, out);
    for (int i = 0; i < 3; i++) {
        double want = (in[i] / 255.0 - mean[i]) / (std[i] != 0 ? std[i] : 1);
        cr_expect(fabs(out[i] - want) < 1e-6, "%d: %g, want %g", i, out[i], want);
    }
    normal_release(&n);
    resample_free(s);
}

Test(picture, a_single_one_by_options_that_cannot_be_is_refused)
{
    struct made m = make_jpeg(LOOK_RGB, 67, 41, 9);
    struct loader_options wrong[4];
    float out[16 * 16 * 3];
    for (int i = 0; i < 4; i++) {
        loader_options_init(&wrong[i]);
        wrong[i].height = wrong[i].width = 16;
    }
    wrong[0].height = 0;
    wrong[1].crop = (enum loader_crop)3;
    wrong[2].resize = UINT32_MAX;
    wrong[3].format = LOADER_RAW;
    for (int i = 0; i < 4; i++) {
        struct err e = {0};
        cr_expect_eq(loader_picture(&wrong[i], m.data, m.len, out, &e), -1, "row %d", i);
        cr_expect_eq(e.class, ERR_USAGE, "row %d: %s", i, e.msg);
    }
    free(m.data);
}
