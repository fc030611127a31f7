/* The generated messages of csi.proto under shorter names: PB(Volume), PB_INIT(VOLUME),
 * PB_OF(volume). */
#ifndef SAMPAN_CSI_PB_H
#define SAMPAN_CSI_PB_H

#include "csi.pb-c.h"

#define PB(name)      Csi__V1__##name
#define PB_INIT(name) CSI__V1__##name##__INIT
#define PB_OF(name)   (&csi__v1__##name##__descriptor)

/* A message in a call's memory, initialised. */
#define PB_NEW(arena, type, init)                            \
    __extension__({                                          \
        PB(type) *new_ = arena_alloc((arena), sizeof *new_); \
        *new_ = (PB(type))PB_INIT(init);                     \
        new_;                                                \
    })

/* The answer to "what can this service do?": one capability for each number of `types`. */
#define PB_CAPABILITIES(arena, response, message, init, types)                             \
    do {                                                                                   \
        size_t n_ = sizeof(types) / sizeof(types)[0];                                      \
        (response)->capabilities = arena_alloc((arena), n_ * sizeof(void *));              \
        for (; (response)->n_capabilities < n_; (response)->n_capabilities++) {            \
            PB(message) *c_ = PB_NEW(arena, message, init);                                \
            c_->rpc = PB_NEW(arena, message##__RPC, init##__RPC);                          \
            c_->rpc->type = (PB(message##__RPC__Type))(types)[(response)->n_capabilities]; \
            (response)->capabilities[(response)->n_capabilities] = c_;                     \
        }                                                                                  \
    } while (0)

#endif
