/*
 * Signatures and sums: pure functions on a request and a time. The files behind this header are the
 * only ones that know the crypto library.
 */
#ifndef SAMPAN_SIGN_INTERNAL_H
#define SAMPAN_SIGN_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "http.h"
#include "log.h"

#define SHA256_LEN 32

/* The derived key of a day, a region and a service, kept so that a signature costs one HMAC, not
 * five. Zeroed: empty. Whoever changes the secret clears it. */
struct v4_key {
    char scope[192]; /* "date/region/service" that the key is for */
    uint8_t key[SHA256_LEN];
};

struct v4_params {
    const char *access_key;
    const struct secret *secret;
    const struct secret *token; /* NULL or unset: none */
    const char *region;
    const char *service;
    int64_t now_s;        /* Unix time that the server believes in */
    const char *payload;  /* hex digest of the body, or "UNSIGNED-PAYLOAD" */
    bool payload_header;  /* S3: the payload's digest is a header, too */
    struct v4_key *cache; /* NULL: derive anew */
};

/*
 * AWS Signature Version 4. Adds X-Amz-Date, X-Amz-Security-Token, X-Amz-Content-Sha256 and
 * Authorization; every header that stands in the request is signed. The URL must be encoded
 * already, once, by url_encode(); parameters may stand in any order.
 */
void v4_sign(struct http_req *r, const struct v4_params *p);

struct bce_params {
    const char *access_key;
    const struct secret *secret;
    const struct secret *token; /* NULL or unset: none */
    int64_t now_s;
    unsigned expire_s; /* how long the signature stays valid */
};

/* Baidu's bce-auth-v1. Adds x-bce-date, x-bce-security-token and Authorization; signs host,
 * content-length, content-type, content-md5 and all x-bce-*. */
void bce_sign(struct http_req *r, const struct bce_params *p);

#define PAYLOAD_UNSIGNED "UNSIGNED-PAYLOAD"
#define PAYLOAD_EMPTY    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

void hmac_sha256(uint8_t out[SHA256_LEN], const void *key, size_t key_len, const void *data,
                 size_t len);
void md5_hex(char out[33], const void *data, size_t len);
void md5_base64(char out[25], const void *data, size_t len);

/* The pieces of a request that both signatures speak of. `host` has no default port. */
struct url_parts {
    const char *host, *path, *query;
    size_t host_len, path_len, query_len;
};
void url_split(const char *url, struct url_parts *ret);
const char *method_name(enum http_method m);
/* The parameters of a query, sorted, "a" as "a=", joined by '&'. */
void canonical_query(const char *query, size_t len, struct bytes *out);

#endif
