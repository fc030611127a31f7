/* The table of operations, and those that are one call into the volume. docs/formats/control.md
 * lists their fields. */
#include "serve-internal.h"

#include <errno.h>
#include <limits.h>

#include "clock.h"
#include "conf.h"
#include "mem.h"

static int op_ping(struct request *r, struct err *err)
{
    (void)err;
    jw_int(r->w, "pid", getpid());
    jw_str(r->w, "version", SAMPAN_VERSION);
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

static int op_flush(struct request *r, struct err *err)
{
    return cache_flush(volume_cache(r->volume), err);
}

static int op_shutdown(struct request *r, struct err *err)
{
    (void)err;
    const struct control_server_conf *conf = &r->connection->server->conf;
    if (conf->shutdown)
        conf->shutdown(conf->arg);
    return 0;
}

static int op_rescan(struct request *r, struct err *err)
{
    struct catalog_diff_counts diff = {0};
    uint64_t began = clock_mono_ns();
    if (volume_rescan(r->volume, &diff, err))
        return -1;
    struct catalog *c = volume_catalog(r->volume);
    const struct catalog_info *info = catalog_info(c);
    jw_str(r->w, "version", info->digest);
    jw_uint(r->w, "samples", info->samples);
    jw_uint(r->w, "bytes", info->bytes);
    jw_uint(r->w, "folders", info->folders);
    jw_uint(r->w, "added", diff.added);
    jw_uint(r->w, "changed", diff.changed);
    jw_uint(r->w, "removed", diff.removed);
    jw_uint(r->w, "bad_names", info->bad_names);
    jw_num(r->w, "seconds", (double)(clock_mono_ns() - began) / 1e9);
    catalog_unref(c);
    return 0;
}

/* --- making room ----------------------------------------------------------------------------- */

int request_paths(struct request *r, const char ***ret, size_t *n, struct err *err)
{
    *ret = NULL;
    *n = 0;
    if (!json_has(&r->root, "paths"))
        return 0;
    struct json paths = json_get(&r->root, "paths");
    if (json_want_array(&paths, err))
        return -1;
    size_t count = json_count(&paths);
    if (count == 0)
        return err_set(err, ERR_USAGE, "paths: empty (leave it out to mean everything)");
    if (count > PATHS_MAX)
        return err_set(err, ERR_LIMIT, "paths: %zu of them: at most %d", count, PATHS_MAX);
    cleanup_free const char **all = xcalloc(count, sizeof *all);
    for (size_t i = 0; i < count; i++) {
        struct json path = json_at(&paths, i);
        if (json_as_str(&path, &all[i], err))
            return -1;
    }
    *ret = take_ptr(&all);
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
    if (request_paths(r, &paths, &n, err) ||
        volume_clear(r->volume, paths, n, r->frontend ? drop_pages : NULL, r->frontend, &dropped,
                     err))
        return -1;
    write_dropped(r, &dropped);
    return 0;
}

static int op_evict(struct request *r, struct err *err)
{
    struct drop_result dropped = {0};
    int64_t n;
    if (json_has(&r->root, "to") == json_has(&r->root, "older_than_s"))
        return err_set(err, ERR_USAGE, "evict: want one of: to, older_than_s");
    if (json_has(&r->root, "to")) {
        if (json_int(&r->root, "to", 0, INT64_MAX, &n, err) ||
            volume_evict_to(r->volume, (uint64_t)n, &dropped, err))
            return -1;
    } else if (json_int(&r->root, "older_than_s", 0, INT64_MAX / (int64_t)NS_PER_S, &n, err) ||
               volume_evict_older(r->volume, (uint64_t)n * NS_PER_S,
                                  r->frontend ? drop_pages : NULL, r->frontend, &dropped, err)) {
        return -1;
    }
    write_dropped(r, &dropped);
    return 0;
}

/* --- set ------------------------------------------------------------------------------------- */

/* A number, or text as on the command line. */
static int number_or_text(const struct json *value,
                          int (*parse)(const char *, uint64_t *, struct err *), uint64_t *ret,
                          struct err *err)
{
    int64_t n;
    const char *text;
    if (!json_as_int(value, 0, INT64_MAX, &n, NULL)) {
        *ret = (uint64_t)n;
        return 0;
    }
    return json_as_str(value, &text, err) || parse(text, ret, err) ? -1 : 0;
}

static int count_text(const char *text, uint64_t *ret, struct err *err)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno)
        return err_set(err, ERR_USAGE, "\"%s\": want a number", text);
    *ret = n;
    return 0;
}

