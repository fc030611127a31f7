/* sampan-operator: options, then the controllers until a signal comes. */
#define LOG_MODULE "operator"
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "conf.h"
#include "controllers.h"
#include "hash.h"
#include "key.h"
#include "log.h"
#include "mem.h"
#include "metrics-http.h"
#include "operator.h"
#include "program.h"

#define MARGIN 8 /* of a lease's duration, this part is kept between our last write and others */

struct options {
    const char *kubeconfig, *context, *namespace_, *image, *csi_driver, *etcd, *token_secret,
        *token_file, *server_ca, *lease_name, *metrics, *scheduling;
    struct conf_list set_files;
    struct program_log log;
    uint64_t lease_duration, lease_renew, lease_retry;
    int64_t workers, qps, burst, port_from, port_to;
    bool leader_elect;
};
#define AT(field) offsetof(struct options, field)

static const struct conf_row rows[] = {
    {"kubeconfig", CONF_STRING, AT(kubeconfig), .arg = "FILE",
     .help = "How to reach the API server; default: the pod's service account, then the file that "
             "KUBECONFIG names"},
    {"context", CONF_STRING, AT(context), .arg = "NAME",
     .help = "Context of the kubeconfig; default: its current one"},
    {"namespace", CONF_STRING, AT(namespace_), .arg = "NAME",
     .help = "The operator's own namespace, for its lease and secret; default: the service "
             "account's or the context's"},
    {"runtime-image", CONF_STRING, AT(image), .arg = "IMAGE",
     .dflt = "sampan/sampan:" SAMPAN_VERSION,
     .help = "Image of runtime servers, unless a SampleSet names another"},
    {"csi-driver", CONF_STRING, AT(csi_driver), .arg = "NAME", .dflt = "csi.sampan.io",
     .help = "Name of the CSI driver that mounts sets"},
    {"set-file", CONF_LIST, AT(set_files), .arg = "DIR",
     .help = "Of the folders of nodes, SampleSets may name this one alone and what is below it "
             "(file://DIR/...); default: any that root of the node can read"},
    {"etcd", CONF_STRING, AT(etcd), .arg = "URL[,URL...]",
     .help = "etcd of elastic jobs; default: elastic jobs are refused"},
    {"port-from", CONF_INT, AT(port_from), .arg = "PORT", .dflt = "35000", .min = 1024,
     .max = 65535, .help = "First port for jobs on the host's network"},
    {"port-to", CONF_INT, AT(port_to), .arg = "PORT", .dflt = "65000", .min = 1024, .max = 65535,
     .help = "Last port for jobs on the host's network"},
    {"scheduling", CONF_ENUM, AT(scheduling), .choices = "default|volcano", .dflt = "default",
     .help = "volcano: make Volcano's PodGroups for jobs, and wait for them"},
    {"token-secret", CONF_STRING, AT(token_secret), .arg = "NAME", .dflt = "sampan-operator-key",
     .help = "Secret with the key of the runtime servers' tokens, in the operator's namespace; "
             "made if there is none"},
    {"token-key-file", CONF_STRING, AT(token_file), .arg = "FILE",
     .help = "The same key from a file, instead of the secret"},
    {"server-ca-file", CONF_STRING, AT(server_ca), .arg = "FILE",
     .help = "Authorities of the runtime servers' certificates (PEM)"},
    {"workers", CONF_INT, AT(workers), .arg = "N", .dflt = "4", .min = 1, .max = 64,
     .help = "Objects that each controller works on at a time"},
    {"qps", CONF_INT, AT(qps), .arg = "N", .dflt = "200", .min = 1, .max = 10000,
     .help = "Requests a second to the API server, in the long run"},
    {"burst", CONF_INT, AT(burst), .arg = "N", .dflt = "400", .min = 1, .max = 100000,
     .help = "Requests to the API server that may go at once"},
    {"leader-elect", CONF_FLAG, AT(leader_elect),
     .help = "Nothing changes: one of several operators always leads, by a lease"},
    {"lease-name", CONF_STRING, AT(lease_name), .arg = "NAME", .dflt = "sampan-operator",
     .help = "Lease by which one of several operators leads"},
    {"lease-duration", CONF_DURATION, AT(lease_duration), .arg = "TIME", .dflt = "15s",
     .help = "How long others wait for a leader that says nothing"},
    {"lease-renew-by", CONF_DURATION, AT(lease_renew), .arg = "TIME", .dflt = "10s",
     .help = "How long a leader acts that cannot renew the lease"},
    {"lease-retry", CONF_DURATION, AT(lease_retry), .arg = "TIME", .dflt = "2s",
     .help = "How often the lease is renewed or looked at"},
    {"metrics", CONF_STRING, AT(metrics), .arg = "ADDR",
     .help = "Serve /metrics, /healthz and /readyz on this address: ADDR:PORT or :PORT"},
    PROGRAM_LOG_ROWS(struct options, log, "json"),
};
#define N_ROWS (sizeof rows / sizeof rows[0])

