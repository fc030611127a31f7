/* Pictures for the loader's tests, made by the other halves of their libraries, and folders of
 * them. */
#ifndef SAMPAN_TESTS_LOADER_PICTURES_H
#define SAMPAN_TESTS_LOADER_PICTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct made {
    unsigned char *data;
    size_t len;
};
/* NOISY: bytes as those of photographs, which cannot be compressed any further. COARSE: a pixel of
 * colour is 4 across and 2 down. */
enum look { LOOK_RGB, LOOK_GREY, LOOK_CMYK, LOOK_PROGRESSIVE, LOOK_NOISY, LOOK_COARSE };

/* w x h: a ramp of red to the right, green downwards, blue by `tint`. The caller frees data. */
struct made make_jpeg(enum look look, uint32_t w, uint32_t h, uint8_t tint);
/* The same colour everywhere; large ones take no memory. */
struct made make_plain_jpeg(uint32_t w, uint32_t h, uint8_t r, uint8_t g, uint8_t b);

/* PNGs: interlaced, or not, of this type (PNG_COLOR_TYPE_…) and bits a value; RGB the ramp of
 * above, grey its red. A palette has 4 colours: the ramp's in quarters. Alpha is 0 wherever there
 * may be. */
struct made make_png(int type, int bits, bool interlaced, uint32_t w, uint32_t h, uint8_t tint);

/* A folder of its own; everything below it goes with drop_folder(). */
char *new_folder(void);
void drop_folder(char *dir);
void put_file(const char *dir, const char *path, const void *data, size_t len);
void put_jpeg(const char *dir, const char *path, enum look look, uint32_t w, uint32_t h,
              uint8_t tint);
void put_folder(const char *dir, const char *path);

#endif
