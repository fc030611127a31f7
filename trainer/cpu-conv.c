/*
 * CPU backend: convolutions by oneDNN.
 *
 * Images stay NHWC and filters [K][R][S][C] everywhere else. oneDNN picks the filters' layout that
 * is fastest for a shape; they are small beside the images and are turned around at each call.
 */
#include <dnnl.h>
#include <stdlib.h>
#include <string.h>

#include "cpu-internal.h"
#include "mem.h"

/* One of the three computations of a shape. `own` is the filters as oneDNN wants them, or NULL
 * where that is our layout. */
struct part {
    dnnl_primitive_t run, turn; /* turn: filters in (forward, gradient of x) or out */
    dnnl_memory_t src, dst, filters, own;
    int src_arg, dst_arg, filters_arg;
    bool filters_out;
};

struct conv_plan {
    struct conv_shape shape;
    struct conv_plan *next;
    struct part forward, grad_x, grad_w;
};

struct cpu_conv {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct conv_plan *plans;
};

/* --- making a plan ---------------------------------------------------------------------------- */

struct shapes {
    dnnl_memory_desc_t src, dst, filters, any; /* any: filters in the layout of oneDNN's choice */
    dnnl_dims_t strides, pad, pad_end;
};

static dnnl_status_t shapes_of(const struct conv_shape *s, struct shapes *ret)
{
    dnnl_dims_t src = {s->n, s->c, s->h, s->w}, dst = {s->n, s->k, s->out_h, s->out_w},
                filters = {s->k, s->c, s->r, s->s};
    dnnl_status_t st = dnnl_memory_desc_init_by_tag(&ret->src, 4, src, dnnl_f32, dnnl_nhwc);
    if (!st)
        st = dnnl_memory_desc_init_by_tag(&ret->dst, 4, dst, dnnl_f32, dnnl_nhwc);
    if (!st)
        st = dnnl_memory_desc_init_by_tag(&ret->filters, 4, filters, dnnl_f32, dnnl_acdb);
    if (!st)
        st = dnnl_memory_desc_init_by_tag(&ret->any, 4, filters, dnnl_f32, dnnl_format_tag_any);
    ret->strides[0] = ret->strides[1] = s->stride;
    ret->pad[0] = ret->pad[1] = s->pad;
    ret->pad_end[0] = (s->out_h - 1) * s->stride + s->r - s->h - s->pad;
    ret->pad_end[1] = (s->out_w - 1) * s->stride + s->s - s->w - s->pad;
    return st;
}

/* The memories of a part, and the turning of its filters where oneDNN wants them otherwise. */
static dnnl_status_t part_memories(struct cpu_conv *c, struct part *p, const struct shapes *s,
                                   const_dnnl_primitive_desc_t pd)
{
    const dnnl_memory_desc_t *own = dnnl_primitive_desc_query_md(
        pd, p->filters_out ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    dnnl_status_t st = dnnl_primitive_create(&p->run, pd);
    if (!st)
        st = dnnl_memory_create(&p->src, &s->src, c->engine, DNNL_MEMORY_NONE);
    if (!st)
        st = dnnl_memory_create(&p->dst, &s->dst, c->engine, DNNL_MEMORY_NONE);
    if (!st)
        st = dnnl_memory_create(&p->filters, &s->filters, c->engine, DNNL_MEMORY_NONE);
    if (st || dnnl_memory_desc_equal(own, &s->filters))
        return st;
    st = dnnl_memory_create(&p->own, own, c->engine, DNNL_MEMORY_ALLOCATE);
    dnnl_primitive_desc_t turn = NULL;
    if (!st)
        st = p->filters_out ? dnnl_reorder_primitive_desc_create(&turn, own, c->engine, &s->filters,
                                                                 c->engine, NULL)
                            : dnnl_reorder_primitive_desc_create(&turn, &s->filters, c->engine, own,
                                                                 c->engine, NULL);
    if (!st)
        st = dnnl_primitive_create(&p->turn, turn);
    dnnl_primitive_desc_destroy(turn);
    return st;
}

static dnnl_status_t make_parts(struct cpu_conv *c, struct conv_plan *p, const struct shapes *s)
{
    dnnl_convolution_desc_t d;
    dnnl_primitive_desc_t forward = NULL, back = NULL;
    dnnl_alg_kind_t how = dnnl_convolution_direct;
    p->forward = (struct part){
        .src_arg = DNNL_ARG_SRC, .dst_arg = DNNL_ARG_DST, .filters_arg = DNNL_ARG_WEIGHTS};
    p->grad_x = (struct part){.src_arg = DNNL_ARG_DIFF_SRC,
                              .dst_arg = DNNL_ARG_DIFF_DST,
                              .filters_arg = DNNL_ARG_WEIGHTS};
    p->grad_w = (struct part){.src_arg = DNNL_ARG_SRC,
                              .dst_arg = DNNL_ARG_DIFF_DST,
                              .filters_arg = DNNL_ARG_DIFF_WEIGHTS,
                              .filters_out = true};
    dnnl_status_t st =
        dnnl_convolution_forward_desc_init(&d, dnnl_forward_training, how, &s->src, &s->any, NULL,
                                           &s->dst, s->strides, s->pad, s->pad_end);
    if (!st)
        st = dnnl_primitive_desc_create(&forward, &d, NULL, c->engine, NULL);
    if (!st)
        st = part_memories(c, &p->forward, s, forward);
    if (!st)
        st = dnnl_convolution_backward_data_desc_init(&d, how, &s->src, &s->any, &s->dst,
                                                      s->strides, s->pad, s->pad_end);
    if (!st)
        st = dnnl_primitive_desc_create(&back, &d, NULL, c->engine, forward);
    if (!st)
        st = part_memories(c, &p->grad_x, s, back);
    dnnl_primitive_desc_destroy(back);
    back = NULL;
    if (!st)
        st = dnnl_convolution_backward_weights_desc_init(&d, how, &s->src, &s->any, NULL, &s->dst,
                                                         s->strides, s->pad, s->pad_end);
    if (!st)
        st = dnnl_primitive_desc_create(&back, &d, NULL, c->engine, forward);
    if (!st)
        st = part_memories(c, &p->grad_w, s, back);
    dnnl_primitive_desc_destroy(back);
    dnnl_primitive_desc_destroy(forward);
    return st;
}

static void fail(struct cpu *cpu, dnnl_status_t st, const char *what)
{
    if (cpu->err.class == ERR_NONE)
        err_set(&cpu->err, st == dnnl_out_of_memory ? ERR_LIMIT : ERR_FAILED,
                "convolution: %s: oneDNN answers %d%s", what, (int)st,
                st == dnnl_out_of_memory ? " (no memory; a smaller --batch_size needs less)" : "");
}

static struct cpu_conv *engine(struct cpu *cpu)
{
    if (cpu->conv)
        return cpu->conv;
    struct cpu_conv *c = xcalloc(1, sizeof *c);
    dnnl_status_t st = dnnl_engine_create(&c->engine, dnnl_cpu, 0);
    if (!st)
        st = dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags);
    cpu->conv = c;
    if (st)
        fail(cpu, st, "start");
    return c;
}

