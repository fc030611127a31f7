/*
 * The node's side: which volumes are staged and published here, and the sets behind them.
 *
 *   set      a mount of `sampan mount`: one owner and one cache for a set with its options and
 *            credentials, at STATE/mnt/KEY. As many volumes as name the same set share it; it is
 *            mounted for the first and ended with the last.
 *   volume   what kubelet knows: an id, a staging path, target paths; each target is a bind of
 *            the set's mount. On the staging path nothing is mounted: kubelet counts the places
 *            where it sees a staged mount, and would wait with unstaging for ever.
 *
 * Both are records on the disk, written before what they tell of is done; a call looks at the
 * machine and does what is missing. So a call that was cut off anywhere can be made again, and a
 * plugin that starts finds out what is there: it adopts what lives, mounts again what was lost
 * (with its binds) and ends what nobody names any more.
 *
 * The plugin is a third holder of each set's mount (beside keeper and owner): both killed at once
 * are a pause. What is lost all the same is mounted again; pods that see new mounts
 * (HostToContainer) go on with it.
 */
#ifndef SAMPAN_CSI_NODE_H
#define SAMPAN_CSI_NODE_H

#include <stdbool.h>

#include "buf.h"
#include "conf.h"
#include "err.h"
#include "log.h"
#include "mounter.h"

struct node_conf {
    const char *state;             /* folder for records and mount points */
    const char *run;               /* folder for credentials: in memory, root's alone */
    const char *kubelet_dir;       /* paths must lie below it; "": anywhere */
    const char *cache_dir;         /* of sets that name no cache; NULL: sampan's own default */
    struct conf_list inline_files; /* folders of the node that inline volumes may show */
    const char *node_id, *driver_name;
    struct mounter *mounter;
    const char *program; /* a copy (programs.h) that all mounts are to run on; NULL: as they are */
    struct events *events; /* where pods are told to restart; NULL: nowhere */
    struct log *log;
    void (*step)(void *arg, const char *what); /* of every change of a record; tests */
    void *step_arg;
    bool no_watch; /* tests: nothing happens by itself */
};
struct node;
int node_open(struct node **ret, const struct node_conf *conf, struct err *err);
/* Leaves all mounts as they are. */
void node_close(struct node *n);
void node_metrics(struct node *n, struct bytes *out);
/* Looks at every set once, and puts right what is not as the records say (what the watch does). */
void node_heal(struct node *n);
/* Mounts that run on another program than conf.program are handed over to it; readers notice
 * nothing. One that cannot goes on as it is. False: a call works on one, which is left for later.
 */
bool node_upgrade(struct node *n);

#endif
