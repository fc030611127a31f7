/* Kernels over images: pooling, and convolutions as matrices. The second part of kernels.cu. */

/* --- pooling ---------------------------------------------------------------------------------- */

struct pool {
    int n, h, w, c;
    int window, stride, pad, out_h, out_w;
};

KERNEL k_maxpool(struct pool s, const act *x, act *y, int *from)
{
    EACH(i, (u64)s.n * (u32)s.out_h * (u32)s.out_w * (u32)s.c)
    {
        int c = (int)(i % (u32)s.c), ow = (int)(i / (u32)s.c % (u32)s.out_w);
        u64 row = i / (u32)s.c / (u32)s.out_w;
        int oh = (int)(row % (u32)s.out_h), image = (int)(row / (u32)s.out_h), best = -1;
        int h0 = oh * s.stride - s.pad, w0 = ow * s.stride - s.pad;
        float most = 0;
        for (int h = h0 < 0 ? 0 : h0; h < h0 + s.window && h < s.h; h++)
            for (int w = w0 < 0 ? 0 : w0; w < w0 + s.window && w < s.w; w++) {
                int at = ((image * s.h + h) * s.w + w) * s.c + c;
                float v = from_act(x[at]);
                if (best < 0 || !(v <= most)) {
                    most = v;
                    best = at;
                }
            }
        y[i] = to_act(most);
        from[i] = best;
    }
}

/* Each input looks at the windows it lies in, in the order of outputs. */
KERNEL k_maxpool_grad(struct pool s, const act *dy, const int *from, act *dx)
{
    EACH(i, (u64)s.n * (u32)s.h * (u32)s.w * (u32)s.c)
    {
        int c = (int)(i % (u32)s.c), w = (int)(i / (u32)s.c % (u32)s.w);
        u64 row = i / (u32)s.c / (u32)s.w;
        int h = (int)(row % (u32)s.h), image = (int)(row / (u32)s.h);
        int oh = h + s.pad - s.window + 1, ow0 = w + s.pad - s.window + 1;
        oh = oh <= 0 ? 0 : (oh + s.stride - 1) / s.stride;
        ow0 = ow0 <= 0 ? 0 : (ow0 + s.stride - 1) / s.stride;
        float sum = 0;
        for (; oh < s.out_h && oh * s.stride - s.pad <= h; oh++)
            for (int ow = ow0; ow < s.out_w && ow * s.stride - s.pad <= w; ow++) {
                u64 at = (((u64)image * (u32)s.out_h + (u32)oh) * (u32)s.out_w + (u32)ow) *
                             (u32)s.c + (u32)c;
                if (from[at] == (int)i)
                    sum += from_act(dy[at]);
            }
        dx[i] = to_act(sum);
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
