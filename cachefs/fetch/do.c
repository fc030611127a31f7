/* Requests that wait for their answer: the general one, GET, HEAD and DELETE. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "do-internal.h"
#include "mem.h"

struct waiter {
    struct lock lock;
    struct cond ended;
    bool done;
    int result;
    struct err *err;
};

static void on_done(void *arg, const struct err *err)
{
    struct waiter *w = arg;
    ACQUIRE(&w->lock);
    w->result = err ? -1 : 0;
    if (err && w->err)
        *w->err = *err;
    w->done = true;
    cond_signal(&w->ended);
}

static void waiter_begin(struct waiter *w, struct err *err)
{
    *w = (struct waiter){.err = err};
    lock_init(&w->lock, RANK_FETCH_QUEUE, "fetch-waiter");
    cond_init(&w->ended);
}

/* Under the lock, which is given up for the look. */
static void wait_watched(struct waiter *w, const struct fetch_watch *watch)
{
    if (cond_wait_for(&w->ended, &w->lock, watch->every_ns) != ETIMEDOUT || w->done)
        return;
    lock_drop(&w->lock);
    watch->look(watch->arg);
    lock_take(&w->lock);
}

/* `result` is of the start: without one nothing will come. `watch`: or NULL. */
static int waiter_end(struct waiter *w, int result, const struct fetch_watch *watch)
{
    if (result == 0) {
        ACQUIRE(&w->lock);
        while (!w->done) {
            if (watch)
                wait_watched(w, watch);
            else
                cond_wait(&w->ended, &w->lock);
        }
        result = w->result;
    }
    cond_destroy(&w->ended);
    lock_destroy(&w->lock);
    return result;
}

static int wait_for_whole(struct fetch *f, struct store *s, enum prio prio, fetch_build_fn *build,
                          void *arg, size_t max_body, const struct fetch_watch *watch,
                          struct http_answer *ret_answer, struct bytes *ret_body, struct err *err)
{
    struct waiter w;
    waiter_begin(&w, err);
    const struct whole whole = {.store = s,
                                .build = build,
                                .build_arg = arg,
                                .max_body = max_body,
                                .answer = ret_answer,
                                .body = ret_body,
                                .prio = prio,
                                .done = on_done,
                                .arg = &w};
    return waiter_end(&w, fetch_whole(f, &whole, err), watch);
}

int whole_wait(struct fetch *f, struct store *s, enum prio prio, fetch_build_fn *build, void *arg,
               size_t max_body, struct http_answer *ret_answer, struct bytes *ret_body,
               struct err *err)
{
    return wait_for_whole(f, s, prio, build, arg, max_body, NULL, ret_answer, ret_body, err);
}

int fetch_do_watched(struct fetch *f, struct store *s, fetch_build_fn *build, void *arg,
                     size_t max_body, const struct fetch_watch *watch,
                     struct http_answer *ret_answer, struct bytes *ret_body, struct err *err)
{
    if (store_caps(s) & STORE_LOCAL)
        return err_set(err, ERR_USAGE, "%s: a local store takes no requests", store_uri(s));
    return wait_for_whole(f, s, PRIO_READER, build, arg, max_body, watch, ret_answer, ret_body,
                          err);
}

int fetch_do(struct fetch *f, struct store *s, fetch_build_fn *build, void *arg, size_t max_body,
             struct http_answer *ret_answer, struct bytes *ret_body, struct err *err)
{
    return fetch_do_watched(f, s, build, arg, max_body, NULL, ret_answer, ret_body, err);
}

int fetch_start(struct fetch *f, const struct fetch_request *r, struct err *err)
{
    if (store_caps(r->store) & STORE_LOCAL)
        return err_set(err, ERR_USAGE, "%s: a local store takes no requests", store_uri(r->store));
    const struct whole whole = {.store = r->store,
                                .build = r->build,
                                .build_arg = r->build_arg,
                                .max_body = r->max_body,
                                .answer = r->answer,
                                .body = r->body,
                                .sink = r->sink,
                                .prio = PRIO_READER,
                                .done = r->done,
                                .arg = r->arg,
                                .given_up = r->given_up};
    return fetch_whole(f, &whole, err);
}

