/* Removing: what a URI names, and the order of things. */
#include "remove.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "dir.h"
#include "remove-internal.h"

#define CONNECTIONS   64
#define SORT_MEMORY   (16u << 20)
#define LIST_PARALLEL 16

/* --- names ------------------------------------------------------------------------------------ */

void names_add(struct names *s, const char *name)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->list = xrealloc(s->list, s->cap * sizeof *s->list);
    }
    s->list[s->n++] = xstrdup(name);
}

void names_release(struct names *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->list[i]);
    free(s->list);
    *s = (struct names){0};
}

/* A folder's key is the start of those in it, so falling order has them first. */
static int falling(const void *a, const void *b)
{
    return strcmp(*(char *const *)b, *(char *const *)a);
}

void names_deepest_first(struct names *s)
{
    if (s->n)
        qsort(s->list, s->n, sizeof *s->list, falling);
}

/* --- what a URI names ------------------------------------------------------------------------- */

/* "s3://b/p/x/" -> "s3://b/p/" and "x"; without a name for the root of a bucket. */
static void split(const char *uri, struct bytes *parent, char **name, bool *folder)
{
    const char *path = strstr(uri, "://");
    path = path ? strchr(path + 3, '/') : NULL;
    size_t end = strlen(uri), start = path ? (size_t)(path - uri) : end;
    *folder = path && uri[end - 1] == '/';
    while (end > start + 1 && uri[end - 1] == '/')
        end--;
    size_t last = end;
    while (last > start && uri[last - 1] != '/')
        last--;
    bytes_add(parent, uri, last);
    *name = path && last > start ? xstrndup(uri + last, end - last) : xstrdup("");
}

static int open_engine(struct removal *r, struct err *err)
{
    struct fetch_conf fc;
    fetch_conf_defaults(&fc);
    fc.connections = CONNECTIONS;
    fc.hedge = false;
    return fetch_new(&r->fetch, &fc, err);
}

static struct sorter *new_keys(void)
{
    const char *tmp = secure_getenv("TMPDIR");
    return sorter_new(tmp && *tmp ? tmp : "/tmp", SORT_MEMORY);
}

static int check_writes(const struct removal *r, struct err *err)
{
    if (store_caps(r->parent) & STORE_WRITES)
        return 0;
    return err_set(err, ERR_USAGE, "nothing can be removed at %s", store_uri(r->parent));
}

static int open_all(struct removal *r, const char *uri, const struct store_conf *conf,
                    struct err *err)
{
    cleanup_bytes struct bytes parent = {0};
    split(uri, &parent, &r->name, &r->named_folder);
    if (name_is_dots(r->name))
        return err_set(err, ERR_USAGE, "%s: name what is to go by its own name", uri);
    if (store_open(&r->parent, parent.data ? parent.data : uri, conf, err) ||
        store_open(&r->folder, uri, conf, err))
        return -1;
    return check_writes(r, err) ? -1 : open_engine(r, err);
}

int remove_open(struct removal **ret, const char *uri, const struct store_conf *conf,
                bool *ret_is_root, struct err *err)
{
    struct removal *r = xcalloc(1, sizeof *r);
    if (open_all(r, uri, conf, err)) {
        remove_close(r);
        return -1;
    }
    *ret_is_root = !*r->name;
    *ret = r;
    return 0;
}

int remove_open_list(struct removal **ret, const char *uri, const struct store_conf *conf,
                     struct err *err)
{
    struct removal *r = xcalloc(1, sizeof *r);
    r->name = xstrdup("");
    r->keys = new_keys();
    if (store_open(&r->parent, uri, conf, err) || check_writes(r, err) || open_engine(r, err)) {
        remove_close(r);
        return -1;
    }
    *ret = r;
    return 0;
}

int remove_add(struct removal *r, const char *key, uint64_t size, struct remove_counts *counts,
               struct err *err)
{
    counts->objects++;
    counts->bytes += size;
    return sorter_add(r->keys, key, strlen(key), &size, sizeof size, err);
}

void remove_close(struct removal *r)
{
    if (!r)
        return;
    fetch_free(r->fetch);
    store_close(r->parent);
    store_close(r->folder);
    if (r->keys)
        sorter_free(r->keys);
    names_release(&r->folders);
    free(r->name);
    free(r);
}

