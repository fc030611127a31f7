/* What must hold whatever the input is; who finds that it does not says what, and where. */
#ifndef SAMPAN_FUZZ_MUST_H
#define SAMPAN_FUZZ_MUST_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define must(ok) must_be(ok, #ok, __LINE__)
static inline void must_be(bool ok, const char *what, int line)
{
    if (ok)
        return;
    fprintf(stderr, "line %d: not so: %s\n", line, what);
    abort();
}

#endif
