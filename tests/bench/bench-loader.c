/*
 * What the loader gives, and what it is set beside. One line of JSON:
 *
 *   bench-loader raw DIR THREADS EPOCHS only|off     the files' bytes, copied; the first epoch is not counted
 *   bench-loader decode DIR THREADS EPOCHS [on|off|only [STEP]]  pictures of 224 x 224, consumed in STEP seconds each batch
 *   bench-loader jpeg DIR THREADS EPOCHS             the JPEG library alone: whole pictures in memory
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>

#include "loader.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void say(double samples, double seconds, const struct loader_figures *f)
{
    printf("{\"samples\":%.0f,\"seconds\":%.6f,\"samples_per_s\":%.1f,\"direct\":%llu,\"stall\":%.5f}\n", samples,
           seconds, samples / seconds, (unsigned long long)(f ? f->direct_samples : 0), f ? f->stall : 0);
}

static struct loader *open_loader(char **argv, enum loader_format format, enum loader_direct direct)
{
    struct loader_options o;
    struct loader *l;
    struct err e = {0};
    loader_options_init(&o);
    o.dir = argv[2];
    o.sampler = "torch-distributed,seed=1";
    o.batch = 32;
    o.depth = 4;
    o.threads = (uint32_t)atoi(argv[3]);
    o.epochs = (uint32_t)atoi(argv[4]) + 1;
    o.format = format;
    o.direct = direct;
    o.max_bytes = 1u << 30;
    if (loader_open(&l, &o, &e) == 0)
        return l;
    fprintf(stderr, "bench-loader: %s\n", e.msg);
    exit(1);
}

/* Stands for a device that computes: it uses no core. */
static void step(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    if (seconds > 0)
        nanosleep(&t, NULL);
}

static int run_loader(struct loader *l, int epochs, double step_s)
{
    const struct loader_batch *b;
    struct loader_figures f;
    struct err e = {0};
    double began = 0, samples = 0;
    int rc = 0;
    for (int epoch = 0; epoch <= epochs; epoch++) {
        if (epoch == 1)
            began = now();
        while ((rc = loader_next(l, &b, &e)) > 0) {
            samples += epoch ? b->n : 0;
            step(step_s);
            loader_release(l, b);
        }
        if (rc < 0) {
            fprintf(stderr, "bench-loader: %s\n", e.msg);
            return 1;
        }
    }
    loader_figures(l, &f);
    say(samples, now() - began, &f);
    loader_close(l);
    return 0;
}

/* --- the JPEG library alone -------------------------------------------------------------------- */

struct files {
    unsigned char *data[4096];
    size_t size[4096], n;
    int epochs;
};

static void decode(const unsigned char *data, size_t size, unsigned char **row, size_t *cap)
{
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    c.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&c);
    jpeg_mem_src(&c, data, size);
    jpeg_read_header(&c, TRUE);
    c.out_color_space = JCS_RGB;
    jpeg_start_decompress(&c);
    if (*cap < 3 * (size_t)c.output_width)
        *row = realloc(*row, *cap = 3 * (size_t)c.output_width);
    while (c.output_scanline < c.output_height)
        jpeg_read_scanlines(&c, row, 1);
    jpeg_finish_decompress(&c);
    jpeg_destroy_decompress(&c);
}

static void *decoder(void *arg)
{
    const struct files *f = arg;
    unsigned char *row = NULL;
    size_t cap = 0;
    for (int e = 0; e < f->epochs; e++)
        for (size_t i = 0; i < f->n; i++)
            decode(f->data[i], f->size[i], &row, &cap);
    free(row);
    return NULL;
}

static int run_jpeg(struct loader *l, int threads, int epochs)
{
    static struct files f;
    const struct loader_batch *b;
    struct err e = {0};
    while (f.n < 4096 && loader_next(l, &b, &e) > 0) {
        for (uint32_t i = 0; i < b->n && f.n < 4096; i++, f.n++) {
            f.data[f.n] = malloc(b->sizes[i] + 1);
            f.size[f.n] = b->sizes[i];
            memcpy(f.data[f.n], b->data[i], b->sizes[i]);
        }
        loader_release(l, b);
    }
    loader_close(l);
    f.epochs = epochs;
    pthread_t ids[256];
    double began = now();
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, decoder, &f))
            return 1;
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    say((double)f.n * threads * epochs, now() - began, NULL);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 5 || atoi(argv[3]) < 1 || atoi(argv[3]) > 256) {
        fprintf(stderr, "usage: bench-loader raw|decode|jpeg DIR THREADS EPOCHS [on|only|off [STEP]]\n");
        return 2;
    }
    int epochs = atoi(argv[4]);
    const char *how = argc > 5 ? argv[5] : "off";
    enum loader_direct direct = strcmp(how, "only") == 0 ? LOADER_DIRECT_ONLY : strcmp(how, "on") == 0 ? LOADER_DIRECT_AUTO : LOADER_DIRECT_OFF;
    if (strcmp(argv[1], "raw") == 0)
        return run_loader(open_loader(argv, LOADER_RAW, direct), epochs, 0);
    if (strcmp(argv[1], "decode") == 0)
        return run_loader(open_loader(argv, LOADER_FLOAT, direct), epochs, argc > 6 ? atof(argv[6]) : 0);
    return run_jpeg(open_loader(argv, LOADER_RAW, LOADER_DIRECT_OFF), atoi(argv[3]), epochs);
}
