/*
 * Names and attributes: each handler finds the inode, asks the catalog once, replies once.
 *
 * Entries and attributes live in the kernel for a day, because bytes and attributes of an id never
 * change; what a new version changes is invalidated by name. A reply that was made from the old
 * version cannot slip in behind that: the kernel holds the folder's lock from sending a LOOKUP or
 * READDIRPLUS until it has taken the answer in, and the invalidation waits for that lock.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cleanup.h"
#include "frontend-internal.h"
#include "mem.h"
#include "object.h"
#include "sampan-ioctl.h"

#define XATTR_PREFIX "user.sampan."

static struct frontend *frontend_of(fuse_req_t req)
{
    return fuse_req_userdata(req);
}

static void cleanup_catalog_fn(struct catalog **c)
{
    catalog_unref(*c);
}
#define cleanup_catalog CLEANUP(cleanup_catalog_fn)

int entry_of(struct frontend *f, uint64_t id, struct entry *ret, struct err *err)
{
    cleanup_catalog struct catalog *c = volume_catalog_of(f->volume, id, err);

    if (c && catalog_get(c, id, ret, err) == 0)
        return 0;
    if (err->class == ERR_NOT_FOUND) {
        err->class = ERR_STALE; /* the kernel has it from us: there was one */
        err->sys = 0;
    }
    return -1;
}

void entry_param(const struct frontend *f, const struct entry *e, struct fuse_entry_param *ret)
{
    *ret = (struct fuse_entry_param){
        .ino = e->id, .attr_timeout = f->mode.timeout_s, .entry_timeout = f->mode.timeout_s};
    attr_of_entry(f, e, &ret->attr);
}

/* --- lookup --- */

static void reply_absent(fuse_req_t req, double timeout_s)
{
    struct fuse_entry_param e = {.ino = 0, .entry_timeout = timeout_s};

    fuse_reply_entry(req, &e);
}

static void lookup_own_dir(fuse_req_t req, uint64_t ino)
{
    const struct frontend *f = frontend_of(req);
    struct fuse_entry_param e = {.ino = ino, .attr_timeout = DAY_S, .entry_timeout = DAY_S};

    attr_of_own_dir(f, ino, &e.attr);
    fuse_reply_entry(req, &e);
}

/* Whoever looks the status up gets a text of its own, under a number of its own. */
static void lookup_status(fuse_req_t req)
{
    struct frontend *f = frontend_of(req);
    struct bytes text = {0};
    struct snapshot about;
    struct fuse_entry_param e = {.attr_timeout = DAY_S, .entry_timeout = 0};

    int pid = fuse_req_ctx(req)->pid;

    e.ino = snapshots_again(&f->snapshots, pid);
    if (!e.ino) {
        f->conf.status(f->conf.status_arg, &text);
        size_t len = text.len;
        e.ino = snapshots_add(&f->snapshots, bytes_take(&text), len, pid);
    }
    if (snapshots_read(&f->snapshots, e.ino, 0, NULL, 0, &about) < 0) {
        fuse_reply_err(req, EIO); /* the table turned over meanwhile */
        return;
    }
    attr_of_snapshot(f, &about, &e.attr);
    fuse_reply_entry(req, &e);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct frontend *f = frontend_of(req);
    cleanup_catalog struct catalog *c = NULL;
    struct fuse_entry_param param;
    struct err err = {0};
    struct entry e;

    if (parent == CATALOG_ROOT_ID && !strcmp(name, CONTROL_DIR_NAME)) {
        lookup_own_dir(req, INO_CONTROL_DIR);
        return;
    }
    if (ino_is_ours(parent)) {
        if (parent == INO_CONTROL_DIR && !strcmp(name, STATUS_NAME) && f->conf.status)
            lookup_status(req);
        else if (parent == INO_CONTROL_DIR && !strcmp(name, DIRECT_DIR_NAME) && f->conf.direct)
            lookup_own_dir(req, INO_DIRECT_DIR);
        else
            reply_absent(req, 0);
        return;
    }
    if (strlen(name) > NAME_MAX) { /* the kernel lets up to 1024 bytes through */
        fuse_reply_err(req, ENAMETOOLONG);
        return;
    }
    c = volume_catalog(f->volume);
    if (catalog_lookup(c, parent, name, strlen(name), &e, &err) == 0) {
        entry_param(f, &e, &param);
        fuse_reply_entry(req, &param);
    } else if (err.class == ERR_NOT_FOUND) {
        reply_absent(req, f->mode.timeout_s);
    } else {
        fuse_reply_err(req, err_errno(&err));
    }
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
    if (ino_is_snapshot(ino))
        snapshots_forget(&frontend_of(req)->snapshots, ino, nlookup);
    fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++)
        if (ino_is_snapshot(forgets[i].ino))
            snapshots_forget(&frontend_of(req)->snapshots, forgets[i].ino, forgets[i].nlookup);
    fuse_reply_none(req);
}

