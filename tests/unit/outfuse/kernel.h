/* The kernel's side of the device, played over a socket pair. */
#ifndef OUTFUSE_KERNEL_H
#define OUTFUSE_KERNEL_H

#include "fake-stage.h"
#include "outfuse-internal.h"

struct kernel {
    int sock; /* our end */
    int dev;  /* the front end's, which closes it */
    uint64_t unique;
    uint32_t pid; /* of the caller; 0: some */
    struct stage *stage;
    struct outfuse *front;
    struct keeper_state *state; /* of a mount that is adopted, else NULL */
    /* The last answer. */
    struct wire_out_header head;
    char body[(1u << 20) + 4096];
    size_t body_len;
};

/* A front end that was told INIT by this kernel; or one that adopts `state`, which is served. */
void kernel_start(struct kernel *k, struct stage *s);
void kernel_adopt(struct kernel *k, struct stage *s, struct keeper_state *state);
void kernel_stop(struct kernel *k);
/* kernel_start() over a stage of fake_stage(); all of both is freed. */
struct kernel *kernel_new(struct stage *s);
void kernel_free(struct kernel *k);
/* A state as a keeper gives it, its INIT answered already by a kernel that can (not) resend. */
struct keeper_state *kernel_state(bool can_resend);
void kernel_state_free(struct keeper_state *s);

/* Sends a request: `fixed`, then `rest`. Its number. */
uint64_t kernel_send(struct kernel *k, uint32_t opcode, uint64_t node, const void *fixed,
                     size_t fixed_len, const void *rest, size_t rest_len);
/* The same, laid down where a life would have read it to. */
void kernel_lay(struct keeper_request *at, uint64_t unique, uint32_t opcode, uint64_t node,
                const void *fixed, size_t fixed_len, const void *rest, size_t rest_len);
/* Takes the next answer or notification; 0 or its negative errno. */
int kernel_take(struct kernel *k);
bool kernel_silent(struct kernel *k); /* nothing to take now */
/* send + take, whose number must fit. */
int kernel_ask(struct kernel *k, uint32_t opcode, uint64_t node, const void *fixed,
               size_t fixed_len, const void *rest, size_t rest_len);
int kernel_ask_name(struct kernel *k, uint32_t opcode, uint64_t node, const void *fixed,
                    size_t fixed_len, const char *name);
/* Makes a file and gives its inode number and handle. */
uint64_t kernel_create(struct kernel *k, const char *name, uint64_t *ret_fh);

#endif
