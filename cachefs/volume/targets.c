/* The samples that a command names: everything, or files and folders by path. */
#include "volume-internal.h"

#define FIRST_CAP 4096

struct collecting {
    struct targets *t;
    const struct share *share; /* or NULL */
    const char *dir;
    uint64_t last;
    struct err err;
};

static int grow(struct collecting *c)
{
    struct targets *t = c->t;
    size_t cap = t->cap ? t->cap * 2 : FIRST_CAP;
    struct spill larger;
    if (spill_new(&larger, c->dir, cap * sizeof(struct target), &c->err))
        return -1;
    if (t->n)
        memcpy(larger.data, t->spill.data, t->n * sizeof(struct target));
    spill_free(&t->spill);
    t->spill = larger;
    t->cap = cap;
    return 0;
}

static bool collect(void *arg, const struct entry *e)
{
    struct collecting *c = arg;
    if (e->folder || (c->share && !share_has(c->share, e->id)))
        return true;
    if (c->t->n == c->t->cap && grow(c))
        return false;
    struct target *target = target_at(c->t, c->t->n++);
    target->id = e->id;
    target->size = e->size;
    atomic_init(&target->state, TARGET_OPEN);
    c->t->bytes += e->size;
    return true;
}

static bool sorted(const struct targets *t)
{
    for (size_t i = 1; i < t->n; i++)
        if (target_at(t, i - 1)->id >= target_at(t, i)->id)
            return false;
    return true;
}

static void swap_targets(struct targets *t, size_t a, size_t b)
{
    struct target *x = target_at(t, a), *y = target_at(t, b);
    uint64_t id = x->id, size = x->size; /* all are TARGET_OPEN */
    x->id = y->id;
    x->size = y->size;
    y->id = id;
    y->size = size;
}

static void sift_down(struct targets *t, size_t at, size_t n)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && target_at(t, child)->id < target_at(t, child + 1)->id)
            child++;
        if (target_at(t, at)->id >= target_at(t, child)->id)
            return;
        swap_targets(t, at, child);
    }
}

/* A heap sort: in place, where qsort() would take as much memory again. */
static void sort_by_id(struct targets *t)
{
    for (size_t i = t->n / 2; i-- > 0;)
        sift_down(t, i, t->n);
    for (size_t n = t->n; n-- > 1;) {
        swap_targets(t, 0, n);
        sift_down(t, 0, n);
    }
}

/* Paths may overlap. */
static void sort_unique(struct targets *t)
{
    if (t->n == 0 || sorted(t))
        return;
    sort_by_id(t);
    size_t n = 1;
    for (size_t i = 1; i < t->n; i++) {
        if (target_at(t, n - 1)->id == target_at(t, i)->id)
            t->bytes -= target_at(t, i)->size;
        else if (n++ < i)
            swap_targets(t, n - 1, i);
    }
    t->n = n;
}

/* "/train/a/", "./train/a" and "train/a" are one path. */
static char *clean_path(const char *path)
{
    for (;;) {
        if (path[0] == '/')
            path++;
        else if (path[0] == '.' && (path[1] == '/' || path[1] == '\0'))
            path++;
        else
            break;
    }
    size_t len = strlen(path);
    while (len > 0 && path[len - 1] == '/')
        len--;
    return xstrndup(path, len);
}

static int collect_path(struct collecting *c, struct catalog *catalog, const char *given,
                        struct err *err)
{
    cleanup_free char *path = clean_path(given);
    struct entry e;
    if (*path == '\0')
        return catalog_walk(catalog, 0, collect, c, err);
    if (catalog_find(catalog, path, &e, err))
        return -1;
    if (e.folder)
        return catalog_walk_below(catalog, e.id, collect, c, err);
    collect(c, &e);
    return 0;
}

int targets_collect(struct targets *ret, struct catalog *c, const char *const *paths, size_t n,
                    const struct share *share, const char *dir, struct err *err)
{
    struct targets t = {0};
    struct collecting state = {.t = &t, .share = share, .dir = dir};
    int rc = n == 0 ? catalog_walk(c, 0, collect, &state, err) : 0;
    for (size_t i = 0; i < n && !rc && !state.err.class; i++)
        rc = collect_path(&state, c, paths[i], err);
    if (!rc && state.err.class) {
        if (err)
            *err = state.err;
        rc = -1;
    }
    if (rc) {
        targets_release(&t);
        return -1;
    }
    if (n > 0)
        sort_unique(&t);
    *ret = t;
    return 0;
}

bool targets_have(const void *targets, uint64_t id)
{
    const struct targets *t = targets;
    size_t from = 0, to = t->n;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (target_at(t, middle)->id < id)
            from = middle + 1;
        else
            to = middle;
    }
    return from < t->n && target_at(t, from)->id == id;
}

void targets_release(struct targets *t)
{
    spill_free(&t->spill);
    *t = (struct targets){0};
}
