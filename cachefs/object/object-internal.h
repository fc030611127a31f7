/*
 * What the stores share: the parsed URI, the struct behind `struct store`, the table of operations
 * that a scheme fills in, and small helpers.
 */
#ifndef SAMPAN_OBJECT_INTERNAL_H
#define SAMPAN_OBJECT_INTERNAL_H

#include <dirent.h>
#include <limits.h>

#include "creds-internal.h"
#include "object.h"
#include "sign-internal.h"
#include "sync.h"

#define URI_MAX 4096 /* bytes, as given and as we write it */

/* --- URIs ----------------------------------------------------------------------------------------
 *
 * "SCHEME://[USER@]HOST[:PORT]/PATH". Only http(s) addresses are percent-encoded (as a browser has
 * them); everywhere else each byte stands for itself, as on the other tools' command lines. A
 * password is refused, and no error repeats the address before it is known to hold none. */
struct uri {
    char *scheme;  /* lower case */
    char *user;    /* NULL: none */
    char *host;    /* without port; an IPv6 address keeps its brackets */
    unsigned port; /* 0: none */
    char *path;    /* after the '/', which is not part of it; raw */
};
int uri_parse(struct uri *ret, const char *text, struct err *err);
void uri_release(struct uri *u);
#define cleanup_uri CLEANUP(uri_release)
bool host_is_address(const char *host); /* an IPv4 or bracketed IPv6 address */
bool host_is_loopback(const char *host);

/* --- stores ---------------------------------------------------------------------------------- */

/* Where requests go. Changed by redirects: read and written under the store's lock. */
struct endpoint {
    char *base; /* "https://s3.eu-west-1.amazonaws.com" or "http://host:9000/dir", no '/' at the end
                 */
    char *region;
    bool bucket_in_host; /* base names the bucket already */
    bool region_in_host; /* base follows the region when a redirect teaches another */
};

struct store_ops;

struct store {
    const struct store_ops *ops;
    char *uri;       /* canonical */
    char *bucket;    /* NULL where there is none */
    char *prefix;    /* "" or ends in '/'; raw bytes */
    char *dir;       /* file: the folder */
    unsigned left_s; /* file: a temporary file so old is nobody's, if nobody has its lock */
    bool all_named;  /* file: do as if there were no files without names */
    bool no_links;   /* file: of store_conf */
    char *user;      /* webhdfs: user.name */
    char *page;      /* http: the manifest's name; NULL: index pages */
    struct http_peer peer;
    char *ca_file, *proxy;
    bool requester_pays;
    _Atomic bool no_sums; /* s3: the server keeps none, or nobody wants to know */
    bool path_style;
    struct creds_conf creds_conf;
    struct log *log;
    _Atomic uint64_t silent_since_ns;
    _Atomic int64_t ahead_s; /* what the date of its last answer was ahead of ours */

    struct lock lock; /* RANK_STORE_CREDS; guards all below */
    struct cond refreshed;
    bool refreshing;
    uint64_t refreshed_ns; /* monotonic; 0: never */
    struct creds creds;
    struct v4_key key;
    struct endpoint endpoint;
    int64_t clock_offset_s; /* what a server's clock is ahead of ours */
    bool no_batch_list;     /* webhdfs: the server does not know LISTSTATUS_BATCH */
};

