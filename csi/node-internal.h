/*
 * Inside of the node service.
 *
 *   volumes.c   the table of volumes and its records; one call a volume at a time
 *   sets.c      the table of sets and its records; which set a volume shares
 *   set-mount.c a set's life: brought up, mounted again, ended
 *   set-words.c what `sampan mount` is told of a set
 *   set-files.c what lies beside a set: folders, secrets for its mount
 *   binds.c     what pods see of it
 *   node.c      handlers: stage, publish, and back
 *   inline.c    what an inline volume may not name
 *   node-info.c handlers: statistics, health, capabilities
 *   watch.c     holds what keepers hold, and heals
 *   cut-off.c   pods that still see a mount which is no more
 *
 * node->lock guards both tables. Whoever began a volume owns its struct until volume_end(); whoever
 * began a set, its mount. A volume is begun before a set, never the other way round.
 */
#ifndef SAMPAN_CSI_NODE_INTERNAL_H
#define SAMPAN_CSI_NODE_INTERNAL_H

#include "arguments.h"
#include "events.h"
#include "metrics.h"
#include "node.h"
#include "state.h"
#include "sync.h"

/* --- volumes ---------------------------------------------------------------------------------- */

struct target {
    char *path;
    bool read_only;
    struct pod_ref pod; /* who it was published for, as far as kubelet told; owned */
    struct lost_mount { /* that processes of the pod may still see in its place */
        uint64_t dev;
        bool told; /* the pod was told so by this process */
    } * lost;
    size_t n_lost;
};
struct volume {
    struct volume *next;
    char *id;
    char set[STATE_NAME_BYTES]; /* the key of its set; "": it has none yet */
    char *staging;              /* "": not staged */
    char *options;              /* attributes and group, as attributes_text() */
    bool writable, ephemeral;
    bool deferred;          /* staged without keys that the store wants: publish may bring them */
    struct target *targets; /* changed under node->lock, too: their paths may be read under it */
    size_t n_targets;
    bool recorded;    /* on the disk */
    bool pending;     /* somebody has it; guarded by node->lock, as the next two */
    bool looked_at;   /* for a short look only: whoever comes waits for that */
    size_t n_cut_off; /* targets with lost mounts */
};

struct asking; /* node-info.c */
struct node {
    struct node_conf conf;
    struct mounter *mounter;
    struct state_dir volumes_dir, sets_dir;
    char *mounts; /* folder of the sets' mount points */
    struct lock lock;
    struct cond cond; /* a set is free again, or answered; the watch is to look */
    struct volume *volumes;
    struct set *sets;
    struct asking *asking; /* whose mounts are asked how much they hold; guarded by the lock */
    struct watch *watch;   /* NULL: none */
    struct {
        counter volumes, sets, mounts, revived, healed, lost, cut_off, told, untold;
    } stats;
};

/* Where caches of sets lie that name none. */
static inline const char *node_cache_dir(const struct node *n)
{
    return n->conf.cache_dir ? n->conf.cache_dir : CACHE_DIR_DEFAULT;
}

int volumes_load(struct node *n, struct err *err);
void volumes_free(struct node *n);
/* The volume for this call alone: RPC_ABORTED if another call has it. One that was never heard of
 * is made, and forgotten at the end unless it was stored. */
enum rpc_code volume_begin(struct node *n, const char *id, struct volume **ret, struct err *err);
/* For a short look, which others wait for: waits for the other call for a while, or not at all. */
enum rpc_code volume_begin_soon(struct node *n, const char *id, struct volume **ret,
                                struct err *err);
enum rpc_code volume_try(struct node *n, const char *id, struct volume **ret);
void volume_end(struct node *n, struct volume *v);
int volume_store(struct node *n, struct volume *v, struct err *err);
int volume_forget(struct node *n, struct volume *v, struct err *err);
/* Its pods may read packs themselves. */
bool volume_is_direct(const struct volume *v);
/* Sets the key of its set, seen by all who count references. */
void volume_take_set(struct node *n, struct volume *v, const char *key);
struct target *volume_target(const struct volume *v, const char *path);
void volume_add_target(struct node *n, struct volume *v, const char *path, bool read_only);
void volume_drop_target(struct node *n, struct volume *v, const char *path);
void target_add_lost(struct target *t, uint64_t dev);
void target_set_pod(struct target *t, const char *name, const char *namespace, const char *uid);
/* Ids of all volumes of a set (NULL: of those with pods that are cut off); the caller frees them.
 */
