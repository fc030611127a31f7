/* Which folder belongs to a set, and making and removing such folders. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cli-internal.h"
#include "device.h"
#include "dir.h"
#include "file.h"
#include "hash.h"
#include "mem.h"
#include "volume.h"

#define TIER_DEFAULT_BYTES (10ull << 30)
#define NAME_READABLE      48
#define CACHE_NEW_FILES    16 /* more than a cache begins with: folders, catalog, index, a pack */

/* --- the name of a set's folder --------------------------------------------------------------- */

char *owner_name(const char *uri, const void *identity, size_t len)
{
    struct bytes name = {0};
    bool dash = true; /* no dash at the start, no two in a row */
    for (; *uri && name.len < NAME_READABLE; uri++) {
        bool plain = isalnum((unsigned char)*uri) || *uri == '.' || *uri == '_';
        if (plain)
            bytes_add_char(&name, (char)tolower((unsigned char)*uri));
        else if (!dash)
            bytes_add_char(&name, '-');
        dash = !plain;
    }
    while (name.len && name.data[name.len - 1] == '-')
        name.data[--name.len] = '\0';
    bytes_addf(&name, "%s%016llx", name.len ? "-" : "",
               (unsigned long long)hash64(identity, len, 0));
    return bytes_take(&name);
}

static int add_identity(struct bytes *identity, struct bytes *first_uri, const char *uri,
                        const char *at, const struct store_conf *conf, struct err *err)
{
    struct store *store;
    if (store_open(&store, uri, conf, err))
        return -1;
    if (!first_uri->len)
        bytes_add_str(first_uri, store_uri(store));
    bytes_addf(identity, "%s %s ", at, store_uri(store));
    store_identity(store, identity);
    bytes_add_char(identity, '\n');
    store_close(store);
    return 0;
}

/* The sources' URIs, endpoints and credentials; the same whether named by URI or by catalog file.
 */
static int set_identity(const char *arg, const struct store_conf *conf, struct bytes *identity,
                        struct bytes *uri, struct err *err)
{
    int result = 0;
    struct set set;
    if (volume_sources(&set, arg, err))
        return -1;
    for (size_t i = 0; i < set.n && !result; i++)
        result = add_identity(identity, uri, set.sources[i].uri, set.sources[i].at, conf, err);
    set_release(&set);
    return result;
}

/* --- the folders ------------------------------------------------------------------------------ */

int owner_base(const char *asked, struct bytes *ret, struct err *err)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (asked)
        bytes_add_str(ret, asked);
    else if (geteuid() == 0)
        bytes_add_str(ret, "/var/cache/sampan");
    else if (xdg && xdg[0] == '/')
        bytes_addf(ret, "%s/sampan", xdg);
    else if (home && home[0] == '/')
        bytes_addf(ret, "%s/.cache/sampan", home);
    else
        return err_set(err, ERR_USAGE,
                       "no cache folder: HOME is not set (give --cache or "
                       "--cache-dir)");
    return 0;
}

char *path_absolute(const char *path)
{
    char cwd[PATH_MAX];
    if (!*path || path[0] == '/' || !getcwd(cwd, sizeof cwd))
        return xstrdup(path); /* an empty name is none: not this folder's */
    return xasprintf("%s/%s", cwd, path);
}

char *real_folder(const char *path)
{
    char *real = realpath(path, NULL);
    return real ? real : path_absolute(path);
}

static int parse_tiers(struct owner *o, const struct conf_list *list, struct err *err)
{
    if (list->n > CACHE_MAX_TIERS)
        return err_set(err, ERR_USAGE, "--cache: %zu tiers, at most %d can be had", list->n,
                       CACHE_MAX_TIERS);
    for (size_t i = 0; i < list->n; i++) {
        struct tier_conf *tier = &o->tiers[i];
        if (tier_conf_parse(tier, list->items[i], err))
            return err_wrap(err, "--cache");
        o->n_tiers++;
        char *dir = path_absolute(tier->dir);
        free((char *)(uintptr_t)tier->dir);
        tier->dir = dir;
    }
    return 0;
}

