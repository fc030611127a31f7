/* A secret in a file: one line, as a Secret of Kubernetes or an editor leaves it. */
#ifndef SAMPAN_BASE_SECRET_FILE_H
#define SAMPAN_BASE_SECRET_FILE_H

#include "err.h"
#include "log.h"

#define SECRET_FILE_MAX 4096

/* Without the blanks and line ends behind it. What was read is wiped from the stack. Errors begin
 * with the file's name. */
int secret_read(struct secret *ret, const char *file, struct err *err);

#endif
