/* The samples of a folder by number, and their labels. */
#include <errno.h>
#include <string.h>

#include "dir.h"
#include "loader-internal.h"
#include "mem.h"

#define LABEL_MAX (INT32_MAX - 1) /* the classes are one more */

static size_t class_len(const char *path)
{
    const char *slash = strchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

/* The place of the folder among the sorted classes; -1: none of that name. */
static int32_t find_class(const struct file_list *classes, const char *path, size_t len)
{
    size_t low = 0, high = classes->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *name = file_list_get(classes, middle);
        int c = strncmp(name, path, len);
        if (c == 0)
            c = name[len] != '\0';
        if (c == 0)
            return (int32_t)middle;
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

/* Samples lie class by class, so each class is looked up once. */
static void label_by_folder(struct index *x)
{
    x->labels = xcalloc(x->files.n ? x->files.n : 1, sizeof *x->labels);
    bool *seen = xcalloc(x->classes.n ? x->classes.n : 1, sizeof *seen);
    const char *last = "";
    int32_t label = -1;
    for (size_t i = 0; i < x->files.n; i++) {
        const char *path = file_list_get(&x->files, i);
        size_t len = class_len(path);
        if (!len) {
            x->labels[i] = 0; /* a set without folders has one class */
            continue;
        }
        if (class_len(last) != len || strncmp(last, path, len) != 0)
            label = find_class(&x->classes, path, len);
        x->labels[i] = label;
        last = path;
        if (label >= 0)
            seen[label] = true;
    }
    for (size_t i = x->classes.n; i-- > 0;)
        if (!seen[i]) {
            x->empty++;
            x->first_empty = i;
        }
    free(seen);
}

/* "PATH LABEL" or "PATH"; the line is ended where the path is. */
static int32_t cut_label(char *line)
{
    char *end = line + strlen(line), *at = end, *stop;
    while (at > line && at[-1] != ' ' && at[-1] != '\t')
        at--;
    if (at == line || at == end)
        return -1;
    errno = 0;
    long label = strtol(at, &stop, 10);
    if (*stop || errno || label < 0 || label > LABEL_MAX)
        return -1;
    while (at > line && (at[-1] == ' ' || at[-1] == '\t'))
        at--;
    *at = '\0';
    return (int32_t)label;
}

/* A list has a label in each line, or in none: one that is missing, or no number, is told where it
 * stands instead of becoming a part of the path or a class that nobody meant. */
static int check_label(const struct index *x, int32_t label, const char *file, size_t line,
                       const char *path, struct err *err)
{
    if (x->files.n == 0 || (label < 0) == (x->labels[0] < 0))
        return 0;
    return err_set(err, ERR_USAGE, "list %s line %zu: %s: %s (PATH LABEL: a number of 0 to %d)",
                   file, line, path,
                   label < 0 ? "no label, and lines before it have one"
                             : "a label, and lines before it have none",
                   LABEL_MAX);
}

static int read_list(struct index *x, const char *file, struct err *err)
{
    cleanup_file FILE *f = fopen(file, "re");
    if (!f)
        return err_sys(err, errno, "read the list %s", file);
    cleanup_free char *line = NULL;
    size_t cap = 0, labels = 0, number = 0;
    ssize_t n;
    while ((n = getline(&line, &cap, f)) > 0) {
        number++;
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            line[--n] = '\0';
        if (!n)
            continue;
        const char *path = strncmp(line, "./", 2) == 0 ? line + 2 : line;
        int32_t label = cut_label(line);
        if (*path == '/' || path_leads_up(path))
            return err_set(err, ERR_USAGE, "list %s: %s: want a path below the folder", file, path);
        if (check_label(x, label, file, number, path, err))
            return -1;
        if (x->files.n == labels) {
            labels = labels ? 2 * labels : 1024;
            x->labels = xrealloc(x->labels, labels * sizeof *x->labels);
        }
        x->labels[x->files.n] = label;
        file_list_add(&x->files, path, strlen(path), 0);
    }
    return ferror(f) ? err_sys(err, errno, "read the list %s", file) : 0;
}

/* As many classes as the largest label asks for. */
static void count_listed(struct index *x, uint32_t *ret_classes)
{
    int32_t most = -1;
    for (size_t i = 0; i < x->files.n; i++)
        most = x->labels[i] > most ? x->labels[i] : most;
    *ret_classes = (uint32_t)(most + 1);
}

/* Folders are listed before files. */
static int check_classes(const struct index *x, const char *dir, struct err *err)
{
    for (size_t i = 0; i < x->files.n; i++)
        if (x->labels[i] < 0)
            return err_set(err, ERR_STALE,
                           "%s changed while it was listed: the class of %s has come meanwhile "
                           "(start again)",
                           dir, file_list_get(&x->files, i));
    return 0;
}

int index_open(struct index *ret, const char *dir, const char *list, struct err *err)
{
    struct index x = {0};
    int rc;
    if (list) {
        rc = read_list(&x, list, err);
    } else {
        rc = file_list_classes(&x.classes, dir, err) || file_list_walk(&x.files, dir, err) ? -1 : 0;
        if (!rc) {
            file_list_numbered(&x.files);
            label_by_folder(&x);
            rc = check_classes(&x, dir, err);
        }
    }
    if (!rc && !x.files.n)
        rc = err_set(err, ERR_NOT_FOUND, "no sample in %s (want class folders with pictures)",
                     list ? list : dir);
    if (!rc && x.files.n >= UINT32_MAX)
        rc = err_set(err, ERR_LIMIT, "%s: %zu samples: too many", dir, x.files.n);
    if (rc) {
        index_release(&x);
        return -1;
    }
    count_listed(&x, &x.n_classes);
    if (!list)
        x.n_classes = x.classes.n ? (uint32_t)x.classes.n : 1;
    *ret = x;
    return 0;
}

void index_release(struct index *x)
{
    file_list_release(&x->files);
    file_list_release(&x->classes);
    free(x->labels);
    *x = (struct index){0};
}
