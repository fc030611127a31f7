#include "sync-internal.h"

int run_pack(struct sync_run *r, struct err *err)
{
    (void)r;
    return err_set(err, ERR_USAGE, "not yet");
}
