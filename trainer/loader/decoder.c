/*
 * Which kind of picture a file holds is told by its first bytes: in sets of photographs some are
 * not what they are called (ImageNet has a PNG among its JPEGs).
 */
#include <math.h>
#include <string.h>

#include "mem.h"
#include "picture-internal.h"

#define MARGIN 4 /* pixels around a part, so that its edge is as in the whole picture */

struct decoder {
    struct jpeg *jpeg;
    struct png_reader *png;
};

struct decoder *decoder_new(void)
{
    struct decoder *d = xcalloc(1, sizeof *d);
    d->jpeg = jpeg_new();
    d->png = png_reader_new();
    return d;
}

void decoder_free(struct decoder *d)
{
    if (!d)
        return;
    jpeg_free(d->jpeg);
    png_reader_free(d->png);
    free(d);
}

/* --- what a file is --------------------------------------------------------------------------- */

static bool begins(const uint8_t *data, size_t len, const char *with, size_t n)
{
    return len >= n && memcmp(data, with, n) == 0;
}

/* Where the first scan of a JPEG begins: before it may lie another picture, a thumbnail, with an
 * end of its own. */
static size_t jpeg_scan(const uint8_t *data, size_t len)
{
    size_t at = 2;
    while (at + 4 <= len && data[at] == 0xff && data[at + 1] != 0xda && data[at + 1] != 0xd9)
        at += data[at + 1] == 0xff ? 1 : 2 + ((size_t)data[at + 2] << 8 | data[at + 3]);
    return at;
}

/* A picture that ends early is damaged whichever part of it is wanted. Its last mark lies at its
 * end but for what some programs append, and behind `from`. */
static int check_end(const uint8_t *data, size_t len, size_t from, const char *mark, size_t n,
                     struct err *err)
{
    for (size_t i = len; i >= from + n; i--)
        if (data[i - n] == (uint8_t)mark[0] && memcmp(data + i - n, mark, n) == 0)
            return 0;
    return err_set(err, ERR_CORRUPT, "cut off: %zu bytes without the mark of the end", len);
}

static int refuse(const uint8_t *data, size_t len, struct err *err)
{
    static const struct {
        const char *begins;
        uint8_t n;
        const char *name;
    } kinds[] = {{"GIF8", 4, "GIF"},
                 {"BM", 2, "BMP"},
                 {"RIFF", 4, "WebP"},
                 {"II*\0", 4, "TIFF"},
                 {"MM\0*", 4, "TIFF"},
                 {"<", 1, "text"},
                 {"version https", 13, "Git LFS"}};
    if (len == 0)
        return err_set(err, ERR_CORRUPT, "an empty file");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (begins(data, len, kinds[i].begins, kinds[i].n))
            return err_set(err, ERR_CORRUPT,
                           "a %s file by its first bytes, neither JPEG nor PNG (convert it)",
                           kinds[i].name);
    if (len == 1)
        return err_set(err, ERR_CORRUPT, "neither JPEG nor PNG: a single byte");
    return err_set(err, ERR_CORRUPT, "neither JPEG nor PNG: it begins with %02x %02x", data[0],
                   data[1]);
}

int decoder_run(struct decoder *d, const void *data, size_t len, const struct augment *a,
                uint64_t max_pixels, struct region *ret, struct err *err)
{
    if (begins(data, len, "\xff\xd8", 2))
        return check_end(data, len, jpeg_scan(data, len), "\xff\xd9", 2, err)
                   ? -1
                   : jpeg_decode(d->jpeg, data, len, a, max_pixels, ret, err);
    if (begins(data, len, "\x89PNG\r\n\x1a\n", 8))
        return check_end(data, len, 0, "IEND\xae\x42\x60\x82", 8, err)
                   ? -1
                   : png_reader_decode(d->png, data, len, a, max_pixels, ret, err);
    return refuse(data, len, err);
}

/* --- what both kinds need --------------------------------------------------------------------- */

struct span span_of(double at, double len, uint32_t out_n, uint32_t n)
{
    double reach = ceil(len > out_n ? len / out_n : 1) + MARGIN;
    double from = floor(at - reach), to = ceil(at + len + reach);
    struct span s = {from > 0 ? (uint32_t)from : 0, to < n ? (uint32_t)to : n};
    if (s.from >= n)
        s.from = n - 1;
    if (s.to <= s.from)
        s.to = s.from + 1;
    return s;
}

void room_reserve(struct room *r, size_t size)
{
    if (size <= r->cap)
        return;
    free(r->at);
    r->at = xmalloc(size);
    r->cap = size;
}

void room_release(struct room *r)
{
    free(r->at);
    *r = (struct room){0};
}
