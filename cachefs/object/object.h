/*
 * Object stores: requests are built and answers parsed here as pure functions on bytes; `fetch`
 * moves the bytes. Only `file://` and credentials touch the world (local files; a metadata service
 * through http_do()).
 *
 * A store is a parsed URI, its options and its credentials. URIs:
 *
 * - file:///DIR
 * - s3://BUCKET[.ENDPOINT]/PREFIX, minio://HOST:PORT/BUCKET/PREFIX, minios://…
 * - bos://BUCKET[.ENDPOINT]/PREFIX
 * - http(s)://HOST/PATH/[manifest.tsv]
 * - webhdfs://HOST:PORT/PATH, hdfs://HOST/PATH
 *
 * A URI with a password in it is refused.
 */
#ifndef SAMPAN_OBJECT_H
#define SAMPAN_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "buf.h"
#include "err.h"
#include "http.h"

struct log;
struct store;

/* Keys that somebody has at hand. */
struct store_keys {
    const char *access_key, *secret_key;
    const char *session_token; /* NULL: none */
};

struct store_conf {
    const char *endpoint; /* --endpoint; NULL: AWS_ENDPOINT_URL(_S3) or the store's own */
    const char *region;   /* --region; NULL: AWS_REGION, the profile, or found by redirect */
    /* --credentials, a file or folder; NULL: environment, profile files, metadata services */
    const char *credentials;
    const struct store_keys *keys; /* these and no others, copied; NULL: looked up as said above */
    const char *ca_file; /* --ca-file; NULL: AWS_CA_BUNDLE, the profile (S3), or the system's */
    const char *proxy;
    const char *user;      /* webhdfs user.name; NULL: HADOOP_USER_NAME or the process's user */
    uint16_t webhdfs_port; /* 0: 9870 */
    bool anonymous;        /* --no-sign-request: do not sign, look for no credentials */
    bool requester_pays;
    bool no_sums;    /* don't ask for the sums that S3 keeps of objects */
    bool path_style; /* force; automatic for an endpoint that is an address or has a port */
    /* file: no symbolic link is followed, neither below the folder nor in its own path, whoever
     * puts one there and when. */
    bool no_links;
    struct log *log;
};

/* What a store can do; `fetch` and `sync` look before they ask. */
enum {
    STORE_LOCAL = 1 << 0, /* read with pread by this process: no HTTP (file://) */
    STORE_WRITES = 1 << 1,
    STORE_FLAT_LIST = 1 << 2, /* one listing covers the whole subtree (S3, BOS, manifest) */
    STORE_MULTIPART = 1 << 3,
    STORE_COPY = 1 << 4,
    STORE_BATCH_DELETE = 1 << 5,
    STORE_RANGE_200 = 1 << 6,   /* a range is answered by 200 with just those bytes (WebHDFS) */
    STORE_HEADS = 1 << 7,       /* listings give no ETags, some no sizes: a HEAD does (http) */
    STORE_APPENDS = 1 << 8,     /* objects grow and are renamed (WebHDFS) */
    STORE_META = 1 << 9,        /* keeps a struct object_meta with an object */
    STORE_VERSIONS = 1 << 10,   /* may keep what an object was before it was replaced (S3) */
    STORE_BLIND_GETS = 1 << 11, /* answers do not tell which object their bytes are of (WebHDFS) */
};

int store_open(struct store **ret, const char *uri, const struct store_conf *conf, struct err *err);
/* The address alone: is its form right, and does it hold no password? No error repeats one. */
int store_check_uri(const char *uri, struct err *err);
/* The path in a URI whose form is right, if it is of a folder of this machine; else NULL. Pure. */
const char *store_uri_folder(const char *uri);
/* A canonical URI, of a local folder with the links in its path resolved: for a store that is to
 * follow none below it (store_conf.no_links). */
int store_uri_resolved(const char *uri, char **ret, struct err *err);
void store_close(struct store *s);
const char *store_uri(const struct store *s); /* canonical, without secrets */
/* Appends the address of an object of the store with this (canonical) URI, for people to read: it
 * lies beside a web server's manifest, and below all else. Pure. */
void store_add_object_uri(struct bytes *out, const char *uri, const char *key, size_t key_len);
unsigned store_caps(const struct store *s);
const struct http_peer *store_peer(const struct store *s);
/* The address that `conf`, the environment or the profile names for s3://; NULL: none does. */
char *store_endpoint(const struct store_conf *conf);
/* What tells one set's identity from another's, besides the URI: endpoint and a hash of the
 * credentials' access key. Appends text without secrets. */
