/*
 * Inside of predict:
 *
 *   predictor.c   the model: numbers in, numbers out; one batch at a time
 *   question.c    what a request asks, and what it is answered
 *   predict.c     HTTP, options, the program
 */
#ifndef SAMPAN_PREDICT_INTERNAL_H
#define SAMPAN_PREDICT_INTERNAL_H

#include <stddef.h>

#include "backend.h"
#include "checkpoint.h"
#include "metrics.h"
#include "net.h"
#include "predict.h"
#include "sync.h"

struct predictor {
    struct checkpoint_about about;
    char *place; /* the checkpoint's folder */
    enum model_data kind;
    size_t batch;
    struct backend *b;
    struct lock lock; /* the net */
    struct net *n;
    counter requests, refused, predictions;
};

int predictor_open(struct predictor **ret, const struct predict_options *o, struct log *log,
                   struct err *err);
void predictor_close(struct predictor *p);

/* `in->n` samples, any number; `out` has predictor_outputs() numbers for each. Any thread. */
int predictor_run(struct predictor *p, const struct net_batch *in, float *out, struct err *err);
size_t predictor_outputs(const struct predictor *p);
size_t predictor_floats(const struct predictor *p); /* of one picture */

/* Answers the body of POST /v1/predict. Errors are the caller's: ERR_USAGE. */
int question_answer(struct predictor *p, const char *type, const void *body, size_t len,
                    struct bytes *out, struct err *err);
/* GET /v1/model */
void question_about(const struct predictor *p, struct bytes *out);

#endif
