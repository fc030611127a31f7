/* A list of chunks; what is larger than one gets a chunk of its own. */
#include "arena.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"

#define CHUNK_BYTES 4096
#define ALIGN       _Alignof(max_align_t)

struct arena_chunk {
    struct arena_chunk *next;
    size_t used, size;
    _Alignas(max_align_t) unsigned char data[];
};

static struct arena_chunk *add_chunk(struct arena *a, size_t size)
{
    size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;
    struct arena_chunk *c = xcalloc(1, sizeof *c + room);
    c->size = room;
    c->next = a->chunks;
    a->chunks = c;
    a->total += room;
    return c;
}

void *arena_alloc(struct arena *a, size_t size)
{
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    struct arena_chunk *c = a->chunks;
    if (!c || c->size - c->used < size)
        c = add_chunk(a, size);
    void *p = c->data + c->used;
    c->used += size;
    return p;
}

char *arena_text(struct arena *a, const char *text)
{
    size_t n = strlen(text) + 1;
    return memcpy(arena_alloc(a, n), text, n);
}

char *arena_format(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    size_t size = n < 0 ? 1 : (size_t)n + 1;
    char *text = arena_alloc(a, size);
    vsnprintf(text, size, fmt, again);
    va_end(ap);
    va_end(again);
    return text;
}

void arena_release(struct arena *a)
{
    while (a->chunks) {
        struct arena_chunk *c = take_ptr(&a->chunks);
        a->chunks = c->next;
        explicit_bzero(c->data, c->used);
        free(c);
    }
    a->total = 0;
}
