/*
 * The session: negotiation, start, end. frontend.h tells the life of a front end:
 * frontend_mount() .. frontend_start() .. frontend_wait() .. frontend_free().
 *
 * libfuse writes its replies through the custom_io hooks, so that its answer to INIT can be
 * completed with what this libfuse does not know yet. The INIT request is kept in the state: a
 * later life puts it before its own libfuse, which then knows the connection as the first one did,
 * and swallows the answer.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "frontend-internal.h"
#include "keeper.h"
#include "mem.h"

#define LOG_MODULE "fuse"
#include "log.h"

/* Of a file that is read in order: four READs under way, so that one reader keeps the disk busy
 * while it copies. */
#define READ_AHEAD_KIB 4096
#define STACK_DEPTH    1
/* What the kernel may put into a request that writes: nothing does, so desks can be small. */
#define LEAST_MAX_WRITE 4096

/* --- the device --- */

int dev_reply(struct frontend *f, uint64_t unique, int error, const void *data, size_t len)
{
    struct wire_out_header h = {
        .len = (uint32_t)(sizeof(h) + len), .error = error, .unique = unique};
    struct iovec iov[2] = {{.iov_base = &h, .iov_len = sizeof(h)},
                           {.iov_base = (void *)data, .iov_len = len}};

    if (writev(f->dev, iov, len ? 2 : 1) < 0)
        return -errno;
    hand_answered(&f->hand);
    return 0;
}

/*
 * Completes libfuse's answer to INIT: passthrough is a flag of the second word and a stacking depth
 * in what its header still calls unused. Nothing is ever written to this mount, so that the least
 * max_write will do, and with it small desks.
 */
static ssize_t send_init_reply(struct frontend *f, int fd, const struct iovec *iov)
{
    struct wire_out_header h;
    struct wire_init_out out = {0};
    size_t len = iov[1].iov_len < sizeof(out) ? iov[1].iov_len : sizeof(out);
    struct iovec patched[2] = {{.iov_base = &h, .iov_len = sizeof(h)},
                               {.iov_base = &out, .iov_len = sizeof(out)}};

    memcpy(&h, iov[0].iov_base, sizeof(h));
    memcpy(&out, iov[1].iov_base, len);
    if (f->mode.passthrough) {
        out.flags |= WIRE_INIT_EXT;
        out.flags2 |= WIRE2_PASSTHROUGH | WIRE2_DIRECT_IO_MMAP;
        out.max_stack_depth = STACK_DEPTH;
    }
    out.max_write = LEAST_MAX_WRITE;
    h.len = sizeof(h) + sizeof(out);
    ssize_t n = writev(fd, patched, 2);
    return n < 0 ? n : (ssize_t)(iov[0].iov_len + iov[1].iov_len);
}

static ssize_t hook_writev(int fd, struct iovec *iov, int count, void *userdata)
{
    struct frontend *f = userdata;
    const struct wire_out_header *h = iov[0].iov_base;
    ssize_t n;

    if (f->init_reply_due && count == 2) {
        f->init_reply_due = false;
        if (f->adopted) /* the kernel had its answer in the first life */
            return (ssize_t)(iov[0].iov_len + iov[1].iov_len);
        if (!h->error)
            return send_init_reply(f, fd, iov);
    }
    if (!h->unique)
        return helper_notify(&f->helper, iov, count);
    n = writev(fd, iov, count);
    if (n >= 0)
        hand_answered(&f->hand);
    return n;
}

/* libfuse wants one, and never calls it: the workers read by themselves. */
static ssize_t hook_read(int fd, void *buf, size_t size, void *userdata)
{
    (void)userdata;
    return read(fd, buf, size);
}

static void want(struct fuse_conn_info *conn, unsigned cap, bool on)
{
    if (on)
        conn->want |= conn->capable & cap;
    else
        conn->want &= ~cap;
}

void op_init(void *userdata, struct fuse_conn_info *conn)
{
    struct frontend *f = userdata;
    unsigned requests = f->conf.connections + 64;

    probe_decide(f->offers, f->conf.shards, /* backing= */ NULL, &f->mode);
    want(conn, FUSE_CAP_ASYNC_READ, f->mode.async_read);
    want(conn, FUSE_CAP_READDIRPLUS, f->mode.readdirplus);
    want(conn, FUSE_CAP_READDIRPLUS_AUTO, false);
    want(conn, FUSE_CAP_PARALLEL_DIROPS, true);
    want(conn, FUSE_CAP_IOCTL_DIR, true);
    /* Bytes of an id never change, so nothing but our own word may drop pages. */
    want(conn, FUSE_CAP_AUTO_INVAL_DATA, false);
    want(conn, FUSE_CAP_EXPLICIT_INVAL_DATA, true);
    want(conn,
         FUSE_CAP_EXPORT_SUPPORT | FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
             FUSE_CAP_SPLICE_MOVE | FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_POSIX_ACL,
         false);
    /* The kernel's default of 12 starves cold reads. */
    conn->max_background = requests < UINT16_MAX ? requests : UINT16_MAX;
    conn->congestion_threshold = conn->max_background;
    conn->max_readahead = MAX_READ;
    f->negotiated = true;
}

