/* Ids, paths, capabilities and secrets of a call. */
#include "arguments.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "dir.h"
#include "mem.h"

/* --- ids and names ---------------------------------------------------------------------------- */

static bool has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return true;
    return false;
}

enum rpc_code check_name(const char *what, const char *name, struct err *err)
{
    if (!*name)
        return rpc_fail(err, RPC_INVALID_ARGUMENT, "%s: missing", what);
    if (strlen(name) > ID_MAX)
        return rpc_fail(err, RPC_INVALID_ARGUMENT, "%s: %zu bytes long (at most %d)", what,
                        strlen(name), ID_MAX);
    if (has_control(name))
        return rpc_fail(err, RPC_INVALID_ARGUMENT, "%s: has a control character in it", what);
    return RPC_OK;
}

enum rpc_code check_id(const char *what, const char *id, struct err *err)
{
    enum rpc_code code = check_name(what, id, err);
    if (code)
        return code;
    if (strchr(id, '/') || name_is_dots(id))
        return rpc_fail(
            err, RPC_INVALID_ARGUMENT,
            "%s: %s: not a volume of this driver: an id has no '/' and is not a folder's "
            "name",
            what, id);
    return RPC_OK;
}

/* --- paths ------------------------------------------------------------------------------------ */

static bool has_dots(const char *path)
{
    for (const char *p = path; (p = strchr(p, '/')); p++)
        if (part_is_dots(p + 1, strcspn(p + 1, "/")))
            return true;
    return false;
}

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    return strncmp(path, folder, n) == 0 && (n == 1 || path[n] == '/');
}

bool path_is_in(const char *path, const char *folder)
{
    cleanup_free char *inside = xasprintf("%s/", path);
    return !has_dots(path) && is_below(inside, folder);
}

/* Links on the way must not lead out of the folder: the nearest part that exists tells. */
static bool leads_out(const char *path, const char *folder)
{
    char real[PATH_MAX], top[PATH_MAX];
    cleanup_free char *part = xstrdup(path);
    if (!realpath(folder, top))
        return false;
    for (char *slash; (slash = strrchr(part, '/')) && slash != part;) {
        *slash = '\0';
        if (realpath(part, real))
            return strcmp(real, top) != 0 && !is_below(real, top);
        if (errno != ENOENT)
            return true;
    }
    return false;
}

static enum rpc_code check_last_part(const char *what, const char *path, struct err *err)
{
    struct statx st;
    /* What the kernel knows: a mount whose server hangs is not to keep us. An error: it is not
     * there yet; or a mount whose server is gone, which is a folder. */
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
              STATX_TYPE, &st))
        return RPC_OK;
    if (S_ISLNK(st.stx_mode))
        return rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "%s: %s: a symbolic link: it is not followed (remove it)", what, path);
    if (!S_ISDIR(st.stx_mode))
        return rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "%s: %s: a file stands there, want a folder or nothing (remove it)", what,
                        path);
    return RPC_OK;
}

enum rpc_code check_path(const char *what, const char *path, const char *folder, struct err *err)
{
    if (!*path)
        return rpc_fail(err, RPC_INVALID_ARGUMENT, "%s: missing", what);
    if (path[0] != '/' || !path[1])
        return rpc_fail(err, RPC_INVALID_ARGUMENT, "%s: %s: want an absolute path of a folder",
                        what, path);
    if (strlen(path) >= PATH_MAX || has_control(path))
        return rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "%s: too long, or with a control character in it", what);
    if (has_dots(path))
        return rpc_fail(err, RPC_INVALID_ARGUMENT, "%s: %s: has \".\" or \"..\" in it", what, path);
    if (*folder && (!is_below(path, folder) || leads_out(path, folder)))
        return rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "%s: %s: outside kubelet's folder %s (the plugin's --kubelet-dir)", what,
                        path, folder);
    return check_last_part(what, path, err);
}

/* --- capabilities ----------------------------------------------------------------------------- */

static enum rpc_code check_mode(int mode, struct capability *ret, struct err *err)
{
    switch (mode) {
    case CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_READER_ONLY:
    case CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__MULTI_NODE_READER_ONLY:
        ret->reader_only = true;
        return RPC_OK;
    case CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_SINGLE_WRITER:
        ret->single_writer = true;
        return RPC_OK;
    case CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_WRITER:
    case CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__MULTI_NODE_SINGLE_WRITER:
    case CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__MULTI_NODE_MULTI_WRITER:
    case CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_MULTI_WRITER:
        return RPC_OK;
    default:
        return rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "volume_capability: access mode %d: missing or unknown", mode);
    }
}

static enum rpc_code check_group(const char *group, int64_t *ret, struct err *err)
{
    *ret = -1;
    if (!*group)
        return RPC_OK;
    char *end;
    errno = 0;
    unsigned long long n = strtoull(group, &end, 10);
    if (!isdigit((unsigned char)*group) || *end || errno || n >= UINT32_MAX)
        return rpc_fail(err, RPC_INVALID_ARGUMENT, "volume_mount_group: %s: want a group's number",
                        group);
    *ret = (int64_t)n;
    return RPC_OK;
}

