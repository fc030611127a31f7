/*
 * One request: its bytes are checked, its handler runs, its answer is written. The table says how
 * the bytes of each operation are laid out.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "clock.h"
#include "mem.h"
#include "outfuse-internal.h"
#include "suspects.h"

#define LOG_MODULE "fuse"
#include "log.h"

static int out_interrupt(struct call *c, struct err *err)
{
    const struct wire_interrupt_in *in = c->in;

    (void)err;
    lanes_interrupt(c->f, in->unique & ~WIRE_RESENT);
    return NO_REPLY;
}

static int out_nothing(struct call *c, struct err *err)
{
    (void)c;
    (void)err;
    return 0;
}

/* `fixed`: bytes of the operation's own struct; `names` that follow it, each ended by a NUL. What
 * is not in the table is answered ENOSYS: the kernel then does without, and asks no more (extended
 * attributes, remote locks, lseek, copy_file_range, statx, poll, access). */
static const struct op {
    op_fn *fn;
    uint16_t fixed;
    uint8_t names;
} ops[] = {
    [WIRE_LOOKUP] = {out_lookup, 0, 1},
    [WIRE_FORGET] = {out_forget, sizeof(struct wire_forget_in), 0},
    [WIRE_BATCH_FORGET] = {out_batch_forget, sizeof(struct wire_batch_forget_in), 0},
    [WIRE_GETATTR] = {out_getattr, sizeof(struct wire_getattr_in), 0},
    [WIRE_SETATTR] = {out_setattr, sizeof(struct wire_setattr_in), 0},
    [WIRE_READLINK] = {out_readlink, 0, 0},
    [WIRE_SYMLINK] = {out_symlink, 0, 2},
    [WIRE_MKNOD] = {out_mknod, sizeof(struct wire_mknod_in), 1},
    [WIRE_MKDIR] = {out_mkdir, sizeof(struct wire_mkdir_in), 1},
    [WIRE_UNLINK] = {out_unlink, 0, 1},
    [WIRE_RMDIR] = {out_rmdir, 0, 1},
    [WIRE_RENAME] = {out_rename, sizeof(struct wire_rename_in), 2},
    [WIRE_RENAME2] = {out_rename2, sizeof(struct wire_rename2_in), 2},
    [WIRE_LINK] = {out_link, sizeof(struct wire_link_in), 1},
    [WIRE_OPEN] = {out_open, sizeof(struct wire_open_in), 0},
    [WIRE_READ] = {out_read, sizeof(struct wire_read_in), 0},
    [WIRE_WRITE] = {out_write, sizeof(struct wire_write_in), 0},
    [WIRE_STATFS] = {out_statfs, 0, 0},
    [WIRE_RELEASE] = {out_release, sizeof(struct wire_release_in), 0},
    [WIRE_FSYNC] = {out_fsync, sizeof(struct wire_fsync_in), 0},
    [WIRE_FLUSH] = {out_flush, sizeof(struct wire_flush_in), 0},
    [WIRE_INIT] = {out_init, offsetof(struct wire_init_in, flags2), 0},
    [WIRE_OPENDIR] = {out_opendir, sizeof(struct wire_open_in), 0},
    [WIRE_READDIR] = {out_readdir, sizeof(struct wire_read_in), 0},
    [WIRE_READDIRPLUS] = {out_readdirplus, sizeof(struct wire_read_in), 0},
    [WIRE_RELEASEDIR] = {out_releasedir, sizeof(struct wire_release_in), 0},
    [WIRE_FSYNCDIR] = {out_fsyncdir, sizeof(struct wire_fsync_in), 0},
    [WIRE_CREATE] = {out_create, sizeof(struct wire_create_in), 1},
    [WIRE_INTERRUPT] = {out_interrupt, sizeof(struct wire_interrupt_in), 0},
    [WIRE_DESTROY] = {out_nothing, 0, 0},
    [WIRE_IOCTL] = {out_ioctl, sizeof(struct wire_ioctl_in), 0},
    [WIRE_FALLOCATE] = {out_fallocate, sizeof(struct wire_fallocate_in), 0},
};
#define N_OPS (sizeof(ops) / sizeof(ops[0]))

