/*
 * drive-stage: the stage of a writable mount without a mount, step by step. What torture cuts the
 * power of.
 *
 *   drive-stage BUCKET[=SEEN] DIR COMMIT STEP…
 *
 * BUCKET is the store: s3://NAME, or a folder (file://), which this process finds at SEEN: a stage
 * knows its store by its address (as root, else exit 77). DIR the stage's folder, COMMIT as
 * --commit takes it. Content K of a file NAME follows from both (torture.py has the same rule).
 * Steps:
 *
 *   open             as a new mount
 *   put:NAME:K       empties or makes the file, writes content K in three pieces, closes it
 *   sync:NAME:K      the same, with an fsync before it is closed
 *   log:NAME:K       the file is open or made, and grows by one record; then fsync. It stays open
 *   more:NAME:K      the same without the fsync
 *   safe:NAME:K      content K is written to NAME.tmp and synced, which is renamed to NAME
 *   other:NAME:K     another mount, with a stage of its own, stores content K of NAME
 *   patch:NAME:K     of content K what differs from that of the others is written, and synced
 *   look:NAME        a block is read that no patch changes
 *   move:A:B, remove:A
 *   swap:A:B         three moves at once: each has the other's name
 *   names            fsync of a folder: moves and removals last (with commit close each does)
 *   settle           all that is owed is stored
 *   pending          prints what is not stored, as `status` does
 *   export:FOLDER    copies all files, as a reader of the mount sees them
 *   close
 *
 * What a step is about to do and what it has reached is marked (mark:…, seen by meddle): other,
 * begun, put, synced, moving, moved, swapping, removing, removed, named, stored. A step that fails
 * ends the run with its error: one line, exit 1; settle's is printed, and no more, after "try".
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "mem.h"
#include "mountinfo.h"
#include "stage.h"

#define OPEN_MAX_  8
#define PATCH      STAGE_BLOCK
#define RECORD_LEN 700

static const struct stage_call waits = {.wait = true, .uid = 1000, .gid = 1000};

struct open_file {
    char name[64];
    uint64_t fh, size;
};

struct drive {
    const char *bucket, *dir;
    struct store *store;
    struct fetch *fetch;
    struct stage *s;
    struct stage_conf conf;
    struct open_file open[OPEN_MAX_]; /* logs */
};

struct words {
    char a[64], b[64];
    unsigned k;
};

/* Seen by meddle, and of no use to anybody else. */
static void mark(const char *what, const char *name, const char *value)
{
    cleanup_free char *text = xasprintf("mark:%s:%s:%s", what, name, value);
    (void)!access(text, F_OK);
}

static void mark_k(const char *what, const struct words *w)
{
    char k[16];
    snprintf(k, sizeof k, "%u", w->k);
    mark(what, w->a, k);
}

/* --- content --------------------------------------------------------------------------------- */

static unsigned seed_of(const char *name, unsigned k)
{
    unsigned sum = k * 17;
    for (const char *p = name; *p; p++)
        sum = sum * 31 + (unsigned char)*p;
    return sum % 1000003;
}

static unsigned char byte_of(unsigned seed, size_t i)
{
    return (unsigned char)(seed * 31 + i * 7 + (i >> 8) * 13 + (i >> 16) * 101);
}

static bool is_patched(const char *name)
{
    return name[0] == 'x' || name[0] == 'y';
}

/* A name that begins with x or z is large enough for an upload in parts, one with y for some
 * blocks. Those of x and y differ from each other in the beginning alone. */
static unsigned char *content_of(const char *name, unsigned k, size_t *ret_len)
{
    unsigned seed = seed_of(name, is_patched(name) ? 1 : k), patch = seed_of(name, k);
    size_t least = strchr("xz", name[0]) ? STAGE_MULTIPART : name[0] == 'y' ? 3 * STAGE_BLOCK : 300;
    size_t len = least + (size_t)seed * 131 % 60000;
    unsigned char *data = xmalloc(len);
    for (size_t i = 0; i < len; i++)
        data[i] = byte_of(i < PATCH ? patch : seed, i);
    *ret_len = len;
    return data;
}

/* --- steps ----------------------------------------------------------------------------------- */

static int step_open(struct drive *d, const struct words *w, struct err *err)
{
    (void)w;
    return stage_open(&d->s, &d->conf, err);
}

static int step_close(struct drive *d, const struct words *w, struct err *err)
{
    (void)w, (void)err;
    stage_close(d->s);
    d->s = NULL;
    return 0;
}

static int close_handle(struct drive *d, uint64_t fh, struct err *err)
{
    return stage_flush(d->s, &waits, fh, err) || stage_release(d->s, &waits, fh, err) ? -1 : 0;
}

