/*
 * The digest that names a version: SHA-256 over what the version says, never over ids, the time of
 * the scan or the order of listing. The builder computes it from sorted rows, catalog_verify() from
 * a file. docs/formats/catalog.md lists the bytes.
 *
 * Order of calls: digest_begin (with all sources), then in tree order one digest_sample a sample
 * and, after all that is below it, one digest_folder a folder (the root last), then digest_bad for
 * the bad names in their sorted order, then digest_end.
 */
#ifndef SAMPAN_CATALOG_DIGEST_INTERNAL_H
#define SAMPAN_CATALOG_DIGEST_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "catalog.h"

struct digest;

struct digest *digest_begin(uint32_t n_sources);
void digest_source(struct digest *d, const char *uri, const char *at);
/* `key` is the path with NUL between its parts. `number` is CATALOG_NO_INDEX where no list gave it.
 */
void digest_sample(struct digest *d, const char *key, size_t key_len, uint64_t size,
                   int64_t mtime_ns, const char *etag, uint32_t source, const char *object,
                   size_t object_len, uint64_t pack_offset, uint64_t number);
void digest_folder(struct digest *d, const char *key, size_t key_len, int64_t mtime_ns);
void digest_bad(struct digest *d, const char *key, size_t len, const char *why);
/* Frees it. `ret` may be NULL. */
void digest_end(struct digest *d, char ret[CATALOG_DIGEST + 1]);

/* The sum of ids (catalog_info.ids): begin with 0, add each sample's in tree order, end. */
uint64_t ids_add(uint64_t sum, uint64_t id);
uint64_t ids_end(uint64_t sum); /* fits SQLite's integers, and is never 0 */

#endif
