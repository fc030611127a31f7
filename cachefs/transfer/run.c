/* A run: lists, walks, lets the workers work, and says how it went. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "clock.h"
#include "sync-internal.h"

#define TELL_EVERY_NS   (100 * NS_PER_MS)
#define WAIT_NS         (50 * NS_PER_MS)
#define THREADS_DEFAULT 16
#define THREADS_MAX     256
#define MEMORY_DEFAULT  (256u << 20)
#define MEMORY_MIN      (64u << 20)
#define LARGE_MEMORY    (36u << 20) /* that one long object takes on its way */
#define GIVE_UP_AFTER   200         /* failures without one success between them */
#define BLOCKED_MAX     10000       /* tasks that wait for what is deleted */

/* --- counts, failures, progress --------------------------------------------------------------- */

static void snapshot(struct sync_run *r, struct sync_counts *ret)
{
    struct live_counts *n = &r->counts;
    *ret = (struct sync_counts){
        .found = counter_get(&n->found),
        .found_bytes = counter_get(&n->found_bytes),
        .excluded = counter_get(&n->excluded),
        .copied = counter_get(&n->copied),
        .copied_bytes = counter_get(&n->copied_bytes),
        .moving_bytes = counter_get(&n->moving_bytes),
        .skipped = counter_get(&n->skipped),
        .skipped_bytes = counter_get(&n->skipped_bytes),
        .checked = counter_get(&n->checked),
        .checked_bytes = counter_get(&n->checked_bytes),
        .deleted = counter_get(&n->deleted),
        .deleted_src = counter_get(&n->deleted_src),
        .extra = counter_get(&n->extra),
        .failed = counter_get(&n->failed),
        .aborted_uploads = counter_get(&n->aborted_uploads),
        .resumed_bytes = counter_get(&n->resumed_bytes),
        .packs = counter_get(&n->packs),
        .packs_deleted = counter_get(&n->packs_deleted),
        .packed = counter_get(&n->packed),
        .seconds = (double)(clock_mono_ns() - r->began_ns) / 1e9,
    };
}

bool run_is_over(struct sync_run *r)
{
    if (r->conf->stop && atomic_load_explicit(r->conf->stop, memory_order_relaxed))
        return true;
    ACQUIRE(&r->lock);
    return r->gave_up;
}

void run_left_out(struct sync_run *r, const char *key, const char *why)
{
    struct failure *f = xcalloc(1, sizeof *f + strlen(key) + 1);
    memcpy(f->key, key, strlen(key));
    f->why = xstrdup(why);
    counter_add(&r->counts.failed, 1);
    ACQUIRE(&r->lock);
    *r->last_failure = f;
    r->last_failure = &f->next;
}

void run_failed(struct sync_run *r, const char *key, const struct err *err)
{
    if (err->class == ERR_CANCELLED)
        return; /* told to stop: the next run does it */
    run_left_out(r, key, err->msg);
    ACQUIRE(&r->lock);
    if (++r->failed_in_row >= GIVE_UP_AFTER && !r->gave_up) {
        r->gave_up = true;
        r->gave_up_why = *err;
        cond_broadcast(&r->space);
        cond_broadcast(&r->room);
    }
}

void run_went_well(struct sync_run *r)
{
    ACQUIRE(&r->lock);
    r->failed_in_row = 0;
}

static struct failure *take_failures(struct sync_run *r)
{
    ACQUIRE(&r->lock);
    struct failure *f = r->failures;
    r->failures = NULL;
    r->last_failure = &r->failures;
    return f;
}

void run_tell(struct sync_run *r, bool now)
{
    uint64_t t = clock_mono_ns();
    if (!now && t - r->told_ns < TELL_EVERY_NS)
        return;
    r->told_ns = t;
    for (struct failure *f = take_failures(r); f;) {
        struct failure *next = f->next;
        if (r->watch && r->watch->failed)
            r->watch->failed(r->watch->arg, f->key, f->why);
        free(f->why);
        free(f);
        f = next;
    }
    if (!r->watch || !r->watch->progress)
        return;
    struct sync_counts so_far;
    snapshot(r, &so_far);
    r->watch->progress(r->watch->arg, r->phase, &so_far,
                       r->phase == SYNC_COPYING ? so_far.found : 0);
}

