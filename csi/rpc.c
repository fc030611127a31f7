/*
 * The gRPC server. A call's life:
 *
 *   WANTED   handed to the library, which fills it when a client comes   (rpc thread)
 *   HEARD    its row is found, its message is being read                 (rpc thread)
 *   QUEUED   waits for a worker; `closed` may come meanwhile             (rpc thread -> worker)
 *   ANSWERED the answer is on its way                                    (worker)
 *   gone     when both the answer's batch and the close have come back: `parts` counts them
 *
 * The completion queue belongs to the `rpc` thread alone; workers only start the answer's batch.
 */
#define LOG_MODULE "rpc"
#include "rpc.h"

#include <errno.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "clock.h"
#include "mem.h"
#include "metrics.h"
#include "sync.h"

#define CALLS_WANTED 8 /* how many clients may come between two turns of the queue */

struct method_stats {
    counter calls, errors, in_flight;
    struct histogram time;
};

struct one_call;
struct tag {
    void (*fn)(struct one_call *c, bool ok);
    struct one_call *call;
};

struct one_call {
    struct rpc_server *server;
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_byte_buffer *in, *out;
    const struct rpc_method *method; /* NULL: none of ours */
    struct method_stats *stats;
    int cancelled; /* by the library, before `closed` */
    _Atomic bool gone;
    atomic_int parts;
    struct tag came, heard, closed, answered;
    struct one_call *next; /* in the queue; guarded by server->lock */
};

struct rpc_server {
    struct rpc_conf conf;
    char *path; /* of the socket */
    grpc_server *server;
    grpc_completion_queue *cq;
    pthread_t thread;
    struct method_stats *stats; /* one a method */
    char **labels;
    struct metric_row *rows;
    size_t n_rows;

    struct lock lock;
    struct cond work;  /* a call waits, or workers go: theirs alone, as one of them is woken */
    struct cond ended; /* for rpc_stop(): a call, a worker, the library */
    struct one_call *first, **last;
    unsigned workers, idle;
    bool stopping;   /* no call is wanted any more */
    bool ending;     /* workers go */
    unsigned active; /* calls that came and have not ended */
    bool shut_down;  /* the library says so */
};

/* --- a call's end ----------------------------------------------------------------------------- */

static void call_free(struct one_call *c)
{
    if (c->call)
        grpc_call_unref(c->call);
    grpc_call_details_destroy(&c->details);
    grpc_metadata_array_destroy(&c->metadata);
    if (c->in)
        grpc_byte_buffer_destroy(c->in);
    if (c->out)
        grpc_byte_buffer_destroy(c->out);
    free(c);
}

static void parts_done(struct one_call *c, int n)
{
    struct rpc_server *s = c->server;
    if (atomic_fetch_sub(&c->parts, n) != n)
        return;
    call_free(c);
    ACQUIRE(&s->lock);
    s->active--;
    cond_broadcast(&s->ended);
}

static void part_done(struct one_call *c)
{
    parts_done(c, 1);
}

static void on_closed(struct one_call *c, bool ok)
{
    (void)ok;
    if (c->cancelled)
        c->gone = true;
    part_done(c);
}

static void on_answered(struct one_call *c, bool ok)
{
    (void)ok; /* not sent: the client is gone, and will ask again */
    part_done(c);
}

/* --- the answer ------------------------------------------------------------------------------- */

static void send_answer(struct one_call *c, enum rpc_code code, const char *text,
                        const struct bytes *body)
{
    grpc_slice details = grpc_slice_from_copied_string(text ? text : "");
    grpc_op ops[3] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}};
    size_t n = 1;
    if (code == RPC_OK) {
        grpc_slice slice = grpc_slice_from_copied_buffer(body->data ? body->data : "", body->len);
        c->out = grpc_raw_byte_buffer_create(&slice, 1);
        grpc_slice_unref(slice);
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        ops[n++].data.send_message.send_message = c->out;
    }
    ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[n].data.send_status_from_server.status = (grpc_status_code)code;
    ops[n++].data.send_status_from_server.status_details = &details;
    if (grpc_call_start_batch(c->call, ops, n, &c->answered, NULL) != GRPC_CALL_OK)
        part_done(c);
    grpc_slice_unref(details);
}

static void log_call(struct one_call *c, enum rpc_code code, const char *subject,
                     const struct err *err, uint64_t took_ns)
{
    struct log *log = c->server->conf.log;
    double ms = (double)took_ns / 1e6;
    if (code == RPC_OK)
        log_info(log, "%s volume=%s ms=%.1f", c->method->name, subject ? subject : "-", ms);
    else
        log_warn(log, "%s volume=%s code=%s ms=%.1f: %s", c->method->name, subject ? subject : "-",
                 rpc_code_name(code), ms, err->msg);
}

