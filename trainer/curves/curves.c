/* The program behind `sampan-train ui`: HTTP, and options. */
#define LOG_MODULE "ui"
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "curves-internal.h"
#include "http-serve.h"
#include "mem.h"
#include "runs.h"

#define CONNECTIONS 64

/* --- options ---------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct curves_options, field)
static const struct conf_row rows[] = {
    {"log_dir", CONF_STRING, AT(log_dir), .arg = "DIR",
     .help = "The --log_dir of a training: its train.jsonl and all event files there and below"},
    {"listen", CONF_STRING, AT(listen), .arg = "ADDR:PORT", .dflt = "127.0.0.1:8081",
     .help = "Serve here, without any authentication; \":PORT\" means every address"},
    {"request-timeout", CONF_DURATION, AT(request_timeout), .arg = "TIME", .dflt = "60s",
     .min = 100 * NS_PER_MS,
     .help = "A request's head, and then its body, must arrive within this"},
    PROGRAM_LOG_ROWS(struct curves_options, log, "text"),
};
const struct program_about curves_about = {
    .name = "sampan-train ui",
    .summary = "how training goes, as a page",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
};

/* --- requests --------------------------------------------------------------------------------- */

#define HEADERS_MORE 3 /* of an answer's own; those that are not there are zeroed */

static const struct reply_header none[HEADERS_MORE];

static enum MHD_Result reply(struct MHD_Connection *c, unsigned status, const char *type,
                             const void *data, size_t len,
                             const struct reply_header more[HEADERS_MORE])
{
    /* The page may load its own parts and ask this server, and nothing else. */
    const struct reply_header headers[] = {
        {MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache"},
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
         "img-src 'self' data:; media-src 'self'; base-uri 'none'; form-action 'none'; "
         "frame-ancestors 'none'; "
         "require-trusted-types-for 'script'"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        more[0],
        more[1],
        more[2],
        {NULL, NULL},
    };
    return http_reply(c, status, type, data, len, headers);
}

static enum MHD_Result say(struct MHD_Connection *c, unsigned status, const char *text)
{
    return reply(c, status, HTTP_TEXT, text, strlen(text), none);
}

static int number(const char *text, uint64_t *ret)
{
    char *end;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return errno || end == text || *end || text[0] < '0' || text[0] > '9' ? -1 : 0;
}

static enum MHD_Result points(const char *file, struct MHD_Connection *c)
{
    const char *text = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "from"),
               *known = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "file");
    uint64_t from, next, inode;
    char begun[24], ended[24], which[24];
    cleanup_bytes struct bytes lines = {0};
    struct err err = {0};
    if (number(text ? text : "0", &from))
        return say(c, MHD_HTTP_BAD_REQUEST, "from: want a number of bytes\n");
    if (number(known ? known : "0", &inode))
        return say(c, MHD_HTTP_BAD_REQUEST, "file: want what X-File said\n");
    if (points_read(file, &inode, &from, &next, &lines, &err))
        return say(c, MHD_HTTP_INTERNAL_SERVER_ERROR, err.msg);
    snprintf(begun, sizeof begun, "%" PRIu64, from);
    snprintf(ended, sizeof ended, "%" PRIu64, next);
    snprintf(which, sizeof which, "%" PRIu64, inode);
    const struct reply_header more[HEADERS_MORE] = {
        {"X-From", begun}, {"X-Next", ended}, {"X-File", which}};
    return reply(c, MHD_HTTP_OK, "application/jsonl; charset=utf-8", lines.data, lines.len, more);
}

static enum MHD_Result failed(struct MHD_Connection *c, const struct err *err)
{
    unsigned status = err->class == ERR_NOT_FOUND   ? MHD_HTTP_NOT_FOUND
                      : err->class == ERR_TRANSIENT ? MHD_HTTP_SERVICE_UNAVAILABLE
                                                    : MHD_HTTP_INTERNAL_SERVER_ERROR;
    return say(c, status, err->msg);
}

