/* What the files of the HTTP store share: http.c asks, http-index.c reads what servers list. Pure.
 */
#ifndef SAMPAN_HTTP_INTERNAL_H
#define SAMPAN_HTTP_INTERNAL_H

#include "object-internal.h"

/*
 * An index page: nginx's and Caddy's JSON, or the HTML of nginx, Apache, lighttpd and others.
 * `prefix` is the folder it lists, relative to the store. From HTML each link one level below the
 * page is an item; its size is taken only where the page shows it to the byte.
 */
int http_parse_index(struct store *s, const char *prefix, const void *body, size_t len, list_fn *fn,
                     void *arg, struct err *err);

/*
 * A manifest: lines of PATH TAB SIZE [TAB MTIME [TAB CHECKSUM]]. PATH is relative to the manifest's
 * folder, raw bytes. MTIME: Unix seconds (a fraction is allowed) or ISO 8601. CHECKSUM: sha256:HEX,
 * md5:HEX, crc32c:HEX, or bare hex, whose length tells which. Empty lines and lines that begin with
 * '#' are skipped. Only what lies below `prefix` is given.
 */
int http_parse_manifest(struct store *s, const char *prefix, const void *body, size_t len,
                        list_fn *fn, void *arg, struct err *err);

#endif
