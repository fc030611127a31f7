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

/* What a snapshot is made from. */
struct making {
    struct created snapshot;
    char id[ID_MAX + 1];
    struct attributes attributes; /* of the volume's set */
    struct secrets secrets;
};

static void making_release(struct making *m)
{
    secrets_release(&m->secrets);
}

static enum rpc_code read_volume(struct making *m, const struct created *volume,
                                 struct arena *arena, struct err *err)
{
    enum rpc_code code = attributes_of_text(&m->attributes, arena, volume->options, err);
    if (code)
        return code;
    if (attribute_true(&m->attributes, ATTR_WRITABLE))
        return rpc_fail(
            err, RPC_FAILED_PRECONDITION,
            "volume %s: what is written to has no versions (snapshots are of sets that are "
            "read)",
            volume->id);
    /* A volume that shows an old version has that one and no other. */
    if (m->attributes.value[ATTR_VERSION])
        return rpc_fail(err, RPC_FAILED_PRECONDITION,
                        "volume %s: it shows a snapshot already (make volumes of that one)",
                        volume->id);
    return RPC_OK;
}

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
        code = secrets_read(q->secrets, q->n_secrets, &m->secrets, err);
    if (code)
        return code;
    const struct created *volume = created_find(c, q->source_volume_id, false, arena);
    if (!volume || !volume->done)
        return rpc_fail(err, RPC_NOT_FOUND, "volume %s: not made by this driver",
                        q->source_volume_id);
    code = read_volume(m, volume, arena, err);
    if (given.value[ATTR_CATALOGS])
        m->attributes.value[ATTR_CATALOGS] = given.value[ATTR_CATALOGS];
    created_id(q->name, m->id);
    static char none[] = "";
    m->snapshot = (struct created){.id = m->id,
                                   .name = q->name,
                                   .prefix = none,
                                   .catalogs = none,
                                   .source = q->source_volume_id,
                                   .is_snapshot = true};
    return code;
}

/* A folder of its own for its catalog: nobody else puts anything there, so it may be removed. */
static int choose_folder(struct making *m, struct arena *arena, struct err *err)
{
    struct created *s = &m->snapshot;
    const char *base = m->attributes.value[ATTR_CATALOGS];
    if (created_token(s->token, err))
        return -1;
    if (base)
        s->catalogs = arena_format(arena, "%s%s%s-%s", base,
                                   base[strlen(base) - 1] == '/' ? "" : "/", s->id, s->token);
    m->attributes.value[ATTR_CATALOGS] = base ? s->catalogs : NULL;
    return 0;
}

static int put_record(struct controller *c, struct making *m, struct arena *arena, struct err *err)
{
    cleanup_bytes struct bytes options = {0};
    attributes_text(&m->attributes, &options);
    m->snapshot.options = arena_text(arena, options.data);
    return created_put(c, &m->snapshot, err);
}

/* What was found is kept, and the record says so. */
static enum rpc_code keep(struct controller *c, struct making *m, struct catalog_made *made,
                          const struct scratch *scratch, struct rpc_call *call, struct err *err)
{
    cleanup_created struct created_scope version = {c, NULL};
    enum rpc_code code = created_begin(&version, CREATED_VERSION, made->version, err);
    if (code)
        return code;
    m->attributes.value[ATTR_VERSION] = arena_text(call->arena, made->version);
    m->snapshot.capacity = made->bytes;
    m->snapshot.made_at = clock_wall_ns() / (int64_t)NS_PER_S;
    if (put_record(c, m, call->arena, err) ||
        catalog_keep(c->conf.mounter, c->conf.state, &m->attributes, scratch->credentials,
                     call->deadline_ns, made, err))
        return rpc_code_of(err);
    m->snapshot.done = true;
    return put_record(c, m, call->arena, err) ? rpc_code_of(err) : RPC_OK;
}

static enum rpc_code make(struct controller *c, struct making *m, struct rpc_call *call,
                          struct err *err)
{
    cleanup_scratch struct scratch scratch = {0};
    cleanup_catalog_made struct catalog_made made = {0};
    enum rpc_code code = RPC_OK;
    if (choose_folder(m, call->arena, err) || put_record(c, m, call->arena, err))
        return rpc_code_of(err);
    if (scratch_make(&scratch, c, &m->secrets.keys, err) ||
        catalog_scan(c->conf.mounter, c->conf.state, &m->attributes, scratch.credentials,
                     call->deadline_ns, &made, err))
        code = rpc_code_of(err);
    if (!code)
        code = keep(c, m, &made, &scratch, call, err);
    struct err ignored = {0};
    if (code) /* what cannot be taken away now stays in the record */
        snapshot_forget(c, &m->snapshot, &m->secrets.keys, call, &ignored);
    return code;
}

