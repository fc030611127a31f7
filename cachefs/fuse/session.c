/*
 * The session: negotiation, the serving threads, the end. frontend.h tells the life of a front end:
 * frontend_mount() .. frontend_start() .. frontend_wait() .. frontend_free().
 *
 * libfuse parses and answers everything but two kinds of request: READ, the hot path, is served
 * from the wire by op-read.c; INTERRUPT is ignored, which the protocol allows (each request gets
 * its one reply anyway). The device is reached through the custom_io hooks, so that the INIT
 * exchange can be seen, kept for a successor, and completed with what this libfuse does not know
 * yet.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "frontend-internal.h"
#include "mem.h"

#define LOG_MODULE "fuse"
#include "log.h"

#define READ_AHEAD_KIB 1024
#define STACK_DEPTH    1
#define CHORES_MAX     64

/* --- the device --- */

int dev_reply(struct frontend *f, uint64_t unique, int error, const void *data, size_t len)
{
    struct wire_out_header h = {
        .len = (uint32_t)(sizeof(h) + len), .error = error, .unique = unique};
    struct iovec iov[2] = {{.iov_base = &h, .iov_len = sizeof(h)},
                           {.iov_base = (void *)data, .iov_len = len}};

    if (writev(f->dev, iov, len ? 2 : 1) < 0)
        return -errno;
    return 0;
}

/*
 * Completes libfuse's answer to INIT: passthrough is a flag of the second word and a stacking depth
 * in what its header still calls unused.
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
    h.len = sizeof(h) + sizeof(out);
    ssize_t n = writev(fd, patched, 2);
    return n < 0 ? n : (ssize_t)(iov[0].iov_len + iov[1].iov_len);
}

static ssize_t hook_writev(int fd, struct iovec *iov, int count, void *userdata)
{
    struct frontend *f = userdata;

    if (f->init_reply_due && count == 2) {
        const struct wire_out_header *h = iov[0].iov_base;

        f->init_reply_due = false;
        if (!h->error)
            return send_init_reply(f, fd, iov);
    }
    return writev(fd, iov, count);
}

static ssize_t hook_read(int fd, void *buf, size_t size, void *userdata)
{
    struct frontend *f = userdata;
    ssize_t n = read(fd, buf, size);
    const struct wire_in_header *h = buf;

    if (f->negotiated || n < (ssize_t)sizeof(*h) || h->opcode != WIRE_INIT)
        return n;
    if ((size_t)n <= sizeof(f->init_request)) {
        memcpy(f->init_request, buf, (size_t)n);
        f->init_len = (size_t)n;
    }
    probe_hide(buf, (size_t)n, f->hidden);
    f->offers = probe_offers(buf, (size_t)n) & ~f->hidden;
    f->init_reply_due = true;
    return n;
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

/* --- the workers --- */

static void serve_one(struct frontend *f, const struct fuse_buf *buf)
{
    const struct wire_in_header *h = buf->mem;

    if (h->opcode == WIRE_INTERRUPT)
        return;
    if (h->opcode == WIRE_READ && buf->size >= sizeof(*h) + sizeof(struct wire_read_in))
        op_read(f, h, (const void *)(h + 1));
    else if (h->opcode == WIRE_OPEN && f->passthrough)
        passthrough_open(f, h);
    else if (h->opcode == WIRE_RELEASE && f->passthrough)
        passthrough_release(f, h);
    else
        fuse_session_process_buf(f->session, buf);
}

static void worker_ended(void *arg)
{
    struct frontend *f = arg;
    ACQUIRE(&f->state_lock);

    f->workers_running--;
    cond_broadcast(&f->ended);
}

static void free_buf(void *arg)
{
    struct fuse_buf *buf = arg;

    free(buf->mem);
}

/* A worker is cancelled only while it waits for a request: see frontend_stop(). */
static void *worker(void *arg)
{
    struct frontend *f = arg;
    struct fuse_buf buf = {0};
    int n;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cleanup_push(worker_ended, f);
    pthread_cleanup_push(free_buf, &buf);
    while (!fuse_session_exited(f->session)) {
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
        n = fuse_session_receive_buf(f->session, &buf);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        if (n == -EINTR || n == -EAGAIN)
            continue;
        if (n <= 0)
            break;
        serve_one(f, &buf);
    }
    pthread_cleanup_pop(1);
    pthread_cleanup_pop(1);
    return NULL;
}

