/* The bytes of an answer with many samples: see peer-frames.h. Pure. */
#include "peer-frames.h"

#include <string.h>

static void put32(unsigned char *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(v >> (8 * i));
}

static uint32_t get32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

void peer_stream_head(unsigned char out[PEER_HEAD], uint32_t count)
{
    memset(out, 0, PEER_HEAD);
    put32(out, PEER_MAGIC);
    put32(out + 4, count);
}

void peer_frame_head(unsigned char out[PEER_HEAD], const struct peer_frame *f)
{
    put32(out, f->status);
    put32(out + 4, f->len);
    put32(out + 8, f->crc);
    put32(out + 12, f->index);
}

static int begin_stream(struct peer_frames *p, struct err *err)
{
    if (get32(p->head) != PEER_MAGIC)
        return err_set(err, ERR_CORRUPT, "the answer is no stream of samples");
    if (get32(p->head + 4) != p->count)
        return err_set(err, ERR_CORRUPT, "the answer has %u samples, %u were asked for",
                       get32(p->head + 4), p->count);
    p->headed = true;
    return 0;
}

static int begin_frame(struct peer_frames *p, struct err *err)
{
    struct peer_frame f = {get32(p->head), get32(p->head + 4), get32(p->head + 8),
                           get32(p->head + 12)};
    if (f.index != p->next)
        return err_set(err, ERR_CORRUPT, "the answer has sample %u where %u should be", f.index,
                       p->next);
    uint32_t most = f.status == PEER_HERE    ? PEER_BYTES_MAX
                    : f.status == PEER_ERROR ? PEER_TEXT_MAX
                                             : 0;
    if (f.status > PEER_ERROR || f.len > most)
        return err_set(err, ERR_CORRUPT, "the answer has a sample of status %u with %u bytes",
                       f.status, f.len);
    if (p->begin(p->arg, &f, err))
        return -1;
    p->frame = f;
    p->in_frame = true;
    p->got = 0;
    return 0;
}

static void end_frame_if_whole(struct peer_frames *p)
{
    if (!p->in_frame || p->got < p->frame.len)
        return;
    p->in_frame = false;
    p->next++;
    p->end(p->arg, &p->frame);
}

/* Returns how much of `data` was taken, or -1. */
static int take_head(struct peer_frames *p, const void *data, size_t len, struct err *err)
{
    size_t room = PEER_HEAD - p->n_head, n = len < room ? len : room;
    memcpy(p->head + p->n_head, data, n);
    p->n_head += n;
    if (p->n_head < PEER_HEAD)
        return (int)n;
    p->n_head = 0;
    if (p->headed ? begin_frame(p, err) : begin_stream(p, err))
        return -1;
    end_frame_if_whole(p); /* it may have no bytes */
    return (int)n;
}

int peer_frames_take(struct peer_frames *p, const void *data, size_t len, struct err *err)
{
    const char *at = data;
    while (len) {
        size_t n;
        if (p->in_frame) {
            size_t left = p->frame.len - p->got;
            n = len < left ? len : left;
            p->bytes(p->arg, &p->frame, p->got, at, n);
            p->got += (uint32_t)n;
            end_frame_if_whole(p);
        } else if (peer_frames_complete(p)) {
            return err_set(err, ERR_CORRUPT, "the answer goes on after its last sample");
        } else {
            int took = take_head(p, at, len, err);
            if (took < 0)
                return -1;
            n = (size_t)took;
        }
        at += n;
        len -= n;
    }
    return 0;
}

bool peer_frames_complete(const struct peer_frames *p)
{
    return p->headed && !p->in_frame && p->next == p->count;
}
