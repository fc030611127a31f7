/*
 * A claim's prefix in the store, through `sampan sync` and `sampan rmr`: the same words for every
 * kind of store.
 *
 * The mark is beside the prefix, not in it: a pod that writes there can neither forge nor lose it.
 */
#include "controller-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "dir.h"
#include "mem.h"

#define MARKS    ".sampan-volumes"
#define MARK_MAX 4096

/* --- scratch ---------------------------------------------------------------------------------- */

static void remove_tree(int at, const char *name)
{
    if (unlinkat(at, name, 0) == 0)
        return;
    cleanup_dir DIR *d = dir_open(at, name, O_NOFOLLOW);
    for (const struct dirent *e; d && (e = dir_next(d));)
        remove_tree(dirfd(d), e->d_name);
    unlinkat(at, name, AT_REMOVEDIR);
}

int scratch_make(struct scratch *s, const struct controller *c, const struct bytes *credentials,
                 struct err *err)
{
    *s = (struct scratch){.path = xasprintf("%s/%sXXXXXX", c->conf.run, c->scratch)};
    if (!mkdtemp(s->path)) {
        int e = errno;
        free(take_ptr(&s->path));
        return err_sys(err, e, "make a folder in %s", c->conf.run);
    }
    if (!credentials->len)
        return 0;
    s->credentials = xasprintf("%s/credentials", s->path);
    return file_write_whole(s->credentials, credentials->data, credentials->len, 0400, err);
}

void scratch_release(struct scratch *s)
{
    if (s->path)
        remove_tree(AT_FDCWD, s->path);
    free(s->path);
    free(s->credentials);
    *s = (struct scratch){0};
}

void scratch_clean(const struct controller *c)
{
    cleanup_dir DIR *d = opendir(c->conf.run);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, c->scratch, strlen(c->scratch)) == 0)
            remove_tree(dirfd(d), e->d_name);
}

/* --- words ------------------------------------------------------------------------------------ */

/* sampan VERB [words…] [store words…] -- [from] [to] */
static int run(const struct place *p, const char *const *words, const char *from, const char *to,
               struct bytes *out, struct err *err)
{
    const char *argv[STORE_WORDS_MAX + 16] = {"sampan"};
    size_t n = 1;
    for (size_t i = 0; words[i]; i++)
        argv[n++] = words[i];
    n += store_words(p->attributes, p->scratch->credentials, argv + n);
    argv[n++] = "--";
    argv[n++] = from;
    if (to)
        argv[n++] = to;
    return p->mounter->ops->run(p->mounter, argv, p->deadline_ns, out, err);
}

/* The folder that holds the prefix: what stands before its last part. */
static char *parent_of(const struct created *v)
{
    return xstrndup(v->prefix, (size_t)(strrchr(v->prefix, '/') + 1 - v->prefix));
}

static void mark_text(const struct created *v, const char *driver, struct bytes *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_str(&w, "driver", driver);
    jw_str(&w, "volume", v->id);
    jw_str(&w, "token", v->token);
    jw_end(&w);
    bytes_add_char(out, '\n');
}

/* --- the mark --------------------------------------------------------------------------------- */

enum mark { MARK_NONE, MARK_OURS, MARK_FOREIGN };

/* Reads it back from the store and compares. */
static int look_at_mark(const struct place *p, const struct created *v, const char *driver,
                        enum mark *ret, struct err *err)
{
    cleanup_free char *parent = parent_of(v), *from = xasprintf("%s%s/", parent, MARKS);
    cleanup_free char *name = xasprintf("%s.json", v->id);
    cleanup_free char *folder = xasprintf("%s/mark", p->scratch->path);
    cleanup_free char *to = xasprintf("file://%s/", folder);
    cleanup_free char *path = xasprintf("%s/%s", folder, name);
    const char *const words[] = {"sync", "--quiet", "--include", name, "--exclude", "*", NULL};
    struct err why = {0};
    if (mkdir(folder, 0700) && errno != EEXIST)
        return err_sys(err, errno, "make the folder %s", folder);
    unlink(path);
    if (run(p, words, from, to, NULL, &why) && why.class != ERR_NOT_FOUND) {
        *err = why;
        return err_wrap(err, "look for the mark of %s", v->prefix);
    }
    char have[MARK_MAX];
    cleanup_bytes struct bytes want = {0};
    mark_text(v, driver, &want);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        *ret = MARK_NONE;
        return 0;
    }
    ssize_t n = fd < 0 ? -1 : read(fd, have, sizeof have);
    if (n < 0)
        return err_sys(err, errno, "look at the mark of %s: %s", v->prefix, path);
    *ret =
        (size_t)n == want.len && memcmp(have, want.data, want.len) == 0 ? MARK_OURS : MARK_FOREIGN;
    return 0;
}

