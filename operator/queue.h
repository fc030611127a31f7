/*
 * The keys that wait for their controller. A key is in the queue once, however often it was added;
 * it is given to one worker at a time; what is added while a worker has it comes again afterwards.
 */
#ifndef SAMPAN_OPERATOR_QUEUE_H
#define SAMPAN_OPERATOR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;

/* A key that failed waits `base` nanoseconds, then twice as long each time, at most `cap`. */
struct queue *queue_new(uint64_t base_ns, uint64_t cap_ns);
void queue_free(struct queue *q); /* nobody may be in queue_take() */

void queue_add(struct queue *q, const char *key);
/* Not before `delay_ns` from now; sooner if it waits for an earlier time already. */
void queue_add_after(struct queue *q, const char *key, uint64_t delay_ns);

/* Waits for a key that is due: a copy, the caller's. NULL: the queue ends. */
char *queue_take(struct queue *q);
/* The key's work ended; after it failed it comes again by itself, later each time. */
void queue_done(struct queue *q, const char *key, bool failed);

/* A new queue is paused. One that pauses forgets its keys, and takes none until it goes on: whoever
 * lets it go on adds all that there is to do. */
void queue_pause(struct queue *q, bool pause);
void queue_end(struct queue *q);

struct queue_numbers {
    size_t waiting, failing; /* known keys that wait; those whose last work failed */
    uint64_t taken, retried;
};
void queue_numbers(struct queue *q, struct queue_numbers *ret);

#endif
