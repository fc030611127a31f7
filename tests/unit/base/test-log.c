#include <criterion/criterion.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#define LOG_MODULE "fetch"
#include "log.h"
#include "json.h"

struct memory {
    FILE *file;
    char *text;
    size_t len;
};

static void memory_open(struct memory *m)
{
    m->file = open_memstream(&m->text, &m->len);
}

static void memory_close(struct memory *m)
{
    fclose(m->file);
    free(m->text);
}

static bool matches(const char *text, const char *pattern)
{
    regex_t re;
    cr_assert_eq(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
    bool found = regexec(&re, text, 0, NULL, 0) == 0;
    regfree(&re);
    return found;
}

Test(log, text_line)
{
    struct memory m;
    memory_open(&m);
    struct log *l = log_new(m.file, LOG_INFO, LOG_TEXT, "sampan");
    log_info(l, "slow link rate=%d", 1200);
    log_debug(l, "not wanted");
    cr_expect(matches(m.text, "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z info sampan "
                              "fetch: slow link rate=1200\n$"),
              "%s", m.text);
    log_free(l);
    memory_close(&m);
}

Test(log, a_newline_cannot_forge_a_line)
{
    struct memory m;
    memory_open(&m);
    struct log *l = log_new(m.file, LOG_INFO, LOG_TEXT, NULL);
    log_warn(l, "name a\nb\x1b[0m");
    cr_expect(matches(m.text, " warn fetch: name a\\\\x0ab\\\\x1b\\[0m\n$"), "%s", m.text);
    log_free(l);
    memory_close(&m);
}

Test(log, json_line)
{
    struct memory m;
    memory_open(&m);
    struct log *l = log_new(m.file, LOG_INFO, LOG_JSON, "sampan");
    log_error(l, "say \"%s\"", "hi");
    struct json_doc *d;
    struct err e = {0};
    cr_assert_eq(json_parse(&d, "line", m.text, m.len, &e), 0, "%s", e.msg);
    struct json root = json_root(d);
    const char *text;
    cr_expect_eq(json_str(&root, "msg", &text, &e), 0);
    cr_expect_str_eq(text, "say \"hi\"");
    cr_expect_eq(json_str(&root, "level", &text, &e), 0);
    cr_expect_str_eq(text, "error");
    json_doc_free(d);
    log_free(l);
    memory_close(&m);
}

Test(log, levels_by_module)
{
    struct memory m;
    memory_open(&m);
    struct log *l = log_new(m.file, LOG_INFO, LOG_TEXT, NULL);
    static const struct {
        const char *spec;
        int result;
        bool fetch_debug, fuse_debug, fuse_info;
    } rows[] = {
        {"debug", 0, true, true, true},
        {"warn", 0, false, false, false},
        {"warn,fetch=debug", 0, true, false, false},
        {"fuse=debug", 0, false, true, true},
        {"error,fuse=info,fetch=debug", 0, true, false, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_expect_eq(log_set_levels(l, rows[i].spec), rows[i].result, "%s", rows[i].spec);
        cr_expect_eq(log_wants(l, LOG_DEBUG, "fetch"), rows[i].fetch_debug, "%s", rows[i].spec);
        cr_expect_eq(log_wants(l, LOG_DEBUG, "fuse"), rows[i].fuse_debug, "%s", rows[i].spec);
        cr_expect_eq(log_wants(l, LOG_INFO, "fuse"), rows[i].fuse_info, "%s", rows[i].spec);
    }
    static const char *const bad[] = {"", "loud", "fetch=", "=debug", "info,", "fetch=loud"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_eq(log_set_levels(l, bad[i]), -1, "%s", bad[i]);
    cr_expect(log_wants(l, LOG_DEBUG, "fetch"), "a bad spec changes nothing");
    log_free(l);
    memory_close(&m);
}

Test(log, a_module_that_logs_nothing_is_named)
{
    struct err e = {0};
    cr_expect_eq(log_check_modules("debug", &e), 0);
    cr_expect_eq(log_check_modules("info," LOG_MODULE "=debug," LOG_MODULE "=warn", &e), 0);
    cr_expect_eq(log_check_modules(LOG_MODULE "=debug,nosuch=debug", &e), -1);
    cr_expect_eq(e.class, ERR_USAGE);
    cr_expect(strstr(e.msg, "\"nosuch\"") && strstr(e.msg, LOG_MODULE), "%s", e.msg);
    cr_expect_eq(log_check_modules(LOG_MODULE "x=debug", NULL), -1);
}

Test(log, null_is_silence)
{
    log_error(NULL, "nobody hears this");
    cr_expect_not(log_wants(NULL, LOG_ERROR, "x"));
    log_free(NULL);
}

Test(secret, set_again_and_release)
{
    struct secret s = {0};
    secret_set(&s, "key-one", 7);
    cr_expect_str_eq(s.text, "key-one");
    secret_set(&s, s.text + 4, 3); /* from itself */
    cr_expect_str_eq(s.text, "one");
    cr_expect_eq(s.len, 3);
    char big[10000];
    memset(big, 'x', sizeof big);
    secret_set(&s, big, sizeof big);
    cr_expect_eq(strlen(s.text), sizeof big);
    secret_set(&s, NULL, 0);
    cr_expect_null(s.text);
    secret_release(&s);
}
