/* sampan-csi: options, then the services until a signal comes. */
#define LOG_MODULE "csi"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "clock.h"
#include "conf.h"
#include "controller.h"
#include "events.h"
#include "file.h"
#include "mem.h"
#include "metrics-http.h"
#include "node.h"
#include "program.h"
#include "programs.h"
#include "service.h"
#include "state.h"

#define WORKERS_MAX  64
#define HOST_ROOT    "/proc/1/root"
#define GRACE_NS     (20 * NS_PER_S)
#define LOCK_WAIT_NS (3 * NS_PER_S)
#define TMPFS        0x01021994
#define RAMFS        0x858458f6
#define NAME_MAX_LEN 63

struct options {
    const char *endpoint, *node_id, *state, *driver_name, *metrics, *kubelet_dir, *cache_dir,
        *run_dir, *program, *account;
    struct conf_list inline_files;
    struct program_log log;
    bool controller, node, host;
};
#define AT(field) offsetof(struct options, field)

static const struct conf_row rows[] = {
    {"endpoint", CONF_STRING, AT(endpoint), .arg = "unix:///PATH",
     .help = "Socket that kubelet and the sidecars call"},
    {"node-id", CONF_STRING, AT(node_id), .arg = "NAME", .help = "This node's name in the cluster"},
    {"state", CONF_STRING, AT(state), .arg = "DIR",
     .help = "Folder for what must outlive this process: records, mounts, programs"},
    {"driver-name", CONF_STRING, AT(driver_name), .arg = "NAME", .dflt = "csi.sampan.io",
     .help = "Name that StorageClasses and volumes give as the driver"},
    {"controller", CONF_FLAG, AT(controller), .help = "Serve the Controller service"},
    {"node", CONF_FLAG, AT(node),
     .help = "Serve the Node service (both, if neither flag is given)"},
    {"metrics", CONF_STRING, AT(metrics), .arg = "ADDR",
     .help = "Serve /metrics and /healthz on this address: ADDR:PORT or :PORT"},
    {"kubelet-dir", CONF_STRING, AT(kubelet_dir), .arg = "DIR", .dflt = "",
     .help = "Refuse staging and target paths outside this folder (anywhere)"},
    {"cache-dir", CONF_STRING, AT(cache_dir), .arg = "DIR",
     .help = "Folder for caches of sets that name none; default /var/cache/sampan"},
    {"inline-file", CONF_LIST, AT(inline_files), .arg = "DIR",
     .help =
         "Folder of the node whose sets (file://DIR/...) inline volumes of any pod may show; none "
         "without it: PersistentVolumes and StorageClasses alone name folders of the node"},
    {"run-dir", CONF_STRING, AT(run_dir), .arg = "DIR",
     .help = "Folder in memory for credentials of mounts; default /run/sampan-csi"},
    {"sampan", CONF_STRING, AT(program), .arg = "FILE",
     .help = "The program that mounts; default: the one beside this one"},
    {"host", CONF_FLAG, AT(host),
     .help = "Run mounts in the host's namespaces and a cgroup of their own, from copies of the "
             "programs below --state: they outlive this container (needs hostPID, privileged)"},
    {"service-account", CONF_STRING, AT(account), .arg = "DIR",
     .dflt = "/var/run/secrets/kubernetes.io/serviceaccount",
     .help = "Folder with the token and ca.crt that pods' events are told with, inside a cluster"},
    PROGRAM_LOG_ROWS(struct options, log, "text"),
};
#define N_ROWS (sizeof rows / sizeof rows[0])

/* All that is there while the plugin runs. */
struct program {
    struct options o;
    struct log *log;
    char *sampan, *run_dir;
    int lock; /* of the state folder */
    struct mounter *mounter;
    struct events *events;
    struct plugin plugin;
    struct rpc_server *server;
    const struct rpc_method **methods;
    struct metrics_http *http;
};

/* --- checks before anything is made ----------------------------------------------------------- */

