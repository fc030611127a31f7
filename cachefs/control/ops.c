/* The table of operations, and those that are one call into the volume. docs/formats/control.md
 * lists their fields. */
#include "serve-internal.h"

#include <errno.h>
#include <limits.h>

#include <sys/socket.h>

#include "clock.h"
#include "mem.h"

static int op_ping(struct request *r, struct err *err)
{
    (void)err;
    jw_int(r->w, "pid", getpid());
    jw_str(r->w, "version", SAMPAN_VERSION);
    const struct control_server_conf *conf = &r->connection->server->conf;
    if (conf->about)
        conf->about(conf->arg, r->w);
    return 0;
}

static int op_status(struct request *r, struct err *err)
{
    (void)err;
    const struct control_server_conf *conf = &r->connection->server->conf;
    cleanup_bytes struct bytes text = {0};
    conf->status(conf->arg, &text);
    jw_raw(r->w, "status", text.data ? text.data : "{}");
    return 0;
}

static int op_stats(struct request *r, struct err *err)
{
    (void)err;
    jw_object(r->w, "stats");
    if (r->stage)
        outputs_stats(r);
    else
        volume_stats(r->volume, r->w);
    jw_end(r->w);
    return 0;
}

static int op_stale(struct request *r, struct err *err)
{
    (void)err;
    volume_stale(r->volume, r->w);
    return 0;
}

static int op_probe(struct request *r, struct err *err)
{
    return r->stage ? outputs_probe(r, err) : volume_probe(r->volume, r->w, err);
}

static int op_flush(struct request *r, struct err *err)
{
    if (r->stage)
        return outputs_flush(r, err);
    return r->volume ? cache_flush(volume_cache(r->volume), err) : 0;
}

static int op_shutdown(struct request *r, struct err *err)
{
    (void)err;
    const struct control_server_conf *conf = &r->connection->server->conf;
    if (conf->shutdown)
        conf->shutdown(conf->arg);
    return 0;
}

static int op_upgrade(struct request *r, struct err *err)
{
    const struct control_server_conf *conf = &r->connection->server->conf;
    const char *program;
    if (json_str(&r->root, "program", &program, err))
        return -1;
    if (!conf->upgrade)
        return err_set(err, ERR_USAGE, "upgrade: nothing that is mounted here");
    if (program[0] != '/')
        return err_set(err, ERR_USAGE, "upgrade: program: \"%s\" is not an absolute path", program);
    return conf->upgrade(conf->arg, program, err);
}

/* Whoever has these can serve the mount, or end it: not even the daemon's own user may ask. */
static int op_descriptors(struct request *r, struct err *err)
{
    const struct control_server_conf *conf = &r->connection->server->conf;
    struct ucred peer;
    socklen_t len = sizeof peer;
    const char *which;
    if (getsockopt(r->connection->sock, SOL_SOCKET, SO_PEERCRED, &peer, &len))
        return err_sys(err, errno, "descriptors: who is asking");
    if (peer.uid != 0)
        return err_set(err, ERR_DENIED, "descriptors: only root may hold a mount");
    if (json_str(&r->root, "which", &which, err))
        return -1;
    if (!conf->descriptor)
        return err_set(err, ERR_USAGE, "descriptors: nothing that is mounted here");
    if (conf->descriptor(conf->arg, which, &r->fds[0], err))
        return -1;
    r->n_fds = 1;
    return 0;
}

static int op_rescan(struct request *r, struct err *err)
{
    struct rescan scan;
    uint64_t began = clock_mono_ns();
    if (volume_rescan(r->volume, &scan, err))
        return -1;
    jw_str(r->w, "version", scan.found.digest);
    jw_uint(r->w, "samples", scan.found.samples);
    jw_uint(r->w, "bytes", scan.found.bytes);
    jw_uint(r->w, "folders", scan.found.folders);
    jw_uint(r->w, "added", scan.diff.added);
    jw_uint(r->w, "changed", scan.diff.changed);
    jw_uint(r->w, "removed", scan.diff.removed);
    jw_uint(r->w, "bad_names", scan.found.bad_names);
    jw_num(r->w, "seconds", (double)(clock_mono_ns() - began) / 1e9);
    return 0;
}

/* --- making room ----------------------------------------------------------------------------- */

int request_paths(const struct json *root, const char ***ret, size_t *n, struct err *err)
{
    *ret = NULL;
    *n = 0;
    if (!json_has(root, "paths"))
        return 0;
    struct json paths = json_get(root, "paths");
    if (json_want_array(&paths, err))
        return -1;
    size_t count = json_count(&paths);
    if (count == 0)
        return err_set(err, ERR_USAGE, "paths: empty (leave it out to mean everything)");
    if (count > PATHS_MAX)
        return err_set(err, ERR_LIMIT, "paths: %zu of them: at most %d", count, PATHS_MAX);
    cleanup_bytes struct bytes names = {0};
    for (size_t i = 0; i < count; i++) {
        struct json path = json_at(&paths, i);
        cleanup_free char *name = NULL;
        if (json_as_name(&path, &name, err))
            return -1;
        bytes_add(&names, name, strlen(name) + 1);
    }
    const char **all = xmalloc(count * sizeof *all + names.len);
    char *name = memcpy(all + count, names.data, names.len);
    for (size_t i = 0; i < count; i++, name += strlen(name) + 1)
        all[i] = name;
    *ret = all;
    *n = count;
    return 0;
}

