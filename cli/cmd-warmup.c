/* warmup: brings samples into a mount's cache before they are read. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "mem.h"
#include "warmup-internal.h"

static const struct conf_row rows[] = {
    {"from", CONF_STRING, AT(warmup_options, from), .arg = "FILE",
     .help = "Take paths from this file too, one a line; - is standard input"},
    {"partition", CONF_STRING, AT(warmup_options, partition), .arg = "I/P",
     .help = "Bring partition I of P, counted from 0, instead of the mount's own share"},
    {"strategy", CONF_ENUM, AT(warmup_options, strategy),
     .choices = "auto|sequence|random|hash|local", .dflt = "auto",
     .help = "Who keeps what of a divided set (see plan); auto: as the mount does, or the sampler"},
    {"sampler", CONF_STRING, AT(warmup_options, sampler), .arg = "SPEC",
     .help = "Whose order of training; with rank= it also says which partition this node is"},
    {"verify", CONF_FLAG, AT(warmup_options, verify),
     .help = "Read back and check all that is cached, what was there before included"},
    {"dry-run", CONF_FLAG, AT(warmup_options, dry_run),
     .help = "Say what there is to bring and whether it fits; fetch nothing"},
    {"background", CONF_FLAG, AT(warmup_options, background),
     .help = "Return at once; status shows how far it is"},
    SET_ROWS(warmup_options, set),
    {"memory", CONF_SIZE, AT(warmup_options, memory), .arg = "SIZE", .dflt = "256MiB",
     .min = VOLUME_MEMORY_LEAST,
     .help = "Of a SET: hard bound of this process's own resident memory"},
    {"bandwidth", CONF_RATE, AT(warmup_options, bandwidth), .arg = "RATE",
     .help = "Of a SET: bytes a second received at most (unlimited)"},
    {"connections", CONF_INT, AT(warmup_options, connections), .arg = "N", .dflt = "64", .min = 1,
     .max = 1024, .help = "Of a SET: transfers at once at most"},
    STORE_ROWS(warmup_options, store),
    LOG_ROWS(warmup_options, log),
    JSON_ROW(warmup_options, json),
    QUIET_ROW(warmup_options, quiet),
};

/* Those that go with a mount, too. */
static const char *const of_mounts[] = {"from",    "partition",  "strategy", "sampler", "verify",
                                        "dry-run", "background", "json",     "quiet",   NULL};

/* Takes the path over. */
static void path_list_add(struct path_list *l, char *path)
{
    l->items = xrealloc(l->items, (l->n + 1) * sizeof *l->items);
    l->items[l->n++] = path;
}

static void path_list_release(struct path_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->items[i]);
    free(l->items);
    *l = (struct path_list){0};
}
#define cleanup_path_list CLEANUP(path_list_release)

static int add_word(struct path_list *l, const struct control_mount *m, const char *word,
                    struct err *err)
{
    char *path;
    if (path_in_mount(m, word, &path, err))
        return -1;
    path_list_add(l, path);
    return 0;
}

static int add_lines(struct path_list *l, const struct control_mount *m, FILE *f, struct err *err)
{
    cleanup_free char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    while ((n = getline(&line, &cap, f)) > 0) {
        if (line[n - 1] == '\n')
            line[--n] = '\0';
        if (n && line[n - 1] == '\r') /* as other systems end a line */
            line[--n] = '\0';
        if (strlen(line) != (size_t)n)
            return err_set(err, ERR_USAGE,
                           "\"%.100s\" is followed by a zero byte (want one path a line)", line);
        if (n && add_word(l, m, line, err))
            return -1;
    }
    return ferror(f) ? err_sys(err, errno, "read the list") : 0;
}

static int add_file(struct path_list *l, const struct control_mount *m, const char *name,
                    struct err *err)
{
    if (strcmp(name, "-") == 0)
        return add_lines(l, m, stdin, err);
    cleanup_file FILE *f = fopen(name, "re");
    if (!f)
        return err_sys(err, errno, "read the list %s", name);
    if (add_lines(l, m, f, err))
        return err_wrap(err, "%s", name);
    return 0;
}

/* All paths that the words of the command and --from name. An empty --from list means nothing, not
 * everything: it is an error. */
static int take_paths(struct path_list *l, const struct control_mount *m, const char *below,
                      const struct conf *conf, const struct warmup_options *o, struct err *err)
{
    if (*below)
        path_list_add(l, xstrdup(below));
    for (size_t i = 1; i < conf_n_args(conf); i++)
        if (add_word(l, m, conf_arg(conf, i), err))
            return -1;
    if (o->from && add_file(l, m, o->from, err))
        return -1;
    if (o->from && !l->n)
        return err_set(err, ERR_USAGE, "--from %s: no path in it", o->from);
    return 0;
}

