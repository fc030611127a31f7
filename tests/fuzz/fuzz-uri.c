/* URIs: whatever opens has a canonical form that opens again, to the same canonical form. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "object.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct store_conf conf = {.anonymous = true, .user = "me"};
    struct store *first, *second;
    struct http_req r;
    struct err err = {0};
    cleanup_free char *uri = xstrndup((const char *)data, size);
    if (store_open(&first, uri, &conf, &err)) {
        assert(err.class == ERR_USAGE);
        return 0;
    }
    assert(store_open(&second, store_uri(first), &conf, &err) == 0);
    assert(strcmp(store_uri(first), store_uri(second)) == 0);
    if (store_req_get(first, "key", 3, 1, 2, &r, NULL) == 0)
        http_req_release(&r);
    if (store_req_list(first, "", true, "", "after", &r, NULL) == 0)
        http_req_release(&r);
    store_close(first);
    store_close(second);
    return 0;
}
