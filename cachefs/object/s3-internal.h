/* What the files of the S3 store share: s3.c builds, s3-endpoint.c knows where to, s3-answer.c
 * reads. */
#ifndef SAMPAN_S3_INTERNAL_H
#define SAMPAN_S3_INTERNAL_H

#include "object-internal.h"

#define SUM_MODE "X-Amz-Checksum-Mode"

int s3_open(struct store *s, const struct uri *u, const struct store_conf *conf, struct err *err);
/* Takes over a region that an answer named. False: it is the one that `used` was signed for, so
 * that asking again would not help. */
bool s3_learn_region(struct store *s, const struct http_req *used, const char *region);
/* The same for another host, from a Location. */
bool s3_learn_host(struct store *s, const struct http_req *used, const char *location);
/* "eu-west-1" out of "bucket.s3.eu-west-1.amazonaws.com"; false if it names none. */
bool s3_region_of_host(const char *host, char *ret, size_t size);

int s3_classify(struct store *s, const struct http_req *r, const struct http_answer *a,
                const void *body, size_t len, enum store_again *again, struct err *err);
int s3_parse_list(struct store *s, const char *prefix, const void *body, size_t len, list_fn *fn,
                  void *arg, struct bytes *ret_token, struct err *err);
int s3_parse_versions(struct store *s, const char *key, const void *body, size_t len,
                      version_fn *fn, void *arg, struct bytes *ret_token, struct err *err);
/* Whether the keys of a listing are encoded; a key's text as it is; a size, if it is one. */
bool s3_says_url_encoded(const void *body, size_t len);
void s3_take_key(const struct bytes *text, bool url_encoded, struct bytes *ret);
bool s3_take_size(const struct bytes *text, uint64_t *ret);
int s3_parse_part_begin(struct store *s, const void *body, size_t len, struct bytes *upload,
                        struct err *err);
int s3_parse_part_end(struct store *s, const void *body, size_t len, struct err *err);
int s3_parse_uploads(struct store *s, const void *body, size_t len, upload_fn *fn, void *arg,
                     struct bytes *ret_token, struct err *err);
int s3_parse_parts(struct store *s, const void *body, size_t len, upload_part_fn *fn, void *arg,
                   struct bytes *ret_token, struct err *err);
/* An ETag's text without W/ and quotes. */
void s3_take_etag(const struct bytes *text, struct bytes *ret);
int s3_parse_delete_many(struct store *s, const void *body, size_t len, struct err *err);
void s3_parse_etag(const void *body, size_t len, char ret[160]);

#endif
