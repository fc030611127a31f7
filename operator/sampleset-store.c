/*
 * The stores that a set may be of, and whose keys are used there.
 *
 * A Secret may be of another store: upstream's holds the keys of the store that a file system keeps
 * its blocks in (`storage`, `bucket`, `metaurl`). Such keys are never sent to the set's source.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "dir.h"
#include "mem.h"
#include "object.h"
#include "sampleset-internal.h"

/* --- URIs ------------------------------------------------------------------------------------- */

static const struct scheme {
    const char *name, *family; /* stores of one family take each other's keys */
    bool keys;                 /* it is usually read with keys */
    bool host;
} schemes[] = {
    {"s3", "s3", true, true},         {"s3a", "s3", true, true},     {"minio", "s3", true, true},
    {"bos", "bos", true, true},       {"http", "http", false, true}, {"https", "http", false, true},
    {"webhdfs", "hdfs", false, true}, {"hdfs", "hdfs", false, true}, {"file", "file", false, false},
};
#define N_SCHEMES (sizeof schemes / sizeof schemes[0])

static const struct scheme *scheme_of(const char *uri)
{
    size_t len = strcspn(uri, ":");
    for (size_t i = 0; i < N_SCHEMES; i++)
        if (strlen(schemes[i].name) == len && strncasecmp(schemes[i].name, uri, len) == 0)
            return &schemes[i];
    return NULL;
}

static const char *authority_of(const char *uri, size_t *ret_len)
{
    const char *sep = strstr(uri, "://");
    const char *at = sep ? sep + 3 : uri;
    *ret_len = strcspn(at, "/");
    return at;
}

