/*
 * Requests to other machines: what waits for one of them becomes a request, and its answer comes
 * back to each ask. No clock decides what goes together: a request goes out while less than
 * REQUESTS_MAX are under way, with all that waits at that moment, so that a lone read is never held
 * up, and under load what comes meanwhile is gathered.
 */
#define LOG_MODULE "fetch"
#include "peer-internal.h"

#include <assert.h>
#include <string.h>

#include "crc.h"

#define CHECK_NS   NS_PER_S /* between checks of a machine that is put down, at first ... */
#define CHECK_MOST (10 * NS_PER_S)
#define LIE_MOST   (300 * NS_PER_S) /* ... and at most; of one that sends wrong bytes */
#define LIES_MANY  3
#define GOOD_A_LIE 1000 /* good samples outweigh one bad */

struct peer_request {
    struct peer_request *next;          /* of layer->requests */
    struct peer *peer;                  /* referenced */
    struct ask *asks[PEER_SAMPLES_MAX]; /* lock; NULL: ended */
    uint32_t n;
    bool has_reader;
    bool lied; /* a sum did not fit */
    atomic_bool given_up;
    char version[CATALOG_DIGEST + 1];
    uint64_t ids;
    struct bytes body;
    struct peer_frames frames;
    struct http_answer answer;
};

/* --- making one ------------------------------------------------------------------------------- */

void peer_batch_body(struct bytes *out, const char *version, uint64_t ids,
                     const struct ask *const *asks, size_t n)
{
    bytes_addf(out, "{\"version\":\"%s\",\"ids\":\"%llx\",\"samples\":[", version,
               (unsigned long long)ids);
    for (size_t i = 0; i < n; i++)
        bytes_addf(out, "%s{\"id\":%llu,\"offset\":%llu,\"length\":%u}", i ? "," : "",
                   (unsigned long long)asks[i]->sample, (unsigned long long)asks[i]->sample_off,
                   asks[i]->len);
    bytes_add_str(out, "]}");
}

int peer_build(struct peer_layer *l, struct http_req *r, enum http_method method, const char *url,
               const char *path)
{
    r->method = method;
    bytes_addf(&r->url, "%s%s", url, path);
    if (method == HTTP_POST)
        http_header(r, "Content-Type", "application/json");
    ACQUIRE(&l->lock);
    if (l->token.text)
        http_header(r, "Authorization", "Bearer %s", l->token.text);
    return 0;
}

static int build(void *arg, struct http_req *r, struct err *err)
{
    const struct peer_request *q = arg;
    (void)err;
    r->body = q->body.data;
    r->body_len = q->body.len;
    return peer_build(q->peer->layer, r, HTTP_POST, q->peer->url, "/v1/samples:batch");
}

/* Lock held. Moves asks of the same version from a queue to the request. */
static void gather(struct peer_request *q, struct peer *p, unsigned which, uint64_t *bytes)
{
    for (struct ask **at = &p->first[which]; *at && q->n < PEER_SAMPLES_MAX;) {
        struct ask *a = *at;
        bool fits = q->n == 0 || (*bytes + a->len <= PEER_BYTES_MAX &&
                                  a->piece.catalog == q->asks[0]->piece.catalog);
        if (!fits) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        *bytes += a->len;
        q->asks[q->n++] = a;
    }
    struct ask **end = &p->first[which];
    while (*end)
        end = &(*end)->next;
    p->end[which] = end;
}

/* Lock held. */
static struct peer_request *take_request(struct peer *p)
{
    unsigned most = p->first[0] ? REQUESTS_MAX : p->first[1] ? REQUESTS_LOW : 0;
    uint64_t bytes = 0;
    if (p->under_way >= most)
        return NULL;
    struct peer_request *q = xcalloc(1, sizeof *q);
    q->peer = p;
    q->has_reader = p->first[0] != NULL;
    gather(q, p, 0, &bytes);
    gather(q, p, 1, &bytes);
    const struct catalog_info *version = catalog_info(q->asks[0]->piece.catalog);
    memcpy(q->version, version->digest, sizeof q->version);
    q->ids = version->ids;
    peer_ref(p);
    p->under_way++;
    q->next = p->layer->requests;
    p->layer->requests = q;
    layer_enter(p->layer);
    if (q->has_reader)
        watch_poke(p->layer);
    return q;
}

