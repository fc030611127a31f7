/*
 * Names and attributes. Modes, the sticky bit and who may change what are the kernel's business
 * (default_permissions); here the group of a set-gid folder is handed down, as file systems do.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "outfuse-internal.h"

/* --- attributes ----------------------------------------------------------------------------- */

static void attr_of_stat(const struct stat *st, struct wire_attr *ret)
{
    *ret = (struct wire_attr){
        .ino = st->st_ino,
        .size = (uint64_t)st->st_size,
        .blocks = (uint64_t)st->st_blocks,
        .atime_s = (uint64_t)st->st_atim.tv_sec,
        .mtime_s = (uint64_t)st->st_mtim.tv_sec,
        .ctime_s = (uint64_t)st->st_ctim.tv_sec,
        .atime_ns = (uint32_t)st->st_atim.tv_nsec,
        .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
        .ctime_ns = (uint32_t)st->st_ctim.tv_nsec,
        .mode = st->st_mode,
        .nlink = (uint32_t)st->st_nlink,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .blksize = (uint32_t)st->st_blksize,
    };
}

static void entry_of_stat(const struct stat *st, uint64_t name_ns, uint64_t attr_ns,
                          struct wire_entry_out *ret)
{
    *ret = (struct wire_entry_out){
        .nodeid = st->st_ino,
        .entry_valid = name_ns / NS_PER_S,
        .entry_valid_ns = (uint32_t)(name_ns % NS_PER_S),
        .attr_valid = attr_ns / NS_PER_S,
        .attr_valid_ns = (uint32_t)(attr_ns % NS_PER_S),
    };
    attr_of_stat(st, &ret->attr);
}

void entry_of_stage(const struct stage_attr *a, struct wire_entry_out *ret)
{
    entry_of_stat(&a->st, a->valid_ns, a->valid_ns, ret);
}

static int answer_entry(struct call *c, int rc, const struct stage_attr *a)
{
    if (rc)
        return rc;
    entry_of_stage(a, &c->out.entry);
    c->out_len = sizeof(c->out.entry);
    return 0;
}

static void answer_attr(struct call *c, const struct stat *st, uint64_t valid_ns)
{
    c->out.attr = (struct wire_attr_out){.attr_valid = valid_ns / NS_PER_S,
                                         .attr_valid_ns = (uint32_t)(valid_ns % NS_PER_S)};
    attr_of_stat(st, &c->out.attr.attr);
    c->out_len = sizeof(c->out.attr);
}

/* --- .sampan -------------------------------------------------------------------------------- */

static bool is_control_name(uint64_t parent, const char *name)
{
    return parent == STAGE_ROOT && !strcmp(name, CONTROL_DIR_NAME);
}

/* Nothing can be made, removed or moved there. */
static int refuse_control(uint64_t parent, const char *name, struct err *err)
{
    if (!ino_is_ours(parent) && !is_control_name(parent, name))
        return 0;
    return err_sys(err, EPERM, ".sampan is the mount's own");
}

static void own_stat(const struct outfuse *f, uint64_t ino, mode_t mode, uint64_t size,
                     int64_t made_ns, struct stat *ret)
{
    *ret = (struct stat){.st_ino = ino,
                         .st_mode = mode,
                         .st_nlink = 1,
                         .st_uid = f->conf.uid,
                         .st_gid = f->conf.gid,
                         .st_size = (off_t)size,
                         .st_blocks = (blkcnt_t)((size + 511) / 512),
                         .st_blksize = 4096};
    ret->st_mtim = clock_timespec(made_ns);
    ret->st_atim = ret->st_ctim = ret->st_mtim;
}

static void control_dir_stat(const struct outfuse *f, struct stat *ret)
{
    own_stat(f, INO_CONTROL_DIR, S_IFDIR | 0555, 4096, 0, ret);
}

static int snapshot_stat(struct outfuse *f, uint64_t ino, struct stat *ret, struct err *err)
{
    struct snapshot about;

    if (snapshots_read(&f->snapshots, ino, 0, NULL, 0, &about) < 0)
        return err_sys(err, ESTALE, "%s", STATUS_NAME);
    own_stat(f, ino, S_IFREG | 0444, about.len, about.made_ns, ret);
    return 0;
}

/* Whoever looks the status up gets a text of its own, under a number of its own. */
static int lookup_status(struct call *c, struct err *err)
{
    struct outfuse *f = c->f;
    int pid = (int)c->h->pid;
    uint64_t ino = snapshots_again(&f->snapshots, pid);
    struct bytes text = {0};
    struct stat st;

    if (!ino) {
        f->conf.status(f->conf.status_arg, &text);
        size_t len = text.len;
        ino = snapshots_add(&f->snapshots, bytes_take(&text), len, pid);
    }
    if (snapshot_stat(f, ino, &st, err) < 0)
        return -1;
    entry_of_stat(&st, 0, DAY_NS, &c->out.entry);
    c->out_len = sizeof(c->out.entry);
    return 0;
}

