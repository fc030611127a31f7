/*
 * A decision about a SampleSet, in parts. Each part looks at the plan, fills in what it finds out,
 * adds actions and conditions; sampleset.c has their order.
 */
#ifndef SAMPAN_OPERATOR_SAMPLESET_INTERNAL_H
#define SAMPAN_OPERATOR_SAMPLESET_INTERNAL_H

#include "parts.h"
#include "sampleset.h"

/* The set's finalizer is upstream's: "paddlepaddle.org/sampleset-NAME", cut where it is too long.
 */
#define FINALIZER_PREFIX "paddlepaddle.org/"

/* A store that samples are read from or copied to. */
struct set_store {
    const char *uri, *endpoint, *region; /* borrowed from the spec, or from `made` */
    char *made;
    char *secret_ns, *secret; /* whose keys are used; NULL: none are */
    const struct json *secret_object;
    bool anonymous; /* no keys are to be looked for */
};

/* What the servers say, summed up. */
struct set_numbers {
    bool known;           /* one has said how large the set is */
    int64_t total, files; /* of the set */
    int64_t cached;
    int64_t size, used, avail; /* of the caches' room */
    int64_t smallest;          /* room of one node's cache: the least */
    int64_t reads, local;      /* since the mounts began */
    size_t asked, answered;
    char *error; /* of the first that did not answer */
};

struct set_row {            /* one partition */
    const struct json *pod; /* NULL: there is none */
    const char *node;       /* NULL: not placed */
    bool ready;
    const struct view_answer *answer; /* of its server; NULL: not asked */
    struct json mounts, mount;        /* in it; .node NULL: none */
};

enum set_sync {
    SYNC_WAITS, /* nobody can be asked */
    SYNC_RUNS,
    SYNC_FAILED,
    SYNC_DONE,
};

struct set_plan {
    struct view *v;
    const struct operator_config *config;
    struct actions *out;
    /* Behind the status: what is refused does not keep the user from seeing how the set stands. */
    struct actions children;
    struct actions late; /* requests to servers, which must hold up nothing else */
    const struct json *object;
    struct json status;
    const char *ns, *name, *uid, *phase; /* `phase` is the old one, "" at first */
    char *runtime, *service;
    char *finalizer;
    struct sampleset_spec *spec;
    struct part_conditions conditions;
    unsigned again; /* seconds; 0: not by the clock */

    struct set_store store; /* what is mounted */
    struct set_store from;  /* with spec.sync: what is copied */
    bool store_ok;
    bool bound;
    int64_t partitions;      /* as many as there should be now */
    int64_t replicas, ready; /* servers that the StatefulSet wants; that are ready */
    struct set_row *rows;    /* one for each server that is there or should be */
    size_t n_rows;
    int64_t labelled; /* partitions whose node has the label */
    char *scaled;     /* when and at which figures the autoscaler last changed anything */
    struct set_numbers numbers;
    char *sampler; /* the order of reading, as far as it is known; NULL: it is not */
    enum set_sync sync;
    char *sync_job, *refreshed_at;
    char **used_by;           /* "NS/NAME", sorted */
    size_t n_used_by, n_jobs; /* those that are PaddleJobs come first */
    bool job_runs, work_runs; /* a PaddleJob reads; a SampleJob is under way */
    const char *new_phase;
};

/* To the next look at a set at rest: any pod may read it, which is told to nobody. */
#define SET_REST_S 302

static inline void plan_again(struct set_plan *p, unsigned seconds)
{
    if (!p->again || seconds < p->again)
        p->again = seconds;
}

/* --- sampleset-source.c: where the samples are ------------------------------------------------ */

/* Fills store, from, store_ok; conditions SourceValid and SecretUsable. */
void set_source(struct set_plan *p);
/* A folder of the node: root of the node reads it, and writes it where a sync leads there. The
 * administrator may say which. */
bool set_may_name(const struct set_plan *p, const char *uri);

/* --- sampleset-store.c: stores, and whose keys are used there --------------------------------- */

/* Which of a Secret's keys are for this store, whose URI is known; condition SecretUsable. `ref`:
 * NULL, none is named. False: it cannot be used as it is. */
bool set_take_keys(struct set_plan *p, struct set_store *s, const struct api_ref *ref);
void set_store_release(struct set_store *s);
/* What is wrong with a URI of a store, and what to do; NULL: nothing. The caller frees. */
char *store_uri_check(const char *uri);
/* Do `storage` and `bucket` of a secret (NULL: absent) mean another store than this? */
bool store_is_other(const struct set_store *s, const char *storage, const char *bucket);
bool store_secret_is_other(const struct set_store *s, const struct json *secret);
/* Has a Secret both keys of a store? */
bool store_has_keys(const struct json *secret);
/* They as what a server is told, {"accessKeyId","secretAccessKey"}; nothing where `secret` is NULL
 * or lacks one. */
void store_write_keys(struct json_writer *w, const char *name, const struct json *secret);

/* --- sampleset-volumes.c ---------------------------------------------------------------------- */

/* Claims and volumes: of the set's namespace, and of those whose jobs use it. Fills `bound`. */
void set_volumes(struct set_plan *p);

/* --- sampleset-servers.c ---------------------------------------------------------------------- */

/* The rows of the pods that there are, and what their servers say. */
void set_rows(struct set_plan *p);
/* Sets something for the mount of row k, once the status is written. */
void set_tell(struct set_plan *p, size_t k, const char *key, const char *value);
/* Token, service and StatefulSet as they should be. */
void set_servers(struct set_plan *p);

/* --- sampleset-nodes.c ------------------------------------------------------------------------ */

/* The labels of nodes, and whether there are nodes enough. */
void set_nodes(struct set_plan *p);
/* Takes all labels off; true: there were some. */
bool set_nodes_clear(struct set_plan *p);

/* --- sampleset-numbers.c ---------------------------------------------------------------------- */

/* Asks the servers of all rows. */
void set_ask_servers(struct set_plan *p);
/* How many partitions there should be: as the spec says, or by itself. Fills `scaled`. */
int64_t set_partitions(struct set_plan *p);
void set_write_numbers(const struct set_plan *p, struct json_writer *w);

/* --- sampleset-sync.c ------------------------------------------------------------------------- */

/* Listing or copying, and doing it again by the clock. Fills sync, sync_job, refreshed_at. */
void set_sync(struct set_plan *p);

/* --- sampleset-order.c ------------------------------------------------------------------------ */

/* Which order the set is read in; tells it to the mounts that do not know. Fills sampler. */
void set_order(struct set_plan *p);
/* Does a mount know an order, whoever told it? */
bool set_order_shown(const struct set_plan *p);

/* --- sampleset-version.c ---------------------------------------------------------------------- */

/* Which version is served; tells it to the mounts that serve another. */
void set_version(struct set_plan *p);

/* --- sampleset-use.c -------------------------------------------------------------------------- */

void set_find_users(struct set_plan *p);
/* Namespaces other than the set's own whose unfinished jobs use it: with `add` for each, once. */
void set_each_consumer(struct set_plan *p, void (*add)(void *arg, const char *ns), void *arg);

/* --- sampleset-delete.c ----------------------------------------------------------------------- */

/* One step of the set's end; the finalizer goes last. */
void set_delete(struct set_plan *p);

/* --- sampleset-status.c ----------------------------------------------------------------------- */

void set_write_status(struct set_plan *p);

#endif
