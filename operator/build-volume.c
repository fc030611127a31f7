/* A set as a volume: what the CSI driver is told of it (docs/csi.md). */
#include "build-volume.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "conf.h"
#include "mem.h"

#define HANDLE_MAX 128 /* bytes of a volume's id */
#define NAME_MAX_  253 /* of an object */
#define ANY_SIZE   "10Pi"
#define ALL_MIB    (1ll << 30) /* what the disk has: the driver keeps a tenth of it free */

/* --- names ------------------------------------------------------------------------------------ */

char *build_volume_name(const struct set_plan *p, const char *for_ns)
{
    if (strcmp(for_ns, p->ns) == 0)
        return part_name(NAME_MAX_, "%s.%s", p->ns, p->name);
    return part_name(NAME_MAX_, "%s.%s.for.%s", p->ns, p->name, for_ns);
}

static char *handle(const struct set_plan *p, const char *for_ns)
{
    cleanup_free char *name = build_volume_name(p, for_ns);
    return part_name(HANDLE_MAX, "%s", name);
}

/* --- cache ------------------------------------------------------------------------------------ */

/* The folder of a node that a level's `path` (one of its list) gives this set; the caller frees. */
static char *build_cache_folder(const struct set_plan *p, const char *path, size_t len)
{
    cleanup_free char *own = part_name(PART_NAME_MAX, "%s.%s", p->ns, p->name);
    while (len > 1 && path[len - 1] == '/')
        len--;
    return xasprintf("%.*s/%s", (int)len, path, own);
}

void build_cache_folders(const struct set_plan *p,
                         void (*each)(void *arg, const char *medium, const char *folder,
                                      int64_t mib),
                         void *arg)
{
    const struct sampleset_cache *cache = p->spec->cache;
    if (!cache || !cache->levels.n) {
        cleanup_free char *folder = build_cache_folder(p, "/dev/shm", 8);
        each(arg, "MEM", folder, ALL_MIB);
        return;
    }
    for (size_t i = 0; i < cache->levels.n; i++) {
        const struct sampleset_level *level =
            &((const struct sampleset_level *)cache->levels.items)[i];
        int64_t n = 1;
        for (const char *c = level->path; *c; c++)
            n += *c == ':';
        for (const char *path = level->path;;) {
            size_t len = strcspn(path, ":");
            cleanup_free char *folder = build_cache_folder(p, path, len);
            int64_t mib = level->mib > 0 ? level->mib / n : ALL_MIB;
            each(arg, level->medium, folder, mib > 0 ? mib : 1);
            if (!path[len])
                break;
            path += len + 1;
        }
    }
}

static void add_tier(void *arg, const char *medium, const char *folder, int64_t mib)
{
    struct bytes *out = arg;
    const char *tier = strcmp(medium, "MEM") == 0   ? "mem"
                       : strcmp(medium, "HDD") == 0 ? "hdd"
                                                    : "ssd";
    bytes_addf(out, "%s%s:%s=%" PRId64 "MiB", out->len ? "," : "", tier, folder, mib);
}

/* --- options ---------------------------------------------------------------------------------- */

/* What the driver knows by these names and the spec does not say elsewhere. */
static const char *const own_options[] = {
    "bandwidth", "commit",  "direct",  "endpoint", "free-space", "memory", "peers",
    "prefetch",  "profile", "refresh", "region",   "catalogs",   NULL};
/* Values that the driver would refuse when the first pod comes. */
static const struct {
    const char *option;
    int (*check)(const char *text, uint64_t *ret, struct err *err);
} amounts[] = {{"bandwidth", conf_rate},
               {"memory", conf_size},
               {"prefetch", conf_size},
               {"refresh", conf_duration}};
static const char *const juicefs_options[] = {"free-space-ratio", "download-limit", "buffer-size",
                                              "prefetch",         "read-only",      NULL};
/* Said by spec.cache.levels where there are some. */
static const char *const juicefs_cache[] = {"cache-dir", "cache-size", NULL};

