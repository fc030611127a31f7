/* Who this process is among servers and trainers. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "conf.h"
#include "mem.h"
#include "roles.h"

typedef const char *get_fn(const char *name);

static int full(struct err *err)
{
    return err_set(err, ERR_USAGE, "more than %d parameter servers", ROLES_SERVERS);
}

static int add(char **list, size_t *n, char *text, struct err *err)
{
    if (*n == ROLES_SERVERS) {
        free(text);
        return full(err);
    }
    list[(*n)++] = text;
    return 0;
}

/* The i-th of a list between commas; NULL: there is none. */
static char *nth(const char *list, size_t i)
{
    while (*list) {
        size_t len = strcspn(list, ",");
        if (i-- == 0)
            return xstrndup(list, len);
        list += len + (list[len] == ',');
    }
    return NULL;
}

static size_t count(const char *list)
{
    size_t n = 0;
    for (const char *at = list; at && *at; n++) {
        at += strcspn(at, ",");
        at += *at == ',';
    }
    return n;
}

static bool is_address(const char *text)
{
    char host[256], port[ADDRESS_PORT];
    return address_split(text, host, sizeof host, port);
}

/* Each has parameters, or samples, of its own: the i-th is none of those before it. */
static int check_new(const char *list, size_t i, const char *one, const char *what, struct err *err)
{
    for (size_t len = strlen(one); i > 0; i--) {
        size_t n = strcspn(list, ",");
        if (n == len && memcmp(list, one, n) == 0)
            return err_set(err, ERR_USAGE, "%s: %s is named twice", what, one);
        list += n + 1;
    }
    return 0;
}

static int check_hosts(const char *hosts, const char *what, struct err *err)
{
    for (size_t i = 0; i < count(hosts); i++) {
        cleanup_free char *one = nth(hosts, i);
        if (!is_address(one))
            return err_set(err, ERR_USAGE, "%s: %s: want HOST:PORT,HOST:PORT…", what, one);
        if (check_new(hosts, i, one, what, err))
            return -1;
    }
    return 0;
}

static int add_hosts(struct roles *r, const char *hosts, const char *what, struct err *err)
{
    if (check_hosts(hosts, what, err))
        return -1;
    for (size_t i = 0; i < count(hosts); i++)
        if (add(r->dense, &r->n_dense, nth(hosts, i), err))
            return -1;
    return 0;
}

/* Without servers of their own, rows are kept by all. */
static int share_dense(struct roles *r, struct err *err)
{
    bool wanted = r->n_sparse == 0;
    for (size_t i = 0; wanted && i < r->n_dense; i++)
        if (add(r->sparse, &r->n_sparse, xstrdup(r->dense[i]), err))
            return -1;
    return 0;
}

/* --- --job_name ------------------------------------------------------------------------------- */

static int by_tasks(struct roles *r, const struct options *o, struct err *err)
{
    char host[256], port[ADDRESS_PORT];
    bool is_ps = strcmp(o->job_name, "ps") == 0;
    const char *own = is_ps ? o->ps_hosts : o->worker_hosts;
    if (!is_ps && strcmp(o->job_name, "worker") != 0)
        return err_set(err, ERR_USAGE, "--job_name: %s: want ps or worker", o->job_name);
    if (!o->ps_hosts || !o->worker_hosts)
        return err_set(err, ERR_USAGE, "--job_name %s: it goes with --ps_hosts and --worker_hosts",
                       o->job_name);
    if (o->task_index < 0 || (size_t)o->task_index >= count(own))
        return err_set(err, ERR_USAGE, "--task_index: %lld: there are %zu of --%s_hosts",
                       (long long)o->task_index, count(own), o->job_name);
    r->ranks = (int64_t)count(o->worker_hosts);
    if (add_hosts(r, o->ps_hosts, "--ps_hosts", err) || share_dense(r, err) ||
        check_hosts(o->worker_hosts, "--worker_hosts", err))
        return -1;
    if (!is_ps) {
        r->role = ROLE_WORKER;
        r->rank = o->task_index;
        return 0;
    }
    r->role = ROLE_SERVER;
    (void)address_split(r->dense[o->task_index], host, sizeof host, port);
    return add(r->ports, &r->n_ports, xstrdup(port), err);
}

/* --- --pservers ------------------------------------------------------------------------------- */

static int check_ports(const struct options *o, struct err *err)
{
    return o->port + o->ports_num + o->ports_num_for_sparse - 1 <= UINT16_MAX
               ? 0
               : err_set(err, ERR_USAGE, "--port, --ports_num: ports end at %d", UINT16_MAX);
}

/* One colon alone would be a port of its own; an IPv6 address has more, and brackets or none. */
static int add_ports(struct roles *r, const struct options *o, const char *host, struct err *err)
{
    const char *colon = strchr(host, ':');
    bool is_v6 = colon && strchr(colon + 1, ':'), has_brackets = *host == '[',
         is_bare = is_v6 && !has_brackets;
    if (has_brackets ? host[strlen(host) - 1] != ']' : colon && !is_v6)
        return err_set(err, ERR_USAGE, "--pservers: %s: want HOST,HOST… (--port says which ports)",
                       host);
    for (int64_t k = 0; k < o->ports_num + o->ports_num_for_sparse; k++) {
        bool is_dense = k < o->ports_num;
        cleanup_free char *where =
            xasprintf("%s%s%s:%" PRId64, is_bare ? "[" : "", host, is_bare ? "]" : "", o->port + k);
        if (!is_address(where))
            return err_set(err, ERR_USAGE, "--pservers: %s: want HOST,HOST…", o->pservers);
        if (add(is_dense ? r->dense : r->sparse, is_dense ? &r->n_dense : &r->n_sparse,
                take_ptr(&where), err))
            return -1;
    }
    return 0;
}

