/* Cache folders that no mount uses: what sets that are not mounted here any more have left. Nothing
 * is removed: a set that is mounted again finds its samples there. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "catalog.h"
#include "dir.h"
#include "doctor-internal.h"
#include "mem.h"

#define DEPTH_MAX 16

/* What lies below a folder. */
struct weight {
    uint64_t bytes; /* on the disk */
    time_t last;    /* the newest change of a file */
    bool outputs;   /* a writable mount's: perhaps not stored yet */
};

static void weigh(int at, const char *name, int depth, struct weight *w)
{
    cleanup_dir DIR *d = dir_open(at, name, O_NOFOLLOW);
    for (const struct dirent *e; d && depth < DEPTH_MAX && (e = dir_next(d));) {
        struct stat st;
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        w->bytes += (uint64_t)st.st_blocks * 512;
        w->outputs |= strcmp(e->d_name, "journal.db") == 0;
        if (S_ISDIR(st.st_mode))
            weigh(dirfd(d), e->d_name, depth + 1, w);
        else if (st.st_mtime > w->last)
            w->last = st.st_mtime;
    }
}

/* Whose it is: "s3://bucket/prefix", as the newest version there says. */
static void name_set(const char *dir, const struct weight *w, struct bytes *ret)
{
    cleanup_bytes struct bytes folder = {0};
    struct catalog *c = NULL;
    bytes_addf(&folder, "%s/catalog", dir);
    if (w->outputs)
        bytes_add_str(ret, "outputs of a writable mount");
    else if (catalog_current(&c, folder.data, NULL) == 0 && catalog_info(c)->n_sources)
        bytes_add_str(ret, catalog_source_uri(c, 0));
    else
        bytes_add_str(ret, "an unknown set");
    catalog_unref(c);
}

static bool is_cache(const char *dir)
{
    static const char *const parts[] = {"catalog", "lock", "stage"};
    for (size_t i = 0; i < COUNT(parts); i++) {
        cleanup_free char *part = xasprintf("%s/%s", dir, parts[i]);
        if (access(part, F_OK) == 0)
            return true;
    }
    return false;
}

static void look_at(struct doctor *d, const char *dir)
{
    struct weight w = {0};
    cleanup_bytes struct bytes set = {0};
    char size[32], when[32] = "";
    struct tm tm;
    weigh(AT_FDCWD, dir, 0, &w);
    name_set(dir, &w, &set);
    conf_format_size(w.bytes, size);
    if (localtime_r(&w.last, &tm))
        strftime(when, sizeof when, "%Y-%m-%d", &tm);
    cleanup_free char *word = shell_word(dir);
    cleanup_free char *cure =
        w.outputs ? xstrdup("it may hold what is not stored yet: mount it once more, --writable, "
                            "and sampan flush")
                  : xasprintf("rm -r %s frees it; mounted again, its set goes on with it", word);
    finding(d, NOTE, "cache folder that no mount uses", cure, "%s: %s, %s, last changed %s", dir,
            set.data, size, when);
}

/* The CSI plugin's, of a set's version that a volume names, or with other keys. */
static bool is_around_caches(const char *name)
{
    return strncmp(name, "version-", 8) == 0 || strncmp(name, "apart-", 6) == 0;
}

/* Caches lie in the folder itself, or one below it. */
static void look_below(struct doctor *d, DIR *all, const char *base, bool deeper)
{
    for (const struct dirent *e; (e = dir_next(all));) {
        cleanup_free char *dir = xasprintf("%s/%s", base, e->d_name);
        bool around = deeper && is_around_caches(e->d_name);
        cleanup_dir DIR *more = around ? dir_open(dirfd(all), e->d_name, O_NOFOLLOW) : NULL;
        if (more)
            look_below(d, more, dir, false);
        else if (is_cache(dir) && !owner_in_use(dir))
            look_at(d, dir);
    }
}

void doctor_unused(struct doctor *d, const char *cache_dir)
{
    cleanup_bytes struct bytes asked = {0};
    struct err err = {0};
    if (owner_base(cache_dir, &asked, &err)) {
        finding(d, WRONG, "no cache folder", NULL, "%s", err.msg);
        return;
    }
    cleanup_free char *base = path_absolute(asked.data);
    cleanup_dir DIR *all = opendir(base);
    if (!all && errno != ENOENT) {
        finding(d, WRONG, "the folder of caches cannot be read",
                "give another one with --cache-dir, or ask as its owner", "%s: %s", base,
                strerror(errno));
        return;
    }
    unsigned before = d->notes;
    if (all)
        look_below(d, all, base, true);
    if (d->notes == before)
        finding(d, SOUND, "no cache folder is unused", NULL, "%s", base);
}
