/*
 * The thread that looks at clocks: late readers, machines that were put down, the list of members
 * and which version they serve.
 * It waits for no network: what it asks is answered on the engine's thread.
 *
 *   a check:   GET /healthz, then an empty batch of the version in question: so that a machine is
 *              asked again only when it is there, takes our token and serves that version
 */
#define LOG_MODULE "fetch"
#include "peer-internal.h"

#include <string.h>

#define MEMBERS_NS    (5 * NS_PER_S) /* between looks at the list of members ... */
#define MEMBERS_SOON  NS_PER_S       /* ... and after one that failed */
#define MEMBERS_BYTES (1u << 20)
#define SMALL_ANSWER  (64u << 10)

struct check {
    struct peer_layer *layer;
    struct peer *peer; /* referenced; NULL: the list of members */
    bool second;       /* the empty batch; the version */
    char version[CATALOG_DIGEST + 1];
    uint64_t ids;
    struct bytes text; /* of the request */
    struct bytes body; /* of the answer */
    struct http_answer answer;
};

void watch_poke(struct peer_layer *l)
{
    l->poked = true;
    cond_signal(&l->wake);
}

/* --- checks ----------------------------------------------------------------------------------- */

static int build_check(void *arg, struct http_req *r, struct err *err)
{
    struct check *c = arg;
    (void)err;
    if (!c->peer)
        return peer_build(c->layer, r, HTTP_GET, c->layer->service,
                          c->second ? "/v1/version" : "/v1/members");
    if (!c->second)
        return peer_build(c->layer, r, HTTP_GET, c->peer->url, "/healthz");
    r->body = c->text.data;
    r->body_len = c->text.len;
    return peer_build(c->layer, r, HTTP_POST, c->peer->url, "/v1/samples:batch");
}

static void check_free(struct check *c)
{
    struct peer_layer *l = c->layer;
    if (c->peer)
        peer_unref(c->peer);
    bytes_release(&c->text);
    bytes_release(&c->body);
    free(c);
    layer_leave(l);
}

static void check_ended(struct check *c, const struct err *err)
{
    struct peer *p = c->peer;
    struct err why = {0};
    enum peer_state state = err ? peer_state_of(c->answer.status) : PEER_OK;
    if (state == PEER_OK && err)
        state = PEER_LOST;
    {
        ACQUIRE(&c->layer->lock);
        p->checking = false;
        p->check_ns = 0;
        if (!err) {
            p->state = PEER_OK;
            p->why[0] = '\0';
        }
    }
    if (state == PEER_VERSION)
        err_set(&why, ERR_STALE, "it serves another version than %.12s", c->version);
    else if (state == PEER_DENIED)
        err_set(&why, ERR_DENIED, "it refuses our token (give --peer-token-file)");
    else if (err)
        why = *err;
    if (state == PEER_VERSION) {
        ACQUIRE(&c->layer->lock);
        memcpy(p->version, c->version, sizeof p->version);
        p->ids = c->ids;
    }
    if (err)
        peer_put_down(p, state, &why);
}

static void check_done(void *arg, const struct err *err);

static int check_send(struct check *c, struct err *err)
{
    const struct fetch_request r = {.store = c->peer ? c->peer->store : c->layer->service_store,
                                    .build = build_check,
                                    .build_arg = c,
                                    .max_body = c->peer ? SMALL_ANSWER : MEMBERS_BYTES,
                                    .answer = &c->answer,
                                    .body = &c->body,
                                    .done = check_done,
                                    .arg = c};
    http_answer_init(&c->answer);
    return fetch_start(c->layer->fetch, &r, err);
}

static void service_answered(struct check *c, const struct err *err);

static void check_done(void *arg, const struct err *err)
{
    struct check *c = arg;
    struct err why = {0};
    if (!c->peer) {
        service_answered(c, err);
        return;
    }
    if (!err && !c->second && c->version[0]) {
        c->second = true;
        peer_batch_body(&c->text, c->version, c->ids, NULL, 0);
        if (check_send(c, &why) == 0)
            return;
        err = &why;
    }
    check_ended(c, err);
    check_free(c);
}

/* Lock held. */
static struct check *check_new(struct peer_layer *l, struct peer *p)
{
    struct check *c = xcalloc(1, sizeof *c);
    c->layer = l;
    c->peer = p;
    if (p) {
        peer_ref(p);
        p->checking = true;
        bool refused = p->state == PEER_VERSION;
        memcpy(c->version, refused ? p->version : l->version, sizeof c->version);
        c->ids = refused ? p->ids : l->ids;
    }
    token_refresh(l);
    layer_enter(l);
    return c;
}