enum rpc_code check_capability(const PB(VolumeCapability) * c, struct capability *ret,
                               struct err *err)
{
    *ret = (struct capability){.gid = -1};
    if (!c)
        return rpc_fail(err, RPC_INVALID_ARGUMENT, "volume_capability: missing");
    if (c->block)
        return rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "volume_capability: block: a set of samples is a folder, not a device (use "
                        "volumeMode: Filesystem)");
    if (!c->mount)
        return rpc_fail(err, RPC_INVALID_ARGUMENT, "volume_capability: neither mount nor block");
    if (!c->access_mode)
        return rpc_fail(err, RPC_INVALID_ARGUMENT, "volume_capability: access_mode: missing");
    const char *type = c->mount->fs_type;
    if (*type && strcmp(type, "sampan") != 0 && strcmp(type, "fuse.sampan") != 0 &&
        strcmp(type, "fuse") != 0)
        return rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "volume_capability: fs_type: %s: nothing is formatted here (leave fsType "
                        "out)",
                        type);
    enum rpc_code code = check_mode((int)c->access_mode->mode, ret, err);
    if (!code)
        code = check_group(c->mount->volume_mount_group, &ret->gid, err);
    ret->mount = c->mount;
    return code;
}

enum rpc_code check_capabilities(PB(VolumeCapability) *const *list, size_t n, struct err *err)
{
    struct capability ignored;
    enum rpc_code code = RPC_OK;
    if (!n)
        return rpc_fail(err, RPC_INVALID_ARGUMENT, "volume_capabilities: missing");
    for (size_t i = 0; i < n && !code; i++)
        code = check_capability(list[i], &ignored, err);
    return code;
}

const char *pair_get(PB(Pair) *const *pairs, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(pairs[i]->key, key) == 0)
            return pairs[i]->value;
    return NULL;
}

/* --- secrets ---------------------------------------------------------------------------------- */

enum part { PART_ACCESS, PART_SECRET, PART_TOKEN, PART_PEERS, PART_COUNT };
#define PARTS_OF_KEYS PART_PEERS
#define PART_KEYS     8

/* Without blanks, dashes and underscores, in lower case; the first of a row wins. */
static const char *const part_keys[PART_COUNT][PART_KEYS] = {
    [PART_ACCESS] = {"awsaccesskeyid", "bceaccesskeyid", "accesskeyid", "accesskey",
                     "minioaccesskey", "rootuser", "ak", "username"},
    [PART_SECRET] = {"awssecretaccesskey", "bcesecretaccesskey", "secretaccesskey", "secretkey",
                     "miniosecretkey", "rootpassword", "sk", "password"},
    [PART_TOKEN] = {"awssessiontoken", "bcesessiontoken", "sessiontoken", "securitytoken"},
    [PART_PEERS] = {"peertoken"},
};
static const char *const part_lines[PARTS_OF_KEYS] = {"aws_access_key_id", "aws_secret_access_key",
                                                      "aws_session_token"};

static bool key_is(const char *key, const char *plain)
{
    for (; *key; key++) {
        if (*key == '-' || *key == '_' || *key == '.' || *key == ' ')
            continue;
        if (tolower((unsigned char)*key) != *plain++)
            return false;
    }
    return !*plain;
}

static const PB(Pair) * find_part(PB(Pair) *const *secrets, size_t n, enum part part)
{
    for (size_t k = 0; k < PART_KEYS && part_keys[part][k]; k++)
        for (size_t i = 0; i < n; i++)
            if (key_is(secrets[i]->key, part_keys[part][k]))
                return secrets[i];
    return NULL;
}

static enum rpc_code check_secret(const PB(Pair) * p, struct err *err)
{
    if (!*p->value)
        return rpc_fail(err, RPC_INVALID_ARGUMENT, "secrets: %s: empty (fill it)", p->key);
    size_t n = strlen(p->value);
    while (n && (p->value[n - 1] == '\n' || p->value[n - 1] == '\r'))
        n--; /* as `echo KEY | base64` leaves it */
    p->value[n] = '\0';
    if (has_control(p->value))
        return rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "secrets: %s: has a line break or another control character in it", p->key);
    return RPC_OK;
}

static enum rpc_code write_keys(const PB(Pair) *const parts[PART_COUNT], const char *file,
                                struct bytes *ret, struct err *err)
{
    if (!parts[PART_ACCESS] && !parts[PART_SECRET]) {
        if (file && *file)
            bytes_add_str(ret, file);
        return RPC_OK;
    }
    for (int i = PART_ACCESS; i <= PART_SECRET; i++)
        if (!parts[i])
            return rpc_fail(err, RPC_UNAUTHENTICATED,
                            "secrets: half a credential: %s is there, the other half is missing "
                            "(want access-key and secret-key)",
                            parts[PART_ACCESS + PART_SECRET - i]->key);
    bytes_add_str(ret, "[default]\n");
    for (int i = 0; i < PARTS_OF_KEYS; i++) {
        if (!parts[i])
            continue;
        enum rpc_code code = check_secret(parts[i], err);
        if (code)
            return code;
        bytes_addf(ret, "%s = %s\n", part_lines[i], parts[i]->value);
    }
    return RPC_OK;
}

enum rpc_code secrets_read(PB(Pair) *const *pairs, size_t n, struct secrets *ret, struct err *err)
{
    const PB(Pair) * parts[PART_COUNT];
    for (int i = 0; i < PART_COUNT; i++)
        parts[i] = find_part(pairs, n, (enum part)i);
    enum rpc_code code = write_keys(parts, pair_get(pairs, n, "credentials"), &ret->keys, err);
    if (code || !parts[PART_PEERS])
        return code;
    code = check_secret(parts[PART_PEERS], err);
    if (!code)
        bytes_addf(&ret->token, "%s\n", parts[PART_PEERS]->value);
    return code;
}

void secrets_release(struct secrets *s)
{
    bytes_wipe(&s->keys);
    bytes_wipe(&s->token);
}

void secrets_forget_token(struct secrets *s)
{
    bytes_wipe(&s->token);
}
