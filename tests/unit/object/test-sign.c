/* Signatures against the examples that the services publish. */
#include <criterion/criterion.h>
#include <string.h>

#include "hash.h"
#include "sign-internal.h"

#define SUITE_TIME 1440938160 /* 2015-08-30T12:36:00Z */
#define S3_TIME    1369353600 /* 2013-05-24T00:00:00Z */
#define BCE_TIME   1430123029 /* 2015-04-27T08:23:49Z */

static void expect_signature(const struct http_req *r, const char *names, const char *signature)
{
    const char *auth = http_header_get(r, "Authorization");
    cr_assert_not_null(auth);
    const char *got_names = strstr(auth, "SignedHeaders=") + strlen("SignedHeaders=");
    cr_expect(strncmp(got_names, names, strlen(names)) == 0 && got_names[strlen(names)] == ',',
              "signed headers: want %s in %s", names, auth);
    cr_expect_str_eq(strstr(auth, "Signature=") + strlen("Signature="), signature);
}

struct suite_row {
    enum http_method method;
    const char *path;
    const char *headers[3][2];
    const char *body;
    const char *token;
    const char *names;
    const char *signature;
};

static const char token[] =
    "AQoDYXdzEPT//////////"
    "wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD"
    "8YUuwthAx7mSEI/qkPpKPi/"
    "kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6"
    "q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+"
    "scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJa"
    "bIQwj2ICCR/oLxBA==";