/* --- attributes --- */

/* 0 or an errno. */
static int stat_of(struct frontend *f, uint64_t ino, struct stat *ret)
{
    struct snapshot about;
    struct err err = {0};
    struct entry e;

    if (ino_is_snapshot(ino)) {
        if (snapshots_read(&f->snapshots, ino, 0, NULL, 0, &about) < 0)
            return ESTALE;
        attr_of_snapshot(f, &about, ret);
        return 0;
    }
    if (ino_is_own_dir(&f->conf, ino)) {
        attr_of_own_dir(f, ino, ret);
        return 0;
    }
    if (entry_of(f, ino, &e, &err) < 0)
        return err_errno(&err);
    attr_of_entry(f, &e, ret);
    return 0;
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct frontend *f = frontend_of(req);
    struct stat st;
    int e = stat_of(f, ino, &st);

    (void)fi;
    if (e)
        fuse_reply_err(req, e);
    else
        fuse_reply_attr(req, &st, f->mode.timeout_s);
}

/* The kernel checks modes itself (default_permissions); this answers those that do not. */
static void op_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
    struct stat st = {0};
    int e = stat_of(frontend_of(req), ino, &st);

    if (!e && (mask & W_OK))
        e = EROFS;
    if (!e && (mask & X_OK) && !S_ISDIR(st.st_mode))
        e = EACCES;
    fuse_reply_err(req, e);
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
    (void)ino;
    fuse_reply_err(req, EINVAL); /* there are no symbolic links */
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
    struct frontend *f = frontend_of(req);
    cleanup_catalog struct catalog *c = volume_catalog(f->volume);
    const struct catalog_info *info = catalog_info(c);
    const uint64_t block = 4096;
    struct statvfs st = {
        .f_bsize = block,
        .f_frsize = block,
        .f_blocks = (info->bytes + block - 1) / block,
        .f_files = info->samples + info->folders,
        .f_namemax = 255,
        .f_flag = ST_RDONLY,
    };

    (void)ino;
    fuse_reply_statfs(req, &st);
}

/* --- folders --- */

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                       struct fuse_file_info *fi)
{
    (void)fi;
    list_folder(req, ino, size, off, /* plus= */ false);
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                           struct fuse_file_info *fi)
{
    (void)fi;
    list_folder(req, ino, size, off, /* plus= */ true);
}

static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    const struct decision *mode = &frontend_of(req)->mode;

    (void)ino;
    if (mode->no_opendir) {
        fuse_reply_err(req, ENOSYS);
        return;
    }
    fi->cache_readdir = mode->cache_dirs;
    fi->keep_cache = mode->cache_dirs;
    fuse_reply_open(req, fi);
}

static void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    (void)fi;
    fuse_reply_err(req, 0);
}

/* --- extended attributes --- */

