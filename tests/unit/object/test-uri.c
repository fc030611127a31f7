/* URIs: what each form means, and what is refused without repeating a secret. */
#include "object-testing.h"

struct row {
    const char *uri;
    struct store_conf conf;
    const char *canonical;
    const char *url; /* of a GET of "a b/c" */
};

static const struct row rows[] = {
    {"s3://bucket/train",
     {.region = "eu-west-1"},
     "s3://bucket/train/",
     "https://bucket.s3.eu-west-1.amazonaws.com/train/a%20b/c"},
    {"s3://bucket", {0}, "s3://bucket/", "https://bucket.s3.us-east-1.amazonaws.com/a%20b/c"},
    {"s3://bucket//x//y//",
     {0},
     "s3://bucket/x//y/",
     "https://bucket.s3.us-east-1.amazonaws.com/x//y/a%20b/c"},
    {"S3://bucket/100%/k",
     {0},
     "s3://bucket/100%/k/",
     "https://bucket.s3.us-east-1.amazonaws.com/100%25/k/a%20b/c"},
    {"s3://bucket/",
     {.region = "cn-north-1"},
     "s3://bucket/",
     "https://bucket.s3.cn-north-1.amazonaws.com.cn/a%20b/c"},
    {"s3://my.bucket/x",
     {0},
     "s3://my.bucket/x/",
     "https://s3.us-east-1.amazonaws.com/my.bucket/x/a%20b/c"},
    {"s3://bucket/",
     {.path_style = true},
     "s3://bucket/",
     "https://s3.us-east-1.amazonaws.com/bucket/a%20b/c"},
    {"s3://my.data.s3.us-west-2.amazonaws.com/x",
     {0},
     "s3://my.data.s3.us-west-2.amazonaws.com/x/",
     "https://s3.us-west-2.amazonaws.com/my.data/x/a%20b/c"},
    {"s3://data.s3.us-west-2.amazonaws.com/x",
     {0},
     "s3://data.s3.us-west-2.amazonaws.com/x/",
     "https://data.s3.us-west-2.amazonaws.com/x/a%20b/c"},
    {"s3://data.oss.example.com/x",
     {0},
     "s3://data.oss.example.com/x/",
     "https://data.oss.example.com/x/a%20b/c"},
    {"s3://data.localhost:9000/x",
     {0},
     "s3://data.localhost:9000/x/",
     "http://localhost:9000/data/x/a%20b/c"},
    {"s3://data.10.0.0.5:9000/x",
     {0},
     "s3://data.10.0.0.5:9000/x/",
     "https://10.0.0.5:9000/data/x/a%20b/c"},
    {"s3://data/x",
     {.endpoint = "http://10.0.0.5:9000/"},
     "s3://data/x/",
     "http://10.0.0.5:9000/data/x/a%20b/c"},
    {"s3://data/x",
     {.endpoint = "localhost:9000"},
     "s3://data/x/",
     "http://localhost:9000/data/x/a%20b/c"},
    {"s3://data/x", {.endpoint = "[::1]:9000"}, "s3://data/x/", "http://[::1]:9000/data/x/a%20b/c"},
    {"s3://data/x",
     {.endpoint = "https://[::1]:9000"},
     "s3://data/x/",
     "https://[::1]:9000/data/x/a%20b/c"},
    {"s3://data/x",
     {.endpoint = "rgw.example.com"},
     "s3://data/x/",
     "https://rgw.example.com/data/x/a%20b/c"},
    {"s3://data/x",
     {.endpoint = "https://h/base/"},
     "s3://data/x/",
     "https://h/base/data/x/a%20b/c"},
    {"s3://a.b.c/x", {.endpoint = "http://h:1"}, "s3://a.b.c/x/", "http://h:1/a.b.c/x/a%20b/c"},
    {"s3://data/x",
     {.endpoint = "oss-cn-beijing.aliyuncs.com"},
     "s3://data/x/",
     "https://data.oss-cn-beijing.aliyuncs.com/x/a%20b/c"},
    {"s3://My_Data/x",
     {0},
     "s3://My_Data/x/",
     "https://s3.us-east-1.amazonaws.com/My_Data/x/a%20b/c"},
    {"minio://h:9000/data/x/", {0}, "minio://h:9000/data/x/", "http://h:9000/data/x/a%20b/c"},
    {"minios://h/data", {0}, "minios://h/data/", "https://h/data/a%20b/c"},
    {"bos://data/x", {0}, "bos://data/x/", "https://data.bj.bcebos.com/x/a%20b/c"},
    {"bos://data/x", {.region = "gz"}, "bos://data/x/", "https://data.gz.bcebos.com/x/a%20b/c"},
    {"bos://data.su.bcebos.com/x",
     {0},
     "bos://data.su.bcebos.com/x/",
     "https://data.su.bcebos.com/x/a%20b/c"},
    {"bos://data/",
     {.endpoint = "http://127.0.0.1:80"},
     "bos://data/",
     "http://127.0.0.1:80/data/a%20b/c"},
    {"http://h/set", {0}, "http://h/set/", "http://h/set/a%20b/c"},
    {"http://h:8080/a%20set%2F/",
     {0},
     "http://h:8080/a%20set%2F/",
     "http://h:8080/a%20set%2F/a%20b/c"},
    {"https://h/a set", {0}, "https://h/a%20set/", "https://h/a%20set/a%20b/c"},
    {"https://h", {0}, "https://h/", "https://h/a%20b/c"},
    {"https://h/x/manifest.tsv", {0}, "https://h/x/manifest.tsv", "https://h/x/a%20b/c"},
    {"https://h/list.tsv", {0}, "https://h/list.tsv", "https://h/a%20b/c"},
    {"webhdfs://h:50070/set",
     {.user = "me"},
     "webhdfs://h:50070/set/",
     "http://h:50070/webhdfs/v1/set/a%20b/c?op=OPEN&user.name=me"},
    {"hdfs://h:8020/set",
     {.user = "me"},
     "hdfs://h:8020/set/",
     "http://h:9870/webhdfs/v1/set/a%20b/c?op=OPEN&user.name=me"},
    {"hdfs://h/set",
     {.user = "me", .webhdfs_port = 1234},
     "hdfs://h/set/",
     "http://h:1234/webhdfs/v1/set/a%20b/c?op=OPEN&user.name=me"},
    {"webhdfs://me@h/",
     {0},
     "webhdfs://h/",
     "http://h:9870/webhdfs/v1/a%20b/c?op=OPEN&user.name=me"},
};