static int lookup_own(struct call *c, struct err *err)
{
    struct stat st;

    if (c->h->nodeid == STAGE_ROOT) {
        control_dir_stat(c->f, &st);
        entry_of_stat(&st, DAY_NS, DAY_NS, &c->out.entry);
        c->out_len = sizeof(c->out.entry);
        return 0;
    }
    if (c->h->nodeid == INO_CONTROL_DIR && !strcmp(c->name, STATUS_NAME) && c->f->conf.status)
        return lookup_status(c, err);
    return err_sys(err, ENOENT, "%s", c->name);
}

/* --- looking -------------------------------------------------------------------------------- */

static int check_name(const char *name, struct err *err)
{
    if (strlen(name) > NAME_MAX) /* the kernel lets up to 1024 bytes through */
        return err_sys(err, ENAMETOOLONG, "%.40s...", name);
    return 0;
}

int out_lookup(struct call *c, struct err *err)
{
    struct stage_attr a;

    if (ino_is_ours(c->h->nodeid) || is_control_name(c->h->nodeid, c->name))
        return lookup_own(c, err);
    if (check_name(c->name, err) < 0)
        return -1;
    return answer_entry(c, stage_lookup(c->f->stage, &c->who, c->h->nodeid, c->name, &a, err), &a);
}

static void forget(struct outfuse *f, uint64_t ino, uint64_t lookups)
{
    if (ino_is_snapshot(ino))
        snapshots_forget(&f->snapshots, ino, lookups);
    else if (!ino_is_ours(ino))
        stage_forget(f->stage, ino, lookups);
}

int out_forget(struct call *c, struct err *err)
{
    const struct wire_forget_in *in = c->in;

    (void)err;
    forget(c->f, c->h->nodeid, in->lookups);
    return NO_REPLY;
}

int out_batch_forget(struct call *c, struct err *err)
{
    const struct wire_batch_forget_in *in = c->in;
    const struct wire_forget_one *all = (const void *)c->data;

    (void)err;
    for (size_t i = 0; i < in->count && (i + 1) * sizeof(*all) <= c->data_len; i++)
        forget(c->f, all[i].nodeid, all[i].lookups);
    return NO_REPLY;
}

int out_getattr(struct call *c, struct err *err)
{
    uint64_t ino = c->h->nodeid;
    struct stage_attr a;
    int rc;

    if (ino_is_ours(ino)) {
        if (ino_is_snapshot(ino)) {
            if (snapshot_stat(c->f, ino, &a.st, err) < 0)
                return -1;
        } else {
            control_dir_stat(c->f, &a.st);
        }
        answer_attr(c, &a.st, DAY_NS);
        return 0;
    }
    rc = stage_getattr(c->f->stage, &c->who, ino, &a, err);
    if (!rc)
        answer_attr(c, &a.st, a.valid_ns);
    return rc;
}

int out_setattr(struct call *c, struct err *err)
{
    static const struct {
        uint32_t valid;
        unsigned what;
    } bits[] = {{WIRE_SET_MODE, STAGE_SET_MODE},   {WIRE_SET_UID, STAGE_SET_UID},
                {WIRE_SET_GID, STAGE_SET_GID},     {WIRE_SET_SIZE, STAGE_SET_SIZE},
                {WIRE_SET_MTIME, STAGE_SET_MTIME}, {WIRE_SET_ATIME, STAGE_SET_ATIME}};
    const struct wire_setattr_in *in = c->in;
    struct stat st = {.st_mode = in->mode,
                      .st_uid = in->uid,
                      .st_gid = in->gid,
                      .st_size = (off_t)in->size,
                      .st_mtim = {.tv_sec = (time_t)in->mtime_s, .tv_nsec = in->mtime_ns},
                      .st_atim = {.tv_sec = (time_t)in->atime_s, .tv_nsec = in->atime_ns}};
    struct stage_attr a;
    unsigned what = 0;
    int rc;

    if (ino_is_ours(c->h->nodeid))
        return err_sys(err, EPERM, ".sampan is the mount's own");
    if ((in->valid & WIRE_SET_SIZE) && in->size > INT64_MAX)
        return err_sys(err, EFBIG, "size");
    for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
        if (in->valid & bits[i].valid)
            what |= bits[i].what;
    if (in->valid & WIRE_SET_MTIME_NOW)
        st.st_mtim = clock_timespec(clock_wall_ns());
    if (in->valid & WIRE_SET_ATIME_NOW)
        st.st_atim = clock_timespec(clock_wall_ns());
    rc = stage_setattr(c->f->stage, &c->who, c->h->nodeid, &st, what, &a, err);
    if (!rc)
        answer_attr(c, &a.st, a.valid_ns);
    return rc;
}

int out_readlink(struct call *c, struct err *err)
{
    struct bytes target = {0};
    int rc;

    if (ino_is_ours(c->h->nodeid))
        return err_sys(err, EINVAL, "not a link");
    rc = stage_readlink(c->f->stage, &c->who, c->h->nodeid, &target, err);
    if (rc) {
        bytes_release(&target);
        return rc;
    }
    c->more_len = target.len < PATH_MAX ? target.len : PATH_MAX - 1;
    c->more = bytes_take(&target);
    return 0;
}

