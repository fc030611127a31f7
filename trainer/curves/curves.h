/*
 * `sampan-train ui`: how training goes, as a page: what stands in the train.jsonl of a folder that
 * --log_dir names, and in files of events there and below, whoever wrote them, while they are
 * written or later. It only reads, so it may run beside the training, or elsewhere over a shared
 * folder.
 *
 *   GET /                the page, and its parts
 *   GET /points?from=N&file=F
 *                        the whole lines of train.jsonl from byte N on, at most POINTS_MAX bytes;
 *                        X-Next, X-File: the N and F to go on with. A file that is shorter than N,
 *                        or is not F, is another one, and is given from its begin (X-From: the byte
 *                        that was begun with)
 *   GET /runs            which runs there are, and their tags
 *   GET /scalars?run=R
 *   GET /histograms?run=R&tag=T
 *   GET /images?run=R&tag=T
 *   GET /image?run=R&tag=T&place=P
 *   GET /graph?run=R     what stands in one (runs.h says how each is answered)
 *   GET /healthz
 *
 * There is no authentication: it listens on this machine alone if nothing else is said.
 */
#ifndef SAMPAN_CURVES_H
#define SAMPAN_CURVES_H

#include <signal.h>
#include <stdint.h>

#include "program.h"

#define POINTS_MAX (1u << 20)

struct curves_options {
    const char *log_dir, *listen;
    uint64_t request_timeout;
    struct program_log log;
};
extern const struct program_about curves_about;

/* Serves until one of `ends` comes. */
int curves_run(const struct curves_options *o, const sigset_t *ends, struct err *err);

#endif
