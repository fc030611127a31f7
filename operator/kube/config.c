/* Where the API server is, and who we are to it. */
#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "kube-internal.h"
#include "mem.h"

#define POD_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"
#define FILE_MAX   (4u << 20)

int kube_read_file(const char *path, struct bytes *ret, struct err *err)
{
    cleanup_file FILE *f = fopen(path, "re");
    char part[4096];
    size_t n;
    if (!f)
        return err_sys(err, errno, "%s", path);
    while ((n = fread(part, 1, sizeof part, f)) > 0) {
        bytes_add(ret, part, n);
        if (ret->len > FILE_MAX)
            return err_set(err, ERR_LIMIT, "%s: longer than 4 MiB", path);
    }
    explicit_bzero(part, sizeof part);
    if (ferror(f))
        return err_sys(err, EIO, "%s", path);
    if (!ret->len)
        return err_set(err, ERR_USAGE, "%s: empty", path);
    return 0;
}

/* Without white space at its ends. */
void kube_trimmed(struct secret *ret, const char *text, size_t len)
{
    while (len && strchr(" \t\r\n", text[len - 1]))
        len--;
    while (len && strchr(" \t\r\n", *text)) {
        text++;
        len--;
    }
    secret_set(ret, text, len);
}

void kube_config_free(struct kube_config *c)
{
    if (!c)
        return;
    char *texts[] = {c->server,     c->namespace_, c->ca_pem, c->cert_pem,
                     c->token_file, c->ca_file,    c->proxy};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        free(texts[i]);
    secret_release(&c->key);
    secret_release(&c->token);
    free(c);
}

/* --- a pod ------------------------------------------------------------------------------------ */

int kube_config_pod(struct kube_config **ret, const char *folder, const char *host,
                    const char *port, struct err *err)
{
    struct kube_config *c = xcalloc(1, sizeof *c);
    cleanup_free char *ns_file = xasprintf("%s/namespace", folder);
    struct bytes ca = {0}, ns = {0}, token = {0};
    bool v6 = strchr(host, ':') != NULL;
    c->server = xasprintf("https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "",
                          port && *port ? port : "443");
    c->token_file = xasprintf("%s/token", folder);
    c->ca_file = xasprintf("%s/ca.crt", folder);
    int result = kube_read_file(c->token_file, &token, err) || kube_read_file(c->ca_file, &ca, err)
                     ? err_wrap(err, "service account")
                     : 0;
    bytes_wipe(&token); /* it was only looked at: the client reads it again */
    if (!result && kube_read_file(ns_file, &ns, NULL) == 0)
        c->namespace_ = xstrndup(ns.data, strcspn(ns.data, " \r\n"));
    else
        c->namespace_ = xstrdup("default");
    bytes_release(&ns);
    if (result) {
        bytes_release(&ca);
        kube_config_free(c);
        return -1;
    }
    c->ca_pem = bytes_take(&ca);
    *ret = c;
    return 0;
}

/* --- kubeconfig ------------------------------------------------------------------------------- */

/* The file's folder: relative names in it begin there. */
static char *beside(const char *file, const char *name)
{
    const char *slash = strrchr(file, '/');
    if (*name == '/' || !slash)
        return xstrdup(name);
    return xasprintf("%.*s/%s", (int)(slash - file), file, name);
}

static int decode_base64(const char *what, const char *text, struct bytes *ret, struct err *err)
{
    size_t len = 0;
    cleanup_free char *packed = xmalloc(strlen(text) + 1);
    for (const char *p = text; *p; p++)
        if (!strchr(" \t\r\n", *p))
            packed[len++] = *p;
    bytes_reserve(ret, len / 4 * 3 + 4);
    int n = len && len % 4 == 0 && len < INT32_MAX
                ? EVP_DecodeBlock((unsigned char *)ret->data, (unsigned char *)packed, (int)len)
                : -1;
    size_t padding = len ? (packed[len - 1] == '=') + (len > 1 && packed[len - 2] == '=') : 0;
    explicit_bzero(packed, len);
    if (n < 0)
        return err_set(err, ERR_USAGE, "%s: not base64", what);
    ret->len = (size_t)n - padding;
    ret->data[ret->len] = '\0';
    return 0;
}

/* NAME-data, or the file that NAME names. Leaves `ret` empty where neither is given. `ret_file`
 * (may be NULL) is told the file. */
static int read_pem(const struct json *in, const char *name, const char *file, struct bytes *ret,
                    char **ret_file, struct err *err)
{
    cleanup_free char *data_key = xasprintf("%s-data", name);
    const char *data, *path;
    if (json_str_or(in, data_key, NULL, &data, err) || json_str_or(in, name, NULL, &path, err))
        return -1;
    if (data && *data)
        return decode_base64(data_key, data, ret, err);
    if (!path || !*path)
        return 0;
    cleanup_free char *full = beside(file, path);
    if (kube_read_file(full, ret, err))
        return err_wrap(err, "%s", name);
    if (ret_file)
        *ret_file = take_ptr(&full);
    return 0;
}

/* The entry of `list` with this name; its member `inner`. */
static int find_entry(const struct json *root, const char *list, const char *name,
                      const char *inner, struct json *list_at, struct json *entry, struct json *ret,
                      struct err *err)
{
    *list_at = json_get(root, list);
    for (size_t i = 0; i < json_count(list_at); i++) {
        const char *is;
        *entry = json_at(list_at, i);
        if (json_str(entry, "name", &is, err))
            return -1;
        if (strcmp(is, name) != 0)
            continue;
        *ret = json_get(entry, inner);
        return json_want_object(ret, err);
    }
    return err_set(err, ERR_USAGE, "no entry \"%s\" in %s", name, list);
}