static bool is_among(const char *const *list, const char *name)
{
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

static char *option_text(const struct json *m)
{
    const char *text;
    cleanup_bytes struct bytes plain = {0};
    if (json_as_str(m, &text, NULL)) {
        json_text(m, &plain);
        text = plain.data;
    }
    char *option = xasprintf("%s=%s", m->key, text);
    if (strcmp(option + strlen(m->key), "=true") == 0 && strcmp(m->key, "read-only") == 0)
        option[strlen(m->key)] = '\0';
    return option;
}

/* Why an option is not handed on; NULL: it is. The driver parts options at commas: one in a value
 * would begin another option, which the spec does not allow or says elsewhere (uri=file:///…). */
static const char *why_not(const struct set_plan *p, const char *option, struct err *why)
{
    const char *value = strchr(option, '=');
    if (strchr(option, ','))
        return "has a comma in it";
    if (strncmp(option, "catalogs=", 9) == 0 && !set_may_name(p, option + 9))
        return "is a folder of the nodes";
    for (size_t i = 0; value && i < API_COUNT(amounts); i++)
        if (strncmp(option, amounts[i].option, (size_t)(value - option)) == 0 &&
            strlen(amounts[i].option) == (size_t)(value - option) &&
            amounts[i].check(value + 1, &(uint64_t){0}, why))
            return why->msg;
    return NULL;
}

/* Of spec.csi: those that nobody knows, and those that are refused. */
struct not_used {
    struct bytes unknown, refused;
};

static void add_options(const struct set_plan *p, const char *text, const char *const *known,
                        const char *const *more, struct json_writer *w, struct not_used *not_used)
{
    struct bytes *unknown = &not_used->unknown, *refused = &not_used->refused;
    cleanup_json struct json_doc *doc = NULL;
    if (!text || json_parse(&doc, "options", text, strlen(text), NULL))
        return;
    struct json all = json_root(doc);
    for (size_t i = 0; json_want_object(&all, NULL) == 0 && i < json_count(&all); i++) {
        struct json m = json_member(&all, i);
        struct json *item = &m;
        bool scalar = json_want_object(item, NULL) && json_want_array(item, NULL);
        if (!scalar || (!is_among(known, m.key) && !(more && is_among(more, m.key)))) {
            bytes_addf(unknown, "%s%s", unknown->len ? ", " : "", m.key);
            continue;
        }
        cleanup_free char *option = option_text(&m);
        struct err because = {0};
        const char *why = why_not(p, option, &because);
        if (why)
            bytes_addf(refused, "%s%s %s", refused->len ? ", " : "", m.key, why);
        else
            jw_str(w, NULL, option);
    }
}

static void write_options(struct set_plan *p, struct json_writer *w)
{
    const struct sampleset_csi *csi = p->spec->csi;
    const struct sampleset_cache *cache = p->spec->cache;
    struct not_used not_used = {0};
    if (!csi)
        return;
    bool levels = cache && cache->levels.n;
    jw_array(w, "mountOptions");
    add_options(p, csi->options, own_options, NULL, w, &not_used);
    add_options(p, csi->juicefs, juicefs_options, levels ? NULL : juicefs_cache, w, &not_used);
    jw_end(w);
    if (not_used.refused.len)
        part_condition_warn(&p->conditions, "OptionsKnown", "RefusedOptions",
                            "these options of spec.csi are not used: %s", not_used.refused.data);
    else if (not_used.unknown.len)
        part_condition_warn(&p->conditions, "OptionsKnown", "UnknownOptions",
                            "these options of spec.csi have no counterpart and are not used: %s "
                            "(docs/csi.md lists those that have)",
                            not_used.unknown.data);
    else
        part_condition(&p->conditions, "OptionsKnown", "True", "Known", "all options are used");
    bytes_release(&not_used.unknown);
    bytes_release(&not_used.refused);
}

static bool has_option(const struct set_plan *p, const char *name)
{
    cleanup_json struct json_doc *doc = NULL;
    const char *text = p->spec->csi ? p->spec->csi->juicefs : NULL;
    if (!text || json_parse(&doc, "options", text, strlen(text), NULL))
        return false;
    struct json all = json_root(doc);
    return json_has(&all, name);
}

/* --- the objects ------------------------------------------------------------------------------ */

static void write_attributes(const struct set_plan *p, struct json_writer *w)
{
    const struct sampleset_cache *cache = p->spec->cache;
    cleanup_bytes struct bytes tiers = {0};
    build_cache_folders(p, add_tier, &tiers);
    jw_object(w, "volumeAttributes");
    jw_str(w, "uri", p->store.uri);
    if (p->store.endpoint)
        jw_str(w, "endpoint", p->store.endpoint);
    if (p->store.region)
        jw_str(w, "region", p->store.region);
    if ((cache && cache->levels.n) || !has_option(p, "cache-dir"))
        jw_str(w, "cache", tiers.data);
    if (cache && cache->memory) {
        cleanup_free char *memory = xasprintf("%" PRIu64, cache->memory);
        jw_str(w, "memory", memory);
    }
    if (cache && cache->profile && strcmp(cache->profile, "samples") != 0)
        jw_str(w, "profile", cache->profile);
    if (p->store.anonymous)
        jw_str(w, "anonymous", "true");
    jw_end(w);
}

static void write_secret(const struct set_plan *p, struct json_writer *w, const char *key)
{
    if (!p->store.secret)
        return;
    jw_object(w, key);
    jw_str(w, "name", p->store.secret);
    jw_str(w, "namespace", p->store.secret_ns);
    jw_end(w);
}

void build_volume(struct set_plan *p, const char *for_ns, struct bytes *out)
{
    cleanup_free char *id = handle(p, for_ns);
    cleanup_free char *claim = part_claim_name(p->ns, p->name, for_ns);
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_object(&w, "spec");
    jw_raw(&w, "capacity", "{\"storage\":\"" ANY_SIZE "\"}");
    jw_raw(&w, "accessModes", "[\"ReadOnlyMany\"]");
    jw_str(&w, "volumeMode", "Filesystem");
    jw_str(&w, "persistentVolumeReclaimPolicy", "Retain");
    jw_str(&w, "storageClassName", "");
    jw_object(&w, "claimRef");
    jw_str(&w, "apiVersion", "v1");
    jw_str(&w, "kind", "PersistentVolumeClaim");
    jw_str(&w, "namespace", for_ns);
    jw_str(&w, "name", claim);
    jw_end(&w);
    write_options(p, &w);
    jw_object(&w, "csi");
    jw_str(&w, "driver", p->config->csi_driver);
    jw_str(&w, "volumeHandle", id);
    jw_bool(&w, "readOnly", true);
    write_attributes(p, &w);
    /* To stage: the mount is made with them. To publish: those that changed since are taken up. */
    write_secret(p, &w, "nodeStageSecretRef");
    write_secret(p, &w, "nodePublishSecretRef");
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
}

void build_claim(const struct set_plan *p, const char *for_ns, struct bytes *out)
{
    cleanup_free char *volume = build_volume_name(p, for_ns);
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_object(&w, "spec");
    jw_raw(&w, "accessModes", "[\"ReadOnlyMany\"]");
    jw_str(&w, "volumeMode", "Filesystem");
    jw_str(&w, "storageClassName", "");
    jw_str(&w, "volumeName", volume);
    jw_raw(&w, "resources", "{\"requests\":{\"storage\":\"" ANY_SIZE "\"}}");
    jw_end(&w);
    jw_end(&w);
}
