/* The table of volumes and its records. */
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "node-internal.h"

#define WAIT_NS (10 * NS_PER_S)

static struct volume *find(const struct node *n, const char *id)
{
    for (struct volume *v = n->volumes; v; v = v->next)
        if (strcmp(v->id, id) == 0)
            return v;
    return NULL;
}

static struct volume *add(struct node *n, const char *id)
{
    struct volume *v = xcalloc(1, sizeof *v);
    v->id = xstrdup(id);
    v->staging = xstrdup("");
    v->options = xstrdup("");
    v->next = n->volumes;
    n->volumes = v;
    return v;
}

static void target_free(struct target *t)
{
    free(t->path);
    free(t->lost);
    free(t->pod.name);
    free(t->pod.namespace);
    free(t->pod.uid);
}

static void volume_free(struct volume *v)
{
    for (size_t i = 0; i < v->n_targets; i++)
        target_free(&v->targets[i]);
    free(v->targets);
    free(v->id);
    free(v->staging);
    free(v->options);
    free(v);
}

static void drop(struct node *n, struct volume *v)
{
    struct volume **at = &n->volumes;
    while (*at != v)
        at = &(*at)->next;
    *at = v->next;
    volume_free(v);
}

/* --- one call at a time ----------------------------------------------------------------------- */

/* How long to wait for whoever has the volume. */
struct patience {
    uint64_t with_calls, with_looks;
};

static enum rpc_code begin(struct node *n, const char *id, struct patience patience, bool look,
                           struct volume **ret, struct err *err)
{
    ACQUIRE(&n->lock);
    uint64_t since = clock_mono_ns();
    struct volume *v;
    while ((v = find(n, id)) && v->pending) {
        uint64_t waited = clock_mono_ns() - since;
        uint64_t most = v->looked_at ? patience.with_looks : patience.with_calls;
        if (waited < most) {
            cond_wait_for(&n->cond, &n->lock, most - waited);
            continue;
        }
        return rpc_fail(err, RPC_ABORTED,
                        "volume %s: another call for it is under way (ask again when it has ended)",
                        id);
    }
    if (!v && state_known(&n->volumes_dir, id, err))
        return RPC_FAILED_PRECONDITION;
    if (!v)
        v = add(n, id);
    v->pending = true;
    v->looked_at = look;
    *ret = v;
    return RPC_OK;
}

enum rpc_code volume_begin(struct node *n, const char *id, struct volume **ret, struct err *err)
{
    return begin(n, id, (struct patience){.with_looks = WAIT_NS}, false, ret, err);
}

enum rpc_code volume_begin_soon(struct node *n, const char *id, struct volume **ret,
                                struct err *err)
{
    return begin(n, id, (struct patience){WAIT_NS, WAIT_NS}, true, ret, err);
}

enum rpc_code volume_try(struct node *n, const char *id, struct volume **ret)
{
    return begin(n, id, (struct patience){0}, true, ret, NULL);
}

void volume_end(struct node *n, struct volume *v)
{
    ACQUIRE(&n->lock);
    v->pending = false;
    if (!v->recorded)
        drop(n, v);
    cond_broadcast(&n->cond);
}

bool volume_is_direct(const struct volume *v)
{
    return strstr(v->options, "\ndirect=true\n") != NULL; /* uri stands first */
}

void volume_take_set(struct node *n, struct volume *v, const char *key)
{
    ACQUIRE(&n->lock);
    snprintf(v->set, sizeof v->set, "%s", key);
}

void ids_free(char **ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(ids[i]);
    free(ids);
}

char **volumes_of_set(struct node *n, const char *key, size_t *ret_n)
{
    ACQUIRE(&n->lock);
    char **ids = NULL;
    *ret_n = 0;
    for (const struct volume *v = n->volumes; v; v = v->next) {
        if (key ? strcmp(v->set, key) != 0 : !v->n_cut_off)
            continue;
        ids = xrealloc(ids, (*ret_n + 1) * sizeof *ids);
        ids[(*ret_n)++] = xstrdup(v->id);
    }
    return ids;
}

/* --- targets ---------------------------------------------------------------------------------- */

struct target *volume_target(const struct volume *v, const char *path)
{
    for (size_t i = 0; i < v->n_targets; i++)
        if (strcmp(v->targets[i].path, path) == 0)
            return &v->targets[i];
    return NULL;
}

void volume_add_target(struct node *n, struct volume *v, const char *path, bool read_only)
{
    ACQUIRE(&n->lock);
    v->targets = xrealloc(v->targets, (v->n_targets + 1) * sizeof *v->targets);
    v->targets[v->n_targets++] = (struct target){
        .path = xstrdup(path),
        .read_only = read_only,
        .pod = {xstrdup(""), xstrdup(""), xstrdup("")},
    };
}

static void set_text(char **at, const char *text)
{
    free(*at);
    *at = xstrdup(text);
}

void target_set_pod(struct target *t, const char *name, const char *namespace, const char *uid)
{
    set_text(&t->pod.name, name);
    set_text(&t->pod.namespace, namespace);
    set_text(&t->pod.uid, uid);
}

void target_add_lost(struct target *t, uint64_t dev)
{
    for (size_t i = 0; i < t->n_lost; i++)
        if (t->lost[i].dev == dev)
            return;
    t->lost = xrealloc(t->lost, (t->n_lost + 1) * sizeof *t->lost);
    t->lost[t->n_lost++] = (struct lost_mount){dev, false};
}

void volume_drop_target(struct node *n, struct volume *v, const char *path)
{
    ACQUIRE(&n->lock);
    struct target *t = volume_target(v, path);
    if (!t)
        return;
    target_free(t);
    *t = v->targets[--v->n_targets];
}

