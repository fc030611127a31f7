/* How long an order takes: bench-order SPEC SAMPLES [PARTITIONS] prints the seconds for making it, for
 * reading it through, and for dividing it, as one JSON object. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "owner.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    struct order_spec spec;
    struct order *o;
    struct owners *w = NULL;
    struct err err = {0};
    if (argc < 3)
        return 2;
    uint64_t n = strtoull(argv[2], NULL, 10), sum = 0;
    double began = now();
    if (order_spec_parse(&spec, argv[1], &err) || order_new(&o, &spec, n, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    double made = now();
    for (uint64_t i = 0; i < order_length(o); i++)
        sum += order_at(o, i);
    double read = now();
    order_free(o);
    struct owner_conf conf = {.strategy = owner_strategy_for(&spec),
                              .partitions = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 1,
                              .sampler = spec,
                              .samples = n,
                              .numbered = n};
    double divide = now();
    if (argc > 3 && owners_new(&w, &conf, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    double divided = now();
    owners_free(w);
    printf("{\"make_s\":%.4f,\"read_s\":%.4f,\"divide_s\":%.4f,\"sum\":%" PRIu64 "}\n", made - began,
           read - made, divided - divide, sum);
    return 0;
}