static void xattr_cached(struct frontend *f, const struct entry *e, struct bytes *ret)
{
    struct cache *cache = volume_cache(f->volume);
    uint64_t n = unit_count(e->size);
    bool any = false;

    if (passthrough_has(f, e->id) || cache_has_all(cache, e->id, n)) {
        bytes_add_str(ret, "yes");
        return;
    }
    for (uint64_t i = 0; i < n && !any; i++)
        any = cache_where(cache, e->id + i) >= 0;
    bytes_add_str(ret, any ? "partly" : "no");
}

static void xattr_source(struct frontend *f, const struct entry *e, struct bytes *ret)
{
    cleanup_catalog struct catalog *c = volume_catalog_of(f->volume, e->id, NULL);
    struct unit_info unit = {0};

    if (!c || catalog_unit(c, e->id, &unit, NULL) < 0)
        return;
    store_add_object_uri(ret, catalog_source_uri(c, unit.source), unit.key.data, unit.key.len);
    unit_info_release(&unit);
}

static void xattr_etag(struct frontend *f, const struct entry *e, struct bytes *ret)
{
    (void)f;
    bytes_add_str(ret, e->etag);
}

/* Where nobody has divided the set it is all one partition. */
static void xattr_partition(struct frontend *f, const struct entry *e, struct bytes *ret)
{
    int64_t owner = volume_owner(f->volume, e->id);

    bytes_addf(ret, "%lld", owner < 0 ? 0LL : (long long)owner);
}

static const struct xattr_row {
    const char *name;
    void (*value)(struct frontend *f, const struct entry *e, struct bytes *ret);
} xattr_rows[] = {
    {XATTR_PREFIX "etag", xattr_etag},
    {XATTR_PREFIX "cached", xattr_cached},
    {XATTR_PREFIX "partition", xattr_partition},
    {XATTR_PREFIX "source", xattr_source},
};
#define N_XATTRS (sizeof(xattr_rows) / sizeof(xattr_rows[0]))

static void reply_xattr(fuse_req_t req, const struct bytes *value, size_t size)
{
    if (!size)
        fuse_reply_xattr(req, value->len);
    else if (value->len > size)
        fuse_reply_err(req, ERANGE);
    else
        fuse_reply_buf(req, value->data, value->len);
}

/* Only samples have them. 0 or an errno. */
static int xattr_entry(struct frontend *f, uint64_t ino, struct entry *ret, int absent)
{
    struct err err = {0};

    if (ino_is_ours(ino))
        return absent;
    if (entry_of(f, ino, ret, &err) < 0)
        return err_errno(&err);
    return ret->folder ? absent : 0;
}

static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
    struct frontend *f = frontend_of(req);
    cleanup_bytes struct bytes value = {0};
    const struct xattr_row *row = NULL;
    struct entry e;
    int failed;

    for (size_t i = 0; i < N_XATTRS; i++)
        if (!strcmp(xattr_rows[i].name, name))
            row = &xattr_rows[i];
    failed = row ? xattr_entry(f, ino, &e, ENODATA) : ENODATA;
    if (failed) {
        fuse_reply_err(req, failed);
        return;
    }
    row->value(f, &e, &value);
    reply_xattr(req, &value, size);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
    cleanup_bytes struct bytes names = {0};
    struct entry e;
    int failed = xattr_entry(frontend_of(req), ino, &e, -1);

    if (failed > 0) {
        fuse_reply_err(req, failed);
        return;
    }
    for (size_t i = 0; !failed && i < N_XATTRS; i++)
        bytes_add(&names, xattr_rows[i].name, strlen(xattr_rows[i].name) + 1);
    reply_xattr(req, &names, size);
}

/* --- ioctl --- */

