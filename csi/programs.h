/*
 * The programs that mounts run on, as copies on the host: a mount outlives the plugin's container,
 * its image and its upgrade, so nothing of it may come from there.
 *
 *   STATE/bin/VERSION-HASH/sampan          its interpreter is the copy beside it
 *                         /sampan-keeper   (static)
 *                         /ld.so, lib/…    what it is linked with
 *
 * `sampan` looks for its libraries in lib/ beside itself (an rpath with $ORIGIN), the kernel for
 * its interpreter where the program's header says: programs_copy() writes the new place there.
 */
#ifndef SAMPAN_CSI_PROGRAMS_H
#define SAMPAN_CSI_PROGRAMS_H

#include "err.h"

/* Copies `sampan` with all it needs to a folder below `state`, unless it is there already.
 * *ret_path: the copy. */
int programs_copy(const char *sampan, const char *state, char **ret_path, struct err *err);
/* Removes the copies of other versions that no process runs any more. */
void programs_clean(const char *state, const char *current);

/* Changes the place of the interpreter in a program's bytes: `data` grows. For tests. */
struct bytes;
int elf_set_interpreter(struct bytes *data, const char *path, struct err *err);
/* The interpreter that it names now, or NULL. */
const char *elf_interpreter(const struct bytes *data);

#endif