struct conv_plan *cpu_conv_plan(struct backend *b, const struct conv_shape *s)
{
    struct cpu *cpu = cpu_of(b);
    struct cpu_conv *c = engine(cpu);
    for (struct conv_plan *p = c->plans; p; p = p->next)
        if (memcmp(&p->shape, s, sizeof *s) == 0)
            return p;
    struct conv_plan *p = xcalloc(1, sizeof *p);
    p->shape = *s;
    p->next = c->plans;
    c->plans = p;
    struct shapes shapes;
    dnnl_status_t st = shapes_of(s, &shapes);
    if (!st)
        st = make_parts(c, p, &shapes);
    if (st)
        fail(cpu, st, "prepare");
    return p;
}

/* --- running ---------------------------------------------------------------------------------- */

static void turn(struct cpu *cpu, struct part *p, dnnl_memory_t from, dnnl_memory_t to)
{
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    dnnl_status_t st = dnnl_primitive_execute(p->turn, cpu->conv->stream, 2, args);
    if (st)
        fail(cpu, st, "turn the filters around");
}

static void run(struct backend *b, struct part *p, const float *src, const float *filters,
                const float *dst)
{
    struct cpu *cpu = cpu_of(b);
    if (cpu->err.class != ERR_NONE)
        return;
    dnnl_memory_set_data_handle(p->src, (void *)src);
    dnnl_memory_set_data_handle(p->dst, (void *)dst);
    dnnl_memory_set_data_handle(p->filters, (void *)filters);
    if (p->turn && !p->filters_out)
        turn(cpu, p, p->filters, p->own);
    dnnl_exec_arg_t args[] = {
        {p->src_arg, p->src}, {p->dst_arg, p->dst}, {p->filters_arg, p->own ? p->own : p->filters}};
    dnnl_status_t st = dnnl_primitive_execute(p->run, cpu->conv->stream, 3, args);
    if (st)
        fail(cpu, st, "run");
    if (p->turn && p->filters_out)
        turn(cpu, p, p->own, p->filters);
    dnnl_stream_wait(cpu->conv->stream);
}

void cpu_conv(struct backend *b, struct conv_plan *p, const float *x, const float *w, float *y)
{
    run(b, &p->forward, x, w, y);
}

void cpu_conv_grad_x(struct backend *b, struct conv_plan *p, const float *w, const float *dy,
                     float *dx)
{
    run(b, &p->grad_x, dx, w, dy);
}

void cpu_conv_grad_w(struct backend *b, struct conv_plan *p, const float *x, const float *dy,
                     float *dw)
{
    run(b, &p->grad_w, x, dw, dy);
}

static void part_release(struct part *p)
{
    dnnl_primitive_destroy(p->run);
    dnnl_primitive_destroy(p->turn);
    dnnl_memory_destroy(p->src);
    dnnl_memory_destroy(p->dst);
    dnnl_memory_destroy(p->filters);
    dnnl_memory_destroy(p->own);
}

void cpu_conv_free(struct cpu_conv *c)
{
    if (!c)
        return;
    while (c->plans) {
        struct conv_plan *p = c->plans;
        c->plans = p->next;
        part_release(&p->forward);
        part_release(&p->grad_x);
        part_release(&p->grad_w);
        free(p);
    }
    dnnl_stream_destroy(c->stream);
    dnnl_engine_destroy(c->engine);
    free(c);
}
