/*
 * What decisions about several kinds have in common: names, children, conditions, statuses, and
 * which SampleSet is meant by a reference.
 */
#ifndef SAMPAN_OPERATOR_PARTS_H
#define SAMPAN_OPERATOR_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "actions.h"
#include "buf.h"
#include "controller.h"
#include "json.h"
#include "view.h"

/* --- JSON at hand ----------------------------------------------------------------------------- */

/* Members of an object of the API server, which has checked their types; absent: NULL, 0. */
const char *part_text(const struct json *o, const char *key);
const char *part_phase(const struct json *o); /* that of its status; "" if there is none */
int64_t part_int(const struct json *o, const char *key);
bool part_flag(const struct json *o, const char *key);
/* "YYYY-MM-DDTHH:MM:SSZ", and back; -1: none. */
#define PART_TIME_BYTES 32
void part_time_text(int64_t unix_s, char ret[PART_TIME_BYTES]);
int64_t part_time(const char *text);
/* The object was made just now: watches of two kinds are not in step, and what was applied together
 * with it may not have been seen yet. */
bool part_is_new(struct view *v);
/* Does the object's status have this condition, of this status? */
bool part_has_condition(const struct json *o, const char *type, const char *status);
/* The set is being deleted, and no job that uses it holds that up: it is not to be used any more.
 */
#define PART_DELETION "Deletion"
bool part_set_goes(const struct json *set);

/* --- names ------------------------------------------------------------------------------------ */

#define PART_NAME_MAX 63 /* of a label's value, a Service, a host name */

/* The text itself, or as much of its head as fits before "-" and 8 digits of its hash, so that
 * different texts stay different. Never ends its head in '-' or '.'. The caller frees. */
char *part_name(size_t max, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Of a set: the label of nodes, "sampan.io/NS.SET", and its value for partition `k`, which is the
 * name of that partition's pod. */
char *part_node_label(const char *ns, const char *set);
char *part_node_value(const char *set, int64_t k);
/* Upstream's key of nodes; NULL: the name is too long for it. */
char *part_old_node_label(const char *set);
/* "SET-runtime": the StatefulSet of its servers; room for what follows a StatefulSet's name is
 * left. */
char *part_runtime_name(const char *set);
/* "SET-runtime-service": the headless service of its servers. */
char *part_service_name(const char *set);
/* The claim by which pods of a namespace get a set: the name of the set in its own namespace,
 * another one elsewhere, so that it hides no set of that namespace. */
char *part_claim_name(const char *set_ns, const char *set, const char *in_ns);

/* --- references to sets ----------------------------------------------------------------------- */

/* On an object that concerns a set by more than its spec says: "NS/NAME" of that set. All children
 * of a set have it; a job whose set was found in another namespace gets it, and wakes the set. */
#define PART_SET_ANNOTATION "sampan.io/set"

/* The set that an object in `in_ns` means: in `ns` if given; else that of its own namespace, else
 * the only one of that name which is shared to it. NULL: there is none (or the view is incomplete);
 * then *why says what to do (the caller frees; may be NULL). */
const struct json *part_find_set(struct view *v, const char *in_ns, const char *ns,
                                 const char *name, char **why);

/* --- children --------------------------------------------------------------------------------- */

struct part_pair {
    const char *key, *value; /* value NULL: left out */
};

/* An object that `owner` wants. `members` is an object of all but apiVersion, kind and metadata:
 * {"spec":{…}}. What it was made of is kept beside it as a sum: so it is patched when that changes,
 * and never because the API server writes something in another way. */
struct part_child {
    enum kind kind;
    const char *ns, *name;
    const struct part_pair *labels, *annotations; /* beside the usual ones */
    size_t n_labels, n_annotations;
    bool orphan; /* no owner reference: it lives in another namespace, or in none */
    bool fixed;  /* never patched: all that matters in it cannot be changed */
    bool alone;  /* that it is refused keeps nothing else from being made */
    struct bytes members;
};
enum part_child_state {
    PART_CREATED, /* it will be there, or be what it should be, after these actions */
    PART_THERE,   /* it is, already */
    PART_GOING,   /* it is being deleted: once it has gone it can be made */
    PART_FOREIGN, /* the name is somebody else's */
    PART_BAD,     /* what a user gave for it nests too deep to be written */
};
/* Adds the action that is missing, if any. Releases `members`. */
enum part_child_state part_want(struct view *v, struct actions *out, struct part_child *child);
/* All children have the label PART_OWNER_LABEL=uid of their owner. */
#define PART_OWNER_LABEL "sampan.io/owner"
bool part_is_child(const struct json *object, const struct json *owner);

/* Finalizers of the object that is decided about. */
bool part_has_finalizer(const struct json *o, const char *name);
void part_add_finalizer(struct view *v, enum kind kind, const char *name, struct actions *out);
void part_drop_finalizer(struct view *v, enum kind kind, const char *name, struct actions *out);

/* Kubernetes has taken the PersistentVolume (NULL: there is none) up. A claim that it sees before
 * its volume waits for the next of its rounds, which are 15 seconds apart; one that comes after is
 * bound at once. */
bool part_volume_known(const struct json *pv);

/* --- conditions ------------------------------------------------------------------------------- */

/* All conditions of one decision. Those of the old status that are not set again are dropped. */
struct part_condition {
    const char *type; /* a constant */
    const char *status;
    char *reason, *message;
    bool old; /* as it was: the same time goes on */
    char since[PART_TIME_BYTES];
};
#define PART_CONDITIONS_MAX 16
struct part_conditions {
    struct json old; /* the array of the status as it is */
    struct json status;
    int64_t now, generation;
    struct part_condition items[PART_CONDITIONS_MAX];
    size_t n;
    struct actions *out; /* for events */
};
/* In place: `ret` must not be moved. */
void part_conditions_begin(struct part_conditions *ret, struct view *v, struct actions *out);
/* `status`: "True", "False", "Unknown". The last call for a type holds. Returns whether status or
 * reason are others than before. */
bool part_condition(struct part_conditions *c, const char *type, const char *status,
                    const char *reason, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* "False", and a Warning event when reason or message are new. So the message holds nothing that
 * changes by itself. */
void part_condition_warn(struct part_conditions *c, const char *type, const char *reason,
                         const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* As it is in the status, if it is there. */
void part_condition_keep(struct part_conditions *c, const char *type);
/* What the status says now: NULL if the condition is not there. */
const char *part_condition_was(const struct part_conditions *c, const char *type);
const char *part_condition_reason_was(const struct part_conditions *c, const char *type);
/* Since when, in seconds, it has had this status; now, where it has another one or is not there. */
int64_t part_condition_since(const struct part_conditions *c, const char *type, const char *status);
/* Writes the member "conditions". */
void part_conditions_write(const struct part_conditions *c, struct json_writer *w);
void part_conditions_release(struct part_conditions *c);

/* The status that is wanted, whole: an action if it is not what is there. */
void part_status(struct view *v, enum kind kind, const struct bytes *status, struct actions *out);

/* --- runtime servers -------------------------------------------------------------------------- */

/* URL of a path ("/v1/status") at server `k` of a set; the caller frees. */
char *part_server_url(const char *ns, const char *set, int64_t k, const char *path);
/* The bearer token of a set's servers: a sum of the operator's key and the servers' service, so
 * that nobody who has one knows another. Whoever sends a request (ACTION_SEND, view_fetch) gets it
 * from the URL: NULL if that is none of part_server_url(). The caller wipes and frees. */
char *part_server_token(const char *token_key, const char *ns, const char *set);
char *part_url_token(const char *token_key, const char *url);

#endif
