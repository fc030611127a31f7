/*
 * An HTTP request as data, and the one place that turns it into options of the HTTP library.
 *
 * `object` builds requests (pure); `fetch` runs many of them at once; http_do() runs one and waits
 * (credentials services, command line). Header values may be secrets: requests are never logged
 * whole.
 */
#ifndef SAMPAN_BASE_HTTP_H
#define SAMPAN_BASE_HTTP_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"

#ifndef SAMPAN_VERSION
#define SAMPAN_VERSION "dev"
#endif

#define HTTP_MAX_HEADERS 40
#define HTTP_AGENT       "sampan/" SAMPAN_VERSION

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_PUT, HTTP_POST, HTTP_DELETE, HTTP_PATCH };

/* How to reach a server; shared by all requests to it; strings are borrowed and outlive it. */
struct http_peer {
    const char *ca_file; /* PEM bundle; NULL: SSL_CERT_FILE and SSL_CERT_DIR, or the system's */
    const char *ca_pem;  /* the same as text, instead of it */
    const char *cert_pem, *key_pem; /* who we are to the server; NULL: nobody */
    const char *proxy;              /* NULL: HTTPS_PROXY, HTTP_PROXY, NO_PROXY decide */
    const char *unix_path;          /* NULL: TCP */
    uint64_t connect_timeout_ns;
    bool no_verify; /* only for tests */
};

struct http_req {
    enum http_method method;
    struct bytes url;
    struct bytes headers[HTTP_MAX_HEADERS]; /* "Name: value" */
    size_t n_headers;
    const void *body; /* of PUT, POST, PATCH, DELETE; borrowed until the request ends */
    size_t body_len;
    bool follow; /* redirects are followed by the library (never for signed requests) */
};

void http_req_init(struct http_req *r, enum http_method method);
void http_req_release(struct http_req *r);
#define cleanup_http_req CLEANUP(http_req_release)
__attribute__((format(printf, 3, 4))) void http_header(struct http_req *r, const char *name,
                                                       const char *fmt, ...);
const char *http_header_get(const struct http_req *r, const char *name); /* NULL: absent */

/* The header fields of an answer that anybody here needs. */
struct http_answer {
    int status;  /* 0: no answer came */
    bool headed; /* the empty line came: fields behind it are trailers, which say nothing here */
    int64_t content_length;                      /* -1: not given */
    int64_t range_start, range_end, range_total; /* of Content-Range; -1 where absent or '*' */
    char etag[160];                              /* without W/ and quotes */
    char location[1024];
    char region[64]; /* x-amz-bucket-region */
    char date[64];
    char content_type[96];
    char server[32];        /* what it calls itself */
    int64_t last_modified;  /* Unix seconds, to CLOCK_MAX_S; -1: not given, or none of these */
    unsigned retry_after_s; /* 0: not given */
    /* x-amz-meta-NAME, x-bce-meta-NAME; "": not given */
    char meta_mode[16], meta_uid[16], meta_gid[16], meta_mtime[40], meta_upload[33];
    /* x-amz-checksum-KIND of the whole body, in base64; "": none, or none of a kind known here */
    char sum_kind[12], sum[16];
    bool sum_of_parts; /* it is made of the sums of the parts that the object was uploaded in */
};
void http_answer_init(struct http_answer *a);
/* Takes one header line as it came. Pure. */
void http_answer_line(struct http_answer *a, const char *line, size_t len);

/* The head of an answer as it comes over a plain connection. Pure. */
enum http_head {
    HEAD_MORE,  /* not all of it is here yet */
    HEAD_PLAIN, /* a final answer of HTTP/1.1 whose body has a length */
    HEAD_OTHER, /* anything else: for the library, which knows all of HTTP */
};
struct http_framing {
    size_t head_len; /* up to and with the empty line */
    uint64_t body_len;
    bool keep; /* the connection may be used again */
};
enum http_head http_answer_head(const char *data, size_t len, struct http_answer *ret,
                                struct http_framing *framing);
/* The request as bytes up to its body, and where to: "host:port" of an http:// URL. False: it has
 * something that only the library understands (TLS, a name with a password, an odd character,
 * another method than GET, HEAD and PUT). Pure. */
bool http_plain_request(const struct http_req *r, struct bytes *text, struct bytes *origin);

/* Sets the options of `easy` that are the same for all requests. Once. */
int http_prepare(CURL *easy, struct err *err);
/* Sets all other options of `easy` for this request except where the bytes go and how large the
 * receive buffer is (the library refuses to change that on a handle that still holds a connection).
 * The slist it returns through `ret_list` must live until the transfer ends. */
int http_apply(CURL *easy, const struct http_req *r, const struct http_peer *peer,
               struct curl_slist **ret_list, struct err *err);

/* Runs one request and waits: the body lands in `body` (at most `max_body` bytes). Any status is a
 * success here; only transport failures are errors. */
int http_do(const struct http_req *r, const struct http_peer *peer, uint64_t timeout_ns,
            size_t max_body, struct http_answer *ret, struct bytes *body, struct err *err);

/* Words for a transport failure with what to do ("could not resolve host x (check --endpoint …)").
 */
int http_transport_error(CURLcode code, const char *detail, const char *url, struct err *err);

/* The library ended a transfer with CURLE_UNSUPPORTED_PROTOCOL after an answer that redirects. */
int http_redirect_refused(const char *url, struct err *err);
bool http_is_tls(const char *url);
void url_encode(struct bytes *out, const char *text, size_t len, bool keep_slash);
size_t url_decode(char *out, const char *text, size_t len); /* writes at most len bytes */

#endif
