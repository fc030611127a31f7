/* Tests of checkpoints: a folder of them, and a small net. */
#ifndef SAMPAN_TESTS_UNIT_TRAIN_SAVED_H
#define SAMPAN_TESTS_UNIT_TRAIN_SAVED_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint.h"
#include "mem.h"
#include "model.h"

struct world {
    char dir[64];
    struct backend *b;
    struct net *n;
    FILE *log_file;
    char *text;
    size_t text_len;
    struct log *log;
};

static inline struct net *net_of(struct backend *b, const char *model, int hidden)
{
    struct err err = {0};
    struct model_shape s = {.h = 4, .w = 4, .c = 3, .classes = 3, .hidden = hidden};
    struct net *n = net_new(b, model);
    cr_assert_eq(model_build(n, model, &s, &err), 0, "%s", err.msg);
    cr_assert_eq(net_finish(n, 2, 1, &err), 0, "%s", err.msg);
    return n;
}

/* In place: the log's text is where the world is. */
static inline void setup(struct world *w)
{
    *w = (struct world){.dir = "/tmp/sampan-unit-XXXXXX"};
    cr_assert(mkdtemp(w->dir));
    cr_assert_eq(backend_cpu(&w->b, 1, NULL), 0);
    w->n = net_of(w->b, "mlp", 8);
    w->log_file = open_memstream(&w->text, &w->text_len);
    w->log = log_new(w->log_file, LOG_INFO, LOG_TEXT, NULL);
}

static inline void teardown(struct world *w)
{
    char command[128];
    log_free(w->log);
    fclose(w->log_file);
    free(w->text);
    net_free(w->n);
    backend_close(w->b);
    snprintf(command, sizeof command, "%s", w->dir);
    pid_t pid = fork();
    int status;
    if (pid == 0)
        _exit(execlp("rm", "rm", "-rf", command, (char *)NULL));
    waitpid(pid, &status, 0);
}

static inline void fill(struct net *n, float with)
{
    for (size_t i = 0; i < net_floats(n); i++) {
        net_weights(n)[i] = with + (float)i / 7;
        net_velocities(n)[i] = -with;
    }
}

static inline bool holds(struct net *n, float with)
{
    for (size_t i = 0; i < net_n_params(n); i++) {
        size_t at = net_param(n, i)->at, last = at + net_param(n, i)->n - 1;
        if (net_weights(n)[at] != with + (float)at / 7 ||
            net_weights(n)[last] != with + (float)last / 7 || net_velocities(n)[last] != -with)
            return false;
    }
    return true;
}

static inline void save(struct world *w, uint64_t pass, uint64_t batch, float with)
{
    struct err err = {0};
    struct checkpoint c = {.pass = pass,
                           .batch = batch,
                           .step = 10 * pass + batch,
                           .seed = 5,
                           .loss = 0.1,
                           .learned = {8 * batch, (double)batch / 3, 2},
                           .skipped = 1,
                           .period = {16, (double)batch / 7, 1},
                           .period_batches = 2};
    snprintf(c.token, sizeof c.token, "%s", batch ? "a token" : "");
    fill(w->n, with);
    cr_assert_eq(checkpoint_save(w->dir, w->n, &c, NULL, 0, NULL, 0, &err), 0, "%s", err.msg);
}

#endif
