/*
 * From a finished plan to the current version of a set's catalog folder:
 *
 *   DIGEST.catalog   a version, never written again
 *   current          a link to one of them, switched by rename
 *   pinned           a link to the one that is to be served instead, if any
 *   told             of a folder whose versions come from another machine: the one that is
 *                    current there
 *   named            a link to the one whose units a cache was last told of; it may be gone
 *   next-id          text: ids from here on were never in any version
 *   .build-PID-…     a version being written; of a process that died: rubbish
 *
 * A kill at any point leaves `current` as it was or switched. next-id is made durable before the
 * version that uses the ids below it is there, so that no id is given twice even if versions
 * vanish.
 */
#include "build-internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "early.h"
#include "mem.h"

#define SUFFIX   ".catalog"
#define BUILDING ".build-"

/* --- files ----------------------------------------------------------------------------------- */

static int sync_path(const char *path, int flags, struct err *err)
{
    cleanup_close int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return err_sys(err, errno, "make %s durable", path);
    return 0;
}

static char *building_name(const char *dir, const char *what)
{
    return xasprintf("%s/" BUILDING "%d-%s", dir, (int)getpid(), what);
}

static int write_text(const char *path, const char *text, struct err *err)
{
    cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    size_t len = strlen(text);
    ssize_t wrote = fd < 0 ? -1 : write(fd, text, len);
    if (wrote >= 0 && wrote < (ssize_t)len)
        return err_sys(err, ENOSPC, "write %s", path);
    if (wrote < 0 || fsync(fd) < 0)
        return err_sys(err, errno, "write %s", path);
    return 0;
}

/* The new name is not there yet on failure, and the old one is gone in any case. */
static int rename_or_remove(const char *part, const char *path, struct err *err)
{
    if (rename(part, path) == 0)
        return 0;
    int why = errno;
    unlink(part);
    return err_sys(err, why, "write %s", path);
}

