#include "fake-volume.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "crc.h"
#include "hash.h"
#include "mem.h"

struct node {
    struct entry e;
    uint64_t offset; /* in the pack */
    uint32_t crc;
    size_t first, n; /* children, in `nodes` */
};

struct catalog {
    atomic_int refs;
    const bool *diffs_fail;
    struct catalog_info info;
    struct node *nodes; /* id - 1; children of a folder lie together, in name order */
    size_t n;
};

#define UNREADABLE_BYTES ((size_t)2 << 20)

struct late {
    struct late *next;
    uint64_t due;
    struct volume_read *r;
    struct view view;
};

struct volume {
    struct catalog *catalog, *older;
    const unsigned char *pack;
    size_t pack_len;
    _Atomic(void *) unreadable; /* NULL, or what views point at until the first is dropped */
    volume_switch_fn *on_switch;
    void *on_switch_arg;
    volume_order_fn *on_order;
    void *on_order_arg;
    uint64_t *order, *position; /* position: by id */
    uint64_t order_len, gen;
    atomic_ulong reads, pushes;
    uint64_t delay;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    struct late *late, **late_end;
    bool stop, diffs_fail;
    pthread_t thread;
    bool thread_on;
    char spec[256];
    uint64_t epoch;
};

/* --- loading --- */

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}
static int no_dots(const struct dirent *d)
{
    return strcmp(d->d_name, ".") && strcmp(d->d_name, "..");
}

static uint64_t append(FILE *pack, const char *path, uint32_t *crc, uint64_t *size)
{
    static char buf[1 << 20];
    FILE *f = fopen(path, "r");
    uint64_t at = (uint64_t)ftello(pack);
    size_t n;

    *crc = 0;
    *size = 0;
    while (f && (n = fread(buf, 1, sizeof(buf), f)) > 0) {
        fwrite(buf, 1, n, pack);
        *crc = crc32c(*crc, buf, n);
        *size += n;
    }
    if (f)
        fclose(f);
    return at;
}

static struct node *add_node(struct catalog *c, uint64_t parent, const char *name, bool folder)
{
    if ((c->n & (c->n - 1)) == 0)
        c->nodes = xrealloc(c->nodes, (c->n ? 2 * c->n : 1) * sizeof(*c->nodes));
    struct node *n = &c->nodes[c->n++];

    memset(n, 0, sizeof(*n));
    n->e.id = c->n;
    n->e.parent = parent;
    n->e.folder = folder;
    n->e.number = CATALOG_NO_INDEX;
    snprintf(n->e.name, sizeof(n->e.name), "%s", name);
    snprintf(n->e.etag, sizeof(n->e.etag), "e%zu", c->n);
    return n;
}

