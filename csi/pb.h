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

#endif
