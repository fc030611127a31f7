/* The answer of another machine: the first byte says how many samples were asked for, the second
 * how large the pieces are in which it comes. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "peer-frames.h"

struct state {
    uint32_t begun, ended, off;
    unsigned char here[4096]; /* what a caller has room for */
};

static int on_begin(void *arg, const struct peer_frame *f, struct err *err)
{
    struct state *s = arg;
    assert(f->index == s->begun && s->begun == s->ended);
    s->begun++;
    s->off = 0;
    return f->len > sizeof s->here ? err_set(err, ERR_CORRUPT, "too long") : 0;
}

static void on_bytes(void *arg, const struct peer_frame *f, uint32_t off, const void *data,
                     size_t len)
{
    struct state *s = arg;
    assert(off == s->off && off + len <= f->len);
    memcpy(s->here + off, data, len);
    s->off += (uint32_t)len;
}

static void on_end(void *arg, const struct peer_frame *f)
{
    struct state *s = arg;
    assert(s->off == f->len);
    s->ended++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct state s = {0};
    struct err err = {0};
    if (size < 2)
        return 0;
    struct peer_frames p = {
        .begin = on_begin, .bytes = on_bytes, .end = on_end, .arg = &s, .count = data[0]};
    size_t piece = data[1] ? data[1] : size;
    int rc = 0;
    for (size_t at = 2; at < size && rc == 0; at += piece)
        rc = peer_frames_take(&p, data + at, size - at < piece ? size - at : piece, &err);
    assert(s.ended <= data[0]);
    assert(!peer_frames_complete(&p) || s.ended == data[0]);
    return 0;
}