/* What is asked of runs, by its path. */
static enum MHD_Result of_runs(struct runs *r, struct MHD_Connection *c, const char *path)
{
    const char *type = "application/json; charset=utf-8";
    const char *run = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "run");
    const char *tag = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "tag");
    const char *place = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "place");
    cleanup_bytes struct bytes out = {0};
    struct err err = {0};
    int result;
    run = run ? run : ".";
    tag = tag ? tag : "";
    if (strcmp(path, "/runs") == 0)
        result = runs_list(r, &out, &err);
    else if (strcmp(path, "/scalars") == 0)
        result = runs_scalars(r, run, &out, &err);
    else if (strcmp(path, "/histograms") == 0)
        result = runs_histograms(r, run, tag, &out, &err);
    else if (strcmp(path, "/pr") == 0)
        result = runs_pr(r, run, tag, &out, &err);
    else if (strcmp(path, "/images") == 0)
        result = runs_images(r, run, tag, &out, &err);
    else if (strcmp(path, "/image") == 0)
        result = runs_image(r, run, tag, place ? place : "", &out, &type, &err);
    else if (strcmp(path, "/audio") == 0)
        result = runs_audio(r, run, tag, &out, &err);
    else if (strcmp(path, "/clip") == 0)
        result = runs_clip(r, run, tag, place ? place : "", &out, &type, &err);
    else if (strcmp(path, "/graph") == 0)
        result = runs_graph(r, run, &out, &err);
    else
        return say(c, MHD_HTTP_NOT_FOUND, "see /\n");
    return result ? failed(c, &err) : reply(c, MHD_HTTP_OK, type, out.data, out.len, none);
}

struct shown {
    char *lines; /* train.jsonl */
    struct runs *runs;
};

static enum MHD_Result answer(void *arg, struct MHD_Connection *c, const struct http_asked *q)
{
    static const struct reply_header allow[HEADERS_MORE] = {{MHD_HTTP_HEADER_ALLOW, "GET, HEAD"}};
    static const char want[] = "want GET\n";
    const struct shown *shown = arg;
    if (!http_reads(q->method))
        return reply(c, MHD_HTTP_METHOD_NOT_ALLOWED, HTTP_TEXT, want, sizeof want - 1, allow);
    if (strcmp(q->url, "/points") == 0)
        return points(shown->lines, c);
    if (strcmp(q->url, "/healthz") == 0)
        return say(c, MHD_HTTP_OK, "ok\n");
    const struct page_file *f = page_find(curves_files, q->url);
    if (f)
        return reply(c, MHD_HTTP_OK, f->type, f->begin, (size_t)(f->end - f->begin), none);
    return of_runs(shown->runs, c, q->url);
}

/* --- the program ------------------------------------------------------------------------------ */

static int serve(struct shown *shown, const struct curves_options *o, const sigset_t *ends,
                 struct log *log, struct err *err)
{
    const struct http_service service = {.address = o->listen,
                                         .request_ns = o->request_timeout,
                                         .connections = CONNECTIONS,
                                         .by_own_name = true,
                                         .answer = answer,
                                         .arg = shown};
    return http_serve(&service, ends, log, err);
}

int curves_run(const struct curves_options *o, const sigset_t *ends, struct err *err)
{
    struct log *log = NULL;
    struct stat st;
    if (!o->log_dir)
        return err_set(err, ERR_USAGE, "want --log_dir DIR (that of a training)");
    if (stat(o->log_dir, &st))
        return err_sys(err, errno, "--log_dir: %s", o->log_dir);
    if (!S_ISDIR(st.st_mode))
        return err_sys(err, ENOTDIR, "--log_dir: %s", o->log_dir);
    if (program_log_open(&log, &o->log, err))
        return -1;
    struct shown shown = {xasprintf("%s/train.jsonl", o->log_dir), runs_new(o->log_dir)};
    int result = serve(&shown, o, ends, log, err);
    runs_free(shown.runs);
    free(shown.lines);
    log_free(log);
    return result;
}
