/* Files: opened, read, written, stored. A handle's number is the stage's, good in the next life. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "outfuse-internal.h"

/* --- may the kernel keep its pages? ---------------------------------------------------------- */

/* Notes what is there now. True: it is what was there the last time. Writes through this mount keep
 * the kernel's pages true by themselves, unless they are refused; what others change is told to
 * it (news.c), and forgotten here first. */
static bool seen_again(struct outfuse *f, uint64_t ino, bool opens)
{
    const struct stage_call look = {.wait = false};
    struct stage_attr a;
    bool same;

    if (stage_getattr(f->stage, &look, ino, &a, NULL) != 0)
        return false;
    struct seen now = {.ino = ino,
                       .size = (uint64_t)a.st.st_size,
                       .mtime_ns = clock_ns_of(&a.st.st_mtim),
                       .ctime_ns = clock_ns_of(&a.st.st_ctim)};
    ACQUIRE(&f->seen_lock);
    struct seen *s = &f->seen[ino % SEEN_PLACES];
    if (!opens && (s->ino != ino || s->refused)) /* no open has dropped its pages since */
        return false;
    same = s->ino == now.ino && !s->refused && s->size == now.size && s->mtime_ns == now.mtime_ns &&
           s->ctime_ns == now.ctime_ns;
    *s = now;
    return same;
}

void seen_refused(struct outfuse *f, uint64_t ino)
{
    ACQUIRE(&f->seen_lock);
    f->seen[ino % SEEN_PLACES] = (struct seen){.ino = ino, .refused = true};
}

/*
 * A file that can't be changed through it needs no FLUSH at its close. One that can't be read
 * through goes past the kernel's pages, one copy and one new page less for each that is written:
 * who reads it later gets what is staged.
 */
static struct wire_open_out opened(struct call *c, uint64_t ino, uint64_t fh, uint32_t flags)
{
    struct wire_open_out o = {.fh = fh};

    if (!open_changes((int)flags))
        o.open_flags |= WIRE_FOPEN_NOFLUSH;
    if (seen_again(c->f, ino, /* opens= */ true))
        o.open_flags |= WIRE_FOPEN_KEEP_CACHE;
    if (c->f->past_pages && (flags & O_ACCMODE) == O_WRONLY)
        o.open_flags |= WIRE_FOPEN_DIRECT_IO;
    return o;
}

/* --- handles -------------------------------------------------------------------------------- */

int out_create(struct call *c, struct err *err)
{
    const struct wire_create_in *in = c->in;
    struct stage_attr a;
    uint64_t fh;
    int rc;

    rc = may_make(c, NULL, err);
    if (rc)
        return rc;
    rc = stage_create(c->f->stage, &c->who, c->h->nodeid, c->name, in->mode & 07777, (int)in->flags,
                      &a, &fh, err);
    if (rc)
        return rc;
    entry_of_stage(&a, &c->out.create.entry);
    c->out.create.open = opened(c, a.st.st_ino, fh, in->flags);
    c->out_len = sizeof(c->out.create);
    return 0;
}

int out_open(struct call *c, struct err *err)
{
    const struct wire_open_in *in = c->in;
    uint64_t fh = 0;
    int rc;

    if (ino_is_ours(c->h->nodeid)) {
        if (open_changes((int)in->flags))
            return err_sys(err, EPERM, ".sampan is the mount's own");
        c->out.open =
            (struct wire_open_out){.open_flags = WIRE_FOPEN_KEEP_CACHE | WIRE_FOPEN_NOFLUSH};
        c->out_len = sizeof(c->out.open);
        return 0;
    }
    rc = stage_open_file(c->f->stage, &c->who, c->h->nodeid, (int)in->flags, &fh, err);
    if (rc)
        return rc;
    c->out.open = opened(c, c->h->nodeid, fh, in->flags);
    c->out_len = sizeof(c->out.open);
    return 0;
}

