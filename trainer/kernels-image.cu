/* Kernels over images: pooling, and convolutions as matrices. The second part of kernels.cu. */

/* --- pooling ---------------------------------------------------------------------------------- */

struct pool {
    int n, h, w, c;
    int window, stride, pad, out_h, out_w;
};

/* Where a pack of channels lies: `i` counts packs, of which a pixel has `packs`. */
struct spot {
    int image, h, w;
    u32 c, size; /* its first channel, and how many */
};

DEVICE struct spot spot_of(u64 i, int height, int width, int channels)
{
    u32 packs = (u32)(((u32)channels + PACK - 1) / PACK);
    u64 pixel = i / packs, row = pixel / (u32)width;
    struct spot p;
    p.c = (u32)(i % packs * PACK);
    p.size = pack_size((u32)channels - p.c);
    p.w = (int)(pixel % (u32)width);
    p.h = (int)(row % (u32)height);
    p.image = (int)(row / (u32)height);
    return p;
}

KERNEL k_maxpool(struct pool s, const act *x, u64 packs, int aligned, act *y, int *from)
{
    EACH(i, packs)
    {
        struct spot p = spot_of(i, s.out_h, s.out_w, s.c);
        int h0 = p.h * s.stride - s.pad, w0 = p.w * s.stride - s.pad;
        u64 to = (((u64)p.image * (u32)s.out_h + (u32)p.h) * (u32)s.out_w + (u32)p.w) * (u32)s.c +
                 p.c;
        struct pack most = {{{0}}};
        int best[PACK];
        for (u32 k = 0; k < PACK; k++)
            best[k] = -1;
        for (int h = h0 < 0 ? 0 : h0; h < h0 + s.window && h < s.h; h++)
            for (int w = w0 < 0 ? 0 : w0; w < w0 + s.window && w < s.w; w++) {
                int at = ((p.image * s.h + h) * s.w + w) * s.c + (int)p.c;
                struct pack v = pack_get(x + at, p.size, aligned);
                for (u32 k = 0; k < PACK; k++)
                    if (best[k] < 0 || !(from_act(v.v[k]) <= from_act(most.v[k]))) {
                        most.v[k] = v.v[k];
                        best[k] = at + (int)k;
                    }
            }
        pack_put(y + to, most, p.size, aligned);
        for (u32 k = 0; k < PACK; k++)
            if (k < p.size)
                from[to + k] = best[k];
    }
}

/* Each input looks at the windows it lies in, in the order of outputs. */
KERNEL k_maxpool_grad(struct pool s, const act *dy, const int *from, u64 packs, int aligned,
                      act *dx)
{
    EACH(i, packs)
    {
        struct spot p = spot_of(i, s.h, s.w, s.c);
        int oh = p.h + s.pad - s.window + 1, ow0 = p.w + s.pad - s.window + 1;
        int here = ((p.image * s.h + p.h) * s.w + p.w) * s.c + (int)p.c;
        struct numbers sum = {{0}};
        struct pack all;
        oh = oh <= 0 ? 0 : (oh + s.stride - 1) / s.stride;
        ow0 = ow0 <= 0 ? 0 : (ow0 + s.stride - 1) / s.stride;
        for (; oh < s.out_h && oh * s.stride - s.pad <= p.h; oh++)
            for (int ow = ow0; ow < s.out_w && ow * s.stride - s.pad <= p.w; ow++) {
                u64 at = (((u64)p.image * (u32)s.out_h + (u32)oh) * (u32)s.out_w + (u32)ow) *
                             (u32)s.c + p.c;
                struct pack d = pack_get(dy + at, p.size, aligned);
                for (u32 k = 0; k < PACK; k++)
                    if (k < p.size && from[at + k] == here + (int)k)
                        sum.v[k] += from_act(d.v[k]);
            }
        for (u32 k = 0; k < PACK; k++)
            all.v[k] = to_act(sum.v[k]);
        pack_put(dx + here, all, p.size, aligned);
    }
}

KERNEL k_meanpool(const act *x, act *y, int n, int pixels, int c)
{
    float share = 1.0f / (float)pixels;
    EACH(i, (u64)n * (u32)c)
    {
        u64 image = i / (u32)c, k = i % (u32)c;
        float sum = 0;
        for (int p = 0; p < pixels; p++)
            sum += from_act(x[(image * (u32)pixels + (u32)p) * (u32)c + k]);
        y[i] = to_act(sum * share);
    }
}

KERNEL k_meanpool_grad(const act *dy, act *dx, int n, int pixels, int c)
{
    float share = 1.0f / (float)pixels;
    EACH(i, (u64)n * (u32)pixels * (u32)c)
    dx[i] = to_act(share * from_act(dy[i / ((u64)(u32)pixels * (u32)c) * (u32)c + i % (u32)c]));
}

/* --- convolutions as matrices ----------------------------------------------------------------- */

struct conv {
    int n, h, w, c;
    int k, r, s;
    int stride, pad, out_h, out_w;
};

/* y[(n, oh, ow)][(r, s, c)]: what each window sees. */
KERNEL k_windows(struct conv s, const act *x, act *y)
{
    EACH(i, (u64)s.n * (u32)s.out_h * (u32)s.out_w * (u32)s.r * (u32)s.s * (u32)s.c)
    {
        u64 rest = i / (u32)s.c;
        int c = (int)(i % (u32)s.c), at_s = (int)(rest % (u32)s.s);
        rest /= (u32)s.s;
        int at_r = (int)(rest % (u32)s.r);
        rest /= (u32)s.r;
        int ow = (int)(rest % (u32)s.out_w), oh = (int)(rest / (u32)s.out_w % (u32)s.out_h);
        u64 image = rest / (u32)s.out_w / (u32)s.out_h;
        int h = oh * s.stride - s.pad + at_r, w = ow * s.stride - s.pad + at_s;
        y[i] = h < 0 || h >= s.h || w < 0 || w >= s.w
                   ? to_act(0)
                   : x[((image * (u32)s.h + (u32)h) * (u32)s.w + (u32)w) * (u32)s.c + (u32)c];
    }
}

/* The way back: each input adds up what the windows that saw it say. */
KERNEL k_windows_grad(struct conv s, const act *dy, act *dx)
{
    EACH(i, (u64)s.n * (u32)s.h * (u32)s.w * (u32)s.c)
    {
        u64 rest = i / (u32)s.c;
        int c = (int)(i % (u32)s.c), w = (int)(rest % (u32)s.w);
        int h = (int)(rest / (u32)s.w % (u32)s.h);
        u64 image = rest / (u32)s.w / (u32)s.h;
        float sum = 0;
        for (int at_r = 0; at_r < s.r; at_r++)
            for (int at_s = 0; at_s < s.s; at_s++) {
                int oh = h + s.pad - at_r, ow = w + s.pad - at_s;
                if (oh < 0 || ow < 0 || oh % s.stride || ow % s.stride)
                    continue;
                oh /= s.stride;
                ow /= s.stride;
                if (oh < s.out_h && ow < s.out_w)
                    sum += from_act(dy[((((image * (u32)s.out_h + (u32)oh) * (u32)s.out_w +
                                          (u32)ow) * (u32)s.r + (u32)at_r) * (u32)s.s +
                                        (u32)at_s) * (u32)s.c + (u32)c]);
            }
        dx[i] = to_act(sum);
    }
}
