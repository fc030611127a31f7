/*
 * One try on the wire: an easy handle, its request, and where the bytes go. Bodies are copied once,
 * from the library's receive buffer to the caller's memory (a hedge's to a scratch of its own, so
 * that only one of two flights ever writes to the destination).
 */
#include <assert.h>
#include <string.h>

#include "clock.h"
#include "engine-internal.h"
#include "mem.h"

/* Below the size from which the C library maps each buffer anew: with 128 KiB every transfer paid
 * for 16 page faults, a fifth of its CPU time. */
#define RECEIVE_BUFFER (64L << 10)
#define ERROR_TEXT_MAX (64u << 10)  /* of an answer that is an error */
#define BEYOND_MAX     (256u << 10) /* rather received than a connection lost */
#define SCRATCH_MAX    (8u << 20)   /* of all hedges */
#define OTHERS_TURN    8            /* one turn in so many at a limited line is not the readers' */
#define TEXT_KEPT      (64u << 10)  /* a larger buffer is not kept with the handle */
#define NAMES_KEPT_S   60L          /* addresses of hosts */

/* --- callbacks of the library ---------------------------------------------------------------- */

static size_t on_header(char *data, size_t size, size_t n, void *arg)
{
    struct flight *fl = arg;
    fl->last_ns = fl->fetch->now_ns;
    http_answer_line(&fl->answer, data, size * n);
    return size * n;
}

static size_t cut(struct flight *fl, enum err_class class, const char *why)
{
    fl->cut = true;
    err_set(&fl->why, class, "%s", why);
    return CURL_WRITEFUNC_ERROR;
}

static size_t sink(struct flight *fl, const char *data, size_t len)
{
    const struct whole *w = &fl->job->whole;
    fl->sunk += len;
    if (w->sink(w->arg, data, len, &fl->why) == 0)
        return len;
    fl->cut = true;
    return CURL_WRITEFUNC_ERROR;
}

static size_t take_text(struct flight *fl, const char *data, size_t len)
{
    bool good = fl->answer.status / 100 == 2;
    if (good && !fl->job->is_get && fl->job->whole.sink)
        return sink(fl, data, len);
    size_t max = good && !fl->job->is_get ? fl->job->whole.max_body : ERROR_TEXT_MAX;
    size_t room = max - fl->text.len;
    if (len > room && good)
        return cut(fl, ERR_LIMIT, "the answer is longer than any that is expected here");
    bytes_add(&fl->text, data, len < room ? len : room);
    return len;
}

static size_t take_data(struct flight *fl, const char *data, size_t len)
{
    const char *from = data;
    size_t left = len;
    size_t skipped = left < fl->skip ? left : (size_t)fl->skip;
    fl->skip -= skipped;
    from += skipped;
    left -= skipped;
    size_t taken = left < fl->want - fl->got ? left : (size_t)(fl->want - fl->got);
    memcpy(fl->to + fl->got, from, taken);
    fl->got += taken;
    fl->fetch->outstanding -= taken;
    left -= taken;
    if (left > fl->beyond)
        return cut(fl, ERR_CORRUPT, "the answer has more bytes than it announced");
    fl->beyond -= left;
    if (fl->got == fl->want && fl->beyond > BEYOND_MAX) {
        fl->enough = true;
        return CURL_WRITEFUNC_ERROR;
    }
    return len;
}

bool flight_is_limited(const struct fetch *f)
{
    return atomic_load_explicit(&f->bandwidth, memory_order_relaxed) != 0;
}

/* How long it is held up here is not laid to the server's charge. */
static void set_paused(struct flight *fl, bool paused)
{
    uint64_t now = fl->fetch->now_ns, held = fl->paused_ns ? now - fl->paused_ns : 0;
    fl->paused_ns = paused ? now : 0;
    fl->floor_ns += fl->floor_ns ? held : 0;
    if (fl == fl->job->main)
        fl->job->held_ns += held;
}

/* False: the limited line is used up for now, and the flight is paused. */
bool flight_may_receive(struct flight *fl)
{
    struct fetch *f = fl->fetch;
    if (!flight_is_limited(f))
        return true;
    ACQUIRE(&f->lock);
    uint64_t now = clock_mono_ns();
    uint64_t wait = rate_wait_ns(&f->rate, now);
    if (wait)
        engine_due(f, now + wait);
    set_paused(fl, wait != 0);
    return wait == 0;
}

void flight_note_bytes(struct flight *fl, size_t len)
{
    struct fetch *f = fl->fetch;
    fl->last_ns = f->now_ns;
    counter_add(&f->counts->bytes, len);
    if (!flight_is_limited(f))
        return;
    ACQUIRE(&f->lock);
    rate_take(&f->rate, len, clock_mono_ns());
}

bool flight_check_head(struct flight *fl)
{
    if (!fl->checked && answer_check_head(fl))
        fl->cut = true;
    return !fl->cut;
}

