/* What StorageClasses, volumes and mount options may say of a set. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "arguments.h"
#include "conf.h"
#include "dir.h"
#include "hash.h"
#include "json.h"
#include "mem.h"

#define HEX_DIGEST  64
#define SEVERAL_MAX (256u << 10) /* records hold it twice, and have an end */

typedef int check_fn(const char *value, struct err *err);

/* --- checks of single values ------------------------------------------------------------------ */

static int want_address(const char *v, struct err *err)
{
    const char *sep = strstr(v, "://");
    const char *at = sep ? strchr(sep + 3, '@') : NULL;
    if (!sep || sep == v || strcspn(v, "{ \t\r\n") < (size_t)(sep - v))
        return err_set(err, ERR_USAGE, "want a URI (s3://BUCKET/PREFIX, file:///DIR, …)");
    if (at && at < sep + 3 + strcspn(sep + 3, "/") && memchr(sep + 3, ':', (size_t)(at - sep - 3)))
        return err_set(err, ERR_USAGE, "a URI with a password in it (put keys into a Secret)");
    return 0;
}

bool uri_is_several(const char *uri)
{
    return uri[strspn(uri, " \t\r\n")] == '{';
}

static int want_source(const struct json *source, struct err *err)
{
    static const char *const keys[] = {"uri", "at", NULL};
    const char *uri, *at;
    if (json_want_object(source, err) || json_only_keys(source, keys, err) ||
        json_str(source, "uri", &uri, err) || json_str_or(source, "at", "", &at, err))
        return -1;
    return want_address(uri, err);
}

/* The text of a set file. Where its folders lie, and whether they get into each other's way, is
 * looked at when it is mounted. */
static int want_several(const char *v, struct err *err)
{
    static const char *const keys[] = {"sources", NULL};
    cleanup_json struct json_doc *doc = NULL;
    if (strlen(v) > SEVERAL_MAX)
        return err_set(err, ERR_USAGE, "more than %u bytes that name sources", SEVERAL_MAX);
    if (json_parse(&doc, "a set of several sources", v, strlen(v), err))
        return -1;
    struct json root = json_root(doc), list = json_get(&root, "sources");
    if (json_want_object(&root, err) || json_only_keys(&root, keys, err) ||
        json_want_array(&list, err))
        return -1;
    for (size_t i = 0; i < json_count(&list); i++) {
        struct json source = json_at(&list, i);
        if (want_source(&source, err))
            return err_wrap(err, "sources[%zu]", i);
    }
    return json_count(&list) ? 0 : err_set(err, ERR_USAGE, "\"sources\" names none");
}

static int want_uri(const char *v, struct err *err)
{
    return uri_is_several(v) ? want_several(v, err) : want_address(v, err);
}

static int want_url(const char *v, struct err *err)
{
    if (strncmp(v, "http://", 7) != 0 && strncmp(v, "https://", 8) != 0)
        return err_set(err, ERR_USAGE, "want http://HOST or https://HOST");
    return strchr(v, '@') ? err_set(err, ERR_USAGE, "a URL with a password in it") : 0;
}

static int want_word(const char *v, struct err *err)
{
    for (; *v; v++)
        if (!isalnum((unsigned char)*v) && *v != '-' && *v != '_' && *v != '.')
            return err_set(err, ERR_USAGE, "want letters, digits, '-', '_' and '.' alone");
    return 0;
}

static int want_size(const char *v, struct err *err)
{
    uint64_t n;
    return conf_size(v, &n, err);
}

static int want_rate(const char *v, struct err *err)
{
    uint64_t n;
    return conf_rate(v, &n, err);
}

static int want_duration(const char *v, struct err *err)
{
    uint64_t n;
    return conf_duration(v, &n, err);
}

static int want_bool(const char *v, struct err *err)
{
    if (strcmp(v, "true") == 0 || strcmp(v, "false") == 0)
        return 0;
    return err_set(err, ERR_USAGE, "want \"true\" or \"false\"");
}