/* As the kernel does: what is another file by now is looked up once more. */
static int look_and_open(struct drive *d, const char *name, int flags, uint64_t *ret_fh,
                         uint64_t *ret_size, struct err *err)
{
    struct stage_attr a;
    int rc = -1;
    for (int i = 0; i < 2 && rc; i++) {
        *err = (struct err){0};
        if (stage_lookup(d->s, &waits, STAGE_ROOT, name, &a, err))
            return -1;
        *ret_size = (uint64_t)a.st.st_size;
        rc = stage_open_file(d->s, &waits, a.st.st_ino, flags, ret_fh, err);
        stage_forget(d->s, a.st.st_ino, 1);
        if (rc && err->class != ERR_STALE)
            break;
    }
    return rc;
}

static int make(struct drive *d, const char *name, int flags, uint64_t *ret_fh, uint64_t *ret_size,
                struct err *err)
{
    struct stage_attr a;
    int rc = look_and_open(d, name, O_RDWR | flags, ret_fh, ret_size, err);
    if (rc == 0 || err->class != ERR_NOT_FOUND)
        return rc;
    *err = (struct err){0};
    return stage_create(d->s, &waits, STAGE_ROOT, name, 0644, O_RDWR | O_CREAT, &a, ret_fh, err);
}

/* In three pieces, so that there are moments at which it is half of what it will be. */
static int write_all(struct drive *d, const struct words *w, bool sync, struct err *err)
{
    uint64_t fh, size = 0;
    size_t len;
    mark_k("begun", w);
    cleanup_free unsigned char *data = content_of(w->a, w->k, &len);
    if (make(d, w->a, O_TRUNC, &fh, &size, err))
        return -1;
    for (size_t at = 0; at < len;) {
        size_t n = len - at < len / 3 + 1 ? len - at : len / 3 + 1;
        if (stage_write(d->s, &waits, fh, at, data + at, n, err))
            return -1;
        at += n;
    }
    if (sync && stage_fsync(d->s, &waits, fh, false, err))
        return -1;
    if (sync)
        mark_k("synced", w);
    if (close_handle(d, fh, err))
        return -1;
    mark_k(d->conf.commit == COMMIT_CLOSE ? "synced" : "put", w);
    return 0;
}

static int step_put(struct drive *d, const struct words *w, struct err *err)
{
    return write_all(d, w, false, err);
}

static int step_sync(struct drive *d, const struct words *w, struct err *err)
{
    return write_all(d, w, true, err);
}

static int step_other(struct drive *d, const struct words *w, struct err *err)
{
    cleanup_free char *dir = xasprintf("%s.other", d->dir);
    struct drive other = {.dir = dir, .conf = d->conf};
    other.conf.dir = dir;
    other.conf.commit = COMMIT_CLOSE;
    if (mkdir(dir, 0700) && errno != EEXIST)
        return err_sys(err, errno, "make the folder: %s", dir);
    if (stage_open(&other.s, &other.conf, err))
        return -1;
    mark_k("other", w);
    int rc = write_all(&other, w, false, err);
    stage_close(other.s);
    usleep(20000); /* the next look at the folder lists it anew */
    return rc;
}

static int step_patch(struct drive *d, const struct words *w, struct err *err)
{
    uint64_t fh, size = 0;
    size_t len;
    mark_k("begun", w);
    cleanup_free unsigned char *data = content_of(w->a, w->k, &len);
    if (make(d, w->a, 0, &fh, &size, err) || stage_write(d->s, &waits, fh, 0, data, PATCH, err) ||
        stage_fsync(d->s, &waits, fh, false, err))
        return -1;
    mark_k("synced", w);
    return close_handle(d, fh, err);
}

static int step_look(struct drive *d, const struct words *w, struct err *err)
{
    static unsigned char buf[STAGE_BLOCK];
    uint64_t fh, size = 0;
    size_t n;
    return make(d, w->a, 0, &fh, &size, err) ||
                   stage_read(d->s, &waits, fh, PATCH, buf, sizeof buf, &n, err) ||
                   close_handle(d, fh, err)
               ? -1
               : 0;
}

static struct open_file *log_of(struct drive *d, const char *name, struct err *err)
{
    struct open_file *free_one = NULL;
    for (size_t i = 0; i < OPEN_MAX_; i++) {
        if (strcmp(d->open[i].name, name) == 0)
            return &d->open[i];
        if (!d->open[i].name[0] && !free_one)
            free_one = &d->open[i];
    }
    if (!free_one || make(d, name, 0, &free_one->fh, &free_one->size, err))
        return NULL;
    snprintf(free_one->name, sizeof free_one->name, "%s", name);
    return free_one;
}

