/* The life of a server: options checked, socket, jobs, HTTP; and back. */
#define LOG_MODULE "server"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "mem.h"
#include "server-internal.h"

static int check_conf(const struct server_conf *conf, bool loopback, struct err *err)
{
    if (!conf->token_file && !conf->no_auth)
        return err_set(err, ERR_USAGE,
                       "who may ask? give --token-file FILE (or --no-auth on a loopback address)");
    if (conf->token_file && conf->no_auth)
        return err_set(err, ERR_USAGE, "--token-file and --no-auth exclude each other");
    if (conf->no_auth && !loopback)
        return err_set(err, ERR_DENIED,
                       "--no-auth: %s can be reached from other machines (listen on 127.0.0.1, or "
                       "give --token-file)",
                       conf->listen);
    if (!conf->tls_cert != !conf->tls_key)
        return err_set(err, ERR_USAGE, "--tls-cert and --tls-key go together");
    return 0;
}

static int open_jobs(struct server *s, struct err *err)
{
    struct jobs_conf conf = {.dir = s->conf.state,
                             .kinds = job_kinds,
                             .n_kinds = n_job_kinds,
                             .server = s,
                             .changed = events_job_changed,
                             .changed_arg = s,
                             .log = s->conf.log};
    if (mkdir(s->conf.state, 0700) && errno != EEXIST)
        return err_sys(err, errno, "--state %s", s->conf.state);
    struct jobs *jobs;
    if (jobs_open(&jobs, &conf, err))
        return -1;
    atomic_store(&s->jobs, jobs);
    return 0;
}

static struct server *server_new(const struct server_conf *conf)
{
    struct server *s = xcalloc(1, sizeof *s);
    s->conf = *conf;
    s->listener = -1;
    s->began_ns = clock_mono_ns();
    s->mounts = xcalloc(conf->n_mounts + 1, sizeof *s->mounts);
    for (size_t i = 0; i < conf->n_mounts; i++)
        s->mounts[i] = xstrdup(conf->mounts[i]);
    lock_init(&s->cert_lock, RANK_METRICS, "server certificate");
    cond_init(&s->cert_stop);
    events_init(&s->events);
    peers_init(s);
    limits_init(&s->limits, (double)conf->rate_limit);
    http_clients_init(&s->clients);
    return s;
}

int server_start(struct server **ret, const struct server_conf *conf, struct err *err)
{
    cleanup_close int listener = -1;
    uint16_t port;
    bool loopback;
    if (listen_open(conf->listen, &listener, &port, &loopback, err) ||
        check_conf(conf, loopback, err))
        return -1;
    struct server *s = server_new(conf);
    s->listener = take_fd(&listener);
    s->port = port;
    if (auth_open(&s->auth, conf, err) || cluster_start(s, err) || open_jobs(s, err) ||
        owed_start(s, err) ||
        http_clients_start(&s->clients, conf->request_ns ? conf->request_ns : REQUEST_S * NS_PER_S,
                           err) ||
        http_start(s, err) || guide_start(s, err)) {
        server_stop(s);
        return -1;
    }
    *ret = s;
    return 0;
}

uint16_t server_port(const struct server *s)
{
    return s->port;
}

void server_stop(struct server *s)
{
    if (!s)
        return;
    guide_stop(s);
    events_stop(&s->events);
    peers_stop(s);
    http_stop(s); /* closes the listener if it took it over */
    http_clients_destroy(&s->clients);
    limits_destroy(&s->limits);
    owed_stop(s);
    jobs_close(s->jobs);
    cluster_stop(s);
    events_destroy(&s->events);
    peers_destroy(s);
    auth_close(&s->auth);
    cond_destroy(&s->cert_stop);
    lock_destroy(&s->cert_lock);
    for (size_t i = 0; i < s->conf.n_mounts; i++)
        free(s->mounts[i]);
    free(s->mounts);
    free(s);
}
