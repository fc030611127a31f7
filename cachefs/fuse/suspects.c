/*
 * Requests that kill: what the keeper counted against them at the deaths of earlier lives, and what
 * follows from it (keeper's state.h). Pure: works on the keeper's table alone.
 */
#include <string.h>

#include "suspects-internal.h"

static uint64_t offset_of(const struct wire_in_header *h)
{
    const struct wire_read_in *in = (const void *)(h + 1);

    return h->opcode == WIRE_READ && h->len >= sizeof(*h) + sizeof(*in) ? in->offset : 0;
}

struct keeper_suspect *suspects_find(struct keeper_part *kept, const struct wire_in_header *h)
{
    uint64_t offset = offset_of(h);

    for (size_t i = 0; i < KEEPER_SUSPECTS; i++) {
        struct keeper_suspect *s = &kept->suspects[i];

        if (s->opcode == h->opcode && s->nodeid == h->nodeid && s->offset == offset)
            return s;
    }
    return NULL;
}

bool suspects_any(const struct keeper_part *kept)
{
    for (size_t i = 0; i < KEEPER_SUSPECTS; i++)
        if (kept->suspects[i].opcode)
            return true;
    return false;
}

bool suspects_open(const struct keeper_part *kept)
{
    for (size_t i = 0; i < KEEPER_SUSPECTS; i++)
        if (kept->suspects[i].opcode && !suspect_is_guilty(&kept->suspects[i]))
            return true;
    return false;
}

void suspects_absolve(struct keeper_suspect *s)
{
    if (!suspect_is_guilty(s))
        s->opcode = 0;
}

void suspects_absolve_all(struct keeper_part *kept)
{
    for (size_t i = 0; i < KEEPER_SUSPECTS; i++)
        suspects_absolve(&kept->suspects[i]);
}

const char *wire_op_name(uint32_t opcode)
{
    static const char *const names[] = {
        [1] = "lookup",       [2] = "forget",     [3] = "getattr",     [5] = "readlink",
        [14] = "open",        [15] = "read",      [17] = "statfs",     [18] = "release",
        [22] = "getxattr",    [23] = "listxattr", [25] = "flush",      [26] = "init",
        [27] = "opendir",     [28] = "readdir",   [29] = "releasedir", [34] = "access",
        [36] = "interrupt",   [38] = "destroy",   [39] = "ioctl",      [42] = "batch_forget",
        [44] = "readdirplus", [46] = "lseek",     [52] = "statx",
    };
    const char *name = opcode < sizeof(names) / sizeof(names[0]) ? names[opcode] : NULL;

    return name ? name : "other";
}
