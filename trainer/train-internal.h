/* One run: what train.c sets up and take-up.c goes on with, pass.c runs, judge.c judges and
 * report.c tells about. */
#ifndef SAMPAN_TRAIN_TRAIN_INTERNAL_H
#define SAMPAN_TRAIN_TRAIN_INTERNAL_H

#include "batch.h"
#include "checkpoint.h"
#include "claim.h"
#include "collective.h"
#include "events.h"
#include "net.h"
#include "remote.h"
#include "report.h"
#include "schedule.h"
#include "train.h"

struct run {
    const struct options *o;
    struct log *log;
    const atomic_int *stop;
    struct backend *b;
    struct collective *c;
    struct net *n;
    struct secret secret; /* that its servers are to know; text NULL: none */
    struct remote *ps;    /* where parameters are kept; NULL: here. The collective is its */
    struct net *shape;    /* the whole model, unfinished; n has room for a batch's rows alone */
    struct checkpoint_about about; /* the whole model */
    struct batches *batches, *test;
    struct schedule schedule;    /* in steps as this run makes them: ... */
    int64_t rates_ahead;         /* ... at.step and so many are made */
    struct claim *saves, *shows; /* of --save_dir and --log_dir: rank 0's, while it runs */
    struct events *events;       /* rank 0 with --log_dir, else NULL */
    struct report report;
    struct checkpoint at;  /* where training is; on rank 0 its token is always that of at.batch */
    uint64_t longest_pass; /* batches of the rank that has most */
    uint64_t saved_at;     /* the step of the newest checkpoint */
    double rate;
    char saved[600]; /* its folder */
    float *sums;     /* host memory: gradients and sums of a step, or the backend's own */
    bool stopped;
    bool stuck;       /* samples that had been asked for did not come, and nobody waits for them */
    bool is_async;    /* with servers: no trainer waits for another between begin ... */
    bool met;         /* ... and end: all have made their last step */
    bool device_sums; /* gradients are summed by the devices themselves */
    uint64_t skipped; /* samples of all ranks that were left out of the pass in hand */
    uint64_t skipped_here;                /* of this rank, in all */
    uint64_t skips_said, test_skips_said; /* how many were named, of --data and of --test_data */

    /* The next batch, taken while a device computes with this one (if `looked`). */
    bool looked;
    int ahead_got; /* what the source answered, and (-1) why */
    struct err ahead_err;
    struct net_batch ahead;
    uint64_t ahead_wait;         /* nanoseconds in which the device had nothing to do for it */
    char place[BATCH_TOKEN_LEN]; /* after the batch in hand */
};

static inline bool is_first(const struct run *r)
{
    return r->c->rank == 0;
}

/* A source of this rank's share of --data (`train`) or --test_data. */
struct batch_options run_source(struct run *r, const char *data, bool train);

/* take-up.c: r->longest_pass. */
int run_find_longest_pass(struct run *r, struct err *err);
/* Rank 0 reads the newest checkpoint; all get it from there. */
int run_take_up(struct run *r, struct err *err);
int run_plan_rates(struct run *r, struct err *err);
/* Samples are not those of the place in the pass: `err`, and what to do about it. Always -1. */
int run_lacks_place(struct run *r, struct err *err);

/* Runs what is left of pass r->at.pass. 0: it is over, and r->at is at the begin of the next one.
 * BATCH_STOPPED: it ended within it, for r->stopped or run_at_end(). */
int run_pass(struct run *r, struct err *err);
/* All of --max_steps are made. */
bool run_at_end(const struct run *r);
/* Was this rank asked to stop, or another? */
bool run_asked(const struct run *r);
/* Rank 0 writes; all wait for it. */
int run_save(struct run *r, struct err *err);
/* Rank 0 writes, if there is anything new; nobody waits. */
int run_save_alone(struct run *r, struct err *err);
/* Asynchronous trainers wait for each other at the end; then rank 0 saves what all have learned. */
int run_meet(struct run *r, struct err *err);
/* A net of the whole model, on the CPU, for all numbers that servers keep. */
int run_whole(struct run *r, struct backend **ret_backend, struct net **ret, struct err *err);
/* Until the devices have made a sum, or met. -1: a rank died, or what they say themselves. */
int run_wait_for_ranks(struct run *r, struct err *err);
/* What a step added up, of the backend. */
int run_read_sums(struct run *r, float ret[N_SUMS], struct err *err);
/* Nobody was asked to stop, and samples are not waited for (`got`): for an end that others have
 * found, which is the error. */
int run_lacks_others(struct run *r, int got, struct err *err);

/* show.c: after a step, its line and its points of the curves. */
void run_tell(struct run *r, const float sums[N_SUMS], uint64_t wait_ns, uint64_t step_ns);
/* Before the first step: a picture of it. */
void run_show_picture(struct run *r, const struct net_batch *in);
/* Before a step: times are taken in it, if it is the one for that; after it: they are written. */
void run_measure(struct run *r);
void run_show_costs(struct run *r);
/* At the end of a pass: histograms. */
void run_show_weights(struct run *r);

/* judge.c: what --test_data says of the weights (of their average with --ema). */
int run_test(struct run *r, struct err *err);

/* agree.c: all ranks were given what decides what they learn, and when they wait for each other,
 * alike; and have the model of rank 0, and its samples. Who was not, or has not, says so, with both
 * values; the others name it. */
int run_agree(struct run *r, struct err *err);
int check_ranks(struct run *r, struct err *err);

/* check.c: labels of --test_data mean what those of --data do; ids of a batch are rows of the
 * model. */
int check_test(const struct run *r, struct err *err);
int check_ids(const struct run *r, const struct net_batch *in, struct err *err);
/* In the log: ranks that read all samples each; folders without samples, and samples of a source
 * that were left out since the last call; `said`: how many of its were named so far. */
void tell_undealt(struct run *r);
void tell_empty_classes(const struct run *r);
void tell_skips(struct run *r, struct batches *of, uint64_t *said);

#endif