/* --- its answer ------------------------------------------------------------------------------- */

static struct ask *ask_at(struct peer_request *q, uint32_t i)
{
    ACQUIRE(&q->peer->layer->lock);
    return q->asks[i];
}

/* It is the caller's now: nobody finds it here any more. */
static struct ask *ask_take(struct peer_request *q, uint32_t i)
{
    ACQUIRE(&q->peer->layer->lock);
    return take_ptr(&q->asks[i]);
}

static int on_begin(void *arg, const struct peer_frame *f, struct err *err)
{
    struct peer_request *q = arg;
    const struct ask *a = ask_at(q, f->index);
    assert(a); /* each is ended by its own frame alone */
    if (f->status == PEER_HERE && f->len != a->len)
        return err_set(err, ERR_CORRUPT, "it sent %u bytes of a sample that has %u", f->len,
                       a->len);
    return 0;
}

static void on_bytes(void *arg, const struct peer_frame *f, uint32_t off, const void *data,
                     size_t len)
{
    struct peer_request *q = arg;
    struct ask *a = ask_at(q, f->index);
    if (f->status != PEER_HERE)
        return;
    a->crc = crc32c(a->crc, data, len);
    ACQUIRE(&q->peer->layer->copy);
    if (ask_is_wanted(a))
        memcpy(a->piece.into->data + off, data, len);
}

static void count_good(struct peer *p, const struct ask *a)
{
    counter_add(&p->samples, 1);
    counter_add(&p->bytes, a->len);
    ACQUIRE(&p->layer->lock);
    p->state = PEER_OK;
    p->pause_ns = 0;
    if (p->lies && counter_get(&p->samples) % GOOD_A_LIE == 0)
        p->lies--;
    if (a->piece.prio == PRIO_READER)
        hedge_learn(&p->hedge, a->len, clock_mono_ns() - a->read_ns, 1);
}

static void count_bad(struct peer *p)
{
    counter_add(&p->bad, 1);
    ACQUIRE(&p->layer->lock);
    p->lies++;
}

static void on_end(void *arg, const struct peer_frame *f)
{
    struct peer_request *q = arg;
    struct peer *p = q->peer;
    struct ask *a = ask_take(q, f->index);
    struct err why = {0};
    if (f->status == PEER_HERE && a->crc == f->crc) {
        count_good(p, a);
        ask_good(a);
        return;
    }
    if (f->status == PEER_HERE) {
        count_bad(p);
        q->lied = true;
        err_set(&why, ERR_CORRUPT, "%s sent wrong bytes", p->url);
    } else if (f->status == PEER_ABSENT) {
        counter_add(&p->absent, 1);
        err_set(&why, ERR_NOT_FOUND, "%s has it not", p->url);
    } else {
        counter_add(&p->errors, 1);
        err_set(&why, ERR_FAILED, "%s could not read it", p->url);
    }
    ask_next(a, &why);
}

static int take_bytes(void *arg, const void *data, size_t len, struct err *err)
{
    struct peer_request *q = arg;
    return peer_frames_take(&q->frames, data, len, err);
}

/* --- how a machine stands --------------------------------------------------------------------- */

enum peer_state peer_state_of(int status)
{
    switch (status) {
    case 401:
    case 403:
        return PEER_DENIED;
    case 409:
        return PEER_VERSION;
    default:
        return status / 100 == 2 ? PEER_OK : PEER_LOST;
    }
}

/* Lock held. */
struct ask *peer_take_queue(struct peer *p)
{
    struct ask *all = take_ptr(&p->first[0]);
    *(all ? p->end[0] : &all) = take_ptr(&p->first[1]);
    p->end[0] = &p->first[0];
    p->end[1] = &p->first[1];
    return all;
}