/* --- memory ----------------------------------------------------------------------------------- */

static void on_space(void *arg)
{
    struct sync_run *r = arg;
    ACQUIRE(&r->lock);
    cond_broadcast(&r->space);
}

struct buf *run_buf(struct sync_run *r, size_t cap)
{
    for (;;) {
        struct buf *b = pool_get(r->pool, cap);
        if (b)
            return b;
        if (run_is_over(r))
            return NULL;
        ACQUIRE(&r->lock);
        cond_wait_for(&r->space, &r->lock, WAIT_NS);
    }
}

bool large_enter(struct sync_run *r)
{
    ACQUIRE(&r->lock);
    bool over = false;
    while (r->n_large >= r->large_max && !over) {
        cond_wait_for(&r->space, &r->lock, WAIT_NS);
        over = r->gave_up || (r->conf->stop && atomic_load(r->conf->stop));
    }
    r->n_large += !over;
    return !over;
}

void large_leave(struct sync_run *r)
{
    ACQUIRE(&r->lock);
    r->n_large--;
    cond_broadcast(&r->space);
}

/* --- tasks and workers ------------------------------------------------------------------------ */

struct task *task_new(enum task_kind kind, const char *key, size_t len)
{
    struct task *t = xcalloc(1, sizeof *t);
    t->kind = kind;
    if (len) {
        bytes_add(&t->keys, key, len);
        t->n_keys = 1;
    }
    return t;
}

void task_free(struct task *t)
{
    bytes_release(&t->keys);
    free(t->resume);
    pack_batch_free(t->batch);
    free(t);
}

void run_push(struct sync_run *r, struct task *t)
{
    for (bool queued = false; !queued;) {
        bool over = run_is_over(r);
        {
            ACQUIRE(&r->lock);
            if (r->n_queued >= 4 * (size_t)r->n_threads && !over)
                cond_wait_for(&r->room, &r->lock, WAIT_NS);
            if (r->n_queued < 4 * (size_t)r->n_threads && !over) {
                *r->last = t;
                r->last = &t->next;
                r->n_queued++;
                cond_signal(&r->work);
                queued = true;
            }
        }
        if (over) {
            task_free(t);
            return;
        }
        run_tell(r, false);
    }
}

static struct task *next_task(struct sync_run *r)
{
    ACQUIRE(&r->lock);
    while (!r->first && !r->no_more)
        cond_wait(&r->work, &r->lock);
    struct task *t = r->first;
    if (!t)
        return NULL;
    r->first = t->next;
    if (!r->first)
        r->last = &r->first;
    r->n_queued--;
    r->n_busy++;
    cond_signal(&r->room);
    return t;
}

static void *worker_main(void *arg)
{
    struct sync_run *r = arg;
    struct task *t;
    while ((t = next_task(r))) {
        if (!run_is_over(r))
            do_task(r, t);
        task_free(t);
        ACQUIRE(&r->lock);
        r->n_busy--;
        cond_broadcast(&r->ended);
    }
    return NULL;
}

void run_drain(struct sync_run *r)
{
    for (bool idle = false; !idle;) {
        {
            ACQUIRE(&r->lock);
            idle = r->n_queued == 0 && r->n_busy == 0;
            if (!idle)
                cond_wait_for(&r->ended, &r->lock, WAIT_NS);
        }
        run_tell(r, false);
    }
}

/* --- what is put off ----------------------------------------------------------------------------
 *
 * Links that a bucket names are made when all else is written, so that nothing of the same run goes
 * through one. An object whose name a folder has that is to be deleted, or one that lies where a
 * file is to be deleted, is tried again after that. */

static void add_put_off(struct task **list, enum task_kind kind, const struct task *t)
{
    struct task *later = task_new(kind, t->keys.data, t->keys.len);
    later->src = t->src;
    later->dst = t->dst;
    later->next = *list;
    *list = later;
}

void run_put_off(struct sync_run *r, const struct task *t)
{
    ACQUIRE(&r->lock);
    add_put_off(&r->later, TASK_LINK, t);
}

