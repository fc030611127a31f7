/* What comes out of pictures; and a single one, for whoever has its bytes already. */
#include "loader-internal.h"
#include "mem.h"

#define PIXELS_MAX (64u << 20)

int options_of_pictures(const struct loader_options *o, struct err *err)
{
    if (o->format != LOADER_RAW &&
        (!o->height || !o->width || o->height > SIDE_MAX || o->width > SIDE_MAX))
        return err_set(err, ERR_USAGE, "loader: %ux%u: want 1 to %u pixels a side", o->height,
                       o->width, SIDE_MAX);
    if (o->resize > RESIZE_MAX)
        return err_set(err, ERR_USAGE, "loader: resize %u: at most %u", o->resize, RESIZE_MAX);
    if ((unsigned)o->format > LOADER_RAW || (unsigned)o->crop > LOADER_CROP_NONE ||
        (unsigned)o->policy > LOADER_SKIP || (unsigned)o->direct > LOADER_DIRECT_ONLY)
        return err_set(err, ERR_USAGE, "loader: an option has a value that is none of its names");
    return 0;
}

int loader_picture(const struct loader_options *o, const void *bytes, size_t len, void *out,
                   struct err *err)
{
    if (options_of_pictures(o, err))
        return -1;
    if (o->format == LOADER_RAW)
        return err_set(err, ERR_USAGE, "loader: a single picture is decoded: no raw format");
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
