/* GPU backend: calls of the kernels for rows of numbers: element-wise, sums, normalisation,
 * embeddings, losses, updates. */
#include "cuda-internal.h"

typedef unsigned long long u64;

#define PARTS     512 /* at most, of a sum over rows */
#define PART_ROWS 64  /* at least, of a part */

struct grid cuda_grid(const struct cuda *c, size_t n)
{
    size_t blocks = (n + CUDA_THREADS - 1) / CUDA_THREADS, most = (size_t)c->processors * 16;
    blocks = blocks < most ? blocks : most;
    return (struct grid){(unsigned)(blocks ? blocks : 1), 1, CUDA_THREADS, 1};
}

void cuda_launch(struct cuda *c, enum cuda_kernel k, struct grid g, void **args)
{
    const char *why = NULL;
    if (cuda_failed(c))
        return;
    int code = c->lib.cuLaunchKernel(c->code.kernels[k], g.x, g.y, 1, g.threads, g.lines, 1, 0,
                                     cuda_stream(c), args, NULL);
    if (code == 0)
        return;
    (void)c->lib.cuGetErrorString(code, &why);
    cuda_fail(c, ERR_FAILED, "start a kernel", why ? why : "unknown");
}

/* --- packs ------------------------------------------------------------------------------------ */

size_t cuda_pack(const struct cuda *c)
{
    return CUDA_PACK / cuda_value_size(c);
}

static struct grid grid_of_packs(const struct cuda *c, size_t n)
{
    return cuda_grid(c, (n + cuda_pack(c) - 1) / cuda_pack(c));
}

/* Do all of these begin where a pack may? */
static int aligned(const void *p, const void *q, const void *r)
{
    return ((uintptr_t)p | (uintptr_t)q | (uintptr_t)r) % CUDA_PACK == 0;
}

int cuda_aligned_rows(const struct cuda *c, size_t cols, const void *p, const void *q,
                      const void *r)
{
    return cols % cuda_pack(c) == 0 && aligned(p, q, r);
}

/* --- element-wise ----------------------------------------------------------------------------- */

void cuda_narrow(struct cuda *c, void *y, const float *x, size_t n)
{
    u64 count = n;
    if (n)
        LAUNCH(c, narrow, cuda_grid(c, n), &y, &x, &count);
}

void cuda_widen(struct cuda *c, float *y, const void *x, size_t n)
{
    u64 count = n;
    if (n)
        LAUNCH(c, widen, cuda_grid(c, n), &y, &x, &count);
}

void cuda_fill(struct backend *b, float *y, size_t n, float value)
{
    u64 count = n;
    if (n)
        LAUNCH(cuda_of(b), fill, cuda_grid(cuda_of(b), n), &y, &count, &value);
}

void cuda_copy(struct backend *b, float *y, const float *x, size_t n)
{
    struct cuda *c = cuda_of(b);
    size_t bytes = n * (cuda_is_value(c, x) ? cuda_value_size(c) : sizeof(float));
    if (n && !cuda_failed(c))
        cuda_ok(c, c->lib.cudaMemcpyAsync(y, x, bytes, CUDA_DEVICE_TO_DEVICE, cuda_stream(c)),
                "copy");
}

void cuda_axpy(struct backend *b, float *y, float a, const float *x, size_t n)
{
    struct cuda *c = cuda_of(b);
    u64 count = n;
    int whole = aligned(x, y, NULL);
    if (n && cuda_is_value(c, y))
        LAUNCH(c, axpy_act, grid_of_packs(c, n), &y, &a, &x, &count, &whole);
    else if (n)
        LAUNCH(c, axpy, cuda_grid(c, n), &y, &a, &x, &count);
}

void cuda_add(struct backend *b, float *y, const float *p, const float *q, size_t n, bool relu)
{
    struct cuda *c = cuda_of(b);
    u64 count = n;
    float least = relu_least(relu);
    int whole = aligned(y, p, q);
    if (n)
        LAUNCH(c, add, grid_of_packs(c, n), &y, &p, &q, &count, &least, &whole);
}

