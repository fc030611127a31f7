/*
 * What is owed to the store, who does it, and what was done. s->lock held for all.
 */
#ifndef SAMPAN_STAGE_OWED_INTERNAL_H
#define SAMPAN_STAGE_OWED_INTERNAL_H

#include "remote-internal.h"

bool node_owes(const struct node *n);
void owed_add(struct stage *s, struct node *n);     /* if it owes something */
bool owed_enqueue(struct stage *s, struct node *n); /* the same; true: somebody must be woken */
void owed_remove(struct stage *s, struct node *n);
void owed_wake(struct stage *s);     /* there is work for one worker more */
void owed_wake_all(struct stage *s); /* what nobody could do may be done now */
void dirty_add(struct stage *s, struct node *n);
void dirty_remove(struct stage *s, struct node *n);
/* The content as it is now is to be stored. */
int owed_publish(struct stage *s, struct node *n, struct err *err);
/* The same, in the row and the journal alone: the caller queues it (owed_enqueue()). */
int owed_wish(struct stage *s, struct node *n, struct err *err);
/* The same, by who could tell nobody that it failed: what the journal does not take now is wished
 * for in memory. */
void owed_insist(struct stage *s, struct node *n);
/* It is not, after all: whoever changes it now wishes so again when he is through. */
void owed_withdraw(struct stage *s, struct node *n);
/* Waits until the node's content of now is stored and it owes nothing else that it owed when
 * called, or the caller waits no longer. s->lock held, given up meanwhile. */
int owed_wait(struct stage *s, const struct stage_call *c, struct node *n, struct err *err);
/* What a call says that waits for what failed. -1 */
int owed_give_up(const struct err *why, struct err *err);
int doom_wait(struct stage *s, const struct stage_call *c, uint64_t ino, struct err *err);
/* A call that waits for the store looks so often whether its caller does, too. */
#define LOOK_NS (200 * NS_PER_MS)
static inline bool is_given_up(const struct stage_call *c)
{
    return c && c->given_up && c->given_up(c->arg);
}
int given_up(struct err *err); /* -1: EINTR */
void *worker_main(void *arg);
void *clock_main(void *arg);
void node_failed(struct stage *s, struct node *n, const struct err *err);
void store_answers(struct stage *s); /* it works again */
struct object_meta node_meta(const struct node *n);
/* The node's object is at `key` now; `left`: also where it was. Saves the row. */
int node_stored(struct stage *s, struct node *n, const char *key, const struct seen *seen,
                bool left, struct err *err);
void node_lose(struct stage *s, struct node *n); /* list.c: the store has it no more */
/* list.c: the store has another object in its place, and nothing (or torn bytes: N_HELD) is here
 * that was not stored. `meta` NULL: its attributes stay as they are, or are not known. The caller
 * saves the row. */
void node_replaced(struct stage *s, struct node *n, const struct seen *seen,
                   const struct object_meta *meta);
struct node *node_at(struct stage *s, const char *key);

/* carry.c: whoever waits for a small file carries it up himself, and nobody is woken for it. */
bool carry_is_light(const struct stage *s, const struct node *n);
/* The content as it is now goes to the store, on this thread; s->lock is given up meanwhile. 0: it
 * is there; -1: it can't be for now; CARRY_NOT: wait as for all else (owed_publish() and
 * owed_wait()). */
#define CARRY_NOT 1
int carry_up(struct stage *s, const struct stage_call *c, struct node *n, struct err *err);
/* A worker's work on one node, on any thread: done, well or not, when it returns. False: it is not
 * the node's turn. */
bool worker_do_now(struct stage *s, const struct stage_call *c, struct node *n);
bool work_is_paused(const struct stage *s);

/* Keys that a request is at work on. s->lock held. */
bool key_flies(const struct stage *s, const char *key);
void key_departs(struct stage *s, struct flight *f, const char *key);
void key_lands(struct stage *s, const struct flight *f);

/* How long until what failed so is tried again by itself. 0: with all others, when the pause of a
 * store in trouble ends (which begins here), or never. s->lock held. */
uint64_t pause_of(struct stage *s, const struct err *err, uint64_t now);
bool err_passes(const struct err *err); /* trouble of the store, not of this request */
void why_keep(struct err **to, const struct err *why);

/* dooms.c: s->lock held. */
struct doom *doom_find(struct stage *s, const char *key);
/* A copy of the n-th key that must go for this node; NULL: no more. */
char *doom_key_of(const struct stage *s, uint64_t ino, size_t nth);
/* The node whose object may lie at this key that must go, which so must not be written either until
 * the node's object is where it belongs; NULL: none. */
struct node *doom_holder(struct stage *s, const char *key);
/* For whom a key must go: `ino`, unless another node's object may lie there. That one came first.
 */
uint64_t doom_owner(struct stage *s, const char *key, uint64_t ino);
/* The journal has it already. */
void doom_add(struct stage *s, const char *key, const char *upload, uint64_t ino);
void doom_forget(struct stage *s, const char *key);
void doom_remove(struct stage *s, struct doom *d);
/* A worker's turn: false if none may go now. s->lock is given up meanwhile. */
bool dooms_run(struct stage *s);

#endif
