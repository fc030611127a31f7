/*
 * predict: a trained model behind HTTP, for the replicas of a serving ReplicaSet. It has no state
 * but the checkpoint that it was started with, so any replica answers as any other.
 *
 *   POST /v1/predict   a JPEG or a PNG (image/jpeg, image/png), or {"instances":[…]}
 *                      (application/json): of pictures a row of height * width * 3 integers (RGB,
 *                      0 to 255) each; of the recommender an object {"user":1,"movie":1193,
 *                      "gender":"F","age":1,"job":10,"title":"…","genres":"Drama|War"} each, as
 *                      MovieLens has them
 *                      -> {"predictions":[{"label","class","score","scores":[…]} | {"rating"}]}
 *   GET /v1/model      what it is: model, checkpoint, shape, classes
 *   GET /healthz /readyz /metrics
 * (HEAD: the same without the body.)
 *
 * A picture goes the way of --test_data: the shorter side resized, the middle cropped, normalised.
 * With --ema it is the average of the weights that judges. An error is {"error":"…"}, which says
 * where in the request, and a status of 4xx; 503 if its body has no room beside those of others.
 */
#ifndef SAMPAN_PREDICT_H
#define SAMPAN_PREDICT_H

#include <signal.h>
#include <stdint.h>

#include "program.h"

struct predict_options {
    const char *checkpoint, *listen, *device, *precision;
    int64_t threads, batch;
    uint64_t request_timeout;
    struct program_log log;
};
extern const struct program_about predict_about;

/* Serves until one of `ends` comes. */
int predict_run(const struct predict_options *o, const sigset_t *ends, struct err *err);

#endif
