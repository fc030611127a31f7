/*
 * Can the sources be reached now, with the keys that this mount has? Who serves cached samples need
 * not have noticed that they can't. An engine of its own asks, with less patience than readers
 * have, so that neither waits for the other.
 */
#define LOG_MODULE "volume"
#include "volume-internal.h"

#include "clock.h"
#include "mem.h"

#define TRIES    3 /* 2 of a listing or a HEAD: the first may find out the region, or the clock */
#define BUDGET_S 15

/* --- one store -------------------------------------------------------------------------------- */

static int take_first(void *arg, const struct list_item *item, struct err *err)
{
    struct store_probe *p = arg;
    if (item->folder || item->unfinished || item->dangling || p->key)
        return p->key ? err_set(err, ERR_CANCELLED, "enough") : 0;
    p->key = xstrndup(item->key, item->key_len);
    p->key_len = item->key_len;
    p->etag = xstrdup(item->etag ? item->etag : "");
    p->size = item->size;
    p->mtime_ns = item->mtime_ns;
    return err_set(err, ERR_CANCELLED, "enough");
}

static int get_first_byte(struct fetch *f, struct store *s, const struct store_probe *p,
                          struct err *err)
{
    unsigned char byte;
    const struct fetch_get get = {.store = s,
                                  .key = p->key,
                                  .key_len = p->key_len,
                                  .len = p->size ? 1 : 0,
                                  .object_size = p->size,
                                  .mtime_ns = p->mtime_ns,
                                  .etag = p->etag,
                                  .dest = &byte,
                                  .prio = PRIO_READER};
    return fetch_get_wait(f, &get, err);
}

void probe_store(struct fetch *f, struct store *s, struct store_probe *ret)
{
    _Atomic uint64_t seen = 0;
    *ret = (struct store_probe){0};
    if (store_creds_refresh(s, false, &ret->err)) {
        ret->what = "no usable credentials";
    } else if (fetch_list(f, s, 1, take_first, ret, &seen, &ret->err) && !ret->key) {
        ret->what = "the store cannot be listed";
    } else {
        err_clear(&ret->err); /* "enough" */
        if (ret->key && get_first_byte(f, s, ret, &ret->err))
            ret->what = "an object cannot be read";
    }
}

void probe_release(struct store_probe *p)
{
    free(p->key);
    free(p->etag);
}

void probe_patience(struct fetch_conf *c)
{
    c->max_tries = TRIES;
    c->away_ns = 0;
    c->budget_ns = BUDGET_S * NS_PER_S;
}

void probe_write(struct json_writer *w, const struct store *s, const struct store_probe *p)
{
    jw_object(w, NULL);
    jw_str(w, "uri", store_uri(s));
    jw_str(w, "what", p->what ? p->what : "");
    jw_str(w, "why", p->what ? p->err.msg : "");
    jw_strn(w, "key", p->key ? p->key : "", p->key_len);
    jw_end(w);
}

/* --- all of a volume's ------------------------------------------------------------------------ */

int volume_probe(struct volume *v, struct json_writer *w, struct err *err)
{
    struct fetch_conf conf = v->conf.fetch;
    struct fetch *f;
    conf.counts = NULL; /* a doctor's requests are not the readers' */
    conf.bandwidth = 0;
    probe_patience(&conf);
    if (!gate_enter(&v->gate))
        return err_set(err, ERR_CANCELLED, "the volume is closing");
    int rc = fetch_new(&f, &conf, err);
    if (!rc) {
        jw_array(w, "sources");
        for (size_t i = 0; i < v->sources.set.n; i++) {
            struct store_probe p;
            probe_store(f, v->sources.stores[i], &p);
            probe_write(w, v->sources.stores[i], &p);
            probe_release(&p);
        }
        jw_end(w);
        fetch_free(f);
    }
    gate_leave(&v->gate);
    return rc;
}

/* --- may this mount read? --------------------------------------------------------------------- */