char **volumes_of_set(struct node *n, const char *key, size_t *ret_n);
/* Where it is shown as it is: not where a set that is written is only read. The caller frees them.
 */
char **targets_of_set(struct node *n, const char *key, size_t *ret_n);
void ids_free(char **ids, size_t n);

struct volume_scope {
    struct node *node;
    struct volume *volume;
};
static inline void volume_scope_end(struct volume_scope *s)
{
    if (s->volume)
        volume_end(s->node, s->volume);
}
#define cleanup_volume CLEANUP(volume_scope_end)

/* --- sets ------------------------------------------------------------------------------------- */

struct set {
    struct set *next;
    char key[STATE_NAME_BYTES];
    /* Changed while begun and under node->lock: who has either may read them. */
    char *uri;          /* "": no record */
    char *identity;     /* attributes_identity() */
    struct bytes words; /* of `sampan mount`, each with its NUL */
    bool keyed;         /* it has keys of the store of its own, */
    bool tokened;       /* and a token of other nodes' servers */
    bool given;         /* its root is its group's, where it has one; changed while begun */
    char *mountpoint;
    unsigned users;      /* calls that know this struct; guarded by node->lock */
    bool busy;           /* one of them works on it; guarded by node->lock */
    bool lost;           /* and not mounted again yet; changed while begun */
    _Atomic bool anew;   /* its targets may show a mount of before, which was lost */
    bool holds;          /* `held` are descriptors of the mount; changed while begun */
    uint64_t hold_after; /* and not tried again before, since it failed */
    uint64_t dev;        /* of its mount, as last seen at its mount point; 0: never */
    int held[MOUNT_FDS];
};

/* What a volume wants its set to be. */
struct set_wish {
    const struct attributes *attributes;
    int64_t gid; /* of files in a writable set; -1 */
    const struct secrets *secrets;
};

int sets_load(struct node *n, struct err *err);
void sets_free(struct node *n);
/* The key of the set that such a volume is to use: of one that is there, or a new one. Keys of the
 * store are compared, never kept. A token is not: as the list of other nodes, it is the first
 * volume's. */
void set_choose(struct node *n, const struct set_wish *wish, char ret_key[STATE_NAME_BYTES]);
/* Without keys, and there is this very set for those who have them: then its cache is taken.
 */
bool set_is_locked(struct node *n, const struct set_wish *wish);
/* The group that a volume which comes to that set wants (-1: whatever it has) is the set's. */
int set_check_group(struct node *n, const char *key, int64_t gid, struct err *err);
/* Sees to it that the set is mounted and served. The volume must have taken the key before. */
int set_up(struct node *n, const char *key, const struct set_wish *wish, uint64_t deadline_ns,
           struct err *err);
/* Mounts a set again that was lost. One that a call works on is left to it. `ret_anew`: its targets
 * are to be looked at, which the caller does; what it has to leave for later, it notes. */
int set_heal(struct node *n, const char *key, bool *ret_anew, uint64_t deadline_ns,
             struct err *err);
void set_note_anew(struct node *n, const char *key);
/* Ends the set if no volume names it any more. */
int set_down(struct node *n, const char *key, uint64_t deadline_ns, struct err *err);
/* It is there, and was mounted without something that is among these. */
bool set_lacks(struct node *n, const char *key, const struct secrets *secrets);
/* New ones for a set that is mounted with some: it takes them up by itself. */
int set_renew(struct node *n, const char *key, const struct secrets *secrets, struct err *err);
/* Makes `path` show the set: 0, or -1. What is mounted there and not ours is left, and refused. A
 * mount that was lost is covered, not taken away: what comes to lie upon it reaches the containers
 * that follow it (HostToContainer), while a change of what lies below it never does. `direct`: the
 * folder of the socket that tells where samples lie is bound on .sampan/direct in it. */
int set_bind(struct node *n, const char *key, const char *path, bool read_only, bool direct,
             struct err *err);
/* A set that is begun, whose mount point was unmounted by somebody while its targets show it still,
 * so that its owner goes on and lets nobody else have its cache: it is mounted there again from one
 * of them. False: that is not so, or it can't be done. */
