/*
 * A mount from opening its volume to the last of its teardown.
 *
 *   cmd-mount.c    checks, the start in the background, the keeper
 *   kept.c         the options as every process that serves this mount takes them up
 *   life.c         such a process, started by the keeper
 *   serve.c        its life; under-keeper.c: what of it concerns the keeper
 *   serve-X.c      what it serves: samples, or outputs (--writable)
 */
#ifndef SAMPAN_CLI_SERVE_INTERNAL_H
#define SAMPAN_CLI_SERVE_INTERNAL_H

#include "cli-internal.h"
#include "control-serve.h"
#include "frontend.h"
#include "keeper.h"
#include "sync.h"

struct mount_options {
    struct set_options set;
    struct store_options store;
    struct log_options log;
    uint64_t memory, refresh, bandwidth, push_window, ahead_bytes;
    int64_t connections, prefetch, uid, gid;
    const char *catalog, *sampler, *partition, *strategy, *weights, *profile, *commit, *peers,
        *peer_token_file, *direct;
    bool writable, rescan, allow_other, no_hedge, verify_etag, no_keeper, foreground, quiet;
};
extern const struct command cmd_mount;

struct serve_conf {
    const struct mount_options *options;
    const char *set;
    const char *mountpoint; /* absolute */
    const struct owner *owner;
    const struct store_conf *store;
    struct daemon_start *start; /* NULL: nobody waits. NULL again once it has been told */
    bool was_ready;             /* set when the mount was usable */
    struct keeper *keeper;      /* NULL: none */
    char *const *argv;          /* of this process */
};

/* Returns when the mount is gone: 0, or -1 if it never became usable. Where the mount goes on
 * without this process (a program that takes its place; a life that can't take it up) it does not
 * return at all. */
int serve(struct serve_conf *conf, struct err *err);

/* --- kept.c ----------------------------------------------------------------------------------- */

struct kept {
    struct mount_options options;
    struct conf *conf; /* its words: SET, MOUNTPOINT, the owner's folder */
    char **argv;
    int argc;
};
/* All options with their values, paths absolute, and those words. Pure but for the working
 * directory. */
void kept_text(const struct conf *c, const struct serve_conf *conf, struct bytes *out);
int kept_parse(struct kept *ret, const char *text, struct err *err);
int kept_store(struct keeper_state *s, const struct conf *c, const struct serve_conf *conf,
               struct err *err);
int kept_load(struct kept *ret, struct keeper_state *s, struct err *err);
/* The folders that were made for this mount (owner_made_parse()). */
const char *kept_made(struct keeper_state *s);
void kept_release(struct kept *k);

/* --- life.c ----------------------------------------------------------------------------------- */

/* This process was started by a keeper: serves what it holds. Returns an exit code. */
int life_main(char *const *argv);

/* --- inside serve() (serve.c, under-keeper.c) ------------------------------------------------- */

/* What a mount serves. Members that may be NULL say so. A degraded life (under_keeper_refuses())
 * opens nothing, and mounts what answers EIO. */
struct mount;
struct served {
    void (*desks)(unsigned *ret_n, uint64_t *ret_bytes); /* for keeper_state_make() */
    int (*open)(struct mount *m, struct err *err);
    int (*mount)(struct mount *m, struct err *err); /* and starts to serve */
    int (*device)(const struct mount *m);
    void (*control)(struct mount *m,
                    struct control_server_conf *conf); /* adds what is asked there */
    const char *(*mode)(const struct mount *m);
    const char *(*why)(const struct mount *m);
    void (*look)(struct mount *m); /* warns of what is valid, but seldom meant; may be NULL */
    void (*status)(struct mount *m, struct json_writer *w);
    int (*flush)(struct mount *m, struct err *err); /* before another program takes over */
    void (*path_of)(struct mount *m, uint64_t ino, struct bytes *ret); /* nothing: unknown */
    /* What comes before serve_end_now(), which it calls; may be NULL. Does not block. */
    void (*end_soon)(struct mount *m);
    void (*wait)(struct mount *m);   /* until it is unmounted or stopped */
    void (*stop)(struct mount *m);   /* ends wait(); with the mount's lock held */
    void (*detach)(struct mount *m); /* frontend.h */
    void (*leave)(struct mount *m);
    void (*close)(struct mount *m); /* whatever is there */
};
extern const struct served serves_samples, serves_outputs;

struct mount {
    struct serve_conf *conf;
    const struct served *served;
    struct log_file log;
    struct progress progress;
    bool successor;        /* the mount was there before this process */
    struct volume *volume; /* of samples; NULL in a degraded life */
    struct frontend *frontend;
    struct outputs *outputs; /* of a mount that can be written */
    char *socket;
    bool registered;
    uint64_t began_ns;
    pthread_t signal_thread;
    bool signal_thread_runs;

    struct lock lock;               /* guards those below */
    struct control_server *control; /* set once, on the main thread; NULL again at the end */
    bool mounted;                   /* it is served */
    bool stop;                      /* asked to end */
    bool leave;                     /* asked to make room for another program */
};

bool under_keeper_refuses(const struct mount *m);
int under_keeper_watch(struct mount *m, struct err *err);
int under_keeper_register(struct mount *m, struct err *err);
/* What the keeper holds from here on; later lives find it there. */
int under_keeper_hold(struct mount *m, struct err *err);
/* A copy of the device or listener that was left to us; -1: there is none. */
int under_keeper_copy(const struct mount *m, bool device);
/* Callbacks of the control socket. */
void under_keeper_about(void *mount, struct json_writer *w);
int under_keeper_upgrade(void *mount, const char *program, struct err *err);
int under_keeper_descriptor(void *mount, const char *which, int *ret_fd, struct err *err);
/* Fields of `status`. */
void under_keeper_status(struct mount *m, struct json_writer *w);
/* Of a life that serves nothing: all fields that the volume would have written. */
void under_keeper_refused_status(struct mount *m, struct json_writer *w);
/* Makes room for the next program, or gives the mount back after a start that failed; ends the
 * process. */
_Noreturn void under_keeper_leave(struct mount *m);
_Noreturn void under_keeper_fail(struct mount *m, const struct err *why);

const struct served *served_of(const struct mount_options *o);

/* serve-outputs.c: refuses what can't be together with --writable, or only with it. */
int outputs_check(const struct mount_options *o, const struct owner *owner, const char *set,
                  const struct store_conf *conf, struct err *err);

/* serve.c */
void serve_status(void *mount, struct bytes *json);
/* A setting, by ioctl. */
int serve_set(void *mount, const char *key, const char *value, struct err *err);
void serve_end_now(struct mount *m); /* stops the front end; serve() goes on from there */
void serve_break_off(struct mount *m, const struct err *why); /* returns once there is a mount */

#endif