static int want_profile(const char *v, struct err *err)
{
    if (strcmp(v, "samples") == 0 || strcmp(v, "shards") == 0)
        return 0;
    return err_set(err, ERR_USAGE, "want samples or shards");
}

static int want_commit(const char *v, struct err *err)
{
    if (strcmp(v, "close") == 0 || strcmp(v, "background") == 0)
        return 0;
    if (strncmp(v, "interval=", 9) == 0)
        return want_duration(v + 9, err);
    return err_set(err, ERR_USAGE, "want close, background or interval=DURATION");
}

static int want_number(const char *v, struct err *err)
{
    size_t n = strlen(v);
    if (n && n <= 6 && strspn(v, "0123456789") == n)
        return 0;
    return err_set(err, ERR_USAGE, "want a number");
}

static int want_free_space(const char *v, struct err *err)
{
    size_t n = strlen(v);
    if (n > 1 && v[n - 1] == '%' && strspn(v, "0123456789.") == n - 1)
        return 0;
    return want_size(v, err);
}

static int want_digest(const char *v, struct err *err)
{
    if (hex_is(v, HEX_DIGEST))
        return 0;
    return err_set(err, ERR_USAGE, "want the %d hex digits of a version", HEX_DIGEST);
}

/* One tier, "ssd:/DIR=SIZE". */
static int want_tier(const char *v, size_t len, struct err *err)
{
    cleanup_free char *tier = xstrndup(v, len);
    const char *dir = strchr(tier, ':'), *size = strrchr(tier, '=');
    bool kind = dir && (strncmp(tier, "mem:", 4) == 0 || strncmp(tier, "ssd:", 4) == 0 ||
                        strncmp(tier, "hdd:", 4) == 0);
    cleanup_free char *folder = kind && size ? xasprintf("%.*s/", (int)(size - dir), dir) : NULL;
    if (!folder || dir[1] != '/' || size < dir + 3 || path_leads_up(folder))
        return err_set(
            err, ERR_USAGE,
            "\"%s\": want TIER:/DIR=SIZE, for example ssd:/var/cache/sampan=100GiB (TIER "
            "is mem, ssd or hdd)",
            tier);
    return want_size(size + 1, err);
}

static int want_cache(const char *v, struct err *err)
{
    for (;;) {
        size_t n = strcspn(v, ",");
        if (want_tier(v, n, err))
            return -1;
        if (!v[n])
            return 0;
        v += n + 1;
    }
}

/* --- the table -------------------------------------------------------------------------------- */

static const struct row {
    const char *name;
    check_fn *check;  /* NULL: anything */
    const char *flag; /* of `sampan mount`; NULL: none, or a special one */
} table[ATTR_COUNT] = {
    [ATTR_URI] = {"uri", want_uri, NULL},
    [ATTR_ENDPOINT] = {"endpoint", want_url, "--endpoint"},
    [ATTR_REGION] = {"region", want_word, "--region"},
    [ATTR_CACHE] = {"cache", want_cache, NULL},
    [ATTR_MEMORY] = {"memory", want_size, "--memory"},
    [ATTR_PROFILE] = {"profile", want_profile, "--profile"},
    [ATTR_WRITABLE] = {"writable", want_bool, NULL},
    [ATTR_COMMIT] = {"commit", want_commit, "--commit"},
    [ATTR_REFRESH] = {"refresh", want_duration, "--refresh"},
    [ATTR_BANDWIDTH] = {"bandwidth", want_rate, "--bandwidth"},
    [ATTR_PEERS] = {"peers", NULL, "--peers"},
    [ATTR_DIRECT] = {"direct", want_bool, NULL},
    [ATTR_FREE_SPACE] = {"free-space", want_free_space, "--free-space"},
    [ATTR_PREFETCH] = {"prefetch", want_number, "--prefetch"},
    [ATTR_CATALOGS] = {"catalogs", want_address, NULL},
    [ATTR_VERSION] = {"version", want_digest, NULL},
    [ATTR_ANONYMOUS] = {"anonymous", want_bool, NULL},
};

