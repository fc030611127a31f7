/* The wire format of protobuf, both ways. */
#include "protobuf.h"

#include <string.h>

static void raw_varint(struct bytes *out, uint64_t v)
{
    while (v >= 128) {
        bytes_add_char(out, (char)(v | 128));
        v >>= 7;
    }
    bytes_add_char(out, (char)v);
}

static void key(struct bytes *out, unsigned field, unsigned type)
{
    raw_varint(out, (uint64_t)field << 3 | type);
}

void pb_fixed(struct bytes *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        bytes_add_char(out, (char)(value >> 8 * i));
}

uint64_t pb_fixed_at(const char *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)(unsigned char)p[i] << 8 * i;
    return v;
}

static void raw_double(struct bytes *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    pb_fixed(out, bits, 8);
}

void pb_varint(struct bytes *out, unsigned field, uint64_t value)
{
    key(out, field, 0);
    raw_varint(out, value);
}

void pb_double(struct bytes *out, unsigned field, double value)
{
    key(out, field, 1);
    raw_double(out, value);
}

void pb_float(struct bytes *out, unsigned field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    key(out, field, 5);
    pb_fixed(out, bits, 4);
}

void pb_bytes(struct bytes *out, unsigned field, const void *data, size_t len)
{
    key(out, field, 2);
    raw_varint(out, len);
    bytes_add(out, data, len);
}

void pb_text(struct bytes *out, unsigned field, const char *text)
{
    pb_bytes(out, field, text, strlen(text));
}

void pb_doubles(struct bytes *out, unsigned field, const double *x, size_t n)
{
    key(out, field, 2);
    raw_varint(out, n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        raw_double(out, x[i]);
}

void pb_varints(struct bytes *out, unsigned field, const uint64_t *x, size_t n)
{
    cleanup_bytes struct bytes packed = {0};
    for (size_t i = 0; i < n; i++)
        raw_varint(&packed, x[i]);
    pb_bytes(out, field, packed.data, packed.len);
}

static int take_varint(const char **data, size_t *len, uint64_t *ret)
{
    *ret = 0;
    for (unsigned shift = 0; shift < 64 && *len > 0; shift += 7) {
        unsigned char c = (unsigned char)*(*data)++;
        --*len;
        *ret |= (uint64_t)(c & 127) << shift;
        if (c < 128)
            return 0;
    }
    return -1;
}

int pb_next(const char **data, size_t *len, struct pb_field *ret)
{
    uint64_t k, n = 0;
    if (*len == 0)
        return 0;
    if (take_varint(data, len, &k))
        return -1;
    *ret = (struct pb_field){.number = (unsigned)(k >> 3), .type = k & 7};
    if (ret->type == 0)
        return take_varint(data, len, &ret->value) ? -1 : 1;
    if (ret->type == 2 && take_varint(data, len, &n))
        return -1;
    n = ret->type == 1 ? 8 : ret->type == 5 ? 4 : n;
    if ((ret->type != 1 && ret->type != 2 && ret->type != 5) || n > *len)
        return -1;
    ret->data = *data;
    ret->len = (size_t)n;
    *data += n;
    *len -= (size_t)n;
    return 1;
}

bool pb_part(const char *data, size_t len, unsigned number, struct pb_field *ret)
{
    struct pb_field f;
    *ret = (struct pb_field){0};
    while (pb_next(&data, &len, &f) == 1)
        if (f.number == number && f.type == 2)
            *ret = f;
    return ret->data != NULL;
}
