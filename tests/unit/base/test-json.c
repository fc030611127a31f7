#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "json.h"
#include "mem.h"

static struct json_doc *parse(const char *text)
{
    struct json_doc *d = NULL;
    struct err e = {0};
    cr_assert_eq(json_parse(&d, "set.json", text, strlen(text), &e), 0, "%s", e.msg);
    return d;
}

Test(json, names_are_bytes)
{
    static const char *const names[] = {"",     "a b", "h\xc3\xa9", "h\xff", "\xed\xa0\x80\n\"",
                                        "a\xc3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cleanup_bytes struct bytes text = {0};
        cleanup_free char *back = NULL;
        struct json_writer w;
        struct err e = {0};
        jw_init(&w, &text);
        jw_object(&w, NULL);
        jw_name(&w, "name", names[i]);
        jw_end(&w);
        cleanup_json struct json_doc *d = parse(text.data);
        struct json root = json_root(d);
        cr_expect_eq(json_name(&root, "name", &back, &e), 0, "%s", e.msg);
        cr_expect_str_eq(back, names[i]);
    }
}

Test(json, refuses_what_is_no_name)
{
    static const char *const texts[] = {"{}",
                                        "{\"name\":7}",
                                        "{\"name\":{}}",
                                        "{\"name\":{\"hex\":7}}",
                                        "{\"name\":{\"hex\":\"fff\"}}",
                                        "{\"name\":{\"hex\":\"0g\"}}",
                                        "{\"name\":{\"hex\":\"6100\"}}",
                                        "{\"name\":{\"hex\":\"ff\",\"more\":1}}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cleanup_json struct json_doc *d = parse(texts[i]);
        struct json root = json_root(d);
        char *name = NULL;
        cr_expect_eq(json_name(&root, "name", &name, NULL), -1, "%s", texts[i]);
        cr_expect_null(name);
    }
}

Test(json, reads_values)
{
    cleanup_json struct json_doc *d =
        parse("{\"s\":\"x\",\"n\":7,\"r\":1.5,\"b\":true,\"a\":[1,\"two\"],\"o\":{\"k\":null}}");
    struct json root = json_root(d);
    struct err e = {0};
    const char *s;
    int64_t n;
    double r;
    bool b;
    cr_expect_eq(json_str(&root, "s", &s, &e), 0);
    cr_expect_str_eq(s, "x");
    cr_expect_eq(json_int(&root, "n", 0, 10, &n, &e), 0);
    cr_expect_eq(n, 7);
    cr_expect_eq(json_num(&root, "r", &r, &e), 0);
    cr_expect_eq(r, 1.5);
    cr_expect_eq(json_num(&root, "n", &r, &e), 0, "an integer is a number");
    cr_expect_eq(json_bool(&root, "b", &b, &e), 0);
    cr_expect(b);
    struct json a = json_get(&root, "a");
    cr_expect_eq(json_count(&a), 2);
    struct json two = json_at(&a, 1);
    cr_expect_eq(json_as_str(&two, &s, &e), 0);
    cr_expect_str_eq(s, "two");
    struct json member = json_member(&root, 5);
    cr_expect_str_eq(member.key, "o");
    cr_expect_null(json_member(&root, 6).node);
    member = json_member(&root, 0);
    for (size_t i = 1; i < 6; i++) {
        member = json_after(&root, &member);
        cr_expect_str_eq(member.key, json_member(&root, i).key);
        cr_expect_eq(member.node, json_member(&root, i).node);
    }
    cr_expect_null(json_after(&root, &member).node);
    cr_expect(json_has(&root, "o"));
    cr_expect_not(json_has(&root, "p"));
    cr_expect_eq(json_int_or(&root, "p", 0, 1, 9, &n, &e), 0);
    cr_expect_eq(n, 9);
    cr_expect_eq(json_str_or(&root, "p", NULL, &s, &e), 0);
    cr_expect_null(s);
    cr_expect_eq(json_bool_or(&root, "p", true, &b, &e), 0);
}