int out_statfs(struct call *c, struct err *err)
{
    struct statvfs v;

    if (stage_statfs(c->f->stage, &v, err) < 0)
        return -1;
    c->out.statfs = (struct wire_statfs_out){.blocks = v.f_blocks,
                                             .bfree = v.f_bfree,
                                             .bavail = v.f_bavail,
                                             .files = v.f_files,
                                             .ffree = v.f_ffree,
                                             .bsize = (uint32_t)v.f_bsize,
                                             .namelen = NAME_MAX,
                                             .frsize = (uint32_t)v.f_frsize};
    c->out_len = sizeof(c->out.statfs);
    return 0;
}

/* --- making and removing -------------------------------------------------------------------- */

/* May that name be made there? A set-gid folder hands its group down, and to folders (`mode` not
 * NULL) the bit too. */
int may_make(struct call *c, mode_t *mode, struct err *err)
{
    struct stage_attr parent;
    int rc;

    if (refuse_control(c->h->nodeid, c->name, err) < 0 || check_name(c->name, err) < 0)
        return -1;
    rc = stage_getattr(c->f->stage, &c->who, c->h->nodeid, &parent, err);
    if (rc || !(parent.st.st_mode & S_ISGID))
        return rc;
    c->who.gid = parent.st.st_gid;
    if (mode)
        *mode |= S_ISGID;
    return 0;
}

/* Made, closed and stored: on a lane, because closing may wait. */
int out_mknod(struct call *c, struct err *err)
{
    const struct wire_mknod_in *in = c->in;
    /* Numbers of their own: the answer in the journal is the making's. */
    const struct stage_call close = {.uid = c->who.uid, .gid = c->who.gid, .wait = true};
    struct stage_attr a;
    uint64_t fh;
    int rc;

    rc = may_make(c, NULL, err);
    if (rc)
        return rc;
    if (!S_ISREG(in->mode))
        return err_sys(err, EPERM, "%s: an object can't be a device, a pipe or a socket", c->name);
    if (!c->who.wait)
        return STAGE_WAIT;
    rc = stage_create(c->f->stage, &c->who, c->h->nodeid, c->name, in->mode & 07777,
                      O_CREAT | O_EXCL | O_RDONLY, &a, &fh, err);
    if (rc)
        return rc;
    /* A repeat finds it closed already (EBADF). */
    if (stage_flush(c->f->stage, &close, fh, err) < 0 && (!err || err_errno(err) != EBADF))
        rc = -1;
    stage_release(c->f->stage, &close, fh, NULL);
    if (rc) /* the kernel is told of no node, and so will never forget it */
        stage_forget(c->f->stage, a.st.st_ino, 1);
    return answer_entry(c, rc, &a);
}

int out_mkdir(struct call *c, struct err *err)
{
    const struct wire_mkdir_in *in = c->in;
    mode_t mode = in->mode & 07777;
    struct stage_attr a;
    int rc = may_make(c, &mode, err);

    if (!rc)
        rc = stage_mkdir(c->f->stage, &c->who, c->h->nodeid, c->name, mode, &a, err);
    return answer_entry(c, rc, &a);
}

int out_symlink(struct call *c, struct err *err)
{
    struct stage_attr a;
    int rc = may_make(c, NULL, err);

    if (!rc)
        rc = stage_symlink(c->f->stage, &c->who, c->h->nodeid, c->name, c->new_name, &a, err);
    return answer_entry(c, rc, &a);
}

int out_link(struct call *c, struct err *err)
{
    (void)c;
    return err_sys(err, EPERM, "an object has one key: no hard links");
}

int out_unlink(struct call *c, struct err *err)
{
    if (refuse_control(c->h->nodeid, c->name, err) < 0)
        return -1;
    return stage_unlink(c->f->stage, &c->who, c->h->nodeid, c->name, err);
}

int out_rmdir(struct call *c, struct err *err)
{
    if (refuse_control(c->h->nodeid, c->name, err) < 0)
        return -1;
    return stage_rmdir(c->f->stage, &c->who, c->h->nodeid, c->name, err);
}

static int rename_to(struct call *c, uint64_t new_parent, unsigned flags, struct err *err)
{
    if (!*c->new_name || strchr(c->new_name, '/'))
        return err_sys(err, EINVAL, "a name");
    if (refuse_control(c->h->nodeid, c->name, err) < 0 ||
        refuse_control(new_parent, c->new_name, err) < 0 || check_name(c->new_name, err) < 0)
        return -1;
    return stage_rename(c->f->stage, &c->who, c->h->nodeid, c->name, new_parent, c->new_name, flags,
                        err);
}

int out_rename(struct call *c, struct err *err)
{
    const struct wire_rename_in *in = c->in;

    return rename_to(c, in->new_parent, 0, err);
}

int out_rename2(struct call *c, struct err *err)
{
    const struct wire_rename2_in *in = c->in;

    return rename_to(c, in->new_parent, in->flags, err);
}
