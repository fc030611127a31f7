/*
 * A tier's folder: the marker that says whose it is, and the bytes that others keep in it.
 *
 * The marker `sampan-cache` is four lines: the format, the set's identity, the tier's own id
 * (packs and the index name it), and the lineage of the ids that its units are named by. It is
 * locked while a process uses the folder.
 */
#include "cache-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "dir.h"
#include "hash.h"

#define MARKER       "sampan-cache"
#define FIRST_LINE   "sampan-cache 1\n"
#define LINEAGE      "\nlineage "
#define LINEAGE_LINE "lineage %016llx\n" /* its length never changes: it is rewritten in place */
#define MARKER_MAX   4096
#define DEPTH_MAX    8

bool folder_contains(const char *outer, const char *inner)
{
    size_t n = strlen(outer);
    if (n == 1)
        return true;
    return strncmp(outer, inner, n) == 0 && (inner[n] == '/' || inner[n] == '\0');
}

static bool is_pack_file(const char *name)
{
    size_t digits = strspn(name, "0123456789");
    return digits == 8 && (strcmp(name + 8, ".pack") == 0 || strcmp(name + 8, ".idx") == 0);
}

/* What may lie in a folder that bears no mark yet: what a file system puts into a fresh one, and
 * what an owner that was killed in its start left there. */
static bool is_expected(const char *name, bool own_folder)
{
    static const char *const names[] = {"lock",       "index",     "catalog", "control.sock",
                                        CACHE_GUESTS, "numbering", "stage"};
    if (strcmp(name, "lost+found") == 0 || strcmp(name, MARKER) == 0)
        return true;
    for (size_t i = 0; own_folder && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return own_folder && (is_pack_file(name) || strncmp(name, "spill.", 6) == 0 ||
                          strncmp(name, "numbering.", 10) == 0);
}

int cache_folder_check(const char *dir, int dir_fd, bool own_folder, struct err *err)
{
    if (faccessat(dir_fd, MARKER, F_OK, 0) == 0)
        return 0;
    cleanup_dir DIR *d = dir_open(dir_fd, ".", 0);
    if (!d)
        return err_sys(err, errno, "cache: list the folder %s", dir);
    for (const struct dirent *e; (e = dir_next(d));)
        if (!is_expected(e->d_name, own_folder))
            return err_set(err, ERR_USAGE,
                           "cache: %s is not empty and not a cache of ours: it has '%s' (give an "
                           "empty or new folder)",
                           dir, e->d_name);
    return 0;
}

static int write_marker(int fd, const char *dir, const char *set_id,
                        unsigned char id[TIER_ID_BYTES], struct err *err)
{
    char hex[2 * TIER_ID_BYTES + 1];
    if (getrandom(id, TIER_ID_BYTES, 0) != TIER_ID_BYTES)
        return err_sys(err, errno, "cache: make an id for %s", dir);
    hex_encode(hex, id, TIER_ID_BYTES);
    cleanup_free char *text =
        xasprintf(FIRST_LINE "set %s\ntier %s\n" LINEAGE_LINE, set_id, hex, (unsigned long long)0);
    size_t len = strlen(text);
    if (ftruncate(fd, 0) || pwrite(fd, text, len, 0) != (ssize_t)len)
        return err_sys(err, errno ? errno : ENOSPC, "cache: mark %s as ours", dir);
    return 0;
}

/*
 * What a machine that lost power left of a marker it had just made: nothing, zeros, or a part that
 * ends in the middle of a line. There is no pack yet where such a one is (cache_bind() makes it
 * durable before the first), so it may be written anew.
 */
static bool is_torn(const char *text, size_t len)
{
    size_t line = strlen(FIRST_LINE), n = strnlen(text, len);
    if (n < len)
        return n == 0;
    if (n == 0)
        return true;
    return text[n - 1] != '\n' && strncmp(text, FIRST_LINE, n < line ? n : line) == 0;
}

static int parse_marker(char *text, const char *dir, const char *set_id,
                        unsigned char id[TIER_ID_BYTES], struct err *err)
{
    char *set = strstr(text, "\nset "), *tier = strstr(text, "\ntier ");
    char *end = tier ? strchr(tier + 1, '\n') : NULL;
    if (strncmp(text, FIRST_LINE, strlen(FIRST_LINE)) != 0 || !set || !end || set > tier)
        return err_set(err, ERR_CORRUPT,
                       "cache: %s/" MARKER ": not a cache marker this version "
                       "knows (remove the folder, or give another one)",
                       dir);
    *tier = *end = '\0';
    if (strcmp(set + 5, set_id) != 0)
        return err_set(err, ERR_USAGE,
                       "cache: %s holds the cache of another set, %s (give each set "
                       "a folder of its own, or clear that one)",
                       dir, set + 5);
    if (hex_decode(id, TIER_ID_BYTES, tier + 6))
        return err_set(err, ERR_CORRUPT,
                       "cache: %s/" MARKER ": damaged (remove the folder, or give "
                       "another one)",
                       dir);
    return 0;
}

/* The marker of a set whose samples are gone, by clear or with the set: another one may have the
 * folder. (Catalogs say themselves whose they are.) */
static bool is_left_over(int dir_fd, const char *text, const char *set_id)
{
    const char *set = strstr(text, "\nset ");
    size_t len = strlen(set_id);
    if (strncmp(text, FIRST_LINE, strlen(FIRST_LINE)) != 0 || !set ||
        (strncmp(set + 5, set_id, len) == 0 && set[5 + len] == '\n'))
        return false;
    cleanup_dir DIR *d = dir_open(dir_fd, ".", 0);
    bool empty = d != NULL;
    for (const struct dirent *e; d && (e = dir_next(d));)
        empty = empty && !is_pack_file(e->d_name) && strcmp(e->d_name, CACHE_GUESTS) != 0 &&
                strcmp(e->d_name, "stage") != 0;
    return empty;
}

int folder_claim(const char *dir, int dir_fd, const char *set_id, unsigned char id[TIER_ID_BYTES],
                 int *ret_marker_fd, struct err *err)
{
    char text[MARKER_MAX];
    cleanup_close int fd = openat(dir_fd, MARKER, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(err, errno, "cache: open %s/" MARKER, dir);
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK)
            return err_sys(err, errno, "cache: lock %s/" MARKER, dir);
        err_set(err, ERR_LIMIT,
                "cache: %s is in use by another mount (give each one a folder of "
                "its own)",
                dir);
        if (err)
            err->sys = EBUSY;
        return -1;
    }
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n < 0)
        return err_sys(err, errno, "cache: read %s/" MARKER, dir);
    text[n] = '\0';
    bool anew = is_torn(text, (size_t)n) || is_left_over(dir_fd, text, set_id);
    if (anew ? write_marker(fd, dir, set_id, id, err) : parse_marker(text, dir, set_id, id, err))
        return -1;
    *ret_marker_fd = take_fd(&fd);
    return 0;
}

