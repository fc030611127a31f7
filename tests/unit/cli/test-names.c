/* Names of folders, paths below mounts, and other small pure helpers. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli-internal.h"

Test(owner, names_are_readable_and_tell_sets_apart)
{
    static const struct {
        const char *uri, *prefix;
    } rows[] = {
        {"s3://Bucket/train/", "s3-bucket-train-"},
        {"file:///data/images", "file-data-images-"},
        {"minio://127.0.0.1:9000/b", "minio-127.0.0.1-9000-b-"},
        {"///", ""},
        {"s3://b/../../etc", "s3-b-..-..-etc-"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        cleanup_free char *a = owner_name(rows[i].uri, "one", 3);
        cleanup_free char *b = owner_name(rows[i].uri, "two", 3);
        cr_expect_eq(strncmp(a, rows[i].prefix, strlen(rows[i].prefix)), 0, "%s", a);
        cr_expect_eq(strlen(a), strlen(rows[i].prefix) + 16, "%s", a);
        cr_expect_str_neq(a, b);
        cr_expect_null(strchr(a, '/'), "one part of a path");
    }
    char longer[400];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    cleanup_free char *name = owner_name(longer, "", 0);
    cr_expect_lt(strlen(name), 80);
}

Test(owner, paths_below_a_mount)
{
    static char top[] = "/mnt/set";
    const struct control_mount m = {.mountpoint = top};
    static const struct {
        const char *word, *want; /* NULL: refused */
    } rows[] = {
        {"train", "train"},
        {"train/", "train"},
        {"./train", "train"},
        {"/mnt/set/train/x", "train/x"},
        {"/mnt/set", ""},
        {"/mnt/set/", ""},
        {".", ""},
        {"/mnt/setting/x", NULL},
        {"/etc", NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *path = NULL;
        struct err e = {0};
        int result = path_in_mount(&m, rows[i].word, &path, &e);
        cr_expect_eq(result, rows[i].want ? 0 : -1, "%s", rows[i].word);
        if (rows[i].want)
            cr_expect_str_eq(path, rows[i].want);
        else
            cr_expect_eq(e.class, ERR_USAGE);
        free(path);
    }
}

/* As a shell completes them from a folder above the mount, or in it. */
Test(owner, paths_from_here)
{
    char top[] = "/tmp/sampan-names-XXXXXX";
    cr_assert_not_null(mkdtemp(top));
    cleanup_free char *mountpoint = xasprintf("%s/set", top);
    cleanup_free char *own = xasprintf("%s/set", mountpoint), *cat = xasprintf("%s/cat", own);
    const struct control_mount m = {.mountpoint = mountpoint};
    static const struct {
        const char *word, *want;
    } rows[] = {
        {"set/dog", "dog"},       /* below the mount from here */
        {"./set/dog/", "dog"},    /* the same */
        {"set/cat", "set/cat"},   /* the mount has that name itself */
        {"set", "set"},           /* likewise */
        {"set/none", "none"},     /* said to be missing by its own name */
        {"dog", "dog"},           /* below the mount */
        {"settings", "settings"}, /* not the mount's name */
    };
    cr_assert(!mkdir(mountpoint, 0700) && !mkdir(own, 0700) && !mkdir(cat, 0700) && !chdir(top));
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *path = NULL;
        struct err e = {0};
        cr_expect_eq(path_in_mount(&m, rows[i].word, &path, &e), 0, "%s", rows[i].word);
        cr_expect_str_eq(path, rows[i].want, "%s: %s", rows[i].word, path);
        free(path);
    }
    cr_expect(!rmdir(cat) && !rmdir(own));
    char *all = NULL;
    cr_expect_eq(path_in_mount(&m, "set", &all, NULL), 0);
    cr_expect_str_eq(all, "", "the whole mount: %s", all);
    free(all);
    cr_expect(!chdir("/") && !rmdir(mountpoint) && !rmdir(top));
}

Test(names, a_line_stays_one)
{
    cleanup_bytes struct bytes out = {0};
    add_one_line(&out, "%s  %s", "/mnt/a\nb", "\x1b[2J");
    cr_expect_str_eq(out.data, "/mnt/a b   [2J\n");
}

Test(names, a_status_says_nothing_to_the_terminal)
{
    static const char text[] =
        "{\"mountpoint\":\"/mnt\",\"uri\":\"s3://b\",\"mode_why\":\"\\u001b]0;owned\\u0007\","
        "\"refresh\":{\"every_s\":60,\"failed\":1,\"why\":\"AccessDenied: \\u001b[2J\"}}";
    cleanup_bytes struct bytes out = {0};
    cleanup_json struct json_doc *doc = NULL;
    struct err e = {0};
    cr_assert_eq(json_parse(&doc, "status", text, strlen(text), &e), 0, "%s", e.msg);
    struct json root = json_root(doc);
    status_text(&out, &root);
    cr_expect_not_null(strstr(out.data, "failed: AccessDenied:  [2J\n"), "%s", out.data);
    for (const char *p = out.data; *p; p++)
        cr_expect(*p == '\n' || *p >= ' ');
}

