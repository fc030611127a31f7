/* What goes between a trainer's net and the servers: rows of a batch, gradients, whole tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "remote-internal.h"
#include "store.h"

#define PART_FLOATS (4u << 20) /* of a table at once */

/* --- ids -------------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    uint32_t p = *(const uint32_t *)a, q = *(const uint32_t *)b;
    return p < q ? -1 : p > q;
}

/* The i-th embedding's parameter. */
static size_t param_of(const struct net *n, int i)
{
    size_t at = 0;
    for (;; at++)
        if (net_param(n, at)->kind == PARAM_ROWS && i-- == 0)
            return at;
}

static int embedding_of(const struct net *n, size_t param)
{
    int i = 0;
    for (size_t k = 0; k < param; k++)
        i += net_param(n, k)->kind == PARAM_ROWS;
    return i;
}

/* Each id becomes the place of its row among those that the batch names. Negative: none. */
static int rename_ids(struct remote *r, int i, const int32_t *ids, size_t n, struct err *err)
{
    struct remote_ids *b = &r->batch[i];
    int rows = net_param(r->shape, param_of(r->shape, i))->dims[0];
    if (n > b->cap) {
        b->cap = n;
        b->ids = xrealloc(b->ids, n * sizeof *b->ids);
        b->rows = xrealloc(b->rows, n * sizeof *b->rows);
    }
    size_t named = 0, kept = 0;
    for (size_t k = 0; k < n; k++) {
        if (ids[k] >= rows)
            return err_set(err, ERR_CORRUPT, "id %d of input %d: its table has %d rows", ids[k], i,
                           rows);
        if (ids[k] >= 0)
            b->rows[named++] = (uint32_t)ids[k];
    }
    if (named)
        qsort(b->rows, named, sizeof *b->rows, by_number);
    for (size_t k = 0; k < named; k++)
        if (kept == 0 || b->rows[kept - 1] != b->rows[k])
            b->rows[kept++] = b->rows[k];
    b->n_rows = kept;
    for (size_t k = 0; k < n; k++) {
        uint32_t key = (uint32_t)ids[k];
        const uint32_t *at =
            ids[k] < 0 ? NULL : bsearch(&key, b->rows, kept, sizeof key, by_number);
        b->ids[k] = at ? (int32_t)(at - b->rows) : -1;
    }
    return 0;
}

