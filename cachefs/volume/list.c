/*
 * The list file of a sampler (list=, root=): one sample a line, as frameworks' list data sets have
 * it: a path below `root`, perhaps with a label behind it ("n01440764/x.JPEG 0", "a b.jpg<TAB>7").
 */
#include "volume-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define LIST_MAX (2ull << 30) /* bytes; 10 M lines of 200 */

static bool all_digits(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (s[i] < '0' || s[i] > '9')
            return false;
    return len > 0;
}

/* How much of the line is the path: up to a tab, or up to a last word that is a number. */
static size_t path_length(const char *line, size_t len)
{
    const char *tab = memchr(line, '\t', len);
    if (tab)
        return (size_t)(tab - line);
    const char *blank = memrchr(line, ' ', len);
    if (blank && all_digits(blank + 1, (size_t)(line + len - blank - 1))) {
        while (blank > line && blank[-1] == ' ')
            blank--;
        return (size_t)(blank - line);
    }
    return len;
}

static void add_line(const char *line, size_t len, const char *root, struct bytes *ret)
{
    if (len > 0 && line[len - 1] == '\r')
        len--;
    while (len > 0 && line[len - 1] == ' ')
        len--;
    len = path_length(line, len);
    while (len > 2 && line[0] == '.' && line[1] == '/') {
        line += 2;
        len -= 2;
    }
    if (len == 0) {
        bytes_add_char(ret, '\n'); /* so that the lines after it keep their numbers */
        return;
    }
    size_t root_len = strlen(root);
    while (root_len > 0 && root[root_len - 1] == '/')
        root_len--;
    if (root_len > 0) {
        bytes_add(ret, root, root_len);
        bytes_add_char(ret, '/');
    }
    bytes_add(ret, line, len);
    bytes_add_char(ret, '\n');
}

void list_clean(const char *text, size_t len, const char *root, struct bytes *ret)
{
    const char *end = text + len;
    while (*root == '/')
        root++;
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3; /* some editors begin a file with a mark that it is UTF-8 */
    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop)
            stop = end;
        add_line(text, (size_t)(stop - text), root, ret);
        text = stop + 1;
    }
}

/*
 * A file in the mount that is to be ordered by it is refused before it is read: the next life would
 * read it before it serves, and wait for itself.
 */
static int read_file(const struct sources *s, const char *path, struct bytes *ret, struct err *err)
{
    /* A pipe that nobody writes to is not waited for. */
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return err_sys(err, errno, "list %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_USAGE, "list %s: not a regular file", path);
    if (st.st_dev == atomic_load(&s->served_as))
        return err_set(err, ERR_USAGE,
                       "list %s: it lies in this mount itself (name it by its path in the set)",
                       path);
    if ((uint64_t)st.st_size > LIST_MAX)
        return err_set(err, ERR_LIMIT, "list %s: %lld bytes: at most 2 GiB are read", path,
                       (long long)st.st_size);
    bytes_reserve(ret, (size_t)st.st_size + 1);
    for (;;) {
        bytes_reserve(ret, 1 << 16);
        ssize_t n = read(fd, ret->data + ret->len, ret->cap - ret->len - 1);
        if (n < 0 && errno != EINTR)
            return err_sys(err, errno, "list %s", path);
        if (n == 0)
            break;
        ret->len += n > 0 ? (size_t)n : 0;
    }
    ret->data[ret->len] = '\0';
    return 0;
}

struct wanted {
    struct store *store;
    const char *key;
};

static int build_get(void *arg, struct http_req *r, struct err *err)
{
    struct wanted *w = arg;
    return store_req_get(w->store, w->key, strlen(w->key), 0, 0, r, err);
}

static int read_object(const struct sources *s, size_t i, struct fetch *f, const char *key,
                       struct bytes *ret, struct err *err)
{
    struct store *store = s->stores[i];
    if (store_caps(store) & STORE_LOCAL) {
        cleanup_free char *path = xasprintf("%s/%s", store_local_dir(store), key);
        return read_file(s, path, ret, err);
    }
    struct wanted w = {store, key};
    struct http_answer answer;
    return fetch_do(f, store, build_get, &w, LIST_MAX, &answer, ret, err);
}

/* Below the set (in the source whose folder holds the path), or an absolute path of this machine:
 * no other one would mean the same file to the daemon, whose folder is not the user's. */
static int read_anywhere(const struct sources *s, struct fetch *f, const char *list,
                         struct bytes *ret, struct err *err)
{
    if (list[0] == '/')
        return read_file(s, list, ret, err);
    struct err e = {0};
    for (size_t i = 0; i < s->set.n; i++) {
        const char *at = s->set.sources[i].at;
        if (strncmp(list, at, strlen(at)) != 0)
            continue;
        bytes_clear(ret);
        err_clear(&e);
        if (!read_object(s, i, f, list + strlen(at), ret, &e))
            return 0;
        if (e.class != ERR_NOT_FOUND)
            break;
    }
    bytes_clear(ret);
    if (!e.class)
        err_set(&e, ERR_NOT_FOUND, "no source of the set is there");
    if (err)
        *err = e;
    return err_wrap(err, "list \"%s\" of the set (one of this machine begins with /)", list);
}

int list_read(const struct sources *s, struct fetch *f, const char *list, const char *root,
              struct bytes *ret, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    if (read_anywhere(s, f, list, &text, err))
        return -1;
    bytes_clear(ret);
    list_clean(text.data ? text.data : "", text.len, root, ret);
    return 0;
}
