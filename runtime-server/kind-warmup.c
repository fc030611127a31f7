/*
 * warmup: samples are made local by the owner of a mount. Where the job says which sampler,
 * strategy or partition, these are first set for the mount, so that what is brought is also what
 * stays, and what its reads are ordered by.
 *
 * The paths of a list are asked for in batches that fit the owner's wire. A job that is run again
 * asks for all of them again: the owner passes over what it has.
 */
#include <string.h>
#include <unistd.h>

#include "conf.h"
#include "mem.h"
#include "order.h"
#include "owner.h"
#include "server-internal.h"

#define TURN_US         (300 * 1000)
#define REFUSALS        5 /* in a row while no other warmup is seen: it had just ended */
#define BATCH_BYTES     (4u << 20)
#define BATCH_PATHS     200000
#define FAILURES_LISTED 1000

/* --- options ---------------------------------------------------------------------------------- */

/* What is to be set for the mount. */
static const char *const settings[] = {"sampler", "strategy", "partition"};
#define N_SETTINGS (sizeof settings / sizeof settings[0])

static int check_setting(const char *key, const char *value, struct err *err)
{
    struct order_spec spec;
    enum owner_strategy strategy;
    uint32_t partition, partitions;
    if (!*value)
        return 0;
    int rc = *key == 'p'                   ? owner_share_parse(value, &partition, &partitions, err)
             : strcmp(key, "sampler") == 0 ? order_spec_parse(&spec, value, err)
                                           : owner_strategy_parse(&strategy, value, err);
    return rc ? err_wrap(err, "options.%s", key) : 0;
}

static int copy_settings(const struct json *o, bool cluster, struct json_writer *w, struct err *err)
{
    for (size_t i = 0; i < N_SETTINGS; i++) {
        const char *value;
        if (!json_has(o, settings[i]))
            continue;
        if (json_str(o, settings[i], &value, err) || check_setting(settings[i], value, err))
            return -1;
        if (cluster && *settings[i] == 'p')
            return err_set(err, ERR_USAGE,
                           "options.partition: each server takes its own (leave it out, or give "
                           "\"scope\": \"node\")");
        jw_str(w, settings[i], value);
    }
    return 0;
}

static int copy_list(const struct server *s, const struct json *o, struct json_writer *w,
                     struct err *err)
{
    const char *digest;
    if (!json_has(o, "list"))
        return 0;
    if (json_str(o, "list", &digest, err) || lists_check(s, digest, err))
        return err_wrap(err, "options.list");
    if (json_has(o, "paths"))
        return err_set(err, ERR_USAGE, "options.list: goes with no options.paths");
    jw_str(w, "list", digest);
    return 0;
}

int check_warmup(void *server, const struct json *o, struct bytes *ret, struct bytes *secret,
                 struct err *err)
{
    static const char *const keys[] = {"scope",  "lost_after_s", "mount",    "paths",
                                       "list",   "sampler",      "strategy", "partition",
                                       "verify", "compat",       NULL};
    struct json_writer w;
    bool verify, cluster;
    (void)secret;
    if (json_only_keys(o, keys, err) || json_bool_or(o, "verify", false, &verify, err) ||
        cluster_scope(server, o, &cluster, err) || options_begin(server, o, true, &w, ret, err) ||
        options_copy_paths(o, &w, err) || copy_list(server, o, &w, err) ||
        copy_settings(o, cluster, &w, err))
        return -1;
    jw_bool(&w, "verify", verify);
    jw_end(&w);
    return 0;
}

/* --- asking ----------------------------------------------------------------------------------- */

/* The owner warms one thing at a time, and what it does now may be our own, of before a restart. */
static bool warms_already(struct server *s, const struct json *o)
{
    cleanup_json struct json_doc *doc = NULL;
    const char *named, *mount, *state;
    if (json_str(o, "mount", &named, NULL) || mount_choose(s, named, &mount, NULL) ||
        mount_look(mount, "status", &doc, NULL))
        return false;
    struct json root = json_root(doc), status = json_get(&root, "status");
    struct json warmup = json_get(&status, "warmup");
    return json_str(&warmup, "state", &state, NULL) == 0 && strcmp(state, "running") == 0;
}

