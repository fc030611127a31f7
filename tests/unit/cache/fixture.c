#include "fixture.h"

#include <ftw.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "hash.h"

/* --- units ----------------------------------------------------------------------------------- */

uint32_t unit_len(const struct catalog *k, uint64_t unit)
{
    return k->vary ? 1 + (uint32_t)(hash_mix64(unit) % k->len) : k->len;
}

static uint64_t word(const struct catalog *k, uint64_t unit, uint64_t i)
{
    bool plain = !k->compressible || (k->half && (i >> 12) % 2);
    return plain ? hash_mix64(unit << 20 ^ i) : unit ^ (i / 64);
}

void unit_fill(const struct catalog *k, uint64_t unit, unsigned char *out)
{
    uint32_t len = unit_len(k, unit);
    for (uint32_t i = 0; i < len; i += 8) {
        uint64_t w = word(k, unit, i / 8);
        memcpy(out + i, &w, len - i < 8 ? len - i : 8);
    }
}

bool unit_equal(const struct catalog *k, uint64_t unit, uint32_t off, const void *data, size_t len)
{
    uint32_t whole = unit_len(k, unit);
    cleanup_free unsigned char *want = xmalloc(whole + 8);
    unit_fill(k, unit, want);
    return off + len <= whole && memcmp(want + off, data, len) == 0;
}

int catalog_unit(struct catalog *k, uint64_t unit, struct unit_info *ret, struct err *err)
{
    if (k->end && unit >= k->end)
        return err_set(err, ERR_NOT_FOUND, "this version has no unit %llu",
                       (unsigned long long)unit);
    uint32_t len = unit_len(k, unit);
    *ret =
        (struct unit_info){.sample = unit, .len = len, .size = k->blocks ? 8ull * UNIT_BYTES : len};
    return 0;
}

struct catalog *catalog_ref(struct catalog *k)
{
    atomic_fetch_add(&k->refs, 1);
    return k;
}

void catalog_unref(struct catalog *k)
{
    if (k)
        atomic_fetch_sub(&k->refs, 1);
}

void unit_info_release(struct unit_info *u)
{
    bytes_release(&u->key);
}

/* --- the source ------------------------------------------------------------------------------ */

struct ask {
    struct piece piece;
    struct source_wait *wait;
    struct ask *next;
};

static int fake_answer(struct fake *f, const struct piece *p, struct view *ret, struct err *err)
{
    if (atomic_load(&f->failing))
        return err_set(err, ERR_TRANSIENT, "the store is down");
    uint32_t whole = unit_len(f->catalog, p->unit);
    struct unit_span got = piece_fetched(p, whole);
    cleanup_free unsigned char *bytes = xmalloc(whole + 8);
    unit_fill(f->catalog, p->unit, bytes);
    memcpy(p->into->data, bytes + got.off, got.len);
    atomic_fetch_add(&f->bytes, got.len);
    *ret = (struct view){.ptr = p->into->data,
                         .len = atomic_load(&f->short_answers) ? got.len / 2 : got.len,
                         .origin = FROM_STORE};
    return 0;
}

static void *fake_thread(void *arg)
{
    struct fake *f = arg;
    lock_take(&f->lock);
    for (;;) {
        while (!f->stop && (!f->queue || f->held))
            cond_wait(&f->wake, &f->lock);
        if (f->stop && !f->queue)
            break;
        struct ask *a = f->queue;
        f->queue = a->next;
        lock_drop(&f->lock);
        struct view v = {0};
        struct err err = {0};
        if (fake_answer(f, &a->piece, &v, &err))
            a->wait->done(a->wait, NULL, &err);
        else
            a->wait->done(a->wait, &v, NULL);
        free(a);
        lock_take(&f->lock);
    }
    lock_drop(&f->lock);
    return NULL;
}

static int fake_read(struct source *s, const struct piece *p, struct view *ret,
                     struct source_wait *wait, struct err *err)
{
    struct fake *f = (struct fake *)(void *)s;
    if (atomic_load(&f->refusing) && f->on_refusal)
        f->on_refusal(f->on_refusal_arg);
    if (atomic_load(&f->refusing))
        return err_set(err, ERR_LIMIT, "the queue is full");
    atomic_fetch_add(&f->reads, 1);
    cr_assert(p->alone || p->off == 0);
    if (!f->threaded)
        return fake_answer(f, p, ret, err);
    struct ask *a = xcalloc(1, sizeof *a);
    a->piece = *p;
    a->wait = wait;
    ACQUIRE(&f->lock);
    struct ask **at = &f->queue;
    while (*at)
        at = &(*at)->next;
    *at = a;
    cond_signal(&f->wake);
    return SOURCE_PENDING;
}

