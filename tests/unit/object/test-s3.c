/* S3: the requests that are built, and what answers mean. */
#include "clock.h"
#include "object-testing.h"

static const struct store_conf local = {.endpoint = "http://10.0.0.1:9000", .region = "us-east-1"};

/* --- requests -------------------------------------------------------------------------------- */

Test(s3, get_asks_for_a_range, .init = forget_environment)
{
    struct store *s = open_store("s3://b/p", &local);
    struct http_req r;
    cr_assert_eq(store_req_get(s, "k\xff+", 3, 10, 5, &r, NULL), 0);
    cr_expect_str_eq(r.url.data, "http://10.0.0.1:9000/b/p/k%FF%2B");
    cr_expect_str_eq(http_header_get(&r, "Range"), "bytes=10-14");
    cr_expect_str_eq(http_header_get(&r, "X-Amz-Content-Sha256"), PAYLOAD_EMPTY);
    cr_expect(!r.follow);
    http_req_release(&r);
    cr_assert_eq(store_req_get(s, "k", 1, 10, 0, &r, NULL), 0);
    cr_expect_str_eq(http_header_get(&r, "Range"), "bytes=10-");
    http_req_release(&r);
    store_close(s);
}

Test(s3, list_pages, .init = forget_environment)
{
    static const struct {
        const char *prefix;
        bool delimiter;
        const char *token, *after, *url;
    } rows[] = {
        {"", false, "", "", "/b?list-type=2&encoding-type=url&max-keys=1000&prefix=p%2F"},
        {"a b/", true, "", "",
         "/b?list-type=2&encoding-type=url&max-keys=1000&delimiter=%2F&prefix=p%2Fa%20b%2F"},
        {"", false, "t+/=", "x",
         "/b?list-type=2&encoding-type=url&max-keys=1000&continuation-token=t%2B%2F%3D&prefix=p%"
         "2F"},
        {"", false, "", "x/\xfe",
         "/b?list-type=2&encoding-type=url&max-keys=1000&prefix=p%2F&start-after=p%2Fx%2F%FE"},
    };
    struct store *s = open_store("s3://b/p", &local);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct http_req r;
        cr_assert_eq(store_req_list(s, rows[i].prefix, rows[i].delimiter, rows[i].token,
                                    rows[i].after, &r, NULL),
                     0);
        cr_expect_str_eq(r.url.data + strlen("http://10.0.0.1:9000"), rows[i].url);
        http_req_release(&r);
    }
    store_close(s);
}

