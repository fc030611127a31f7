/* The volumes by which pods of one namespace get a set: a PersistentVolume of our CSI driver and
 * the claim that is bound to it and to nothing else. */
#ifndef SAMPAN_OPERATOR_BUILD_VOLUME_H
#define SAMPAN_OPERATOR_BUILD_VOLUME_H

#include "sampleset-internal.h"

/* Of the volume for a namespace; the caller frees. */
char *build_volume_name(const struct set_plan *p, const char *for_ns);

/* Both are `members` of a child. */
void build_volume(struct set_plan *p, const char *for_ns, struct bytes *out);
void build_claim(const struct set_plan *p, const char *for_ns, struct bytes *out);

/* Calls `each` for every folder of every level; none given: once, for memory. */
void build_cache_folders(const struct set_plan *p,
                         void (*each)(void *arg, const char *medium, const char *folder,
                                      int64_t mib),
                         void *arg);

#endif
