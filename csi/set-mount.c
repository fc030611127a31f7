/*
 * What brings a set up, mounts it again, and ends it.
 *
 * A set's life, each step repeatable from wherever it was cut off:
 *   record written -> folders, secrets -> `sampan mount` -> descriptors held
 *   … descriptors let go -> `sampan umount` -> folders, secrets, log gone -> record removed
 */
#define LOG_MODULE "node"
#include <string.h>
#include <time.h>

#include "catalogs.h"
#include "clock.h"
#include "control.h"
#include "early.h"
#include "mem.h"
#include "node-internal.h"

#define RETRY_NS      (100 * NS_PER_MS)
#define RETRY_MOST_NS (30 * NS_PER_S)
#define ENDS_WITHIN   "10s" /* the processes of a mount that is gone */

/* --- up --------------------------------------------------------------------------------------- */

/* Others look for their set meanwhile. */
static void fill(struct node *n, struct set *s, const struct set_wish *wish)
{
    cleanup_bytes struct bytes identity = {0}, words = {0};
    attributes_identity(wish->attributes, &identity);
    set_choose_words(n, s->key, wish, &words);
    ACQUIRE(&n->lock);
    free(s->uri);
    free(s->identity);
    bytes_release(&s->words);
    s->uri = xstrdup(wish->attributes->value[ATTR_URI]);
    s->identity = bytes_take(&identity);
    s->keyed = wish->secrets->keys.len > 0;
    s->tokened = wish->secrets->token.len > 0;
    s->words = words;
    words = (struct bytes){0};
}

static void empty(struct node *n, struct set *s)
{
    ACQUIRE(&n->lock);
    *s->uri = '\0';
}

static bool is_up(struct node *n, const struct set *s)
{
    struct mount_serving serving;
    if (!may_be_mount(n, s->mountpoint))
        return false;
    n->mounter->ops->serving(n->mounter, s->mountpoint, &serving);
    return serving.alive;
}

/* Somebody else is there still, or already: an owner that ends, or a start that outlived the plugin
 * which made it. Both pass. */
static bool passes(const struct err *why)
{
    return strstr(why->msg, MOUNT_SAYS_IN_USE) || strstr(why->msg, MOUNT_SAYS_MOUNTED) ||
           strstr(why->msg, MOUNT_SAYS_NOT_EMPTY) || /* a lost mount's last helper ends */
           strstr(why->msg, MOUNT_SAYS_SERVED);
}

static int run_mount(struct node *n, const struct set *s, uint64_t deadline_ns, struct err *err)
{
    cleanup_free char *log = set_path(n, s->key, SET_LOG);
    cleanup_free char *keys = set_path(n, s->key, SET_KEYS);
    cleanup_free char *token = set_path(n, s->key, SET_TOKEN);
    cleanup_free char *several = set_path(n, s->key, SET_SEVERAL);
    size_t n_words = 0, i = 0;
    for (size_t at = 0; at < s->words.len; at += strlen(s->words.data + at) + 1)
        n_words++;
    cleanup_free const char **argv = xcalloc(n_words + 16, sizeof *argv);
    argv[i++] = "sampan";
    argv[i++] = "mount";
    argv[i++] = "--quiet";
    argv[i++] = "--allow-other";
    argv[i++] = "--log";
    argv[i++] = log;
    for (size_t at = 0; at < s->words.len; at += strlen(s->words.data + at) + 1)
        argv[i++] = s->words.data + at;
    if (s->keyed) {
        argv[i++] = "--credentials";
        argv[i++] = keys;
    }
    if (s->tokened) {
        argv[i++] = "--peer-token-file";
        argv[i++] = token;
    }
    argv[i++] = "--";
    argv[i++] = uri_is_several(s->uri) ? several : s->uri;
    argv[i++] = s->mountpoint;
    return n->mounter->ops->run(n->mounter, argv, deadline_ns, NULL, err);
}