Test(uri, forms, .init = forget_environment)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct store_conf conf = rows[i].conf;
        conf.anonymous = true;
        struct store *s = open_store(rows[i].uri, &conf);
        struct http_req r;
        struct err err = {0};
        cr_assert_eq(store_req_get(s, "a b/c", 5, 0, 0, &r, &err), 0, "%s", err.msg);
        cr_expect_str_eq(store_uri(s), rows[i].canonical, "%s: got %s", rows[i].uri, store_uri(s));
        cr_expect_str_eq(r.url.data, rows[i].url, "%s: got %s", rows[i].uri, r.url.data);
        http_req_release(&r);
        store_close(s);
    }
}

Test(uri, environment_gives_endpoint_and_region, .init = forget_environment)
{
    setenv("AWS_ENDPOINT_URL", "http://h:1", 1);
    setenv("AWS_REGION", "eu-north-1", 1);
    struct store *s = open_store("s3://b/", NULL);
    struct http_req r;
    cr_assert_eq(store_req_get(s, "k", 1, 0, 0, &r, NULL), 0);
    cr_expect_str_eq(r.url.data, "http://h:1/b/k");
    cr_expect_not_null(strstr(http_header_get(&r, "Authorization"), "/eu-north-1/s3/aws4_request"));
    http_req_release(&r);
    store_close(s);
    setenv("AWS_ENDPOINT_URL_S3", "http://s3:2", 1);
    s = open_store("s3://b/", NULL);
    cr_assert_eq(store_req_get(s, "k", 1, 0, 0, &r, NULL), 0);
    cr_expect_str_eq(r.url.data, "http://s3:2/b/k");
    http_req_release(&r);
    store_close(s);
}

