/*
 * set: limits and the order of a running mount. What was set is kept for the lives to come, as one
 * object of the same form; a later value of a key takes the place of the earlier one. But a version
 * is not kept here: the volume notes it beside the set's versions, for new mounts too.
 */
#define LOG_MODULE "control"
#include "serve-internal.h"

#include <errno.h>

#include "conf.h"
#include "log.h"
#include "owner.h"

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

static int set_strategy(struct volume *v, const struct json *value, struct err *err)
{
    const char *name;
    return json_as_str(value, &name, err) ? -1 : volume_set_strategy(v, name, err);
}

static int set_weights(struct volume *v, const struct json *value, struct err *err)
{
    const char *text;
    return json_as_str(value, &text, err) ? -1 : volume_set_weights(v, text, err);
}

static int set_partition(struct volume *v, const struct json *value, struct err *err)
{
    const char *text;
    return json_as_str(value, &text, err) ? -1 : volume_set_partition(v, text, err);
}

static int set_peers(struct volume *v, const struct json *value, struct err *err)
{
    const char *text;
    return json_as_str(value, &text, err) ? -1 : volume_set_peers(v, text, err);
}

static int set_peer_token_file(struct volume *v, const struct json *value, struct err *err)
{
    const char *file;
    return json_as_str(value, &file, err) ? -1 : volume_set_peer_token_file(v, file, err);
}