const char *attribute_name(enum attribute a)
{
    return table[a].name;
}

static int find(const char *name)
{
    for (int i = 0; i < ATTR_COUNT; i++)
        if (strcmp(table[i].name, name) == 0)
            return i;
    return -1;
}

static enum rpc_code set_value(struct attributes *a, struct arena *arena, int which,
                               const char *value, struct err *err)
{
    struct err why = {0};
    if (!*value)
        return RPC_OK; /* as good as not given */
    char *own = arena_text(arena, value);
    if (which == ATTR_URI && uri_is_several(value))
        for (char *p = own; (p = strpbrk(p, "\t\r\n"));)
            *p = ' '; /* between words of JSON there is nothing else; options are kept in lines */
    for (const char *p = own; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return rpc_fail(err, RPC_INVALID_ARGUMENT, "%s: has a control character in it",
                            table[which].name);
    if (table[which].check && table[which].check(own, &why))
        return rpc_fail(err, RPC_INVALID_ARGUMENT, "%s: %s: %s", table[which].name,
                        which == ATTR_URI || which == ATTR_ENDPOINT ? "refused" : own, why.msg);
    a->value[which] = own;
    return RPC_OK;
}

static enum rpc_code unknown(const char *what, const char *key, struct err *err)
{
    const char *names[ATTR_COUNT];
    cleanup_bytes struct bytes all = {0};
    for (int i = 0; i < ATTR_COUNT; i++) {
        names[i] = table[i].name;
        bytes_addf(&all, "%s%s", i ? " " : "", table[i].name);
    }
    const char *near = conf_nearest(key, names, ATTR_COUNT);
    if (near)
        return rpc_fail(err, RPC_INVALID_ARGUMENT, "%s: %s: unknown (did you mean %s?)", what, key,
                        near);
    return rpc_fail(err, RPC_INVALID_ARGUMENT, "%s: %s: unknown (known are: %s)", what, key,
                    all.data);
}

/* --- mount options ---------------------------------------------------------------------------- */

static bool is_kernels(const char *option)
{
    static const char *const known[] = {"rw",      "noatime",    "relatime",   "nosuid",
                                        "nodev",   "noexec",     "nodiratime", "defaults",
                                        "_netdev", "allow_other"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(option, known[i]) == 0)
            return true;
    return false;
}

/* What is known of them so far: the one may come without the other, and in either order. */
static enum rpc_code foreign_tiers(struct attributes *a, struct arena *arena, struct err *err)
{
    if (a->cache_mib && want_number(a->cache_mib, NULL))
        return rpc_fail(err, RPC_INVALID_ARGUMENT, "cache-size: %s: want MiB", a->cache_mib);
    if (!a->cache_dir)
        return RPC_OK;
    if (a->cache_dir[0] != '/')
        return rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "cache-dir: want folders, separated by ':' (below /dev/shm for memory)");
    unsigned long mib = a->cache_mib ? strtoul(a->cache_mib, NULL, 10) : 102400, n = 1;
    for (const char *p = a->cache_dir; (p = strchr(p, ':')); p++)
        n++;
    cleanup_bytes struct bytes tiers = {0};
    for (const char *p = a->cache_dir;; p++) {
        size_t len = strcspn(p, ":");
        const char *kind = strncmp(p, "/dev/shm/", 9) == 0 ? "mem" : "ssd";
        bytes_addf(&tiers, "%s%s:%.*s=%luMiB", tiers.len ? "," : "", kind, (int)len, p, mib / n);
        p += len;
        if (!*p)
            break;
    }
    return set_value(a, arena, ATTR_CACHE, tiers.data, err);
}

