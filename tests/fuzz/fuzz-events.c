/* Files of events and models, which anybody's program writes: the first byte says which. */
#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "records.h"
#include "runs-internal.h"

static bool take(void *arg, const struct event_value *v)
{
    size_t *total = arg;
    cleanup_drawn struct drawn d = {0};
    cleanup_bytes struct bytes out = {0};
    for (size_t i = 0; i < v->tag_len; i++)
        *total += (unsigned char)v->tag[i];
    for (size_t i = 0; i < v->len; i++)
        *total += (unsigned char)v->data[i];
    if ((v->kind == VALUE_HISTOGRAM || v->kind == VALUE_PR) && drawn_of(v, &d) == 0) {
        assert(d.n_x == d.n + (v->kind == VALUE_HISTOGRAM));
        for (size_t i = 0; i < d.n_x; i++)
            assert(isfinite(d.x[i]) && (i == d.n || isfinite(d.y[i])));
    }
    struct json_writer w;
    jw_init(&w, &out);
    jw_object(&w, NULL);
    if ((v->kind == VALUE_GRAPH && graph_answer(v->data, v->len, &w, NULL) == 0) ||
        (v->kind == VALUE_COSTS && costs_answer(v, &w, NULL) == 0)) {
        jw_end(&w);
        assert(out.len > 2 && out.data[out.len - 1] == '}'); /* all that was begun has ended */
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_bytes struct bytes record = {0}, out = {0};
    size_t total = 0;
    if (size < 2)
        return 0;
    unsigned kind = data[0] % 4;
    if (kind < EVENTS_FORMATS) { /* a message, out of its frame */
        record_values(kind, (const char *)data + 1, size - 1, take, &total);
        return 0;
    }
    cleanup_file FILE *f = fmemopen((void *)(uintptr_t)(data + 1), size - 1, "r");
    assert(f);
    if (kind == 2) {
        struct err err = {0};
        struct json_writer w;
        jw_init(&w, &out);
        jw_object(&w, NULL);
        if (model_answer(f, &w, &err))
            assert(err.msg[0]);
        return 0;
    }
    uint64_t at = 0;
    while (record_next(f, EVENTS_VISUALDL, &at, &record) == 1) {
        assert(at <= size - 1);
        record_values(EVENTS_VISUALDL, record.data, record.len, take, &total);
    }
    return 0;
}
