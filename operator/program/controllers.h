/* The controllers of this program. */
#ifndef SAMPAN_OPERATOR_CONTROLLERS_H
#define SAMPAN_OPERATOR_CONTROLLERS_H

#include "controller.h"

/* NULL-ended. */
extern const struct controller *const controllers[];

#endif