/* Where the lineage stands in the marker, or where it is to be added. */
static off_t find_lineage(int marker_fd, char text[MARKER_MAX], uint64_t *ret)
{
    ssize_t n = pread(marker_fd, text, MARKER_MAX - 1, 0);
    if (n < 0)
        return -1;
    text[n] = '\0';
    const char *at = strstr(text, LINEAGE);
    *ret = at ? strtoull(at + strlen(LINEAGE), NULL, 16) : 0;
    return at ? at + 1 - text : n;
}

uint64_t folder_lineage(int marker_fd)
{
    char text[MARKER_MAX];
    uint64_t lineage = 0;
    find_lineage(marker_fd, text, &lineage);
    return lineage;
}

int folder_set_lineage(const char *dir, int marker_fd, uint64_t lineage, struct err *err)
{
    char text[MARKER_MAX], line[40];
    uint64_t old;
    off_t at = find_lineage(marker_fd, text, &old);
    int n = snprintf(line, sizeof line, LINEAGE_LINE, (unsigned long long)lineage);
    if (at < 0 || pwrite(marker_fd, line, (size_t)n, at) != n || fdatasync(marker_fd))
        return err_sys(err, errno ? errno : ENOSPC, "cache: write %s/" MARKER, dir);
    return 0;
}

/* --- what others keep here ------------------------------------------------------------------- */

struct sum {
    const struct stat *index; /* charged elsewhere */
    bool has_guests;          /* so are the files in CACHE_GUESTS */
    uint64_t bytes;
};

static void add_folder(struct sum *s, int dir_fd, const char *name, int depth)
{
    cleanup_dir DIR *d = dir_open(dir_fd, name, O_NOFOLLOW);
    struct stat st;
    if (!d)
        return;
    if (fstat(dirfd(d), &st) == 0)
        s->bytes += (uint64_t)st.st_size;
    for (const struct dirent *e; (e = dir_next(d));) {
        if ((depth == 0 && is_pack_file(e->d_name)) ||
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        if (depth == 0 && s->has_guests && strcmp(e->d_name, CACHE_GUESTS) == 0)
            s->bytes += (uint64_t)st.st_size;
        else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
            add_folder(s, dirfd(d), e->d_name, depth + 1);
        else if (st.st_ino != s->index->st_ino || st.st_dev != s->index->st_dev)
            s->bytes += (uint64_t)st.st_size;
    }
}

uint64_t folder_foreign(const struct tier *t, bool has_guests)
{
    const struct index *ix = &t->c->index;
    struct stat index = {0};
    if (ix->tier != t || stat(ix->path, &index))
        index = (struct stat){0};
    struct sum s = {.index = &index, .has_guests = has_guests};
    add_folder(&s, t->dir_fd, ".", 0);
    return s.bytes;
}