static int check_name(const char *name, struct err *err)
{
    size_t n = strlen(name);
    if (n == 0 || n > NAME_MAX_LEN || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") != n ||
        strchr(".-", name[0]) || strchr(".-", name[n - 1]))
        return err_set(err, ERR_USAGE,
                       "--driver-name: %s: want 1 to %d small letters, digits, '.' and '-'", name,
                       NAME_MAX_LEN);
    return 0;
}

static int check_options(struct options *o, struct err *err)
{
    if (!o->endpoint)
        return err_set(err, ERR_USAGE, "--endpoint: missing (unix:///PATH of the socket)");
    if (!o->state || o->state[0] != '/')
        return err_set(err, ERR_USAGE, "--state: want the absolute path of a folder");
    if (!o->controller && !o->node)
        o->controller = o->node = true;
    if (o->node && (!o->node_id || !*o->node_id))
        return err_set(err, ERR_USAGE, "--node-id: missing (the node's name in the cluster)");
    for (size_t i = 0; i < o->inline_files.n; i++)
        if (o->inline_files.items[i][0] != '/')
            return err_set(err, ERR_USAGE, "--inline-file: %s: want the absolute path of a folder",
                           o->inline_files.items[i]);
    return check_name(o->driver_name, err);
}

/* --- start ------------------------------------------------------------------------------------ */

static int find_sampan(struct program *p, struct err *err)
{
    char self[PATH_MAX];
    if (p->o.program) {
        p->sampan = realpath(p->o.program, NULL);
        return p->sampan ? 0 : err_sys(err, errno, "--sampan: %s", p->o.program);
    }
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return err_sys(err, errno, "find this program");
    self[n] = '\0';
    p->sampan = xasprintf("%.*s/sampan", (int)(strrchr(self, '/') - self), self);
    return 0;
}

/* One plugin a state folder: two would undo each other's work. A plugin that was killed while it
 * started a program has left a child that holds the lock until it is that program: a moment. */
