/*
 * rmr: what the job names is removed from the store, into its trash for a day unless it says
 * otherwise (remove.h). It names paths of a mount's set, or URIs. All that one of them names is
 * found before its first object goes; what a run before a restart has removed is not missed.
 */
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "mem.h"
#include "object.h"
#include "removing-internal.h"

static const char *const secret_names[] = {"credentials", NULL};

/* --- options ---------------------------------------------------------------------------------- */

static size_t count_of(const struct json *o, const char *key)
{
    struct json list = json_get(o, key);
    return json_has(o, key) ? json_count(&list) : 0;
}

/* Each names something, and none all of the set. */
static int check_named(const struct json *o, struct err *err)
{
    struct json paths = json_get(o, "paths");
    if (count_of(o, "paths") + count_of(o, "uris") == 0)
        return err_set(err, ERR_USAGE, "options: want \"paths\" or \"uris\" of what is to go");
    for (size_t i = 0; i < count_of(o, "paths"); i++) {
        struct json item = json_at(&paths, i);
        const char *path = "";
        json_as_str(&item, &path, NULL);
        if (path[strspn(path, "./")] == '\0')
            return err_set(err, ERR_USAGE,
                           "options.paths[%zu]: \"%.100s\": is the whole set (name its URI to "
                           "remove it from the store)",
                           i, path);
    }
    return 0;
}

/* Nor does a URI name the folder that a mount is: its trash would lie beside it, where jobs may
 * touch nothing. */
static int check_uris(const struct server *s, const struct json *o, struct err *err)
{
    struct json uris = json_get(o, "uris");
    for (size_t i = 0; i < count_of(o, "uris"); i++) {
        struct json item = json_at(&uris, i);
        const char *uri = "", *mount;
        json_as_str(&item, &uri, NULL);
        const char *folder = store_uri_folder(uri);
        cleanup_free char *real = folder ? realpath(folder, NULL) : NULL;
        if (real && mount_choose(s, real, &mount, NULL) == 0)
            return err_set(err, ERR_DENIED,
                           "options.uris[%zu]: \"%s\": is a whole mount (name what lies below it)",
                           i, uri);
    }
    return 0;
}

int check_rmr(void *server, const struct json *o, struct bytes *ret, struct bytes *secret,
              struct err *err)
{
    static const char *const keys[] = {"scope",  "lost_after_s", "mount",       "paths",
                                       "uris",   "skipTrash",    "credentials", "endpoint",
                                       "region", "compat",       NULL};
    const char *endpoint, *region;
    struct json_writer w;
    bool skip;
    if (json_only_keys(o, keys, err) || json_bool_or(o, "skipTrash", false, &skip, err) ||
        json_str_or(o, "endpoint", "", &endpoint, err) ||
        json_str_or(o, "region", "", &region, err) ||
        options_begin(server, o, json_has(o, "paths"), &w, ret, err) ||
        options_copy_paths(o, &w, err) ||
        (json_has(o, "uris") && options_copy_uris(server, o, "uris", &w, err)) ||
        check_named(o, err) || check_uris(server, o, err) ||
        secrets_take(o, secret_names, &w, secret, err))
        return -1;
    if (*endpoint)
        jw_str(&w, "endpoint", endpoint);
    if (*region)
        jw_str(&w, "region", region);
    jw_bool(&w, "skipTrash", skip);
    jw_end(&w);
    return 0;
}

void touches_rmr(const struct json *o, struct bytes *ret)
{
    struct json uris = json_get(o, "uris");
    if (count_of(o, "paths"))
        options_touch_paths(o, ret);
    for (size_t i = 0; i < count_of(o, "uris"); i++) {
        struct json item = json_at(&uris, i);
        const char *uri = "";
        json_as_str(&item, &uri, NULL);
        options_touch_uri(o, uri, ret);
    }
}

/* --- the work --------------------------------------------------------------------------------- */

/* The URIs that the job means; a path that is no longer there was removed before. The first are
 * those of paths, at the store that their mount was mounted from. */
struct uris {
    char **items;
    size_t n, n_of_paths;
    char *endpoint; /* that store's; NULL: it was mounted without one */
};

static void uris_release(struct uris *u)
{
    for (size_t i = 0; i < u->n; i++)
        free(u->items[i]);
    free(u->items);
    free(u->endpoint);
}

/* What goes goes under its own name, a link too: only what is above it is resolved. */
static int real_uri(const struct server *s, const char *uri, char **ret, struct err *err)
{
    size_t len = strlen(uri);
    if (options_check_uri(s, "uris", uri, err))
        return -1;
    if (!store_uri_folder(uri)) {
        *ret = xstrdup(uri);
        return 0;
    }
    while (len && uri[len - 1] == '/')
        len--;
    while (len && uri[len - 1] != '/')
        len--;
    cleanup_free char *above = xstrndup(uri, len);
    cleanup_free char *real = NULL;
    if (options_real_uri(s, "uris", above, &real, err))
        return -1;
    *ret = xasprintf("%s/%s", real, uri + len);
    return 0;
}

