/*
 * Catalogs of versions as files: STATE/catalogs/DIGEST, and below the URI that a volume's
 * `catalogs` names. A snapshot puts one there; a node mounts a volume of that version by its
 * address, and the mount brings it along while it serves.
 */
#ifndef SAMPAN_CSI_CATALOGS_H
#define SAMPAN_CSI_CATALOGS_H

#include "arguments.h"
#include "mounter.h"

/* Words for `sampan` that say how to reach the store: endpoint, region, credentials (a file or
 * NULL). */
#define STORE_WORDS_MAX 12
size_t store_words(const struct attributes *a, const char *credentials,
                   const char *ret[STORE_WORDS_MAX]);

char *catalog_path_here(const char *state, const char *version); /* the controller's */
/* What listing a set found: its version, samples and bytes, and the catalog in a file aside. */
struct catalog_made {
    char version[80];
    int64_t bytes, samples;
    char *file;
};
int catalog_scan(struct mounter *m, const char *state, const struct attributes *a,
                 const char *credentials, uint64_t deadline_ns, struct catalog_made *ret,
                 struct err *err);
/* Keeps it in the state folder, and in the folder `catalogs` if the attributes name one. */
int catalog_keep(struct mounter *m, const char *state, const struct attributes *a,
                 const char *credentials, uint64_t deadline_ns, struct catalog_made *made,
                 struct err *err);
void catalog_made_release(struct catalog_made *made);
#define cleanup_catalog_made CLEANUP(catalog_made_release)
/* Takes away what a plugin that was killed has left aside. */
void catalogs_clean(const char *state);
/* What `--catalog` of a mount of that version says: a file that is on the node, or an address below
 * `catalogs`. The caller frees it. */
char *catalog_word(const char *state, const struct attributes *a);
bool catalog_word_is_file(const char *word);
/* Sees to it that the node's file is there. NOT_FOUND: nobody has put it on this node. */
int catalog_need(const char *state, const char *version, struct err *err);

#endif
