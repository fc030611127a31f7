#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf.h"

struct options {
    bool foreground;
    int64_t connections;
    uint64_t memory, bandwidth, refresh;
    const char *endpoint, *profile;
    struct conf_list cache;
    const char *out;
};

#define AT(field) offsetof(struct options, field)
static const struct conf_row rows[] = {
    {"foreground", CONF_FLAG, AT(foreground), .help = "Stay in the foreground"},
    {"connections", CONF_INT, AT(connections), "64", "N", .min = 1, .max = 1024,
     .help = "Transfers at once at most"},
    {"memory", CONF_SIZE, AT(memory), "256MiB", "SIZE", .help = "Bound of resident memory"},
    {"bandwidth", CONF_RATE, AT(bandwidth), NULL, "RATE", .help = "Bytes a second at most"},
    {"refresh", CONF_DURATION, AT(refresh), NULL, "DUR",
     .help = "Look for a new version this often"},
    {"endpoint", CONF_STRING, AT(endpoint), NULL, "URL", .help = "Address of the store"},
    {"profile", CONF_ENUM, AT(profile), "samples", NULL, "samples|shards", .help = "What is read"},
    {"cache", CONF_LIST, AT(cache), NULL, "TIER:DIR=SIZE", .help = "A tier"},
    {"o", CONF_STRING, AT(out), NULL, "FILE", .help = "Write here"},
};
#define N_ROWS (sizeof rows / sizeof rows[0])

static int parse(struct conf **c, struct options *o, struct err *e, const char *const *argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    *o = (struct options){0};
    return conf_parse(c, rows, N_ROWS, o, argc, (char *const *)argv, e);
}
#define PARSE(c, o, e, ...) parse((c), (o), (e), (const char *const[]){"test", __VA_ARGS__, NULL})

Test(conf, defaults)
{
    struct conf *c;
    struct options o;
    struct err e = {0};
    cr_assert_eq(parse(&c, &o, &e, (const char *const[]){"test", NULL}), 0, "%s", e.msg);
    cr_expect_not(o.foreground);
    cr_expect_eq(o.connections, 64);
    cr_expect_eq(o.memory, 256u << 20);
    cr_expect_null(o.endpoint);
    cr_expect_str_eq(o.profile, "samples");
    cr_expect_eq(o.cache.n, 0);
    cr_expect_eq(conf_n_args(c), 0);
    cr_expect_null(conf_arg(c, 0));
    cr_expect_eq(conf_origin_of(c, "memory"), CONF_DEFAULT);
    conf_free(c);
}

Test(conf, command_line)
{
    struct conf *c;
    struct options o;
    struct err e = {0};
    cr_assert_eq(PARSE(&c, &o, &e, "SET", "--foreground", "--connections", "8", "--memory=1G",
                       "--cache", "ssd:/a=1G", "--cache=hdd:/b=2G", "-o", "-", "--profile",
                       "shards", "--refresh", "5m", "--bandwidth", "50Mbit", "--", "--memory",
                       "\u2013memory"),
                 0, "%s", e.msg);
    cr_expect(o.foreground);
    cr_expect_eq(o.connections, 8);
    cr_expect_eq(o.memory, 1u << 30);
    cr_expect_eq(o.refresh, 300000000000ull);
    cr_expect_eq(o.bandwidth, 6250000);
    cr_expect_str_eq(o.profile, "shards");
    cr_expect_eq(o.cache.n, 2);
    cr_expect_str_eq(o.cache.items[1], "hdd:/b=2G");
    cr_expect_str_eq(o.out, "-");
    cr_expect_eq(conf_n_args(c), 3);
    cr_expect_str_eq(conf_arg(c, 0), "SET");
    cr_expect_str_eq(conf_arg(c, 1), "--memory");
    cr_expect_str_eq(conf_arg(c, 2), "\u2013memory");
    cr_expect_eq(conf_origin_of(c, "cache"), CONF_CLI);
    conf_free(c);
}

