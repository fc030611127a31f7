/* Inside owner.c and rendezvous.c. */
#ifndef SAMPAN_ORDER_OWNER_INTERNAL_H
#define SAMPAN_ORDER_OWNER_INTERNAL_H

#include <stdint.h>

/* The partition with the best draw for the key. A partition of weight 0 gets nothing (unless all
 * have it). */
uint32_t owner_rendezvous(uint64_t key, uint32_t partitions, const uint64_t *weights);

#endif
