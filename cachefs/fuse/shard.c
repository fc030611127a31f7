/* Files of whole objects: shard-internal.h tells their life. */
#include "shard-internal.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache.h"
#include "buf.h"
#include "cleanup.h"
#include "clock.h"
#include "mem.h"

#define SHARD_MAGIC 0x31647268734e4d53ull /* "SMNshrd1" */

struct sums_head {
    uint64_t magic, id, size;
};
static_assert(sizeof(struct sums_head) == SHARD_HEAD_BYTES, "format");

static void path_of(const char *dir, uint64_t id, const char *kind, char *out, size_t size)
{
    snprintf(out, size, "%s/%llu.%s", dir, (unsigned long long)id, kind);
}

/* The inverse: is `name` the `kind` of an object? */
static bool is_file_of(const char *name, const char *kind, uint64_t *ret_id)
{
    unsigned long long id;
    int end = 0;

    if (sscanf(name, "%llu.%n", &id, &end) != 1 || !end || strcmp(name + end, kind) != 0)
        return false;
    *ret_id = id;
    return true;
}

static void remove_files(const char *dir, uint64_t id)
{
    char path[4200];

    path_of(dir, id, "data", path, sizeof(path));
    unlink(path);
    path_of(dir, id, "sums", path, sizeof(path));
    unlink(path);
}

static void close_files(struct shard *x)
{
    if (x->data >= 0 && fstat(x->data, &x->left))
        x->left = (struct stat){0};
    if (x->data >= 0)
        close(x->data);
    if (x->sums >= 0)
        close(x->sums);
    x->data = x->sums = -1;
}

static void shard_free(struct shard *x)
{
    close_files(x);
    free((void *)x->present);
    free((void *)x->held);
    free(x);
}

/* All of it at once: from now on, or no more. */
static void count_all(struct shard *x, struct tier *tier, bool here)
{
    x->tier = tier;
    for (uint64_t i = 0; tier && i < x->n_blocks; i++)
        if (atomic_load(&x->held[i]))
            cache_guests_hold(tier, x->id + i, shard_block_len(x, i), i == 0, here);
}

static bool open_files(const struct shards *s, struct shard *x, int flags)
{
    char path[4200];

    path_of(s->dir, x->id, "data", path, sizeof(path));
    x->data = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
    path_of(s->dir, x->id, "sums", path, sizeof(path));
    x->sums = x->data < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC | flags, 0600);
    return x->sums >= 0;
}

