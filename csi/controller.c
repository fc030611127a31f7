/*
 * The Controller service: volumes.
 *
 * CreateVolume: arguments -> id begun -> record there? compare, else write it -> prefix and mark ->
 * the record says done. So a mark in the store always has a record; DeleteVolume removes it last.
 */
#define LOG_MODULE "controller"
#include <inttypes.h>
#include <string.h>

#include "clock.h"
#include "controller-internal.h"
#include "mem.h"

#define SUFFIX_CHARS 16

/* --- what a volume is to be ------------------------------------------------------------------- */

struct wanted {
    char id[ID_MAX + 1];
    const char *name;
    struct attributes attributes;
    int64_t capacity, limit;
    const char *prefix, *snapshot, *catalogs; /* "": none */
    struct bytes options;
    struct secrets secrets;
};

static void wanted_release(struct wanted *w)
{
    secrets_release(&w->secrets);
    bytes_release(&w->options);
}
#define cleanup_wanted CLEANUP(wanted_release)

static enum rpc_code read_range(const PB(CapacityRange) * r, struct wanted *w, struct err *err)
{
    if (!r)
        return RPC_OK;
    if (r->required_bytes < 0 || r->limit_bytes < 0 ||
        (r->limit_bytes && r->required_bytes > r->limit_bytes))
        return rpc_fail(err, RPC_OUT_OF_RANGE,
                        "capacity_range: %" PRId64 " to %" PRId64 " bytes is no range",
                        r->required_bytes, r->limit_bytes);
    w->capacity = r->required_bytes;
    w->limit = r->limit_bytes;
    return RPC_OK;
}

/* The snapshot is begun: it does not go while a volume of it is made. */
static enum rpc_code read_source(struct created_scope *source, const PB(VolumeContentSource) * s,
                                 struct wanted *w, struct arena *arena, struct err *err)
{
    if (s->volume)
        return rpc_fail(
            err, RPC_INVALID_ARGUMENT,
            "volume_content_source: a volume: nothing is copied here (name the same uri, "
            "or a snapshot)");
    if (!s->snapshot)
        return rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "volume_content_source: neither snapshot nor volume");
    const char *id = s->snapshot->snapshot_id;
    enum rpc_code code = check_id("snapshot_id", id, err);
    if (!code)
        code = created_begin(source, CREATED_SNAPSHOT, id, err);
    if (code)
        return code;
    const struct created *snapshot = created_find(source->controller, id, true, arena);
    if (!snapshot || !snapshot->done)
        return rpc_fail(err, RPC_NOT_FOUND, "snapshot %s: not one of this driver", id);
    struct attributes of_set = {0};
    code = attributes_of_text(&of_set, arena, snapshot->options, err);
    static const enum attribute taken[] = {ATTR_URI, ATTR_ENDPOINT, ATTR_REGION, ATTR_VERSION,
                                           ATTR_CATALOGS};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (of_set.value[taken[i]])
            w->attributes.value[taken[i]] = of_set.value[taken[i]];
    w->snapshot = snapshot->id;
    w->catalogs = snapshot->catalogs;
    return code;
}

/* Each set of a class has a folder of its own in the class's cache folders. */
static char *own_tiers(struct arena *arena, const char *tiers, const char *folder)
{
    cleanup_bytes struct bytes out = {0};
    while (*tiers) {
        size_t n = strcspn(tiers, ",");
        size_t dir = n;
        while (dir && tiers[dir] != '=')
            dir--;
        bytes_addf(&out, "%s%.*s/%s%.*s", out.len ? "," : "", (int)dir, tiers, folder,
                   (int)(n - dir), tiers + dir);
        tiers += n + (tiers[n] == ',');
    }
    return arena_text(arena, out.data);
}

/* The class's attributes become those of this volume. */
static void make_own(struct wanted *w, struct arena *arena)
{
    struct attributes *a = &w->attributes;
    char hash[STATE_NAME_BYTES];
    const char *folder = w->id;
    w->prefix = "";
    if (attribute_true(a, ATTR_WRITABLE)) {
        w->prefix = arena_format(arena, "%s/%s", a->value[ATTR_URI], w->id);
        a->value[ATTR_URI] = arena_text(arena, w->prefix);
    } else {
        cleanup_bytes struct bytes identity = {0};
        attributes_identity(a, &identity);
        state_name(identity.data, hash);
        hash[SUFFIX_CHARS] = '\0';
        folder = hash;
    }
    if (a->value[ATTR_CACHE])
        a->value[ATTR_CACHE] = own_tiers(arena, a->value[ATTR_CACHE], folder);
    attributes_text(a, &w->options);
}

