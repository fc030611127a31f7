/*
 * An external sorter: records in any order in, the same records by key out, as often as asked for.
 *
 * Keys are compared as bytes, a prefix before what it is a prefix of; equal keys keep the order
 * they were added in. Records gather in an arena of bounded size; a full arena is sorted and
 * appended to one unnamed file as a run; the runs are merged on the way out. Nothing is left behind
 * by a kill.
 */
#ifndef SAMPAN_CATALOG_SORT_H
#define SAMPAN_CATALOG_SORT_H

#include <stddef.h>
#include <stdint.h>

#include "err.h"

struct sorter;

/* Borrowed until the next call on the sorter. */
struct sorted {
    const unsigned char *key;
    size_t key_len;
    const unsigned char *data;
    size_t data_len;
};

/* `dir` takes the unnamed file; `arena` is the bytes that records may take in memory. */
struct sorter *sorter_new(const char *dir, size_t arena);
void sorter_set_memory(struct sorter *s, size_t arena); /* before the first record overflows it */
void sorter_free(struct sorter *s);
uint64_t sorter_count(const struct sorter *s);

/* Only before the first sorter_rewind(). */
int sorter_add(struct sorter *s, const void *key, size_t key_len, const void *data, size_t data_len,
               struct err *err);
/* Goes to the first record. */
int sorter_rewind(struct sorter *s, struct err *err);
/* 1: a record, 0: the end, -1: an error. */
int sorter_next(struct sorter *s, struct sorted *ret, struct err *err);

/* A file in `dir` that has no name (or loses it at once), for temporary bytes: its descriptor or
 * -1. */
int unnamed_file(const char *dir, struct err *err);

#endif
