/*
 * The Controller service: volumes.
 *
 * CreateVolume: arguments -> name begun -> record there? compare, else write it -> prefix and mark.
 * The record comes first, so that a mark in the store always has one; DeleteVolume removes it last.
 */
#define LOG_MODULE "controller"
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <sys/statvfs.h>

#include "clock.h"
#include "conf.h"
#include "controller-internal.h"
#include "hash.h"
#include "mem.h"

#define DEFAULT_CACHE    "/var/cache/sampan"
#define DEFAULT_CAPACITY (10ll << 30) /* of a cache that nobody sized */
#define SUFFIX_CHARS     16

static struct controller *of(void *arg)
{
    return ((const struct plugin *)arg)->controller;
}

/* --- what a volume is to be ------------------------------------------------------------------- */

struct wanted {
    char id[ID_MAX + 1];
    const char *name;
    struct attributes attributes;
    int64_t capacity, limit;
    const char *prefix;   /* "" */
    const char *snapshot; /* "" */
    struct bytes options;
    struct bytes credentials;
};

static void wanted_release(struct wanted *w)
{
    if (w->credentials.data)
        explicit_bzero(w->credentials.data, w->credentials.cap);
    bytes_release(&w->credentials);
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

static enum rpc_code read_source(struct controller *c, const PB(VolumeContentSource) * s,
                                 struct wanted *w, struct arena *arena, struct err *err)
{
    w->snapshot = "";
    if (!s)
        return RPC_OK;
    if (s->volume)
        return rpc_fail(
            err, RPC_INVALID_ARGUMENT,
            "volume_content_source: a volume: nothing is copied here (name the same uri, "
            "or a snapshot)");
    if (!s->snapshot)
        return rpc_fail(err, RPC_INVALID_ARGUMENT,
                        "volume_content_source: neither snapshot nor volume");
    enum rpc_code code = check_id("snapshot_id", s->snapshot->snapshot_id, err);
    if (code)
        return code;
    const struct created *snapshot = created_find(c, s->snapshot->snapshot_id, true);
    if (!snapshot)
        return rpc_fail(err, RPC_NOT_FOUND, "snapshot %s: not one of this driver",
                        s->snapshot->snapshot_id);
    struct attributes of_set = {0};
    code = attributes_of_text(&of_set, arena, snapshot->options, err);
    static const enum attribute taken[] = {ATTR_URI, ATTR_ENDPOINT, ATTR_REGION, ATTR_VERSION,
                                           ATTR_CATALOGS};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (of_set.value[taken[i]])
            w->attributes.value[taken[i]] = of_set.value[taken[i]];
    w->snapshot = arena_text(arena, snapshot->id);
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
        attributes_identity(a, -1, &identity);
        state_name(identity.data, hash);
        hash[SUFFIX_CHARS] = '\0';
        folder = hash;
    }
    if (a->value[ATTR_CACHE])
        a->value[ATTR_CACHE] = own_tiers(arena, a->value[ATTR_CACHE], folder);
    attributes_text(a, &w->options);
}

static enum rpc_code read_create(struct controller *c, const PB(CreateVolumeRequest) * q,
                                 struct wanted *w, struct arena *arena, struct err *err)
{
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
    if (!code)
        code = read_source(c, q->volume_content_source, w, arena, err);
    if (!code)
        code = attributes_check(&w->attributes, arena, err);
    if (!code)
        code = secrets_ini(q->secrets, q->n_secrets, &w->credentials, err);
    if (code)
        return code;
    w->name = q->name;
    created_id(q->name, w->id);
    make_own(w, arena);
    return RPC_OK;
}

/* --- answers ---------------------------------------------------------------------------------- */

/* The attributes as the volume's context: what is in the record's text. */
static void add_context(struct arena *arena, const char *options, PB(Volume) * v)
{
    v->volume_context = arena_alloc(arena, ATTR_COUNT * sizeof *v->volume_context);
    for (const char *end; (end = strchr(options, '\n')) && v->n_volume_context < ATTR_COUNT;
         options = end + 1) {
        const char *equals = memchr(options, '=', (size_t)(end - options));
        if (!equals)
            continue;
        PB(Pair) *p = PB_NEW(arena, Pair, PAIR);
        p->key = arena_format(arena, "%.*s", (int)(equals - options), options);
        p->value = arena_format(arena, "%.*s", (int)(end - equals - 1), equals + 1);
        v->volume_context[v->n_volume_context++] = p;
    }
}

