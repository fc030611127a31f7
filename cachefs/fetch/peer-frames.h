/*
 * The answer to POST /v1/samples:batch as bytes (docs/formats/peer.md): what the server writes and
 * a mount parses. All integers are little-endian.
 *
 *   stream head, 16 bytes: magic, count of frames, 8 bytes 0
 *   frame head, 16 bytes:  status, length, CRC-32C, index in the request; then so many bytes
 */
#ifndef SAMPAN_FETCH_PEER_FRAMES_H
#define SAMPAN_FETCH_PEER_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define PEER_TYPE        "application/vnd.sampan.samples"
#define PEER_MAGIC       0x31425053u /* "SPB1" */
#define PEER_HEAD        16u         /* bytes of either head */
#define PEER_SAMPLES_MAX 64u         /* of a request */
#define PEER_BYTES_MAX   (8u << 20)  /* of the samples of an answer */
#define PEER_TEXT_MAX    4096u       /* of an error */

enum peer_status {
    PEER_HERE,   /* the bytes follow */
    PEER_ABSENT, /* nothing follows */
    PEER_ERROR,  /* the reason follows, as text */
};

struct peer_frame {
    uint32_t status, len, crc, index;
};
void peer_stream_head(unsigned char out[PEER_HEAD], uint32_t count);
void peer_frame_head(unsigned char out[PEER_HEAD], const struct peer_frame *f);

/* A parser of a stream that comes in any pieces. Nothing in it is believed: heads out of order, too
 * many frames, unknown statuses and lengths that `begin` refuses end it with ERR_CORRUPT. */
struct peer_frames {
    /* -1: the frame is not as it was asked for. */
    int (*begin)(void *arg, const struct peer_frame *f, struct err *err);
    void (*bytes)(void *arg, const struct peer_frame *f, uint32_t off, const void *data,
                  size_t len);
    void (*end)(void *arg, const struct peer_frame *f);
    void *arg;
    uint32_t count; /* of frames that were asked for */
    /* the parser's own; begin with 0 */
    uint32_t next, got;
    bool headed, in_frame;
    size_t n_head;
    unsigned char head[PEER_HEAD];
    struct peer_frame frame;
};
int peer_frames_take(struct peer_frames *p, const void *data, size_t len, struct err *err);
bool peer_frames_complete(const struct peer_frames *p);

#endif
