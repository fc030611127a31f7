/*
 * The Controller service: snapshots. A snapshot of a volume is a version of its set: the catalog as
 * it is listed now, kept under the version's digest. The samples stay where they are; what the
 * source changes afterwards reads as stale in a volume of the older version, and never as other
 * bytes.
 */
#define LOG_MODULE "controller"
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "controller-internal.h"
#include "mem.h"

static PB(Snapshot) * message_of(struct arena *arena, const struct created *s)
{
    PB(Snapshot) *m = PB_NEW(arena, Snapshot, SNAPSHOT);
    m->snapshot_id = arena_text(arena, s->id);
    m->source_volume_id = arena_text(arena, s->source);
    m->size_bytes = s->capacity;
    m->ready_to_use = true;
    m->creation_time = PB_NEW(arena, Timestamp, TIMESTAMP);
    m->creation_time->seconds = s->made_at;
    return m;
}

static void wipe(struct bytes *b)
{
    if (b->data)
        explicit_bzero(b->data, b->cap);
    bytes_release(b);
}

/* What a snapshot is made from. */
struct making {
    char id[ID_MAX + 1];
    const char *name;
    struct attributes attributes; /* of the volume's set */
    struct bytes credentials;
};

static enum rpc_code read_making(struct controller *c, const PB(CreateSnapshotRequest) * q,
                                 struct making *m, struct arena *arena, struct err *err)
{
    struct attributes given = {0};
    enum rpc_code code = check_id("source_volume_id", q->source_volume_id, err);
    if (!code)
        code = check_name("name", q->name, err);
    if (!code)
        code = attributes_add(&given, arena, "parameters", q->parameters, q->n_parameters, err);
    for (int i = 0; i < ATTR_COUNT && !code; i++)
        if (given.value[i] && i != ATTR_CATALOGS)
            code = rpc_fail(err, RPC_INVALID_ARGUMENT,
                            "parameters: %s: a snapshot takes only catalogs",
                            attribute_name((enum attribute)i));
    if (!code)
        code = secrets_ini(q->secrets, q->n_secrets, &m->credentials, err);
    if (code)
        return code;
    const struct created *volume = created_find(c, q->source_volume_id, false);
    if (!volume)
        return rpc_fail(err, RPC_NOT_FOUND, "volume %s: not made by this driver",
                        q->source_volume_id);
    code = attributes_of_text(&m->attributes, arena, volume->options, err);
    if (!code && attribute_true(&m->attributes, ATTR_WRITABLE))
        code = rpc_fail(
            err, RPC_FAILED_PRECONDITION,
            "volume %s: what is written to has no versions (snapshots are of sets that are "
            "read)",
            q->source_volume_id);
    if (given.value[ATTR_CATALOGS])
        m->attributes.value[ATTR_CATALOGS] = given.value[ATTR_CATALOGS];
    m->name = q->name;
    created_id(q->name, m->id);
    return code;
}

static int add_record(struct controller *c, const struct making *m, const char *source,
                      const struct catalog_made *made, struct err *err)
{
    cleanup_bytes struct bytes options = {0};
    attributes_text(&m->attributes, &options);
    struct created *s = xcalloc(1, sizeof *s);
    s->id = xstrdup(m->id);
    s->name = xstrdup(m->name);
    s->options = xstrdup(options.data);
    s->prefix = xstrdup("");
    s->source = xstrdup(source);
    s->capacity = made->bytes;
    s->made_at = clock_wall_ns() / (int64_t)NS_PER_S;
    s->is_snapshot = true;
    return created_add(c, s, err);
}

static enum rpc_code make(struct controller *c, struct making *m, const char *source,
                          struct rpc_call *call, struct err *err)
{
    CLEANUP(scratch_release) struct scratch scratch = {0};
    struct catalog_made made = {0};
    /* A volume that shows an old version has that one and no other. */
    if (m->attributes.value[ATTR_VERSION])
        return rpc_fail(err, RPC_FAILED_PRECONDITION,
                        "volume %s: it shows a snapshot already (make volumes of that one)",
                        source);
    if (scratch_make(&scratch, c->conf.run, &m->credentials, err) ||
        catalog_make(c->conf.mounter, c->conf.state, &m->attributes, scratch.credentials,
                     call->deadline_ns, &made, err))
        return rpc_code_of(err);
    m->attributes.value[ATTR_VERSION] = arena_text(call->arena, made.version);
    return add_record(c, m, source, &made, err) ? rpc_code_of(err) : RPC_OK;
}

