/*
 * Retiring: samples of a set that are old, removed at its source. Which ones is said by the set's
 * catalog, so it must be of now: scan first. An object that holds more than one sample (a pack)
 * cannot be retired in part and is refused.
 */
#ifndef SAMPAN_TRANSFER_RETIRE_H
#define SAMPAN_TRANSFER_RETIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog.h"
#include "remove.h"

struct retire_conf {
    bool by_age;
    int64_t before_ns; /* by_age: those known to have last changed before that moment */
    uint64_t to;       /* else: the oldest, until the set has at most so many bytes */
};

struct retire;
/* Chooses. The catalog is borrowed until retire_free(). */
int retire_new(struct retire **ret, struct catalog *c, const struct retire_conf *conf,
               struct err *err);
void retire_free(struct retire *r); /* NULL is fine */
uint64_t retire_samples(const struct retire *r);
uint64_t retire_bytes(const struct retire *r);
/* The path of the i-th that goes, the oldest first. */
int retire_path(const struct retire *r, uint64_t i, struct bytes *ret, struct err *err);
/* Removes them: into the trash of their source for a day, or for good. Failures of single samples
 * are counted and told to `watch`; what lies behind a link of a local source is one. */
int retire_run(struct retire *r, const struct store_conf *conf, bool skip_trash,
               const struct remove_watch *watch, struct remove_counts *ret, struct err *err);

#endif
