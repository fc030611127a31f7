#include <criterion/criterion.h>
#include <string.h>

#include "cache.h"
#include "clock.h"
#include "informer.h"
#include "mem.h"
#include "object.h"

/* What the listener was told, a word a change: "+a" came, "-a" went, "~a" changed. */
static void on_news(void *arg, enum kind kind, const struct json *before, const struct json *after)
{
    (void)kind;
    bytes_addf(arg, "%s%s ",
               before && after ? "~"
               : before        ? "-"
                               : "+",
               object_name(after ? after : before));
}

static struct object *pod(const char *name, const char *uid, int version, const char *labels)
{
    struct bytes text = {0};
    struct json_doc *doc;
    bytes_addf(&text,
               "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"n\",\"uid\":\"%s\","
               "\"resourceVersion\":\"%d\",\"labels\":{%s},\"managedFields\":[1]}}",
               name, uid, version, labels);
    cr_assert_eq(json_parse(&doc, "pod", text.data, text.len, NULL), 0);
    bytes_release(&text);
    return object_new(KIND_POD, doc);
}

static void expect_told(struct bytes *told, const char *want)
{
    cr_assert_str_eq(told->data ? told->data : "", want);
    bytes_clear(told);
    bytes_add(told, "", 0);
}

static const char *uid_of(struct cache *c, const char *name)
{
    static char uid[32];
    struct object *o = cache_get(c, KIND_POD, "n", name);
    snprintf(uid, sizeof uid, "%s", o ? object_uid(&o->root) : "none");
    object_unref(o);
    return uid;
}

static void count(void *arg, struct object *o)
{
    ++*(size_t *)arg;
    object_unref(o);
}

static size_t count_of(struct cache *c, const char *ns, const char *key, const char *value)
{
    size_t n = 0;
    cache_list(c, KIND_POD, ns, key, value, count, &n);
    return n;
}

static void replace(struct cache *c, struct object *one, struct object *two, const char *version)
{
    struct object *all[] = {one, two};
    cache_replace(c, KIND_POD, all, (size_t)(one != NULL) + (two != NULL), version);
}

Test(operator_cache, lists_changes_and_lists_again)
{
    struct bytes told = {0};
    struct cache *c = cache_new(on_news, &told);
    replace(c, pod("a", "1", 5, "\"x\":\"1\""), pod("b", "2", 6, ""), "10");
    expect_told(&told, "+a +b ");
    cr_assert_eq(count_of(c, NULL, NULL, NULL), 2);
    cr_assert_eq(count_of(c, "n", "x", "1"), 1);
    cr_assert_eq(count_of(c, "m", "x", "1"), 0);
    struct object *o = cache_get(c, KIND_POD, "n", "a");
    struct json meta = json_get(&o->root, "metadata");
    cr_assert(!json_has(&meta, "managedFields"));
    object_unref(o);

    cache_changed(c, KIND_POD, pod("a", "1", 11, "\"x\":\"2\""), false);
    cache_changed(c, KIND_POD, pod("a", "1", 9, "\"x\":\"3\""), false); /* old news */
    expect_told(&told, "~a ");
    cr_assert_eq(count_of(c, NULL, "x", "1"), 0);
    cr_assert_eq(count_of(c, NULL, "x", "2"), 1);
    cr_assert_eq(count_of(c, NULL, "x", NULL), 1);

    replace(c, pod("b", "2", 6, ""), NULL, "20"); /* a went while nobody watched */
    expect_told(&told, "-a ");
    cache_put(c, KIND_POD, pod("c", "3", 40, ""));
    replace(c, NULL, NULL, "30"); /* from before c */
    expect_told(&told, "+c -b ");
    replace(c, NULL, NULL, ""); /* the kind's definition was removed */
    expect_told(&told, "-c ");
    cr_assert_eq(count_of(c, NULL, NULL, NULL), 0);
    cache_free(c);
    bytes_release(&told);
}

/* An object of `kind` called "ns/name", with that text as its spec. */
static struct object *with_spec(enum kind kind, const char *ns, const char *name, int version,
                                const char *spec)
{
    cleanup_free char *text =
        xasprintf("{\"metadata\":{\"name\":\"%s\",\"namespace\":\"%s\",\"uid\":\"%s\","
                  "\"resourceVersion\":\"%d\"},\"spec\":%s}",
                  name, ns, name, version, spec);
    struct json_doc *doc;
    cr_assert_eq(json_parse(&doc, "object", text, strlen(text), NULL), 0, "%s", text);
    return object_new(kind, doc);
}

