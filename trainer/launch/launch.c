/* From the job's environment to a running trainer: pods, numbers, folders, processes. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "conf.h"
#include "kube.h"
#include "launch.h"
#include "mem.h"

#define LOG_MODULE "launch"
#define PAUSE_NS   (50 * NS_PER_MS)
#define NAME_LEN   253

/* --- options ---------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct launch_conf, field)
static const struct conf_row rows[] = {
    {"kubeconfig", CONF_STRING, AT(kubeconfig), .arg = "FILE",
     .help = "How to reach the API server (in a pod: its service account)"},
    {"address", CONF_STRING, AT(address), .arg = "IP",
     .help = "This pod's own address (POD_IP, else what its name resolves to)"},
    {"work", CONF_STRING, AT(work), .arg = "DIR", .dflt = ".",
     .help = "Where the configuration is copied to and the trainer runs"},
    {"poll", CONF_DURATION, AT(poll_ns), .arg = "TIME", .dflt = "10s", .min = 100 * NS_PER_MS,
     .help = "How often the API server is asked while pods are missing"},
    {"wait", CONF_DURATION, AT(wait_ns), .arg = "TIME", .dflt = "1h",
     .help = "How long all pods may take to run"},
    {"reach", CONF_DURATION, AT(reach_ns), .arg = "TIME", .dflt = "5m",
     .help = "How long all pods may take to reach each other"},
};
#define N_ROWS (sizeof rows / sizeof rows[0])

const struct program_about launch_about = {
    .name = "sampan-train launch",
    .summary = "a parameter server and a trainer in each pod of a batch/v1 Job",
    .rows = rows,
    .n_rows = N_ROWS,
    .args = "[TRAINER'S OPTIONS]",
    .more = "Each pod finds the others by the API server, numbers itself by their addresses, and "
            "waits until all reach each other. The job's variables say what it is: JOB_NAME, "
            "JOB_PATH, TRAIN_CONFIG_DIR, CONF_PADDLE_GRADIENT_NUM; and, where they differ from "
            "the default, JOB_NAMESPACE, CONF_PADDLE_NIC, CONF_PADDLE_PORT, CONF_PADDLE_PORTS_NUM "
            "and CONF_PADDLE_PORTS_NUM_SPARSE.\n\n"
            "The trainer's exit code is launch's own, and SIGTERM goes on to it.",
    .words_only = true,
};

static int64_t row_of(const char *word)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        size_t len = strlen(rows[i].name);
        if (strncmp(word, "--", 2) == 0 && strncmp(word + 2, rows[i].name, len) == 0 &&
            (word[2 + len] == '=' || word[2 + len] == '\0'))
            return (int64_t)i;
    }
    return -1;
}

/* Launch's own words apart from those of the trainer. */
static void sort_words(struct launch_conf *c, int argc, char **argv, char **own, int *n_own)
{
    char **rest = xcalloc((size_t)argc + 1, sizeof *rest);
    *n_own = 1;
    own[0] = argv[0];
    for (int i = 1; i < argc; i++) {
        bool is_own = row_of(argv[i]) >= 0;
        bool takes_next = is_own && !strchr(argv[i], '=') && i + 1 < argc;
        if (!is_own) {
            rest[c->n_rest++] = argv[i];
            continue;
        }
        own[(*n_own)++] = argv[i];
        if (takes_next)
            own[(*n_own)++] = argv[++i];
    }
    c->rest = rest;
}

/* It becomes a part of requests and paths. */
static int check_name(const char *name, const char *text, struct err *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
    size_t len = strlen(text);
    return len <= NAME_LEN && strspn(text, allowed) == len && text[0] != '.'
               ? 0
               : err_set(err, ERR_USAGE,
                         "launch: %s=%s: want a name of Kubernetes (at most %d of a-z, 0-9, - and "
                         ".)",
                         name, text, NAME_LEN);
}

static int needed(const char **ret, const char *(*get)(const char *name), const char *name,
                  struct err *err)
{
    *ret = get(name);
    return *ret && **ret ? 0
                         : err_set(err, ERR_USAGE, "launch: %s is not set (the job's env)", name);
}

static int number(int64_t *ret, const char *(*get)(const char *name), const char *name,
                  const char *dflt, int64_t min, int64_t max, struct err *err)
{
    const char *text = get(name);
    char *end;
    if (!text || !*text)
        text = dflt;
    if (!text)
        return err_set(err, ERR_USAGE, "launch: %s is not set (the job's env)", name);
    errno = 0;
    *ret = strtoll(text, &end, 10);
    if (errno || end == text || *end || *ret < min || *ret > max)
        return err_set(err, ERR_USAGE, "launch: %s=%s: want a number of %lld to %lld", name, text,
                       (long long)min, (long long)max);
    return 0;
}