/* A NULL operation: such a store cannot do it. Keys given are relative. */
struct store_ops {
    const char *name; /* in messages: "S3" */
    unsigned caps;
    int (*open)(struct store *s, const struct uri *u, const struct store_conf *conf,
                struct err *err);
    int (*get)(struct store *s, const char *key, size_t key_len, uint64_t off, uint64_t len,
               struct http_req *r, struct err *err);
    int (*get_version)(struct store *s, const char *key, size_t key_len, const char *version,
                       uint64_t off, uint64_t len, struct http_req *r, struct err *err);
    int (*head)(struct store *s, const char *key, size_t key_len, struct http_req *r,
                struct err *err);
    int (*list)(struct store *s, const char *prefix, bool delimiter, const char *token,
                const char *start_after, struct http_req *r, struct err *err);
    int (*versions)(struct store *s, const char *key, const char *token, struct http_req *r,
                    struct err *err);
    int (*put)(struct store *s, const char *key, size_t key_len, const void *body, size_t len,
               struct http_req *r, struct err *err);
    int (*del)(struct store *s, const char *key, size_t key_len, struct http_req *r,
               struct err *err);
    int (*delete_many)(struct store *s, const char *const *keys, size_t n, struct bytes *body,
                       struct http_req *r, struct err *err);
    int (*copy_from)(struct store *s, const struct store *from_store, const char *from,
                     const char *if_match, const char *to, struct http_req *r, struct err *err);
    int (*append)(struct store *s, const char *key, struct http_req *r, struct err *err);
    int (*rename)(struct store *s, const char *from, const char *to, struct http_req *r,
                  struct err *err);
    int (*folder)(struct store *s, const char *key, struct http_req *r, struct err *err);
    int (*uploads)(struct store *s, const char *prefix, const char *token, struct http_req *r,
                   struct err *err);
    int (*parts)(struct store *s, const char *key, const char *upload, const char *token,
                 struct http_req *r, struct err *err);
    int (*part_begin)(struct store *s, const char *key, struct http_req *r, struct err *err);
    int (*part_put)(struct store *s, const char *key, const char *upload, unsigned part,
                    const void *body, size_t len, struct http_req *r, struct err *err);
    int (*part_end)(struct store *s, const char *key, const char *upload,
                    const struct part_tag *parts, size_t n, const struct object_meta *meta,
                    struct bytes *body, struct http_req *r, struct err *err);
    int (*part_abort)(struct store *s, const char *key, const char *upload, struct http_req *r,
                      struct err *err);
    int (*put_object)(struct store *s, const struct store_put *p, struct http_req *r,
                      struct err *err);
    int (*copy_object)(struct store *s, const struct store_copy *c, struct http_req *r,
                       struct err *err);
    int (*part_begin_as)(struct store *s, const char *key, const struct object_meta *meta,
                         struct http_req *r, struct err *err);
    void (*parse_etag)(const void *body, size_t len, char ret[160]);
    int (*follow)(struct store *s, const struct http_answer *a, const void *body, size_t len,
                  struct http_req *r, struct err *err);

    int (*classify)(struct store *s, const struct http_req *r, const struct http_answer *a,
                    const void *body, size_t len, enum store_again *again, struct err *err);
    int (*parse_head)(struct store *s, const void *body, size_t len, struct http_answer *a,
                      struct err *err);
    int (*parse_list)(struct store *s, const char *prefix, const void *body, size_t len,
                      list_fn *fn, void *arg, struct bytes *ret_token, struct err *err);
    int (*parse_versions)(struct store *s, const char *key, const void *body, size_t len,
                          version_fn *fn, void *arg, struct bytes *ret_token, struct err *err);
    int (*parse_part_begin)(struct store *s, const void *body, size_t len, struct bytes *upload,
                            struct err *err);
    int (*parse_uploads)(struct store *s, const void *body, size_t len, upload_fn *fn, void *arg,
                         struct bytes *ret_token, struct err *err);
    int (*parse_parts)(struct store *s, const void *body, size_t len, upload_part_fn *fn, void *arg,
                       struct bytes *ret_token, struct err *err);
    int (*parse_part_end)(struct store *s, const void *body, size_t len, struct err *err);
    int (*parse_delete_many)(struct store *s, const void *body, size_t len, struct err *err);
};

extern const struct store_ops s3_ops, bos_ops, http_ops, webhdfs_ops, file_ops;

/* --- helpers --------------------------------------------------------------------------------- */

/* The store's prefix from a URI's path: no '/' at its head, one at its end. */
char *prefix_from_path(const char *path);
/* "base/PATH" with the path's bytes encoded. */
void url_add_path(struct bytes *url, const char *path, size_t len);
/* "?name=VALUE" or "&name=VALUE", encoded; a NULL value gives "name=". */
void url_add_param(struct bytes *url, const char *name, const char *value);

/* The address of a key (relative; NULL: of the bucket itself), the bucket in the host's name or in
 * the path. The store's lock is held. */
void url_of_bucket(struct bytes *url, const struct store *s, const char *key, size_t key_len);
/* "/BUCKET/PREFIXKEY", encoded: what a copy's header names. */
void url_add_copy_source(struct bytes *out, const struct store *s, const char *key);
/* "&name=PREFIX+KEY", encoded. */
void url_add_key_param(struct bytes *query, const char *name, const struct store *s,
                       const char *key);

/* "&name=VALUE", encoded: a page's token that is the query's next words. */
void url_add_marker(struct bytes *token, const char *name, const char *value);
/* "PREFIX-mode: 33188" and so on; NULL: nothing. */
void add_meta(struct http_req *r, const char *prefix, const struct object_meta *m);
/* Headers and query of a PUT: of one part, or of a whole object with its metadata. */
void add_put(struct http_req *r, const char *meta, const struct store_put *p, struct bytes *query);
/* The query that lists uploads in parts below `prefix`; `token`: of a page, parameters already. */
void add_uploads(const struct store *s, const char *prefix, const char *token, struct bytes *query);
/* What a store calls the headers of a copy within it. */
struct copy_names {
    const char *source, *if_match, *quote; /* quote: around the ETag */
    const char *range;                     /* of a part */
    const char *directive, *replace;       /* the copy gets other attributes than its source */
    const char *meta;                      /* what their names begin with */
};
/* The headers of a copy of an object, or of a part of one; the query of its target. */
void add_copy(struct http_req *r, const struct copy_names *names, const struct store *s,
              const struct store_copy *c, struct bytes *query);