/* --- finding ---------------------------------------------------------------------------------- */

struct finding {
    struct removal *r;
    const struct remove_watch *watch;
    struct remove_counts *counts;
    struct bytes key;
    uint64_t told_ns;
};

static int found(struct finding *f, const char *key, bool folder, uint64_t size, struct err *err)
{
    struct removal *r = f->r;
    if (remove_told_to_stop(f->watch, f->counts, &f->told_ns))
        return err_set(err, ERR_CANCELLED, "interrupted");
    bytes_clear(&f->key);
    if (*r->name)
        bytes_addf(&f->key, "%s/", r->name);
    bytes_add_str(&f->key, key);
    if (!*r->name && store_is_trash(f->key.data))
        return 0; /* of a whole bucket: what is in the trash stays there for its day */
    r->is_folder = true;
    if (folder) {
        names_add(&r->folders, f->key.data);
        return 0;
    }
    f->counts->objects++;
    f->counts->bytes += size;
    return sorter_add(r->keys, f->key.data, f->key.len, &size, sizeof size, err);
}

static int on_item(void *arg, const struct list_item *item, struct err *err)
{
    struct finding *f = arg;
    cleanup_free char *key = xstrndup(item->key, item->key_len);
    bool real = item->folder && !(store_caps(f->r->parent) & STORE_FLAT_LIST);
    return found(f, key, real, item->folder ? 0 : item->size, err);
}

static int on_local(void *arg, const char *key, const struct stat *st, struct err *err)
{
    return found(arg, key, S_ISDIR(st->st_mode), S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
                 err);
}

static int list_below(struct finding *f, struct err *err)
{
    struct removal *r = f->r;
    return store_caps(r->parent) & STORE_LOCAL
               ? store_local_walk(r->folder, "", on_local, f, err)
               : fetch_list_marks(r->fetch, r->folder, LIST_PARALLEL, on_item, f, err);
}

/* The object that marks the folder itself goes last, and counts as little as a real folder. */
static int find_mark(struct removal *r, struct err *err)
{
    cleanup_free char *key = xasprintf("%s/", r->name);
    struct http_answer a;
    struct err e = {0};
    if (fetch_head(r->fetch, r->parent, key, &a, &e) == 0) {
        r->is_folder = true;
        names_add(&r->folders, key);
    } else if (e.class != ERR_NOT_FOUND) {
        *err = e;
        return -1;
    }
    return 0;
}

static int find_below(struct finding *f, struct err *err)
{
    struct removal *r = f->r;
    struct err e = {0};
    if (list_below(f, &e)) {
        if (e.class == ERR_NOT_FOUND)
            return 0;
        *err = e;
        return -1;
    }
    if (*r->name && (store_caps(r->parent) & STORE_FLAT_LIST))
        return find_mark(r, err);
    if (*r->name && !r->is_object) {
        cleanup_free char *key = xasprintf("%s/", r->name);
        r->is_folder = true; /* a real one, perhaps empty */
        names_add(&r->folders, key);
    }
    return 0;
}

static int add_object(struct finding *f, uint64_t size, struct err *err)
{
    struct removal *r = f->r;
    r->is_object = true;
    f->counts->objects++;
    f->counts->bytes += size;
    return sorter_add(r->keys, r->name, strlen(r->name), &size, sizeof size, err);
}

/* 1: a local folder, 0: a file, a link or nothing (which is an error). */
static int look_local(struct finding *f, struct err *err)
{
    struct stat st;
    if (store_local_stat(f->r->parent, f->r->name, &st, err))
        return -1;
    if (!S_ISDIR(st.st_mode))
        return add_object(f, (uint64_t)st.st_size, err);
    return 1;
}

static int find_object(struct finding *f, struct err *err)
{
    struct http_answer a;
    struct err e = {0};
    if (f->r->named_folder)
        return 0;
    if (fetch_head(f->r->fetch, f->r->parent, f->r->name, &a, &e)) {
        if (e.class == ERR_NOT_FOUND)
            return 0;
        *err = e;
        return -1;
    }
    return add_object(f, a.content_length < 0 ? 0 : (uint64_t)a.content_length, err);
}

