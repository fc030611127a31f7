/* The runtime servers of the cluster in memory. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "model-internal.h"
#include "order.h"
#include "parts.h"

void model_put_time(struct model *m, json_t *to, const char *key)
{
    char text[PART_TIME_BYTES];
    part_time_text(m->now, text);
    json_object_set_new(to, key, json_string(text));
}

/* http://POD.SERVICE.NS:7716PATH */
static bool split_url(const char *url, char pod[256], char service[256], const char **path)
{
    return sscanf(url, "http://%255[^.].%255[^:]:7716", pod, service) == 2 &&
           (*path = strchr(url + 7, '/'));
}

static bool pod_is_ready(struct model *m, const char *pod, const char *service)
{
    return strcmp(model_at(m, "Pod", strchr(service, '.') + 1, pod, "status|phase"), "Running") ==
           0;
}

/* `key`: of the pod's sampler and version among the settings that were taken. */
static json_t *mount_status(struct model *m, const char *key)
{
    const char *pin = model_text_at(m->pins, key), *served = *pin ? pin : "v2";
    json_t *body = json_pack(
        "{s:s,s:[{s:s,s:s,s:{s:s},s:{s:i,s:i},s:{s:i,s:I,s:[{s:s,s:I,s:I,s:I}]},s:{s:I,s:I}}]}",
        "program", "0.1.0", "mounts", "version", served, "state", "ready", "order", "sampler",
        model_text_at(m->samplers, key), "set", "samples", 1000, "bytes", 1000000, "cache",
        "samples", 0, "bytes", (json_int_t)m->cached, "tiers", "tier", "ssd", "limit",
        (json_int_t)m->limit, "used", (json_int_t)m->cached, "free", (json_int_t)1 << 40, "reads",
        "total", (json_int_t)m->reads, "disk", (json_int_t)m->local);
    json_t *mount = json_array_get(json_object_get(body, "mounts"), 0), *kept = json_array();
    json_array_append_new(kept, json_pack("{s:s}", "version", served));
    if (*m->older)
        json_array_append_new(
            kept, json_pack("{s:s}", "version", strcmp(served, "v2") == 0 ? m->older : "v2"));
    json_object_set_new(mount, "pinned", json_boolean(*pin));
    json_object_set_new(mount, "versions", kept);
    if (m->kept)
        json_object_set_new(mount, "partition",
                            json_pack("{s:i,s:i,s:I,s:I}", "samples", 500, "bytes", 500000,
                                      "cached", (json_int_t)m->kept, "cached_bytes",
                                      (json_int_t)m->kept * 1000));
    return body;
}

static void take_settings(struct model *m, const char *pod, json_t *settings)
{
    struct order_spec spec;
    char text[1024];
    if (json_object_get(settings, "version")) {
        json_object_set(m->pins, pod, json_object_get(settings, "version"));
        m->told_version++;
        return;
    }
    cr_assert_eq(order_spec_parse(&spec, model_text_at(settings, "sampler"), NULL), 0);
    order_spec_print(&spec, text, sizeof text);
    json_object_set_new(m->samplers, pod, json_string(text));
    m->told++;
}

/* The body, and its status of HTTP; 0: no answer. */
json_t *model_answer(struct model *m, const char *url, int *ret_status)
{
    char pod[256], service[256];
    const char *path = "";
    *ret_status = 0;
    cr_assert(split_url(url, pod, service, &path), "%s", url);
    if (m->away || !pod_is_ready(m, pod, service))
        return NULL;
    *ret_status = m->refuses ? 401 : 200;
    if (m->refuses)
        return json_pack("{s:s}", "error", "want the bearer token");
    if (strcmp(path, "/v1/status") == 0)
        return mount_status(m, pod);
    cleanup_free char *key = xasprintf("%s/%s", service, path + strlen("/v1/jobs/"));
    json_t *job = json_object_get(m->jobs, key);
    *ret_status = job ? 200 : 404;
    return job ? json_incref(job) : json_pack("{s:s}", "error", "there is none of that id");
}

bool model_server_takes(struct model *m, const struct action *a)
{
    char pod[256], service[256];
    const char *path = "";
    cr_assert(split_url(a->url, pod, service, &path), "%s", a->url);
    if (m->away || !pod_is_ready(m, pod, service))
        return false;
    if (strcmp(a->method, "DELETE") == 0) {
        cleanup_free char *key = xasprintf("%s/%s", service, path + strlen("/v1/jobs/"));
        json_t *job = json_object_get(m->jobs, key);
        if (job)
            json_object_set_new(job, "state", json_string("cancelled"));
        return true;
    }
    json_t *job = model_parsed(a->body.data);
    if (strcmp(path, "/v1/settings") == 0) {
        take_settings(m, pod, job);
        json_decref(job);
        return true;
    }
    cleanup_free char *key = xasprintf("%s/%s", service, model_text_at(job, "id"));
    json_t *old = json_object_get(m->jobs, key);
    if (old) {
        /* The same id with other options is refused: it must not come to that. */
        cr_assert(json_equal(json_object_get(old, "options"), json_object_get(job, "options")),
                  "%s with other options", key);
        json_decref(job);
        return true;
    }
    json_object_set_new(job, "state", json_string("pending"));
    json_object_set_new(job, "error", json_string(""));
    json_object_set_new(m->jobs, key, job);
    return true;
}

bool model_servers_work(struct model *m)
{
    bool changed = false;
    const char *key;
    json_t *job;
    json_object_foreach(m->jobs, key, job)
    {
        const char *state = model_text_at(job, "state");
        if (strcmp(state, "pending") == 0) {
            json_object_set_new(job, "state", json_string("running"));
            model_put_time(m, job, "started");
            changed = true;
        } else if (strcmp(state, "running") == 0 && strcmp(m->jobs_end, "running") != 0) {
            bool good = strcmp(m->jobs_end, "succeeded") == 0;
            json_object_set_new(job, "state", json_string(m->jobs_end));
            json_object_set_new(job, "error", json_string(good ? "" : m->job_error));
            json_object_set_new(job, "progress",
                                json_pack("{s:f,s:i,s:i}", "percent", good ? 100.0 : 50.0, "items",
                                          good ? 10 : 5, "total", 10));
            model_put_time(m, job, "ended");
            changed = true;
        }
    }
    return changed;
}