Test(s3, payloads_are_hashed_without_tls_alone, .init = forget_environment)
{
    static const struct {
        const char *endpoint;
        bool anonymous;
        const char *payload;
    } rows[] = {
        {"http://10.0.0.1:9000", false,
         "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"},
        {"https://10.0.0.1:9000", false, PAYLOAD_UNSIGNED},
        {"https://10.0.0.1:9000", true, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct store_conf conf = {.endpoint = rows[i].endpoint, .anonymous = rows[i].anonymous};
        struct store *s = open_store("s3://b/p", &conf);
        struct http_req r;
        cr_assert_eq(store_req_put(s, "k", 1, "hello", 5, &r, NULL), 0);
        const char *got = http_header_get(&r, "X-Amz-Content-Sha256");
        if (rows[i].payload)
            cr_expect_str_eq(got, rows[i].payload);
        else
            cr_expect(!got && !http_header_get(&r, "Authorization"));
        cr_expect(r.method == HTTP_PUT && r.body_len == 5);
        http_req_release(&r);
        store_close(s);
    }
}

Test(s3, bodies_that_are_made_here, .init = forget_environment)
{
    struct store_conf conf = local;
    conf.requester_pays = true;
    struct store *s = open_store("s3://b/p", &conf);
    cleanup_bytes struct bytes body = {0};
    struct http_req r;
    const char *keys[] = {"a&b", "c"};
    cr_assert_eq(store_req_delete_many(s, keys, 2, &body, &r, NULL), 0);
    cr_expect_str_eq(
        body.data, "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>"
                   "<Object><Key>p/a&amp;b</Key></Object><Object><Key>p/c</Key></Object></Delete>");
    cr_expect_str_eq(r.url.data, "http://10.0.0.1:9000/b?delete=");
    cr_expect_not_null(http_header_get(&r, "Content-MD5"));
    cr_expect_str_eq(http_header_get(&r, "X-Amz-Request-Payer"), "requester");
    http_req_release(&r);

    struct part_tag parts[] = {{1, "aa"}, {2, "bb"}};
    cr_assert_eq(store_req_multipart_end(s, "k", "up/1", parts, 2, NULL, &body, &r, NULL), 0);
    cr_expect_str_eq(r.url.data, "http://10.0.0.1:9000/b/p/k?uploadId=up%2F1");
    cr_expect_not_null(
        strstr(body.data, "<Part><PartNumber>2</PartNumber><ETag>&quot;bb&quot;</ETag></Part>"));
    http_req_release(&r);

    cr_assert_eq(store_req_multipart_begin(s, "k", &r, NULL), 0);
    cr_expect_str_eq(r.url.data, "http://10.0.0.1:9000/b/p/k?uploads=");
    cr_expect(r.method == HTTP_POST);
    http_req_release(&r);
    cr_assert_eq(store_req_multipart_part(s, "k", "u", 7, "x", 1, &r, NULL), 0);
    cr_expect_str_eq(r.url.data, "http://10.0.0.1:9000/b/p/k?partNumber=7&uploadId=u");
    http_req_release(&r);
    cr_assert_eq(store_req_multipart_abort(s, "k", "u", &r, NULL), 0);
    cr_expect(r.method == HTTP_DELETE);
    http_req_release(&r);
    cr_assert_eq(store_req_copy_from(s, s, "a b", "", "c", &r, NULL), 0);
    cr_expect_str_eq(http_header_get(&r, "X-Amz-Copy-Source"), "/b/p/a%20b");
    http_req_release(&r);
    store_close(s);
}

Test(s3, no_credentials_is_a_clear_refusal, .init = forget_environment)
{
    struct store *s = NULL;
    struct err err = {0};
    cr_assert_eq(store_open(&s, "s3://b/", &local, &err), 0);
    cr_expect_eq(store_creds_refresh(s, false, &err), -1);
    cr_expect_eq(err.class, ERR_DENIED);
    cr_expect_not_null(strstr(err.msg, "--no-sign-request"));
    struct http_req r;
    cr_expect_eq(store_req_get(s, "k", 1, 0, 0, &r, &err), -1);
    cr_expect_eq(err.class, ERR_DENIED);
    store_close(s);
}

Test(s3, identity_has_no_secrets, .init = forget_environment)
{
    struct store *s = open_store("s3://b/p", &local);
    cleanup_bytes struct bytes id = {0};
    store_identity(s, &id);
    cr_expect_not_null(strstr(id.data, "endpoint=http://10.0.0.1:9000 key="));
    cr_expect_null(strstr(id.data, "secret"));
    cr_expect_null(strstr(id.data, "AKIDEXAMPLE"));
    store_close(s);
}

/* --- listings -------------------------------------------------------------------------------- */

#define HEAD \
    "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
#define TAIL "</ListBucketResult>"

static const struct list_row lists[] = {
    {"", HEAD "<IsTruncated>false</IsTruncated>" TAIL, "", "", NULL},
    {"",
     HEAD "<Contents><Key>p/a</Key><LastModified>2026-11-21T13:24:12.5Z</LastModified>"
          "<ETag>&quot;e1&quot;</ETag><Size>7</Size></Contents>" TAIL,
     "a 7 1795267452500000000 e1\n", "", NULL},
    {"", /* the encoding is named after the keys */
     HEAD "<Contents><Key>p/a%20b%2Bc+d%FF</Key><Size>0</Size></Contents>"
          "<EncodingType>url</EncodingType>" TAIL,
     "a b+c d\xff 0 ? \n", "", NULL},
    {"", HEAD "<Contents><Key>p/100%25+x</Key><Size>1</Size></Contents>" TAIL, "100%25+x 1 ? \n",
     "", NULL},
    {"x/",
     HEAD "<IsTruncated>true</IsTruncated><NextContinuationToken>t&amp;1</NextContinuationToken>"
          "<Contents><Key>p/x/</Key><Size>0</Size></Contents>"
          "<CommonPrefixes><Prefix>p/x/y/</Prefix></CommonPrefixes>" TAIL,
     "x/y/ folder ? \n", "t&1", NULL},
    {"",
     HEAD "<Contents><Key>p/</Key><Size>0</Size></Contents><Contents><Key>other</Key><Size>1</"
          "Size></Contents>"
          "<Contents><Key>p/d/</Key><Size>0</Size></Contents>"
          "<Contents><Key>p/e/</Key><Size>3</Size></Contents>" TAIL,
     "d/ folder ? \ne/ 3 ? \n", "", NULL},
    {"",
     HEAD "<Contents><Key>p/a</Key><ETag>W/\"w\"</ETag><Size>1</Size><Owner><ID>x</ID></Owner></"
          "Contents>"
          "<Contents><Key>p/b</Key><Size>2</Size></Contents>" TAIL,
     "a 1 ? w\nb 2 ? \n", "", NULL},
    {"", HEAD "<IsTruncated>true</IsTruncated>" TAIL, "", "", "does not know ListObjectsV2"},
    {"", HEAD "<Contents><Key>p/a</Key></Contents>" TAIL, "", "", "without a key or size"},
    {"", HEAD "<Contents><Key>p/a</Key><Size>x</Size></Contents>" TAIL, "", "",
     "without a key or size"},
    {"", HEAD "<Contents><Key>p/a</Key><Size>1</Size></Contents>", "a 1 ? \n", "", "cut off"},
    {"", "<html><body>hello</body></html>", "", "", "no listing but <html>"},
    {"", "", "", "", "no element at all"},
};

Test(s3, parse_list, .init = forget_environment)
{
    struct store *s = open_store("s3://b/p", &local);
    check_lists(s, lists, sizeof lists / sizeof lists[0], ERR_CORRUPT);
    store_close(s);
}

static int stop(void *arg, const struct list_item *item, struct err *err)
{
    (void)arg;
    return err_set(err, ERR_CANCELLED, "stopped at %.*s", (int)item->key_len, item->key);
}

Test(s3, a_listing_can_be_stopped, .init = forget_environment)
{
    static const char xml[] = HEAD "<Contents><Key>p/a</Key><Size>1</Size></Contents>" TAIL;
    struct store *s = open_store("s3://b/p", &local);
    cleanup_bytes struct bytes token = {0};
    struct err err = {0};
    cr_expect_eq(store_parse_list(s, "", xml, strlen(xml), stop, NULL, &token, &err), -1);
    cr_expect_str_eq(err.msg, "stopped at a");
    store_close(s);
}

/* --- what answers mean ----------------------------------------------------------------------- */

#define ERR(code, more)                                                                       \
    "<?xml version=\"1.0\"?>\n<Error><Code>" code "</Code><Message>why\n</Message>" more "</" \
    "Error>"

static const struct classify_row {
    enum http_method method;
    int status;
    const char *body;
    enum err_class class;
    enum store_again again;
    const char *says;
} answers[] = {
    {HTTP_GET, 200, "", ERR_NONE, AGAIN_NO, NULL},
    {HTTP_GET, 206, "<Error>this is data", ERR_NONE, AGAIN_NO, NULL},
    {HTTP_DELETE, 204, "", ERR_NONE, AGAIN_NO, NULL},
    {HTTP_GET, 404, ERR("NoSuchKey", ""), ERR_NOT_FOUND, AGAIN_NO,
     "NoSuchKey 404: GET http://10.0.0.1:9000/b/p/k: why "},
    {HTTP_GET, 404, ERR("NoSuchBucket", ""), ERR_NOT_FOUND, AGAIN_NO, "check the bucket's name"},
    {HTTP_HEAD, 404, "", ERR_NOT_FOUND, AGAIN_NO,
     "404: HEAD http://10.0.0.1:9000/b/p/k: not found"},
    {HTTP_GET, 403, ERR("AccessDenied", ""), ERR_DENIED, AGAIN_NO, "check --credentials"},
    {HTTP_GET, 403, ERR("InvalidAccessKeyId", ""), ERR_DENIED, AGAIN_NO,
     "check --credentials and --endpoint"},
    {HTTP_GET, 404, ERR("XAdminUserNotFound", ""), ERR_DENIED, AGAIN_NO,
     "does not know the access key"},
    {HTTP_GET, 403, ERR("SignatureDoesNotMatch", ""), ERR_DENIED, AGAIN_NO,
     "the secret key is wrong"},
    {HTTP_GET, 400, ERR("ExpiredToken", ""), ERR_DENIED, AGAIN_CREDS, "renew"},
    {HTTP_GET, 403, ERR("ExpiredToken", ""), ERR_DENIED, AGAIN_CREDS, "renew"},
    {HTTP_GET, 412, ERR("PreconditionFailed", ""), ERR_STALE, AGAIN_NO, "scan the set again"},
    {HTTP_GET, 416, ERR("InvalidRange", ""), ERR_STALE, AGAIN_NO, "scan the set again"},
    {HTTP_GET, 503, ERR("SlowDown", ""), ERR_TRANSIENT, AGAIN_BACKOFF, "lower --connections"},
    {HTTP_GET, 503, "", ERR_TRANSIENT, AGAIN_BACKOFF, "503: GET"},
    {HTTP_GET, 500, "not xml <", ERR_TRANSIENT, AGAIN_BACKOFF, "the server has trouble"},
    {HTTP_GET, 429, "", ERR_TRANSIENT, AGAIN_BACKOFF, "too many"},
    {HTTP_PUT, 400, ERR("RequestTimeout", ""), ERR_TRANSIENT, AGAIN_BACKOFF, "why"},
    {HTTP_PUT, 400, ERR("EntityTooLarge", ""), ERR_LIMIT, AGAIN_NO, "too big"},
    {HTTP_PUT, 409, ERR("OperationAborted", ""), ERR_TRANSIENT, AGAIN_BACKOFF, "under way"},
    {HTTP_POST, 200, ERR("InternalError", ""), ERR_TRANSIENT, AGAIN_BACKOFF, "InternalError 500"},
    {HTTP_POST, 200, "<DeleteResult><Error><Key>k</Key></Error></DeleteResult>", ERR_NONE, AGAIN_NO,
     NULL},
    {HTTP_GET, 418, "", ERR_FAILED, AGAIN_NO, "418"},
    {HTTP_GET, 0, "", ERR_TRANSIENT, AGAIN_BACKOFF, "no answer"},
    {HTTP_GET, 301, ERR("PermanentRedirect", ""), ERR_FAILED, AGAIN_NO,
     "check --region and --endpoint"},
};

static void make_request(struct store *s, enum http_method method, struct http_req *r)
{
    cr_assert_eq(store_req_get(s, "k", 1, 0, 0, r, NULL), 0);
    r->method = method;
}

Test(s3, classify, .init = forget_environment)
{
    struct store *s = open_store("s3://b/p", &local);
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        const struct classify_row *row = &answers[i];
        struct http_req r;
        make_request(s, row->method, &r);
        struct http_answer a;
        http_answer_init(&a);
        a.status = row->status;
        enum store_again again = AGAIN_CLOCK;
        struct err err = {0};
        int result = store_classify(s, &r, &a, row->body, strlen(row->body), &again, &err);
        cr_expect_eq(result, row->class == ERR_NONE ? 0 : -1, "row %zu", i);
        cr_expect_eq(err.class, row->class, "row %zu: %s", i, err.msg);
        cr_expect_eq(again, row->again, "row %zu: %s: again %d", i, err.msg, again);
        if (row->says)
            cr_expect_not_null(strstr(err.msg, row->says), "row %zu: %s", i, err.msg);
        cr_expect_null(strchr(err.msg, '\n'));
        http_req_release(&r);
    }
    store_close(s);
}