void cuda_blend(struct backend *b, float *y, const float *x, size_t n, float keep)
{
    u64 count = n;
    if (n)
        LAUNCH(cuda_of(b), blend, cuda_grid(cuda_of(b), n), &y, &x, &count, &keep);
}

void cuda_relu(struct backend *b, float *y, size_t n)
{
    u64 count = n;
    int whole = aligned(y, NULL, NULL);
    if (n)
        LAUNCH(cuda_of(b), relu, grid_of_packs(cuda_of(b), n), &y, &count, &whole);
}

void cuda_relu_grad(struct backend *b, float *dy, const float *y, size_t n)
{
    u64 count = n;
    int whole = aligned(dy, y, NULL);
    if (n)
        LAUNCH(cuda_of(b), relu_grad, grid_of_packs(cuda_of(b), n), &dy, &y, &count, &whole);
}

void cuda_columns(struct backend *b, float *y, int y_cols, int to, const float *x, int x_cols,
                  int from, int cols, size_t rows)
{
    u64 count = rows * (size_t)cols;
    if (count)
        LAUNCH(cuda_of(b), columns, cuda_grid(cuda_of(b), count), &y, &y_cols, &to, &x, &x_cols,
               &from, &cols, &count);
}

void cuda_bias(struct backend *b, float *y, const float *bias, size_t rows, size_t cols)
{
    u64 count = rows * cols;
    unsigned width = (unsigned)cols;
    if (count)
        LAUNCH(cuda_of(b), bias, cuda_grid(cuda_of(b), count), &y, &bias, &count, &width);
}

/* --- sums over rows --------------------------------------------------------------------------- */

/* The parts depend on the shape alone, so that sums are the same bits on every GPU. */
static unsigned parts_of(size_t rows)
{
    size_t parts = rows / PART_ROWS < PARTS ? rows / PART_ROWS : PARTS;
    return (unsigned)(parts ? parts : 1);
}

static struct grid grid_of_columns(size_t cols, unsigned parts)
{
    return (struct grid){(unsigned)((cols + CUDA_COLUMNS - 1) / CUDA_COLUMNS), parts, CUDA_COLUMNS,
                         CUDA_LINES};
}

void cuda_bias_grad(struct backend *b, float *db, const float *dy, size_t rows, size_t cols)
{
    struct cuda *c = cuda_of(b);
    unsigned parts = parts_of(rows), width = (unsigned)cols;
    float *part = cuda_room(c, ROOM_PARTS, parts * cols * sizeof *part), *none = NULL;
    u64 count = rows;
    LAUNCH(c, column_sums, grid_of_columns(cols, parts), &dy, &count, &width, &part);
    LAUNCH(c, merge, grid_of_columns(cols, 1), &part, &parts, &width, &db, &none);
}

/* --- batch normalisation ---------------------------------------------------------------------- */

/* Blocks whose threads keep a pack of columns each (the text's struct place). */
static struct grid grid_of_places(const struct cuda *c, size_t cols, size_t parts)
{
    size_t packs = (cols + cuda_pack(c) - 1) / cuda_pack(c);
    size_t across = packs < CUDA_ACROSS ? packs : CUDA_ACROSS;
    return (struct grid){(unsigned)((packs + across - 1) / across), (unsigned)parts, CUDA_THREADS,
                         1};
}

/* Without sums any split of the rows will do: enough blocks for this GPU, of a few rows a thread.
 */
static struct grid grid_of_rows(const struct cuda *c, size_t rows, size_t cols)
{
    struct grid g = grid_of_places(c, cols, 1);
    size_t most = cuda_grid(c, rows * cols).x / g.x;
    size_t parts = rows / PART_ROWS < most ? rows / PART_ROWS : most;
    g.y = (unsigned)(parts ? parts : 1);
    return g;
}