void store_identity(const struct store *s, struct bytes *out);
/* Local stores: the folder that the prefix names. */
const char *store_local_dir(const struct store *s);
/* May a key have this text in it? Keys are UTF-8 everywhere but in a local folder: who is sent
 * others refuses them as badly signed, or keeps them under another name. */
bool store_can_name(const struct store *s, const char *text);

/*
 * Credentials are looked up and renewed before requests are built. Blocks (may ask a metadata
 * service); call it from a thread that may wait. `fetch` calls it at start, when
 * store_creds_expire_ns() is near, and once after a 401/403 that says expired.
 */
int store_creds_refresh(struct store *s, bool force, struct err *err);
/* Wall clock; UINT64_MAX: never, or none are needed; 0: they were not looked up yet. */
uint64_t store_creds_expire_ns(const struct store *s);

/* Who sends requests tells it of each that the store answered, and of each that came to nothing:
 * then it learns since when (monotonic) all did. UINT64_MAX: none was answered yet. */
void store_answered(struct store *s);
uint64_t store_silent_since_ns(struct store *s, uint64_t now_ns);

/* --- building requests. Keys are relative to the store's prefix. ------------------------------ */

int store_req_get(struct store *s, const char *key, size_t key_len, uint64_t off, uint64_t len,
                  struct http_req *ret, struct err *err); /* len 0: all */
/* The same of what the object was when it had that version id, of store_parse_versions(). */
int store_req_get_version(struct store *s, const char *key, size_t key_len, const char *version,
                          uint64_t off, uint64_t len, struct http_req *ret, struct err *err);
int store_req_head(struct store *s, const char *key, size_t key_len, struct http_req *ret,
                   struct err *err);
/* A page of the listing below `prefix` (relative; "" for all). `delimiter`: only one level. `token`
 * is what the page before gave, or "". `start_after` is a key or "". */
int store_req_list(struct store *s, const char *prefix, bool delimiter, const char *token,
                   const char *start_after, struct http_req *ret, struct err *err);
/* A page of what the object was and is, the newest first; `token` as in listings. STORE_VERSIONS.
 */
int store_req_versions(struct store *s, const char *key, const char *token, struct http_req *ret,
                       struct err *err);
int store_req_put(struct store *s, const char *key, size_t key_len, const void *body, size_t len,
                  struct http_req *ret, struct err *err);
int store_req_delete(struct store *s, const char *key, size_t key_len, struct http_req *ret,
                     struct err *err);
int store_req_delete_many(struct store *s, const char *const *keys, size_t n, struct bytes *body,
                          struct http_req *ret, struct err *err); /* body outlives the request */
/* From this store or another one of the same server (stores_share_server()), if its ETag is still
 * `if_match` ("": whatever it is). */
int store_req_copy_from(struct store *s, const struct store *from_store, const char *from,
                        const char *if_match, const char *to, struct http_req *ret,
                        struct err *err);
/* More bytes at the end of an object, in two steps as a PUT; and another name for one, or a folder:
 * a file of that name is replaced, at once. STORE_APPENDS. */
int store_req_append(struct store *s, const char *key, const void *body, size_t len,
                     struct http_req *ret, struct err *err);
int store_req_rename(struct store *s, const char *from, const char *to, struct http_req *ret,
                     struct err *err);
/* A folder that may stay empty: `key` ends in '/'. */
int store_req_folder(struct store *s, const char *key, struct http_req *ret, struct err *err);
int store_req_multipart_begin(struct store *s, const char *key, struct http_req *ret,
                              struct err *err);
int store_req_multipart_part(struct store *s, const char *key, const char *upload, unsigned part,
                             const void *body, size_t len, struct http_req *ret, struct err *err);
struct object_meta;
struct part_tag {
    unsigned part;
    char etag[160];
};
/* `meta` (NULL: none): that which the upload was begun with. S3 has taken it by then, BOS takes it
 * now. */
int store_req_multipart_end(struct store *s, const char *key, const char *upload,
                            const struct part_tag *parts, size_t n, const struct object_meta *meta,
                            struct bytes *body, struct http_req *ret, struct err *err);
int store_req_multipart_abort(struct store *s, const char *key, const char *upload,
                              struct http_req *ret, struct err *err);

/* A page of the uploads in parts below `prefix` that were begun and neither ended nor aborted;
 * `token` as in listings. STORE_MULTIPART. */
int store_req_uploads(struct store *s, const char *prefix, const char *token, struct http_req *ret,
                      struct err *err);
/* A page of the parts that one of them has got. */
int store_req_parts(struct store *s, const char *key, const char *upload, const char *token,
                    struct http_req *ret, struct err *err);
