/*
 * --profile shards: OPEN is used, and an object that is complete and verified on the disk is read
 * by the kernel straight from its file.
 *
 * The kernel's rules (each breach is EIO for the one who opens): all concurrent opens of an inode
 * use the same backing id; cached and passthrough opens of one inode never meet; direct I/O and
 * passthrough may, until somebody maps the file opened for direct I/O, which makes it a cached one.
 * So an inode's way is chosen by its first open, and stays as long as it is open:
 *
 *   no shard (no room, no passthrough)    cached: pages are kept, as for samples
 *   shard incomplete                      direct I/O, and the filler is set on it
 *   shard complete, verified              passthrough; the backing id lives from the first such
 *                                         open to the last close
 *
 * The kernel's opens outlive this process, and so do the ids: the table of them is kept
 * (opens-internal.h), and the rules hold on in the next life.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cleanup.h"
#include "frontend-internal.h"
#include "keeper.h"
#include "mem.h"
#include "opens-internal.h"
#include "shard-internal.h"

#define LOG_MODULE "fuse"
#include "log.h"

struct passthrough {
    struct shards shards;
    bool has_shards;
    struct lock lock;
    struct cond work;
    struct opens opens;               /* under lock */
    struct shard *used_by[OPENS_MAX]; /* of each entry of `opens`; NULL: none; under lock */
    bool stop;                        /* under lock */
    pthread_t filler;
    bool filler_runs;
    bool told_full; /* filler only: the log knows that the disk is full */
};

/* --- the kernel's side --- */

/* A backing id, or a negative errno. */
static int backing_open(const struct frontend *f, int fd)
{
    struct wire_backing_map map = {.fd = fd};
    int id;

    if (f->hidden & OFFER_IOCTL)
        return -EPERM;
    id = ioctl(f->dev, WIRE_IOC_BACKING_OPEN, &map);
    return id < 0 ? -errno : id;
}

static void backing_close(const struct frontend *f, int id)
{
    uint32_t which = (uint32_t)id;

    ioctl(f->dev, WIRE_IOC_BACKING_CLOSE, &which);
}

/* NULL if the kernel takes a file of this folder, else why not. */
static const char *try_backing(const struct frontend *f, const char *dir)
{
    cleanup_close int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    int id = fd < 0 ? -errno : backing_open(f, fd);

    if (id > 0) {
        backing_close(f, id);
        return NULL;
    }
    switch (-id) {
    case EPERM:
        return "registering a backing file needs CAP_SYS_ADMIN (mount as root)";
    case ELOOP:
        return "the cache folder lies on a stacked file system (choose a plain one)";
    default:
        return strerror(-id);
    }
}

/* --- the filler: one thread that completes the shards of open objects --- */

static struct shard *next_wanted(struct passthrough *pt)
{
    for (size_t i = 0; i < OPENS_MAX; i++)
        if (pt->used_by[i] && pt->used_by[i]->wanted)
            return pt->used_by[i];
    return NULL;
}

static bool stopped(struct passthrough *pt)
{
    ACQUIRE(&pt->lock);

    return pt->stop;
}

/* Reads block by block through the volume. Each unit leaves the packs at once: they need not have
 * room for the whole object. */