static void fake_raise(struct source *s, const struct piece *p)
{
    struct fake *f = (struct fake *)(void *)s;
    cr_assert_eq(p->prio, PRIO_READER);
    atomic_fetch_add(&f->raised, 1);
    if (f->on_raise)
        f->on_raise(f->on_raise_arg);
}

static struct ask *take_unwanted(struct fake *f)
{
    struct ask *taken = NULL;
    ACQUIRE(&f->lock);
    for (struct ask **at = &f->queue; *at;) {
        struct ask *a = *at;
        if (!a->piece.given_up || !atomic_load(a->piece.given_up)) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        a->next = taken;
        taken = a;
    }
    return taken;
}

int fake_end_unwanted(struct fake *f)
{
    int n = 0;
    for (struct ask *a = take_unwanted(f), *next; a; a = next, n++) {
        struct err err = {0};
        next = a->next;
        err_set(&err, ERR_CANCELLED, "taken back");
        a->wait->done(a->wait, NULL, &err);
        free(a);
    }
    return n;
}

static void fake_give_up(struct source *s)
{
    struct fake *f = (struct fake *)(void *)s;
    if (!atomic_load(&f->stubborn))
        fake_end_unwanted(f);
}

static const struct source_ops fake_ops = {
    .name = "fake", .read = fake_read, .raise = fake_raise, .give_up = fake_give_up};

void rig_release(struct rig *r, bool held)
{
    ACQUIRE(&r->fake.lock);
    r->fake.held = held;
    cond_broadcast(&r->fake.wake);
}

/* --- the rig --------------------------------------------------------------------------------- */

char *rig_path(const struct rig *r, const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", r->dir, name);
    return path;
}

void rig_begin(struct rig *r, uint32_t len, uint64_t limit, bool threaded)
{
    memset(r, 0, sizeof *r);
    snprintf(r->dir, sizeof r->dir, "/tmp/sampan-cache-XXXXXX");
    cr_assert(mkdtemp(r->dir));
    r->catalog = (struct catalog){.len = len};
    r->pool = pool_new(64u << 20);
    struct fake *f = &r->fake;
    f->source.ops = &fake_ops;
    f->catalog = &r->catalog;
    f->threaded = threaded;
    lock_init(&f->lock, RANK_FETCH_QUEUE, "fake");
    cond_init(&f->wake);
    for (int i = 0; threaded && i < FAKE_THREADS; i++)
        cr_assert_eq(thread_start(&f->threads[i], "fake", fake_thread, f), 0);
    r->conf = (struct cache_conf){
        .dir = xstrdup(rig_path(r, "own")), .n_tiers = 1, .pool = r->pool, .set_id = "set#1"};
    r->conf.tiers[0] = (struct tier_conf){.kind = TIER_SSD, .dir = xstrdup(r->dir), .limit = limit};
}

int rig_try_open(struct rig *r, struct err *err)
{
    mkdir(r->dir, 0700);
    if (cache_open(&r->cache, &r->conf, err))
        return -1;
    r->top = cache_source(r->cache, &r->fake.source);
    return 0;
}

void rig_open(struct rig *r)
{
    struct err err = {0};
    cr_assert_eq(rig_try_open(r, &err), 0, "%s", err.msg);
}