static enum rpc_code read_create(struct created_scope *source, const PB(CreateVolumeRequest) * q,
                                 struct wanted *w, struct arena *arena, struct err *err)
{
    w->snapshot = w->catalogs = "";
    enum rpc_code code = check_name("name", q->name, err);
    if (!code)
        code = check_capabilities(q->volume_capabilities, q->n_volume_capabilities, err);
    if (!code)
        code = read_range(q->capacity_range, w, err);
    if (!code && q->n_mutable_parameters)
        code = rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "mutable_parameters: %s: nothing can be changed afterwards",
                        q->mutable_parameters[0]->key);
    if (!code)
        code = attributes_add(&w->attributes, arena, "parameters", q->parameters, q->n_parameters,
                              err);
    if (!code && q->volume_content_source)
        code = read_source(source, q->volume_content_source, w, arena, err);
    if (!code)
        code = attributes_check(&w->attributes, arena, err);
    if (!code)
        code = secrets_read(q->secrets, q->n_secrets, &w->secrets, err);
    if (code)
        return code;
    w->name = q->name;
    created_id(q->name, w->id);
    make_own(w, arena);
    return RPC_OK;
}

/* --- create ----------------------------------------------------------------------------------- */

static enum rpc_code check_same(const struct created *v, const struct wanted *w, struct err *err)
{
    if (strcmp(v->name, w->name) != 0)
        return rpc_fail(err, RPC_ALREADY_EXISTS, "%s: taken by the volume named %s", v->id,
                        v->name);
    if (strcmp(v->options, w->options.data) != 0 || strcmp(v->source, w->snapshot) != 0)
        return rpc_fail(err, RPC_ALREADY_EXISTS,
                        "volume %s: made already, with other parameters or from another source",
                        v->id);
    if (v->capacity < w->capacity || (w->limit && v->capacity > w->limit))
        return rpc_fail(err, RPC_ALREADY_EXISTS,
                        "volume %s: made already, with %" PRId64 " bytes asked for", v->id,
                        v->capacity);
    return RPC_OK;
}

