/*
 * Local stores: a pool of threads that read files, under the queues and the limits of the engine.
 * Threads are started as work comes, up to LOCAL_THREADS: on a network file system each read waits,
 * so as many are needed as reads shall be under way at once.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "engine-internal.h"
#include "hash.h"
#include "mem.h"

#define LOCAL_THREADS 64
#define LIMITED_PIECE (128u << 10) /* read at once while a rate limit holds */
#define RETRY_BASE_NS (50 * NS_PER_MS)
#define RETRY_CAP_NS  (2 * NS_PER_S)

struct local_pool {
    pthread_t threads[LOCAL_THREADS];
    unsigned n, waiting;        /* waiting: for work; f->lock */
    struct cond work;           /* a job waits, room came, or it is time to end */
    struct cond tick;           /* it is time to end, all or what was given up, or the rate limit is
                                   another; not signalled while only time passes */
    struct retry_budget budget; /* f->lock */
};

void local_new(struct fetch *f)
{
    f->local_pool = xcalloc(1, sizeof *f->local_pool);
    cond_init(&f->local_pool->work);
    cond_init(&f->local_pool->tick);
    retry_budget_init(&f->local_pool->budget, clock_mono_ns());
}

void local_free(struct fetch *f)
{
    cond_destroy(&f->local_pool->work);
    cond_destroy(&f->local_pool->tick);
    free(f->local_pool);
}

void local_poke(struct fetch *f)
{
    if (f->stopping || f->given_up)
        cond_broadcast(&f->local_pool->tick);
    if (f->local_pool->waiting && (f->stopping || queues_have(&f->local, QUEUES_ALL)))
        cond_broadcast(&f->local_pool->work);
}

void local_rate_changed(struct fetch *f)
{
    cond_broadcast(&f->local_pool->tick);
}

/* f->lock held. */
static bool is_wanted(const struct fetch *f, const struct job *j)
{
    return !f->stopping && !job_unwanted(j);
}

/* Sleeps, or less if the read is to end. False: it is. */
static bool pause_for(struct fetch *f, const struct job *j, uint64_t ns)
{
    uint64_t end = clock_mono_ns() + ns, now;
    ACQUIRE(&f->lock);
    while (is_wanted(f, j) && (now = clock_mono_ns()) < end)
        cond_wait_for(&f->local_pool->tick, &f->lock, end - now);
    return is_wanted(f, j);
}

static bool charge(struct fetch *f, const struct job *j, size_t len)
{
    ACQUIRE(&f->lock);
    while (is_wanted(f, j)) {
        uint64_t now = clock_mono_ns(), wait = rate_wait_ns(&f->rate, now);
        if (!wait) {
            rate_take(&f->rate, len, now);
            return true;
        }
        cond_wait_for(&f->local_pool->tick, &f->lock, wait);
    }
    return false;
}

static int cancelled(const struct job *j, struct err *err)
{
    return job_unwanted(j) ? err_given_up(err) : err_stopping(err);
}

static int read_all(struct fetch *f, const struct job *j, struct err *err)
{
    const struct fetch_get *g = &j->get;
    uint64_t size = g->object_size == FETCH_SIZE_UNKNOWN ? 0 : g->object_size;
    for (uint32_t done = 0; done < g->len;) {
        uint32_t piece = g->len - done;
        if (job_unwanted(j))
            return cancelled(j, err);
        if (atomic_load(&f->bandwidth)) {
            piece = piece < LIMITED_PIECE ? piece : LIMITED_PIECE;
            if (!charge(f, j, piece))
                return cancelled(j, err);
        }
        if (store_local_read(g->store, g->key, g->key_len, g->off + done, (char *)g->dest + done,
                             piece, size, g->mtime_ns, err))
            return -1;
        done += piece;
        counter_add(&f->counts->bytes, piece);
    }
    return g->sum_of_range ? store_check_sum(g->etag, g->dest, g->len, err) : 0;
}

static bool try_again(struct fetch *f, struct job *j, uint64_t start_ns, const struct err *err)
{
    uint64_t pause, now = clock_mono_ns();
    {
        ACQUIRE(&f->lock);
        const struct retry_policy policy = {f->conf.max_tries, RETRY_BASE_NS, RETRY_CAP_NS,
                                            f->conf.budget_ns};
        const struct retry_ask ask = {.how = retry_of_class(err->class),
                                      .tries = j->tries,
                                      .elapsed_ns = now - start_ns,
                                      .now_ns = now,
                                      .random = hash_mix64(now ^ (uintptr_t)j)};
        if (!retry_decide(&policy, &f->local_pool->budget, &ask, &pause))
            return false;
    }
    counter_add(&f->counts->retries, 1);
    return pause_for(f, j, pause);
}

static void run(struct fetch *f, struct job *j)
{
    uint64_t start = clock_mono_ns();
    struct err err;
    int result;
    do {
        err = (struct err){0};
        j->tries++;
        counter_add(&f->counts->requests, 1);
        result = read_all(f, j, &err);
    } while (result && try_again(f, j, start, &err));
    slot_give(f, j->low);
    if (result == 0) {
        histogram_add(&f->counts->latency, clock_mono_ns() - start);
        job_finish(f, j, NULL);
        return;
    }
    if (job_unwanted(j)) /* perhaps while it paused after a failure */
        cancelled(j, &err);
    if (err.class == ERR_NOT_FOUND)
        stale_deleted(&err);
    cleanup_bytes struct bytes name = {0};
    job_name(j, &name);
    err_wrap(&err, "get %s", name.data);
    job_finish(f, j, &err);
}

static struct job *wait_for_job(struct fetch *f)
{
    struct local_pool *p = f->local_pool;
    ACQUIRE(&f->lock);
    while (!f->stopping) {
        uint64_t now = clock_mono_ns();
        struct job *j = (struct job *)queues_pop(&f->local, slots_classes(f, now));
        if (j) {
            slot_take(f, job_prio(j), now, &j->low);
            return j;
        }
        p->waiting++;
        cond_wait(&p->work, &f->lock);
        p->waiting--;
    }
    return NULL;
}

static void *local_main(void *arg)
{
    struct fetch *f = arg;
    struct job *j;
    while ((j = wait_for_job(f)))
        run(f, j);
    return NULL;
}

int local_work(struct fetch *f, struct err *err)
{
    struct local_pool *p = f->local_pool;
    size_t queued = 0;
    for (size_t i = 0; i < PRIO_COUNT; i++)
        queued += f->local.n[i];
    cond_signal(&p->work);
    if (p->waiting >= queued || p->n == LOCAL_THREADS || p->n >= f->conf.connections)
        return 0;
    int e = thread_start(&p->threads[p->n], "fetch-local", local_main, f);
    if (e && p->n == 0)
        return err_thread(err, e, "start a thread that reads files");
    p->n += !e;
    return 0;
}

void local_stop(struct fetch *f)
{
    struct local_pool *p = f->local_pool;
    for (unsigned i = 0; i < p->n; i++)
        pthread_join(p->threads[i], NULL);
    for (;;) {
        struct job *j;
        {
            ACQUIRE(&f->lock);
            j = (struct job *)queues_pop(&f->local, QUEUES_ALL);
        }
        if (!j)
            return;
        struct err err = {0};
        err_stopping(&err);
        job_finish(f, j, &err);
    }
}
