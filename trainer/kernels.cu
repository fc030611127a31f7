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

#define LINES   8  /* threads of a block that share a column in sums over rows */
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

KERNEL k_axpy_act(act *y, float a, const act *x, u64 n)
{
    EACH(i, n)
    y[i] = to_act(from_act(y[i]) + a * from_act(x[i]));
}

KERNEL k_add(act *y, const act *p, const act *q, u64 n)
{
    EACH(i, n)
    y[i] = to_act(from_act(p[i]) + from_act(q[i]));
}

KERNEL k_blend(float *y, const float *x, u64 n, float keep)
{
    EACH(i, n)
    y[i] = keep * y[i] + (1 - keep) * x[i];
}

KERNEL k_relu(act *y, u64 n)
{
    EACH(i, n)
    y[i] = from_act(y[i]) < 0 ? to_act(0) : y[i]; /* a NaN stays one */
}

KERNEL k_relu_grad(act *dy, const act *y, u64 n)
{
    EACH(i, n)
    dy[i] = from_act(y[i]) > 0 ? dy[i] : to_act(0);
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
 * sums of a part go to part[blockIdx.y][column], and a second kernel adds the parts in their order.
 */
#define PART_ROWS(r)                                                                               \
    for (u64 r = rows * blockIdx.y / gridDim.y + threadIdx.y,                                      \
             end_ = rows * (blockIdx.y + 1) / gridDim.y;                                           \
         r < end_; r += LINES)

DEVICE float lines_sum(float (*lines)[COLUMNS])
{
    float sum = 0;
    for (int i = 0; i < LINES; i++)
        sum += lines[i][threadIdx.x];
    return sum;
}

KERNEL_SYNC k_column_sums(const act *x, u64 rows, u32 c, float *part)
{
    SHARED float lines[LINES][COLUMNS];
    u32 col = blockIdx.x * COLUMNS + threadIdx.x;
    float sum = 0;
    if (col < c)
        PART_ROWS(r)
    sum += from_act(x[r * c + col]);
    lines[threadIdx.y][threadIdx.x] = sum;
    BARRIER();
    if (threadIdx.y == 0 && col < c)
        part[(u64)blockIdx.y * c + col] = lines_sum(lines);
}

DEVICE double parts_sum(const float *part, u32 parts, u32 c, u32 col)
{
    double sum = 0;
    for (u32 p = 0; p < parts; p++)
        sum += part[(u64)p * c + col];
    return sum;
}

KERNEL k_merge(const float *part, u32 parts, u32 c, float *y)
{
    EACH(i, c)
    y[i] = (float)parts_sum(part, parts, c, (u32)i);
}

/* --- batch normalisation ---------------------------------------------------------------------- */

#define EPSILON 1e-5f

/* Sums of x - x of the first row, and of its square: the shift keeps the squares small. The parts of
 * the squares follow those of the sums. */
KERNEL_SYNC k_norm_sums(const act *x, u64 rows, u32 c, float *part)
{
    SHARED float lines[LINES][COLUMNS];
    SHARED float squares[LINES][COLUMNS];
    u32 col = blockIdx.x * COLUMNS + threadIdx.x;
    float sum = 0, square = 0;
    if (col < c) {
        float shift = from_act(x[col]);
        PART_ROWS(r)
        {
            float d = from_act(x[r * c + col]) - shift;
            sum += d;
            square += d * d;
        }
    }
    lines[threadIdx.y][threadIdx.x] = sum;
    squares[threadIdx.y][threadIdx.x] = square;
    BARRIER();
    if (threadIdx.y == 0 && col < c) {
        part[(u64)blockIdx.y * c + col] = lines_sum(lines);
        part[(u64)(gridDim.y + blockIdx.y) * c + col] = lines_sum(squares);
    }
}

/* Mean and deviation, and the line y = a x + b that they make of gamma and beta. */
KERNEL k_norm_line(const float *part, u32 parts, const act *x, u64 rows, u32 c, const float *gamma,
                   const float *beta, float *saved, float *stats, float *line)
{
    EACH(i, c)
    {
        double n = (double)rows, off = parts_sum(part, parts, c, (u32)i) / n;
        double square = parts_sum(part + (u64)parts * c, parts, c, (u32)i) / n - off * off;
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

KERNEL k_scale_shift(const act *x, const float *line, u64 n, u32 c, act *y)
{
    EACH(i, n)
    y[i] = to_act(from_act(x[i]) * line[i % c] + line[c + i % c]);
}

/* Parts of dgamma, then of dbeta. */
KERNEL_SYNC k_norm_grad_sums(const act *x, const float *saved, const act *dy, u64 rows, u32 c,
                             float *part)
{
    SHARED float gammas[LINES][COLUMNS];
    SHARED float betas[LINES][COLUMNS];
    u32 col = blockIdx.x * COLUMNS + threadIdx.x;
    float sum = 0, beta = 0;
    if (col < c) {
        float mean = saved[col], inverse = saved[c + col];
        PART_ROWS(r)
        {
            float d = from_act(dy[r * c + col]);
            sum += d * (from_act(x[r * c + col]) - mean) * inverse;
            beta += d;
        }
    }
    gammas[threadIdx.y][threadIdx.x] = sum;
    betas[threadIdx.y][threadIdx.x] = beta;
    BARRIER();
    if (threadIdx.y == 0 && col < c) {
        part[(u64)blockIdx.y * c + col] = lines_sum(gammas);
        part[(u64)(gridDim.y + blockIdx.y) * c + col] = lines_sum(betas);
    }
}

KERNEL k_norm_grad(const act *x, const float *gamma, const float *saved, const act *dy,
                   const float *dgamma, const float *dbeta, u64 rows, u32 c, act *dx)
{
    float share = 1.0f / (float)rows;
    EACH(i, rows * c)
    {
        u32 k = (u32)(i % c);
        float unit = (from_act(x[i]) - saved[k]) * saved[c + k];
        dx[i] = to_act(gamma[k] * saved[c + k] *
                       (from_act(dy[i]) - share * (dbeta[k] + unit * dgamma[k])));
    }
}