static int ask_in_turn(struct job_run *r, struct server *s, const struct json *o,
                       const char *fields, const struct asked *asked, struct json_doc **ret,
                       struct err *err)
{
    int rc;
    unsigned refusals = 0;
    while ((rc = owner_ask(r, s, o, "warmup", fields, asked, ret, err)) < 0 &&
           err->class == ERR_LIMIT) {
        refusals = warms_already(s, o) ? 0 : refusals + 1;
        if (refusals == REFUSALS)
            break;
        if (job_wanted(r) != JOB_GO_ON)
            return 1;
        usleep(TURN_US);
    }
    return rc;
}

/* 1: it is to stop, and nothing is to be said. */
static int set_mount(struct job_run *r, struct server *s, const struct json *o, struct err *err)
{
    cleanup_bytes struct bytes fields = {0};
    cleanup_json struct json_doc *doc = NULL;
    for (size_t i = 0; i < N_SETTINGS; i++) {
        if (!json_has(o, settings[i]))
            continue;
        struct json value = json_get(o, settings[i]);
        bytes_addf(&fields, "%s\"%s\":", fields.len ? "," : "", settings[i]);
        json_text(&value, &fields);
    }
    return fields.len ? owner_ask(r, s, o, "set", fields.data, NULL, &doc, err) : 0;
}

/* --- the sum of the batches ------------------------------------------------------------------- */

struct warmed {
    uint64_t samples, bytes, already, fetched, failed, omitted;
    uint64_t unfit, unfit_bytes, room; /* of a share that the cache cannot hold */
    double seconds;
    bool verified;
    struct bytes failures; /* objects, with commas */
    size_t n_failures;
    char first[500]; /* of the failures */
    char first_unfit[300];
};

static void add_failures(struct warmed *all, const struct json *result)
{
    struct json failures = json_get(result, "failures");
    size_t n = json_count(&failures);
    for (size_t i = 0; i < n; i++) {
        struct json one = json_at(&failures, i);
        const char *path = "?", *why = "?";
        json_str(&one, "path", &path, NULL);
        json_str(&one, "why", &why, NULL);
        if (!all->first[0])
            snprintf(all->first, sizeof all->first, "%.150s: %.300s", path, why);
        if (all->n_failures >= FAILURES_LISTED) {
            all->omitted++;
            continue;
        }
        bytes_add_str(&all->failures, all->n_failures++ ? "," : "");
        json_text(&one, &all->failures);
    }
    all->omitted += json_uint_at(result, "failures_omitted");
}

static void add_result(struct warmed *all, const struct json *result)
{
    double seconds = 0;
    bool verified = false;
    const char *unfit;
    all->samples += json_uint_at(result, "samples");
    all->bytes += json_uint_at(result, "bytes");
    all->already += json_uint_at(result, "already");
    all->fetched += json_uint_at(result, "fetched");
    all->failed += json_uint_at(result, "failed");
    if (!all->unfit && json_str(result, "first_unfit", &unfit, NULL) == 0)
        snprintf(all->first_unfit, sizeof all->first_unfit, "%s", unfit);
    all->unfit += json_uint_at(result, "unfit");
    all->unfit_bytes += json_uint_at(result, "unfit_bytes");
    all->room = json_uint_at(result, "room");
    json_num(result, "seconds", &seconds, NULL);
    json_bool(result, "verified", &verified, NULL);
    all->seconds += seconds;
    all->verified = all->verified && verified;
    add_failures(all, result);
}

static void write_result(const struct warmed *all, struct bytes *ret)
{
    cleanup_free char *failures = xasprintf("[%s]", all->failures.data ? all->failures.data : "");
    struct json_writer w;
    jw_init(&w, ret);
    jw_object(&w, NULL);
    jw_uint(&w, "samples", all->samples);
    jw_uint(&w, "bytes", all->bytes);
    jw_num(&w, "seconds", all->seconds);
    jw_uint(&w, "already", all->already);
    jw_uint(&w, "fetched", all->fetched);
    jw_uint(&w, "failed", all->failed);
    jw_raw(&w, "failures", failures);
    jw_uint(&w, "failures_omitted", all->omitted);
    jw_bool(&w, "verified", all->verified);
    jw_uint(&w, "unfit", all->unfit);
    jw_uint(&w, "unfit_bytes", all->unfit_bytes);
    jw_str(&w, "first_unfit", all->first_unfit);
    jw_uint(&w, "room", all->room);
    jw_end(&w);
}

