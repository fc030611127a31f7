/* Asking the owner of a mount over its control socket. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "cli-internal.h"
#include "mem.h"

/* All that goes through here may be done twice; who kills daemons faster than they answer must tell
 * the user. */
#define ASK_TRIES      100
#define RECOVERY_LOOKS 100

void ask_begin(struct json_writer *w, struct bytes *request, const char *op)
{
    jw_init(w, request);
    jw_object(w, NULL);
    jw_str(w, "op", op);
}

int ask_within(const struct control_mount *m, unsigned patience_s, struct json_writer *w,
               struct bytes *request, struct json_doc **ret, struct err *err)
{
    jw_end(w);
    return control_ask(m->socket, request, ASK_TRIES, patience_s, ret, err);
}

int ask_ping(const struct control_mount *m, unsigned patience_s, struct json_doc **ret,
             struct err *err)
{
    cleanup_bytes struct bytes request = {0};
    struct json_writer w;
    ask_begin(&w, &request, "ping");
    return ask_within(m, patience_s, &w, &request, ret, err);
}

int ask(const struct control_mount *m, struct json_writer *w, struct bytes *request,
        control_progress_fn *progress, void *arg, struct json_doc **ret, struct err *err)
{
    cleanup_json struct json_doc *alive = NULL;
    jw_end(w);
    if (!m->recovering && ask_ping(m, ASK_PATIENCE_S, &alive, err))
        return -1;
    return control_call_again(m->socket, request, ASK_TRIES, progress, arg, ret, NULL, err);
}

int ask_status(const struct control_mount *m, struct json_doc **ret, struct err *err)
{
    cleanup_bytes struct bytes request = {0};
    struct json_writer w;
    ask_begin(&w, &request, "status");
    return ask_within(m, ASK_PATIENCE_S, &w, &request, ret, err);
}

int ask_endpoint(const struct control_mount *m, struct store_conf *conf, char **ret,
                 struct err *err)
{
    cleanup_json struct json_doc *answer = NULL;
    if (conf->endpoint)
        return 0;
    if (ask_status(m, &answer, err))
        return -1;
    struct json root = json_root(answer), status = json_get(&root, "status");
    const char *endpoint = json_str_at(&status, "endpoint");
    if (*endpoint)
        conf->endpoint = *ret = xstrdup(endpoint);
    return 0;
}

bool status_refuses(const struct json *status)
{
    return strcmp(json_str_at(status, "mode"), "refuse") == 0;
}

void ask_wait_recovered(struct control_mount *m)
{
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    for (int i = 0; i < RECOVERY_LOOKS && m->recovering; i++) {
        struct control_mount now;
        nanosleep(&pause, NULL);
        if (control_find(m->mountpoint, &now, NULL))
            return;
        control_mount_release(m);
        *m = now;
    }
}

static int add_path(struct json_writer *w, const struct control_mount *m, const char *word,
                    struct err *err)
{
    cleanup_free char *path = NULL;
    if (path_in_mount(m, word, &path, err))
        return -1;
    jw_name(w, NULL, path);
    return 0;
}

int ask_paths(struct json_writer *w, const struct control_mount *m, const char *below,
              const struct conf *conf, size_t first, struct err *err)
{
    bool has_below = below && *below;
    if (!has_below && conf_n_args(conf) <= first)
        return 0;
    jw_array(w, "paths");
    if (has_below)
        jw_name(w, NULL, below);
    for (size_t i = first; i < conf_n_args(conf); i++)
        if (add_path(w, m, conf_arg(conf, i), err))
            return -1;
    jw_end(w);
    return 0;
}

double json_num_at(const struct json *obj, const char *key)
{
    double n = 0;
    return json_num(obj, key, &n, NULL) ? 0 : n;
}

const char *json_str_at(const struct json *obj, const char *key)
{
    const char *text = "";
    return json_str(obj, key, &text, NULL) ? "" : text;
}

int report_dropped(uint64_t samples, uint64_t bytes, bool json, struct err *err)
{
    cleanup_bytes struct bytes out = {0};
    if (json) {
        struct json_writer w;
        jw_init(&w, &out);
        jw_object(&w, NULL);
        if (samples != UINT64_MAX)
            jw_uint(&w, "samples", samples);
        jw_uint(&w, "bytes", bytes);
        jw_end(&w);
        bytes_add_char(&out, '\n');
    } else {
        char size[32], count[64];
        conf_format_size(bytes, size);
        conf_format_count(samples, "sample", count);
        if (samples != UINT64_MAX)
            bytes_addf(&out, "%s, ", count);
        bytes_addf(&out, "%s dropped\n", size);
    }
    return print_out(&out, err);
}

int print_json(const struct json *j, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    json_text(j, &text);
    bytes_add_char(&text, '\n');
    return print_out(&text, err);
}
