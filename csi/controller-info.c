/* The Controller service: what is asked about volumes, and about the service itself. */
#include <inttypes.h>
#include <string.h>
#include <sys/statvfs.h>

#include "conf.h"
#include "controller-internal.h"
#include "mem.h"

#define DEFAULT_CAPACITY (10ll << 30) /* of a cache that nobody sized */

static struct controller *of(void *arg)
{
    return ((const struct plugin *)arg)->controller;
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

PB(Volume) * volume_message(struct arena *arena, const struct created *v)
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

/* --- questions -------------------------------------------------------------------------------- */

enum rpc_code controller_validate(void *arg, struct rpc_call *call, const void *request,
                                  void *response, struct err *err)
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
    const struct created *v = created_find(c, q->volume_id, false, call->arena);
    if (!v || !v->done)
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

enum rpc_code controller_list_volumes(void *arg, struct rpc_call *call, const void *request,
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

enum rpc_code controller_get_volume(void *arg, struct rpc_call *call, const void *request,
                                    void *response, struct err *err)
{
    const PB(ControllerGetVolumeRequest) *q = request;
    PB(ControllerGetVolumeResponse) *r = response;
    enum rpc_code code = check_id("volume_id", q->volume_id, err);
    if (code)
        return code;
    call->subject = q->volume_id;
    const struct created *v = created_find(of(arg), q->volume_id, false, call->arena);
    if (!v || !v->done)
        return rpc_fail(err, RPC_NOT_FOUND, "volume %s: not made by this driver", q->volume_id);
    r->volume = volume_message(call->arena, v);
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

enum rpc_code controller_get_capacity(void *arg, struct rpc_call *call, const void *request,
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
    int64_t room = free_below(c->conf.cache_dir ? c->conf.cache_dir : CACHE_DIR_DEFAULT);
    r->available_capacity = room < DEFAULT_CAPACITY ? room : DEFAULT_CAPACITY;
    return RPC_OK;
}

/* --- capabilities ----------------------------------------------------------------------------- */

#define CONTROLLER_CAPABILITY(name) CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__##name

enum rpc_code controller_get_capabilities(void *arg, struct rpc_call *call, const void *request,
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
