/*
 * The owner's control socket: wire and client.
 *
 * A SOCK_STREAM unix socket `control.sock` in the owner's folder. A message is a 4-byte
 * little-endian length and so many bytes of JSON (at most CONTROL_MAX). A request {"op":NAME, …} is
 * answered by zero or more progress messages {"progress":{…}} and a final one: {"ok":true, …} or
 * {"ok":false,"class":NAME,"error":TEXT}. Descriptors (pack extents) travel beside that one.
 *
 * Every mount on this machine is registered by a file in /run/sampan of root, or
 * $XDG_RUNTIME_DIR/sampan if that is a folder of this user, or /tmp/sampan-UID; $SAMPAN_RUN_DIR
 * wins. It is one JSON object
 * {"mountpoint","uri","socket","pid","pids","start_ticks","keeper_pid","keeper_ticks","started"};
 * the first three as jw_name() writes names; "pids" is the number of the PID namespace. A stale one
 * (its processes gone, or the mount not there) is what `doctor` and `umount` clean up.
 */
#ifndef SAMPAN_CONTROL_H
#define SAMPAN_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "err.h"
#include "json.h"

#define CONTROL_MAX (16u << 20)

/* By these words of its message a mount that failed was kept out by somebody who is there still, or
 * already: whoever runs `sampan mount` may wait for that one and try again. */
#define MOUNT_SAYS_IN_USE    "cache folder in use"
#define MOUNT_SAYS_MOUNTED   "is mounted there already"
#define MOUNT_SAYS_NOT_EMPTY "the folder is not empty"
#define MOUNT_SAYS_SERVED    "another process serves it"

/* Blocking send and receive of one message; `fd` may be -1. recv gives NOT_FOUND at end of stream.
 */
int control_send(int sock, const struct bytes *msg, int fd, struct err *err);
int control_recv(int sock, struct bytes *msg, int *ret_fd, struct err *err);
/* One without descriptors, of at most `most` bytes. */
int control_recv_short(int sock, size_t most, struct bytes *msg, struct err *err);
/* As the first two, with several descriptors. What comes beyond `max` is closed. */
#define CONTROL_FDS_MAX 128
int control_send_fds(int sock, const struct bytes *msg, const int *fds, size_t n_fds,
                     struct err *err);
int control_recv_fds(int sock, struct bytes *msg, int *fds, size_t max, size_t *ret_n,
                     struct err *err);

/* Both work for paths longer than a socket address holds. control_listen() replaces a socket that
 * nobody answers on and makes the new one 0600; a living owner there is ERR_LIMIT. */
int control_connect(const char *socket_path, int *ret_sock, struct err *err);
int control_listen(const char *socket_path, int *ret_sock, struct err *err);
/* A socket beside it for those who see the mount alone, for all users to connect to: it answers
 * where samples lie, and nothing else. Takes the place of one that is there. */
#define CONTROL_DIRECT_SOCKET "packs.sock"
int control_listen_direct(const char *dir, int *ret_sock, struct err *err);
/* A final message as text: {"ok":true, …} parsed, or the error that it says. For who keeps a
 * connection and receives for himself. */
int control_answer(const struct bytes *msg, struct json_doc **ret, struct err *err);
/* One request, final answer parsed; progress messages go to `progress` (may be NULL; false: it is
 * to end, which is waited for some seconds). It also hears, with NULL, that there was none for a
 * while: who does not answer is not waited for any longer than is wished. An answer with "ok":false
 * becomes an err of its class. */
typedef bool control_progress_fn(void *arg, const struct json *progress);
int control_call(const char *socket_path, const struct bytes *request,
                 control_progress_fn *progress, void *arg, struct json_doc **ret, int *ret_fd,
                 struct err *err);
/* The same for what may be done twice: an answer that is cut off (the owner died, and a keeper
 * starts the next one) is asked for again, `tries` times in all. */
int control_call_again(const char *socket_path, const struct bytes *request, unsigned tries,
                       control_progress_fn *progress, void *arg, struct json_doc **ret, int *ret_fd,
                       struct err *err);
/* The same for a question that is answered at once, or not at all: a daemon that hangs, and that no
 * keeper replaces, is not waited for longer than `patience_s` for any message. */
int control_ask(const char *socket_path, const struct bytes *request, unsigned tries,
                unsigned patience_s, struct json_doc **ret, struct err *err);

struct control_mount {
    char *mountpoint, *uri, *socket;
    int pid;
    int keeper_pid; /* 0: none */
    bool foreign;   /* its processes are in another PID namespace; both pids are 0 */
    long long started;
    bool alive;      /* the process, or a keeper that is about to start the next one */
    bool recovering; /* the keeper alone is there */
    bool mounted;    /* /proc/self/mountinfo has it */
};
int control_register(const char *mountpoint, const char *uri, const char *socket_path,
                     int keeper_pid, struct err *err);
void control_unregister(const char *mountpoint);
/* What a process that is gone left of its entry, whole or half-written. One that lives keeps it. */
void control_forget(const char *mountpoint);
int control_mounts(struct control_mount **ret, size_t *n, struct err *err);
/* By mount point (or any path below it), or by the root of the same mount seen elsewhere, as in a
 * pod. NOT_FOUND if there is none. */
int control_find(const char *path, struct control_mount *ret, struct err *err);
/* Its processes have ended, and nobody holds the listener of its socket: no life will come. */
bool control_is_abandoned(const struct control_mount *m);
void control_mount_release(struct control_mount *m);
void control_mounts_free(struct control_mount *m, size_t n);

#endif
