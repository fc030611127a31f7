/* A small program's HTTP: serves until a signal ends it. */
#ifndef SAMPAN_HTTP_SERVE_H
#define SAMPAN_HTTP_SERVE_H

#include <microhttpd.h>
#include <signal.h>

#include "err.h"
#include "log.h"

#define HTTP_SERVE_IDLE_S 60 /* a silent connection is closed */

/*
 * `address` as http_listen() takes it, the value of --listen. `more` ends with MHD_OPTION_END: the
 * program's own options of the library. Logs "ready port=N" once it listens, and returns 0 after
 * one of `ends`, which the caller has blocked.
 */
int http_serve(const char *address, MHD_AccessHandlerCallback answer, void *arg,
               struct MHD_OptionItem *more, const sigset_t *ends, struct log *log, struct err *err);

#endif
