/* Set files: several sources joined into one tree. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "object.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct set set;
    struct err err = {0};
    char *text = malloc(size ? size : 1); /* exactly so long, so that a byte read past it is seen */

    memcpy(text, data, size);
    if (set_parse(&set, "set.json", text, size, &err) == 0)
        set_release(&set);
    free(text);
    return 0;
}
