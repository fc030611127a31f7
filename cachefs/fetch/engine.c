/*
 * The engine's thread: waits for sockets and clocks, admits jobs from the queues, hands what ends
 * to job.c. The library's multi handle is driven through its socket interface and epoll, so a round
 * costs only what happened in it, and an idle engine sleeps without a timeout.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "clock.h"
#include "engine-internal.h"
#include "hash.h"
#include "mem.h"

#define EVENTS           64
#define CONNECTIONS_KEPT 1024 /* open ones never exceed conf.connections: none is closed early */
#define READER_RECENT_NS (2 * NS_PER_S)
#define GATE_NS          (NS_PER_S / 4) /* of a limited line's bytes may be asked for ahead */

void fetch_conf_defaults(struct fetch_conf *c)
{
    *c = (struct fetch_conf){
        .connections = 64,
        .max_tries = 10,
        .try_timeout_ns = 10 * NS_PER_S,
        .budget_ns = 60 * NS_PER_S,
        .connect_timeout_ns = 5 * NS_PER_S,
        .away_ns = 60 * NS_PER_S,
        .cut_page_ns = 40 * NS_PER_MS,
        .hedge = true,
    };
}

/* --- slots ----------------------------------------------------------------------------------- */

/*
 * While readers come, an eighth of the slots is theirs alone: a reader would otherwise wait for one
 * of many prefetches to end before its request is even sent.
 */
unsigned slots_classes(const struct fetch *f, uint64_t now_ns)
{
    unsigned n = f->conf.connections;
    if (f->busy >= n)
        return 0;
    unsigned kept = n < 4 ? 0 : n < 8 ? 1 : n / 8;
    bool readers = f->reader_seen_ns && now_ns - f->reader_seen_ns < READER_RECENT_NS;
    return readers && f->busy_low + kept >= n ? 1u << PRIO_READER : QUEUES_ALL;
}

void slot_take(struct fetch *f, enum prio prio, uint64_t now_ns, bool *ret_low)
{
    *ret_low = prio != PRIO_READER;
    f->busy++;
    f->busy_low += *ret_low;
    if (prio == PRIO_READER)
        f->reader_seen_ns = now_ns;
    atomic_store_explicit(&f->counts->in_flight, f->busy, memory_order_relaxed);
    if (f->busy > counter_get(&f->counts->in_flight_max))
        atomic_store_explicit(&f->counts->in_flight_max, f->busy, memory_order_relaxed);
}

void slot_give(struct fetch *f, bool low)
{
    ACQUIRE(&f->lock);
    assert(f->busy > 0 && f->busy_low >= (unsigned)low);
    f->busy--;
    f->busy_low -= low;
    atomic_store_explicit(&f->counts->in_flight, f->busy, memory_order_relaxed);
    local_poke(f);
    /* The engine's own thread looks for work before it sleeps. */
    if (f->asleep && !pthread_equal(pthread_self(), f->thread) && queues_have(&f->http, QUEUES_ALL))
        engine_wake(f);
}

/* --- callers' side --------------------------------------------------------------------------- */

void engine_wake(const struct fetch *f)
{
    uint64_t one = 1;
    ssize_t n = write(f->wake_fd, &one, sizeof one);
    (void)n; /* EAGAIN: a wake-up waits there already */
}

static struct job **dest_bucket(struct fetch *f, const void *dest)
{
    return &f->by_dest[hash_mix64((uintptr_t)dest) % DEST_BUCKETS];
}

void dest_forget(struct fetch *f, struct job *j)
{
    struct job **p = dest_bucket(f, j->get.dest);
    while (*p && *p != j)
        p = &(*p)->dest_next;
    if (*p)
        *p = j->dest_next;
}

static int job_submit(struct fetch *f, struct job *j, enum prio prio, struct err *err)
{
    bool local = store_caps(job_store(j)) & STORE_LOCAL;
    ACQUIRE(&f->lock);
    if (f->stopping)
        return err_set(err, ERR_CANCELLED, "queue a transfer: the engine is stopping");
    if (queues_push(local ? &f->local : &f->http, &j->item, prio, err))
        return -1;
    if (local && local_work(f, err)) {
        queues_remove(&f->local, &j->item);
        return -1;
    }
    if (j->is_get) {
        struct job **bucket = dest_bucket(f, j->get.dest);
        j->dest_next = *bucket;
        *bucket = j;
    }
    if (job_unwanted(j)) {
        jobs_look_at_tokens(f);
    } else if (!local && f->asleep && f->busy < f->conf.connections) {
        f->asleep = false; /* woken once is enough */
        engine_wake(f);
    }
    return 0;
}

