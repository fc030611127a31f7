/*
 * Running a program and hearing what it has to say: no shell, no descriptor but those asked for,
 * the environment as it is. With a host root the program runs in the host's namespaces, and in a
 * cgroup of its own, so that neither the end of the plugin's container nor that of its pod ends
 * what it starts.
 */
#ifndef SAMPAN_CSI_SPAWN_H
#define SAMPAN_CSI_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"

struct spawn {
    const char *program;     /* path */
    const char *const *argv; /* NULL at the end */
    const char *host_root;   /* "/proc/1/root", or "" */
    const char *cgroup;      /* its name; with a host root */
    const int *keep;         /* descriptors that it inherits, under their numbers */
    size_t n_keep;
    uint64_t deadline_ns;
    bool ends_with_us; /* SIGTERM for it when the thread that started it ends, however it does */
};
/* 0 and its exit code (128 + signal if it was killed). Both outputs are cut at 1 MiB. At the
 * deadline it gets SIGTERM, then SIGKILL, and the answer is ETIMEDOUT. */
int spawn_run(const struct spawn *s, int *ret_code, struct bytes *out, struct bytes *errors,
              struct err *err);

#endif
