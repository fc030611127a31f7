/* Where a page is served: a listening socket for the HTTP library. */
#ifndef SAMPAN_HTTP_LISTEN_H
#define SAMPAN_HTTP_LISTEN_H

#include "err.h"

/* `address`: "ADDR:PORT", ":PORT" (every address), "[::1]:PORT"; port 0: the kernel chooses. */
int http_listen(const char *address, int *ret, struct err *err);

#endif