static void read_body(struct one_call *c, struct bytes *ret)
{
    grpc_byte_buffer_reader reader;
    grpc_slice slice;
    if (!c->in || !grpc_byte_buffer_reader_init(&reader, c->in))
        return;
    while (grpc_byte_buffer_reader_next(&reader, &slice)) {
        bytes_add(ret, GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice));
        grpc_slice_unref(slice);
    }
    grpc_byte_buffer_reader_destroy(&reader);
}

/* On a worker. */
static void work(struct one_call *c)
{
    cleanup_arena struct arena arena = {0};
    cleanup_wiped struct bytes in = {0};
    cleanup_bytes struct bytes out = {0};
    struct err err = {0};
    const char *subject = NULL;
    uint64_t began = clock_mono_ns();
    if (c->gone) {
        send_answer(c, RPC_CANCELLED, "the client went away before this was begun", NULL);
        return;
    }
    counter_add(&c->stats->calls, 1);
    counter_add(&c->stats->in_flight, 1);
    read_body(c, &in);
    enum rpc_code code =
        rpc_answer(c->method, c->server->conf.arg, in.data, in.len, &out, &subject, &arena, &err);
    uint64_t took = clock_mono_ns() - began;
    counter_add(&c->stats->in_flight, (uint64_t)-1);
    counter_add(&c->stats->errors, code != RPC_OK);
    histogram_add(&c->stats->time, took);
    log_call(c, code, subject, &err, took);
    send_answer(c, code, err.msg, &out);
}

/* --- workers ---------------------------------------------------------------------------------- */

static struct one_call *take_work(struct rpc_server *s)
{
    ACQUIRE(&s->lock);
    s->idle++;
    while (!s->first && !s->ending)
        cond_wait(&s->work, &s->lock);
    s->idle--;
    struct one_call *c = s->first;
    if (c) {
        s->first = c->next;
        if (!s->first)
            s->last = &s->first;
    } else {
        s->workers--;
        cond_broadcast(&s->ended);
    }
    return c;
}

static void *worker_main(void *arg)
{
    struct rpc_server *s = arg;
    pthread_detach(pthread_self()); /* rpc_stop() waits for the count */
    for (struct one_call *c; (c = take_work(s));)
        work(c);
    return NULL;
}

/* A worker for each call that waits, up to the bound; they stay. */
static void queue_work(struct one_call *c)
{
    struct rpc_server *s = c->server;
    ACQUIRE(&s->lock);
    c->next = NULL;
    *s->last = c;
    s->last = &c->next;
    unsigned waiting = 0;
    for (const struct one_call *w = s->first; w; w = w->next)
        waiting++;
    pthread_t thread;
    if (waiting > s->idle && s->workers < s->conf.max_workers &&
        thread_start(&thread, "rpc-worker", worker_main, s) == 0)
        s->workers++;
    cond_signal(&s->work);
}

/* --- coming in -------------------------------------------------------------------------------- */

static void want_call(struct rpc_server *s);

static void refuse(struct one_call *c, enum rpc_code code, const char *text)
{
    send_answer(c, code, text, NULL);
}

static void on_heard(struct one_call *c, bool ok)
{
    if (!ok)
        refuse(c, RPC_CANCELLED, "the request was cut off");
    else if (!c->method)
        refuse(c, RPC_UNIMPLEMENTED,
               "no such method here (CSI version 1: Identity, and the services this plugin was "
               "started with)");
    else if (!c->in)
        refuse(c, RPC_INVALID_ARGUMENT, "no request came, or one too large");
    else
        queue_work(c);
}

static void find_method(struct one_call *c)
{
    struct rpc_server *s = c->server;
    for (size_t i = 0; i < s->conf.n_methods; i++) {
        if (grpc_slice_str_cmp(c->details.method, s->conf.methods[i]->name) != 0)
            continue;
        c->method = s->conf.methods[i];
        c->stats = &s->stats[i];
    }
}

static void count_in(struct rpc_server *s)
{
    ACQUIRE(&s->lock);
    s->active++;
}

