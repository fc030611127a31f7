/*
 * The recorder: turns calls that changed the recorded folders into ops of the log (oplog.h).
 *
 * What goes through a shared mapping is seen by comparing: before each recorded call the pages of
 * mapped files are compared with their last known state, and those that differ become OP_STORE.
 * Each inode seen is kept open (O_PATH), so that its number is not given to another file.
 */
#include "meddle.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "oplog.h"

#define FILES_MAX 4096
#define IOVS_MAX  256
#define WRITE_MAX (64u << 20)

struct seen_file {
    uint64_t ino;
    int pin;     /* keeps the number taken */
    int read_fd; /* of a mapped file; else -1 */
    unsigned char *shadow;
    size_t shadow_len;
};

static FILE *log_file;
static uint64_t n_ops;
static char *const *roots;
static size_t n_roots;
static struct seen_file files[FILES_MAX];
static size_t n_files;

/* --- writing the log -----------------------------------------------------------------------------
 */

static void put(struct op *op, const char *name, const char *name2, const void *data)
{
    op->magic = OPLOG_MAGIC;
    op->name_len = name ? (uint16_t)strlen(name) : 0;
    op->name2_len = name2 ? (uint16_t)strlen(name2) : 0;
    fwrite(op, sizeof *op, 1, log_file);
    if (op->name_len)
        fwrite(name, op->name_len, 1, log_file);
    if (op->name2_len)
        fwrite(name2, op->name2_len, 1, log_file);
    if (op->len)
        fwrite(data, op->len, 1, log_file);
    n_ops++;
}

static struct seen_file *file_of(uint64_t ino, const char *path)
{
    for (size_t i = 0; i < n_files; i++)
        if (files[i].ino == ino)
            return &files[i];
    if (n_files == FILES_MAX) {
        fprintf(stderr, "meddle: more than %d files: not recorded\n", FILES_MAX);
        exit(125);
    }
    /* A descriptor's link leads to files that have no name any more, too. */
    int flags =
        strncmp(path, "/proc/", 6) == 0 ? O_PATH | O_CLOEXEC : O_PATH | O_NOFOLLOW | O_CLOEXEC;
    struct seen_file *f = &files[n_files++];
    *f = (struct seen_file){.ino = ino, .pin = open(path, flags), .read_fd = -1};
    if (f->pin < 0) {
        fprintf(stderr, "meddle: cannot keep %s: %s\n", path, strerror(errno));
        exit(125);
    }
    return f;
}

static bool is_recorded(const char *path)
{
    for (size_t i = 0; i < n_roots; i++)
        if (path_below(path, roots[i]))
            return true;
    return false;
}

static uint64_t ino_of(const char *path, struct stat *ret)
{
    struct stat st;
    if (lstat(path, &st))
        return 0;
    if (ret)
        *ret = st;
    return st.st_ino;
}

/* The folder of a path, and the name in it (in `buf`). */
static uint64_t folder_of(const char *path, char buf[PATHS_BYTES], const char **ret_name)
{
    char copy[PATHS_BYTES];
    snprintf(buf, PATHS_BYTES, "%s", path);
    snprintf(copy, PATHS_BYTES, "%s", path);
    *ret_name = basename(buf);
    return ino_of(dirname(copy), NULL);
}

static int proc_stat(pid_t tid, int fd, struct stat *ret, char link[64])
{
    snprintf(link, 64, "/proc/%d/fd/%d", (int)tid, fd);
    return stat(link, ret);
}

/* --- mappings ------------------------------------------------------------------------------------
 */

static void see_mapping(const struct call *c)
{
    struct stat st;
    char link[64];
    if (!(c->args[3] & MAP_SHARED) || !(c->args[2] & PROT_WRITE) ||
        proc_stat(c->tid, (int)c->args[4], &st, link) || !S_ISREG(st.st_mode))
        return;
    struct seen_file *f = file_of(st.st_ino, link);
    if (f->read_fd >= 0)
        return;
    f->read_fd = open(link, O_RDONLY | O_CLOEXEC);
    f->shadow = malloc((size_t)st.st_size + 1);
    if (f->read_fd < 0 || !f->shadow ||
        pread(f->read_fd, f->shadow, (size_t)st.st_size, 0) != (ssize_t)st.st_size) {
        fprintf(stderr, "meddle: cannot follow the mapping of %s\n", c->path);
        exit(125);
    }
    f->shadow_len = (size_t)st.st_size;
}