static void add_name(void *arg, struct object *o)
{
    bytes_addf(arg, "%s ", o->key);
    object_unref(o);
}

/* Those with the mark, as "ns/name " one after another. */
static void expect_marked(struct cache *c, enum kind kind, const char *mark, const char *value,
                          const char *want)
{
    cleanup_bytes struct bytes got = {0};
    bytes_add(&got, "", 0);
    cache_list(c, kind, NULL, mark, value, add_name, &got);
    cr_assert_str_eq(got.data, want, "%s=%s", mark, value);
}

Test(operator_cache, jobs_are_found_by_the_sets_that_they_name)
{
    struct bytes told = {0};
    struct cache *c = cache_new(on_news, &told);
    cache_changed(c, KIND_PADDLEJOB,
                  with_spec(KIND_PADDLEJOB, "n", "both", 1,
                            "{\"sampleSetRef\":{\"name\":\"s\"},"
                            "\"output\":{\"sampleSetRef\":{\"name\":\"s\"}}}"),
                  false);
    expect_marked(c, KIND_PADDLEJOB, MARK_USES, "s", "n/both "); /* once */
    cache_changed(c, KIND_PADDLEJOB,
                  with_spec(KIND_PADDLEJOB, "n", "both", 2,
                            "{\"sampleSetRef\":{\"name\":\"t\"},"
                            "\"output\":{\"sampleSetRef\":{\"name\":\"s\"}}}"),
                  false);
    cache_changed(c, KIND_PADDLEJOB, with_spec(KIND_PADDLEJOB, "m", "none", 3, "{}"), false);
    expect_marked(c, KIND_PADDLEJOB, MARK_USES, "s", "n/both ");
    expect_marked(c, KIND_PADDLEJOB, MARK_USES, "t", "n/both ");
    expect_marked(c, KIND_PADDLEJOB, MARK_USES, NULL, "n/both ");
    cache_changed(c, KIND_PADDLEJOB, with_spec(KIND_PADDLEJOB, "n", "both", 4, "{}"), true);
    expect_marked(c, KIND_PADDLEJOB, MARK_USES, "t", "");

    cache_changed(c, KIND_SAMPLEJOB,
                  with_spec(KIND_SAMPLEJOB, "n", "old", 1, "{\"sampleset\":\"s\"}"), false);
    expect_marked(c, KIND_SAMPLEJOB, MARK_USES, "s", "n/old ");
    cache_changed(c, KIND_SAMPLESET, with_spec(KIND_SAMPLESET, "n", "s", 1, "{}"), false);
    expect_marked(c, KIND_SAMPLESET, MARK_NAME, "s", "n/s ");
    expect_marked(c, KIND_SAMPLESET, MARK_NAME, "t", "");
    expect_marked(c, KIND_PADDLEJOB, MARK_NAME, "none", "m/none "); /* without an index */
    cache_free(c);
    bytes_release(&told);
}

Test(operator_cache, our_own_writes_count_at_once_and_old_news_do_not)
{
    struct bytes told = {0};
    struct cache *c = cache_new(on_news, &told);
    cache_put(c, KIND_POD, pod("early", "0", 1, "")); /* nothing is known before the list */
    cr_assert_str_eq(uid_of(c, "early"), "none");
    replace(c, NULL, NULL, "10");
    cache_put(c, KIND_POD, pod("a", "1", 12, ""));
    cr_assert_str_eq(uid_of(c, "a"), "1");
    cache_changed(c, KIND_POD, pod("a", "1", 12, ""), false); /* the watch says so too */
    expect_told(&told, "+a ");
    replace(c, NULL, NULL, "11"); /* a list from before our write */
    cr_assert_str_eq(uid_of(c, "a"), "1");
    cache_changed(c, KIND_POD, pod("a", "1", 15, ""), true);
    cache_put(c, KIND_POD, pod("a", "1", 14, "")); /* an answer that comes after its end */
    cr_assert_str_eq(uid_of(c, "a"), "none");
    expect_told(&told, "-a ");
    cache_free(c);
    bytes_release(&told);
}

