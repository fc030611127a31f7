/* The predictor's program: HTTP, and options. */
#define LOG_MODULE "predict"
#include <microhttpd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "http-reply.h"
#include "http-serve.h"
#include "json.h"
#include "mem.h"
#include "predict-internal.h"

#define BODY_MAX    (64u << 20)
#define BODIES_MAX  (256u << 20)
#define CONNECTIONS 256

/* --- options ---------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct predict_options, field)
static const struct conf_row rows[] = {
    {"checkpoint", CONF_STRING, AT(checkpoint), .arg = "DIR",
     .help = "A checkpoint's folder, or --save_dir of a training: the newest whole one"},
    {"listen", CONF_STRING, AT(listen), .arg = "ADDR:PORT", .dflt = ":8080",
     .help = "Serve here; \":PORT\" means every address"},
    {"device", CONF_STRING, AT(device), .arg = "NAME", .dflt = "auto",
     .help = "auto, cpu, cuda or cuda:N"},
    {"precision", CONF_STRING, AT(precision), .arg = "NAME", .dflt = "auto",
     .help = "Of a GPU: auto, fp32, tf32 or bf16"},
    {"threads", CONF_INT, AT(threads), .arg = "N", .dflt = "0", .min = 0, .max = 1024,
     .help = "Threads that compute on the CPU; 0: one a core"},
    {"batch", CONF_INT, AT(batch), .arg = "N", .dflt = "32", .min = 1, .max = 4096,
     .help = "Samples computed at once at most"},
    {"request-timeout", CONF_DURATION, AT(request_timeout), .arg = "TIME", .dflt = "60s",
     .min = 100 * NS_PER_MS,
     .help = "A request's head, and then its body, must arrive within this"},
    PROGRAM_LOG_ROWS(struct predict_options, log, "text"),
};
const struct program_about predict_about = {
    .name = "sampan-train predict",
    .summary = "a trained model behind HTTP (POST /v1/predict)",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
};

/* --- requests --------------------------------------------------------------------------------- */

static enum MHD_Result send_refusal(struct predictor *p, struct MHD_Connection *c, unsigned status,
                                    const char *why, const char *allow)
{
    const struct reply_header more[] = {{MHD_HTTP_HEADER_ALLOW, allow}, {NULL, NULL}};
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    jw_init(&w, &text);
    jw_object(&w, NULL);
    jw_str(&w, "error", why);
    jw_end(&w);
    counter_add(&p->refused, 1);
    return http_reply(c, status, HTTP_JSON, text.data, text.len, more);
}

static enum MHD_Result refuse(struct predictor *p, struct MHD_Connection *c, unsigned status,
                              const char *why)
{
    return send_refusal(p, c, status, why, NULL);
}

static enum MHD_Result predict(struct predictor *p, struct MHD_Connection *c,
                               const struct http_asked *q)
{
    cleanup_bytes struct bytes text = {0};
    struct err err = {0};
    const char *type =
        MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);
    if (q->too_large)
        return refuse(p, c, MHD_HTTP_CONTENT_TOO_LARGE, "the body is larger than 64 MiB");
    if (q->no_room)
        return refuse(p, c, MHD_HTTP_SERVICE_UNAVAILABLE,
                      "bodies of 256 MiB are here already: try again");
    if (question_answer(p, type ? type : "", q->body, q->len, &text, &err))
        return refuse(
            p, c, err.class == ERR_USAGE ? MHD_HTTP_BAD_REQUEST : MHD_HTTP_INTERNAL_SERVER_ERROR,
            err.msg);
    return http_reply(c, MHD_HTTP_OK, HTTP_JSON, text.data, text.len, NULL);
}

static void write_metrics(struct predictor *p, struct bytes *out)
{
    const struct {
        const char *name, *help;
        counter *value;
    } counts[] = {{"requests", "Requests to predict.", &p->requests},
                  {"refused", "Requests answered with an error.", &p->refused},
                  {"predictions", "Samples judged.", &p->predictions}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        bytes_addf(out,
                   "# HELP sampan_predict_%s_total %s\n# TYPE sampan_predict_%s_total counter\n"
                   "sampan_predict_%s_total %llu\n",
                   counts[i].name, counts[i].help, counts[i].name, counts[i].name,
                   (unsigned long long)counter_get(counts[i].value));
}

static enum MHD_Result show(struct predictor *p, struct MHD_Connection *c, const char *url)
{
    cleanup_bytes struct bytes text = {0};
    if (strcmp(url, "/v1/model") == 0) {
        question_about(p, &text);
        return http_reply(c, MHD_HTTP_OK, HTTP_JSON, text.data, text.len, NULL);
    }
    if (strcmp(url, "/metrics") == 0)
        write_metrics(p, &text);
    else if (strcmp(url, "/healthz") == 0 || strcmp(url, "/readyz") == 0)
        bytes_add_str(&text, "ok\n");
    else
        return refuse(p, c, MHD_HTTP_NOT_FOUND,
                      "POST /v1/predict, GET /v1/model, /healthz, /readyz and /metrics are here");
    return http_reply(c, MHD_HTTP_OK, HTTP_TEXT, text.data, text.len, NULL);
}

static enum MHD_Result answer(void *arg, struct MHD_Connection *c, const struct http_asked *q)
{
    struct predictor *p = arg;
    bool asks = strcmp(q->url, "/v1/predict") == 0;
    if (asks)
        counter_add(&p->requests, 1);
    if (asks ? strcmp(q->method, MHD_HTTP_METHOD_POST) != 0 : !http_reads(q->method))
        return send_refusal(p, c, MHD_HTTP_METHOD_NOT_ALLOWED, asks ? "want POST" : "want GET",
                            asks ? "POST" : "GET, HEAD");
    return asks ? predict(p, c, q) : show(p, c, q->url);
}

/* --- the program ------------------------------------------------------------------------------ */

static int serve(struct predictor *p, const struct predict_options *o, const sigset_t *ends,
                 struct log *log, struct err *err)
{
    const struct http_service service = {.address = o->listen,
                                         .request_ns = o->request_timeout,
                                         .body_max = BODY_MAX,
                                         .bodies_max = BODIES_MAX,
                                         .connections = CONNECTIONS,
                                         .answer = answer,
                                         .arg = p};
    return http_serve(&service, ends, log, err);
}

int predict_run(const struct predict_options *o, const sigset_t *ends, struct err *err)
{
    struct log *log = NULL;
    struct predictor *p = NULL;
    if (!o->checkpoint)
        return err_set(err, ERR_USAGE, "want --checkpoint DIR (--save_dir of a training)");
    if (program_log_open(&log, &o->log, err))
        return -1;
    int result = predictor_open(&p, o, log, err) || serve(p, o, ends, log, err) ? -1 : 0;
    predictor_close(p);
    log_free(log);
    return result;
}
