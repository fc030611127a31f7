/*
 * Credentials from files: profiles as the AWS tools keep them (creds-ini.c reads the text), with
 * roles, and a folder with one file a key, as a Kubernetes Secret is mounted.
 */
#include "creds-internal.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "mem.h"

#define ROLE_CHAIN_MAX 4

/* --- files of profiles ----------------------------------------------------------------------- */

struct ini_file {
    char *path;
    struct bytes text;
    struct stat st;
    bool exists;
};

/* What profiles are looked up in: credentials first, then config. */
struct profiles {
    struct ini_file files[2];
    size_t n;
};

static void profiles_release(struct profiles *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->files[i].path);
        bytes_wipe(&p->files[i].text);
    }
}

/* What people and programs put around the one value that a file has goes. */
static char *without_blanks(const struct bytes *b)
{
    size_t start = 0, end = b->len;
    while (start < end && isspace((unsigned char)b->data[start]))
        start++;
    while (end > start && isspace((unsigned char)b->data[end - 1]))
        end--;
    return xstrndup(b->data ? b->data + start : "", end - start);
}

static int add_ini(struct profiles *p, char *path, bool must_exist, struct err *err)
{
    struct ini_file *f = &p->files[p->n++];
    *f = (struct ini_file){.path = path};
    struct err why = {0};
    if (read_small_file(path, &f->text, &f->st, &why) == 0) {
        f->exists = true;
        return 0;
    }
    if (!must_exist && (why.class == ERR_NOT_FOUND || why.sys == ENOTDIR))
        return 0;
    if (err)
        *err = why;
    return -1;
}

static char *home_path(const char *env, const char *below_home)
{
    if (env_get(env))
        return xstrdup(env_get(env));
    const char *home = env_get("HOME");
    return xasprintf("%s/%s", home ? home : "/nonexistent", below_home);
}

static int profiles_load(struct profiles *p, struct err *err)
{
    if (add_ini(p, home_path("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"),
                env_get("AWS_SHARED_CREDENTIALS_FILE"), err))
        return -1;
    return add_ini(p, home_path("AWS_CONFIG_FILE", ".aws/config"), env_get("AWS_CONFIG_FILE"), err);
}

/* `above`: the key that it stands below, "" for none. */
static bool lookup_below(const struct profiles *p, const char *section, const char *above,
                         const char *key, struct bytes *ret)
{
    bytes_clear(ret);
    for (size_t i = 0; i < p->n; i++)
        if (p->files[i].exists && p->files[i].text.len &&
            ini_get(p->files[i].text.data, p->files[i].text.len, section, above, key, ret))
            return true;
    return false;
}

static bool lookup(const struct profiles *p, const char *profile, const char *key,
                   struct bytes *ret)
{
    return lookup_below(p, profile, "", key, ret);
}

static bool has_profile(const struct profiles *p, const char *profile)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->files[i].text.len &&
            ini_has_section(p->files[i].text.data, p->files[i].text.len, profile))
            return true;
    return false;
}

static const char *current_profile(void)
{
    const char *name = env_get("AWS_PROFILE");
    name = name ? name : env_get("AWS_DEFAULT_PROFILE");
    return name ? name : "default";
}

bool profile_value(const char *key, struct bytes *ret)
{
    CLEANUP(profiles_release) struct profiles p = {0};
    return profiles_load(&p, NULL) == 0 && lookup(&p, current_profile(), key, ret);
}

/* Of the section of services that the profile names, then below the service's name in the profile
 * (as a plug-in of the AWS command line has it), then of the profile. */
bool profile_endpoint(const char *service, struct bytes *ret)
{
    static const char key[] = "endpoint_url";
    CLEANUP(profiles_release) struct profiles p = {0};
    cleanup_bytes struct bytes services = {0};
    const char *profile = current_profile();
    if (profiles_load(&p, NULL))
        return false;
    if (lookup(&p, profile, "services", &services)) {
        cleanup_free char *section = xasprintf("services %s", services.data);
        if (lookup_below(&p, section, service, key, ret))
            return true;
    }
    return lookup_below(&p, profile, service, key, ret) || lookup(&p, profile, key, ret);
}

