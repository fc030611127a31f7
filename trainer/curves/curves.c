/* The program behind `sampan-train ui`: HTTP, and options. */
#define LOG_MODULE "ui"
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "curves-internal.h"
#include "http-serve.h"
#include "mem.h"

#define CONNECTIONS 64
#define TEXT        "text/plain; charset=utf-8"

/* --- options ---------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct curves_options, field)
static const struct conf_row rows[] = {
    {"log_dir", CONF_STRING, AT(log_dir), .arg = "DIR",
     .help = "The --log_dir of a training: its train.jsonl is shown"},
    {"listen", CONF_STRING, AT(listen), .arg = "ADDR:PORT", .dflt = "127.0.0.1:8081",
     .help = "Serve here, without any authentication; \":PORT\" means every address"},
    {"request-timeout", CONF_DURATION, AT(request_timeout), .arg = "TIME", .dflt = "60s",
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

struct header {
    const char *name, *value;
};

static enum MHD_Result reply(struct MHD_Connection *c, unsigned status, const char *type,
                             const void *data, size_t len, const struct header *more)
{
    /* The page may load its own parts and ask this server, and nothing else. */
    static const struct header always[] = {
        {MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache"},
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
         "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
         "require-trusted-types-for 'script'"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
    };
    struct MHD_Response *r = MHD_create_response_from_buffer(
        len, (void *)(uintptr_t)(len ? data : ""), MHD_RESPMEM_MUST_COPY);
    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        MHD_add_response_header(r, always[i].name, always[i].value);
    for (; more && more->name; more++)
        MHD_add_response_header(r, more->name, more->value);
    enum MHD_Result result = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return result;
}

static enum MHD_Result say(struct MHD_Connection *c, unsigned status, const char *text)
{
    return reply(c, status, TEXT, text, strlen(text), NULL);
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
    const char *text = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "from");
    uint64_t from, next;
    char begun[24], ended[24];
    cleanup_bytes struct bytes lines = {0};
    struct err err = {0};
    if (number(text ? text : "0", &from))
        return say(c, MHD_HTTP_BAD_REQUEST, "from: want a number of bytes\n");
    if (points_read(file, &from, &next, &lines, &err))
        return say(c, MHD_HTTP_INTERNAL_SERVER_ERROR, err.msg);
    snprintf(begun, sizeof begun, "%" PRIu64, from);
    snprintf(ended, sizeof ended, "%" PRIu64, next);
    const struct header more[] = {{"X-From", begun}, {"X-Next", ended}, {NULL, NULL}};
    return reply(c, MHD_HTTP_OK, "application/jsonl; charset=utf-8", lines.data, lines.len, more);
}

static enum MHD_Result answer(void *arg, struct MHD_Connection *c, const struct http_asked *q)
{
    static const struct header allow[] = {{MHD_HTTP_HEADER_ALLOW, "GET, HEAD"}, {NULL, NULL}};
    static const char want[] = "want GET\n";
    if (strcmp(q->method, MHD_HTTP_METHOD_GET) != 0 && strcmp(q->method, MHD_HTTP_METHOD_HEAD) != 0)
        return reply(c, MHD_HTTP_METHOD_NOT_ALLOWED, TEXT, want, sizeof want - 1, allow);
    if (strcmp(q->url, "/points") == 0)
        return points(arg, c);
    if (strcmp(q->url, "/healthz") == 0)
        return say(c, MHD_HTTP_OK, "ok\n");
    const struct page_file *f = page_find(q->url);
    if (f)
        return reply(c, MHD_HTTP_OK, f->type, f->begin, (size_t)(f->end - f->begin), NULL);
    return say(c, MHD_HTTP_NOT_FOUND, "/, /points and /healthz are here\n");
}

/* --- the program ------------------------------------------------------------------------------ */

static int serve(char *file, const struct curves_options *o, const sigset_t *ends, struct log *log,
                 struct err *err)
{
    const struct http_service service = {.address = o->listen,
                                         .request_ns = o->request_timeout,
                                         .connections = CONNECTIONS,
                                         .answer = answer,
                                         .arg = file};
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
    cleanup_free char *file = xasprintf("%s/train.jsonl", o->log_dir);
    int result = serve(file, o, ends, log, err);
    log_free(log);
    return result;
}
