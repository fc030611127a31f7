/* What whoever makes a pod may write into its volume, and what is for administrators alone. */
#include <criterion/criterion.h>
#include <string.h>

#include "node-internal.h"

#define MANY(uri) "{\"sources\":[{\"uri\":\"s3://a\",\"at\":\"x/\"},{\"uri\":\"" uri "\"}]}"

static const char *allowed[] = {"/data/sets/", "/mnt/more"};
static const struct node strict = {.conf = {.cache_dir = "/cache"}};
static const struct node open_one = {
    .conf = {.cache_dir = "/cache", .inline_files = {.items = allowed, .n = 2}}};
static const struct node as_delivered;

static enum rpc_code check(const struct node *n, enum attribute which, const char *value,
                           struct err *err)
{
    static char uri[] = "s3://b/set";
    const struct secrets none = {0};
    struct attributes a = {.value = {[ATTR_URI] = uri}};
    a.value[which] = (char *)(uintptr_t)value;
    return inline_check(n, &a, &none, err);
}

Test(inline_volumes, name_nothing_of_the_node)
{
    static const struct {
        const struct node *node;
        enum attribute which;
        const char *value, *want; /* NULL: taken */
    } rows[] = {
        {&strict, ATTR_URI, "s3://b/set", NULL},
        {&strict, ATTR_URI, "https://h/file:/x", NULL},
        {&strict, ATTR_URI, "file:///", "--inline-file"},
        {&strict, ATTR_URI, "file:///data/sets/a", "--inline-file"},
        {&strict, ATTR_URI, "FILE:///data", "--inline-file"},
        {&strict, ATTR_URI, MANY("s3://b"), NULL},
        {&strict, ATTR_URI, MANY("file:///etc"), "--inline-file"},
        {&strict, ATTR_URI, MANY("f\\u0069le:///etc"), "--inline-file"},
        {&open_one, ATTR_URI, "file:///data/sets", NULL},
        {&open_one, ATTR_URI, "file:///data/sets/a/b", NULL},
        {&open_one, ATTR_URI, "file:///mnt/more/", NULL},
        {&open_one, ATTR_URI, MANY("file:///mnt/more/x"), NULL},
        {&open_one, ATTR_URI, "file:///data/sets-of-others", "--inline-file"},
        {&open_one, ATTR_URI, "file:///data", "--inline-file"},
        {&open_one, ATTR_URI, "file:///data/sets/../../etc", "--inline-file"},
        {&open_one, ATTR_URI, "file:///data/sets/..", "--inline-file"},
        {&open_one, ATTR_URI, "file://localhost/etc", "--inline-file"},
        {&open_one, ATTR_URI, MANY("file:///mnt"), "--inline-file"},
        {&strict, ATTR_CATALOGS, "s3://b/catalogs", NULL},
        {&strict, ATTR_CATALOGS, "file:///etc", "catalogs: "},
        {&strict, ATTR_CACHE, "ssd:/cache/a=1GiB,hdd:/cache=2GiB", NULL},
        {&strict, ATTR_CACHE, "ssd:/etc=1GiB", "below /cache"},
        {&strict, ATTR_CACHE, "ssd:/cache/a=1GiB,mem:/dev/shm/a=1GiB", "mem:/dev/shm/a"},
        {&strict, ATTR_CACHE, "ssd:/cache/..=1GiB", "below /cache"},
        {&strict, ATTR_CACHE, "ssd:/cache-of-others=1GiB", "below /cache"},
        {&as_delivered, ATTR_CACHE, "ssd:/var/cache/sampan/a=1GiB", NULL},
        {&as_delivered, ATTR_CACHE, "ssd:/cache/a=1GiB", "below /var/cache/sampan"},
        {&strict, ATTR_PEERS, "http://a:1,http://b:1", NULL},
        {&strict, ATTR_PEERS, "https://a", NULL},
        {&strict, ATTR_PEERS, "/etc/shadow", "peers: "},
        {&strict, ATTR_PEERS, "./a:b", "peers: "},
        {&strict, ATTR_PEERS, "hosts", "peers: "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = {0};
        enum rpc_code code = check(rows[i].node, rows[i].which, rows[i].value, &err);
        cr_assert(code == (rows[i].want ? RPC_INVALID_ARGUMENT : RPC_OK), "row %zu: %s", i,
                  err.msg);
        cr_assert(!rows[i].want || strstr(err.msg, rows[i].want), "row %zu: %s", i, err.msg);
    }
}

Test(inline_volumes, have_keys_of_their_own)
{
    static const struct {
        const char *keys, *want;
    } rows[] = {
        {"[default]\naws_access_key_id = a\naws_secret_access_key = b\n", NULL},
        {"[default]\nrole_arn = a\nweb_identity_token_file = /etc/shadow\n",
         "web_identity_token_file"},
        {"[default]\nrole_arn = a\nWeb_Identity_Token_File: /etc/shadow\n",
         "web_identity_token_file"},
        {"[default]\nrole_arn = a\ncredential_source = Ec2InstanceMetadata\n", "credential_source"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct secrets s = {0};
        struct err err = {0};
        bytes_add_str(&s.keys, rows[i].keys);
        enum rpc_code code = inline_check(&strict, NULL, &s, &err);
        cr_assert(code == (rows[i].want ? RPC_INVALID_ARGUMENT : RPC_OK), "row %zu: %s", i,
                  err.msg);
        cr_assert(!rows[i].want || strstr(err.msg, rows[i].want), "row %zu: %s", i, err.msg);
        cr_assert(!strstr(err.msg, "shadow"));
        secrets_release(&s);
    }
}
