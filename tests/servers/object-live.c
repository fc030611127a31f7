/*
 * Runs every operation of a store against a real server: object-live URI [ENDPOINT]. Credentials
 * come from the environment. The prefix must be empty; it is empty again at the end. Exit 0: all as
 * expected.
 */
#include <string.h>

#include "clock.h"
#include "http.h"
#include "mem.h"
#include "object.h"

#define TIMEOUT (30 * NS_PER_S)
#define BODY    (64u << 20)
#define PART    (5u << 20)

static struct store *store;
static int failures;

static void check(bool ok, const char *what, const char *why)
{
    printf("%s %s%s%s\n", ok ? "ok  " : "FAIL", what, *why ? ": " : "", why);
    failures += !ok;
}

/* One request as `fetch` runs it: sent again when the store says that it learned something. */
typedef int build_fn(struct http_req *r, void *arg, struct err *err);
static int run(build_fn *build, void *arg, struct http_answer *a, struct bytes *body,
               struct err *err)
{
    for (int tries = 0;; tries++) {
        cleanup_http_req struct http_req r = {0};
        enum store_again again;
        if (build(&r, arg, err) || http_do(&r, store_peer(store), TIMEOUT, BODY, a, body, err))
            return -1;
        if (store_classify(store, &r, a, body->data, body->len, &again, err) == 0)
            return 0;
        if (tries == 3 || again == AGAIN_NO)
            return -1;
        if (again == AGAIN_CREDS && store_creds_refresh(store, true, err))
            return -1;
    }
}

struct what {
    const char *key, *to, *upload, *prefix, *token, *after;
    const void *body;
    size_t len;
    uint64_t off;
    unsigned part;
    const char *const *keys;
    size_t n;
    const struct part_tag *tags;
    struct bytes made;
    bool delimiter;
};

#define BUILD(name, call)                                           \
    static int name(struct http_req *r, void *arg, struct err *err) \
    {                                                               \
        struct what *w = arg;                                       \
        return call;                                                \
    }
BUILD(get, store_req_get(store, w->key, strlen(w->key), w->off, w->len, r, err))
BUILD(head, store_req_head(store, w->key, strlen(w->key), r, err))
BUILD(list, store_req_list(store, w->prefix, w->delimiter, w->token, w->after, r, err))
BUILD(put, store_req_put(store, w->key, strlen(w->key), w->body, w->len, r, err))
BUILD(del, store_req_delete(store, w->key, strlen(w->key), r, err))
BUILD(delete_many, store_req_delete_many(store, w->keys, w->n, &w->made, r, err))
BUILD(copy, store_req_copy_from(store, store, w->key, "", w->to, r, err))
BUILD(part_begin, store_req_multipart_begin(store, w->key, r, err))
BUILD(part_put,
      store_req_multipart_part(store, w->key, w->upload, w->part, w->body, w->len, r, err))
BUILD(part_end,
      store_req_multipart_end(store, w->key, w->upload, w->tags, w->n, NULL, &w->made, r, err))
BUILD(part_abort, store_req_multipart_abort(store, w->key, w->upload, r, err))

static const char *const keys[] = {
    "plain.txt",
    "with blank.txt",
    "plus+and&amp;<x>.txt",
    "sub/dir/deep.bin",
    "100%25.txt",
    "\xe5\x9b\xbe/\xe7\x89\x87.jpg",
    "~tilde_under-score.",
    "a//b",
    "semi;colon=eq,at@x!$'()*",
    "q?u#e",
};
#define N_KEYS (sizeof keys / sizeof keys[0])

static int count_item(void *arg, const struct list_item *item, struct err *err)
{
    (void)err;
    struct bytes *seen = arg;
    bytes_addf(seen, "|%.*s:%llu%s", (int)item->key_len, item->key, (unsigned long long)item->size,
               item->folder ? "/" : "");
    return 0;
}