Test(uri, local_folders, .init = forget_environment)
{
    static const char *const folders[][3] = {
        {"file:///data/set", "/data/set", "file:///data/set/"},
        {"file:///data/a%20b/", "/data/a%20b", "file:///data/a%20b/"},
        {"file://localhost/x", "/x", "file:///x/"},
        {"file:///", "/", "file:///"},
    };
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        struct store *s = open_store(folders[i][0], NULL);
        cr_expect_str_eq(store_local_dir(s), folders[i][1]);
        cr_expect_str_eq(store_uri(s), folders[i][2]);
        cr_expect(store_caps(s) & STORE_LOCAL);
        store_close(s);
    }
}

Test(uri, refused, .init = forget_environment)
{
    static const struct {
        const char *uri;
        const char *endpoint;
        const char *says;
    } bad[] = {
        {"s3://AK:TOPSECRET@bucket/x", NULL, "a password in an address is refused"},
        {"s3://AK:TOP/SECRET@bucket/x", NULL, "must come a port"},
        {"http://me:TOPSECRET@h/", NULL, "a password in an address is refused"},
        {"s3://AK@bucket/x", NULL, "a user in an address is refused"},
        {"s3://b/", "http://AK:TOPSECRET@h", "--endpoint: a password in an address is refused"},
        {"s3://b/", "ftp://h", "want http:// or https://"},
        {"s3:///x", NULL, "no name of a host or bucket"},
        {"s3://bu cket/x", NULL, "no name of a host or bucket"},
        {"s3://b:99999/", NULL, "a port from 1 to 65535"},
        {"s3://b:9000/", NULL, "no bucket"},
        {"s3://AK:7/TOPSECRET@bucket/x", NULL, "no bucket: s3://…: a port without a host"},
        {"minio://h:9000/", NULL, "no bucket"},
        {"gopher://x/", NULL, "unknown kind of store: gopher://"},
        {"/just/a/path", NULL, "/just/a/path (of a folder it is file:///just/a/path)"},
        {"", NULL, "it must begin with"},
        {"a/folder", NULL, "not an address: a/folder: it must begin with"},
        {"AK:TOPSECRET@bucket/x", NULL, "not an address: it must begin with"},
        {"http://h/x?y=1", NULL, "names one page"},
        {"file://server/x", NULL, "not a local folder"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct store *s = NULL;
        struct err err = {0};
        struct store_conf conf = {.endpoint = bad[i].endpoint};
        cr_expect_eq(store_open(&s, bad[i].uri, &conf, &err), -1, "%s", bad[i].uri);
        cr_expect_eq(err.class, ERR_USAGE);
        cr_expect_not_null(strstr(err.msg, bad[i].says), "%s: %s", bad[i].uri, err.msg);
        cr_expect_null(strstr(err.msg, "SECRET"), "%s", err.msg);
    }
}

Test(uri, a_canonical_form_is_not_longer_than_what_opens)
{
    struct store_conf conf = {.anonymous = true};
    struct store *s;
    struct err err = {0};
    char text[1600] = "http://h/";

    memset(text + strlen(text), 0xff, 1500); /* each byte is three when it is written as %FF */
    cr_expect_eq(store_open(&s, text, &conf, &err), -1);
    cr_expect_eq(err.class, ERR_USAGE);
    text[1200] = '\0';
    cr_assert_eq(store_open(&s, text, &conf, &err), 0, "%s", err.msg);
    store_close(s);
}

Test(uri, of_an_object)
{
    static const char *const objects[][2] = {
        {"http://h:8/a/", "http://h:8/a/k/f"},     {"https://h/a/manifest.tsv", "https://h/a/k/f"},
        {"http://h/manifest.tsv", "http://h/k/f"}, {"s3://b/p", "s3://b/p/k/f"},
        {"s3://b/p.tsv/", "s3://b/p.tsv/k/f"},     {"file:///d/", "file:///d/k/f"},
    };
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        cleanup_bytes struct bytes out = {0};
        store_add_object_uri(&out, objects[i][0], "k/f", 3);
        cr_expect_str_eq(out.data, objects[i][1]);
    }
}