static int copy_bytes(const char *from, const char *to, bool durable, struct err *err)
{
    cleanup_close int in = open(from, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (in < 0 || fstat(in, &st) < 0)
        return err_sys(err, errno, "read %s", from);
    cleanup_close int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (out < 0)
        return err_sys(err, errno, "write %s", to);
    for (off_t at = 0; at < st.st_size;) {
        ssize_t n = sendfile(out, in, &at, (size_t)(st.st_size - at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(err, n < 0 ? errno : EIO, "write %s", to);
    }
    return durable && fsync(out) < 0 ? err_sys(err, errno, "write %s", to) : 0;
}

/* The file that `to` is or leads to: a rename there must replace nothing else. */
static int place_of_copy(const char *to, char **ret, struct err *err)
{
    struct stat st;
    if (lstat(to, &st) < 0 && errno == ENOENT) {
        *ret = xstrdup(to);
        return 0;
    }
    *ret = realpath(to, NULL);
    if (!*ret && errno == ENOENT)
        return err_set(
            err, ERR_USAGE,
            "%s is a link that leads nowhere: a catalog is written to a file, new or old", to);
    if (!*ret || stat(*ret, &st) < 0)
        return err_sys(err, errno, "write %s", to);
    if (S_ISREG(st.st_mode))
        return 0;
    free(take_ptr(ret));
    return err_set(err, ERR_USAGE, "%s is no file: a catalog is written to a file, new or old", to);
}

int catalog_may_copy_to(const char *to, struct err *err)
{
    cleanup_free char *place = NULL;
    return place_of_copy(to, &place, err);
}

int catalog_copy_file(const char *from, const char *to, struct err *err)
{
    cleanup_free char *place = NULL;
    if (place_of_copy(to, &place, err) < 0)
        return -1;
    cleanup_free char *part = xasprintf("%s.part-%d", place, (int)getpid());
    if (copy_bytes(from, part, /* durable= */ true, err) < 0) {
        unlink(part);
        return -1;
    }
    return rename_or_remove(part, place, err);
}

/* --- versions in a folder -------------------------------------------------------------------- */

bool catalog_is_version_name(const char *name)
{
    return strlen(name) == CATALOG_DIGEST + strlen(SUFFIX) &&
           strspn(name, "0123456789abcdef") == CATALOG_DIGEST &&
           strcmp(name + CATALOG_DIGEST, SUFFIX) == 0;
}

char *catalog_version_file(const char *dir, const char *digest)
{
    return xasprintf("%s/%.*s" SUFFIX, dir, CATALOG_DIGEST, digest);
}

static int read_next_id(const char *dir, uint64_t *ret)
{
    cleanup_free char *path = xasprintf("%s/next-id", dir);
    cleanup_file FILE *f = fopen(path, "re");
    unsigned long long id;
    if (!f || fscanf(f, "%llu", &id) != 1 || id >= IDS_MAX)
        return -1;
    *ret = id;
    return 0;
}

/* Where next-id is missing or damaged, the versions that are still there know. */
static int next_id_of_versions(const char *dir, uint64_t *ret, struct err *err)
{
    cleanup_dir DIR *d = opendir(dir);
    if (!d)
        return err_sys(err, errno, "open %s", dir);
    for (struct dirent *e; (e = readdir(d));) {
        struct catalog *c;
        cleanup_free char *path = xasprintf("%s/%s", dir, e->d_name);
        if (!catalog_is_version_name(e->d_name) || catalog_open(&c, path, NULL) < 0)
            continue;
        if (c->info.next_id > *ret)
            *ret = c->info.next_id;
        catalog_unref(c);
    }
    return 0;
}

/* A random number above 0 that SQLite's signed integers hold. */
static int new_lineage(uint64_t *ret, struct err *err)
{
    if (getrandom(ret, sizeof *ret, 0) != sizeof *ret)
        return err_sys(err, errno, "make a lineage");
    *ret = (*ret >> 1) | 1;
    return 0;
}

/* Ids go on where the folder's last version ended. Without a version to build on (the first scan,
 * or the current one is lost) nobody knows for sure which ids were given out: what was filled under
 * them must not be believed any more, so a lineage of its own begins. */
static int first_free_id(struct catalog_builder *b, uint64_t *ret, struct err *err)
{
    uint64_t kept = CATALOG_ROOT_ID + 1;
    if (read_next_id(b->dir, &kept) < 0 && next_id_of_versions(b->dir, &kept, err) < 0)
        return -1;
    if (b->previous)
        b->info.lineage = b->previous->info.lineage;
    else if (new_lineage(&b->info.lineage, err) < 0)
        return -1;
    if (kept <= CATALOG_ROOT_ID)
        kept = CATALOG_ROOT_ID + 1;
    *ret = b->previous && b->previous->info.next_id > kept ? b->previous->info.next_id : kept;
    return 0;
}

static int keep_next_id(const char *dir, uint64_t id, struct err *err)
{
    cleanup_free char *part = building_name(dir, "next-id");
    cleanup_free char *path = xasprintf("%s/next-id", dir);
    char text[32];
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)id);
    if (write_text(part, text, err) < 0) {
        unlink(part);
        return -1;
    }
    return rename_or_remove(part, path, err) ? -1 : sync_path(dir, O_RDONLY | O_DIRECTORY, err);
}

static int switch_link(const char *dir, const char *name, const char *digest, struct err *err)
{
    cleanup_free char *part = building_name(dir, name);
    cleanup_free char *path = xasprintf("%s/%s", dir, name);
    cleanup_free char *target = xasprintf("%s" SUFFIX, digest);
    unlink(part);
    if (symlink(target, part) < 0)
        return err_sys(err, errno, "publish %s", path);
    return rename_or_remove(part, path, err) ? -1 : sync_path(dir, O_RDONLY | O_DIRECTORY, err);
}

/* Whether the version is there already: its rows are the same, so are its ids. */
static bool have_version(const char *path, const char *digest)
{
    struct catalog *c;
    if (access(path, F_OK) < 0 || catalog_open(&c, path, NULL) < 0)
        return false;
    bool same = strcmp(c->info.digest, digest) == 0;
    catalog_unref(c);
    return same;
}

static int write_new(struct catalog_builder *b, const char *part, const char *path, struct err *err)
{
    uint64_t next_id;
    unlink(part);
    if (first_free_id(b, &next_id, err) < 0 || write_version(b, part, next_id, err) < 0)
        return -1;
    if (chmod(part, 0444) < 0)
        return err_sys(err, errno, "write %s", part);
    if (sync_path(part, O_RDONLY, err) < 0 || keep_next_id(b->dir, b->info.next_id, err) < 0)
        return -1;
    if (rename(part, path) < 0)
        return err_sys(err, errno, "publish %s", path);
    /* A disk may keep names in any order: `current` must never lead to one that is lost. */
    return sync_path(b->dir, O_RDONLY | O_DIRECTORY, err);
}

static int publish(struct catalog_builder *b, const char *path, struct err *err)
{
    if (have_version(path, b->info.digest)) {
        utimensat(AT_FDCWD, path, NULL, 0); /* the newest again, for catalog_prune() */
    } else {
        cleanup_free char *part = building_name(b->dir, "catalog");
        if (write_new(b, part, path, err) < 0) {
            unlink(part);
            return -1;
        }
    }
    return b->wanted[0] ? 0 : switch_link(b->dir, "current", b->info.digest, err);
}

static int plan_once(struct catalog_builder *b, struct err *err)
{
    if (b->planned)
        return 0;
    b->planned = true;
    return plan_version(b, err);
}

int catalog_builder_digest(struct catalog_builder *b, const char **ret, struct err *err)
{
    if (plan_once(b, err) < 0)
        return -1;
    *ret = b->info.digest;
    return 0;
}

int catalog_builder_finish(struct catalog_builder *b, const char *out_file, char **ret_file,
                           struct catalog_diff_counts *ret_diff, struct err *err)
{
    cleanup_free char *path = NULL;
    if (b->finished)
        return err_set(err, ERR_BUG, "a catalog builder was finished twice");
    b->finished = true;
    if (plan_once(b, err) < 0)
        return -1;
    if (b->wanted[0] && strcmp(b->wanted, b->info.digest) != 0)
        return err_set(err, ERR_FAILED,
                       "version %.12s cannot be made here (is it numbered by a list?)", b->wanted);
    if (b->previous && strcmp(b->previous->info.digest, b->info.digest) == 0) {
        path = xstrdup(b->previous->file);
    } else {
        path = catalog_version_file(b->dir, b->info.digest);
        if (publish(b, path, err) < 0)
            return -1;
    }
    if (out_file && catalog_copy_file(path, out_file, err) < 0)
        return -1;
    if (ret_diff)
        *ret_diff = b->diff;
    if (ret_file)
        *ret_file = take_ptr(&path);
    return 0;
}

int catalog_put_file(const char *dir, const char *file, const char *digest, bool current,
                     struct err *err)
{
    cleanup_free char *part = building_name(dir, "catalog");
    cleanup_free char *path = catalog_version_file(dir, digest);
    int rc = 0;
    unlink(part);
    /* Versions are never written, so a second link is as good as a copy. What is large is not
     * waited for: early_settle() does that later. */
    bool linked = linkat(AT_FDCWD, file, AT_FDCWD, part, AT_SYMLINK_FOLLOW) == 0;
    bool whole = linked && !early_is_marked(file);
    bool early = !whole && early_mark(path, NULL) == 0;
    if (!linked)
        rc = copy_bytes(file, part, !early, err);
    else if (!whole && !early)
        rc = sync_path(part, O_RDONLY, err);
    if (!rc && rename(part, path) < 0)
        rc = err_sys(err, errno, "publish %s", path);
    unlink(part);
    return !rc && current ? switch_link(dir, "current", digest, err) : rc;
}

int catalog_current(struct catalog **ret, const char *dir, struct err *err)
{
    cleanup_free char *path = xasprintf("%s/current", dir);
    struct stat st;
    if (stat(path, &st) < 0 && errno == ENOENT)
        return err_set(err, ERR_NOT_FOUND, "no version of the set in %s (scan it)", dir);
    return catalog_open(ret, path, err);
}

/* --- the one that another machine serves ------------------------------------------------------ */

int catalog_set_told(const char *dir, const char *digest, struct err *err)
{
    return switch_link(dir, "told", digest, err);
}

int catalog_set_named(const char *dir, const char *digest, struct err *err)
{
    if (digest[0])
        return switch_link(dir, "named", digest, err);
    cleanup_free char *path = xasprintf("%s/named", dir);
    if (unlink(path) < 0 && errno != ENOENT)
        return err_sys(err, errno, "remove %s", path);
    return 0;
}

bool catalog_is_named(const char *dir, const char *digest)
{
    char target[CATALOG_DIGEST + sizeof SUFFIX];
    cleanup_free char *path = xasprintf("%s/named", dir);
    ssize_t n = readlink(path, target, sizeof target);
    return n == CATALOG_DIGEST + (ssize_t)sizeof SUFFIX - 1 &&
           memcmp(target, digest, CATALOG_DIGEST) == 0;
}

int catalog_told(struct catalog **ret, const char *dir, struct err *err)
{
    cleanup_free char *path = xasprintf("%s/told", dir);
    return catalog_open(ret, path, NULL) == 0 ? 0 : catalog_current(ret, dir, err);
}

/* --- the one that is pinned ------------------------------------------------------------------ */

int catalog_pin(const char *dir, const char *digest, struct err *err)
{
    cleanup_free char *path = xasprintf("%s/pinned", dir);
    cleanup_free char *file = catalog_version_file(dir, digest);
    if (*digest && utimensat(AT_FDCWD, file, NULL, 0) < 0) /* the newest again, as by publish() */
        return err_sys(err, errno, "pin %s", file);
    if (*digest)
        return switch_link(dir, "pinned", digest, err);
    if (unlink(path) < 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "remove %s", path);
    return sync_path(dir, O_RDONLY | O_DIRECTORY, err);
}

int catalog_pinned(struct catalog **ret, const char *dir, struct err *err)
{
    cleanup_free char *path = xasprintf("%s/pinned", dir);
    struct stat st;
    if (lstat(path, &st) < 0 && errno == ENOENT)
        return err_set(err, ERR_NOT_FOUND, "no version of the set is pinned in %s", dir);
    if (stat(path, &st) < 0 && errno == ENOENT)
        return err_set(err, ERR_CORRUPT, "the version that %s names is gone", path);
    return catalog_open(ret, path, err);
}

/* --- pruning --------------------------------------------------------------------------------- */

struct version_file {
    char *path;
    int64_t mtime_ns;
};

static int newest_first(const void *a, const void *b)
{
    const struct version_file *x = a, *y = b;
    return (x->mtime_ns < y->mtime_ns) - (x->mtime_ns > y->mtime_ns);
}

/* ".build-PID-…" of a process that is gone. */
static bool is_rubbish(const char *name)
{
    char *end;
    if (strncmp(name, BUILDING, strlen(BUILDING)) != 0)
        return false;
    long pid = strtol(name + strlen(BUILDING), &end, 10);
    return pid > 0 && *end == '-' && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

/* "DIGEST.catalog.early": the version that is not known to be durable, or NULL. */
static char *marked_version(const char *dir, const char *name)
{
    size_t len = strlen(name), tail = strlen(EARLY_SUFFIX);
    if (len <= tail || strcmp(name + len - tail, EARLY_SUFFIX) != 0)
        return NULL;
    return xasprintf("%s/%.*s", dir, (int)(len - tail), name);
}

void catalog_tidy(const char *dir)
{
    cleanup_dir DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strncmp(e->d_name, BUILDING, strlen(BUILDING)) == 0)
            unlinkat(dirfd(d), e->d_name, 0);
        cleanup_free char *marked = marked_version(dir, e->d_name);
        if (marked && early_is_lost(marked))
            early_remove(marked);
    }
}