int out_flush(struct call *c, struct err *err)
{
    const struct wire_flush_in *in = c->in;

    if (ino_is_ours(c->h->nodeid))
        return 0;
    return stage_flush(c->f->stage, &c->who, in->fh, err);
}

int out_release(struct call *c, struct err *err)
{
    const struct wire_release_in *in = c->in;
    int rc;

    if (ino_is_ours(c->h->nodeid))
        return 0;
    rc = stage_release(c->f->stage, &c->who, in->fh, err);
    if (!rc && open_changes((int)in->flags))
        seen_again(c->f, c->h->nodeid, /* opens= */ false);
    return rc;
}

int out_fsync(struct call *c, struct err *err)
{
    const struct wire_fsync_in *in = c->in;

    if (ino_is_ours(c->h->nodeid))
        return 0;
    return stage_fsync(c->f->stage, &c->who, in->fh, in->flags & WIRE_FSYNC_DATA_ONLY, err);
}

/* --- content -------------------------------------------------------------------------------- */

static int read_snapshot(struct call *c, const struct wire_read_in *in, void *buf, size_t size,
                         struct err *err)
{
    ssize_t n = snapshots_read(&c->f->snapshots, c->h->nodeid, in->offset, buf, size, NULL);

    if (n < 0)
        return err_sys(err, ESTALE, "%s", STATUS_NAME);
    c->more_len = (size_t)n;
    return 0;
}

int out_read(struct call *c, struct err *err)
{
    const struct wire_read_in *in = c->in;
    size_t size = in->size < MAX_WRITE ? in->size : MAX_WRITE;
    bool is_ours = ino_is_ours(c->h->nodeid);
    int rc;

    if (c->who.wait && !is_ours) {
        rc = stage_await(c->f->stage, &c->who, in->fh, in->offset, size, &c->who.from_store, err);
        if (rc)
            return rc;
    }
    c->more = xmalloc(size ? size : 1);
    if (is_ours)
        return read_snapshot(c, in, c->more, size, err);
    return stage_read(c->f->stage, &c->who, in->fh, in->offset, c->more, size, &c->more_len, err);
}

/* Whoever writes a set-user-id file takes that away. Past its pages the kernel leaves it to us. */
static int drop_set_ids(struct call *c, struct err *err)
{
    const struct stage_call look = {.wait = false};
    struct stage_attr a;

    if (stage_getattr(c->f->stage, &look, c->h->nodeid, &a, NULL) ||
        !(a.st.st_mode & (S_ISUID | S_ISGID)))
        return 0;
    a.st.st_mode &= a.st.st_mode & S_IXGRP ? ~(mode_t)(S_ISUID | S_ISGID) : ~(mode_t)S_ISUID;
    return stage_setattr(c->f->stage, &c->who, c->h->nodeid, &a.st, STAGE_SET_MODE, &a, err);
}

int out_write(struct call *c, struct err *err)
{
    const struct wire_write_in *in = c->in;
    int rc;

    if (in->size > c->data_len || in->offset > INT64_MAX - (uint64_t)in->size)
        return err_sys(err, EINVAL, "a write");
    if (ino_is_ours(c->h->nodeid))
        return err_sys(err, EPERM, ".sampan is the mount's own");
    rc = in->write_flags & WIRE_WRITE_KILL_SUIDGID ? drop_set_ids(c, err) : 0;
    if (rc)
        return rc;
    rc = stage_write(c->f->stage, &c->who, in->fh, in->offset, c->data, in->size, err);
    if (rc)
        return rc;
    c->out.write = (struct wire_write_out){.size = in->size};
    c->out_len = sizeof(c->out.write);
    return 0;
}

int out_fallocate(struct call *c, struct err *err)
{
    const struct wire_fallocate_in *in = c->in;

    if (ino_is_ours(c->h->nodeid))
        return err_sys(err, EPERM, ".sampan is the mount's own");
    return stage_fallocate(c->f->stage, &c->who, in->fh, (int)in->mode, in->offset, in->length,
                           err);
}
