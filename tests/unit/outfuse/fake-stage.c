#include "fake-stage.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "sync.h"

#define NODES 64

struct node {
    uint64_t ino, parent;
    char name[256];
    mode_t mode;
    char *data;
    size_t len;
    unsigned lookups, opens;
    int64_t changed;
};

struct stage {
    struct lock lock;
    struct cond let_go_cond;
    bool let_go;
    struct node nodes[NODES];
    size_t n;
    unsigned changes, writes, failures;
    struct {
        uint64_t unique, ino;
    } journal[256];
    size_t n_journal;
    struct lock news_lock;
    stage_changed_fn *news;
    void *news_arg;
};

struct stage *fake_stage(void)
{
    struct stage *s = xcalloc(1, sizeof(*s));

    lock_init(&s->lock, RANK_MOUNT, "fake stage");
    lock_init(&s->news_lock, RANK_CONTROL, "fake news");
    cond_init(&s->let_go_cond);
    s->nodes[s->n++] = (struct node){.ino = STAGE_ROOT, .mode = S_IFDIR | 0755};
    return s;
}

void fake_free(struct stage *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->nodes[i].data);
    cond_destroy(&s->let_go_cond);
    lock_destroy(&s->news_lock);
    lock_destroy(&s->lock);
    free(s);
}

void fake_let_go(struct stage *s)
{
    ACQUIRE(&s->lock);
    s->let_go = true;
    cond_broadcast(&s->let_go_cond);
}

unsigned fake_changes(struct stage *s)
{
    ACQUIRE(&s->lock);
    return s->changes;
}

unsigned fake_writes(struct stage *s)
{
    ACQUIRE(&s->lock);
    return s->writes;
}

unsigned fake_failures(struct stage *s)
{
    ACQUIRE(&s->lock);
    return s->failures;
}

static struct node *of(struct stage *s, uint64_t ino)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->nodes[i].ino == ino)
            return &s->nodes[i];
    return NULL;
}

static struct node *named(struct stage *s, uint64_t parent, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->nodes[i].parent == parent && !strcmp(s->nodes[i].name, name))
            return &s->nodes[i];
    return NULL;
}

unsigned fake_lookups(struct stage *s, uint64_t ino)
{
    ACQUIRE(&s->lock);
    const struct node *n = of(s, ino);
    return n ? n->lookups : 0;
}

void fake_news(struct stage *s, uint64_t ino, const char *name)
{
    ACQUIRE(&s->news_lock);
    if (s->news)
        s->news(s->news_arg, ino, name);
}

/* Under the lock. */
static int fail_in_trouble(struct stage *s, const char *name, struct err *err)
{
    if (s->let_go || strncmp(name, "slow-trouble", 12) != 0)
        return 0;
    s->failures++;
    return err_set(err, ERR_TRANSIENT, "the store has trouble");
}

bool stage_ask_again(struct stage *s, const struct stage_call *c, struct err *err)
{
    (void)s;
    if (!c->wait || err->class != ERR_TRANSIENT)
        return false;
    if (c->given_up(c->arg)) {
        err_sys(err, EINTR, "given up");
        return false;
    }
    return true;
}

/* Under the lock. */
static int wait_if_slow(struct stage *s, const struct stage_call *c, const char *name,
                        struct err *err)
{
    if (s->let_go || strncmp(name, "slow", 4) != 0)
        return 0;
    if (!c->wait)
        return STAGE_WAIT;
    if (fail_in_trouble(s, name, err))
        return -1;
    while (!s->let_go) {
        if (c->given_up && c->given_up(c->arg))
            return err_sys(err, EINTR, "given up");
        cond_wait_for(&s->let_go_cond, &s->lock, NS_PER_MS);
    }
    return 0;
}

/* 0: it was not done yet. Else the inode it was about. */
static uint64_t done_before(struct stage *s, const struct stage_call *c)
{
    for (size_t i = 0; i < s->n_journal; i++)
        if (c->unique && s->journal[i].unique == c->unique)
            return s->journal[i].ino;
    return 0;
}

static void done(struct stage *s, const struct stage_call *c, uint64_t ino)
{
    s->changes++;
    if (c->unique) {
        s->journal[s->n_journal].unique = c->unique;
        s->journal[s->n_journal++].ino = ino;
    }
}

static void attr(const struct node *n, struct stage_attr *ret)
{
    *ret = (struct stage_attr){.valid_ns = 2500000000};
    ret->st.st_ino = n->ino;
    ret->st.st_mode = n->mode;
    ret->st.st_nlink = 1;
    ret->st.st_size = (off_t)n->len;
    ret->st.st_mtim.tv_sec = n->changed;
}

static struct node *make(struct stage *s, uint64_t parent, const char *name, mode_t mode)
{
    struct node *n = &s->nodes[s->n];

    *n = (struct node){.ino = ++s->n, .parent = parent, .mode = mode};
    snprintf(n->name, sizeof(n->name), "%s", name);
    return n;
}

