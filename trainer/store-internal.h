/* What the two sides of the store share: frames, and the serving side. */
#ifndef SAMPAN_TRAIN_STORE_INTERNAL_H
#define SAMPAN_TRAIN_STORE_INTERNAL_H

#include <stdbool.h>

#include "buf.h"
#include "store.h"

#define STORE_KEY_MAX   512
#define STORE_VALUE_MAX (1u << 20)
#define STORE_HEAD      13

enum store_op {
    STORE_HELLO = 1, /* client: I am this rank */
    STORE_SET,
    STORE_GET,
    STORE_BYE,
    STORE_VALUE,  /* server: the answer to GET */
    STORE_DONE,   /* server: the answer to HELLO and SET */
    STORE_DEAD,   /* server: this rank died */
    STORE_WRONG,  /* server: no such rank, or it is here already; then it hangs up */
    STORE_STOP,   /* client: I was asked to stop; server, to all: this rank was */
    STORE_ABSENT, /* client: who is waited for? server: these, as text; "" if none */
    STORE_WAITS,  /* client: I wait in a call, again and again while I do */
    STORE_STILL,  /* client: whom do I wait for in vain? server, to all: this rank, which stands
                     still; or to the one who asked: NOBODY */
};

#define NOBODY UINT32_MAX /* no rank's number */

struct store_frame {
    enum store_op op;
    uint32_t rank;
    const char *key, *value;
    size_t key_len, value_len;
};

void store_frame_add(struct bytes *out, enum store_op op, uint32_t rank, const char *key,
                     size_t key_len, const void *value, size_t value_len);
/* Bytes of the first frame in `data`, 0 if it is not whole yet, -1 if it is none. */
long store_frame_parse(const char *data, size_t len, struct store_frame *ret);

struct store_server;
/* Serves on a socket that listens, on a thread of its own; takes the descriptor. */
int store_serve(struct store_server **ret, int listener, uint32_t ranks, struct err *err);
/* Ends when all ranks have said good bye or died, or after `wait_ns`. */
void store_serve_end(struct store_server *s, uint64_t wait_ns);

#endif