Test(conf, mistakes_are_usage_errors_that_help)
{
    static const struct {
        const char *a, *b, *msg;
    } bad[] = {
        {"--memroy", "1G", "unknown option --memroy (did you mean --memory?)"},
        {"--zzzzzzzzzz", "1", "unknown option --zzzzzzzzzz (--help lists those known)"},
        {"-x", "1", "unknown option -x"},
        {"\u2013memory", "1G",
         "\"\u2013memory\" begins with another dash than \"-\": want --memory"},
        {"\u2212\u2212memory=1G", NULL, "\"\u2212\u2212memory\" begins with another dash than"},
        {"--memory", NULL, "--memory: needs a value"},
        {"--memory", "1X", "--memory: \"1X\" is not a size (like 512, 64K, 10GiB or 5MB)"},
        {"--connections", "0", "--connections: 0 is not within 1 to 1024"},
        {"--connections", "1e3", "--connections: \"1e3\" is not a whole number"},
        {"--profile", "shard", "--profile: \"shard\" is not one of samples|shards"},
        {"--foreground=maybe", NULL, "--foreground: \"maybe\" is neither true nor false"},
        {"--refresh", "5", "--refresh: \"5\" is not a duration (like 250ms, 2s, 5m, 1h or 1d)"},
        {"--refresh", "5M", "--refresh: \"5M\" is not a duration (like 250ms, 2s, 5m, 1h or 1d)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct conf *c = NULL;
        struct options o;
        struct err e = {0};
        cr_expect_eq(parse(&c, &o, &e, (const char *const[]){"test", bad[i].a, bad[i].b, NULL}), -1,
                     "%s", bad[i].a);
        cr_expect_eq(e.class, ERR_USAGE);
        cr_expect_eq(strncmp(e.msg, bad[i].msg, strlen(bad[i].msg)), 0, "%s", e.msg);
    }
}

static char *config_file(const char *text)
{
    static char name[] = "/tmp/sampan-conf-XXXXXX";
    int fd = mkstemp(name);
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    return name;
}

Test(conf, priority_of_the_four_origins)
{
    char *file =
        config_file("# a comment\n\nmemory = 1G   # ours\n connections=9 \nendpoint = http://file\n"
                    "cache = ssd:/file #1=1G # here\ncache = ssd:/file2=1G\n");
    setenv("SAMPAN_CONNECTIONS", "10", 1);
    setenv("SAMPAN_ENDPOINT", "http://env", 1);
    struct conf *c;
    struct options o;
    struct err e = {0};
    cr_assert_eq(PARSE(&c, &o, &e, "--endpoint", "http://cli", "--config", file), 0, "%s", e.msg);
    cr_expect_eq(o.memory, 1u << 30);
    cr_expect_eq(o.connections, 10);
    cr_expect_str_eq(o.endpoint, "http://cli");
    cr_expect_eq(o.cache.n, 2);
    cr_expect_str_eq(o.cache.items[0], "ssd:/file #1=1G");
    cr_expect_eq(conf_origin_of(c, "memory"), CONF_FILE);
    cr_expect_eq(conf_origin_of(c, "connections"), CONF_ENV);
    cr_expect_eq(conf_origin_of(c, "endpoint"), CONF_CLI);
    cr_expect_eq(conf_origin_of(c, "profile"), CONF_DEFAULT);
    conf_free(c);
    cr_assert_eq(PARSE(&c, &o, &e, "--config", file, "--cache", "mem:/x=1M"), 0);
    cr_expect_eq(o.cache.n, 1, "a stronger origin replaces a list");
    conf_free(c);
    unlink(file);
}

/* A file with this text is refused in these words, which follow its name. */
static void expect_refused(const char *text, const char *words)
{
    char *file = config_file(text);
    struct conf *c;
    struct options o;
    struct err e = {0};
    char want[200];
    cr_expect_eq(PARSE(&c, &o, &e, "--config", file), -1);
    snprintf(want, sizeof want, "%s %s", file, words);
    cr_expect_str_eq(e.msg, want);
    unlink(file);
}

Test(conf, what_the_command_line_gives_besides)
{
    static const char *const refresh[] = {"refresh", NULL}, *const both[] = {"o", "refresh", NULL},
                             *const none[] = {NULL};
    struct conf *c;
    struct options o;
    struct err e = {0};
    setenv("SAMPAN_MEMORY", "1GiB", 1);
    cr_assert_eq(PARSE(&c, &o, &e, "--refresh", "5m", "-o", "x"), 0, "%s", e.msg);
    cr_expect_str_eq(conf_given_besides(c, none), "refresh");
    cr_expect_str_eq(conf_given_besides(c, refresh), "o");
    cr_expect_null(conf_given_besides(c, both));
    conf_free(c);
    unsetenv("SAMPAN_MEMORY");
}

Test(conf, a_file_says_each_value_once)
{
    expect_refused("memory = 1G\ncache = ssd:/a=1G\ncache = ssd:/b=1G\nmemory = 1G\n",
                   "line 4: memory: given twice in this file (keep one of them)");
}

Test(conf, a_file_may_begin_with_a_mark_of_its_encoding)
{
    char *file = config_file("\xef\xbb\xbfmemory = 3G\n");
    struct conf *c;
    struct options o;
    struct err e = {0};
    cr_assert_eq(PARSE(&c, &o, &e, "--config", file), 0, "%s", e.msg);
    cr_expect_eq(o.memory, 3ull << 30);
    conf_free(c);
    unlink(file);
}

Test(conf, a_file_names_no_other_file)
{
    expect_refused("config = other\n", "line 1: config: on the command line alone");
}

Test(conf, a_bad_file_names_its_line)
{
    expect_refused("memory = 1G\nmemroy = 2G\n",
                   "line 2: unknown option memroy (did you mean memory?)");
}

Test(conf, a_file_that_is_no_text_is_refused_and_no_device_read_for_ever)
{
    char *file = config_file("memory = 1G\n");
    FILE *f = fopen(file, "a");
    cr_assert_eq(fwrite("connections = 9\0\n", 1, 17, f), 17);
    fclose(f);
    const char *const files[] = {file, "/dev/zero"};
    for (int i = 0; i < 2; i++) {
        struct conf *c;
        struct options o;
        struct err e = {0};
        cr_expect_eq(PARSE(&c, &o, &e, "--config", files[i]), -1);
        cr_expect_eq(e.class, ERR_USAGE);
        cr_expect_not_null(strstr(e.msg, "no configuration: want text"), "%s", e.msg);
    }
    unlink(file);
}

Test(conf, a_file_may_be_shared_with_another_program)
{
    char *file = config_file("memory = 1G\nmemroy = 2G\n");
    struct conf *c;
    struct options o;
    struct err e = {0};
    static const char *const others[] = {"memroy"};
    char *argv[] = {file, (char *)(uintptr_t) "--config", file, NULL};
    cr_expect_eq(conf_parse_shared(&c, rows, N_ROWS, others, 1, &o, 3, argv, &e), 0);
    conf_free(c);
    unlink(file);
    cr_expect_eq(PARSE(&c, &o, &e, "--config", "/nonexistent/x"), -1);
    cr_expect_eq(e.class, ERR_NOT_FOUND);
    setenv("SAMPAN_MEMORY", "lots", 1);
    cr_expect_eq(PARSE(&c, &o, &e, "x"), -1);
    cr_expect_eq(strncmp(e.msg, "SAMPAN_MEMORY: \"lots\" is not a size", 30), 0, "%s", e.msg);
}

Test(conf, values_print_as_they_are_read)
{
    struct conf *c;
    struct options o;
    struct err e = {0};
    cr_assert_eq(PARSE(&c, &o, &e, "--memory", "1536M", "--refresh", "90s", "--cache", "a",
                       "--cache", "b", "--bandwidth", "6MB"),
                 0);
    static const char *const want[] = {"false", "64",      "1536MiB", "6000000", "90s",
                                       "",      "samples", "a, b",    ""};
    for (size_t i = 0; i < N_ROWS; i++) {
        struct bytes text = {0};
        bytes_add_str(&text, "");
        conf_print_value(c, &rows[i], &o, &text);
        cr_expect_str_eq(text.data, want[i], "%s", rows[i].name);
        bytes_release(&text);
    }
    conf_free(c);
}

Test(conf, a_duration_has_a_least)
{
    static const struct conf_row row = {
        "every",          CONF_DURATION,          AT(refresh), .arg = "DUR", .dflt = "1s",
        .min = 100000000, .help = "Look so often"};
    static const char *const short_ones[] = {"0", "0s", "99ms"};
    struct options o = {0};
    struct conf *c;
    struct bytes text = {0};
    for (size_t i = 0; i < sizeof short_ones / sizeof short_ones[0]; i++) {
        char *argv[] = {(char *)"test", (char *)"--every", (char *)(uintptr_t)short_ones[i]};
        struct err e = {0};
        cr_expect_eq(conf_parse(&c, &row, 1, &o, 3, argv, &e), -1, "%s", short_ones[i]);
        cr_expect(strstr(e.msg, "is too short (at least 100ms)"), "%s", e.msg);
    }
    char *argv[] = {(char *)"test", (char *)"--every", (char *)"100ms"};
    cr_assert_eq(conf_parse(&c, &row, 1, &o, 3, argv, NULL), 0);
    cr_expect_eq(o.refresh, 100000000);
    conf_help(&row, 1, &text);
    cr_expect(strstr(text.data, "Look so often; at least 100ms (1s)"), "%s", text.data);
    bytes_release(&text);
    conf_free(c);
}

/* Who takes a mount over reads what was printed. */
Test(conf, durations_print_as_they_are_read)
{
    static const char *const same[] = {"0ms", "250ms", "1500500ms", "0.00001ms",
                                       "1234567.000001ms"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        struct conf *c;
        struct options o;
        struct err e = {0};
        struct bytes text = {0};
        cr_assert_eq(PARSE(&c, &o, &e, "--refresh", (char *)(uintptr_t)same[i]), 0, "%s", e.msg);
        for (size_t k = 0; k < N_ROWS; k++)
            if (rows[k].type == CONF_DURATION)
                conf_print_value(c, &rows[k], &o, &text);
        cr_expect_str_eq(text.data, same[i]);
        bytes_release(&text);
        conf_free(c);
    }
}

Test(conf, help_shows_every_row)
{
    struct bytes text = {0};
    conf_help(rows, N_ROWS, &text);
    cr_expect_not_null(strstr(text.data,
                              "  --connections N             Transfers at once at most; 1 "
                              "to 1024 (64)\n"),
                       "%s", text.data);
    cr_expect_not_null(strstr(text.data, "  -o FILE "), "%s", text.data);
    cr_expect_not_null(strstr(text.data, "  --profile samples|shards    "), "%s", text.data);
    bytes_release(&text);
    struct conf *c;
    struct options o;
    cr_assert_eq(PARSE(&c, &o, NULL, "--help"), 0);
    cr_expect(conf_help_asked(c));
    conf_free(c);
}

Test(units, sizes)
{
    static const struct {
        const char *text;
        uint64_t want;
    } good[] = {{"0", 0},
                {"512", 512},
                {"64K", 65536},
                {"64k", 65536},
                {"1.5M", 1572864},
                {"10GiB", 10737418240ull},
                {"5MB", 5000000},
                {"1TB", 1000000000000ull},
                {"2T", 2199023255552ull},
                {"7B", 7}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t n = 1;
        cr_expect_eq(conf_size(good[i].text, &n, NULL), 0, "%s", good[i].text);
        cr_expect_eq(n, good[i].want, "%s", good[i].text);
    }
    static const char *const bad[] = {"",      "G",  "-1",  "1 G", "1e9", "0x10",
                                      "1.2.3", ".5", "1QB", "nan", "inf", "99999999999T"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t n;
        struct err e = {0};
        cr_expect_eq(conf_size(bad[i], &n, &e), -1, "%s", bad[i]);
        cr_expect_eq(e.class, ERR_USAGE);
    }
}

Test(units, rates_and_durations)
{
    uint64_t n;
    cr_expect(conf_rate("6MB", &n, NULL) == 0 && n == 6000000);
    cr_expect(conf_rate("6MB/s", &n, NULL) == 0 && n == 6000000);
    cr_expect(conf_rate("1Gbit", &n, NULL) == 0 && n == 125000000);
    cr_expect(conf_rate("fast", &n, NULL) == -1);
    cr_expect(conf_is_port("0") && conf_is_port("7716") && conf_is_port("65535"));
    cr_expect(!conf_is_port("") && !conf_is_port("65536") && !conf_is_port("100000"));
    cr_expect(!conf_is_port("http") && !conf_is_port("-1") && !conf_is_port(" 80"));
    cr_expect(conf_duration("250ms", &n, NULL) == 0 && n == 250000000);
    cr_expect(conf_duration("2s", &n, NULL) == 0 && n == 2000000000);
    cr_expect(conf_duration("1.5h", &n, NULL) == 0 && n == 5400000000000ull);
    cr_expect(conf_duration("1d", &n, NULL) == 0 && n == 86400000000000ull);
    cr_expect(conf_duration("0", &n, NULL) == 0 && n == 0);
    cr_expect(conf_duration("7", &n, NULL) == -1);
}

Test(conf, counts_as_text)
{
    char out[64];
    conf_format_count(0, "sample", out);
    cr_expect_str_eq(out, "0 samples");
    conf_format_count(1, "sample", out);
    cr_expect_str_eq(out, "1 sample");
    conf_format_count(UINT64_MAX, "sample", out);
    cr_expect_str_eq(out, "18446744073709551615 samples");
}

Test(units, formats)
{
    char out[32];
    conf_format_size(0, out);
    cr_expect_str_eq(out, "0 B");
    conf_format_size(1023, out);
    cr_expect_str_eq(out, "1023 B");
    conf_format_size(1536, out);
    cr_expect_str_eq(out, "1.5 KiB");
    conf_format_size(1048575, out);
    cr_expect_str_eq(out, "1.0 MiB");
    conf_format_size(10737418240ull, out);
    cr_expect_str_eq(out, "10.0 GiB");
    conf_format_duration(0.25, out);
    cr_expect_str_eq(out, "250ms");
    conf_format_duration(2.04, out);
    cr_expect_str_eq(out, "2.0s");
    conf_format_duration(130, out);
    cr_expect_str_eq(out, "2m10s");
    conf_format_duration(59.99, out);
    cr_expect_str_eq(out, "1m00s");
    conf_format_duration(7260, out);
    cr_expect_str_eq(out, "2h01m");
    conf_format_duration(-1, out);
    cr_expect_str_eq(out, "?");
}

Test(units, nearest_word)
{
    static const char *const words[] = {"mount", "umount", "status", "stats", "scan"};
    cr_expect_str_eq(conf_nearest("mont", words, 5), "mount");
    cr_expect_str_eq(conf_nearest("umuont", words, 5), "umount");
    cr_expect_str_eq(conf_nearest("satus", words, 5), "status");
    cr_expect_null(conf_nearest("frobnicate", words, 5));
}

Test(units, mistyped_word)
{
    static const char *const words[] = {"endpoint", "memory", "sort", "credentials"};
    cr_expect_str_eq(conf_mistyped("endpiont", words, 4), "endpoint");
    cr_expect_str_eq(conf_mistyped("memry", words, 4), "memory");
    cr_expect_str_eq(conf_mistyped("credentails", words, 4), "credentials");
    cr_expect_null(conf_mistyped("credential-list", words, 4));
    cr_expect_null(conf_mistyped("port", words, 4));
    cr_expect_null(conf_mistyped("mercury", words, 4));
}

static void note_slip(void *arg, const char *variable, const char *meant)
{
    bytes_addf(arg, "%s->%s\n", variable, meant);
}

Test(env, slips_are_named_and_others_let_be)
{
    static const char *const words[] = {"endpoint", "free-space", "sort"};
    cleanup_bytes struct bytes said = {0};
    clearenv();
    setenv("SAMPAN_ENDPOINT", "right", 1);
    setenv("SAMPAN_CONFIG", "right", 1);
    setenv("SAMPAN_PORT", "tcp://10.0.0.1:7716", 1);
    setenv("SAMPAN_RUNTIME_SERVICE_HOST", "10.0.0.1", 1);
    setenv("ENDPIONT", "somebody else's", 1);
    conf_env_slips(words, 3, note_slip, &said);
    cr_expect_eq(said.len, 0);
    setenv("SAMPAN_ENDPIONT", "wrong", 1);
    setenv("SAMPAN_FREE_SPCAE", "", 1);
    conf_env_slips(words, 3, note_slip, &said);
    cr_assert_not_null(said.data);
    cr_expect_str_eq(said.data, "SAMPAN_ENDPIONT->SAMPAN_ENDPOINT\n"
                                "SAMPAN_FREE_SPCAE->SAMPAN_FREE_SPACE\n");
}
