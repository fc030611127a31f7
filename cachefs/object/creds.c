/* Credentials: the order of places, and the ones that need neither file nor network. */
#include "creds-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "mem.h"

#define SMALL_FILE_MAX (1u << 20)

void creds_release(struct creds *c)
{
    free(c->access_key);
    secret_release(&c->secret);
    secret_release(&c->token);
    for (size_t i = 0; i < c->n_files; i++)
        free(c->files[i].path);
    *c = (struct creds){0};
}

void creds_set(struct creds *c, const char *access_key, const char *secret, const char *token)
{
    free(c->access_key);
    c->access_key = xstrdup(access_key);
    secret_set(&c->secret, secret, strlen(secret));
    secret_set(&c->token, token && *token ? token : NULL, token ? strlen(token) : 0);
    if (!c->expire_ns)
        c->expire_ns = UINT64_MAX;
}

/* --- files ----------------------------------------------------------------------------------- */

void creds_watch(struct creds *c, const char *path, const struct stat *st)
{
    for (size_t i = 0; i < c->n_files; i++)
        if (strcmp(c->files[i].path, path) == 0)
            return;
    if (c->n_files == CREDS_FILES_MAX)
        return;
    c->files[c->n_files++] = (struct watched){xstrdup(path), st->st_mtim, st->st_ino, st->st_size};
}

bool creds_files_changed(const struct creds *c)
{
    for (size_t i = 0; i < c->n_files; i++) {
        const struct watched *w = &c->files[i];
        struct stat st;
        if (stat(w->path, &st))
            continue; /* being replaced: what we have stays good meanwhile */
        if (st.st_ino != w->ino || st.st_size != w->size || st.st_mtim.tv_sec != w->mtime.tv_sec ||
            st.st_mtim.tv_nsec != w->mtime.tv_nsec)
            return true;
    }
    return false;
}

int read_small_file(const char *path, struct bytes *ret, struct stat *ret_st, struct err *err)
{
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return err_sys(err, errno, "cannot read: %s", path);
    if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
        return err_set(err, ERR_USAGE, "cannot read: %s: not a file", path);
    bytes_clear(ret);
    for (;;) {
        if (ret->len > SMALL_FILE_MAX)
            return err_set(err, ERR_USAGE,
                           "cannot read: %s: longer than 1 MiB (is it the right file?)", path);
        bytes_reserve(ret, 16384);
        ssize_t n = read(fd, ret->data + ret->len, 16384);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "cannot read: %s", path);
        if (n == 0)
            break;
        ret->len += (size_t)n;
        ret->data[ret->len] = '\0';
    }
    if (ret_st)
        *ret_st = st;
    return 0;
}

/* --- environment ----------------------------------------------------------------------------- */

const char *env_get(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

struct env_names {
    const char *access, *secret, *token;
};

static int take_env(struct creds *ret, const struct env_names *names, struct err *err)
{
    const char *access = env_get(names->access);
    const char *secret = env_get(names->secret);
    if (!access && !secret)
        return 0;
    if (!access || !secret)
        return err_set(
            err, ERR_DENIED, "half a credential: the environment: %s is set, %s is not (set both)",
            access ? names->access : names->secret, access ? names->secret : names->access);
    creds_set(ret, access, secret, names->token ? env_get(names->token) : NULL);
    ret->from = "the environment";
    return 1;
}

int creds_from_env(struct creds *ret, const struct creds_conf *conf, struct err *err)
{
    static const struct env_names aws = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
                                         "AWS_SESSION_TOKEN"};
    static const struct env_names bce = {"BCE_ACCESS_KEY_ID", "BCE_SECRET_ACCESS_KEY",
                                         "BCE_SESSION_TOKEN"};
    static const struct env_names minio = {"MINIO_ACCESS_KEY", "MINIO_SECRET_KEY", NULL};
    static const struct env_names minio_root = {"MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD", NULL};
    static const struct env_names *const orders[][3] = {
        [CREDS_AWS] = {&aws},
        [CREDS_BCE] = {&bce, &aws},
        [CREDS_MINIO] = {&minio, &aws, &minio_root},
    };
    for (size_t i = 0; i < 3 && orders[conf->kind][i]; i++) {
        int found = take_env(ret, orders[conf->kind][i], err);
        if (found)
            return found;
    }
    return 0;
}

/* --- the order ------------------------------------------------------------------------------- */

typedef int place_fn(struct creds *ret, const struct creds_conf *conf, struct err *err);

static const struct {
    const char *name;
    place_fn *find;
    bool aws_only;
} places[] = {
    {"the environment", creds_from_env, false},
    {"a web identity token", creds_from_web_identity, true},
    {"the profile files", creds_from_profile, false},
    {"the container's endpoint", creds_from_container, true},
    {"the instance's metadata service", creds_from_instance, true},
};

static int find_in(struct creds *ret, const struct creds_conf *conf, struct err *err)
{
    if (conf->access_key) {
        creds_set(ret, conf->access_key, conf->secret.text, conf->token.text);
        ret->from = "the keys given";
        return 1;
    }
    if (conf->path) {
        int found = creds_from_path(ret, conf, conf->path, err);
        if (found == 0)
            return err_set(
                err, ERR_DENIED,
                "no credentials: %s: neither keys of an INI file nor files named after keys "
                "(want aws_access_key_id and aws_secret_access_key)",
                conf->path);
        return found;
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (places[i].aws_only && conf->kind != CREDS_AWS)
            continue;
        int found = places[i].find(ret, conf, err);
        if (found)
            return found;
    }
    bool bce = conf->kind == CREDS_BCE;
    return err_set(
        err, ERR_DENIED,
        "no credentials: looked in the environment, the profile files%s (set %s and %s, give "
        "--credentials, or --no-sign-request for a public bucket)",
        conf->kind == CREDS_AWS ? " and the machine's metadata services" : "",
        bce ? "BCE_ACCESS_KEY_ID" : "AWS_ACCESS_KEY_ID",
        bce ? "BCE_SECRET_ACCESS_KEY" : "AWS_SECRET_ACCESS_KEY");
}

int creds_find(struct creds *ret, const struct creds_conf *conf, struct err *err)
{
    cleanup_creds struct creds found = {0};
    if (find_in(&found, conf, err) < 0)
        return -1;
    *ret = found;
    found = (struct creds){0};
    return 0;
}
