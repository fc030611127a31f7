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

static void volume_free(struct volume *v)
{
    for (size_t i = 0; i < v->n_targets; i++)
        free(v->targets[i].path);
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

static enum rpc_code begin(struct node *n, const char *id, uint64_t wait_ns, struct volume **ret,
                           struct err *err)
{
    ACQUIRE(&n->lock);
    uint64_t until = clock_mono_ns() + wait_ns;
    struct volume *v;
    while ((v = find(n, id)) && v->pending) {
        uint64_t now = clock_mono_ns();
        if (now < until && cond_wait_for(&n->cond, &n->lock, until - now) == 0)
            continue;
        return rpc_fail(err, RPC_ABORTED,
                        "volume %s: another call for it is under way (ask again when it has ended)",
                        id);
    }
    if (!v)
        v = add(n, id);
    v->pending = true;
    *ret = v;
    return RPC_OK;
}

enum rpc_code volume_begin(struct node *n, const char *id, struct volume **ret, struct err *err)
{
    return begin(n, id, 0, ret, err);
}

enum rpc_code volume_begin_soon(struct node *n, const char *id, struct volume **ret,
                                struct err *err)
{
    return begin(n, id, WAIT_NS, ret, err);
}

void volume_end(struct node *n, struct volume *v)
{
    ACQUIRE(&n->lock);
    v->pending = false;
    if (!v->recorded)
        drop(n, v);
    cond_broadcast(&n->cond);
}

void volume_take_set(struct node *n, struct volume *v, const char *key)
{
    ACQUIRE(&n->lock);
    snprintf(v->set, sizeof v->set, "%s", key);
}

char **volumes_of_set(struct node *n, const char *key, size_t *ret_n)
{
    ACQUIRE(&n->lock);
    char **ids = NULL;
    *ret_n = 0;
    for (const struct volume *v = n->volumes; v; v = v->next) {
        if (strcmp(v->set, key) != 0)
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

void volume_add_target(struct volume *v, const char *path, bool read_only)
{
    v->targets = xrealloc(v->targets, (v->n_targets + 1) * sizeof *v->targets);
    v->targets[v->n_targets++] = (struct target){xstrdup(path), read_only};
}

void volume_drop_target(struct volume *v, const char *path)
{
    struct target *t = volume_target(v, path);
    if (!t)
        return;
    free(t->path);
    *t = v->targets[--v->n_targets];
}

/* --- records ---------------------------------------------------------------------------------- */

int volume_store(struct node *n, struct volume *v, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    jw_init(&w, &text);
    jw_object(&w, NULL);
    jw_str(&w, "id", v->id);
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
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
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

static int load_targets(struct volume *v, const struct json *record, struct err *err)
{
    struct json targets = json_get(record, "targets");
    for (size_t i = 0; i < json_count(&targets); i++) {
        struct json t = json_at(&targets, i);
        const char *path;
        bool read_only;
        if (json_str(&t, "path", &path, err) || json_bool(&t, "read_only", &read_only, err))
            return -1;
        volume_add_target(v, path, read_only);
    }
    return 0;
}

static int load_fields(struct volume *v, const struct json *record, struct err *err)
{
    const char *set, *staging, *options;
    if (json_str(record, "set", &set, err) || json_str(record, "staging", &staging, err) ||
        json_str(record, "options", &options, err) ||
        json_bool(record, "writable", &v->writable, err) ||
        json_bool(record, "ephemeral", &v->ephemeral, err) ||
        json_bool_or(record, "deferred", false, &v->deferred, err) || load_targets(v, record, err))
        return -1;
    snprintf(v->set, sizeof v->set, "%s", set);
    free(v->staging);
    free(v->options);
    v->staging = xstrdup(staging);
    v->options = xstrdup(options);
    v->recorded = true;
    return 0;
}

/* A record that this version does not understand is left alone: kubelet's next call makes it anew.
 */
static int load_one(void *arg, const struct json *record, struct err *err)
{
    struct node *n = arg;
    const char *id;
    if (json_str(record, "id", &id, err))
        return -1;
    struct volume *v = add(n, id);
    if (load_fields(v, record, NULL))
        drop(n, v);
    return 0;
}

int volumes_load(struct node *n, struct err *err)
{
    return state_walk(&n->volumes_dir, load_one, n, NULL, err);
}

void volumes_free(struct node *n)
{
    while (n->volumes)
        drop(n, n->volumes);
}
