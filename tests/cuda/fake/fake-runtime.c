/* The fake's devices, memory, streams, events and graphs. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "parts.h"

struct fake_state fake;

__attribute__((constructor)) static void start(void)
{
    const char *memory = getenv("FAKE_CUDA_MEMORY"), *fail = getenv("FAKE_CUDA_FAIL");
    fake = (struct fake_state){
        .devices = 1, .driver_version = 13000, .major = 9, .memory = (size_t)4 << 30};
    if (memory)
        fake.memory = strtoull(memory, NULL, 10);
    if (fail && sscanf(fail, "%63[^:]:%ld:%d", fake.fail_name, &fake.fail_at, &fake.fail_code) != 3)
        abort();
}

struct fake_state *fake_cuda_state(void)
{
    return &fake;
}

static int keep(int code)
{
    if (code)
        fake.last_error = code;
    return code;
}

int cudaGetLastError(void)
{
    int code = fake.last_error;
    fake.last_error = 0;
    return code;
}

int fake_fault(const char *function)
{
    if (fake.fail_at <= 0 || strcmp(function, fake.fail_name) != 0 || --fake.fail_at > 0)
        return 0;
    return strncmp(function, "cuda", 4) == 0 ? keep(fake.fail_code) : fake.fail_code;
}

/* --- memory ----------------------------------------------------------------------------------- */

struct area {
    char *at;
    size_t size;
    bool device;
    struct area *next;
};
static struct area *areas;

static struct area *area_of(const void *p, size_t n)
{
    for (struct area *a = areas; a; a = a->next)
        if ((const char *)p >= a->at && (const char *)p + n <= a->at + a->size)
            return a;
    return NULL;
}

bool fake_is_device(const void *p, size_t n)
{
    struct area *a = area_of(p, n);
    return a && a->device;
}

static int add_area(void **ret, size_t size, bool device)
{
    struct area *a = calloc(1, sizeof *a);
    a->at = aligned_alloc(256, (size + 255) / 256 * 256);
    memset(a->at, 0xA5, size);
    a->size = size;
    a->device = device;
    a->next = areas;
    areas = a;
    *ret = a->at;
    return 0;
}

static int drop_area(void *p, bool device)
{
    for (struct area **a = &areas; *a; a = &(*a)->next)
        if ((*a)->at == p && (*a)->device == device) {
            struct area *gone = *a;
            *a = gone->next;
            *(device ? &fake.used : &fake.pinned) -= gone->size;
            free(gone->at);
            free(gone);
            return 0;
        }
    fake.wrong++;
    return keep(INVALID);
}

int cudaMalloc(void **ret, size_t size)
{
    FAULT();
    if (fake_recording())
        return keep(NOT_PERMITTED);
    if (size > fake.memory || fake.used > fake.memory - size)
        return keep(OUT_OF_MEMORY);
    fake.used += size;
    fake.allocations++;
    fake.most_used = fake.used > fake.most_used ? fake.used : fake.most_used;
    return add_area(ret, size, true);
}

int cudaFree(void *p)
{
    FAULT();
    if (!p)
        return 0;
    if (fake_recording())
        return keep(NOT_PERMITTED);
    fake_drain_all();
    return drop_area(p, true);
}

int cudaHostAlloc(void **ret, size_t size, unsigned flags)
{
    (void)flags;
    FAULT();
    fake.pinned += size;
    return add_area(ret, size, false);
}

int cudaFreeHost(void *p)
{
    FAULT();
    fake_drain_all();
    return drop_area(p, false);
}

int cudaMemGetInfo(size_t *unused, size_t *total)
{
    *unused = fake.memory - fake.used;
    *total = fake.memory;
    return 0;
}

/* --- streams ---------------------------------------------------------------------------------- */

struct command {
    bool (*run)(void *payload);
    void (*drop)(void *payload);
    void *payload;
    size_t size;
    struct CUevent_st *record, *wait; /* else one of these */
    uint64_t ticket;
    struct command *next;
};
struct CUevent_st {
    uint64_t recorded, done; /* tickets: the newest queued, the newest that ran */
    struct CUstream_st *by;
};
struct CUgraph_st {
    struct command *first, **last;
};
struct CUgraphExec_st {
    struct CUgraph_st graph;
};
struct CUstream_st {
    struct command *first, **last;
    struct CUgraph_st *recording;
    struct CUstream_st *next;
    bool primary, running; /* primary: the first that was made */
};
static struct CUstream_st *streams;

bool fake_recording(void)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s->recording)
            return true;
    return false;
}

