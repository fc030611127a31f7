/* BOS: requests and JSON answers. */
#include "object-testing.h"

static const struct store_conf local = {.endpoint = "http://10.0.0.1:80"};

Test(bos, requests, .init = forget_environment)
{
    setenv("BCE_ACCESS_KEY_ID", "ak", 1);
    setenv("BCE_SECRET_ACCESS_KEY", "sk", 1);
    setenv("BCE_SESSION_TOKEN", "tok", 1);
    struct store *s = open_store("bos://b/p", NULL);
    struct http_req r;
    cr_assert_eq(store_req_get(s, "k", 1, 3, 4, &r, NULL), 0);
    cr_expect_str_eq(r.url.data, "https://b.bj.bcebos.com/p/k");
    cr_expect_str_eq(http_header_get(&r, "Range"), "bytes=3-6");
    cr_expect_str_eq(http_header_get(&r, "x-bce-security-token"), "tok");
    cr_expect_eq(strncmp(http_header_get(&r, "Authorization"), "bce-auth-v1/ak/", 15), 0);
    cr_expect_not_null(strstr(http_header_get(&r, "Authorization"),
                              "/1800/host;x-bce-date;x-bce-security-token/"));
    http_req_release(&r);
    cr_assert_eq(store_req_list(s, "x/", true, "", "", &r, NULL), 0);
    cr_expect_str_eq(r.url.data,
                     "https://b.bj.bcebos.com/?maxKeys=1000&delimiter=%2F&prefix=p%2Fx%2F");
    http_req_release(&r);
    cr_assert_eq(store_req_list(s, "", false, "p/m", "", &r, NULL), 0);
    cr_expect_str_eq(r.url.data, "https://b.bj.bcebos.com/?maxKeys=1000&prefix=p%2F&marker=p%2Fm");
    http_req_release(&r);
    cr_assert_eq(store_req_list(s, "", false, "", "m", &r, NULL), 0);
    cr_expect_str_eq(r.url.data, "https://b.bj.bcebos.com/?maxKeys=1000&prefix=p%2F&marker=p%2Fm");
    http_req_release(&r);
    cleanup_bytes struct bytes body = {0};
    const char *keys[] = {"a\"b"};
    cr_assert_eq(store_req_delete_many(s, keys, 1, &body, &r, NULL), 0);
    cr_expect_str_eq(body.data, "{\"objects\":[{\"key\":\"p/a\\\"b\"}]}");
    http_req_release(&r);
    struct part_tag parts[] = {{1, "aa"}};
    cr_assert_eq(store_req_multipart_end(s, "k", "u", parts, 1,
                                         &(struct object_meta){.mode = 0100640, .mark = "0a1b"},
                                         &body, &r, NULL),
                 0);
    cr_expect_str_eq(body.data, "{\"parts\":[{\"partNumber\":1,\"eTag\":\"aa\"}]}");
    cr_expect_str_eq(http_header_get(&r, "x-bce-meta-mode"), "33184");
    cr_expect_str_eq(http_header_get(&r, "x-bce-meta-sampan-upload"), "0a1b");
    http_req_release(&r);
    cr_assert_eq(store_req_delete(s, "k", 1, &r, NULL), 0);
    cr_expect(r.method == HTTP_DELETE);
    http_req_release(&r);
    store_close(s);
}

static const struct list_row lists[] = {
    {"", "{\"isTruncated\":false,\"contents\":[]}", "", "", NULL},
    {"",
     "{\"contents\":[{\"key\":\"p/"
     "a\",\"lastModified\":\"2026-11-21T13:24:12Z\",\"eTag\":\"e\",\"size\":5}],"
     "\"commonPrefixes\":[{\"prefix\":\"p/d/\"}],\"isTruncated\":true,\"nextMarker\":\"p/n\"}",
     "a 5 1795267452000000000 e\nd/ folder ? \n", "p/n", NULL},
    {"", "{\"contents\":[{\"key\":\"p/a\",\"size\":5}],\"isTruncated\":true}", "a 5 ? \n", "p/a",
     NULL},
    {"", "{\"isTruncated\":true}", "", "", "without a marker"},
    {"", "{\"contents\":[{\"key\":\"p/a\",\"size\":-5}]}", "", "", "size"},
    {"", "{\"contents\":[{\"size\":5}]}", "", "", "key"},
    {"", "[]", "", "", "object"},
    {"", "<xml/>", "", "", "not JSON"},
    {"", "", "", "", "not JSON"},
};

