/*
 * Addresses of the job's processes, and TCP connections between them.
 */
#ifndef SAMPAN_TRAIN_ADDRESS_H
#define SAMPAN_TRAIN_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "err.h"

#define ADDRESS_WHY  160
#define ADDRESS_PORT 16

#define ADDRESS_PAUSE_MS 100

/* HOST:PORT, [V6]:PORT. False: it is none. */
bool address_split(const char *where, char *host, size_t size, char port[ADDRESS_PORT]);
/* A socket that listens; on all of this machine's addresses where `host` is NULL. -1: the error. */
int address_listen(const char *host, const char *port, struct err *err);
/* A connection that sends at once and notices when the other machine is gone; -1 and why, after a
 * few seconds at most for each address of the host. */
int address_connect(const char *host, const char *port, char why[ADDRESS_WHY]);
/* One of those that came to a listener, of the same kind. -1: none, or no descriptor is left for
 * it: ask again after ADDRESS_PAUSE_MS, for the listener stays readable. */
int address_accept(int listener);
/* Who is at the other end: "10.0.0.2:4711". */
void address_peer(int fd, char *out, size_t size);
int address_send(int fd, const void *data, size_t len); /* all of it, or -1 and errno */

#endif
