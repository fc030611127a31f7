/* What the benchmarks share: cmd-bench.c dispatches, bench-list.c gathers files and puts them in
 * order, bench-epoch.c reads them, bench-au.c
 * feeds accelerators with them, bench-meta.c looks at them, bench-fetch.c asks a store for them.
 */
#ifndef SAMPAN_CLI_BENCH_INTERNAL_H
#define SAMPAN_CLI_BENCH_INTERNAL_H

#include "cli-internal.h"
#include "order.h"
#include "walk.h"

struct bench_options {
    int64_t threads, seed, epochs, passes, rate, samples, connections, accelerators, steps;
    uint64_t buffer;
    const char *order, *sampler, *compare, *model, *mode, *svg;
    bool verify, json, quiet;
    struct store_options store;
};

/* --sampler of what reads a folder. Pure. */
int bench_sampler(struct order_spec *ret, const char *text, struct err *err);
void file_list_shuffle(struct file_list *l, uint64_t seed); /* Pure. */
/* What the sampler's ranks read, merged batch by batch; paths may repeat. Pure. */
int file_list_sample(struct file_list *l, const char *spec, struct err *err);
/* Lines of a file as paths below the folder. */
int file_list_read(struct file_list *ret, const char *file, struct err *err);

int bench_epoch(const char *dir, const struct bench_options *o, struct err *err);
int bench_au(const char *dir, const struct bench_options *o, struct err *err);
int bench_meta(const char *dir, const struct bench_options *o, struct err *err);
int bench_fetch(const char *set, const struct bench_options *o, struct err *err);

/* The value at quantile q of n sorted values, 0 if n is 0. Pure. */
uint64_t sorted_quantile(const uint64_t *values, size_t n, double q);
/* Seconds to the microsecond: a small tree is walked in less than a millisecond. */
void write_seconds(struct json_writer *w, const char *key, double seconds);

#endif