int outfuse_reply(struct outfuse *f, uint64_t unique, int error, const struct call *c)
{
    struct wire_out_header h = {.error = error, .unique = unique, .len = sizeof(h)};
    struct iovec iov[3] = {{.iov_base = &h, .iov_len = sizeof(h)}};
    int n = 1;

    if (c && !error) {
        iov[n++] = (struct iovec){.iov_base = (void *)&c->out, .iov_len = c->out_len};
        iov[n++] = (struct iovec){.iov_base = c->more, .iov_len = c->more_len};
        h.len += (uint32_t)(c->out_len + c->more_len);
    }
    if (writev(f->dev, iov, n) < 0)
        return -errno; /* the kernel does not await it (any more) */
    atomic_fetch_add_explicit(&f->hands.state->answered, 1, memory_order_relaxed);
    return 0;
}

/* The next name of the request; NULL: there is none, or it is not one. */
static const char *next_name(const char **at, const char *end)
{
    const char *name = *at;
    const char *nul = memchr(name, '\0', (size_t)(end - name));

    if (!nul)
        return NULL;
    *at = nul + 1;
    return name;
}

static bool is_name(const char *name)
{
    return *name && !strchr(name, '/');
}

/* Divides the request into its parts. -EINVAL: they are not there. */
static int parse(struct call *c, const struct op *op, size_t len)
{
    const char *at = (const char *)(c->h + 1);
    const char *end = (const char *)c->h + len;

    if ((size_t)(end - at) < op->fixed)
        return -EINVAL;
    c->in = at;
    at += op->fixed;
    c->data = at;
    c->data_len = (size_t)(end - at);
    if (op->names > 0 && !((c->name = next_name(&at, end)) && is_name(c->name)))
        return -EINVAL;
    if (op->names > 1 && !(c->new_name = next_name(&at, end)))
        return -EINVAL;
    return 0;
}

/* What POSIX answers to a call that asks for too much, with all in order here. */
static bool is_callers_own(int sys)
{
    static const int all[] = {EAGAIN, EINTR,   EEXIST, ENOTEMPTY, EISDIR,     EBUSY,
                              EXDEV,  ENOTTY,  E2BIG,  ERANGE,    EOPNOTSUPP, EFBIG,
                              ELOOP,  ENODATA, EILSEQ, EMLINK,    ENOSYS};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (sys == all[i])
            return true;
    return false;
}

/* Errors that mean that the store or this program is not well. */
static bool is_trouble(const struct err *err)
{
    if (is_callers_own(err->sys))
        return false;
    return err->class == ERR_TRANSIENT || err->class == ERR_CORRUPT || err->class == ERR_FAILED ||
           err->class == ERR_BUG || (err->class == ERR_DENIED && !err->sys) ||
           (err->class == ERR_LIMIT && !err->sys);
}

/* Tells the log, at most once a second: a broken store must not fill a disk with lines. */
static void complain(struct outfuse *f, uint64_t ino, const struct err *err)
{
    uint64_t now = clock_mono_ns();
    uint64_t last = atomic_load_explicit(&f->last_complaint_ns, memory_order_relaxed);

    counter_add(&f->errors, 1);
    if (now - last < NS_PER_S && last)
        return;
    if (atomic_compare_exchange_strong(&f->last_complaint_ns, &last, now))
        log_warn(f->log, "a request for inode %llu failed: %s", (unsigned long long)ino, err->msg);
}

/* A handler that failed has left nothing but what its answer would have been. */
static int run_patiently(struct call *c, const struct op *op, struct err *err)
{
    int rc;

    while ((rc = op->fn(c, err)) < 0 && stage_ask_again(c->f->stage, &c->who, err)) {
        free(c->more);
        c->more = NULL;
        c->more_len = c->out_len = 0;
        *err = (struct err){0};
    }
    return rc;
}

/* 0, or what a read is answered that was answered so before (again.h). */
static int error_again(const struct call *c)
{
    const struct wire_read_in *in = c->in;

    if (c->h->opcode != WIRE_READ)
        return 0;
    return again_error(&c->f->again, c->h->pid, c->h->nodeid, in->offset, clock_mono_ns());
}

static void note_failed_read(const struct call *c, int error)
{
    const struct wire_read_in *in = c->in;

    if (c->h->opcode != WIRE_READ)
        return;
    const struct failed_read read = {
        .ino = c->h->nodeid, .off = in->offset, .size = in->size, .pid = c->h->pid, .error = error};
    again_note(&c->f->again, &read, c->who.since_ns, clock_mono_ns());
}