/* -1: no such option of JuiceFS has a counterpart here. */
static int foreign_option(struct attributes *a, struct arena *arena, const char *key,
                          const char *value, struct err *err)
{
    if (strcmp(key, "cache-dir") == 0) {
        a->cache_dir = arena_text(arena, value);
        return foreign_tiers(a, arena, err);
    }
    if (strcmp(key, "cache-size") == 0) {
        a->cache_mib = arena_text(arena, value);
        return foreign_tiers(a, arena, err);
    }
    if (strcmp(key, "free-space-ratio") == 0) {
        char *end, percent[32];
        double share = strtod(value, &end);
        if (*end || end == value || !(share >= 0 && share < 1))
            return rpc_fail(err, RPC_INVALID_ARGUMENT, "free-space-ratio: %s: want 0 to 1", value);
        snprintf(percent, sizeof percent, "%g%%", share * 100);
        return set_value(a, arena, ATTR_FREE_SPACE, percent, err);
    }
    if (strcmp(key, "download-limit") == 0)
        return set_value(a, arena, ATTR_BANDWIDTH, arena_format(arena, "%sMbit", value), err);
    if (strcmp(key, "buffer-size") == 0)
        return set_value(a, arena, ATTR_MEMORY, arena_format(arena, "%sMiB", value), err);
    return -1;
}

static enum rpc_code add_option(struct attributes *a, struct arena *arena, char *option,
                                struct err *err)
{
    if (strcmp(option, "ro") == 0 || strcmp(option, "read-only") == 0) {
        a->read_only = true;
        return RPC_OK;
    }
    if (!*option || is_kernels(option))
        return RPC_OK;
    char *equals = strchr(option, '=');
    const char *value = equals ? equals + 1 : "true";
    if (equals)
        *equals = '\0';
    int which = find(option);
    if (which >= 0)
        return set_value(a, arena, which, value, err);
    int code = foreign_option(a, arena, option, value, err);
    return code >= 0 ? (enum rpc_code)code : unknown("mount options", option, err);
}

/* A comma ends an option, except before another tier of `cache=`. */
static size_t option_length(const char *text)
{
    size_t n = strcspn(text, ",");
    while (text[n] && (strncmp(text, "cache=", 6) == 0) &&
           (strncmp(text + n, ",mem:", 5) == 0 || strncmp(text + n, ",ssd:", 5) == 0 ||
            strncmp(text + n, ",hdd:", 5) == 0))
        n += 1 + strcspn(text + n + 1, ",");
    return n;
}

enum rpc_code attributes_add_options(struct attributes *a, struct arena *arena, const char *text,
                                     struct err *err)
{
    enum rpc_code code = RPC_OK;
    for (const char *p = text; !code;) {
        size_t n = option_length(p);
        cleanup_free char *option = xstrndup(p, n);
        code = add_option(a, arena, option, err);
        if (!p[n])
            break;
        p += n + 1;
    }
    return code;
}

/* --- maps ------------------------------------------------------------------------------------- */

static bool is_kubernetes_own(const char *key)
{
    return strncmp(key, "csi.storage.k8s.io/", 19) == 0 ||
           strncmp(key, "storage.kubernetes.io/", 22) == 0;
}

enum rpc_code attributes_add(struct attributes *a, struct arena *arena, const char *what,
                             PB(Pair) *const *pairs, size_t n, struct err *err)
{
    enum rpc_code code = RPC_OK;
    for (size_t i = 0; i < n && !code; i++) {
        const char *key = pairs[i]->key;
        int which = find(key);
        if (which >= 0)
            code = set_value(a, arena, which, pairs[i]->value, err);
        else if (strcmp(key, "mountOptions") == 0)
            code = attributes_add_options(a, arena, pairs[i]->value, err);
        else if (!is_kubernetes_own(key))
            code = unknown(what, key, err);
    }
    return code;
}

bool attribute_true(const struct attributes *a, enum attribute which)
{
    return a->value[which] && strcmp(a->value[which], "true") == 0;
}