bool set_show_again(struct node *n, const struct set *s);
/* False: nothing is mounted there, for certain. What cannot be looked at is neither ended nor given
 * to somebody else. */
bool may_be_mount(struct node *n, const char *path);
/* Takes every mount of ours off the path. */
int path_clear(struct node *n, const char *path, struct err *err);
/* Keys of all sets that no call works on; the caller frees them. */
char **sets_keys(struct node *n, size_t *ret_n);
/* Whether there is nothing to hold any more. A set that a call works on may not be held yet:
 * whoever looked at it meanwhile has passed it over. */
bool sets_are_held(struct node *n);

bool sets_are_idle(struct node *n); /* no call works on any */

struct set *set_begin(struct node *n, const char *key); /* NULL: there is none */
struct set *set_try(struct node *n, const char *key);   /* the same, if no call works on it */
struct set *set_begin_or_add(struct node *n, const char *key);
void set_end(struct node *n, struct set *s);

struct set_scope {
    struct node *node;
    struct set *set; /* begun; NULL: nothing to end */
};
static inline void set_scope_end(struct set_scope *s)
{
    if (s->set)
        set_end(s->node, s->set);
}
#define cleanup_set CLEANUP(set_scope_end)

/* Writes the record of a set that is begun. */
int set_store(struct node *n, const struct set *s, struct err *err);

/* --- words of a set --------------------------------------------------------------------------- */

void set_choose_words(struct node *n, const char *key, const struct set_wish *wish,
                      struct bytes *out);
/* The file that its words name as the catalog of a pinned version, or NULL. */
const char *set_named_file(const struct set *s);
/* Of its files, and of its root; -1: none. */
int64_t set_group(const struct set *s);
/* Of a record: plugins of before gave a token and peers to sets that are written, too, which refuse
 * them now. */
void set_adopt_words(struct set *s);

/* --- files of a set --------------------------------------------------------------------------- */

enum set_file {
    SET_KEYS,    /* secrets that came along, in the run folder */
    SET_TOKEN,   /* likewise */
    SET_LOG,     /* of its daemon */
    SET_SEVERAL, /* its sources, where there are several */
    SET_DIRECT,  /* the folder of the socket for pods; the daemon makes it there */
};
char *set_mountpoint(const struct node *n, const char *key);
char *set_path(const struct node *n, const char *key, enum set_file which);
/* `own`: the key that a new set with them would have. A set whose file is not there yet, or no
 * more, has those that it was named for. */
bool set_has_keys(const struct node *n, const struct set *s, const struct bytes *wanted,
                  const char *own);
/* Those that came along; a set that is mounted again has its own still. */
int set_write_secrets(struct node *n, const struct set *s, const struct secrets *secrets,
                      struct err *err);
/* Folders, and what `sampan mount` reads beside the secrets. */
int set_make_files(struct node *n, const struct set *s, struct err *err);
void set_remove_files(struct node *n, const struct set *s);

/* --- inline volumes --------------------------------------------------------------------------- */

/* After attributes_check(). `a` NULL: of a volume that is there; a Secret comes with each call. */
enum rpc_code inline_check(const struct node *n, const struct attributes *a,
                           const struct secrets *secrets, struct err *err);

/* --- handlers of node-info.c ------------------------------------------------------------------ */

rpc_handler node_get_stats, node_get_health, node_expand, node_get_capabilities, node_get_info;

/* --- watch ------------------------------------------------------------------------------------ */

/* Something changed: look soon. Any thread. */
void node_watch_poke(struct node *n);
/* Takes, and lets go of, a mount's descriptors (kept, its connection would outlive it). The set is
 * begun. */
void set_hold(struct node *n, struct set *s);
void set_let_go(struct set *s);

/* --- cut-off pods ----------------------------------------------------------------------------- */

/* The target is about to show another mount than `lost`: the record says so from now on. */
void cut_off_note(struct node *n, struct volume *v, struct target *t, uint64_t lost);
/* Looks at the pods of all such targets: who still sees the lost mount is told to restart (once a
 * process of ours), who does not is well again. Volumes that a call works on are left for the next
 * time. */
void cut_off_look(struct node *n);

#endif
