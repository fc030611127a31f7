/* Looking an older version up, a page at a time on the engine's thread, and reading it. */
#define LOG_MODULE "fetch"
#include "older-internal.h"

#include <string.h>

#include "clock.h"
#include "engine-internal.h"
#include "log.h"
#include "mem.h"

#define PAGES_MAX 20u /* of one object: 2000 versions */
#define PAGE_MAX  (1u << 20)
#define REST_NS   (60 * NS_PER_S)
#define RESTING   8u /* stores; a set has few */

struct older {
    struct fetch *fetch;
    struct lock lock;
    struct rest { /* lock: this store is not asked before */
        const struct store *store;
        uint64_t until_ns;
    } rests[RESTING];
    size_t n_rests; /* lock: so many were noted ever */
};

/* One object's. */
struct search {
    struct older *older;
    struct fetch_get get; /* key and etag point into `text` */
    struct err stale;
    struct bytes body, token, version; /* version: the one wanted, as soon as it is found */
    unsigned pages;
    bool keeps; /* the store has a version of the object that has an id */
    bool sees;  /* it has any */
    char text[];
};

struct older *older_new(struct fetch *f)
{
    struct older *o = xcalloc(1, sizeof *o);
    o->fetch = f;
    lock_init(&o->lock, RANK_FETCH_QUEUE, "fetch-older");
    return o;
}

void older_free(struct older *o)
{
    if (!o)
        return;
    lock_destroy(&o->lock);
    free(o);
}

/* --- stores that have nothing for us ---------------------------------------------------------- */

static void let_rest(struct older *o, const struct store *s)
{
    ACQUIRE(&o->lock);
    o->rests[o->n_rests++ % RESTING] = (struct rest){s, clock_mono_ns() + REST_NS};
}

bool older_may_be(struct older *o, const struct fetch_get *g)
{
    if (!(store_caps(g->store) & STORE_VERSIONS) || !*g->etag || store_etag_is_sum(g->etag) ||
        g->object_size == FETCH_SIZE_UNKNOWN || g->version)
        return false;
    uint64_t now = clock_mono_ns();
    ACQUIRE(&o->lock);
    for (size_t i = 0; i < RESTING; i++)
        if (o->rests[i].store == g->store && now < o->rests[i].until_ns)
            return false;
    return true;
}

/* --- one search ------------------------------------------------------------------------------- */

static void search_end(struct search *s, const struct err *err)
{
    s->get.done(s->get.arg, err);
    bytes_release(&s->body);
    bytes_release(&s->token);
    bytes_release(&s->version);
    free(s);
}

/* What keeps us from looking now is told; all else means that the object is as stale as it was. */
static const struct err *told(const struct search *s, const struct err *err)
{
    bool passing = err->class == ERR_CANCELLED || err->class == ERR_TRANSIENT ||
                   err->class == ERR_LIMIT; /* a full queue */
    return passing ? err : &s->stale;
}

static void refused(const struct search *s, const char *what, const struct err *why)
{
    if (told(s, why) == why)
        return;
    let_rest(s->older, s->get.store);
    log_warn(s->older->fetch->conf.log,
             "%s: %s (allow s3:ListBucketVersions and s3:GetObjectVersion if the bucket keeps "
             "versions; what was replaced since the scan reads as stale)",
             what, why->msg);
}

static void on_got(void *arg, const struct err *err)
{
    struct search *s = arg;
    if (err && err->class == ERR_DENIED)
        refused(s, "an older version of an object cannot be read", err);
    search_end(s, err ? told(s, err) : NULL);
}

static void read_version(struct search *s)
{
    struct fetch_get g = s->get;
    struct err err = {0};
    g.version = s->version.data;
    g.done = on_got;
    g.arg = s;
    if (fetch_get(s->older->fetch, &g, &err))
        search_end(s, told(s, &err));
}

static int look_at(void *arg, const char *version, uint64_t size, const char *etag, struct err *err)
{
    struct search *s = arg;
    (void)err;
    s->sees = true;
    s->keeps = s->keeps || strcmp(version, STORE_VERSION_NONE) != 0;
    if (!s->version.len && size == s->get.object_size && strcmp(etag, s->get.etag) == 0)
        bytes_add_str(&s->version, version);
    return 0;
}

static void ask_page(struct search *s);

static void on_page(void *arg, const struct err *failed)
{
    struct search *s = arg;
    struct err err = failed ? *failed : (struct err){0};
    if (failed || store_parse_versions(s->get.store, s->get.key, s->body.data, s->body.len, look_at,
                                       s, &s->token, &err)) {
        refused(s, "older versions of objects cannot be looked up", &err);
        search_end(s, told(s, &err));
        return;
    }
    if (s->version.len) {
        read_version(s);
        return;
    }
    if (s->token.len && ++s->pages < PAGES_MAX) {
        ask_page(s);
        return;
    }
    if (s->sees && !s->keeps)
        let_rest(s->older, s->get.store); /* the bucket keeps no versions */
    search_end(s, &s->stale);
}

static int build_page(void *arg, struct http_req *r, struct err *err)
{
    const struct search *s = arg;
    return store_req_versions(s->get.store, s->get.key, s->token.data, r, err);
}

static void ask_page(struct search *s)
{
    const struct whole w = {.store = s->get.store,
                            .build = build_page,
                            .build_arg = s,
                            .max_body = PAGE_MAX,
                            .body = &s->body,
                            .prio = s->get.prio,
                            .given_up = s->get.given_up,
                            .done = on_page,
                            .arg = s};
    struct err err = {0};
    bytes_clear(&s->body);
    if (fetch_whole(s->older->fetch, &w, &err))
        search_end(s, told(s, &err));
}

void older_get(struct older *o, const struct fetch_get *g, const struct err *stale)
{
    size_t etag_len = strlen(g->etag);
    struct search *s = xcalloc(1, sizeof *s + g->key_len + 1 + etag_len + 1);
    s->older = o;
    s->get = *g;
    s->get.key = memcpy(s->text, g->key, g->key_len);
    s->get.etag = memcpy(s->text + g->key_len + 1, g->etag, etag_len);
    s->stale = *stale;
    bytes_add_str(&s->token, "");
    ask_page(s);
}