bool run_blocked(struct sync_run *r, const struct task *t, const struct err *why)
{
    bool in_the_way = why->class == ERR_FAILED || why->sys == ENOTDIR;
    if (!r->deletes || !(store_caps(r->to) & STORE_LOCAL) || t->is_second_try || !in_the_way)
        return false;
    ACQUIRE(&r->lock);
    if (r->n_blocked == BLOCKED_MAX)
        return false;
    add_put_off(&r->blocked, t->kind, t);
    r->blocked->is_second_try = true;
    r->n_blocked++;
    return true;
}

void run_later(struct sync_run *r, struct task **put_off)
{
    struct task *list;
    {
        ACQUIRE(&r->lock);
        list = take_ptr(put_off);
    }
    while (list) {
        struct task *t = list;
        list = t->next;
        t->next = NULL;
        run_push(r, t);
    }
    run_drain(r);
}

/* --- before and after ------------------------------------------------------------------------- */

int run_check_empty(struct sync_run *r, struct err *err)
{
    if (!r->deletes || r->conf->allow_empty || sorter_count(r->src) || !sorter_count(r->dst))
        return 0;
    return err_set(err, ERR_USAGE,
                   "the source is empty, and deleting would take all %llu objects of %s (check the "
                   "source; --allow-empty if that is meant)",
                   (unsigned long long)sorter_count(r->dst), store_uri(r->to));
}

int run_sync_disk(const struct sync_run *r, struct err *err)
{
    if (!(store_caps(r->to) & STORE_LOCAL) || r->conf->dry || r->conf->hasty)
        return 0;
    cleanup_close int fd = open(store_local_dir(r->to), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "open %s", store_local_dir(r->to));
    return syncfs(fd) ? err_sys(err, errno, "write %s to the disk", store_local_dir(r->to)) : 0;
}

/* The end of a run that kept what it was told to delete. */
static int say_not_deleted(const struct sync_run *r, struct err *err)
{
    if (r->deletes || !r->conf->delete_dst)
        return 0;
    return err_set(err, ERR_FAILED,
                   "nothing was deleted: links of the source that lead nowhere: %llu (mend them, "
                   "leave them out by --exclude, or copy links as links by --links)",
                   (unsigned long long)r->n_dangling);
}

static int run_phases(struct sync_run *r, struct err *err)
{
    if (run_list(r, err))
        return -1;
    r->deletes = r->conf->delete_dst && r->n_dangling == 0;
    for (size_t i = 0; i < r->n_sources; i++)
        r->sources[i].same_server = stores_share_server(r->to, r->sources[i].store);
    if (r->conf->pack_size)
        return run_pack(r, err) || run_sync_disk(r, err) ? -1 : say_not_deleted(r, err);
    if (run_check_empty(r, err) || run_copies(r, err))
        return -1;
    if (!run_is_over(r) && r->deletes && run_delete_extra(r, err))
        return -1;
    run_later(r, &r->blocked);
    if (!run_is_over(r) && r->conf->dirs && r->conf->perms && !r->conf->dry &&
        run_folder_attrs(r, err))
        return -1;
    if (run_is_over(r))
        return 0;
    return run_sync_disk(r, err) ? -1 : say_not_deleted(r, err);
}

static int how_it_ended(struct sync_run *r, struct err *err)
{
    if (r->conf->stop && atomic_load(r->conf->stop))
        return err_set(err, ERR_CANCELLED, "told to stop; the same call goes on where this ended");
    ACQUIRE(&r->lock);
    if (!r->gave_up)
        return 0;
    if (err)
        *err = r->gave_up_why;
    return err_wrap(err, "gave up after %d failures in a row, the last", GIVE_UP_AFTER);
}

/* A run that is told to stop begins nothing more, and what is in hand ends. But an answer that does
 * not come is waited for no longer than FETCH_PATIENCE_NS: what that breaks off the next run goes
 * on with. Not while an object goes up in parts: its parts are taken back from the store first. */
static bool breaks_off(void *arg)
{
    struct sync_run *r = arg;
    if (!r->conf->stop || !atomic_load(r->conf->stop))
        return false;
    ACQUIRE(&r->lock);
    return r->n_large == 0;
}

