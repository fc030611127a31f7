/* What is kept of events for clients that come back. */
#include <criterion/criterion.h>
#include <string.h>

#include "mem.h"
#include "server-internal.h"

/* An event tells all of a job, whose options may name very many paths. */
Test(events, kept_ones_are_bounded_by_number_and_by_bytes)
{
    static const struct {
        size_t bytes;
        unsigned added, kept;
    } rows[] = {
        {10, 3, 3},       {10, EVENTS_KEPT + 7, EVENTS_KEPT}, {1 << 20, 7, 7},
        {1 << 20, 20, 7}, {EVENTS_BYTES + 100, 2, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct events e = {0};
        cleanup_free char *data = xcalloc(rows[i].bytes + 1, 1);
        memset(data, 'x', rows[i].bytes);
        events_init(&e);
        uint64_t first = e.seq;
        for (unsigned k = 0; k < rows[i].added; k++)
            events_add(&e, "job", data);
        cr_expect(e.n == rows[i].kept, "row %zu: %u", i, e.n);
        cr_expect(e.oldest->seq == first + rows[i].added - rows[i].kept + 1, "row %zu", i);
        size_t bytes = 0;
        for (const struct event *event = e.oldest; event; event = event->next)
            bytes += strlen(event->text);
        cr_expect(bytes == e.bytes, "row %zu", i);
        events_destroy(&e);
    }
}
