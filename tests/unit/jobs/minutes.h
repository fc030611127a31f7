/* A job "t" of each minute, whose next run takes the place of the one before; the test moves the
 * clock. */
#ifndef SAMPAN_TEST_JOBS_MINUTES_H
#define SAMPAN_TEST_JOBS_MINUTES_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "drop-folder.h"
#include "kick.h"

#define MINUTE_0 1700000040ll

struct minutes {
    char dir[32];
    struct jobs_conf conf;
    struct jobs *jobs;
    _Atomic int64_t now;
};

static inline int64_t minutes_clock(void *minutes)
{
    return atomic_load(&((struct minutes *)minutes)->now);
}

static inline void minutes_open(struct minutes *m)
{
    struct err err = {0};
    cr_assert(jobs_open(&m->jobs, &m->conf, &err) == 0, "%s", err.msg);
}

/* `kind` is "k". */
static inline void minutes_begin(struct minutes *m, const struct job_kind *kind)
{
    static const char text[] = "{\"id\":\"t\",\"type\":\"k\",\"schedule\":\"* * * * *\","
                               "\"concurrencyPolicy\":\"Replace\"}";
    struct err err = {0};
    bool is_new;
    cleanup_json struct json_doc *doc = NULL;
    *m = (struct minutes){.dir = "/tmp/jobs-minutes-XXXXXX", .now = MINUTE_0};
    cr_assert(mkdtemp(m->dir));
    m->conf = (struct jobs_conf){
        .dir = m->dir, .kinds = kind, .n_kinds = 1, .wall_s = minutes_clock, .wall_arg = m};
    minutes_open(m);
    cr_assert(json_parse(&doc, "job", text, sizeof text - 1, &err) == 0);
    struct json root = json_root(doc);
    cr_assert(jobs_submit(m->jobs, &root, NULL, &is_new, &err) == 0, "%s", err.msg);
}

static inline void minutes_end(struct minutes *m)
{
    jobs_close(m->jobs);
    jobs_drop_folder(m->dir);
}

static inline char *minutes_id(int minute)
{
    return xasprintf("t-%lld", MINUTE_0 + 60ll * minute);
}

/* The clock says so; waits until that minute's run is in that state. */
static inline void minutes_until(struct minutes *m, int clock, int minute, enum job_state want)
{
    cleanup_free char *id = minutes_id(minute);
    cleanup_bytes struct bytes error = {0};
    enum job_state state;
    atomic_store(&m->now, MINUTE_0 + 60 * clock);
    jobs_kick(m->jobs);
    while (jobs_state(m->jobs, id, &state, &error, NULL) || state != want)
        usleep(200);
}

#endif
