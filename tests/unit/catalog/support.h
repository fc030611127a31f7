/* What the catalog's tests share: a private folder, and versions made from a few lines. */
#ifndef SAMPAN_TEST_CATALOG_SUPPORT_H
#define SAMPAN_TEST_CATALOG_SUPPORT_H

#include "catalog.h"

/* A fresh folder; removed by folder_remove(). */
void folder_make(void);
const char *folder_name(void);
void folder_remove(void);

/* Rows as text: "PATH [SIZE [MTIME [ETAG [SOURCE]]]]", one a line. */
void add_rows(struct catalog_builder *b, const char *rows);
struct catalog_builder *builder(struct catalog *previous);
/* Finishes, opens the result and checks it with catalog_verify(). Frees the builder. */
struct catalog *finish(struct catalog_builder *b, struct catalog_diff_counts *diff);
struct catalog *version(struct catalog *previous, const char *rows);

uint64_t id_of(struct catalog *c, const char *path); /* 0: none */
/* "a/x.jpg a/y.jpg …": the samples by number. */
const char *by_number(struct catalog *c);
/* The children's names, a '/' behind folders. */
const char *children(struct catalog *c, const char *path);
/* "KEY: WHY" lines. */
const char *bad_names(struct catalog *c);
/* "+a/x -b ~c" */
const char *changes(struct catalog *a, struct catalog *b);

#endif
