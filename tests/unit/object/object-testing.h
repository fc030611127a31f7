/* What the tests of this module share: a store with fixed credentials and clock, and a lister's
 * memory. */
#ifndef SAMPAN_OBJECT_TESTING_H
#define SAMPAN_OBJECT_TESTING_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "object-internal.h"

static inline void forget_environment(void)
{
    static const char *const names[] = {"AWS_ACCESS_KEY_ID",
                                        "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN",
                                        "AWS_PROFILE",
                                        "AWS_REGION",
                                        "AWS_DEFAULT_REGION",
                                        "AWS_ENDPOINT_URL",
                                        "AWS_ENDPOINT_URL_S3",
                                        "AWS_CONFIG_FILE",
                                        "AWS_SHARED_CREDENTIALS_FILE",
                                        "BCE_ACCESS_KEY_ID",
                                        "BCE_SECRET_ACCESS_KEY",
                                        "HADOOP_USER_NAME",
                                        "AWS_WEB_IDENTITY_TOKEN_FILE",
                                        "AWS_ROLE_ARN",
                                        "AWS_DEFAULT_PROFILE",
                                        "AWS_ENDPOINT_URL_STS",
                                        "MINIO_ACCESS_KEY",
                                        "MINIO_SECRET_KEY",
                                        "HTTP_PROXY",
                                        "http_proxy"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    setenv("HOME", "/nonexistent", 1);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
}

/* Opened and with credentials, if it takes any. */
static inline struct store *open_store(const char *uri, const struct store_conf *conf)
{
    struct store *s = NULL;
    struct err err = {0};
    cr_assert_eq(store_open(&s, uri, conf, &err), 0, "%s: %s", uri, err.msg);
    setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 0);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 0);
    cr_assert_eq(store_creds_refresh(s, false, &err), 0, "%s: %s", uri, err.msg);
    return s;
}

/* Items as lines: "KEY SIZE MTIME_NS ETAG". */
static inline int remember(void *arg, const struct list_item *item, struct err *err)
{
    (void)err;
    struct bytes *out = arg;
    bytes_addf(out, "%.*s", (int)item->key_len, item->key);
    if (item->folder)
        bytes_add_str(out, " folder");
    else if (item->size == LIST_SIZE_UNKNOWN)
        bytes_add_str(out, " ?");
    else
        bytes_addf(out, " %llu", (unsigned long long)item->size);
    if (item->mtime_ns == LIST_MTIME_UNKNOWN)
        bytes_add_str(out, " ?");
    else
        bytes_addf(out, " %lld", (long long)item->mtime_ns);
    bytes_addf(out, " %s\n", item->etag);
    return 0;
}

static inline const char *text_of(const struct bytes *b)
{
    return b->data ? b->data : "";
}

/* A page of a listing, and what it says. */
struct list_row {
    const char *prefix, *body, *items, *token;
    const char *error; /* part of it; NULL: none */
};

/* `errors`: their class; ERR_NONE: any. */
static inline void check_lists(struct store *s, const struct list_row *rows, size_t n,
                               enum err_class errors)
{
    for (size_t i = 0; i < n; i++) {
        const struct list_row *row = &rows[i];
        cleanup_bytes struct bytes items = {0}, token = {0};
        struct err err = {0};
        int result = store_parse_list(s, row->prefix, row->body, strlen(row->body), remember,
                                      &items, &token, &err);
        cr_expect_eq(result, row->error ? -1 : 0, "row %zu: %s", i, err.msg);
        cr_expect_str_eq(text_of(&items), row->items, "row %zu: %s", i, text_of(&items));
        cr_expect_str_eq(text_of(&token), row->token);
        if (row->error)
            cr_expect_not_null(strstr(err.msg, row->error), "row %zu: %s", i, err.msg);
        if (row->error && errors != ERR_NONE)
            cr_expect_eq(err.class, errors, "row %zu: %s", i, err.msg);
    }
}

/* An answer to a GET, and what it means. */
struct answer_row {
    int status;
    const char *body;
    enum err_class class;
    enum store_again again;
};

/* As answers to this request, which is released. */
static inline void check_answers_of(struct store *s, struct http_req *r,
                                    const struct answer_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct http_answer a;
        enum store_again again = AGAIN_NO;
        struct err err = {0};
        http_answer_init(&a);
        a.status = rows[i].status;
        store_classify(s, r, &a, rows[i].body, strlen(rows[i].body), &again, &err);
        cr_expect_eq(err.class, rows[i].class, "row %zu: %s", i, err.msg);
        cr_expect_eq(again, rows[i].again, "row %zu", i);
    }
    http_req_release(r);
}

static inline void check_answers(struct store *s, const struct answer_row *rows, size_t n)
{
    struct http_req r;
    cr_assert_eq(store_req_get(s, "k", 1, 0, 0, &r, NULL), 0);
    check_answers_of(s, &r, rows, n);
}

#endif
