#include <criterion/criterion.h>
#include <string.h>

#include "as-text.h"
#include "object.h"

static const char facts[] =
    "{\"now\":1000,"
    "\"object\":{\"apiVersion\":\"batch.paddlepaddle.org/v1\",\"kind\":\"PaddleJob\","
    " \"metadata\":{\"name\":\"j\",\"namespace\":\"n\",\"uid\":\"u1\",\"resourceVersion\":\"7\"}},"
    "\"objects\":["
    " {\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"b\",\"namespace\":\"n\","
    "  \"labels\":{\"job\":\"j\",\"app.kubernetes.io/managed-by\":\"sampan-operator\"}}},"
    " {\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"namespace\":\"n\","
    "  \"labels\":{\"job\":\"j\"},\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}},"
    " {\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"namespace\":\"m\","
    "  \"labels\":{\"job\":\"k\"}}},"
    " {\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"a\"}}],"
    "\"answers\":{\"http://s/x\":{\"status\":202,\"body\":{\"id\":5}},\"http://s/y\":{\"status\":0,"
    "\"error\":\"refused\"}}}";

static struct view *view_made(const char *text)
{
    struct view *v = NULL;
    struct err err = {0};
    cr_assert_eq(view_of_text(&v, text, &err), 0, "%s", err.msg);
    return v;
}

static void names(struct view_list list, struct bytes *out)
{
    bytes_clear(out);
    bytes_add(out, "", 0);
    for (size_t i = 0; i < list.n; i++) {
        const char *ns = object_namespace(list.items[i]);
        bytes_addf(out, "%s/%s ", ns ? ns : "", object_name(list.items[i]));
    }
}

Test(operator_view, looks_up_by_name)
{
    struct view *v = view_made(facts);
    cr_assert_str_eq(object_name(view_object(v)), "j");
    cr_assert_str_eq(object_uid(view_object(v)), "u1");
    cr_assert_str_eq(object_version(view_object(v)), "7");
    cr_assert_eq(view_now(v), 1000);
    cr_assert(view_get(v, KIND_PADDLEJOB, "n", "j") == view_object(v) ||
              view_get(v, KIND_PADDLEJOB, "n", "j")->node == view_object(v)->node);
    cr_assert(view_get(v, KIND_POD, "n", "a"));
    cr_assert(object_is_deleted(view_get(v, KIND_POD, "n", "a")));
    cr_assert(!object_is_managed(view_get(v, KIND_POD, "n", "a")));
    cr_assert(object_is_managed(view_get(v, KIND_POD, "n", "b")));
    cr_assert(view_get(v, KIND_NODE, NULL, "a"));
    cr_assert(!view_get(v, KIND_NODE, NULL, "b"));
    cr_assert(!view_get(v, KIND_SERVICE, "n", "a"));
    cr_assert(!view_incomplete(v));
    view_free(v);
}

Test(operator_view, lists_by_label_in_order)
{
    static const struct {
        const char *ns, *key, *value, *want;
    } rows[] = {
        {NULL, NULL, NULL, "m/a n/a n/b "},
        {"n", NULL, NULL, "n/a n/b "},
        {NULL, "job", "j", "n/a n/b "},
        {NULL, "job", NULL, "m/a n/a n/b "},
        {"m", "job", "j", ""},
        {"n", MANAGED_KEY, MANAGED_BY, "n/b "},
        {NULL, MARK_NAME, "a", "m/a n/a "},
        {NULL, MARK_USES, NULL, ""},
    };
    struct bytes got = {0};
    struct view *v = view_made(facts);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        names(view_list(v, KIND_POD, rows[i].ns, rows[i].key, rows[i].value), &got);
        cr_assert_str_eq(got.data, rows[i].want, "row %zu: %s", i, got.data);
    }
    bytes_release(&got);
    view_free(v);
}

Test(operator_view, answers)
{
    struct view *v = view_made(facts);
    const struct view_answer *a = view_fetch(v, "http://s/x");
    int64_t id = 0;
    cr_assert_eq(a->status, 202);
    cr_assert_eq(json_int(&a->body, "id", 0, 9, &id, NULL), 0);
    cr_assert_eq(id, 5);
    a = view_fetch(v, "http://s/y");
    cr_assert_eq(a->status, 0);
    cr_assert_str_eq(a->error, "refused");
    cr_assert_eq(view_fetch(v, "http://s/z")->status, 0);
    view_free(v);
}

Test(operator_view, refuses)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"{", "view: not JSON"},
        {"{}", "view: object: want an object, got nothing"},
        {"{\"object\":{\"metadata\":{\"name\":\"x\"}}}", "view: object: no apiVersion and kind"},
        {"{\"object\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}}", "view: object: no metadata.name"},
        {"{\"objekt\":{}}", "view: objekt: unknown key"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct view *v = NULL;
        struct err err = {0};
        cr_assert_eq(view_of_text(&v, rows[i].text, &err), -1);
        cr_assert(strstr(err.msg, rows[i].why), "row %zu: %s", i, err.msg);
    }
}

Test(operator_kinds, by_version_and_kind)
{
    for (int k = 0; k < KIND_N; k++) {
        char version[100];
        const struct kind_row *row = &kinds[k];
        snprintf(version, sizeof version, "%s%s%s", row->group, *row->group ? "/" : "",
                 row->version);
        cr_assert_eq((int)kind_of(version, row->kind), k, "%s", row->kind);
    }
    cr_assert_eq(kind_of("v1", "Job"), KIND_N);
    cr_assert_eq(kind_of("batch/v2", "Job"), KIND_N);
    cr_assert_eq(kind_of("batch.paddlepaddle.org/v1", "SampleSet"), KIND_N);
}

Test(operator_actions, text)
{
    struct actions a = {0};
    struct bytes text = {0};
    bytes_add_str(&act_create(&a, KIND_POD, "n", "p")->body, "{\"a\":1}");
    bytes_add_str(&act_patch(&a, KIND_NODE, NULL, "m", NULL)->body, "{}");
    bytes_add_str(&act_status(&a, KIND_SAMPLESET, "n", "s", "12")->body, "{\"status\":{}}");
    act_delete(&a, KIND_POD, "n", "p", "u");
    act_event(&a, true, "NoSet", "no set %s", "x");
    act_event(&a, false, "Ready", "ready");
    struct action *send = act_send(&a, "POST", "http://s/x");
    send->header = strdup("filename: f");
    bytes_add_str(&send->body, "[]");
    act_send(&a, "DELETE", "http://s/y");
    act_again(&a, 5);
    actions_text(&a, &text);
    cr_assert_str_eq(text.data, "create Pod n/p {\"a\":1}\n"
                                "patch Node m {}\n"
                                "status SampleSet n/s version=12 {\"status\":{}}\n"
                                "delete Pod n/p uid=u\n"
                                "event Warning NoSet: no set x\n"
                                "event Normal Ready: ready\n"
                                "send POST http://s/x [filename: f] []\n"
                                "send DELETE http://s/y\n"
                                "again 5s\n");
    bytes_release(&text);
    actions_release(&a);
    cr_assert_eq(a.n, 0);
}