enum rpc_code snapshot_create(void *arg, struct rpc_call *call, const void *request, void *response,
                              struct err *err)
{
    struct controller *c = ((const struct plugin *)arg)->controller;
    const PB(CreateSnapshotRequest) *q = request;
    PB(CreateSnapshotResponse) *r = response;
    struct making m = {0};
    cleanup_created struct created_scope scope = {c, NULL};
    enum rpc_code code = read_making(c, q, &m, call->arena, err);
    if (!code)
        code = created_begin(c, m.id, err);
    if (!code) {
        scope.name = call->subject = arena_text(call->arena, m.id);
        const struct created *s = created_find(c, m.id, true);
        if (s && (strcmp(s->source, q->source_volume_id) != 0 || strcmp(s->name, q->name) != 0))
            code = rpc_fail(err, RPC_ALREADY_EXISTS, "snapshot %s: made already, of volume %s",
                            s->id, s->source);
        else if (!s)
            code = make(c, &m, q->source_volume_id, call, err);
    }
    if (!code)
        r->snapshot = message_of(call->arena, created_find(c, m.id, true));
    wipe(&m.credentials);
    return code;
}

/* A catalog goes with the last record that names it. */
void snapshot_drop_catalog(struct controller *c, const char *options, struct arena *arena)
{
    struct attributes a = {0};
    if (attributes_of_text(&a, arena, options, NULL) || !a.value[ATTR_VERSION])
        return;
    for (int kind = 0; kind < 2; kind++) {
        size_t n;
        const struct created **list = created_list(c, kind == 1, arena, &n);
        for (size_t i = 0; i < n; i++)
            if (strstr(list[i]->options, a.value[ATTR_VERSION]))
                return;
    }
    cleanup_free char *path = catalog_path_here(c->conf.state, a.value[ATTR_VERSION]);
    if (unlink(path) && errno != ENOENT)
        log_warn(c->conf.log, "the catalog %s stays: %s", path, strerror(errno));
}

enum rpc_code snapshot_delete(void *arg, struct rpc_call *call, const void *request, void *response,
                              struct err *err)
{
    struct controller *c = ((const struct plugin *)arg)->controller;
    const PB(DeleteSnapshotRequest) *q = request;
    cleanup_created struct created_scope scope = {c, NULL};
    (void)response;
    enum rpc_code code = check_id("snapshot_id", q->snapshot_id, err);
    if (!code)
        code = created_begin(c, q->snapshot_id, err);
    if (code)
        return code;
    scope.name = call->subject = q->snapshot_id;
    const struct created *s = created_find(c, q->snapshot_id, true);
    if (!s)
        return RPC_OK;
    const char *options = arena_text(call->arena, s->options);
    if (created_remove(c, s, err))
        return rpc_code_of(err);
    snapshot_drop_catalog(c, options, call->arena);
    return RPC_OK;
}

static bool is_asked_for(const struct created *s, const PB(ListSnapshotsRequest) * q)
{
    return (!*q->snapshot_id || strcmp(q->snapshot_id, s->id) == 0) &&
           (!*q->source_volume_id || strcmp(q->source_volume_id, s->source) == 0);
}

enum rpc_code snapshot_list(void *arg, struct rpc_call *call, const void *request, void *response,
                            struct err *err)
{
    struct controller *c = ((const struct plugin *)arg)->controller;
    const PB(ListSnapshotsRequest) *q = request;
    PB(ListSnapshotsResponse) *r = response;
    size_t n, kept = 0, begin, end;
    const struct created **list = created_list(c, true, call->arena, &n);
    for (size_t i = 0; i < n; i++)
        if (is_asked_for(list[i], q))
            list[kept++] = list[i];
    enum rpc_code code = page_of(list, kept, q->starting_token, q->max_entries, &begin, &end, err);
    if (code)
        return code;
    r->entries = arena_alloc(call->arena, (end - begin + 1) * sizeof *r->entries);
    for (size_t i = begin; i < end; i++) {
        PB(ListSnapshotsResponse__Entry) *e =
            PB_NEW(call->arena, ListSnapshotsResponse__Entry, LIST_SNAPSHOTS_RESPONSE__ENTRY);
        e->snapshot = message_of(call->arena, list[i]);
        r->entries[r->n_entries++] = e;
    }
    if (end < kept)
        r->next_token = arena_format(call->arena, "after:%s", list[end - 1]->id);
    return RPC_OK;
}
