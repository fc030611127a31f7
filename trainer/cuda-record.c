/*
 * GPU backend: steps as graphs. Work under a key runs as it is the first time, so that all memory
 * it needs is there, is recorded the second time, and replayed from then on: one call instead of
 * some hundred, whose cost the GPU would wait for.
 */
#include "cuda-internal.h"

static void forget(struct cuda *c, struct recording *r)
{
    if (r->graph)
        (void)c->lib.cudaGraphExecDestroy(r->graph);
    *r = (struct recording){0};
}

void cuda_forget_recordings(struct cuda *c)
{
    for (int i = 0; i < CUDA_RECORDINGS; i++)
        forget(c, &c->recordings[i]);
}

/* That of `key`, or a new one in the place of the least used. */
static struct recording *find(struct cuda *c, uint64_t key, bool *known)
{
    struct recording *oldest = &c->recordings[0];
    for (int i = 0; i < CUDA_RECORDINGS; i++) {
        struct recording *r = &c->recordings[i];
        if (r->used && r->key == key) {
            *known = true;
            return r;
        }
        if (r->used < oldest->used)
            oldest = r;
    }
    forget(c, oldest);
    oldest->key = key;
    *known = false;
    return oldest;
}

enum backend_work cuda_work_begin(struct backend *b, uint64_t key)
{
    struct cuda *c = cuda_of(b);
    bool known;
    if (c->o.no_recording || cuda_failed(c) || c->now)
        return WORK_WANTED;
    struct recording *r = find(c, key, &known);
    r->used = ++c->clock;
    if (r->graph) {
        cuda_ok(c, c->lib.cudaGraphLaunch(r->graph, cuda_stream(c)), "replay a step");
        return WORK_QUEUED;
    }
    if (!known || r->never)
        return WORK_WANTED;
    if (c->lib.cudaStreamBeginCapture(cuda_stream(c), CUDA_CAPTURE_THREAD)) {
        cuda_handled(c);
        return WORK_WANTED;
    }
    c->now = r;
    return WORK_RECORDING;
}

bool cuda_work_end(struct backend *b, enum backend_work answer)
{
    struct cuda *c = cuda_of(b);
    struct recording *r = c->now;
    struct CUgraph_st *graph = NULL;
    if (answer != WORK_RECORDING)
        return true;
    c->now = NULL;
    int code = c->lib.cudaStreamEndCapture(cuda_stream(c), &graph);
    if (!code && !cuda_failed(c))
        code = c->lib.cudaGraphInstantiateWithFlags(&r->graph, graph, 0);
    if (graph)
        (void)c->lib.cudaGraphDestroy(graph);
    if (code || !r->graph) { /* nothing of it was done: as it is, from now on, it may be */
        cuda_handled(c);
        r->never = true;
        r->graph = NULL;
        c->err = (struct err){0};
        return false;
    }
    cuda_ok(c, c->lib.cudaGraphLaunch(r->graph, cuda_stream(c)), "replay a step");
    return true;
}
