/*
 * PNG to RGB, as Pillow's convert("RGB") has it, which the frameworks' loaders call: of 16 bits the
 * upper 8, alpha left out (not blended), gamma and profiles not applied. But for grey of 16 bits
 * without alpha: there Pillow makes all above 255 white, and we take the upper 8 as well. libpng
 * reports by longjmp: everything that lives across it is in struct png_reader.
 *
 * Memory is bounded as with JPEGs: row by row, of which the part is kept; an interlaced picture is
 * there as a whole only at its end, so that there the whole counts.
 */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

#include "mem.h"
#include "picture-internal.h"

#define SIDE_MAX 65500 /* as the JPEG library's: bounds a row, and the rows above a part */

struct png_reader {
    png_structp c;
    png_infop info;
    jmp_buf jump;
    char why[128];
    const uint8_t *at; /* what is left of the file */
    size_t left;
    struct room rgb, row; /* row: one that is wider than the part, or above it */
};

struct png_reader *png_reader_new(void)
{
    return xcalloc(1, sizeof(struct png_reader));
}

void png_reader_free(struct png_reader *p)
{
    if (!p)
        return;
    room_release(&p->rgb);
    room_release(&p->row);
    free(p);
}

/* --- what libpng calls ------------------------------------------------------------------------ */

_Noreturn static void give_up(png_structp c, png_const_charp why)
{
    struct png_reader *p = png_get_error_ptr(c);
    snprintf(p->why, sizeof p->why, "%s", why);
    longjmp(p->jump, 1);
}

/* What libpng can live with is odd, but gives pixels. */
static void no_warning(png_structp c, png_const_charp what)
{
    (void)c, (void)what;
}

static void take_bytes(png_structp c, png_bytep to, size_t n)
{
    struct png_reader *p = png_get_io_ptr(c);
    if (n > p->left)
        png_error(c, "it ends in the middle of a chunk");
    memcpy(to, p->at, n);
    p->at += n;
    p->left -= n;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Whatever is in the file comes out as 8 bits of red, green and blue. Returns how often the rows
 * are to be read. */
static int want_rgb(struct png_reader *p, uint32_t width)
{
    png_set_strip_16(p->c);
    png_set_expand(p->c); /* palettes, and grey of fewer bits */
    png_set_gray_to_rgb(p->c);
    png_set_strip_alpha(p->c);
    int passes = png_set_interlace_handling(p->c);
    png_read_update_info(p->c, p->info);
    if (png_get_rowbytes(p->c, p->info) != 3 * (size_t)width)
        png_error(p->c, "its rows are not of red, green and blue");
    return passes;
}

static void read_whole(struct png_reader *p, int passes, struct region *r)
{
    room_reserve(&p->rgb, r->stride * r->h);
    for (; passes > 0; passes--)
        for (uint32_t y = 0; y < r->h; y++)
            png_read_row(p->c, p->rgb.at + y * r->stride, NULL);
}

static void read_part(struct png_reader *p, struct span x, struct span y, uint32_t width,
                      struct region *r)
{
    room_reserve(&p->rgb, r->stride * r->h);
    room_reserve(&p->row, 3 * (size_t)width);
    for (uint32_t i = 0; i < y.to; i++) {
        png_read_row(p->c, p->row.at, NULL);
        if (i >= y.from)
            memcpy(p->rgb.at + (i - y.from) * r->stride, p->row.at + 3 * (size_t)x.from, r->stride);
    }
}

static int decode(struct png_reader *p, const struct augment *a, uint64_t max_pixels,
                  struct region *ret, struct err *err)
{
    struct region r = {0};
    png_read_info(p->c, p->info);
    uint32_t w = png_get_image_width(p->c, p->info), h = png_get_image_height(p->c, p->info);
    bool interlaced = png_get_interlace_type(p->c, p->info) != PNG_INTERLACE_NONE;
    if (w > SIDE_MAX || h > SIDE_MAX)
        return err_set(err, ERR_LIMIT, "a PNG of %ux%u pixels: at most %d a side", w, h, SIDE_MAX);
    augment_box(a, w, h, &r.box, &r.flip);
    struct span x = {0, w}, y = {0, h};
    if (!interlaced) {
        x = span_of(r.box.x, r.box.w, a->out_w, w);
        y = span_of(r.box.y, r.box.h, a->out_h, h);
    }
    r.w = x.to - x.from;
    r.h = y.to - y.from;
    r.stride = 3 * (size_t)r.w;
    r.box.x -= x.from;
    r.box.y -= y.from;
    if ((uint64_t)r.w * r.h > max_pixels)
        return err_set(err, ERR_LIMIT, "%s PNG of %ux%u pixels: at most %llu",
                       interlaced ? "an interlaced" : "a part of a", r.w, r.h,
                       (unsigned long long)max_pixels);
    int passes = want_rgb(p, w);
    if (interlaced)
        read_whole(p, passes, &r);
    else
        read_part(p, x, y, w, &r);
    r.rgb = p->rgb.at;
    *ret = r;
    return 0;
}

int png_reader_decode(struct png_reader *p, const void *data, size_t len, const struct augment *a,
                      uint64_t max_pixels, struct region *ret, struct err *err)
{
    p->at = data;
    p->left = len;
    p->info = NULL;
    p->c = png_create_read_struct(PNG_LIBPNG_VER_STRING, p, give_up, no_warning);
    if (!p->c || !(p->info = png_create_info_struct(p->c)))
        mem_exhausted(); /* or another version of the library than the header's */
    if (setjmp(p->jump)) {
        png_destroy_read_struct(&p->c, &p->info, NULL);
        return err_set(err, ERR_CORRUPT, "damaged PNG: %s", p->why);
    }
    png_set_read_fn(p->c, p, take_bytes);
    /* No chunk but those that hold pixels, palette and transparency is looked at. */
    png_set_keep_unknown_chunks(p->c, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    int result = decode(p, a, max_pixels, ret, err);
    png_destroy_read_struct(&p->c, &p->info, NULL);
    return result;
}
