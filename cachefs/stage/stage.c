/*
 * A stage's life: opening (what the last life left is judged by what lies on the disk), closing,
 * and the small rest of the interface.
 */
#define LOG_MODULE "stage"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>

#include "clock.h"
#include "conf.h"
#include "dir.h"
#include "file.h"
#include "hash.h"
#include "log.h"
#include "mem.h"
#include "content-internal.h"
#include "owed-internal.h"

#define UPLOADS_DEFAULT 16
#define COPY_MAX        (5ull << 30) /* S3's and BOS's */
#define GRACE_NS        (500 * NS_PER_MS)
#define LOCK_WAIT_NS    (2 * NS_PER_S) /* a killed predecessor may still be on its way out */

int stage_commit_parse(const char *text, enum stage_commit *ret, uint64_t *ret_interval_ns,
                       struct err *err)
{
    *ret_interval_ns = 0;
    if (strcmp(text, "close") == 0) {
        *ret = COMMIT_CLOSE;
        return 0;
    }
    if (strcmp(text, "background") == 0) {
        *ret = COMMIT_BACKGROUND;
        return 0;
    }
    uint64_t ns = 0;
    if (strncmp(text, "interval=", 9) != 0 || conf_duration(text + 9, &ns, NULL) ||
        ns < 10 * NS_PER_MS || ns > 24 * 3600 * NS_PER_S)
        return err_set(err, ERR_USAGE,
                       "--commit: %s: want close, background or interval=TIME (10ms to 24h, as 2s)",
                       text);
    *ret = COMMIT_INTERVAL;
    *ret_interval_ns = ns;
    return 0;
}

/* --- what lies on the disk ------------------------------------------------------------------- */

static uint64_t boot_now(void)
{
    char text[64] = "";
    cleanup_close int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    return n > 0 ? hash64(text, (size_t)n, 0) >> 1 : 0;
}

static void forget_staged(struct stage *s, struct node *n)
{
    n->row.flags &= ~(unsigned)(N_STAGED | N_MAP);
    content_discard(s, n);
    journal_save(s, n, NULL);
}

/* Its bytes are gone: the disk was tampered with. What the store has is all there is. */
static void lost_content(struct stage *s, struct node *n)
{
    log_error(s->conf.log, "a staged file that was not stored yet is gone ino=%llu name=%s",
              (unsigned long long)n->row.ino, n->row.name);
    orphan_upload(s, n, NULL);
    n->row.flags &= ~(unsigned)(N_STAGED | N_MAP | N_DIRTY | N_PUBLISH);
    if (n->row.flags & N_STORED) {
        n->row.size = n->row.rsize;
        journal_save(s, n, NULL);
    } else {
        n->row.flags |= N_ORPHAN;
    }
}

/*
 * Content that nobody synced since it was stored, after the machine stopped: any part of it may be
 * missing. The store's object is whole, and what was promised of this file is in it.
 */
static void give_way_to_stored(struct stage *s, struct node *n)
{
    log_warn(s->conf.log,
             "the machine stopped before a change was stored or synced: the stored content counts "
             "name=%s",
             n->row.name);
    orphan_upload(s, n, NULL);
    n->row.flags &= ~(unsigned)(N_DIRTY | N_PUBLISH | N_KNOWN | N_HELD);
    n->row.size = n->row.rsize;
    forget_staged(s, n);
}

static bool is_torn(const struct stage *s, const struct node *n, bool same_boot)
{
    return s->conf.fresh && !same_boot && !(n->row.flags & N_SYNCED);
}

static void judge_dirty(struct stage *s, struct node *n, const struct stat *st, bool same_boot)
{
    n->row.size = (uint64_t)st->st_size;
    n->row.mtime_ns = clock_ns_of(&st->st_mtim);
    n->seq = n->synced_seq = 1;
    dirty_add(s, n);
    bool torn = is_torn(s, n, same_boot);
    if (torn) /* its parts may be of other bytes than those that are left */
        orphan_upload(s, n, NULL);
    if (s->conf.fresh && (torn || !(n->row.flags & N_PUBLISH))) {
        n->row.flags |= N_PUBLISH | (torn ? N_HELD : 0);
        journal_save(s, n, NULL);
    }
    n->publish_seq = n->row.flags & N_PUBLISH ? n->seq : 0;
}

