/* Asking and waiting for the answer, over the client's thread. */
#include "kube.h"
#include "sync.h"

#define PUT_OFF_TRIES 5 /* of a request that the server is too busy for */

struct waiter {
    struct lock lock;
    struct cond cond;
    bool done;
    struct bytes body;
    struct kube_answer answer;
    struct err why;
};

static void on_data(void *arg, const char *data, size_t n)
{
    struct waiter *w = arg; /* the asking thread looks at the body when `done` is set */
    bytes_add(&w->body, data, n);
}

static void on_end(void *arg, const struct kube_answer *answer, const struct err *why)
{
    struct waiter *w = arg;
    ACQUIRE(&w->lock);
    w->answer = *answer;
    if (why)
        w->why = *why;
    w->done = true;
    cond_signal(&w->cond);
}

static void ask_once(struct kube_client *c, const struct kube_request *r, struct waiter *w)
{
    static const struct kube_calls calls = {on_data, on_end};
    bytes_wipe(&w->body);
    w->done = false;
    w->why = (struct err){0};
    kube_start(c, r, 0, &calls, w);
    ACQUIRE(&w->lock);
    while (!w->done)
        cond_wait(&w->cond, &w->lock);
}

int kube_ask(struct kube_client *c, const struct kube_request *r, struct json_doc **ret,
             struct kube_answer *answer, struct err *err)
{
    struct waiter w = {0};
    struct json_doc *doc = NULL;
    lock_init(&w.lock, RANK_KUBE, "kube-answer");
    cond_init(&w.cond);
    for (int try = 0; try < PUT_OFF_TRIES; try++) {
        ask_once(c, r, &w);
        if (w.answer.status != 429 || r->urgent)
            break;
    }
    int result = w.why.class ? -1 : 0;
    if (!result && w.body.len && ret)
        result = json_parse(&doc, "answer", w.body.data, w.body.len, &w.why);
    bytes_wipe(&w.body); /* it may have been a secret */
    cond_destroy(&w.cond);
    lock_destroy(&w.lock);
    *answer = w.answer;
    if (result && err)
        *err = w.why;
    if (!result && ret)
        *ret = doc;
    return result;
}
