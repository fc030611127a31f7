/* Records as their writers make them. */
#ifndef CURVES_TESTING_H
#define CURVES_TESTING_H

#include "protobuf.h"
#include "records.h"

#define T0 1700000000.0

/* A message alone; add_…: as a record in its frame. */
void scalar_record(struct bytes *out, enum event_format format, int64_t step, const char *tag,
                   float x);
void add_scalar(struct bytes *out, enum event_format format, int64_t step, const char *tag,
                float x);
void add_record(struct bytes *out, enum event_format format, const struct bytes *message);
/* An Event whose summary has this one Value; a Value that is a tensor of a plugin. */
void event_record(struct bytes *out, int64_t step, const struct bytes *value);
void tensor_value(struct bytes *out, const char *tag, const char *plugin,
                  const struct bytes *tensor);

#endif