static int set_sampler(struct volume *v, const struct json *value, struct err *err)
{
    const char *spec;
    return json_as_str(value, &spec, err) ? -1 : volume_set_sampler(v, spec, err);
}

static int set_epoch(struct volume *v, const struct json *value, struct err *err)
{
    uint64_t n = 0;
    return number_or_text(value, count_text, &n, err) ? -1 : volume_set_epoch(v, n, err);
}

static int set_bandwidth(struct volume *v, const struct json *value, struct err *err)
{
    uint64_t n = 0;
    if (number_or_text(value, conf_rate, &n, err))
        return -1;
    volume_set_bandwidth(v, n);
    return 0;
}

static int set_memory(struct volume *v, const struct json *value, struct err *err)
{
    uint64_t n = 0;
    return number_or_text(value, conf_size, &n, err) ? -1 : volume_set_memory(v, n, err);
}

static int set_connections(struct volume *v, const struct json *value, struct err *err)
{
    uint64_t n = 0;
    if (number_or_text(value, count_text, &n, err))
        return -1;
    if (n < 1 || n > 1024)
        return err_set(err, ERR_USAGE, "connections: %llu: want 1 to 1024", (unsigned long long)n);
    volume_set_connections(v, (unsigned)n);
    return 0;
}

static const struct {
    const char *name;
    int (*set)(struct volume *v, const struct json *value, struct err *err);
} settings[] = {
    /* The sampler first: an epoch given with it is meant for it. */
    {"sampler", set_sampler},         {"epoch", set_epoch},
    {"bandwidth", set_bandwidth},     {"memory", set_memory},
    {"connections", set_connections},
};

static int op_set(struct request *r, struct err *err)
{
    jw_array(r->w, "set");
    size_t n = 0;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (!json_has(&r->root, settings[i].name))
            continue;
        struct json value = json_get(&r->root, settings[i].name);
        if (settings[i].set(r->volume, &value, err))
            return err_wrap(err, "set %s", settings[i].name);
        jw_str(r->w, NULL, settings[i].name);
        n++;
    }
    jw_end(r->w);
    return n ? 0 : err_set(err, ERR_USAGE, "set: nothing to set");
}

/* --- the table ------------------------------------------------------------------------------- */

#define KEYS(...)                 \
    (const char *const[])         \
    {                             \
        "op", ##__VA_ARGS__, NULL \
    }

static const struct op ops[] = {
    {"ping", op_ping, KEYS()},
    {"status", op_status, KEYS()},
    {"stats", op_stats, KEYS()},
    {"warmup", op_warmup, KEYS("paths", "verify", "background")},
    {"warmup-cancel", op_warmup_cancel, KEYS()},
    {"clear", op_clear, KEYS("paths")},
    {"evict", op_evict, KEYS("to", "older_than_s")},
    {"set", op_set, KEYS("sampler", "epoch", "bandwidth", "memory", "connections")},
    {"rescan", op_rescan, KEYS()},
    {"stale", op_stale, KEYS()},
    {"extent", op_extent, KEYS("path", "id", "block")},
    {"extent-check", op_extent_check, KEYS("lease")},
    {"extent-return", op_extent_return, KEYS("lease")},
    {"flush", op_flush, KEYS()},
    {"shutdown", op_shutdown, KEYS()},
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
