/*
 * TCP connections between the job's processes.
 */
#ifndef SAMPAN_TRAIN_ADDRESS_H
#define SAMPAN_TRAIN_ADDRESS_H

#include <stddef.h>

#include "listen.h"

#define ADDRESS_WHY 160

#define ADDRESS_PAUSE_MS 100

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