/* --- learning -------------------------------------------------------------------------------- */

static enum store_again classify(struct store *s, struct http_req *r, int status, const char *body,
                                 const char *region, const char *location)
{
    struct http_answer a;
    http_answer_init(&a);
    a.status = status;
    snprintf(a.region, sizeof a.region, "%s", region);
    snprintf(a.location, sizeof a.location, "%s", location);
    enum store_again again;
    struct err err = {0};
    cr_expect_eq(store_classify(s, r, &a, body, strlen(body), &again, &err), -1);
    return again;
}

static const char *url_now(struct store *s, struct http_req *r)
{
    http_req_release(r);
    cr_assert_eq(store_req_get(s, "k", 1, 0, 0, r, NULL), 0);
    return r->url.data;
}

Test(s3, a_redirect_teaches_the_region, .init = forget_environment)
{
    static const struct {
        int status;
        enum http_method method;
        const char *body, *region;
    } rows[] = {
        {301, HTTP_GET, ERR("PermanentRedirect", ""), "eu-west-3"},
        {301, HTTP_GET,
         ERR("PermanentRedirect", "<Endpoint>b.s3-eu-west-3.amazonaws.com</Endpoint>"), ""},
        {400, HTTP_GET, ERR("AuthorizationHeaderMalformed", "<Region>eu-west-3</Region>"), ""},
        {400, HTTP_HEAD, "", "eu-west-3"},
        {301, HTTP_HEAD, "", "eu-west-3"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct store *s = open_store("s3://bkt/p", NULL);
        struct http_req r = {0};
        cr_expect_str_eq(url_now(s, &r), "https://bkt.s3.us-east-1.amazonaws.com/p/k");
        r.method = rows[i].method;
        cr_expect_eq(classify(s, &r, rows[i].status, rows[i].body, rows[i].region, ""),
                     AGAIN_REDIRECT, "row %zu", i);
        /* A request that was under way meanwhile is built anew, too. */
        cr_expect_eq(classify(s, &r, rows[i].status, rows[i].body, rows[i].region, ""),
                     AGAIN_REDIRECT);
        cr_expect_str_eq(url_now(s, &r), "https://bkt.s3.eu-west-3.amazonaws.com/p/k");
        cr_expect_not_null(strstr(http_header_get(&r, "Authorization"), "/eu-west-3/s3/"));
        r.method = rows[i].method;
        cr_expect_eq(classify(s, &r, rows[i].status, rows[i].body, rows[i].region, ""), AGAIN_NO,
                     "row %zu: no circle", i);
        http_req_release(&r);
        store_close(s);
    }
}

Test(s3, a_given_endpoint_keeps_its_host, .init = forget_environment)
{
    struct store *s = open_store("s3://bkt/p", &local);
    struct http_req r = {0};
    url_now(s, &r);
    cr_expect_eq(classify(s, &r, 400,
                          ERR("AuthorizationHeaderMalformed", "<Region>garage</Region>"), "", ""),
                 AGAIN_REDIRECT);
    cr_expect_str_eq(url_now(s, &r), "http://10.0.0.1:9000/bkt/p/k");
    cr_expect_not_null(strstr(http_header_get(&r, "Authorization"), "/garage/s3/"));
    http_req_release(&r);
    store_close(s);
}

Test(s3, a_location_teaches_the_host, .init = forget_environment)
{
    struct store *s = open_store("s3://bkt/p", NULL);
    struct http_req r = {0};
    url_now(s, &r);
    cr_expect_eq(classify(s, &r, 307, "", "", "http://bkt.s3.eu-west-3.amazonaws.com/p/k"),
                 AGAIN_NO, "TLS is not given up");
    cr_expect_eq(classify(s, &r, 307, "", "", "https://u:p@evil/p/k"), AGAIN_NO);
    cr_expect_eq(classify(s, &r, 307, "", "", "/p/k"), AGAIN_NO);
    cr_expect_eq(classify(s, &r, 307, "", "", "https://bkt.s3.eu-west-3.amazonaws.com/p/k"),
                 AGAIN_REDIRECT);
    cr_expect_str_eq(url_now(s, &r), "https://bkt.s3.eu-west-3.amazonaws.com/p/k");
    cr_expect_eq(classify(s, &r, 307, "", "", "https://bkt.s3.eu-west-3.amazonaws.com/p/k"),
                 AGAIN_NO);
    http_req_release(&r);
    store_close(s);
}

Test(s3, a_skewed_clock_is_taken_over_once, .init = forget_environment)
{
    struct store *s = open_store("s3://bkt/p", &local);
    struct http_req r = {0}, beside = {0};
    url_now(s, &r);
    url_now(s, &beside);
    struct http_answer a;
    http_answer_init(&a);
    a.status = 403;
    time_t theirs = time(NULL) + 7200;
    struct tm tm;
    strftime(a.date, sizeof a.date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&theirs, &tm));
    static const char body[] = ERR("RequestTimeTooSkewed", "");
    enum store_again again;
    struct err err = {0};
    cr_expect_eq(store_classify(s, &r, &a, body, strlen(body), &again, &err), -1);
    cr_expect_eq(again, AGAIN_CLOCK);
    again = AGAIN_NO;
    cr_expect_eq(store_classify(s, &beside, &a, body, strlen(body), &again, &err), -1);
    cr_expect_eq(again, AGAIN_CLOCK, "it was signed before the clock was taken over");
    url_now(s, &r);
    char hour[16];
    strftime(hour, sizeof hour, "%Y%m%dT%H", &tm);
    cr_expect(strncmp(http_header_get(&r, "X-Amz-Date"), hour, strlen(hour)) == 0 ||
                  tm.tm_min == 59 || tm.tm_min == 0,
              "%s", http_header_get(&r, "X-Amz-Date"));
    cr_expect_eq(store_classify(s, &r, &a, body, strlen(body), &again, &err), -1);
    cr_expect_eq(again, AGAIN_NO);
    cr_expect_not_null(strstr(err.msg, "set this machine's clock"));
    http_req_release(&beside);
    http_req_release(&r);
    store_close(s);
}