void peer_put_down(struct peer *p, enum peer_state state, const struct err *why)
{
    struct peer_layer *l = p->layer;
    struct ask *queue;
    bool was_up;
    {
        ACQUIRE(&l->lock);
        uint64_t most = why->class == ERR_CORRUPT ? LIE_MOST : CHECK_MOST;
        was_up = p->state == PEER_OK || p->state == PEER_UNKNOWN;
        p->state = state;
        snprintf(p->why, sizeof p->why, "%.*s", (int)sizeof p->why - 1, why->msg);
        p->pause_ns = p->pause_ns ? 2 * p->pause_ns : CHECK_NS;
        if (p->pause_ns > most)
            p->pause_ns = most;
        p->check_ns = clock_mono_ns() + p->pause_ns;
        queue = peer_take_queue(p);
        watch_poke(l);
    }
    if (was_up && why->class != ERR_CANCELLED)
        log_warn(l->conf.log, "%s is asked no more until it is well again: %s", p->url, why->msg);
    while (queue) {
        struct ask *a = queue;
        queue = a->next;
        ask_next(a, why);
    }
}

/* What the whole of an answer says of the machine. */
static void judge(struct peer_request *q, const struct err *err)
{
    struct peer *p = q->peer;
    struct peer_layer *l = p->layer;
    struct err why = {0};
    bool liar;
    {
        ACQUIRE(&l->lock);
        if (err && err->class == ERR_CORRUPT)
            p->lies += LIES_MANY;
        liar = q->lied && p->lies >= LIES_MANY;
        if (err && q->answer.status == 409) {
            memcpy(p->version, q->version, sizeof p->version);
            p->ids = q->ids;
        }
    }
    if (err && err->class == ERR_CORRUPT)
        counter_add(&p->bad, 1);
    else if (err)
        counter_add(&p->errors, 1);
    if (!err && liar)
        err_set(&why, ERR_CORRUPT, "it sends wrong bytes");
    else if (err)
        why = *err;
    else
        return;
    /* Busy: what it was asked for comes from elsewhere, and it is asked again. */
    if (err && q->answer.status == 503)
        return;
    if (q->answer.status == 409)
        err_set(&why, ERR_STALE, "it serves another version than %.12s", q->version);
    if (peer_state_of(q->answer.status) == PEER_DENIED)
        err_set(&why, ERR_DENIED, "it refuses our token (give --peer-token-file)");
    enum peer_state state = peer_state_of(q->answer.status);
    peer_put_down(p, state == PEER_OK ? PEER_LOST : state, &why);
}

static void request_free(struct peer_request *q)
{
    bytes_release(&q->body);
    free(q);
}

static void leave(struct peer_request *q)
{
    struct peer_layer *l = q->peer->layer;
    ACQUIRE(&l->lock);
    struct peer_request **at = &l->requests;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    q->peer->under_way--;
}

/* The asks that no frame ended go on elsewhere. */
static void request_done(void *arg, const struct err *err)
{
    struct peer_request *q = arg;
    struct peer *p = q->peer;
    struct peer_layer *l = p->layer;
    struct err why = {0};
    if (!err && !peer_frames_complete(&q->frames))
        err_set(&why, ERR_CORRUPT, "the answer ends early");
    else if (err)
        why = *err;
    leave(q);
    if (why.class != ERR_CANCELLED || !atomic_load(&q->given_up)) /* else it says nothing of it */
        judge(q, why.class ? &why : NULL);
    for (uint32_t i = 0; i < q->n; i++) {
        struct ask *a = ask_take(q, i);
        if (a)
            ask_next(a, &why);
    }
    requests_start(p);
    peer_unref(p);
    request_free(q);
    layer_leave(l);
}

