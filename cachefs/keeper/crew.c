/* The threads that read the device, and being careful: crew.h tells. */
#include "crew.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fuse-wire.h"

#define LOG_MODULE "fuse"
#include "log.h"

void crew_init(struct crew *c, const struct crew_ops *ops, void *arg, struct log *log)
{
    *c = (struct crew){.ops = ops, .arg = arg, .log = log};
    lock_init(&c->lock, RANK_METRICS, "fuse crew");
    cond_init(&c->changed);
}

void crew_destroy(struct crew *c)
{
    cond_destroy(&c->changed);
    lock_destroy(&c->lock);
}

void crew_board(struct crew *c, int dev, struct keeper_state *state)
{
    c->dev = dev;
    c->state = state;
}

/* --- the device --- */

ssize_t crew_receive(struct crew *c, uint32_t desk)
{
    struct keeper_request *at = keeper_desk(c->state, desk);
    ssize_t n;

    do /* ENOENT: its caller gave it up while it was handed out */
        n = read(c->dev, at, c->state->desk_bytes);
    while (n < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT));
    return n < 0 ? -errno : n;
}

int crew_ask_again(struct crew *c)
{
    const struct wire_out_header h = {.len = sizeof(h), .error = WIRE_NOTIFY_RESEND};

    return write(c->dev, &h, sizeof(h)) < 0 ? -errno : 0;
}

/* --- being careful --- */

void crew_start_careful(struct crew *c)
{
    c->has_suspects = suspects_any(&c->state->keeper);
    atomic_store(&c->careful, suspects_open(&c->state->keeper));
    atomic_store(&c->state->careful, crew_is_careful(c));
    if (crew_is_careful(c))
        log_warn(c->log, "one request at a time, until what was in hand at the last death is "
                         "answered");
}

static void let_all_serve(struct crew *c)
{
    ACQUIRE(&c->lock);
    atomic_store(&c->careful, false);
    cond_broadcast(&c->changed);
}

void crew_end_careful(struct crew *c)
{
    if (!crew_is_careful(c))
        return;
    if (!c->ops->rested || c->ops->rested(c->arg)) /* the rest stays accused until it is answered */
        suspects_absolve_all(&c->state->keeper);
    atomic_store(&c->state->careful, 0);
    let_all_serve(c);
}

/* While one is careful the others wait. */
static void wait_while_careful(struct crew *c)
{
    ACQUIRE(&c->lock);

    while (atomic_load(&c->careful))
        cond_wait(&c->changed, &c->lock);
}

struct keeper_suspect *crew_suspect(struct crew *c, const struct keeper_request *r)
{
    return c->has_suspects ? suspects_find(&c->state->keeper, r) : NULL;
}

bool crew_refuses(struct crew *c, const struct keeper_request *r)
{
    const struct keeper_suspect *s = crew_suspect(c, r);

    if (!s || !suspect_is_guilty(s))
        return false;
    log_warn(c->log, "refused a request that ended %u lives: %s of inode %llu", KEEPER_DEATHS,
             suspect_op_name(r->opcode), (unsigned long long)r->nodeid);
    return true;
}

/* What the kernel sends again it sends first: the first new request says that all is answered. */
static bool is_new(const struct keeper_request *r)
{
    return !wire_wants_no_reply(r->opcode) && !(r->unique & WIRE_RESENT);
}

/* --- the threads --- */

/* False: the mount is gone. A worker is cancelled nowhere but in here. */
static bool take_request(struct crew *c, uint32_t desk)
{
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    ssize_t n = crew_receive(c, desk);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    if (n >= (ssize_t)sizeof(struct keeper_request))
        return true;
    if (n >= 0)
        log_error(c->log, "the kernel handed out %zd bytes, which is no request", n);
    else if (n != -ENODEV)
        log_error(c->log, "read /dev/fuse: %s", strerror((int)-n));
    else /* unmounted; another one may be at work for a while */
        crew_end_wait(c);
    return false;
}

static void count_running(struct crew *c, int change)
{
    ACQUIRE(&c->lock);

    c->running += (unsigned)change;
    cond_broadcast(&c->changed);
}

static void worker_ended(void *arg)
{
    struct crew *c = arg;

    let_all_serve(c); /* it may be the one that the others wait for */
    count_running(c, -1);
}

static void *worker_run(void *arg)
{
    struct crew_worker *w = arg;
    struct crew *c = w->crew;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cleanup_push(worker_ended, c);
    uint32_t desk = c->ops->desk(c->arg, w->number);
    if (w->number > 0)
        wait_while_careful(c);
    while (!atomic_load(&c->stopping) && take_request(c, desk)) {
        if (is_new(keeper_desk(c->state, desk)))
            crew_end_careful(c);
        desk = c->ops->serve(c->arg, desk);
    }
    pthread_cleanup_pop(1);
    return NULL;
}

int crew_start(struct crew *c, unsigned n, struct err *err)
{
    char name[16];

    while (c->n < n) {
        struct crew_worker *w = &c->workers[c->n];

        *w = (struct crew_worker){.crew = c, .number = c->n};
        snprintf(name, sizeof(name), "fuse-%u", c->n);
        count_running(c, 1);
        int e = thread_start(&w->thread, name, worker_run, w);
        if (e) {
            count_running(c, -1);
            return err_thread(err, e, "start a thread");
        }
        c->n++;
    }
    return 0;
}

void crew_wait(struct crew *c)
{
    ACQUIRE(&c->lock);

    while (c->running > 0 && !c->wait_over)
        cond_wait(&c->changed, &c->lock);
}

void crew_end_wait(struct crew *c)
{
    ACQUIRE(&c->lock);

    c->wait_over = true;
    cond_broadcast(&c->changed);
}

void crew_stop(struct crew *c)
{
    atomic_store(&c->stopping, true);
    let_all_serve(c);
    for (unsigned i = 0; i < c->n; i++)
        pthread_cancel(c->workers[i].thread);
}

void crew_join(struct crew *c)
{
    for (unsigned i = 0; i < c->n; i++)
        pthread_join(c->workers[i].thread, NULL);
    c->n = 0;
}