static int grow(struct drive *d, const struct words *w, bool sync, struct err *err)
{
    unsigned char record[RECORD_LEN];
    struct open_file *f = log_of(d, w->a, err);
    if (!f)
        return -1;
    mark_k("begun", w);
    for (size_t i = 0; i < sizeof record; i++)
        record[i] = byte_of(seed_of(w->a, w->k), i);
    if (stage_write(d->s, &waits, f->fh, f->size, record, sizeof record, err))
        return -1;
    f->size += sizeof record;
    if (sync && stage_fsync(d->s, &waits, f->fh, true, err))
        return -1;
    mark_k(sync ? "synced" : "put", w);
    return 0;
}

static int step_log(struct drive *d, const struct words *w, struct err *err)
{
    return grow(d, w, true, err);
}

static int step_more(struct drive *d, const struct words *w, struct err *err)
{
    return grow(d, w, false, err);
}

static int step_names(struct drive *d, const struct words *w, struct err *err)
{
    (void)w;
    if (stage_sync_names(d->s, &waits, err))
        return -1;
    mark("named", "", "");
    return 0;
}

/* With commit close a change of names lasts when its call returns. */
static int changed(struct drive *d, const char *what, const char *name, const char *to)
{
    mark(what, name, to);
    if (d->conf.commit == COMMIT_CLOSE)
        mark("named", "", "");
    return 0;
}

static int step_move(struct drive *d, const struct words *w, struct err *err)
{
    mark("moving", w->a, w->b);
    if (stage_rename(d->s, &waits, STAGE_ROOT, w->a, STAGE_ROOT, w->b, 0, err))
        return -1;
    return changed(d, "moved", w->a, w->b);
}

static int step_swap(struct drive *d, const struct words *w, struct err *err)
{
    char temp[72];
    snprintf(temp, sizeof temp, "%s.swap", w->a);
    mark("swapping", w->a, w->b);
    return stage_rename(d->s, &waits, STAGE_ROOT, w->a, STAGE_ROOT, temp, 0, err) ||
                   stage_rename(d->s, &waits, STAGE_ROOT, w->b, STAGE_ROOT, w->a, 0, err) ||
                   stage_rename(d->s, &waits, STAGE_ROOT, temp, STAGE_ROOT, w->b, 0, err)
               ? -1
               : 0;
}

static int step_safe(struct drive *d, const struct words *w, struct err *err)
{
    struct words temp = *w, move;
    snprintf(temp.a, sizeof temp.a, "%.50s.tmp", w->a);
    move = temp;
    memcpy(move.b, w->a, sizeof move.b);
    return write_all(d, &temp, true, err) || step_move(d, &move, err) ? -1 : 0;
}

static int step_remove(struct drive *d, const struct words *w, struct err *err)
{
    mark("removing", w->a, "");
    if (stage_unlink(d->s, &waits, STAGE_ROOT, w->a, err))
        return -1;
    return changed(d, "removed", w->a, "");
}

static int step_settle(struct drive *d, const struct words *w, struct err *err)
{
    struct err why = {0};
    int rc = stage_settle(d->s, clock_mono_ns() + 20 * NS_PER_S, &why);
    if (rc && strcmp(w->a, "try") == 0) {
        printf("unsettled %s\n", why.msg);
        return 0;
    }
    if (!rc)
        mark("stored", "", "");
    else if (err)
        *err = why;
    return rc;
}

static int step_pending(struct drive *d, const struct words *w, struct err *err)
{
    struct json_writer json;
    cleanup_bytes struct bytes text = {0};
    (void)w, (void)err;
    jw_init(&json, &text);
    jw_object(&json, NULL);
    stage_pending(d->s, &json);
    jw_end(&json);
    printf("%s\n", text.data);
    return 0;
}

struct export
{
    struct drive *d;
    const char *folder;
    struct err err;
};

static int export_bytes(struct export *x, uint64_t fh, int fd, struct err *err)
{
    static unsigned char buf[1 << 20];
    size_t n = sizeof buf;
    for (uint64_t at = 0; n == sizeof buf; at += n) {
        if (stage_read(x->d->s, &waits, fh, at, buf, sizeof buf, &n, err))
            return -1;
        if (write(fd, buf, n) != (ssize_t)n)
            return err_sys(&x->err, errno, "write");
    }
    return 0;
}

static bool export_one(void *arg, const char *name, const struct stage_attr *attr, uint64_t cookie)
{
    struct export *x = arg;
    struct err err = {0};
    cleanup_free char *path = xasprintf("%s/%s", x->folder, name);
    uint64_t fh, size;
    (void)cookie;
    if (S_ISDIR(attr->st.st_mode))
        return true;
    cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        err_sys(&x->err, errno, "write %s", path);
        return false;
    }
    if (!look_and_open(x->d, name, O_RDONLY, &fh, &size, &err)) {
        export_bytes(x, fh, fd, &err);
        close_handle(x->d, fh, err.class ? NULL : &err);
    }
    if (err.class) { /* the judge decides whether it may be so */
        printf("unreadable %s: %s\n", name, err.msg);
        unlink(path);
    }
    return !x->err.class;
}

