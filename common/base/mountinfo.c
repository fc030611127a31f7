/* The kernel's table of mounts. */
#include "mountinfo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "mem.h"

/* Copies one blank-ended field and undoes the kernel's \040 escapes. NULL: the field is missing or
 * does not fit. */
static const char *take_field(const char *at, char *out, size_t size)
{
    size_t n = 0;

    while (*at == ' ')
        at++;
    if (!*at || *at == '\n')
        return NULL;
    while (*at && *at != ' ' && *at != '\n') {
        int c = (unsigned char)*at++;

        if (c == '\\' && at[0] >= '0' && at[0] <= '3' && at[1] >= '0' && at[1] <= '7' &&
            at[2] >= '0' && at[2] <= '7') {
            c = (at[0] - '0') * 64 + (at[1] - '0') * 8 + (at[2] - '0');
            at += 3;
        }
        if (n + 1 >= size)
            return NULL;
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return at;
}

/* "rw,user_id=1000,group_id=1000,…" */
static unsigned take_user(const char *options)
{
    static const char key[] = "user_id=";
    const char *at = strstr(options, key);

    return at ? (unsigned)strtoul(at + sizeof(key) - 1, NULL, 10) : 0;
}

bool mountinfo_line(const char *line, struct mount_row *ret)
{
    char skipped[4096];
    char device[32];
    const char *at = line;

    /* id parent major:minor root mountpoint options [optional…] - type source options */
    if (!(at = take_field(at, skipped, sizeof(skipped))) ||
        !(at = take_field(at, skipped, sizeof(skipped))) ||
        !(at = take_field(at, device, sizeof(device))) ||
        !(at = take_field(at, skipped, sizeof(skipped))) ||
        !(at = take_field(at, ret->mountpoint, sizeof(ret->mountpoint))))
        return false;
    if (sscanf(device, "%u:%u", &ret->major, &ret->minor) != 2)
        return false;
    do {
        at = take_field(at, skipped, sizeof(skipped));
    } while (at && strcmp(skipped, "-") != 0);
    if (!at || !(at = take_field(at, ret->type, sizeof(ret->type))) ||
        !(at = take_field(at, ret->source, sizeof(ret->source))))
        return false;
    ret->user = take_field(at, skipped, sizeof(skipped)) ? take_user(skipped) : 0;
    return true;
}

int mount_each(mount_row_fn *fn, void *arg, struct err *err)
{
    cleanup_file FILE *f = fopen("/proc/self/mountinfo", "re");
    cleanup_free char *line = NULL;
    cleanup_free struct mount_row *row = xmalloc(sizeof(*row));
    size_t size = 0;

    if (!f)
        return err_sys(err, errno, "read /proc/self/mountinfo");
    while (getline(&line, &size, f) > 0)
        if (mountinfo_line(line, row))
            fn(arg, row);
    return 0;
}

struct search {
    const char *path;
    struct mount_row *ret;
    bool found;
};

static void look_at(void *arg, const struct mount_row *row)
{
    struct search *s = arg;

    if (strcmp(row->mountpoint, s->path) != 0)
        return;
    *s->ret = *row; /* a later line covers an earlier one */
    s->found = true;
}

int mount_find(const char *path, struct mount_row *ret, struct err *err)
{
    struct search s = {.path = path, .ret = ret};

    if (mount_each(look_at, &s, err) < 0)
        return -1;
    if (!s.found)
        return err_set(err, ERR_NOT_FOUND, "%s: nothing is mounted there", path);
    return 0;
}
