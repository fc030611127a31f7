/* Which mount is meant, and what in it: the words of a command that name mounts and paths. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli-internal.h"
#include "device.h"
#include "dir.h"
#include "mem.h"
#include "program.h"

int mount_path(const char *path, char **ret, struct err *err)
{
    char real[4096];
    if (mount_real_path(path, real, err))
        return -1;
    *ret = xstrdup(real);
    return 0;
}

/* What of `path` is below the mount, "" for its root; NULL: it is elsewhere. */
static const char *below_mount(const struct control_mount *m, const char *path)
{
    size_t len = strlen(m->mountpoint);
    if (!len || strncmp(path, m->mountpoint, len) != 0 || (path[len] != '/' && path[len]))
        return NULL;
    return path[len] ? path + len + 1 : path + len;
}

static int not_mount_point(const struct control_mount *m, const char *path, struct err *err)
{
    return err_set(err, ERR_NOT_FOUND,
                   "%s: not a mount point (it lies in the mount %s: name that, if all of it is "
                   "meant)",
                   path, m->mountpoint);
}

int mount_of(const char *path, struct control_mount *ret, char **ret_below, struct err *err)
{
    cleanup_free char *real = NULL;
    cleanup_mount struct control_mount m = {0};
    if (mount_path(path, &real, err) || control_find(real, &m, err))
        return -1;
    const char *below = below_mount(&m, real);
    below = below ? below : ""; /* the root, seen elsewhere */
    if (!ret_below && *below)
        return not_mount_point(&m, path, err);
    if (!m.alive) {
        cleanup_free char *at = shell_word(m.mountpoint);
        err_set(err, ERR_FAILED,
                "ask the mount: %s: its processes have ended (sampan mount, with the options it "
                "had, heals it; sampan umount %s ends it)",
                m.mountpoint, at);
        return -1;
    }
    if (ret_below)
        *ret_below = xstrdup(below);
    *ret = m;
    m = (struct control_mount){0};
    return 0;
}

int mount_of_set(const char *set, struct control_mount *ret, struct err *err)
{
    cleanup_mount struct control_mount m = {0};
    cleanup_free char *below = NULL;
    struct err why = {0};
    struct stat st;
    if (strstr(set, "://"))
        return 0;
    if (mount_of(set, &m, &below, &why)) {
        if (why.class == ERR_NOT_FOUND)
            return 0;
        *err = why;
        return -1;
    }
    if (*below)
        return stat(set, &st) == 0 && S_ISREG(st.st_mode) ? 0 : not_mount_point(&m, set, err);
    *ret = m;
    m = (struct control_mount){0};
    return 1;
}

/* "a//./b/" is "a/b". */
static char *clean_name(const char *path)
{
    cleanup_bytes struct bytes out = {0};
    bytes_add(&out, "", 0);
    for (size_t len; *path; path += len + (path[len] == '/')) {
        len = strcspn(path, "/");
        if (len == 0 || (len == 1 && *path == '.'))
            continue;
        if (out.len)
            bytes_add_char(&out, '/');
        bytes_add(&out, path, len);
    }
    return xstrdup(out.data);
}

/* The absolute path without links and "..", which may name what is not there: of that only the
 * start that is there is looked up. NULL: ".." leads out of what is not there. */
static char *real_path(const char *path)
{
    cleanup_free char *start = xstrdup(path);
    for (char *slash = start + strlen(start);;) {
        cleanup_free char *real = realpath(start, NULL);
        const char *rest = path + (slash - start);
        if (real)
            return path_leads_up(rest) ? NULL
                                       : xasprintf("%s%s", strcmp(real, "/") ? real : "", rest);
        *slash = '\0';
        slash = strrchr(start, '/');
        if (!slash || slash == start)
            return path_leads_up(path) ? NULL : xstrdup(path);
        *slash = '\0';
    }
}

/* What of this absolute path is below the mount, however it leads there; NULL: it does not. */
static char *below_really(const struct control_mount *m, const char *path)
{
    const char *below = below_mount(m, path);
    cleanup_free char *real = below && !path_leads_up(below) ? NULL : real_path(path);
    if (real)
        below = below_mount(m, real);
    return below && !path_leads_up(below) ? clean_name(below) : NULL;
}

/* A shell completes names from the folder where it is: one that leads into the mount from there is
 * taken so, unless the mount has it itself (which has no name with ".." in it). NULL: it is no such
 * name. */
static char *below_from_here(const struct control_mount *m, const char *path)
{
    cleanup_free char *first = xstrndup(path, strcspn(path, "/"));
    cleanup_free char *here = access(first, F_OK) ? NULL : getcwd(NULL, 0);
    if (!here)
        return NULL;
    cleanup_free char *whole = xasprintf("%s/%s", strcmp(here, "/") == 0 ? "" : here, path);
    cleanup_free char *inside = xasprintf("%s/%s", m->mountpoint, path);
    if (!path_leads_up(path) && (access(inside, F_OK) == 0 || errno != ENOENT))
        return NULL;
    return below_really(m, whole);
}

int path_in_mount(const struct control_mount *m, const char *path, char **ret, struct err *err)
{
    if (!*path)
        return err_set(err, ERR_USAGE, "\"\": an empty path (an unset variable?)");
    char *below = *path == '/' ? below_really(m, path) : below_from_here(m, path);
    if (!below && *path == '/' && !*m->mountpoint)
        return err_set(err, ERR_USAGE,
                       "%s: begins with / (of a set that is not mounted, name what it holds)",
                       path);
    if (!below && *path == '/')
        return err_set(err, ERR_USAGE, "%s: not below %s", path, m->mountpoint);
    *ret = below ? below : clean_name(path);
    return 0;
}

bool mount_by_folder(const char *dir, struct control_mount *ret)
{
    struct control_mount *mounts;
    size_t n;
    bool found = false;
    cleanup_free char *socket = xasprintf("%s/control.sock", dir);
    if (control_mounts(&mounts, &n, NULL))
        return false;
    for (size_t i = 0; i < n && !found; i++) {
        if (!mounts[i].alive || strcmp(mounts[i].socket, socket) != 0)
            continue;
        *ret = mounts[i];
        mounts[i] = (struct control_mount){0};
        found = true;
    }
    control_mounts_free(mounts, n);
    return found;
}