static int mount_until(struct node *n, const struct set *s, uint64_t deadline_ns, struct err *err)
{
    const struct timespec pause = {.tv_nsec = RETRY_NS};
    uint64_t give_up = clock_mono_ns() + RETRY_MOST_NS;
    for (;;) {
        struct err why = {0};
        if (run_mount(n, s, deadline_ns, &why) == 0 || is_up(n, s))
            return 0;
        uint64_t now = clock_mono_ns();
        if (!passes(&why) || now > give_up || now > deadline_ns) {
            *err = why;
            return -1;
        }
        nanosleep(&pause, NULL);
    }
}

/* A start that was broken off before its file was there, by a plugin of before that copied it. */
static bool lacks_file(const struct set *s)
{
    const char *file = set_named_file(s);
    return file && access(file, R_OK);
}

static int need_file(const struct node *n, const struct set *s, const struct attributes *a,
                     struct err *err)
{
    return set_named_file(s) ? catalog_need(n->conf.state, a->value[ATTR_VERSION], err) : 0;
}

static int bring_up(struct node *n, struct set *s, uint64_t deadline_ns, struct err *err)
{
    if (set_make_files(n, s, err) || mount_until(n, s, deadline_ns, err))
        return -1;
    counter_add(&n->stats.mounts, 1);
    s->given = false;
    s->hold_after = 0;
    return 0;
}

static int bring_up_again(struct node *n, struct set *s, uint64_t deadline_ns, struct err *err)
{
    counter_add(&n->stats.lost, !s->lost);
    s->lost = true;
    if (bring_up(n, s, deadline_ns, err))
        return -1;
    s->lost = false;
    log_warn(n->conf.log, "set %s: it was lost, and is mounted again", s->uri);
    counter_add(&n->stats.healed, 1);
    s->anew = true;
    return 0;
}

/* Another set may have it, too. */
static void drop_version(struct node *n, const struct set *gone)
{
    const char *file = set_named_file(gone);
    ACQUIRE(&n->lock);
    for (const struct set *s = n->sets; s && file; s = s->next)
        if (s != gone && *s->uri && memmem(s->words.data, s->words.len, file, strlen(file)))
            return;
    if (file)
        early_remove(file);
}

/* What a start that failed has left. */
static void clean(struct node *n, struct set *s)
{
    drop_version(n, s);
    set_remove_files(n, s);
    if (state_remove(&n->sets_dir, s->key, NULL) == 0)
        empty(n, s);
}

/* A writable set for a group: its root belongs to the group and hands it down (set-gid). What was
 * there before keeps its group. */
static int give_root(struct node *n, struct set *s, struct err *err)
{
    int64_t gid = set_group(s);
    if (gid < 0 || s->given)
        return 0;
    if (n->mounter->ops->own(n->mounter, s->mountpoint, gid, err))
        return -1;
    s->given = true;
    return set_store(n, s, err);
}

/* What follows a mount. Its root first: as long as the descriptors are held, whoever touches a
 * mount that nobody serves waits, and who has the set begun would wait for himself. */
static int take_up(struct node *n, struct set *s, struct err *err)
{
    if (s->holds || clock_mono_ns() < s->hold_after)
        return 0;
    if (give_root(n, s, err))
        return err_wrap(err, "set %s", s->uri);
    set_hold(n, s);
    return 0;
}

/* Keeper and owner were killed: the mount goes on with the descriptors that are held here, which
 * are let go where it does not. As long as they are held, whoever touches the mount waits, `sampan
 * mount` as well. */
static bool go_on(struct node *n, struct set *s, uint64_t deadline_ns)
{
    struct err why = {0};
    if (s->holds && may_be_mount(n, s->mountpoint)) {
        if (n->mounter->ops->revive(n->mounter, s->held, deadline_ns, &why) == 0 || is_up(n, s)) {
            counter_add(&n->stats.revived, 1);
            log_warn(n->conf.log, "set %s: keeper and owner were killed: revived", s->uri);
            return true;
        }
        log_warn(n->conf.log, "set %s: it could not be revived: %s", s->uri, why.msg);
    }
    set_let_go(s);
    return false;
}