static int start_workers(struct frontend *f, struct err *err)
{
    char name[16];

    for (unsigned i = 0; i < FRONTEND_WORKERS; i++) {
        lock_take(&f->state_lock);
        f->workers_running++;
        lock_drop(&f->state_lock);
        snprintf(name, sizeof(name), "fuse-%u", i);
        int e = thread_start(&f->workers[i], name, worker, f);
        if (e) {
            lock_take(&f->state_lock);
            f->workers_running--;
            lock_drop(&f->state_lock);
            return err_sys(err, e, "start a thread");
        }
        f->n_workers++;
    }
    return 0;
}

/* INIT comes first and alone: the kernel holds everything else back until it is answered. */
static int negotiate(struct frontend *f, struct err *err)
{
    struct fuse_buf buf = {0};
    int n = 0;

    while (!f->negotiated && !fuse_session_exited(f->session)) {
        n = fuse_session_receive_buf(f->session, &buf);
        if (n == -EINTR || n == -EAGAIN)
            continue;
        if (n <= 0)
            break;
        fuse_session_process_buf(f->session, &buf);
    }
    free(buf.mem);
    if (f->negotiated && !fuse_session_exited(f->session))
        return 0;
    return err_set(err, ERR_FAILED, "negotiate with the kernel's FUSE: %s",
                   n < 0 ? strerror(-n) : "the mount is gone");
}

/* --- chores --- */

static void run_chore(struct frontend *f, struct chore *c)
{
    struct err err = {0};
    int rc = c->kind == CHORE_SET_EPOCH ? volume_set_epoch(f->volume, c->epoch, &err)
                                        : volume_set_sampler(f->volume, c->spec, &err);

    if (rc < 0)
        fuse_reply_err(c->req, err_errno(&err));
    else
        fuse_reply_ioctl(c->req, 0, NULL, 0);
}

static void *chores_run(void *arg)
{
    struct frontend *f = arg;

    for (;;) {
        struct chore *c;

        lock_take(&f->chores_lock);
        while (!f->chores && !f->chores_stop)
            cond_wait(&f->chores_due, &f->chores_lock);
        c = f->chores;
        if (c) {
            f->chores = c->next;
            f->n_chores--;
        }
        lock_drop(&f->chores_lock);
        if (!c)
            return NULL;
        run_chore(f, c);
        free(c);
    }
}

int chores_add(struct frontend *f, struct chore *c)
{
    ACQUIRE(&f->chores_lock);
    struct chore **at = &f->chores;

    if (f->n_chores >= CHORES_MAX || f->chores_stop)
        return EBUSY;
    while (*at)
        at = &(*at)->next;
    c->next = NULL;
    *at = c;
    f->n_chores++;
    cond_signal(&f->chores_due);
    return 0;
}

static void stop_chores(struct frontend *f)
{
    if (!f->chores_started)
        return;
    lock_take(&f->chores_lock);
    f->chores_stop = true;
    cond_broadcast(&f->chores_due);
    lock_drop(&f->chores_lock);
    pthread_join(f->chores_thread, NULL);
    f->chores_started = false;
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
    f->dev = -1;
    lock_init(&f->state_lock, RANK_METRICS, "fuse state");
    lock_init(&f->chores_lock, RANK_METRICS, "fuse chores");
    cond_init(&f->ended);
    cond_init(&f->chores_due);
    snapshots_init(&f->snapshots);
    lock_init(&f->push.lock, RANK_PUSH, "fuse push");
    cond_init(&f->push.moved);
    return f;
}

int frontend_mount(struct frontend **ret, struct volume *v, const struct frontend_conf *conf,
                   struct err *err)
{
    struct frontend *f = new_frontend(v, conf);
    struct catalog *catalog = volume_catalog(v);
    cleanup_free char *source = xstrdup(catalog_source_uri(catalog, 0));
    const struct mount_conf how = {
        .mountpoint = f->conf.mountpoint, .source = source, .allow_other = conf->allow_other};

