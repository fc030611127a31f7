/*
 * A decision about one object, compared with what stands in tests/unit/operator/golden/NAME.txt.
 * With SAMPAN_WRITE_GOLDEN set the file is written.
 */
#ifndef SAMPAN_TEST_OPERATOR_GOLDEN_H
#define SAMPAN_TEST_OPERATOR_GOLDEN_H

#include "controller.h"

extern const struct operator_config golden_config;

void golden_check(const struct controller *c, const struct operator_config *config,
                  const char *name, const char *view);
/* The same of any text. */
void golden_compare(const char *name, const char *text);

#endif
