/* The recommender: embeddings of what is known of a user and of a movie, a layer over each side,
 * and the cosine of the two as the rating. */
#include "model-internal.h"

#define SCALE 5 /* a rating's largest */

static int feature(struct net *n, const struct model_shape *s, enum movie_ids id, int width,
                   int dim)
{
    return net_relu(n, net_dense(n, net_embed(n, s->rows[id], width, dim), dim));
}

void model_movie(struct net *n, const struct model_shape *s)
{
    int user[] = {feature(n, s, MOVIE_USER, 1, 32), feature(n, s, MOVIE_GENDER, 1, 16),
                  feature(n, s, MOVIE_AGE, 1, 16), feature(n, s, MOVIE_JOB, 1, 16)};
    int movie[] = {feature(n, s, MOVIE_ID, 1, 32),
                   feature(n, s, MOVIE_GENRES, MOVIE_GENRES_MAX, 32),
                   feature(n, s, MOVIE_TITLE, MOVIE_TITLE_MAX, 32)};
    int u = net_relu(n, net_dense(n, net_concat(n, user, 4), 200));
    int m = net_relu(n, net_dense(n, net_concat(n, movie, 3), 200));
    net_square_loss(n, net_cosine(n, u, m, SCALE));
}