static void scale_shift(struct cuda *c, const float *x, const float *line, size_t rows,
                        unsigned cols, bool relu, float *y)
{
    u64 count = rows;
    float least = relu_least(relu);
    int whole = cuda_aligned_rows(c, cols, x, y, NULL);
    LAUNCH(c, scale_shift, grid_of_rows(c, rows, cols), &x, &line, &count, &cols, &least, &whole,
           &y);
}

void cuda_norm(struct backend *b, const float *x, const float *gamma, const float *beta,
               size_t rows, size_t cols, bool relu, float *y, float *saved, float *stats)
{
    struct cuda *c = cuda_of(b);
    unsigned parts = parts_of(rows), width = (unsigned)cols;
    int whole = cuda_aligned_rows(c, cols, x, NULL, NULL);
    u64 count = rows;
    if (rows == 0)
        return;
    float *part = cuda_room(c, ROOM_PARTS, 2 * parts * cols * sizeof *part);
    float *line = cuda_room(c, ROOM_LINE, 2 * cols * sizeof *line);
    LAUNCH(c, norm_sums, grid_of_places(c, cols, parts), &x, &count, &width, &whole, &part);
    LAUNCH(c, norm_line, grid_of_columns(cols, 1), &part, &parts, &x, &count, &width, &gamma, &beta,
           &saved, &stats, &line);
    scale_shift(c, x, line, rows, width, relu, y);
}

void cuda_norm_eval(struct backend *b, const float *x, const float *gamma, const float *beta,
                    const float *mean, const float *variance, size_t rows, size_t cols, bool relu,
                    float *y)
{
    struct cuda *c = cuda_of(b);
    float *line = cuda_room(c, ROOM_LINE, 2 * cols * sizeof *line);
    unsigned width = (unsigned)cols;
    if (rows == 0)
        return;
    LAUNCH(c, norm_eval_line, cuda_grid(c, cols), &gamma, &beta, &mean, &variance, &width, &line);
    scale_shift(c, x, line, rows, width, relu, y);
}

void cuda_norm_grad(struct backend *b, const float *x, const float *gamma, const float *saved,
                    const float *dy, size_t rows, size_t cols, float *dx, float *dgamma,
                    float *dbeta)
{
    struct cuda *c = cuda_of(b);
    unsigned parts = parts_of(rows), width = (unsigned)cols;
    int whole = cuda_aligned_rows(c, cols, x, dy, dx);
    u64 count = rows;
    float *part = cuda_room(c, ROOM_PARTS, 2 * parts * cols * sizeof *part);
    LAUNCH(c, norm_grad_sums, grid_of_places(c, cols, parts), &x, &saved, &dy, &count, &width,
           &whole, &part);
    LAUNCH(c, merge, grid_of_columns(cols, 2), &part, &parts, &width, &dgamma, &dbeta);
    if (rows)
        LAUNCH(c, norm_grad, grid_of_rows(c, rows, cols), &x, &gamma, &saved, &dy, &dgamma, &dbeta,
               &count, &width, &whole, &dx);
}

/* --- embeddings, cosine ----------------------------------------------------------------------- */

void cuda_embed(struct backend *b, const float *table, const int32_t *ids, size_t n, int width,
                int dim, float *y)
{
    u64 count = n;
    if (n)
        LAUNCH(cuda_of(b), embed, cuda_grid(cuda_of(b), n * (size_t)dim), &table, &ids, &count,
               &width, &dim, &y);
}

void cuda_embed_grad(struct backend *b, const float *dy, const int32_t *ids, size_t n, int width,
                     int dim, float *dtable)
{
    u64 count = n;
    struct grid g = {(unsigned)(n * (size_t)width), 1,
                     dim < CUDA_THREADS ? (unsigned)dim : CUDA_THREADS, 1};
    if (g.x)
        LAUNCH(cuda_of(b), embed_grad, g, &dy, &ids, &count, &width, &dim, &dtable);
}

