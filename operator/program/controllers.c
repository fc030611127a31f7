/* Which controllers sampan-operator runs. */
#include "controllers.h"

#include <stddef.h>

const struct controller *const controllers[] = {&sampleset_controller, &samplejob_controller,
                                                &paddlejob_controller, &trainingjob_controller,
                                                NULL};
