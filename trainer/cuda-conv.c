/*
 * GPU backend: convolutions, by cuDNN where it is there, else as matrices.
 *
 * As matrices: a row for each place of the output holds what its window sees, and is multiplied by
 * the filters. The rows of a whole batch may be too much, so images are taken in groups that fit
 * `convolution` bytes. A 1x1 window that moves by 1 sees the image as it is.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda-internal.h"
#include "mem.h"

struct conv_plan *cuda_conv_plan(struct backend *b, const struct conv_shape *s)
{
    struct cuda *c = cuda_of(b);
    for (struct conv_plan *p = c->plans; p; p = p->next)
        if (memcmp(&p->shape, s, sizeof *s) == 0)
            return p;
    struct conv_plan *p = xcalloc(1, sizeof *p);
    p->shape = *s;
    p->next = c->plans;
    c->plans = p;
    if (c->dnn)
        p->dnn = cuda_dnn_new(c, s);
    return p;
}

void cuda_conv_free(struct cuda *c)
{
    while (c->plans) {
        struct conv_plan *p = c->plans;
        c->plans = p->next;
        if (p->dnn)
            cuda_dnn_free(c, p->dnn);
        free(p);
    }
    if (c->dnn)
        (void)c->lib.cudnnDestroy(c->dnn);
    c->dnn = NULL;
}

/* --- as matrices ------------------------------------------------------------------------------ */

static bool is_plain(const struct conv_shape *s)
{
    return s->r == 1 && s->s == 1 && s->stride == 1 && s->pad == 0;
}

static size_t window(const struct conv_shape *s)
{
    return (size_t)s->r * (size_t)s->s * (size_t)s->c;
}

static size_t places(const struct conv_shape *s) /* of one image */
{
    return (size_t)s->out_h * (size_t)s->out_w;
}

/* One group of images: its shape, and its first input and output. */
struct group {
    struct conv_shape s;
    const float *x, *y;
    int first;
    void *rows; /* what windows see, or the image itself */
};

static const float *past(const struct cuda *c, const float *p, size_t values)
{
    return (const float *)((const char *)p + values * cuda_value_size(c));
}

/* The next group of a batch; false: there is none. */
static bool next_group(struct cuda *c, const struct conv_shape *s, const float *x, const float *y,
                       struct group *g)
{
    size_t image = places(s) * window(s) * cuda_value_size(c);
    int most = is_plain(s) ? s->n : (int)(c->o.convolution / (image ? image : 1));
    int first = g->s.n ? g->first + g->s.n : 0;
    if (first >= s->n || cuda_failed(c))
        return false;
    most = most < 1 ? 1 : most;
    g->s = *s;
    g->first = first;
    g->s.n = s->n - first < most ? s->n - first : most;
    g->x = past(c, x, (size_t)first * (size_t)s->h * (size_t)s->w * (size_t)s->c);
    g->y = past(c, y, (size_t)first * places(s) * (size_t)s->k);
    g->rows =
        is_plain(s) ? (void *)(uintptr_t)g->x : cuda_room(c, ROOM_WINDOWS, (size_t)g->s.n * image);
    return g->rows != NULL;
}

static size_t rows_of(const struct group *g)
{
    return (size_t)g->s.n * places(&g->s);
}

static void look(struct cuda *c, struct group *g)
{
    if (!is_plain(&g->s))
        LAUNCH(c, windows, cuda_grid(c, rows_of(g) * window(&g->s)), &g->s, &g->x, &g->rows);
}

static void matrix_forward(struct cuda *c, const struct conv_shape *s, const float *x,
                           const float *w, float *y)
{
    for (struct group g = {0}; next_group(c, s, x, y, &g);) {
        look(c, &g);
        cuda_gemm(&c->base, false, true, (int)rows_of(&g), s->k, (int)window(s), g.rows, w, 0,
                  (float *)(uintptr_t)g.y);
    }
}

static void matrix_grad_x(struct cuda *c, const struct conv_shape *s, const float *w,
                          const float *dy, float *dx)
{
    for (struct group g = {0}; next_group(c, s, dx, dy, &g);) {
        cuda_gemm(&c->base, false, false, (int)rows_of(&g), (int)window(s), s->k, g.y, w, 0,
                  g.rows);
        if (!is_plain(s))
            LAUNCH(c, windows_grad,
                   cuda_grid(c, (size_t)g.s.n * (size_t)s->h * (size_t)s->w * (size_t)s->c), &g.s,
                   &g.rows, &g.x);
    }
}

static void matrix_grad_w(struct cuda *c, const struct conv_shape *s, const float *x,
                          const float *dy, float *dw)
{
    for (struct group g = {0}; next_group(c, s, x, dy, &g);) {
        look(c, &g);
        cuda_gemm(&c->base, true, false, s->k, (int)window(s), (int)rows_of(&g), g.y, g.rows,
                  g.first ? 1 : 0, dw);
    }
}

/* --- either ----------------------------------------------------------------------------------- */

/*
 * Has cuDNN taken it, by what it answered? What it said it would take and then refuses is computed
 * as matrices, from then on. In a recording a refusal is the recording's end, after which the step
 * is queued once more. If the GPU itself fails, so do the matrices, and say it.
 */
static bool dnn_took(struct cuda *c, struct conv_plan *p, int code)
{
    if (code == 0)
        return true;
    if (c->now) {
        cuda_fail(c, ERR_FAILED, "a convolution", c->lib.cudnnGetErrorString(code));
        return true;
    }
    cuda_handled(c);
    cuda_dnn_free(c, p->dnn);
    p->dnn = NULL;
    return false;
}

void cuda_conv(struct backend *b, struct conv_plan *p, const float *x, const float *w, float *y)
{
    struct cuda *c = cuda_of(b);
    if (!p->dnn || !dnn_took(c, p, cuda_dnn_forward(c, p->dnn, x, w, y)))
        matrix_forward(c, &p->shape, x, w, y);
}

void cuda_conv_grad_x(struct backend *b, struct conv_plan *p, const float *w, const float *dy,
                      float *dx)
{
    struct cuda *c = cuda_of(b);
    if (!p->dnn || !dnn_took(c, p, cuda_dnn_grad_x(c, p->dnn, w, dy, dx)))
        matrix_grad_x(c, &p->shape, w, dy, dx);
}

void cuda_conv_grad_w(struct backend *b, struct conv_plan *p, const float *x, const float *dy,
                      float *dw)
{
    struct cuda *c = cuda_of(b);
    if (!p->dnn || !dnn_took(c, p, cuda_dnn_grad_w(c, p->dnn, x, dy, dw)))
        matrix_grad_w(c, &p->shape, x, dy, dw);
}