void rig_close(struct rig *r)
{
    if (r->top)
        r->top->ops->close(r->top);
    r->top = NULL;
    r->cache = NULL;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

void rig_remove(const char *dir)
{
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void rig_end(struct rig *r)
{
    struct fake *f = &r->fake;
    rig_close(r);
    if (f->threaded) {
        lock_take(&f->lock);
        f->stop = true;
        cond_broadcast(&f->wake);
        lock_drop(&f->lock);
        for (int i = 0; i < FAKE_THREADS; i++)
            pthread_join(f->threads[i], NULL);
    }
    cond_destroy(&f->wake);
    lock_destroy(&f->lock);
    pool_free(r->pool);
    free((char *)r->conf.dir);
    for (size_t i = 0; i < r->conf.n_tiers; i++)
        free((char *)r->conf.tiers[i].dir);
    rig_remove(r->dir);
}

static _Thread_local uint64_t size_sum;
static int add_size(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)path, (void)at;
    if (type == FTW_F)
        size_sum += (uint64_t)st->st_size;
    return 0;
}

uint64_t folder_size(const char *dir)
{
    size_sum = 0;
    nftw(dir, add_size, 16, FTW_PHYS);
    return size_sum;
}

/* --- reads ----------------------------------------------------------------------------------- */

static void call_done(struct source_wait *wait, struct view *view, const struct err *err)
{
    struct call *c = (struct call *)(void *)wait;
    if (err)
        c->err = *err;
    else if (view)
        c->view = *view;
    atomic_store(&c->done, err ? -1 : 1);
}

static int begin_read(struct rig *r, struct call *c, struct piece p)
{
    p.catalog = &r->catalog;
    *c = (struct call){.wait.done = call_done};
    int rc = source_read(r->top, &p, &c->view, &c->wait, &c->err);
    if (rc != SOURCE_PENDING)
        atomic_store(&c->done, rc == 0 ? 1 : -1);
    return rc;
}

int call_start(struct rig *r, struct call *c, uint64_t unit, enum prio prio)
{
    return begin_read(r, c, (struct piece){.unit = unit, .len = UNIT_BYTES, .prio = prio});
}

int call_piece(struct rig *r, struct call *c, uint64_t unit, uint32_t off, uint32_t len)
{
    return begin_read(r, c, (struct piece){.unit = unit, .off = off, .len = len});
}

static int begin_ahead(struct rig *r, struct call *c, struct piece p)
{
    p.catalog = &r->catalog;
    p.len = UNIT_BYTES;
    p.prio = PRIO_WARMUP;
    *c = (struct call){.wait.done = call_done};
    return source_ahead(r->top, &p, &c->wait, &c->err);
}

int call_if_kept(struct rig *r, struct call *c, uint64_t unit)
{
    return begin_ahead(r, c, (struct piece){.unit = unit, .if_kept = true});
}

int call_ahead(struct rig *r, struct call *c, uint64_t unit, const atomic_bool *token)
{
    return begin_ahead(r, c, (struct piece){.unit = unit, .if_kept = true, .given_up = token});
}

void call_wait(struct call *c)
{
    while (!atomic_load(&c->done))
        usleep(100);
}

int rig_read(struct rig *r, uint64_t unit, uint32_t off, uint32_t len, enum origin *ret_origin,
             struct err *err)
{
    struct piece p = {.catalog = &r->catalog, .unit = unit, .off = off, .len = len};
    struct call c = {.wait.done = call_done};
    int rc = source_read(r->top, &p, &c.view, &c.wait, &c.err);
    if (rc == SOURCE_PENDING) {
        call_wait(&c);
        rc = atomic_load(&c.done) == 1 ? 0 : -1;
    }
    if (rc) {
        if (err)
            *err = c.err;
        return -1;
    }
    uint32_t whole = unit_len(&r->catalog, unit);
    uint32_t want = off >= whole ? 0 : len < whole - off ? len : whole - off;
    cr_assert_eq(c.view.len, want);
    cr_assert(unit_equal(&r->catalog, unit, off < whole ? off : whole, c.view.ptr, c.view.len),
              "wrong bytes of unit %llu", (unsigned long long)unit);
    if (ret_origin)
        *ret_origin = c.view.origin;
    view_release(&c.view);
    return 0;
}

void rig_fill(struct rig *r, uint64_t from, uint64_t n)
{
    struct err err = {0};
    for (uint64_t unit = from; unit < from + n; unit++)
        cr_assert_eq(rig_read(r, unit, 0, UNIT_BYTES, NULL, &err), 0, "%s", err.msg);
    cr_assert_eq(cache_flush(r->cache, &err), 0, "%s", err.msg);
}

int rig_ahead(struct rig *r, uint64_t unit, struct err *err)
{
    struct piece p = {.catalog = &r->catalog, .unit = unit, .len = UNIT_BYTES, .prio = PRIO_WARMUP};
    struct call c = {.wait.done = call_done};
    int rc = source_ahead(r->top, &p, &c.wait, &c.err);
    if (rc == SOURCE_PENDING) {
        call_wait(&c);
        rc = atomic_load(&c.done) == 1 ? 0 : -1;
    }
    if (rc && err)
        *err = c.err;
    return rc;
}