static int rename_all(struct remote *r, const struct net_batch *in, struct net_batch *ret,
                      struct err *err)
{
    *ret = *in;
    for (int i = 0; i < net_n_ids(r->n); i++) {
        r->batch[i].n_rows = 0;
        if (in->n && rename_ids(r, i, in->ids[i], in->n * (size_t)net_ids_width(r->n, i), err))
            return -1;
        ret->ids[i] = r->batch[i].ids;
    }
    return 0;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* The batch's rows that a server keeps of a table, in their order: their places in the net. A dense
 * parameter is one row at the parameter's begin. */
struct walk {
    const struct remote_ids *ids; /* NULL: dense */
    uint32_t offset, stride;
    size_t next;
};

static struct walk walk_of(const struct remote *r, const struct remote_table *t)
{
    bool is_rows = net_param(r->n, t->param)->kind == PARAM_ROWS;
    return (struct walk){.ids = is_rows ? &r->batch[embedding_of(r->n, t->param)] : NULL,
                         .offset = (uint32_t)t->shape.offset,
                         .stride = (uint32_t)t->shape.stride};
}

static bool walk_next(struct walk *w, size_t *place, uint32_t *row)
{
    if (!w->ids) {
        *place = *row = 0;
        return w->next++ == 0;
    }
    while (w->next < w->ids->n_rows) {
        size_t at = w->next++;
        if (w->ids->rows[at] % w->stride == w->offset) {
            *place = at;
            *row = w->ids->rows[at] / w->stride;
            return true;
        }
    }
    return false;
}

/* {table, n, rows} of a table of server `s`; false where there are none. */
static bool add_rows(struct remote *r, struct remote_server *s, size_t table)
{
    struct walk w = walk_of(r, &s->tables[table]);
    uint32_t head[2] = {(uint32_t)table, 0}, row;
    size_t begun = s->out.len, place;
    bytes_add(&s->out, head, sizeof head);
    while (walk_next(&w, &place, &row)) {
        bytes_add(&s->out, &row, sizeof row);
        head[1]++;
    }
    if (head[1] == 0) {
        s->out.len = begun;
        return false;
    }
    memcpy(s->out.data + begun, head, sizeof head);
    return true;
}

static int place_rows(struct remote *r, struct remote_server *s, struct err *err)
{
    struct ps_in in = {(const unsigned char *)s->in.data, s->in.len, 0};
    for (size_t i = 0; i < s->n_tables; i++) {
        const struct param *p = net_param(r->n, s->tables[i].param);
        struct walk w = walk_of(r, &s->tables[i]);
        size_t dim = s->tables[i].shape.dim, place;
        uint32_t row;
        while (walk_next(&w, &place, &row))
            ps_copy(&in, r->host + p->at + place * dim, dim * sizeof(float));
    }
    return in.bad || in.left
               ? err_set(err, ERR_CORRUPT, "pserver %s: an answer of another length", s->where)
               : 0;
}

int remote_pull(struct remote *r, const struct net_batch *in, struct net_batch *ret,
                struct err *err)
{
    struct backend *b = net_backend(r->n);
    if (rename_all(r, in, ret, err))
        return -1;
    for (size_t i = 0; i < r->n_servers; i++) {
        struct remote_server *s = &r->servers[i];
        size_t begun = ps_begin(&s->out, PS_PULL);
        for (size_t k = 0; k < s->n_tables; k++)
            add_rows(r, s, k);
        ps_end(&s->out, begun);
        if (remote_send(r, s, err))
            return -1;
    }
    for (size_t i = 0; i < r->n_servers; i++)
        if (remote_answer(r, &r->servers[i], PS_VALUES, err) || place_rows(r, &r->servers[i], err))
            return -1;
    b->ops->put(b, net_weights(r->n), r->host, net_floats(r->n) * sizeof *r->host);
    return b->ops->sync(b, err);
}

static void add_gradients(struct remote *r, struct remote_server *s, const struct ps_push *head)
{
    size_t begun = ps_begin(&s->out, PS_PUSH), place;
    uint32_t row;
    bytes_add(&s->out, head, sizeof *head);
    for (size_t i = 0; i < s->n_tables; i++) {
        const struct param *p = net_param(r->n, s->tables[i].param);
        struct walk w = walk_of(r, &s->tables[i]);
        size_t dim = s->tables[i].shape.dim;
        if (!add_rows(r, s, i))
            continue;
        while (walk_next(&w, &place, &row))
            bytes_add(&s->out, r->host + p->at + place * dim, dim * sizeof(float));
    }
    ps_end(&s->out, begun);
}

/* What a server answers to a push. */
static int take_sums(struct remote *r, struct remote_server *s, float sums[N_SUMS],
                     struct ps_others *others, struct err *err)
{
    size_t len = N_SUMS * sizeof *sums, more = r->conf.is_async ? sizeof *others : 0;
    *others = (struct ps_others){0};
    if (remote_answer(r, s, PS_VALUES, err))
        return -1;
    if (s->in.len != len + more)
        return err_set(err, ERR_CORRUPT, "pserver %s: an answer of another length", s->where);
    memcpy(sums, s->in.data, len);
    memcpy(others, s->in.data + len, more);
    return 0;
}

int remote_push(struct remote *r, const struct update *u, uint64_t step, float sums[N_SUMS],
                bool *stop, struct err *err)
{
    struct backend *b = net_backend(r->n);
    size_t floats = net_floats(r->n);
    b->ops->get(b, r->host, net_grads(r->n), (floats + N_SUMS) * sizeof *r->host);
    if (b->ops->sync(b, err))
        return -1;
    struct ps_push head = {.step = step,
                           .rate = u->rate,
                           .momentum = u->momentum,
                           .decay = u->decay,
                           .trust = u->trust,
                           .flags = r->conf.is_async && *stop ? PS_STOPS : 0};
    memcpy(head.sums, r->host + floats, sizeof head.sums);
    for (size_t i = 0; i < r->n_servers; i++) {
        add_gradients(r, &r->servers[i], &head);
        if (remote_send(r, &r->servers[i], err))
            return -1;
    }
    for (size_t i = 0; i < r->n_servers; i++) {
        struct ps_others others;
        if (take_sums(r, &r->servers[i], sums, &others, err))
            return -1;
        *stop |= others.stop > 0;
    }
    return 0;
}

/* A step of no samples: it changes nothing. */
int remote_done(struct remote *r, bool *stop, bool *all, struct err *err)
{
    struct ps_push head = {.flags = PS_DONE | (*stop ? PS_STOPS : 0u)};
    struct remote_server *s = &r->servers[0];
    struct ps_others others;
    float sums[N_SUMS];
    ps_frame(&s->out, PS_PUSH, &head, sizeof head);
    if (remote_send(r, s, err) || take_sums(r, s, sums, &others, err))
        return -1;
    *stop |= others.stop > 0;
    *all = others.left == 0;
    if (*all || !*stop)
        return 0;
    uint64_t now = clock_mono_ns();
    if (!r->last_ns)
        r->last_ns = now;
    if (now - r->last_ns < STORE_STOP_NS)
        return 0;
    r->base.broken = true; /* one of them may stand still */
    return remote_give_up(r, err);
}

/* --- whole tables ----------------------------------------------------------------------------- */

/* Rows `from` to `from + rows` as the server counts them: their place in the whole net. */
static size_t whole_at(const struct net *whole, const struct remote_table *t, uint64_t row)
{
    return net_param(whole, t->param)->at +
           (row * t->shape.stride + t->shape.offset) * t->shape.dim;
}

static int read_part(struct remote *r, struct remote_server *s, const struct ps_part *part,
                     const struct net *whole, float *to, struct err *err)
{
    const struct remote_table *t = &s->tables[part->table];
    size_t dim = t->shape.dim;
    ps_frame(&s->out, PS_FETCH, part, sizeof *part);
    if (remote_ask(r, s, PS_VALUES, err))
        return -1;
    struct ps_in in = {(const unsigned char *)s->in.data, s->in.len, 0};
    for (uint64_t k = 0; k < part->rows; k++)
        ps_copy(&in, to + whole_at(whole, t, part->from + k), dim * sizeof *to);
    return in.bad ? err_set(err, ERR_CORRUPT, "pserver %s: an answer that ends early", s->where)
                  : 0;
}

static int write_part(struct remote *r, struct remote_server *s, const struct ps_part *part,
                      const struct net *whole, float *from, struct err *err)
{
    const struct remote_table *t = &s->tables[part->table];
    size_t dim = t->shape.dim, begun = ps_begin(&s->out, PS_STORE);
    bytes_add(&s->out, part, sizeof *part);
    for (uint64_t k = 0; k < part->rows; k++)
        bytes_add(&s->out, from + whole_at(whole, t, part->from + k), dim * sizeof *from);
    ps_end(&s->out, begun);
    return remote_ask(r, s, PS_OK, err);
}

typedef int part_fn(struct remote *r, struct remote_server *s, const struct ps_part *part,
                    const struct net *whole, float *numbers, struct err *err);

static int each_part(struct remote *r, const struct net *whole, enum ps_which which, part_fn *fn,
                     struct err *err)
{
    float *numbers = which == PS_WEIGHTS ? net_weights(whole) : net_velocities(whole);
    for (size_t i = 0; i < r->n_servers; i++) {
        struct remote_server *s = &r->servers[i];
        for (uint32_t k = 0; k < s->n_tables; k++) {
            const struct ps_shape *shape = &s->tables[k].shape;
            uint64_t each = PART_FLOATS / shape->dim ? PART_FLOATS / shape->dim : 1;
            for (uint64_t from = 0; from < shape->rows; from += each) {
                uint64_t left = shape->rows - from;
                struct ps_part part = {k, which, from, left < each ? left : each};
                if (fn(r, s, &part, whole, numbers, err))
                    return -1;
            }
        }
    }
    return 0;
}

int remote_read(struct remote *r, struct net *whole, struct err *err)
{
    return each_part(r, whole, PS_WEIGHTS, read_part, err) ||
                   each_part(r, whole, PS_VELOCITIES, read_part, err)
               ? -1
               : 0;
}

int remote_write(struct remote *r, const struct net *whole, struct err *err)
{
    return each_part(r, whole, PS_WEIGHTS, write_part, err) ||
                   each_part(r, whole, PS_VELOCITIES, write_part, err)
               ? -1
               : 0;
}
