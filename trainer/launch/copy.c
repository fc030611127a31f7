/* Folders copied, and a set dealt out for trainers. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf.h"
#include "launch.h"
#include "mem.h"
#include "walk.h"

/* Those that a path goes through: what is behind its last slash is not made. */
static int make_folders(const char *path, struct err *err)
{
    cleanup_free char *p = xstrdup(path);
    for (char *slash = p + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(p, 0755) && errno != EEXIST)
            return err_sys(err, errno, "make %s", p);
        *slash = '/';
    }
    return 0;
}

static int copy_bytes(int in, const char *from, int out, const char *to, const atomic_int *stop,
                      struct err *err)
{
    char buf[65536];
    ssize_t n;
    while ((n = read(in, buf, sizeof buf)) > 0) {
        if (stop && *stop)
            return err_set(err, ERR_CANCELLED, "stopped by a signal");
        for (ssize_t done = 0, part; done < n; done += part) {
            part = write(out, buf + done, (size_t)(n - done));
            if (part < 0)
                return err_sys(err, errno, "write %s", to);
        }
    }
    return n < 0 ? err_sys(err, errno, "read %s", from) : 0;
}

/* `flags`: 0, or O_EXCL. A file that is there becomes a copy, but for the one that is copied. What
 * could not be copied whole, or until `stop` (may be NULL), is removed. */
static int copy_file(const char *from, const char *to, int flags, const atomic_int *stop,
                     struct err *err)
{
    struct stat source, target;
    if (make_folders(to, err))
        return -1;
    cleanup_close int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0 || fstat(in, &source))
        return err_sys(err, errno, "%s", from);
    cleanup_close int out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
    if (out < 0 || fstat(out, &target))
        return err_sys(err, errno, "%s", to);
    if (source.st_dev == target.st_dev && source.st_ino == target.st_ino)
        return 0;
    if (ftruncate(out, 0))
        return err_sys(err, errno, "write %s", to);
    int failed = copy_bytes(in, from, out, to, stop, err);
    if (close(take_fd(&out)) && !failed)
        failed = err_sys(err, errno, "write %s", to);
    if (failed)
        unlink(to);
    return failed;
}

int64_t launch_copy(const char *from, const char *to, const atomic_int *stop, struct err *err)
{
    cleanup_file_list struct file_list list = {0};
    if (file_list_walk(&list, from, err))
        return -1;
    for (size_t i = 0; i < list.n; i++) {
        if (*stop)
            return err_set(err, ERR_CANCELLED, "stopped by a signal");
        cleanup_free char *src = xasprintf("%s/%s", from, file_list_get(&list, i));
        cleanup_free char *dst = xasprintf("%s/%s", to, file_list_get(&list, i));
        if (copy_file(src, dst, 0, stop, err))
            return -1;
    }
    return (int64_t)list.n;
}

/* --- dealing ---------------------------------------------------------------------------------- */

/* Every parts-th line, from the `part`-th on. Empty ones are no samples. */
static int64_t deal_lines(const char *from, const char *to, int64_t part, int64_t parts,
                          struct err *err)
{
    cleanup_file FILE *in = fopen(from, "re");
    if (!in)
        return err_sys(err, errno, "%s", from);
    cleanup_file FILE *out = fopen(to, "wxe");
    if (!out)
        return err_sys(err, errno, "%s", to);
    cleanup_free char *line = NULL;
    size_t cap = 0;
    int64_t at = 0, taken = 0;
    while (getline(&line, &cap, in) >= 0)
        if (line[strspn(line, "\r\n")] && at++ % parts == part) {
            fputs(line, out);
            taken++;
        }
    if (ferror(in) || fflush(out) || ferror(out)) /* what failed once is lost, if the rest goes */
        return err_sys(err, errno ? errno : EIO, "deal %s to %s", from, to);
    return taken;
}

static int64_t deal_ratings(const char *src, const char *part_dir, int64_t part, int64_t parts,
                            struct err *err)
{
    static const char *const whole[] = {"users.dat", "movies.dat"};
    for (int i = 0; i < 2; i++) {
        cleanup_free char *from = xasprintf("%s/%s", src, whole[i]);
        cleanup_free char *to = xasprintf("%s/%s", part_dir, whole[i]);
        if (copy_file(from, to, O_EXCL, NULL, err))
            return -1;
    }
    cleanup_free char *from = xasprintf("%s/ratings.dat", src);
    cleanup_free char *to = xasprintf("%s/ratings.list", part_dir);
    return deal_lines(from, to, part, parts, err);
}

/* Classes are numbered by their folders: every part has all of them. */
static int64_t deal_pictures(const char *src, const char *part_dir, int64_t part, int64_t parts,
                             struct err *err)
{
    cleanup_file_list struct file_list list = {0}, classes = {0};
    if (file_list_walk(&list, src, err) || file_list_classes(&classes, src, err))
        return -1;
    for (size_t i = 0; i < classes.n; i++) {
        cleanup_free char *dir = xasprintf("%s/%s/", part_dir, file_list_get(&classes, i));
        if (make_folders(dir, err))
            return -1;
    }
    int64_t at = 0, taken = 0;
    const char *before = "";
    for (size_t i = 0; i < list.n; i++) {
        const char *name = file_list_get(&list, i);
        size_t folder = strcspn(name, "/");
        if (strncmp(before, name, folder + 1) != 0)
            at = 0; /* the first of its class */
        before = name;
        if (at++ % parts != part)
            continue;
        cleanup_free char *from = xasprintf("%s/%s", src, name);
        cleanup_free char *to = xasprintf("%s/%s", part_dir, name);
        if (copy_file(from, to, O_EXCL, NULL, err))
            return -1;
        taken++;
    }
    return taken;
}

