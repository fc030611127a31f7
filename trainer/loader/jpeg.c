/*
 * JPEG to RGB: only the part that is wanted, and scaled by the DCT as long as there are enough
 * pixels for the size that comes out. libjpeg reports by longjmp: everything that lives across it
 * is in struct jpeg.
 *
 * Memory is bounded: a baseline picture is decoded row by row, and a part of at most max_pixels is
 * kept. A picture of several scans (progressive) keeps all coefficients while it is decoded, so
 * that there the whole picture counts.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include "mem.h"
#include "picture-internal.h"

/* Each scan of a progressive picture costs a pass over it, however few bytes it has: encoders make
 * about ten. The larger it is, the fewer; but never less than SCANS_LEAST. */
#define SCANS_MAX    200u
#define SCANS_LEAST  32u
#define SCANS_PIXELS (800u << 20)

struct jpeg {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    char why[JMSG_LENGTH_MAX];
    enum err_class class;
    struct room rgb, row; /* row: one of four components */
};

/* --- what libjpeg calls ----------------------------------------------------------------------- */

/* The library's codes are in a header that does not compile beside banned.h: what a message says is
 * told by its text in the library's table. */
static bool says(j_common_ptr c, const char *begin)
{
    int code = c->err->msg_code;
    const char *text =
        code >= 0 && code <= c->err->last_jpeg_message ? c->err->jpeg_message_table[code] : NULL;
    return text && strncmp(text, begin, strlen(begin)) == 0;
}

static void give_up(j_common_ptr c)
{
    struct jpeg *j = c->client_data;
    c->err->format_message(c, j->why);
    j->class = says(c, "Insufficient memory") ? ERR_LIMIT : ERR_CORRUPT;
    longjmp(j->jump, 1);
}

/* Warnings that mean wrong pixels end the decoding; what is merely odd does not. */
static void take_message(j_common_ptr c, int level)
{
    bool odd = says(c, "Corrupt JPEG data: %u extraneous");
    if (level < 0 && !odd && (says(c, "Corrupt JPEG data") || says(c, "Premature end")))
        give_up(c);
}

static void no_output(j_common_ptr c)
{
    (void)c;
}

static void watch_scans(j_common_ptr c)
{
    struct jpeg *j = c->client_data;
    uint64_t most = SCANS_PIXELS / ((uint64_t)j->c.image_width * j->c.image_height);
    most = most > SCANS_MAX ? SCANS_MAX : most < SCANS_LEAST ? SCANS_LEAST : most;
    if ((uint64_t)j->c.input_scan_number <= most)
        return;
    snprintf(j->why, sizeof j->why, "more than %u scans of %ux%u pixels", (unsigned)most,
             j->c.image_width, j->c.image_height);
    j->class = ERR_LIMIT;
    longjmp(j->jump, 1);
}

/* --- one decoder ------------------------------------------------------------------------------ */

/* For each picture anew: the library keeps the tables of one for the next, and what lacks its own
 * would be decoded by another one's, or not, as threads happen to share the work. */
static void create(struct jpeg *j)
{
    j->c.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = give_up;
    j->errors.emit_message = take_message;
    j->errors.output_message = no_output;
    j->c.client_data = j;
    jpeg_create_decompress(&j->c);
    j->progress.progress_monitor = watch_scans;
    j->c.progress = &j->progress;
}

struct jpeg *jpeg_new(void)
{
    return xcalloc(1, sizeof(struct jpeg));
}

void jpeg_free(struct jpeg *j)
{
    if (!j)
        return;
    room_release(&j->rgb);
    room_release(&j->row);
    free(j);
}

/* --- which colours and part, how far scaled --------------------------------------------------- */

static void choose_colours(struct jpeg *j)
{
    switch (j->c.jpeg_color_space) {
    case JCS_CMYK:
    case JCS_YCCK:
        j->c.out_color_space = JCS_CMYK;
        break;
    default:
        j->c.out_color_space = JCS_RGB; /* grey and YCbCr; others are an error of the library's */
        break;
    }
}

/* The smallest of 1/8, 1/4, 1/2, 1 that leaves the part at least as large as what comes out. */
static unsigned choose_scale(const struct box *box, const struct augment *a)
{
    unsigned denom = 8;
    while (denom > 1 && (box->w < (double)a->out_w * denom || box->h < (double)a->out_h * denom))
        denom /= 2;
    return denom;
}

/* libjpeg-turbo finds the wrong place in a row where it scales the colours of a component by less
 * than the picture, and less across than down or the other way round. */
