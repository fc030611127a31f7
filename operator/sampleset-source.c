/* Where a set's samples are: a store, a claim's folder, or several of them. */
#include <limits.h>
#include <string.h>

#include "dir.h"
#include "mem.h"
#include "object.h"
#include "sampleset-internal.h"

#define SOURCE       "SourceValid"
#define CLAIM_WAIT_S 5 /* a claim's news do not say whose source it is */

bool set_may_name(const struct set_plan *p, const char *uri)
{
    static const char scheme[] = "file://";
    if (p->config->set_files.n == 0 || strncasecmp(uri, "file:", strlen("file:")) != 0)
        return true;
    const char *folder = uri + strlen(scheme);
    if (strncasecmp(uri, scheme, strlen(scheme)) != 0 || path_leads_up(folder))
        return false;
    for (size_t i = 0; i < p->config->set_files.n; i++) {
        const char *allowed = p->config->set_files.items[i];
        size_t len = strlen(allowed);
        while (len && allowed[len - 1] == '/')
            len--;
        if (strncmp(folder, allowed, len) == 0 && (folder[len] == '/' || !folder[len]))
            return true;
    }
    return false;
}

static bool uri_use(struct set_plan *p, struct set_store *s, const char *field, const char *uri)
{
    cleanup_free char *why = store_uri_check(uri);
    if (why) {
        part_condition_warn(&p->conditions, SOURCE, "InvalidURI", "%s: %s", field, why);
        return false;
    }
    if (!set_may_name(p, uri)) {
        part_condition_warn(&p->conditions, SOURCE, "FolderOfNode",
                            "%s: \"%s\" is a folder of the nodes (have an administrator make it a "
                            "PersistentVolume and name its claim, or allow the folder with the "
                            "operator's --set-file)",
                            field, uri);
        return false;
    }
    s->uri = uri;
    return true;
}

static bool claim_fails(struct set_plan *p, const char *reason, const char *claim, const char *why)
{
    part_condition_warn(&p->conditions, SOURCE, reason, "spec.source.persistentVolumeClaim %s: %s",
                        claim, why);
    plan_again(p, CLAIM_WAIT_S);
    return false;
}

/* A folder of a claim that nodes can reach without it: one of the node itself, or one of ours. */
static bool claim_use(struct set_plan *p, struct set_store *s, const struct sampleset_source *src)
{
    const char *name = src->claim->name, *path = src->claim_path ? src->claim_path : "";
    const char *ns =
        src->claim->namespace && *src->claim->namespace ? src->claim->namespace : p->ns;
    if (strcmp(ns, p->ns) != 0)
        return claim_fails(p, "ClaimElsewhere", name, "is in another namespace than the set");
    const struct json *claim = view_get(p->v, KIND_PVC, ns, name);
    if (view_incomplete(p->v))
        return false;
    if (!claim)
        return claim_fails(p, "ClaimMissing", name, "there is none (create it)");
    struct json spec = json_get(claim, "spec"), status = json_get(claim, "status");
    const char *volume = part_text(&spec, "volumeName"), *phase = part_text(&status, "phase");
    /* Who makes a claim may name any volume in it: only the binding says that it is theirs. */
    if (!volume || !phase || strcmp(phase, "Bound") != 0)
        return claim_fails(p, "ClaimPending", name, "is not bound to a volume yet");
    const struct json *pv = view_get(p->v, KIND_PV, NULL, volume);
    if (view_incomplete(p->v))
        return false;
    if (!pv)
        return claim_fails(p, "ClaimUnknown", name, "its volume cannot be seen");
    struct json of = json_get(pv, "spec"), host = json_get(&of, "hostPath"),
                local = json_get(&of, "local"), csi = json_get(&of, "csi"),
                attributes = json_get(&csi, "volumeAttributes");
    const char *folder = part_text(host.node ? &host : &local, "path");
    const char *uri = part_text(&attributes, "uri");
    const char *driver = part_text(&csi, "driver");
    path += strspn(path, "/");
    if (path_leads_up(path))
        return claim_fails(p, "InvalidPath", name, "spec.source.path leads out of it");
    if (folder) {
        s->made = xasprintf("file://%s%s%s", folder, *path ? "/" : "", path);
    } else if (uri && driver && strcmp(driver, p->config->csi_driver) == 0) {
        size_t len = strlen(uri);
        bool slash = *path && uri[len - 1] != '/';
        s->made = xasprintf("%s%s%s", uri, slash ? "/" : "", path);
        /* The store is the volume's; the set may know better. */
        s->endpoint = s->endpoint ? s->endpoint : part_text(&attributes, "endpoint");
        s->region = s->region ? s->region : part_text(&attributes, "region");
    } else {
        return claim_fails(p, "ClaimUnsupported", name,
                           "its volume is neither a folder of a node nor of our driver (give the "
                           "store's uri instead)");
    }
    s->uri = s->made;
    return true;
}

