/*
 * evict: makes room. In the cache of the job's mount, which its owner knows how to do; or with
 * "store" in the source itself, where old samples go into the trash for a day unless it says
 * otherwise (retire.h).
 */
#include <string.h>

#include "catalog.h"
#include "control.h"
#include "mem.h"
#include "removing-internal.h"
#include "retire.h"

static const char *const secret_names[] = {"credentials", NULL};

/* --- options ---------------------------------------------------------------------------------- */

/* How a job says what goes; one of them. */
enum { BY_SIZE, BY_AGE, BY_USE, N_BY };
static const char *const by_names[N_BY] = {"to", "older_than_s", "unused_for_s"};

struct evict {
    int by;
    int64_t value;
    bool store, skip_trash;
};

static int read_options(const struct json *o, struct evict *ret, struct err *err)
{
    size_t given = 0;
    for (int i = 0; i < N_BY; i++) {
        int64_t n;
        if (json_int_or(o, by_names[i], 0, i == BY_SIZE ? INT64_MAX : INT32_MAX, -1, &n, err))
            return -1;
        if (n < 0)
            continue;
        ret->by = i;
        ret->value = n;
        given++;
    }
    if (given != 1)
        return err_set(err, ERR_USAGE,
                       "options: want one of \"to\" (bytes to keep), \"older_than_s\", "
                       "\"unused_for_s\"");
    return json_bool_or(o, "store", false, &ret->store, err) ||
                   json_bool_or(o, "skipTrash", false, &ret->skip_trash, err)
               ? -1
               : 0;
}

static int check_store(const struct json *o, const struct evict *e, struct err *err)
{
    static const char *const with_store[] = {"skipTrash", "credentials", "endpoint", "region"};
    for (size_t i = 0; i < sizeof with_store / sizeof *with_store && !e->store; i++)
        if (json_has(o, with_store[i]))
            return err_set(err, ERR_USAGE, "options.%s: goes with \"store\": true", with_store[i]);
    if (e->store && e->by == BY_USE)
        return err_set(err, ERR_USAGE,
                       "options.unused_for_s: a mount knows only its own reads: with \"store\" "
                       "give \"older_than_s\" or \"to\"");
    return 0;
}

static int copy_store(const struct json *o, const struct evict *e, struct json_writer *w,
                      struct bytes *secret, struct err *err)
{
    static const char *const texts[] = {"endpoint", "region"};
    jw_bool(w, "store", true);
    jw_bool(w, "skipTrash", e->skip_trash);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text;
        if (json_str_or(o, texts[i], "", &text, err))
            return -1;
        if (*text)
            jw_str(w, texts[i], text);
    }
    return secrets_take(o, secret_names, w, secret, err);
}

int check_evict(void *server, const struct json *o, struct bytes *ret, struct bytes *secret,
                struct err *err)
{
    static const char *const keys[] = {
        "scope",        "lost_after_s", "mount",     "to",          "older_than_s",
        "unused_for_s", "store",        "skipTrash", "credentials", "endpoint",
        "region",       "compat",       NULL};
    struct json_writer w;
    struct evict e = {0};
    if (json_only_keys(o, keys, err) || options_begin(server, o, true, &w, ret, err) ||
        read_options(o, &e, err) || check_store(o, &e, err))
        return -1;
    jw_int(&w, by_names[e.by], e.value);
    if (e.store && copy_store(o, &e, &w, secret, err))
        return -1;
    jw_end(&w);
    return 0;
}

/* --- in the store ----------------------------------------------------------------------------- */

/* The set as its source has it now. */
static int open_catalog(struct removing *r, struct server *s, const struct json *o,
                        struct catalog **ret, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    struct control_mount m = {0};
    const char *mount;
    int rc = owner_ask(r->run, s, o, "rescan", "", NULL, &doc, err);
    if (rc > 0)
        atomic_store(&r->stop, true);
    if (rc || json_str(o, "mount", &mount, err) || control_find(mount, &m, err))
        return -1;
    const char *slash = strrchr(m.socket, '/');
    cleanup_free char *dir = xasprintf("%.*s/catalog", (int)(slash - m.socket), m.socket);
    control_mount_release(&m);
    return catalog_current(ret, dir, err);
}

static int retire(struct removing *r, const struct evict *e, struct catalog *c,
                  const struct store_conf *store, struct err *err)
{
    const struct retire_conf conf = {.by_age = e->by == BY_AGE,
                                     .before_ns = clock_wall_ns() - e->value * (int64_t)NS_PER_S,
                                     .to = (uint64_t)e->value};
    const struct remove_watch watch = removing_watch(r);
    struct remove_counts n = {0};
    struct retire *chosen = NULL;
    int rc = retire_new(&chosen, c, &conf, err);
    if (!rc) {
        r->all.objects = retire_samples(chosen);
        r->all.bytes = retire_bytes(chosen);
        rc = retire_run(chosen, store, e->skip_trash, &watch, &n, err);
        removing_add(r, &n);
    }
    retire_free(chosen);
    return rc;
}

/* At the store that it was mounted from, unless the job names another. */
static int evict_store(struct removing *r, struct server *s, const struct json *o,
                       const struct evict *e, const struct store_conf *store, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    cleanup_free char *endpoint = NULL;
    struct store_conf at = *store;
    struct catalog *c;
    const char *mount;
    if (json_str(o, "mount", &mount, err) || mount_endpoint(mount, &endpoint, err) ||
        open_catalog(r, s, o, &c, err))
        return -1;
    at.endpoint = at.endpoint ? at.endpoint : endpoint;
    int rc = retire(r, e, c, &at, err);
    catalog_unref(c);
    if (r->before.removed) /* the mount shows what is gone until its next look, if it cannot */
        owner_ask(r->run, s, o, "rescan", "", NULL, &doc, NULL);
    return rc;
}

/* --- the job ---------------------------------------------------------------------------------- */

int run_evict(struct job_run *run, void *server, const struct json *o, struct bytes *result,
              struct err *err)
{
    struct server *s = server;
    struct evict e = {0};
    struct removing r = {.run = run};
    struct store_conf store = {.log = s->conf.log};
    cleanup_job_keys struct job_keys keys = {0};
    char fields[64];
    if (cluster_is_job(o))
        return fanout_run(run, s, o, result, err);
    if (read_options(o, &e, err))
        return -1;
    if (!e.store) {
        snprintf(fields, sizeof fields, "\"%s\":%lld", by_names[e.by], (long long)e.value);
        return owner_run(run, s, o, "evict", fields, result, err);
    }
    json_str_or(o, "endpoint", NULL, &store.endpoint, NULL);
    json_str_or(o, "region", NULL, &store.region, NULL);
    if (secrets_read(o, job_secret(run), "credentials", &keys, &store.keys, err))
        return -1;
    return removing_end(&r, evict_store(&r, s, o, &e, &store, err), result, err);
}
