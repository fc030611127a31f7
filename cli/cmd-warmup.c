/* warmup: brings samples into a mount's cache before they are read. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cli-internal.h"
#include "mem.h"

struct warmup_options {
    const char *from;
    bool verify, background, json, quiet;
};

static const struct conf_row rows[] = {
    {"from", CONF_STRING, AT(warmup_options, from), .arg = "FILE",
     .help = "Take paths from this file too, one a line; - is standard input"},
    {"verify", CONF_FLAG, AT(warmup_options, verify),
     .help = "Read back and check all that is cached, what was there before included"},
    {"background", CONF_FLAG, AT(warmup_options, background),
     .help = "Return at once; status shows how far it is"},
    JSON_ROW(warmup_options, json),
    QUIET_ROW(warmup_options, quiet),
};

static int add_lines(struct json_writer *w, const struct control_mount *m, FILE *f, struct err *err)
{
    cleanup_free char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    while ((n = getline(&line, &cap, f)) > 0) {
        if (line[n - 1] == '\n')
            line[--n] = '\0';
        cleanup_free char *path = NULL;
        if (!n)
            continue;
        if (path_in_mount(m, line, &path, err))
            return -1;
        jw_str(w, NULL, path);
    }
    return 0;
}

static int add_file(struct json_writer *w, const struct control_mount *m, const char *name,
                    struct err *err)
{
    if (strcmp(name, "-") == 0)
        return add_lines(w, m, stdin, err);
    cleanup_file FILE *f = fopen(name, "re");
    if (!f)
        return err_sys(err, errno, "read the list %s", name);
    if (add_lines(w, m, f, err))
        return err_wrap(err, "%s", name);
    return 0;
}

static int add_paths(struct json_writer *w, const struct control_mount *m, const char *below,
                     const struct conf *conf, const struct warmup_options *o, struct err *err)
{
    if (!*below && conf_n_args(conf) < 2 && !o->from)
        return 0;
    jw_array(w, "paths");
    if (*below)
        jw_str(w, NULL, below);
    for (size_t i = 1; i < conf_n_args(conf); i++) {
        cleanup_free char *path = NULL;
        if (path_in_mount(m, conf_arg(conf, i), &path, err))
            return -1;
        jw_str(w, NULL, path);
    }
    if (o->from && add_file(w, m, o->from, err))
        return -1;
    jw_end(w);
    return 0;
}

static void print_failures(const struct json *result)
{
    struct json failures = json_get(result, "failures");
    for (size_t i = 0; i < json_count(&failures); i++) {
        struct json f = json_at(&failures, i);
        fprintf(stderr, "sampan warmup: not cached: %s: %s\n", json_str_at(&f, "path"),
                json_str_at(&f, "why"));
    }
    uint64_t omitted = json_uint_at(result, "failures_omitted");
    if (omitted)
        fprintf(stderr, "sampan warmup: and %" PRIu64 " more\n", omitted);
}

static int report(const struct json *result, bool json, struct err *err)
{
    int failed = json_uint_at(result, "failed") ? 1 : 0;
    if (json)
        return print_json(result, err) ? -1 : failed;
    cleanup_bytes struct bytes out = {0};
    char size[32];
    conf_format_size(json_uint_at(result, "bytes"), size);
    bool verified = false;
    json_bool(result, "verified", &verified, NULL);
    bytes_addf(&out,
               "%" PRIu64 " samples, %s in %.1f s: %" PRIu64 " fetched, %" PRIu64
               " already there, %" PRIu64 " failed%s\n",
               json_uint_at(result, "samples"), size, json_num_at(result, "seconds"),
               json_uint_at(result, "fetched"), json_uint_at(result, "already"),
               json_uint_at(result, "failed"), verified ? ", verified" : "");
    print_failures(result);
    return print_out(&out, err) ? -1 : failed;
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct warmup_options *o = options;
    cleanup_mount struct control_mount m = {0};
    cleanup_free char *below = NULL;
    cleanup_bytes struct bytes request = {0};
    cleanup_json struct json_doc *answer = NULL;
    struct json_writer w;
    if (mount_of(conf_arg(conf, 0), &m, &below, err))
        return -1;
    ask_begin(&w, &request, "warmup");
    if (add_paths(&w, &m, below, conf, o, err))
        return -1;
    jw_bool(&w, "verify", o->verify);
    jw_bool(&w, "background", o->background);
    struct progress progress;
    progress_init(&progress, o->quiet);
    int failed = ask(&m, &w, &request, progress_control, &progress, &answer, err);
    progress_end(&progress);
    if (failed)
        return -1;
    struct json root = json_root(answer), result = json_get(&root, "result");
    if (o->background)
        return o->json ? print_json(&root, err) : 0;
    return report(&result, o->json, err);
}

const struct command cmd_warmup = {
    .name = "warmup",
    .args = "MOUNT [PATH...]",
    .summary = "bring samples into the cache before they are read",
    .about =
        "Fetches all samples of the mount, or those at and below PATH (below the mount, or "
        "absolute). It is refused before its first byte if they cannot fit. Interrupting it stops "
        "it; what was fetched stays.",
    .min_args = 1,
    .max_args = -1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct warmup_options),
    .run = run,
};
