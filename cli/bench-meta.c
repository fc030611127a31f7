/* bench meta: lists a tree and looks at every entry, as find and du do. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench-internal.h"
#include "clock.h"
#include "dir.h"

#define DEPTH_MAX 64

struct tree {
    uint64_t files, folders, bytes;
};

static int look_at(struct tree *t, int at, const char *name, int depth, struct err *err);

static int look_below(struct tree *t, int at, const char *name, int depth, struct err *err)
{
    cleanup_dir DIR *d = dir_open(at, name, 0);
    if (!d)
        return err_sys(err, errno, "read the folder %s", name);
    if (depth == DEPTH_MAX)
        return err_set(err, ERR_LIMIT, "read the folder %s: more than %d levels deep", name,
                       DEPTH_MAX);
    for (const struct dirent *e; (e = dir_next(d));)
        if (look_at(t, dirfd(d), e->d_name, depth, err))
            return -1;
    return errno ? err_sys(err, errno, "read the folder %s", name) : 0;
}

static int look_at(struct tree *t, int at, const char *name, int depth, struct err *err)
{
    struct stat st;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW))
        return err_sys(err, errno, "look at %s", name);
    if (!S_ISDIR(st.st_mode)) {
        t->files++;
        t->bytes += (uint64_t)st.st_size;
        return 0;
    }
    t->folders++;
    return look_below(t, at, name, depth + 1, err);
}

static int report(const struct tree *t, double seconds, bool json, struct err *err)
{
    uint64_t entries = t->files + t->folders;
    double rate = seconds > 0 ? (double)entries / seconds : 0;
    double us = entries ? seconds * 1e6 / (double)entries : 0;
    cleanup_bytes struct bytes out = {0};
    if (json) {
        struct json_writer w;
        jw_init(&w, &out);
        jw_object(&w, NULL);
        jw_uint(&w, "entries", entries);
        jw_uint(&w, "files", t->files);
        jw_uint(&w, "folders", t->folders);
        jw_uint(&w, "bytes", t->bytes);
        write_seconds(&w, "seconds", seconds);
        jw_num(&w, "entries_per_s", rate);
        jw_num(&w, "us_per_entry", us);
        jw_end(&w);
        bytes_add_char(&out, '\n');
    } else {
        bytes_addf(&out, "%" PRIu64 " entries in %.2f s: %.0f entries/s, %.2f us an entry\n",
                   entries, seconds, rate, us);
    }
    return print_out(&out, err);
}

int bench_meta(const char *dir, const struct bench_options *o, struct err *err)
{
    for (int64_t i = 0; i < o->passes; i++) {
        struct tree t = {0};
        uint64_t began = clock_mono_ns();
        if (look_at(&t, AT_FDCWD, dir, 0, err) ||
            report(&t, (double)(clock_mono_ns() - began) / 1e9, o->json, err))
            return -1;
    }
    return 0;
}
