/* The buffers of batches. */
#include <stdlib.h>
#include <string.h>

#include "loader-internal.h"
#include "mem.h"

#define CHUNK_LEAST (1u << 20)
#define ALIGN       64
#define PIECE       (64u << 10)

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
    for (uint32_t i = 0; i < s->n_chunks; i++)
        atomic_store_explicit(&s->chunks[i].used, 0, memory_order_relaxed);
    atomic_store(&s->filling, s->n_chunks ? &s->chunks[0] : NULL);
    memset(s->bad, 0, wanted * sizeof *s->bad);
}

/* Room in this chunk. NULL: there is too little. */
static void *chunk_room(struct chunk *c, size_t size)
{
    size_t at = atomic_fetch_add(&c->used, (size + ALIGN - 1) & ~(size_t)(ALIGN - 1));
    return at <= c->size && size <= c->size - at ? c->at + at : NULL;
}

static struct chunk *add_chunk(struct slot *s, const struct loader_options *o, size_t least,
                               struct err *err)
{
    size_t all = CHUNK_LEAST;
    for (uint32_t i = 0; i < s->n_chunks; i++)
        all += s->chunks[i].size;
    if (s->n_chunks == CHUNKS_MAX) {
        err_set(err, ERR_LIMIT, "a batch of raw samples is too large");
        return NULL;
    }
    struct chunk *c = &s->chunks[s->n_chunks];
    c->size = least > all ? least : all;
    c->at = take_memory(o, c->size, err);
    if (!c->at)
        return NULL;
    atomic_store_explicit(&c->used, 0, memory_order_relaxed);
    s->n_chunks++;
    return c;
}

/* Chunks stay where they are: other threads are filling what they were given. */
static void *slot_room(struct slot *s, const struct loader_options *o, size_t size, struct err *err)
{
    struct chunk *c = atomic_load(&s->filling);
    void *at = c ? chunk_room(c, size) : NULL;
    if (at)
        return at;
    ACQUIRE(&s->room);
    for (c = atomic_load(&s->filling); !(c && (at = chunk_room(c, size)));) {
        uint32_t next = c ? (uint32_t)(c - s->chunks) + 1 : 0;
        c = next < s->n_chunks ? &s->chunks[next] : add_chunk(s, o, size, err);
        if (!c)
            return NULL;
        atomic_store(&s->filling, c);
    }
    return at;
}

void piece_begin(struct piece *p, struct slot *s)
{
    if (p->slot != s || p->sequence != s->sequence)
        *p = (struct piece){.slot = s, .sequence = s->sequence};
}

void *piece_room(struct piece *p, const struct loader_options *o, size_t size, struct err *err)
{
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (!p->at || size > p->left) {
        p->left = size < PIECE ? PIECE : size;
        p->at = slot_room(p->slot, o, p->left, err);
        if (!p->at)
            return NULL;
    }
    void *at = p->at;
    p->at += size;
    p->left -= size;
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
