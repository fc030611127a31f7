/*
 * What mounts are told by their server (--guide): which partition is their node's, that this server
 * knows where the others are, and the token that is shown to them. Mounts outside of a cluster's
 * network know none of its names, so they ask the server by an address, and get addresses.
 *
 * A mount that is made anew is told anew: a thread looks at the register of mounts. What a mount
 * has been told outlives the death of its owner, not its keeper.
 *
 * The token lies beside the owner's socket, in a file of the owner's user: no word of the control
 * socket, no status and no log has it.
 */
#define LOG_MODULE "guide"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "file.h"
#include "log.h"
#include "mem.h"
#include "order.h"
#include "server-internal.h"

#define LOOK_NS    (2 * NS_PER_S)
#define TOKEN_FILE "peer-token"

struct guided {
    char *socket; /* of the owner that was told; NULL: none was */
    long long started;
    int pid;
    bool failed; /* it was logged */
};

struct guide {
    struct server *server;
    struct lock lock;
    struct cond end;
    bool stop; /* guarded by the lock */
    pthread_t thread;
    bool runs;
    struct guided *mounts; /* the thread's */
    struct secret token;   /* as it was written */
};

/* --- what is told ----------------------------------------------------------------------------- */

static char *own_url(const struct server *s)
{
    const char *address = s->conf.guide;
    bool six = strchr(address, ':') && address[0] != '[';
    return xasprintf("%s://%s%s%s:%u", s->conf.tls_cert ? "https" : "http", six ? "[" : "", address,
                     six ? "]" : "", s->port);
}

static int write_token(const char *file, const struct secret *token, struct err *err)
{
    cleanup_free char *new = xasprintf("%s.new", file);
    int fd = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(err, errno, "write %s", new);
    int error = file_write(fd, token->text, token->len, 0) ? errno : 0;
    close(fd);
    if (!error && rename(new, file))
        error = errno;
    if (error)
        unlink(new);
    return error ? err_sys(err, error, "write %s", file) : 0;
}

static bool same_share(const char *mount, unsigned partition, unsigned partitions)
{
    cleanup_json struct json_doc *doc = NULL;
    int64_t i = -1, n = -1;
    if (mount_look(mount, "status", &doc, NULL))
        return false;
    struct json root = json_root(doc), status = json_get(&root, "status"),
                share = json_get(&status, "partition");
    if (json_int(&share, "partition", 0, UINT32_MAX, &i, NULL) ||
        json_int(&share, "partitions", 0, UINT32_MAX, &n, NULL))
        return partitions == 1;
    return i == partition && n == partitions;
}

/* `token_file` NULL: no token is asked for. */
static void write_fields(const struct server *s, const char *mount, const char *token_file,
                         struct bytes *ret)
{
    bool alone = s->conf.partitions == 1;
    cleanup_free char *url = alone ? xstrdup("") : own_url(s);
    struct json_writer w;
    struct bytes object = {0};
    jw_init(&w, &object);
    jw_object(&w, NULL);
    /* A share that is set anew begins its epoch anew. */
    if (!same_share(mount, s->conf.ordinal, s->conf.partitions)) {
        cleanup_free char *share =
            alone ? xstrdup("") : xasprintf("%u/%u", s->conf.ordinal, s->conf.partitions);
        jw_str(&w, "partition", share);
    }
    jw_str(&w, "peer-token-file", token_file ? token_file : "");
    jw_str(&w, "peers", url);
    jw_end(&w);
    bytes_add(ret, object.data + 1, object.len - 2); /* its members */
    bytes_release(&object);
}

static int tell(struct guide *g, const char *mount, const struct control_mount *m, struct err *err)
{
    const struct server *s = g->server;
    const char *slash = strrchr(m->socket, '/');
    cleanup_free char *file =
        xasprintf("%.*s/" TOKEN_FILE, (int)(slash ? slash - m->socket : 0), m->socket);
    cleanup_bytes struct bytes fields = {0};
    cleanup_json struct json_doc *doc = NULL;
    bool secret = g->token.len && s->conf.partitions > 1;
    if (secret && write_token(file, &g->token, err))
        return -1;
    write_fields(s, mount, secret ? file : NULL, &fields);
    return mount_ask(mount, "set", fields.data, NULL, NULL, &doc, err);
}

/* --- whom ------------------------------------------------------------------------------------- */

static bool knows(const struct guided *d, const struct control_mount *m)
{
    return d->socket && strcmp(d->socket, m->socket) == 0 && d->started == m->started &&
           d->pid == (m->keeper_pid ? m->keeper_pid : m->pid);
}