/* A sample of each source with more than a few of them: ids of a source lie together. */
#define PLACES       64
#define EMPTY_PASSED 100 /* at a place: empty samples are read without a request */
#define ASK_BUDGET_S 5   /* a mount waits for it */
#define ASK_TRY_S    2

struct found {
    uint64_t *of_source; /* ids; 0: none yet */
    size_t n_sources, n;
    unsigned passed;
};

static bool take_sample(void *arg, const struct entry *e)
{
    struct found *f = arg;
    if (e->size && e->source < f->n_sources && !f->of_source[e->source]) {
        f->of_source[e->source] = e->id;
        f->n++;
    }
    return !e->size && ++f->passed < EMPTY_PASSED;
}

/* Where all is well, nothing is fetched. A HEAD that fails does not say why (another region, say):
 * a GET does. */
static int ask_sample(struct fetch *f, struct store *s, struct catalog *c, uint64_t id,
                      struct err *err)
{
    struct unit_info u = {0};
    if (catalog_unit(c, id, &u, err))
        return -1;
    unsigned char byte;
    const struct fetch_get get = {.store = s,
                                  .key = u.key.data,
                                  .key_len = u.key.len,
                                  .off = u.pack_offset,
                                  .len = 1,
                                  .object_size = u.packed ? FETCH_SIZE_UNKNOWN : u.size,
                                  .mtime_ns = u.packed ? 0 : u.mtime_ns,
                                  .etag = "",
                                  .dest = &byte,
                                  .prio = PRIO_READER};
    struct http_answer head;
    int rc = store_creds_refresh(s, false, err) || fetch_head(f, s, get.key, &head, err) ? -1 : 0;
    if (rc && err->class != ERR_TRANSIENT && err->class != ERR_NOT_FOUND)
        rc = fetch_get_wait(f, &get, err);
    unit_info_release(&u);
    return rc;
}

static int ask_store(struct fetch *f, struct store *s, struct catalog *c, uint64_t id,
                     struct bytes *away, struct err *err)
{
    struct err why = {0};
    if (ask_sample(f, s, c, id, &why) == 0)
        return 0;
    if (why.class == ERR_DENIED || why.class == ERR_USAGE) {
        *err = why;
        return err_wrap(err, "read a sample of %s", store_uri(s));
    }
    if (why.class == ERR_TRANSIENT || why.class == ERR_FAILED)
        bytes_addf(away, "%s: %s\n", store_uri(s), why.msg);
    return 0;
}

static int ask_each(struct volume *v, struct catalog *c, struct found *found, struct bytes *away,
                    struct err *err)
{
    struct fetch_conf conf = v->conf.fetch;
    struct fetch *f;
    uint64_t ids = catalog_info(c)->next_id;
    for (unsigned i = 0; i < PLACES && found->n < found->n_sources; i++) {
        found->passed = 0;
        if (catalog_walk(c, ids * i / PLACES, take_sample, found, err))
            return -1;
    }
    conf.counts = NULL; /* no reader asks */
    conf.bandwidth = 0;
    probe_patience(&conf);
    conf.budget_ns = ASK_BUDGET_S * NS_PER_S;
    conf.try_timeout_ns = conf.connect_timeout_ns = ASK_TRY_S * NS_PER_S;
    int rc = fetch_new(&f, &conf, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < found->n_sources && !rc; i++)
        if (found->of_source[i])
            rc = ask_store(f, v->sources.stores[i], c, found->of_source[i], away, err);
    fetch_free(f);
    return rc;
}

int volume_ask(struct volume *v, struct bytes *away, struct err *err)
{
    struct found found = {.n_sources = v->sources.set.n};
    struct catalog *c = volume_catalog(v);
    found.of_source = xcalloc(found.n_sources ? found.n_sources : 1, sizeof *found.of_source);
    /* Other machines may be all that this one is to read from. */
    int rc = v->listed || arrival_goes_on(v) || (v->conf.peers && *v->conf.peers)
                 ? 0
                 : ask_each(v, c, &found, away, err);
    free(found.of_source);
    catalog_unref(c);
    return rc;
}
