/* What the files of this folder share. */
#ifndef SAMPAN_DEVICE_INTERNAL_H
#define SAMPAN_DEVICE_INTERNAL_H

#include "buf.h"
#include "device.h"

void mount_options(const struct mount_conf *conf, bool helper, struct bytes *ret);
/* Runs the helper to its end (no shell); what it printed becomes the error. */
int mount_run_helper(const char *const argv[], const char *what, struct err *err);

#endif
