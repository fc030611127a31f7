/* What a SampleJob says, as the servers' options. Upstream's paths are those of its own pods. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "dir.h"
#include "mem.h"
#include "object.h"
#include "samplejob-internal.h"
#include "sampler.h"
#include "sampleset-internal.h"

#define OPTIONS   "OptionsValid"
#define SECRET    "SecretUsable"
#define BYTES_A_S 125000 /* of a Mbit */

const char *job_wire_type(const struct job_plan *p)
{
    return p->spec->type;
}

static bool bad(struct job_plan *p, const char *reason, const char *field, const char *what)
{
    part_condition_warn(&p->conditions, OPTIONS, reason, "%s: %s", field, what);
    return false;
}

/* --- paths ------------------------------------------------------------------------------------ */

/* "/mnt/SET/a", "/a" and "a" mean the same. "" is the set itself. */
static const char *inner(const struct job_plan *p, const char *path)
{
    size_t len = strlen(p->set_name);
    if (strncmp(path, "/mnt/", 5) == 0 && strncmp(path + 5, p->set_name, len) == 0 &&
        (path[5 + len] == '/' || !path[5 + len]))
        path += 5 + len;
    while (*path == '/' || (path[0] == '.' && (path[1] == '/' || !path[1])))
        path++;
    return path;
}

/* No path, or the root: everything; `strict`: that is a mistake. */
static bool write_paths(struct job_plan *p, const char *field, const struct api_strings *paths,
                        bool strict, struct json_writer *w)
{
    bool all = !paths->n;
    for (size_t i = 0; i < paths->n; i++) {
        const char *path = inner(p, paths->items[i]);
        if (path_leads_up(path))
            return bad(p, "InvalidPath", field, "a path leads out of the set (want one below it)");
        all = all || !*path;
    }
    if (all && strict)
        return bad(p, "InvalidPath", field,
                   "the whole set would be removed (name files or folders below it)");
    if (all)
        return true;
    jw_array(w, "paths");
    for (size_t i = 0; i < paths->n; i++)
        jw_str(w, NULL, inner(p, paths->items[i]));
    jw_end(w);
    return true;
}

/* Is it a folder that a level names, or upstream's mount of one? All that is cached is meant. */
static bool is_cache_folder(const struct job_plan *p, const char *path)
{
    const struct sampleset_cache *cache = p->set_spec->cache;
    if (strncmp(path, "/cache/", 7) == 0 || strncmp(path, "/dev/shm/", 9) == 0)
        return true;
    for (size_t i = 0; cache && i < cache->levels.n; i++) {
        const char *list = ((const struct sampleset_level *)cache->levels.items)[i].path;
        for (;;) {
            size_t len = strcspn(list, ":");
            if (strncmp(path, list, len) == 0 && (!path[len] || path[len] == '/'))
                return true;
            if (!list[len])
                break;
            list += len + 1;
        }
    }
    return false;
}

/* --- types ------------------------------------------------------------------------------------ */

static bool write_warmup(struct job_plan *p, struct json_writer *w)
{
    static const struct samplejob_warmup none;
    const struct samplejob_warmup *o = p->spec->warmup ? p->spec->warmup : &none;
    const char *strategy = o->strategy                    ? o->strategy
                           : o->nested && o->nested->name ? o->nested->name
                                                          : p->set_spec->strategy;
    cleanup_free char *sampler = sampler_complete(o->sampler ? o->sampler : p->set_spec->sampler,
                                                  object_annotation(p->set, SAMPLER_NOTE));
    if (o->file && *o->file)
        return bad(p, "NotSupported", "warmupOptions.file",
                   "servers take lists of paths alone (name them in warmupOptions.paths)");
    if (!write_paths(p, "warmupOptions.paths", &o->paths, false, w))
        return false;
    if (sampler)
        jw_str(w, "sampler", sampler);
    /* Without a known order, "random" is a deal by name: the servers' own choice. */
    if (strategy && *strategy && (sampler || strcmp(strategy, "random") != 0))
        jw_str(w, "strategy", strategy);
    if (o->verify)
        jw_bool(w, "verify", true);
    return true;
}

