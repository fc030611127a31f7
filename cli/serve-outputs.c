/*
 * A mount that can be written (--writable): a stage behind the front end that writes.
 *
 * The end: whoever asks for it gets what is owed to the store settled first, while the mount is
 * still served. A second request does not wait any longer: the rest stays in the journal.
 */
#define LOG_MODULE "mount"
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "clock.h"
#include "mem.h"
#include "outfuse.h"
#include "serve-internal.h"
#ifdef SAMPAN_TEST_LAYERS
#include "layers.h"
#endif

#define REFRESH_NS (2 * NS_PER_S) /* unless --refresh says otherwise */
/* How long nothing may get stored before the end comes all the same. */
#define SETTLE_NS      (60 * NS_PER_S)
#define LAST_SETTLE_NS (30 * NS_PER_S) /* when it is unmounted already */

struct outputs {
    struct mount *mount;
    struct store *store;
    struct fetch *fetch;
    struct stage *stage; /* NULL in a degraded life */
    struct outfuse *front;
    char *dir;
    void *layers; /* tests: NULL, or what conf->before works with */
    pthread_t settler;
    bool settling;           /* it was started; under the mount's lock */
    _Atomic bool in_a_hurry; /* asked to end twice */
};

/* --- what can't be together ------------------------------------------------------------------- */

/* Nothing has to be there yet: a job's results begin with their first object, in a folder as below
 * a prefix. */
static int check_store(const struct store *store, const char *set, struct err *err)
{
    unsigned caps = store_caps(store);
    struct stat st;
    if (!(caps & STORE_WRITES))
        return err_set(err, ERR_USAGE,
                       "%s: cannot be written: this kind of store can only be read (mount it "
                       "without --writable)",
                       set);
    if (!(caps & STORE_LOCAL))
        return 0;
    const char *dir = store_local_dir(store);
    if (stat(dir, &st))
        return errno == ENOENT ? 0 : err_sys(err, errno, "%s: look at the folder %s", set, dir);
    return S_ISDIR(st.st_mode) ? 0 : err_set(err, ERR_USAGE, "%s: not a folder: %s", set, dir);
}

int outputs_check(const struct mount_options *o, const struct owner *owner, const char *set,
                  const struct store_conf *conf, struct err *err)
{
    const struct {
        bool given;
        const char *name;
    } refused[] = {{o->sampler != NULL, "--sampler"},
                   {o->catalog != NULL, "--catalog"},
                   {o->rescan, "--rescan"},
                   {strcmp(o->profile, "shards") == 0, "--profile shards"},
                   {o->prefetch != 0, "--prefetch"},
                   {o->push_window != 0, "--push-window"},
                   {o->direct != NULL, "--direct"},
                   {o->ahead_bytes != 0, "--ahead-bytes"},
                   {o->peers != NULL, "--peers"},
                   {o->partition != NULL, "--partition"},
                   {o->weights != NULL, "--weights"},
                   {strcmp(o->strategy, "auto") != 0, "--strategy"},
                   {o->peer_token_file != NULL, "--peer-token-file"}};
    enum stage_commit commit;
    uint64_t interval;
    struct store *store;
    if (!o->writable)
        return o->commit ? err_set(err, ERR_USAGE,
                                   "--commit: says when what was written counts as stored: give "
                                   "it with --writable")
                         : 0;
    for (size_t i = 0; i < COUNT(refused); i++)
        if (refused[i].given)
            return err_set(err, ERR_USAGE,
                           "--writable and %s: a folder that is written has no versions and no "
                           "order (mount samples and outputs at two places)",
                           refused[i].name);
    if (o->commit && stage_commit_parse(o->commit, &commit, &interval, err))
        return -1;
    if (owner->n_tiers != 1 || owner->tiers[0].kind == TIER_MEM)
        return err_set(err, ERR_USAGE,
                       "--writable keeps what is not stored yet in one folder on a disk: give one "
                       "--cache ssd:DIR=SIZE");
    if (!strstr(set, "://"))
        return err_set(err, ERR_USAGE, "%s: cannot be written: want the URI of one store", set);
    if (store_open(&store, set, conf, err))
        return -1;
    int result = check_store(store, set, err);
    store_close(store);
    return result;
}

