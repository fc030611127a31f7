/*
 * A mount's life: outfuse.h tells it. The device is read by a few workers; the kernel holds all
 * back until INIT is answered, which outfuse_start() does by itself.
 *
 * A later life needs no second INIT: what was asked of the kernel follows from the request, which
 * the state keeps.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "keeper.h"
#include "mem.h"
#include "outfuse-internal.h"

#define LOG_MODULE "fuse"
#include "log.h"

#define READ_AHEAD_KIB 1024
#define BACKGROUND     256 /* requests that nobody waits in: readahead, pages of a mapping */

/* --- negotiation ----------------------------------------------------------------------------- */

#define WANTED                                                                        \
    (WIRE_ASYNC_READ | WIRE_ATOMIC_O_TRUNC | WIRE_BIG_WRITES | WIRE_PARALLEL_DIROPS | \
     WIRE_DO_READDIRPLUS | WIRE_MAX_PAGES | WIRE_HAS_IOCTL_DIR | WIRE_ASYNC_DIO)

/* Linux 6.18. Since then the kernel drops its pages of what is written past them not only before
 * the write but after it, too: a reader may have brought old bytes back meanwhile. Of asynchronous
 * writes it does not: those must be none. */
#define MINOR_PAST_PAGES 45

void session_learn_init(struct outfuse *f, const struct wire_init_in *in, size_t len)
{
    f->readdirplus = in->flags & WIRE_DO_READDIRPLUS;
    f->async_read = in->flags & WIRE_ASYNC_READ;
    f->past_pages = in->minor >= MINOR_PAST_PAGES;
    f->hands.state->can_resend = (in->flags & WIRE_INIT_EXT) &&
                                 len >= offsetof(struct wire_init_in, unused) &&
                                 (in->flags2 & WIRE2_HAS_RESEND);
}

/* What goes past the kernel's pages can be mapped all the same. */
static bool offers_mapping(const struct wire_init_in *in, size_t len)
{
    return (in->flags & WIRE_INIT_EXT) && len >= offsetof(struct wire_init_in, unused) &&
           (in->flags2 & WIRE2_DIRECT_IO_MMAP);
}

int out_init(struct call *c, struct err *err)
{
    const struct wire_init_in *in = c->in;
    struct keeper_state *state = c->f->hands.state;
    size_t len = c->h->len - sizeof(*c->h);

    if (in->major != WIRE_MAJOR || in->minor < 28) /* 4.20: max_pages */
        return err_sys(err, EPROTO, "the kernel speaks FUSE %u.%u, this needs 7.28 or later",
                       in->major, in->minor);
    session_learn_init(c->f, in, len);
    c->out.init = (struct wire_init_out){
        .major = WIRE_MAJOR,
        .minor = WIRE_MINOR,
        .max_readahead = MOUNT_MAX_READ,
        .flags = in->flags & (c->f->past_pages ? WANTED & ~WIRE_ASYNC_DIO : WANTED),
        .max_background = BACKGROUND,
        .congestion_threshold = BACKGROUND,
        .max_write = MAX_WRITE,
        .time_gran = 1,
        .max_pages = MAX_WRITE / 4096,
    };
    if (offers_mapping(in, len)) {
        c->out.init.flags |= WIRE_INIT_EXT;
        c->out.init.flags2 = WIRE2_DIRECT_IO_MMAP;
    }
    c->out_len = sizeof(c->out.init);
    if (len <= sizeof(state->init))
        memcpy(state->init, in, len);
    return 0;
}

/* Later lives: what the first one learned. One that only refuses needs nothing of it. */
static int negotiate_again(const struct outfuse *f, struct err *err)
{
    if (f->hands.state->init_len || f->conf.refuse)
        return 0;
    return err_set(err, ERR_FAILED,
                   "the keeper's state holds no INIT: the mount can't be taken over (umount it)");
}

/* INIT comes first and alone: the kernel holds everything else back until it is answered. */
static int negotiate(struct outfuse *f, struct err *err)
{
    struct keeper_state *state = f->hands.state;
    uint32_t desk = hands_take_desk(&f->hands);
    struct place place = {.index = desk};
    ssize_t n = crew_receive(&f->crew, desk);

    if (n < 0) {
        hands_free(&f->hands, place);
        return err_sys(err, (int)-n, "negotiate with the kernel's FUSE");
    }
    struct keeper_request *at = hands_at(&f->hands, place);
    uint32_t len = at->len - (uint32_t)sizeof(*at);
    bool is_init = at->opcode == WIRE_INIT;
    uint64_t answered = atomic_load(&state->answered);
    outfuse_serve(f, at, &(struct job){.place = place});
    hands_free(&f->hands, place);
    if (!is_init || atomic_load(&state->answered) == answered)
        return err_set(err, ERR_FAILED, "negotiate with the kernel's FUSE: it sent no usable INIT");
    state->init_len = len <= sizeof(state->init) ? len : 0;
    return 0;
}

/* --- the life of a front end ------------------------------------------------------------------ */

static struct outfuse *new_outfuse(struct stage *s, const struct outfuse_conf *conf)
{
    struct outfuse *f = xcalloc(1, sizeof(*f));