/* The trainer would refuse them, but only when all pods are there. */
static int check_ports(const struct launch_conf *c, struct err *err)
{
    int64_t last = c->port + c->ports_num + c->ports_num_for_sparse - 1;
    return last <= UINT16_MAX ? 0
                              : err_set(err, ERR_USAGE,
                                        "launch: CONF_PADDLE_PORT, CONF_PADDLE_PORTS_NUM: the last "
                                        "port would be %lld, ports end at %d",
                                        (long long)last, UINT16_MAX);
}

int launch_read(struct launch_conf *ret, int argc, char **argv,
                const char *(*get)(const char *name), struct err *err)
{
    struct conf *conf = NULL;
    struct launch_conf c = {0};
    int n_own;
    cleanup_free char **own = xcalloc((size_t)argc + 1, sizeof *own);
    sort_words(&c, argc, argv, own, &n_own);
    int failed = conf_parse_words(&conf, rows, N_ROWS, &c, n_own, own, err);
    const char **texts[] = {&c.kubeconfig, &c.address, &c.work};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        *texts[i] = !failed && *texts[i] ? xstrdup(*texts[i]) : NULL;
    conf_free(conf);
    if (!failed)
        failed =
            needed(&c.job, get, "JOB_NAME", err) || check_name("JOB_NAME", c.job, err) ||
            needed(&c.path, get, "JOB_PATH", err) ||
            needed(&c.config_dir, get, "TRAIN_CONFIG_DIR", err) ||
            number(&c.nodes, get, "CONF_PADDLE_GRADIENT_NUM", NULL, 1, LAUNCH_NODES, err) ||
            number(&c.port, get, "CONF_PADDLE_PORT", "7164", 1, 65535, err) ||
            number(&c.ports_num, get, "CONF_PADDLE_PORTS_NUM", "1", 1, 64, err) ||
            number(&c.ports_num_for_sparse, get, "CONF_PADDLE_PORTS_NUM_SPARSE", "1", 0, 64, err) ||
            check_ports(&c, err);
    c.namespace_ = get("JOB_NAMESPACE");
    if (!failed && c.namespace_)
        failed = check_name("JOB_NAMESPACE", c.namespace_, err);
    c.nic = get("CONF_PADDLE_NIC");
    if (!c.nic || !*c.nic)
        c.nic = "eth0";
    *ret = c;
    if (failed)
        launch_release(ret);
    return failed ? -1 : 0;
}

void launch_release(struct launch_conf *c)
{
    free((void *)(uintptr_t)c->kubeconfig);
    free((void *)(uintptr_t)c->address);
    free((void *)(uintptr_t)c->work);
    free((void *)(uintptr_t)c->rest);
    c->kubeconfig = c->address = c->work = NULL;
    c->rest = NULL;
}

/* --- pods ------------------------------------------------------------------------------------- */

/* Sleeps, but not through a signal. */
static int wait_a_while(uint64_t ns, const atomic_int *stop, struct err *err)
{
    uint64_t end = clock_mono_ns() + ns;
    while (!*stop && clock_mono_ns() < end) {
        struct timespec t = {.tv_nsec = PAUSE_NS};
        nanosleep(&t, NULL);
    }
    return *stop ? err_set(err, ERR_CANCELLED, "launch: stopped by a signal") : 0;
}

static int ask(struct kube_client *k, const struct launch_conf *c, const char *ns,
               struct launch_nodes *ret, struct err *err)
{
    cleanup_free char *path =
        xasprintf("/api/v1/namespaces/%s/pods?labelSelector=job-name%%3D%s", ns, c->job);
    struct kube_request r = {.method = HTTP_GET, .path = path};
    struct kube_answer answer;
    cleanup_json struct json_doc *doc = NULL;
    struct err why = {0};
    if (kube_ask(k, &r, &doc, &answer, &why))
        return err_set(err, why.class, "launch: pods of job %s: %.600s%s", c->job, why.msg,
                       answer.status == 403 ? " (its service account needs a role that lists pods: "
                                              "deploy/examples/paddle-cluster-job.yaml)"
                                            : "");
    struct json root = json_root(doc);
    return launch_nodes(ret, &root, err);
}

