/*
 * What a call brings along, checked: ids, paths, capabilities, attributes, secrets. All of it comes
 * from outside. Functions return RPC_OK, or the code that the specification names for such an
 * argument; the text says which field it is and what to do.
 */
#ifndef SAMPAN_CSI_ARGUMENTS_H
#define SAMPAN_CSI_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "pb.h"
#include "rpc.h"

#define ID_MAX 128 /* bytes of an id or a name */

/* "volume_id": 1 to 128 bytes; no '/', no control character, not "." or "..". */
enum rpc_code check_id(const char *what, const char *id, struct err *err);
/* A name that a client made up: as an id, but any character that is no control character. */
enum rpc_code check_name(const char *what, const char *name, struct err *err);
/* An absolute path without "." and "..", below `folder` ("" : anywhere), whose last part is no link
 * and no file. Whether it exists is another question. */
enum rpc_code check_path(const char *what, const char *path, const char *folder, struct err *err);

/* The folder itself, or below it, by its text: no "." or ".." in it, links are not looked at. */
bool path_is_in(const char *path, const char *folder);

/* A capability as the volume will be used. */
struct capability {
    bool reader_only;   /* the access mode allows no writing */
    bool single_writer; /* one pod on the node at a time */
    int64_t gid;        /* volume_mount_group; -1: none */
    const PB(VolumeCapability__MountVolume) * mount;
};
enum rpc_code check_capability(const PB(VolumeCapability) * c, struct capability *ret,
                               struct err *err);
enum rpc_code check_capabilities(PB(VolumeCapability) *const *list, size_t n, struct err *err);

/* The value of a key of a map, or NULL. */
const char *pair_get(PB(Pair) *const *pairs, size_t n, const char *key);

/* --- attributes of a set ---------------------------------------------------------------------- */

#define CACHE_DIR_DEFAULT "/var/cache/sampan" /* as `sampan mount` has it for root */

/* What a StorageClass's `parameters`, a PV's `volumeAttributes` and its mount options may say. */
enum attribute {
    ATTR_URI,
    ATTR_ENDPOINT,
    ATTR_REGION,
    ATTR_CACHE,
    ATTR_MEMORY,
    ATTR_PROFILE,
    ATTR_WRITABLE,
    ATTR_COMMIT,
    ATTR_REFRESH,
    ATTR_BANDWIDTH,
    ATTR_PEERS,
    ATTR_DIRECT,
    ATTR_FREE_SPACE,
    ATTR_PREFETCH,
    ATTR_CATALOGS,  /* where catalogs of snapshots are kept: a URI */
    ATTR_VERSION,   /* one of them: the digest of a catalog */
    ATTR_ANONYMOUS, /* no keys are looked for, nothing is signed */
    ATTR_COUNT
};
struct attributes {
    char *value[ATTR_COUNT]; /* NULL: not given; in the call's memory */
    bool read_only;          /* mount option "ro" */
    /* JuiceFS gives folders and their common size apart: they become tiers of equal size. */
    char *cache_dir, *cache_mib;
};
const char *attribute_name(enum attribute a);

/* Takes all keys of a map. Kubernetes' own keys (csi.storage.k8s.io/…) are passed over, anything
 * else unknown is refused by name. `what` names the map in errors. "mountOptions" holds options as
 * below. */
enum rpc_code attributes_add(struct attributes *a, struct arena *arena, const char *what,
                             PB(Pair) *const *pairs, size_t n, struct err *err);
/* One mount option of several, or several joined by commas: an attribute (cache=…), one of JuiceFS'
 * that has a counterpart here (cache-dir, cache-size, free-space-ratio, download-limit,
 * buffer-size, prefetch, read-only), or one for the kernel (ro, rw, noatime …). */
enum rpc_code attributes_add_options(struct attributes *a, struct arena *arena, const char *text,
                                     struct err *err);
/* `uri` may be the text of a set file, {"sources":[{"uri":…,"at":"train/"},…]}: several sources
 * joined into one set, all of one store and its keys. `sampan` takes such a text as a file. */
bool uri_is_several(const char *uri);
/* After all were added: values that make no sense, alone or together. */
enum rpc_code attributes_check(struct attributes *a, struct arena *arena, struct err *err);
bool attribute_true(const struct attributes *a, enum attribute which);
/* The words of `sampan mount` for them, without credentials, mount point and URI; each ends in a
 * NUL. */
void attributes_words(const struct attributes *a, int64_t gid, struct bytes *out);
/* All of them as text, in one order: equal texts are equal options. */
void attributes_text(const struct attributes *a, struct bytes *out);
enum rpc_code attributes_of_text(struct attributes *a, struct arena *arena, const char *text,
                                 struct err *err);
/* Those that decide which set it is and where its cache lies. Volumes with equal texts (and equal
 * credentials) share one owner; in all else the first one's options hold. */
void attributes_identity(const struct attributes *a, struct bytes *out);

/* --- secrets ---------------------------------------------------------------------------------- */

/* What a volume's Secret gives; parts that it has not are empty. */
struct secrets {
    struct bytes keys;  /* of the store: INI text for `--credentials` */
    struct bytes token; /* of other nodes' runtime servers, for `--peer-token-file` */
};
/* Keys as people name them in a Secret (access-key, AWS_ACCESS_KEY_ID, accessKey …) and
 * "peer-token". Errors name keys, never values. */
enum rpc_code secrets_read(PB(Pair) *const *pairs, size_t n, struct secrets *ret, struct err *err);
void secrets_release(struct secrets *s); /* wipes */
void secrets_forget_token(struct secrets *s);
#define cleanup_secrets CLEANUP(secrets_release)

#endif
