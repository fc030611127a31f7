/* Builders of models that stand in files of their own. */
#ifndef SAMPAN_TRAIN_MODEL_INTERNAL_H
#define SAMPAN_TRAIN_MODEL_INTERNAL_H

#include "model.h"

void model_resnet18(struct net *n, const struct model_shape *s);
void model_resnet50(struct net *n, const struct model_shape *s);
void model_movie(struct net *n, const struct model_shape *s);

#endif