/* Clean content that this machine's end may have torn, or that does not fit, is fetched again. */
static void judge_staged(struct stage *s, struct node *n, bool same_boot)
{
    char name[32];
    struct stat st, map;
    content_name(n->row.ino, false, name);
    bool there = fstatat(s->data_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    bool dirty = n->row.flags & N_DIRTY;
    content_name(n->row.ino, true, name);
    if (n->row.flags & N_MAP && fstatat(s->data_fd, name, &map, AT_SYMLINK_NOFOLLOW))
        there = false;
    if (!there) {
        if (dirty)
            lost_content(s, n);
        else
            drop_content(s, n); /* it went for room */
        return;
    }
    n->charged = (uint64_t)st.st_blocks * 512;
    atomic_fetch_add(&s->used, n->charged);
    if (dirty && is_torn(s, n, same_boot) && (n->row.flags & (N_STORED | N_DURABLE)) == N_STORED)
        give_way_to_stored(s, n);
    else if (dirty)
        judge_dirty(s, n, &st, same_boot);
    else if (!same_boot || (uint64_t)st.st_size != n->row.size)
        forget_staged(s, n);
}

/* Somebody damaged the journal. What the store has of it, a listing finds again. */
static void lose_place(struct stage *s, struct node *n)
{
    log_error(s->conf.log, "a damaged journal: it says not where a file lies ino=%llu name=%s",
              (unsigned long long)n->row.ino, n->row.name);
    n->row.flags |= N_ORPHAN;
}

static void judge_node(struct stage *s, struct node *n, bool same_boot)
{
    if (n == s->root)
        return;
    struct node *parent = node_of(s, n->row.parent);
    n->given = n->known_before = !s->conf.fresh;
    n->told_gen = n->row.gen;
    bool orphan = n->row.flags & N_ORPHAN;
    if (!orphan && (!parent || !node_is_folder(parent) || child_of(s, parent, n->row.name) ||
                    node_is_below(parent, n)))
        lose_place(s, n); /* no name is better than two */
    if (n->row.flags & N_STAGED)
        judge_staged(s, n, same_boot);
    if (!(n->row.flags & N_ORPHAN))
        node_link(s, parent, n);
    else if (!s->conf.fresh)
        n->lookups = 1; /* the kernel will say when it forgets it */
}

/* What lies in a folder that has no place has none: its key would be another file's. */
static void judge_place(struct stage *s, struct node *n)
{
    if (!n->parent || node_is_below(n, s->root))
        return;
    lose_place(s, n);
    node_unlink(s, n);
    n->lookups = !s->conf.fresh;
}

static struct node **all_nodes(struct stage *s, size_t *ret_n)
{
    struct node **all = xcalloc(s->n_nodes + 1, sizeof *all);
    size_t n = 0;
    for (size_t i = 0; i < s->buckets; i++)
        for (struct node *node = s->by_ino[i]; node; node = node->next_ino)
            all[n++] = node;
    *ret_n = n;
    return all;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = (*(struct node *const *)a)->row.ino, y = (*(struct node *const *)b)->row.ino;
    return (x > y) - (x < y);
}

/* A file of no node, or of one that knows nothing of it: a life ended between the two. */
static void sweep_files(struct stage *s)
{
    cleanup_dir DIR *d = dir_open(s->data_fd, ".", 0);
    for (const struct dirent *e; d && (e = dir_next(d));) {
        char *end;
        uint64_t ino = strtoull(e->d_name, &end, 16);
        if (end == e->d_name)
            continue;
        const struct node *n = node_of(s, ino);
        unsigned want = strcmp(end, ".map") == 0 ? N_MAP : N_STAGED;
        if (!n || !(n->row.flags & want))
            unlinkat(s->data_fd, e->d_name, 0);
    }
}

/* Its life may have ended before all of it was here: as long as its object waits to be deleted,
 * what is missing can be had, as orphan_apply() has it. */
static void queue_orphan(struct stage *s, struct node *n)
{
    bool absent = n->lookups && n->row.flags & N_STORED && node_is_absent(n);
    char *key = !absent ? NULL : n->row.skey ? xstrdup(n->row.skey) : doom_key_of(s, n->row.ino, 0);
    if (key && !doom_find(s, key)) {
        free(key);
        key = NULL;
    }
    node_set_skey(s, n, key);
    n->fetch_first = key != NULL;
    if (key)
        owed_add(s, n);
}

static void queue_all(struct stage *s)
{
    size_t count;
    cleanup_free struct node **all = all_nodes(s, &count);
    qsort(all, count, sizeof all[0], by_number); /* the oldest first */
    for (size_t i = 0; i < count; i++) {
        struct node *n = all[i];
        if (n == s->root)
            continue;
        if (n->row.flags & N_ORPHAN) {
            queue_orphan(s, n);
            node_reap(s, n);
            continue;
        }
        if (n->row.kind == NODE_LINK && n->row.flags & N_DIRTY)
            dirty_add(s, n);
        owed_add(s, n);
        drop_list_add(s, n);
    }
}

/* Uploads of an earlier life that nobody will end: from `upload` to `doomed`. */
static int doom_uploads(struct stage *s, struct err *err)
{
    for (struct doom *d = s->dooms; d; d = d->next) {
        if (!d->upload || !d->ino)
            continue;
        if (journal_doom(s, d->key, d->upload, 0, err) || journal_upload_drop(s, d->ino, err))
            return -1;
        d->ino = 0;
    }
    return 0;
}

static int recover(struct stage *s, struct err *err)
{
    uint64_t boot = boot_now();
    bool same_boot = journal_is(s, "boot", boot), clean = journal_is(s, "clean", 1);
    if (journal_load(s, err) || doom_uploads(s, err))
        return -1;
    size_t count;
    cleanup_free struct node **all = all_nodes(s, &count);
    qsort(all, count, sizeof all[0], by_number);
    for (size_t i = 0; i < count; i++)
        judge_node(s, all[i], same_boot);
    for (size_t i = 0; i < count; i++)
        judge_place(s, all[i]);
    sweep_files(s);
    if (same_boot && !clean)
        s->grace_until_ns = clock_mono_ns() + (s->conf.grace_ns ? s->conf.grace_ns : GRACE_NS);
    /* After a kill both are so already, and on a full disk nothing can be written. */
    if (!same_boot && journal_meta(s, "boot", boot, err))
        return -1;
    return journal_is(s, "clean", 0) ? 0 : journal_meta(s, "clean", 0, err);
}

/* --- begin and end --------------------------------------------------------------------------- */

/*
 * ext4 makes a file near its folder, and a folder near the one above it; and there each new file
 * passes by, one by one, all that were deleted in the last minutes: a millisecond of CPU time a
 * file where somebody else has just removed some thousand. This says that the folders in here
 * have nothing to do with what is around them, so that each gets a place of its own, which is
 * chosen by its name. Other file systems do without.
 */
static void keep_apart(const char *dir)
{
    cleanup_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int flags;
    if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags))
        return;
    flags |= FS_TOPDIR_FL;
    (void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

#define NEW_DATA "data-" /* and 16 hex digits: a folder on its way to be `data` */

/* Lives that were killed before they had renamed theirs. */
static void sweep_new_data(const char *dir)
{
    cleanup_dir DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = dir_next(d));)
        if (strncmp(e->d_name, NEW_DATA, strlen(NEW_DATA)) == 0)
            unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
}

