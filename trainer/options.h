/*
 * The trainer's options: those of Paddle's first trainer under their names (--num_passes …), and
 * ours. A file (--config) holds `name = value` lines, as Python writes them, with '#' comments.
 */
#ifndef SAMPAN_TRAIN_OPTIONS_H
#define SAMPAN_TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "conf.h"

struct options {
    /* what */
    const char *model, *data, *test_data, *sampler;
    int64_t image, hidden, batch_size, num_passes, max_steps, seed;
    bool skip_bad, accept_classes, json;
    /* how it learns */
    const char *optimizer, *schedule, *learning_rate, *momentum, *weight_decay, *label_smoothing,
        *ema, *rate_factor;
    int64_t warmup_passes, rate_passes;
    double rate, momentum_number, decay, smoothing, ema_keep, factor; /* the texts above, read */
    /* where it runs */
    const char *device, *precision, *rendezvous;
    int64_t trainer_count, use_gpu, local, trainer_id, num_gradient_servers, loader_threads;
    uint64_t rendezvous_timeout, collective_timeout;
    /* what it leaves */
    const char *save_dir, *resume, *log_dir, *log_level, *log_format, *progress;
    int64_t saving_period, saving_period_by_batches, keep, log_period, dot_period, test_period,
        histogram_period;
    /* parameter servers (roles.h) */
    const char *pservers, *nics, *comment, *job_name, *ps_hosts, *worker_hosts, *address,
        *ps_token_file;
    int64_t port, ports_num, ports_num_for_sparse, task_index;
    bool own_data, async;
};

extern const struct conf_row options_rows[];
extern const size_t options_n_rows;

/* Reads and checks; `*ret_conf` owns the texts. --help: true in *help, and the text is printed. */
int options_read(struct options *ret, struct conf **ret_conf, int argc, char **argv,
                 struct err *err);

#endif