/* --- the list of members ---------------------------------------------------------------------- */

static int take_members(const struct check *c, struct err *err)
{
    char **urls = NULL;
    size_t n = 0;
    int rc = members_parse_answer(c->body.data, c->body.len, &urls, &n, err);
    if (!rc)
        rc = peers_replace(c->layer, urls, n, err);
    urls_free(urls, n);
    return rc;
}

static int take_version(const struct check *c, struct err *err)
{
    char version[CATALOG_DIGEST + 1];
    bool pinned;
    if (version_parse_answer(c->body.data, c->body.len, version, &pinned, err))
        return -1;
    c->layer->conf.on_version(c->layer->conf.arg, version, pinned);
    return 0;
}

static void service_asked(struct check *c, const struct err *why)
{
    struct peer_layer *l = c->layer;
    ACQUIRE(&l->lock);
    l->members_asked = false;
    l->members_ns = clock_mono_ns() + (why->class || !l->n_peers ? MEMBERS_SOON : MEMBERS_NS);
    snprintf(l->members_why, sizeof l->members_why, "%.*s", (int)sizeof l->members_why - 1,
             why->class ? why->msg : "");
    watch_poke(l);
}

static void service_answered(struct check *c, const struct err *err)
{
    const struct peer_conf *conf = &c->layer->conf;
    struct err why = {0};
    int rc = 0;
    if (err)
        why = *err;
    else
        rc = c->second ? take_version(c, &why) : take_members(c, &why);
    if (!err && !rc && !c->second && conf->wants_version && conf->wants_version(conf->arg)) {
        c->second = true;
        bytes_clear(&c->body);
        if (check_send(c, &why) == 0)
            return;
    }
    if (why.class && c->second)
        err_wrap(&why, "which version they serve");
    service_asked(c, &why);
    check_free(c);
}

/* --- the thread ------------------------------------------------------------------------------- */

static void earlier(uint64_t *due, uint64_t at)
{
    if (at < *due)
        *due = at;
}

/* Lock held. A check that is due now, or NULL; *due: when the next one is. */
static struct check *next_check(struct peer_layer *l, uint64_t now, uint64_t *due)
{
    if (l->service && !l->members_asked) {
        if (now >= l->members_ns) {
            l->members_asked = true;
            return check_new(l, NULL);
        }
        earlier(due, l->members_ns);
    }
    for (size_t i = 0; i < l->n_peers; i++) {
        struct peer *p = l->peers[i];
        if (!p || p->checking || !p->check_ns)
            continue;
        if (now >= p->check_ns)
            return check_new(l, p);
        earlier(due, p->check_ns);
    }
    return NULL;
}

static void start_check(struct check *c)
{
    struct err err = {0};
    if (check_send(c, &err) == 0)
        return;
    if (!c->peer) {
        service_answered(c, &err);
        return;
    }
    check_ended(c, &err);
    check_free(c);
}

static void *watch_main(void *arg)
{
    struct peer_layer *l = arg;
    for (;;) {
        uint64_t now = clock_mono_ns(), due = requests_hedge(l, now);
        struct check *c;
        {
            ACQUIRE(&l->lock);
            if (l->stop)
                return NULL;
            c = next_check(l, now, &due);
            if (!c && !l->poked && due == UINT64_MAX)
                cond_wait(&l->wake, &l->lock);
            else if (!c && !l->poked && due > now)
                cond_wait_for(&l->wake, &l->lock, due - now);
            l->poked = false;
        }
        if (c)
            start_check(c);
    }
}

int watch_start(struct peer_layer *l, struct err *err)
{
    ACQUIRE(&l->lock);
    int e = l->started ? 0 : thread_start(&l->thread, "fetch-peers", watch_main, l);
    if (e)
        return err_thread(err, e, "start the thread that watches other machines");
    l->started = true;
    return 0;
}

void watch_stop(struct peer_layer *l)
{
    bool started;
    {
        ACQUIRE(&l->lock);
        l->stop = true;
        started = l->started;
        l->started = false;
        cond_broadcast(&l->wake);
    }
    if (started)
        pthread_join(l->thread, NULL);
}