static int collect(const struct server *s, const struct json *o, bool again, struct uris *ret,
                   struct err *err)
{
    struct json paths = json_get(o, "paths"), uris = json_get(o, "uris");
    struct control_mount m = {0};
    const char *mount = "";
    ret->items = xcalloc(count_of(o, "paths") + count_of(o, "uris") + 1, sizeof *ret->items);
    json_str(o, "mount", &mount, NULL);
    if (count_of(o, "paths") &&
        (mount_endpoint(mount, &ret->endpoint, err) || control_find(mount, &m, err)))
        return -1;
    const char *slash = m.socket ? strrchr(m.socket, '/') : NULL;
    cleanup_free char *catalog = xasprintf(
        "%.*s/catalog/current", slash ? (int)(slash - m.socket) : 0, slash ? m.socket : "");
    int rc = 0;
    for (size_t i = 0; i < count_of(o, "paths") && !rc; i++) {
        struct json item = json_at(&paths, i);
        struct err why = {0};
        const char *path = "";
        json_as_str(&item, &path, NULL);
        cleanup_free char *clean = xstrdup(path);
        for (size_t len = strlen(clean); len && clean[len - 1] == '/'; len--)
            clean[len - 1] = '\0';
        rc = remove_uri_of(catalog, clean, &ret->items[ret->n], &why);
        ret->n += !rc;
        if (rc && again && why.class == ERR_NOT_FOUND)
            rc = 0;
        else if (rc && err)
            *err = why;
    }
    control_mount_release(&m);
    ret->n_of_paths = ret->n;
    for (size_t i = 0; i < count_of(o, "uris") && !rc; i++) {
        struct json item = json_at(&uris, i);
        const char *uri = "";
        json_as_str(&item, &uri, NULL);
        rc = real_uri(s, uri, &ret->items[ret->n], err);
        ret->n += !rc;
    }
    return rc;
}

/* 1: there is nothing of that name any more, after a restart. */
static int find_one(const char *uri, const struct store_conf *conf, bool again,
                    const struct remove_watch *watch, struct removal **ret,
                    struct remove_counts *counts, struct err *err)
{
    struct err why = {0};
    bool is_root = false;
    if (remove_open(ret, uri, conf, &is_root, err))
        return -1;
    if (is_root)
        return err_set(err, ERR_DENIED, "%s: is all there is: a job removes no whole bucket", uri);
    if (remove_find(*ret, watch, counts, &why) == 0)
        return 0;
    if (again && why.class == ERR_NOT_FOUND)
        return 1;
    if (err)
        *err = why;
    return -1;
}

static int remove_one(struct removing *r, const char *uri, const struct store_conf *conf, bool skip,
                      struct err *err)
{
    const struct remove_watch watch = removing_watch(r);
    cleanup_bytes struct bytes trash = {0};
    struct removal *removal = NULL;
    struct remove_counts counts = {0};
    int rc = find_one(uri, conf, job_try(r->run) > 1, &watch, &removal, &counts, err);
    if (rc == 0) {
        r->all.objects += counts.objects;
        r->all.bytes += counts.bytes;
        rc = remove_run(removal, skip, &watch, &counts, &trash, err);
        removing_add(r, &counts);
    }
    if (trash.len) {
        struct json_writer w;
        bytes_add_str(&r->trash, r->trash.len ? "," : "");
        jw_init(&w, &r->trash);
        jw_str(&w, NULL, trash.data);
    }
    remove_close(removal);
    return rc < 0 ? -1 : 0;
}

/* A mount that showed what is gone looks again; its own matter if it cannot. */
static void look_again(struct job_run *run, struct server *s, const struct json *o)
{
    cleanup_json struct json_doc *doc = NULL;
    if (count_of(o, "paths"))
        owner_ask(run, s, o, "rescan", "", NULL, &doc, NULL);
}

static int remove_all(struct removing *r, struct server *s, const struct json *o,
                      const struct store_conf *conf, struct err *err)
{
    struct uris uris = {0};
    bool skip = false;
    json_bool_or(o, "skipTrash", false, &skip, NULL);
    int rc = collect(s, o, job_try(r->run) > 1, &uris, err);
    for (size_t i = 0; i < uris.n && !rc && !atomic_load(&r->stop); i++) {
        struct store_conf at = *conf;
        if (i < uris.n_of_paths && !at.endpoint)
            at.endpoint = uris.endpoint;
        r->more = i + 1 < uris.n;
        rc = remove_one(r, uris.items[i], &at, skip, err);
    }
    if (r->before.removed)
        look_again(r->run, s, o);
    uris_release(&uris);
    return rc;
}

int run_rmr(struct job_run *run, void *server, const struct json *o, struct bytes *result,
            struct err *err)
{
    struct server *s = server;
    struct removing r = {.run = run};
    struct store_conf conf = {.no_links = true, .log = s->conf.log};
    cleanup_job_keys struct job_keys keys = {0};
    if (cluster_is_job(o))
        return fanout_run(run, s, o, result, err);
    json_str_or(o, "endpoint", NULL, &conf.endpoint, NULL);
    json_str_or(o, "region", NULL, &conf.region, NULL);
    if (secrets_read(o, job_secret(run), "credentials", &keys, &conf.keys, err))
        return -1;
    return removing_end(&r, remove_all(&r, s, o, &conf, err), result, err);
}
