/* serve: the Cache Runtime Server, in the foreground until SIGTERM or SIGINT. */
#define LOG_MODULE "server"
#include <signal.h>
#include <string.h>

#include "cli-internal.h"
#include "clock.h"
#include "mem.h"
#include "program.h"
#include "server.h"

struct serve_options {
    struct log_options log;
    struct conf_list mounts;
    const char *listen, *token_file, *state, *tls_cert, *tls_key, *compat_peers;
    const char *peers, *ca_file, *guide, *control;
    int64_t ordinal, partitions, rate_limit;
    uint64_t request_timeout;
    bool no_auth;
};

static const struct conf_row rows[] = {
    {"mount", CONF_LIST, AT(serve_options, mounts), .arg = "MOUNTPOINT",
     .help = "A mount that it speaks for"},
    {"control", CONF_STRING, AT(serve_options, control), .arg = "PATH",
     .help =
         "The control socket of the one mount, where this machine's register of mounts does not "
         "tell it (a mount made in another container)"},
    {"listen", CONF_STRING, AT(serve_options, listen), .arg = "ADDR:PORT", .dflt = ":7716",
     .help = "Where to listen; \":PORT\" means every address, port 0 takes any that is free"},
    {"token-file", CONF_STRING, AT(serve_options, token_file), .arg = "FILE",
     .help = "The bearer token that clients must have; read again when the file changes"},
    {"no-auth", CONF_FLAG, AT(serve_options, no_auth),
     .help = "Let everybody ask (on a loopback address only)"},
    {"state", CONF_STRING, AT(serve_options, state), .arg = "DIR", .dflt = "/var/lib/sampan/server",
     .help = "Where jobs are kept: a folder of this server alone"},
    {"tls-cert", CONF_STRING, AT(serve_options, tls_cert), .arg = "FILE",
     .help = "Serve HTTPS with this certificate (PEM); read again when the file changes"},
    {"tls-key", CONF_STRING, AT(serve_options, tls_key), .arg = "FILE", .help = "Its key (PEM)"},
    {"compat-peers", CONF_STRING, AT(serve_options, compat_peers), .arg = "CIDR,...",
     .help = "Addresses that may use the Paddle Operator's routes without a token"},
    {"ordinal", CONF_INT, AT(serve_options, ordinal), .arg = "N", .dflt = "0", .min = 0,
     .max = 65535, .help = "This server's number"},
    {"peers", CONF_STRING, AT(serve_options, peers), .arg = "FILE|URL,...",
     .help =
         "The servers of all partitions: their URLs, a file with one a line ({k} stands for each "
         "number), or one URL whose name has the addresses of all"},
    {"ca-file", CONF_STRING, AT(serve_options, ca_file), .arg = "FILE",
     .help = "Authorities (PEM) that signed the other servers' certificates"},
    {"partitions", CONF_INT, AT(serve_options, partitions), .arg = "P", .dflt = "1", .min = 1,
     .max = 65536, .help = "How many servers share the set"},
    {"guide", CONF_STRING, AT(serve_options, guide), .arg = "ADDRESS",
     .help =
         "Tell the mounts their partition, and that this server, at ADDRESS as seen from outside, "
         "knows who keeps the others"},
    {"rate-limit", CONF_INT, AT(serve_options, rate_limit), .arg = "N", .dflt = "10000", .min = 0,
     .max = INT32_MAX,
     .help = "Requests a second from one address; 0: any. A refused one counts for a hundredth of "
             "them"},
    {"request-timeout", CONF_DURATION, AT(serve_options, request_timeout), .arg = "DUR",
     .dflt = "20s", .min = 100 * NS_PER_MS,
     .help = "A request's head, and then its body, must arrive within this time"},
    LOG_ROWS(serve_options, log),
};

/* The register learns of the mount, for as long as this program runs. `ret_done`: it knew it not.
 */
static int register_mount(const char *mount, const char *control, bool *ret_done, struct err *err)
{
    const struct control_mount there = {.socket = (char *)(uintptr_t)control};
    cleanup_json struct json_doc *answer = NULL;
    cleanup_mount struct control_mount known = {0};
    const char *where, *uri;
    if (control_find(mount, &known, NULL) == 0 && known.alive)
        return strcmp(known.socket, control) == 0
                   ? 0
                   : err_set(err, ERR_USAGE, "--control %s: %s is served at %s", control, mount,
                             known.socket);
    if (ask_status(&there, &answer, err))
        return err_wrap(err, "--control");
    struct json root = json_root(answer), status = json_get(&root, "status");
    if (json_str(&status, "mountpoint", &where, err) || json_str(&status, "uri", &uri, err))
        return err_wrap(err, "--control %s", control);
    *ret_done = true;
    return control_register(mount, uri, control, 0, err);
}

