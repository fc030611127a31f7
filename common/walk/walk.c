/* Files below a folder, in the order in which Paddle and torch number them. */
#include "walk.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "dir.h"
#include "mem.h"

#define DEPTH_MAX 64

void file_list_add(struct file_list *l, const char *path, size_t len, uint64_t inode)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 1024;
        l->at = xrealloc(l->at, l->cap * sizeof *l->at);
    }
    bytes_add(&l->text, &inode, sizeof inode);
    l->at[l->n++] = l->text.len;
    bytes_add(&l->text, path, len);
    bytes_add_char(&l->text, '\0');
}

uint64_t file_list_inode(const struct file_list *l, size_t i)
{
    uint64_t inode;
    memcpy(&inode, l->text.data + l->at[i] - sizeof inode, sizeof inode);
    return inode;
}

void file_list_release(struct file_list *l)
{
    bytes_release(&l->text);
    free(l->at);
    *l = (struct file_list){0};
}

/* --- the walk --------------------------------------------------------------------------------- */

/* DT_REG, DT_DIR or another: of a link what it leads to, which is nothing if that is not there.
 * What cannot be looked at is no reason to leave a sample out: all behind it would change their
 * numbers.
 */
static int type_of(int dir, const struct dirent *e, unsigned char *ret)
{
    struct stat st;
    *ret = e->d_type;
    if (*ret != DT_UNKNOWN && *ret != DT_LNK)
        return 0;
    if (fstatat(dir, e->d_name, &st, 0))
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -1;
    *ret = IFTODT(st.st_mode);
    return 0;
}

/* `path` is "DIR" or "DIR/a/b"; what is added starts after `top` bytes of it. */
static int gather(struct file_list *l, struct bytes *path, size_t top, int depth, struct err *err)
{
    cleanup_dir DIR *d = opendir(path->data);
    if (!d)
        return err_sys(err, errno, "read the folder %s", path->data);
    if (depth == DEPTH_MAX)
        return err_set(err, ERR_LIMIT, "read the folder %s: more than %d levels deep", path->data,
                       DEPTH_MAX);
    size_t len = path->len;
    for (const struct dirent *e; (e = dir_next(d));) {
        unsigned char type;
        if (type_of(dirfd(d), e, &type))
            return err_sys(err, errno, "look at %s/%s", path->data, e->d_name);
        bytes_addf(path, "/%s", e->d_name);
        if (type == DT_REG)
            file_list_add(l, path->data + top, path->len - top, e->d_ino);
        int result = type == DT_DIR ? gather(l, path, top, depth + 1, err) : 0;
        path->len = len;
        path->data[len] = '\0';
        if (result)
            return -1;
    }
    return errno ? err_sys(err, errno, "read the folder %s", path->data) : 0;
}

static int compare_part(const char *a, size_t la, const char *b, size_t lb)
{
    int c = memcmp(a, b, la < lb ? la : lb);
    return c ? c : la < lb ? -1 : la > lb;
}

static size_t folder_len(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

/* First-level folder, then the folder's whole path, then the name: each in byte order. */
static int by_walk(const void *x, const void *y, void *text)
{
    const char *a = (const char *)text + *(const uint64_t *)x;
    const char *b = (const char *)text + *(const uint64_t *)y;
    size_t fa = folder_len(a), fb = folder_len(b);
    size_t ca = fa ? strcspn(a, "/") : 0, cb = fb ? strcspn(b, "/") : 0;
    int c = compare_part(a, ca, b, cb);
    if (!c)
        c = compare_part(a, fa, b, fb);
    return c ? c : strcmp(a + fa, b + fb);
}

int file_list_walk(struct file_list *ret, const char *dir, struct err *err)
{
    cleanup_bytes struct bytes path = {0};
    bytes_add_str(&path, dir);
    while (path.len > 1 && path.data[path.len - 1] == '/')
        path.data[--path.len] = '\0';
    if (gather(ret, &path, path.len + 1, 0, err))
        return -1;
    if (ret->n)
        qsort_r(ret->at, ret->n, sizeof *ret->at, by_walk, ret->text.data);
    return 0;
}

static int by_name(const void *x, const void *y, void *text)
{
    const char *all = text;
    return strcmp(all + *(const uint64_t *)x, all + *(const uint64_t *)y);
}

int file_list_classes(struct file_list *ret, const char *dir, struct err *err)
{
    cleanup_dir DIR *d = opendir(dir);
    if (!d)
        return err_sys(err, errno, "read the folder %s", dir);
    for (const struct dirent *e; (e = dir_next(d));) {
        unsigned char type;
        if (type_of(dirfd(d), e, &type))
            return err_sys(err, errno, "look at %s/%s", dir, e->d_name);
        if (type == DT_DIR && strcmp(e->d_name, ".sampan") != 0)
            file_list_add(ret, e->d_name, strlen(e->d_name), e->d_ino);
    }
    if (errno)
        return err_sys(err, errno, "read the folder %s", dir);
    if (ret->n)
        qsort_r(ret->at, ret->n, sizeof *ret->at, by_name, ret->text.data);
    return 0;
}

/* --- numbers --------------------------------------------------------------------------------- */

static bool is_image(const char *path)
{
    return name_is_image(path, strlen(path));
}

static void keep_if(struct file_list *l, bool (*wanted)(const char *path))
{
    size_t any = 0;
    for (size_t i = 0; i < l->n; i++)
        any += wanted(file_list_get(l, i));
    if (!any)
        return;
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        if (wanted(file_list_get(l, i)))
            l->at[n++] = l->at[i];
    l->n = n;
}

static bool in_folder(const char *path)
{
    return strchr(path, '/') != NULL;
}

void file_list_numbered(struct file_list *l)
{
    keep_if(l, in_folder);
    keep_if(l, is_image);
}
