#include "fake-store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "mem.h"

/* What such a program was told. */
struct told {
    const char *include, *file; /* NULL: all; -o */
    bool dry;
    const char *from, *to;
};

static const char *path_of(const char *uri)
{
    return strncmp(uri, "file://", 7) == 0 ? uri + 7 : uri;
}

static struct told listen(const char *const *argv)
{
    struct told t = {0};
    int i = 2;
    for (; argv[i] && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--include") == 0)
            t.include = argv[i + 1];
        else if (strcmp(argv[i], "-o") == 0)
            t.file = argv[i + 1];
        t.dry = t.dry || strcmp(argv[i], "--dry") == 0;
    }
    t.from = path_of(argv[i + 1]);
    t.to = argv[i + 2] ? path_of(argv[i + 2]) : NULL;
    return t;
}

static void write_file(const char *path, const char *text)
{
    cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ssize_t ignored = write(fd, text, strlen(text));
    (void)ignored;
}

static void make_folders(struct fake *f, const char *path)
{
    cleanup_free char *part = xstrdup(path);
    for (char *p = part + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char end = *p;
        *p = '\0';
        if (access(part, F_OK)) {
            fake_step(f, "a folder is made");
            mkdir(part, 0755);
        }
        *p = end;
        if (!end)
            return;
    }
}

static void copy_file(struct fake *f, const char *from, const char *to)
{
    char text[4096] = "";
    cleanup_close int fd = open(from, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    fake_step(f, "a file is copied");
    write_file(to, text);
    fake_step(f, "a file was copied");
}

static void copy_tree(struct fake *f, const char *from, const char *to)
{
    cleanup_dir DIR *d = opendir(from);
    make_folders(f, to);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        cleanup_free char *a = xasprintf("%s/%s", from, e->d_name);
        cleanup_free char *b = xasprintf("%s/%s", to, e->d_name);
        if (e->d_type == DT_DIR)
            copy_tree(f, a, b);
        else
            copy_file(f, a, b);
    }
}

static int run_sync(struct fake *f, const struct told *t, struct err *err)
{
    if (access(t->from, F_OK))
        return err_set(err, ERR_NOT_FOUND, "sync: no such folder: %s", t->from);
    if (!t->include) {
        copy_tree(f, t->from, t->to);
        return 0;
    }
    cleanup_free char *from = xasprintf("%s/%s", t->from, t->include);
    cleanup_free char *to = xasprintf("%s/%s", t->to, t->include);
    if (access(from, F_OK) == 0) {
        make_folders(f, t->to);
        copy_file(f, from, to);
    }
    return 0;
}

/* Files below it; all of it goes if `f`. */
static size_t walk(const char *path, struct fake *f, bool count_folders)
{
    size_t n = 0;
    cleanup_dir DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        cleanup_free char *below = xasprintf("%s/%s", path, e->d_name);
        bool is_folder = e->d_type == DT_DIR;
        n += is_folder ? walk(below, f, count_folders) + count_folders : 1;
        if (f && !is_folder) {
            fake_step(f, "a file goes");
            unlink(below);
        }
    }
    if (f) {
        fake_step(f, "a folder goes");
        if (rmdir(path))
            unlink(path);
    }
    return n;
}

size_t fake_store_count(const char *path)
{
    return walk(path, NULL, true);
}

static int run_rmr(struct fake *f, const struct told *t, struct bytes *out, struct err *err)
{
    struct stat st;
    cleanup_free char *path = xstrdup(t->from);
    size_t n = strlen(path);
    if (path[n - 1] == '/')
        path[n - 1] = '\0';
    if (lstat(path, &st))
        return err_set(err, ERR_NOT_FOUND, "rmr: %s: nothing is there", path);
    size_t files = walk(path, t->dry ? NULL : f, false);
    if (out)
        bytes_addf(out, "{\"removed\":[{\"objects\":%zu}]}", files);
    return 0;
}

static int run_scan(struct fake *f, const struct told *t, struct bytes *out, struct err *err)
{
    if (access(t->from, F_OK))
        return err_set(err, ERR_NOT_FOUND, "scan: no such folder: %s", t->from);
    size_t files = walk(t->from, NULL, false);
    fake_step(f, "scan begins");
    write_file(t->file, "catalog");
    fake_step(f, "scan ended");
    bytes_addf(out, "{\"version\":\"%064zx\",\"bytes\":7,\"samples\":%zu}", files, files);
    return 0;
}

bool fake_store_knows(const char *verb)
{
    return strcmp(verb, "sync") == 0 || strcmp(verb, "rmr") == 0 || strcmp(verb, "scan") == 0;
}

int fake_store_run(struct fake *f, const char *const *argv, struct bytes *out, struct err *err)
{
    struct told t = listen(argv);
    if (f->refuse)
        return err_set(err, f->refuse, "%s: refused by the test", argv[1]);
    if (strcmp(argv[1], "sync") == 0)
        return run_sync(f, &t, err);
    return strcmp(argv[1], "rmr") == 0 ? run_rmr(f, &t, out, err) : run_scan(f, &t, out, err);
}
