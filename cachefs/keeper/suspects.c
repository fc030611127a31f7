/* What the keeper counted against requests at the deaths of earlier lives, and what follows. */
#include "suspects.h"

static uint32_t opcode_of(const struct keeper_suspect *s)
{
    return __atomic_load_n(&s->opcode, __ATOMIC_RELAXED);
}

struct keeper_suspect *suspects_find(struct keeper_part *kept, const struct keeper_request *r)
{
    uint64_t place = keeper_place(r);

    for (size_t i = 0; i < KEEPER_SUSPECTS; i++) {
        struct keeper_suspect *s = &kept->suspects[i];

        if (opcode_of(s) == r->opcode && s->nodeid == r->nodeid && s->offset == place)
            return s;
    }
    return NULL;
}

bool suspects_any(const struct keeper_part *kept)
{
    for (size_t i = 0; i < KEEPER_SUSPECTS; i++)
        if (opcode_of(&kept->suspects[i]))
            return true;
    return false;
}

bool suspects_open(const struct keeper_part *kept)
{
    for (size_t i = 0; i < KEEPER_SUSPECTS; i++)
        if (opcode_of(&kept->suspects[i]) && !suspect_is_guilty(&kept->suspects[i]))
            return true;
    return false;
}

void suspects_absolve(struct keeper_suspect *s)
{
    if (s && !suspect_is_guilty(s))
        __atomic_store_n(&s->opcode, 0, __ATOMIC_RELAXED);
}

void suspects_absolve_all(struct keeper_part *kept)
{
    for (size_t i = 0; i < KEEPER_SUSPECTS; i++)
        suspects_absolve(&kept->suspects[i]);
}

void suspects_status(const struct keeper_part *kept,
                     void (*path_of)(void *arg, uint64_t ino, struct bytes *ret), void *arg,
                     struct json_writer *w)
{
    jw_array(w, "poisoned");
    for (size_t i = 0; i < KEEPER_SUSPECTS; i++) {
        const struct keeper_suspect *s = &kept->suspects[i];
        cleanup_bytes struct bytes path = {0};
        uint32_t opcode = opcode_of(s);

        if (!opcode || !suspect_is_guilty(s))
            continue;
        path_of(arg, s->nodeid, &path);
        jw_object(w, NULL);
        jw_strn(w, "path", path.data ? path.data : "", path.len);
        jw_uint(w, "id", s->nodeid);
        jw_str(w, "op", suspect_op_name(opcode));
        jw_uint(w, "offset", keeper_has_offset(opcode) ? s->offset : 0);
        jw_uint(w, "deaths", s->deaths);
        jw_end(w);
    }
    jw_end(w);
}

const char *suspect_op_name(uint32_t opcode)
{
    static const char *const names[] = {
        [1] = "lookup",      [2] = "forget",       [3] = "getattr",   [4] = "setattr",
        [5] = "readlink",    [6] = "symlink",      [8] = "mknod",     [9] = "mkdir",
        [10] = "unlink",     [11] = "rmdir",       [12] = "rename",   [13] = "link",
        [14] = "open",       [15] = "read",        [16] = "write",    [17] = "statfs",
        [18] = "release",    [20] = "fsync",       [22] = "getxattr", [23] = "listxattr",
        [25] = "flush",      [26] = "init",        [27] = "opendir",  [28] = "readdir",
        [29] = "releasedir", [30] = "fsyncdir",    [34] = "access",   [35] = "create",
        [36] = "interrupt",  [38] = "destroy",     [39] = "ioctl",    [42] = "batch_forget",
        [43] = "fallocate",  [44] = "readdirplus", [45] = "rename",   [46] = "lseek",
        [52] = "statx",
    };
    const char *name = opcode < sizeof(names) / sizeof(names[0]) ? names[opcode] : NULL;

    return name ? name : "other";
}
