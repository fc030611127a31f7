/*
 * The cluster's side: volumes of StorageClasses, snapshots.
 *
 * A volume made here is a record, and with `writable: "true"` a prefix of its own below the class's
 * `uri`, with a mark beside it in the store:
 *
 *   URI/NAME/                      the claim's files
 *   URI/.sampan-volumes/ID.json    says who made it, for which volume
 *
 * DeleteVolume removes a prefix only if both the record and the mark are there and agree; anything
 * else it leaves. Of a set that is read it removes the record alone. A user's bucket is never
 * touched.
 *
 * A snapshot is a version of the set's catalog, kept as a file below `catalogs` (an attribute: a
 * folder in a store that the nodes reach), or in the state folder where both services run in one
 * process.
 */
#ifndef SAMPAN_CSI_CONTROLLER_H
#define SAMPAN_CSI_CONTROLLER_H

#include "err.h"
#include "log.h"
#include "mounter.h"

struct controller_conf {
    const char *state, *run;
    const char *cache_dir; /* whose disk GetCapacity tells of; NULL: sampan's default */
    const char *driver_name;
    struct mounter *mounter;
    struct log *log;
};
struct controller;
int controller_open(struct controller **ret, const struct controller_conf *conf, struct err *err);
void controller_close(struct controller *c); /* NULL is fine */

#endif
