/* The buffers of batches. */
#include <stdlib.h>
#include <string.h>

#include "loader-internal.h"
#include "mem.h"

#define CHUNK_LEAST (1u << 20)
#define ALIGN       64

static void *take_memory(const struct loader_options *o, size_t size, struct err *err)
{
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    void *p = o->memory.alloc ? o->memory.alloc(o->memory.arg, size, err)
                              : aligned_alloc(ALIGN, size ? size : ALIGN);
    if (!p && !o->memory.alloc)
        err_set(err, ERR_LIMIT, "no memory for %zu bytes of a batch", size);
    return p;
}

static void give_memory(const struct loader_options *o, void *p, size_t size)
{
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (p && o->memory.free)
        o->memory.free(o->memory.arg, p, size);
    else if (p && !o->memory.alloc)
        free(p);
}

int slot_init(struct slot *s, const struct loader_options *o, size_t sample_size, struct err *err)
{
    lock_init(&s->room, RANK_POOL, "room of a batch");
    s->labels = xcalloc(o->batch, sizeof *s->labels);
    s->numbers = xcalloc(o->batch, sizeof *s->numbers);
    s->bad = xcalloc(o->batch, sizeof *s->bad);
    s->batch.labels = s->labels;
    s->batch.numbers = s->numbers;
    s->batch.format = o->format;
    if (o->format == LOADER_RAW) {
        s->data = xcalloc(o->batch, sizeof *s->data);
        s->sizes = xcalloc(o->batch, sizeof *s->sizes);
        s->batch.data = s->data;
        s->batch.sizes = s->sizes;
        return 0;
    }
    s->batch.h = o->height;
    s->batch.w = o->width;
    s->batch.c = 3;
    s->pixels = take_memory(o, sample_size * o->batch, err);
    if (!s->pixels)
        return -1;
    s->pixels_size = sample_size * o->batch;
    s->batch.pixels = s->pixels;
    return 0;
}

void slot_release(struct slot *s, const struct loader_options *o)
{
    give_memory(o, s->pixels, s->pixels_size);
    for (uint32_t i = 0; i < s->n_chunks; i++)
        give_memory(o, s->chunks[i].at, s->chunks[i].size);
    free(s->labels);
    free(s->numbers);
    free(s->bad);
    free(s->data);
    free(s->sizes);
    lock_destroy(&s->room);
}

void slot_begin(struct slot *s, uint32_t wanted)
{
    s->wanted = wanted;
    s->claimed = s->done = 0;
    s->failed = false;
    s->chunk = 0;
    s->used = 0;
    memset(s->bad, 0, wanted * sizeof *s->bad);
}

/* Chunks stay where they are: other threads are filling what they were given. */
void *slot_room(struct slot *s, const struct loader_options *o, size_t size, struct err *err)
{
    ACQUIRE(&s->room);
    while (s->chunk < s->n_chunks && s->chunks[s->chunk].size - s->used < size) {
        s->chunk++;
        s->used = 0;
    }
    if (s->chunk == s->n_chunks) {
        size_t all = CHUNK_LEAST;
        for (uint32_t i = 0; i < s->n_chunks; i++)
            all += s->chunks[i].size;
        size_t want = size > all ? size : all;
        if (s->n_chunks == CHUNKS_MAX) {
            err_set(err, ERR_LIMIT, "a batch of raw samples is too large");
            return NULL;
        }
        void *at = take_memory(o, want, err);
        if (!at)
            return NULL;
        s->chunks[s->n_chunks++] = (struct chunk){at, want};
    }
    unsigned char *at = (unsigned char *)s->chunks[s->chunk].at + s->used;
    s->used += (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (s->used > s->chunks[s->chunk].size)
        s->used = s->chunks[s->chunk].size;
    return at;
}

void slot_end(struct slot *s, size_t sample_size)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->wanted; i++) {
        if (s->bad[i])
            continue;
        if (n != i) {
            s->labels[n] = s->labels[i];
            s->numbers[n] = s->numbers[i];
            if (s->pixels)
                memcpy(s->pixels + n * sample_size, s->pixels + i * sample_size, sample_size);
            else
                s->data[n] = s->data[i], s->sizes[n] = s->sizes[i];
        }
        n++;
    }
    s->batch.n = n;
    s->batch.skipped = s->wanted - n;
}
