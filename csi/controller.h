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
 * A snapshot is a version of the set's catalog, kept as a file in the state folder, and where
 * `catalogs` is given (an attribute: a folder in a store that the nodes reach) in a folder of the
 * snapshot's own below that:
 *
 *   CATALOGS/ID-TOKEN/DIGEST
 *
 * It goes with the last of the snapshot and the volumes made from it.
 *
 * Each is a record before anything is made, and says so when all of it is: a call that was cut off
 * anywhere can be made again, and leaves nothing that no record speaks of.
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
    void (*step)(void *arg, const char *what); /* of every change of a record; tests */
    void *step_arg;
};
struct controller;
int controller_open(struct controller **ret, const struct controller_conf *conf, struct err *err);
void controller_close(struct controller *c); /* NULL is fine */

#endif
