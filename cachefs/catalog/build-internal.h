/*
 * What the building files share. The way of a version from rows to a file:
 *
 * - build.c, catalog_builder_add(): a row, checked, goes to the sorter of rows, or to that of bad
 *   names
 * - tree.c, tree_pass(): sorted rows -> enter folder, sample, leave folder (twice or more)
 * - list.c, list_resolve(): first pass, only with a list: which reading of each line is meant
 * - plan.c, plan_version(): a pass: old ids, digest, counts of each folder; nothing is written
 * - write.c, write_version(): folders in walk order get ids and bases; last pass: the rows
 * - publish.c, catalog_builder_finish(): all of it, then rename and switch
 *
 * Tree order is that of a depth-first walk with names in byte order; walk order is that of the
 * numbers (catalog.h): both give the files of one folder in the same order, so that a number is its
 * folder's base plus a count.
 */
#ifndef SAMPAN_CATALOG_BUILD_INTERNAL_H
#define SAMPAN_CATALOG_BUILD_INTERNAL_H

#include "catalog-internal.h"
#include "digest-internal.h"
#include "sort.h"

/* A row as the sorter keeps it: this, then the etag, then the object's key. Its key is the path
 * with NUL between the parts. */
struct packed_row {
    uint64_t size, pack_offset;
    int64_t mtime_ns;
    uint32_t source;
    uint16_t etag_len, object_len;
    uint8_t folder, has_object;
    uint8_t zero[6]; /* no padding: rows go to a file */
};

/* A row taken apart again, copied out of the sorter. */
struct tree_row {
    struct packed_row p;
    char etag[160];
    struct bytes object;
};

struct folder_rec {
    uint64_t id;                     /* 0: a fresh one is given in write.c */
    uint64_t parent;                 /* index of the folder above */
    int64_t mtime_ns;                /* newest of what is below it; 0 if there is nothing */
    uint64_t files, images;          /* samples directly in it */
    uint64_t fresh_units;            /* that its fresh samples take */
    uint64_t next_number, next_unit; /* write.c: of the next sample in it */
};

struct catalog_builder {
    char *dir;
    struct catalog *previous; /* referenced, or NULL */
    uint32_t n_sources;
    char **uris, **ats;
    int64_t *previous_source; /* index in `previous` of the source with the same URI, or -1 */
    struct bytes key, packed; /* of the row being added */
    size_t memory;
    catalog_stop_fn *stop; /* or NULL */
    void *stop_arg;

    struct sorter *rows;    /* path -> packed_row */
    struct sorter *bad;     /* path as the store has it -> why */
    struct sorter *list;    /* path -> struct list_reading; NULL without a list */
    struct sorter *folders; /* walk order -> index into `folder` */
    uint64_t list_lines;
    char *list_what;
    unsigned char *meant; /* list.c: for each line the reading that names a sample */

    struct folder_rec *folder;
    size_t n_folders, folder_cap;
    /* Unnamed: for each sample in tree order its old id or 0; NULL without previous. */
    FILE *old_ids;
    struct catalog_info info;
    uint64_t fresh_folders;
    bool planned, finished;
    char wanted[CATALOG_DIGEST + 1]; /* what it has to come out as; "": anything */
    bool images_only;                /* only names of images are numbered */
    struct catalog_diff_counts diff;
};

/* Notes the path that a key of a walk stands for as a bad name. */
int bad_add_key(struct catalog_builder *b, const char *key, size_t len, const char *why,
                struct err *err);

/* --- tree.c --- */

/* Each returns 0 or -1 with `err`. Folders are numbered in the order they are entered, the root is
 * 0. */
struct tree_ops {
    int (*enter)(void *arg, const struct bytes *key, uint64_t folder, uint64_t parent,
                 struct err *err);
    int (*sample)(void *arg, const struct bytes *key, uint64_t folder, const struct tree_row *row,
                  struct err *err);
    /* `marker_ns` is the mtime of the folder's own object, 0 if it has none. */
    int (*leave)(void *arg, const struct bytes *key, uint64_t folder, int64_t marker_ns,
                 struct err *err);
    /* A row that is left out; NULL: was told in an earlier pass. */
    int (*bad)(void *arg, const struct bytes *key, const char *why, struct err *err);
};
/* Over all rows; ends where the builder is told to stop. */
int tree_pass(struct catalog_builder *b, const struct tree_ops *ops, void *arg, struct err *err);

/* --- list.c --- */

/* Numbers by list, asked for with ascending keys. */
struct list_join {
    struct catalog_builder *b;
    struct sorted at;
    int more;
    uint64_t twice; /* the first line that names a sample again; 0: none */
};
int list_join_begin(struct list_join *j, struct catalog_builder *b, struct err *err);
int list_join_number(struct list_join *j, const struct bytes *key, uint64_t *ret, struct err *err);
int list_resolve(struct catalog_builder *b, struct err *err);
int list_join_end(struct list_join *j, struct err *err);

/* --- plan.c, write.c, publish.c --- */

/* Whether the samples directly in a folder can have numbers; and whether this one has, without a
 * list. */
bool counts(const struct catalog_builder *b, uint64_t folder);
bool is_numbered(const struct catalog_builder *b, uint64_t folder, const struct bytes *key);
/* Fills folder[], info (without next_id), diff, bad, old_ids and the digest. */
int plan_version(struct catalog_builder *b, struct err *err);
/* Writes the file; `next_id` is the first that no version has used. */
int write_version(struct catalog_builder *b, const char *file, uint64_t next_id, struct err *err);

#endif
