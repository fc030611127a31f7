/* Addresses as people write them, and sockets that listen there. */
#ifndef SAMPAN_BASE_LISTEN_H
#define SAMPAN_BASE_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "err.h"

#define ADDRESS_HOST 256
#define ADDRESS_PORT 16

/* HOST:PORT, [V6]:PORT. False: it is none. */
bool address_split(const char *where, char *host, size_t size, char port[ADDRESS_PORT]);

/* A socket that listens, or -1: the error. Port 0: the kernel chooses one. `host` NULL: on all of
 * this machine's addresses. */
int address_listen(const char *host, const char *port, struct err *err);
/* The same of what address_split() takes, or ":PORT": all addresses. */
int address_listen_at(const char *where, struct err *err);
/* Can only this machine reach what listens there? */
bool address_is_loopback(int sock);

#endif