enum rpc_code attributes_check(struct attributes *a, struct arena *arena, struct err *err)
{
    bool writable = attribute_true(a, ATTR_WRITABLE);
    if (!a->value[ATTR_URI])
        return rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "uri: missing (name the set: uri: s3://BUCKET/PREFIX)");
    if (a->cache_mib && !a->cache_dir)
        return rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "cache-size: goes with cache-dir: name the folders, too");
    if (a->value[ATTR_COMMIT] && !writable)
        return rpc_fail(err, RPC_INVALID_ARGUMENT, "commit: goes with writable: \"true\" alone");
    if (writable && (a->value[ATTR_VERSION] || a->value[ATTR_PEERS] ||
                     (a->value[ATTR_PROFILE] && strcmp(a->value[ATTR_PROFILE], "samples") != 0)))
        return rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "writable: goes neither with profile: shards nor with a version or peers");
    if (writable && attribute_true(a, ATTR_DIRECT))
        return rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "direct: goes not with writable: what is written lies in no packs");
    if (writable && uri_is_several(a->value[ATTR_URI]))
        return rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "writable: goes with one source alone (name one URI)");
    /* One name for one set: what lies below it is the same with and without the last '/'. */
    const char *uri = a->value[ATTR_URI], *path = strstr(uri, "://") + 3;
    size_t n = strlen(uri);
    while (uri + n > path + 1 && uri[n - 1] == '/')
        n--;
    a->value[ATTR_URI] = arena_format(arena, "%.*s", (int)n, uri);
    return RPC_OK;
}

/* --- words ------------------------------------------------------------------------------------ */

static void add_word(struct bytes *out, const char *word)
{
    bytes_add(out, word, strlen(word) + 1);
}

void attributes_words(const struct attributes *a, int64_t gid, struct bytes *out)
{
    for (int i = 0; i < ATTR_COUNT; i++) {
        if (!table[i].flag || !a->value[i])
            continue;
        add_word(out, table[i].flag);
        add_word(out, a->value[i]);
    }
    for (const char *v = a->value[ATTR_CACHE]; v && *v;) {
        size_t n = strcspn(v, ",");
        cleanup_free char *tier = xstrndup(v, n);
        add_word(out, "--cache");
        add_word(out, tier);
        v += n + (v[n] == ',');
    }
    if (attribute_true(a, ATTR_ANONYMOUS))
        add_word(out, "--no-sign-request");
    if (!attribute_true(a, ATTR_WRITABLE))
        return;
    add_word(out, "--writable");
    if (gid < 0)
        return;
    cleanup_free char *number = xasprintf("%lld", (long long)gid);
    add_word(out, "--gid");
    add_word(out, number);
}

void attributes_text(const struct attributes *a, struct bytes *out)
{
    for (int i = 0; i < ATTR_COUNT; i++)
        if (a->value[i])
            bytes_addf(out, "%s=%s\n", table[i].name, a->value[i]);
}

enum rpc_code attributes_of_text(struct attributes *a, struct arena *arena, const char *text,
                                 struct err *err)
{
    enum rpc_code code = RPC_OK;
    for (const char *end; !code && (end = strchr(text, '\n')); text = end + 1) {
        cleanup_free char *line = xstrndup(text, (size_t)(end - text));
        char *equals = strchr(line, '=');
        if (!equals)
            continue;
        *equals = '\0';
        int which = find(line);
        if (which >= 0)
            code = set_value(a, arena, which, equals + 1, err);
    }
    return code;
}

void attributes_identity(const struct attributes *a, struct bytes *out)
{
    static const enum attribute which[] = {ATTR_URI,     ATTR_ENDPOINT, ATTR_REGION,   ATTR_CACHE,
                                           ATTR_PROFILE, ATTR_VERSION,  ATTR_ANONYMOUS};
    for (size_t i = 0; i < sizeof which / sizeof which[0]; i++)
        if (a->value[which[i]])
            bytes_addf(out, "%s=%s\n", table[which[i]].name, a->value[which[i]]);
    if (attribute_true(a, ATTR_WRITABLE))
        bytes_add_str(out, "writable\n");
}