static void free_command(struct command *c)
{
    if (c->drop)
        c->drop(c->payload);
    free(c->payload);
    free(c);
}

/* Runs `s` until it is empty, or until event `e` has come to `ticket`. */
static bool drain_until(struct CUstream_st *s, const struct CUevent_st *e, uint64_t ticket)
{
    if (s->running)
        return false;
    bool going = true;
    s->running = true;
    while (going && s->first && !(e && e->done >= ticket)) {
        struct command *c = s->first;
        if (c->wait && c->wait->done < c->ticket)
            going = !fake.eager_feeds || s->primary ? drain_until(c->wait->by, c->wait, c->ticket)
                                                    : false;
        else if (c->run)
            going = c->run(c->payload);
        if (!going)
            break;
        if (c->record)
            c->record->done = c->ticket;
        s->first = c->next;
        if (!s->first)
            s->last = &s->first;
        free_command(c);
    }
    s->running = false;
    return going;
}

bool fake_drain(struct CUstream_st *s)
{
    bool feeds = fake.eager_feeds;
    fake.eager_feeds = false; /* somebody waits: whatever is needed runs */
    bool done = drain_until(s, NULL, 0);
    fake.eager_feeds = feeds;
    return done;
}

void fake_drain_all(void)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        while (!fake_drain(s))
            usleep(100);
}

static void append(struct CUstream_st *s, struct command *c)
{
    struct command ***last = s->recording ? &s->recording->last : &s->last;
    **last = c;
    *last = &c->next;
    if (fake.eager_feeds && !s->primary && !s->recording)
        drain_until(s, NULL, 0);
}

static struct command *command(bool (*run)(void *), void (*drop)(void *), const void *payload,
                               size_t size)
{
    struct command *c = calloc(1, sizeof *c);
    c->run = run;
    c->drop = drop;
    c->size = size;
    c->payload = malloc(size + 1);
    if (size)
        memcpy(c->payload, payload, size);
    return c;
}

int fake_queue(struct CUstream_st *s, bool (*run)(void *), void (*drop)(void *),
               const void *payload, size_t size)
{
    append(s, command(run, drop, payload, size));
    return 0;
}

int cudaStreamCreateWithFlags(struct CUstream_st **ret, unsigned flags)
{
    (void)flags;
    FAULT();
    struct CUstream_st *s = calloc(1, sizeof *s);
    s->last = &s->first;
    s->primary = streams == NULL;
    s->next = streams;
    streams = s;
    *ret = s;
    return 0;
}

int cudaStreamDestroy(struct CUstream_st *s)
{
    while (!fake_drain(s))
        usleep(100);
    for (struct CUstream_st **p = &streams; *p; p = &(*p)->next)
        if (*p == s) {
            *p = s->next;
            break;
        }
    free(s);
    return 0;
}

int cudaStreamSynchronize(struct CUstream_st *s)
{
    FAULT();
    if (s->recording)
        return keep(NOT_PERMITTED);
    while (!fake_drain(s))
        usleep(100);
    return 0;
}

int cudaStreamQuery(struct CUstream_st *s)
{
    FAULT();
    return fake_drain(s) ? 0 : keep(NOT_READY);
}

int cudaEventCreateWithFlags(struct CUevent_st **ret, unsigned flags)
{
    (void)flags;
    FAULT();
    *ret = calloc(1, sizeof **ret);
    return 0;
}

int cudaEventDestroy(struct CUevent_st *e)
{
    fake_drain_all();
    free(e);
    return 0;
}

int cudaEventRecord(struct CUevent_st *e, struct CUstream_st *s)
{
    FAULT();
    if (s->recording)
        return keep(NOT_PERMITTED);
    struct command *c = command(NULL, NULL, NULL, 0);
    c->record = e;
    c->ticket = ++e->recorded;
    e->by = s;
    append(s, c);
    return 0;
}

int cudaStreamWaitEvent(struct CUstream_st *s, struct CUevent_st *e, unsigned flags)
{
    (void)flags;
    FAULT();
    if (s->recording)
        return keep(NOT_PERMITTED);
    struct command *c = command(NULL, NULL, NULL, 0);
    c->wait = e;
    c->ticket = e->recorded; /* what is recorded later is not waited for */
    append(s, c);
    return 0;
}

/* --- copies ----------------------------------------------------------------------------------- */

struct copy {
    void *to;
    const void *from;
    size_t n;
    int byte;  /* -1: a copy, else to be filled with it */
    bool owns; /* `from` is a copy of its own */
};

