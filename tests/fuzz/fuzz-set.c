/* Set files, and URIs as users write them: opened, printed, a request built for a key. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "object.h"

static void open_uri(const char *uri, const char *key, size_t key_len)
{
    struct store_conf conf = {.anonymous = true};
    struct store *s;
    struct http_req request;
    struct err err = {0};

    if (strncmp(uri, "file", 4) == 0 || store_open(&s, uri, &conf, &err))
        return;
    if (store_req_get(s, key, key_len, 5, 10, "etag", &request, &err) == 0)
        http_req_release(&request);
    store_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct set set;
    struct err err = {0};

    if (!size)
        return 0;
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (data[0] & 1) {
        if (set_parse(&set, "set.json", text, size - 1, &err) == 0)
            set_release(&set);
    } else {
        const char *line = strchr(text, '\n');
        open_uri(text, line ? line + 1 : "key", line ? strlen(line + 1) : 3);
    }
    free(text);
    return 0;
}