int stage_lookup(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                 struct stage_attr *ret, struct err *err)
{
    ACQUIRE(&s->lock);
    int rc;
    struct node *n = named(s, parent, name);

    if ((rc = wait_if_slow(s, c, name, err)))
        return rc;
    if (!n)
        return err_sys(err, ENOENT, "%s", name);
    n->lookups++;
    attr(n, ret);
    return 0;
}

void stage_forget(struct stage *s, uint64_t ino, uint64_t lookups)
{
    ACQUIRE(&s->lock);
    of(s, ino)->lookups -= (unsigned)lookups;
}

int stage_getattr(struct stage *s, const struct stage_call *c, uint64_t ino, struct stage_attr *ret,
                  struct err *err)
{
    ACQUIRE(&s->lock);
    const struct node *n = of(s, ino);

    (void)c;
    if (!n)
        return err_sys(err, ESTALE, "inode");
    attr(n, ret);
    return 0;
}

int stage_setattr(struct stage *s, const struct stage_call *c, uint64_t ino, const struct stat *st,
                  unsigned what, struct stage_attr *ret, struct err *err)
{
    ACQUIRE(&s->lock);
    struct node *n = of(s, ino);

    (void)err;
    if (what & STAGE_SET_MODE)
        n->mode = (n->mode & S_IFMT) | (st->st_mode & 07777);
    if (what & STAGE_SET_MTIME)
        n->changed = st->st_mtim.tv_sec;
    done(s, c, ino);
    attr(n, ret);
    return 0;
}

int stage_mkdir(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                mode_t mode, struct stage_attr *ret, struct err *err)
{
    ACQUIRE(&s->lock);
    int rc;
    uint64_t before = done_before(s, c);

    if ((rc = wait_if_slow(s, c, name, err)))
        return rc;
    if (before) {
        attr(of(s, before), ret);
        return 0;
    }
    if (named(s, parent, name))
        return err_sys(err, EEXIST, "%s", name);
    struct node *n = make(s, parent, name, S_IFDIR | mode);
    done(s, c, n->ino);
    attr(n, ret);
    return 0;
}

int stage_symlink(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                  const char *target, struct stage_attr *ret, struct err *err)
{
    ACQUIRE(&s->lock);
    struct node *n = make(s, parent, name, S_IFLNK | 0777);

    (void)err;
    n->data = xstrdup(target);
    n->len = strlen(target);
    done(s, c, n->ino);
    attr(n, ret);
    return 0;
}

int stage_readlink(struct stage *s, const struct stage_call *c, uint64_t ino, struct bytes *ret,
                   struct err *err)
{
    ACQUIRE(&s->lock);
    const struct node *n = of(s, ino);

    (void)c;
    (void)err;
    bytes_add(ret, n->data, n->len);
    return 0;
}

int stage_unlink(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                 struct err *err)
{
    ACQUIRE(&s->lock);
    struct node *n = named(s, parent, name);

    if (done_before(s, c))
        return 0;
    if (!n)
        return err_sys(err, ENOENT, "%s", name);
    n->parent = 0;
    done(s, c, n->ino);
    return 0;
}

int stage_rmdir(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                struct err *err)
{
    return stage_unlink(s, c, parent, name, err);
}

int stage_rename(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                 uint64_t new_parent, const char *new_name, unsigned flags, struct err *err)
{
    ACQUIRE(&s->lock);
    struct node *n = named(s, parent, name);

    if (flags)
        return err_sys(err, EINVAL, "flags %x", flags);
    if (!n)
        return err_sys(err, ENOENT, "%s", name);
    n->parent = new_parent;
    snprintf(n->name, sizeof(n->name), "%s", new_name);
    done(s, c, n->ino);
    return 0;
}

/* fn() may ask for what it was told of: the lock is held to look only. */
int stage_readdir(struct stage *s, const struct stage_call *c, uint64_t ino, uint64_t after_cookie,
                  stage_dir_fn *fn, void *arg, struct err *err)
{
    (void)c;
    (void)err;
    for (size_t i = 0;; i++) {
        struct node n;
        struct stage_attr a;
        {
            ACQUIRE(&s->lock);
            if (i == s->n)
                return 0;
            n = s->nodes[i];
        }
        attr(&n, &a);
        if (n.parent == ino && n.ino > after_cookie && !fn(arg, n.name, &a, n.ino))
            return 0;
    }
}

int stage_create(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                 mode_t mode, int flags, struct stage_attr *ret, uint64_t *ret_fh, struct err *err)
{
    ACQUIRE(&s->lock);
    uint64_t before = done_before(s, c);
    struct node *n = before ? of(s, before) : named(s, parent, name);

    if (!before && n && (flags & O_EXCL))
        return err_sys(err, EEXIST, "%s", name);
    if (!n)
        n = make(s, parent, name, S_IFREG | mode);
    if (!before) {
        done(s, c, n->ino);
        n->opens++;
        n->lookups++;
    }
    attr(n, ret);
    *ret_fh = n->ino + 1000;
    return 0;
}