static int lock_state(struct program *p, struct err *err)
{
    if (folder_make(p->o.state, err))
        return err_wrap(err, "--state");
    p->lock = open(p->o.state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->lock < 0)
        return err_sys(err, errno, "--state: %s", p->o.state);
    if (file_lock(p->lock, LOCK_WAIT_NS) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return err_set(
            err, ERR_LIMIT,
            "--state: %s: another sampan-csi works in this folder (is the plugin running "
            "already?)",
            p->o.state);
    return err_sys(err, errno, "--state: lock %s", p->o.state);
}

/* Told when all else is well: an error is one line. */
static void tell_where_keys_go(const struct program *p)
{
    struct statfs fs;
    if (statfs(p->run_dir, &fs) == 0 && fs.f_type != TMPFS && fs.f_type != RAMFS)
        log_warn(p->log,
                 "--run-dir: %s lies on a disk: credentials of mounts will be written to it",
                 p->run_dir);
}

static bool is_ready(const struct plugin *plugin, struct err *err)
{
    const struct program *p =
        (const struct program *)((const char *)plugin - offsetof(struct program, plugin));
    if (access(p->sampan, X_OK))
        return err_sys(err, errno, "the program %s (give it with --sampan)", p->sampan) == 0;
    return true;
}

/* In a pod: the programs are copied to the host, and the register of mounts is the host's. */
static int enter_host(struct program *p, struct err *err)
{
    char *copy = NULL;
    if (!p->o.host)
        return 0;
    if (programs_copy(p->sampan, p->o.state, &copy, err))
        return -1;
    free(p->sampan);
    p->sampan = copy;
    return 0;
}

static int open_services(struct program *p, struct err *err)
{
    const struct mounter_conf mounter = {.program = p->sampan,
                                         .host_root = p->o.host ? HOST_ROOT : "",
                                         .cgroup = "sampan-csi",
                                         .log = p->log};
    if (mounter_real(&p->mounter, &mounter, err))
        return -1;
    const struct events_conf events = {.account = p->o.account,
                                       .component = p->o.driver_name,
                                       .node = p->o.node_id,
                                       .log = p->log};
    if (p->o.node && events_start(&p->events, &events, err))
        return -1;
    const struct node_conf node = {
        .state = p->o.state,
        .run = p->run_dir,
        .kubelet_dir = p->o.kubelet_dir,
        .cache_dir = p->o.cache_dir,
        .inline_files = p->o.inline_files,
        .node_id = p->o.node_id,
        .driver_name = p->o.driver_name,
        .mounter = p->mounter,
        .program = p->o.host ? p->sampan : NULL,
        .events = p->events,
        .log = p->log,
    };
    const struct controller_conf controller = {.state = p->o.state,
                                               .cache_dir = p->o.cache_dir,
                                               .driver_name = p->o.driver_name,
                                               .run = p->run_dir,
                                               .mounter = p->mounter,
                                               .log = p->log};
    p->plugin = (struct plugin){
        .driver_name = p->o.driver_name, .node_id = p->o.node_id, .log = p->log, .ready = is_ready};
    if (folder_make(p->run_dir, err))
        return err_wrap(err, "--run-dir");
    if (p->o.controller && controller_open(&p->plugin.controller, &controller, err))
        return -1;
    return p->o.node ? node_open(&p->plugin.node, &node, err) : 0;
}

static void metrics(void *arg, struct bytes *out)
{
    struct program *p = arg;
    rpc_metrics(p->server, out);
    if (p->plugin.node)
        node_metrics(p->plugin.node, out);
}

static bool healthy(void *arg, struct err *why)
{
    const struct program *p = arg;
    return p->plugin.ready(&p->plugin, why);
}

static int start(struct program *p, struct err *err)
{
    p->run_dir = xstrdup(p->o.run_dir ? p->o.run_dir : "/run/sampan-csi");
    if (find_sampan(p, err) || lock_state(p, err) || enter_host(p, err) || open_services(p, err))
        return -1;
    struct rpc_conf rpc = {
        .endpoint = p->o.endpoint, .arg = &p->plugin, .log = p->log, .max_workers = WORKERS_MAX};
    p->methods = service_methods(&p->plugin, &rpc.n_methods);
    rpc.methods = p->methods;
    if (rpc_serve(&p->server, &rpc, err))
        return -1;
    const struct metrics_http_conf http = {
        .address = p->o.metrics, .metrics = metrics, .healthy = healthy, .arg = p};
    return p->o.metrics ? metrics_http_start(&p->http, &http, err) : 0;
}

static void end(struct program *p)
{
    metrics_http_stop(p->http);
    rpc_stop(p->server, GRACE_NS);
    node_close(p->plugin.node);
    events_stop(p->events);
    controller_close(p->plugin.controller);
    mounter_free(p->mounter);
    free(p->methods);
    free(p->sampan);
    free(p->run_dir);
    if (p->lock >= 0)
        close(p->lock);
    log_free(p->log);
}

/* --- main ------------------------------------------------------------------------------------- */

static int run(struct program *p, const sigset_t *signals, struct err *err)
{
    int signal;
    if (start(p, err))
        return -1;
    log_info(p->log, "serving %s%son %s", p->o.node ? "node " : "",
             p->o.controller ? "controller " : "", p->o.endpoint);
    if (p->http)
        log_info(p->log, "metrics and health on port %u", metrics_http_port(p->http));
    tell_where_keys_go(p);
    while (sigwait(signals, &signal) || signal == SIGHUP)
        ;
    log_info(p->log, "signal %d: ending; mounts stay as they are", signal);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct program_about about = {.name = "sampan-csi",
                                               .summary = "the CSI driver of Sampan",
                                               .rows = rows,
                                               .n_rows = N_ROWS};
    struct program p = {.lock = -1};
    struct conf *conf = NULL;
    struct err err = {0};
    sigset_t signals;
    program_keep_standard();
    program_hear_children();
    program_bear_file_limit();
    program_hold_signals(&signals);
    program_keep_secrets();
    program_raise_files(); /* three descriptors a mount are held */
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
