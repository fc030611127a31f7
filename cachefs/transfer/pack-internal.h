/*
 * A sync into packs (docs/formats/packed-set.md): what its files share.
 *
 *   pack-plan.c   which packs are rewritten (pure); the table of packs
 *   pack-run.c    the set's current catalog, both walks, publishing
 *   pack-old.c    removing what nobody needs
 *   pack-dir.c    the folder of temporary files
 *   pack-write.c  one pack: samples read side by side into one buffer, summed, written, made rows
 */
#ifndef SAMPAN_TRANSFER_PACK_INTERNAL_H
#define SAMPAN_TRANSFER_PACK_INTERNAL_H

#include "sync-internal.h"

/* --- the table of packs ----------------------------------------------------------------------- */

struct pack {
    char *name; /* its key */
    uint64_t size, live, n_live;
    int64_t mtime_ns;
    bool there;   /* the store has it */
    bool named;   /* the current catalog does */
    bool rewrite; /* its live samples move to new packs */
};
struct packs {
    struct pack *list; /* in the order of names until more are added */
    size_t n, cap;
};
struct pack *packs_add(struct packs *p, const char *name);
/* A pack is found by name among those that were there at the last sort; NULL: it is new. */
void packs_sort(struct packs *p);
struct pack *packs_find(const struct packs *p, const char *name);
void packs_release(struct packs *p);
/* Marks what is rewritten: packs of which at least `waste` is dead (all with any, if `all`), and,
 * once there are many that are far smaller than they could be, these. */
void packs_plan(struct packs *p, uint64_t pack_size, double waste, bool all);
#define PACKS_THIN 8 /* so many small packs are made one */

/* --- samples on their way --------------------------------------------------------------------- */

struct pack_sample {
    char *key;
    struct side src;  /* where it is read from, unless: */
    struct side old;  /* what the set has of it, kept if the new one cannot be had */
    char *old_object; /* a pack of the set */
    uint64_t old_offset;
    uint64_t offset; /* in the new pack */
    bool failed;
    struct err *err; /* of its read */
    struct pack_batch *batch;
};
struct pack_batch {
    struct packing *packing;
    struct pack_sample *samples;
    size_t n, cap;
    uint64_t bytes;
    struct lock lock; /* RANK_FETCH_QUEUE: of reads under way */
    struct cond ended;
    unsigned under_way; /* lock */
};

struct packing {
    struct sync_run *run;
    struct packed_pointer old;
    bool has_old;
    char *dir; /* of temporary files */
    int dir_fd;
    struct catalog *previous;
    struct packs packs;
    struct packs catalogs; /* of the store, by name, time and `there` alone */
    struct catalog_builder *builder;
    struct pack_batch *batch; /* being filled */
    struct lock lock;         /* RANK_VOLUME + 1: the builder, while workers add rows */
    bool failed;              /* lock: a row could not be added */
    struct err err;           /* lock */
};
/* A folder for temporary files in `temp_dir`, locked while its run lives: there, those that killed
 * runs of this user have left are removed. */
int pack_dir_make(const char *temp_dir, char **ret, int *ret_fd, struct err *err);
void pack_dir_remove(char *dir, int fd); /* with its files; frees both */
/* The row that the set has already. */
int pack_keep_row(struct packing *p, const char *key, const struct side *d, struct err *err);
int pack_add_row(struct packing *p, const struct row *row, struct err *err);
/* Removes what neither `new`, the current version, nor the one before it needs. Best effort. */
void pack_remove_old(struct packing *p, const struct packed_pointer *new);

#endif