static void watch_all(struct creds *c, const struct profiles *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->files[i].exists)
            creds_watch(c, p->files[i].path, &p->files[i].st);
}

/* --- one profile ----------------------------------------------------------------------------- */

/* Both keys under one of the usual pairs of names. 1, 0 or -1. */
static int static_keys(struct creds *ret, const struct profiles *p, const char *profile,
                       struct err *err)
{
    static const struct {
        const char *access, *secret, *token;
    } names[] = {
        {"aws_access_key_id", "aws_secret_access_key", "aws_session_token"},
        {"bce_access_key_id", "bce_secret_access_key", "bce_session_token"},
        {"access_key", "secret_key", "session_token"},
    };
    cleanup_wiped struct bytes access = {0}, secret = {0}, token = {0};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bool has_access = lookup(p, profile, names[i].access, &access);
        bool has_secret = lookup(p, profile, names[i].secret, &secret);
        if (!has_access && !has_secret)
            continue;
        if (!has_access || !has_secret)
            return err_set(
                err, ERR_DENIED, "half a credential: %s: [%s] has %s, but no %s (write both)",
                p->files[0].path, profile, has_access ? names[i].access : names[i].secret,
                has_access ? names[i].secret : names[i].access);
        lookup(p, profile, names[i].token, &token);
        creds_set(ret, access.data, secret.data, token.data);
        return 1;
    }
    return 0;
}

static int load_profile(struct creds *ret, const struct profiles *p, const char *profile,
                        const struct creds_conf *conf, unsigned depth, struct err *err);

static int source_creds(struct creds *ret, const struct profiles *p, const char *profile,
                        const struct creds_conf *conf, unsigned depth, struct err *err)
{
    cleanup_bytes struct bytes value = {0};
    if (lookup(p, profile, "source_profile", &value)) {
        if (strcmp(value.data, profile) == 0)
            return static_keys(ret, p, profile, err);
        return load_profile(ret, p, value.data, conf, depth + 1, err);
    }
    if (!lookup(p, profile, "credential_source", &value))
        return err_set(
            err, ERR_DENIED,
            "cannot take a role: [%s]: role_arn without source_profile, credential_source or "
            "web_identity_token_file (add one)",
            profile);
    if (strcmp(value.data, "Environment") == 0)
        return creds_from_env(ret, conf, err);
    if (strcmp(value.data, "EcsContainer") == 0)
        return creds_from_container(ret, conf, err);
    if (strcmp(value.data, "Ec2InstanceMetadata") == 0)
        return creds_from_instance(ret, conf, err);
    return err_set(
        err, ERR_DENIED,
        "cannot take a role: [%s]: unknown credential_source (want Environment, EcsContainer "
        "or Ec2InstanceMetadata)",
        profile);
}

static int take_role(struct creds *ret, const struct profiles *p, const char *profile,
                     const char *arn, const struct creds_conf *conf, unsigned depth,
                     struct err *err)
{
    cleanup_bytes struct bytes session = {0}, external = {0}, region = {0}, duration = {0},
                               file = {0};
    lookup(p, profile, "role_session_name", &session);
    lookup(p, profile, "external_id", &external);
    lookup(p, profile, "region", &region);
    lookup(p, profile, "duration_seconds", &duration);
    struct role role = {
        .arn = arn,
        .session = session.len ? session.data : "sampan",
        .external_id = external.len ? external.data : NULL,
        .region = region.len ? region.data : conf->region,
        .duration_s = duration.len ? (unsigned)strtoul(duration.data, NULL, 10) : 0,
    };
    if (lookup(p, profile, "web_identity_token_file", &file)) {
        cleanup_wiped struct bytes token = {0};
        if (read_small_file(file.data, &token, NULL, err))
            return err_wrap(err, "web identity token");
        cleanup_free char *bare = without_blanks(&token);
        return sts_assume(ret, &role, NULL, bare, conf->peer, err) ? -1 : 1;
    }
    cleanup_creds struct creds by = {0};
    int found = source_creds(&by, p, profile, conf, depth, err);
    if (found <= 0)
        return found < 0
                   ? -1
                   : err_set(err, ERR_DENIED,
                             "cannot take a role: [%s]: its source has no credentials", profile);
    return sts_assume(ret, &role, &by, NULL, conf->peer, err) ? -1 : 1;
}

