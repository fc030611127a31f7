/*
 * Bytes straight from the packs of a mount's cache.
 *
 * A thread of its own asks the mount's owner where the samples lie (operation `share` of
 * docs/formats/control.md), 64 at a time, and keeps each pack mapped under one lease. Now and then,
 * and when an epoch begins, it asks for those that were not in a pack before, and whether the
 * leases still stand: a pack that was taken back is forgotten, once no thread reads it.
 *
 *   unknown --asked, in a pack--> known --lease gone, or a wrong sum--> unknown
 *
 * Bytes of a pack never change, and an id never names other bytes: what was read is true whatever
 * becomes of the lease.
 */
#ifndef SAMPAN_LOADER_DIRECT_INTERNAL_H
#define SAMPAN_LOADER_DIRECT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

struct direct;
struct file_list;
/* `dir` (open as dir_fd) is a mount of ours with a control socket for us, or an error that says why
 * not. `files` by number, and must outlive it. */
int direct_open(struct direct **ret, const char *dir, int dir_fd, const struct file_list *files,
                bool verify_always, struct err *err);
/* All hands must be back. */
void direct_close(struct direct *d); /* NULL is fine */
/* Waits until every sample has been asked for once. */
void direct_wait(struct direct *d);
/* An epoch begins: what is unknown is asked for again. */
void direct_epoch(struct direct *d);
/* Where every sample is known to lie in a pack nobody waits for what the mount does with its order:
 * the asking thread tells it the epoch (the last one, if epochs are shorter than that takes).
 * False: it does not; the caller tells the mount. */
bool direct_tell(struct direct *d, uint64_t epoch);

/* A thread that reads; what it reads stays mapped meanwhile. */
struct direct_hand;
struct direct_hand *direct_hand(struct direct *d);

/* Length of the sample, and holds its pack: until direct_drop(), or until another pack is held.
 * False: it is not known to lie in a pack. */
bool direct_find(struct direct *d, struct direct_hand *h, uint64_t number, size_t *ret_len);
/* Copies what was found. False: its pack cannot be read, or the bytes are not those that were
 * stored; the sample is unknown then. */
bool direct_copy(struct direct *d, struct direct_hand *h, void *to);
void direct_drop(struct direct_hand *h);
/* This sample is read next: if it lies in the pack that is held, its first pages come nearer. */
void direct_hint(struct direct *d, const struct direct_hand *h, uint64_t number);
/* Is the sample known to lie in a pack? (It may be forgotten at once.) */
bool direct_knows(const struct direct *d, uint64_t number);

/* Places that are known, packs that were taken back, why there is nothing ("": there is). */
void direct_figures(struct direct *d, uint64_t *ret_known, uint64_t *ret_revoked, char *ret_why,
                    size_t why_size);

#endif
