/*
 * Remote calls: a gRPC server on a unix socket, and the table of what it answers.
 *
 *   completion queue (one thread `rpc`)       workers (`rpc-worker`, as many as calls need,
 * bounded)
 *   a call comes -> its method's row  -----\
 *   its message comes ---------------------- => unpack -> row's handler -> pack, or code and text
 *   the answer has gone, the stream ended <-------------------------------/
 *
 * A handler may block. When its client goes away it still runs to its end: the repeated call finds
 * the work done. A call whose client is gone before a worker took it is not begun. `deadline_s` of
 * the row bounds the work itself; handlers pass `deadline_ns` on to whatever they wait for.
 *
 * Every call is logged (method, volume, code, time; never its fields) and counted.
 * Only rpc.c includes gRPC.
 */
#ifndef SAMPAN_CSI_RPC_H
#define SAMPAN_CSI_RPC_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "buf.h"
#include "err.h"
#include "log.h"

/* The codes of gRPC that the CSI specification uses. */
enum rpc_code {
    RPC_OK = 0,
    RPC_CANCELLED = 1,
    RPC_UNKNOWN = 2,
    RPC_INVALID_ARGUMENT = 3,
    RPC_DEADLINE_EXCEEDED = 4,
    RPC_NOT_FOUND = 5,
    RPC_ALREADY_EXISTS = 6,
    RPC_PERMISSION_DENIED = 7,
    RPC_RESOURCE_EXHAUSTED = 8,
    RPC_FAILED_PRECONDITION = 9,
    RPC_ABORTED = 10,
    RPC_OUT_OF_RANGE = 11,
    RPC_UNIMPLEMENTED = 12,
    RPC_INTERNAL = 13,
    RPC_UNAVAILABLE = 14,
    RPC_UNAUTHENTICATED = 16,
};
const char *rpc_code_name(enum rpc_code code);

/* What a handler knows of its call. */
struct rpc_call {
    struct arena *arena;  /* the request lies here, and the answer is to */
    uint64_t deadline_ns; /* of clock_mono_ns() */
    const char *subject;  /* the handler may set it: the volume, for the log */
};

/* Fills `response`, which is initialised. RPC_OK, or a code with the text in `err`. May be called
 * from many threads at once. */
typedef enum rpc_code rpc_handler(void *arg, struct rpc_call *call, const void *request,
                                  void *response, struct err *err);

struct rpc_method {
    const char *name; /* "/csi.v1.Identity/Probe" */
    const ProtobufCMessageDescriptor *request, *response;
    rpc_handler *handler;
    unsigned deadline_s;
};

/* `return rpc_fail(err, RPC_NOT_FOUND, "…")` of a handler. */
__attribute__((format(printf, 3, 4))) enum rpc_code rpc_fail(struct err *err, enum rpc_code code,
                                                             const char *fmt, ...);
/* The code for an error that came from below. */
enum rpc_code rpc_code_of(const struct err *err);

/* One call from bytes to bytes, with no server around it: what a worker does, and tests. */
enum rpc_code rpc_answer(const struct rpc_method *m, void *arg, const void *request, size_t len,
                         struct bytes *ret, const char **ret_subject, struct arena *arena,
                         struct err *err);

#define RPC_MAX_REQUEST (1u << 20)

struct rpc_conf {
    const char *endpoint; /* "unix:///PATH" */
    const struct rpc_method *const *methods;
    size_t n_methods;
    void *arg; /* of every handler */
    struct log *log;
    unsigned max_workers;
};
struct rpc_server;
/* Serves from here on. A socket that nobody answers on is replaced; anything else there is refused.
 */
int rpc_serve(struct rpc_server **ret, const struct rpc_conf *conf, struct err *err);
/* Takes no more calls, lets those under way end (at most `grace_ns`, then their clients are told),
 * waits for the workers, removes the socket. */
void rpc_stop(struct rpc_server *s, uint64_t grace_ns);
void rpc_metrics(struct rpc_server *s, struct bytes *out);

#endif