static void drop_pages(void *frontend, uint64_t id)
{
    frontend_drop_pages(frontend, id);
}

static void write_dropped(struct request *r, const struct drop_result *d)
{
    jw_uint(r->w, "samples", d->samples);
    jw_uint(r->w, "bytes", d->bytes);
}

static int op_clear(struct request *r, struct err *err)
{
    cleanup_free const char **paths = NULL;
    size_t n;
    struct drop_result dropped = {0};
    if (request_paths(&r->root, &paths, &n, err) ||
        volume_clear(r->volume, paths, n, r->frontend ? drop_pages : NULL, r->frontend, &dropped,
                     err))
        return -1;
    write_dropped(r, &dropped);
    return 0;
}

typedef int evict_fn(struct volume *v, uint64_t age_ns, volume_dropped_fn *fn, void *arg,
                     struct drop_result *ret, struct err *err);

static int evict_by_age(struct request *r, const char *key, evict_fn *evict,
                        struct drop_result *dropped, struct err *err)
{
    int64_t n;
    if (json_int(&r->root, key, 0, INT64_MAX / (int64_t)NS_PER_S, &n, err))
        return -1;
    return evict(r->volume, (uint64_t)n * NS_PER_S, r->frontend ? drop_pages : NULL, r->frontend,
                 dropped, err);
}

static int op_evict(struct request *r, struct err *err)
{
    struct drop_result dropped = {0};
    int64_t n;
    bool to = json_has(&r->root, "to"), older = json_has(&r->root, "older_than_s");
    bool unused = json_has(&r->root, "unused_for_s");
    if (to + older + unused != 1)
        return err_set(err, ERR_USAGE, "evict: want one of: to, older_than_s, unused_for_s");
    int rc;
    if (older)
        rc = evict_by_age(r, "older_than_s", volume_evict_older, &dropped, err);
    else if (unused)
        rc = evict_by_age(r, "unused_for_s", volume_evict_unused, &dropped, err);
    else
        rc = json_int(&r->root, "to", 0, INT64_MAX, &n, err) ||
                     volume_evict_to(r->volume, (uint64_t)n, &dropped, err)
                 ? -1
                 : 0;
    if (!rc)
        write_dropped(r, &dropped);
    return rc;
}

/* --- the table ------------------------------------------------------------------------------- */

#define KEYS(...)                 \
    (const char *const[])         \
    {                             \
        "op", ##__VA_ARGS__, NULL \
    }

static const struct op ops[] = {
    {"ping", op_ping, KEYS(), NEEDS_NOTHING, ANYBODY},
    {"status", op_status, KEYS(), NEEDS_NOTHING, OWNER},
    {"stats", op_stats, KEYS(), NEEDS_ANY, OWNER},
    {"warmup", op_warmup,
     KEYS("paths", "partition", "strategy", "sampler", "verify", "dry_run", "background"),
     NEEDS_VOLUME, OWNER},
    {"warmup-cancel", op_warmup_cancel, KEYS(), NEEDS_VOLUME, OWNER},
    {"clear", op_clear, KEYS("paths"), NEEDS_VOLUME, OWNER},
    {"evict", op_evict, KEYS("to", "older_than_s", "unused_for_s"), NEEDS_VOLUME, OWNER},
    {"set", op_set,
     KEYS("sampler", "strategy", "partition", "weights", "epoch", "ahead-bytes", "bandwidth",
          "memory", "connections", "refresh", "peers", "peer-token-file", "version"),
     NEEDS_ANY, OWNER},
    {"rescan", op_rescan, KEYS(), NEEDS_VOLUME, OWNER},
    {"stale", op_stale, KEYS(), NEEDS_VOLUME, OWNER},
    {"probe", op_probe, KEYS(), NEEDS_ANY, OWNER},
    {"extent", op_extent, KEYS("path", "id", "block"), NEEDS_VOLUME, ANYBODY},
    {"extent-check", op_extent_check, KEYS("lease"), NEEDS_VOLUME, ANYBODY},
    {"extent-return", op_extent_return, KEYS("lease"), NEEDS_VOLUME, ANYBODY},
    {"share", op_share, KEYS("version", "ids", "samples", "return", "packs"), NEEDS_VOLUME,
     ANYBODY},
    {"catalog", op_catalog, KEYS("version"), NEEDS_VOLUME, ANYBODY},
    {"flush", op_flush, KEYS("torn"), NEEDS_NOTHING, OWNER},
    {"upgrade", op_upgrade, KEYS("program"), NEEDS_NOTHING, OWNER},
    {"descriptors", op_descriptors, KEYS("which"), NEEDS_NOTHING, OWNER},
    {"shutdown", op_shutdown, KEYS(), NEEDS_NOTHING, OWNER},
};

const struct op *op_find(const char *name, struct err *err)
{
    cleanup_bytes struct bytes known = {0};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        if (strcmp(ops[i].name, name) == 0)
            return &ops[i];
        bytes_addf(&known, "%s%s", i ? " " : "", ops[i].name);
    }
    err_set(err, ERR_USAGE, "operation \"%s\": unknown (known: %s)", name, known.data);
    return NULL;
}
