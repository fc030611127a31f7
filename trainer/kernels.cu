/*
 * Kernels of the GPU backend: everything but matrices and (where cuDNN is) convolutions.
 *
 * C without includes or templates: NVRTC compiles this text for the device that is there, and the
 * tests compile it with the host's compiler, which runs it thread by thread. The macros KERNEL,
 * KERNEL_SYNC (a kernel with barriers), DEVICE, SHARED and BARRIER may be defined before it.
 *
 * `act` is what values of samples and their gradients are kept in: float, or (ACT_BF16) bfloat16.
 * Three files make one text: kernels.cu, kernels-image.cu, kernels-loss.cu.
 *
 * All arithmetic is done in float or double, parameters and sums are float. No result depends on
 * the order in which threads run: nothing is added atomically.
 */
#ifndef KERNEL
#define KERNEL      extern "C" __global__ void
#define KERNEL_SYNC extern "C" __global__ void
#define DEVICE      static __device__ __forceinline__
#define SHARED      __shared__
#define BARRIER()   __syncthreads()
#endif

typedef unsigned long long u64;
typedef unsigned int u32;

#define LINES   16 /* threads of a block that share a column in sums over rows */
#define COLUMNS 32 /* columns of such a block */
#define THREADS 256

union bits {
    u32 u;
    float f;
};

#ifdef ACT_BF16
typedef unsigned short act;
DEVICE float from_act(act x)
{
    union bits b;
    b.u = (u32)x << 16;
    return b.f;
}
/* To the nearest, ties to even; a NaN stays one. */
DEVICE act to_act(float x)
{
    union bits b;
    b.f = x;
    if ((b.u & 0x7fffffffu) > 0x7f800000u)
        return (act)(b.u >> 16 | 0x40u);
    return (act)((b.u + 0x7fffu + (b.u >> 16 & 1u)) >> 16);
}
#else
typedef float act;
DEVICE float from_act(act x)
{
    return x;
}
DEVICE act to_act(float x)
{
    return x;
}
#endif

#define EACH(i, n)                                                                                 \
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                              \
         i += (u64)gridDim.x * blockDim.x)

/* --- packs ------------------------------------------------------------------------------------ */

/*
 * Values of samples are moved 16 bytes at a time: memory answers late, and its width is only used
 * while enough bytes are asked for, which threads that wait for one value each do not.
 */
#define PACK (16 / sizeof(act))

struct pack {
    union {
        uint4 words; /* what one instruction moves */
        act v[PACK];
    };
};

#define EACH_PACK(at, n)                                                                           \
    for (u64 at = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * PACK; at < (n);                   \
         at += (u64)gridDim.x * blockDim.x * PACK)

DEVICE u32 pack_size(u64 left)
{
    return left < PACK ? (u32)left : (u32)PACK;
}

/* The first `size` of a pack; `aligned`: a whole one begins at a multiple of 16 bytes. */
DEVICE struct pack pack_get(const act *x, u32 size, int aligned)
{
    struct pack p;
    if (aligned && size == PACK)
        p.words = *(const uint4 *)x;
    else
        for (u32 k = 0; k < PACK; k++)
            p.v[k] = k < size ? x[k] : to_act(0);
    return p;
}

DEVICE void pack_put(act *x, struct pack p, u32 size, int aligned)
{
    if (aligned && size == PACK) {
        *(uint4 *)x = p.words;
        return;
    }
    for (u32 k = 0; k < PACK; k++)
        if (k < size)
            x[k] = p.v[k];
}

/* What an update goes by: memory of the device, so that a recorded step reads new numbers. */
#define RATE     0
#define MOMENTUM 1
#define DECAY    2
#define SCALE    3
#define TRUST    4

/* --- element-wise ----------------------------------------------------------------------------- */

KERNEL k_fill(float *y, u64 n, float value)
{
    EACH(i, n)
    y[i] = value;
}

KERNEL k_narrow(act *y, const float *x, u64 n)
{
    EACH(i, n)
    y[i] = to_act(x[i]);
}

KERNEL k_widen(float *y, const act *x, u64 n)
{
    EACH(i, n)
    y[i] = from_act(x[i]);
}

KERNEL k_axpy(float *y, float a, const float *x, u64 n)
{
    EACH(i, n)
    y[i] += a * x[i];
}

/* `least` is 0 where negative results become 0, else below all. A NaN stays one. */
DEVICE float bent(float x, float least)
{
    return x < least ? least : x;
}

