/* plan: cmd-plan.c takes its words, plan-print.c says the result. */
#ifndef SAMPAN_CLI_PLAN_INTERNAL_H
#define SAMPAN_CLI_PLAN_INTERNAL_H

#include "cli-internal.h"
#include "plan.h"

struct plan_options {
    struct set_options set;
    struct store_options store;
    int64_t count, partitions, position;
    uint64_t sample_size;
    const char *sampler, *strategy, *weights, *partition, *print, *resume;
    bool json;
};

/* What is to be planned, and for whom. */
struct planning {
    const struct plan_options *options;
    struct plan_conf conf;
    uint64_t samples;                 /* in the reading order */
    int64_t only;                     /* a partition; -1: all */
    uint64_t room;                    /* for one partition's share */
    bool has_room;                    /* somebody said how much that is */
    const struct order_token *resume; /* NULL: from the epoch's beginning */
};

int plan_print_order(const struct planning *g, struct err *err);
int plan_print_batches(const struct planning *g, struct err *err);
int plan_print_token(const struct planning *g, struct err *err);
int plan_print_partition(const struct planning *g, struct err *err);
int plan_print_summary(const struct planning *g, struct err *err);

#endif