/* --- starting --------------------------------------------------------------------------------- */

static void desks(unsigned *ret_n, uint64_t *ret_bytes)
{
    *ret_n = OUTFUSE_DESKS;
    *ret_bytes = OUTFUSE_DESK_BYTES;
}

static struct outputs *outputs_of(struct mount *m)
{
    if (!m->outputs) {
        m->outputs = xcalloc(1, sizeof *m->outputs);
        m->outputs->mount = m;
    }
    return m->outputs;
}

static uid_t id_of(int64_t asked, uid_t own)
{
    return asked < 0 ? own : (uid_t)asked;
}

static int open_store(struct mount *m, struct outputs *p, struct err *err)
{
    const struct mount_options *o = m->conf->options;
    struct store_conf store = *m->conf->store;
    struct fetch_conf fetch;
    store.log = m->log.log;
    fetch_conf_defaults(&fetch);
    fetch.connections = (unsigned)o->connections;
    fetch.bandwidth = o->bandwidth;
    fetch.hedge = !o->no_hedge;
    fetch.verify_md5 = o->verify_etag;
    fetch.away_ns = 0; /* the stage waits itself, and knows for whom */
    fetch.log = m->log.log;
    return store_open(&p->store, m->conf->set, &store, err) || fetch_new(&p->fetch, &fetch, err)
               ? -1
               : 0;
}

/* Else the allocator learns from bodies of some MiB that such are common, and each of its arenas
 * keeps some of them after their end. */
static void give_memory_back(void)
{
    mallopt(M_MMAP_THRESHOLD, 512 << 10);
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
}

static int open_outputs(struct mount *m, struct err *err)
{
    const struct mount_options *o = m->conf->options;
    give_memory_back();
    const struct owner *owner = m->conf->owner;
    struct outputs *p = outputs_of(m);
    if (open_store(m, p, err))
        return -1;
    p->dir = xasprintf("%s/stage", owner->tiers[0].dir);
    if (mkdir(p->dir, 0700) && errno != EEXIST)
        return err_sys(err, errno, "make the folder %s", p->dir);
    struct keeper_state *state = keeper_state(m->conf->keeper);
    struct stage_conf conf = {
        .dir = p->dir,
        .store = p->store,
        .fetch = p->fetch,
        .limit = owner->tiers[0].limit,
        .free_fraction = owner->free_fraction,
        .free_bytes = owner->free_bytes,
        .refresh_ns = o->refresh ? o->refresh : REFRESH_NS,
        .uid = id_of(o->uid, getuid()),
        .gid = id_of(o->gid, getgid()),
        .fresh = !m->successor,
        .body_bytes = o->memory * 3 / 8,
        .read_bytes = o->memory / 8, /* the rest: requests, answers, the tree */
        .counts =
            state ? keeper_area(state, "stage", STAGE_COUNTS_VERSION, sizeof(struct stage_counts))
                  : NULL,
        .log = m->log.log,
    };
    return (o->commit && stage_commit_parse(o->commit, &conf.commit, &conf.interval_ns, err)) ||
                   stage_open(&p->stage, &conf, err)
               ? -1
               : 0;
}

/* Faults put into a live mount; a release refuses them. */
static int add_layers(struct outputs *p, struct outfuse_conf *conf, struct err *err)
{
    const char *spec = getenv("SAMPAN_LAYERS");
    if (!spec || !*spec || conf->refuse)
        return 0;
#ifdef SAMPAN_TEST_LAYERS
    struct layer_requests *r;
    if (layers_requests_new(&r, spec, err))
        return -1;
    conf->before = layers_requests_before;
    conf->before_arg = p->layers = r;
    return 0;
#else
    (void)p;
    return err_set(err, ERR_USAGE,
                   "layers \"%s\": this build has no test layers (build with VARIANT=debug)", spec);
#endif
}