/* --- versions of an object ---------------------------------------------------------------------
 */

static int on_version(void *arg, const char *version, uint64_t size, const char *etag,
                      struct err *err)
{
    (void)err;
    bytes_addf(arg, "%s %llu %s;", version, (unsigned long long)size, etag);
    return strcmp(version, "stop") == 0 ? err_set(err, ERR_FAILED, "stopped") : 0;
}

#define VERSION(key, id, etag, size)                                            \
    "<Version><Key>" key "</Key><VersionId>" id "</VersionId><ETag>&quot;" etag \
    "&quot;</ETag><Size>" size "</Size><Owner><ID>x</ID></Owner></Version>"
#define PAGE(more)  "<ListVersionsResult>" more "</ListVersionsResult>"
#define URL_ENCODED "<EncodingType>url</EncodingType>"
#define CUT(key, id)                                     \
    "<IsTruncated>true</IsTruncated><NextKeyMarker>" key \
    "</NextKeyMarker><NextVersionIdMarker>" id "</NextVersionIdMarker>"

Test(s3, versions_of_an_object, .init = forget_environment)
{
    static const struct {
        const char *key, *page, *got, *token;
    } rows[] = {
        {"k", PAGE(""), "", ""},
        {"k", PAGE(VERSION("p/k", "v2", "bb", "9") VERSION("p/k", "null", "aa", "8")),
         "v2 9 bb;null 8 aa;", ""},
        /* Deleted meanwhile; keys that begin with it; other prefixes. */
        {"k",
         PAGE("<DeleteMarker><Key>p/k</Key><VersionId>v3</VersionId></DeleteMarker>" VERSION(
             "p/k", "v2", "bb", "9") VERSION("p/k2", "v9", "cc", "7")
                  VERSION("k", "v8", "cc", "7")),
         "v2 9 bb;", ""},
        {"a b+", PAGE(URL_ENCODED VERSION("p/a+b%2B", "v1", "aa", "8")), "v1 8 aa;", ""},
        {"a+b%2B", PAGE(VERSION("p/a+b%2B", "v1", "aa", "8")), "v1 8 aa;", ""},
        /* No id, no ETag, no size. */
        {"k",
         PAGE("<Version><Key>p/k</Key></Version>" VERSION("p/k", "", "aa", "8")
                  VERSION("p/k", "v1", "", "8") VERSION("p/k", "v1", "aa", "-8")),
         "", ""},
        /* There may be more of it; of others only. MinIO adds its own to the marker. */
        {"k", PAGE(VERSION("p/k", "v2", "bb", "9") CUT("p/k", "v2")), "v2 9 bb;",
         "&key-marker=p%2Fk&version-id-marker=v2"},
        {"k", PAGE(VERSION("p/k", "v2", "bb", "9") CUT("p/k[m:v2,r:]", "v2")), "v2 9 bb;",
         "&key-marker=p%2Fk%5Bm%3Av2%2Cr%3A%5D&version-id-marker=v2"},
        {"k", PAGE("<DeleteMarker><Key>p/k</Key></DeleteMarker>" CUT("p/k", "")), "",
         "&key-marker=p%2Fk"},
        {"k", PAGE(VERSION("p/k1", "v2", "bb", "9") CUT("p/k1", "v2")), "", ""},
        {"k", PAGE("<IsTruncated>true</IsTruncated>"), "", ""},
    };
    struct store *s = open_store("s3://b/p", &local);
    cleanup_bytes struct bytes got = {0}, token = {0};
    struct err err = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bytes_clear(&got);
        bytes_add_str(&got, "");
        bytes_add_str(&token, "");
        cr_assert_eq(store_parse_versions(s, rows[i].key, rows[i].page, strlen(rows[i].page),
                                          on_version, &got, &token, &err),
                     0, "row %zu: %s", i, err.msg);
        cr_expect_str_eq(got.data, rows[i].got, "row %zu: %s", i, got.data);
        cr_expect_str_eq(token.data, rows[i].token, "row %zu: %s", i, token.data);
    }
    store_close(s);
}

