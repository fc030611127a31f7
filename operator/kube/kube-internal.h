/* What the files of this module share. */
#ifndef SAMPAN_OPERATOR_KUBE_INTERNAL_H
#define SAMPAN_OPERATOR_KUBE_INTERNAL_H

#include "kube.h"

int kube_read_file(const char *path, struct bytes *ret, struct err *err);
void kube_trimmed(struct secret *ret, const char *text, size_t len);

#endif