/* The state that all other ops led to: only stores may differ from it. */
static void resize_shadow(struct seen_file *f, size_t len)
{
    if (f->read_fd < 0)
        return;
    unsigned char *more = realloc(f->shadow, len + 1);
    if (!more)
        exit(125);
    if (len > f->shadow_len)
        memset(more + f->shadow_len, 0, len - f->shadow_len);
    f->shadow = more;
    f->shadow_len = len;
}

static void see_stores(void)
{
    static unsigned char page[OPLOG_PAGE];
    for (size_t i = 0; i < n_files; i++) {
        struct seen_file *f = &files[i];
        for (size_t at = 0; f->read_fd >= 0 && at < f->shadow_len; at += OPLOG_PAGE) {
            size_t len = f->shadow_len - at < OPLOG_PAGE ? f->shadow_len - at : OPLOG_PAGE;
            ssize_t n = pread(f->read_fd, page, len, (off_t)at);
            if (n <= 0 || memcmp(page, f->shadow + at, (size_t)n) == 0)
                continue;
            memcpy(f->shadow + at, page, (size_t)n);
            put(&(struct op){.kind = OP_STORE, .ino = f->ino, .off = at, .len = (uint32_t)n}, NULL,
                NULL, page);
        }
    }
}

/* --- writes --------------------------------------------------------------------------------------
 */

static void put_write(uint64_t ino, const char *path, uint64_t off, const void *data, size_t len)
{
    struct seen_file *f = file_of(ino, path);
    if (f->read_fd >= 0 && off + len > f->shadow_len)
        resize_shadow(f, off + len);
    if (f->read_fd >= 0)
        memcpy(f->shadow + off, data, len);
    put(&(struct op){.kind = OP_WRITE, .ino = ino, .off = off, .len = (uint32_t)len}, NULL, NULL,
        data);
}

/* The bytes that the program gave, from its memory. */
static bool given_bytes(const struct call *c, unsigned char *to, size_t len)
{
    const char *name = c->kind->name;
    if (strcmp(name, "write") == 0 || strcmp(name, "pwrite64") == 0)
        return tracee_read(c->tid, c->args[1], to, len) == len;
    struct iovec iov[IOVS_MAX];
    size_t n = c->args[2] < IOVS_MAX ? (size_t)c->args[2] : IOVS_MAX, at = 0;
    if (tracee_read(c->tid, c->args[1], iov, n * sizeof *iov) != n * sizeof *iov)
        return false;
    for (size_t i = 0; i < n && at < len; i++) {
        size_t now = iov[i].iov_len < len - at ? iov[i].iov_len : len - at;
        if (tracee_read(c->tid, (uint64_t)(uintptr_t)iov[i].iov_base, to + at, now) != now)
            return false;
        at += now;
    }
    return at == len;
}

static int64_t position_of(pid_t tid, int fd)
{
    char path[64], line[128];
    long long pos = -1;
    snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)tid, fd);
    FILE *f = fopen(path, "re");
    if (f && fgets(line, sizeof line, f))
        sscanf(line, "pos: %lld", &pos);
    if (f)
        fclose(f);
    return pos;
}