static void send_request(struct peer_request *q)
{
    struct peer_layer *l = q->peer->layer;
    struct err err = {0};
    q->frames = (struct peer_frames){
        .begin = on_begin, .bytes = on_bytes, .end = on_end, .arg = q, .count = q->n};
    http_answer_init(&q->answer);
    peer_batch_body(&q->body, q->version, q->ids, (const struct ask *const *)q->asks, q->n);
    counter_add(&q->peer->requests, 1);
    const struct fetch_request r = {.store = q->peer->store,
                                    .build = build,
                                    .build_arg = q,
                                    .answer = &q->answer,
                                    .sink = take_bytes,
                                    .done = request_done,
                                    .arg = q,
                                    .given_up = &q->given_up};
    if (fetch_start(l->fetch, &r, &err))
        request_done(q, &err);
}

void requests_start(struct peer *p)
{
    for (;;) {
        struct peer_request *q;
        {
            ACQUIRE(&p->layer->lock);
            q = take_request(p);
        }
        if (!q)
            return;
        send_request(q);
    }
}

static bool all_given_up(const struct peer_request *q)
{
    bool any = false;
    for (uint32_t i = 0; i < q->n; i++) {
        if (q->asks[i] && !ask_given_up(q->asks[i]))
            return false;
        any = any || q->asks[i];
    }
    return any;
}

void requests_give_up(struct peer_layer *l)
{
    for (struct peer_request *q = l->requests; q; q = q->next)
        if (all_given_up(q))
            atomic_store(&q->given_up, true);
}

bool requests_raise(struct peer_layer *l, const struct buf *into, enum prio prio)
{
    for (struct peer_request *q = l->requests; q; q = q->next) {
        for (uint32_t i = 0; i < q->n; i++) {
            struct ask *a = q->asks[i];
            if (!a || a->piece.into != into || a->piece.prio <= prio)
                continue;
            a->piece.prio = prio;
            q->has_reader = q->has_reader || prio == PRIO_READER;
            watch_poke(l);
            return true;
        }
    }
    return false;
}

/* --- late readers ----------------------------------------------------------------------------- */

/* After how long a reader's ask is late: UINT64_MAX: never. Lock held. */
static uint64_t late_after_ns(const struct peer *p, uint32_t len)
{
    const struct peer_conf *conf = &p->layer->conf;
    uint64_t after = conf->no_hedge ? UINT64_MAX : hedge_after_ns(&p->hedge, len);
    if (after == UINT64_MAX || !conf->store)
        return after;
    uint64_t usual = histogram_quantile_ns(&conf->store->latency, 0.5);
    return usual > after ? usual : after;
}

/* Lock held. Is it to be sent to the store too? *ret_due: when to look again, if it is not yet. */
static bool is_late(struct peer *p, struct ask *a, uint64_t now, uint64_t *ret_due)
{
    if (!a || a->hedged || a->answered || a->piece.prio != PRIO_READER)
        return false;
    uint64_t after = late_after_ns(p, a->len);
    if (after == UINT64_MAX)
        return false;
    if (now - a->read_ns < after) {
        *ret_due = a->read_ns + after < *ret_due ? a->read_ns + after : *ret_due;
        return false;
    }
    struct buf *scratch = pool_get(p->layer->scratches, a->len);
    if (!scratch || !hedge_take(&p->hedge)) { /* others may end, or bring more, meanwhile */
        buf_unref(scratch);
        *ret_due = now + after < *ret_due ? now + after : *ret_due;
        return false;
    }
    a->scratch = scratch;
    a->catalog = catalog_ref(a->piece.catalog); /* the caller's goes with the answer */
    a->hedged = true;
    a->refs = 2;
    counter_add(&p->hedges, 1);
    return true;
}

static struct ask *next_late(struct peer_layer *l, uint64_t now, uint64_t *ret_due)
{
    ACQUIRE(&l->lock);
    for (struct peer_request *q = l->requests; q; q = q->next)
        for (uint32_t i = 0; q->has_reader && i < q->n; i++)
            if (is_late(q->peer, q->asks[i], now, ret_due))
                return q->asks[i];
    return NULL;
}

uint64_t requests_hedge(struct peer_layer *l, uint64_t now)
{
    uint64_t due = UINT64_MAX;
    struct ask *a;
    while ((a = next_late(l, now, &due)))
        ask_hedge(a);
    return due;
}