    catalog_unref(catalog);
    if (probe_mask_parse(getenv("SAMPAN_FUSE_MASK"), &f->hidden, err) < 0 ||
        mount_check_point(f->conf.mountpoint, err) < 0 || mount_fuse(&how, &f->dev, err) < 0)
        goto fail;
    f->mounted = true;
    if (new_session(f, err) < 0)
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
    *ret_n = FRONTEND_WORKERS;
    *ret_bytes = MAX_READ + 4096; /* as large as libfuse's own buffer: payload and headers */
}

static void learn_mount(struct frontend *f)
{
    cleanup_free struct mount_row *row = xmalloc(sizeof(*row));

    if (mount_find(f->conf.mountpoint, row, NULL) < 0)
        return;
    f->mount_dev = makedev(row->major, row->minor);
    mount_readahead(row, READ_AHEAD_KIB);
}

int frontend_start(struct frontend *f, struct err *err)
{
    int e;

    if (negotiate(f, err) < 0)
        return -1;
    learn_mount(f);
    passthrough_start(f);
    e = thread_start(&f->chores_thread, "fuse-chores", chores_run, f);
    if (e)
        return err_sys(err, e, "start a thread");
    f->chores_started = true;
    if (start_workers(f, err) < 0)
        return -1;
    volume_on_switch(f->volume, invalidate_on_switch, f);
    return push_start(f, err);
}

void frontend_wait(struct frontend *f)
{
    ACQUIRE(&f->state_lock);

    while (f->workers_running > 0)
        cond_wait(&f->ended, &f->state_lock);
}

void frontend_stop(struct frontend *f)
{
    fuse_session_exit(f->session);
    for (unsigned i = 0; i < f->n_workers; i++)
        pthread_cancel(f->workers[i]);
}

static void join_workers(struct frontend *f)
{
    for (unsigned i = 0; i < f->n_workers; i++)
        pthread_join(f->workers[i], NULL);
    f->n_workers = 0;
}

/* Parked READs hold a pointer to us until their bytes come, or their flight ends. Counting them
 * takes no lock on the hot path, so the end looks again and again instead of being woken. */
static void wait_for_parked(struct frontend *f)
{
    ACQUIRE(&f->state_lock);

    while (atomic_load(&f->parked) > 0)
        cond_wait_for(&f->ended, &f->state_lock, 5 * NS_PER_MS);
}

/*
 * Ends the connection: from here on the kernel fails every request, also those of our own threads
 * that touch the mount (the pusher) or wait for its locks (chores), which could wait for a worker
 * for ever. The number of the descriptor stays taken, for replies that are still to come.
 */
static void hang_up(struct frontend *f)
{
    cleanup_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (f->dev >= 0 && null >= 0)
        dup3(null, f->dev, O_CLOEXEC);
}

static void leave_mount(struct frontend *f)
{
    struct err err = {0};
    cleanup_free struct mount_row *row = xmalloc(sizeof(*row));

    if (!f->mounted)
        return;
    f->mounted = false;
    /* Gone already, or another one took its place: not ours to end. */
    if (mount_find(f->conf.mountpoint, row, NULL) < 0 ||
        (f->mount_dev && makedev(row->major, row->minor) != f->mount_dev))
        return;
    if (mount_end(f->conf.mountpoint, /* lazy= */ true, &err) < 0)
        log_warn(f->log, "%s", err.msg);
}

void frontend_detach(struct frontend *f)
{
    leave_mount(f);
}

void frontend_leave(struct frontend *f)
{
    frontend_stop(f);
    join_workers(f);
    wait_for_parked(f);
}

void frontend_free(struct frontend *f)
{
    if (!f)
        return;
    leave_mount(f);
    if (f->session)
        frontend_stop(f);
    join_workers(f);
    hang_up(f);
    volume_on_switch(f->volume, NULL, f);
    stop_chores(f);
    push_stop(f);
    wait_for_parked(f);
    passthrough_stop(f);
    if (f->session)
        fuse_session_destroy(f->session); /* closes the device */
    else if (f->dev >= 0)
        close(f->dev);
    snapshots_destroy(&f->snapshots);
    cond_destroy(&f->push.moved);
    lock_destroy(&f->push.lock);
    cond_destroy(&f->ended);
    cond_destroy(&f->chores_due);
    lock_destroy(&f->chores_lock);
    lock_destroy(&f->state_lock);
    free((char *)f->conf.mountpoint);
    free((char *)f->conf.shards_dir);
    free(f);
}