static void on_came(struct one_call *c, bool ok)
{
    struct rpc_server *s = c->server;
    if (!ok) { /* the server ends */
        call_free(c);
        return;
    }
    count_in(s);
    want_call(s);
    find_method(c);
    grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    close.data.recv_close_on_server.cancelled = &c->cancelled;
    grpc_op message = {.op = GRPC_OP_RECV_MESSAGE};
    message.data.recv_message.recv_message = &c->in;
    atomic_store(&c->parts, 2); /* the close, and the answer */
    bool closing = grpc_call_start_batch(c->call, &close, 1, &c->closed, NULL) == GRPC_CALL_OK;
    bool hearing = grpc_call_start_batch(c->call, &message, 1, &c->heard, NULL) == GRPC_CALL_OK;
    if (!closing || !hearing)
        parts_done(c, !closing + !hearing);
}

static void want_call(struct rpc_server *s)
{
    ACQUIRE(&s->lock);
    if (s->stopping)
        return;
    struct one_call *c = xcalloc(1, sizeof *c);
    c->server = s;
    c->came = (struct tag){on_came, c};
    c->heard = (struct tag){on_heard, c};
    c->closed = (struct tag){on_closed, c};
    c->answered = (struct tag){on_answered, c};
    grpc_call_details_init(&c->details);
    grpc_metadata_array_init(&c->metadata);
    if (grpc_server_request_call(s->server, &c->call, &c->details, &c->metadata, s->cq, s->cq,
                                 &c->came) != GRPC_CALL_OK)
        call_free(c);
}

/* The tag of the server's own end has no call. */
static void on_shut_down(struct rpc_server *s)
{
    ACQUIRE(&s->lock);
    s->shut_down = true;
    cond_broadcast(&s->ended);
}

