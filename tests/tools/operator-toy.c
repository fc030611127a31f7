/*
 * A controller that is simple enough to see through, in place of the real ones: it makes what the
 * operator around it is tested with. Of each PaddleJob:
 *
 *   annotation toy/children: N   has N ConfigMaps NAME-0 … owned by it; the rest is deleted
 *   annotation toy/secret: NAME  tells the size of the Secret's data in its status' message
 *   annotation toy/again: S      decided again after S seconds, each time with the same event
 *   its status' phase is Running when all children are there, Pending before
 *   it has the finalizer toy/end until its children are gone
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controllers.h"
#include "mem.h"
#include "object.h"

#define FINALIZER "toy.sampan.io/end"
#define LABEL     "toy.sampan.io/job"

static long number_of(const struct json *job, const char *annotation)
{
    const char *text = object_annotation(job, annotation);
    return text ? strtol(text, NULL, 10) : 0;
}

static bool has_finalizer(const struct json *job)
{
    struct json meta = json_get(job, "metadata"), list = json_get(&meta, "finalizers");
    return json_count(&list) > 0;
}

static void set_finalizer(const struct json *job, bool on, struct actions *out)
{
    struct action *a = act_patch(out, KIND_PADDLEJOB, object_namespace(job), object_name(job),
                                 object_version(job));
    bytes_addf(&a->body, "{\"metadata\":{\"finalizers\":[%s]}}", on ? "\"" FINALIZER "\"" : "");
}

static void make_child(const struct json *job, long i, struct actions *out)
{
    cleanup_free char *name = xasprintf("%s-%ld", object_name(job), i);
    struct action *a = act_create(out, KIND_CONFIGMAP, object_namespace(job), name);
    struct json_writer w;
    jw_init(&w, &a->body);
    jw_object(&w, NULL);
    jw_str(&w, "apiVersion", "v1");
    jw_str(&w, "kind", "ConfigMap");
    jw_object(&w, "metadata");
    jw_str(&w, "name", name);
    jw_object(&w, "labels");
    jw_str(&w, MANAGED_KEY, MANAGED_BY);
    jw_str(&w, LABEL, object_name(job));
    jw_end(&w);
    jw_array(&w, "ownerReferences");
    jw_object(&w, NULL);
    jw_str(&w, "apiVersion", "batch.paddlepaddle.org/v1");
    jw_str(&w, "kind", "PaddleJob");
    jw_str(&w, "name", object_name(job));
    jw_str(&w, "uid", object_uid(job));
    jw_bool(&w, "controller", true);
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
}

/* Makes what is missing, deletes what is too much. Returns how many are as they should be. */
static long tend_children(struct view *v, const struct json *job, long want, struct actions *out)
{
    const char *ns = object_namespace(job);
    struct view_list all = view_list(v, KIND_CONFIGMAP, ns, LABEL, object_name(job));
    long there = 0;
    for (long i = 0; i < want; i++) {
        cleanup_free char *name = xasprintf("%s-%ld", object_name(job), i);
        const struct json *child = view_get(v, KIND_CONFIGMAP, ns, name);
        if (!child)
            make_child(job, i, out);
        else if (object_is_managed(child))
            there++;
        else
            act_event(out, true, "NameTaken", "%s is not ours", name);
    }
    for (size_t i = 0; i < all.n; i++) {
        const char *name = object_name(all.items[i]);
        if (strtol(strrchr(name, '-') + 1, NULL, 10) >= want && !object_is_deleted(all.items[i]))
            act_delete(out, KIND_CONFIGMAP, ns, name, object_uid(all.items[i]));
    }
    return there;
}

static void tell_status(struct view *v, const struct json *job, bool running, struct actions *out)
{
    const char *secret = object_annotation(job, "toy/secret");
    const struct json *s = secret ? view_get(v, KIND_SECRET, object_namespace(job), secret) : NULL;
    struct json data = s ? json_get(s, "data") : (struct json){0};
    struct action *a = act_status(out, KIND_PADDLEJOB, object_namespace(job), object_name(job),
                                  object_version(job));
    bytes_addf(&a->body, "{\"status\":{\"phase\":\"%s\",\"message\":\"%s %zu\"}}",
               running ? "Running" : "Pending", s ? "secret of" : "no secret", json_count(&data));
}

static int decide(struct view *v, const struct operator_config *config, struct actions *out,
                  struct err *err)
{
    const struct json *job = view_object(v);
    long want = number_of(job, "toy/children"), again = number_of(job, "toy/again");
    (void)config;
    (void)err;
    if (object_is_deleted(job)) {
        struct view_list left =
            view_list(v, KIND_CONFIGMAP, object_namespace(job), LABEL, object_name(job));
        tend_children(v, job, 0, out);
        if (!left.n && has_finalizer(job))
            set_finalizer(job, false, out);
        return 0;
    }
    if (!has_finalizer(job))
        set_finalizer(job, true, out);
    long there = tend_children(v, job, want, out);
    tell_status(v, job, there == want, out);
    if (there == want && want)
        act_event(out, false, "Made", "%ld children", want);
    if (again)
        act_again(out, (unsigned)again);
    return 0;
}

static void keys_of_child(const struct json *changed, void (*add)(void *arg, const char *key),
                          void *arg)
{
    const char *job = object_label(changed, LABEL);
    if (!job)
        return;
    cleanup_free char *key = xasprintf("%s/%s", object_namespace(changed), job);
    add(arg, key);
}

static const struct wake wakes[] = {{KIND_CONFIGMAP, keys_of_child}};
static const struct controller toy = {
    .name = "toy", .kind = KIND_PADDLEJOB, .wakes = wakes, .n_wakes = 1, .decide = decide};
const struct controller *const controllers[] = {&toy, NULL};