Test(s3, versions_that_are_none, .init = forget_environment)
{
    static const struct {
        const char *page, *why;
        enum err_class class;
    } rows[] = {
        {"<ListBucketResult><Contents/></ListBucketResult>", "<ListBucketResult>", ERR_CORRUPT},
        {"<ListVersionsResult><Version>", "not the XML", ERR_CORRUPT},
        {PAGE(VERSION("p/k", "stop", "bb", "9")), "stopped", ERR_FAILED},
    };
    struct store *s = open_store("s3://b/p", &local), *other = open_store("http://b/p/", &local);
    cleanup_bytes struct bytes got = {0}, token = {0};
    struct err err = {0};
    struct http_req r;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_expect_eq(store_parse_versions(s, "k", rows[i].page, strlen(rows[i].page), on_version,
                                          &got, &token, &err),
                     -1);
        cr_expect_eq(err.class, rows[i].class, "row %zu: %s", i, err.msg);
        cr_expect_not_null(strstr(err.msg, rows[i].why), "row %zu: %s", i, err.msg);
    }
    cr_expect(store_caps(s) & STORE_VERSIONS);
    cr_expect(!(store_caps(other) & STORE_VERSIONS));
    cr_expect_eq(store_req_versions(other, "k", "", &r, &err), -1);
    cr_expect_eq(store_req_get_version(other, "k", 1, "v", 0, 0, &r, &err), -1);
    store_close(other);
    store_close(s);
}