static int mount_outputs(struct mount *m, struct err *err)
{
    const struct mount_options *o = m->conf->options;
    struct outputs *p = outputs_of(m);
    struct outfuse_conf conf = {
        .mountpoint = m->conf->mountpoint,
        .source = p->store ? store_uri(p->store) : m->conf->set,
        .allow_other = o->allow_other,
        .uid = id_of(o->uid, getuid()),
        .gid = id_of(o->gid, getgid()),
        .dev = under_keeper_copy(m, /* device= */ true),
        .state = keeper_state(m->conf->keeper),
        .refuse = under_keeper_refuses(m),
        .helper = "/proc/self/exe",
        .status = serve_status,
        .status_arg = m,
        .log = m->log.log,
    };
    struct outfuse *f;
    if (add_layers(p, &conf, err) || outfuse_mount(&f, p->stage, &conf, err))
        return -1;
    if (outfuse_start(f, err)) {
        outfuse_free(f);
        return -1;
    }
    p->front = f;
    return 0;
}

static int device(const struct mount *m)
{
    return outfuse_device(m->outputs->front);
}

static void add_control(struct mount *m, struct control_server_conf *conf)
{
    struct outputs *p = outputs_of(m);
    conf->stage = p->stage;
    conf->fetch = p->fetch;
    conf->store = p->store;
}

static const char *mode(const struct mount *m)
{
    (void)m;
    return "writable";
}

static const char *why(const struct mount *m)
{
    return m->conf->options->commit ? m->conf->options->commit : "close";
}

/* --- status ----------------------------------------------------------------------------------- */

static void write_cache(struct mount *m, struct json_writer *w)
{
    const struct tier_conf *tier = &m->conf->owner->tiers[0];
    struct statvfs own = {0}, disk = {0};
    char why_not[256] = "";
    stage_statfs(m->outputs->stage, &own, NULL);
    statvfs(tier->dir, &disk);
    uint64_t used = (uint64_t)(own.f_blocks - own.f_bfree) * own.f_frsize;
    jw_object(w, "cache");
    jw_uint(w, "samples", 0);
    jw_uint(w, "bytes", used);
    jw_array(w, "tiers");
    jw_object(w, NULL);
    jw_str(w, "tier", tier->kind == TIER_SSD ? "ssd" : "hdd");
    jw_str(w, "dir", tier->dir);
    jw_uint(w, "limit", tier->limit);
    jw_uint(w, "used", used);
    jw_uint(w, "free", (uint64_t)disk.f_bavail * disk.f_frsize);
    bool fails = stage_disk_fails(m->outputs->stage, why_not, sizeof why_not);
    jw_str(w, "state", fails ? "failed" : own.f_bavail ? "ok" : "full");
    jw_str(w, "why", why_not);
    jw_end(w);
    jw_end(w);
    jw_end(w);
}

static void write_set(struct json_writer *w)
{
    jw_object(w, "set");
    jw_int(w, "samples", 0);
    jw_int(w, "bytes", 0);
    jw_int(w, "folders", 0);
    jw_end(w);
}

static void write_warmup(struct json_writer *w)
{
    jw_object(w, "warmup");
    jw_str(w, "state", "idle");
    jw_int(w, "percent", 0);
    jw_int(w, "samples_done", 0);
    jw_int(w, "samples_total", 0);
    jw_int(w, "failed", 0);
    jw_int(w, "eta_s", 0);
    jw_end(w);
}