static bool write_clear(struct job_plan *p, struct json_writer *w)
{
    const struct api_strings *paths = p->spec->clear ? &p->spec->clear->paths : NULL;
    for (size_t i = 0; paths && i < paths->n; i++)
        if (is_cache_folder(p, paths->items[i]))
            return true;
    return !paths || write_paths(p, "clearOptions.paths", paths, false, w);
}

/* --- keys ------------------------------------------------------------------------------------- */

struct keys {
    const struct json *secret; /* NULL: none */
    bool missing;
};

static struct keys keys_of(struct job_plan *p, const char *ns, const struct api_ref *ref,
                           const char *uri, const char *endpoint)
{
    struct keys k = {0};
    if (!ref || !ref->name)
        return k;
    k.secret = view_get(p->v, KIND_SECRET, ns, ref->name);
    if (view_incomplete(p->v))
        return k;
    if (!k.secret) {
        part_condition_warn(&p->conditions, SECRET, "SecretMissing",
                            "there is no Secret %s/%s (create it with access-key and secret-key)",
                            ns, ref->name);
        k.missing = true;
        return k;
    }
    struct set_store store = {.uri = uri, .endpoint = endpoint};
    if (uri && store_secret_is_other(&store, k.secret)) {
        part_condition(&p->conditions, SECRET, "True", "KeysOfAnotherStore",
                       "storage and bucket in Secret %s/%s name another store than %s: its keys "
                       "are not used there",
                       ns, ref->name, uri);
        k.secret = NULL;
        return k;
    }
    if (!store_has_keys(k.secret)) {
        part_condition_warn(&p->conditions, SECRET, "WrongKeyNames",
                            "Secret %s/%s: want access-key and secret-key (write both into it)", ns,
                            ref->name);
        k.missing = true;
        return k;
    }
    part_condition(&p->conditions, SECRET, "True", "Found", "the keys of Secret %s/%s are used", ns,
                   ref->name);
    return k;
}

/* --- sync ------------------------------------------------------------------------------------- */

struct end { /* of a copy */
    char *uri;
    const char *endpoint, *region;
    const struct api_ref *secret;
    const char *secret_ns;
};

static void end_of_set(const struct job_plan *p, struct end *e)
{
    const struct sampleset_spec *s = p->set_spec;
    const struct sampleset_source *src = s->source      ? s->source
                                         : s->sources.n ? s->sources.items
                                                        : NULL;
    e->uri = src && src->uri ? xstrdup(src->uri) : NULL;
    e->endpoint = src ? src->endpoint : NULL;
    e->region = src ? src->region : NULL;
    e->secret = src && src->secret ? src->secret : s->secret;
    e->secret_ns = p->set_ns;
}

static char *below(const char *uri, const char *path)
{
    size_t len = strlen(uri);
    while (len && uri[len - 1] == '/')
        len--;
    return xasprintf("%.*s/%s", (int)len, uri, path);
}

/* Where what the set shows lies. */
static const char *set_store_uri(const struct job_plan *p)
{
    const struct sampleset_spec *s = p->set_spec;
    return s->sync ? s->sync->destination : s->source ? s->source->uri : NULL;
}

/* The store that holds what the set shows, and whose keys open it. */
static void store_of_set(const struct job_plan *p, struct end *e)
{
    const struct sampleset_sync *own = p->set_spec->sync;
    end_of_set(p, e);
    if (!own)
        return;
    job_text(&e->uri, xstrdup(own->destination));
    e->endpoint = e->region = NULL;
    e->secret = own->secret ? own->secret : p->set_spec->secret;
}

static bool source_of(struct job_plan *p, const struct samplejob_sync *o, struct end *e)
{
    if (!o->source || !*o->source) {
        end_of_set(p, e);
        return e->uri || bad(p, "NoSource", "syncOptions.source", "the set has no source to copy");
    }
    *e = (struct end){xstrdup(o->source), NULL, NULL, p->spec->secret, p->ns};
    cleanup_free char *why = store_uri_check(o->source);
    return !why || bad(p, "InvalidURI", "syncOptions.source", why);
}