static int wait_for_pods(struct kube_client *k, const struct launch_conf *c, const char *ns,
                         struct log *log, const atomic_int *stop, struct launch_nodes *ret,
                         struct err *err)
{
    uint64_t end = clock_mono_ns() + c->wait_ns;
    int64_t told = -1;
    for (;;) {
        struct err why = {0};
        ret->n = 0;
        int failed = ask(k, c, ns, ret, &why);
        if (failed && why.class != ERR_TRANSIENT) {
            *err = why;
            return -1;
        }
        if (failed)
            log_warn(log, "%s", why.msg);
        else if (ret->n == c->nodes)
            return 0;
        else if (ret->n > c->nodes)
            return err_set(err, ERR_USAGE,
                           "launch: %lld pods of job %s run, CONF_PADDLE_GRADIENT_NUM is %lld "
                           "(parallelism?)",
                           (long long)ret->n, c->job, (long long)c->nodes);
        if (!failed && ret->n != told)
            log_info(log, "%lld of %lld pods run", (long long)ret->n, (long long)c->nodes);
        told = ret->n;
        if (clock_mono_ns() > end)
            return err_set(err, ERR_TRANSIENT, "launch: %lld of %lld pods of job %s run: gave up",
                           (long long)ret->n, (long long)c->nodes, c->job);
        if (wait_a_while(c->poll_ns, stop, err))
            return -1;
    }
}

static int find_nodes(const struct launch_conf *c, struct log *log, const atomic_int *stop,
                      struct launch_nodes *ret, struct err *err)
{
    struct kube_config *config = NULL;
    struct kube_client *k = NULL;
    if (kube_config_load(&config, c->kubeconfig, NULL, err))
        return err_wrap(err, "launch");
    const struct kube_client_conf conf = {.config = config, .log = log};
    const char *ns = c->namespace_ && *c->namespace_ ? c->namespace_ : config->namespace_;
    int failed = kube_open(&k, &conf, err) || wait_for_pods(k, c, ns, log, stop, ret, err);
    kube_close(k);
    kube_config_free(config);
    return failed ? -1 : 0;
}

/* --- who is who ------------------------------------------------------------------------------- */

/* What this pod's name resolves to. */
static int own_address(const struct launch_conf *c, char out[64], struct err *err)
{
    const char *given = c->address ? c->address : getenv("POD_IP");
    char name[256];
    if (given && *given) {
        snprintf(out, 64, "%s", given);
        return 0;
    }
    struct addrinfo want = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int code = gethostname(name, sizeof name) ? EAI_SYSTEM : getaddrinfo(name, NULL, &want, &found);
    if (code)
        return err_set(err, ERR_FAILED, "launch: this pod's name does not resolve: %s (POD_IP?)",
                       gai_strerror(code));
    code = getnameinfo(found->ai_addr, found->ai_addrlen, out, 64, NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(found);
    return code ? err_set(err, ERR_FAILED, "launch: own address: %s", gai_strerror(code)) : 0;
}

static int fetch_folders(const struct launch_conf *c, int64_t id, bool *own_data, struct log *log,
                         const atomic_int *stop, struct err *err)
{
    cleanup_free char *config = xasprintf("%s/%s/%s", c->path, c->job, c->config_dir);
    cleanup_free char *data = xasprintf("%s/%s/data/%lld", c->path, c->job, (long long)id);
    cleanup_free char *to = xasprintf("%s/data", c->work);
    int64_t files = launch_copy(config, c->work, stop, err);
    if (files < 0)
        return err_wrap(err, "launch: TRAIN_CONFIG_DIR");
    *own_data = access(data, F_OK) == 0;
    if (!*own_data) {
        log_warn(log, "%s is not there: the trainer reads what its own --data says", data);
        return 0;
    }
    int64_t samples = launch_copy(data, to, stop, err);
    if (samples < 0)
        return err_wrap(err, "launch: data");
    log_info(log, "copied %lld files of %s and %lld of %s", (long long)files, config,
             (long long)samples, data);
    return 0;
}

int launch_run(const struct launch_conf *c, struct log *log, const atomic_int *stop,
               struct err *err)
{
    char own[64];
    bool own_data = false;
    cleanup_free struct launch_nodes *n = xcalloc(1, sizeof *n);
    if (own_address(c, own, err) || find_nodes(c, log, stop, n, err))
        return -1;
    int64_t id = launch_number(n, own);
    if (id < 0)
        return err_set(err, ERR_FAILED, "launch: %s is none of the addresses of job %s", own,
                       c->job);
    cleanup_bytes struct bytes list = {0};
    for (int64_t i = 0; i < n->n; i++)
        bytes_addf(&list, "%s%s", i ? "," : "", n->ip[i]);
    log_info(log, "--pservers=%s", list.data);
    log_info(log, "trainer_id %lld (%s)", (long long)id, own);
    if (launch_reach(c, n, id, stop, err) || fetch_folders(c, id, &own_data, log, stop, err))
        return -1;
    return launch_children(c, n, id, own_data, stop, log, err);
}
