/*
 * Memory that lives as long as one call: the request as it was unpacked, and the answer that a
 * handler builds. Nothing in it is freed by itself; all of it is wiped at the end, because requests
 * carry secrets.
 */
#ifndef SAMPAN_CSI_ARENA_H
#define SAMPAN_CSI_ARENA_H

#include <stddef.h>

#include "cleanup.h"

struct arena_chunk;
struct arena {
    struct arena_chunk *chunks;
    size_t total;
};

void *arena_alloc(struct arena *a, size_t size); /* zeroed */
char *arena_text(struct arena *a, const char *text);
__attribute__((format(printf, 2, 3))) char *arena_format(struct arena *a, const char *fmt, ...);
void arena_release(struct arena *a); /* wipes; leaves it empty and usable */

#define cleanup_arena CLEANUP(arena_release)

#endif