char *store_uri_check(const char *uri)
{
    const char *sep = strstr(uri, "://");
    const struct scheme *s = scheme_of(uri);
    size_t len;
    for (const char *c = uri; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return xasprintf("\"%s\" has a blank or a control character in it (write it as %%20)",
                             uri);
    if (!sep)
        return xasprintf("\"%s\" is no URI (want SCHEME://BUCKET.ENDPOINT/PREFIX)", uri);
    if (!s)
        return xasprintf("\"%.*s\" is no kind of store that is known (want one of s3, minio, bos, "
                         "http, https, webhdfs, hdfs, file)",
                         (int)(sep - uri), uri);
    const char *authority = authority_of(uri, &len);
    if (memchr(authority, '@', len) && memchr(authority, ':', len))
        return xstrdup("the URI has a password in it (put keys into a Secret and name it in "
                       "secretRef)");
    if (s->host && !len)
        return xasprintf("\"%s\" names no bucket or host (want %s://BUCKET/PREFIX)", uri, s->name);
    if (!s->host && (len || authority[0] != '/' || path_leads_up(authority)))
        return xasprintf("\"%s\" is no absolute folder (want file:///FOLDER)", uri);
    return NULL;
}

/* --- which store a secret is of --------------------------------------------------------------- */

struct place {
    char *host, *path; /* the first part of the path; "" : none */
};

static void place_release(struct place *p)
{
    free(p->host);
    free(p->path);
}

static struct place place_of(const char *uri)
{
    size_t len, first;
    const char *authority = authority_of(uri, &len);
    const char *path = authority + len;
    path += strspn(path, "/");
    first = strcspn(path, "/");
    struct place p = {xstrndup(authority, len), xstrndup(path, first)};
    char *port = strrchr(p.host, ':');
    if (port && (strcmp(port, ":443") == 0 || strcmp(port, ":80") == 0))
        *port = '\0';
    for (char *c = p.host; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return p;
}

/* A bucket of a secret as a URL (https://BUCKET.HOST, http://HOST/BUCKET) or as a name alone,
 * against a set's URI (bos://BUCKET.HOST/…, s3://BUCKET/…, minio://HOST/BUCKET/…). */
static bool is_bucket(const struct set_store *s, const char *bucket)
{
    struct place have = place_of(s->uri), said = place_of(bucket);
    cleanup_free char *endpoint = NULL;
    if (s->endpoint) {
        struct place e = place_of(s->endpoint);
        endpoint = e.host;
        free(e.path);
    }
    size_t len = strlen(have.host);
    bool same;
    if (strcmp(said.host, have.host) == 0) /* what both say of the path must agree */
        same = !*said.path || strncmp(s->uri, "minio:", 6) != 0 || !strcmp(said.path, have.path);
    else if (*said.path) /* path style: HOST/BUCKET */
        same = strcmp(said.path, have.host) == 0 && (!endpoint || !strcmp(said.host, endpoint));
    else /* BUCKET alone in the URI, BUCKET.HOST in the secret; or the other way round */
        same = (strncmp(said.host, have.host, len) == 0 && said.host[len] == '.' &&
                (!endpoint || strcmp(said.host + len + 1, endpoint) == 0)) ||
               (!strchr(said.host, '.') && strncmp(have.host, said.host, strlen(said.host)) == 0 &&
                have.host[strlen(said.host)] == '.');
    place_release(&have);
    place_release(&said);
    return same;
}

bool store_is_other(const struct set_store *s, const char *storage, const char *bucket)
{
    const struct scheme *own = scheme_of(s->uri);
    if (storage && *storage) {
        const struct scheme *said = scheme_of(storage);
        if (own && (!said || strcmp(said->family, own->family) != 0))
            return true;
    }
    return bucket && *bucket && !is_bucket(s, bucket);
}

/* --- secrets ---------------------------------------------------------------------------------- */

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* The text of a value in base64, without a line break at its end. */
static char *decode(const char *text)
{
    size_t n = 0, len = strlen(text);
    char *out = xmalloc(len + 1);
    unsigned bits = 0, have = 0;
    for (; *text; text++) {
        int digit = base64_digit(*text);
        if (digit < 0)
            continue;
        bits = bits << 6 | (unsigned)digit;
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[n++] = (char)(bits >> have & 0xff);
        }
    }
    while (n && (out[n - 1] == '\n' || out[n - 1] == '\r'))
        n--;
    out[n] = '\0';
    return out;
}

/* As people write the names of keys: case and punctuation do not count. */
static bool key_is(const char *key, const char *plain)
{
    for (; *key; key++) {
        if (*key == '-' || *key == '_' || *key == '.')
            continue;
        if (tolower((unsigned char)*key) != *plain++)
            return false;
    }
    return !*plain;
}

static char *secret_value(const struct json *secret, const char *const *names)
{
    struct json data = json_get(secret, "data");
    for (; *names; names++)
        for (size_t i = 0; i < json_count(&data); i++) {
            struct json m = json_member(&data, i);
            const char *text;
            if (key_is(m.key, *names) && json_as_str(&m, &text, NULL) == 0)
                return decode(text);
        }
    return NULL;
}

static const char *const access_names[] = {"accesskey",      "accesskeyid",    "awsaccesskeyid",
                                           "bceaccesskeyid", "minioaccesskey", NULL};
static const char *const secret_names[] = {"secretkey",          "secretaccesskey",
                                           "awssecretaccesskey", "bcesecretaccesskey",
                                           "miniosecretkey",     NULL};
static const char *const file_names[] = {"credentials", NULL};
static const char *const storage_names[] = {"storage", NULL};
static const char *const bucket_names[] = {"bucket", NULL};
static const char *const meta_names[] = {"metaurl", NULL};

static void wipe(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

static bool secret_has(const struct json *secret, const char *const *names)
{
    char *value = secret_value(secret, names);
    bool has = value && *value;
    wipe(value);
    return has;
}

/* The caller wipes both. */
static bool keys_of(const struct json *secret, char **ret_access, char **ret_key)
{
    *ret_access = secret_value(secret, access_names);
    *ret_key = secret_value(secret, secret_names);
    return *ret_access && **ret_access && *ret_key && **ret_key;
}

bool store_has_keys(const struct json *secret)
{
    char *access, *key;
    bool has = keys_of(secret, &access, &key);
    wipe(access);
    wipe(key);
    return has;
}

void store_write_keys(struct json_writer *w, const char *name, const struct json *secret)
{
    char *access = NULL, *key = NULL;
    if (secret && keys_of(secret, &access, &key)) {
        jw_object(w, name);
        jw_str(w, "accessKeyId", access);
        jw_str(w, "secretAccessKey", key);
        jw_end(w);
    }
    wipe(access);
    wipe(key);
}

bool store_secret_is_other(const struct set_store *s, const struct json *secret)
{
    char *storage = secret_value(secret, storage_names);
    char *bucket = secret_value(secret, bucket_names);
    bool other = store_is_other(s, storage, bucket);
    wipe(storage);
    wipe(bucket);
    return other;
}

static void list_names(const struct json *secret, struct bytes *out)
{
    struct json data = json_get(secret, "data");
    for (size_t i = 0; i < json_count(&data); i++) {
        struct json m = json_member(&data, i);
        bytes_addf(out, "%s%s", i ? ", " : "", m.key);
    }
    if (!out->len)
        bytes_add_str(out, "nothing");
}

#define SECRET "SecretUsable"

/* Which of the secret's keys are for this store. False: it cannot be used as it is. */
static bool secret_judge(struct set_plan *p, struct set_store *s, const struct json *secret,
                         const char *ns, const char *name)
{
    bool access = secret_has(secret, access_names), key = secret_has(secret, secret_names);
    bool described = secret_has(secret, storage_names) || secret_has(secret, bucket_names);
    const struct scheme *scheme = scheme_of(s->uri);
    if (store_secret_is_other(s, secret)) {
        s->anonymous = true;
        part_condition(&p->conditions, SECRET, "True", "KeysOfAnotherStore",
                       "storage and bucket in Secret %s/%s name another store than %s: its keys "
                       "are not used, the source is read anonymously (give the source a secretRef "
                       "of its own if it is not public)",
                       ns, name, s->uri);
        return true;
    }
    if (access != key || (!access && !secret_has(secret, file_names) && scheme && scheme->keys &&
                          !described && !secret_has(secret, meta_names))) {
        cleanup_bytes struct bytes names = {0};
        list_names(secret, &names);
        part_condition_warn(&p->conditions, SECRET, "WrongKeyNames",
                            "Secret %s/%s holds %s: want access-key and secret-key (write both "
                            "into it)",
                            ns, name, names.data);
        plan_again(p, 15); /* secrets are not watched */
        return false;
    }
    if (!access && !secret_has(secret, file_names)) {
        s->anonymous = scheme && scheme->keys;
        part_condition(&p->conditions, SECRET, "True", "NoKeys",
                       "Secret %s/%s holds no keys: the source is read anonymously", ns, name);
        return true;
    }
    s->secret_ns = xstrdup(ns);
    s->secret = xstrdup(name);
    s->secret_object = secret;
    part_condition(&p->conditions, SECRET, "True", "Found", "the keys of Secret %s/%s are used", ns,
                   name);
    return true;
}

bool set_take_keys(struct set_plan *p, struct set_store *s, const struct api_ref *ref)
{
    if (!ref) {
        part_condition(&p->conditions, SECRET, "True", "NotWanted", "no secretRef is given");
        return true;
    }
    const char *ns = ref->namespace && *ref->namespace ? ref->namespace : p->ns;
    if (strcmp(ns, p->ns) != 0) {
        /* Else whoever may write a set could use the keys of any namespace. */
        part_condition_warn(&p->conditions, SECRET, "SecretElsewhere",
                            "Secret %s/%s is in another namespace than the set (copy it to "
                            "namespace %s)",
                            ns, ref->name, p->ns);
        return false;
    }
    const struct json *secret = view_get(p->v, KIND_SECRET, ns, ref->name);
    if (view_incomplete(p->v))
        return false;
    if (secret)
        return secret_judge(p, s, secret, ns, ref->name);
    part_condition_warn(&p->conditions, SECRET, "SecretMissing",
                        "there is no Secret %s/%s (create it with access-key and secret-key, or "
                        "remove the secretRef)",
                        ns, ref->name);
    plan_again(p, 15); /* secrets are not watched */
    return false;
}

void set_store_release(struct set_store *s)
{
    free(s->made);
    free(s->secret_ns);
    free(s->secret);
}
