/* A single picture, for whoever has its bytes already. */
#include "mem.h"
#include "picture-internal.h"

#define PIXELS_MAX (64u << 20)

int loader_picture(const struct loader_options *o, const void *bytes, size_t len, void *out,
                   struct err *err)
{
    const struct augment a = {.crop = o->crop,
                              .out_w = o->width,
                              .out_h = o->height,
                              .resize = o->resize ? o->resize : augment_resize(o->height, o->width),
                              .flip = !o->no_flip,
                              .seed = o->seed};
    struct region r;
    struct decoder *d = decoder_new();
    int code = decoder_run(d, bytes, len, &a, o->max_pixels ? o->max_pixels : PIXELS_MAX, &r, err);
    if (!code) {
        struct resample *scratch = resample_new();
        struct normal n = {0};
        normal_init(&n, o->width, o->mean, o->std);
        resample_run(scratch, &r, o->width, o->height, o->format == LOADER_FLOAT ? &n : NULL, out);
        normal_release(&n);
        resample_free(scratch);
    }
    decoder_free(d);
    return code;
}
