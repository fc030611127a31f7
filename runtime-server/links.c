/*
 * Connections to the owners, for requests that come often: kept open, LINKS_MAX a mount, and shared
 * by all threads that ask. A lease goes back with the next request over the connection that it came
 * by, or ends with that connection.
 */
#include "control.h"
#include "clock.h"
#include "mem.h"
#include "server-internal.h"

#define LINKS_MAX 4 /* of the owner's 32 connections */

void link_unref(struct peers *p, struct link *l)
{
    {
        ACQUIRE(&p->lock);
        if (--l->refs)
            return;
        p->n_links[l->mount]--;
        cond_broadcast(&p->changed);
    }
    if (l->sock >= 0)
        close(l->sock);
    bytes_release(&l->returning);
    free(l);
}

struct link *link_take(struct server *s, size_t mount, struct err *err)
{
    struct peers *p = &s->peers;
    uint64_t end = clock_mono_ns() + PEER_WAIT_NS;
    ACQUIRE(&p->lock);
    for (;;) {
        for (struct link **at = &p->idle; *at; at = &(*at)->next) {
            struct link *l = *at;
            if (l->mount != mount)
                continue;
            *at = l->next;
            return l;
        }
        uint64_t now = clock_mono_ns();
        if (p->n_links[mount] < LINKS_MAX) {
            struct link *l = xcalloc(1, sizeof *l);
            *l = (struct link){.mount = mount, .sock = -1, .refs = 1};
            p->n_links[mount]++;
            return l;
        }
        if (p->stopping || now >= end || cond_wait_for(&p->changed, &p->lock, end - now))
            break;
    }
    err_set(err, ERR_TRANSIENT, "too many requests for samples at once (try again)");
    return NULL;
}

void link_give(struct peers *p, struct link *l)
{
    if (l->sock < 0) {
        link_unref(p, l);
        return;
    }
    ACQUIRE(&p->lock);
    l->next = p->idle;
    p->idle = l;
    cond_broadcast(&p->changed);
}

static int link_open(struct server *s, struct link *l, struct err *err)
{
    struct control_mount m;
    if (l->sock >= 0)
        return 0;
    if (control_find(s->mounts[l->mount], &m, err))
        return -1;
    int rc = control_connect(m.socket, &l->sock, err);
    control_mount_release(&m);
    return rc;
}

/* One request and its answer. A connection that was idle may be that of an owner which is gone:
 * then once more, over a new one. */
int link_call(struct server *s, struct link *l, const struct bytes *request, int *fds,
              size_t *ret_n, struct json_doc **ret, struct err *err)
{
    cleanup_bytes struct bytes answer = {0};
    for (bool fresh = l->sock < 0;; fresh = true) {
        if (link_open(s, l, err)) {
            err->class = ERR_TRANSIENT; /* what is not found is the owner, and not what is asked */
            return -1;
        }
        if (control_send(l->sock, request, -1, err) == 0 &&
            control_recv_fds(l->sock, &answer, fds, CONTROL_FDS_MAX, ret_n, err) == 0)
            return control_answer(&answer, ret, err);
        close(l->sock);
        l->sock = -1;
        if (fresh) {
            err->class = ERR_TRANSIENT;
            return -1;
        }
    }
}

/* --- begin and end ---------------------------------------------------------------------------- */

void peers_init(struct server *s)
{
    lock_init(&s->peers.lock, RANK_METRICS, "server peers");
    cond_init(&s->peers.changed);
    s->peers.n_links = xcalloc(s->conf.n_mounts + 1, sizeof *s->peers.n_links);
}

void peers_stop(struct server *s)
{
    ACQUIRE(&s->peers.lock);
    s->peers.stopping = true;
    cond_broadcast(&s->peers.changed);
}

void peers_destroy(struct server *s)
{
    while (s->peers.idle) {
        struct link *l = s->peers.idle;
        s->peers.idle = l->next;
        link_unref(&s->peers, l);
    }
    cond_destroy(&s->peers.changed);
    lock_destroy(&s->peers.lock);
    free(s->peers.n_links);
}
