/*
 * Removing key by key: workers take keys from the sorter, copy each into the trash where that is
 * wanted, and delete in batches; the folders go last, the deepest first. Told to stop they begin no
 * other copy and delete what they have copied, so that nothing lies in both places.
 */
#include <string.h>

#include "clock.h"
#include "remove-internal.h"

#define WORKERS       16
#define BATCH         1000
#define COPIES        16 /* of a helping: how far a worker is behind what is told of it */
#define TELL_EVERY_NS (100 * NS_PER_MS)

struct work {
    struct removal *r;
    const char *trash;
    const struct remove_watch *watch;
    struct lock lock; /* RANK_VOLUME; guards all below, and the sorter */
    struct cond ended;
    struct sorter *keys;
    struct remove_counts *counts;
    unsigned running;
    size_t helping; /* keys that a worker takes at once */
    bool broken;    /* the sorter failed: `err` */
    struct err err;
};

bool remove_is_over(const struct remove_watch *watch)
{
    return watch &&
           ((watch->stop && atomic_load(watch->stop)) || (watch->told && watch->told(watch->arg)));
}

bool remove_told_to_stop(const struct remove_watch *watch, const struct remove_counts *so_far,
                         uint64_t *told_ns)
{
    uint64_t now = clock_mono_ns();
    if (watch && watch->progress && now - *told_ns >= TELL_EVERY_NS) {
        *told_ns = now;
        watch->progress(watch->arg, so_far);
    }
    return remove_is_over(watch);
}

static bool is_over(const struct work *w)
{
    return remove_is_over(w->watch);
}

static void not_removed(void *arg, const char *key, const struct err *why)
{
    struct work *w = arg;
    ACQUIRE(&w->lock);
    w->counts->removed--;
    if (why->class == ERR_CANCELLED && is_over(w))
        return; /* it was only not waited for */
    w->counts->failed++;
    if (w->watch && w->watch->failed)
        w->watch->failed(w->watch->arg, key, why->msg);
}

/* Fills `names` with the next keys and their sizes. */
static void take_keys(struct work *w, struct names *names, uint64_t sizes[BATCH], size_t most)
{
    struct sorted at;
    ACQUIRE(&w->lock);
    while (names->n < most && !w->broken) {
        int more = sorter_next(w->keys, &at, &w->err);
        w->broken = more < 0;
        if (more <= 0)
            return;
        memcpy(&sizes[names->n], at.data, sizeof sizes[0]);
        cleanup_free char *key = xstrndup((const char *)at.key, at.key_len);
        names_add(names, key);
    }
}

/* One rename; there is nothing left to delete. */
static void move_one(struct work *w, const char *key, const char *to)
{
    struct err err = {0};
    const char *slash = strrchr(to, '/');
    cleanup_free char *folder = xstrndup(to, (size_t)(slash + 1 - to));
    int result = fetch_folder(w->r->fetch, w->r->parent, folder, &err) ||
                 fetch_rename_own(w->r->fetch, w->r->parent, key, to, /* size= */ -1, &err);
    {
        ACQUIRE(&w->lock);
        w->counts->removed++;
    }
    if (result)
        not_removed(w, key, &err);
}

static void move_all(struct work *w, struct names *names)
{
    for (size_t i = 0; i < names->n && !is_over(w); i++) {
        cleanup_free char *to = xasprintf("%s%s", w->trash, names->list[i]);
        move_one(w, names->list[i], to);
    }
}

/* versitygw copies no object that marks a folder (400): there is nothing in it, so that another one
 * will do. */
static int copy_one(struct work *w, const char *key, const char *to, uint64_t size, struct err *err)
{
    struct fetch *f = w->r->fetch;
    struct store *s = w->r->parent;
    if (size > FETCH_COPY_MAX)
        return err_set(err, ERR_LIMIT, "too large to be copied into the trash (use --skip-trash)");
    if (fetch_copy(f, s, to, s, key, "", err) == 0)
        return 0;
    bool marks = size == 0 && key[strlen(key) - 1] == '/';
    return marks && err->class == ERR_FAILED ? fetch_folder(f, s, to, err) : -1;
}

