/* What the benchmarks share: cmd-bench.c dispatches, bench-list.c gathers files and puts them in
 * order, bench-epoch.c reads them, bench-meta.c looks at them, bench-fetch.c asks a store for them.
 */
#ifndef SAMPAN_CLI_BENCH_INTERNAL_H
#define SAMPAN_CLI_BENCH_INTERNAL_H

#include "cli-internal.h"

struct bench_options {
    int64_t threads, seed, epochs, passes, rate, samples, connections;
    uint64_t buffer;
    const char *order, *sampler, *compare;
    bool verify, json, quiet;
    struct store_options store;
};

/* Files below a folder; paths lie one after the other in `text`, each ended by NUL. */
struct file_list {
    struct bytes text;
    uint64_t *at; /* where each path starts */
    size_t n, cap;
};
void file_list_add(struct file_list *l, const char *path, size_t len);
void file_list_release(struct file_list *l);
static inline const char *file_list_get(const struct file_list *l, size_t i)
{
    return l->text.data + l->at[i];
}
#define cleanup_file_list CLEANUP(file_list_release)

/* All files below `dir` in the order of the sorted class-folder walk. */
int file_list_walk(struct file_list *ret, const char *dir, struct err *err);
/* Keeps those that Paddle's DatasetFolder and torch's ImageFolder number. Pure. */
void file_list_numbered(struct file_list *l);
void file_list_shuffle(struct file_list *l, uint64_t seed); /* Pure. */
/* What the sampler's ranks read, merged batch by batch; paths may repeat. Pure. */
int file_list_sample(struct file_list *l, const char *spec, struct err *err);
/* Lines of a file as paths below the folder. */
int file_list_read(struct file_list *ret, const char *file, struct err *err);

int bench_epoch(const char *dir, const struct bench_options *o, struct err *err);
int bench_meta(const char *dir, const struct bench_options *o, struct err *err);
int bench_fetch(const char *set, const struct bench_options *o, struct err *err);

/* The value at quantile q of n sorted values, 0 if n is 0. Pure. */
uint64_t sorted_quantile(const uint64_t *values, size_t n, double q);
/* Seconds to the microsecond: a small tree is walked in less than a millisecond. */
void write_seconds(struct json_writer *w, const char *key, double seconds);

#endif
