/*
 * `sampan sync`, `rmr` and `scan` as the controller uses them, over folders (file:///…). Each file
 * and folder that comes or goes is a step of the fake machine.
 */
#ifndef SAMPAN_TEST_CSI_FAKE_STORE_H
#define SAMPAN_TEST_CSI_FAKE_STORE_H

#include "fake.h"

bool fake_store_knows(const char *verb);
int fake_store_run(struct fake *f, const char *const *argv, struct bytes *out, struct err *err);
/* Files and folders below `path`. */
size_t fake_store_count(const char *path);

#endif