static void print_failures(const struct json *result)
{
    struct json failures = json_get(result, "failures");
    for (size_t i = 0; i < json_count(&failures); i++) {
        struct json f = json_at(&failures, i);
        say_failure("warmup: not cached", json_str_at(&f, "path"), json_str_at(&f, "why"));
    }
    uint64_t omitted = json_uint_at(result, "failures_omitted");
    if (omitted)
        fprintf(stderr, "sampan warmup: and %" PRIu64 " more\n", omitted);
}

/* A share that is larger than the cache. */
static void print_unfit(const struct json *result)
{
    char bytes[32], room[32];
    uint64_t unfit = json_uint_at(result, "unfit");
    if (!unfit)
        return;
    conf_format_size(json_uint_at(result, "unfit_bytes"), bytes);
    conf_format_size(json_uint_at(result, "room"), room);
    fprintf(stderr,
            "sampan warmup: %" PRIu64 " samples (%s) of this share do not fit into %s, from %s on: "
            "they come from elsewhere when they are read (give it a larger --cache, or more "
            "partitions)\n",
            unfit, bytes, room, json_str_at(result, "first_unfit"));
}

static int report(const struct json *result, const struct warmup_options *o, struct err *err)
{
    uint64_t unfit = json_uint_at(result, "unfit");
    int failed = json_uint_at(result, "failed") || unfit ? 1 : 0;
    if (o->json)
        return print_json(result, err) ? -1 : failed;
    cleanup_bytes struct bytes out = {0};
    char size[32], samples[64];
    conf_format_size(json_uint_at(result, "bytes"), size);
    conf_format_count(json_uint_at(result, "samples"), "sample", samples);
    bool verified = false;
    if (o->dry_run) {
        bytes_addf(&out, "%s, %s: %" PRIu64 " to fetch, %" PRIu64 " already there; %s\n", samples,
                   size, json_uint_at(result, "samples") - json_uint_at(result, "already") - unfit,
                   json_uint_at(result, "already"), unfit ? "not all of them fit" : "they fit");
        print_unfit(result);
        return print_out(&out, err) ? -1 : failed;
    }
    json_bool(result, "verified", &verified, NULL);
    bytes_addf(&out,
               "%s, %s in %.1f s: %" PRIu64 " fetched, %" PRIu64 " already there, %" PRIu64
               " failed%s\n",
               samples, size, json_num_at(result, "seconds"), json_uint_at(result, "fetched"),
               json_uint_at(result, "already"), json_uint_at(result, "failed"),
               verified ? ", verified" : "");
    print_failures(result);
    print_unfit(result);
    return print_out(&out, err) ? -1 : failed;
}

struct shown {
    struct progress progress;
    const atomic_bool *interrupted;
    struct how_far far;
};

static bool show(void *arg, const struct json *message)
{
    struct shown *s = arg;
    if (!message)
        return !atomic_load(s->interrupted);
    s->far = (struct how_far){.done = json_uint_at(message, "done"),
                              .total = json_uint_at(message, "total"),
                              .bytes = json_uint_at(message, "bytes"),
                              .percent = json_num_at(message, "percent")};
    progress_show(&s->progress, "samples", &s->far);
    return !atomic_load(s->interrupted);
}

static int print_cancelled(const struct how_far *far, struct err *err)
{
    cleanup_bytes struct bytes out = {0};
    struct json_writer w;
    jw_init(&w, &out);
    jw_object(&w, NULL);
    jw_str(&w, "state", "cancelled");
    jw_uint(&w, "samples", far->total);
    jw_uint(&w, "samples_done", far->done);
    jw_uint(&w, "fetched_bytes", far->bytes);
    jw_end(&w);
    bytes_add_char(&out, '\n');
    return print_out(&out, err);
}