Test(names, a_status_says_how_a_warmup_goes)
{
    static const struct {
        const char *warmup, *want;
    } rows[] = {
        {"{\"state\":\"idle\"}", "  warmup    idle\n"},
        {"{\"state\":\"running\",\"percent\":25,\"samples_done\":0,\"samples_total\":1,"
         "\"failed\":0,\"eta_s\":90,\"error\":\"\"}",
         "  warmup    running, 25.0 %, 0 of 1 sample, 0 failed, 1m30s left\n"},
        {"{\"state\":\"failed\",\"percent\":0,\"samples_done\":0,\"samples_total\":0,"
         "\"failed\":0,\"eta_s\":0,\"error\":\"203 samples take too much\"}",
         "  warmup    failed, 0.0 %, 0 of 0 samples, 0 failed\n"
         "            203 samples take too much\n"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        cleanup_bytes struct bytes out = {0};
        cleanup_json struct json_doc *doc = NULL;
        struct err e = {0};
        cleanup_free char *text = xasprintf("{\"warmup\":%s}", rows[i].warmup);
        cr_assert_eq(json_parse(&doc, "status", text, strlen(text), &e), 0, "%s", e.msg);
        struct json root = json_root(doc);
        status_text(&out, &root);
        cr_expect_not_null(strstr(out.data, rows[i].want), "%s", out.data);
    }
}

Test(options, free_space)
{
    double share;
    uint64_t bytes;
    struct err e = {0};
    cr_expect(free_space_of("10%", &share, &bytes, &e) == 0 && share == 0.1 && bytes == 0);
    cr_expect(free_space_of("2.5%", &share, &bytes, &e) == 0 && share == 0.025);
    cr_expect(free_space_of("20GiB", &share, &bytes, &e) == 0 && share == 0 &&
              bytes == 20ull << 30);
    static const char *const bad[] = {"", "%", "100%", "-1%", "x%", "10%%", "lots"};
    for (size_t i = 0; i < COUNT(bad); i++)
        cr_expect_eq(free_space_of(bad[i], &share, &bytes, &e), -1, "%s", bad[i]);
}

Test(progress, line)
{
    static const struct {
        struct how_far far;
        double seconds;
        const char *want;
    } rows[] = {
        {{0, 0, 0, 0}, 0, "samples 0"},
        {{50, 200, 0, 0}, 10, "samples 50 of 200 (25 %), 5/s, 30.0s left"},
        {{50, 0, 0, 0}, 10, "samples 50, 5/s"},
        {{200, 200, 2048, 0}, 1, "samples 200 of 200 (100 %), 200/s, 2.0 KiB/s"},
        {{0, 1, 20480, 40}, 10, "samples 0 of 1 (40 %), 0/s, 2.0 KiB/s, 15.0s left"},
        {{1, 1, 20480, 99.7}, 10, "samples 1 of 1 (99 %), 0/s, 2.0 KiB/s, 30ms left"},
        {{199, 200, 0, 0}, 1, "samples 199 of 200 (99 %), 199/s, 5ms left"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        cleanup_bytes struct bytes line = {0};
        progress_line(&line, "samples", &rows[i].far, rows[i].seconds);
        cr_expect_str_eq(line.data, rows[i].want);
    }
}

/* What progress draws on a terminal so wide. */
static void draw(unsigned short columns, char *ret, size_t size)
{
    const struct winsize window = {.ws_col = columns, .ws_row = 24};
    int terminal = posix_openpt(O_RDWR | O_NOCTTY), kept = dup(STDERR_FILENO);
    cr_assert(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    int end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    cr_assert_eq(ioctl(end, TIOCSWINSZ, &window), 0);
    cr_assert_eq(dup2(end, STDERR_FILENO), STDERR_FILENO);
    struct progress p;
    progress_init(&p, false);
    p.last_ns = 0;
    progress_show(&p, "samples", &(struct how_far){1234567, 12345678, 123456789, 0});
    cr_assert_eq(dup2(kept, STDERR_FILENO), STDERR_FILENO);
    cr_assert(p.shown);
    ssize_t n = read(terminal, ret, size - 1);
    cr_assert_gt(n, 0);
    ret[n] = '\0';
    close(end);
    close(terminal);
    close(kept);
}

/* Words come first: the bar takes what they leave. */
Test(progress, a_line_is_no_wider_than_the_terminal)
{
#define WORDS "samples 1234567 of 12345678 (10 %), "
    char drawn[300];
    draw(40, drawn, sizeof drawn);
    cr_expect(strncmp(drawn, "\r\033[K" WORDS, strlen("\r\033[K" WORDS)) == 0, "%s", drawn);
    cr_expect_eq(strlen(drawn), strlen("\r\033[K") + 39);
    draw(30, drawn, sizeof drawn);
    cr_expect_str_eq(drawn, "\r\033[Ksamples 1234567 of 12345678 (");
    draw(200, drawn, sizeof drawn);
    cr_expect(strstr(drawn, "\r\033[K##...................... " WORDS), "%s", drawn);
#undef WORDS
}
