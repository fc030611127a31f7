/* What trainers agree on, through the first server: a collective over a trainer's connections. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "remote-internal.h"

static int agree(struct collective *c, enum ps_kind kind, void *data, size_t len, struct err *err)
{
    struct remote *r = (struct remote *)c;
    struct remote_server *s = &r->servers[0];
    struct err why = {0};
    ps_frame(&s->out, kind, data, len);
    if (remote_ask(r, s, PS_VALUES, &why)) {
        c->broken |= why.class == ERR_CANCELLED; /* between steps: servers have that of all */
        if (err)
            *err = why;
        return -1;
    }
    if (s->in.len != len)
        return err_set(err, ERR_CORRUPT, "pserver %s: an answer of another length", s->where);
    if (len)
        memcpy(data, s->in.data, len);
    return 0;
}

static int agree_sum(struct collective *c, float *y, size_t n, struct err *err)
{
    return agree(c, PS_SUM, y, n * sizeof *y, err);
}

static int agree_share(struct collective *c, void *bytes, size_t n, struct err *err)
{
    return agree(c, PS_SHARE, bytes, n, err);
}

static int agree_barrier(struct collective *c, struct err *err)
{
    return agree(c, PS_SUM, NULL, 0, err);
}

/* Nothing was asked: what stands there is word of a stop, which is taken, or of an end: true. */
static bool has_ended(struct remote *r, const struct remote_server *s)
{
    unsigned char head[PS_HEAD];
    enum ps_kind kind;
    ssize_t n = s->fd < 0 ? -1 : recv(s->fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0)
        return s->fd >= 0 && errno != EAGAIN && errno != EINTR;
    if (n > 0 && (size_t)n < sizeof head)
        return false;
    if (n == 0 || ps_head(head, PS_MAX, &kind) != 0 || kind != PS_STOP)
        return true;
    (void)!recv(s->fd, head, sizeof head, 0);
    remote_now_stops(r);
    return false;
}

int remote_check(struct remote *r, struct remote_server *s, struct err *err)
{
    if (!has_ended(r, s))
        return 0;
    return err ? remote_answer(r, s, PS_ERROR, err) : -1;
}

static int agree_check(struct collective *c, struct err *err)
{
    struct remote *r = (struct remote *)c;
    return remote_check(r, &r->servers[0], err);
}

static bool agree_stops(struct collective *c)
{
    struct remote *r = (struct remote *)c;
    if (!r->stops)
        (void)has_ended(r, &r->servers[0]);
    return r->stops || (c->stop && *c->stop);
}

static void agree_close(struct collective *c)
{
    remote_free((struct remote *)c, !c->failed);
}

const struct collective_ops remote_collective_ops = {
    "pserver", agree_sum, agree_share, agree_barrier, agree_check, agree_stops, agree_close};

struct collective *remote_collective(struct remote *r)
{
    return &r->base;
}
