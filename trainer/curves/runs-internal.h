/*
 * Inside of runs:
 *
 *   runs.c     which runs and files there are, and what was read of them
 *   answers.c  what is said of them
 *   model.c    the graph in an ONNX file
 */
#ifndef SAMPAN_CURVES_RUNS_INTERNAL_H
#define SAMPAN_CURVES_RUNS_INTERNAL_H

#include "json.h"
#include "records.h"
#include "runs.h"
#include "sync.h"

struct point {
    int64_t step;
    double time;
    union {
        double scalar;
        struct { /* the value's record, and which of its values it is */
            uint64_t at;
            uint32_t file, nth;
        } place;
    };
};

struct series {
    enum value_kind kind;
    char *tag;
    struct point *points; /* each stride-th that came, so at most POINTS_KEPT */
    size_t n, stride, came;
    struct point newest;
};

struct event_file {
    char *name; /* in the run's folder */
    enum event_format format;
    uint64_t at, inode;
    uint64_t last;     /* the record that ends at `at`, if any was read: where it begins, ... */
    uint32_t last_sum; /* ... and its CRC-32C */
    bool damaged;      /* the record at `at`: not read on */
    bool there;        /* while folders are looked through */
};

struct run {
    char *name;
    struct event_file *files;
    size_t n_files;
    struct series *series; /* one of kind VALUE_GRAPH is the graph */
    size_t n_series;
    char *model;   /* the newest by name, in the run's folder; or NULL */
    bool there;    /* while folders are looked through */
    bool replaced; /* a value was not where it had been read: all is read anew */
    bool anew;     /* by the newest look: places that were told before are of what was there */
    bool busy;     /* one reads it on and lets the lock go meanwhile: it stays, as do its files */
};

struct runs {
    char *dir;
    struct lock lock; /* guards all below */
    struct cond idle; /* a run is not busy any more */
    struct run **run; /* by name */
    size_t n;
};

/* Both with the lock held, which they let go while they read: what was found before may be gone. */

/* Finds what is new of all but those that somebody reads already. */
int runs_refresh(struct runs *r, struct err *err);
/* This one, with all that is new of it. ERR_NOT_FOUND: there is none. */
struct run *runs_find(struct runs *r, const char *name, struct err *err);
const struct series *run_series(const struct run *r, enum value_kind kind, const char *tag,
                                size_t tag_len);
/* Opens a file of the run: a plain file, or an error. */
int run_open(const struct runs *r, const struct run *run, const char *name, FILE **ret,
             struct err *err);

/* Adds to an object what runs_graph() says: "nodes" of a GraphDef, of an ONNX file; "costs" of
 * RunMetadata. */
int graph_answer(const char *data, size_t len, struct json_writer *w, struct err *err);
int model_answer(FILE *f, struct json_writer *w, struct err *err);
int costs_answer(const struct event_value *v, struct json_writer *w, struct err *err);

#endif
