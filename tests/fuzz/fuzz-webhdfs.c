/* WebHDFS: listings, a file's status, and exceptions. */
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
    assert(!item->folder || item->key[item->key_len - 1] == '/');
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct store *s;
    struct bytes token = {0};
    struct err err = {0};
    struct http_answer a;
    struct http_req r;
    enum store_again again;
    char folder[] = "d/";
    if (!s && store_open(&s, "webhdfs://h/set", NULL, &err))
        return 0;
    store_parse_list(s, folder, data, size, one_level, folder, &token, &err);
    http_answer_init(&a);
    if (store_parse_head(s, data, size, &a, &err) == 0)
        assert(a.content_length >= 0);
    a.status = 403;
    if (store_req_get(s, "k", 1, 0, 0, &r, &err) == 0) {
        assert(store_classify(s, &r, &a, data, size, &again, &err) == -1);
        http_req_release(&r);
    }
    bytes_release(&token);
    return 0;
}