static void list_all(struct what *w, struct bytes *seen, unsigned *pages)
{
    cleanup_bytes struct bytes body = {0}, token = {0}, next = {0};
    struct http_answer a;
    struct err err = {0};
    *pages = 0;
    do {
        w->token = token.data ? token.data : "";
        if (run(list, w, &a, &body, &err) || store_parse_list(store, w->prefix, body.data, body.len,
                                                              count_item, seen, &next, &err)) {
            check(false, "list", err.msg);
            return;
        }
        ++*pages;
        bytes_clear(&token);
        bytes_add(&token, next.data ? next.data : "", next.len);
    } while (token.len);
}

static void test_objects(void)
{
    struct http_answer a;
    cleanup_bytes struct bytes body = {0};
    for (size_t i = 0; i < N_KEYS; i++) {
        struct err err = {0};
        struct what w = {.key = keys[i], .body = "hello, world", .len = 12};
        bool ok = run(put, &w, &a, &body, &err) == 0;
        w = (struct what){.key = keys[i]};
        ok = ok && run(head, &w, &a, &body, &err) == 0 && a.content_length == 12;
        w = (struct what){.key = keys[i], .off = 7, .len = 5};
        ok = ok && run(get, &w, &a, &body, &err) == 0 && a.status == 206 && body.len == 5 &&
             memcmp(body.data, "world", 5) == 0;
        check(ok, keys[i], err.msg);
    }
    struct err err = {0};
    struct what w = {.key = keys[0]};
    bool stale = run(get, &w, &a, &body, &err) == 0 &&
                 store_check_etag("00000000000000000000000000000000", &a, &err);
    check(stale && err.class == ERR_STALE, "another ETag is stale", err.msg);
    w = (struct what){.key = "nothing here"};
    check(run(get, &w, &a, &body, &err) && err.class == ERR_NOT_FOUND, "a missing key", err.msg);
    check(run(head, &w, &a, &body, &err) && err.class == ERR_NOT_FOUND, "a missing key's head",
          err.msg);
    w = (struct what){.key = keys[0], .off = 1000, .len = 5};
    check(run(get, &w, &a, &body, &err) && err.class == ERR_STALE, "a range past the end", err.msg);
}

static void test_lists(void)
{
    cleanup_bytes struct bytes all = {0}, level = {0}, after = {0};
    unsigned pages;
    struct what w = {.prefix = "", .after = ""};
    list_all(&w, &all, &pages);
    for (size_t i = 0; i < N_KEYS; i++) {
        cleanup_free char *line = xasprintf("|%s:12", keys[i]);
        check(all.data && strstr(all.data, line), "listed", keys[i]);
    }
    w = (struct what){.prefix = "sub/", .after = "", .delimiter = true};
    list_all(&w, &level, &pages);
    check(level.data && strcmp(level.data, "|sub/dir/:0/") == 0, "one level",
          level.data ? level.data : "");
    w = (struct what){.prefix = "", .after = "s"};
    list_all(&w, &after, &pages);
    check(after.data && strncmp(after.data, "|semi", 5) == 0, "start after",
          after.data ? after.data : "");
}

static void test_parts(void)
{
    struct http_answer a;
    struct err err = {0};
    cleanup_bytes struct bytes body = {0}, upload = {0};
    cleanup_free char *data = xmalloc(PART);
    memset(data, 'x', PART);
    struct what w = {.key = "big file"};
    bool ok = run(part_begin, &w, &a, &body, &err) == 0 &&
              store_parse_multipart_begin(store, body.data, body.len, &upload, &err) == 0;
    struct part_tag tags[2];
    for (unsigned i = 0; i < 2 && ok; i++) {
        w = (struct what){.key = "big file",
                          .upload = upload.data,
                          .part = i + 1,
                          .body = data,
                          .len = i ? 3 : PART};
        ok = run(part_put, &w, &a, &body, &err) == 0;
        tags[i].part = i + 1;
        snprintf(tags[i].etag, sizeof tags[i].etag, "%s", a.etag);
    }
    w = (struct what){.key = "big file", .upload = upload.data, .tags = tags, .n = 2};
    ok = ok && run(part_end, &w, &a, &body, &err) == 0 &&
         store_parse_multipart_end(store, body.data, body.len, &err) == 0;
    bytes_release(&w.made);
    w = (struct what){.key = "big file"};
    ok = ok && run(head, &w, &a, &body, &err) == 0 && a.content_length == PART + 3;
    check(ok, "an upload in parts", err.msg);
    w = (struct what){.key = "aborted"};
    ok = run(part_begin, &w, &a, &body, &err) == 0 &&
         store_parse_multipart_begin(store, body.data, body.len, &upload, &err) == 0;
    w = (struct what){.key = "aborted", .upload = upload.data};
    check(ok && run(part_abort, &w, &a, &body, &err) == 0, "an upload aborted", err.msg);
}

