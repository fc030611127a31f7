/* Credentials: each place, their order, and files that change while in use. */
#include <ftw.h>
#include <sys/stat.h>

#include "clock.h"
#include "object-testing.h"

static char dir[] = "/tmp/object-creds-XXXXXX";

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void begin(void)
{
    forget_environment();
    cr_assert_not_null(mkdtemp(dir));
}

static void end(void)
{
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Written beside and renamed, as all do that know files. */
static char *put(const char *name, const char *text)
{
    char *path = xasprintf("%s/%s", dir, name);
    cleanup_free char *temp = xasprintf("%s/.new", dir);
    FILE *f = fopen(temp, "w");
    cr_assert_not_null(f);
    fputs(text, f);
    fclose(f);
    cr_assert_eq(rename(temp, path), 0);
    return path;
}

static void expect(const struct creds_conf *conf, const char *want)
{
    cleanup_creds struct creds c = {0};
    struct err err = {0};
    if (creds_find(&c, conf, &err)) {
        cr_expect_not_null(strstr(err.msg, want), "want %s, got %s", want, err.msg);
        cr_expect_eq(err.class, ERR_DENIED, "%s", err.msg);
        cr_expect_null(strstr(err.msg, "sk1"), "%s", err.msg);
        return;
    }
    cleanup_free char *got =
        xasprintf("%s %s %s", c.access_key, c.secret.text, c.token.text ? c.token.text : "-");
    cr_expect_str_eq(got, want);
    cr_expect_eq(c.expire_ns, UINT64_MAX);
}

Test(creds, environment, .init = begin, .fini = end)
{
    struct creds_conf aws = {.kind = CREDS_AWS}, bce = {.kind = CREDS_BCE},
                      minio = {.kind = CREDS_MINIO};
    expect(&aws, "no credentials: looked in the environment, the profile files and");
    setenv("AWS_ACCESS_KEY_ID", "ak1", 1);
    expect(&aws, "half a credential: the environment: AWS_ACCESS_KEY_ID is set, "
                 "AWS_SECRET_ACCESS_KEY is not");
    setenv("AWS_SECRET_ACCESS_KEY", "sk1", 1);
    expect(&aws, "ak1 sk1 -");
    setenv("AWS_SESSION_TOKEN", "t1", 1);
    expect(&aws, "ak1 sk1 t1");
    expect(&bce, "ak1 sk1 t1");
    setenv("BCE_ACCESS_KEY_ID", "ak2", 1);
    setenv("BCE_SECRET_ACCESS_KEY", "sk2", 1);
    expect(&bce, "ak2 sk2 -");
    setenv("MINIO_ACCESS_KEY", "ak3", 1);
    setenv("MINIO_SECRET_KEY", "sk3", 1);
    expect(&minio, "ak3 sk3 -");
    expect(&aws, "ak1 sk1 t1");
}

Test(creds, profiles, .init = begin, .fini = end)
{
    cleanup_free char *file = put(
        "credentials", "# mine\n[default]\naws_access_key_id = ak1\n aws_secret_access_key=sk1 \n\n"
                       "[other]\r\naws_access_key_id = ak2\r\naws_secret_access_key = "
                       "sk/2+=\r\naws_session_token = t2\r\n"
                       "[half]\naws_access_key_id = ak3\n[program]\ncredential_process = /bin/x\n"
                       "[role]\nrole_arn = arn:aws:iam::1:role/r\n"
                       "[circle]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = circle2\n"
                       "[circle2]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = circle\n");
    cleanup_free char *config =
        put("config", "[profile other]\nregion = eu-south-1\n[profile late]\n"
                      "aws_access_key_id=ak4\naws_secret_access_key=sk4\n");
    setenv("AWS_SHARED_CREDENTIALS_FILE", file, 1);
    setenv("AWS_CONFIG_FILE", config, 1);
    static const char *const rows[][2] = {
        {"default", "ak1 sk1 -"},
        {"other", "ak2 sk/2+= t2"},
        {"late", "ak4 sk4 -"},
        {"half", "half a credential"},
        {"program", "credential_process"},
        {"role", "role_arn without source_profile"},
        {"circle", "circles"},
        {"missing", "no such profile: AWS_PROFILE=missing"},
    };
    struct creds_conf conf = {.kind = CREDS_AWS};
    expect(&conf, "ak1 sk1 -");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setenv("AWS_PROFILE", rows[i][0], 1);
        expect(&conf, rows[i][1]);
    }
    setenv("AWS_PROFILE", "other", 1);
    cleanup_bytes struct bytes region = {0};
    cr_expect(profile_value("region", &region));
    cr_expect_str_eq(region.data, "eu-south-1");
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/x", 1);
    struct err err = {0};
    cleanup_creds struct creds c = {0};
    cr_expect_eq(creds_find(&c, &conf, &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND);
}

Test(creds, profiles_as_people_write_them, .init = begin, .fini = end)
{
    cleanup_free char *file =
        put("credentials", "\xef\xbb\xbf[default] # the usual one\naws_access_key_id: ak1\n"
                           "aws_secret_access_key: sk1=\n[my training] ; [other]\n"
                           "aws_access_key_id = ak2\naws_secret_access_key = sk:2\n");
    cleanup_free char *config =
        put("config", "[default]\nregion = eu-west-1\nservices = near\ns3 =\n  region = nowhere\n"
                      "  endpoint_url = http://plug-in\n\nsts =\n  endpoint_url = http://sts\n"
                      "output = json\n  endpoint_url = http://all\n"
                      "[services near]\ns3 =\n  endpoint_url = http://near\n"
                      "[profile \"my training\"] # quoted\n"
                      "s3 =\n    addressing_style = path\n    endpoint_url = http://plug-in\n"
                      "endpoint_url = http://other\n");
    setenv("AWS_SHARED_CREDENTIALS_FILE", file, 1);
    setenv("AWS_CONFIG_FILE", config, 1);
    struct creds_conf conf = {.kind = CREDS_AWS};
    static const struct {
        const char *profile, *keys, *region, *s3, *sts;
    } rows[] = {
        {"default", "ak1 sk1= -", "eu-west-1", "http://near", "http://sts"},
        {"my training", "ak2 sk:2 -", NULL, "http://plug-in", "http://other"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cleanup_bytes struct bytes region = {0}, s3 = {0}, sts = {0};
        setenv("AWS_PROFILE", rows[i].profile, 1);
        expect(&conf, rows[i].keys);
        cr_expect_eq(profile_value("region", &region), rows[i].region != NULL);
        if (rows[i].region)
            cr_expect_str_eq(region.data, rows[i].region);
        cr_expect(profile_endpoint("s3", &s3));
        cr_expect_str_eq(s3.data, rows[i].s3);
        cr_expect(profile_endpoint("sts", &sts));
        cr_expect_str_eq(sts.data, rows[i].sts);
    }
    cleanup_bytes struct bytes all = {0};
    setenv("AWS_PROFILE", "default", 1);
    cr_expect(profile_endpoint("iam", &all)); /* below a key that has a value: no key of that */
    cr_expect_str_eq(all.data, "http://all");
}

Test(creds, given_file, .init = begin, .fini = end)
{
    cleanup_free char *bare = put("bare", "access_key=ak1\nsecret_key=sk1\n");
    cleanup_free char *ini =
        put("ini", "[default]\nbce_access_key_id=ak2\nbce_secret_access_key=sk2\n");
    cleanup_free char *empty = put("empty", "");
    setenv("AWS_ACCESS_KEY_ID", "env", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "env", 1);
    struct creds_conf conf = {.kind = CREDS_AWS, .path = bare};
    expect(&conf, "ak1 sk1 -");
    conf.path = ini;
    expect(&conf, "ak2 sk2 -");
    setenv("AWS_PROFILE", "missing", 1);
    expect(&conf, "no such profile: AWS_PROFILE=missing");
    unsetenv("AWS_PROFILE");
    conf.path = empty;
    expect(&conf, "no credentials: ");
}

Test(creds, folders, .init = begin, .fini = end)
{
    static const char *const names[][2] = {
        {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
        {"aws_access_key_id", "aws_secret_access_key"},
        {"access-key", "secret-key"},
        {"accessKey", "secretKey"},
        {"accesskey", "secretkey"},
        {"access-key-id", "secret-access-key"},
        {"BCE_ACCESS_KEY_ID", "BCE_SECRET_ACCESS_KEY"},
        {"rootUser", "rootPassword"},
        {"username", "password"},
    };
    struct creds_conf conf = {.kind = CREDS_AWS, .path = dir};
    expect(&conf, "no credentials: ");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        cleanup_free char *access = put(names[i][0], "ak1\n");
        expect(&conf, "half a credential");
        cleanup_free char *secret = put(names[i][1], " sk1\n");
        expect(&conf, "ak1 sk1 -");
        unlink(access);
        unlink(secret);
    }
    free(put("session-token", "t1"));
    free(put("access-key", "ak1"));
    free(put("secret-key", ""));
    expect(&conf, "is empty");
    free(put("secret-key", "sk1"));
    expect(&conf, "ak1 sk1 t1");
    free(put("AWS_ACCESS_KEY_ID", "ak2")); /* the plainer name wins */
    expect(&conf, "ak2 sk1 t1");
}

static const char *key_of(struct store *s)
{
    static char text[512];
    struct http_req r;
    cr_assert_eq(store_req_get(s, "k", 1, 0, 0, &r, NULL), 0);
    snprintf(text, sizeof text, "%s", http_header_get(&r, "Authorization"));
    text[strcspn(text, "/")] = '\0';
    http_req_release(&r);
    return strchr(text, '=') + 1;
}

Test(creds, rotation_while_in_use, .init = begin, .fini = end)
{
    cleanup_free char *file =
        put("creds", "[default]\naws_access_key_id=old\naws_secret_access_key=x\n");
    struct store_conf conf = {.endpoint = "http://h:1", .credentials = file};
    struct store *s = open_store("s3://b/", &conf);
    cr_expect_str_eq(key_of(s), "old");
    struct err err = {0};
    struct http_req r;
    struct http_answer a;
    enum store_again again;
    static const char denied[] = "<Error><Code>InvalidAccessKeyId</Code></Error>";
    cr_assert_eq(store_req_get(s, "k", 1, 0, 0, &r, NULL), 0);
    http_answer_init(&a);
    a.status = 403;
    store_classify(s, &r, &a, denied, strlen(denied), &again, &err);
    cr_expect_eq(again, AGAIN_NO, "nothing changed: a refusal is a refusal");

    free(put("creds", "[default]\naws_access_key_id=new\naws_secret_access_key=y\n"));
    store_classify(s, &r, &a, denied, strlen(denied), &again, &err);
    cr_expect_eq(again, AGAIN_CREDS);
    cr_assert_eq(store_creds_refresh(s, false, &err), 0);
    cr_expect_str_eq(key_of(s), "new");
    store_classify(s, &r, &a, denied, strlen(denied), &again, &err);
    cr_expect_eq(again, AGAIN_CREDS, "it was signed with the old ones");
    r.method = HTTP_HEAD; /* a token that is too old is 400, and a HEAD's answer has no words */
    a.status = 400;
    snprintf(a.region, sizeof a.region, "us-east-1");
    store_classify(s, &r, &a, "", 0, &again, &err);
    cr_expect_eq(again, AGAIN_CREDS);
    http_answer_init(&a);
    a.status = 403;
    http_req_release(&r);
    cr_assert_eq(store_req_get(s, "k", 1, 0, 0, &r, NULL), 0);
    store_classify(s, &r, &a, denied, strlen(denied), &again, &err);
    cr_expect_eq(again, AGAIN_NO);
    http_req_release(&r);

    unlink(file); /* being replaced: the old ones go on */
    cr_expect_eq(store_creds_refresh(s, false, &err), 0);
    cr_expect_str_eq(key_of(s), "new");
    clock_advance(10 * NS_PER_S);
    cr_expect_eq(store_creds_refresh(s, true, &err), -1, "forced, it says so");
    cr_expect_str_eq(key_of(s), "new");
    store_close(s);
}

Test(creds, answers_of_services, .init = begin, .fini = end)
{
    cleanup_creds struct creds c = {0};
    struct err err = {0};
    static const char sts[] =
        "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult>"
        "<Credentials><AccessKeyId>ak</AccessKeyId><SecretAccessKey>s/k</"
        "SecretAccessKey><SessionToken>t</SessionToken>"
        "<Expiration>2026-11-21T13:24:12Z</Expiration></Credentials></AssumeRoleResult></"
        "AssumeRoleResponse>";
    cr_assert_eq(sts_parse(&c, sts, strlen(sts), &err), 0);
    cr_expect_str_eq(c.access_key, "ak");
    cr_expect_str_eq(c.secret.text, "s/k");
    cr_expect_eq(c.expire_ns, 1795267452000000000ull);
    creds_release(&c);
    cr_expect_eq(sts_parse(&c, "<a/>", 4, &err), -1);
    static const char imds[] =
        "{\"Code\":\"Success\",\"AccessKeyId\":\"ak\",\"SecretAccessKey\":\"sk\",\"Token\":\"t\","
        "\"Expiration\":\"2026-11-21T13:24:12Z\"}";
    cr_assert_eq(metadata_parse(&c, "imds", imds, strlen(imds), &err), 0);
    cr_expect_str_eq(c.token.text, "t");
    cr_expect_eq(c.expire_ns, 1795267452000000000ull);
    creds_release(&c);
    static const char failed[] = "{\"Code\":\"Failed\"}";
    cr_expect_eq(metadata_parse(&c, "imds", failed, strlen(failed), &err), -1);
    cr_expect_eq(metadata_parse(&c, "imds", "{}", 2, &err), -1);
    cr_expect_eq(metadata_parse(&c, "imds", "", 0, &err), -1);
}

/* --- many threads ---------------------------------------------------------------------------- */

struct crowd {
    struct store *s;
    _Atomic int signed_requests;
};

static void *sign_many(void *arg)
{
    struct crowd *c = arg;
    for (int i = 0; i < 200; i++) {
        struct http_req r;
        if (store_req_put(c->s, "k", 1, "body", 4, &r, NULL) == 0) {
            c->signed_requests++;
            struct http_answer a;
            http_answer_init(&a);
            a.status = 400;
            static const char *const regions[] = {"eu-west-1", "eu-west-2"};
            snprintf(a.region, sizeof a.region, "%s", regions[i & 1]);
            r.method = HTTP_HEAD;
            enum store_again again;
            store_classify(c->s, &r, &a, "", 0, &again, NULL);
            http_req_release(&r);
        }
        if (i % 50 == 0)
            store_creds_refresh(c->s, true, NULL);
        cleanup_bytes struct bytes id = {0};
        store_identity(c->s, &id);
        store_creds_expire_ns(c->s);
    }
    return NULL;
}

Test(creds, requests_and_renewals_from_many_threads, .init = begin, .fini = end)
{
    struct crowd crowd = {.s = open_store("s3://bkt/p", NULL)};
    pthread_t threads[8];
    for (size_t i = 0; i < 8; i++)
        cr_assert_eq(thread_start(&threads[i], "sign", sign_many, &crowd), 0);
    for (size_t i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(crowd.signed_requests, 1600);
    store_close(crowd.s);
}
