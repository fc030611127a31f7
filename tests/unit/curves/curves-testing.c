#include "curves-testing.h"

#include "crc.h"

void event_record(struct bytes *out, int64_t step, const struct bytes *value)
{
    cleanup_bytes struct bytes summary = {0};
    pb_bytes(&summary, 1, value->data, value->len);
    pb_double(out, 1, T0);
    pb_varint(out, 2, (uint64_t)step);
    pb_bytes(out, 5, summary.data, summary.len);
}

void tensor_value(struct bytes *out, const char *tag, const char *plugin,
                  const struct bytes *tensor)
{
    cleanup_bytes struct bytes name = {0}, metadata = {0};
    pb_text(&name, 1, plugin);
    pb_bytes(&metadata, 1, name.data, name.len);
    pb_text(out, 1, tag);
    pb_bytes(out, 9, metadata.data, metadata.len);
    pb_bytes(out, 8, tensor->data, tensor->len);
}

void scalar_record(struct bytes *out, enum event_format format, int64_t step, const char *tag,
                   float x)
{
    cleanup_bytes struct bytes value = {0};
    if (format == EVENTS_TENSORBOARD) {
        pb_text(&value, 1, tag);
        pb_float(&value, 2, x);
        event_record(out, step, &value);
    } else {
        pb_varint(&value, 1, (uint64_t)step);
        pb_text(&value, 2, tag);
        pb_varint(&value, 3, (uint64_t)(T0 * 1000));
        pb_float(&value, 4, x);
        pb_bytes(out, 1, value.data, value.len);
    }
}

void add_record(struct bytes *out, enum event_format format, const struct bytes *message)
{
    size_t at = out->len;
    bool sums = format == EVENTS_TENSORBOARD;
    pb_fixed(out, message->len, 8);
    if (sums)
        pb_fixed(out, crc32c_masked(out->data + at, 8), 4);
    bytes_add(out, message->data, message->len);
    if (sums)
        pb_fixed(out, crc32c_masked(message->data, message->len), 4);
}

void add_scalar(struct bytes *out, enum event_format format, int64_t step, const char *tag, float x)
{
    cleanup_bytes struct bytes message = {0};
    scalar_record(&message, format, step, tag, x);
    add_record(out, format, &message);
}