/* "bytes=0-99"; len 0 and off 0: no header. */
void add_range(struct http_req *r, uint64_t off, uint64_t len);

/* Nanoseconds since 1970 of "2026-11-21T13:24:12.123Z", "…12Z" or "…12+02:00"; LIST_MTIME_UNKNOWN
 * if it is none. */
int64_t parse_iso8601_ns(const char *text);

/* What the server's clock shows now, in Unix seconds; lock held by the caller. */
int64_t server_now_s(const struct store *s);

/* An answer's meaning where a store's own table knows no better: by status alone. `code` and `why`
 * are what the server said, or "". */
int classify_status(const struct store *s, const struct http_req *r, int status, const char *code,
                    const char *why, enum store_again *again, struct err *err);
/* The words for an answer: what was refused, where and why. Always -1. */
int status_error(const struct http_req *r, int status, const char *code, const char *why,
                 enum err_class class, const char *what, const char *todo, struct err *err);
const char *request_url(const struct http_req *r); /* never NULL */
/* A server's words, fit for one line: no control characters, not endless. */
void tame(char *out, size_t size, const char *text, size_t len);
/* What an error's JSON says, in the object `inside` of it (NULL: itself): the code under that key,
 * and the first line of "message". Each "" where it says nothing. */
void read_json_error(const void *body, size_t len, const char *inside, const char *code_key,
                     char code[64], char why[200]);

/* One row of a table of error codes: a store's own, before those that all have in common. */
struct code_row {
    const char *code;
    enum err_class class;
    enum store_again again;
    const char *todo;
};
int classify_code(const struct store *s, const struct http_req *r, int status,
                  const struct code_row *rows, size_t n, const char *code, const char *why,
                  enum store_again *again, struct err *err);

/* Whether a request that is so far from the server's time may have been refused for that. */
bool is_skewed(int64_t ahead_s);
/* A skewed clock: takes over the date of `a` unless the request went by it. True: build anew. */
bool take_server_clock(struct store *s, const struct http_req *r, const struct http_answer *a);

/* The credential of a request that is refused may have been changed meanwhile, on disk or (for
 * another request) here already. True: refresh and build anew. */
bool creds_changed_since(struct store *s, const struct http_req *r);

/* The next field of a key-by-key listing goes to `fn` with the store's prefix taken off. */
int emit_item(struct store *s, const char *skip_key, struct list_item *item, list_fn *fn, void *arg,
              struct err *err);

/* --- local files (file-place.c, file-temp.c) ---------------------------------------------------
 *
 * Where a file is, or is to be: a name as seen from `dir`. That is the whole path; or, in a store
 * that follows no links, its last part, seen from the folder that holds it. "": there is no such
 * folder, and calls that are given that name say so (ENOENT). */
struct file_place {
    int dir; /* AT_FDCWD, or ours */
    const char *name;
    char path[PATH_MAX]; /* for messages; `name` is a part of it */
};
#define FILE_PLACE_INIT \
    {                   \
        .dir = AT_FDCWD \
    }
/* The place of a key, which may name nothing outside of the store. */
int file_place(const struct store *s, const char *key, size_t len, struct file_place *ret,
               struct err *err);
/* The same, once the folders above it have been made. */
int file_place_new(const struct store *s, const char *key, size_t len, struct file_place *ret,
                   struct err *err);
void file_place_release(struct file_place *p);
#define cleanup_place CLEANUP(file_place_release)
/* The path alone, of what is opened by file_open_folder(); `flags`: more than a folder takes. */
int file_path(const struct store *s, const char *key, size_t len, char out[PATH_MAX],
              struct err *err);
DIR *file_open_folder(const struct store *s, const char *path, int flags);
size_t file_bare_len(const char *key); /* without '/' at its end */
/* Up to its last '/' and with it; 0: it has none. */
int file_folder_len(const char *path);

/* Removes what a put of this file left that was killed while it replaced it. */
void file_remove_left(const struct file_place *p);
/* The same of a temporary file whatever, if it is old enough. */
void file_sweep(const struct store *s, int dir, const char *temp);
/* A temporary name beside that of `p`, locked: for a file without a name, or for a new one that is
 * opened. -1: errno. */
int file_link_temp(int fd, const struct file_place *p, char **ret);
int file_make_temp(const struct store *s, const struct file_place *p, char **ret);
bool file_has_name(int fd, int dir, const char *name);

#endif