KERNEL k_axpy_act(act *y, float a, const act *x, u64 n, int aligned)
{
    EACH_PACK(at, n)
    {
        u32 size = pack_size(n - at);
        struct pack p = pack_get(y + at, size, aligned), q = pack_get(x + at, size, aligned);
        for (u32 k = 0; k < PACK; k++)
            p.v[k] = to_act(from_act(p.v[k]) + a * from_act(q.v[k]));
        pack_put(y + at, p, size, aligned);
    }
}

KERNEL k_add(act *y, const act *p, const act *q, u64 n, float least, int aligned)
{
    EACH_PACK(at, n)
    {
        u32 size = pack_size(n - at);
        struct pack u = pack_get(p + at, size, aligned), v = pack_get(q + at, size, aligned);
        for (u32 k = 0; k < PACK; k++)
            u.v[k] = to_act(bent(from_act(u.v[k]) + from_act(v.v[k]), least));
        pack_put(y + at, u, size, aligned);
    }
}

KERNEL k_blend(float *y, const float *x, u64 n, float keep)
{
    EACH(i, n)
    y[i] = keep * y[i] + (1 - keep) * x[i];
}

KERNEL k_relu(act *y, u64 n, int aligned)
{
    EACH_PACK(at, n)
    {
        u32 size = pack_size(n - at);
        struct pack p = pack_get(y + at, size, aligned);
        for (u32 k = 0; k < PACK; k++)
            p.v[k] = to_act(bent(from_act(p.v[k]), 0));
        pack_put(y + at, p, size, aligned);
    }
}

KERNEL k_relu_grad(act *dy, const act *y, u64 n, int aligned)
{
    EACH_PACK(at, n)
    {
        u32 size = pack_size(n - at);
        struct pack p = pack_get(dy + at, size, aligned), q = pack_get(y + at, size, aligned);
        for (u32 k = 0; k < PACK; k++)
            p.v[k] = from_act(q.v[k]) > 0 ? p.v[k] : to_act(0);
        pack_put(dy + at, p, size, aligned);
    }
}

KERNEL k_columns(act *y, int y_cols, int to, const act *x, int x_cols, int from, int cols, u64 n)
{
    EACH(i, n)
    {
        u64 r = i / (u32)cols, k = i % (u32)cols;
        y[r * (u32)y_cols + (u32)to + k] = x[r * (u32)x_cols + (u32)from + k];
    }
}

KERNEL k_bias(act *y, const float *bias, u64 n, u32 cols)
{
    EACH(i, n)
    y[i] = to_act(from_act(y[i]) + bias[i % cols]);
}

/* --- sums over rows --------------------------------------------------------------------------- */

/*
 * A block has COLUMNS x LINES threads and sums part blockIdx.y of the rows for COLUMNS columns; the
 * sums of a part go to part[blockIdx.y][column], and a second kernel adds the parts. Which thread
 * adds what in which order depends on the shape alone.
 */
#define PART_ROWS(r, line, lines)                                                                  \
    for (u64 r = rows * blockIdx.y / gridDim.y + (line),                                           \
             end_ = rows * (blockIdx.y + 1) / gridDim.y;                                           \
         r < end_; r += (lines))

KERNEL_SYNC k_column_sums(const act *x, u64 rows, u32 c, float *part)
{
    SHARED float lines[LINES][COLUMNS];
    u32 col = blockIdx.x * COLUMNS + threadIdx.x;
    float sum = 0;
    if (col < c)
        PART_ROWS(r, threadIdx.y, LINES)
    sum += from_act(x[r * c + col]);
    lines[threadIdx.y][threadIdx.x] = sum;
    BARRIER();
    sum = 0;
    for (int i = 0; i < LINES; i++)
        sum += lines[i][threadIdx.x];
    if (threadIdx.y == 0 && col < c)
        part[(u64)blockIdx.y * c + col] = sum;
}

/* The sum of a column's parts, by the LINES threads that share it. */
DEVICE double parts_sum(const float *part, u32 parts, u32 c, u32 col, double (*room)[COLUMNS])
{
    double sum = 0;
    for (u32 p = threadIdx.y; p < parts && col < c; p += LINES)
        sum += part[(u64)p * c + col];
    BARRIER();
    room[threadIdx.y][threadIdx.x] = sum;
    BARRIER();
    sum = 0;
    for (int i = 0; i < LINES; i++)
        sum += room[i][threadIdx.x];
    return sum;
}