static void on_write(const struct call *c, int64_t wrote)
{
    int fd = (int)c->args[c->kind->fd];
    const char *name = c->kind->name;
    bool copied = strcmp(name, "sendfile") == 0 || strcmp(name, "copy_file_range") == 0;
    bool placed = !copied && name[0] == 'p';
    struct stat st;
    char link[64];
    if (wrote <= 0 || wrote > WRITE_MAX || proc_stat(c->tid, fd, &st, link) || !S_ISREG(st.st_mode))
        return;
    int64_t off = placed ? (int64_t)c->args[3] : position_of(c->tid, fd) - wrote;
    unsigned char *data = malloc((size_t)wrote);
    bool have = data && off >= 0;
    if (have && copied) {
        int in = open(link, O_RDONLY | O_CLOEXEC);
        have = in >= 0 && pread(in, data, (size_t)wrote, off) == wrote;
        close(in);
    } else if (have) {
        have = given_bytes(c, data, (size_t)wrote);
    }
    if (!have) {
        fprintf(stderr, "meddle: cannot follow %s of %s\n", name, c->path);
        exit(125);
    }
    put_write(st.st_ino, link, (uint64_t)off, data, (size_t)wrote);
    free(data);
}

/* --- sizes, names --------------------------------------------------------------------------------
 */

static void put_size(uint64_t ino, const char *path, uint64_t size)
{
    resize_shadow(file_of(ino, path), (size_t)size);
    put(&(struct op){.kind = OP_TRUNCATE, .ino = ino, .off = size}, NULL, NULL, NULL);
}

static void on_size(const struct call *c)
{
    struct stat st;
    char link[64];
    if (c->kind->fd >= 0 ? proc_stat(c->tid, (int)c->args[0], &st, link) : stat(c->path, &st))
        return;
    put_size(st.st_ino, c->kind->fd >= 0 ? link : c->path, (uint64_t)st.st_size);
}

static void on_open(const struct call *c, bool existed, int fd)
{
    uint64_t flags = strcmp(c->kind->name, "creat") == 0 ? O_CREAT | O_TRUNC
                                                         : c->args[c->kind->dirfd >= 0 ? 2 : 1];
    struct stat st;
    char link[64], buf[PATHS_BYTES];
    const char *name;
    if (proc_stat(c->tid, fd, &st, link) || !S_ISREG(st.st_mode))
        return;
    bool unnamed = (flags & O_TMPFILE) == O_TMPFILE;
    if ((flags & O_CREAT) && !existed && !unnamed) {
        uint64_t dir = folder_of(c->path, buf, &name);
        file_of(st.st_ino, link);
        put(&(struct op){.kind = OP_CREATE, .ino = st.st_ino, .dir = dir}, name, NULL, NULL);
    } else if (flags & O_TRUNC) {
        put_size(st.st_ino, link, 0);
    }
}

/* Before its name: no cut comes between the two. */
static void put_times(uint64_t ino, const struct stat *st)
{
    uint64_t ns = (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec;
    put(&(struct op){.kind = OP_TIMES, .ino = ino, .off = ns}, NULL, NULL, NULL);
}

static void on_make(const struct call *c)
{
    const char *call = c->kind->name, *made = c->path2[0] ? c->path2 : c->path, *name;
    char buf[PATHS_BYTES], target[PATH_MAX];
    struct stat st;
    uint64_t ino = ino_of(made, &st), dir = folder_of(made, buf, &name);
    if (!ino)
        return;
    file_of(ino, made);
    if (strncmp(call, "mkdir", 5) == 0) {
        put(&(struct op){.kind = OP_MKDIR, .ino = ino, .dir = dir}, name, NULL, NULL);
    } else if (strncmp(call, "link", 4) == 0) {
        put_times(ino, &st);
        put(&(struct op){.kind = OP_LINK, .ino = ino, .dir = dir}, name, NULL, NULL);
    } else if (tracee_text(c->tid, c->args[0], target, sizeof target)) {
        put(&(struct op){.kind = OP_SYMLINK, .ino = ino, .dir = dir}, name, target, NULL);
    }
}

static void on_rename(const struct call *c)
{
    char buf[PATHS_BYTES], buf2[PATHS_BYTES];
    const char *name, *name2;
    uint64_t dir = folder_of(c->path, buf, &name), dir2 = folder_of(c->path2, buf2, &name2);
    struct stat st = {0};
    uint64_t ino = ino_of(c->path2, &st);
    put_times(ino, &st);
    put(&(struct op){.kind = OP_RENAME, .ino = ino, .dir = dir, .dir2 = dir2}, name, name2, NULL);
}

static void on_unlink(const struct call *c)
{
    char buf[PATHS_BYTES];
    const char *name;
    uint64_t dir = folder_of(c->path, buf, &name);
    put(&(struct op){.kind = OP_UNLINK, .dir = dir}, name, NULL, NULL);
}

/* Part of a mapping. Which file that is, the program's list of mappings knows. */
static void on_msync(const struct call *c, uint64_t covers)
{
    char path[64], line[PATHS_BYTES + 200];
    unsigned long long from, to, off, ino;
    uint64_t at = c->args[0], len = c->args[1];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)c->tid);
    FILE *f = c->args[2] & MS_SYNC ? fopen(path, "re") : NULL;
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%llx-%llx %*s %llx %*s %llu", &from, &to, &off, &ino) != 4 || at < from ||
            at >= to)
            continue;
        uint64_t start = off + (at - from), most = to - at;
        put(&(struct op){.kind = OP_RANGE,
                         .ino = ino,
                         .dir = start,
                         .dir2 = start + (len < most ? len : most),
                         .off = covers},
            NULL, NULL, NULL);
        break;
    }
    if (f)
        fclose(f);
}