int set_up(struct node *n, const char *key, const struct set_wish *wish, uint64_t deadline_ns,
           struct err *err)
{
    cleanup_set struct set_scope scope = {n, set_begin_or_add(n, key)};
    struct set *s = scope.set;
    if (*s->uri && (is_up(n, s) || set_show_again(n, s) || go_on(n, s, deadline_ns)))
        return take_up(n, s, err);
    if (state_known(&n->sets_dir, key, err))
        return -1;
    bool is_new = !*s->uri;
    if (is_new || lacks_file(s))
        fill(n, s, wish);
    if (set_store(n, s, err) || set_write_secrets(n, s, wish->secrets, err) ||
        need_file(n, s, wish->attributes, err) ||
        (is_new ? bring_up(n, s, deadline_ns, err) : bring_up_again(n, s, deadline_ns, err))) {
        if (is_new)
            clean(n, s);
        return -1;
    }
    node_watch_poke(n);
    return take_up(n, s, err);
}

int set_heal(struct node *n, const char *key, bool *ret_anew, uint64_t deadline_ns, struct err *err)
{
    cleanup_set struct set_scope scope = {n, set_try(n, key)};
    struct set *s = scope.set;
    *ret_anew = false;
    if (!s || !*s->uri)
        return 0;
    if (!is_up(n, s) && !set_show_again(n, s) && !go_on(n, s, deadline_ns) &&
        bring_up_again(n, s, deadline_ns, err))
        return err_wrap(err, "set %s was lost, and mounting it again failed", s->uri);
    if (take_up(n, s, err))
        return -1;
    *ret_anew = s->anew;
    s->anew = false;
    return 0;
}

/* --- down ------------------------------------------------------------------------------------- */

/* A volume whose record is strange may name any set. */
static bool is_named(struct node *n, const char *key)
{
    if (state_has_strange(&n->volumes_dir))
        return true;
    ACQUIRE(&n->lock);
    for (const struct volume *v = n->volumes; v; v = v->next)
        if (strcmp(v->set, key) == 0)
            return true;
    return false;
}

/* What is pending is stored, the mount goes, and its processes are waited for. */
static int end_once(struct node *n, const struct set *s, uint64_t deadline_ns, struct err *err)
{
    const char *const argv[] = {"sampan", "umount",      "--timeout", ENDS_WITHIN,
                                "--",     s->mountpoint, NULL};
    struct mount_serving serving;
    bool mounted = may_be_mount(n, s->mountpoint);
    n->mounter->ops->serving(n->mounter, s->mountpoint, &serving);
    if ((!mounted && !serving.alive) ||
        n->mounter->ops->run(n->mounter, argv, deadline_ns, NULL, err) == 0)
        return 0;
    n->mounter->ops->serving(n->mounter, s->mountpoint, &serving); /* it may have ended meanwhile */
    if (serving.alive)
        return -1;
    return n->mounter->ops->unbind(n->mounter, s->mountpoint, err); /* nobody is behind it */
}

/* Whatever was started on the node in a namespace of mounts of its own may have a copy of the
 * mount, by which its processes go on. A mount that is gone from here is ended by them. */
static int end_mount(struct node *n, const struct set *s, uint64_t deadline_ns, struct err *err)
{
    struct err why = {0};
    if (end_once(n, s, deadline_ns, &why) == 0)
        return 0;
    if (may_be_mount(n, s->mountpoint)) {
        if (err)
            *err = why;
        return -1;
    }
    log_warn(n->conf.log, "set %s: its processes are told to end: %s", s->uri, why.msg);
    return end_once(n, s, deadline_ns, err);
}

int set_down(struct node *n, const char *key, uint64_t deadline_ns, struct err *err)
{
    cleanup_set struct set_scope scope = {n, set_begin(n, key)};
    struct set *s = scope.set;
    if (!s || !*s->uri || is_named(n, key))
        return 0;
    set_let_go(s);
    if (end_mount(n, s, deadline_ns, err))
        return err_wrap(err, "end the mount of %s", s->uri);
    clean(n, s);
    return 0;
}