static int say_unfit(const struct warmed *all, struct err *err)
{
    char bytes[32], room[32];
    conf_format_size(all->unfit_bytes, bytes);
    conf_format_size(all->room, room);
    return err_set(err, ERR_LIMIT,
                   "%llu of %llu samples (%s) of this share do not fit into %s, from %s on: they "
                   "come from elsewhere when they are read (give it a larger --cache, or more "
                   "partitions)",
                   (unsigned long long)all->unfit, (unsigned long long)all->samples, bytes, room,
                   all->first_unfit);
}

/* Samples that could not be had, or kept, fail the job; the first of them is named, the others are
 * in its result. */
static int judge(const struct warmed *all, struct err *err)
{
    if (!all->failed)
        return all->unfit ? say_unfit(all, err) : 0;
    return err_set(err, ERR_FAILED, "%llu of %llu samples could not be fetched; the first: %s",
                   (unsigned long long)all->failed, (unsigned long long)all->samples, all->first);
}

/* --- the work --------------------------------------------------------------------------------- */

/* `share`: of all that is asked for, with what was. */
static int warm_batch(struct job_run *r, struct server *s, const struct json *o, const char *paths,
                      double share, struct warmed *all, struct err *err)
{
    const struct asked asked = {all->samples, all->bytes, share};
    cleanup_json struct json_doc *doc = NULL;
    cleanup_bytes struct bytes fields = {0};
    bool verify = false;
    json_bool(o, "verify", &verify, NULL);
    bytes_addf(&fields, "\"verify\":%s%s%s", verify ? "true" : "false", *paths ? "," : "", paths);
    int rc = ask_in_turn(r, s, o, fields.data, &asked, &doc, err);
    if (rc)
        return rc;
    struct json root = json_root(doc), result = json_get(&root, "result");
    add_result(all, &result);
    return 0;
}

/* The next lines of the list as `"paths":[…]`; false: there are none left. */
static bool next_batch(const char **at, struct bytes *ret)
{
    struct json_writer w;
    struct bytes array = {0};
    size_t n = 0;
    jw_init(&w, &array);
    jw_array(&w, NULL);
    for (; **at && n < BATCH_PATHS && array.len < BATCH_BYTES; n++) {
        size_t len = strcspn(*at, "\n");
        jw_strn(&w, NULL, *at, len);
        *at += len + ((*at)[len] == '\n');
    }
    jw_end(&w);
    bytes_clear(ret);
    bytes_addf(ret, "\"paths\":%s", array.data);
    bytes_release(&array);
    return n > 0;
}

static int warm_list(struct job_run *r, struct server *s, const struct json *o, const char *digest,
                     struct warmed *all, struct err *err)
{
    cleanup_bytes struct bytes text = {0}, paths = {0};
    if (lists_get(s, digest, &text, err))
        return -1;
    const char *at = text.data ? text.data : "";
    int rc = 0;
    while (!rc && next_batch(&at, &paths))
        rc = warm_batch(r, s, o, paths.data, (double)(at - text.data) / (double)text.len, all, err);
    return rc;
}

static void tell_end(struct job_run *r, const struct warmed *all)
{
    struct job_progress p = {.items = all->samples - all->failed - all->unfit,
                             .total_items = all->samples,
                             .bytes = all->bytes,
                             .failed = all->failed,
                             .eta_s = -1};
    job_tell(r, &p);
}

int run_warmup(struct job_run *r, void *server, const struct json *o, struct bytes *result,
               struct err *err)
{
    struct warmed all = {.verified = true};
    const char *digest = "";
    if (cluster_is_job(o))
        return fanout_run(r, server, o, result, err);
    cleanup_bytes struct bytes paths = {0};
    options_paths_field(o, &paths);
    json_str_or(o, "list", "", &digest, NULL);
    int rc = set_mount(r, server, o, err);
    if (!rc)
        rc = *digest ? warm_list(r, server, o, digest, &all, err)
                     : warm_batch(r, server, o, paths.data ? paths.data : "", 1, &all, err);
    if (!rc) {
        write_result(&all, result);
        tell_end(r, &all);
        rc = judge(&all, err);
    } else if (rc > 0) {
        rc = 0;
    }
    bytes_release(&all.failures);
    return rc;
}