static char *mutable(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* What the record is to say when all is done; its strings are the request's. */
static int fill(struct created *v, const struct wanted *w, struct err *err)
{
    *v = (struct created){
        .id = mutable(w->id),
        .name = mutable(w->name),
        .options = w->options.data,
        .prefix = mutable(w->prefix),
        .catalogs = mutable(w->catalogs),
        .source = mutable(w->snapshot),
        .capacity = w->capacity,
        .made_at = clock_wall_ns() / (int64_t)NS_PER_S,
    };
    return created_token(v->token, err);
}

/* The record is there before the prefix: a mark in the store always has one. Whatever cuts this off
 * leaves a record that is not done, and the next call goes on from there. */
static enum rpc_code make(struct controller *c, struct created *v, const struct wanted *w,
                          uint64_t deadline_ns, struct err *err)
{
    cleanup_scratch struct scratch scratch = {0};
    struct place place = {c->conf.mounter, &w->attributes, &scratch, deadline_ns};
    v->done = !*v->prefix;
    if (created_put(c, v, err))
        return rpc_code_of(err);
    if (v->done)
        return RPC_OK;
    if (scratch_make(&scratch, c, &w->secrets.keys, err) == 0 &&
        prefix_make(&place, v, c->conf.driver_name, err) == 0) {
        v->done = true;
        return created_put(c, v, err) ? rpc_code_of(err) : RPC_OK;
    }
    enum rpc_code code = err->class == ERR_LIMIT ? RPC_FAILED_PRECONDITION : rpc_code_of(err);
    /* The token is in the record: that goes only when no mark with it can be left. What is there
     * may be somebody else's. */
    if (code == RPC_FAILED_PRECONDITION ||
        (scratch.path && prefix_remove(&place, v, c->conf.driver_name, NULL) == 0))
        created_remove(c, v, NULL);
    return code;
}

static enum rpc_code create_volume(void *arg, struct rpc_call *call, const void *request,
                                   void *response, struct err *err)
{
    struct controller *c = ((const struct plugin *)arg)->controller;
    PB(CreateVolumeResponse) *r = response;
    cleanup_wanted struct wanted w = {0};
    cleanup_created struct created_scope source = {c, NULL}, scope = {c, NULL};
    enum rpc_code code = read_create(&source, request, &w, call->arena, err);
    if (!code)
        code = created_begin(&scope, CREATED_VOLUME, w.id, err);
    if (code)
        return code;
    call->subject = arena_text(call->arena, w.id);
    const struct created *had = created_find(c, w.id, false, call->arena);
    struct created v = {0};
    if (had)
        code = check_same(had, &w, err);
    if (!code && had)
        v = *had;
    else if (!code && fill(&v, &w, err))
        code = rpc_code_of(err);
    if (!code && !v.done)
        code = make(c, &v, &w, call->deadline_ns, err);
    if (!code)
        r->volume = volume_message(call->arena, &v);
    return code;
}

/* --- delete ----------------------------------------------------------------------------------- */

static enum rpc_code remove_prefix(struct controller *c, const struct created *v,
                                   const struct bytes *credentials, struct rpc_call *call,
                                   struct err *err)
{
    cleanup_scratch struct scratch scratch = {0};
    struct attributes attributes = {0};
    enum rpc_code code = attributes_of_text(&attributes, call->arena, v->options, err);
    if (code)
        return code;
    struct place place = {c->conf.mounter, &attributes, &scratch, call->deadline_ns};
    if (scratch_make(&scratch, c, credentials, err) == 0 &&
        prefix_remove(&place, v, c->conf.driver_name, err) == 0)
        return RPC_OK;
    /* DENIED of ours: the mark; of the store: the keys, which name themselves. */
    return strstr(err->msg, "its mark") ? RPC_FAILED_PRECONDITION : rpc_code_of(err);
}

/* The record goes last. */
static enum rpc_code delete_volume(void *arg, struct rpc_call *call, const void *request,
                                   void *response, struct err *err)
{
    struct controller *c = ((const struct plugin *)arg)->controller;
    const PB(DeleteVolumeRequest) *q = request;
    cleanup_created struct created_scope scope = {c, NULL};
    cleanup_wanted struct wanted w = {0};
    (void)response;
    enum rpc_code code = check_id("volume_id", q->volume_id, err);
    if (!code)
        code = created_begin(&scope, CREATED_VOLUME, q->volume_id, err);
    if (code)
        return code;
    call->subject = q->volume_id;
    const struct created *v = created_find(c, q->volume_id, false, call->arena);
    if (!v)
        return RPC_OK; /* gone already, or never ours: then nothing of it is touched */
    code = secrets_read(q->secrets, q->n_secrets, &w.secrets, err);
    if (!code && *v->prefix)
        code = remove_prefix(c, v, &w.secrets.keys, call, err);
    return code ? code : snapshot_forget(c, v, &w.secrets.keys, call, err);
}

/* --- the service ------------------------------------------------------------------------------ */

int controller_open(struct controller **ret, const struct controller_conf *conf, struct err *err)
{
    struct controller *c = xcalloc(1, sizeof *c);
    c->conf = *conf;
    /* Others may use the run folder, too. */
    char name[STATE_NAME_BYTES];
    state_name(conf->state, name);
    c->scratch = xasprintf("work-%.8s-", name);
    lock_init(&c->lock, RANK_NODE, "controller");
    if (state_open(&c->volumes_dir, conf->state, "created", err) ||
        state_open(&c->snapshots_dir, conf->state, "snapshots", err) || created_load(c, err)) {
        controller_close(c);
        return -1;
    }
    c->volumes_dir.step = c->snapshots_dir.step = conf->step;
    c->volumes_dir.step_arg = c->snapshots_dir.step_arg = conf->step_arg;
    scratch_clean(c);
    catalogs_clean(conf->state);
    *ret = c;
    return 0;
}

void controller_close(struct controller *c)
{
    if (!c)
        return;
    created_free_all(c);
    state_close(&c->volumes_dir);
    state_close(&c->snapshots_dir);
    free(c->scratch);
    lock_destroy(&c->lock);
    free(c);
}

const struct rpc_method controller_methods[] = {
    METHOD("Controller", CreateVolume, create_volume, create_volume, 300),
    METHOD("Controller", DeleteVolume, delete_volume, delete_volume, 3600),
    METHOD("Controller", ValidateVolumeCapabilities, validate_volume_capabilities,
           controller_validate, 30),
    METHOD("Controller", ListVolumes, list_volumes, controller_list_volumes, 30),
    METHOD("Controller", GetCapacity, get_capacity, controller_get_capacity, 30),
    METHOD("Controller", ControllerGetCapabilities, controller_get_capabilities,
           controller_get_capabilities, 10),
    METHOD("Controller", ControllerGetVolume, controller_get_volume, controller_get_volume, 30),
    METHOD("Controller", CreateSnapshot, create_snapshot, snapshot_create, 3600),
    METHOD("Controller", DeleteSnapshot, delete_snapshot, snapshot_delete, 300),
    METHOD("Controller", ListSnapshots, list_snapshots, snapshot_list, 30),
};
const size_t n_controller_methods = sizeof controller_methods / sizeof controller_methods[0];
