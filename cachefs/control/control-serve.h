/*
 * The owner's side of the control socket: one thread per connection (at most 32), each request one
 * row of the table in ops.c. docs/formats/control.md lists the operations and their fields.
 */
#ifndef SAMPAN_CONTROL_SERVE_H
#define SAMPAN_CONTROL_SERVE_H

#include "err.h"
#include "frontend.h"
#include "stage.h"
#include "volume.h"

struct control_server;
struct keeper_state;
struct control_server_conf {
    const char *socket_path;
    int listener; /* > 0: serve on this one, which is bound there already (ours from here
                     on); else one is made */
    const char
        *direct_dir;     /* or NULL: there, too, clients are answered that ask where samples lie */
    bool direct_for_all; /* of all users: those whom the kernel lets read the mount */
    struct volume *volume; /* NULL: degraded; operations that need one are refused */
    /* Of a mount that can be written, in place of the volume. */
    struct stage *stage;
    struct fetch *fetch;
    struct store *store;
    void (*status)(void *arg, struct bytes *json); /* the whole status object */
    void (*shutdown)(void *arg);                   /* asked to end */
    /* Fields of `ping` about who keeps this process (may be NULL). */
    void (*about)(void *arg, struct json_writer *w);
    /* Makes room for `program`, soon after this returns (NULL: nobody could start it). */
    int (*upgrade)(void *arg, const char *program, struct err *err);
    /* A descriptor of the mount: "dev", "state" or "listen". The caller's to close. */
    int (*descriptor)(void *arg, const char *which, int *ret_fd, struct err *err);
    /* What outlives this process, or NULL: settings and a background warmup are kept there. */
    struct keeper_state *state;
    void *arg;
    struct log *log;
};
/* Clients can connect when this returns; they are answered from control_accept() on. */
int control_serve(struct control_server **ret, const struct control_server_conf *conf,
                  struct err *err);
/* The listening descriptor; stays the server's. */
int control_server_listener(const struct control_server *s);
/* Takes up what the life before was told: its settings, its background warmup. Before
 * control_accept(): what a client sets must come after what was kept, not before. -1: some of it
 * was refused, the first in *err; all else is taken up. */
int control_resume(struct control_server *s, struct err *err);
/* Serves whoever has connected since control_serve(), and will. `frontend`: of a mount of samples,
 * or NULL. */
int control_accept(struct control_server *s, struct frontend *frontend, struct err *err);
/* What the operation `set` does with one setting. */
int control_set(struct control_server *s, const char *key, const char *value, struct err *err);
/* Is there a sampler among the kept settings? */
bool control_kept_sampler(struct keeper_state *state);
/* "reads", "fetch" and "writes" of a mount that can be written. */
void control_outputs_counts(struct stage *s, struct fetch *f, struct json_writer *w);
void control_server_free(struct control_server *s);

#endif