/* The names of the files that the folder's links lead to: they are never pruned. */
#define LINKS 3
struct linked {
    char name[LINKS][CATALOG_DIGEST + sizeof SUFFIX];
    unsigned n;
};

static bool is_linked(const struct linked *l, const char *name)
{
    for (unsigned i = 0; i < l->n; i++)
        if (strcmp(l->name[i], name) == 0)
            return true;
    return false;
}

static void read_links(const char *dir, struct linked *ret)
{
    static const char *const links[LINKS] = {"current", "pinned", "told"};
    ret->n = 0;
    for (size_t i = 0; i < LINKS; i++) {
        cleanup_free char *link = xasprintf("%s/%s", dir, links[i]);
        char *name = ret->name[ret->n];
        ssize_t len = readlink(link, name, sizeof ret->name[0] - 1);
        name[len < 0 ? 0 : len] = '\0';
        ret->n += len > 0 && !is_linked(ret, name);
    }
}

static size_t list_versions(DIR *d, const char *dir, const struct linked *linked,
                            struct version_file **ret)
{
    struct version_file *v = NULL;
    size_t n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        char *path = xasprintf("%s/%s", dir, e->d_name);
        struct stat st;
        if (is_rubbish(e->d_name))
            unlink(path);
        if (catalog_is_version_name(e->d_name) && !is_linked(linked, e->d_name) &&
            lstat(path, &st) == 0) {
            v = xrealloc(v, (n + 1) * sizeof *v);
            v[n++] = (struct version_file){take_ptr(&path), clock_ns_of(&st.st_mtim)};
        }
        free(path);
    }
    *ret = v;
    return n;
}

int catalog_prune(const char *dir, unsigned keep, struct err *err)
{
    cleanup_dir DIR *d = opendir(dir);
    struct linked linked;
    struct version_file *v;
    int rc = 0;
    if (!d)
        return err_sys(err, errno, "open %s", dir);
    read_links(dir, &linked);
    keep -= linked.n < keep ? linked.n : keep;
    size_t n = list_versions(d, dir, &linked, &v);
    if (n)
        qsort(v, n, sizeof *v, newest_first);
    for (size_t i = 0; i < n; i++) {
        if (i >= keep && unlink(v[i].path) < 0 && errno != ENOENT)
            rc = err_sys(err, errno, "remove %s", v[i].path);
        else if (i >= keep)
            early_remove(v[i].path);
        free(v[i].path);
    }
    free(v);
    return rc;
}