static bool one_source(struct set_plan *p, struct set_store *s, const struct sampleset_source *src)
{
    s->endpoint = src->endpoint;
    s->region = src->region;
    if (src->claim ? !claim_use(p, s, src)
                   : !src->uri || !uri_use(p, s, "spec.source.uri", src->uri))
        return false;
    return set_take_keys(p, s, src->secret ? src->secret : p->spec->secret);
}

/* Folders' names like "train/", or "": as a set file has them (cachefs/object/set.c). */
static bool is_place(const char *at)
{
    for (at += *at == '/'; *at; at += strcspn(at, "/"), at += *at == '/') {
        size_t len = strcspn(at, "/");
        if (len == 0 || len > NAME_MAX || part_is_dots(at, len))
            return false;
    }
    return true;
}

static bool place_use(struct set_plan *p, const char *at)
{
    if (!at || is_place(at))
        return true;
    part_condition_warn(&p->conditions, SOURCE, "InvalidPlace",
                        "spec.sources: at: \"%.200s\" is no place in the set (want folders' names "
                        "like train/, or nothing)",
                        at);
    return false;
}

/* Several sources are one set: their list travels as a set file does. */
static bool several_sources(struct set_plan *p, struct set_store *s)
{
    struct bytes text = {0};
    struct json_writer w;
    jw_init(&w, &text);
    jw_object(&w, NULL);
    jw_array(&w, "sources");
    bool ok = true;
    for (size_t i = 0; ok && i < p->spec->sources.n; i++) {
        const struct sampleset_source *src =
            &((const struct sampleset_source *)p->spec->sources.items)[i];
        struct set_store one = {.endpoint = src->endpoint, .region = src->region};
        ok = place_use(p, src->at) &&
             (src->claim ? claim_use(p, &one, src)
                         : src->uri && uri_use(p, &one, "spec.sources", src->uri));
        if (ok && i == 0) { /* one mount has one store's options, and one pair of keys */
            s->endpoint = one.endpoint;
            s->region = one.region;
            s->uri = one.uri;
            ok = set_take_keys(p, s, src->secret ? src->secret : p->spec->secret);
        }
        jw_object(&w, NULL);
        jw_str(&w, "uri", one.uri);
        if (src->at)
            jw_str(&w, "at", src->at);
        jw_end(&w);
        set_store_release(&one);
    }
    jw_end(&w);
    jw_end(&w);
    s->made = bytes_take(&text);
    s->uri = ok ? s->made : NULL;
    return ok;
}

/* The driver takes no other, and says so where pods wait for their volume only. */
static bool endpoint_holds(struct set_plan *p)
{
    const char *url = p->store.endpoint;
    bool is_url =
        !url || !*url || strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
    if (is_url && !(url && strchr(url, '@')))
        return true;
    part_condition_warn(&p->conditions, SOURCE, "InvalidEndpoint",
                        "the endpoint %s (want http://HOST or https://HOST; keys go into a Secret; "
                        "delete the set and make it anew)",
                        is_url ? "has a user or a password in it" : "is no URL");
    return false;
}

void set_source(struct set_plan *p)
{
    const struct sampleset_spec *spec = p->spec;
    struct set_store *source = spec->sync ? &p->from : &p->store;
    bool ok;
    if (spec->source)
        ok = one_source(p, source, spec->source);
    else if (spec->sources.n)
        ok = several_sources(p, source);
    else {
        part_condition_warn(&p->conditions, SOURCE, "NoSource",
                            "no source is given (set spec.source.uri)");
        ok = false;
    }
    if (ok && spec->sync)
        ok = uri_use(p, &p->store, "spec.sync.destination", spec->sync->destination) &&
             set_take_keys(p, &p->store, spec->sync->secret ? spec->sync->secret : spec->secret);
    ok = ok && endpoint_holds(p);
    if (ok)
        part_condition(&p->conditions, SOURCE, "True", "Parsed", "the samples are read from %s",
                       spec->sources.n ? "several sources" : p->store.uri);
    p->store_ok = ok;
}
