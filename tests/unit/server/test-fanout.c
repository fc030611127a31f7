#include <criterion/criterion.h>

#include "fanout-internal.h"

/* Totals of those that have told them stand for the others', and are never less than what is done.
 */
Test(fanout, progress_of_all)
{
    struct child c[4] = {
        {.progress = {.items = 2, .bytes = 20, .total_items = 2, .total_bytes = 20, .eta_s = 0}},
        {.progress = {.items = 2, .bytes = 20, .total_items = 2, .total_bytes = 20, .eta_s = 7}},
        {.progress = {.items = 1, .bytes = 7, .total_items = 1, .total_bytes = 7, .eta_s = 3}},
        {.progress = {.eta_s = -1}},
    };
    struct job_progress all = fanout_progress(c, 4);
    cr_expect_eq(all.items, 5);
    cr_expect_eq(all.total_items, 6, "%llu", (unsigned long long)all.total_items);
    cr_expect_eq(all.total_bytes, 62, "%llu", (unsigned long long)all.total_bytes);
    cr_expect_eq(all.eta_s, 7);
    c[3].ended = true; /* without any work */
    all = fanout_progress(c, 4);
    cr_expect_eq(all.total_items, 5);
    cr_expect_eq(all.total_bytes, 47);
    all = fanout_progress(c + 3, 1);
    cr_expect_eq(all.total_items, 0);
    cr_expect_eq(all.eta_s, -1);
}
