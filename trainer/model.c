/* The models by name, and the plain ones. */
#include <string.h>

#include "model-internal.h"

static void softmax(struct net *n, const struct model_shape *s)
{
    net_softmax_loss(n, net_dense(n, net_image(n, s->h, s->w, s->c), s->classes), s->smooth);
}

static void mlp(struct net *n, const struct model_shape *s)
{
    int v = net_image(n, s->h, s->w, s->c);
    v = net_relu(n, net_dense(n, v, s->hidden));
    v = net_relu(n, net_dense(n, v, s->hidden));
    net_softmax_loss(n, net_dense(n, v, s->classes), s->smooth);
}

static const struct {
    const char *name;
    enum model_data data;
    void (*build)(struct net *n, const struct model_shape *s);
    int smallest; /* picture */
} models[] = {
    {"softmax", MODEL_PICTURES, softmax, 1},
    {"mlp", MODEL_PICTURES, mlp, 1},
    {"resnet18", MODEL_PICTURES, model_resnet18, 32},
    {"resnet50", MODEL_PICTURES, model_resnet50, 32},
    {"movie", MODEL_RATINGS, model_movie, 0},
    {"recommender", MODEL_RATINGS, model_movie, 0},
};
#define N_MODELS (sizeof models / sizeof models[0])

static size_t find(const char *name)
{
    size_t i = 0;
    while (i < N_MODELS && strcmp(models[i].name, name) != 0)
        i++;
    return i;
}

int model_data(const char *name, struct err *err)
{
    size_t i = find(name);
    if (i == N_MODELS)
        return err_set(err, ERR_USAGE,
                       "--model: %s: want softmax, mlp, resnet18, resnet50 or movie (recommender)",
                       name);
    return models[i].data;
}

int model_build(struct net *n, const char *name, const struct model_shape *s, struct err *err)
{
    if (model_data(name, err) < 0)
        return -1;
    size_t i = find(name);
    if (models[i].data == MODEL_PICTURES &&
        (s->h < models[i].smallest || s->w < models[i].smallest))
        return err_set(err, ERR_USAGE, "--image: %dx%d: %s wants at least %dx%d", s->h, s->w, name,
                       models[i].smallest, models[i].smallest);
    if (models[i].data == MODEL_PICTURES && s->c != MODEL_CHANNELS) /* all readers make these */
        return err_set(err, ERR_USAGE, "pictures of %d channels: want %d (red, green and blue)",
                       s->c, MODEL_CHANNELS);
    if (models[i].data == MODEL_PICTURES && s->classes < 2)
        return err_set(err, ERR_USAGE,
                       "%d class%s: want at least 2 (folders of pictures below the data's folder)",
                       s->classes, s->classes == 1 ? "" : "es");
    models[i].build(n, s);
    return 0;
}
