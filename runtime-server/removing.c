/* What jobs that remove from a store tell of it while they do and at their end. */
#include "mem.h"
#include "removing-internal.h"

#define FAILURES_LISTED 100

static void on_progress(void *arg, const struct remove_counts *n)
{
    struct removing *r = arg;
    struct job_progress p = {.items = r->before.removed + n->removed,
                             .total_items = r->more ? 0 : r->all.objects,
                             .failed = r->before.failed + n->failed,
                             .eta_s = -1};
    job_tell(r->run, &p);
}

static bool told_to_stop(void *arg)
{
    struct removing *r = arg;
    if (job_wanted(r->run) != JOB_GO_ON)
        atomic_store(&r->stop, true);
    return atomic_load(&r->stop);
}

static void on_failed(void *arg, const char *key, const char *why)
{
    struct removing *r = arg;
    struct json_writer w;
    if (r->n_failures++ >= FAILURES_LISTED)
        return;
    bytes_add_str(&r->failures, r->n_failures > 1 ? "," : "");
    jw_init(&w, &r->failures);
    jw_object(&w, NULL);
    jw_str(&w, "path", key);
    jw_str(&w, "why", why);
    jw_end(&w);
}

struct remove_watch removing_watch(struct removing *r)
{
    return (struct remove_watch){
        .failed = on_failed, .progress = on_progress, .arg = r, .told = told_to_stop};
}

void removing_add(struct removing *r, const struct remove_counts *n)
{
    r->before.removed += n->removed;
    r->before.failed += n->failed;
    r->before.expired += n->expired;
}

static void write_result(const struct removing *r, struct bytes *ret)
{
    cleanup_free char *failures = xasprintf("[%s]", r->failures.data ? r->failures.data : "");
    cleanup_free char *trash = xasprintf("[%s]", r->trash.data ? r->trash.data : "");
    struct json_writer w;
    jw_init(&w, ret);
    jw_object(&w, NULL);
    jw_uint(&w, "objects", r->all.objects);
    jw_uint(&w, "bytes", r->all.bytes);
    jw_uint(&w, "removed", r->before.removed);
    jw_uint(&w, "failed", r->before.failed);
    jw_uint(&w, "expired", r->before.expired);
    jw_raw(&w, "trash", trash);
    jw_raw(&w, "failures", failures);
    jw_end(&w);
}

int removing_end(struct removing *r, int rc, struct bytes *result, struct err *err)
{
    bool stopped = atomic_load(&r->stop);
    write_result(r, result);
    bytes_release(&r->failures);
    bytes_release(&r->trash);
    if (stopped)
        return 0;
    if (!rc && r->before.failed)
        return err_set(err, ERR_FAILED, "%llu of %llu objects could not be removed (see result)",
                       (unsigned long long)r->before.failed, (unsigned long long)r->all.objects);
    return rc;
}