static bool destination_of(struct job_plan *p, const struct samplejob_sync *o, struct end *e)
{
    const struct sampleset_sync *own = p->set_spec->sync;
    const char *to = o->destination ? o->destination : "";
    bool uri = strstr(to, "://") && strncmp(to, "file:///mnt/", 12) != 0;
    if (uri) {
        *e = (struct end){xstrdup(to), NULL, NULL, p->spec->secret, p->ns};
        cleanup_free char *why = store_uri_check(to);
        return !why || bad(p, "InvalidURI", "syncOptions.destination", why);
    }
    const char *base = set_store_uri(p), *path = inner(p, strncmp(to, "file://", 7) ? to : to + 7);
    if (!base || (!*path && !own && (!o->source || !*o->source)))
        return bad(p, "NoDestination", "syncOptions.destination",
                   "nothing says where to copy to (name a store, or set spec.sync.destination of "
                   "the set)");
    if (path_leads_up(path))
        return bad(p, "InvalidPath", "syncOptions.destination", "leads out of the set");
    store_of_set(p, e);
    job_text(&e->uri, *path ? below(base, path) : xstrdup(base));
    return true;
}

static void write_rules(const struct samplejob_sync *o, struct json_writer *w)
{
    if (!o->include && !o->exclude)
        return;
    jw_array(w, "rules");
    const char *const names[] = {"include", "exclude"}, *const values[] = {o->include, o->exclude};
    for (size_t i = 0; i < 2; i++) {
        if (!values[i])
            continue;
        jw_object(w, NULL);
        jw_str(w, names[i], values[i]);
        jw_end(w);
    }
    jw_end(w);
}

static void write_flags(const struct samplejob_sync *o, struct json_writer *w)
{
    const struct {
        const char *name;
        bool on;
    } flags[] = {{"update", o->update},
                 {"forceUpdate", o->force_update},
                 {"perms", o->perms},
                 {"dirs", o->dirs},
                 {"dry", o->dry},
                 {"deleteSrc", o->delete_src},
                 {"deleteDst", o->delete_dst}};
    for (size_t i = 0; i < API_COUNT(flags); i++)
        if (flags[i].on)
            jw_bool(w, flags[i].name, true);
}

static void write_texts(const struct samplejob_sync *o, const struct end *from,
                        const struct end *to, struct json_writer *w)
{
    const struct part_pair texts[] = {{"start", o->start},
                                      {"end", o->end},
                                      {"endpoint", from->endpoint},
                                      {"region", from->region},
                                      {"destinationEndpoint", to->endpoint},
                                      {"destinationRegion", to->region}};
    for (size_t i = 0; i < API_COUNT(texts); i++)
        if (texts[i].value && *texts[i].value)
            jw_str(w, texts[i].key, texts[i].value);
}

static bool write_copy(struct job_plan *p, const struct samplejob_sync *o, const struct end *from,
                       const struct end *to, bool secrets, struct json_writer *w, bool *ret_wait)
{
    jw_array(w, "sources");
    jw_str(w, NULL, from->uri);
    jw_end(w);
    jw_str(w, "destination", to->uri);
    if (o->threads > 0)
        jw_int(w, "threads", o->threads > 256 ? 256 : o->threads);
    if (o->mbit > 0)
        jw_int(w, "bandwidth", o->mbit * BYTES_A_S);
    write_texts(o, from, to, w);
    write_flags(o, w);
    write_rules(o, w);
    struct keys a = keys_of(p, from->secret_ns, from->secret, from->uri, from->endpoint);
    struct keys b = keys_of(p, to->secret_ns, to->secret, to->uri, to->endpoint);
    if (a.missing || b.missing) {
        *ret_wait = true;
        return false;
    }
    if (secrets) {
        store_write_keys(w, "credentials", a.secret);
        store_write_keys(w, "destinationCredentials", b.secret);
    }
    return true;
}

