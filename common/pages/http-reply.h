/* Whole answers, for handlers of the HTTP library, and the files that pages are made of. */
#ifndef SAMPAN_HTTP_REPLY_H
#define SAMPAN_HTTP_REPLY_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#define HTTP_TEXT "text/plain; charset=utf-8"
#define HTTP_JSON "application/json"

bool http_reads(const char *method); /* GET and HEAD */

struct reply_header {
    const char *name, *value; /* value NULL: it is left out */
};
/* Queues these bytes, which are copied. A header without a name ends `more`; NULL: no more. */
enum MHD_Result http_reply(struct MHD_Connection *c, unsigned status, const char *type,
                           const void *data, size_t len, const struct reply_header *more);

/* A file that is part of the program; one without a path ends a list of them. */
struct page_file {
    const char *path, *type, *begin, *end;
};
const struct page_file *page_find(const struct page_file *files, const char *path); /* or NULL */

#endif
