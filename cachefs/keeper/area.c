/*
 * Areas and texts: named pieces of the state's tail.
 *
 * A kill between any two stores leaves a valid state: an entry counts from its name on, which is
 * stored last; a text counts from its flip on.
 */
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "keeper.h"

#define ALIGN 64u

static uint64_t rounded(uint64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* Within the tail? What a life before us has scribbled over is not believed. */
static bool is_sound(const struct keeper_state *s, const struct keeper_area *a)
{
    return a->offset >= s->tail && a->offset % ALIGN == 0 && a->offset - s->tail <= s->tail_bytes &&
           a->bytes <= s->tail_bytes - (a->offset - s->tail);
}

static struct keeper_area *find(struct keeper_state *s, const char *name)
{
    for (size_t i = 0; i < KEEPER_AREAS; i++)
        if (strncmp(s->areas[i].name, name, sizeof s->areas[i].name) == 0)
            return &s->areas[i];
    return NULL;
}

static uint64_t take_tail(struct keeper_state *s, uint64_t bytes)
{
    uint64_t used = rounded(atomic_load(&s->tail_used));
    if (used > s->tail_bytes || rounded(bytes) > s->tail_bytes - used)
        return 0;
    atomic_store(&s->tail_used, used + rounded(bytes));
    return s->tail + used;
}

static void *lay_out(struct keeper_state *s, struct keeper_area *a, uint64_t offset,
                     const char *name, uint32_t version, size_t bytes)
{
    a->name[0] = '\0';
    atomic_signal_fence(memory_order_release);
    a->version = version;
    a->bytes = (uint32_t)bytes;
    a->offset = offset;
    atomic_signal_fence(memory_order_release);
    memcpy(a->name, name, strlen(name) + 1);
    return (char *)s + offset;
}

static void *plain(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void *keeper_area(struct keeper_state *s, const char *name, uint32_t version, size_t bytes)
{
    if (!s)
        return plain(bytes ? bytes : 1);
    if (!name[0] || strlen(name) >= sizeof s->areas[0].name || bytes > s->tail_bytes)
        return NULL;
    struct keeper_area *a = find(s, name);
    bool sound = a && is_sound(s, a);
    if (sound && a->version == version && a->bytes == bytes)
        return (char *)s + a->offset;
    if (sound && rounded(a->bytes) >= bytes) { /* its old place will do */
        uint64_t offset = a->offset;
        a->name[0] = '\0';
        memset((char *)s + offset, 0, bytes);
        return lay_out(s, a, offset, name, version, bytes);
    }
    if (!a)
        a = find(s, "");
    uint64_t offset = a ? take_tail(s, bytes) : 0;
    return offset ? lay_out(s, a, offset, name, version, bytes) : NULL;
}

/* --- texts ------------------------------------------------------------------------------------ */

struct keeper_text {
    _Atomic uint32_t flip; /* which half counts: 0 none yet, else 1 + its number */
    uint32_t cap;          /* of one half, with the NUL */
    char halves[];
};

struct keeper_text *keeper_text(struct keeper_state *s, const char *name, size_t max)
{
    struct keeper_text *t = keeper_area(s, name, 1, sizeof *t + 2 * (max + 1));
    if (t)
        t->cap = (uint32_t)(max + 1);
    return t;
}

int keeper_text_set(struct keeper_text *t, const char *text, struct err *err)
{
    size_t len = strlen(text);
    if (!t || len >= t->cap)
        return err_set(err, ERR_LIMIT, "keep %zu bytes beyond this process: no room", len);
    uint32_t half = atomic_load(&t->flip) == 1 ? 1 : 0;
    memcpy(t->halves + (size_t)half * t->cap, text, len + 1);
    atomic_store(&t->flip, half + 1);
    return 0;
}

const char *keeper_text_get(const struct keeper_text *t)
{
    uint32_t flip = t ? atomic_load(&t->flip) : 0;
    if (flip != 1 && flip != 2)
        return "";
    const char *half = t->halves + (size_t)(flip - 1) * t->cap;
    return memchr(half, '\0', t->cap) ? half : "";
}
