/* Kernels of embeddings, losses and updates. The third part of kernels.cu. */

/* --- embeddings, cosine ----------------------------------------------------------------------- */

KERNEL k_embed(const float *table, const int *ids, u64 n, int width, int dim, act *y)
{
    EACH(i, n * (u32)dim)
    {
        u64 r = i / (u32)dim, d = i % (u32)dim;
        float sum = 0;
        for (int k = 0; k < width; k++) {
            int id = ids[r * (u32)width + (u32)k];
            if (id >= 0)
                sum += table[(u64)(u32)id * (u32)dim + d];
        }
        y[i] = to_act(sum);
    }
}

/* A block stands for one place of the ids. The first place of an id does the work for all of them,
 * in the batch's order. */
KERNEL k_embed_grad(const act *dy, const int *ids, u64 n, int width, int dim, float *dtable)
{
    u64 all = n * (u32)width, mine = blockIdx.x;
    int id = ids[mine];
    if (id < 0)
        return;
    for (u64 i = 0; i < mine; i++)
        if (ids[i] == id)
            return;
    for (u32 d = threadIdx.x; d < (u32)dim; d += blockDim.x) {
        float sum = dtable[(u64)(u32)id * (u32)dim + d];
        for (u64 i = mine; i < all; i++)
            if (ids[i] == id)
                sum += from_act(dy[i / (u32)width * (u32)dim + d]);
        dtable[(u64)(u32)id * (u32)dim + d] = sum;
    }
}

struct angle {
    float dot, p, q; /* p, q: lengths, never 0 */
};

DEVICE struct angle angle_of(const act *p, const act *q, int cols)
{
    double dot = 0, pp = 1e-12, qq = 1e-12;
    for (int i = 0; i < cols; i++) {
        double u = from_act(p[i]), v = from_act(q[i]);
        dot += u * v;
        pp += u * u;
        qq += v * v;
    }
    struct angle a = {(float)dot, (float)sqrt(pp), (float)sqrt(qq)};
    return a;
}

KERNEL k_cosine(const act *p, const act *q, u64 rows, int cols, float scale, act *y)
{
    EACH(r, rows)
    {
        struct angle a = angle_of(p + r * (u32)cols, q + r * (u32)cols, cols);
        y[r] = to_act(scale * a.dot / (a.p * a.q));
    }
}

KERNEL k_cosine_grad(const act *p, const act *q, const act *dy, u64 rows, int cols, float scale,
                     act *dp, act *dq)
{
    EACH(r, rows)
    {
        u64 at = r * (u32)cols;
        struct angle a = angle_of(p + at, q + at, cols);
        float cos = a.dot / (a.p * a.q), g = scale * from_act(dy[r]);
        for (int i = 0; i < cols; i++, at++) {
            float u = from_act(p[at]), v = from_act(q[at]);
            dp[at] = to_act(g * (v / (a.p * a.q) - cos * u / (a.p * a.p)));
            dq[at] = to_act(g * (u / (a.p * a.q) - cos * v / (a.q * a.q)));
        }
    }
}

/* --- losses ----------------------------------------------------------------------------------- */

/* Sums and maxima over a block of THREADS threads; `room` has THREADS numbers. */
DEVICE double block_sum(double x, double *room)
{
    BARRIER();
    room[threadIdx.x] = x;
    for (u32 half = THREADS / 2; half > 0; half /= 2) {
        BARRIER();
        if (threadIdx.x < half)
            room[threadIdx.x] += room[threadIdx.x + half];
    }
    BARRIER();
    return room[0];
}

