/*
 * What an inline volume may not name. Whoever makes a pod writes its attributes and its Secret, and
 * root of the node reads and writes what they name: so they name nothing of the node itself, except
 * what the driver's administrator allows. PersistentVolumes and classes are administrators' own.
 */
#include <string.h>
#include <strings.h>

#include "json.h"
#include "mem.h"
#include "node-internal.h"

#define MAKE_A_PV "have an administrator make it a PersistentVolume"

static bool is_allowed(const struct node *n, const char *uri)
{
    for (size_t i = 0; i < n->conf.inline_files.n; i++)
        if (strncmp(uri, "file:///", 8) == 0 &&
            path_is_in(uri + strlen("file://"), n->conf.inline_files.items[i]))
            return true;
    return false;
}

static enum rpc_code check_uri(const struct node *n, enum attribute which, const char *uri,
                               struct err *err)
{
    if (strncasecmp(uri, "file:", 5) != 0 || is_allowed(n, uri))
        return RPC_OK;
    return rpc_fail(err, RPC_INVALID_ARGUMENT,
                    "%s: a folder of the node: an inline volume may not show it (" MAKE_A_PV
                    ", or allow the folder with the driver's --inline-file)",
                    attribute_name(which));
}

static enum rpc_code check_several(const struct node *n, const char *text, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    enum rpc_code code = RPC_OK;
    if (json_parse(&doc, "uri", text, strlen(text), err))
        return RPC_INVALID_ARGUMENT;
    struct json root = json_root(doc), list = json_get(&root, "sources");
    for (size_t i = 0; i < json_count(&list) && !code; i++) {
        struct json source = json_at(&list, i);
        const char *uri;
        code = json_str(&source, "uri", &uri, err) ? RPC_INVALID_ARGUMENT
                                                   : check_uri(n, ATTR_URI, uri, err);
    }
    return code;
}

static enum rpc_code check_cache(const struct node *n, const char *tiers, struct err *err)
{
    const char *base = node_cache_dir(n);
    for (const char *v = tiers; *v;) {
        size_t len = strcspn(v, ",");
        cleanup_free char *tier = xstrndup(v, len);
        *strrchr(tier, '=') = '\0';
        if (!path_is_in(strchr(tier, ':') + 1, base))
            return rpc_fail(err, RPC_INVALID_ARGUMENT,
                            "cache: %s: an inline volume's cache lies below %s (the driver's "
                            "--cache-dir); for another place " MAKE_A_PV,
                            tier, base);
        v += len + (v[len] == ',');
    }
    return RPC_OK;
}

static enum rpc_code check_attributes(const struct node *n, const struct attributes *a,
                                      struct err *err)
{
    const char *uri = a->value[ATTR_URI], *catalogs = a->value[ATTR_CATALOGS];
    const char *peers = a->value[ATTR_PEERS];
    enum rpc_code code =
        uri_is_several(uri) ? check_several(n, uri, err) : check_uri(n, ATTR_URI, uri, err);
    if (!code && catalogs)
        code = check_uri(n, ATTR_CATALOGS, catalogs, err);
    if (!code && a->value[ATTR_CACHE])
        code = check_cache(n, a->value[ATTR_CACHE], err);
    if (!code && peers && strncmp(peers, "http://", 7) != 0 && strncmp(peers, "https://", 8) != 0)
        code = rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "peers: an inline volume names addresses, no file of the node "
                        "(http://HOST:PORT,…)");
    return code;
}

static enum rpc_code check_secrets(const struct secrets *s, struct err *err)
{
    static const char *const keys[] = {"web_identity_token_file", "credential_source"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (s->keys.len && strcasestr(s->keys.data, keys[i]))
            return rpc_fail(err, RPC_INVALID_ARGUMENT,
                            "secrets: credentials: %s: what the node has is not for an inline "
                            "volume (give keys, or " MAKE_A_PV ")",
                            keys[i]);
    return RPC_OK;
}

enum rpc_code inline_check(const struct node *n, const struct attributes *a,
                           const struct secrets *secrets, struct err *err)
{
    enum rpc_code code = a ? check_attributes(n, a, err) : RPC_OK;
    return code ? code : check_secrets(secrets, err);
}
