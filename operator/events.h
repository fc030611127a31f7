/*
 * Events about objects (core/v1), told once and counted: the same words about the same object are
 * one Event, whose count is written again at most every five minutes. Its name follows from the
 * words, so that another life of the operator goes on with it.
 *
 * One that cannot be written is not kept: no worker waits for it, nor does a round fail for it. In
 * an outage the rest of the round fails as well, so it comes again, later each time, and tells the
 * event again. One that fails alone is told when next there is reason to; until then the condition
 * that goes with it says the same.
 */
#ifndef SAMPAN_OPERATOR_EVENTS_H
#define SAMPAN_OPERATOR_EVENTS_H

#include "kube.h"
#include "kinds.h"

struct events;
struct events *events_new(struct kube_client *client, const char *instance);
void events_free(struct events *e);

/* Waits for the API server. */
int event_tell(struct events *e, enum kind kind, const struct json *about, bool warning,
               const char *reason, const char *message, struct err *err);

#endif