static int take_cluster(struct kube_config *c, const struct json *cluster, const char *file,
                        struct err *err)
{
    const char *server, *proxy, *tls_name;
    cleanup_bytes struct bytes ca = {0};
    if (json_str(cluster, "server", &server, err) ||
        json_str_or(cluster, "proxy-url", NULL, &proxy, err) ||
        json_str_or(cluster, "tls-server-name", NULL, &tls_name, err) ||
        json_bool_or(cluster, "insecure-skip-tls-verify", false, &c->no_verify, err) ||
        read_pem(cluster, "certificate-authority", file, &ca, &c->ca_file, err))
        return -1;
    if (ca.len)
        c->ca_pem = bytes_take(&ca);
    if (tls_name && *tls_name)
        return err_set(err, ERR_USAGE,
                       "tls-server-name is not supported (use an address that the server's "
                       "certificate names)");
    if (strncmp(server, "https://", 8) != 0 && strncmp(server, "http://", 7) != 0)
        return err_set(err, ERR_USAGE, "server: %s: want https://HOST:PORT", server);
    size_t len = strlen(server);
    while (len && server[len - 1] == '/')
        len--;
    c->server = xstrndup(server, len);
    c->proxy = proxy && *proxy ? xstrdup(proxy) : NULL;
    return 0;
}

static int refuse_plugins(const struct json *user, struct err *err)
{
    static const struct {
        const char *key, *what;
    } refused[] = {{"exec", "a program that gets credentials (exec)"},
                   {"auth-provider", "an auth-provider"},
                   {"username", "a user name with a password"}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct json there = json_get(user, refused[i].key);
        if (there.node && !json_holds_null(&there))
            return err_set(err, ERR_USAGE,
                           "%s is not supported (use a token, a tokenFile, a client certificate, "
                           "or run in a pod)",
                           refused[i].what);
    }
    return 0;
}

static int take_user(struct kube_config *c, const struct json *user, const char *file,
                     struct err *err)
{
    const char *token, *token_file;
    cleanup_bytes struct bytes cert = {0};
    struct bytes key = {0};
    if (refuse_plugins(user, err) || json_str_or(user, "token", NULL, &token, err) ||
        json_str_or(user, "tokenFile", NULL, &token_file, err) ||
        read_pem(user, "client-certificate", file, &cert, NULL, err))
        return -1;
    if (cert.len)
        c->cert_pem = bytes_take(&cert);
    int result = read_pem(user, "client-key", file, &key, NULL, err);
    if (!result && key.len)
        secret_set(&c->key, key.data, key.len);
    bytes_wipe(&key);
    if (result)
        return -1;
    if (!c->cert_pem != !c->key.text)
        return err_set(err, ERR_USAGE, "client-certificate and client-key go together");
    if (token_file && *token_file)
        c->token_file = beside(file, token_file);
    else if (token && *token)
        kube_trimmed(&c->token, token, strlen(token));
    return 0;
}

static int take_root(struct kube_config *c, const struct json *root, const char *file,
                     const char *context, struct err *err)
{
    struct json list, entry, at;
    const char *cluster, *user, *ns;
    if (!context && json_str_or(root, "current-context", NULL, &context, err))
        return -1;
    if (!context || !*context)
        return err_set(err, ERR_USAGE, "no current-context (name one with --context)");
    if (find_entry(root, "contexts", context, "context", &list, &entry, &at, err) ||
        json_str(&at, "cluster", &cluster, err) || json_str_or(&at, "user", NULL, &user, err) ||
        json_str_or(&at, "namespace", NULL, &ns, err))
        return -1;
    c->namespace_ = xstrdup(ns && *ns ? ns : "default");
    if (find_entry(root, "clusters", cluster, "cluster", &list, &entry, &at, err) ||
        take_cluster(c, &at, file, err))
        return err_wrap(err, "cluster \"%s\"", cluster);
    if (user && *user &&
        (find_entry(root, "users", user, "user", &list, &entry, &at, err) ||
         take_user(c, &at, file, err)))
        return err_wrap(err, "user \"%s\"", user);
    return 0;
}

int kube_config_file(struct kube_config **ret, const char *file, const char *context,
                     struct err *err)
{
    struct bytes text = {0}, json = {0};
    struct json_doc *doc = NULL;
    struct kube_config *c = xcalloc(1, sizeof *c);
    int result = kube_read_file(file, &text, err);
    if (!result)
        result = kube_yaml(file, text.data, text.len, &json, err);
    if (!result)
        result = json_parse(&doc, "kubeconfig", json.data, json.len, err);
    if (!result) {
        struct json root = json_root(doc);
        result = take_root(c, &root, file, context, err);
        if (result)
            err_wrap(err, "%s", file);
    }
    bytes_wipe(&text);
    bytes_wipe(&json);
    json_doc_free(doc);
    if (result)
        kube_config_free(c);
    else
        *ret = c;
    return result;
}

int kube_config_load(struct kube_config **ret, const char *file, const char *context,
                     struct err *err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *named = getenv("KUBECONFIG");
    if (!file && host && *host)
        return kube_config_pod(ret, POD_FOLDER, host, getenv("KUBERNETES_SERVICE_PORT"), err);
    if (!file && named && *named)
        file = named;
    if (!file)
        return err_set(err, ERR_USAGE,
                       "no API server: not in a pod, and no kubeconfig (give --kubeconfig)");
    return kube_config_file(ret, file, context, err);
}
