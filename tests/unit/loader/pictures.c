/* Pictures and folders for the loader's tests. */
#include "pictures.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>
#include <png.h>

typedef void pixel_fn(const uint8_t *colour, uint32_t x, uint32_t y, uint32_t w, uint32_t h,
                      uint8_t *ret);

static void ramp(const uint8_t *colour, uint32_t x, uint32_t y, uint32_t w, uint32_t h,
                 uint8_t *ret)
{
    ret[0] = (uint8_t)(w > 1 ? 255 * x / (w - 1) : 0);
    ret[1] = (uint8_t)(h > 1 ? 255 * y / (h - 1) : 0);
    ret[2] = colour[2];
    ret[3] = 0;
}

static void plain(const uint8_t *colour, uint32_t x, uint32_t y, uint32_t w, uint32_t h,
                  uint8_t *ret)
{
    (void)x, (void)y, (void)w, (void)h;
    memcpy(ret, colour, 3);
}

static void noisy(const uint8_t *colour, uint32_t x, uint32_t y, uint32_t w, uint32_t h,
                  uint8_t *ret)
{
    ramp(colour, x, y, w, h, ret);
    uint32_t n = (x * 2654435761u) ^ (y * 2246822519u) ^ (colour[2] * 3266489917u);
    n = (n ^ (n >> 15)) * 2246822519u;
    for (int i = 0; i < 3; i++)
        ret[i] = (uint8_t)((3 * ret[i] + (n >> (8 * i) & 255)) / 4);
}

static struct made make(enum look look, uint32_t w, uint32_t h, pixel_fn *pixel,
                        const uint8_t *colour)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned long len = 0;
    struct made made = {0};
    int each = look == LOOK_GREY ? 1 : look == LOOK_CMYK ? 4 : 3;
    uint8_t *row = malloc((size_t)w * 4 + 4);
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &made.data, &len);
    c.image_width = w;
    c.image_height = h;
    c.input_components = each;
    c.in_color_space = look == LOOK_GREY ? JCS_GRAYSCALE : look == LOOK_CMYK ? JCS_CMYK : JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 95, TRUE);
    if (look == LOOK_COARSE)
        c.comp_info[0].h_samp_factor = 4;
    if (look == LOOK_PROGRESSIVE)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    for (uint32_t y = 0; y < h; y++) {
        JSAMPROW at = row;
        for (uint32_t x = 0; x < w && (y == 0 || pixel != plain); x++) {
            uint8_t p[4];
            pixel(colour, x, y, w, h, p);
            p[3] = 0xff; /* of four: no black, as Adobe's custom inverts all */
            memcpy(row + (size_t)x * (size_t)each, p, (size_t)each);
        }
        jpeg_write_scanlines(&c, &at, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    made.len = len;
    return made;
}

struct made make_jpeg(enum look look, uint32_t w, uint32_t h, uint8_t tint)
{
    const uint8_t colour[3] = {0, 0, tint};
    return make(look, w, h, look == LOOK_NOISY ? noisy : ramp, colour);
}

struct made make_plain_jpeg(uint32_t w, uint32_t h, uint8_t r, uint8_t g, uint8_t b)
{
    const uint8_t colour[3] = {r, g, b};
    return make(LOOK_RGB, w, h, plain, colour);
}

/* --- PNG ---------------------------------------------------------------------------------------
 */

static void keep(png_structp c, png_bytep data, size_t n)
{
    struct made *m = png_get_io_ptr(c);
    m->data = realloc(m->data, m->len + n);
    memcpy(m->data + m->len, data, n);
    m->len += n;
}

static void flushed(png_structp c)
{
    (void)c;
}

/* The bits of one value, or of the place in a palette, of the 8 that it has. Whatever is below the
 * upper 8 of 16 is not seen. */
static void put_value(uint8_t *row, size_t i, int bits, uint8_t value)
{
    size_t at = i * (size_t)bits;
    if (bits == 16) {
        row[2 * i] = value;
        row[2 * i + 1] = 0xff;
    } else {
        row[at / 8] |= (uint8_t)(value >> (8 - bits) << (8 - bits - (int)(at % 8)));
    }
}

static void png_row(uint8_t *row, int type, int bits, const uint8_t *colour, uint32_t y, uint32_t w,
                    uint32_t h)
{
    size_t i = 0;
    for (uint32_t x = 0; x < w; x++) {
        uint8_t p[4];
        ramp(colour, x, y, w, h, p);
        if (type == PNG_COLOR_TYPE_PALETTE)
            p[0] = (uint8_t)(p[0] / 64 << (8 - bits));
        int values = type & PNG_COLOR_MASK_COLOR && type != PNG_COLOR_TYPE_PALETTE ? 3 : 1;
        for (int k = 0; k < values; k++)
            put_value(row, i++, bits, p[k]);
        if (type & PNG_COLOR_MASK_ALPHA)
            put_value(row, i++, bits, 0);
    }
}

struct made make_png(int type, int bits, bool interlaced, uint32_t w, uint32_t h, uint8_t tint)
{
    static const png_color palette[] = {{0, 9, 1}, {64, 9, 2}, {128, 9, 3}, {192, 9, 4}};
    static const png_byte clear[] = {0, 0, 0, 0};
    const png_color_16 black = {0};
    const uint8_t colour[3] = {0, 0, tint};
    struct made made = {0};
    png_structp c = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(c);
    size_t room = (size_t)w * 8 + 8;
    uint8_t **rows = calloc(h, sizeof *rows);
    png_set_write_fn(c, &made, keep, flushed);
    png_set_IHDR(c, info, w, h, bits, type, interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_gAMA(c, info, 1.0); /* what Pillow does not apply */
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(c, info, palette, 4);
    if (!(type & PNG_COLOR_MASK_ALPHA))
        png_set_tRNS(c, info, clear, type == PNG_COLOR_TYPE_PALETTE ? 4 : 0, &black);
    png_write_info(c, info);
    for (uint32_t y = 0; y < h; y++) {
        rows[y] = calloc(1, room);
        png_row(rows[y], type, bits, colour, y, w, h);
    }
    png_write_image(c, rows);
    png_write_end(c, info);
    png_destroy_write_struct(&c, &info);
    for (uint32_t y = 0; y < h; y++)
        free(rows[y]);
    free(rows);
    return made;
}

/* --- folders -----------------------------------------------------------------------------------
 */

char *new_folder(void)
{
    char *dir = strdup("/tmp/sampan-loader-XXXXXX");
    if (!dir || !mkdtemp(dir))
        abort();
    return dir;
}

static int drop(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

void drop_folder(char *dir)
{
    nftw(dir, drop, 16, FTW_DEPTH | FTW_PHYS);
    free(dir);
}

void put_folder(const char *dir, const char *path)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", dir, path);
    for (char *p = full + strlen(dir) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(full, 0700);
        *p = '/';
    }
    mkdir(full, 0700);
}

void put_file(const char *dir, const char *path, const void *data, size_t len)
{
    char full[512];
    snprintf(full, sizeof full, "%s", path);
    char *slash = strrchr(full, '/');
    if (slash) {
        *slash = '\0';
        put_folder(dir, full);
    }
    snprintf(full, sizeof full, "%s/%s", dir, path);
    FILE *f = fopen(full, "wb");
    if (!f || fwrite(data, 1, len, f) != len || fclose(f))
        abort();
}

void put_jpeg(const char *dir, const char *path, enum look look, uint32_t w, uint32_t h,
              uint8_t tint)
{
    struct made m = make_jpeg(look, w, h, tint);
    put_file(dir, path, m.data, m.len);
    free(m.data);
}