static bool is_known(const struct shard *x, const struct sums_head *want)
{
    struct sums_head head = {0};

    return pread(x->sums, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
           memcmp(&head, want, sizeof(head)) == 0;
}

static struct sums_head head_of(const struct shards *s, const struct shard *x)
{
    return (struct sums_head){.magic = s->magic, .id = x->id, .size = x->size};
}

/* Opens or makes the files of a shard; files of another size are begun anew. */
static bool make_files(const struct shards *s, struct shard *x)
{
    const struct sums_head head = head_of(s, x);

    if (!open_files(s, x, O_CREAT))
        return false;
    if (!is_known(x, &head) && (ftruncate(x->sums, 0) < 0 || ftruncate(x->data, 0) < 0 ||
                                pwrite(x->sums, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
                                ftruncate(x->sums, shard_sum_at(x->n_blocks)) < 0))
        return false;
    return ftruncate(x->data, (off_t)x->size) == 0;
}

/* NULL: the disk refuses. */
static struct shard *shard_open(const struct shards *s, uint64_t id, uint64_t size)
{
    struct shard *x = xcalloc(1, sizeof(*x));

    x->id = id;
    x->size = size;
    x->n_blocks = unit_blocks(size);
    x->present = xcalloc(x->n_blocks ? x->n_blocks : 1, 1);
    x->held = xcalloc(x->n_blocks ? x->n_blocks : 1, 1);
    if (!make_files(s, x)) {
        shard_free(x);
        return NULL;
    }
    for (uint64_t i = 0; i < x->n_blocks; i++)
        atomic_store(&x->held[i], shard_has_sum(x, i));
    return x;
}

/* Takes `x` out of the list and removes its files. */
static void forget(struct shards *s, struct shard *x)
{
    shard_list_remove(s, x);
    s->used -= shard_cost(x->size);
    remove_files(s->dir, x->id);
    count_all(x, x->tier, false);
    if (s->tier)
        cache_guests_give(s->tier, shard_cost(x->size));
    shard_free(x);
}

static bool may_go(const struct shard *x, guests_pick_fn *stays, const void *ctx)
{
    return !x->users && !(stays && stays(ctx, x->id));
}

static uint64_t spare(const struct shards *s, guests_pick_fn *stays, const void *ctx)
{
    const struct shard *x;
    uint64_t bytes = 0;

    TAILQ_FOREACH (x, &s->by_use, by_use)
        bytes += may_go(x, stays, ctx) ? shard_cost(x->size) : 0;
    return bytes;
}

static void shrink_to(struct shards *s, uint64_t bytes, guests_pick_fn *stays, const void *ctx)
{
    struct shard *next;

    for (struct shard *x = TAILQ_FIRST(&s->by_use); x && s->used > bytes; x = next) {
        next = TAILQ_NEXT(x, by_use);
        if (may_go(x, stays, ctx))
            forget(s, x);
    }
}

static bool is_pinned(const void *shards, uint64_t unit)
{
    const struct shards *s = shards;

    return s->tier && cache_guests_pinned(s->tier, unit);
}

static uint64_t room_for(const struct shards *s)
{
    uint64_t own = s->limit - s->used, tier = s->tier ? cache_guests_room(s->tier) : own;

    return own < tier ? own : tier;
}

/* Of those that nobody had open for long the oldest go, and none unless they are enough. */
static bool make_room(struct shards *s, uint64_t need)
{
    int64_t idle_since = clock_wall_ns() - (int64_t)(CACHE_IDLE_MINUTES * 60 * NS_PER_S);
    uint64_t room = room_for(s), missing = need > room ? need - room : 0;
    const struct shard *x;

    TAILQ_FOREACH (x, &s->by_use, by_use) {
        if (room >= need || x->used_at > idle_since)
            break;
        room += may_go(x, is_pinned, s) ? shard_cost(x->size) : 0;
    }
    if (room < need)
        return false;
    shrink_to(s, s->used > missing ? s->used - missing : 0, is_pinned, s);
    return true;
}

static struct shard *find(const struct shards *s, uint64_t id)
{
    struct shard *x = shard_list_find(s, id);

    return x && x->id == id ? x : NULL;
}

static bool take_room(struct shards *s, uint64_t bytes)
{
    if (make_room(s, bytes) && (!s->tier || cache_guests_take(s->tier, bytes)))
        return true;
    if (s->tier)
        cache_guests_refused(s->tier);
    return false;
}

static struct shard *add(struct shards *s, uint64_t id, uint64_t size)
{
    struct shard *x = NULL;

    if (!take_room(s, shard_cost(size)))
        return NULL;
    x = shard_open(s, id, size);
    if (!x || !shard_list_add(s, x)) {
        if (x)
            shard_free(x);
        remove_files(s->dir, id);
        if (s->tier)
            cache_guests_give(s->tier, shard_cost(size));
        return NULL;
    }
    count_all(x, s->tier, true);
    s->used += shard_cost(size);
    return x;
}

static bool is_as_left(const struct shard *x)
{
    const struct stat *was = &x->left;
    struct stat is;

    return fstat(x->data, &is) == 0 && is.st_dev == was->st_dev && is.st_ino == was->st_ino &&
           is.st_size == was->st_size && is.st_ctim.tv_sec == was->st_ctim.tv_sec &&
           is.st_ctim.tv_nsec == was->st_ctim.tv_nsec;
}

/* Nobody uses it. */
static void distrust(struct shard *x)
{
    for (uint64_t i = 0; i < x->n_blocks; i++)
        atomic_store(&x->present[i], 0);
    atomic_store(&x->n_present, 0);
    atomic_store(&x->checked, false);
}

/* Opens the files of one that nobody used till now. NULL: they are gone, and so is it, or
 * *ret_refused: they could not be opened. */
static struct shard *open_again(struct shards *s, struct shard *x, bool *ret_refused)
{
    const struct sums_head head = head_of(s, x);

    if (open_files(s, x, 0) && is_known(x, &head)) {
        if (!is_as_left(x))
            distrust(x);
        return x;
    }
    *ret_refused = x->sums < 0 && errno != ENOENT;
    close_files(x);
    if (!*ret_refused)
        forget(s, x);
    return NULL;
}

static void note_use(struct shards *s, struct shard *x)
{
    x->used_at = clock_wall_ns();
    shard_list_used(s, x);
}

struct shard *shards_use(struct shards *s, uint64_t id, uint64_t size)
{
    ACQUIRE(&s->lock);
    struct shard *x = find(s, id);
    bool refused = false;

    if (x && !x->users)
        x = open_again(s, x, &refused);
    if (!x && !refused)
        x = add(s, id, size);
    if (x) {
        x->users++;
        x->opened = true;
        note_use(s, x);
    }
    return x;
}

/* For the next process, too. */
static void keep_use(const struct shard *x)
{
    const struct timespec now = clock_timespec(x->used_at);

    (void)futimens(x->sums, (const struct timespec[2]){now, now});
}

void shards_unuse(struct shards *s, struct shard *shard)
{
    ACQUIRE(&s->lock);

    if (--shard->users)
        return;
    if (shard->opened) {
        note_use(s, shard);
        keep_use(shard);
        shard->opened = false;
    }
    close_files(shard);
    if (shard->doomed)
        forget(s, shard);
}

void shards_drop(struct shards *s, uint64_t id)
{
    ACQUIRE(&s->lock);
    struct shard *x = find(s, id);

    if (x && x->users)
        x->doomed = true;
    else if (x)
        forget(s, x);
}

bool shards_complete(struct shards *s, uint64_t id)
{
    ACQUIRE(&s->lock);
    const struct shard *x = find(s, id);

    return x && shard_complete(x);
}

uint64_t shards_used(struct shards *s)
{
    ACQUIRE(&s->lock);

    return s->used;
}

bool shards_unused(void *shards, uint64_t unit, uint64_t age_ns)
{
    struct shards *s = shards;
    ACQUIRE(&s->lock);
    const struct shard *x = shard_list_find(s, unit);

    return x && !x->users && clock_wall_ns() - x->used_at >= (int64_t)age_ns;
}

struct shard *shards_use_holder(struct shards *s, uint64_t unit)
{
    ACQUIRE(&s->lock);
    struct shard *x = shard_list_find(s, unit);
    bool refused;

    if (x && !x->users)
        x = open_again(s, x, &refused);
    if (x)
        x->users++;
    return x;
}

void shards_shrink(void *shards, uint64_t bytes, guests_pick_fn *stays, const void *ctx)
{
    struct shards *s = shards;
    ACQUIRE(&s->lock);

    shrink_to(s, bytes, stays, ctx);
}

uint64_t shards_spare(void *shards, guests_pick_fn *stays, const void *ctx)
{
    struct shards *s = shards;
    ACQUIRE(&s->lock);

    return spare(s, stays, ctx);
}

void shards_name(void *shards, guests_pick_fn *named, const void *ctx)
{
    struct shards *s = shards;
    ACQUIRE(&s->lock);

    for (struct shard *x = TAILQ_FIRST(&s->by_use), *next; x; x = next) {
        next = TAILQ_NEXT(x, by_use);
        x->doomed |= !named(ctx, x->id);
        if (x->doomed && !x->users)
            forget(s, x);
    }
}

void shards_doom(struct shards *s, struct shard *shard)
{
    ACQUIRE(&s->lock);

    shard->doomed = true;
}

/* What an earlier process left. */
struct left {
    uint64_t id;
    int64_t used_at;
};

static int oldest_first(const void *a, const void *b)
{
    const struct left *x = a, *y = b;

    return (x->used_at > y->used_at) - (x->used_at < y->used_at);
}

static size_t list_left(DIR *d, struct bytes *ret)
{
    const struct dirent *e;
    struct stat st;
    struct left left;

    while ((e = readdir(d)))
        if (is_file_of(e->d_name, "sums", &left.id) && fstatat(dirfd(d), e->d_name, &st, 0) == 0) {
            left.used_at = clock_ns_of(&st.st_mtim);
            bytes_add(ret, &left, sizeof(left));
        }
    if (ret->len)
        qsort(ret->data, ret->len / sizeof(left), sizeof(left), oldest_first);
    return ret->len / sizeof(left);
}

/* A pair of files whose sums say what they are. Older ones make way. */
static void take_up(struct shards *s, const struct left *left)
{
    struct sums_head head;
    struct shard *x = NULL;
    char path[4200];

    path_of(s->dir, left->id, "sums", path, sizeof(path));
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
        head.magic == s->magic && head.id == left->id && head.size &&
        shard_cost(head.size) <= s->limit) {
        shrink_to(s, s->limit - shard_cost(head.size), NULL, NULL);
        x = add(s, left->id, head.size);
    }
    if (!x) {
        remove_files(s->dir, left->id);
        return;
    }
    x->used_at = left->used_at;
    close_files(x);
}

static void remove_orphan(struct shards *s, const char *name)
{
    uint64_t id;

    if (is_file_of(name, "data", &id) && !find(s, id))
        remove_files(s->dir, id);
}

bool shards_remove_all(const char *dir)
{
    cleanup_dir DIR *d = opendir(dir);
    const struct dirent *e;
    bool found = false;

    while (d && (e = readdir(d))) {
        uint64_t id;

        if (!is_file_of(e->d_name, "data", &id) && !is_file_of(e->d_name, "sums", &id))
            continue;
        remove_files(dir, id);
        found = true;
    }
    return found;
}

static void take_up_all(struct shards *s, DIR *d)
{
    cleanup_bytes struct bytes all = {0};
    size_t n = list_left(d, &all);
    const struct left *left = (const void *)all.data;
    const struct dirent *e;

    for (size_t i = 0; i < n; i++)
        take_up(s, &left[i]);
    rewinddir(d);
    while ((e = readdir(d)))
        remove_orphan(s, e->d_name);
}

int shards_open(struct shards *s, const char *dir, uint64_t limit, uint64_t lineage,
                struct err *err)
{
    memset(s, 0, sizeof(*s));
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return err_sys(err, errno, "folder of whole objects %s", dir);
    cleanup_dir DIR *d = opendir(dir);
    if (!d)
        return err_sys(err, errno, "folder of whole objects %s", dir);
    s->dir = xstrdup(dir);
    s->limit = limit;
    s->magic = SHARD_MAGIC ^ lineage; /* ids of another lineage name other objects */
    lock_init(&s->lock, RANK_PUSH, "fuse shards");
    shard_list_begin(s);
    take_up_all(s, d);
    return 0;
}

void shards_set_tier(struct shards *s, struct tier *tier)
{
    ACQUIRE(&s->lock);
    uint64_t over = cache_guests_found(tier, s->used);
    struct shard *x;

    s->tier = tier;
    TAILQ_FOREACH (x, &s->by_use, by_use)
        count_all(x, tier, true);
    shrink_to(s, s->used > over ? s->used - over : 0, NULL, NULL);
}

void shards_close(struct shards *s)
{
    struct shard *x;

    if (!s->dir)
        return;
    while ((x = TAILQ_FIRST(&s->by_use))) {
        shard_list_remove(s, x);
        if (x->doomed)
            remove_files(s->dir, x->id);
        shard_free(x);
    }
    free(s->dir);
    lock_destroy(&s->lock);
}