static void on_sync(const struct call *c, uint64_t covers)
{
    struct stat st;
    char link[64];
    if (strcmp(c->kind->name, "syncfs") == 0) { /* all that is known */
        for (size_t i = 0; i < n_files; i++)
            put(&(struct op){.kind = OP_SYNC, .ino = files[i].ino, .off = covers}, NULL, NULL,
                NULL);
    } else if (proc_stat(c->tid, (int)c->args[0], &st, link) == 0) {
        put(&(struct op){.kind = OP_SYNC, .ino = st.st_ino, .off = covers}, NULL, NULL, NULL);
    }
}

/* --- calls ---------------------------------------------------------------------------------------
 */

static bool marks(const struct call *c, const char **ret)
{
    const char *last = strrchr(c->path, '/');
    *ret = last ? last + 1 : c->path;
    return c->kind->class == CALL_MARK && strncmp(*ret, "mark:", 5) == 0;
}

void record_entry(const struct call *c, struct recorded *ret)
{
    const char *mark;
    *ret = (struct recorded){0};
    if (marks(c, &mark)) {
        see_stores();
        put(&(struct op){.kind = OP_MARK}, mark + 5, NULL, NULL);
        return;
    }
    see_stores();
    ret->covers = n_ops;
    ret->existed = c->kind->class == CALL_OPEN && access(c->path, F_OK) == 0;
}

void record_exit(const struct call *c, const struct recorded *r, int64_t result)
{
    enum call_class class = c->kind->class;
    bool msync = class == CALL_SYNC && c->kind->fd < 0;
    if (result < 0 || (!msync && !is_recorded(c->path) && !is_recorded(c->path2)))
        return;
    if (msync)
        on_msync(c, r->covers);
    else if (class == CALL_OPEN)
        on_open(c, r->existed, (int)result);
    else if (class == CALL_WRITE)
        on_write(c, result);
    else if (class == CALL_SIZE)
        on_size(c);
    else if (class == CALL_MMAP)
        see_mapping(c);
    else if (class == CALL_MAKE)
        on_make(c);
    else if (class == CALL_RENAME)
        on_rename(c);
    else if (class == CALL_UNLINK)
        on_unlink(c);
    else if (class == CALL_SYNC)
        on_sync(c, r->covers);
}

int record_begin(const char *file, char *const *below, size_t n)
{
    log_file = fopen(file, "we");
    roots = below;
    n_roots = n;
    for (size_t i = 0; log_file && i < n; i++) {
        uint64_t ino = ino_of(roots[i], NULL);
        file_of(ino, roots[i]);
        put(&(struct op){.kind = OP_ROOT, .ino = ino}, roots[i], NULL, NULL);
    }
    return log_file ? 0 : -1;
}

int record_end(void)
{
    see_stores();
    return fclose(log_file);
}