static PB(Volume) * volume_message(struct arena *arena, const struct created *v)
{
    PB(Volume) *m = PB_NEW(arena, Volume, VOLUME);
    m->volume_id = arena_text(arena, v->id);
    m->capacity_bytes = v->capacity;
    add_context(arena, v->options, m);
    if (!*v->source)
        return m;
    m->content_source = PB_NEW(arena, VolumeContentSource, VOLUME_CONTENT_SOURCE);
    m->content_source->snapshot =
        PB_NEW(arena, VolumeContentSource__SnapshotSource, VOLUME_CONTENT_SOURCE__SNAPSHOT_SOURCE);
    m->content_source->snapshot->snapshot_id = arena_text(arena, v->source);
    return m;
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

static int new_token(char ret[TOKEN_BYTES], struct err *err)
{
    unsigned char random[(TOKEN_BYTES - 1) / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_set(err, ERR_FAILED, "the kernel gives no random bytes");
    hex_encode(ret, random, sizeof random);
    return 0;
}

static int add_record(struct controller *c, const struct wanted *w, struct err *err)
{
    struct created *v = xcalloc(1, sizeof *v);
    v->id = xstrdup(w->id);
    v->name = xstrdup(w->name);
    v->options = xstrdup(w->options.data);
    v->prefix = xstrdup(w->prefix);
    v->source = xstrdup(w->snapshot);
    v->capacity = w->capacity;
    v->made_at = clock_wall_ns() / (int64_t)NS_PER_S;
    if (new_token(v->token, err)) {
        created_free(v);
        return -1;
    }
    return created_add(c, v, err);
}

static enum rpc_code make_prefix(struct controller *c, const struct created *v,
                                 const struct wanted *w, bool is_new, uint64_t deadline_ns,
                                 struct err *err)
{
    cleanup_scratch struct scratch scratch = {0};
    struct place place = {c->conf.mounter, &w->attributes, &scratch, deadline_ns};
    if (!*v->prefix)
        return RPC_OK;
    if (scratch_make(&scratch, c->conf.run, &w->credentials, err) == 0 &&
        prefix_make(&place, v, c->conf.driver_name, err) == 0)
        return RPC_OK;
    enum rpc_code code = err->class == ERR_LIMIT ? RPC_FAILED_PRECONDITION : rpc_code_of(err);
    /* Its token is in the record: that goes only when no mark with it can be left. */
    if (is_new && scratch.path && prefix_remove(&place, v, c->conf.driver_name, NULL) == 0)
        created_remove(c, v, NULL);
    else if (is_new && code == RPC_FAILED_PRECONDITION)
        created_remove(c, v, NULL); /* what is there is somebody else's */
    return code;
}

static enum rpc_code create_volume(void *arg, struct rpc_call *call, const void *request,
                                   void *response, struct err *err)
{
    struct controller *c = of(arg);
    PB(CreateVolumeResponse) *r = response;
    cleanup_wanted struct wanted w = {0};
    cleanup_created struct created_scope scope = {c, NULL};
    enum rpc_code code = read_create(c, request, &w, call->arena, err);
    if (!code)
        code = created_begin(c, w.id, err);
    if (code)
        return code;
    scope.name = call->subject = arena_text(call->arena, w.id);
    const struct created *v = created_find(c, w.id, false);
    bool is_new = !v;
    if (v)
        code = check_same(v, &w, err);
    else if (add_record(c, &w, err))
        code = rpc_code_of(err);
    if (!code && is_new)
        v = created_find(c, w.id, false);
    if (!code)
        code = make_prefix(c, v, &w, is_new, call->deadline_ns, err);
    if (!code)
        r->volume = volume_message(call->arena, v);
    return code;
}

/* --- delete ----------------------------------------------------------------------------------- */

static enum rpc_code remove_prefix(struct controller *c, const struct created *v,
                                   const PB(DeleteVolumeRequest) * q, struct rpc_call *call,
                                   struct err *err)
{
    cleanup_scratch struct scratch scratch = {0};
    cleanup_wanted struct wanted w = {0};
    enum rpc_code code = secrets_ini(q->secrets, q->n_secrets, &w.credentials, err);
    if (!code)
        code = attributes_of_text(&w.attributes, call->arena, v->options, err);
    if (code)
        return code;
    struct place place = {c->conf.mounter, &w.attributes, &scratch, call->deadline_ns};
    if (scratch_make(&scratch, c->conf.run, &w.credentials, err) == 0 &&
        prefix_remove(&place, v, c->conf.driver_name, err) == 0)
        return RPC_OK;
    /* DENIED of ours: the mark; of the store: the keys, which name themselves. */
    return strstr(err->msg, "its mark") ? RPC_FAILED_PRECONDITION : rpc_code_of(err);
}

static enum rpc_code delete_volume(void *arg, struct rpc_call *call, const void *request,
                                   void *response, struct err *err)
{
    struct controller *c = of(arg);
    const PB(DeleteVolumeRequest) *q = request;
    cleanup_created struct created_scope scope = {c, NULL};
    (void)response;
    enum rpc_code code = check_id("volume_id", q->volume_id, err);
    if (!code)
        code = created_begin(c, q->volume_id, err);
    if (code)
        return code;
    scope.name = call->subject = q->volume_id;
    const struct created *v = created_find(c, q->volume_id, false);
    if (!v)
        return RPC_OK; /* gone already, or never ours: then nothing of it is touched */
    if (*v->prefix)
        code = remove_prefix(c, v, q, call, err);
    const char *options = arena_text(call->arena, v->options);
    if (!code && created_remove(c, v, err))
        code = rpc_code_of(err);
    if (!code)
        snapshot_drop_catalog(c, options, call->arena);
    return code;
}

/* --- questions -------------------------------------------------------------------------------- */

static enum rpc_code validate(void *arg, struct rpc_call *call, const void *request, void *response,
                              struct err *err)
{
    struct controller *c = of(arg);
    const PB(ValidateVolumeCapabilitiesRequest) *q = request;
    PB(ValidateVolumeCapabilitiesResponse) *r = response;
    struct err why = {0};
    enum rpc_code code = check_id("volume_id", q->volume_id, err);
    call->subject = code ? NULL : q->volume_id;
    if (!code && !q->n_volume_capabilities)
        code = rpc_fail(err, RPC_INVALID_ARGUMENT, "volume_capabilities: missing");
    if (code)
        return code;
    if (!created_find(c, q->volume_id, false))
        return rpc_fail(err, RPC_NOT_FOUND, "volume %s: not made by this driver", q->volume_id);
    if (check_capabilities(q->volume_capabilities, q->n_volume_capabilities, &why)) {
        r->message = arena_text(call->arena, why.msg);
        return RPC_OK;
    }
    r->confirmed = PB_NEW(call->arena, ValidateVolumeCapabilitiesResponse__Confirmed,
                          VALIDATE_VOLUME_CAPABILITIES_RESPONSE__CONFIRMED);
    r->confirmed->volume_capabilities = q->volume_capabilities;
    r->confirmed->n_volume_capabilities = q->n_volume_capabilities;
    r->confirmed->volume_context = q->volume_context;
    r->confirmed->n_volume_context = q->n_volume_context;
    r->confirmed->parameters = q->parameters;
    r->confirmed->n_parameters = q->n_parameters;
    return RPC_OK;
}

static enum rpc_code list_volumes(void *arg, struct rpc_call *call, const void *request,
                                  void *response, struct err *err)
{
    const PB(ListVolumesRequest) *q = request;
    PB(ListVolumesResponse) *r = response;
    size_t n, begin, end;
    const struct created **list = created_list(of(arg), false, call->arena, &n);
    enum rpc_code code = page_of(list, n, q->starting_token, q->max_entries, &begin, &end, err);
    if (code)
        return code;
    r->entries = arena_alloc(call->arena, (end - begin + 1) * sizeof *r->entries);
    for (size_t i = begin; i < end; i++) {
        PB(ListVolumesResponse__Entry) *e =
            PB_NEW(call->arena, ListVolumesResponse__Entry, LIST_VOLUMES_RESPONSE__ENTRY);
        e->volume = volume_message(call->arena, list[i]);
        r->entries[r->n_entries++] = e;
    }
    if (end < n)
        r->next_token = arena_format(call->arena, "after:%s", list[end - 1]->id);
    return RPC_OK;
}

static enum rpc_code get_volume(void *arg, struct rpc_call *call, const void *request,
                                void *response, struct err *err)
{
    const PB(ControllerGetVolumeRequest) *q = request;
    PB(ControllerGetVolumeResponse) *r = response;
    enum rpc_code code = check_id("volume_id", q->volume_id, err);
    if (code)
        return code;
    call->subject = q->volume_id;
    size_t n;
    const struct created **list = created_list(of(arg), false, call->arena, &n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i]->id, q->volume_id) == 0)
            r->volume = volume_message(call->arena, list[i]);
    if (!r->volume)
        return rpc_fail(err, RPC_NOT_FOUND, "volume %s: not made by this driver", q->volume_id);
    r->status = PB_NEW(call->arena, ControllerGetVolumeResponse__VolumeStatus,
                       CONTROLLER_GET_VOLUME_RESPONSE__VOLUME_STATUS);
    return RPC_OK;
}