static void *queue_main(void *arg)
{
    struct rpc_server *s = arg;
    for (;;) {
        grpc_event e = grpc_completion_queue_next(s->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        if (e.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        struct tag *tag = e.tag;
        if (!tag)
            on_shut_down(s);
        else
            tag->fn(tag->call, e.success != 0);
    }
}

/* --- the socket ------------------------------------------------------------------------------- */

static int socket_path(const char *endpoint, const char **ret, struct err *err)
{
    static const char scheme[] = "unix:";
    const char *path = endpoint;
    if (strncmp(path, scheme, sizeof scheme - 1) == 0)
        path += sizeof scheme - 1;
    while (path[0] == '/' && path[1] == '/')
        path++;
    if (path[0] != '/')
        return err_set(err, ERR_USAGE, "--endpoint: %s: want unix:///PATH of a socket", endpoint);
    if (strlen(path) >= sizeof((struct sockaddr_un *)0)->sun_path)
        return err_set(err, ERR_USAGE, "--endpoint: %s: a socket's path has at most %zu characters",
                       endpoint, sizeof((struct sockaddr_un *)0)->sun_path - 1);
    *ret = path;
    return 0;
}

/* What is there already: nothing, or a socket that nobody answers on and that may go. */
static int clear_way(const char *path, struct err *err)
{
    struct stat st;
    if (lstat(path, &st))
        return errno == ENOENT ? 0 : err_sys(err, errno, "--endpoint: %s", path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, ERR_USAGE,
                       "--endpoint: %s: that is there and is no socket (remove it, or give "
                       "another path)",
                       path);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    cleanup_close int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return err_sys(err, errno, "--endpoint: %s", path);
    if (connect(sock, (struct sockaddr *)&address, sizeof address) == 0)
        return err_set(err, ERR_LIMIT,
                       "--endpoint: %s: another process serves this socket (is the plugin running "
                       "already?)",
                       path);
    if (unlink(path) && errno != ENOENT)
        return err_sys(err, errno, "--endpoint: remove the old socket %s", path);
    return 0;
}

static int bind_socket(struct rpc_server *s, struct err *err)
{
    if (clear_way(s->path, err))
        return -1;
    cleanup_free char *address = xasprintf("unix:%s", s->path);
    grpc_server_credentials *open_to_all = grpc_insecure_server_credentials_create();
    mode_t before = umask(0177); /* the socket is root's */
    int bound = grpc_server_add_http2_port(s->server, address, open_to_all);
    umask(before);
    grpc_server_credentials_release(open_to_all);
    if (bound)
        return 0;
    return err_set(err, ERR_FAILED,
                   "--endpoint: cannot listen on %s (is its folder there, and may this user write "
                   "to it?)",
                   s->path);
}

/* --- counters --------------------------------------------------------------------------------- */

static void make_metrics(struct rpc_server *s)
{
    static const struct metric_row kinds[] = {
        {"sampan_csi_calls_total", NULL, METRIC_COUNTER, offsetof(struct method_stats, calls),
         "Calls begun"},
        {"sampan_csi_errors_total", NULL, METRIC_COUNTER, offsetof(struct method_stats, errors),
         "Calls answered with an error"},
        {"sampan_csi_in_flight", NULL, METRIC_GAUGE, offsetof(struct method_stats, in_flight),
         "Calls under way"},
        {"sampan_csi_call_seconds", NULL, METRIC_HISTOGRAM, offsetof(struct method_stats, time),
         "Time of a call"},
    };
    size_t n = s->conf.n_methods, n_kinds = sizeof kinds / sizeof kinds[0];
    s->stats = xcalloc(n, sizeof *s->stats);
    s->labels = xcalloc(n, sizeof *s->labels);
    s->rows = xcalloc(n * n_kinds, sizeof *s->rows);
    for (size_t i = 0; i < n; i++)
        s->labels[i] = xasprintf("method=\"%s\"", strrchr(s->conf.methods[i]->name, '/') + 1);
    for (size_t k = 0; k < n_kinds; k++)
        for (size_t i = 0; i < n; i++) {
            struct metric_row *row = &s->rows[s->n_rows++];
            *row = kinds[k];
            row->labels = s->labels[i];
            row->offset += i * sizeof *s->stats;
        }
}

void rpc_metrics(struct rpc_server *s, struct bytes *out)
{
    metrics_text(out, s->rows, s->n_rows, s->stats);
}

/* --- start and end ---------------------------------------------------------------------------- */

static void server_free(struct rpc_server *s)
{
    for (size_t i = 0; s->labels && i < s->conf.n_methods; i++)
        free(s->labels[i]);
    free(s->labels);
    free(s->rows);
    free(s->stats);
    free(s->path);
    cond_destroy(&s->work);
    cond_destroy(&s->ended);
    lock_destroy(&s->lock);
    free(s);
}

static void close_queue(struct rpc_server *s, bool thread_runs)
{
    grpc_completion_queue_shutdown(s->cq);
    if (thread_runs)
        pthread_join(s->thread, NULL);
    else
        queue_main(s);
    grpc_server_destroy(s->server);
    grpc_completion_queue_destroy(s->cq);
    grpc_shutdown();
}

int rpc_serve(struct rpc_server **ret, const struct rpc_conf *conf, struct err *err)
{
    const char *path = NULL;
    if (socket_path(conf->endpoint, &path, err))
        return -1;
    struct rpc_server *s = xcalloc(1, sizeof *s);
    s->conf = *conf;
    s->path = xstrdup(path);
    s->last = &s->first;
    lock_init(&s->lock, RANK_RPC, "rpc");
    cond_init(&s->work);
    cond_init(&s->ended);
    make_metrics(s);
    grpc_init();
    grpc_arg arg = {.type = GRPC_ARG_INTEGER,
                    .key = (char *)(uintptr_t)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH};
    arg.value.integer = RPC_MAX_REQUEST;
    grpc_channel_args args = {1, &arg};
    s->server = grpc_server_create(&args, NULL);
    s->cq = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(s->server, s->cq, NULL);
    int result = bind_socket(s, err);
    if (!result)
        grpc_server_start(s->server);
    for (int i = 0; i < CALLS_WANTED && !result; i++)
        want_call(s);
    int error = result ? 0 : thread_start(&s->thread, "rpc", queue_main, s);
    if (error)
        result = err_thread(err, error, "start a thread");
    if (!result) {
        *ret = s;
        return 0;
    }
    grpc_server_shutdown_and_notify(s->server, s->cq, NULL);
    close_queue(s, /* thread_runs= */ false);
    server_free(s);
    return -1;
}

void rpc_stop(struct rpc_server *s, uint64_t grace_ns)
{
    if (!s)
        return;
    lock_take(&s->lock);
    s->stopping = true;
    lock_drop(&s->lock);
    grpc_server_shutdown_and_notify(s->server, s->cq, NULL);
    uint64_t until = clock_mono_ns() + grace_ns;
    lock_take(&s->lock);
    /* Clients keep idle connections, and the library waits for those as well. */
    for (uint64_t now; s->active && (now = clock_mono_ns()) < until;)
        cond_wait_for(&s->ended, &s->lock, until - now);
    lock_drop(&s->lock);
    grpc_server_cancel_all_calls(s->server);
    lock_take(&s->lock);
    while (!s->shut_down)
        cond_wait(&s->ended, &s->lock);
    s->ending = true;
    cond_broadcast(&s->work);
    while (s->workers)
        cond_wait(&s->ended, &s->lock);
    lock_drop(&s->lock);
    close_queue(s, /* thread_runs= */ true);
    unlink(s->path);
    server_free(s);
}