Test(s3, an_older_version_is_asked_for, .init = forget_environment)
{
    struct store *s = open_store("s3://b/p", &local);
    struct http_req r;
    cr_assert_eq(store_req_versions(s, "a b", "", &r, NULL), 0);
    cr_expect_str_eq(r.url.data, "http://10.0.0.1:9000/b?versions=&encoding-type=url&max-keys=100"
                                 "&prefix=p%2Fa%20b");
    http_req_release(&r);
    cr_assert_eq(store_req_versions(s, "a b", "&key-marker=x", &r, NULL), 0);
    cr_expect_str_eq(r.url.data, "http://10.0.0.1:9000/b?versions=&encoding-type=url&max-keys=100"
                                 "&prefix=p%2Fa%20b&key-marker=x");
    http_req_release(&r);
    cr_assert_eq(store_req_get_version(s, "a b", 3, "v/1", 4, 6, &r, NULL), 0);
    cr_expect_str_eq(r.url.data, "http://10.0.0.1:9000/b/p/a%20b?versionId=v%2F1");
    cr_expect_str_eq(http_header_get(&r, "Range"), "bytes=4-9");
    http_req_release(&r);
    store_close(s);
}

/* --- uploads and deletes --------------------------------------------------------------------- */

Test(s3, uploads_and_deletes, .init = forget_environment)
{
    struct store *s = open_store("s3://bkt/p", &local);
    cleanup_bytes struct bytes upload = {0};
    struct err err = {0};
    static const char begun[] = "<InitiateMultipartUploadResult><UploadId>u&lt;1</UploadId></"
                                "InitiateMultipartUploadResult>";
    cr_expect_eq(store_parse_multipart_begin(s, begun, strlen(begun), &upload, &err), 0);
    cr_expect_str_eq(upload.data, "u<1");
    cr_expect_eq(store_parse_multipart_begin(s, "<x/>", 4, &upload, &err), -1);
    static const char ended[] =
        "<CompleteMultipartUploadResult><ETag>\"x-2\"</ETag></CompleteMultipartUploadResult>";
    cr_expect_eq(store_parse_multipart_end(s, ended, strlen(ended), &err), 0);
    static const char failed[] = ERR("InternalError", "");
    cr_expect_eq(store_parse_multipart_end(s, failed, strlen(failed), &err), -1);
    cr_expect_eq(err.class, ERR_TRANSIENT);
    static const char deleted[] = "<DeleteResult></DeleteResult>";
    cr_expect_eq(store_parse_delete_many(s, deleted, strlen(deleted), &err), 0);
    static const char some[] =
        "<DeleteResult><Deleted><Key>p/a</Key></Deleted>"
        "<Error><Key>p/b</Key><Code>AccessDenied</Code></Error>"
        "<Error><Key>p/c</Key><Code>InternalError</Code></Error></DeleteResult>";
    cr_expect_eq(store_parse_delete_many(s, some, strlen(some), &err), -1);
    cr_expect_eq(err.class, ERR_DENIED);
    cr_expect_not_null(strstr(err.msg, "not deleted: p/b: AccessDenied, and 1 more"), "%s",
                       err.msg);
    store_close(s);
}