int owner_resolve(struct owner *ret, const char *set, const struct set_options *o,
                  const struct store_conf *store, struct err *err)
{
    *ret = (struct owner){.for_outputs = ret->for_outputs};
    if (free_space_of(o->free_space, &ret->free_fraction, &ret->free_bytes, err) ||
        parse_tiers(ret, &o->cache, err))
        return -1;
    for (size_t i = 0; i < ret->n_tiers && !ret->dir; i++)
        if (ret->tiers[i].kind != TIER_MEM)
            ret->dir = xstrdup(ret->tiers[i].dir);
    if (ret->dir)
        return 0;
    cleanup_bytes struct bytes base = {0}, identity = {0}, uri = {0};
    if (owner_base(o->cache_dir, &base, err) || set_identity(set, store, &identity, &uri, err))
        return -1;
    cleanup_free char *top = path_absolute(base.data ? base.data : "/");
    cleanup_free char *name =
        owner_name(uri.data ? uri.data : "set", identity.data ? identity.data : "", identity.len);
    ret->dir = xasprintf("%s/%s%s", top, name, ret->for_outputs ? "-writable" : "");
    if (ret->n_tiers == 0) {
        ret->tiers[0] = (struct tier_conf){
            .kind = TIER_SSD, .dir = xstrdup(ret->dir), .limit = TIER_DEFAULT_BYTES};
        ret->n_tiers = 1;
    }
    return 0;
}

int owner_given(struct owner *ret, const char *dir, const struct set_options *o, struct err *err)
{
    *ret = (struct owner){0};
    if (free_space_of(o->free_space, &ret->free_fraction, &ret->free_bytes, err) ||
        parse_tiers(ret, &o->cache, err))
        return -1;
    ret->dir = xstrdup(dir);
    return 0;
}

void owner_release(struct owner *o)
{
    for (size_t i = 0; i < o->n_tiers; i++)
        free((char *)(uintptr_t)o->tiers[i].dir);
    for (size_t i = 0; i < o->n_made; i++)
        free(o->made[i]);
    for (size_t i = 0; i < o->n_locks; i++)
        close(o->locks[i].fd);
    free(o->made);
    free(o->dir);
    *o = (struct owner){0};
}

void owner_to_volume(const struct owner *o, struct volume_conf *ret)
{
    ret->dir = o->dir;
    memcpy(ret->tiers, o->tiers, sizeof ret->tiers);
    ret->n_tiers = o->n_tiers;
    ret->free_fraction = o->free_fraction;
    ret->free_bytes = o->free_bytes;
}

/* --- making and removing ---------------------------------------------------------------------- */

static void note_made(struct owner *o, const char *path)
{
    o->made = xrealloc(o->made, (o->n_made + 1) * sizeof *o->made);
    o->made[o->n_made++] = xstrdup(path);
}

/* mkdir -p; what is new is private to its owner. */
static int make_path(struct owner *o, const char *path, struct err *err)
{
    cleanup_free char *part = xstrdup(path);
    for (char *p = part + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char end = *p;
        *p = '\0';
        if (mkdir(part, 0700) == 0)
            note_made(o, part);
        else if (errno != EEXIST && (!end || errno != EROFS))
            return err_set(err, errno == ENOSPC ? ERR_LIMIT : ERR_DENIED,
                           "make the cache folder %s: %s (give another one with --cache)", part,
                           strerror(errno));
        *p = end;
        if (!end)
            break;
    }
    struct stat st;
    if (stat(path, &st))
        return err_sys(err, errno, "look at the cache folder %s", path);
    if (!S_ISDIR(st.st_mode))
        return err_sys(err, ENOTDIR, "use the cache folder %s", path);
    if (access(path, R_OK | W_OK | X_OK))
        return err_sys(err, errno, "write to the cache folder %s", path);
    return 0;
}

static bool is_empty(const char *dir)
{
    cleanup_dir DIR *d = dir_open(AT_FDCWD, dir, 0);
    return d && !dir_next(d) && !errno;
}

/* The folder or, as long as it is not there, the nearest one above it. */
static int open_above(const char *dir)
{
    cleanup_free char *path = xstrdup(dir);
    for (;;) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        char *slash = strrchr(path, '/');
        if (fd >= 0 || errno != ENOENT || !slash || slash == path)
            return fd >= 0 ? fd : open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        *slash = '\0';
    }
}

bool owner_few_inodes(const char *dir, uint64_t *ret_left)
{
    uint64_t want = is_empty(dir) || access(dir, F_OK) ? CACHE_NEW_FILES : 1;
    cleanup_close int fd = open_above(dir);
    return fd >= 0 && file_few_inodes(fd, want, ret_left);
}

/* Else some file of many can't be made, at any point, for want of "space" on a disk that has it. */
static int check_inodes(const struct owner *o, struct err *err)
{
    for (size_t i = 0; i <= o->n_tiers; i++) {
        const char *dir = i ? o->tiers[i - 1].dir : o->dir;
        uint64_t left;
        if (owner_few_inodes(dir, &left))
            return err_set(err, ERR_LIMIT,
                           "%s: its file system has room for %llu more files, whatever bytes are "
                           "free (see df -i; remove files there, or give another folder with "
                           "--cache)",
                           dir, (unsigned long long)left);
    }
    return 0;
}