/* Of blockIdx.y sums, whose parts follow each other, the first goes to `y` and the second to `z`. */
KERNEL_SYNC k_merge(const float *part, u32 parts, u32 c, float *y, float *z)
{
    SHARED double room[LINES][COLUMNS];
    u32 col = blockIdx.x * COLUMNS + threadIdx.x;
    double sum = parts_sum(part + (u64)blockIdx.y * parts * c, parts, c, col, room);
    if (threadIdx.y == 0 && col < c)
        (blockIdx.y ? z : y)[col] = (float)sum;
}

/* --- batch normalisation ---------------------------------------------------------------------- */

#define EPSILON 1e-5f

/*
 * A block of THREADS threads stands for ACROSS packs of columns, or for all if they are fewer: a
 * thread keeps a pack's columns, whose numbers it loads once, and walks the rows of part blockIdx.y
 * in steps of `lines`, the threads that have the same columns.
 */
#define ACROSS 32
#define DEEP   2 /* rows that a thread which sums asks for before it waits */

struct place {
    u32 col, size; /* the first of its columns and their number; 0: it has none */
    u32 line, lines;
    u32 width; /* columns of the block, with those beyond the last */
};

DEVICE struct place place_of(u32 c)
{
    u32 packs = (u32)((c + PACK - 1) / PACK), across = packs < ACROSS ? packs : ACROSS;
    struct place p;
    p.line = threadIdx.x / across;
    p.lines = THREADS / across;
    p.width = (u32)(across * PACK);
    p.col = (u32)(blockIdx.x * p.width + threadIdx.x % across * PACK);
    p.size = p.line < p.lines && p.col < c ? pack_size(c - p.col) : 0;
    return p;
}

/* A number for each column of a place. */
struct numbers {
    float v[PACK];
};

DEVICE struct numbers numbers_of(const float *x, struct place p)
{
    struct numbers n;
    for (u32 k = 0; k < PACK; k++)
        n.v[k] = k < p.size ? x[p.col + k] : 0;
    return n;
}

/* Adds up what the block's threads have for each column, and puts it to out[column]. */
DEVICE void lines_sum(struct numbers mine, struct place p, u32 c, float *room, float *out)
{
    u32 first = p.line * p.width + p.col % p.width, col = blockIdx.x * p.width + threadIdx.x;
    BARRIER();
    for (u32 k = 0; k < PACK; k++)
        if (p.line < p.lines)
            room[first + k] = mine.v[k];
    BARRIER();
    if (threadIdx.x >= p.width || col >= c)
        return;
    float sum = 0;
    for (u32 i = 0; i < p.lines; i++)
        sum += room[i * p.width + threadIdx.x];
    out[col] = sum;
}

/* Sums of x - x of the first row, and of its square: the shift keeps the squares small. The parts of
 * the squares follow those of the sums. */
KERNEL_SYNC k_norm_sums(const act *x, u64 rows, u32 c, int aligned, float *part)
{
    SHARED float room[THREADS * PACK];
    struct place p = place_of(c);
    struct numbers sum = {{0}}, square = {{0}};
    if (p.size) {
        struct pack shift = pack_get(x + p.col, p.size, aligned), some[DEEP];
        PART_ROWS(r, p.line, DEEP * p.lines)
        {
            for (u32 i = 0; i < DEEP; i++) {
                some[i] = shift; /* which adds nothing */
                if (r + i * p.lines < end_)
                    some[i] = pack_get(x + (r + i * p.lines) * c + p.col, p.size, aligned);
            }
            for (u32 i = 0; i < DEEP; i++)
                for (u32 k = 0; k < PACK; k++) {
                    float d = from_act(some[i].v[k]) - from_act(shift.v[k]);
                    sum.v[k] += d;
                    square.v[k] += d * d;
                }
        }
    }
    lines_sum(sum, p, c, room, part + (u64)blockIdx.y * c);
    lines_sum(square, p, c, room, part + (u64)(gridDim.y + blockIdx.y) * c);
}

