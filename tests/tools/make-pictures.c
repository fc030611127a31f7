/*
 * Makes a set of JPEG pictures: make-pictures DIR CLASSES FILES WIDTH HEIGHT [--bad]
 *
 * FILES a class, called DIR/class-NNN/NNNNNN.jpg; sizes vary a little. --bad: among them in
 * class-000 one cut off, the begin of a PNG, one empty; and good ones: grey, CMYK, one pixel, a
 * whole PNG.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <png.h>

#include "pictures.h"

static void make_bad(const char *dir)
{
    struct made m = make_jpeg(LOOK_RGB, 100, 80, 9);
    put_file(dir, "class-000/bad-cut.jpg", m.data, m.len / 2);
    put_file(dir, "class-000/bad-png.jpg", "\x89PNG\r\n\x1a\n....", 12);
    put_file(dir, "class-000/bad-empty.jpg", "", 0);
    put_jpeg(dir, "class-000/odd-grey.jpg", LOOK_GREY, 90, 70, 0);
    put_jpeg(dir, "class-000/odd-cmyk.jpg", LOOK_CMYK, 90, 70, 0);
    put_jpeg(dir, "class-000/odd-one.jpg", LOOK_RGB, 1, 1, 0);
    free(m.data);
    m = make_png(PNG_COLOR_TYPE_RGB_ALPHA, 16, true, 90, 70, 9);
    put_file(dir, "class-000/odd-png.jpg", m.data, m.len);
    free(m.data);
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: make-pictures DIR CLASSES FILES WIDTH HEIGHT [--bad]\n");
        return 2;
    }
    int classes = atoi(argv[2]), files = atoi(argv[3]);
    uint32_t w = (uint32_t)atoi(argv[4]), h = (uint32_t)atoi(argv[5]);
    mkdir(argv[1], 0700);
    for (int c = 0; c < classes; c++)
        for (int f = 0; f < files; f++) {
            char path[64];
            uint32_t i = (uint32_t)(c * files + f);
            snprintf(path, sizeof path, "class-%03d/%06d.jpg", c, f);
            put_jpeg(argv[1], path, i % 50 == 49 ? LOOK_PROGRESSIVE : LOOK_NOISY, w + i % 13,
                     h + i % 5, (uint8_t)(i * 11));
        }
    if (argc > 6 && strcmp(argv[6], "--bad") == 0)
        make_bad(argv[1]);
    return 0;
}
