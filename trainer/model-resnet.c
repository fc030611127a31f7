/* ResNet-18 and -50. */
#include "model-internal.h"

static int conv_norm(struct net *n, int in, int filters, int window, int stride, float gamma)
{
    return net_norm(n, net_conv(n, in, filters, window, stride, window / 2), gamma);
}

/* Two 3x3 windows. */
static int basic(struct net *n, int in, int width, int stride, int shortcut)
{
    int v = net_relu(n, conv_norm(n, in, width, 3, stride, 1));
    v = conv_norm(n, v, width, 3, 1, 0);
    return net_relu(n, net_add(n, v, shortcut));
}

/* 1x1, 3x3 (which strides), 1x1 to four times the width. */
static int bottleneck(struct net *n, int in, int width, int stride, int shortcut)
{
    int v = net_relu(n, conv_norm(n, in, width, 1, 1, 1));
    v = net_relu(n, conv_norm(n, v, width, 3, stride, 1));
    v = conv_norm(n, v, 4 * width, 1, 1, 0);
    return net_relu(n, net_add(n, v, shortcut));
}

static void resnet(struct net *n, const struct model_shape *s, const int blocks[4], int expand,
                   int (*block)(struct net *, int, int, int, int))
{
    int v = net_image(n, s->h, s->w, s->c);
    v = net_relu(n, conv_norm(n, v, 64, 7, 2, 1));
    v = net_maxpool(n, v, 3, 2, 1);
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < blocks[stage]; i++) {
            int width = 64 << stage, stride = stage > 0 && i == 0 ? 2 : 1;
            bool widens = i == 0 && (stage > 0 || expand > 1);
            int shortcut = widens ? conv_norm(n, v, width * expand, 1, stride, 1) : v;
            v = block(n, v, width, stride, shortcut);
        }
    net_softmax_loss(n, net_dense(n, net_meanpool(n, v), s->classes), s->smooth);
}

void model_resnet18(struct net *n, const struct model_shape *s)
{
    resnet(n, s, (const int[]){2, 2, 2, 2}, 1, basic);
}

void model_resnet50(struct net *n, const struct model_shape *s)
{
    resnet(n, s, (const int[]){3, 4, 6, 3}, 4, bottleneck);
}