/* One block a row: its loss and whether the first of the largest is the label's. */
KERNEL_SYNC k_softmax_loss(const act *x, const int *labels, int classes, float smooth, act *dx,
                           float *losses, float *right)
{
    SHARED double room[THREADS];
    SHARED int places[THREADS];
    x += (u64)blockIdx.x * (u32)classes;
    dx += (u64)blockIdx.x * (u32)classes;
    int label = labels[blockIdx.x], at = -1;
    for (int i = (int)threadIdx.x; i < classes; i += THREADS)
        if (at < 0 || from_act(x[i]) > from_act(x[at]))
            at = i;
    places[threadIdx.x] = at;
    for (u32 half = THREADS / 2; half > 0; half /= 2) {
        BARRIER();
        if (threadIdx.x >= half)
            continue;
        int p = places[threadIdx.x], q = places[threadIdx.x + half];
        if (q >= 0 && (p < 0 || from_act(x[q]) > from_act(x[p]) ||
                       (from_act(x[q]) == from_act(x[p]) && q < p)))
            places[threadIdx.x] = q;
    }
    BARRIER();
    int best = places[0];
    double most = from_act(x[best]), sum = 0, mean = 0;
    for (int i = (int)threadIdx.x; i < classes; i += THREADS) {
        sum += exp((double)from_act(x[i]) - most);
        mean += (double)from_act(x[i]) - most;
    }
    sum = block_sum(sum, room);
    mean = block_sum(mean, room);
    double log_sum = log(sum), spread = (double)smooth / classes;
    double loss = log_sum - (1 - smooth) * ((double)from_act(x[label]) - most) - spread * mean;
    BARRIER(); /* dx may be x */
    for (int i = (int)threadIdx.x; i < classes; i += THREADS) {
        double target = spread + (i == label ? 1 - smooth : 0);
        dx[i] = to_act((float)(exp((double)from_act(x[i]) - most - log_sum) - target));
    }
    if (threadIdx.x == 0) {
        losses[blockIdx.x] = (float)loss;
        right[blockIdx.x] = best == label;
    }
}

KERNEL k_square_loss(const act *x, const float *target, u64 rows, act *dx, float *losses,
                     float *right)
{
    EACH(r, rows)
    {
        float d = from_act(x[r]) - target[r];
        dx[r] = to_act(d);
        losses[r] = 0.5f * d * d;
        right[r] = fabsf(d) < 0.5f;
    }
}

/* One block: sums[0] and sums[1] of the rows' losses and hits. */
KERNEL_SYNC k_loss_sums(const float *losses, const float *right, u64 rows, float *sums)
{
    SHARED double room[THREADS];
    double loss = 0, hits = 0;
    for (u64 i = threadIdx.x; i < rows; i += THREADS) {
        loss += losses[i];
        hits += right[i];
    }
    loss = block_sum(loss, room);
    hits = block_sum(hits, room);
    if (threadIdx.x == 0) {
        sums[0] = (float)loss;
        sums[1] = (float)hits;
    }
}

/* --- updates ---------------------------------------------------------------------------------- */

/* Squares of the weights and of the mean gradients, a part a block: part[block], part[blocks + block]. */
KERNEL_SYNC k_lars_sums(const float *w, const float *g, u64 n, const float *u, double *part)
{
    SHARED double room[THREADS];
    double ww = 0, gg = 0;
    EACH(i, n)
    {
        double scaled = (double)u[SCALE] * g[i];
        ww += (double)w[i] * w[i];
        gg += scaled * scaled;
    }
    ww = block_sum(ww, room);
    gg = block_sum(gg, room);
    if (threadIdx.x == 0) {
        part[blockIdx.x] = ww;
        part[gridDim.x + blockIdx.x] = gg;
    }
}

/* One thread. The rate of one parameter by LARS; 1 where either length is nothing. */
KERNEL k_lars_ratio(const double *part, u32 parts, const float *u, float *ratio)
{
    double ww = 0, gg = 0;
    for (u32 i = 0; i < parts; i++) {
        ww += part[i];
        gg += part[parts + i];
    }
    ww = sqrt(ww);
    gg = sqrt(gg);
    *ratio = ww > 0 && gg > 0 ? (float)(u[TRUST] * ww / (gg + u[DECAY] * ww)) : 1;
}

/* `decays` is 1 or 0; `ratio` NULL: 1. */
KERNEL k_update(float *w, const float *g, float *v, u64 n, const float *u, float decays,
                const float *ratio)
{
    float by = ratio ? *ratio : 1, rate = u[RATE], decay = decays * u[DECAY];
    if (u[TRUST] > 0) {
        by *= rate;
        rate = 1;
    }
    EACH(i, n)
    {
        v[i] = u[MOMENTUM] * v[i] + by * (u[SCALE] * g[i] + decay * w[i]);
        w[i] -= rate * v[i];
    }
}

/* Running statistics: their "gradient" is the batch's, times the samples. */
KERNEL k_track(float *w, const float *g, u64 n, float keep, const float *u)
{
    EACH(i, n)
    w[i] = keep * w[i] + (1 - keep) * (u[SCALE] * g[i]);
}