void cuda_cosine(struct backend *b, const float *p, const float *q, size_t rows, int cols,
                 float scale, float *y)
{
    u64 count = rows;
    if (rows)
        LAUNCH(cuda_of(b), cosine, cuda_grid(cuda_of(b), rows), &p, &q, &count, &cols, &scale, &y);
}

void cuda_cosine_grad(struct backend *b, const float *p, const float *q, const float *dy,
                      size_t rows, int cols, float scale, float *dp, float *dq)
{
    u64 count = rows;
    if (rows)
        LAUNCH(cuda_of(b), cosine_grad, cuda_grid(cuda_of(b), rows), &p, &q, &dy, &count, &cols,
               &scale, &dp, &dq);
}

/* --- losses ----------------------------------------------------------------------------------- */

static void loss_sums(struct cuda *c, const float *losses, const float *right, size_t rows,
                      float *sums)
{
    u64 count = rows;
    struct grid one = {1, 1, CUDA_THREADS, 1};
    LAUNCH(c, loss_sums, one, &losses, &right, &count, &sums);
}

void cuda_softmax_loss(struct backend *b, const float *x, const int32_t *labels, size_t rows,
                       int classes, float smooth, float *dx, float *sums)
{
    struct cuda *c = cuda_of(b);
    float *losses = cuda_room(c, ROOM_LOSS, 2 * (rows + 1) * sizeof *losses);
    float *right = losses ? losses + rows : NULL;
    struct grid g = {(unsigned)rows, 1, CUDA_THREADS, 1};
    if (rows)
        LAUNCH(c, softmax_loss, g, &x, &labels, &classes, &smooth, &dx, &losses, &right);
    loss_sums(c, losses, right, rows, sums);
}

void cuda_square_loss(struct backend *b, const float *x, const float *target, size_t rows,
                      float *dx, float *sums)
{
    struct cuda *c = cuda_of(b);
    float *losses = cuda_room(c, ROOM_LOSS, 2 * (rows + 1) * sizeof *losses);
    float *right = losses ? losses + rows : NULL;
    u64 count = rows;
    if (rows)
        LAUNCH(c, square_loss, cuda_grid(c, rows), &x, &target, &count, &dx, &losses, &right);
    loss_sums(c, losses, right, rows, sums);
}

/* --- updates ---------------------------------------------------------------------------------- */

void cuda_rates(struct backend *b, const struct update *u)
{
    struct cuda *c = cuda_of(b);
    float rates[] = {u->rate, u->momentum, u->decay, u->scale, u->trust};
    c->lars = u->trust > 0;
    cuda_put(b, c->rates, rates, sizeof rates);
}

/* LARS' ratio of one parameter, in memory of the device; NULL: 1. */
static const float *lars_ratio(struct cuda *c, const float *w, const float *g, size_t n)
{
    struct grid grid = cuda_grid(c, n), one = {1, 1, 1, 1};
    grid.x = grid.x < PARTS ? grid.x : PARTS;
    double *part = cuda_room(c, ROOM_PARTS, 2 * PARTS * sizeof *part);
    float *ratio = cuda_room(c, ROOM_LINE, sizeof *ratio);
    u64 count = n;
    LAUNCH(c, lars_sums, grid, &w, &g, &count, &c->rates, &part);
    LAUNCH(c, lars_ratio, one, &part, &grid.x, &c->rates, &ratio);
    return ratio;
}

void cuda_update(struct backend *b, float *w, const float *g, float *v, size_t n, bool plain)
{
    struct cuda *c = cuda_of(b);
    const float *ratio = c->lars && !plain && n ? lars_ratio(c, w, g, n) : NULL;
    float decays = plain ? 0 : 1;
    u64 count = n;
    if (n)
        LAUNCH(c, update, cuda_grid(c, n), &w, &g, &v, &count, &c->rates, &decays, &ratio);
}

void cuda_track(struct backend *b, float *y, const float *g, size_t n, float keep)
{
    struct cuda *c = cuda_of(b);
    u64 count = n;
    if (n)
        LAUNCH(c, track, cuda_grid(c, n), &y, &g, &count, &keep, &c->rates);
}