/* --- INIT --- */

/* Puts an INIT request before libfuse, which answers it through hook_writev(). */
static int process_init(struct frontend *f, void *request, size_t len, struct err *err)
{
    struct fuse_buf buf = {.mem = request, .size = len};

    probe_hide(request, len, f->hidden);
    f->offers = probe_offers(request, len) & ~f->hidden;
    f->init_reply_due = true;
    fuse_session_process_buf(f->session, &buf);
    if (f->negotiated && !fuse_session_exited(f->session))
        return 0;
    return err_set(err, ERR_FAILED, "negotiate with the kernel's FUSE: libfuse refuses the INIT");
}

/* INIT comes first and alone: the kernel holds everything else back until it is answered. */
static int negotiate(struct frontend *f, struct err *err)
{
    struct keeper_state *state = f->hand.state;
    struct wire_in_header *desk = hand_desk(&f->hand, 0);
    ssize_t n = crew_receive(&f->crew, 0);

    if (n < 0)
        return err_sys(err, (int)-n, "negotiate with the kernel's FUSE");
    if (n < (ssize_t)sizeof(*desk) || desk->opcode != WIRE_INIT || n > KEEPER_INIT_MAX)
        return err_set(err, ERR_FAILED, "negotiate with the kernel's FUSE: no INIT of %u bytes",
                       KEEPER_INIT_MAX);
    memcpy(state->init, desk, (size_t)n);
    if (process_init(f, desk, (size_t)n, err) < 0)
        return -1;
    hand_clear(desk);
    state->hidden = f->hidden;
    state->can_resend = (f->offers & OFFER_RESEND) != 0;
    atomic_signal_fence(memory_order_release);
    state->init_len = (uint32_t)n;
    return 0;
}

/* Later lives: the same, from what the first one kept. */
static int negotiate_again(struct frontend *f, struct err *err)
{
    const struct keeper_state *state = f->hand.state;
    _Alignas(8) unsigned char request[KEEPER_INIT_MAX];

    if (!state->init_len)
        return err_set(err, ERR_FAILED,
                       "the keeper's state holds no INIT: the mount can't be "
                       "taken over (umount it)");
    memcpy(request, state->init, sizeof(request));
    f->hidden = state->hidden;
    return process_init(f, request, state->init_len, err);
}

/* --- the life of a front end --- */

static int new_session(struct frontend *f, struct err *err)
{
    static const struct fuse_custom_io hooks = {.writev = hook_writev, .read = hook_read};
    char program[] = "sampan";
    char *argv[] = {program, NULL};
    struct fuse_args args = FUSE_ARGS_INIT(1, argv);
    int e;

    f->session = fuse_session_new(&args, &frontend_ops, sizeof(frontend_ops), f);
    fuse_opt_free_args(&args);
    if (!f->session)
        return err_set(err, ERR_FAILED, "fuse: the session can't be made");
    e = fuse_session_custom_io(f->session, &hooks, f->dev);
    if (e)
        return err_sys(err, e < 0 ? -e : e, "fuse: custom I/O");
    return 0;
}

static struct frontend *new_frontend(struct volume *v, const struct frontend_conf *conf)
{
    struct frontend *f = xcalloc(1, sizeof(*f));

    f->conf = *conf;
    f->conf.mountpoint = xstrdup(conf->mountpoint);
    f->volume = v;
    f->log = conf->log;
    if (conf->shards_dir)
        f->conf.shards_dir = xstrdup(conf->shards_dir);
    crew_init(&f->crew, &worker_ops, f, conf->log);
    lock_init(&f->telling, RANK_PUSH - 1, "fuse telling");
    lock_init(&f->chores_lock, RANK_METRICS, "fuse chores");
    cond_init(&f->chores_due);
    again_init(&f->again);
    snapshots_init(&f->snapshots);
    pages_init(&f->pages);
    lock_init(&f->push.lock, RANK_PUSH, "fuse push");
    cond_init(&f->push.moved);
    helper_init(&f->helper, conf->helper, push_told, f);
    f->adopted = conf->dev >= 0;
    f->dev = conf->dev;
    return f;
}

static int make_mount(struct frontend *f, struct err *err)
{
    struct catalog *catalog = volume_catalog(f->volume);
    cleanup_free char *source = xstrdup(catalog_source_uri(catalog, 0));
    const struct mount_conf how = {
        .mountpoint = f->conf.mountpoint, .source = source, .allow_other = f->conf.allow_other};

    catalog_unref(catalog);
    if (mount_check_point(f->conf.mountpoint, err) < 0)
        return -1;
    return mount_fuse(&how, &f->dev, err);
}

int frontend_mount(struct frontend **ret, struct volume *v, const struct frontend_conf *conf,
                   struct err *err)
{
    struct frontend *f = new_frontend(v, conf);