/* Copies into the trash; what was not copied is taken out of `names`. */
static void copy_all(struct work *w, struct names *names, const uint64_t sizes[BATCH])
{
    size_t kept = 0;
    for (size_t i = 0; i < names->n; i++) {
        char *key = names->list[i];
        if (is_over(w)) {
            free(key);
            continue;
        }
        cleanup_free char *to = xasprintf("%s%s", w->trash, key);
        struct err err = {0};
        if (copy_one(w, key, to, sizes[i], &err) == 0) {
            names->list[kept++] = key;
            continue;
        }
        {
            ACQUIRE(&w->lock);
            w->counts->removed++; /* taken back with the failure */
        }
        not_removed(w, key, &err);
        free(key);
    }
    names->n = kept;
}

static void *worker_main(void *arg)
{
    struct work *w = arg;
    uint64_t *sizes = xcalloc(BATCH, sizeof *sizes);
    for (struct names names = {0}; !is_over(w); names_release(&names)) {
        take_keys(w, &names, sizes, w->helping);
        if (names.n == 0)
            break;
        if (*w->trash && store_renames(w->r->parent)) {
            move_all(w, &names);
            continue;
        }
        if (*w->trash)
            copy_all(w, &names, sizes);
        {
            ACQUIRE(&w->lock);
            w->counts->removed += names.n;
        }
        fetch_delete_many(w->r->fetch, w->r->parent, (const char *const *)names.list, names.n,
                          not_removed, w);
    }
    free(sizes);
    ACQUIRE(&w->lock);
    w->running--;
    cond_signal(&w->ended);
    return NULL;
}

/* Copies take their time: helpings are so small that all workers have some. */
static size_t helping_of(const struct work *w)
{
    uint64_t each = w->counts->objects / WORKERS;
    return !*w->trash ? BATCH : each < 1 ? 1 : each > COPIES ? COPIES : (size_t)each;
}

static void wait_for_workers(struct work *w)
{
    for (bool running = true; running;) {
        struct remove_counts so_far;
        {
            ACQUIRE(&w->lock);
            if (w->running)
                cond_wait_for(&w->ended, &w->lock, TELL_EVERY_NS);
            running = w->running;
            so_far = *w->counts;
        }
        if (w->watch && w->watch->progress)
            w->watch->progress(w->watch->arg, &so_far);
    }
}

static int remove_folders(struct work *w, struct names *folders, struct err *err)
{
    struct removal *r = w->r;
    names_deepest_first(folders);
    for (size_t i = 0; i < folders->n && !is_over(w); i++) {
        const char *key = folders->list[i];
        struct err why = {0};
        if (fetch_delete_folder(r->fetch, r->parent, key, &why)) {
            w->counts->removed++;
            not_removed(w, key, &why);
        }
    }
    return is_over(w) ? err_set(err, ERR_CANCELLED, "interrupted") : 0;
}

int remove_keys(struct removal *r, struct sorter *keys, struct names *folders, const char *trash,
                const struct remove_watch *watch, struct remove_counts *counts, struct err *err)
{
    struct work w = {.r = r, .trash = trash, .watch = watch, .keys = keys, .counts = counts};
    pthread_t threads[WORKERS];
    unsigned n = 0;
    int e = 0;
    if (sorter_rewind(keys, err))
        return -1;
    w.helping = helping_of(&w);
    lock_init(&w.lock, RANK_VOLUME, "remove");
    cond_init(&w.ended);
    {
        ACQUIRE(&w.lock);
        while (n < WORKERS && (e = thread_start(&threads[n], "remove", worker_main, &w)) == 0)
            n++;
        w.running = n;
    }
    wait_for_workers(&w);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    int result = n ? 0 : err_thread(err, e, "start a thread that removes");
    if (result == 0 && w.broken) {
        if (err)
            *err = w.err;
        result = -1;
    }
    if (result == 0)
        result = remove_folders(&w, folders, err);
    cond_destroy(&w.ended);
    lock_destroy(&w.lock);
    return result;
}