    f->conf = *conf;
    f->conf.mountpoint = xstrdup(conf->mountpoint);
    f->conf.source = xstrdup(conf->source);
    f->stage = s;
    f->log = conf->log;
    f->dev = conf->dev;
    f->adopted = conf->dev >= 0 && conf->state;
    f->seen = xcalloc(SEEN_PLACES, sizeof(*f->seen));
    crew_init(&f->crew, &out_worker_ops, f, conf->log);
    lock_init(&f->seen_lock, RANK_METRICS, "fuse seen");
    lock_init(&f->news.lock, RANK_METRICS, "fuse news");
    again_init(&f->again);
    cond_init(&f->news.due);
    helper_init(&f->news.helper, conf->helper, NULL, NULL);
    snapshots_init(&f->snapshots);
    lanes_init(f);
    return f;
}

static int make_mount(struct outfuse *f, struct err *err)
{
    const struct mount_conf how = {.mountpoint = f->conf.mountpoint,
                                   .source = f->conf.source,
                                   .allow_other = f->conf.allow_other,
                                   .writable = true};

    if (mount_check_point(f->conf.mountpoint, err) < 0 || mount_fuse(&how, &f->dev, err) < 0)
        return -1;
    f->mounted = true;
    return 0;
}

int outfuse_mount(struct outfuse **ret, struct stage *s, const struct outfuse_conf *conf,
                  struct err *err)
{
    struct outfuse *f = new_outfuse(s, conf);

    if (hands_open(&f->hands, conf->state, err) < 0 || (f->dev < 0 && make_mount(f, err) < 0))
        goto fail;
    struct kept_snapshots *texts = keeper_area(f->hands.state, "snapshots", SNAPSHOTS_KEPT_VERSION,
                                               sizeof(struct kept_snapshots));
    if (!texts) {
        err_set(err, ERR_LIMIT, "the keeper's state has no room for status texts");
        goto fail;
    }
    crew_board(&f->crew, f->dev, f->hands.state);
    snapshots_keep(&f->snapshots, texts);
    *ret = f;
    return 0;
fail:
    outfuse_free(f);
    return -1;
}

int outfuse_device(const struct outfuse *f)
{
    return f->dev;
}

int outfuse_start(struct outfuse *f, struct err *err)
{
    if (f->adopted ? negotiate_again(f, err) : negotiate(f, err))
        return -1;
    f->mount_dev = mount_learn(f->conf.mountpoint, READ_AHEAD_KIB);
    if (f->stage && news_start(f, err) < 0)
        return -1;
    if (f->adopted)
        out_workers_take_up(f);
    if (crew_start(&f->crew, CREW_WORKERS, err) < 0)
        return -1;
    f->mounted = true; /* not before: one that we fail to take over is another life's to end */
    return 0;
}

void outfuse_wait(struct outfuse *f)
{
    crew_wait(&f->crew);
}

void outfuse_stop(struct outfuse *f)
{
    crew_end_wait(&f->crew);
}

void outfuse_detach(struct outfuse *f)
{
    mount_leave(&f->mounted, f->conf.mountpoint, f->mount_dev, f->log);
}

void outfuse_leave(struct outfuse *f)
{
    crew_stop(&f->crew);
    crew_join(&f->crew);
    lanes_stop(f);
}

void outfuse_free(struct outfuse *f)
{
    if (!f)
        return;
    mount_leave(&f->mounted, f->conf.mountpoint, f->mount_dev, f->log);
    news_stop(f);
    helper_stop(&f->news.helper);
    crew_stop(&f->crew);
    crew_join(&f->crew);
    lanes_stop(f);
    mount_hang_up(f->dev);
    if (f->dev >= 0)
        close(f->dev);
    if (f->hands.state || f->hands.free_slots)
        hands_close(&f->hands);
    for (size_t i = 0; i < f->news.n; i++)
        free(f->news.items[i].name);
    free(f->news.items);
    snapshots_destroy(&f->snapshots);
    lanes_destroy(f);
    cond_destroy(&f->news.due);
    crew_destroy(&f->crew);
    again_destroy(&f->again);
    lock_destroy(&f->news.lock);
    lock_destroy(&f->seen_lock);
    free(f->seen);
    free((char *)f->conf.source);
    free((char *)f->conf.mountpoint);
    free(f);
}

void outfuse_status(struct outfuse *f, struct json_writer *w)
{
    jw_str(w, "mode", "writable");
    jw_str(w, "mode_why", "files are opened one by one; pages are kept while nobody else writes");
    jw_object(w, "requests");
    jw_uint(w, "total", counter_get(&f->requests));
    jw_uint(w, "waited", counter_get(&f->waited));
    jw_uint(w, "resent", counter_get(&f->resent));
    jw_uint(w, "errors", counter_get(&f->errors));
    {
        ACQUIRE(&f->lanes.lock);
        jw_uint(w, "lanes", f->lanes.running);
        jw_uint(w, "queued", f->lanes.queued);
        jw_uint(w, "waiting", f->lanes.queued + lanes_busy(&f->lanes));
    }
    jw_uint(w, "told", counter_get(&f->news.told));
    jw_uint(w, "given_up", counter_get(&f->given_up));
    jw_end(w);
    jw_bool(w, "careful", crew_is_careful(&f->crew));
}