static void load_folder(struct catalog *c, size_t self, const char *path, FILE *pack)
{
    struct dirent **list;
    int n = scandir(path, &list, no_dots, by_name);
    size_t first = c->n;

    for (int i = 0; i < n; i++) {
        char *child = xasprintf("%s/%s", path, list[i]->d_name);
        struct stat st;

        if (stat(child, &st) == 0) {
            struct node *e = add_node(c, self + 1, list[i]->d_name, S_ISDIR(st.st_mode));
            e->e.mtime_ns = st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec;
            if (!e->e.folder) {
                e->offset = append(pack, child, &e->crc, &e->e.size);
                e->e.number = c->info.numbered++;
                c->info.samples++;
                c->info.bytes += e->e.size;
                /* large ones own several numbers: not in this fake's arrays; tests keep them small
                 */
            } else {
                c->info.folders++;
            }
        }
        free(child);
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    c->nodes[self].first = first;
    c->nodes[self].n = c->n - first;
    for (size_t i = first; i < first + c->nodes[self].n; i++) {
        if (c->nodes[i].e.folder) {
            char *child = xasprintf("%s/%s", path, c->nodes[i].e.name);

            load_folder(c, i, child, pack);
            free(child);
        }
    }
}

static void map_pack(struct volume *v, const char *pack)
{
    int fd = open(pack, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fstat(fd, &st) == 0 && st.st_size > 0) {
        v->pack_len = (size_t)st.st_size;
        v->pack = mmap(NULL, v->pack_len, PROT_READ, MAP_SHARED, fd, 0);
    }
    close(fd);
}

static void *late_run(void *arg)
{
    struct volume *v = arg;

    pthread_mutex_lock(&v->lock);
    for (;;) {
        while (!v->late && !v->stop)
            pthread_cond_wait(&v->cond, &v->lock);
        if (!v->late && v->stop)
            break;
        struct late *l = v->late;
        v->late = l->next;
        if (!v->late)
            v->late_end = &v->late;
        pthread_mutex_unlock(&v->lock);
        uint64_t now = clock_mono_ns();
        if (l->due > now)
            usleep((useconds_t)((l->due - now) / 1000));
        l->r->done(l->r, &l->view, NULL);
        free(l);
        pthread_mutex_lock(&v->lock);
    }
    pthread_mutex_unlock(&v->lock);
    return NULL;
}

static void name_version(struct catalog *c)
{
    snprintf(c->info.digest, sizeof(c->info.digest), "version-of-%zu", c->n);
}

struct volume *fake_volume_new(const char *folder, const char *pack)
{
    struct volume *v = xcalloc(1, sizeof(*v));
    FILE *out = fopen(pack, "w");

    v->catalog = xcalloc(1, sizeof(*v->catalog));
    atomic_store(&v->catalog->refs, 1);
    add_node(v->catalog, 0, "", true);
    load_folder(v->catalog, 0, folder, out);
    v->catalog->info.next_id = v->catalog->n + 1;
    v->catalog->diffs_fail = &v->diffs_fail;
    name_version(v->catalog);
    fclose(out);
    map_pack(v, pack);
    pthread_mutex_init(&v->lock, NULL);
    pthread_cond_init(&v->cond, NULL);
    v->late_end = &v->late;
    v->thread_on = pthread_create(&v->thread, NULL, late_run, v) == 0;
    return v;
}

void fake_volume_unreadable(struct volume *v)
{
    atomic_store(&v->unreadable, mmap(NULL, UNREADABLE_BYTES, PROT_NONE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

void fake_volume_free(struct volume *v)
{
    pthread_mutex_lock(&v->lock);
    v->stop = true;
    pthread_cond_signal(&v->cond);
    pthread_mutex_unlock(&v->lock);
    if (v->thread_on)
        pthread_join(v->thread, NULL);
    if (v->pack)
        munmap((void *)v->pack, v->pack_len);
    catalog_unref(v->catalog);
    catalog_unref(v->older);
    free(v->order);
    free(v->position);
    free(v);
}

void fake_volume_fail_diffs(struct volume *v, bool fail)
{
    v->diffs_fail = fail;
}

void fake_volume_delay(struct volume *v, uint64_t ns)
{
    v->delay = ns;
}
uint64_t fake_volume_reads(struct volume *v)
{
    return v->reads;
}
uint64_t fake_volume_pushes(struct volume *v)
{
    return v->pushes;
}

void fake_volume_order(struct volume *v, uint64_t seed)
{
    struct catalog *c = v->catalog;
    uint64_t n = 0;

    pthread_mutex_lock(&v->lock);
    free(v->order);
    free(v->position);
    v->order = xcalloc(c->n + 1, sizeof(*v->order));
    v->position = xcalloc(c->n + 1, sizeof(*v->position));
    for (size_t i = 0; seed && i < c->n; i++)
        if (!c->nodes[i].e.folder)
            v->order[n++] = i + 1;
    for (uint64_t i = n; i > 1; i--) {
        uint64_t j = hash_mix64(seed + i) % i, t = v->order[j];
        v->order[j] = v->order[i - 1];
        v->order[i - 1] = t;
    }
    for (uint64_t i = 0; i < n; i++)
        v->position[v->order[i]] = i + 1;
    v->order_len = n;
    v->gen++;
    if (v->on_order)
        v->on_order(v->on_order_arg);
    pthread_mutex_unlock(&v->lock);
}

void fake_volume_add(struct volume *v, const char *path, const char *text)
{
    (void)text;
    struct catalog *c = xcalloc(1, sizeof(*c)), *old = v->catalog;

    /* One more name in the root, with the bytes of the last sample. */
    atomic_store(&c->refs, 1);
    c->info = old->info;
    c->nodes = xcalloc(old->n + 1 + old->nodes[0].n, sizeof(*c->nodes));
    memcpy(c->nodes, old->nodes, old->n * sizeof(*c->nodes));
    c->n = old->n + 1;
    c->diffs_fail = &v->diffs_fail;
    name_version(c);
    struct node *e = &c->nodes[old->n];
    *e = c->nodes[old->n - 1];
    e->e.id = c->n;
    e->e.parent = 1;
    snprintf(e->e.name, sizeof(e->e.name), "%s", path);
    v->catalog = c;
    catalog_unref(v->older);
    v->older = old;
    if (v->on_switch)
        v->on_switch(v->on_switch_arg, old, c);
}

/* --- volume.h --- */

struct catalog *volume_catalog(struct volume *v)
{
    return catalog_ref(v->catalog);
}
struct catalog *volume_catalog_of(struct volume *v, uint64_t id, struct err *err)
{
    if (id && id <= v->catalog->n)
        return catalog_ref(v->catalog);
    err_set(err, ERR_NOT_FOUND, "no such id");
    return NULL;
}
struct cache *volume_cache(struct volume *v)
{
    return (struct cache *)v;
}
void volume_served_as(struct volume *v, dev_t dev)
{
    (void)v;
    (void)dev;
}

struct catalog *volume_catalog_named(struct volume *v, const char *digest, uint64_t ids)
{
    (void)ids;
    if (!strcmp(v->catalog->info.digest, digest))
        return catalog_ref(v->catalog);
    return v->older && !strcmp(v->older->info.digest, digest) ? catalog_ref(v->older) : NULL;
}
void volume_on_switch(struct volume *v, volume_switch_fn *fn, void *arg)
{
    v->on_switch = fn;
    v->on_switch_arg = arg;
}

void volume_on_order(struct volume *v, volume_order_fn *fn, void *arg)
{
    v->on_order = fn;
    v->on_order_arg = arg;
}

int volume_read(struct volume *v, uint64_t id, uint64_t off, uint32_t len, struct volume_read *r,
                struct view *ret, struct err *err)
{
    struct view view = {0};

    atomic_fetch_add(r->push ? &v->pushes : &v->reads, 1);
    if (!id || id > v->catalog->n)
        return err_set(err, ERR_STALE, "no such id");
    struct node *n = &v->catalog->nodes[id - 1];
    if (n->e.folder)
        return err_set(err, ERR_FAILED, "a folder");
    if (off < n->e.size)
        view.len = n->e.size - off < len ? n->e.size - off : len;
    view.ptr = v->pack + n->offset + off;
    void *unreadable = atomic_load(&v->unreadable);
    if (unreadable) {
        view.ptr = unreadable;
        *ret = view;
        return 0;
    }
    if (crc32c(0, view.ptr, view.len) != n->crc && view.len == n->e.size)
        return err_set(err, ERR_CORRUPT, "crc");
    if (!v->delay || r->push) {
        *ret = view;
        return 0;
    }
    struct late *l = xcalloc(1, sizeof(*l));
    l->due = clock_mono_ns() + v->delay;
    l->r = r;
    l->view = view;
    pthread_mutex_lock(&v->lock);
    *v->late_end = l;
    v->late_end = &l->next;
    pthread_cond_signal(&v->cond);
    pthread_mutex_unlock(&v->lock);
    return SOURCE_PENDING;
}

uint64_t volume_order_length(struct volume *v, uint64_t *ret_gen)
{
    if (ret_gen)
        *ret_gen = v->gen;
    return v->order_len;
}
int volume_order_ids(struct volume *v, uint64_t first, size_t n, uint64_t *ids, struct err *err)
{
    (void)err;
    for (size_t i = 0; i < n; i++)
        ids[i] = first + i < v->order_len ? v->order[first + i] : 0;
    return 0;
}
uint64_t volume_seen(struct volume *v, uint64_t id)
{
    return v->order_len && id <= v->catalog->n && v->position[id] ? v->position[id] - 1
                                                                  : UINT64_MAX;
}
int volume_set_sampler(struct volume *v, const char *spec, struct err *err)
{
    if (!strcmp(spec, "nonsense"))
        return err_set(err, ERR_USAGE, "unknown sampler");
    snprintf(v->spec, sizeof(v->spec), "%s", spec);
    fake_volume_order(v, *spec ? 1 : 0);
    return 0;
}
int volume_set_epoch(struct volume *v, uint64_t epoch, struct err *err)
{
    (void)err;
    v->epoch = epoch;
    fake_volume_order(v, epoch + 1);
    return 0;
}

/* --- cache.h --- */

void cache_drop(struct cache *c, uint64_t unit)
{
    struct volume *v = (struct volume *)(void *)c;

    (void)unit;
    void *unreadable = atomic_exchange(&v->unreadable, NULL); /* several may drop it at once */
    if (unreadable)
        munmap(unreadable, UNREADABLE_BYTES);
}
int cache_where(struct cache *c, uint64_t unit)
{
    (void)c;
    (void)unit;
    return 0;
}
struct tier *cache_guests(struct cache *c, const char *dir, const struct guests_ops *ops, void *arg)
{
    (void)ops;
    (void)arg;
    (void)c;
    (void)dir;
    return NULL;
}
uint64_t cache_guests_room(struct tier *t)
{
    const struct fake_tier *tier = (const struct fake_tier *)(void *)t;
    return tier->limit > tier->taken ? tier->limit - tier->taken : 0;
}
bool cache_guests_take(struct tier *t, uint64_t bytes)
{
    struct fake_tier *tier = (struct fake_tier *)(void *)t;
    if (bytes > tier->limit - tier->taken)
        return false;
    tier->taken += bytes;
    return true;
}
void cache_guests_refused(struct tier *t)
{
    ((struct fake_tier *)(void *)t)->refused++;
}
uint64_t cache_guests_found(struct tier *t, uint64_t bytes)
{
    struct fake_tier *tier = (struct fake_tier *)(void *)t;
    tier->taken += bytes;
    return tier->taken > tier->limit ? tier->taken - tier->limit : 0;
}
void cache_guests_give(struct tier *t, uint64_t bytes)
{
    ((struct fake_tier *)(void *)t)->taken -= bytes;
}
void cache_recount(struct cache *c)
{
    (void)c;
}
bool cache_guests_pinned(struct tier *t, uint64_t unit)
{
    return unit == ((struct fake_tier *)(void *)t)->pinned;
}
bool cache_guests_may_write(struct tier *t, uint64_t bytes)
{
    return bytes <= ((struct fake_tier *)(void *)t)->disk_room;
}
void cache_guests_hold(struct tier *t, uint64_t unit, uint32_t bytes, bool first, bool here)
{
    struct fake_tier *tier = (struct fake_tier *)(void *)t;
    (void)unit;
    tier->samples += here ? first : -first;
    tier->bytes += here ? (int64_t)bytes : -(int64_t)bytes;
}
void cache_stat(struct cache *c, struct cache_stat *ret)
{
    (void)c;
    memset(ret, 0, sizeof(*ret));
}
bool cache_has_all(struct cache *c, uint64_t unit, uint64_t n)
{
    (void)c;
    (void)unit;
    (void)n;
    return true;
}

/* --- catalog.h --- */

struct catalog *catalog_ref(struct catalog *c)
{
    atomic_fetch_add(&c->refs, 1);
    return c;
}
void catalog_unref(struct catalog *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    free(c->nodes);
    free(c);
}
const struct catalog_info *catalog_info(const struct catalog *c)
{
    return &c->info;
}
const char *catalog_source_uri(const struct catalog *c, uint32_t i)
{
    (void)c;
    (void)i;
    return "file:///fake,with comma";
}
int catalog_get(struct catalog *c, uint64_t id, struct entry *ret, struct err *err)
{
    if (!id || id > c->n)
        return err_set(err, ERR_NOT_FOUND, "no id");
    *ret = c->nodes[id - 1].e;
    return 0;
}
int catalog_lookup(struct catalog *c, uint64_t parent, const char *name, size_t name_len,
                   struct entry *ret, struct err *err)
{
    if (!parent || parent > c->n || !c->nodes[parent - 1].e.folder)
        return err_set(err, ERR_NOT_FOUND, "no folder");
    size_t low = c->nodes[parent - 1].first, high = low + c->nodes[parent - 1].n;

    (void)name_len;
    while (low < high) {
        size_t mid = (low + high) / 2;
        int d = strcmp(name, c->nodes[mid].e.name);

        if (d == 0) {
            *ret = c->nodes[mid].e;
            return 0;
        }
        if (d < 0)
            high = mid;
        else
            low = mid + 1;
    }
    if (parent == 1 && !strcmp(c->nodes[c->n - 1].e.name, name) &&
        c->nodes[c->n - 1].e.parent == 1) {
        *ret = c->nodes[c->n - 1].e;
        return 0;
    }
    return err_set(err, ERR_NOT_FOUND, "no name");
}
int catalog_find(struct catalog *c, const char *path, struct entry *ret, struct err *err)
{
    uint64_t id = 1;
    char part[256];

    *ret = c->nodes[0].e;
    while (*path) {
        size_t n = strcspn(path, "/");

        snprintf(part, sizeof(part), "%.*s", (int)n, path);
        if (catalog_lookup(c, id, part, n, ret, err) < 0)
            return -1;
        id = ret->id;
        path += n + (path[n] == '/');
    }
    return 0;
}
int catalog_path(struct catalog *c, uint64_t id, struct bytes *ret, struct err *err)
{
    const struct node *n = &c->nodes[id - 1];

    if (n->e.parent > 1) {
        catalog_path(c, n->e.parent, ret, err);
        bytes_add_char(ret, '/');
    }
    bytes_add_str(ret, n->e.name);
    return 0;
}
int catalog_page(struct catalog *c, uint64_t parent, uint64_t after, catalog_page_fn *fn, void *arg,
                 struct err *err)
{
    (void)err;
    const struct node *p = &c->nodes[parent - 1];

    /* Ids rise from first + 1; one that was added to the root is the last of all. */
    for (size_t i = after > p->first ? after - p->first : 0; i < p->n; i++)
        if (!fn(arg, &c->nodes[p->first + i].e, p->first + i + 1))
            return 0;
    if (parent == 1 && after < c->n && c->nodes[c->n - 1].e.parent == 1 &&
        c->n - 1 >= p->first + p->n)
        fn(arg, &c->nodes[c->n - 1].e, c->n);
    return 0;
}
int catalog_unit(struct catalog *c, uint64_t unit, struct unit_info *ret, struct err *err)
{
    memset(ret, 0, sizeof(*ret));
    return catalog_path(c, unit, &ret->key, err);
}
void unit_info_release(struct unit_info *u)
{
    bytes_release(&u->key);
}
int catalog_diff(struct catalog *a, struct catalog *b, catalog_diff_fn *fn, void *arg,
                 struct err *err)
{
    const struct entry *e = &b->nodes[b->n - 1].e;

    if (*a->diffs_fail)
        return err_set(err, ERR_CORRUPT, "the catalog can't be read");
    fn(arg, '+', e->name, strlen(e->name), false, 0, e->id);
    return 0;
}

int64_t volume_owner(struct volume *v, uint64_t id)
{
    (void)v;
    (void)id;
    return 0;
}