static int load_profile(struct creds *ret, const struct profiles *p, const char *profile,
                        const struct creds_conf *conf, unsigned depth, struct err *err)
{
    if (depth > ROLE_CHAIN_MAX)
        return err_set(err, ERR_DENIED,
                       "cannot take a role: [%s]: profiles refer to each other in circles",
                       profile);
    cleanup_bytes struct bytes arn = {0}, other = {0};
    if (lookup(p, profile, "role_arn", &arn))
        return take_role(ret, p, profile, arn.data, conf, depth, err);
    int found = static_keys(ret, p, profile, err);
    if (found)
        return found;
    static const char *const unsupported[] = {"credential_process", "sso_session", "sso_start_url"};
    for (size_t i = 0; i < sizeof unsupported / sizeof unsupported[0]; i++)
        if (lookup(p, profile, unsupported[i], &other))
            return err_set(
                err, ERR_DENIED,
                "no credentials: profile [%s] uses %s, which would run a program or a browser "
                "(export the keys: aws configure export-credentials --format env)",
                profile, unsupported[i]);
    return 0;
}

int creds_from_profile(struct creds *ret, const struct creds_conf *conf, struct err *err)
{
    CLEANUP(profiles_release) struct profiles p = {0};
    if (profiles_load(&p, err))
        return -1;
    const char *profile = current_profile();
    int found = load_profile(ret, &p, profile, conf, 0, err);
    if (found == 0 && env_get("AWS_PROFILE") && !has_profile(&p, profile))
        return err_set(err, ERR_DENIED,
                       "no such profile: AWS_PROFILE=%s: not in %s nor %s (check the name)",
                       profile, p.files[0].path, p.files[1].path);
    if (found == 1) {
        watch_all(ret, &p);
        ret->from = "the profile files";
    }
    return found;
}

/* --- --credentials --------------------------------------------------------------------------- */

static int from_ini_path(struct creds *ret, const struct creds_conf *conf, const char *path,
                         struct err *err)
{
    CLEANUP(profiles_release) struct profiles p = {0};
    if (add_ini(&p, xstrdup(path), true, err))
        return -1;
    const char *profile = current_profile();
    if (!has_profile(&p, profile) && !env_get("AWS_PROFILE"))
        profile = ""; /* keys without any section */
    int found = load_profile(ret, &p, profile, conf, 0, err);
    if (found == 0 && *profile && !has_profile(&p, profile))
        return err_set(err, ERR_DENIED,
                       "no such profile: AWS_PROFILE=%s: not in %s (check the name)", profile,
                       path);
    if (found == 1) {
        watch_all(ret, &p);
        ret->from = "the file given with --credentials";
    }
    return found;
}

enum part { PART_ACCESS, PART_SECRET, PART_TOKEN, PART_COUNT };

/* Names of keys in lower case without '_', '-' and '.'; the first of a row is taken first. */
static const char *const part_names[PART_COUNT][9] = {
    [PART_ACCESS] = {"awsaccesskeyid", "bceaccesskeyid", "accesskeyid", "accesskey",
                     "minioaccesskey", "rootuser", "ak", "username"},
    [PART_SECRET] = {"awssecretaccesskey", "bcesecretaccesskey", "secretaccesskey", "secretkey",
                     "miniosecretkey", "rootpassword", "sk", "password"},
    [PART_TOKEN] = {"awssessiontoken", "bcesessiontoken", "sessiontoken", "securitytoken"},
};

static bool plain_name(const char *name, char *out, size_t size)
{
    size_t n = 0;
    for (; *name; name++) {
        if (*name == '_' || *name == '-' || *name == '.')
            continue;
        if (n + 1 == size)
            return false;
        out[n++] = (char)tolower((unsigned char)*name);
    }
    out[n] = '\0';
    return n > 0;
}

