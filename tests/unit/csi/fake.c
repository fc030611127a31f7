#include "fake.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "control.h"
#include "fake-store.h"
#include "mem.h"

/* The lock is this process's: one that ends at a step leaves it to nobody. */
struct fake_mounter {
    struct mounter base;
    struct fake *fake;
    pthread_mutex_t lock;
};

static struct fake_mounter one = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void unlock(pthread_mutex_t **m)
{
    pthread_mutex_unlock(*m);
}
static pthread_mutex_t *lock(struct mounter *m)
{
    pthread_mutex_t *mutex = &((struct fake_mounter *)m)->lock;
    pthread_mutex_lock(mutex);
    return mutex;
}
#define LOCKED(m) CLEANUP(unlock) pthread_mutex_t *locked_ __attribute__((unused)) = lock(m)

static struct fake *of(struct mounter *m)
{
    return ((struct fake_mounter *)m)->fake;
}

void fake_step(void *fake, const char *what)
{
    struct fake *f = fake;
    (void)what;
    int step = ++f->step;
    if (step == f->die_at)
        _exit(FAKE_DIED);
    struct rlimit limit;
    if (step == f->full_at && getrlimit(RLIMIT_FSIZE, &limit) == 0) {
        limit.rlim_cur = 0;
        setrlimit(RLIMIT_FSIZE, &limit);
    }
}

/* The topmost mount on a path. */
static struct fake_mount *find(struct fake *f, const char *path)
{
    for (int i = FAKE_MOUNTS - 1; i >= 0; i--)
        if (*path && strcmp(f->mounts[i].path, path) == 0)
            return &f->mounts[i];
    return NULL;
}

const struct fake_mount *fake_at(const struct fake *f, const char *path)
{
    return find((struct fake *)(uintptr_t)f, path);
}

size_t fake_count(const struct fake *f)
{
    size_t n = 0;
    for (int i = 0; i < FAKE_MOUNTS; i++)
        n += *f->mounts[i].path != '\0';
    return n;
}

static void put(struct fake *f, const char *path, uint64_t dev, bool read_only)
{
    int last = -1;
    for (int i = 0; i < FAKE_MOUNTS; i++)
        if (*f->mounts[i].path)
            last = i;
    struct fake_mount *m = &f->mounts[last + 1];
    m->dev = dev;
    m->read_only = read_only;
    snprintf(m->path, sizeof m->path, "%s", path);
}

static struct fake_owner *owner_of(struct fake *f, uint64_t dev)
{
    for (int i = 0; i < FAKE_MOUNTS; i++)
        if (f->served[i].dev == dev)
            return &f->served[i];
    return NULL;
}

static void serve(struct fake *f, uint64_t dev, const char *mountpoint)
{
    struct fake_owner *o = owner_of(f, 0);
    o->dev = dev;
    snprintf(o->mountpoint, sizeof o->mountpoint, "%s", mountpoint);
}

static void serve_no_more(struct fake *f, uint64_t dev)
{
    struct fake_owner *o = dev ? owner_of(f, dev) : NULL;
    if (o)
        *o = (struct fake_owner){0};
}

void fake_lose(struct fake *f)
{
    memcpy(f->lost, f->served, sizeof f->served);
    memset(f->served, 0, sizeof f->served);
}

/* With its last mount a file system ends. */
void fake_umount(struct fake *f, const char *path)
{
    struct fake_mount *at = find(f, path);
    if (!at)
        return;
    *at->path = '\0';
    for (int i = 0; i < FAKE_MOUNTS; i++)
        if (*f->mounts[i].path && f->mounts[i].dev == at->dev)
            return;
    serve_no_more(f, at->dev);
}

/* --- programs --------------------------------------------------------------------------------- */

static int run_mount(struct fake *f, const char *mountpoint, struct err *err)
{
    if (f->busy > 0) {
        f->busy--;
        return err_set(err, ERR_LIMIT, "mount: " MOUNT_SAYS_IN_USE ": /c: by process 7");
    }
    if (f->refuse)
        return err_set(err, f->refuse, "mount: refused by the test");
    fake_step(f, "mount begins");
    for (int i = 0; i < FAKE_MOUNTS; i++)
        if (f->served[i].dev && strcmp(f->served[i].mountpoint, mountpoint) == 0)
            return err_set(err, ERR_LIMIT, "mount: it is served still");
    struct fake_mount *dead = find(f, mountpoint);
    if (dead)
        *dead->path = '\0';
    uint64_t dev = ++f->last_dev;
    serve(f, dev, mountpoint);
    put(f, mountpoint, dev, true);
    f->mounted++;
    fake_step(f, "mount ended");
    return 0;
}

static struct fake_owner *owner_at(struct fake *f, const char *mountpoint)
{
    for (int i = 0; i < FAKE_MOUNTS; i++)
        if (f->served[i].dev && strcmp(f->served[i].mountpoint, mountpoint) == 0)
            return &f->served[i];
    return NULL;
}

static int run_umount(struct fake *f, const char *mountpoint, struct err *err)
{
    struct fake_mount *m = find(f, mountpoint);
    fake_step(f, "umount begins");
    if (f->copied > 0 && f->copied--) {
        struct fake_owner *o = owner_at(f, mountpoint);
        if (m)
            *m->path = '\0';
        else if (o)
            *o = (struct fake_owner){0}; /* by itself, right before it was told to */
        return err_set(err, ERR_FAILED, "umount: its processes go on, or nothing is mounted there");
    }
    if (!m)
        return err_set(err, ERR_NOT_FOUND, "umount: nothing is mounted there");
    serve_no_more(f, m->dev);
    *m->path = '\0';
    f->unmounted++;
    fake_step(f, "umount ended");
    return 0;
}

