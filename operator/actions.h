/*
 * What a controller wants done: the result of a decide().
 *
 * Actions are carried out in order (apply.c). The first that fails ends the round (but see
 * `alone`): the object is decided about again, later, from what is then there. So each action must
 * be right on its own and harmless to repeat: a create finds its object (success if it has our
 * owner or our mark), a delete finds nothing (success), a patch says what it was decided on.
 */
#ifndef SAMPAN_OPERATOR_ACTIONS_H
#define SAMPAN_OPERATOR_ACTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "kinds.h"

enum action_type {
    ACTION_CREATE, /* `body` is the object, whole */
    ACTION_PATCH,  /* `body` is a JSON merge patch; decided on resource version `version` if set */
    ACTION_STATUS, /* the same, of the status subresource */
    ACTION_DELETE, /* only while its uid is `uid`, if set; children go with it in the background */
    ACTION_EVENT,  /* of the object decided about */
    ACTION_SEND,   /* a request to a runtime server, or to etcd */
    ACTION_AGAIN,  /* decide again after `after_s`, if nothing has changed before */
};

struct action {
    enum action_type type;
    enum kind kind;
    char *ns, *name;        /* ns NULL: the kind has none */
    char *version, *uid;    /* NULL: whatever is there */
    struct bytes body;      /* JSON */
    char *reason, *message; /* EVENT */
    bool warning;           /* EVENT: Warning, else Normal */
    char *method, *url;     /* SEND; of several, a space between, the first that takes it */
    char *header;           /* SEND: "filename: x", or NULL */
    unsigned after_s;       /* AGAIN */
    bool alone; /* those behind it do not need it: they are carried out if it is refused */
};

struct actions {
    struct action *items;
    size_t n, room;
};

/* Each appends one action and returns it; strings are copied, `body` is empty for the caller to
 * fill. The pointer is good until the next action is appended. Out of memory ends the program, as
 * everywhere. */
struct action *act_create(struct actions *a, enum kind kind, const char *ns, const char *name);
struct action *act_patch(struct actions *a, enum kind kind, const char *ns, const char *name,
                         const char *version);
struct action *act_status(struct actions *a, enum kind kind, const char *ns, const char *name,
                          const char *version);
struct action *act_delete(struct actions *a, enum kind kind, const char *ns, const char *name,
                          const char *uid);
__attribute__((format(printf, 4, 5))) void act_event(struct actions *a, bool warning,
                                                     const char *reason, const char *fmt, ...);
struct action *act_send(struct actions *a, const char *method, const char *url);
void act_again(struct actions *a, unsigned after_s);
/* All of them go behind those there; `from` is empty then. */
void actions_move(struct actions *to, struct actions *from);
void actions_release(struct actions *a);

#endif