static int set_version(struct volume *v, const struct json *value, struct err *err)
{
    const char *digest;
    return json_as_str(value, &digest, err) ? -1 : volume_set_version(v, digest, err);
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

static int set_ahead_bytes(struct volume *v, const struct json *value, struct err *err)
{
    uint64_t n = 0;
    if (number_or_text(value, conf_size, &n, err))
        return -1;
    volume_set_ahead_bytes(v, n);
    return 0;
}

static int set_memory(struct volume *v, const struct json *value, struct err *err)
{
    uint64_t n = 0;
    return number_or_text(value, conf_size, &n, err) ? -1 : volume_set_memory(v, n, err);
}

static int connections_of(const struct json *value, uint64_t *ret, struct err *err)
{
    if (number_or_text(value, count_text, ret, err))
        return -1;
    if (*ret < 1 || *ret > 1024)
        return err_set(err, ERR_USAGE, "connections: %llu: want 1 to 1024",
                       (unsigned long long)*ret);
    return 0;
}

static int set_connections(struct volume *v, const struct json *value, struct err *err)
{
    uint64_t n = 0;
    if (connections_of(value, &n, err))
        return -1;
    volume_set_connections(v, (unsigned)n);
    return 0;
}

/* --- of a mount that can be written ---------------------------------------------------------- */

static int outputs_bandwidth(const struct control_server_conf *c, const struct json *value,
                             struct err *err)
{
    uint64_t n = 0;
    if (number_or_text(value, conf_rate, &n, err))
        return -1;
    fetch_set_bandwidth(c->fetch, n);
    return 0;
}

static int outputs_connections(const struct control_server_conf *c, const struct json *value,
                               struct err *err)
{
    uint64_t n = 0;
    if (connections_of(value, &n, err))
        return -1;
    fetch_set_connections(c->fetch, (unsigned)n);
    return 0;
}

static int outputs_refresh(const struct control_server_conf *c, const struct json *value,
                           struct err *err)
{
    uint64_t n = 0;
    if (number_or_text(value, conf_duration, &n, err))
        return -1;
    stage_set_refresh(c->stage, n);
    return 0;
}

static const struct {
    const char *name;
    int (*set)(struct volume *v, const struct json *value, struct err *err);
    int (*set_outputs)(const struct control_server_conf *c, const struct json *value,
                       struct err *err);
} settings[] = {
    /* The sampler first: an epoch given with it is meant for it. */
    {"sampler", set_sampler, NULL},
    {"strategy", set_strategy, NULL},
    {"partition", set_partition, NULL},
    {"weights", set_weights, NULL}, /* after it: there are as many */
    {"version", set_version, NULL}, /* before the epoch, which may begin with it */
    {"epoch", set_epoch, NULL},
    {"ahead-bytes", set_ahead_bytes, NULL},
    {"peer-token-file", set_peer_token_file, NULL},
    {"peers", set_peers, NULL},
    {"bandwidth", set_bandwidth, outputs_bandwidth},
    {"memory", set_memory, NULL},
    {"connections", set_connections, outputs_connections},
    {"refresh", NULL, outputs_refresh},
};

#define N_SETTINGS (sizeof settings / sizeof settings[0])

static int apply_one(const struct control_server_conf *c, size_t i, const struct json *value,
                     struct err *err)
{
    if (c->stage ? !settings[i].set_outputs : !settings[i].set)
        return err_set(err, ERR_USAGE, "%s is no setting of a mount %s", settings[i].name,
                       c->stage ? "that can be written" : "of samples");
    return c->stage ? settings[i].set_outputs(c, value, err)
                    : settings[i].set(c->volume, value, err);
}

/* 1: it is applied; 0: it is not among them. */
static int apply_given(const struct control_server_conf *c, size_t i, const struct json *values,
                       struct err *err)
{
    if (!json_has(values, settings[i].name))
        return 0;
    struct json value = json_get(values, settings[i].name);
    return apply_one(c, i, &value, err) ? err_wrap(err, "set %s", settings[i].name) : 1;
}

/* *ret_end: of the rows below it, those that are given are in force, in failure too. */
static int apply(const struct control_server_conf *c, const struct json *values,
                 struct json_writer *ret_set, size_t *n, size_t *ret_end, struct err *err)
{
    for (size_t i = 0; i < N_SETTINGS; i++) {
        *ret_end = i;
        int rc = apply_given(c, i, values, err);
        if (rc < 0)
            return -1;
        if (rc == 0)
            continue;
        if (ret_set)
            jw_str(ret_set, NULL, settings[i].name);
        (*n)++;
    }
    *ret_end = N_SETTINGS;
    return 0;
}

/* Returns the parsed text of what is kept, or NULL. */
static struct json_doc *kept_values(const struct keeper_text *t)
{
    const char *text = keeper_text_get(t);
    struct json_doc *doc;
    return *text && !json_parse(&doc, "kept settings", text, strlen(text), NULL) ? doc : NULL;
}

/* Was it set by the rows below `end`? */
static bool was_set(const struct json *values, size_t end, const char *name)
{
    for (size_t i = 0; i < end; i++)
        if (strcmp(settings[i].name, name) == 0)
            return json_has(values, name);
    return false;
}

/* Are there as many of them as partitions? */
static bool weights_fit(const struct json *weights, const struct json *partition)
{
    struct owner_weights w;
    uint32_t i, n;
    const char *text;
    return !json_as_str(weights, &text, NULL) && !owner_weights_parse(&w, text, NULL) &&
           !json_as_str(partition, &text, NULL) && *text &&
           !owner_share_parse(text, &i, &n, NULL) && w.n == n;
}

/* Does what is kept of the row belong to what was set anew? An epoch does to its sampler, and
 * weights to a number of partitions. */
static bool is_outdated(const char *name, const struct json *old, const struct json *values,
                        size_t end)
{
    if (strcmp(name, "epoch") == 0)
        return was_set(values, end, "sampler");
    if (strcmp(name, "weights") != 0 || !was_set(values, end, "partition"))
        return false;
    struct json weights = json_get(old, name), partition = json_get(values, "partition");
    return !weights_fit(&weights, &partition);
}

/* The kept object with the rows of `values` below `end` over it. */
static void keep(struct control_server *s, const struct json *values, size_t end)
{
    cleanup_json struct json_doc *doc = kept_values(s->kept_settings);
    cleanup_bytes struct bytes text = {0};
    struct json old = doc ? json_root(doc) : (struct json){0};
    struct json_writer w;
    struct err err = {0};
    jw_init(&w, &text);
    jw_object(&w, NULL);
    for (size_t i = 0; i < N_SETTINGS; i++) {
        const char *name = settings[i].name;
        bool fresh = was_set(values, end, name);
        if (strcmp(name, "version") == 0)
            continue;
        if (!fresh && (!doc || !json_has(&old, name) || is_outdated(name, &old, values, end)))
            continue;
        cleanup_bytes struct bytes value = {0};
        struct json from = json_get(fresh ? values : &old, name);
        json_text(&from, &value);
        jw_raw(&w, name, value.data);
    }
    jw_end(&w);
    if (keeper_text_set(s->kept_settings, text.data, &err))
        log_warn(s->conf.log, "settings will not outlive this process: %s", err.msg);
}

static int set(struct control_server *s, const struct json *values, struct json_writer *ret_set,
               size_t *n, struct err *err)
{
    ACQUIRE(&s->settings);
    size_t end;
    int rc = apply(&s->conf, values, ret_set, n, &end, err);
    if (*n)
        keep(s, values, end);
    return rc;
}

int control_set(struct control_server *s, const char *key, const char *value, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    cleanup_json struct json_doc *doc = NULL;
    struct json_writer w;
    size_t n = 0;
    jw_init(&w, &text);
    jw_object(&w, NULL);
    jw_str(&w, key, value);
    jw_end(&w);
    if (json_parse(&doc, "setting", text.data, text.len, err))
        return -1;
    struct json root = json_root(doc);
    return set(s, &root, NULL, &n, err);
}

int op_set(struct request *r, struct err *err)
{
    size_t n = 0;
    jw_array(r->w, "set");
    if (set(r->connection->server, &r->root, r->w, &n, err))
        return -1;
    jw_end(r->w);
    return n ? 0 : err_set(err, ERR_USAGE, "set: nothing to set");
}

int settings_resume(struct control_server *s, struct err *err)
{
    ACQUIRE(&s->settings);
    cleanup_json struct json_doc *doc = kept_values(s->kept_settings);
    int rc = 0;
    if (!doc)
        return 0;
    struct json root = json_root(doc);
    /* One that is refused now takes no other with it, but for the epoch of a sampler. The first is
     * told. */
    bool no_sampler = false;
    for (size_t i = 0; i < N_SETTINGS; i++) {
        struct err why = {0};
        if (no_sampler && strcmp(settings[i].name, "epoch") == 0)
            continue;
        if (apply_given(&s->conf, i, &root, &why) >= 0)
            continue;
        no_sampler = no_sampler || strcmp(settings[i].name, "sampler") == 0;
        if (!rc)
            *err = why;
        rc = -1;
    }
    return rc;
}

bool control_kept_sampler(struct keeper_state *state)
{
    cleanup_json struct json_doc *doc =
        state ? kept_values(keeper_text(state, "settings", SETTINGS_MAX)) : NULL;
    if (!doc)
        return false;
    struct json root = json_root(doc);
    return json_has(&root, "sampler");
}