/* All that is there while the operator runs. */
struct program {
    struct options o;
    struct log *log;
    struct kube_config *config;
    const char *namespace_;
    char *etcd;
    char identity[128];
    struct secret key;
    struct lead *lead;
    struct kube_client *client;
    struct operator* operator;
    struct metrics_http *http;
    atomic_bool works; /* set when all of the above is there; the pages come before */
};

static int check_options(const struct options *o, struct err *err)
{
    for (size_t i = 0; i < o->set_files.n; i++)
        if (o->set_files.items[i][0] != '/')
            return err_set(err, ERR_USAGE, "--set-file: %s: want the absolute path of a folder",
                           o->set_files.items[i]);
    if (o->port_from > o->port_to)
        return err_set(err, ERR_USAGE, "--port-from: %lld is above --port-to",
                       (long long)o->port_from);
    if (o->lease_retry < 10 * NS_PER_MS || o->lease_duration < NS_PER_S ||
        o->lease_retry >= o->lease_renew || o->lease_renew >= o->lease_duration)
        return err_set(
            err, ERR_USAGE,
            "--lease-retry, --lease-renew-by, --lease-duration: each must be longer than "
            "the one before (2s, 10s, 15s), and the last a second or more");
    return 0;
}

/* --- pages ------------------------------------------------------------------------------------ */

static void metrics(void *arg, struct bytes *out)
{
    struct program *p = arg;
    bytes_addf(out,
               "# HELP sampan_operator_leads Whether this operator leads\n"
               "# TYPE sampan_operator_leads gauge\nsampan_operator_leads %d\n",
               lead_leads(p->lead));
    if (atomic_load(&p->works))
        operator_metrics(p->operator, out);
    kube_metrics(p->client, out);
}

static bool healthy(void *arg, struct err *why)
{
    struct program *p = arg;
    return !atomic_load(&p->works) || lead_healthy(p->lead, why);
}

static bool ready(void *arg, struct err *why)
{
    struct program *p = arg;
    if (!atomic_load(&p->works))
        return err_set(why, ERR_TRANSIENT, "the key of tokens is not known yet"), false;
    return operator_synced(p->operator, why);
}

/* --- options that people write in several ways ------------------------------------------------ */

/* "http://a:2379/, b:2379": a list has blanks, and a URL a last '/', which etcd would redirect.
 * NULL where nothing is named. */
static char *tidy_etcd(const char *list)
{
    struct bytes out = {0};
    for (size_t n; list && *(list += strspn(list, ", \t")); list += n) {
        size_t len = n = strcspn(list, ", \t");
        while (len && list[len - 1] == '/')
            len--;
        if (len)
            bytes_addf(&out, "%s%.*s", out.len ? "," : "", (int)len, list);
    }
    return out.data;
}

/* --- start and end ---------------------------------------------------------------------------- */

static void lead_changed(void *arg, bool leads)
{
    struct program *p = arg;
    operator_lead(p->operator, leads);
}

/* The host's name says which pod it is; the rest, which of its lives. */
static int make_identity(struct program *p, struct err *err)
{
    unsigned char dice[8];
    char host[HOST_NAME_MAX + 1], hex[2 * sizeof dice + 1];
    if (getrandom(dice, sizeof dice, 0) != sizeof dice || gethostname(host, sizeof host))
        return err_sys(err, errno, "make an identity");
    hex_encode(hex, dice, sizeof dice);
    snprintf(p->identity, sizeof p->identity, "%s_%s", host, hex);
    return 0;
}

