/* The keys in the addresses that the original's controller posts. */
#include <criterion/criterion.h>
#include <string.h>

#include "json.h"
#include "server-internal.h"

#define S3(keys) "s3://" keys "bucket/x/"

static const struct {
    const char *posted, *source, *access, *secret;
} cases[] = {
    {S3("AK:plain@"), S3(""), "AK", "plain"},
    {S3("AK:with/slash@"), S3(""), "AK", "with/slash"},
    {S3("AK:with+plus@"), S3(""), "AK", "with+plus"},
    {S3("AK:/first/slash@"), S3(""), "AK", "/first/slash"},
    {S3("AK:7/digit@"), S3(""), "AK", "7/digit"},
    {S3("AK:9000@"), S3(""), "AK", "9000"},
    {S3("AK:a/b@c@"), S3(""), "AK", "a/b@c"},
    {S3("AK:a%2Fb@"), S3(""), "AK", "a/b"},
    {"minio://AK:/SE/7@host:9000/bucket/x", "minio://host:9000/bucket/x", "AK", "/SE/7"},
    /* ports, and an '@' of a path's */
    {"s3://bucket.host:9000/me@x", "s3://bucket.host:9000/me@x", NULL, NULL},
    {"minio://host:9000/bucket/me@x", "minio://host:9000/bucket/me@x", NULL, NULL},
    {"minio://[::1]:9000/bucket/me@x", "minio://[::1]:9000/bucket/me@x", NULL, NULL},
    {"s3://bucket/me:you@x", "s3://bucket/me:you@x", NULL, NULL},
};

static void check(const char *posted, const char *source, const char *access, const char *secret)
{
    cleanup_bytes struct bytes body = {0}, options = {0};
    struct json_writer w;
    struct err err;
    jw_init(&w, &body);
    jw_object(&w, NULL);
    jw_str(&w, "source", posted);
    jw_str(&w, "destination", "s3://other/");
    jw_end(&w);
    struct json_doc *doc;
    cr_assert_eq(json_parse(&doc, "body", body.data, body.len, &err), 0, "%s", err.msg);
    struct json root = json_root(doc);
    jw_init(&w, &options);
    jw_object(&w, NULL);
    cr_assert_eq(compat_options(NULL, "sync", &root, &w, &err), 0, "%s: %s", posted, err.msg);
    jw_end(&w);
    json_doc_free(doc);

    cr_assert_eq(json_parse(&doc, "options", options.data, options.len, &err), 0, "%s", err.msg);
    root = json_root(doc);
    struct json sources = json_get(&root, "sources"), first = json_at(&sources, 0);
    const char *text;
    cr_assert_eq(json_as_str(&first, &text, &err), 0, "%s", err.msg);
    cr_expect_str_eq(text, source, "%s", posted);
    cr_expect_eq(json_has(&root, "credentials"), access != NULL, "%s", posted);
    if (access) {
        struct json keys = json_get(&root, "credentials");
        cr_assert_eq(json_str(&keys, "accessKeyId", &text, &err), 0, "%s", err.msg);
        cr_expect_str_eq(text, access, "%s", posted);
        cr_assert_eq(json_str(&keys, "secretAccessKey", &text, &err), 0, "%s", err.msg);
        cr_expect_str_eq(text, secret, "%s", posted);
        struct json compat = json_get(&root, "compat");
        cr_assert_eq(json_str(&compat, "source", &text, &err), 0, "%s", err.msg);
        cr_expect(strstr(text, "://***:***@"), "%s is kept as %s", posted, text);
    }
    json_doc_free(doc);
}

Test(compat_keys, are_told_from_ports)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(cases[i].posted, cases[i].source, cases[i].access, cases[i].secret);
}
