/*
 * The numbers that a parameter server keeps: tables of rows, and what a step does to them. No
 * network here; trainers are what pushed payloads came from.
 *
 * A step is that of a process that trains alone (net_update): also rows that nobody used move on by
 * their momentum. They do so when they are next looked at, for all the steps they missed at once,
 * so that a step costs what it touches. Rows that were never looked at hold no memory.
 */
#ifndef SAMPAN_TRAIN_PS_TABLE_H
#define SAMPAN_TRAIN_PS_TABLE_H

#include <stdbool.h>

#include "backend.h"
#include "ps-wire.h"

struct ps_tables;

/* Shapes are checked. ERR_LIMIT: more than this machine's memory. `b`: the CPU; outlives it. */
int ps_tables_new(struct ps_tables **ret, struct backend *b, uint64_t seed,
                  const struct ps_shape *shapes, size_t n, struct err *err);
void ps_tables_free(struct ps_tables *t);
/* Are they these? Else a line that says what differs. */
int ps_tables_same(const struct ps_tables *t, uint64_t seed, const struct ps_shape *shapes,
                   size_t n, struct err *err);

/* Payloads as they came, replies without their head. */
int ps_tables_pull(struct ps_tables *t, struct ps_in *in, struct bytes *reply, struct err *err);
int ps_tables_fetch(struct ps_tables *t, struct ps_in *in, struct bytes *reply, struct err *err);
int ps_tables_store(struct ps_tables *t, struct ps_in *in, struct err *err);
/* One step of all trainers. Where the loss is not a number nothing changes: they see it in the
 * sums and stop. Where it fails all tables are as they were. */
int ps_tables_push(struct ps_tables *t, const struct bytes *pushed, size_t ranks,
                   struct bytes *reply, struct err *err);

#endif
