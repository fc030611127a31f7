/* What stores answer: listings (S3 XML, BOS JSON, index pages, manifests, WebHDFS), versions of an
 * object, errors, answers of multipart and batch requests. The first byte picks the store, the
 * second the parser. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "object.h"

static const char *const uris[] = {
    "s3://bucket.127.0.0.1:9000/some/prefix",
    "bos://bucket.bj.bcebos.com/prefix",
    "http://127.0.0.1:8080/set/",
    "http://127.0.0.1:8080/set/manifest.tsv",
    "webhdfs://127.0.0.1:9870/set",
};
#define N_URIS (sizeof(uris) / sizeof(uris[0]))

static int take(void *arg, const struct list_item *item, struct err *err)
{
    size_t *total = arg;

    (void)err;
    for (size_t i = 0; i < item->key_len; i++)
        *total += (unsigned char)item->key[i];
    *total += item->etag ? strlen(item->etag) : 0;
    return 0;
}

static int take_version(void *arg, const char *version, uint64_t size, const char *etag,
                        struct err *err)
{
    size_t *total = arg;

    (void)err;
    *total += strlen(version) + strlen(etag) + (size_t)size;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct store_conf conf = {.anonymous = true};
    struct store *s;
    struct err err = {0};
    struct bytes out = {0};
    size_t total = 0;

    if (size < 2 || store_open(&s, uris[data[0] % N_URIS], &conf, &err))
        return 0;
    size_t len = size - 2;
    char *body = malloc(len ? len : 1); /* exactly so long, so that a byte read past it is seen */
    memcpy(body, data + 2, len);
    switch (data[1] % 5) {
    case 0:
        if (data[1] & 32) {
            store_parse_versions(s, "k", body, len, take_version, &total, &out, &err);
            break;
        }
        store_parse_list(s, data[1] & 8 ? "class/" : "", body, len, take, &total, &out, &err);
        break;
    case 1: {
        static const int statuses[] = {301, 307, 400, 403, 404, 412, 416, 429, 500, 503};
        struct http_req request;
        struct http_answer answer;
        enum store_again again = AGAIN_NO;
        http_req_init(&request, HTTP_GET);
        http_answer_init(&answer);
        answer.status = statuses[(data[1] >> 3) % (sizeof(statuses) / sizeof(statuses[0]))];
        store_classify(s, &request, &answer, body, len, &again, &err);
        http_req_release(&request);
        break;
    }
    case 2:
        store_parse_multipart_begin(s, body, len, &out, &err);
        break;
    case 3:
        store_parse_multipart_end(s, body, len, &err);
        break;
    default:
        store_parse_delete_many(s, body, len, &err);
    }
    bytes_release(&out);
    free(body);
    store_close(s);
    return 0;
}