static int warm_mount(const struct control_mount *m, const struct path_list *paths,
                      const struct warmup_options *o, struct err *err)
{
    cleanup_bytes struct bytes request = {0};
    cleanup_json struct json_doc *answer = NULL;
    struct json_writer w;
    ask_begin(&w, &request, "warmup");
    if (paths->n) {
        jw_array(&w, "paths");
        for (size_t i = 0; i < paths->n; i++)
            jw_name(&w, NULL, paths->items[i]);
        jw_end(&w);
    }
    if (o->partition)
        jw_str(&w, "partition", o->partition);
    if (strcmp(o->strategy, "auto") != 0)
        jw_str(&w, "strategy", o->strategy);
    if (o->sampler)
        jw_str(&w, "sampler", o->sampler);
    jw_bool(&w, "verify", o->verify);
    jw_bool(&w, "dry_run", o->dry_run);
    jw_bool(&w, "background", o->background);
    struct shown shown = {.interrupted = catch_interrupts()};
    progress_init(&shown.progress, o->quiet);
    int failed = ask(m, &w, &request, show, &shown, &answer, err);
    progress_end(&shown.progress);
    bool cancelled = failed && err && err->class == ERR_CANCELLED && atomic_load(shown.interrupted);
    if (cancelled && o->json && print_cancelled(&shown.far, err))
        return -1;
    if (cancelled)
        return err_set(err, ERR_CANCELLED, "%s: told to stop; what was fetched stays",
                       m->mountpoint);
    if (failed)
        return -1;
    struct json root = json_root(answer), result = json_get(&root, "result");
    if (o->background && !o->dry_run)
        return o->json ? print_json(&root, err) : 0;
    return report(&result, o, err);
}

static int warm_unmounted(const char *set, const struct path_list *paths,
                          const struct warmup_options *o, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    cleanup_json struct json_doc *doc = NULL;
    if (o->background)
        return err_set(err, ERR_USAGE, "--background: %s is not mounted: nobody would go on", set);
    struct how_far far = {0};
    struct err unsaid = {0};
    int failed = warmup_set(set, paths, o, &text, &far, err);
    if (failed && o->json && err && err->class == ERR_CANCELLED && print_cancelled(&far, &unsaid))
        *err = unsaid;
    if (failed || json_parse(&doc, "result", text.data, text.len, err))
        return -1;
    struct json result = json_root(doc);
    return report(&result, o, err);
}

/* A set file or a catalog. (A folder is a mount that is not there, rather than a source.) */
static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static int no_mount(const char *target, const struct err *why, struct err *err)
{
    cleanup_free char *folder = why->class == ERR_NOT_FOUND ? realpath(target, NULL) : NULL;
    if (folder)
        return err_set(err, why->class, "%s; of a folder as a set it is file://%s", why->msg,
                       folder);
    *err = *why;
    return -1;
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    static char root[] = "";
    const struct warmup_options *o = options;
    const struct control_mount unmounted = {.mountpoint = root};
    cleanup_path_list struct path_list paths = {0};
    cleanup_mount struct control_mount m = {0};
    cleanup_free char *below = NULL;
    const char *target = conf_arg(conf, 0);
    bool is_uri = strstr(target, "://") != NULL;
    struct err why = {0};
    bool is_mount = !is_uri && mount_of(target, &m, &below, &why) == 0;
    if (!is_mount && !is_uri && !(why.class == ERR_NOT_FOUND && is_file(target)))
        return no_mount(target, &why, err);
    if (is_mount && refuse_of_mount(conf, of_mounts, &m, err))
        return -1;
    if (take_paths(&paths, is_mount ? &m : &unmounted, is_mount ? below : "", conf, o, err))
        return -1;
    return is_mount ? warm_mount(&m, &paths, o, err) : warm_unmounted(target, &paths, o, err);
}

const struct command cmd_warmup = {
    .name = "warmup",
    .args = "MOUNT|SET [PATH...]",
    .summary = "bring samples into the cache before they are read",
    .about =
        "Fetches all samples of the mount, or those at and below PATH (below the mount, as it "
        "is named from here, or absolute). A SET (a URI, a set file or a catalog) needs no mount: "
        "give it the --cache and the keys that the mount will have. A mount has its own: options "
        "of a cache are refused, and those that say how a store is reached are passed over. It "
        "is refused before its first byte if they cannot "
        "fit. Interrupting it stops it; what was fetched stays. With "
        "--json it then says how far it was: state (cancelled), samples, samples_done and "
        "fetched_bytes.\n\n"
        "Of a divided set (mount or set: partition=I/P; or --partition) only this node's share "
        "is brought: what its ranks will read, and nothing twice. Every node computes its own "
        "share from the catalog and the options, which must be the same on all. --partition "
        "0/1 brings everything to this node. Of a share that is larger than the cache as much is "
        "brought as fits; it says what does not, which readers get from elsewhere, and the exit "
        "code is 1.",
    .min_args = 1,
    .max_args = -1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct warmup_options),
    .run = run,
};
