/* A set that many of the loader's tests read. */
#include "opened.h"

#include <criterion/criterion.h>
#include <stdio.h>

#include "pictures.h"

char *picture_set(void)
{
    char *dir = new_folder();
    for (int i = 0; i < SAMPLES; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%03d.jpg", i < 10 ? "ant" : i < 19 ? "cat" : "dog", i);
        put_jpeg(dir, path, LOOK_RGB, 60 + 7 * (uint32_t)i, 90 - 2 * (uint32_t)i, (uint8_t)(9 * i));
    }
    put_folder(dir, "bee");
    return dir;
}

struct loader_options picture_options(const char *dir)
{
    struct loader_options o;
    loader_options_init(&o);
    o.dir = dir;
    o.height = o.width = 16;
    o.batch = 4;
    o.threads = 3;
    o.sampler = "paddle-distributed,shuffle=true,epoch=2";
    return o;
}

struct loader *open_loader(const struct loader_options *o)
{
    struct loader *l = NULL;
    struct err e = {0};
    cr_assert(loader_open(&l, o, &e) == 0, "%s", e.msg);
    return l;
}