static int fake_run(struct mounter *m, const char *const *argv, uint64_t deadline_ns,
                    struct bytes *out, struct err *err)
{
    struct fake *f = of(m);
    const char *last = "";
    if (fake_store_knows(argv[1]))
        return fake_store_run(f, argv, out, err);
    LOCKED(m);
    f->deadline_ns = deadline_ns;
    if (f->late)
        return err_sys(err, ETIMEDOUT, "%s: it did not end in time", argv[1]);
    *f->words = '\0';
    for (int i = 1; argv[i]; i++) {
        size_t n = strlen(f->words);
        snprintf(f->words + n, sizeof f->words - n, "%s%s", n ? " " : "", argv[i]);
        last = argv[i];
    }
    if (strcmp(argv[1], "mount") == 0)
        return run_mount(f, last, err);
    if (strcmp(argv[1], "umount") == 0)
        return run_umount(f, last, err);
    if (strcmp(argv[1], "upgrade") == 0) {
        f->upgraded++;
        return 0;
    }
    return err_set(err, ERR_BUG, "%s: no such program", argv[1]);
}

/* --- mounts ----------------------------------------------------------------------------------- */

static int fake_look(struct mounter *m, const char *path, struct mount_look *ret, struct err *err)
{
    LOCKED(m);
    const struct fake_mount *at = find(of(m), path);
    *ret = (struct mount_look){0};
    if (of(m)->blind)
        return err_sys(err, EMFILE, "read /proc/self/mountinfo");
    if (at)
        *ret = (struct mount_look){.mounted = true, .ours = at->dev != 0, .dev = at->dev};
    return 0;
}

static void fake_serving(struct mounter *m, const char *mountpoint, struct mount_serving *ret)
{
    LOCKED(m);
    *ret = (struct mount_serving){0};
    for (int i = 0; i < FAKE_MOUNTS; i++)
        if (of(m)->served[i].dev && strcmp(of(m)->served[i].mountpoint, mountpoint) == 0)
            *ret = (struct mount_serving){.alive = true, .pid = 1, .keeper_pid = 1};
}

static int fake_hold(struct mounter *m, const char *mountpoint, int ret_fds[MOUNT_FDS],
                     struct err *err)
{
    (void)mountpoint;
    LOCKED(m);
    of(m)->held++;
    for (int i = 0; i < MOUNT_FDS; i++)
        ret_fds[i] = dup(2);
    return ret_fds[MOUNT_FDS - 1] < 0 ? err_set(err, ERR_LIMIT, "no descriptor") : 0;
}

static int fake_revive(struct mounter *m, const int fds[MOUNT_FDS], uint64_t deadline_ns,
                       struct err *err)
{
    (void)fds;
    (void)deadline_ns;
    LOCKED(m);
    struct fake *f = of(m);
    f->revived++;
    if (!f->revives)
        return err_set(err, ERR_FAILED, "revive: not in this test");
    memcpy(f->served, f->lost, sizeof f->served);
    return 0;
}

static int fake_bind(struct mounter *m, const char *from, const char *to, bool read_only,
                     struct err *err)
{
    LOCKED(m);
    struct fake *f = of(m);
    const struct fake_mount *at = find(f, from);
    if (!at)
        return err_set(err, ERR_BUG, "bind: nothing is mounted at %s", from);
    if (access(to, F_OK))
        return err_set(err, ERR_NOT_FOUND, "bind: no folder %s", to);
    fake_step(f, "bind begins");
    put(f, to, at->dev, read_only);
    fake_step(f, "bind ended");
    return 0;
}

static int fake_unbind(struct mounter *m, const char *path, struct err *err)
{
    LOCKED(m);
    (void)err;
    fake_step(of(m), "unbind begins");
    fake_umount(of(m), path);
    fake_step(of(m), "unbind ended");
    return 0;
}

static int fake_usage(struct mounter *m, const char *path, struct mount_usage *ret, struct err *err)
{
    (void)path;
    (void)err;
    of(m)->asked++;
    while (of(m)->frozen)
        usleep(1000);
    *ret = (struct mount_usage){.bytes_total = 100,
                                .bytes_used = 60,
                                .bytes_free = 40,
                                .files_total = 10,
                                .files_used = 6,
                                .files_free = 4};
    return 0;
}

static bool fake_pod_sees(struct mounter *m, const char *pod_uid, uint64_t dev)
{
    const struct fake *f = of(m);
    return dev && dev == f->pod_dev && strcmp(pod_uid, f->pod_uid) == 0;
}

static enum err_class take_refusal(struct fake *f)
{
    enum err_class class = f->own_refuse;
    f->own_refuse = ERR_NONE;
    return class;
}

static int fake_own(struct mounter *m, const char *path, int64_t gid, struct err *err)
{
    LOCKED(m);
    struct fake *f = of(m);
    const struct fake_mount *at = find(f, path);
    if (f->own_refuse)
        return err_set(err, take_refusal(f), "own: refused by the test");
    if (!at)
        return err_set(err, ERR_BUG, "own: nothing is mounted at %s", path);
    fake_step(f, "own begins");
    f->owned_dev = at->dev;
    f->owned_by = gid;
    f->held_before = f->held;
    fake_step(f, "own ended");
    return 0;
}

static const struct mounter_ops ops = {fake_run,      fake_look, fake_serving, fake_hold,
                                       fake_revive,   fake_bind, fake_unbind,  fake_usage,
                                       fake_pod_sees, fake_own};

struct fake *fake_new(void)
{
    struct fake *f =
        mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return f == MAP_FAILED ? NULL : f;
}

struct mounter *fake_mounter(struct fake *f)
{
    one.base.ops = &ops;
    one.fake = f;
    return &one.base;
}
