/* Frames of the wire: made, measured, checked. Structures lie there as they do in memory. */
#include <assert.h>
#include <endian.h>
#include <string.h>

#include "crc.h"
#include "ps-wire.h"

_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "structures are sent as they are");
_Static_assert(sizeof(struct ps_hello) == 120 && sizeof(struct ps_shape) == 104 &&
                   sizeof(struct ps_push) == 40 && sizeof(struct ps_part) == 24,
               "no holes");

struct head {
    uint32_t magic;
    uint16_t kind, zero;
    uint32_t len, sum;
};

size_t ps_begin(struct bytes *out, enum ps_kind kind)
{
    size_t begun = out->len;
    struct head h = {.magic = PS_MAGIC, .kind = (uint16_t)kind};
    bytes_add(out, &h, sizeof h);
    return begun;
}

void ps_end(struct bytes *out, size_t begun)
{
    struct head h;
    size_t len = out->len - begun - sizeof h;
    assert(len <= PS_MAX);
    memcpy(&h, out->data + begun, sizeof h);
    h.len = (uint32_t)len;
    h.sum = crc32c(0, out->data + begun + sizeof h, len);
    memcpy(out->data + begun, &h, sizeof h);
}

void ps_frame(struct bytes *out, enum ps_kind kind, const void *payload, size_t len)
{
    size_t begun = ps_begin(out, kind);
    if (len)
        bytes_add(out, payload, len);
    ps_end(out, begun);
}

int64_t ps_head(const void *head, size_t max, enum ps_kind *kind)
{
    struct head h;
    memcpy(&h, head, sizeof h);
    if (h.magic != PS_MAGIC || h.zero || h.kind < PS_HELLO || h.kind >= PS_KINDS || h.len > max)
        return -1;
    *kind = (enum ps_kind)h.kind;
    return h.len;
}

int ps_check(const void *head, const void *payload, size_t len)
{
    struct head h;
    memcpy(&h, head, sizeof h);
    return crc32c(0, payload, len) == h.sum ? 0 : -1;
}

const void *ps_take(struct ps_in *in, size_t len)
{
    if (in->bad || in->left < len) {
        in->bad = 1;
        return NULL;
    }
    const void *ret = in->at;
    in->at += len;
    in->left -= len;
    return ret;
}

void ps_copy(struct ps_in *in, void *to, size_t len)
{
    const void *p = ps_take(in, len);
    if (p)
        memcpy(to, p, len);
    else
        memset(to, 0, len);
}

uint32_t ps_u32(struct ps_in *in)
{
    uint32_t n;
    ps_copy(in, &n, sizeof n);
    return n;
}