/* --- writing objects that describe files -------------------------------------------------------
 *
 * What stands beside an object's bytes, kept by the store as s3fs writes it: decimal numbers in
 * x-amz-meta-mode (with the kind), -uid, -gid and -mtime (seconds, '.', nine digits). */
#define STORE_MARK_SIZE 33
struct object_meta {
    mode_t mode;
    uid_t uid;
    gid_t gid;
    int64_t mtime_ns;
    /* x-amz-meta-sampan-upload: tells one upload in parts from all others; "": it has none. An
     * answer's is in its meta_upload. */
    char mark[STORE_MARK_SIZE];
};
/* What an answer to a HEAD says; fields that it does not say stay as they are in *ret. True: it
 * said the mode. */
bool store_meta_of(const struct http_answer *a, struct object_meta *ret);

struct store_put {
    const char *key; /* of a folder's marker it ends in '/' */
    const void *body;
    size_t len;
    const struct object_meta *meta; /* NULL: none */
    const char *sum;                /* of store_payload_sum(); NULL: made while building */
    const char *upload;             /* NULL: the whole object; else one part of this upload */
    unsigned part;
};
int store_req_put_object(struct store *s, const struct store_put *p, struct http_req *ret,
                         struct err *err);
/* What a signature needs to know of a body, so that a caller can sum it on a thread of his own. ""
 * where none is needed. */
#define STORE_SUM_SIZE 65
void store_payload_sum(struct store *s, const void *body, size_t len, char ret[STORE_SUM_SIZE]);
struct store_copy {
    const char *from, *to;
    const char *if_match;           /* of the source; "": whatever it is now */
    const struct object_meta *meta; /* NULL: the source's */
    const char *upload;             /* NULL: the whole object; else one part of this upload ... */
    unsigned part;
    uint64_t off, len; /* ... from this range of the source */
};
int store_req_copy_object(struct store *s, const struct store_copy *c, struct http_req *ret,
                          struct err *err);
int store_req_multipart_begin_as(struct store *s, const char *key, const struct object_meta *meta,
                                 struct http_req *ret, struct err *err);

/* --- parsing answers -------------------------------------------------------------------------- */

/*
 * What an answer means. 2xx: 0. Otherwise -1 with a class and a message that says what to do
 * ("AccessDenied: the key AKIA… may not read bucket b (check --credentials)"). `again` receives how
 * to go on:
 */
enum store_again {
    AGAIN_NO,
    AGAIN_BACKOFF, /* 5xx, 429, SlowDown: after a pause */
    AGAIN_CREDS,   /* expired token: store_creds_refresh(force), then build anew */
    /* The store now knows the right region or host, or what it must not ask for: build anew. */
    AGAIN_REDIRECT,
    AGAIN_CLOCK, /* skew: the store took the server's clock over: build anew */
};
int store_classify(struct store *s, const struct http_req *r, const struct http_answer *a,
                   const void *body, size_t body_len, enum store_again *again, struct err *err);
/* The store's clock: that of its last answer which told a date; before the first, and for what is
 * local, ours. Who wrote what lies there, and when, is not for the clock of one of its clients. */
int64_t store_now_ns(const struct store *s);
/*
 * WebHDFS writes in two steps: the first PUT carries no body and is answered by a 307 whose
 * Location takes the bytes. For such a store that 307 is an answer (store_classify() gives 0), and
 * store_req_follow() builds the second step; `body` and `len` are those given to store_req_put().
 * Reads need none of this: their redirects are followed by the HTTP library (http_req.follow).
 */
int store_req_follow(struct store *s, const struct http_answer *a, const void *body, size_t len,
                     struct http_req *ret, struct err *err);
/* Some stores (WebHDFS) answer a "head" in the body: fills content_length and last_modified from
 * it. The others: does nothing. Call it after each successful store_req_head(). */
int store_parse_head(struct store *s, const void *body, size_t len, struct http_answer *a,
                     struct err *err);

#define LIST_SIZE_UNKNOWN  UINT64_MAX /* an index page that gives no exact size: ask with a HEAD */
#define LIST_MTIME_UNKNOWN INT64_MIN

