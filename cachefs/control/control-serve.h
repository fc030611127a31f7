/*
 * The owner's side of the control socket: one thread per connection (at most 32), each request one
 * row of the table in ops.c. docs/formats/control.md lists the operations and their fields.
 */
#ifndef SAMPAN_CONTROL_SERVE_H
#define SAMPAN_CONTROL_SERVE_H

#include "err.h"
#include "frontend.h"
#include "volume.h"

struct control_server;
struct control_server_conf {
    const char *socket_path;
    struct volume *volume;
    struct frontend *frontend;                     /* NULL: a volume without a mount */
    void (*status)(void *arg, struct bytes *json); /* the whole status object */
    void (*shutdown)(void *arg);                   /* asked to end */
    void *arg;
    struct log *log;
};
int control_serve(struct control_server **ret, const struct control_server_conf *conf,
                  struct err *err);
void control_server_free(struct control_server *s);

#endif