char **targets_of_set(struct node *n, const char *key, size_t *ret_n)
{
    ACQUIRE(&n->lock);
    char **paths = NULL;
    *ret_n = 0;
    for (const struct volume *v = n->volumes; v; v = v->next)
        for (size_t i = 0; strcmp(v->set, key) == 0 && i < v->n_targets; i++) {
            if (v->writable && v->targets[i].read_only)
                continue;
            paths = xrealloc(paths, (*ret_n + 1) * sizeof *paths);
            paths[(*ret_n)++] = xstrdup(v->targets[i].path);
        }
    return paths;
}

/* --- records ---------------------------------------------------------------------------------- */

static void count_cut_off(struct node *n, struct volume *v)
{
    size_t count = 0;
    for (size_t i = 0; i < v->n_targets; i++)
        count += v->targets[i].n_lost > 0;
    ACQUIRE(&n->lock);
    v->n_cut_off = count;
}

int volume_store(struct node *n, struct volume *v, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    state_begin(&w, &text, v->id);
    jw_str(&w, "set", v->set);
    jw_str(&w, "staging", v->staging);
    jw_str(&w, "options", v->options);
    jw_bool(&w, "writable", v->writable);
    jw_bool(&w, "ephemeral", v->ephemeral);
    jw_bool(&w, "deferred", v->deferred);
    jw_array(&w, "targets");
    for (size_t i = 0; i < v->n_targets; i++) {
        jw_object(&w, NULL);
        jw_str(&w, "path", v->targets[i].path);
        jw_bool(&w, "read_only", v->targets[i].read_only);
        jw_str(&w, "pod", v->targets[i].pod.name);
        jw_str(&w, "namespace", v->targets[i].pod.namespace);
        jw_str(&w, "uid", v->targets[i].pod.uid);
        jw_array(&w, "lost");
        for (size_t k = 0; k < v->targets[i].n_lost; k++)
            jw_int(&w, NULL, (int64_t)v->targets[i].lost[k].dev);
        jw_end(&w);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    count_cut_off(n, v);
    if (state_write(&n->volumes_dir, v->id, &text, err))
        return err_wrap(err, "volume %s: keep its record", v->id);
    v->recorded = true;
    return 0;
}

int volume_forget(struct node *n, struct volume *v, struct err *err)
{
    if (state_remove(&n->volumes_dir, v->id, err))
        return err_wrap(err, "volume %s: remove its record", v->id);
    v->recorded = false;
    volume_take_set(n, v, "");
    return 0;
}

static int load_target(struct node *n, struct volume *v, const struct json *t, struct err *err)
{
    const char *path, *name, *space, *uid;
    bool read_only;
    if (json_str(t, "path", &path, err) || json_bool(t, "read_only", &read_only, err) ||
        json_str_or(t, "pod", "", &name, err) || json_str_or(t, "namespace", "", &space, err) ||
        json_str_or(t, "uid", "", &uid, err))
        return -1;
    volume_add_target(n, v, path, read_only);
    struct target *new = &v->targets[v->n_targets - 1];
    target_set_pod(new, name, space, uid);
    struct json lost = json_get(t, "lost");
    for (size_t i = 0; i < json_count(&lost); i++) {
        struct json l = json_at(&lost, i);
        int64_t dev;
        if (json_as_int(&l, 1, INT64_MAX, &dev, err))
            return -1;
        target_add_lost(new, (uint64_t)dev);
    }
    v->n_cut_off += new->n_lost > 0;
    return 0;
}

static int load_targets(struct node *n, struct volume *v, const struct json *record,
                        struct err *err)
{
    struct json targets = json_get(record, "targets");
    for (size_t i = 0; i < json_count(&targets); i++) {
        struct json t = json_at(&targets, i);
        if (load_target(n, v, &t, err))
            return -1;
    }
    return 0;
}

/* Plugins of before took peers for volumes that are written, too, and did nothing with them. */
static char *options_of_now(const char *options, bool writable)
{
    const char *peers = writable ? strstr(options, "\npeers=") : NULL; /* uri stands first */
    const char *end = peers ? strchr(peers + 1, '\n') : NULL;
    return end ? xasprintf("%.*s%s", (int)(peers - options), options, end) : xstrdup(options);
}

static int load_fields(struct node *n, struct volume *v, const struct json *record, struct err *err)
{
    const char *set, *staging, *options;
    if (json_str(record, "set", &set, err) || json_str(record, "staging", &staging, err) ||
        json_str(record, "options", &options, err) ||
        json_bool(record, "writable", &v->writable, err) ||
        json_bool(record, "ephemeral", &v->ephemeral, err) ||
        json_bool_or(record, "deferred", false, &v->deferred, err) ||
        load_targets(n, v, record, err))
        return -1;
    snprintf(v->set, sizeof v->set, "%s", set);
    free(v->staging);
    free(v->options);
    v->staging = xstrdup(staging);
    v->options = options_of_now(options, v->writable);
    v->recorded = true;
    return 0;
}

static int load_one(void *arg, const struct json *record, struct err *err)
{
    struct node *n = arg;
    const char *id;
    if (json_str(record, "id", &id, err))
        return -1;
    struct volume *v = add(n, id);
    if (load_fields(n, v, record, NULL) == 0)
        return 0;
    drop(n, v);
    return 1;
}

int volumes_load(struct node *n, struct err *err)
{
    return state_walk(&n->volumes_dir, load_one, n, n->conf.log, err);
}

void volumes_free(struct node *n)
{
    while (n->volumes)
        drop(n, n->volumes);
}