/* What the disk below a folder has left; folders that are not there yet are made on that disk. */
static int64_t free_below(const char *folder)
{
    struct statvfs fs;
    cleanup_free char *part = xstrdup(folder);
    while (statvfs(*part ? part : "/", &fs)) {
        char *slash = strrchr(part, '/');
        if (!slash)
            return 0;
        *slash = '\0';
    }
    return (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
}

static int64_t room_of(const char *tiers)
{
    int64_t sum = 0;
    while (*tiers) {
        size_t n = strcspn(tiers, ",");
        cleanup_free char *tier = xstrndup(tiers, n);
        char *dir = strchr(tier, ':') + 1, *equals = strrchr(tier, '=');
        uint64_t limit = 0;
        *equals = '\0';
        int64_t room = conf_size(equals + 1, &limit, NULL) ? 0 : free_below(dir);
        sum += (uint64_t)room < limit ? room : (int64_t)limit;
        tiers += n + (tiers[n] == ',');
    }
    return sum;
}

static enum rpc_code get_capacity(void *arg, struct rpc_call *call, const void *request,
                                  void *response, struct err *err)
{
    struct controller *c = of(arg);
    const PB(GetCapacityRequest) *q = request;
    PB(GetCapacityResponse) *r = response;
    struct attributes a = {0};
    enum rpc_code code =
        attributes_add(&a, call->arena, "parameters", q->parameters, q->n_parameters, err);
    if (!code && q->n_volume_capabilities)
        code = check_capabilities(q->volume_capabilities, q->n_volume_capabilities, err);
    if (code)
        return code;
    if (a.value[ATTR_CACHE]) {
        r->available_capacity = room_of(a.value[ATTR_CACHE]);
        return RPC_OK;
    }
    int64_t room = free_below(c->conf.cache_dir ? c->conf.cache_dir : DEFAULT_CACHE);
    r->available_capacity = room < DEFAULT_CAPACITY ? room : DEFAULT_CAPACITY;
    return RPC_OK;
}

/* --- capabilities ----------------------------------------------------------------------------- */

#define CONTROLLER_CAPABILITY(name) CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__##name

static enum rpc_code get_capabilities(void *arg, struct rpc_call *call, const void *request,
                                      void *response, struct err *err)
{
    static const int types[] = {
        CONTROLLER_CAPABILITY(CREATE_DELETE_VOLUME),
        CONTROLLER_CAPABILITY(LIST_VOLUMES),
        CONTROLLER_CAPABILITY(GET_CAPACITY),
        CONTROLLER_CAPABILITY(CREATE_DELETE_SNAPSHOT),
        CONTROLLER_CAPABILITY(LIST_SNAPSHOTS),
        CONTROLLER_CAPABILITY(GET_VOLUME),
        CONTROLLER_CAPABILITY(SINGLE_NODE_MULTI_WRITER),
    };
    PB(ControllerGetCapabilitiesResponse) *r = response;
    (void)arg;
    (void)request;
    (void)err;
    PB_CAPABILITIES(call->arena, r, ControllerServiceCapability, CONTROLLER_SERVICE_CAPABILITY,
                    types);
    return RPC_OK;
}

/* --- the service ------------------------------------------------------------------------------ */

int controller_open(struct controller **ret, const struct controller_conf *conf, struct err *err)
{
    struct controller *c = xcalloc(1, sizeof *c);
    c->conf = *conf;
    lock_init(&c->lock, RANK_NODE, "controller");
    if (state_open(&c->volumes_dir, conf->state, "created", err) ||
        state_open(&c->snapshots_dir, conf->state, "snapshots", err) || created_load(c, err)) {
        controller_close(c);
        return -1;
    }
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
    lock_destroy(&c->lock);
    free(c);
}

const struct rpc_method controller_methods[] = {
    METHOD("Controller", CreateVolume, create_volume, create_volume, 300),
    METHOD("Controller", DeleteVolume, delete_volume, delete_volume, 3600),
    METHOD("Controller", ValidateVolumeCapabilities, validate_volume_capabilities, validate, 30),
    METHOD("Controller", ListVolumes, list_volumes, list_volumes, 30),
    METHOD("Controller", GetCapacity, get_capacity, get_capacity, 30),
    METHOD("Controller", ControllerGetCapabilities, controller_get_capabilities, get_capabilities,
           10),
    METHOD("Controller", ControllerGetVolume, controller_get_volume, get_volume, 30),
    METHOD("Controller", CreateSnapshot, create_snapshot, snapshot_create, 3600),
    METHOD("Controller", DeleteSnapshot, delete_snapshot, snapshot_delete, 300),
    METHOD("Controller", ListSnapshots, list_snapshots, snapshot_list, 30),
};
const size_t n_controller_methods = sizeof controller_methods / sizeof controller_methods[0];