/* The service's test suite: aws-sig-v4-test-suite. */
static const struct suite_row suite[] = {
    {HTTP_GET,
     "/",
     {{0}},
     "",
     NULL,
     "host;x-amz-date",
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {HTTP_GET,
     "/?Param1=value1",
     {{0}},
     "",
     NULL,
     "host;x-amz-date",
     "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
    {HTTP_GET,
     "/?Param2=value2&Param1=value1",
     {{0}},
     "",
     NULL,
     "host;x-amz-date",
     "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
    {HTTP_GET,
     "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
     {{0}},
     "",
     NULL,
     "host;x-amz-date",
     "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
    {HTTP_GET,
     "/%E1%88%B4",
     {{0}},
     "",
     NULL,
     "host;x-amz-date",
     "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
    {HTTP_GET,
     "/",
     {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}},
     "",
     NULL,
     "host;my-header1;my-header2;x-amz-date",
     "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
    {HTTP_POST,
     "/",
     {{0}},
     "",
     NULL,
     "host;x-amz-date",
     "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
    {HTTP_POST,
     "/",
     {{"Content-Type", "application/x-www-form-urlencoded"}},
     "Param1=value1",
     NULL,
     "content-type;host;x-amz-date",
     "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
    {HTTP_POST,
     "/",
     {{0}},
     "",
     token,
     "host;x-amz-date;x-amz-security-token",
     "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"},
};

Test(sign, v4_suite)
{
    for (size_t i = 0; i < sizeof suite / sizeof suite[0]; i++) {
        const struct suite_row *row = &suite[i];
        cleanup_secret struct secret secret = {0}, session = {0};
        static const char key[] = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        secret_set(&secret, key, strlen(key));
        secret_set(&session, row->token, row->token ? strlen(row->token) : 0);
        cleanup_http_req struct http_req r;
        http_req_init(&r, row->method);
        bytes_addf(&r.url, "https://example.amazonaws.com%s", row->path);
        for (size_t h = 0; h < 3 && row->headers[h][0]; h++)
            http_header(&r, row->headers[h][0], "%s", row->headers[h][1]);
        char digest[2 * SHA256_LEN + 1];
        sha256_hex(digest, row->body, strlen(row->body));
        struct v4_params p = {.access_key = "AKIDEXAMPLE",
                              .secret = &secret,
                              .token = &session,
                              .region = "us-east-1",
                              .service = "service",
                              .now_s = SUITE_TIME,
                              .payload = digest};
        v4_sign(&r, &p);
        expect_signature(&r, row->names, row->signature);
    }
}

/* The examples of the S3 manual, twice each: the second signature comes from the kept key. */
Test(sign, v4_s3_examples)
{
    static const struct suite_row rows[] = {
        {HTTP_GET,
         "/test.txt",
         {{"Range", "bytes=0-9"}},
         "",
         NULL,
         "host;range;x-amz-content-sha256;x-amz-date",
         "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
        {HTTP_PUT,
         "/test%24file.text",
         {{"Date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
         "Welcome to Amazon S3.",
         NULL,
         "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
         "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
        {HTTP_GET,
         "/?lifecycle",
         {{0}},
         "",
         NULL,
         "host;x-amz-content-sha256;x-amz-date",
         "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
        {HTTP_GET,
         "/?max-keys=2&prefix=J",
         {{0}},
         "",
         NULL,
         "host;x-amz-content-sha256;x-amz-date",
         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
    };
    struct v4_key cache = {0};
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        const struct suite_row *row = &rows[i / 2];
        cleanup_secret struct secret secret = {0};
        static const char key[] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        secret_set(&secret, key, strlen(key));
        cleanup_http_req struct http_req r;
        http_req_init(&r, row->method);
        bytes_addf(&r.url, "https://examplebucket.s3.amazonaws.com:443%s", row->path);
        for (size_t h = 0; h < 3 && row->headers[h][0]; h++)
            http_header(&r, row->headers[h][0], "%s", row->headers[h][1]);
        char digest[2 * SHA256_LEN + 1];
        sha256_hex(digest, row->body, strlen(row->body));
        struct v4_params p = {.access_key = "AKIAIOSFODNN7EXAMPLE",
                              .secret = &secret,
                              .region = "us-east-1",
                              .service = "s3",
                              .now_s = S3_TIME,
                              .payload = digest,
                              .payload_header = true,
                              .cache = &cache};
        v4_sign(&r, &p);
        expect_signature(&r, row->names, row->signature);
    }
    cr_expect_str_eq(cache.scope, "20130524/us-east-1/s3");
}

Test(sign, bce_example)
{
    cleanup_secret struct secret secret = {0};
    static const char key[] = "bad522c2126a4618a8125f4b6cf6356f";
    secret_set(&secret, key, strlen(key));
    cleanup_http_req struct http_req r;
    http_req_init(&r, HTTP_PUT);
    bytes_add_str(&r.url, "http://bj.bcebos.com/v1/test/myfolder/readme.txt?"
                          "uploadId=VXBsb2FkIElpZS5tMnRzIHVwbG9hZA&partNumber=9");
    http_header(&r, "Date", "Mon, 27 Apr 2015 16:23:49 +0800");
    http_header(&r, "Content-Type", "text/plain");
    http_header(&r, "Content-Length", "8");
    http_header(&r, "Content-Md5", "0a52730597fb4ffa01fc117d9e71e3a9");
    struct bce_params p = {.access_key = "0b0f67dfb88244b289b72b142befad0c",
                           .secret = &secret,
                           .now_s = BCE_TIME,
                           .expire_s = 1800};
    bce_sign(&r, &p);
    cr_expect_str_eq(http_header_get(&r, "x-bce-date"), "2015-04-27T08:23:49Z");
    cr_expect_str_eq(http_header_get(&r, "Authorization"),
                     "bce-auth-v1/0b0f67dfb88244b289b72b142befad0c/2015-04-27T08:23:49Z/1800/"
                     "content-length;content-md5;content-type;host;x-bce-date/"
                     "a19e6386e990691aca1114a20357c83713f1cb4be3d74942bb4ed37469ecdacf");
}

Test(sign, canonical_queries)
{
    static const char *const rows[][2] = {
        {"", ""},
        {"b=2&a=1", "a=1&b=2"},
        {"delete", "delete="},
        {"a-b=1&a=2", "a=2&a-b=1"}, /* by name, although '-' sorts before '=' */
        {"x=2&x=1", "x=1&x=2"},
        {"&a=1&&", "a=1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cleanup_bytes struct bytes out = {0};
        canonical_query(rows[i][0], strlen(rows[i][0]), &out);
        cr_expect_str_eq(out.data ? out.data : "", rows[i][1]);
    }
}

Test(sign, sums)
{
    char md5[25], hex[65];
    md5_base64(md5, "", 0);
    cr_expect_str_eq(md5, "1B2M2Y8AsgTpgAmY7PhCfg==");
    sha256_hex(hex, NULL, 0);
    cr_expect_str_eq(hex, PAYLOAD_EMPTY);
}
