/* Warming up a set that is not mounted: this process owns its cache folder meanwhile. */
#include <string.h>

#include "fetch.h"
#include "mem.h"
#include "warmup-internal.h"

#define FAILURES_LISTED 10000

struct watch {
    struct progress progress;
    struct how_far far;
    const atomic_bool *interrupted;
    struct bytes failures; /* a JSON array */
    struct json_writer w;
    uint64_t n_failures;
};

static void note_failure(void *arg, const char *path, const char *why)
{
    struct watch *watch = arg;
    if (watch->n_failures++ >= FAILURES_LISTED)
        return;
    jw_object(&watch->w, NULL);
    jw_str(&watch->w, "path", path);
    jw_str(&watch->w, "why", why);
    jw_end(&watch->w);
}

static enum warmup_wish show(void *arg, const struct warmup_far *far)
{
    struct watch *watch = arg;
    watch->far = (struct how_far){far->done, far->total, far->bytes, far->percent};
    progress_show(&watch->progress, "samples", &watch->far);
    return atomic_load(watch->interrupted) ? WARMUP_TAKE_BACK : WARMUP_GO_ON;
}

static void write_result(struct bytes *out, const struct warmup_result *r,
                         const struct watch *watch)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_uint(&w, "samples", r->samples);
    jw_uint(&w, "bytes", r->bytes);
    jw_num(&w, "seconds", r->seconds);
    jw_uint(&w, "already", r->already);
    jw_uint(&w, "fetched", r->fetched);
    jw_uint(&w, "failed", r->failed);
    jw_raw(&w, "failures", watch->failures.data);
    jw_uint(&w, "failures_omitted",
            watch->n_failures > FAILURES_LISTED ? watch->n_failures - FAILURES_LISTED : 0);
    jw_bool(&w, "verified", r->verified);
    jw_uint(&w, "unfit", r->unfit);
    jw_uint(&w, "unfit_bytes", r->unfit_bytes);
    jw_str(&w, "first_unfit", r->first_unfit);
    jw_uint(&w, "room", r->room);
    jw_end(&w);
}

/* `ret_kept`: it was interrupted, and what was fetched stays. */
static int warm_volume(const struct volume_conf *conf, const struct path_list *paths,
                       const struct warmup_options *o, struct bytes *result, bool *ret_kept,
                       struct how_far *ret_far, struct err *err)
{
    struct volume *v;
    struct watch watch = {.interrupted = conf->stop};
    struct warmup_result r = {0};
    progress_init(&watch.progress, o->quiet);
    if (volume_open(&v, conf, progress_volume, &watch.progress, err)) {
        progress_end(&watch.progress);
        return -1;
    }
    jw_init(&watch.w, &watch.failures);
    jw_array(&watch.w, NULL);
    struct warmup_conf w = {
        .paths = (const char *const *)paths->items,
        .n_paths = paths->n,
        .partition = o->partition,
        .strategy = strcmp(o->strategy, "auto") == 0 ? NULL : o->strategy,
        .sampler = o->sampler,
        .verify = o->verify,
        .dry_run = o->dry_run,
    };
    int rc = volume_warmup(v, &w, show, note_failure, &watch, &r, err);
    progress_end(&watch.progress);
    jw_end(&watch.w);
    *ret_far = watch.far;
    *ret_kept = rc && atomic_load(conf->stop);
    if (*ret_kept)
        cache_flush(volume_cache(v), NULL); /* a leftover is fetched again */
    else if (!rc)
        rc = cache_flush(volume_cache(v), err);
    if (!rc)
        write_result(result, &r, &watch);
    bytes_release(&watch.failures);
    volume_close(v);
    return rc;
}

int warmup_set(const char *set, const struct path_list *paths, const struct warmup_options *o,
               struct bytes *result, struct how_far *ret_far, struct err *err)
{
    struct log_file log = {0};
    struct volume_conf conf = {.set = set, .memory = o->memory};
    cleanup_owner struct owner owner = {0};
    store_conf_of(&o->store, &conf.store);
    if (owner_resolve(&owner, set, &o->set, &conf.store, err))
        return -1;
    conf.stop = catch_interrupts();
    bool kept = false;
    int rc = owner_make(&owner, err);
    if (!rc)
        rc = check_nested(set, &conf.store, &owner, /* mountpoint= */ NULL, err);
    if (!rc)
        rc = owner_lock(&owner, err);
    if (!rc)
        rc = log_file_open(&log, &o->log, false, err);
    if (!rc) {
        fetch_conf_defaults(&conf.fetch);
        conf.fetch.connections = (unsigned)o->connections;
        conf.fetch.bandwidth = o->bandwidth;
        conf.log = conf.store.log = conf.fetch.log = log.log;
        owner_to_volume(&owner, &conf);
        rc = warm_volume(&conf, paths, o, result, &kept, ret_far, err);
    }
    if (rc && !kept)
        owner_unmake(&owner);
    if (rc && atomic_load(conf.stop))
        err_set(err, ERR_CANCELLED, "interrupted: %s",
                kept ? "what was fetched stays" : "nothing was fetched yet");
    log_file_close(&log);
    return rc;
}