Test(json, errors_name_the_path)
{
    cleanup_json struct json_doc *d =
        parse("{\"spec\":{\"tiers\":[{\"limit\":\"big\",\"n\":12}]},\"list\":3}");
    struct json root = json_root(d);
    struct json spec = json_get(&root, "spec");
    struct json tiers = json_get(&spec, "tiers");
    struct json tier = json_at(&tiers, 0);
    struct json none = json_at(&tiers, 4);
    struct json list = json_get(&root, "list");
    struct err e = {0};
    int64_t n;
    const char *s;
    double r;
    cr_expect_eq(json_num(&tier, "limit", &r, &e), -1);
    cr_expect_str_eq(e.msg, "set.json: spec.tiers[0].limit: want a number, got a string");
    cr_expect_eq(json_int(&tier, "n", 0, 10, &n, &e), -1);
    cr_expect_str_eq(e.msg, "set.json: spec.tiers[0].n: want 0 to 10, got 12");
    cr_expect_eq(json_str(&tier, "absent", &s, &e), -1);
    cr_expect_str_eq(e.msg, "set.json: spec.tiers[0].absent: want a string, got nothing");
    cr_expect_eq(json_as_str(&none, &s, &e), -1);
    cr_expect_str_eq(e.msg, "set.json: spec.tiers[4]: want a string, got nothing");
    cr_expect_eq(json_want_array(&list, &e), -1);
    cr_expect_str_eq(e.msg, "set.json: list: want an array, got an integer");
    static const char *const keys[] = {"spec", "items", NULL};
    cr_expect_eq(json_only_keys(&root, keys, &e), -1);
    cr_expect_str_eq(e.msg, "set.json: list: unknown key (known: spec, items)");
    cr_expect_eq(json_only_keys(&list, keys, &e), -1);
}

Test(json, refuses_bad_text)
{
    char deep[400];
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    deep[200] = '\0';
    const char *const bad[] = {"",        "{",  "{\"a\":1,\"a\":2}", "[1,]", "{} x", "\"\\ud800\"",
                               "[1e999]", deep, "\xff\xfe"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct json_doc *d = NULL;
        struct err e = {0};
        cr_expect_eq(json_parse(&d, "x", bad[i], strlen(bad[i]), &e), -1, "%s", bad[i]);
        cr_expect_eq(e.class, ERR_CORRUPT);
        cr_expect_eq(strncmp(e.msg, "x: ", 3), 0, "%s", e.msg);
    }
}

static void *parse_deep(void *text)
{
    struct json_doc *d = NULL;
    struct err e = {0};
    if (json_parse(&d, "body", text, strlen(text), &e) == 0)
        json_doc_free(d);
    return (void *)(uintptr_t)(strstr(e.msg, "deeper than 64") != NULL);
}

static char *brackets(size_t n)
{
    char *text = xcalloc(1, 2 * n + 1);
    memset(text, '[', n);
    memset(text + n, ']', n);
    return text;
}

/* Whatever a client sends fits on the stack of the thread that serves it. */
Test(json, deep_text_is_refused_on_a_small_stack)
{
    static const size_t levels[] = {64, 65, 2000, 100000};
    pthread_attr_t small;
    pthread_attr_init(&small);
    cr_assert_eq(pthread_attr_setstacksize(&small, 64 << 10), 0);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        cleanup_free char *text = brackets(levels[i]);
        pthread_t thread;
        void *refused;
        cr_assert_eq(pthread_create(&thread, &small, parse_deep, text), 0);
        pthread_join(thread, &refused);
        cr_expect_eq(refused != NULL, levels[i] > 64, "%zu levels", levels[i]);
    }
    cleanup_free char *text = brackets(500);
    cleanup_free char *quoted = xasprintf("[\"\\\"%s\",[],[],{}]", text);
    struct json_doc *d = parse(quoted);
    json_doc_free(d);
}

