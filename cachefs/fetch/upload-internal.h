/* Writing objects: what upload.c (whole, in parts) and upload-grow.c (files, WebHDFS) share. */
#ifndef SAMPAN_FETCH_UPLOAD_INTERNAL_H
#define SAMPAN_FETCH_UPLOAD_INTERNAL_H

#include "fetch.h"

/* Of an object that grows: the first bytes, in place of whatever is there, or more at its end. */
int put_piece(struct fetch *f, struct store *s, const char *key, const void *body, size_t len,
              bool append, struct err *err);
int stream_to_file(const struct fetch_stream *p, struct err *err);
/* The parts that an upload which was broken off has got, into ret[0..n_parts) (part 0: not there).
 * -1: they are not of that division of `len` bytes, or cannot be known by an MD5. */
int upload_parts_got(struct fetch *f, const struct fetch_stream *p, size_t part_len,
                     unsigned n_parts, struct part_tag *ret, struct err *err);
int stream_by_appending(struct fetch *f, const struct fetch_stream *p, struct err *err);

#endif
