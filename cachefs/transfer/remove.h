/*
 * Removing from a store: one object, or all below a folder; into the trash, or for good.
 *
 * What a URI names: the object of that very name, and everything below NAME/. Nothing else is ever
 * touched: "train" does not name "train2", and links of local folders are removed, not followed.
 *
 * The trash is the folder .trash/TIME-N/ beside what was removed; scans and syncs pass it over.
 * Local and WebHDFS names are renamed into it in one step; objects are copied by their server and
 * then deleted. What lies there for a day goes with the next removal beside it.
 */
#ifndef SAMPAN_TRANSFER_REMOVE_H
#define SAMPAN_TRANSFER_REMOVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "err.h"
#include "object.h"

struct remove_counts {
    uint64_t objects, bytes; /* found by remove_find() */
    uint64_t removed, failed, expired;
};
struct remove_watch {
    void (*failed)(void *arg, const char *key, const char *why); /* any thread, one at a time */
    void (*progress)(void *arg, const struct remove_counts *so_far);
    void *arg;
    /* How it is told to stop, or NULL: it ends with ERR_CANCELLED within seconds, the counts true.
     */
    const atomic_bool *stop;
    bool (*told)(void *arg); /* the same of who must be asked; any thread */
};

struct removal;
/* `is_root`: it names all of a bucket, or of a file system. */
int remove_open(struct removal **ret, const char *uri, const struct store_conf *conf,
                bool *ret_is_root, struct err *err);
/* Of the folder or prefix `uri` itself only what remove_add() names, in place of remove_find(). */
int remove_open_list(struct removal **ret, const char *uri, const struct store_conf *conf,
                     struct err *err);
int remove_add(struct removal *r, const char *key, uint64_t size, struct remove_counts *counts,
               struct err *err);
void remove_close(struct removal *r);
/* Lists what would go. ERR_NOT_FOUND: there is nothing of that name. `watch` may be NULL. */
int remove_find(struct removal *r, const struct remove_watch *watch, struct remove_counts *ret,
                struct err *err);
/* After remove_find(): removes just what that found. `trash` gets where it lies now ("" if it is
 * gone for good). Failures of single objects are counted in `counts` and told to `watch`. */
int remove_run(struct removal *r, bool skip_trash, const struct remove_watch *watch,
               struct remove_counts *counts, struct bytes *trash, struct err *err);

/* The URI of what a mount shows at `path`; `catalog_file`: its current version. Samples of packs
 * have none of their own: ERR_USAGE. The mount does not tell what lies behind a link of a local
 * source: open it with no_links, so that none of that goes. */
int remove_uri_of(const char *catalog_file, const char *path, char **ret, struct err *err);

/* Whether a folder of the trash ("2026-11-21T135959Z-1a2b") is to go at that time. Pure. */
bool remove_is_expired(const char *name, int64_t now_s);

#endif