static void status(struct mount *m, struct json_writer *w)
{
    struct outputs *p = m->outputs;
    jw_str(w, "version", "");
    jw_str(w, "state", "ready");
    jw_bool(w, "writable", true);
    jw_str(w, "commit", why(m));
    stage_pending(p->stage, w);
    write_set(w);
    write_cache(m, w);
    control_outputs_counts(p->stage, p->fetch, w);
    jw_object(w, "memory");
    jw_uint(w, "resident", process_resident());
    jw_uint(w, "limit", m->conf->options->memory);
    jw_end(w);
    write_warmup(w);
    ACQUIRE(&m->lock);
    if (m->mounted)
        outfuse_status(p->front, w);
}

static void path_of(struct mount *m, uint64_t ino, struct bytes *ret)
{
    stage_path(m->outputs->stage, ino, ret);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* The journal takes over for another program: nothing needs to be stored for that. */
static int flush(struct mount *m, struct err *err)
{
    (void)m;
    (void)err;
    return 0;
}

/* As long as something gets stored, and so long without. In steps, so that a second wish to end is
 * heard. */
static void settle(struct outputs *p, uint64_t patience_ns)
{
    uint64_t seen = stage_done(p->stage), give_up = clock_mono_ns() + patience_ns, step;
    struct err err = {0};
    int result;
    do {
        step = clock_mono_ns() + NS_PER_S;
        result = stage_settle(p->stage, step, &err);
        if (stage_done(p->stage) != seen) {
            seen = stage_done(p->stage);
            give_up = clock_mono_ns() + patience_ns;
        }
    } while (result && clock_mono_ns() >= step && step < give_up && !atomic_load(&p->in_a_hurry));
    if (result)
        log_warn(p->mount->log.log, "%s (it stays in %s, and is stored when this is mounted again)",
                 err.msg, p->dir);
}

/* close_outputs() may have taken `p` from the mount already, and waits for this thread. */
static void *settle_main(void *arg)
{
    struct outputs *p = arg;
    settle(p, SETTLE_NS);
    serve_end_now(p->mount);
    return NULL;
}

static void end_soon(struct mount *m)
{
    bool at_once;
    {
        ACQUIRE(&m->lock);
        struct outputs *p = m->outputs;
        if (!p)
            return; /* it ends */
        at_once = p->settling || !m->mounted || !p->stage;
        if (at_once)
            atomic_store(&p->in_a_hurry, true);
        else if (thread_start(&p->settler, "settle", settle_main, p) == 0)
            p->settling = true;
        else
            at_once = true;
    }
    if (at_once)
        serve_end_now(m);
}

static void wait_for_end(struct mount *m)
{
    outfuse_wait(m->outputs->front);
}

static void stop(struct mount *m)
{
    outfuse_stop(m->outputs->front);
}

static void detach(struct mount *m)
{
    outfuse_detach(m->outputs->front);
}

static void leave(struct mount *m)
{
    outfuse_leave(m->outputs->front);
}

/* Unmounted by others than us, something may be owed still: a while is given to it. */
static void close_outputs(struct mount *m)
{
    struct outputs *p = m->outputs;
    if (!p)
        return;
    if (p->front && p->stage && !p->settling && !atomic_load(&p->in_a_hurry))
        settle(p, LAST_SETTLE_NS);
    {
        ACQUIRE(&m->lock);
        m->outputs = NULL;
    }
    if (p->fetch)
        fetch_stop(p->fetch); /* who waits for the store waits no longer */
    if (p->settling)
        pthread_join(p->settler, NULL);
    outfuse_free(p->front);
    stage_close(p->stage);
    if (p->fetch)
        fetch_free(p->fetch);
    store_close(p->store);
    free(p->layers);
    free(p->dir);
    free(p);
}

const struct served serves_outputs = {
    .desks = desks,
    .open = open_outputs,
    .mount = mount_outputs,
    .device = device,
    .control = add_control,
    .mode = mode,
    .why = why,
    .status = status,
    .flush = flush,
    .path_of = path_of,
    .end_soon = end_soon,
    .wait = wait_for_end,
    .stop = stop,
    .detach = detach,
    .leave = leave,
    .close = close_outputs,
};
