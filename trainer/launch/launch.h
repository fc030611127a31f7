/*
 * Launching a training as one batch/v1 Job whose pods are all alike: each finds the others by the
 * API server, numbers itself by their addresses, and runs a parameter server and a trainer.
 *
 * What the job's environment says (JOB_NAME, JOB_PATH, JOB_NAMESPACE, TRAIN_CONFIG_DIR,
 * CONF_PADDLE_NIC, CONF_PADDLE_PORT, CONF_PADDLE_PORTS_NUM, CONF_PADDLE_PORTS_NUM_SPARSE,
 * CONF_PADDLE_GRADIENT_NUM) becomes options of both; words that are none of launch's own are passed
 * on to the trainer. On the shared folder:
 *
 *   JOB_PATH/JOB_NAME/TRAIN_CONFIG_DIR/   copied into the working folder
 *   JOB_PATH/JOB_NAME/data/ID/            copied into its data/ (where there is one)
 *   JOB_PATH/JOB_NAME/output/             checkpoints; node_ID/{server,train}.log
 *
 * No shell and no ssh: programs are started as they are, pods are asked of the API server alone.
 */
#ifndef SAMPAN_LAUNCH_H
#define SAMPAN_LAUNCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "json.h"
#include "log.h"
#include "program.h"

#define LAUNCH_NODES 1024

struct launch_conf {
    /* the job's environment */
    const char *job, *path, *namespace_, *config_dir, *nic;
    int64_t port, ports_num, ports_num_for_sparse, nodes;
    /* launch's own options */
    const char *kubeconfig, *address, *work;
    uint64_t poll_ns, wait_ns, reach_ns;
    /* the rest of the command line: the trainer's */
    char *const *rest;
    size_t n_rest;
    const char *program; /* sampan-train */
};

extern const struct program_about launch_about, split_about;

/* Reads options and environment. `argv` begins with "launch". The texts are those of both. */
int launch_read(struct launch_conf *ret, int argc, char **argv,
                const char *(*get)(const char *name), struct err *err);
void launch_release(struct launch_conf *c);
/* The exit code of this pod's trainer, or -1. A signal in `stop` goes on to the trainer. */
int launch_run(const struct launch_conf *c, struct log *log, const atomic_int *stop,
               struct err *err);

/* --- parts, for tests ------------------------------------------------------------------------- */

/* Addresses of pods that run, sorted as strings. How many in all; more than LAUNCH_NODES: -1. */
struct launch_nodes {
    char ip[LAUNCH_NODES][64];
    int64_t n;
};
int launch_nodes(struct launch_nodes *ret, const struct json *pods, struct err *err);
/* The number of an address among them, or -1. */
int64_t launch_number(const struct launch_nodes *n, const char *ip);
/* The command lines, ended by NULL; each word and the list are the caller's. */
char **launch_server_words(const struct launch_conf *c, const char *ip);
char **launch_trainer_words(const struct launch_conf *c, const struct launch_nodes *n, int64_t id);
void launch_words_free(char **words);

/* All pairs: this node reaches all others and was reached by all. The error names the pair. */
int launch_reach(const struct launch_conf *c, const struct launch_nodes *n, int64_t id,
                 const atomic_int *stop, struct err *err);
/* All files below `from`, which must be there, to below `to`. How many, or -1. */
int64_t launch_copy(const char *from, const char *to, const atomic_int *stop, struct err *err);
/* Starts both and waits for the trainer. */
int launch_children(const struct launch_conf *c, const struct launch_nodes *n, int64_t id,
                    bool own_data, const atomic_int *stop, struct log *log, struct err *err);

/*
 * `split --parts N SRC JOB`: deals a set out for N trainers, JOB/data/0 … JOB/data/N-1. Ratings:
 * each gets users and movies, and every N-th rating (ratings.list). Pictures: each gets every N-th
 * of a class, and all classes. Parts that are there already are an error; an error leaves none half
 * dealt.
 */
int split_run(int argc, char **argv, struct err *err);
int64_t split_set(const char *src, const char *job, int64_t parts, struct err *err);

#endif