static void ioctl_status(fuse_req_t req, size_t out_size)
{
    struct frontend *f = frontend_of(req);
    cleanup_bytes struct bytes text = {0};
    cleanup_free struct sampan_ioc_status *out = xcalloc(1, sizeof(*out));

    if (f->conf.status)
        f->conf.status(f->conf.status_arg, &text);
    if (out_size < sizeof(*out) || text.len > sizeof(out->json)) {
        fuse_reply_err(req, E2BIG);
        return;
    }
    out->len = (uint32_t)text.len;
    if (text.len)
        memcpy(out->json, text.data, text.len);
    fuse_reply_ioctl(req, 0, out, sizeof(*out));
}

/* A request is kept as far as a slot holds it (hand_park()): a longer SPEC would be another sampler
 * in a later life. */
_Static_assert(sizeof(struct wire_in_header) + sizeof(struct wire_ioctl_in) + SAMPAN_IOC_SPEC_MOST +
                       1 <=
                   KEEPER_SLOT_BYTES,
               "a SPEC is kept whole");

static int check_set(enum chore_kind kind, const void *in, size_t in_size)
{
    const struct chore *c = NULL;

    if (kind == CHORE_SET_EPOCH)
        return in_size < sizeof(c->epoch) ? EINVAL : 0;
    if (in_size < sizeof(c->spec) || !memchr(in, '\0', sizeof(c->spec)))
        return EINVAL;
    return strlen(in) > SAMPAN_IOC_SPEC_MOST ? E2BIG : 0;
}

/* Setting an order may wait for the kernel (invalidations): never on a worker. */
static void ioctl_set(fuse_req_t req, enum chore_kind kind, const void *in, size_t in_size)
{
    struct chore *c;
    int e = check_set(kind, in, in_size);

    if (e) {
        fuse_reply_err(req, e);
        return;
    }
    c = xcalloc(1, sizeof(*c));
    c->req = req;
    c->kind = kind;
    if (kind == CHORE_SET_EPOCH)
        memcpy(&c->epoch, in, sizeof(c->epoch));
    else
        memcpy(c->spec, in, sizeof(c->spec));
    e = chores_add(frontend_of(req), c);
    if (e) {
        free(c);
        fuse_reply_err(req, e);
    }
}

static void ioctl_hush(fuse_req_t req)
{
    push_hush(frontend_of(req));
    fuse_reply_ioctl(req, 0, NULL, 0);
}

static void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned int cmd, void *arg,
                     struct fuse_file_info *fi, unsigned flags, const void *in_buf, size_t in_bufsz,
                     size_t out_bufsz)
{
    (void)arg;
    (void)fi;
    if (ino != CATALOG_ROOT_ID || !(flags & FUSE_IOCTL_DIR))
        fuse_reply_err(req, ENOTTY);
    else if (cmd == SAMPAN_IOC_STATUS)
        ioctl_status(req, out_bufsz);
    else if (cmd == SAMPAN_IOC_SET_EPOCH)
        ioctl_set(req, CHORE_SET_EPOCH, in_buf, in_bufsz);
    else if (cmd == SAMPAN_IOC_SET_SAMPLER)
        ioctl_set(req, CHORE_SET_SAMPLER, in_buf, in_bufsz);
    else if (cmd == SAMPAN_IOC_HUSH)
        ioctl_hush(req);
    else
        fuse_reply_err(req, ENOTTY);
}

/*
 * What is not here is answered ENOSYS by the library, which suits a read-only mount: the kernel
 * then does it itself and never asks again (flush, fsync, locks, lseek); all that writes is refused
 * before it comes.
 */
const struct fuse_lowlevel_ops frontend_ops = {
    .init = op_init,
    .lookup = op_lookup,
    .forget = op_forget,
    .forget_multi = op_forget_multi,
    .getattr = op_getattr,
    .access = op_access,
    .readlink = op_readlink,
    .statfs = op_statfs,
    .open = op_open,
    .release = op_release,
    .opendir = op_opendir,
    .releasedir = op_releasedir,
    .readdir = op_readdir,
    .readdirplus = op_readdirplus,
    .getxattr = op_getxattr,
    .listxattr = op_listxattr,
    .ioctl = op_ioctl,
};