/* How many objects lie in the prefix. */
static int count_objects(const struct place *p, const struct created *v, int64_t *ret,
                         struct err *err)
{
    const char *const words[] = {"rmr", "--dry", "--json", "--quiet", NULL};
    cleanup_bytes struct bytes out = {0};
    cleanup_json struct json_doc *doc = NULL;
    struct err why = {0};
    cleanup_free char *folder = xasprintf("%s/", v->prefix);
    *ret = 0;
    if (run(p, words, folder, NULL, &out, &why)) {
        if (why.class == ERR_NOT_FOUND)
            return 0;
        *err = why;
        return err_wrap(err, "look at %s", v->prefix);
    }
    if (json_parse(&doc, "rmr", out.data ? out.data : "", out.len, err))
        return -1;
    struct json root = json_root(doc), removed = json_get(&root, "removed");
    struct json first = json_at(&removed, 0);
    return json_int(&first, "objects", 0, INT64_MAX, ret, err);
}

/* Folder and mark go together; the store may want the folder before anything can be mounted there.
 */
static int put_mark(const struct place *p, const struct created *v, const char *driver,
                    struct err *err)
{
    cleanup_free char *top = xasprintf("%s/new", p->scratch->path);
    cleanup_free char *marks = xasprintf("%s/%s", top, MARKS);
    cleanup_free char *folder = xasprintf("%s/%s", top, v->id);
    cleanup_free char *path = xasprintf("%s/%s.json", marks, v->id);
    cleanup_free char *from = xasprintf("file://%s/", top), *to = parent_of(v);
    const char *const words[] = {"sync", "--quiet", "--dirs", NULL};
    cleanup_bytes struct bytes text = {0};
    mark_text(v, driver, &text);
    if (folder_make(marks, err) || folder_make(folder, err) ||
        file_write_whole(path, text.data, text.len, 0600, err))
        return -1;
    if (chmod(folder, 0755) || chmod(marks, 0755))
        return err_sys(err, errno, "chmod %s", top);
    if (run(p, words, from, to, NULL, err))
        return err_wrap(err, "make %s", v->prefix);
    return 0;
}

/* --- making and removing ---------------------------------------------------------------------- */

int prefix_make(const struct place *p, const struct created *v, const char *driver, struct err *err)
{
    enum mark mark = MARK_NONE;
    int64_t objects;
    if (look_at_mark(p, v, driver, &mark, err))
        return -1;
    if (mark == MARK_OURS)
        return put_mark(p, v, driver, err); /* the prefix may be missing still */
    if (mark == MARK_FOREIGN)
        return err_set(
            err, ERR_LIMIT,
            "%s: another driver or cluster has made a volume there (give the StorageClass "
            "another uri)",
            v->prefix);
    if (count_objects(p, v, &objects, err))
        return -1;
    if (objects)
        return err_set(
            err, ERR_LIMIT,
            "%s: %lld objects lie there that this driver did not make (empty it, or give "
            "the StorageClass another uri)",
            v->prefix, (long long)objects);
    return put_mark(p, v, driver, err);
}

int store_remove(const struct place *p, const char *uri, struct err *err)
{
    const char *const words[] = {"rmr", "--yes", "--skip-trash", "--quiet", NULL};
    struct err why = {0};
    if (run(p, words, uri, NULL, NULL, &why) == 0 || why.class == ERR_NOT_FOUND)
        return 0;
    *err = why;
    return err_wrap(err, "remove %s", uri);
}

int prefix_remove(const struct place *p, const struct created *v, const char *driver,
                  struct err *err)
{
    enum mark mark = MARK_NONE;
    int64_t objects;
    if (look_at_mark(p, v, driver, &mark, err) || count_objects(p, v, &objects, err))
        return -1;
    if (mark == MARK_FOREIGN || (mark == MARK_NONE && objects))
        return err_set(err, ERR_DENIED,
                       "%s: its mark %s/%s.json is %s: nothing was removed (what lies there may be "
                       "somebody else's: remove it by hand)",
                       v->prefix, MARKS, v->id, mark == MARK_NONE ? "missing" : "another volume's");
    cleanup_free char *parent = parent_of(v);
    cleanup_free char *path = xasprintf("%s%s/%s.json", parent, MARKS, v->id);
    cleanup_free char *folder = xasprintf("%s/", v->prefix);
    /* Without a mark the folder is empty, and of a making that was cut off. */
    if (store_remove(p, folder, err))
        return -1;
    return mark == MARK_OURS ? store_remove(p, path, err) : 0;
}