static int open_client(struct program *p, struct err *err)
{
    const struct options *o = &p->o;
    if (kube_config_load(&p->config, o->kubeconfig, o->context, err) || make_identity(p, err))
        return -1;
    p->namespace_ = o->namespace_ && *o->namespace_ ? o->namespace_ : p->config->namespace_;
    const struct lead_conf lead = {
        .log = p->log,
        .ns = p->namespace_,
        .name = o->lease_name,
        .identity = p->identity,
        .times = {o->lease_duration, o->lease_renew, o->lease_retry, o->lease_duration / MARGIN},
        .changed = lead_changed,
        .arg = p};
    p->lead = lead_new(&lead);
    const struct kube_client_conf client = {.config = p->config,
                                            .log = p->log,
                                            .qps = (unsigned)o->qps,
                                            .burst = (unsigned)o->burst,
                                            .write_until = lead_write_until,
                                            .arg = p->lead};
    return kube_open(&p->client, &client, err);
}

/* True where a signal to end came while we rested. */
static bool rest(const sigset_t *signals, time_t seconds)
{
    const struct timespec time = {.tv_sec = seconds};
    int signal = sigtimedwait(signals, NULL, &time);
    return signal > 0 && signal != SIGHUP;
}

/* The API server may come later than we do. */
static int get_key(struct program *p, const sigset_t *signals, struct err *err)
{
    if (p->o.token_file)
        return key_from_file(&p->key, p->o.token_file, err);
    while (key_from_secret(&p->key, p->client, p->namespace_, p->o.token_secret, err)) {
        if (err->class == ERR_USAGE)
            return -1;
        log_warn(p->log, "%s; again in 5 s", err->msg);
        if (rest(signals, 5))
            return err_set(err, ERR_CANCELLED, "told to end");
        err_clear(err);
    }
    return 0;
}

static int start(struct program *p, const sigset_t *signals, struct err *err)
{
    const struct options *o = &p->o;
    const struct metrics_http_conf http = {
        .address = o->metrics, .metrics = metrics, .healthy = healthy, .ready = ready, .arg = p};
    if (open_client(p, err) || (o->metrics && metrics_http_start(&p->http, &http, err)) ||
        get_key(p, signals, err))
        return -1;
    p->etcd = tidy_etcd(o->etcd);
    size_t n_controllers = 0;
    while (controllers[n_controllers])
        n_controllers++;
    const struct operator_conf conf = {
        .client = p->client,
        .lead = p->lead,
        .log = p->log,
        .identity = p->identity,
        .controllers = controllers,
        .n_controllers = n_controllers,
        .config = {.image = o->image,
                   .namespace_ = p->namespace_,
                   .csi_driver = o->csi_driver,
                   .etcd_servers = p->etcd,
                   .token_key = p->key.text,
                   .port_from = (unsigned)o->port_from,
                   .port_to = (unsigned)o->port_to,
                   .volcano = strcmp(o->scheduling, "volcano") == 0,
                   .set_files = o->set_files},
        .workers = (unsigned)o->workers,
        .server_ca_file = o->server_ca,
    };
    if (operator_start(&p->operator, & conf, err) || lead_start(p->lead, p->client, err))
        return -1;
    atomic_store(&p->works, true);
    return 0;
}

/* Decisions end first, then the lease is given back: no other operator begins before. */
static void end(struct program *p)
{
    metrics_http_stop(p->http);
    operator_stop(p->operator);
    lead_stop(p->lead);
    kube_close(p->client);
    operator_free(p->operator);
    lead_free(p->lead);
    kube_config_free(p->config);
    secret_release(&p->key);
    free(p->etcd);
    log_free(p->log);
}

static int run(struct program *p, const sigset_t *signals, struct err *err)
{
    int signal;
    if (start(p, signals, err))
        return err->class == ERR_CANCELLED ? 0 : -1;
    log_info(p->log, "started server=%s namespace=%s", p->config->server, p->namespace_);
    while (sigwait(signals, &signal) || signal == SIGHUP)
        ;
    log_info(p->log, "signal %d: ending", signal);
    return 0;
}

/* --- main ------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    static const struct program_about about = {
        .name = "sampan-operator",
        .summary = "the controllers of SampleSet, SampleJob, PaddleJob and TrainingJob",
        .rows = rows,
        .n_rows = N_ROWS};
    struct program p = {0};
    struct conf *conf = NULL;
    struct err err = {0};
    sigset_t signals;
    program_keep_standard();
    program_bear_file_limit();
    program_hold_signals(&signals);
    program_keep_secrets();
    int result = program_options(&conf, &about, &p.o, argc, argv, &err);
    if (!result)
        result = check_options(&p.o, &err);
    if (!result)
        result = program_log_open(&p.log, &p.o.log, &err);
    if (!result)
        result = run(&p, &signals, &err);
    end(&p);
    conf_free(conf);
    return program_end(&about, result, &err);
}