int fetch_get(struct fetch *f, const struct fetch_get *g, struct err *err)
{
    if (g->len == 0) {
        g->done(g->arg, NULL);
        return 0;
    }
    size_t etag_len = strlen(g->etag), version_len = g->version ? strlen(g->version) : 0;
    struct job *j = xcalloc(1, sizeof *j + g->key_len + 1 + etag_len + 1 + version_len + 1);
    memcpy(j->text, g->key, g->key_len);
    memcpy(j->text + g->key_len + 1, g->etag, etag_len);
    j->is_get = true;
    j->get = *g;
    j->get.key = j->text;
    j->get.etag = j->text + g->key_len + 1;
    if (g->version)
        j->get.version = memcpy(j->text + g->key_len + 1 + etag_len + 1, g->version, version_len);
    if (job_submit(f, j, g->prio, err) == 0)
        return 0;
    free(j);
    return -1;
}

int fetch_whole(struct fetch *f, const struct whole *w, struct err *err)
{
    struct job *j = xcalloc(1, sizeof *j);
    j->whole = *w;
    if (job_submit(f, j, w->prio, err) == 0)
        return 0;
    free(j);
    return -1;
}

void fetch_raise(struct fetch *f, const void *dest, enum prio prio)
{
    ACQUIRE(&f->lock);
    for (struct job *j = *dest_bucket(f, dest); j; j = j->dest_next) {
        if (j->get.dest != dest || job_prio(j) <= prio)
            continue;
        bool local = store_caps(job_store(j)) & STORE_LOCAL;
        if (!j->item.queued) {
            atomic_store_explicit(&j->item.prio, (int)prio, memory_order_relaxed);
            continue;
        }
        queues_move(local ? &f->local : &f->http, &j->item, prio);
        if (local)
            local_poke(f);
        else if (f->asleep) /* there may be room for this class */
            engine_wake(f);
    }
}

/* --- admission ------------------------------------------------------------------------------- */

void engine_due(struct fetch *f, uint64_t at_ns)
{
    if (at_ns < f->next_due_ns)
        f->next_due_ns = at_ns;
}

void job_resume(struct fetch *f, struct job *j)
{
    ACQUIRE(&f->lock);
    queues_push_tried(&f->http, &j->item);
}

static uint64_t outstanding_of_readers(const struct fetch *f)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < f->n_flying; i++)
        if (flight_is_readers(f->flying[i]))
            bytes += f->flying[i]->want - f->flying[i]->got;
    return bytes;
}

/*
 * Which classes may ask a limited line for more. Without this gate every free slot would send a
 * request and the servers' answers would fill the sockets' buffers far beyond the limit. What was
 * asked for ahead does not keep a reader waiting: its bytes go before those (flights_unpause()).
 */
static unsigned line_classes(struct fetch *f)
{
    uint64_t per_s = atomic_load_explicit(&f->bandwidth, memory_order_relaxed);
    if (!per_s)
        return QUEUES_ALL;
    uint64_t wait = rate_wait_ns(&f->rate, f->now_ns), enough = per_s / (NS_PER_S / GATE_NS);
    if (wait)
        engine_due(f, f->now_ns + wait);
    if (!wait && (!f->outstanding || f->outstanding < enough))
        return QUEUES_ALL;
    uint64_t readers = outstanding_of_readers(f);
    return !readers || readers < enough ? 1u << PRIO_READER : 0;
}

/* f->lock held. While very many jobs pause that were tried before, nobody new is let in: an answer
 * of "slow down" must not be met with more first tries. */
static struct job *next_job(struct fetch *f, unsigned allowed)
{
    bool storm = f->n_parked >= 2 * (size_t)f->conf.connections + 16;
    return (struct job *)(storm ? queues_pop_tried(&f->http, allowed)
                                : queues_pop(&f->http, allowed));
}

/* f->lock held. */
static unsigned paced_classes(struct fetch *f)
{
    unsigned classes = slots_classes(f, f->now_ns), reader = 1u << PRIO_READER;
    f->pace.most = f->conf.connections;
    f->bound = f->n_paced >= f->pace.limit && queues_have(&f->http, QUEUES_ALL & ~reader);
    return f->bound ? classes & reader : classes;
}

