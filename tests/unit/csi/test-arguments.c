/* Attributes, mount options, secrets and paths, as they come and what they become. */
#include <criterion/criterion.h>
#include <string.h>

#include "arguments.h"
#include "state.h"

static enum rpc_code add(struct attributes *a, struct arena *arena, const char *key,
                         const char *value, struct err *err)
{
    PB(Pair) p = PB_INIT(PAIR);
    PB(Pair) * list[] = {&p};
    p.key = arena_text(arena, key);
    p.value = arena_text(arena, value);
    return attributes_add(a, arena, "parameters", list, 1, err);
}

Test(attributes, values_are_checked)
{
    static const struct {
        const char *key, *value, *want; /* NULL: taken */
    } rows[] = {
        {"uri", "s3://b/p", NULL},
        {"uri", "bucket", "want a URI"},
        {"uri", "s3://AK:SK@b/p", "password"},
        {"uri", "{\"sources\":[{\"uri\":\"s3://a\",\"at\":\"x/\"},\n\t{\"uri\":\"s3://b\"}]}\n",
         NULL},
        {"uri", "{\"sources\":[{\"uri\":\"s3://a\"},{\"uri\":\"s3://AK:SK@b/p\"}]}",
         "sources[1]: a URI with"},
        {"uri", "{\"sources\":[{\"url\":\"s3://a\"}]}", "url"},
        {"uri", "{\"sources\":[]}", "names none"},
        {"uri", "{\"sources\":[\"s3://a\"]}", "sources[0]"},
        {"uri", "{\"sources\":[{\"uri\":\"{}\"}]}", "want a URI"},
        {"uri", "{s3://b/p", "uri: refused"},
        {"catalogs", "{\"sources\":[{\"uri\":\"s3://a\"}]}", "want a URI"},
        {"endpoint", "https://s3.example.com", NULL},
        {"endpoint", "s3.example.com", "want http://"},
        {"endpoint", "https://a:b@c", "password"},
        {"region", "eu-west-1", NULL},
        {"region", "eu west", "letters"},
        {"cache", "ssd:/a=1GiB", NULL},
        {"cache", "mem:/dev/shm/a=1GiB,hdd:/b=2TiB", NULL},
        {"cache", "ssd:/a", "want TIER:/DIR=SIZE"},
        {"cache", "nvme:/a=1GiB", "want TIER"},
        {"cache", "ssd:/a/../b=1GiB", "want TIER"},
        {"cache", "ssd:/a/..=1GiB", "want TIER"},
        {"cache", "ssd:/a/..b=1GiB", NULL},
        {"cache", "ssd:/a=1GiB,", "want TIER"},
        {"cache", "ssd:/a=lots", "lots"},
        {"memory", "256MiB", NULL},
        {"memory", "-1", "memory"},
        {"profile", "shards", NULL},
        {"profile", "fast", "samples or shards"},
        {"writable", "true", NULL},
        {"writable", "1", "want \"true\""},
        {"commit", "interval=5s", NULL},
        {"commit", "interval=x", "commit"},
        {"commit", "never", "close, background"},
        {"refresh", "5m", NULL},
        {"bandwidth", "100Mbit", NULL},
        {"prefetch", "64", NULL},
        {"prefetch", "many", "number"},
        {"free-space", "10%", NULL},
        {"free-space", "x%", "free-space"},
        {"version", "abc", "hex digits"},
        {"csi.storage.k8s.io/pod.name", "x", NULL},
        {"storage.kubernetes.io/csiProvisionerIdentity", "x", NULL},
        {"partition", "0/4", "parameters: partition: unknown"},
        {"url", "s3://b", "did you mean uri"},
        {"region", "a\nb", "control character"},
        {"region", "", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct arena arena = {0};
        struct attributes a = {0};
        struct err err = {0};
        enum rpc_code code = add(&a, &arena, rows[i].key, rows[i].value, &err);
        cr_assert(code == (rows[i].want ? RPC_INVALID_ARGUMENT : RPC_OK), "row %zu: %s", i,
                  err.msg);
        cr_assert(!rows[i].want || strstr(err.msg, rows[i].want), "row %zu: %s", i, err.msg);
        cr_assert(!strstr(err.msg, "SK@"), "a password in an error");
        arena_release(&arena);
    }
}

Test(attributes, options_become_words)
{
    static const struct {
        const char *options, *words, *error;
    } rows[] = {
        {"ro", "", NULL},
        {"noatime,rw,_netdev", "", NULL},
        {"memory=1GiB,cache=ssd:/a=1GiB,hdd:/b=2GiB,refresh=1m",
         "--memory 1GiB --refresh 1m --cache ssd:/a=1GiB --cache hdd:/b=2GiB ", NULL},
        {"cache-dir=/a:/dev/shm/b,cache-size=2048",
         "--cache ssd:/a=1024MiB --cache mem:/dev/shm/b=1024MiB ", NULL},
        {"free-space-ratio=0.2,download-limit=100,buffer-size=300",
         "--memory 300MiB --bandwidth 100Mbit --free-space 20% ", NULL},
        {"read-only,prefetch=3", "--prefetch 3 ", NULL},
        {"writable=true,commit=background", "--commit background --writable --gid 7 ", NULL},
        {"cache-size=2048,cache-dir=/a", "--cache ssd:/a=2048MiB ", NULL},
        {"cache-dir=/a,cache-size=two", NULL, "want MiB"},
        {"cache-size=10", NULL, "cache-dir"},
        {"cache-dir=memory,cache-size=10", NULL, "cache-dir"},
        {"free-space-ratio=2", NULL, "0 to 1"},
        {"writeback", NULL, "mount options: writeback: unknown"},
        {"memory=1GiB,,", "--memory 1GiB ", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct arena arena = {0};
        struct attributes a = {0};
        struct err err = {0};
        struct bytes words = {0};
        add(&a, &arena, "uri", "s3://b", &err);
        enum rpc_code code = attributes_add_options(&a, &arena, rows[i].options, &err);
        if (!code)
            code = attributes_check(&a, &arena, &err);
        cr_assert((code == RPC_OK) == !rows[i].error, "row %zu: %s", i, err.msg);
        cr_assert(!rows[i].error || strstr(err.msg, rows[i].error), "row %zu: %s", i, err.msg);
        attributes_words(&a, 7, &words);
        for (size_t k = 0; k < words.len; k++)
            if (!words.data[k])
                words.data[k] = ' ';
        const char *got = words.data ? words.data : "";
        cr_assert(!rows[i].words || strcmp(got, rows[i].words) == 0, "row %zu: \"%s\"", i, got);
        bytes_release(&words);
        arena_release(&arena);
    }
}

/* A volume's mountOptions are a list: each comes alone. */
Test(attributes, options_that_belong_together_come_one_by_one)
{
    static const char *const rows[][3] = {
        {"cache-dir=/a:/b", "cache-size=20", "ssd:/a=10MiB,ssd:/b=10MiB"},
        {"cache-size=20", "cache-dir=/a", "ssd:/a=20MiB"},
        {"cache-dir=/a", "prefetch=3", "ssd:/a=102400MiB"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct arena arena = {0};
        struct attributes a = {0};
        struct err err = {0};
        add(&a, &arena, "uri", "s3://b", &err);
        for (int k = 0; k < 2; k++)
            cr_assert(attributes_add_options(&a, &arena, rows[i][k], &err) == RPC_OK, "row %zu: %s",
                      i, err.msg);
        cr_assert(attributes_check(&a, &arena, &err) == RPC_OK, "row %zu: %s", i, err.msg);
        cr_assert_str_eq(a.value[ATTR_CACHE], rows[i][2], "row %zu", i);
        arena_release(&arena);
    }
}

Test(attributes, text_goes_there_and_back)
{
    struct arena arena = {0};
    struct attributes a = {0}, b = {0};
    struct bytes one = {0}, two = {0};
    struct err err = {0};
    const char *several = "{\"sources\":\n[{\"uri\":\"s3://a/=\"}]}";
    add(&a, &arena, "uri", several, &err);
    cr_assert_str_eq(a.value[ATTR_URI], "{\"sources\": [{\"uri\":\"s3://a/=\"}]}");
    add(&a, &arena, "writable", "true", &err);
    cr_assert(attributes_check(&a, &arena, &err) == RPC_INVALID_ARGUMENT);
    cr_assert(strstr(err.msg, "one source alone"), "%s", err.msg);
    add(&a, &arena, "uri", "s3://b/p//", &err);
    add(&a, &arena, "writable", "true", &err);
    add(&a, &arena, "commit", "interval=5s", &err);
    cr_assert(attributes_check(&a, &arena, &err) == RPC_OK);
    cr_assert_str_eq(a.value[ATTR_URI], "s3://b/p");
    attributes_text(&a, &one);
    cr_assert(attributes_of_text(&b, &arena, one.data, &err) == RPC_OK);
    attributes_text(&b, &two);
    cr_assert_str_eq(one.data, two.data);
    bytes_release(&one);
    bytes_release(&two);
    arena_release(&arena);
}

Test(attributes, several_sources_have_a_bound)
{
    struct arena arena = {0};
    struct attributes a = {0};
    struct err err = {0};
    struct bytes text = {0};
    bytes_add_str(&text, "{\"sources\":[{\"uri\":\"s3://b\"}");
    while (text.len < (256u << 10))
        bytes_add_str(&text, ",{\"uri\":\"s3://bucket/prefix\",\"at\":\"x\"}");
    bytes_add_str(&text, "]}");
    cr_assert(add(&a, &arena, "uri", text.data, &err) == RPC_INVALID_ARGUMENT);
    cr_assert(strstr(err.msg, "more than 262144 bytes"), "%s", err.msg);
    bytes_release(&text);
    arena_release(&arena);
}

Test(attributes, what_does_not_go_together)
{
    static const char *const rows[][2] = {
        {"commit=close", "writable"},
        {"writable=true,profile=shards", "writable"},
        {"writable=true,peers=http://a:7716", "writable"},
        {"", "uri: missing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct arena arena = {0};
        struct attributes a = {0};
        struct err err = {0};
        if (*rows[i][0])
            add(&a, &arena, "uri", "s3://b", &err);
        cr_assert(attributes_add_options(&a, &arena, rows[i][0], &err) == RPC_OK);
        cr_assert(attributes_check(&a, &arena, &err) == RPC_INVALID_ARGUMENT, "row %zu", i);
        cr_assert(strstr(err.msg, rows[i][1]), "row %zu: %s", i, err.msg);
        arena_release(&arena);
    }
}

Test(secrets, become_an_ini_file)
{
    static const struct {
        const char *keys[3], *values[3], *want;
        enum rpc_code code;
        const char *token;
    } rows[] = {
        {{"access-key", "secret-key"},
         {"A", "S"},
         "[default]\naws_access_key_id = A\naws_secret_access_key = S\n",
         RPC_OK,
         ""},
        {{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"},
         {"A\n", "S\n", "T"},
         "[default]\naws_access_key_id = A\naws_secret_access_key = S\naws_session_token = T\n",
         RPC_OK,
         ""},
        {{"accessKey", "secretKey", "name"},
         {"A", "S", "jfs"},
         "[default]\naws_access_key_id = A\naws_secret_access_key = S\n",
         RPC_OK,
         ""},
        {{"credentials"}, {"[default]\nx = y\n"}, "[default]\nx = y\n", RPC_OK, ""},
        {{"other"}, {"thing"}, "", RPC_OK, ""},
        {{"peer-token"}, {"t\n"}, "", RPC_OK, "t\n"},
        {{"accessKey", "secretKey", "PEER_TOKEN"},
         {"A", "S", "t"},
         "[default]\naws_access_key_id = A\naws_secret_access_key = S\n",
         RPC_OK,
         "t\n"},
        {{"peer-token"}, {""}, "", RPC_INVALID_ARGUMENT, ""},
        {{"peer-token"}, {"a\n[x]"}, "", RPC_INVALID_ARGUMENT, ""},
        {{"secret-key"}, {"S"}, NULL, RPC_UNAUTHENTICATED, ""},
        {{"access-key", "secret-key"}, {"A", ""}, NULL, RPC_INVALID_ARGUMENT, ""},
        {{"access-key", "secret-key"}, {"A", "S\n[x]\ny"}, NULL, RPC_INVALID_ARGUMENT, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct arena arena = {0};
        PB(Pair) pairs[3], *list[3];
        size_t n = 0;
        for (; n < 3 && rows[i].keys[n]; n++) {
            pairs[n] = (PB(Pair))PB_INIT(PAIR);
            pairs[n].key = arena_text(&arena, rows[i].keys[n]);
            pairs[n].value = arena_text(&arena, rows[i].values[n]);
            list[n] = &pairs[n];
        }
        struct secrets got = {0};
        struct err err = {0};
        enum rpc_code code = secrets_read(list, n, &got, &err);
        cr_assert(code == rows[i].code, "row %zu: %s", i, err.msg);
        cr_assert(!rows[i].want || strcmp(got.keys.data ? got.keys.data : "", rows[i].want) == 0,
                  "row %zu", i);
        cr_assert_str_eq(got.token.data ? got.token.data : "", rows[i].token, "row %zu", i);
        cr_assert(!strstr(err.msg, "[x]"), "a secret in an error");
        secrets_release(&got);
        arena_release(&arena);
    }
}

Test(paths, are_checked)
{
    static const struct {
        const char *path, *folder, *want;
    } rows[] = {
        {"/tmp", "", NULL},
        {"/tmp/x/y", "/tmp", NULL},
        {"/tmp/x/", "/tmp/", NULL},
        {"", "", "missing"},
        {"tmp", "", "absolute"},
        {"/", "", "absolute"},
        {"/tmp/../x", "", "\"..\""},
        {"/tmp/./x", "", "\".\""},
        {"/tmpx", "/tmp", "outside"},
        {"/tmp", "/tmp", "outside"},
        {"/proc/self", "", "a symbolic link"},
        {"/etc/passwd", "", "a file"},
        {"/proc/self/cwd/x", "/proc", "outside"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = {0};
        enum rpc_code code = check_path("target_path", rows[i].path, rows[i].folder, &err);
        cr_assert((code == RPC_OK) == !rows[i].want, "row %zu: %s", i, err.msg);
        cr_assert(!rows[i].want || strstr(err.msg, rows[i].want), "row %zu: %s", i, err.msg);
    }
}

Test(state, names_differ)
{
    char a[STATE_NAME_BYTES], b[STATE_NAME_BYTES], c[STATE_NAME_BYTES];
    state_name("volume", a);
    state_name("volume", b);
    state_name("volumf", c);
    cr_assert_str_eq(a, b);
    cr_assert_str_neq(a, c);
    cr_assert(strlen(a) == 32);
}
