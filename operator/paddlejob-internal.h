/*
 * PaddleJob, from what is there to what is wanted.
 *
 * A decision goes one way through these files:
 *
 *   paddlejob.c           the controller: finalizer, end, deletion; calls the others in order
 *   paddlejob-observe.c   the job, its pods and what state they are in
 *   paddlejob-check.c     what a user may have got wrong
 *   paddlejob-samples.c   the set, its claim in the job's namespace, the node of a partition
 *   paddlejob-gates.c     what pods wait for before they are made: samples, group, ports,
 *   paddlejob-etcd.c      and an elastic job's place in etcd
 *   paddlejob-restart.c   which pods have to go: failed, moved, too many
 *   paddlejob-env.c       what pods are told of each other
 *   paddlejob-pods.c      services, ConfigMap, pods
 *   paddlejob-status.c    phase, counts, conditions
 *
 * What pods remember (annotations of a pod):
 *   sampan.io/attempt   status.restarts when it was made
 *   sampan.io/counted   on a failed pod: it is counted in status.restarts from this number on. So a
 *                       failure is counted once, whoever is killed between any two actions
 *   sampan.io/peers     ALL.CORE: sums of all addresses, and of those that a pod cannot train
 *                       without, as the ConfigMap had them when the pod was let go
 *   sampan.io/elastic-np  how many pods its elastic job had when it was made
 */
#ifndef SAMPAN_OPERATOR_PADDLEJOB_INTERNAL_H
#define SAMPAN_OPERATOR_PADDLEJOB_INTERNAL_H

#include "build-pod.h"
#include "controller.h"
#include "paddlejob.h"
#include "parts.h"

#define JOB_FINALIZER "finalizers.paddlepaddle.org"
#define INDEX_LABEL   "sampan.io/index"
#define NAME_LABEL    "paddle-res-name"
#define ROLE_LABEL    "paddle-res-type"
#define ROLE_NOTE     "paddle-resource"
#define ATTEMPT_NOTE  "sampan.io/attempt"
#define COUNTED_NOTE  "sampan.io/counted"
#define PEERS_NOTE    "sampan.io/peers"
#define PORT_NOTE     "host-port"            /* on the job: the first of its ports on nodes */
#define NP_NOTE       "sampan.io/elastic-np" /* on the job: what etcd was told last */
#define PEERS_KEY     "SAMPAN_PEERS"         /* in the ConfigMap */
#define POD_PORT      2379                   /* in a network of their own, all pods have the same */
#define POD_PORTS     20
#define PORT_LAUNCHER 17 /* from a role's first port on */
#define PORT_GLOO     18
#define PORT_TORCH    19

enum role { ROLE_PS, ROLE_WORKER, ROLE_HETER, ROLE_N };
enum mode { MODE_PS, MODE_COLLECTIVE, MODE_SINGLE };
enum intranet { NET_POD_IP, NET_SERVICE, NET_HOST };

enum pod_state {
    POD_MISSING, /* not there, or going: what it did counts no more */
    POD_PENDING,
    POD_STARTING,
    POD_RUNNING,
    POD_FAILED,
    POD_SUCCEEDED,
    POD_UNKNOWN, /* its node does not answer */
    POD_STATES,
};

struct job_pod {
    const struct json *object; /* NULL: it is not there */
    char *name;
    enum pod_state state;
    bool going;   /* it has a deletionTimestamp, or belongs to a former job of this name */
    bool removed; /* by this decision */
    bool waits;   /* at the barrier, or has not come to it */
    int64_t attempt, counted, np; /* as it remembers; 0: it does not */
    const char *ip, *peers;       /* NULL: not known yet */
};

struct job_role {
    const struct paddlejob_role *spec; /* NULL: the job has none */
    struct json_doc *doc;
    struct json template; /* lives as long as doc */
    struct job_pod *pods; /* by index */
    size_t n;
    size_t count[POD_STATES];
};

struct job {
    struct view *v;
    const struct operator_config *config;
    struct actions *out;     /* events and the status: before all else */
    struct actions children; /* what follows the status */
    const struct json *object;
    const char *ns, *name, *uid;
    struct paddlejob_spec *spec;
    struct json was; /* the status */
    enum mode mode;
    enum intranet net;
    struct job_role roles[ROLE_N];
    const struct json **extra; /* pods that the spec no longer has */
    size_t n_extra;
    int64_t restarts, restarts_was; /* as it becomes, and as the status has it */
    bool started;                   /* all pods have run before */

    const struct json *set; /* the samples; NULL: none, or not found */
    char *claim, *output_claim;
    bool grouped; /* pods belong to a PodGroup */
    int64_t port; /* the first of its ports on nodes; 0: none yet */

    char *all, *core; /* sums of addresses; NULL: some are not known */

    struct part_conditions conditions;
    const char *phase;
    char *message;       /* why it waits or failed; NULL: nothing to say */
    const char *elastic; /* NULL: it is not */
    const char *started_at, *ended_at;
    char now_text[PART_TIME_BYTES];
    unsigned again_s; /* 0: nothing but a change matters */
};

extern const char *const role_names[ROLE_N]; /* "ps" … */

/* observe */
int job_observe(struct job *j, struct err *err);
void job_release(struct job *j);
bool job_is_elastic(const struct job *j);
size_t job_pods(const struct job *j);                        /* wanted, of all roles */
size_t job_count(const struct job *j, enum pod_state state); /* of all roles */
enum role job_deciding_role(const struct job *j);            /* whose end is the job's */
bool job_is_complete(const struct job *j);
/* "worker-1 exited with 137 (OOMKilled) on node-3"; the caller frees. */
char *job_why_failed(const struct job *j, const struct job_pod *pod);

/* Writes an annotation of the job itself. */
void job_annotate(struct job *j, const char *key, const char *value);
/* Says why the job waits: the first that says something is heard. */
__attribute__((format(printf, 2, 3))) void job_says(struct job *j, const char *fmt, ...);
void job_again(struct job *j, int64_t after_s); /* the soonest holds */

/* check: false, and a condition that says what to do, where the spec cannot be carried out */
bool job_check(struct job *j);

/* samples: claims for samples and output. False: they are not there yet */
bool job_claims(struct job *j);
bool job_samples_ready(struct job *j);
/* Where worker `index` should run; label NULL: anywhere. The caller frees both texts. */
struct build_place job_place(struct job *j, enum role role, size_t index);
void job_drop_claims(struct job *j);

/* gates: false while pods must not be made yet */
bool job_gates(struct job *j);
int64_t job_port(const struct job *j, enum role role);
/* Later made, or made in the same second and later in the alphabet. */
bool job_is_later(const struct json *a, const struct json *b);
bool job_gate_etcd(struct job *j);
void job_drop_group(struct job *j);

/* restart */
enum job_verdict { VERDICT_GO_ON, VERDICT_WAIT, VERDICT_FAILED };
enum job_verdict job_failures(struct job *j);
void job_remove_obsolete(struct job *j);
void job_remove_pods(struct job *j, bool running_only);

/* env */
void job_env(const struct job *j, enum role role, size_t index, struct pairs *env);
void job_data(const struct job *j, struct pairs *data);
char *job_host(const struct job *j, const struct job_pod *pod); /* the caller frees */

/* pods */
/* Sets j->all and j->core. */
void job_sum_addresses(struct job *j);
/* Lets go who waits; `more`: makes those that are missing. */
void job_want_pods(struct job *j, bool more);

/* status */
void job_status(struct job *j);

#endif
