/* WebHDFS: requests, listings in pages and whole, and Java's exceptions. */
#include "object-testing.h"

static const struct store_conf me = {.user = "me"};
#define BASE "http://h:9870/webhdfs/v1/set"
#define FILE_A \
    "{\"pathSuffix\":\"a\",\"type\":\"FILE\",\"length\":24930,\"modificationTime\":1320171722771}"
#define DIR_D                                                                         \
    "{\"pathSuffix\":\"d\",\"type\":\"DIRECTORY\",\"length\":0,\"modificationTime\":" \
    "1320895981256}"

Test(webhdfs, requests, .init = forget_environment)
{
    struct store *s = open_store("webhdfs://h/set", &me);
    struct http_req r;
    cr_assert_eq(store_req_get(s, "a", 1, 7, 9, &r, NULL), 0);
    cr_expect_str_eq(r.url.data, BASE "/a?op=OPEN&user.name=me&offset=7&length=9");
    cr_expect(r.follow && store_caps(s) & STORE_RANGE_200);
    http_req_release(&r);
    cr_assert_eq(store_req_list(s, "", true, "", "", &r, NULL), 0);
    cr_expect_str_eq(r.url.data, BASE "?op=LISTSTATUS_BATCH&user.name=me");
    http_req_release(&r);
    cr_assert_eq(store_req_list(s, "d/", true, "f&g", "", &r, NULL), 0);
    cr_expect_str_eq(r.url.data, BASE "/d?op=LISTSTATUS_BATCH&user.name=me&startAfter=f%26g");
    http_req_release(&r);
    cr_assert_eq(store_req_head(s, "a", 1, &r, NULL), 0);
    cr_expect_str_eq(r.url.data, BASE "/a?op=GETFILESTATUS&user.name=me");
    cr_expect(r.method == HTTP_GET);
    http_req_release(&r);
    cr_assert_eq(store_req_delete(s, "a", 1, &r, NULL), 0);
    cr_expect_str_eq(r.url.data, BASE "/a?op=DELETE&user.name=me&recursive=false");
    http_req_release(&r);
    store_close(s);
}

Test(webhdfs, a_write_has_two_steps, .init = forget_environment)
{
    struct store *s = open_store("webhdfs://h/set", &me);
    struct http_req r;
    struct http_answer a;
    struct err err = {0};
    enum store_again again;
    cr_assert_eq(store_req_put(s, "a", 1, "body", 4, &r, NULL), 0);
    cr_expect_str_eq(r.url.data, BASE "/a?op=CREATE&user.name=me&overwrite=true");
    cr_expect(r.body_len == 0 && !r.follow);
    http_answer_init(&a);
    a.status = 307;
    cr_expect_eq(store_classify(s, &r, &a, "", 0, &again, &err), -1,
                 "without a Location it is an error");
    snprintf(a.location, sizeof a.location, "http://dn:9864/webhdfs/v1/set/a?op=CREATE&x=1");
    cr_expect_eq(store_classify(s, &r, &a, "", 0, &again, &err), 0);
    http_req_release(&r);
    cr_assert_eq(store_req_follow(s, &a, "body", 4, &r, &err), 0);
    cr_expect_str_eq(r.url.data, a.location);
    cr_expect(r.method == HTTP_PUT && r.body_len == 4);
    http_req_release(&r);
    snprintf(a.location, sizeof a.location, "file:///etc/passwd");
    cr_expect_eq(store_req_follow(s, &a, "body", 4, &r, &err), -1);
    store_close(s);
}

Test(webhdfs, what_is_written_over_tls_goes_to_nobody_without, .init = forget_environment)
{
    struct store *s = open_store("swebhdfs://h/set", &me);
    struct http_req r;
    struct http_answer a;
    struct err err = {0};
    http_answer_init(&a);
    a.status = 307;
    snprintf(a.location, sizeof a.location, "http://dn:9864/webhdfs/v1/set/a?op=CREATE");
    cr_expect_eq(store_req_follow(s, &a, "body", 4, &r, &err), -1);
    cr_expect(err.class == ERR_FAILED && strstr(err.msg, "without TLS"), "%s", err.msg);
    snprintf(a.location, sizeof a.location, "https://dn:9865/webhdfs/v1/set/a?op=CREATE");
    cr_expect_eq(store_req_follow(s, &a, "body", 4, &r, &err), 0);
    http_req_release(&r);
    store_close(s);
}