/* Mount points as the register of mounts knows them. */
static int resolve_mounts(const struct conf_list *list, const char *control, char ***ret,
                          bool *ret_registered, struct err *err)
{
    char **mounts = xcalloc(list->n + 1, sizeof *mounts);
    *ret = mounts;
    if (control && list->n != 1)
        return err_set(err, ERR_USAGE, "--control: goes with one --mount");
    for (size_t i = 0; i < list->n; i++) {
        cleanup_mount struct control_mount m = {0};
        if (!is_utf8(list->items[i], strlen(list->items[i])))
            return err_set(err, ERR_USAGE,
                           "--mount: %s: no UTF-8: neither jobs nor metrics can name it (mount the "
                           "set in a folder of another name)",
                           list->items[i]);
        if (mount_path(list->items[i], &mounts[i], err) ||
            (control && register_mount(mounts[i], control, ret_registered, err)) ||
            mount_of(mounts[i], &m, NULL, err))
            return err_wrap(err, "--mount");
        for (size_t k = 0; k < i; k++)
            if (strcmp(mounts[k], mounts[i]) == 0)
                return err_set(err, ERR_USAGE, "--mount %s: given twice", mounts[i]);
    }
    return 0;
}

static int serve_until_told(const struct server_conf *conf, const sigset_t *set, struct err *err)
{
    struct server *s;
    int signal;
    if (server_start(&s, conf, err))
        return -1;
    log_info(conf->log, "listening on port %u", server_port(s));
    fprintf(stderr, "sampan serve: listening on port %u\n", server_port(s));
    sigwait(set, &signal);
    log_info(conf->log, "signal %d: ending", signal);
    /* Another one ends it at once: what is in hand is gone on with as after a kill. */
    pthread_sigmask(SIG_UNBLOCK, set, NULL);
    server_stop(s);
    return 0;
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct serve_options *o = options;
    struct log_file log = {0};
    char **mounts = NULL;
    bool registered = false;
    sigset_t set;
    (void)conf;
    program_hold_signals(&set);
    program_keep_secrets();
    int result = log_file_open(&log, &o->log, true, err);
    if (!result)
        result = resolve_mounts(&o->mounts, o->control, &mounts, &registered, err);
    struct server_conf server = {.mounts = (const char *const *)mounts,
                                 .n_mounts = o->mounts.n,
                                 .listen = o->listen,
                                 .state = o->state,
                                 .token_file = o->token_file,
                                 .no_auth = o->no_auth,
                                 .tls_cert = o->tls_cert,
                                 .tls_key = o->tls_key,
                                 .compat_peers = o->compat_peers,
                                 .ordinal = (unsigned)o->ordinal,
                                 .partitions = (unsigned)o->partitions,
                                 .peers = o->peers,
                                 .ca_file = o->ca_file,
                                 .guide = o->guide,
                                 .rate_limit = (uint64_t)o->rate_limit,
                                 .request_ns = o->request_timeout,
                                 .version = SAMPAN_VERSION,
                                 .log = log.log};
    if (!result)
        result = serve_until_told(&server, &set, err);
    if (registered)
        control_unregister(mounts[0]);
    for (size_t i = 0; mounts && i < o->mounts.n; i++)
        free(mounts[i]);
    free(mounts);
    log_file_close(&log);
    return result;
}

const struct command cmd_serve = {
    .name = "serve",
    .args = "",
    .summary = "the Cache Runtime Server: jobs, status and metrics over HTTP",
    .about = "Answers on port 7716 for the mounts named: jobs (warmup, clear, evict, scan, sync, "
             "rmr) that "
             "survive restarts, status, Prometheus metrics, and the Paddle Operator's routes. "
             "Everything but /healthz, /readyz and the files of the dashboard wants the token of "
             "--token-file as a bearer token; the dashboard, at /ui, asks for it.\n\n"
             "Runs in the foreground until SIGTERM or SIGINT (a second one ends it at once); jobs "
             "that run then go on at the next start.",
    .min_args = 0,
    .max_args = 0,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct serve_options),
    .run = run,
};
