/*
 * Credentials: where they come from, and when they must be looked at again.
 *
 * The order, first found wins: --credentials (a file or a folder) alone, or: the environment, a web
 * identity token with a role (STS), the profile files, a container's endpoint, the instance's
 * metadata service (IMDSv2).
 */
#ifndef SAMPAN_CREDS_INTERNAL_H
#define SAMPAN_CREDS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "buf.h"
#include "err.h"
#include "http.h"
#include "log.h"

enum creds_kind { CREDS_AWS, CREDS_BCE, CREDS_MINIO };

#define CREDS_FILES_MAX 4

/* A file that credentials were read from, as it was then. */
struct watched {
    char *path;
    struct timespec mtime;
    ino_t ino;
    off_t size;
};

struct creds {
    char *access_key; /* NULL: none */
    struct secret secret;
    struct secret token;
    uint64_t expire_ns; /* wall clock; UINT64_MAX: never */
    const char *from;   /* "the environment" */
    struct watched files[CREDS_FILES_MAX];
    size_t n_files;
};

struct creds_conf {
    enum creds_kind kind;
    bool anonymous;
    char *access_key; /* given keys, and nothing else counts; or NULL */
    struct secret secret, token;
    char *path;   /* --credentials, or NULL */
    char *region; /* for STS; NULL: the store's default */
    const struct http_peer *peer;
};

void creds_release(struct creds *c);
#define cleanup_creds CLEANUP(creds_release)

/* Looks in all places in their order. ERR_DENIED with all that was tried if there are none. */
int creds_find(struct creds *ret, const struct creds_conf *conf, struct err *err);
/* Whether a file they came from is another one now. */
bool creds_files_changed(const struct creds *c);

/* --- the places ------------------------------------------------------------------------------ */

/* Each gives 1: found, 0: nothing there, -1: there is something, but broken. */
int creds_from_env(struct creds *ret, const struct creds_conf *conf, struct err *err);
int creds_from_path(struct creds *ret, const struct creds_conf *conf, const char *path,
                    struct err *err);
int creds_from_profile(struct creds *ret, const struct creds_conf *conf, struct err *err);
int creds_from_web_identity(struct creds *ret, const struct creds_conf *conf, struct err *err);
int creds_from_container(struct creds *ret, const struct creds_conf *conf, struct err *err);
int creds_from_instance(struct creds *ret, const struct creds_conf *conf, struct err *err);

/* --- pieces ---------------------------------------------------------------------------------- */

void creds_set(struct creds *c, const char *access_key, const char *secret, const char *token);
void creds_watch(struct creds *c, const char *path, const struct stat *st);
/* The whole of a small file (at most 1 MiB) and, if asked, what it was. */
int read_small_file(const char *path, struct bytes *ret, struct stat *ret_st, struct err *err);
/* An environment variable that is set and not empty, else NULL. */
const char *env_get(const char *name);

/* A value of the current profile of ~/.aws/config or credentials, for the region; false if absent.
 */
bool profile_value(const char *key, struct bytes *ret);
/* Where that profile has a service ("s3", "sts"); false if it does not say. */
bool profile_endpoint(const char *service, struct bytes *ret);

/* A value of INI text (creds-ini.c), appended; false if it is absent or empty. Section "" is what
 * stands before the first; `above` is the key that it stands below, "" for none. Pure. */
bool ini_get(const char *text, size_t len, const char *section, const char *above, const char *key,
             struct bytes *ret);
bool ini_has_section(const char *text, size_t len, const char *section);

/* AssumeRole (signed by `by`) or AssumeRoleWithWebIdentity (`web_token`). */
struct role {
    const char *arn, *session, *external_id; /* the last may be NULL */
    const char *region;                      /* NULL: us-east-1 */
    unsigned duration_s;                     /* 0: the service's default */
};
int sts_assume(struct creds *ret, const struct role *role, const struct creds *by,
               const char *web_token, const struct http_peer *peer, struct err *err);
/* The body of STS's answer; pure. */
int sts_parse(struct creds *ret, const void *body, size_t len, struct err *err);
/* The JSON of the instance's or container's endpoint; pure. */
int metadata_parse(struct creds *ret, const char *what, const void *body, size_t len,
                   struct err *err);

#endif
