/*
 * Rendezvous: which rank this process is, how many there are, and where rank 0 waits for them.
 *
 * From the environment of whoever started the ranks, the first that is there:
 *   PADDLE_TRAINER_ID, PADDLE_TRAINERS_NUM (or PADDLE_GLOBAL_RANK, PADDLE_GLOBAL_SIZE) and
 *     PADDLE_TRAINER_ENDPOINTS, whose first is rank 0's; else PADDLE_MASTER
 *   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT as torchrun sets them; where torchrun's agent holds
 *     that port itself (TORCHELASTIC_USE_AGENT_STORE=True), the next one
 * or from options: --trainer_id, --num_gradient_servers and --rendezvous HOST:PORT or file:///PATH
 * (rank 0 takes any free port and writes it there: one machine, tests).
 */
#ifndef SAMPAN_TRAIN_RENDEZVOUS_H
#define SAMPAN_TRAIN_RENDEZVOUS_H

#include <stdint.h>

#include "err.h"

#define RENDEZVOUS_MAX_RANKS 4096

struct rendezvous {
    uint32_t ranks, rank;
    char where[512];     /* HOST:PORT or file:///PATH; "" with one rank */
    char interface[256]; /* this rank's own address for the others; "": the one that reaches rank 0
                          */
    uint64_t timeout_ns; /* to meet */
    uint64_t answer_ns;  /* for one collective call */
};

/* `rank` and `ranks` -1, `where` NULL: not given. `get` is getenv, but for tests. */
int rendezvous_find(struct rendezvous *ret, int64_t rank, int64_t ranks, const char *where,
                    const char *(*get)(const char *name), struct err *err);
/* This rank among those of its host (LOCAL_RANK, PADDLE_LOCAL_RANK, FLAGS_selected_gpus): the GPU
 * that is its own. 0 where nobody says. */
int rendezvous_local_rank(const char *(*get)(const char *name));

#endif