int owner_make(struct owner *o, struct err *err)
{
    int result = check_inodes(o, err) || make_path(o, o->dir, err) ? -1 : 0;
    for (size_t i = 0; i < o->n_tiers && !result; i++)
        result = make_path(o, o->tiers[i].dir, err);
    if (result)
        return err_wrap(err, "%s", "cache");
    o->was_empty[0] = is_empty(o->dir);
    for (size_t i = 0; i < o->n_tiers; i++)
        o->was_empty[i + 1] = is_empty(o->tiers[i].dir);
    return 0;
}

void owner_made_text(const struct owner *o, struct bytes *ret)
{
    bytes_add(ret, "", 0);
    for (size_t i = 0; i < o->n_made; i++)
        bytes_addf(ret, "%s\n", o->made[i]);
}

void owner_made_parse(struct owner *o, const char *text)
{
    for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
        cleanup_free char *path = xstrndup(text, (size_t)(end - text));
        note_made(o, path);
    }
}

static void remove_below(int fd); /* closes fd */

/* Never follows a link and never leaves the file system tree below `name`. */
static void remove_tree(int at, const char *name)
{
    if (unlinkat(at, name, 0) == 0)
        return;
    remove_below(openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    unlinkat(at, name, AT_REMOVEDIR);
}

static void remove_below(int fd)
{
    cleanup_dir DIR *d = dir_of(fd);
    for (const struct dirent *e; d && (e = dir_next(d));)
        remove_tree(dirfd(d), e->d_name);
}

void owner_unmake(struct owner *o)
{
    for (size_t i = 0; i < o->n_locks; i++)
        if (o->locks[i].was_empty)
            remove_below(openat(o->locks[i].fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    /* Folders on the way may have become another set's way meanwhile: only empty ones go. */
    for (size_t i = o->n_made; i-- > 0;)
        rmdir(o->made[i]);
}

/* Whoever was to serve is gone without a word. If somebody else has taken a folder since, it is
 * theirs. */
void owner_clean(struct owner *o)
{
    for (size_t i = 0; i <= o->n_tiers; i++) {
        int fd = o->was_empty[i]
                     ? open(i ? o->tiers[i - 1].dir : o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                     : -1;
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            remove_below(fd);
        else if (fd >= 0)
            close(fd);
    }
    owner_unmake(o);
}

/* --- the lock --------------------------------------------------------------------------------- */

/* Who holds the lock on this folder, as the kernel's list of locks says; 0 if that can't be told. A
 * line: "1: FLOCK  ADVISORY  WRITE 123 08:01:4567 0 EOF". */
static int holder_of(int fd)
{
    struct stat st;
    cleanup_file FILE *f = fopen("/proc/locks", "re");
    if (!f || fstat(fd, &st))
        return 0;
    char line[256], where[96];
    snprintf(where, sizeof where, " %02x:%02x:%llu ", major(st.st_dev), minor(st.st_dev),
             (unsigned long long)st.st_ino);
    while (fgets(line, sizeof line, f)) {
        char *end = strstr(line, where);
        if (!end || !strstr(line, "FLOCK"))
            continue;
        *end = '\0';
        const char *pid = strrchr(line, ' ');
        return pid ? (int)strtol(pid, NULL, 10) : 0;
    }
    return 0;
}

static int lock_folder(struct owner *o, const char *dir, bool own, struct err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open the cache folder %s", dir);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        o->locks[o->n_locks++] = (struct owner_lock){.fd = fd, .was_empty = is_empty(dir)};
        size_t n = strlen(dir);
        bool around = !own && strncmp(dir, o->dir, n) == 0 && o->dir[n] == '/';
        return around ? 0 : cache_folder_check(dir, fd, own, err);
    }
    int why = errno, pid = holder_of(fd);
    close(fd);
    if (why != EWOULDBLOCK)
        return 0; /* a file system without such locks: the cache's own one has to do */
    char who[32] = "another process";
    if (pid > 0)
        snprintf(who, sizeof who, "process %d", pid);
    return err_set(err, ERR_LIMIT,
                   MOUNT_SAYS_IN_USE ": %s: by %s (each mount needs a folder of its own: give "
                                     "another one with --cache, or end that mount)",
                   dir, who);
}

bool owner_in_use(const char *dir)
{
    cleanup_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
}

int owner_lock(struct owner *o, struct err *err)
{
    if (lock_folder(o, o->dir, true, err))
        return -1;
    for (size_t i = 0; i < o->n_tiers; i++) {
        bool again = strcmp(o->tiers[i].dir, o->dir) == 0;
        for (size_t k = 0; k < i; k++)
            again = again || strcmp(o->tiers[i].dir, o->tiers[k].dir) == 0;
        if (!again && lock_folder(o, o->tiers[i].dir, false, err))
            return -1;
    }
    return 0;
}
