/*
 * Models: what a name makes of a net.
 *
 *   softmax, mlp         pictures, flattened
 *   resnet18, resnet50   pictures, NHWC (He et al. 2015; stride in the 3x3 window; the last scale
 *                        of each block starts at 0)
 *   movie                the recommender of Paddle's book: user and movie as embeddings, fused, and
 *                        the cosine between them times 5 as the rating
 */
#ifndef SAMPAN_TRAIN_MODEL_H
#define SAMPAN_TRAIN_MODEL_H

#include "net.h"

/* The ids of the movie model, in order. */
enum movie_ids {
    MOVIE_USER,
    MOVIE_GENDER,
    MOVIE_AGE,
    MOVIE_JOB,
    MOVIE_ID,
    MOVIE_GENRES, /* several of a row */
    MOVIE_TITLE,  /* several words */
    N_MOVIE_IDS,
};
#define MOVIE_GENRES_MAX 6
#define MOVIE_TITLE_MAX  15

#define MODEL_IMAGE_MAX  4096 /* height and width */
#define MODEL_HIDDEN_MAX (1 << 20)
#define MODEL_CHANNELS   3

struct model_shape {
    int h, w, c, classes;  /* of pictures */
    int rows[N_MOVIE_IDS]; /* of each embedding: ids are below it */
    float smooth;          /* label smoothing */
    int hidden;            /* of mlp: two layers of so many */
};

enum model_data { MODEL_PICTURES, MODEL_RATINGS };
/* What a model reads, or -1: no model of this name (the error lists them). */
int model_data(const char *name, struct err *err);
int model_build(struct net *n, const char *name, const struct model_shape *s, struct err *err);

#endif