/* Of one name all stages would lie in one place, where each new one passes by what the last one
 * left: so it is made under a name that nobody had. */
static int make_data(const char *dir, const char *data, struct err *err)
{
    uint64_t random = 0;
    if (access(data, F_OK) == 0)
        return 0;
    keep_apart(dir);
    (void)!getrandom(&random, sizeof random, 0);
    cleanup_free char *made = xasprintf("%s/" NEW_DATA "%016llx", dir, (unsigned long long)random);
    if (mkdir(made, 0700) == 0) {
        if (renameat2(AT_FDCWD, made, AT_FDCWD, data, RENAME_NOREPLACE) == 0)
            return 0;
        rmdir(made); /* another one was faster, or the file system can't */
    }
    if (mkdir(data, 0700) && errno != EEXIST)
        return err_sys(err, errno, "make the folder: %s", data);
    return 0;
}

static int take_folder(struct stage *s, struct err *err)
{
    cleanup_free char *data = xasprintf("%s/data", s->dir);
    if (make_data(s->dir, data, err))
        return -1;
    s->data_fd = open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->data_fd < 0)
        return err_sys(err, errno, "open the folder: %s", data);
    if (file_lock(s->data_fd, LOCK_WAIT_NS) == 0) {
        sweep_new_data(s->dir);
        return 0;
    }
    if (errno == EWOULDBLOCK)
        return err_set(err, ERR_LIMIT,
                       "in use: %s: another mount works with it (umount that one, or give "
                       "another cache folder)",
                       s->dir);
    return err_sys(err, errno, "lock the folder: %s", data);
}

static int start_threads(struct stage *s, struct err *err)
{
    int e = thread_start(&s->clock_thread, "stage-clock", clock_main, s);
    if (e == 0) {
        s->n_threads++;
        e = thread_start(&s->tell_thread, "stage-tell", tell_main, s);
    }
    s->n_threads += e == 0;
    return e ? err_thread(err, e, "start a thread of the stage") : 0;
}