int stage_open_file(struct stage *s, const struct stage_call *c, uint64_t ino, int flags,
                    uint64_t *ret_fh, struct err *err)
{
    ACQUIRE(&s->lock);
    struct node *n = of(s, ino);

    (void)c;
    if (!n)
        return err_sys(err, ESTALE, "inode");
    if (flags & O_TRUNC)
        n->len = 0;
    n->opens++;
    *ret_fh = ino + 1000;
    return 0;
}

int stage_read(struct stage *s, const struct stage_call *c, uint64_t fh, uint64_t off, void *buf,
               size_t len, size_t *ret_n, struct err *err)
{
    ACQUIRE(&s->lock);
    int rc;
    const struct node *n = of(s, fh - 1000);

    if (!n)
        return err_sys(err, EBADF, "handle");
    if ((rc = wait_if_slow(s, c, n->name, err)))
        return rc;
    *ret_n = off >= n->len ? 0 : n->len - off < len ? n->len - off : len;
    if (*ret_n)
        memcpy(buf, n->data + off, *ret_n);
    return 0;
}

int stage_await(struct stage *s, const struct stage_call *c, uint64_t fh, uint64_t off, size_t len,
                bool *ret_from_store, struct err *err)
{
    (void)off;
    (void)len;
    ACQUIRE(&s->lock);
    const struct node *n = of(s, fh - 1000);

    *ret_from_store = false;
    return n ? wait_if_slow(s, c, n->name, err) : err_sys(err, EBADF, "handle");
}

int stage_write(struct stage *s, const struct stage_call *c, uint64_t fh, uint64_t off,
                const void *data, size_t len, struct err *err)
{
    ACQUIRE(&s->lock);
    int rc;
    struct node *n = of(s, fh - 1000);

    if (!n)
        return err_sys(err, EBADF, "handle");
    if ((rc = wait_if_slow(s, c, n->name, err)))
        return rc;
    if (!strcmp(n->name, "full") && off + len > n->len)
        return err_sys(err, ENOSPC, "no room");
    if (off + len > n->len) {
        n->data = xrealloc(n->data, off + len);
        if (off > n->len)
            memset(n->data + n->len, 0, off - n->len);
        n->len = off + len;
    }
    memcpy(n->data + off, data, len);
    n->changed++;
    s->writes++;
    return 0;
}

int stage_fallocate(struct stage *s, const struct stage_call *c, uint64_t fh, int mode,
                    uint64_t off, uint64_t len, struct err *err)
{
    (void)s;
    (void)c;
    (void)fh;
    (void)off;
    (void)len;
    return mode ? err_sys(err, EOPNOTSUPP, "fallocate") : 0;
}

/* Carried by who waits for it: he may be told to leave, and the call goes on. */
static bool is_light(const struct node *n)
{
    return !strncmp(n->name, "slow-light", 10);
}

bool stage_flush_is_light(struct stage *s, uint64_t fh)
{
    ACQUIRE(&s->lock);
    const struct node *n = of(s, fh - 1000);

    return n && is_light(n) && !s->let_go;
}

static void carry(struct stage *s, const struct stage_call *c)
{
    bool left = false;

    while (!s->let_go) {
        if (!left && c->given_up(c->arg)) {
            left = true;
            c->leave(c->arg);
        }
        cond_wait_for(&s->let_go_cond, &s->lock, NS_PER_MS);
    }
}

int stage_flush(struct stage *s, const struct stage_call *c, uint64_t fh, struct err *err)
{
    ACQUIRE(&s->lock);
    int rc;
    const struct node *n = of(s, fh - 1000);

    if (!n)
        return err_sys(err, EBADF, "handle");
    if (c->wait && is_light(n))
        carry(s, c);
    if ((rc = wait_if_slow(s, c, n->name, err)))
        return rc;
    if (!strcmp(n->name, "denied"))
        return err_set(err, ERR_DENIED, "put denied: AccessDenied");
    return 0;
}

int stage_fsync(struct stage *s, const struct stage_call *c, uint64_t fh, bool data_only,
                struct err *err)
{
    (void)data_only;
    return stage_flush(s, c, fh, err);
}

int stage_release(struct stage *s, const struct stage_call *c, uint64_t fh, struct err *err)
{
    ACQUIRE(&s->lock);
    struct node *n = of(s, fh - 1000);

    (void)c;
    if (!n || !n->opens)
        return err_sys(err, EBADF, "handle");
    n->opens--;
    return 0;
}

int stage_statfs(struct stage *s, struct statvfs *ret, struct err *err)
{
    (void)s;
    (void)err;
    *ret = (struct statvfs){.f_bsize = 4096, .f_frsize = 4096, .f_blocks = 1000, .f_bavail = 10};
    return 0;
}

int stage_sync(struct stage *s, const struct stage_call *c, struct err *err)
{
    (void)s;
    (void)c;
    (void)err;
    return 0;
}

int stage_sync_names(struct stage *s, const struct stage_call *c, struct err *err)
{
    (void)s;
    (void)c;
    (void)err;
    return 0;
}

void stage_on_change(struct stage *s, stage_changed_fn *fn, void *arg)
{
    ACQUIRE(&s->news_lock);
    s->news = fn;
    s->news_arg = arg;
}
