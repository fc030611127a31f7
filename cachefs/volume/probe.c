/*
 * Can the sources be reached now, with the keys that this mount has? Who serves cached samples need
 * not have noticed that they can't. An engine of its own asks, with less patience than readers
 * have, so that neither waits for the other.
 */
#define LOG_MODULE "volume"
#include "volume-internal.h"

#include "clock.h"
#include "mem.h"

#define TRIES    2
#define BUDGET_S 15

/* --- one store -------------------------------------------------------------------------------- */

static int take_first(void *arg, const struct list_item *item, struct err *err)
{
    struct store_probe *p = arg;
    if (item->folder || item->unfinished || p->key)
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
