/* Pods as addresses, addresses as numbers, and the command lines that follow from them. Pure. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"
#include "mem.h"

#define COMMENT "paddle_process_by_paddle"

/* As strings: 10.0.0.10 comes before 10.0.0.2. It is the same on every pod, that is all. */
static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* One that runs, is not about to go, and has an address. */
static int address_of(const struct json *pod, const char **ret, struct err *err)
{
    struct json meta = json_get(pod, "metadata"), status = json_get(pod, "status");
    const char *phase, *ip;
    *ret = NULL;
    if (!status.node)
        return 0;
    if (json_str_or(&status, "phase", "", &phase, err) ||
        json_str_or(&status, "podIP", "", &ip, err))
        return -1;
    if (strcmp(phase, "Running") == 0 && *ip && !json_has(&meta, "deletionTimestamp"))
        *ret = ip;
    return 0;
}

int launch_nodes(struct launch_nodes *ret, const struct json *pods, struct err *err)
{
    struct json items = json_get(pods, "items");
    ret->n = 0;
    if (json_want_array(&items, err))
        return -1;
    for (size_t i = 0; i < json_count(&items); i++) {
        struct json pod = json_at(&items, i);
        const char *ip;
        if (address_of(&pod, &ip, err))
            return -1;
        if (!ip)
            continue;
        if (ret->n == LAUNCH_NODES || strlen(ip) >= sizeof ret->ip[0])
            return err_set(err, ERR_LIMIT, "launch: more than %d pods", LAUNCH_NODES);
        snprintf(ret->ip[ret->n++], sizeof ret->ip[0], "%s", ip);
    }
    if (ret->n)
        qsort(ret->ip, (size_t)ret->n, sizeof ret->ip[0], by_text);
    return 0;
}

int64_t launch_number(const struct launch_nodes *n, const char *ip)
{
    for (int64_t i = 0; i < n->n; i++)
        if (strcmp(n->ip[i], ip) == 0)
            return i;
    return -1;
}

/* --- command lines ---------------------------------------------------------------------------- */

struct words {
    char **all;
    size_t n;
};

static void add(struct words *w, char *word)
{
    w->all = xrealloc(w->all, (w->n + 2) * sizeof *w->all);
    w->all[w->n++] = word;
    w->all[w->n] = NULL;
}

static void add_ports(struct words *w, const struct launch_conf *c)
{
    add(w, xasprintf("--nics=%s", c->nic));
    add(w, xasprintf("--port=%" PRId64, c->port));
    add(w, xasprintf("--ports_num=%" PRId64, c->ports_num));
    add(w, xstrdup("--comment=" COMMENT));
}

char **launch_server_words(const struct launch_conf *c, const char *ip)
{
    struct words w = {0};
    add(&w, xstrdup(c->program));
    add(&w, xstrdup("pserver"));
    add_ports(&w, c);
    add(&w, xasprintf("--ports_num_for_sparse=%" PRId64, c->ports_num_for_sparse));
    add(&w, xasprintf("--num_gradient_servers=%" PRId64, c->nodes));
    add(&w, xasprintf("--address=%s", ip));
    return w.all;
}

static bool says(const struct launch_conf *c, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < c->n_rest; i++)
        if (strncmp(c->rest[i], name, len) == 0 &&
            (c->rest[i][len] == '=' || c->rest[i][len] == '\0'))
            return true;
    return false;
}

char **launch_trainer_words(const struct launch_conf *c, const struct launch_nodes *n, int64_t id)
{
    struct words w = {0};
    struct bytes list = {0};
    for (int64_t i = 0; i < n->n; i++)
        bytes_addf(&list, "%s%s", i ? "," : "", n->ip[i]);
    add(&w, xstrdup(c->program));
    add_ports(&w, c);
    add(&w, xasprintf("--pservers=%s", list.data ? list.data : ""));
    add(&w, xasprintf("--ports_num_for_sparse=%" PRId64, c->ports_num_for_sparse));
    for (size_t i = 0; i < c->n_rest; i++)
        add(&w, xstrdup(c->rest[i]));
    if (!says(c, "--local"))
        add(&w, xstrdup("--local=0"));
    add(&w, xasprintf("--trainer_id=%" PRId64, id));
    add(&w, xasprintf("--save_dir=%s/%s/output", c->path, c->job));
    bytes_release(&list);
    return w.all;
}

void launch_words_free(char **words)
{
    for (char **w = words; w && *w; w++)
        free(*w);
    free(words);
}