static bool admit_one(struct fetch *f)
{
    struct job *j = NULL;
    {
        ACQUIRE(&f->lock);
        if (!f->stopping)
            j = next_job(f, paced_classes(f) & line_classes(f));
        f->asleep = !j;
        if (!j)
            return false;
        slot_take(f, job_prio(j), f->now_ns, &j->low);
    }
    job_start(f, j);
    return true;
}

/* --- the loop -------------------------------------------------------------------------------- */

/* An event names a plain connection by its address, or a descriptor by an odd number. */
static uint64_t fd_mark(int fd)
{
    return (uint64_t)fd << 1 | 1;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
    struct fetch *f = arg;
    struct flight *fl = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&fl);
    if (fl)
        fl->fd = what == CURL_POLL_REMOVE ? -1 : fd;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(f->epoll_fd, EPOLL_CTL_DEL, fd, NULL); /* may be closed already */
        return 0;
    }
    struct epoll_event e = {.data.u64 = fd_mark(fd)};
    if (what & CURL_POLL_IN)
        e.events |= EPOLLIN;
    if (what & CURL_POLL_OUT)
        e.events |= EPOLLOUT;
    int op = known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(f->epoll_fd, op, fd, &e) && errno == (known ? ENOENT : EEXIST))
        epoll_ctl(f->epoll_fd, known ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &e);
    if (!known)
        curl_multi_assign(f->multi, fd, f); /* any mark: "known" from now on */
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *arg)
{
    struct fetch *f = arg;
    (void)multi;
    f->curl_due_ns = ms < 0 ? NEVER_NS : clock_mono_ns() + (uint64_t)ms * NS_PER_MS;
    return 0;
}

static void run_socket(struct fetch *f, const struct epoll_event *e)
{
    if (!(e->data.u64 & 1)) {
        plain_event(f, e->data.ptr, e->events);
        return;
    }
    int fd = (int)(e->data.u64 >> 1);
    if (fd == f->wake_fd) {
        uint64_t n;
        ssize_t got = read(f->wake_fd, &n, sizeof n);
        (void)got; /* only empties it */
        return;
    }
    int mask = 0, running;
    if (e->events & EPOLLIN)
        mask |= CURL_CSELECT_IN;
    if (e->events & EPOLLOUT)
        mask |= CURL_CSELECT_OUT;
    if (e->events & (EPOLLERR | EPOLLHUP))
        mask |= CURL_CSELECT_ERR;
    curl_multi_socket_action(f->multi, fd, mask, &running);
}

