/* Pictures: any bytes are decoded into a batch's place, or refused; never more pixels than allowed.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "picture-internal.h"

#define OUT 48

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t out[OUT * OUT * 3];
    if (size < 2)
        return 0;
    struct augment a = {.crop = (enum loader_crop)(data[0] % 3),
                        .out_w = 1 + data[1] % OUT,
                        .out_h = 1 + data[1] / 5 % OUT,
                        .resize = OUT + 8,
                        .flip = true,
                        .number = data[0] / 3};
    size_t len = size - 2;
    uint8_t *picture =
        malloc(len ? len : 1); /* exactly so long, so that a byte read past it is seen */
    memcpy(picture, data + 2, len);
    struct decoder *d = decoder_new();
    struct resample *s = resample_new();
    struct region r;
    struct err err = {0};
    for (int again = 0; again < 2; again++) /* what one picture leaves behind meets the next one */
        if (decoder_run(d, picture, len, &a, 1u << 18, &r, &err) == 0)
            resample_run(s, &r, a.out_w, a.out_h, NULL, out);
    resample_free(s);
    decoder_free(d);
    free(picture);
    return 0;
}