bool flight_take(struct flight *fl, const char *data, size_t len)
{
    return flight_check_head(fl) &&
           (fl->data ? take_data(fl, data, len) : take_text(fl, data, len)) == len;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    struct flight *fl = arg;
    size_t len = size * n;
    fl->last_ns = fl->fetch->now_ns;
    if (!flight_may_receive(fl))
        return CURL_WRITEFUNC_PAUSE;
    flight_note_bytes(fl, len);
    return flight_take(fl, data, len) ? len : CURL_WRITEFUNC_ERROR;
}

bool flight_is_readers(const struct flight *fl)
{
    return fl->job && job_prio(fl->job) == PRIO_READER;
}

/* When the line may be used again, or NEVER_NS: all of them got their turn. */
static uint64_t unpause(struct fetch *f, bool readers)
{
    /* Backwards: a flight may land meanwhile, and then the last one moves to its place. */
    for (size_t i = f->n_flying; i-- > 0;) {
        struct flight *fl = i < f->n_flying ? f->flying[i] : NULL;
        if (!fl || !fl->paused_ns || flight_is_readers(fl) != readers)
            continue;
        uint64_t wait;
        {
            ACQUIRE(&f->lock);
            wait = rate_wait_ns(&f->rate, f->now_ns);
        }
        if (wait)
            return f->now_ns + wait;
        set_paused(fl, false);
        fl->last_ns = f->now_ns;
        if (fl->plain)
            plain_read(f, fl); /* `fl` may be gone */
        else
            curl_easy_pause(fl->easy, CURLPAUSE_CONT); /* hands out what it kept, may pause again */
    }
    return NEVER_NS;
}

uint64_t flights_unpause(struct fetch *f)
{
    bool readers = ++f->unpauses % OTHERS_TURN != 0;
    uint64_t due = unpause(f, readers);
    return due == NEVER_NS ? unpause(f, !readers) : due;
}

/* --- handles --------------------------------------------------------------------------------- */