static bool finds_parts(const struct jpeg_decompress_struct *c)
{
    for (int i = 0; i < c->num_components && c->scale_denom > 1; i++) {
        int across = c->max_h_samp_factor / c->comp_info[i].h_samp_factor;
        int down = c->max_v_samp_factor / c->comp_info[i].v_samp_factor;
        if (across > 1 && down > 1 && across != down)
            return false;
    }
    return true;
}

/* `left`: of four components a row comes whole, and the part begins there. */
static void read_rows(struct jpeg *j, uint32_t left, struct region *r)
{
    bool cmyk = j->c.out_color_space == JCS_CMYK;
    /* What Adobe's programs write is inverted. */
    uint8_t flip = j->c.saw_Adobe_marker ? 0 : 0xff;
    for (uint32_t y = 0; y < r->h;) {
        uint8_t *to = j->rgb.at + y * r->stride;
        JSAMPROW row = cmyk ? j->row.at : to;
        if (jpeg_read_scanlines(&j->c, &row, 1) != 1)
            continue;
        for (uint32_t x = 0; cmyk && x < r->w; x++) {
            const uint8_t *p = j->row.at + 4 * (size_t)(left + x);
            uint32_t k = p[3] ^ flip;
            for (int i = 0; i < 3; i++)
                to[3 * x + i] = (uint8_t)(((uint32_t)(p[i] ^ flip) * k + 127) / 255);
        }
        y++;
    }
}

static int decode_part(struct jpeg *j, struct span x, struct span y, uint64_t max_pixels,
                       struct region *ret, struct err *err)
{
    if ((uint64_t)(x.to - x.from) * (y.to - y.from) > max_pixels)
        return err_set(err, ERR_LIMIT, "%ux%u pixels even when scaled down: at most %llu",
                       x.to - x.from, y.to - y.from, (unsigned long long)max_pixels);
    jpeg_start_decompress(&j->c);
    JDIMENSION left = x.from, width = x.to - x.from;
    bool cmyk = j->c.out_color_space == JCS_CMYK;
    if (width < j->c.output_width && !cmyk)
        jpeg_crop_scanline(&j->c, &left, &width); /* to the left as far as a block begins */
    if (y.from)
        jpeg_skip_scanlines(&j->c, y.from);
    ret->w = width;
    ret->h = y.to - y.from;
    ret->stride = 3 * (size_t)width;
    ret->box.x -= left;
    ret->box.y -= y.from;
    room_reserve(&j->rgb, ret->stride * ret->h);
    if (cmyk)
        room_reserve(&j->row, 4 * (size_t)j->c.output_width);
    read_rows(j, left, ret);
    ret->rgb = j->rgb.at;
    return 0;
}

static int decode(struct jpeg *j, const void *data, size_t len, const struct augment *a,
                  uint64_t max_pixels, struct region *ret, struct err *err)
{
    struct region r = {0};
    jpeg_mem_src(&j->c, data, len);
    jpeg_read_header(&j->c, TRUE);
    uint32_t w = j->c.image_width, h = j->c.image_height;
    if (jpeg_has_multiple_scans(&j->c) && (uint64_t)w * h > max_pixels)
        return err_set(err, ERR_LIMIT, "a progressive picture of %ux%u pixels: at most %llu", w, h,
                       (unsigned long long)max_pixels);
    choose_colours(j);
    augment_box(a, w, h, &r.box, &r.flip);
    unsigned denom = choose_scale(&r.box, a);
    j->c.scale_num = 1;
    j->c.scale_denom = denom;
    jpeg_calc_output_dimensions(&j->c);
    r.box = (struct box){r.box.x / denom, r.box.y / denom, r.box.w / denom, r.box.h / denom};
    struct span x = span_of(r.box.x, r.box.w, a->out_w, j->c.output_width);
    struct span y = span_of(r.box.y, r.box.h, a->out_h, j->c.output_height);
    if (!finds_parts(&j->c))
        x = (struct span){0, j->c.output_width};
    if (decode_part(j, x, y, max_pixels, &r, err))
        return -1;
    *ret = r;
    return 0;
}

int jpeg_decode(struct jpeg *j, const void *data, size_t len, const struct augment *a,
                uint64_t max_pixels, struct region *ret, struct err *err)
{
    if (len > ULONG_MAX)
        return err_set(err, ERR_LIMIT, "too long for the JPEG library");
    if (setjmp(j->jump)) {
        jpeg_destroy_decompress(&j->c);
        return err_set(err, j->class, "damaged JPEG: %s", j->why);
    }
    create(j);
    int result = decode(j, data, len, a, max_pixels, ret, err);
    jpeg_destroy_decompress(&j->c);
    return result;
}