static int fill(struct frontend *f, struct shard *x, struct err *err)
{
    struct passthrough *pt = f->passthrough;

    if (!x->checked)
        shard_check(x);
    for (uint64_t i = 0; i < x->n_blocks && !stopped(pt); i++) {
        struct view view = {0};
        int rc;

        if (atomic_load(&x->present[i]))
            continue;
        if (shard_has_room(x, i, err) < 0 ||
            read_pushed(f, x->id, i * UNIT_BYTES, shard_block_len(x, i), &view, err) < 0)
            return -1;
        rc = shard_put(x, i, view.ptr, view.len, err);
        view_release(&view);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* A disk that stays full is told of once, not with each open. */
static void note_failed(struct frontend *f, const struct shard *x, const struct err *err)
{
    struct passthrough *pt = f->passthrough;
    bool is_full = err->class == ERR_LIMIT || err->sys == ENOSPC;

    counter_add(&pt->opens.kept->failed, 1);
    if (!is_full || !pt->told_full)
        log_warn(f->log, "object of id %llu stays incomplete: %s%s", (unsigned long long)x->id,
                 err->msg, is_full ? "; so do others, as long as that lasts" : "");
    pt->told_full |= is_full;
}

static void *filler_run(void *arg)
{
    struct frontend *f = arg;
    struct passthrough *pt = f->passthrough;

    for (;;) {
        struct err err = {0};
        struct shard *x = NULL;

        lock_take(&pt->lock);
        while (!pt->stop && !(x = next_wanted(pt)))
            cond_wait(&pt->work, &pt->lock);
        if (pt->stop) {
            lock_drop(&pt->lock);
            return NULL;
        }
        x->wanted = false;
        x = shards_use(&pt->shards, x->id, x->size);
        lock_drop(&pt->lock);
        if (fill(f, x, &err) < 0) {
            note_failed(f, x, &err);
        } else if (shard_complete(x)) {
            pt->told_full = false;
            counter_add(&pt->opens.kept->filled, 1);
        }
        shards_unuse(&pt->shards, x);
    }
}

/* --- OPEN and RELEASE --- */

/* The way of an inode's first open. */
static struct shard *first_open(struct frontend *f, struct kept_open *o)
{
    struct passthrough *pt = f->passthrough;
    struct shard *shard;

    o->way = WAY_CACHED;
    if (!pt->has_shards || !o->size || ino_is_ours(o->ino))
        return NULL;
    shard = shards_use(&pt->shards, o->ino, o->size);
    if (shard)
        o->way = WAY_DIRECT;
    return shard;
}

/* Direct I/O becomes passthrough with the first open of a complete object. */
static void raise_way(struct frontend *f, struct kept_open *o, struct shard *shard)
{
    if (o->way != WAY_DIRECT || !shard)
        return;
    if (shard_complete(shard) && o->opens > 1)
        return;
    if (shard_complete(shard)) {
        int id = backing_open(f, shard->data);

        if (id > 0) {
            o->backing_id = id;
            o->way = WAY_PASSTHROUGH;
        }
        return;
    }
    shard->wanted = true;
    cond_signal(&f->passthrough->work);
}

static uint32_t open_flags(uint32_t way)
{
    switch (way) {
    case WAY_DIRECT:
        return WIRE_FOPEN_DIRECT_IO | WIRE_FOPEN_NOFLUSH;
    case WAY_PASSTHROUGH:
        return WIRE_FOPEN_PASSTHROUGH | WIRE_FOPEN_NOFLUSH;
    default:
        return WIRE_FOPEN_KEEP_CACHE | WIRE_FOPEN_NOFLUSH;
    }
}

/* A request's number is the same when it is sent again. */
static uint64_t number_of(const struct wire_in_header *h)
{
    return h->unique & ~WIRE_RESENT;
}

/* Has an earlier life executed this request, and been killed before its reply was out? */
static bool was_counted(struct frontend *f, const struct wire_in_header *h)
{
    return (f->replaying || (h->unique & WIRE_RESENT)) &&
           opens_counted(&f->passthrough->opens, number_of(h));
}

/* The state of the inode as this open finds it. False: too many are open. */
static bool count_open(struct frontend *f, const struct wire_in_header *h, uint64_t size,
                       struct kept_open *ret)
{
    struct passthrough *pt = f->passthrough;
    ACQUIRE(&pt->lock);
    struct kept_open *e = opens_find(&pt->opens, h->nodeid);
    struct shard *shard = e ? pt->used_by[opens_at(&pt->opens, e)] : NULL;
    bool is_new = !e;

    if (e && was_counted(f, h)) {
        *ret = *e;
        return true;
    }
    *ret = e ? *e : (struct kept_open){.ino = h->nodeid, .size = size};
    if (is_new)
        shard = first_open(f, ret);
    ret->opens++;
    int32_t had = ret->backing_id;
    raise_way(f, ret, shard);
    e = opens_change(&pt->opens, number_of(h), ret);
    if (!e) {
        if (ret->backing_id != had)
            backing_close(f, ret->backing_id);
        if (shard)
            shards_unuse(&pt->shards, shard);
        return false;
    }
    pt->used_by[opens_at(&pt->opens, e)] = shard;
    counter_add(&pt->opens.kept->ways[ret->way], 1);
    return true;
}

/* `h`: the RELEASE; NULL: an open that never was. */
static void count_release(struct frontend *f, uint64_t ino, const struct wire_in_header *h)
{
    struct passthrough *pt = f->passthrough;
    ACQUIRE(&pt->lock);
    struct kept_open *e = opens_find(&pt->opens, ino);
    struct shard *shard;

    if (!e || (h && was_counted(f, h)))
        return;
    struct kept_open to = *e;
    to.opens--;
    opens_change(&pt->opens, h ? number_of(h) : 0, &to);
    if (to.opens)
        return;
    if (to.backing_id)
        backing_close(f, to.backing_id);
    shard = take_ptr(&pt->used_by[opens_at(&pt->opens, e)]);
    if (shard)
        shards_unuse(&pt->shards, shard);
}

void passthrough_open(struct frontend *f, const struct wire_in_header *h)
{
    struct err err = {0};
    struct wire_open_out out = {0};
    struct kept_open open;
    struct entry e = {0};

    if (!ino_is_ours(h->nodeid) && entry_of(f, h->nodeid, &e, &err) < 0) {
        dev_reply(f, h->unique, -err_errno(&err), NULL, 0);
        return;
    }
    if (!count_open(f, h, e.size, &open)) {
        dev_reply(f, h->unique, -ENFILE, NULL, 0);
        return;
    }
    out.open_flags = open_flags(open.way);
    out.backing_id = open.backing_id;
    /* A reader that was killed meanwhile gets no answer, and no RELEASE will come. */
    if (dev_reply(f, h->unique, 0, &out, sizeof(out)) == -ENOENT)
        count_release(f, h->nodeid, NULL);
}

void passthrough_release(struct frontend *f, const struct wire_in_header *h)
{
    count_release(f, h->nodeid, h);
    dev_reply(f, h->unique, 0, NULL, 0);
}

/* --- life --- */

static uint64_t lineage_of(struct frontend *f)
{
    struct catalog *c = volume_catalog(f->volume);
    uint64_t lineage = catalog_info(c)->lineage;

    catalog_unref(c);
    return lineage;
}

/* Objects that the kernel has open since an earlier life are in use. */
static void use_open_shards(struct passthrough *pt)
{
    for (uint32_t i = 0; i < OPENS_MAX; i++) {
        const struct kept_open *e = &pt->opens.kept->entries[i];

        if (e->opens && e->way != WAY_CACHED)
            pt->used_by[i] = shards_use(&pt->shards, e->ino, e->size);
    }
}

/* False: no room for the table, which must outlive us. */
static bool start_opens(struct frontend *f)
{
    struct passthrough *pt = f->passthrough;
    struct kept_opens *kept =
        keeper_area(f->hand.state, "opens", OPENS_VERSION, sizeof(struct kept_opens));
    int32_t left = kept ? opens_load(&pt->opens, kept) : 0;

    if (left > 0)
        backing_close(f, left);
    return kept != NULL;
}

static const struct guests_ops guests_ops = {
    .read = shards_read,
    .verify = shards_verify,
    .unused = shards_unused,
    .shrink = shards_shrink,
    .spare = shards_spare,
    .name = shards_name,
};

static const char *start_shards(struct frontend *f)
{
    struct passthrough *pt = f->passthrough;
    struct err err = {0};
    const char *refused;
    struct tier *tier;

    if (!f->mode.passthrough)
        return NULL; /* the kernel's offers said so already */
    if (!f->conf.shards_dir || !f->conf.shards_limit)
        return "no disk tier to keep whole objects on";
    if (shards_open(&pt->shards, f->conf.shards_dir, f->conf.shards_limit, lineage_of(f), &err) <
        0) {
        log_warn(f->log, "%s", err.msg);
        return "the folder of whole objects can't be used";
    }
    use_open_shards(pt);
    tier = cache_guests(volume_cache(f->volume), f->conf.shards_dir, &guests_ops, &pt->shards);
    if (!tier)
        return "the folder of whole objects is not the cache's";
    shards_set_tier(&pt->shards, tier);
    refused = try_backing(f, f->conf.shards_dir);
    if (!refused && thread_start(&pt->filler, "fuse-filler", filler_run, f) == 0) {
        pt->filler_runs = true;
        pt->has_shards = true;
        return NULL;
    }
    return refused ? refused : "no thread could be started";
}

int passthrough_start(struct frontend *f, struct err *err)
{
    struct passthrough *pt;
    const char *refused;

    if (!f->conf.shards) {
        /* Nobody reads them here, nor would clear() or evict() find them: all that they take is
         * room. */
        if (f->conf.shards_dir && shards_remove_all(f->conf.shards_dir))
            cache_recount(volume_cache(f->volume));
        return 0;
    }
    pt = f->passthrough = xcalloc(1, sizeof(*pt));
    lock_init(&pt->lock, RANK_PUSH - 1, "fuse opens");
    cond_init(&pt->work);
    if (!start_opens(f))
        return err_set(err, ERR_LIMIT, "the keeper's state has no room for the table of opens");
    refused = start_shards(f);
    if (refused)
        probe_decide(f->offers, /* shards= */ true, refused, &f->mode);
    return 0;
}

void passthrough_stop(struct frontend *f)
{
    struct passthrough *pt = f->passthrough;

    if (!pt)
        return;
    lock_take(&pt->lock);
    pt->stop = true;
    cond_broadcast(&pt->work);
    lock_drop(&pt->lock);
    if (pt->filler_runs)
        pthread_join(pt->filler, NULL);
    shards_close(&pt->shards);
    cond_destroy(&pt->work);
    lock_destroy(&pt->lock);
    free(pt);
    f->passthrough = NULL;
}

void passthrough_drop(struct frontend *f, uint64_t id)
{
    if (f->passthrough && f->passthrough->has_shards)
        shards_drop(&f->passthrough->shards, id);
}

bool passthrough_has(struct frontend *f, uint64_t id)
{
    return f->passthrough && f->passthrough->has_shards &&
           shards_complete(&f->passthrough->shards, id);
}

void passthrough_status(struct frontend *f, struct json_writer *w)
{
    struct passthrough *pt = f->passthrough;
    const struct kept_opens *kept = pt->opens.kept;

    if (!kept)
        return;
    jw_object(w, "shards");
    jw_uint(w, "passthrough", counter_get(&kept->ways[WAY_PASSTHROUGH]));
    jw_uint(w, "direct", counter_get(&kept->ways[WAY_DIRECT]));
    jw_uint(w, "cached", counter_get(&kept->ways[WAY_CACHED]));
    jw_uint(w, "filled", counter_get(&kept->filled));
    jw_uint(w, "failed", counter_get(&kept->failed));
    jw_uint(w, "used", pt->has_shards ? shards_used(&pt->shards) : 0);
    jw_uint(w, "limit", pt->has_shards ? f->conf.shards_limit : 0);
    jw_str(w, "verified", "at fill and at the first open");
    jw_end(w);
}

/* --- the other mode, through libfuse --- */

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    const struct frontend *f = fuse_req_userdata(req);

    (void)ino;
    if (f->mode.no_open) {
        fuse_reply_err(req, ENOSYS);
        return;
    }
    fi->keep_cache = 1;
    fi->noflush = 1;
    fuse_reply_open(req, fi);
}

void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    (void)fi;
    fuse_reply_err(req, 0);
}