struct parts {
    char text[200];
};

static int on_part(void *arg, unsigned part, uint64_t size, const char *etag, struct err *err)
{
    struct parts *p = arg;
    size_t len = strlen(p->text);
    (void)err;
    snprintf(p->text + len, sizeof p->text - len, "%u %llu %s;", part, (unsigned long long)size,
             etag);
    return 0;
}

Test(s3, parts_of_an_upload, .init = forget_environment)
{
    struct store *s = open_store("s3://bkt/p", &local);
    cleanup_bytes struct bytes token = {0};
    struct parts parts = {0};
    struct http_req r;
    struct err err = {0};
    static const char page[] =
        "<ListPartsResult><NextPartNumberMarker>2</NextPartNumberMarker><IsTruncated>true"
        "</IsTruncated><Part><PartNumber>1</PartNumber><ETag>&quot;aa&quot;</ETag><Size>8</Size>"
        "</Part><Part><Size>9</Size><ETag>bb</ETag><PartNumber>2</PartNumber></Part>"
        "</ListPartsResult>";
    cr_expect_eq(store_parse_parts(s, page, strlen(page), on_part, &parts, &token, &err), 0);
    cr_expect_str_eq(parts.text, "1 8 aa;2 9 bb;");
    cr_expect_str_eq(token.data, "&part-number-marker=2");
    cr_assert_eq(store_req_parts(s, "k", "u&1", token.data, &r, &err), 0, "%s", err.msg);
    cr_expect_str_eq(strchr(r.url.data, '?'), "?uploadId=u%261&part-number-marker=2");
    http_req_release(&r);
    static const char *const bad[] = {
        "<ListPartsResult><Part><Size>1</Size></Part></ListPartsResult>",
        "<ListPartsResult><Part><PartNumber>10001</PartNumber><Size>1"
        "</Size></Part></ListPartsResult>",
        "<ListPartsResult>"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_eq(store_parse_parts(s, bad[i], strlen(bad[i]), on_part, &parts, &token, &err),
                     -1, "%s", bad[i]);
    store_close(s);
}

/* --- objects that describe files ------------------------------------------------------------- */

Test(s3, files_with_metadata, .init = forget_environment)
{
    struct store *s = NULL;
    struct http_req r;
    struct err err = {0};
    const struct store_conf conf = {.anonymous = true, .region = "us-east-1"};
    cr_assert_eq(store_open(&s, "minio://10.0.0.1:9000/b/p", &conf, &err), 0, "%s", err.msg);
    const struct object_meta m = {
        .mode = S_IFREG | 0640, .uid = 7, .gid = 8, .mtime_ns = -500000000};
    const struct store_put put = {.key = "d/", .body = "", .meta = &m};
    cr_assert_eq(store_req_put_object(s, &put, &r, &err), 0, "%s", err.msg);
    cr_expect_str_eq(r.url.data, "http://10.0.0.1:9000/b/p/d/");
    cr_expect_str_eq(http_header_get(&r, "x-amz-meta-mode"), "33184");
    cr_expect_str_eq(http_header_get(&r, "x-amz-meta-uid"), "7");
    cr_expect_str_eq(http_header_get(&r, "x-amz-meta-gid"), "8");
    cr_expect_str_eq(http_header_get(&r, "x-amz-meta-mtime"), "-1.500000000");
    cr_expect_null(http_header_get(&r, "x-amz-meta-sampan-upload"));
    cr_expect_str_eq(http_header_get(&r, "Content-Type"), "application/x-directory");
    http_req_release(&r);
    const struct store_copy part = {
        .from = "a b", .to = "c", .if_match = "e1", .upload = "u", .part = 3, .off = 10, .len = 5};
    cr_assert_eq(store_req_copy_object(s, &part, &r, &err), 0, "%s", err.msg);
    cr_expect_str_eq(r.url.data, "http://10.0.0.1:9000/b/p/c?partNumber=3&uploadId=u");
    cr_expect_str_eq(http_header_get(&r, "X-Amz-Copy-Source"), "/b/p/a%20b");
    cr_expect_str_eq(http_header_get(&r, "X-Amz-Copy-Source-Range"), "bytes=10-14");
    cr_expect_str_eq(http_header_get(&r, "X-Amz-Copy-Source-If-Match"), "\"e1\"");
    http_req_release(&r);
    const struct store_copy own = {.from = "a", .to = "a", .meta = &m};
    cr_assert_eq(store_req_copy_object(s, &own, &r, &err), 0, "%s", err.msg);
    cr_expect_str_eq(http_header_get(&r, "X-Amz-Metadata-Directive"), "REPLACE");
    cr_expect_str_eq(http_header_get(&r, "x-amz-meta-mode"), "33184");
    http_req_release(&r);
    char etag[160];
    static const char answer[] = "<CopyResult><ETag>&quot;abc-2&quot;</ETag></CopyResult>";
    store_parse_etag(s, answer, strlen(answer), etag);
    cr_expect_str_eq(etag, "abc-2");
    store_parse_etag(s, "<x/>", 4, etag);
    cr_expect_str_eq(etag, "");
    store_close(s);
}

static const struct {
    const char *mode, *uid, *mtime;
    bool known;
    mode_t want_mode;
    uid_t want_uid;
    int64_t want_ns;
} metas[] = {
    {"33188", "5", "1500000000", true, 0100644, 5, 1500000000000000000},
    {"41471", "0", "1500000000.25", true, 0120777, 0, 1500000000250000000},
    {"", "", "", false, 1, 1, 3000000000},
    {"-1", "x", "1e9", false, 1, 1, 3000000000},
    {"99999999", "4294967295", "99999999999999999999", false, 1, 1, 3000000000},
};

Test(s3, metadata_of_an_answer)
{
    for (size_t i = 0; i < sizeof metas / sizeof metas[0]; i++) {
        struct http_answer a;
        struct object_meta m = {.mode = 1, .uid = 1, .gid = 1, .mtime_ns = 1};
        char line[128];
        http_answer_init(&a);
        snprintf(line, sizeof line, "X-Amz-Meta-Mode: %s\r\n", metas[i].mode);
        http_answer_line(&a, line, strlen(line));
        snprintf(line, sizeof line, "x-amz-meta-uid: %s\r\n", metas[i].uid);
        http_answer_line(&a, line, strlen(line));
        snprintf(line, sizeof line, "x-amz-meta-mtime: %s\r\n", metas[i].mtime);
        http_answer_line(&a, line, strlen(line));
        a.last_modified = 3;
        cr_expect_eq(store_meta_of(&a, &m), metas[i].known, "%zu", i);
        cr_expect_eq(m.mode, metas[i].want_mode, "%zu: %o", i, m.mode);
        cr_expect_eq(m.uid, metas[i].want_uid, "%zu", i);
        cr_expect_eq(m.mtime_ns, metas[i].want_ns, "%zu: %lld", i, (long long)m.mtime_ns);
    }
}