struct list_item {
    const char *key; /* relative to the store's prefix; valid during the callback */
    size_t key_len;
    uint64_t size;
    int64_t mtime_ns;
    const char *etag; /* without W/ and quotes; "" if there is none; see store_etag_is_sum() */
    /* A common prefix, a sub-folder or an empty object that marks one: key ends in '/'. */
    bool folder;
    bool unfinished; /* grows under a temporary name, or its writer died: no object yet */
    /* A link of a folder that leads nowhere, or may not be followed, or a name on a web server's
     * page behind which nothing is: no object. */
    bool dangling;
};
/* What we write under another name until it is whole. */
#define STORE_TEMP_PREFIX ".sampan-put-"
bool store_is_temp(const char *key);
/* An unfinished one whose writer has died: one that lives ends within a day. */
bool store_is_left(const struct list_item *item, int64_t now_ns);
/* -1 from fn stops with its err. `ret_token` gets the next page's token, "" at the end. */
typedef int list_fn(void *arg, const struct list_item *item, struct err *err);
int store_parse_list(struct store *s, const char *prefix, const void *body, size_t len, list_fn *fn,
                     void *arg, struct bytes *ret_token, struct err *err);
/* The versions of `key` alone; `ret_token` is "" at the last page that can have some. */
#define STORE_VERSION_NONE "null" /* the id of one that was written while the bucket kept none */
typedef int version_fn(void *arg, const char *version, uint64_t size, const char *etag,
                       struct err *err);
int store_parse_versions(struct store *s, const char *key, const void *body, size_t len,
                         version_fn *fn, void *arg, struct bytes *ret_token, struct err *err);
int store_parse_multipart_begin(struct store *s, const void *body, size_t len, struct bytes *upload,
                                struct err *err);
int store_parse_multipart_end(struct store *s, const void *body, size_t len, struct err *err);
typedef int upload_fn(void *arg, const char *key, const char *upload, struct err *err);
int store_parse_uploads(struct store *s, const void *body, size_t len, upload_fn *fn, void *arg,
                        struct bytes *ret_token, struct err *err);
typedef int upload_part_fn(void *arg, unsigned part, uint64_t size, const char *etag,
                           struct err *err);
int store_parse_parts(struct store *s, const void *body, size_t len, upload_part_fn *fn, void *arg,
                      struct bytes *ret_token, struct err *err);
/* The ETag in the body of a copy's answer, or of an upload's end; "" if there is none. */
void store_parse_etag(struct store *s, const void *body, size_t len, char ret[160]);
/* Keys that could not be deleted are counted, the first is named in err (and -1 returned). */
int store_parse_delete_many(struct store *s, const void *body, size_t len, struct err *err);

/* --- local stores ----------------------------------------------------------------------------- */

/* Lists one folder (not its sub-folders) or, with `recurse`, everything below. */
int store_local_list(struct store *s, const char *prefix, bool recurse, list_fn *fn, void *arg,
                     struct err *err);
/* Reads exactly `len` bytes; ERR_STALE if size or mtime are not those expected (0: don't check). */
int store_local_read(struct store *s, const char *key, size_t key_len, uint64_t off, void *buf,
                     size_t len, uint64_t want_size, int64_t want_mtime_ns, struct err *err);
/* Of what a read of `key` would read: links are followed, if the store follows any. */
int store_local_look(struct store *s, const char *key, struct stat *ret, struct err *err);
int store_local_delete(struct store *s, const char *key, struct err *err);

/*
 * A file that is written piece by piece and appears under its name at once and whole. It has no
 * name before, where the file system can do that, so that a kill leaves nothing behind. begin()
 * makes the folders above it.
 */
struct local_file;
struct local_attrs { /* what a new file gets besides its bytes */
    bool has_mode, has_owner, has_mtime;
    uint32_t mode, uid, gid;
    int64_t mtime_ns;
};
int store_local_begin(struct store *s, const char *key, struct local_file **ret, struct err *err);
int store_local_append(struct local_file *f, const void *data, size_t len, struct err *err);
/* Or from many threads at once, in any order: the size is told, and then every byte is written. */
void store_local_size(struct local_file *f, uint64_t size);
int store_local_write(const struct local_file *f, const void *data, size_t len, uint64_t off,
                      struct err *err);
/* `durable`: after a power loss too. Frees `f`, also when it fails. */
int store_local_commit(struct local_file *f, const struct local_attrs *attrs, bool durable,
                       struct err *err);
void store_local_abort(struct local_file *f);
/* A link of that content in place of whatever file is there. */
int store_local_link(struct store *s, const char *key, const char *target, struct err *err);
/* A folder (`key` may end in '/') and those above it. */
int store_local_folder(struct store *s, const char *key, struct err *err);
/* Mode, owner and time of what `key` names, links not followed; a trailing '/' is ignored. */
int store_local_set_attrs(struct store *s, const char *key, const struct local_attrs *attrs,
                          struct err *err);
