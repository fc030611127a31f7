/*
 * Pages of packs behind a reader. What was answered is in the kernel's page cache a second time, as
 * the reader's own pages. A set that fits several times does not care; a larger one would push its
 * own samples out with their copies. So once the cached set exceeds a third of the memory that is
 * ours, pages of packs are given back as soon as their bytes were answered.
 */
#include "cache-internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "mem.h"

#define TEXT_MAX 8192

uint64_t behind_available(const char *meminfo)
{
    const char *line = strstr(meminfo, "MemAvailable:");
    uint64_t kib;
    if (!line || sscanf(line, "MemAvailable: %" SCNu64, &kib) != 1)
        return UINT64_MAX;
    return kib << 10;
}

uint64_t behind_limit(const char *text)
{
    uint64_t bytes;
    return sscanf(text, "%" SCNu64, &bytes) == 1 ? bytes : UINT64_MAX; /* "max": none */
}

uint64_t behind_threshold(uint64_t available, uint64_t limit)
{
    uint64_t ours = available < limit ? available : limit;
    return ours == UINT64_MAX ? UINT64_MAX : ours / 3;
}

/* "" if it can't be read. */
static const char *read_text(const char *path, char text[TEXT_MAX])
{
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, TEXT_MAX - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    return text;
}

/* The smallest limit from a control group up to the root of its tree. */
static uint64_t limit_upwards(const char *root, const char *group, const char *file)
{
    char path[TEXT_MAX + 256], text[TEXT_MAX];
    uint64_t least = UINT64_MAX;
    cleanup_free char *at = xstrdup(group);
    for (;;) {
        snprintf(path, sizeof path, "%s%s/%s", root, at, file);
        uint64_t limit = behind_limit(read_text(path, text));
        least = limit < least ? limit : least;
        char *cut = strrchr(at, '/');
        if (!cut)
            return least;
        *cut = '\0';
    }
}

static uint64_t group_limit(void)
{
    char text[TEXT_MAX], *rest = NULL;
    uint64_t least = UINT64_MAX, limit = UINT64_MAX;
    read_text("/proc/self/cgroup", text);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *group = strrchr(line, ':');
        if (strncmp(line, "0::", 3) == 0)
            limit = limit_upwards("/sys/fs/cgroup", line + 3, "memory.max");
        else if (group && strstr(line, ":memory:"))
            limit = limit_upwards("/sys/fs/cgroup/memory", group + 1, "memory.limit_in_bytes");
        least = limit < least ? limit : least;
    }
    return least;
}

uint64_t behind_measure(void)
{
    char text[TEXT_MAX];
    return behind_threshold(behind_available(read_text("/proc/meminfo", text)), group_limit());
}

bool behind_needed(const struct cache *c)
{
    return atomic_load_explicit(&c->bytes, memory_order_relaxed) > c->behind_above;
}

void behind_drop(const struct tier *t, const void *at, size_t len)
{
    if (t->kind == TIER_MEM || !behind_needed(t->c))
        return;
    /* Whole pages only: the others hold a part of a neighbour. Pages that were written a moment ago
     * stay; so do all of them where the kernel knows no such advice. */
    uintptr_t from = ((uintptr_t)at + 4095) & ~(uintptr_t)4095;
    uintptr_t to = ((uintptr_t)at + len) & ~(uintptr_t)4095;
    if (from < to)
        madvise((void *)from, to - from, MADV_PAGEOUT);
}
