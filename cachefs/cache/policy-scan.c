/*
 * Does a newcomer get in when the cache is full? With epochs that are permutations no policy beats
 * keeping a fixed set: whatever is thrown out for the newcomer would have been read once in this
 * epoch too. So a full cache keeps what it has and the newcomer is served past it. Only pinned
 * newcomers (this node's share) make room, and only where units lie unread for long; units that
 * were unpinned have their last use cleared, so they count as such at once. Any newcomer is better
 * than units that nobody wants: those that were left.
 */
#include "policy-internal.h"

#include "cache.h"

enum admission policy_scan_admit(const struct newcomer *n)
{
    if (n->fits)
        return ADMIT;
    return n->pinned || n->left ? ADMIT_LATER : ADMIT_NEVER;
}

bool policy_scan_goes(bool pinned, uint32_t minutes)
{
    return !pinned && minutes >= CACHE_IDLE_MINUTES;
}
