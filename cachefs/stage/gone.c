/*
 * What is on its way out of the store, and what went lately: for listings that show it still, or
 * folders that are there for it alone. Both are told by hashes, in tables of a fixed size: where
 * two fall on one place, something that another writer made is seen by a later listing only.
 */
#include <string.h>

#include "hash.h"
#include "mem.h"
#include "owed-internal.h"

#define PLACES (1u << 16)

struct gone {
    uint64_t key, moment;
};

static uint64_t hash_of(const char *key, size_t len)
{
    return hash64(key, len, 3);
}

/* The length of the next folder that the key lies in, after one of length `len`; 0: no more. */
static size_t next_folder(const char *key, size_t len)
{
    const char *slash = strchr(key + len, '/');
    return slash && slash[1] ? (size_t)(slash + 1 - key) : 0;
}

static void note_gone(struct stage *s, const char *key, size_t len)
{
    uint64_t hash = hash_of(key, len);
    s->gone[hash % PLACES] = (struct gone){hash, s->moment};
}

void gone_add(struct stage *s, const char *key)
{
    if (!s->gone)
        s->gone = xcalloc(PLACES, sizeof *s->gone);
    ++s->moment;
    note_gone(s, key, strlen(key));
    for (size_t len = 0; (len = next_folder(key, len));)
        note_gone(s, key, len);
}

bool gone_since(const struct stage *s, const char *key, uint64_t moment)
{
    uint64_t hash = hash_of(key, strlen(key));
    const struct gone *g = s->gone ? &s->gone[hash % PLACES] : NULL;
    return g && g->key == hash && g->moment > moment;
}

void going_add(struct stage *s, const char *key, int by)
{
    if (!s->going)
        s->going = xcalloc(PLACES, sizeof *s->going);
    for (size_t len = 0; (len = next_folder(key, len));)
        s->going[hash_of(key, len) % PLACES] += (uint32_t)by;
}

bool goes_below(const struct stage *s, const char *folder)
{
    return s->going && s->going[hash_of(folder, strlen(folder)) % PLACES];
}
