/* What the files of a cluster's job share: fanout.c runs it, fanout-sum.c has its words: what a
 * child is told, and what all their results are together. */
#ifndef SAMPAN_SERVER_FANOUT_INTERNAL_H
#define SAMPAN_SERVER_FANOUT_INTERNAL_H

#include "server-internal.h"

struct child {
    unsigned partition; /* and its server's number */
    enum job_state state;
    bool asked, ended;
    uint64_t lost_ns; /* since when its server does not answer; 0: it does */
    uint64_t due_ns;
    struct job_progress progress;
    char *error;
    char *result;                      /* of one that ended; NULL: none */
    uint64_t told_ns;                  /* when its row was written; 0: it is to be */
    struct job_progress told_progress; /* with it */
};

struct fanout {
    struct job_run *run;
    struct server *server;
    const char *type;
    const struct json *options;
    struct child *children;
    unsigned n;
    uint64_t lost_after_ns;
    bool owed; /* some server has not heard what became of the job */
};

/* Work that one server does, and cannot be shared. */
bool fanout_is_single(const char *type, const struct json *options);
/* The child's job as it is submitted; holds secrets, wipe it. */
void fanout_body(const struct fanout *f, unsigned partition, const char *id, struct bytes *ret);
/* The sum of what they have done; totals that some have not told yet are taken to be like the
 * others'. */
struct job_progress fanout_progress(const struct child *children, unsigned n);
/* Numbers summed, truths all true, lists one behind the other; -1: they do not go together. */
int fanout_sum(const struct fanout *f, struct bytes *ret, struct err *err);

#endif
