/* Orders of reading as text ("NAME,key=value,…"), and what a job adds to one: how many ranks there
 * are, and how many on a node. Pure. */
#ifndef SAMPAN_OPERATOR_SAMPLER_H
#define SAMPAN_OPERATOR_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#define SAMPLER_NOTE "sampan.io/sampler" /* on a set: what its last job showed */

/* The note of a job on its set: its own sampler, or no name at all, with the ranks that follow from
 * `workers` pods of `devices` (0: one rank a pod). The caller frees. */
char *sampler_note(const char *own, int64_t workers, int64_t devices);
/*
 * What a set is read by: `given` (NULL or "": what the note names), with those keys of the note
 * that it lacks, if the two do not disagree on the ranks. NULL: no name is known. The caller frees.
 */
char *sampler_complete(const char *given, const char *note);
/* Is that the order a mount has, as far as `want` says? (A job that runs knows more: its seed, the
 * epoch.) */
bool sampler_agrees(const char *have, const char *want);

#endif