static bool write_sync(struct job_plan *p, bool secrets, struct json_writer *w, bool *ret_wait)
{
    static const struct samplejob_sync none;
    const struct samplejob_sync *o = p->spec->sync ? p->spec->sync : &none;
    struct end from = {0}, to = {0};
    bool ok = source_of(p, o, &from) && destination_of(p, o, &to) &&
              write_copy(p, o, &from, &to, secrets, w, ret_wait);
    free(from.uri);
    free(to.uri);
    return ok;
}

/* Where the set's own store is, and the keys with which what is there is changed. */
static bool write_store(struct job_plan *p, bool secrets, struct json_writer *w, bool *ret_wait)
{
    struct end store = {0};
    store_of_set(p, &store);
    if (store.endpoint && *store.endpoint)
        jw_str(w, "endpoint", store.endpoint);
    if (store.region && *store.region)
        jw_str(w, "region", store.region);
    struct keys k = p->spec->secret
                        ? keys_of(p, p->ns, p->spec->secret, store.uri, store.endpoint)
                        : keys_of(p, store.secret_ns, store.secret, store.uri, store.endpoint);
    free(store.uri);
    *ret_wait = k.missing;
    if (secrets && !k.missing)
        store_write_keys(w, "credentials", k.secret);
    return !k.missing;
}

static bool write_rmr(struct job_plan *p, bool secrets, struct json_writer *w, bool *ret_wait)
{
    if (!p->spec->rmr)
        return bad(p, "OptionsMissing", "rmrOptions", "type rmr wants them");
    if (!write_paths(p, "rmrOptions.paths", &p->spec->rmr->paths, true, w))
        return false;
    if (p->spec->rmr->skip_trash)
        jw_bool(w, "skipTrash", true);
    return write_store(p, secrets, w, ret_wait);
}

static bool write_evict(struct job_plan *p, bool secrets, struct json_writer *w, bool *ret_wait)
{
    const struct samplejob_evict *o = p->spec->evict;
    struct json said = build_at(p->object, "spec", "evictOptions", NULL); /* 0 is a measure, too */
    bool by_size = json_has(&said, "toSize"), by_age = json_has(&said, "olderThan"),
         by_use = json_has(&said, "unusedFor");
    bool store = o && o->from && strcmp(o->from, "store") == 0;
    if (!o)
        return bad(p, "OptionsMissing", "evictOptions", "type evict wants them");
    if (o->dry)
        return bad(p, "NotSupported", "evictOptions.dry", SAMPLEJOB_NO_DRY_EVICT);
    if (by_size + by_age + by_use != 1)
        return bad(p, "InvalidOptions", "evictOptions",
                   "want exactly one of olderThan, unusedFor and toSize");
    if (store && by_use)
        return bad(p, "InvalidOptions", "evictOptions.unusedFor",
                   "a node knows only its own reads (with from: store give olderThan or toSize)");
    if (by_age)
        jw_uint(w, "older_than_s", o->older_than / 1000000000);
    if (by_use)
        jw_uint(w, "unused_for_s", o->unused_for / 1000000000);
    if (by_size)
        jw_uint(w, "to", o->to_size);
    if (store)
        jw_bool(w, "store", true);
    return !store || write_store(p, secrets, w, ret_wait);
}

/* --- all -------------------------------------------------------------------------------------- */

bool job_options(struct job_plan *p, bool secrets, struct bytes *out, bool *ret_wait)
{
    const char *type = p->spec->type;
    struct json_writer w;
    bool ok = true;
    *ret_wait = false;
    jw_init(&w, out);
    jw_object(&w, NULL);
    if (strcmp(type, "warmup") == 0)
        ok = write_warmup(p, &w);
    else if (strcmp(type, "clear") == 0)
        ok = write_clear(p, &w);
    else if (strcmp(type, "evict") == 0)
        ok = write_evict(p, secrets, &w, ret_wait);
    else if (strcmp(type, "sync") == 0)
        ok = write_sync(p, secrets, &w, ret_wait);
    else if (strcmp(type, "rmr") == 0)
        ok = write_rmr(p, secrets, &w, ret_wait);
    if (ok) {
        jw_end(&w);
        part_condition(&p->conditions, OPTIONS, "True", "Valid", "the options can be used");
    }
    return ok;
}