static struct flight *flight_new(struct fetch *f, struct err *err)
{
    struct flight *fl = xcalloc(1, sizeof *fl);
    fl->fetch = f;
    fl->easy = curl_easy_init();
    if (!fl->easy || http_prepare(fl->easy, err)) {
        if (!fl->easy)
            err_set(err, ERR_LIMIT, "out of memory: a transfer");
        curl_easy_cleanup(fl->easy);
        free(fl);
        return NULL;
    }
    curl_easy_setopt(fl->easy, CURLOPT_PRIVATE, fl);
    curl_easy_setopt(fl->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(fl->easy, CURLOPT_WRITEDATA, fl);
    curl_easy_setopt(fl->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(fl->easy, CURLOPT_HEADERDATA, fl);
    curl_easy_setopt(fl->easy, CURLOPT_ERRORBUFFER, fl->detail);
    curl_easy_setopt(fl->easy, CURLOPT_QUICK_EXIT, 1L); /* no wait for a name server at the end */
    return fl;
}

void flight_free(struct flight *fl)
{
    curl_easy_cleanup(fl->easy);
    bytes_release(&fl->text);
    free(fl);
}

static struct flight *flight_get(struct fetch *f, struct err *err)
{
    struct flight *fl = f->idle;
    if (!fl)
        return flight_new(f, err);
    f->idle = fl->next_free;
    return fl;
}

static void flight_put(struct fetch *f, struct flight *fl)
{
    http_req_release(&fl->req);
    if (fl->scratch)
        f->scratch_used -= fl->want;
    free(fl->scratch);
    fl->scratch = NULL;
    if (fl->text.cap > TEXT_KEPT)
        bytes_release(&fl->text);
    fl->job = NULL;
    fl->next_free = f->idle;
    f->idle = fl;
}

/* --- take-off and end ------------------------------------------------------------------------ */

static int build(struct flight *fl, struct job *j, struct err *err)
{
    if (!j->is_get)
        return j->whole.build(j->whole.build_arg, &fl->req, err);
    const struct fetch_get *g = &j->get;
    bool all = g->off == 0 && g->len == g->object_size;
    uint64_t len = all ? 0 : g->len;
    if (g->version)
        return store_req_get_version(g->store, g->key, g->key_len, g->version, g->off, len,
                                     &fl->req, err);
    return store_req_get(g->store, g->key, g->key_len, g->off, len, &fl->req, err);
}

/* A hedge, and a try after a broken one, want no connection that others used. */
static bool is_fresh(const struct flight *fl)
{
    return fl->job->fresh || fl->scratch;
}

static int set_options(struct fetch *f, struct flight *fl, struct job *j, struct err *err)
{
    if (http_apply(fl->easy, &fl->req, store_peer(job_store(j)), &fl->headers, err))
        return -1;
    long connect_ms = (long)((f->conf.connect_timeout_ns + NS_PER_MS - 1) / NS_PER_MS);
    curl_easy_setopt(fl->easy, CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
    curl_easy_setopt(fl->easy, CURLOPT_BUFFERSIZE, RECEIVE_BUFFER);
    curl_easy_setopt(fl->easy, CURLOPT_FRESH_CONNECT, is_fresh(fl) ? 1L : 0L);
    curl_easy_setopt(fl->easy, CURLOPT_CONNECT_ONLY, fl->origin ? 1L : 0L);
    /* After a broken try the name is resolved anew: the server may have moved. Of several addresses
     * another may come first then: one that is silent takes all the time there is to connect. */
    curl_easy_setopt(fl->easy, CURLOPT_DNS_CACHE_TIMEOUT, j->fresh ? 0L : NAMES_KEPT_S);
    curl_easy_setopt(fl->easy, CURLOPT_DNS_SHUFFLE_ADDRESSES, j->fresh ? 1L : 0L);
    return 0;
}

static int aim(struct fetch *f, struct flight *fl, struct job *j, bool hedge, struct err *err)
{
    fl->want = j->is_get ? j->get.len : 0;
    fl->to = j->is_get ? j->get.dest : NULL;
    if (!hedge)
        return 0;
    if (f->scratch_used + fl->want > SCRATCH_MAX)
        return err_set(err, ERR_LIMIT, "no memory for a second request");
    fl->to = fl->scratch = xmalloc(fl->want);
    f->scratch_used += fl->want;
    return 0;
}

static void reset(struct fetch *f, struct flight *fl, struct job *j, bool low)
{
    fl->job = j;
    fl->low = low;
    fl->checked = fl->data = fl->cut = fl->enough = false;
    fl->skip = fl->got = fl->beyond = fl->last_sent = fl->sunk = 0;
    fl->floor_ns = fl->floor_bytes = fl->paused_ns = 0;
    fl->started_ns = fl->last_ns = f->now_ns;
    fl->fd = -1;
    fl->detail[0] = '\0';
    bytes_clear(&fl->text);
    http_answer_init(&fl->answer);
}

/* Sends the built request on its way: over a plain connection, or through the library, which may
 * first make one. */
static int send_off(struct fetch *f, struct flight *fl, struct err *err)
{
    if (plain_go(f, fl, is_fresh(fl)))
        return 0;
    if (set_options(f, fl, fl->job, err))
        return -1;
    CURLMcode code = curl_multi_add_handle(f->multi, fl->easy);
    if (code)
        return err_set(err, ERR_FAILED, "start a transfer: %s", curl_multi_strerror(code));
    fl->in_multi = true;
    return 0;
}

void flight_go(struct fetch *f, struct flight *fl)
{
    if (send_off(f, fl, &fl->why) == 0)
        return;
    fl->cut = true;
    flight_landed(f, fl, CURLE_OK);
}

static int launch(struct fetch *f, struct flight *fl, struct job *j, bool hedge, struct err *err)
{
    http_req_init(&fl->req, HTTP_GET);
    if (aim(f, fl, j, hedge, err) || build(fl, j, err))
        return -1;
    return send_off(f, fl, err);
}

struct flight *flight_start(struct fetch *f, struct job *j, bool hedge, bool low, struct err *err)
{
    struct flight *fl = flight_get(f, err);
    if (!fl)
        return NULL;
    reset(f, fl, j, low);
    if (launch(f, fl, j, hedge, err)) {
        flight_leave_multi(f, fl);
        flight_put(f, fl);
        return NULL;
    }
    if (f->n_flying == f->cap_flying) {
        f->cap_flying = f->cap_flying ? 2 * f->cap_flying : 64;
        f->flying = xrealloc(f->flying, f->cap_flying * sizeof *f->flying);
    }
    fl->place = f->n_flying;
    f->flying[f->n_flying++] = fl;
    fl->paced = low && !hedge;
    f->n_paced += fl->paced;
    f->outstanding += fl->want;
    counter_add(&f->counts->requests, 1);
    return fl;
}

void flight_leave_multi(struct fetch *f, struct flight *fl)
{
    if (fl->in_multi)
        curl_multi_remove_handle(f->multi, fl->easy);
    fl->in_multi = false;
    curl_slist_free_all(fl->headers);
    fl->headers = NULL;
}

void flight_end(struct fetch *f, struct flight *fl)
{
    if (fl->plain)
        plain_leave(f, fl);
    flight_leave_multi(f, fl);
    f->outstanding -= fl->want - fl->got;
    f->flying[fl->place] = f->flying[--f->n_flying];
    f->flying[fl->place]->place = fl->place;
    f->n_paced -= fl->paced;
    if (fl->paced)
        pace_landed(&f->pace, counter_get(&f->counts->bytes), f->now_ns, f->bound);
    bool low = fl->low;
    flight_put(f, fl);
    slot_give(f, low);
}
