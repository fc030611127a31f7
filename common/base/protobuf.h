/* As much of protobuf's wire format as files of events and of models need. Nobody's generated code:
 * these messages are few, large, and read a field at a time. */
#ifndef SAMPAN_BASE_PROTOBUF_H
#define SAMPAN_BASE_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

/* A number of so many bytes, the lowest first: alone, as the frames around messages have them. */
void pb_fixed(struct bytes *out, uint64_t value, int bytes);
uint64_t pb_fixed_at(const char *p, int bytes);

void pb_varint(struct bytes *out, unsigned field, uint64_t value);
void pb_double(struct bytes *out, unsigned field, double value);
void pb_float(struct bytes *out, unsigned field, float value);
void pb_bytes(struct bytes *out, unsigned field, const void *data, size_t len);
void pb_text(struct bytes *out, unsigned field, const char *text);
void pb_doubles(struct bytes *out, unsigned field, const double *x, size_t n); /* packed */
void pb_varints(struct bytes *out, unsigned field, const uint64_t *x, size_t n);

struct pb_field {
    unsigned number, type; /* type: 0 varint, 1 eight bytes, 2 bytes, 5 four bytes */
    uint64_t value;        /* of a varint */
    const char *data;
    size_t len;
};
/* Takes the next field off *data. 1, 0 at the end, -1: no such thing as a message. */
int pb_next(const char **data, size_t *len, struct pb_field *ret);
/* A message's field that is a message or a string itself; the last one counts. False: there is
 * none, and *ret is empty. */
bool pb_part(const char *data, size_t len, unsigned number, struct pb_field *ret);

#endif