static struct stage *stage_new(const struct stage_conf *conf)
{
    struct stage *s = xcalloc(1, sizeof *s);
    s->conf = *conf;
    if (!s->conf.uploads)
        s->conf.uploads = UPLOADS_DEFAULT;
    s->dir = xstrdup(conf->dir);
    s->conf.dir = s->dir;
    s->caps = store_caps(conf->store);
    s->data_fd = s->journal.wal_fd = -1;
    s->counts = conf->counts ? conf->counts : &s->own_counts;
    if (!s->conf.copy_max)
        s->conf.copy_max = COPY_MAX;
    s->going_up.most = conf->body_bytes ? conf->body_bytes : BODY_BYTES;
    s->coming.most = conf->read_bytes ? conf->read_bytes : READ_BYTES;
    if (!s->conf.patience_ns)
        s->conf.patience_ns = PATIENCE_NS;
    s->coming.patience_ns = s->conf.patience_ns;
    s->tells_end = &s->tells;
    lock_init(&s->lock, RANK_STAGE, "stage");
    lock_init(&s->health_lock, RANK_METRICS, "stage-disk");
    cond_init(&s->changed);
    cond_init(&s->work);
    cond_init(&s->clock);
    cond_init(&s->tell);
    s->parts = pool_new(s->going_up.most);
    tree_init(s);
    return s;
}

static void make_root(struct stage *s)
{
    struct node *n = node_new(s, STAGE_ROOT);
    n->row.name = xstrdup("");
    n->row.kind = NODE_FOLDER;
    n->row.mode = 0755;
    n->row.uid = s->conf.uid;
    n->row.gid = s->conf.gid;
    n->row.mtime_ns = clock_wall_ns();
    n->row.flags = N_KNOWN;
    s->root = n;
}

static int begin_work(struct stage *s, struct err *err)
{
    queue_all(s);
    if (s->n_dooms)
        owed_wake(s);
    if (!s->owed.n && !s->n_dooms)
        s->grace_until_ns = 0; /* nothing was under way */
    return start_threads(s, err);
}

int stage_open(struct stage **ret, const struct stage_conf *conf, struct err *err)
{
    if (!(store_caps(conf->store) & STORE_WRITES))
        return err_set(err, ERR_USAGE, "cannot be written: %s (mount it without --writable)",
                       store_uri(conf->store));
    struct stage *s = stage_new(conf);
    int result = take_folder(s, err);
    if (result == 0)
        result = journal_open(s, err);
    if (result == 0) {
        ACQUIRE(&s->lock); /* until workers, who run already, see all that they have to heed */
        make_root(s);
        result = recover(s, err);
        if (result == 0)
            result = begin_work(s, err);
    }
    if (result) {
        stage_close(s);
        return -1;
    }
    *ret = s;
    return 0;
}

static void stop(struct stage *s)
{
    {
        ACQUIRE(&s->lock);
        s->stopping = true;
        cond_broadcast(&s->changed);
        cond_broadcast(&s->work);
        cond_broadcast(&s->clock);
        cond_broadcast(&s->tell);
    }
    for (unsigned i = 0; i < s->n_workers; i++)
        pthread_join(s->workers[i], NULL);
    if (s->n_threads > 0)
        pthread_join(s->clock_thread, NULL);
    if (s->n_threads > 1)
        pthread_join(s->tell_thread, NULL);
}

static void close_contents(struct stage *s)
{
    ACQUIRE(&s->lock);
    size_t count;
    cleanup_free struct node **all = all_nodes(s, &count);
    for (size_t i = 0; i < count; i++) {
        struct node *n = all[i];
        if (!n->held)
            continue;
        n->held = false;
        n->pins++; /* it must not go while the table is walked */
        content_unref(s, n->content);
        n->pins--;
    }
}

void stage_close(struct stage *s)
{
    if (!s)
        return;
    stop(s);
    close_contents(s);
    if (s->journal.wal_fd >= 0)
        journal_meta(s, "clean", 1, NULL);
    while (s->dooms)
        doom_remove(s, s->dooms);
    for (struct change *c = s->tells, *next; c; c = next) {
        next = c->next;
        free(c->name);
        free(c);
    }
    tree_free(s);
    journal_close(s);
    if (s->data_fd >= 0)
        close(s->data_fd);
    pool_free(s->parts);
    cond_destroy(&s->changed);
    cond_destroy(&s->work);
    cond_destroy(&s->clock);
    cond_destroy(&s->tell);
    lock_destroy(&s->lock);
    lock_destroy(&s->health_lock);
    free(s->doom_hash);
    free(s->gone);
    free(s->going);
    free(s->answers);
    free(s->dir);
    free(s);
}

void stage_set_refresh(struct stage *s, uint64_t refresh_ns)
{
    ACQUIRE(&s->lock);
    s->conf.refresh_ns = refresh_ns;
}

const struct stage_counts *stage_counts(const struct stage *s)
{
    return s->counts;
}

void stage_path(struct stage *s, uint64_t ino, struct bytes *ret)
{
    ACQUIRE(&s->lock);
    const struct node *n = node_of(s, ino);
    if (!n || n == s->root || n->row.flags & N_ORPHAN)
        return;
    node_key(n, ret);
    if (ret->len && ret->data[ret->len - 1] == '/')
        ret->data[--ret->len] = '\0';
}