Test(bos, parse_list, .init = forget_environment)
{
    struct store *s = open_store("bos://b/p", &local);
    check_lists(s, lists, sizeof lists / sizeof lists[0], ERR_NONE);
    store_close(s);
}

Test(bos, answers, .init = forget_environment)
{
    static const struct answer_row rows[] = {
        {200, "", ERR_NONE, AGAIN_NO},
        {404, "{\"code\":\"NoSuchKey\",\"message\":\"no\"}", ERR_NOT_FOUND, AGAIN_NO},
        {403, "{\"code\":\"SignatureDoesNotMatch\"}", ERR_DENIED, AGAIN_NO},
        {403, "{\"code\":\"InvalidSessionToken\"}", ERR_DENIED, AGAIN_CREDS},
        {503, "{\"code\":\"SlowDown\"}", ERR_TRANSIENT, AGAIN_BACKOFF},
        {500, "garbage", ERR_TRANSIENT, AGAIN_BACKOFF},
    };
    struct store *s = open_store("bos://b/p", &local);
    check_answers(s, rows, sizeof rows / sizeof rows[0]);
    cleanup_bytes struct bytes upload = {0};
    struct err err = {0};
    static const char begun[] = "{\"bucket\":\"b\",\"key\":\"k\",\"uploadId\":\"u1\"}";
    cr_expect_eq(store_parse_multipart_begin(s, begun, strlen(begun), &upload, &err), 0);
    cr_expect_str_eq(upload.data, "u1");
    cr_expect_eq(store_parse_delete_many(s, "", 0, &err), 0);
    static const char failed[] = "{\"errors\":[{\"key\":\"p/x\",\"code\":\"AccessDenied\"}]}";
    cr_expect_eq(store_parse_delete_many(s, failed, strlen(failed), &err), -1);
    cr_expect_eq(err.class, ERR_DENIED);
    store_close(s);
}

Test(bos, a_copy_may_fail_with_200, .init = forget_environment)
{
    static const struct answer_row rows[] = {
        {200, "  \n{\"eTag\":\"aa\"}", ERR_NONE, AGAIN_NO},
        {200, "", ERR_NONE, AGAIN_NO},
        {200, "  \n{\"code\":\"InternalError\",\"message\":\"no\"}", ERR_TRANSIENT, AGAIN_BACKOFF},
        {200, "{\"code\":\"NoSuchKey\",\"message\":\"no\"}", ERR_NOT_FOUND, AGAIN_NO},
    };
    struct store *s = open_store("bos://b/p", &local);
    struct http_req r;
    cr_assert_eq(store_req_copy_from(s, s, "k", "", "to", &r, NULL), 0);
    check_answers_of(s, &r, rows, sizeof rows / sizeof rows[0]);
    store_close(s);
}

static int on_part(void *arg, unsigned part, uint64_t size, const char *etag, struct err *err)
{
    char *text = arg;
    size_t len = strlen(text);
    (void)err;
    snprintf(text + len, 100 - len, "%u %llu %s;", part, (unsigned long long)size, etag);
    return 0;
}

Test(bos, parts_of_an_upload, .init = forget_environment)
{
    struct store *s = open_store("bos://b/p", &local);
    cleanup_bytes struct bytes token = {0};
    char text[100] = "";
    struct err err = {0};
    static const char page[] =
        "{\"uploadId\":\"u\",\"isTruncated\":true,\"nextPartNumberMarker\":7,\"parts\":["
        "{\"partNumber\":1,\"eTag\":\"aa\",\"size\":8},{\"partNumber\":7,\"eTag\":\"bb\",\"size\":"
        "9}]}";
    cr_expect_eq(store_parse_parts(s, page, strlen(page), on_part, text, &token, &err), 0, "%s",
                 err.msg);
    cr_expect_str_eq(text, "1 8 aa;7 9 bb;");
    cr_expect_str_eq(token.data, "&partNumberMarker=7");
    static const char bad[] = "{\"parts\":[{\"partNumber\":0,\"eTag\":\"aa\",\"size\":8}]}";
    cr_expect_eq(store_parse_parts(s, bad, strlen(bad), on_part, text, &token, &err), -1);
    store_close(s);
}