static int by_ports(struct roles *r, const struct options *o, struct err *err)
{
    r->role = ROLE_WORKER;
    if (check_ports(o, err))
        return -1;
    for (size_t i = 0; i < count(o->pservers); i++) {
        cleanup_free char *host = nth(o->pservers, i);
        if (check_new(o->pservers, i, host, "--pservers", err) || add_ports(r, o, host, err))
            return -1;
    }
    return share_dense(r, err);
}

static int serve_ports(struct roles *r, const struct options *o, struct err *err)
{
    r->role = ROLE_SERVER;
    if (check_ports(o, err))
        return -1;
    for (int64_t k = 0; k < o->ports_num + o->ports_num_for_sparse; k++)
        if (add(r->ports, &r->n_ports, xasprintf("%" PRId64, o->port + k), err))
            return -1;
    return 0;
}

/* --- the environment -------------------------------------------------------------------------- */

static const char servers[] = "PADDLE_PSERVERS_IP_PORT_LIST";

static const char *value(get_fn *get, const char *name)
{
    const char *text = get(name);
    return text && *text ? text : NULL;
}

/* Nobody comes to a server that the list does not name. */
static int check_own(const char *list, const char *ip, const char *port, struct err *err)
{
    char host[256], number[ADDRESS_PORT];
    for (size_t i = 0; i < count(list); i++) {
        cleanup_free char *one = nth(list, i);
        (void)address_split(one, host, sizeof host, number);
        if (strcmp(host, ip) == 0 && strcmp(number, port) == 0)
            return 0;
    }
    return err_set(err, ERR_USAGE, "environment: POD_IP=%s with port %s is none of %s=%s", ip, port,
                   servers, list);
}

static int serve_pod(struct roles *r, const char *list, get_fn *get, struct err *err)
{
    const char *port = value(get, "PADDLE_PORT"), *ip = value(get, "POD_IP");
    if (port && !conf_is_port(port))
        return err_set(err, ERR_USAGE, "environment: PADDLE_PORT=%s: want a port", port);
    port = port ? port : "7164";
    if (check_hosts(list, servers, err) || (ip && check_own(list, ip, port, err)))
        return -1;
    r->role = ROLE_SERVER;
    snprintf(r->address, sizeof r->address, "%s", ip ? ip : "");
    return add(r->ports, &r->n_ports, xstrdup(port), err);
}

/* A trainer without servers learns with the other ranks. Nobody learns alone for a role that is not
 * understood, or as a server that is told half. */
static int by_environment(struct roles *r, get_fn *get, struct err *err)
{
    const char *role = value(get, "TRAINING_ROLE"), *list = value(get, servers);
    bool learns = role && strcmp(role, "TRAINER") == 0;
    if (!list && (learns || !role))
        return 0;
    if (learns) {
        r->role = ROLE_WORKER;
        return add_hosts(r, list, servers, err) || share_dense(r, err);
    }
    if (!role || strcmp(role, "PSERVER") != 0)
        return err_set(err, ERR_USAGE,
                       "environment: TRAINING_ROLE%s%s: want PSERVER or TRAINER beside %s",
                       role ? "=" : " is not set", role ? role : "", servers);
    if (!list)
        return err_set(err, ERR_USAGE, "environment: TRAINING_ROLE=PSERVER, but %s is not set",
                       servers);
    return serve_pod(r, list, get, err);
}

int roles_find(struct roles *ret, const struct options *o, bool is_server, get_fn *get,
               struct err *err)
{
    *ret = (struct roles){.rank = -1, .ranks = -1};
    int failed;
    if (!o->job_name && (o->ps_hosts || o->worker_hosts))
        failed = err_set(err, ERR_USAGE,
                         "--ps_hosts, --worker_hosts: want --job_name ps or worker, too");
    else if (o->job_name)
        failed = by_tasks(ret, o, err);
    else if (is_server)
        failed = serve_ports(ret, o, err);
    else if (o->pservers && *o->pservers && o->local == 0)
        failed = by_ports(ret, o, err);
    else
        failed = by_environment(ret, get, err);
    if (!failed && ret->role == ROLE_ALONE && o->local == 0)
        failed = err_set(err, ERR_USAGE,
                         "--local=0: nobody says where parameter servers are "
                         "(--pservers, --job_name, or PADDLE_PSERVERS_IP_PORT_LIST "
                         "with TRAINING_ROLE)");
    if (!failed && is_server && ret->role != ROLE_SERVER)
        failed = err_set(err, ERR_USAGE, "pserver: --job_name %s is no server", o->job_name);
    if (!failed && o->address)
        snprintf(ret->address, sizeof ret->address, "%s", o->address);
    if (failed)
        roles_release(ret);
    return failed ? -1 : 0;
}

void roles_release(struct roles *r)
{
    for (size_t i = 0; i < r->n_dense; i++)
        free(r->dense[i]);
    for (size_t i = 0; i < r->n_sparse; i++)
        free(r->sparse[i]);
    for (size_t i = 0; i < r->n_ports; i++)
        free(r->ports[i]);
    r->n_dense = r->n_sparse = r->n_ports = 0;
}
