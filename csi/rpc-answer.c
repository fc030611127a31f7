/* One call from bytes to bytes: what is left of remote calls without the network. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "rpc.h"

const char *rpc_code_name(enum rpc_code code)
{
    static const char *const names[] = {
        [RPC_OK] = "OK",
        [RPC_CANCELLED] = "CANCELLED",
        [RPC_UNKNOWN] = "UNKNOWN",
        [RPC_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
        [RPC_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
        [RPC_NOT_FOUND] = "NOT_FOUND",
        [RPC_ALREADY_EXISTS] = "ALREADY_EXISTS",
        [RPC_PERMISSION_DENIED] = "PERMISSION_DENIED",
        [RPC_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
        [RPC_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
        [RPC_ABORTED] = "ABORTED",
        [RPC_OUT_OF_RANGE] = "OUT_OF_RANGE",
        [RPC_UNIMPLEMENTED] = "UNIMPLEMENTED",
        [RPC_INTERNAL] = "INTERNAL",
        [RPC_UNAVAILABLE] = "UNAVAILABLE",
        [RPC_UNAUTHENTICATED] = "UNAUTHENTICATED",
    };
    size_t i = (size_t)code;
    return i < sizeof names / sizeof names[0] && names[i] ? names[i] : "?";
}

enum rpc_code rpc_fail(struct err *err, enum rpc_code code, const char *fmt, ...)
{
    cleanup_free char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        text = NULL;
    va_end(ap);
    err_set(err, ERR_FAILED, "%s", text ? text : fmt);
    return code;
}

enum rpc_code rpc_code_of(const struct err *err)
{
    if (err->sys == ETIMEDOUT)
        return RPC_DEADLINE_EXCEEDED;
    if (err->sys == ENOTRECOVERABLE) /* a record that is not understood (state.h) */
        return RPC_FAILED_PRECONDITION;
    switch (err->class) {
    case ERR_NOT_FOUND:
        return RPC_NOT_FOUND;
    case ERR_TRANSIENT:
        return RPC_UNAVAILABLE;
    case ERR_DENIED:
        return RPC_UNAUTHENTICATED;
    case ERR_LIMIT:
        return RPC_RESOURCE_EXHAUSTED;
    case ERR_USAGE:
        return RPC_INVALID_ARGUMENT;
    case ERR_CANCELLED:
        return RPC_ABORTED;
    default:
        return RPC_INTERNAL;
    }
}

/* --- messages in the call's memory ------------------------------------------------------------ */

static void *arena_take(void *arena, size_t size)
{
    return arena_alloc(arena, size);
}

static void arena_keep(void *arena, void *p)
{
    (void)arena;
    (void)p;
}

static ProtobufCMessage *unpack(const ProtobufCMessageDescriptor *d, struct arena *arena,
                                const void *data, size_t len)
{
    ProtobufCAllocator in_arena = {arena_take, arena_keep, arena};
    return protobuf_c_message_unpack(d, &in_arena, len, data);
}

enum rpc_code rpc_answer(const struct rpc_method *m, void *arg, const void *request, size_t len,
                         struct bytes *ret, const char **ret_subject, struct arena *arena,
                         struct err *err)
{
    struct rpc_call call = {.arena = arena,
                            .deadline_ns = clock_mono_ns() + m->deadline_s * NS_PER_S};
    const ProtobufCMessage *message = unpack(m->request, arena, request, len);
    if (!message)
        return rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "%s: these %zu bytes are no %s (is the client "
                        "one of CSI version 1?)",
                        m->name, len, m->request->short_name);
    ProtobufCMessage *response = arena_alloc(arena, m->response->sizeof_message);
    protobuf_c_message_init(m->response, response);
    enum rpc_code code = m->handler(arg, &call, message, response, err);
    if (ret_subject)
        *ret_subject = call.subject;
    if (code != RPC_OK)
        return code;
    size_t size = protobuf_c_message_get_packed_size(response);
    bytes_reserve(ret, size + 1);
    ret->len = protobuf_c_message_pack(response, (uint8_t *)ret->data);
    return RPC_OK;
}
