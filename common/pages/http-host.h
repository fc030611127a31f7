/* The name that a client asked for. */
#ifndef SAMPAN_HTTP_HOST_H
#define SAMPAN_HTTP_HOST_H

#include <stdbool.h>

/* The value of Host, "NAME", "NAME:PORT" or "[ADDR6]:PORT": is it a name that no other machine can
 * own? Any other may be that of a site which has it point here, so that its pages, in the browser
 * of somebody at this machine, may read what they ask. */
bool http_host_is_here(const char *host);

#endif