/* Over whatever file is there. */
int store_local_rename(struct store *s, const char *from, const char *to, struct err *err);
/* One that is not there is no error. One that something is in stays: ERR_STALE. */
int store_local_remove_folder(struct store *s, const char *key, struct err *err);
/* That `key` was made, renamed or removed is on the disk: the folder that it lies in, if it is
 * there. */
int store_local_sync_name(struct store *s, const char *key, struct err *err);
struct stat;
int store_local_stat(struct store *s, const char *key, struct stat *ret,
                     struct err *err); /* lstat */
int store_local_readlink(struct store *s, const char *key, struct bytes *ret, struct err *err);
/* Everything below `prefix` ("" or ending in '/'), links as links: nothing outside is ever seen.
 * Keys of folders end in '/' and come before what is in them. Our own temporary files are told
 * too; see store_is_temp(). */
typedef int local_walk_fn(void *arg, const char *key, const struct stat *st, struct err *err);
int store_local_walk(struct store *s, const char *prefix, local_walk_fn *fn, void *arg,
                     struct err *err);
/* One level of a folder as it stands, links not followed: `name` without its folder; `etag` as
 * store_local_list() gives it, "" for what is no file. A folder that is not there: ERR_NOT_FOUND.
 * What puts that were killed long ago have left there is removed: this is for who writes there.
 */
typedef int local_level_fn(void *arg, const char *name, const struct stat *st, const char *etag,
                           struct err *err);
int store_local_level(struct store *s, const char *folder, local_level_fn *fn, void *arg,
                      struct err *err);
/* What a listing calls a file's ETag; "" for what is no file. */
void store_local_etag(const struct stat *st, char ret[64]);

/* What was removed lies below a folder of this name for a while, at any depth: it is no sample. */
#define STORE_TRASH ".trash/"
bool store_is_trash(const char *key);

/* Results of jobs lie below a folder of this name in the set's own (the operator puts them there:
 * OUTPUT_FOLDER): they are no samples of it. */
#define STORE_OUTPUT ".sampan-output"
bool store_is_output(const char *key);

/* --- how stores lie to each other ------------------------------------------------------------- */

/* Whether both are spoken to in one way, so that one address may be meant for both. */
bool stores_of_a_kind(const struct store *a, const struct store *b);
/* Whether one request to the server of `to` can copy an object of `from`. */
bool stores_share_server(const struct store *to, const struct store *from);
enum store_relation { STORES_APART, STORES_SAME, STORE_HOLDS_OTHER, STORE_IN_OTHER };
/* Where `b` lies, seen from `a`: whoever writes to the one and reads the other wants to know. */
enum store_relation stores_relation(const struct store *a, const struct store *b);

/* --- what tells the versions of an object apart ------------------------------------------------
 *
 * An "etag" of a listing, a catalog or a request is one of
 *
 *   TAG                  a header's value
 *   sum:KIND:HEX[/TAG]   a manifest's sum of the content (sha256, md5, crc32c): to be checked
 *                        against the whole object's bytes
 *   time:SECONDS         the Last-Modified of a server that gives no ETag
 */
bool store_etag_is_sum(const char *etag);
#define MD5_DIGITS 32 /* hex digits of an ETag that may be the MD5 of its object */
/* The ETag of the object that S3 makes of these parts: the MD5 of their MD5s. False: theirs are
 * none. Of a store that makes ETags otherwise it is just no object's. */
bool store_parts_etag(const struct part_tag *parts, size_t n, char ret[160]);
int store_check_sum(const char *etag, const void *data, size_t len,
                    struct err *err); /* ERR_CORRUPT */
/* The same of the sum that came with a whole object, if one did. */
bool store_has_sum(const struct http_answer *a);
int store_check_own_sum(const struct http_answer *a, const void *data, size_t len, struct err *err);
/* Adds what the answer to a HEAD tells to what a listing gave. */
void store_etag_add(char etag[160], const struct http_answer *head);
/* Whether an answer is known to be of another version. ERR_STALE, without the name. */
int store_check_etag(const char *etag, const struct http_answer *a, struct err *err);

/* --- sets of several sources ------------------------------------------------------------------ */

/* Parses a set file: {"sources":[{"uri":…,"at":"train/"},…]}. Caller frees with set_release(). */
struct set_source {
    char *uri;
    char *at;
};
struct set {
    struct set_source *sources;
    size_t n;
};
int set_parse(struct set *ret, const char *what, const void *text, size_t len, struct err *err);
/* A SET argument that is a URI or a set file's path, as sources. */
int set_from_arg(struct set *ret, const char *arg, struct err *err);
void set_release(struct set *s);

#endif