static void look_at(struct guide *g, size_t i)
{
    struct guided *d = &g->mounts[i];
    const char *mount = g->server->mounts[i];
    struct control_mount m;
    struct err err = {0};
    if (control_find(mount, &m, NULL))
        return; /* whoever asks for its status is told so */
    if (!knows(d, &m)) {
        if (tell(g, mount, &m, &err) == 0) {
            free(d->socket);
            *d = (struct guided){.socket = xstrdup(m.socket),
                                 .started = m.started,
                                 .pid = m.keeper_pid ? m.keeper_pid : m.pid};
            log_info(g->server->conf.log, "%s: partition %u of %u", mount, g->server->conf.ordinal,
                     g->server->conf.partitions);
        } else if (!d->failed) {
            log_warn(g->server->conf.log, "%s: not told of its partition yet: %s", mount, err.msg);
            d->failed = true;
        }
    }
    control_mount_release(&m);
}

static void look_at_token(struct guide *g)
{
    cleanup_secret struct secret now = {0};
    auth_token_copy(&g->server->auth, &now);
    if (now.len == g->token.len && (!now.len || memcmp(now.text, g->token.text, now.len) == 0))
        return;
    secret_release(&g->token);
    g->token = now;
    now = (struct secret){0};
    for (size_t i = 0; i < g->server->conf.n_mounts; i++) {
        free(g->mounts[i].socket);
        g->mounts[i].socket = NULL;
    }
}

static void *guide_main(void *arg)
{
    struct guide *g = arg;
    ACQUIRE(&g->lock);
    while (!g->stop) {
        lock_drop(&g->lock);
        look_at_token(g);
        for (size_t i = 0; i < g->server->conf.n_mounts; i++)
            look_at(g, i);
        lock_take(&g->lock);
        if (!g->stop)
            cond_wait_for(&g->end, &g->lock, LOOK_NS);
    }
    return NULL;
}

int guide_start(struct server *s, struct err *err)
{
    if (!s->conf.guide)
        return 0;
    if (!*s->conf.guide || strpbrk(s->conf.guide, "/ \t\n@\"\\"))
        return err_set(err, ERR_USAGE, "--guide \"%s\": want an address of this machine",
                       s->conf.guide);
    struct guide *g = xcalloc(1, sizeof *g);
    g->server = s;
    g->mounts = xcalloc(s->conf.n_mounts + 1, sizeof *g->mounts);
    lock_init(&g->lock, RANK_CONTROL, "guide");
    cond_init(&g->end);
    s->guide = g;
    int e = thread_start(&g->thread, "guide", guide_main, g);
    g->runs = !e;
    return e ? err_thread(err, e, "start a thread") : 0;
}

void guide_stop(struct server *s)
{
    struct guide *g = s->guide;
    if (!g)
        return;
    {
        ACQUIRE(&g->lock);
        g->stop = true;
        cond_broadcast(&g->end);
    }
    if (g->runs)
        pthread_join(g->thread, NULL);
    for (size_t i = 0; i < s->conf.n_mounts; i++)
        free(g->mounts[i].socket);
    free(g->mounts);
    secret_release(&g->token);
    cond_destroy(&g->end);
    lock_destroy(&g->lock);
    free(g);
    s->guide = NULL;
}

/* --- POST /v1/settings ------------------------------------------------------------------------ */

static int read_settings(const struct request *r, struct bytes *ret, const char **ret_mount,
                         struct json_doc **ret_doc, struct err *err)
{
    static const char *const keys[] = {"mount", "sampler", "version", NULL};
    const char *named, *sampler, *version;
    struct order_spec spec;
    struct json_writer w;
    if (request_json(r, ret_doc, err))
        return -1;
    struct json root = json_root(*ret_doc);
    if (json_want_object(&root, err) || json_only_keys(&root, keys, err) ||
        json_str_or(&root, "mount", "", &named, err) ||
        json_str_or(&root, "sampler", NULL, &sampler, err) ||
        json_str_or(&root, "version", NULL, &version, err) ||
        mount_choose(r->server, named, ret_mount, err))
        return -1;
    if (!sampler && !version)
        return err_set(err, ERR_USAGE, "nothing to set (known: sampler, version)");
    if (sampler && *sampler && order_spec_parse(&spec, sampler, err))
        return -1;
    jw_init(&w, ret);
    jw_object(&w, NULL);
    if (sampler)
        jw_str(&w, "sampler", sampler);
    if (version)
        jw_str(&w, "version", version);
    jw_end(&w);
    return 0;
}

void serve_settings(struct request *r, struct answer *a)
{
    cleanup_json struct json_doc *doc = NULL, *done = NULL;
    cleanup_bytes struct bytes object = {0};
    const char *mount;
    struct err err = {0};
    if (read_settings(r, &object, &mount, &doc, &err)) {
        err.class = ERR_USAGE;
        answer_error(a, &err);
        return;
    }
    assert(object.data); /* "{…}", of which the fields are sent */
    object.data[object.len - 1] = '\0';
    if (mount_ask(mount, "set", object.data + 1, NULL, NULL, &done, &err)) {
        answer_error(a, &err);
        return;
    }
    struct json_writer w;
    answer_json(a, &w);
    jw_object(&w, NULL);
    jw_str(&w, "mount", mount);
    jw_end(&w);
}
