/*
 * Catalogs of versions as files: STATE/catalogs/DIGEST, and below the URI that a volume's
 * `catalogs` names. A snapshot puts one there; a node that mounts a volume of that version fetches
 * it.
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

char *catalog_path_here(const char *state, const char *version);    /* the controller's */
char *catalog_path_on_node(const char *state, const char *version); /* a node's */
/* Lists the set and keeps its catalog in the state folder, and below `catalogs` if the attributes
 * name it. What was found: its version, samples and bytes. */
struct catalog_made {
    char version[80];
    int64_t bytes, samples;
};
int catalog_make(struct mounter *m, const char *state, const struct attributes *a,
                 const char *credentials, uint64_t deadline_ns, struct catalog_made *ret,
                 struct err *err);
/* Sees to it that the node's file is here. NOT_FOUND: neither here nor where the attributes say. */
int catalog_fetch(struct mounter *m, const char *state, const struct attributes *a,
                  const char *credentials, uint64_t deadline_ns, struct err *err);

#endif
