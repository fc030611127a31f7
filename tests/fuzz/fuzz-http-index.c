/* Index pages and manifests. Every key that comes out is non-empty and lies in the input's memory
 * of its own; from an index page it is one level below the folder. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "object.h"

static int one_level(void *arg, const struct list_item *item, struct err *err)
{
    (void)err;
    size_t prefix = strlen(arg);
    assert(item->key_len > prefix && memcmp(item->key, arg, prefix) == 0);
    const char *slash = memchr(item->key + prefix, '/', item->key_len - prefix);
    assert(!slash || (size_t)(slash - item->key) == item->key_len - 1);
    return 0;
}

static int any(void *arg, const struct list_item *item, struct err *err)
{
    (void)err;
    assert(item->key_len > 0 && strlen(item->etag) < 160);
    *(size_t *)arg += 1;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct store *index, *manifest;
    struct bytes token = {0};
    struct err err = {0};
    char folder[] = "d/";
    size_t n = 0;
    if (!index && (store_open(&index, "http://h:80/set", NULL, &err) ||
                   store_open(&manifest, "http://h/m.tsv", NULL, &err)))
        return 0;
    store_parse_list(index, folder, data, size, one_level, folder, &token, &err);
    store_parse_list(manifest, "", data, size, any, &n, &token, &err);
    bytes_release(&token);
    return 0;
}
