/* Whether an object still is what the catalog says: asked on the engine's thread. */
#include "same-internal.h"

#include "engine-internal.h"
#include "mem.h"

#define STATUS_MAX (1u << 20)

struct question {
    struct fetch *fetch;
    const struct fetch_get *get;
    struct http_answer answer;
    struct bytes body;
};

bool same_must_be_asked(const struct fetch_get *g)
{
    return store_caps(g->store) & STORE_BLIND_GETS && g->object_size != FETCH_SIZE_UNKNOWN;
}

static int build_status(void *arg, struct http_req *r, struct err *err)
{
    const struct fetch_get *g = arg;
    return store_req_head(g->store, g->key, g->key_len, r, err);
}

static int compare(struct question *q, struct err *err)
{
    const struct fetch_get *g = q->get;
    struct object_meta seen = {.mtime_ns = LIST_MTIME_UNKNOWN};
    if (store_parse_head(g->store, q->body.data, q->body.len, &q->answer, err))
        return -1;
    store_meta_of(&q->answer, &seen);
    if ((uint64_t)q->answer.content_length != g->object_size)
        return stale_size(err, q->answer.content_length, g->object_size);
    if (g->mtime_ns != LIST_MTIME_UNKNOWN && seen.mtime_ns != g->mtime_ns)
        return err_set(err, ERR_STALE,
                       "changed at the source since the scan: it was written at another time than "
                       "the catalog says (scan again, or mount with --refresh)");
    return 0;
}

static void end(struct question *q, struct err *err)
{
    const struct fetch_get *g = q->get;
    cleanup_bytes struct bytes name = {0};
    if (err->class == ERR_NOT_FOUND)
        stale_deleted(err);
    if (err->class == ERR_STALE)
        counter_add(&q->fetch->counts->stale, 1);
    if (err->class) {
        get_name(g, &name);
        err_wrap(err, "get %s", name.data);
    }
    bytes_release(&q->body);
    free(q);
    g->done(g->arg, err->class ? err : NULL);
}

static void on_status(void *arg, const struct err *failed)
{
    struct question *q = arg;
    struct err err = failed ? *failed : (struct err){0};
    if (!failed)
        compare(q, &err);
    end(q, &err);
}

void same_ask(struct fetch *f, const struct fetch_get *g)
{
    struct question *q = xcalloc(1, sizeof *q);
    struct err err = {0};
    *q = (struct question){.fetch = f, .get = g};
    http_answer_init(&q->answer);
    const struct whole w = {.store = g->store,
                            .build = build_status,
                            .build_arg = (void *)(uintptr_t)g,
                            .max_body = STATUS_MAX,
                            .answer = &q->answer,
                            .body = &q->body,
                            .prio = g->prio,
                            .given_up = g->given_up,
                            .done = on_status,
                            .arg = q};
    if (fetch_whole(f, &w, &err))
        end(q, &err);
}