Test(operator_cache, what_we_deleted_is_gone_at_once)
{
    struct bytes told = {0};
    struct cache *c = cache_new(on_news, &told);
    replace(c, pod("a", "1", 5, ""), NULL, "10");
    cache_gone(c, KIND_POD, "n", "a", "other"); /* another one of that name */
    cr_assert_str_eq(uid_of(c, "a"), "1");
    cache_gone(c, KIND_POD, "n", "a", "1");
    cache_gone(c, KIND_POD, "n", "a", "1");
    expect_told(&told, "+a -a ");
    cache_changed(c, KIND_POD, pod("a", "1", 11, ""), false); /* from before its end */
    cr_assert_str_eq(uid_of(c, "a"), "none");
    cr_assert_eq(count_of(c, NULL, NULL, NULL), 0);
    cache_put(c, KIND_POD, pod("a", "2", 13, "")); /* made again */
    cr_assert_str_eq(uid_of(c, "a"), "2");
    cache_changed(c, KIND_POD, pod("a", "1", 12, ""), true); /* the end of the first one */
    cr_assert_str_eq(uid_of(c, "a"), "2");
    expect_told(&told, "+a ");
    cache_free(c);
    bytes_release(&told);
}

Test(operator_cache, a_foreign_object_is_known_for_a_minute)
{
    struct bytes told = {0};
    struct cache *c = cache_new(on_news, &told);
    replace(c, NULL, NULL, "10");
    cache_foreign(c, KIND_POD, pod("a", "9", 3, ""));
    cr_assert_str_eq(uid_of(c, "a"), "9");
    cr_assert_eq(count_of(c, NULL, NULL, NULL), 0); /* lists are of ours */
    replace(c, NULL, NULL, "20");
    cr_assert_str_eq(uid_of(c, "a"), "9");
    clock_advance(61 * NS_PER_S);
    cr_assert_str_eq(uid_of(c, "a"), "none");
    cache_foreign(c, KIND_POD, pod("a", "9", 3, "")); /* still there */
    cr_assert_str_eq(uid_of(c, "a"), "9");
    cache_put(c, KIND_POD, pod("a", "10", 30, "")); /* ours at last */
    cr_assert_eq(count_of(c, NULL, NULL, NULL), 1);
    cache_free(c);
    bytes_release(&told);
}

Test(operator_cache, versions)
{
    static const struct {
        const char *a, *b;
        bool newer;
    } rows[] = {
        {"2", "1", true},   {"1", "2", false},
        {"10", "9", true},  {"9", "10", false},
        {"7", "7", false},  {"1", NULL, true},
        {NULL, "1", false}, {NULL, NULL, false},
        {"", "", false},    {"18446744073709551616", "9", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_assert_eq(version_newer(rows[i].a, rows[i].b), rows[i].newer, "row %zu", i);
}

Test(operator_informer, paths)
{
    static const struct {
        enum kind kind;
        const char *ns, *name, *want;
    } rows[] = {
        {KIND_POD, NULL, NULL, "/api/v1/pods"},
        {KIND_POD, "n", NULL, "/api/v1/namespaces/n/pods"},
        {KIND_POD, "n", "p", "/api/v1/namespaces/n/pods/p"},
        {KIND_NODE, NULL, "m", "/api/v1/nodes/m"},
        {KIND_STATEFULSET, "n", "s", "/apis/apps/v1/namespaces/n/statefulsets/s"},
        {KIND_PADDLEJOB, NULL, NULL, "/apis/batch.paddlepaddle.org/v1/paddlejobs"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *got = kind_path(rows[i].kind, rows[i].ns, rows[i].name);
        cr_assert_str_eq(got, rows[i].want);
        free(got);
    }
}

Test(operator_informer, back_off)
{
    for (uint64_t dice = 0; dice < 1000; dice++) {
        uint64_t cap = NS_PER_S / 2;
        for (unsigned failures = 1; failures < 40; failures++) {
            uint64_t got = informer_back_off(failures, 0, dice);
            cr_assert(got >= cap / 2 && got < cap, "failure %u: %llu", failures,
                      (unsigned long long)got);
            cap = 2 * cap < 10 * NS_PER_S ? 2 * cap : 10 * NS_PER_S;
        }
        cr_assert(informer_back_off(1, 7, dice) >= 7 * NS_PER_S);
    }
}