Test(json, writer_nests_and_escapes)
{
    struct bytes out = {0};
    struct json_writer w;
    jw_init(&w, &out);
    jw_object(&w, NULL);
    jw_str(&w, "s", "a\"b\\c\n\x01");
    jw_int(&w, "i", -5);
    jw_uint(&w, "u", UINT64_MAX);
    jw_num(&w, "d", 0.5);
    jw_num(&w, "nan", NAN);
    jw_bool(&w, "b", false);
    jw_str(&w, "null", NULL);
    jw_array(&w, "a");
    jw_int(&w, NULL, 1);
    jw_object(&w, NULL);
    jw_end(&w);
    jw_array(&w, NULL);
    jw_end(&w);
    jw_end(&w);
    jw_raw(&w, "r", "{\"x\":1}");
    jw_end(&w);
    cr_expect_str_eq(out.data,
                     "{\"s\":\"a\\\"b\\\\c\\n\\u0001\",\"i\":-5,\"u\":18446744073709551615,"
                     "\"d\":0.500,\"nan\":null,\"b\":false,\"null\":null,\"a\":[1,{},[]],"
                     "\"r\":{\"x\":1}}");
    bytes_release(&out);
}

Test(json, writer_replaces_what_is_not_utf8)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"ok \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
         "\"ok \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
        {"\xff", "\"\xef\xbf\xbd\""},
        {"a\xc3", "\"a\xef\xbf\xbd\""},
        {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}, /* a surrogate */
        {"\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\""},                 /* overlong */
        {"\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bytes out = {0};
        struct json_writer w;
        jw_init(&w, &out);
        jw_str(&w, NULL, rows[i].in);
        cr_expect_str_eq(out.data, rows[i].out, "row %zu", i);
        struct json_doc *d = NULL;
        cr_expect_eq(json_parse(&d, "x", "[1]", 3, NULL), 0);
        json_doc_free(d);
        bytes_release(&out);
    }
}

Test(json, text_of_a_node)
{
    cleanup_json struct json_doc *d =
        parse("{\"ok\": true, \"z\": {\"b\": 0.1, \"a\": [1, \"x\"]}}");
    struct json root = json_root(d), z = json_get(&root, "z"), none = json_get(&root, "none");
    struct bytes out = {0};
    json_text(&z, &out);
    cr_expect_str_eq(out.data, "{\"b\":0.1,\"a\":[1,\"x\"]}");
    bytes_clear(&out);
    json_text(&none, &out);
    cr_expect_str_eq(out.data, "");
    bytes_release(&out);
}

Test(json, a_node_outlives_its_document)
{
    struct json_doc *d = parse("{\"a\":{\"b\":1,\"c\":null},\"d\":2}");
    struct json root = json_root(d), a = json_get(&root, "a"), c = json_get(&a, "c");
    cr_expect(json_holds_null(&c) && !json_holds_null(&a));
    json_drop(&a, "c");
    cleanup_json struct json_doc *own = json_doc_of(&a, "part");
    json_doc_free(d);
    struct json part = json_root(own);
    struct bytes out = {0};
    json_text(&part, &out);
    cr_expect_str_eq(out.data, "{\"b\":1}");
    bytes_release(&out);
}

Test(json, patches_that_change)
{
    static const struct {
        const char *object, *patch;
        bool changes;
    } rows[] = {
        {"{}", "{}", false},
        {"{\"a\":1}", "{\"a\":1}", false},
        {"{\"a\":1}", "{\"a\":2}", true},
        {"{\"a\":1}", "{\"a\":null}", true},
        {"{\"a\":1}", "{\"b\":null}", false},
        {"{\"a\":1}", "{\"b\":{}}", false},
        {"{\"a\":1}", "{\"b\":{\"c\":{\"d\":null}}}", false},
        {"{\"a\":1}", "{\"b\":{\"c\":\"\"}}", true},
        {"{\"a\":1}", "{\"a\":{}}", true},
        {"{\"a\":{\"b\":[1,{\"c\":2}]}}", "{\"a\":{\"b\":[1,{\"c\":2}]}}", false},
        {"{\"a\":{\"b\":[1,{\"c\":2}]}}", "{\"a\":{\"b\":[1]}}", true},
        {"{\"a\":[]}", "{\"a\":[]}", false},
        {"{}", "{\"a\":[]}", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cleanup_json struct json_doc *o = parse(rows[i].object), *p = parse(rows[i].patch);
        struct json object = json_root(o), patch = json_root(p);
        cr_expect_eq(json_patch_changes(&object, &patch), rows[i].changes, "row %zu", i);
        cr_expect_eq(json_same(&object, &patch), strcmp(rows[i].object, rows[i].patch) == 0);
    }
}