struct folder {
    char *names[PART_COUNT]; /* the best file for each part */
    size_t ranks[PART_COUNT];
    bool has_ini;
};

static void folder_release(struct folder *f)
{
    for (int i = 0; i < PART_COUNT; i++)
        free(f->names[i]);
}

static void look_at(struct folder *f, const char *name)
{
    char plain[64];
    if (name[0] == '.' || !plain_name(name, plain, sizeof plain))
        return;
    f->has_ini |= strcmp(name, "credentials") == 0;
    for (int part = 0; part < PART_COUNT; part++)
        for (size_t rank = 0; part_names[part][rank]; rank++) {
            if (strcmp(part_names[part][rank], plain) != 0)
                continue;
            if (f->names[part] && f->ranks[part] <= rank)
                continue;
            free(f->names[part]);
            f->names[part] = xstrdup(name);
            f->ranks[part] = rank;
        }
}

static int scan_folder(struct folder *f, const char *path, struct err *err)
{
    cleanup_dir DIR *dir = opendir(path);
    if (!dir)
        return err_sys(err, errno, "cannot read: %s", path);
    for (struct dirent *e; (e = readdir(dir));)
        look_at(f, e->d_name);
    return 0;
}

/* One file of the folder, without the newline that people leave at its end. */
static int read_part(struct creds *c, const char *folder, const char *name, struct bytes *ret,
                     struct err *err)
{
    cleanup_free char *path = xasprintf("%s/%s", folder, name);
    cleanup_wiped struct bytes text = {0};
    struct stat st;
    if (read_small_file(path, &text, &st, err))
        return -1;
    cleanup_free char *value = without_blanks(&text);
    bytes_add_str(ret, value);
    explicit_bzero(value, strlen(value));
    creds_watch(c, path, &st);
    return 0;
}

static int from_folder(struct creds *ret, const struct creds_conf *conf, const char *path,
                       struct err *err)
{
    CLEANUP(folder_release) struct folder f = {0};
    if (scan_folder(&f, path, err))
        return -1;
    if (!f.names[PART_ACCESS] && !f.names[PART_SECRET] && f.has_ini) {
        cleanup_free char *ini = xasprintf("%s/credentials", path);
        return from_ini_path(ret, conf, ini, err);
    }
    if (!f.names[PART_ACCESS] && !f.names[PART_SECRET])
        return 0;
    if (!f.names[PART_ACCESS] || !f.names[PART_SECRET])
        return err_set(err, ERR_DENIED,
                       "half a credential: %s: has a file for the %s alone (add the other)", path,
                       f.names[PART_ACCESS] ? "access key" : "secret key");
    struct bytes parts[PART_COUNT] = {0}; /* wiped below */
    int result = 1;
    for (int i = 0; i < PART_COUNT && result == 1; i++)
        if (f.names[i] && read_part(ret, path, f.names[i], &parts[i], err))
            result = -1;
    if (result == 1 && (!parts[PART_ACCESS].len || !parts[PART_SECRET].len))
        result = err_set(err, ERR_DENIED, "half a credential: %s: %s is empty (fill it)", path,
                         f.names[parts[PART_ACCESS].len ? PART_SECRET : PART_ACCESS]);
    if (result == 1)
        creds_set(ret, parts[PART_ACCESS].data, parts[PART_SECRET].data, parts[PART_TOKEN].data);
    ret->from = "the folder given with --credentials";
    for (int i = 0; i < PART_COUNT; i++)
        bytes_wipe(&parts[i]);
    return result;
}

int creds_from_path(struct creds *ret, const struct creds_conf *conf, const char *path,
                    struct err *err)
{
    struct stat st;
    if (stat(path, &st))
        return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_DENIED,
                       "cannot read credentials: %s: %s (check --credentials)", path,
                       strerror(errno));
    return S_ISDIR(st.st_mode) ? from_folder(ret, conf, path, err)
                               : from_ini_path(ret, conf, path, err);
}
