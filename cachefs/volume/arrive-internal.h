/* What the two files of an arriving catalog share: arrive-file.c has what lies in the folder and
 * what the store says of it, arrive.c who brings it. */
#ifndef SAMPAN_VOLUME_ARRIVE_INTERNAL_H
#define SAMPAN_VOLUME_ARRIVE_INTERNAL_H

#include "volume-internal.h"

#define CHUNK    (256u << 10)
#define BRINGERS 4u

/* At the start of the map; its size is part of the format (docs/formats/catalog.md). */
#define MAP_HEAD 512u
struct map_head {
    char title[16];
    char boot[40];
    char etag[160];
    uint64_t size;
    int64_t mtime_ns;
    uint64_t chunk;
    char zero[MAP_HEAD - 240];
};
_Static_assert(sizeof(struct map_head) == MAP_HEAD, "the map's head");

enum { ABSENT, FLYING, HERE };

struct arrival {
    struct volume *volume;
    struct store *store;
    struct fetch *fetch;
    char *folder, *path, *part, *map; /* path: the version's */
    char digest[CATALOG_DIGEST + 1];
    int fd, map_fd;
    struct map_head head;
    size_t n_chunks;
    pthread_t threads[BRINGERS];
    size_t n_threads;

    struct lock lock;
    struct cond changed; /* a chunk is here or failed, all of it has its name, or it is to stop */
    /* below: guarded by lock */
    unsigned char *state; /* by chunk */
    size_t n_here, next;  /* next: no chunk before it is ABSENT, unless one failed */
    bool stop, named, warned;
    bool hurry;                  /* somebody waits for all of it */
    uint64_t begun_ns, asked_ns; /* when a reader last brought a chunk himself */
    struct err why;              /* what the last one that was asked for failed with */
    struct err name_err;         /* why it has no name although it is whole */
    bool bad;                    /* it is not what it was to be: nothing of it is believed */
};

/* The name of a version at the end of an address, or NULL. */
const char *arrival_digest(const char *uri);
int arrival_open_store(struct arrival *a, const struct volume_conf *conf, struct err *err);
/* Those that a process before this one has left, with what they have; or new ones, of a size that
 * the store is asked for. */
int arrival_open_files(struct arrival *a, struct err *err);
/* Is there a current version in the folder? */
bool arrival_has_versions(const char *folder);
/* Does the store say that the object is not the one that these files are of? */
bool arrival_is_another(struct arrival *a);
void arrival_close_files(struct arrival *a);
void arrival_remove_files(const struct arrival *a);
#endif
