/* What services that give credentials answer: STS in XML, a metadata service in JSON. The first
 * byte picks the parser. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "creds-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct creds c = {0};
    struct err err = {0};
    size_t len = size - 1;
    char *text = malloc(len ? len : 1); /* exactly so long, so that a byte read past it is seen */

    memcpy(text, data + 1, len);
    int rc = data[0] & 1 ? sts_parse(&c, text, len, &err)
                         : metadata_parse(&c, "the fuzzer", text, len, &err);
    assert(rc == 0 ? c.access_key && c.secret.text : err.msg[0] && err.class != ERR_BUG);
    creds_release(&c);
    free(text);
    return 0;
}