static int find(struct finding *f, struct err *err)
{
    struct removal *r = f->r;
    if (!*r->name)
        return find_below(f, err);
    if (store_caps(r->parent) & STORE_LOCAL) {
        int is_folder = look_local(f, err);
        return is_folder > 0 ? find_below(f, err) : is_folder;
    }
    return find_object(f, err) ? -1 : find_below(f, err);
}

static bool told_to_stop(void *arg)
{
    return remove_is_over(arg);
}

static struct fetch_stopper stopper_of(struct removal *r, const struct remove_watch *watch)
{
    return (struct fetch_stopper){.fetch = r->fetch,
                                  .patience_ns = FETCH_PATIENCE_NS,
                                  .told = told_to_stop,
                                  .arg = (void *)(uintptr_t)watch};
}

int remove_find(struct removal *r, const struct remove_watch *watch, struct remove_counts *ret,
                struct err *err)
{
    struct err ignored;
    err = err ? err : &ignored;
    struct finding f = {.r = r, .watch = watch, .counts = ret};
    *ret = (struct remove_counts){0};
    r->keys = new_keys();
    struct fetch_stopper stopper = stopper_of(r, watch);
    if (fetch_stopper_begin(&stopper, err))
        return -1;
    int result = find(&f, err);
    fetch_stopper_end(&stopper);
    bytes_release(&f.key);
    if (result)
        return -1;
    if (!r->is_object && !r->is_folder)
        return err_set(err, ERR_NOT_FOUND, "nothing there: %s%s", store_uri(r->parent), r->name);
    return 0;
}

/* --- removing --------------------------------------------------------------------------------- */

static int on_any(void *arg, const struct list_item *item, struct err *err)
{
    (void)arg, (void)item;
    return err_set(err, ERR_CANCELLED, "there is something");
}

/* A rename of a folder that is refused, and that found it before: a former try has done it, and its
 * answer was lost. */
static bool is_gone(struct removal *r, const struct err *why)
{
    struct err e = {0};
    return !(store_caps(r->parent) & STORE_LOCAL) &&
           (why->class == ERR_NOT_FOUND || why->class == ERR_FAILED) &&
           fetch_list_marks(r->fetch, r->folder, /* parallel= */ 1, on_any, NULL, &e) &&
           e.class == ERR_NOT_FOUND;
}

/* One rename takes all of it, into a folder of our own. */
static int move_away(struct removal *r, const char *trash, struct err *err)
{
    cleanup_free char *to = xasprintf("%s%s", trash, r->name);
    if (fetch_folder(r->fetch, r->parent, trash, err))
        return -1;
    if (r->is_object)
        return fetch_rename_own(r->fetch, r->parent, r->name, to, /* size= */ -1, err);
    return fetch_rename(r->fetch, r->parent, r->name, to, err) && !is_gone(r, err) ? -1 : 0;
}

static int run(struct removal *r, bool skip_trash, const struct remove_watch *watch,
               struct remove_counts *counts, struct bytes *trash, struct err *err)
{
    cleanup_free char *key = xasprintf("%s/", r->name);
    trash_expire(r, watch, counts);
    cleanup_free char *folder = trash_folder(r);
    /* What was wished while the list was made is heard before the first of it goes. */
    if (remove_told_to_stop(watch, counts, &(uint64_t){0}))
        return err_set(err, ERR_CANCELLED, "interrupted");
    /* What lies in the trash already is not put there again. */
    if (skip_trash || store_is_trash(key) || store_is_trash(store_uri(r->parent)))
        folder[0] = '\0';
    bytes_clear(trash);
    if (*folder)
        bytes_addf(trash, "%s%s", store_uri(r->parent), folder);
    if (*folder && *r->name && store_renames(r->parent)) {
        if (move_away(r, folder, err))
            return -1;
        counts->removed = counts->objects;
        return 0;
    }
    return remove_keys(r, r->keys, &r->folders, folder, watch, counts, err);
}

int remove_run(struct removal *r, bool skip_trash, const struct remove_watch *watch,
               struct remove_counts *counts, struct bytes *trash, struct err *err)
{
    struct fetch_stopper stopper = stopper_of(r, watch);
    struct err ignored;
    err = err ? err : &ignored;
    if (fetch_stopper_begin(&stopper, err))
        return -1;
    int result = run(r, skip_trash, watch, counts, trash, err);
    fetch_stopper_end(&stopper);
    return result;
}