enum rpc_code snapshot_create(void *arg, struct rpc_call *call, const void *request, void *response,
                              struct err *err)
{
    struct controller *c = ((const struct plugin *)arg)->controller;
    const PB(CreateSnapshotRequest) *q = request;
    PB(CreateSnapshotResponse) *r = response;
    CLEANUP(making_release) struct making m = {0};
    cleanup_created struct created_scope scope = {c, NULL};
    enum rpc_code code = read_making(c, q, &m, call->arena, err);
    if (!code)
        code = created_begin(&scope, CREATED_SNAPSHOT, m.id, err);
    if (code)
        return code;
    call->subject = arena_text(call->arena, m.id);
    const struct created *s = created_find(c, m.id, true, call->arena);
    if (s && (strcmp(s->source, q->source_volume_id) != 0 || strcmp(s->name, q->name) != 0))
        return rpc_fail(err, RPC_ALREADY_EXISTS, "snapshot %s: made already, of volume %s", s->id,
                        s->source);
    if (s && !s->done) { /* cut off: from the start again */
        code = snapshot_forget(c, s, &m.secrets.keys, call, err);
        s = NULL;
    }
    if (!code && !s)
        code = make(c, &m, call, err);
    if (!code)
        r->snapshot = message_of(call->arena, s ? s : &m.snapshot);
    return code;
}

static enum rpc_code remove_catalogs(struct controller *c, const struct created *gone,
                                     const struct attributes *a, const struct bytes *credentials,
                                     uint64_t deadline_ns, struct err *err)
{
    cleanup_scratch struct scratch scratch = {0};
    struct place place = {c->conf.mounter, a, &scratch, deadline_ns};
    cleanup_free char *folder = xasprintf("%s/", gone->catalogs);
    if (scratch_make(&scratch, c, credentials, err) == 0 && store_remove(&place, folder, err) == 0)
        return RPC_OK;
    return rpc_code_of(err);
}

enum rpc_code snapshot_forget(struct controller *c, const struct created *gone,
                              const struct bytes *credentials, struct rpc_call *call,
                              struct err *err)
{
    struct attributes a = {0};
    cleanup_created struct created_scope scope = {c, NULL};
    enum rpc_code code = attributes_of_text(&a, call->arena, gone->options, err);
    const char *version = a.value[ATTR_VERSION];
    if (!code && version)
        code = created_begin(&scope, CREATED_VERSION, version, err);
    if (!code && *gone->catalogs && !created_uses_catalogs(c, gone->catalogs, gone))
        code = remove_catalogs(c, gone, &a, credentials, call->deadline_ns, err);
    if (code)
        return code;
    if (version && !created_uses_version(c, version, gone)) {
        cleanup_free char *path = catalog_path_here(c->conf.state, version);
        if (unlink(path) && errno != ENOENT)
            log_warn(c->conf.log, "the catalog %s stays: %s", path, strerror(errno));
    }
    return created_remove(c, gone, err) ? rpc_code_of(err) : RPC_OK;
}

enum rpc_code snapshot_delete(void *arg, struct rpc_call *call, const void *request, void *response,
                              struct err *err)
{
    struct controller *c = ((const struct plugin *)arg)->controller;
    const PB(DeleteSnapshotRequest) *q = request;
    cleanup_created struct created_scope scope = {c, NULL};
    cleanup_secrets struct secrets secrets = {0};
    (void)response;
    enum rpc_code code = check_id("snapshot_id", q->snapshot_id, err);
    if (!code)
        code = created_begin(&scope, CREATED_SNAPSHOT, q->snapshot_id, err);
    if (code)
        return code;
    call->subject = q->snapshot_id;
    const struct created *s = created_find(c, q->snapshot_id, true, call->arena);
    if (!s)
        return RPC_OK;
    code = secrets_read(q->secrets, q->n_secrets, &secrets, err);
    return code ? code : snapshot_forget(c, s, &secrets.keys, call, err);
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