    if (probe_mask_parse(getenv("SAMPAN_FUSE_MASK"), &f->hidden, err) < 0 ||
        hand_open(&f->hand, conf->state, err) < 0 || (!f->adopted && make_mount(f, err) < 0))
        goto fail;
    f->kept = keeper_area(f->hand.state, "fuse", KEPT_VERSION, sizeof(*f->kept));
    struct kept_snapshots *texts = keeper_area(f->hand.state, "snapshots", SNAPSHOTS_KEPT_VERSION,
                                               sizeof(struct kept_snapshots));
    if (!f->kept || !texts) {
        err_set(err, ERR_LIMIT, "the keeper's state has no room for the front end's counters");
        goto fail;
    }
    crew_board(&f->crew, f->dev, f->hand.state);
    f->helper.device = f->dev;
    snapshots_keep(&f->snapshots, texts);
    f->mounted = !f->adopted; /* one that we fail to take over is another life's to end */
    if (!conf->refuse && new_session(f, err) < 0)
        goto fail;
    *ret = f;
    return 0;
fail:
    frontend_free(f);
    return -1;
}

int frontend_device(const struct frontend *f)
{
    return f->dev;
}

void frontend_desks(unsigned *ret_n, uint64_t *ret_bytes)
{
    *ret_n = FRONTEND_DESKS;
    *ret_bytes = FRONTEND_DESK_BYTES;
}

static int start_serving(struct frontend *f, struct err *err)
{
    if (f->adopted ? negotiate_again(f, err) : negotiate(f, err))
        return -1;
    f->mount_dev = mount_learn(f->conf.mountpoint, READ_AHEAD_KIB);
    volume_served_as(f->volume, f->mount_dev);
    if (passthrough_start(f, err) < 0 || chores_start(f, err) < 0)
        return -1;
    invalidate_begin(f);
    if (f->adopted)
        worker_take_over(f);
    if (workers_start(f, err) < 0)
        return -1;
    volume_on_switch(f->volume, invalidate_on_switch, f);
    invalidate_untold(f);
    if (push_start(f, err) < 0)
        return -1;
    f->mounted = true;
    return 0;
}

int frontend_start(struct frontend *f, struct err *err)
{
    if (!f->conf.refuse)
        return start_serving(f, err);
    snprintf(f->mode.mode, sizeof(f->mode.mode), "refuse");
    snprintf(f->mode.why, sizeof(f->mode.why), "every request is answered EIO");
    f->mount_dev = mount_learn(f->conf.mountpoint, READ_AHEAD_KIB);
    worker_take_over(f);
    if (workers_start(f, err) < 0)
        return -1;
    f->mounted = true;
    return 0;
}

void frontend_wait(struct frontend *f)
{
    crew_wait(&f->crew);
}

void frontend_stop(struct frontend *f)
{
    crew_end_wait(&f->crew);
}

/* Parked READs hold a pointer to us until their bytes come, or their flight ends. Counting them
 * takes no lock on the hot path, so the end looks again and again instead of being woken. */
static void wait_for_parked(struct frontend *f, uint64_t at_most_ns)
{
    const struct timespec pause = {.tv_nsec = 5 * NS_PER_MS};
    uint64_t end = clock_mono_ns() + at_most_ns;

    while (atomic_load(&f->parked) > 0 && clock_mono_ns() < end)
        nanosleep(&pause, NULL);
}

void frontend_detach(struct frontend *f)
{
    mount_leave(&f->mounted, f->conf.mountpoint, f->mount_dev, f->log);
    chores_stop(f);
}

void frontend_leave(struct frontend *f)
{
    crew_stop(&f->crew);
    crew_join(&f->crew);
    wait_for_parked(f, NS_PER_S);
}

/* Our own threads that touch the mount (the pusher) or wait for its locks (chores) need workers to
 * come to their end: they go first. */
static void stop_serving(struct frontend *f)
{
    if (f->volume)
        volume_on_switch(f->volume, NULL, f);
    chores_stop(f);
    push_stop(f);
    helper_stop(&f->helper);
    crew_stop(&f->crew);
    crew_join(&f->crew);
    mount_hang_up(f->dev);
    wait_for_parked(f, UINT64_MAX / 2);
    passthrough_stop(f);
}

void frontend_free(struct frontend *f)
{
    if (!f)
        return;
    mount_leave(&f->mounted, f->conf.mountpoint, f->mount_dev, f->log);
    stop_serving(f);
    if (f->session)
        fuse_session_destroy(f->session); /* closes the device */
    else if (f->dev >= 0)
        close(f->dev);
    hand_close(&f->hand);
    snapshots_destroy(&f->snapshots);
    pages_destroy(&f->pages);
    cond_destroy(&f->push.moved);
    lock_destroy(&f->push.lock);
    lock_destroy(&f->telling);
    crew_destroy(&f->crew);
    cond_destroy(&f->chores_due);
    lock_destroy(&f->chores_lock);
    again_destroy(&f->again);
    free((char *)f->conf.mountpoint);
    free((char *)f->conf.shards_dir);
    free(f);
}
