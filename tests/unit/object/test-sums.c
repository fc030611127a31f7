/* The sums that an S3 store keeps of objects: asked for, compared, and done without. */
#include "object-testing.h"

static const struct store_conf local = {.endpoint = "http://10.0.0.1:9000", .region = "us-east-1"};

Test(sums, asks_for_the_sum_of_whole_objects_alone, .init = forget_environment)
{
    struct store_conf silent = local;
    silent.no_sums = true;
    const struct {
        const struct store_conf *conf;
        uint64_t off, len;
        const char *mode;
    } rows[] = {{&local, 0, 0, "ENABLED"},
                {&local, 0, 5, NULL},
                {&local, 5, 0, NULL},
                {&silent, 0, 0, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct store *s = open_store("s3://b/p", rows[i].conf);
        for (int old = 0; old < 2; old++) {
            struct http_req r;
            cr_assert_eq(
                old ? store_req_get_version(s, "k", 1, "v1", rows[i].off, rows[i].len, &r, NULL)
                    : store_req_get(s, "k", 1, rows[i].off, rows[i].len, &r, NULL),
                0);
            const char *mode = http_header_get(&r, "x-amz-checksum-mode");
            cr_expect(rows[i].mode ? mode && strcmp(mode, rows[i].mode) == 0 : !mode, "row %zu", i);
            cr_expect_eq(strstr(http_header_get(&r, "Authorization"), "x-amz-checksum-mode") !=
                             NULL,
                         mode != NULL);
            http_req_release(&r);
        }
        store_close(s);
    }
}

/* "123456789" has the check values of the catalogue of CRCs. */
Test(sums, are_compared)
{
    static const struct {
        const char *lines;
        bool has, right;
    } rows[] = {
        {"", false, true},
        {"x-amz-checksum-crc32: y/Q5Jg==\n", true, true},
        {"x-amz-checksum-crc32: y/Q5JA==\n", true, false},
        {"X-Amz-Checksum-CRC32C: 4waSgw==\nx-amz-checksum-type: FULL_OBJECT\n", true, true},
        {"x-amz-checksum-crc32c: y/Q5Jg==\n", true, false},
        {"x-amz-checksum-crc64nvme: rosUhgp5mIg=\n", true, true},
        {"x-amz-checksum-crc64nvme: rosUhgp5mIk=\n", true, false},
        {"x-amz-checksum-crc64nvme: \n", false, true},
        {"x-amz-checksum-crc32: y/Q5JA==-2\n", false, true},
        {"x-amz-checksum-type: COMPOSITE\nx-amz-checksum-crc32: y/Q5JA==\n", false, true},
        {"x-amz-checksum-sha256: y/Q5JA==\nx-amz-checksum-mode: x\n", false, true},
        {"x-amz-checksum-crc32: y/Q5Jgy/Q5Jgy/Q5Jgy/Q5Jgy/Q5Jg==\n", false, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct http_answer a;
        http_answer_init(&a);
        for (const char *p = rows[i].lines; *p; p = strchr(p, '\n') + 1)
            http_answer_line(&a, p, (size_t)(strchr(p, '\n') + 1 - p));
        struct err err = {0};
        cr_expect_eq(store_has_sum(&a), rows[i].has, "row %zu", i);
        cr_expect_eq(store_check_own_sum(&a, "123456789", 9, &err) == 0, rows[i].right, "row %zu",
                     i);
        if (!rows[i].right)
            cr_expect(err.class == ERR_CORRUPT && strstr(err.msg, "--no-store-sums"), "%s",
                      err.msg);
    }
}

/* Only what the header may be blamed for, and only once. */
Test(sums, a_refusal_of_sums_is_no_failure, .init = forget_environment)
{
    static const struct {
        int status;
        const char *body;
        enum store_again again;
    } rows[] = {
        {400,
         "<Error><Code>InvalidArgument</Code><Message>Unsupported header "
         "'x-amz-checksum-mode'</Message></Error>",
         AGAIN_REDIRECT},
        {501, "<Error><Code>NotImplemented</Code></Error>", AGAIN_REDIRECT},
        {400, "<Error><Code>InvalidRequest</Code><Message>no</Message></Error>", AGAIN_NO},
        {403, "<Error><Code>AccessDenied</Code></Error>", AGAIN_NO},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct store *s = open_store("s3://b/p", &local);
        struct http_req r;
        for (int turn = 0; turn < 2; turn++) {
            cr_assert_eq(store_req_get(s, "k", 1, 0, 0, &r, NULL), 0);
            struct http_answer a;
            http_answer_init(&a);
            a.status = rows[i].status;
            enum store_again again, want = turn ? AGAIN_NO : rows[i].again;
            struct err err = {0};
            cr_expect_eq(
                store_classify(s, &r, &a, rows[i].body, strlen(rows[i].body), &again, &err), -1);
            cr_expect_eq(again, want, "row %zu: %s", i, err.msg);
            http_req_release(&r);
        }
        store_close(s);
    }
}

Test(sums, of_parts_make_the_whole_ones_etag)
{
    struct part_tag parts[] = {{1, "e09c80c42fda55f9d992e59ca6b3307d"},
                               {2, "92eb5ffee6ae2fec3ad71c777531578f"}};
    char etag[160] = "";
    cr_expect(store_parts_etag(parts, 2, etag));
    cr_expect_str_eq(etag, "3192ca8a7eba2efb8c52f8e48729e5f1-2");
    parts[1].etag[31] = 'x';
    cr_expect_not(store_parts_etag(parts, 2, etag), "it is no MD5");
    parts[1].etag[30] = '\0';
    cr_expect_not(store_parts_etag(parts, 2, etag), "it is too short");
}