/* Mean and deviation, and the line y = a x + b that they make of gamma and beta. */
KERNEL_SYNC k_norm_line(const float *part, u32 parts, const act *x, u64 rows, u32 c,
                        const float *gamma, const float *beta, float *saved, float *stats,
                        float *line)
{
    SHARED double room[LINES][COLUMNS];
    u32 i = blockIdx.x * COLUMNS + threadIdx.x;
    double n = (double)rows, off = parts_sum(part, parts, c, i, room) / n;
    double square = parts_sum(part + (u64)parts * c, parts, c, i, room) / n - off * off;
    if (threadIdx.y > 0 || i >= c)
        return;
    float mean = (float)(off + from_act(x[i])), variance = (float)(square > 0 ? square : 0);
    float inverse = 1.0f / sqrtf(variance + EPSILON);
    if (square != square)
        inverse = variance = (float)square;
    saved[i] = stats[i] = mean;
    saved[c + i] = inverse;
    stats[c + i] = variance * (rows > 1 ? (float)(n / (n - 1)) : 1);
    line[i] = gamma[i] * inverse;
    line[c + i] = beta[i] - mean * gamma[i] * inverse;
}

KERNEL k_norm_eval_line(const float *gamma, const float *beta, const float *mean,
                        const float *variance, u32 c, float *line)
{
    EACH(i, c)
    {
        line[i] = gamma[i] / sqrtf(variance[i] + EPSILON);
        line[c + i] = beta[i] - mean[i] * line[i];
    }
}

KERNEL k_scale_shift(const act *x, const float *line, u64 rows, u32 c, float least, int aligned,
                     act *y)
{
    struct place p = place_of(c);
    struct numbers a = numbers_of(line, p), b = numbers_of(line + c, p);
    if (p.size == 0)
        return;
    PART_ROWS(r, p.line, p.lines)
    {
        struct pack v = pack_get(x + r * c + p.col, p.size, aligned);
        for (u32 k = 0; k < PACK; k++)
            v.v[k] = to_act(bent(from_act(v.v[k]) * a.v[k] + b.v[k], least));
        pack_put(y + r * c + p.col, v, p.size, aligned);
    }
}

/* Parts of dgamma, then of dbeta. */
KERNEL_SYNC k_norm_grad_sums(const act *x, const float *saved, const act *dy, u64 rows, u32 c,
                             int aligned, float *part)
{
    SHARED float room[THREADS * PACK];
    struct place p = place_of(c);
    struct numbers mean = numbers_of(saved, p), inverse = numbers_of(saved + c, p);
    struct numbers sum = {{0}}, beta = {{0}};
    if (p.size)
        PART_ROWS(r, p.line, DEEP * p.lines)
        {
            struct pack xs[DEEP] = {{{{0}}}}, dys[DEEP] = {{{{0}}}}; /* zeros add nothing */
            for (u32 i = 0; i < DEEP; i++)
                if (r + i * p.lines < end_) {
                    u64 at = (r + i * p.lines) * c + p.col;
                    xs[i] = pack_get(x + at, p.size, aligned);
                    dys[i] = pack_get(dy + at, p.size, aligned);
                }
            for (u32 i = 0; i < DEEP; i++)
                for (u32 k = 0; k < PACK; k++) {
                    float g = from_act(dys[i].v[k]);
                    sum.v[k] += g * (from_act(xs[i].v[k]) - mean.v[k]) * inverse.v[k];
                    beta.v[k] += g;
                }
        }
    lines_sum(sum, p, c, room, part + (u64)blockIdx.y * c);
    lines_sum(beta, p, c, room, part + (u64)(gridDim.y + blockIdx.y) * c);
}

KERNEL k_norm_grad(const act *x, const float *gamma, const float *saved, const act *dy,
                   const float *dgamma, const float *dbeta, u64 rows, u32 c, int aligned, act *dx)
{
    float share = 1.0f / (float)rows;
    struct place p = place_of(c);
    struct numbers mean = numbers_of(saved, p), inverse = numbers_of(saved + c, p);
    struct numbers by = numbers_of(gamma, p);
    struct numbers slope = numbers_of(dgamma, p), off = numbers_of(dbeta, p);
    if (p.size == 0)
        return;
    for (u32 k = 0; k < PACK; k++) {
        by.v[k] *= inverse.v[k];
        slope.v[k] *= share * inverse.v[k];
        off.v[k] *= share;
    }
    PART_ROWS(r, p.line, p.lines)
    {
        struct pack v = pack_get(x + r * c + p.col, p.size, aligned);
        struct pack d = pack_get(dy + r * c + p.col, p.size, aligned);
        for (u32 k = 0; k < PACK; k++)
            v.v[k] = to_act(by.v[k] * (from_act(d.v[k]) - off.v[k] -
                                       (from_act(v.v[k]) - mean.v[k]) * slope.v[k]));
        pack_put(dx + r * c + p.col, v, p.size, aligned);
    }
}