/* Runs the handler. NO_REPLY, STAGE_WAIT, 0, or -1 with *ret_error set. */
static int run(struct call *c, size_t len, int *ret_error)
{
    const struct wire_in_header *h = c->h;
    const struct op *op = h->opcode < N_OPS ? &ops[h->opcode] : NULL;
    struct err err = {0};
    int rc;

    *ret_error = -ENOSYS;
    if (!op || !op->fn)
        return -1;
    *ret_error = -EIO;
    if ((c->f->conf.refuse && h->opcode != WIRE_INIT) || crew_refuses(&c->f->crew, (const void *)h))
        return wire_wants_no_reply(h->opcode) ? NO_REPLY : -1;
    *ret_error = parse(c, op, len);
    if (*ret_error)
        return wire_wants_no_reply(h->opcode) ? NO_REPLY : -1;
    if (c->f->conf.before)
        c->f->conf.before(c->f->conf.before_arg, suspect_op_name(h->opcode), h->nodeid);
    *ret_error = -error_again(c);
    if (*ret_error)
        return -1;
    rc = run_patiently(c, op, &err);
    if (rc < 0) {
        *ret_error = -err_errno(&err);
        note_failed_read(c, -*ret_error);
        const struct job *job = c->who.arg;
        if (*ret_error == -EINTR && job && !job->left && job_given_up(c->who.arg))
            counter_add(&c->f->given_up, 1);
        if (is_trouble(&err))
            complain(c->f, h->nodeid, &err);
    }
    return rc;
}

static bool changes_content(uint32_t opcode)
{
    return opcode == WIRE_WRITE || opcode == WIRE_FALLOCATE;
}

/* 0 or -EINVAL. */
static int answer_done(struct call *c)
{
    const struct wire_write_in *in = (const void *)(c->h + 1);

    if (c->h->opcode == WIRE_FALLOCATE)
        return 0;
    if (c->h->len < sizeof(*c->h) + sizeof(*in))
        return -EINVAL;
    c->out.write = (struct wire_write_out){.size = in->size};
    c->out_len = sizeof(c->out.write);
    return 0;
}

/* The kernel had its answer before (lanes_interrupt()): what it would have remembered it does not.
 */
static void answered_in_vain(const struct call *c)
{
    if (c->h->opcode == WIRE_LOOKUP && c->out.entry.nodeid && !ino_is_ours(c->out.entry.nodeid))
        stage_forget(c->f->stage, c->out.entry.nodeid, 1);
    else if (c->h->opcode == WIRE_READDIRPLUS)
        forget_listed(c->f, c->more, c->more_len);
}

bool outfuse_serve(struct outfuse *f, struct keeper_request *at, struct job *job)
{
    struct call c = {.f = f, .h = (const void *)at};
    bool wait = job != NULL;
    int error, rc;

    _Static_assert(sizeof(struct keeper_request) == sizeof(struct wire_in_header), "one header");
    c.who = (struct stage_call){.unique = c.h->unique & ~WIRE_RESENT,
                                .uid = c.h->uid,
                                .gid = c.h->gid,
                                .wait = wait,
                                .given_up = wait ? job_given_up : NULL,
                                .leave = wait ? job_leave : NULL,
                                .arg = job,
                                .since_ns = job ? job->since_ns : clock_mono_ns()};
    if (changes_content(at->opcode) && hands_was_done(&f->hands, at))
        rc = error = answer_done(&c);
    else
        rc = run(&c, at->len, &error);
    if (rc == STAGE_WAIT && !wait) {
        free(c.more);
        counter_add(&f->waited, 1);
        return false;
    }
    counter_add(&f->requests, 1);
    if (c.h->unique & WIRE_RESENT)
        counter_add(&f->resent, 1);
    if (rc == STAGE_WAIT) { /* it may not say so: the contract of wait = true */
        struct err bug = {0};
        rc = err_set(&bug, ERR_BUG, "operation %u would wait for ever", at->opcode);
        error = -EIO;
        complain(f, at->nodeid, &bug);
    }
    if (rc < 0)
        log_debug(f->log, "operation %u of inode %llu: %s", at->opcode,
                  (unsigned long long)at->nodeid, strerror(-error));
    if (rc < 0 && changes_content(at->opcode))
        seen_refused(f, at->nodeid);
    if (rc == 0 && changes_content(at->opcode))
        at->padding = HAND_DONE;
    if (job && job->left) /* answered */
        rc = NO_REPLY;
    if (rc != NO_REPLY && outfuse_reply(f, c.h->unique, rc < 0 ? error : 0, &c) == -ENOENT &&
        rc == 0 && job && atomic_load(&job->interrupted))
        answered_in_vain(&c);
    suspects_absolve(crew_suspect(&f->crew, at));
    free(c.more);
    return true;
}