/* Two arguments where a request has one. */
struct sinking {
    struct waiter waiter;
    const struct fetch_request *request;
};

static int on_sink(void *arg, const void *data, size_t len, struct err *err)
{
    const struct sinking *s = arg;
    return s->request->sink(s->request->arg, data, len, err);
}

static void on_sunk(void *arg, const struct err *err)
{
    struct sinking *s = arg;
    on_done(&s->waiter, err);
}

int fetch_sink(struct fetch *f, const struct fetch_request *r, struct err *err)
{
    struct sinking s = {.request = r};
    struct fetch_request own = *r;
    own.sink = on_sink;
    own.done = on_sunk;
    own.arg = &s;
    waiter_begin(&s.waiter, err);
    return waiter_end(&s.waiter, fetch_start(f, &own, err), NULL);
}

int fetch_get_wait(struct fetch *f, const struct fetch_get *g, struct err *err)
{
    struct waiter w;
    struct fetch_get own = *g;
    own.done = on_done;
    own.arg = &w;
    waiter_begin(&w, err);
    return waiter_end(&w, fetch_get(f, &own, err), NULL);
}

/* --- pages ----------------------------------------------------------------------------------- */

int page_turn(const struct store *s, struct bytes *token, struct bytes *next, struct err *err)
{
    if (next->len && next->len == token->len && memcmp(next->data, token->data, next->len) == 0)
        return err_set(err, ERR_FAILED, "%s: the listing goes in circles", store_uri(s));
    struct bytes swap = *token;
    *token = *next;
    *next = swap;
    return 0;
}

/* --- one object ------------------------------------------------------------------------------ */

struct about {
    struct store *store;
    const char *key;
};

static int build_head(void *arg, struct http_req *r, struct err *err)
{
    const struct about *a = arg;
    return store_req_head(a->store, a->key, strlen(a->key), r, err);
}

static int build_delete(void *arg, struct http_req *r, struct err *err)
{
    const struct about *a = arg;
    return store_req_delete(a->store, a->key, strlen(a->key), r, err);
}

static int local_head(struct store *s, const char *key, struct http_answer *ret, struct err *err)
{
    struct stat st;
    if (store_local_look(s, key, &st, err))
        return -1;
    http_answer_init(ret);
    ret->status = 200;
    ret->content_length = st.st_size;
    ret->last_modified = st.st_mtime;
    return 0;
}

int head_wait(struct fetch *f, struct store *s, enum prio prio, const char *key,
              struct http_answer *ret, struct err *err)
{
    if (store_caps(s) & STORE_LOCAL)
        return local_head(s, key, ret, err);
    struct about a = {s, key};
    cleanup_bytes struct bytes body = {0};
    if (whole_wait(f, s, prio, build_head, &a, SMALL_BODY, ret, &body, err) ||
        store_parse_head(s, body.data, body.len, ret, err))
        return err_wrap(err, "look at \"%s\"", key);
    return 0;
}

int fetch_head(struct fetch *f, struct store *s, const char *key, struct http_answer *ret,
               struct err *err)
{
    return head_wait(f, s, PRIO_READER, key, ret, err);
}

static int delete_there(struct fetch *f, struct store *s, const char *key, struct err *err)
{
    if (store_caps(s) & STORE_LOCAL)
        return store_local_delete(s, key, err);
    struct about a = {s, key};
    if (whole_wait(f, s, PRIO_READER, build_delete, &a, SMALL_BODY, NULL, NULL, err))
        return err_wrap(err, "delete \"%s\"", key);
    return 0;
}

/* The end of a delete. */
static int unless_gone(int result, const struct err *why, struct err *err)
{
    if (result == 0 || why->class == ERR_NOT_FOUND)
        return 0;
    if (err)
        *err = *why;
    return -1;
}

int fetch_delete(struct fetch *f, struct store *s, const char *key, struct err *err)
{
    struct err why = {0};
    return unless_gone(delete_there(f, s, key, &why), &why, err);
}

int fetch_delete_folder(struct fetch *f, struct store *s, const char *key, struct err *err)
{
    struct err why = {0};
    if (!(store_caps(s) & STORE_LOCAL))
        return fetch_delete(f, s, key, err);
    return unless_gone(store_local_remove_folder(s, key, &why), &why, err);
}
