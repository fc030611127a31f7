/*
 * A parameter server: keeps tables for one job's trainers until all of them have ended.
 *
 * One process serves on several ports, each with tables of its own, as Paddle's did; one thread
 * does all of it.
 */
#ifndef SAMPAN_TRAIN_PSERVER_H
#define SAMPAN_TRAIN_PSERVER_H

#include <stdatomic.h>

#include "err.h"
#include "log.h"

struct pserver_conf {
    const char *address; /* its own; NULL: all of this machine's */
    const char *const *ports;
    size_t n_ports;
    const char *job;             /* trainers of another are refused */
    const struct secret *secret; /* as are those that do not know it; text NULL: there is none */
    uint32_t ranks;              /* trainers */
    int threads;
    uint64_t timeout_ns; /* for all trainers to come */
    struct log *log;
    const atomic_int *stop;
};

/* 0: all trainers have said good bye. 1: `stop` became true. -1: a trainer died, or none came. */
int pserver_run(const struct pserver_conf *conf, struct err *err);

#endif