static const struct list_row lists[] = {
    {"", "{\"FileStatuses\":{\"FileStatus\":[" FILE_A "," DIR_D "]}}",
     "a 24930 1320171722771000000 \nd/ folder 1320895981256000000 \n", "", NULL},
    {"x/",
     "{\"DirectoryListing\":{\"partialListing\":{\"FileStatuses\":{\"FileStatus\":[" FILE_A
     "]}},\"remainingEntries\":2}}",
     "x/a 24930 1320171722771000000 \n", "a", NULL},
    {"x",
     "{\"DirectoryListing\":{\"partialListing\":{\"FileStatuses\":{\"FileStatus\":[" DIR_D
     "]}},\"remainingEntries\":0}}",
     "x/d/ folder 1320895981256000000 \n", "", NULL},
    {"",
     "{\"FileStatuses\":{\"FileStatus\":[{\"pathSuffix\":\"\",\"type\":\"FILE\"},"
     "{\"pathSuffix\":\"l\",\"type\":\"SYMLINK\"}]}}",
     "", "", NULL},
    {"", "{\"FileStatuses\":{\"FileStatus\":[]}}", "", "", NULL},
    {"",
     "{\"DirectoryListing\":{\"partialListing\":{\"FileStatuses\":{\"FileStatus\":[]}},"
     "\"remainingEntries\":1}}",
     "", "", "an empty page"},
    {"", "{\"FileStatuses\":{}}", "", "", "want an array"},
    {"",
     "{\"FileStatuses\":{\"FileStatus\":[{\"pathSuffix\":\"a\",\"type\":\"FILE\",\"length\":-1}]}}",
     "", "", "length"},
    {"", "[1]", "", "", "want an object"},
    {"", "{\"FileStatuses\"", "", "", "not JSON"},
};

Test(webhdfs, parse_list, .init = forget_environment)
{
    struct store *s = open_store("webhdfs://h/set", &me);
    check_lists(s, lists, sizeof lists / sizeof lists[0], ERR_NONE);
    store_close(s);
}

#define REMOTE(e)                              \
    "{\"RemoteException\":{\"exception\":\"" e \
    "\",\"javaClassName\":\"x\",\"message\":\"why\\nat java\"}}"

Test(webhdfs, answers, .init = forget_environment)
{
    static const struct answer_row rows[] = {
        {200, "", ERR_NONE, AGAIN_NO},
        {201, "", ERR_NONE, AGAIN_NO},
        {404, REMOTE("FileNotFoundException"), ERR_NOT_FOUND, AGAIN_NO},
        {403, REMOTE("AccessControlException"), ERR_DENIED, AGAIN_NO},
        {403, REMOTE("StandbyException"), ERR_TRANSIENT, AGAIN_BACKOFF},
        {403, REMOTE("SafeModeException"), ERR_TRANSIENT, AGAIN_BACKOFF},
        {401, "<html>", ERR_DENIED, AGAIN_NO},
        {503, "", ERR_TRANSIENT, AGAIN_BACKOFF},
    };
    struct store *s = open_store("webhdfs://h/set", &me);
    struct http_req r;
    struct http_answer a;
    enum store_again again;
    struct err err = {0};
    check_answers(s, rows, sizeof rows / sizeof rows[0]);

    /* Trouble in the midst of pages is no word of an old server: the next page is asked for. */
    http_answer_init(&a);
    a.status = 500;
    cr_assert_eq(store_req_list(s, "", true, "f", "", &r, NULL), 0);
    cr_expect_eq(store_classify(s, &r, &a, "", 0, &again, &err), -1);
    cr_expect_eq(again, AGAIN_BACKOFF);
    http_req_release(&r);

    /* A server that does not know pages is asked for the whole from then on. */
    cr_assert_eq(store_req_list(s, "", true, "", "", &r, NULL), 0);
    cr_expect_str_eq(r.url.data, BASE "?op=LISTSTATUS_BATCH&user.name=me");
    http_answer_init(&a);
    a.status = 400;
    static const char unknown[] = REMOTE("IllegalArgumentException");
    cr_expect_eq(store_classify(s, &r, &a, unknown, strlen(unknown), &again, &err), -1);
    cr_expect_eq(again, AGAIN_REDIRECT);
    http_req_release(&r);
    cr_assert_eq(store_req_list(s, "", true, "", "", &r, NULL), 0);
    cr_expect_str_eq(r.url.data, BASE "?op=LISTSTATUS&user.name=me");
    cr_expect_eq(store_classify(s, &r, &a, unknown, strlen(unknown), &again, &err), -1);
    cr_expect_eq(again, AGAIN_NO);
    http_req_release(&r);
    cr_assert_eq(store_req_list(s, "", true, "f", "", &r, NULL), 0);
    cr_expect_str_eq(r.url.data, BASE "?op=LISTSTATUS_BATCH&user.name=me&startAfter=f",
                     "the whole would tell again of what came before f");
    http_req_release(&r);

    static const char status[] =
        "{\"FileStatus\":{\"type\":\"FILE\",\"length\":7,\"modificationTime\":5000}}";
    cr_expect_eq(store_parse_head(s, status, strlen(status), &a, &err), 0);
    cr_expect(a.content_length == 7 && a.last_modified == 5);
    static const char far[] = "{\"FileStatus\":{\"type\":\"FILE\",\"length\":7,"
                              "\"modificationTime\":13569465600000}}"; /* 2400 */
    cr_expect_eq(store_parse_head(s, far, strlen(far), &a, &err), -1);
    store_close(s);
}