static int step_export(struct drive *d, const struct words *w, struct err *err)
{
    struct export x = {.d = d, .folder = w->a};
    if (stage_readdir(d->s, &waits, STAGE_ROOT, 0, export_one, &x, err))
        return -1;
    if (x.err.class && err)
        *err = x.err;
    return x.err.class ? -1 : 0;
}

/* --- the run --------------------------------------------------------------------------------- */

static const struct step {
    const char *name;
    int (*run)(struct drive *d, const struct words *w, struct err *err);
} steps[] = {
    {"open", step_open},     {"close", step_close},   {"put", step_put},
    {"sync", step_sync},     {"log", step_log},       {"more", step_more},
    {"safe", step_safe},     {"move", step_move},     {"swap", step_swap},
    {"remove", step_remove}, {"settle", step_settle}, {"pending", step_pending},
    {"export", step_export}, {"other", step_other},   {"patch", step_patch},
    {"look", step_look},     {"names", step_names},
};

static int run_step(struct drive *d, const char *word, struct err *err)
{
    char name[16] = "";
    struct words w = {0};
    sscanf(word, "%15[a-z]:%63[^:]:%63[^:]", name, w.a, w.b);
    w.k = (unsigned)strtoul(w.b, NULL, 10);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (strcmp(name, steps[i].name) == 0)
            return d->s || steps[i].run == step_open || steps[i].run == step_other
                       ? steps[i].run(d, &w, err)
                       : err_set(err, ERR_USAGE, "%s: open first", word);
    return err_set(err, ERR_USAGE, "no such step: %s", word);
}

/* A copy of somebody else's mount would hold it up after its end. */
static void leave_foreign_mounts(void)
{
    cleanup_file FILE *f = fopen("/proc/self/mountinfo", "re");
    cleanup_free struct mount_row *row = xmalloc(sizeof *row);
    cleanup_free char *line = NULL;
    size_t size = 0;
    while (f && getline(&line, &size, f) > 0)
        if (mountinfo_line(line, row) && strcmp(row->type, "fuse.sampan") == 0)
            umount2(row->mountpoint, MNT_DETACH);
}

/* A namespace of its own, so that many can see their store at one place. */
static int see_at(struct drive *d, char *bucket, struct err *err)
{
    char *seen = strchr(bucket, '=');
    d->bucket = seen ? seen + 1 : bucket;
    if (!seen)
        return 0;
    *seen = '\0';
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        exit(77);
    leave_foreign_mounts();
    return mount(bucket, d->bucket, NULL, MS_BIND, NULL)
               ? err_sys(err, errno, "bind %s to %s", bucket, d->bucket)
               : 0;
}

static int connect_store(struct drive *d, const char *commit, struct err *err)
{
    const struct store_conf conf = {.anonymous = true};
    struct fetch_conf fc;
    cleanup_free char *uri =
        xasprintf("%s%s", strncmp(d->bucket, "s3://", 5) == 0 ? "" : "file://", d->bucket);
    fetch_conf_defaults(&fc);
    d->conf = (struct stage_conf){.dir = d->dir,
                                  .limit = 1ull << 30,
                                  .refresh_ns = NS_PER_MS,
                                  .grace_ns = NS_PER_MS,
                                  .patience_ns = 10 * NS_PER_S,
                                  .uid = 1000,
                                  .gid = 1000,
                                  .fresh = true};
    if (stage_commit_parse(commit, &d->conf.commit, &d->conf.interval_ns, err) ||
        store_open(&d->store, uri, &conf, err) || fetch_new(&d->fetch, &fc, err))
        return -1;
    d->conf.store = d->store;
    d->conf.fetch = d->fetch;
    return 0;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    if (argc < 5) {
        fprintf(stderr, "usage: drive-stage BUCKET DIR COMMIT STEP...\n");
        return 2;
    }
    struct drive d = {.dir = argv[2]};
    int rc = see_at(&d, argv[1], &err) || connect_store(&d, argv[3], &err);
    if (rc)
        fprintf(stderr, "drive-stage: %s\n", err.msg);
    for (int i = 4; i < argc && !rc; i++) {
        rc = run_step(&d, argv[i], &err);
        if (rc)
            fprintf(stderr, "drive-stage: %s: %s\n", argv[i], err.msg);
    }
    if (d.s)
        stage_close(d.s);
    if (d.fetch)
        fetch_free(d.fetch);
    if (d.store)
        store_close(d.store);
    return rc ? 1 : 0;
}