static int run_threads(struct sync_run *r, struct err *err)
{
    pthread_t threads[THREADS_MAX];
    struct fetch_stopper stopper = {
        .fetch = r->fetch, .patience_ns = FETCH_PATIENCE_NS, .told = breaks_off, .arg = r};
    unsigned n = 0;
    int e = 0;
    if (fetch_stopper_begin(&stopper, err))
        return -1;
    while (n < r->n_threads && (e = thread_start(&threads[n], "sync", worker_main, r)) == 0)
        n++;
    int result = n ? run_phases(r, err) : err_thread(err, e, "start a thread that copies");
    {
        ACQUIRE(&r->lock);
        r->no_more = true;
        cond_broadcast(&r->work);
    }
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    fetch_stopper_end(&stopper);
    run_tell(r, true);
    struct err why = {0};
    if (how_it_ended(r, &why)) {
        if (err)
            *err = why;
        return -1;
    }
    return result;
}

/* --- its life -----------------------------------------------------------------------------------
 */

static int open_engine(struct sync_run *r, struct err *err)
{
    struct fetch_conf fc;
    const struct sync_conf *c = r->conf;
    fetch_conf_defaults(&fc);
    fc.connections = 4 * r->n_threads > 64 ? 4 * r->n_threads : 64;
    fc.bandwidth = c->bandwidth;
    fc.verify_md5 = true;
    fc.hedge = false;
    fc.unhurried = true;
    fc.log = c->log;
    return fetch_new(&r->fetch, &fc, err);
}

static void run_init(struct sync_run *r)
{
    const struct sync_conf *c = r->conf;
    const char *tmp = secure_getenv("TMPDIR");
    size_t memory = c->memory ? c->memory : MEMORY_DEFAULT;
    memory = memory < MEMORY_MIN ? MEMORY_MIN : memory;
    r->temp_dir = c->temp_dir ? c->temp_dir : tmp && *tmp ? tmp : "/tmp";
    r->n_threads = c->threads ? c->threads : THREADS_DEFAULT;
    r->n_threads = r->n_threads < THREADS_MAX ? r->n_threads : THREADS_MAX;
    r->pool = pool_new(memory / 2);
    pool_on_space(r->pool, on_space, r);
    r->large_max = (unsigned)(memory / 2 / LARGE_MEMORY);
    r->large_max += r->large_max == 0;
    r->began_ns = r->told_ns = clock_mono_ns();
    r->last = &r->first;
    r->last_failure = &r->failures;
    lock_init(&r->lock, RANK_VOLUME, "sync-run");
    struct cond *conds[] = {&r->work, &r->room, &r->space, &r->ended};
    for (size_t i = 0; i < sizeof conds / sizeof conds[0]; i++)
        cond_init(conds[i]);
}

static void run_release(struct sync_run *r)
{
    fetch_free(r->fetch);
    for (struct task *t; (t = r->blocked);) { /* of a run whose deletes could not be done */
        r->blocked = t->next;
        task_free(t);
    }
    for (size_t i = 0; i < r->n_sources; i++) {
        store_close(r->sources[i].store);
        free(r->sources[i].at);
    }
    free(r->sources);
    store_close(r->to);
    struct sorter *sorters[] = {r->src, r->dst, r->uploads, r->listed};
    for (size_t i = 0; i < sizeof sorters / sizeof sorters[0]; i++)
        if (sorters[i])
            sorter_free(sorters[i]);
    pool_free(r->pool);
    struct cond *conds[] = {&r->work, &r->room, &r->space, &r->ended};
    for (size_t i = 0; i < sizeof conds / sizeof conds[0]; i++)
        cond_destroy(conds[i]);
    lock_destroy(&r->lock);
}

int sync_run(const struct sync_conf *conf, const struct sync_watch *watch, struct sync_counts *ret,
             struct err *err)
{
    struct sync_run r = {.conf = conf, .watch = watch};
    struct err ignored;
    *ret = (struct sync_counts){0};
    err = err ? err : &ignored;
    if (sync_check(conf, err))
        return -1;
    run_init(&r);
    int result = run_open_stores(&r, err) || run_load_list(&r, err) || open_engine(&r, err) ||
                         run_threads(&r, err)
                     ? -1
                     : 0;
    snapshot(&r, ret);
    run_release(&r);
    return result;
}