static void run_timer(struct fetch *f)
{
    int running;
    if (f->curl_due_ns > f->now_ns)
        return;
    f->curl_due_ns = NEVER_NS;
    curl_multi_socket_action(f->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

static bool reap(struct fetch *f)
{
    CURLMsg *m;
    int left;
    bool any = false;
    while ((m = curl_multi_info_read(f->multi, &left))) {
        if (m->msg != CURLMSG_DONE)
            continue;
        CURLcode code = m->data.result; /* the message dies with the handle's removal */
        struct flight *fl = NULL;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&fl);
        if (fl->origin && code == CURLE_OK)
            plain_connected(f, fl);
        else
            flight_landed(f, fl, code);
        any = true;
    }
    return any;
}

static int wait_ms(const struct fetch *f)
{
    uint64_t due = f->curl_due_ns < f->next_due_ns ? f->curl_due_ns : f->next_due_ns;
    if (due == NEVER_NS)
        return -1;
    uint64_t now = clock_mono_ns();
    if (due <= now)
        return 0;
    uint64_t ms = (due - now + NS_PER_MS - 1) / NS_PER_MS;
    return ms > 60000 ? 60000 : (int)ms;
}

/* Ends what was given up. False: the engine is to end. */
static bool goes_on(struct fetch *f)
{
    bool given_up;
    {
        ACQUIRE(&f->lock);
        if (f->stopping)
            return false;
        given_up = f->given_up;
        if (f->rate_changed)
            f->next_due_ns = 0; /* clocks that the old rate has set */
        f->given_up = f->rate_changed = false;
    }
    if (given_up)
        jobs_give_up(f);
    return true;
}

static void *engine_main(void *arg)
{
    struct fetch *f = arg;
    struct epoll_event events[EVENTS];
    while (goes_on(f)) {
        f->now_ns = clock_mono_ns();
        do {
            while (admit_one(f))
                ;
            run_timer(f);
        } while (reap(f));
        int n = epoll_wait(f->epoll_fd, events, EVENTS, wait_ms(f));
        f->now_ns = clock_mono_ns();
        for (int i = 0; i < n; i++)
            run_socket(f, &events[i]);
        plain_bury(f);
        run_timer(f);
        reap(f);
        creds_collect(f);
        jobs_check_clocks(f);
    }
    jobs_cancel_all(f);
    return NULL;
}

/* --- begin and end --------------------------------------------------------------------------- */

static int open_engine(struct fetch *f, struct err *err)
{
    f->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    f->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->epoll_fd < 0 || f->wake_fd < 0)
        return err_sys(err, errno, "start the transfer engine");
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = fd_mark(f->wake_fd)};
    if (epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, f->wake_fd, &e))
        return err_sys(err, errno, "start the transfer engine");
    f->multi = curl_multi_init();
    if (!f->multi)
        return err_set(err, ERR_LIMIT, "start the transfer engine: out of memory");
    curl_multi_setopt(f->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(f->multi, CURLMOPT_SOCKETDATA, f);
    curl_multi_setopt(f->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(f->multi, CURLMOPT_TIMERDATA, f);
    curl_multi_setopt(f->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT);
    int e2 = thread_start(&f->thread, "fetch", engine_main, f);
    return e2 ? err_thread(err, e2, "start the transfer engine's thread") : 0;
}

static void release_all(struct fetch *f)
{
    while (f->idle) {
        struct flight *fl = f->idle;
        f->idle = fl->next_free;
        flight_free(fl);
    }
    plain_free(f);
    if (f->multi)
        curl_multi_cleanup(f->multi);
    if (f->wake_fd >= 0)
        close(f->wake_fd);
    if (f->epoll_fd >= 0)
        close(f->epoll_fd);
    creds_free(f);
    local_free(f);
    lock_destroy(&f->lock);
    free(f->flying);
    free(f);
    curl_global_cleanup();
}

static bool proxy_in_environment(void)
{
    static const char *const names[] = {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return true;
    }
    return false;
}

int fetch_new(struct fetch **ret, const struct fetch_conf *conf, struct err *err)
{
    if (conf->connections == 0)
        return err_set(err, ERR_USAGE, "start the transfer engine: 0 connections (want 1 or more)");
    if (curl_global_init(CURL_GLOBAL_DEFAULT))
        return err_set(err, ERR_FAILED, "start the transfer engine: the HTTP library refused");
    struct fetch *f = xcalloc(1, sizeof *f);
    f->conf = *conf;
    f->counts = conf->counts ? conf->counts : &f->own_counts;
    atomic_store(&f->counts->in_flight, 0); /* what was under way in another life is not */
    f->epoll_fd = f->wake_fd = -1;
    f->curl_due_ns = f->next_due_ns = NEVER_NS;
    f->seed = clock_mono_ns() ^ (uintptr_t)f;
    f->now_ns = clock_mono_ns();
    lock_init(&f->lock, RANK_FETCH_QUEUE, "fetch-queue");
    queues_init(&f->http, QUEUE_LIMIT);
    queues_init(&f->local, QUEUE_LIMIT);
    f->cap_idle = CONNECTIONS_KEPT;
    f->proxied = proxy_in_environment();
    retry_budget_init(&f->retry_budget, f->now_ns);
    pace_init(&f->pace);
    rate_set(&f->rate, conf->bandwidth, f->now_ns);
    f->bandwidth = conf->bandwidth;
    creds_new(f);
    local_new(f);
    if (open_engine(f, err)) {
        release_all(f);
        return -1;
    }
    *ret = f;
    return 0;
}

void fetch_stop(struct fetch *f)
{
    {
        ACQUIRE(&f->lock);
        if (f->stopping)
            return;
        f->stopping = true;
        local_poke(f);
        engine_wake(f);
    }
    pthread_join(f->thread, NULL);
    local_stop(f);
    creds_stop(f);
}

void fetch_free(struct fetch *f)
{
    if (!f)
        return;
    fetch_stop(f);
    release_all(f);
}

const struct fetch_counts *fetch_counts(const struct fetch *f)
{
    return f->counts;
}

void fetch_set_bandwidth(struct fetch *f, uint64_t bytes_per_s)
{
    ACQUIRE(&f->lock);
    rate_set(&f->rate, bytes_per_s, clock_mono_ns());
    f->bandwidth = bytes_per_s;
    f->rate_changed = true;
    local_rate_changed(f);
    engine_wake(f);
}

void fetch_set_connections(struct fetch *f, unsigned n)
{
    ACQUIRE(&f->lock);
    f->conf.connections = n ? n : 1;
    local_poke(f);
    engine_wake(f);
}