static bool run_copy(void *payload)
{
    struct copy *c = payload;
    if (c->byte >= 0)
        memset(c->to, c->byte, c->n);
    else
        memmove(c->to, c->from, c->n);
    return true;
}

static void drop_copy(void *payload)
{
    struct copy *c = payload;
    if (c->owns)
        free((void *)c->from);
}

static int copy_in(struct copy *c, struct CUstream_st *s)
{
    if (area_of(c->from, c->n)) {
        fake.pinned_copies++;
        fake.pinned_bytes += c->n;
        return fake_queue(s, run_copy, NULL, c, sizeof *c);
    }
    fake.pageable_copies++;
    fake.pageable_bytes += c->n;
    if (s->recording)
        return keep(NOT_PERMITTED);
    void *own = malloc(c->n + 1);
    memcpy(own, c->from, c->n);
    c->from = own;
    c->owns = true;
    return fake_queue(s, run_copy, drop_copy, c, sizeof *c);
}

int cudaMemcpyAsync(void *to, const void *from, size_t n, int kind, struct CUstream_st *s)
{
    FAULT();
    struct copy c = {.to = to, .from = from, .n = n, .byte = -1};
    bool to_device = fake_is_device(to, n), from_device = fake_is_device(from, n);
    if (to_device != (kind != CUDA_DEVICE_TO_HOST) ||
        from_device != (kind != CUDA_HOST_TO_DEVICE)) {
        fake.wrong++;
        return keep(INVALID);
    }
    if (kind == CUDA_HOST_TO_DEVICE)
        return copy_in(&c, s);
    if (kind == CUDA_DEVICE_TO_DEVICE) {
        fake.device_copies++;
        return fake_queue(s, run_copy, NULL, &c, sizeof c);
    }
    fake.host_copies++;
    if (s->recording)
        return keep(NOT_PERMITTED);
    fake_queue(s, run_copy, NULL, &c, sizeof c);
    while (!area_of(to, n) && !fake_drain(s)) /* pageable: it is there when the call returns */
        usleep(100);
    return 0;
}

int cudaMemsetAsync(void *to, int byte, size_t n, struct CUstream_st *s)
{
    FAULT();
    struct copy c = {.to = to, .n = n, .byte = byte};
    if (!fake_is_device(to, n)) {
        fake.wrong++;
        return keep(INVALID);
    }
    return fake_queue(s, run_copy, NULL, &c, sizeof c);
}

/* --- graphs ----------------------------------------------------------------------------------- */

int cudaStreamBeginCapture(struct CUstream_st *s, int mode)
{
    (void)mode;
    FAULT();
    if (s->recording)
        return keep(NOT_PERMITTED);
    s->recording = calloc(1, sizeof *s->recording);
    s->recording->last = &s->recording->first;
    return 0;
}

static void free_graph(struct CUgraph_st *g)
{
    while (g->first) {
        struct command *c = g->first;
        g->first = c->next;
        free_command(c);
    }
}

int cudaStreamEndCapture(struct CUstream_st *s, struct CUgraph_st **ret)
{
    struct CUgraph_st *g = s->recording;
    s->recording = NULL;
    int fault = fake_fault(__func__);
    if (fault) {
        free_graph(g);
        free(g);
        return fault;
    }
    *ret = g;
    return 0;
}

int cudaGraphDestroy(struct CUgraph_st *g)
{
    free_graph(g);
    free(g);
    return 0;
}

/* Takes the commands over: nobody makes two of one graph here. */
int cudaGraphInstantiateWithFlags(struct CUgraphExec_st **ret, struct CUgraph_st *g,
                                  unsigned long long flags)
{
    (void)flags;
    FAULT();
    struct CUgraphExec_st *e = calloc(1, sizeof *e);
    e->graph.first = g->first;
    g->first = NULL;
    fake.graphs++;
    *ret = e;
    return 0;
}

static bool run_graph(void *payload)
{
    struct CUgraphExec_st *e = *(struct CUgraphExec_st **)payload;
    for (struct command *c = e->graph.first; c; c = c->next)
        while (c->run && !c->run(c->payload))
            usleep(100);
    return true;
}

int cudaGraphLaunch(struct CUgraphExec_st *e, struct CUstream_st *s)
{
    FAULT();
    fake.replays++;
    return fake_queue(s, run_graph, NULL, &e, sizeof e);
}

int cudaGraphExecDestroy(struct CUgraphExec_st *e)
{
    fake_drain_all();
    free_graph(&e->graph);
    free(e);
    return 0;
}
