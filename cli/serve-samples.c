/* A mount of samples: a volume behind the read-only front end. */
#define LOG_MODULE "mount"
#include <string.h>
#include <unistd.h>

#include "mem.h"
#include "serve-internal.h"
#ifdef SAMPAN_TEST_LAYERS
#include "layers.h"
#endif

/* Who mounts learns that he may not read, and not the first of his readers. A store that is away is
 * another matter: what is cached is served. */
static int ask_stores(struct mount *m, struct err *err)
{
    cleanup_bytes struct bytes away = {0};
    if (volume_ask(m->volume, &away, err))
        return -1;
    for (char *line = away.data, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        log_warn(m->log.log, "only what is cached can be read now: %s", line);
        if (!m->conf->options->quiet)
            say_failure("mount", "only what is cached can be read now", line);
    }
    return 0;
}

static int open_volume(struct mount *m, struct err *err)
{
    const struct mount_options *o = m->conf->options;
    struct keeper_state *state = keeper_state(m->conf->keeper);
    struct volume_conf conf = {
        .set = m->conf->set,
        .counts = state ? keeper_area(state, "volume", VOLUME_COUNTS_VERSION,
                                      sizeof(struct volume_counts))
                        : NULL,
        .order_version = state ? keeper_area(state, "order", 1, CATALOG_DIGEST + 1) : NULL,
        .served_version = state ? keeper_area(state, "served", 1, CATALOG_DIGEST + 1) : NULL,
        .catalog = o->catalog,
        .store = *m->conf->store,
        .memory = o->memory,
        .refresh_ns = o->refresh,
        .sampler = control_kept_sampler(keeper_state(m->conf->keeper)) ? NULL : o->sampler,
        .partition = o->partition,
        .strategy = o->strategy,
        .weights = o->weights,
        .peers = o->peers,
        .peer_token_file = o->peer_token_file,
        .prefetch = (unsigned)o->prefetch,
        .ahead_bytes = o->ahead_bytes,
        .rescan = o->rescan,
        .log = m->log.log,
    };
    conf.store.log = m->log.log;
    conf.layers =
        getenv("SAMPAN_LAYERS"); /* faults put into a live mount; a release refuses them */
#ifdef SAMPAN_TEST_LAYERS
    conf.build_layers = layers_build;
#endif
    fetch_conf_defaults(&conf.fetch);
    conf.fetch.connections = (unsigned)o->connections;
    conf.fetch.bandwidth = o->bandwidth;
    conf.fetch.hedge = !o->no_hedge;
    conf.fetch.verify_md5 = o->verify_etag;
    conf.fetch.log = m->log.log;
    owner_to_volume(m->conf->owner, &conf);
    if (volume_open(&m->volume, &conf, progress_volume, &m->progress, err))
        return -1;
    return m->successor ? 0 : ask_stores(m, err);
}

/* Whole objects (--profile shards) lie below the first tier on a disk and share its limit. */
static const struct tier_conf *disk_tier(const struct owner *o)
{
    for (size_t i = 0; i < o->n_tiers; i++)
        if (o->tiers[i].kind != TIER_MEM)
            return &o->tiers[i];
    return NULL;
}

static int mount_samples(struct mount *m, struct err *err)
{
    const struct mount_options *o = m->conf->options;
    const struct tier_conf *disk = disk_tier(m->conf->owner);
    cleanup_free char *shards_dir = disk ? xasprintf("%s/shards", disk->dir) : NULL;
    struct frontend_conf conf = {
        .mountpoint = m->conf->mountpoint,
        .uid = o->uid < 0 ? getuid() : (uid_t)o->uid,
        .gid = o->gid < 0 ? getgid() : (gid_t)o->gid,
        .allow_other = o->allow_other,
        .shards = strcmp(o->profile, "shards") == 0,
        .shards_dir = shards_dir,
        .shards_limit = disk ? disk->limit - disk->limit / 8 : 0,
        .connections = (unsigned)o->connections,
        .push_window = o->push_window,
        .direct = o->direct != NULL,
        .dev = under_keeper_copy(m, /* device= */ true),
        .state = keeper_state(m->conf->keeper),
        .refuse = under_keeper_refuses(m),
        .helper = "/proc/self/exe",
        .status = serve_status,
        .status_arg = m,
        .set = serve_set,
        .set_arg = m,
        .log = m->log.log,
    };
    struct frontend *f;
    if (frontend_mount(&f, m->volume, &conf, err))
        return -1;
    if (frontend_start(f, err)) {
        frontend_free(f);
        return -1;
    }
    m->frontend = f;
    return 0;
}

/* Valid, but seldom what was meant. */
static void warn_if_empty(struct mount *m)
{
    struct catalog *c = volume_catalog(m->volume);
    bool empty = catalog_info(c)->samples == 0;
    catalog_unref(c);
    if (!empty)
        return;
    log_warn(m->log.log, "the set is empty: nothing is listed in %s", m->conf->set);
    if (!m->conf->options->quiet)
        fprintf(
            stderr,
            "sampan mount: the set is empty: %s: nothing is listed there (is the name right?)\n",
            m->conf->set);
}

static int device(const struct mount *m)
{
    return frontend_device(m->frontend);
}

static void add_control(struct mount *m, struct control_server_conf *conf)
{
    conf->volume = m->volume;
    conf->direct_dir = m->conf->options->direct;
    conf->direct_for_all = m->conf->options->allow_other;
}

static const char *mode(const struct mount *m)
{
    return frontend_mode(m->frontend);
}

static const char *why(const struct mount *m)
{
    return frontend_why(m->frontend);
}

static void status(struct mount *m, struct json_writer *w)
{
    volume_status(m->volume, w);
    ACQUIRE(&m->lock);
    if (m->mounted)
        frontend_status(m->frontend, w);
}

/* What is in packs outlives this process, whatever the disk has of it by now. */
static int flush(struct mount *m, struct err *err)
{
    (void)err;
    if (m->volume)
        cache_drain(volume_cache(m->volume));
    return 0;
}

static void path_of(struct mount *m, uint64_t ino, struct bytes *ret)
{
    struct catalog *c = m->volume ? volume_catalog_of(m->volume, ino, NULL) : NULL;
    if (!c)
        return;
    catalog_path(c, ino, ret, NULL);
    catalog_unref(c);
}

static void wait_for_end(struct mount *m)
{
    frontend_wait(m->frontend);
}

static void stop(struct mount *m)
{
    frontend_stop(m->frontend);
}

/* Clients that still wait for a scan or a warmup are answered soon: they are waited for. */
static void detach(struct mount *m)
{
    frontend_detach(m->frontend);
    volume_wind_up(m->volume);
}

static void leave(struct mount *m)
{
    frontend_leave(m->frontend);
}

static void close_samples(struct mount *m)
{
    frontend_free(m->frontend);
    volume_close(m->volume);
}

const struct served serves_samples = {
    .desks = frontend_desks,
    .open = open_volume,
    .mount = mount_samples,
    .device = device,
    .control = add_control,
    .mode = mode,
    .why = why,
    .look = warn_if_empty,
    .status = status,
    .flush = flush,
    .path_of = path_of,
    .wait = wait_for_end,
    .stop = stop,
    .detach = detach,
    .leave = leave,
    .close = close_samples,
};