/* --- parts ------------------------------------------------------------------------------------ */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void remove_tree(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A part while it is dealt out: whoever is killed meanwhile, or whose machine stops, leaves none
 * that looks whole. */
static char *name_of(const char *job, int64_t part, bool whole)
{
    return xasprintf("%s/data/%s%lld", job, whole ? "" : ".dealing-", (long long)part);
}

static int64_t deal_part(const char *src, const char *job, int64_t part, int64_t parts,
                         struct err *err)
{
    cleanup_free char *dir = name_of(job, part, false);
    cleanup_free char *inside = xasprintf("%s/", dir);
    cleanup_free char *ratings = xasprintf("%s/ratings.dat", src);
    remove_tree(dir);
    if (make_folders(inside, err))
        return -1;
    return access(ratings, F_OK) == 0 ? deal_ratings(src, dir, part, parts, err)
                                      : deal_pictures(src, dir, part, parts, err);
}

/* All or none: those that have their names already lose them with one that cannot have its own. */
static int name_parts(const char *job, int64_t parts, struct err *err)
{
    cleanup_free char *data = xasprintf("%s/data", job);
    cleanup_close int fd = open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || syncfs(fd))
        return err_sys(err, errno, "write %s to the disk", data);
    for (int64_t i = 0; i < parts; i++) {
        cleanup_free char *dealt = name_of(job, i, false), *part = name_of(job, i, true);
        if (rename(dealt, part) == 0)
            continue;
        err_sys(err, errno, "name %s", part);
        while (i-- > 0) {
            cleanup_free char *named = name_of(job, i, true);
            remove_tree(named);
        }
        return -1;
    }
    return fsync(fd) ? err_sys(err, errno, "write %s to the disk", data) : 0;
}

static int64_t deal_all(const char *src, const char *job, int64_t parts, struct err *err)
{
    int64_t all = 0, n = 0;
    for (int64_t i = 0; i < parts && n >= 0; i++, all += n)
        n = deal_part(src, job, i, parts, err);
    if (n < 0)
        return -1;
    if (all == 0)
        return err_set(err, ERR_NOT_FOUND,
                       "no sample in %s (folders of pictures, or MovieLens' files)", src);
    return name_parts(job, parts, err) ? -1 : all;
}

/* Where `path` is, or would be made: the longest part of it that is there. */
static char *real_above(const char *path)
{
    cleanup_free char *p = xstrdup(path);
    char *real;
    while (!(real = realpath(p, NULL))) {
        char *slash = strrchr(p, '/');
        if (!slash)
            return realpath(".", NULL);
        slash[slash == p] = '\0';
    }
    return real;
}

static int check_places(const char *src, const char *job, int64_t parts, struct err *err)
{
    cleanup_free char *from = realpath(src, NULL);
    if (!from || access(from, R_OK))
        return err_sys(err, errno, "%s", src);
    cleanup_free char *to = real_above(job);
    size_t len = strlen(from);
    if (to && strncmp(to, from, len) == 0 && (to[len] == '/' || to[len] == '\0'))
        return err_set(err, ERR_USAGE, "%s lies in %s: want a folder outside of the set", job, src);
    for (int64_t i = 0; i < parts; i++) {
        cleanup_free char *part = name_of(job, i, true);
        if (access(part, F_OK) == 0)
            return err_sys(err, EEXIST, "%s", part);
    }
    return 0;
}

int64_t split_set(const char *src, const char *job, int64_t parts, struct err *err)
{
    cleanup_free char *output = xasprintf("%s/output/", job);
    if (check_places(src, job, parts, err))
        return err_wrap(err, "split");
    int64_t all = deal_all(src, job, parts, err);
    if (all > 0 && make_folders(output, err))
        all = -1;
    for (int64_t i = 0; i < parts; i++) {
        cleanup_free char *dealt = name_of(job, i, false);
        remove_tree(dealt);
    }
    return all < 0 ? err_wrap(err, "split") : all;
}

struct split_options {
    int64_t parts;
};
static const struct conf_row rows[] = {
    {"parts", CONF_INT, offsetof(struct split_options, parts), .dflt = "1", .arg = "N", .min = 1,
     .max = LAUNCH_NODES, .help = "For so many trainers"},
};
const struct program_about split_about = {
    .name = "sampan-train split",
    .summary = "deals the samples of a folder out to trainers",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .args = "SRC JOB",
    .more =
        "Makes JOB/data/0 to JOB/data/N-1, one for each trainer. Of ratings each gets all users "
        "and movies, and every N-th rating; of pictures every N-th of a class, and all "
        "classes. Parts that are there already are an error, and an error leaves none half "
        "dealt.",
    .words_only = true,
};

int split_run(int argc, char **argv, struct err *err)
{
    struct conf *conf = NULL;
    struct split_options o = {0};
    int64_t all = -1;
    if (conf_parse_words(&conf, rows, 1, &o, argc, argv, err))
        return -1;
    if (conf_help_asked(conf)) {
        all = program_print_help(&split_about, err);
    } else if (conf_n_args(conf) != 2) {
        err_set(err, ERR_USAGE, "split: want --parts N SRC JOB");
    } else {
        all = split_set(conf_arg(conf, 0), conf_arg(conf, 1), o.parts, err);
        if (all >= 0)
            printf("%lld samples in %lld parts\n", (long long)all, (long long)o.parts);
    }
    conf_free(conf);
    return all < 0 ? -1 : 0;
}
