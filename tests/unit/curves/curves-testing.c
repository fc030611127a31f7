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

static void add_le(struct bytes *out, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        bytes_add_char(out, (char)(v >> 8 * i));
}

static void add_sum(struct bytes *out, const char *data, size_t len)
{
    uint32_t c = crc32c(0, data, len);
    add_le(out, (c >> 15 | c << 17) + 0xa282ead8u, 4);
}

void add_record(struct bytes *out, enum event_format format, const struct bytes *message)
{
    size_t at = out->len;
    char head[8];
    add_le(out, message->len, 8);
    for (int i = 0; i < 8; i++)
        head[i] = out->data[at + (size_t)i];
    if (format == EVENTS_TENSORBOARD)
        add_sum(out, head, 8);
    bytes_add(out, message->data, message->len);
    if (format == EVENTS_TENSORBOARD)
        add_sum(out, message->data, message->len);
}

void add_scalar(struct bytes *out, enum event_format format, int64_t step, const char *tag, float x)
{
    cleanup_bytes struct bytes message = {0};
    scalar_record(&message, format, step, tag, x);
    add_record(out, format, &message);
}