static void test_copy_and_delete(void)
{
    struct http_answer a;
    struct err err = {0};
    cleanup_bytes struct bytes body = {0}, left = {0};
    struct what w = {.key = keys[2], .to = "copied + file"};
    bool ok = run(copy, &w, &a, &body, &err) == 0;
    w = (struct what){.key = "copied + file"};
    check(ok && run(get, &w, &a, &body, &err) == 0 && body.len == 12, "a copy", err.msg);
    w = (struct what){.key = "big file"};
    check(run(del, &w, &a, &body, &err) == 0, "a delete", err.msg);
    const char *all[N_KEYS + 1] = {"copied + file"};
    memcpy(all + 1, keys, sizeof keys);
    w = (struct what){.keys = all, .n = N_KEYS + 1};
    ok = run(delete_many, &w, &a, &body, &err) == 0 &&
         store_parse_delete_many(store, body.data, body.len, &err) == 0;
    check(ok, "many deletes", err.msg);
    bytes_release(&w.made);
    unsigned pages;
    w = (struct what){.prefix = "", .after = ""};
    list_all(&w, &left, &pages);
    check(left.len == 0, "nothing left", left.data ? left.data : "");
}

/* 2 500 objects: three pages. */
static void test_pages(void)
{
    struct http_answer a;
    struct err err = {0};
    cleanup_bytes struct bytes body = {0}, seen = {0};
    static char names[2500][16];
    static const char *list_of[2500];
    bool ok = true;
    for (size_t i = 0; i < 2500 && ok; i++) {
        snprintf(names[i], sizeof names[i], "p/%05zu", i);
        list_of[i] = names[i];
        struct what w = {.key = names[i], .body = "", .len = 0};
        ok = run(put, &w, &a, &body, &err) == 0;
    }
    check(ok, "2 500 empty objects", err.msg);
    unsigned pages;
    struct what w = {.prefix = "p/", .after = ""};
    list_all(&w, &seen, &pages);
    size_t n = 0;
    for (const char *p = seen.data; p && (p = strchr(p, '|')); p++)
        n++;
    cleanup_free char *got = xasprintf("%zu objects on %u pages", n, pages);
    check(n == 2500 && pages == 3, "pages", got);
    for (size_t i = 0; i < 2500 && ok; i += 1000) {
        w = (struct what){.keys = list_of + i, .n = i + 1000 < 2500 ? 1000 : 2500 - i};
        ok = run(delete_many, &w, &a, &body, &err) == 0 &&
             store_parse_delete_many(store, body.data, body.len, &err) == 0;
        bytes_release(&w.made);
    }
    check(ok, "deleted by thousands", err.msg);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct store_conf conf = {.endpoint = argc > 2 ? argv[2] : NULL};
    curl_global_init(CURL_GLOBAL_DEFAULT);
    if (argc < 2 || store_open(&store, argv[1], &conf, &err) ||
        store_creds_refresh(store, false, &err)) {
        fprintf(stderr, "object-live URI [ENDPOINT]: %s\n", err.msg);
        return 2;
    }
    struct http_answer a;
    cleanup_bytes struct bytes body = {0};
    struct what w = {.prefix = "", .after = "", .token = ""};
    if (run(list, &w, &a, &body, &err)) { /* wrong keys, wrong bucket: one answer is enough */
        fprintf(stderr, "%s: %s\n", err_class_name(err.class), err.msg);
        return err_exit_code(&err);
    }
    test_objects();
    test_lists();
    test_parts();
    test_copy_and_delete();
    test_pages();
    store_close(store);
    printf("%d failures\n", failures);
    return failures != 0;
}
