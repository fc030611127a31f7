/*
 * The table of sets, and what brings them up and ends them.
 *
 * A set's life, each step repeatable from wherever it was cut off:
 *   record written -> folder, credentials -> `sampan mount` -> descriptors held
 *   … descriptors let go -> `sampan umount` -> folder, credentials, log gone -> record removed
 */
#define LOG_MODULE "node"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "catalogs.h"
#include "clock.h"
#include "control.h"
#include "mem.h"
#include "node-internal.h"

#define RETRY_NS      (100 * NS_PER_MS)
#define RETRY_MOST_NS (30 * NS_PER_S)

/* --- names ------------------------------------------------------------------------------------ */

char *set_mountpoint(const struct node *n, const char *key)
{
    return xasprintf("%s/%s", n->mounts, key);
}

static char *credentials_path(const struct node *n, const char *key)
{
    return xasprintf("%s/%s", n->conf.run, key);
}

/* Folder of the socket for pods; the daemon makes it there. */
static char *direct_path(const struct node *n, const char *key)
{
    return xasprintf("%s/direct/%s", n->conf.state, key);
}

static char *log_path(const struct node *n, const char *key)
{
    return xasprintf("%s/%s.log", n->mounts, key);
}

/* --- the table -------------------------------------------------------------------------------- */

static struct set *find(const struct node *n, const char *key)
{
    for (struct set *s = n->sets; s; s = s->next)
        if (strcmp(s->key, key) == 0)
            return s;
    return NULL;
}

static struct set *add(struct node *n, const char *key)
{
    struct set *s = xcalloc(1, sizeof *s);
    snprintf(s->key, sizeof s->key, "%s", key);
    s->uri = xstrdup("");
    s->identity = xstrdup("");
    s->mountpoint = set_mountpoint(n, key);
    s->next = n->sets;
    n->sets = s;
    return s;
}

static void set_free(struct set *s)
{
    set_let_go(s);
    free(s->uri);
    free(s->identity);
    free(s->mountpoint);
    bytes_release(&s->words);
    free(s);
}

static void drop(struct node *n, struct set *s)
{
    struct set **at = &n->sets;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    set_free(s);
}

static struct set *begin(struct node *n, struct set *s)
{
    s->users++;
    while (s->busy)
        cond_wait(&n->cond, &n->lock);
    s->busy = true;
    return s;
}

struct set *set_begin(struct node *n, const char *key)
{
    ACQUIRE(&n->lock);
    struct set *s = find(n, key);
    return s ? begin(n, s) : NULL;
}

static struct set *begin_if_idle(struct node *n, const char *key)
{
    ACQUIRE(&n->lock);
    struct set *s = find(n, key);
    return s && !s->busy ? begin(n, s) : NULL;
}

static struct set *begin_or_add(struct node *n, const char *key)
{
    ACQUIRE(&n->lock);
    struct set *s = find(n, key);
    return begin(n, s ? s : add(n, key));
}

/* A set without a record is forgotten with the last call that knows it. */
void set_end(struct node *n, struct set *s)
{
    ACQUIRE(&n->lock);
    s->busy = false;
    s->users--;
    if (!s->users && !*s->uri)
        drop(n, s);
    cond_broadcast(&n->cond);
}

struct set_scope {
    struct node *node;
    struct set *set;
};
static void set_scope_end(struct set_scope *s)
{
    if (s->set)
        set_end(s->node, s->set);
}
#define cleanup_set CLEANUP(set_scope_end)

char **sets_keys(struct node *n, size_t *ret_n)
{
    ACQUIRE(&n->lock);
    char **keys = NULL;
    *ret_n = 0;
    for (const struct set *s = n->sets; s; s = s->next) {
        if (s->busy || !*s->uri)
            continue;
        keys = xrealloc(keys, (*ret_n + 1) * sizeof *keys);
        keys[(*ret_n)++] = xstrdup(s->key);
    }
    return keys;
}

bool sets_are_held(struct node *n)
{
    ACQUIRE(&n->lock);
    uint64_t now = clock_mono_ns();
    for (const struct set *s = n->sets; s; s = s->next)
        if (*s->uri && (s->busy || (!s->holds && now >= s->hold_after)))
            return false;
    return true;
}

/* --- records ---------------------------------------------------------------------------------- */

static int set_store(struct node *n, const struct set *s, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    state_begin(&w, &text, s->key);
    jw_str(&w, "uri", s->uri);
    jw_str(&w, "identity", s->identity);
    jw_bool(&w, "keyed", s->keyed);
    jw_array(&w, "words");
    for (size_t at = 0; at < s->words.len; at += strlen(s->words.data + at) + 1)
        jw_str(&w, NULL, s->words.data + at);
    jw_end(&w);
    jw_end(&w);
    return state_write(&n->sets_dir, s->key, &text, err);
}

static int load_one(void *arg, const struct json *record, struct err *err)
{
    struct node *n = arg;
    const char *key, *uri, *identity, *word;
    bool keyed;
    if (json_str(record, "id", &key, err))
        return -1;
    if (strlen(key) + 1 != STATE_NAME_BYTES || json_str(record, "uri", &uri, NULL) ||
        json_str(record, "identity", &identity, NULL) || json_bool(record, "keyed", &keyed, NULL))
        return 1;
    struct set *s = add(n, key);
    free(s->uri);
    free(s->identity);
    s->uri = xstrdup(uri);
    s->identity = xstrdup(identity);
    s->keyed = keyed;
    struct json words = json_get(record, "words");
    for (size_t i = 0; i < json_count(&words); i++) {
        struct json w = json_at(&words, i);
        if (json_as_str(&w, &word, NULL) == 0)
            bytes_add(&s->words, word, strlen(word) + 1);
    }
    return 0;
}

int sets_load(struct node *n, struct err *err)
{
    return state_walk(&n->sets_dir, load_one, n, n->conf.log, err);
}

void sets_free(struct node *n)
{
    while (n->sets)
        drop(n, n->sets);
}

/* --- credentials ------------------------------------------------------------------------------ */

static void wipe(struct bytes *b)
{
    if (b->data)
        explicit_bzero(b->data, b->cap);
    bytes_release(b);
}

/* `own`: the key that a new set with them would have, or "". A set whose file is not there yet, or
 * no more, has those that it was named for. */
static bool same_credentials(const struct node *n, const struct set *s, const struct bytes *wanted,
                             const char *own)
{
    if (!s->keyed)
        return wanted->len == 0;
    cleanup_free char *path = credentials_path(n, s->key);
    CLEANUP(wipe) struct bytes have = {0};
    bytes_reserve(&have, wanted->len + 2);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t got = fd < 0 ? -1 : read(fd, have.data, wanted->len + 1);
    if (fd < 0 && errno == ENOENT)
        return strcmp(s->key, own) == 0;
    if (!wanted->data)
        return got == 0;
    return got == (ssize_t)wanted->len && memcmp(have.data, wanted->data, wanted->len) == 0;
}

static int write_credentials(struct node *n, const char *key, const struct bytes *text,
                             struct err *err)
{
    cleanup_free char *path = credentials_path(n, key);
    if (file_write_whole(path, text->data, text->len, 0400, err))
        return err_wrap(err, "hand the credentials over");
    return 0;
}

int set_renew_keys(struct node *n, const char *key, const struct bytes *credentials,
                   struct err *err)
{
    cleanup_set struct set_scope scope = {n, set_begin(n, key)};
    if (!scope.set || !scope.set->keyed || same_credentials(n, scope.set, credentials, ""))
        return 0;
    log_info(n->conf.log, "set %s: new credentials", key);
    return write_credentials(n, key, credentials, err);
}

bool set_is_open(struct node *n, const char *key)
{
    ACQUIRE(&n->lock);
    const struct set *s = find(n, key);
    return s && *s->uri && !s->keyed;
}

/* --- which set -------------------------------------------------------------------------------- */

void set_choose(struct node *n, const struct set_wish *wish, char ret_key[STATE_NAME_BYTES])
{
    CLEANUP(wipe) struct bytes text = {0};
    attributes_identity(wish->attributes, wish->gid, &text);
    cleanup_free char *identity = xstrdup(text.data ? text.data : "");
    bytes_add(&text, wish->credentials->data ? wish->credentials->data : "",
              wish->credentials->len);
    bytes_add(&text, "", 0);
    char own[STATE_NAME_BYTES];
    state_name(text.data, own);
    ACQUIRE(&n->lock);
    for (const struct set *s = n->sets; s; s = s->next)
        if (*s->uri && strcmp(s->identity, identity) == 0 &&
            same_credentials(n, s, wish->credentials, own)) {
            snprintf(ret_key, STATE_NAME_BYTES, "%s", s->key);
            return;
        }
    /* A set whose keys were renewed keeps the name that it got with the old ones. */
    const struct set *other;
    do {
        state_name(text.data, ret_key);
        bytes_add_char(&text, '+');
    } while ((other = find(n, ret_key)) && *other->uri);
}

bool set_is_locked(struct node *n, const struct set_wish *wish)
{
    cleanup_bytes struct bytes identity = {0};
    if (wish->credentials->len)
        return false;
    attributes_identity(wish->attributes, wish->gid, &identity);
    ACQUIRE(&n->lock);
    bool keyed = false, open = false;
    for (const struct set *s = n->sets; s; s = s->next) {
        if (!*s->uri || strcmp(s->identity, identity.data) != 0)
            continue;
        keyed = keyed || s->keyed;
        open = open || !s->keyed;
    }
    return keyed && !open;
}

/* --- up --------------------------------------------------------------------------------------- */

static void add_word(struct bytes *out, const char *word)
{
    bytes_add(out, word, strlen(word) + 1);
}

static void choose_words(const struct node *n, const char *key, const struct set_wish *wish,
                         struct bytes *out)
{
    const struct attributes *a = wish->attributes;
    const char *version = a->value[ATTR_VERSION];
    attributes_words(a, wish->gid, out);
    const char *base = n->conf.cache_dir ? n->conf.cache_dir : "/var/cache/sampan";
    if (!a->value[ATTR_CACHE] && (n->conf.cache_dir || version)) {
        /* A pinned version has a cache of its own: the folder of the set may be its newest
         * version's. */
        cleanup_free char *folder =
            version ? xasprintf("%s/version-%.16s", base, version) : xstrdup(base);
        add_word(out, "--cache-dir");
        add_word(out, folder);
    }
    if (!attribute_true(a, ATTR_WRITABLE)) {
        cleanup_free char *direct = direct_path(n, key);
        add_word(out, "--direct");
        add_word(out, direct);
    }
    if (version) {
        cleanup_free char *file = catalog_path_on_node(n->conf.state, version);
        add_word(out, "--catalog");
        add_word(out, file);
    }
}

/* Others look for their set meanwhile. */
static void fill(struct node *n, struct set *s, const struct set_wish *wish)
{
    cleanup_bytes struct bytes identity = {0}, words = {0};
    attributes_identity(wish->attributes, wish->gid, &identity);
    choose_words(n, s->key, wish, &words);
    ACQUIRE(&n->lock);
    free(s->uri);
    free(s->identity);
    bytes_release(&s->words);
    s->uri = xstrdup(wish->attributes->value[ATTR_URI]);
    s->identity = bytes_take(&identity);
    s->keyed = wish->credentials->len > 0;
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
    struct mount_look look;
    struct mount_serving serving;
    if (n->mounter->ops->look(n->mounter, s->mountpoint, &look, NULL) || !look.mounted)
        return false;
    n->mounter->ops->serving(n->mounter, s->mountpoint, &serving);
    return serving.alive;
}

/* Somebody else is there still, or already: an owner that ends, or a start that outlived the plugin
 * which made it. Both pass. */
static bool passes(const struct err *why)
{
    return strstr(why->msg, "cache folder in use") ||
           strstr(why->msg, "is mounted there already") ||
           strstr(why->msg, "the folder is not empty") || /* a lost mount's last helper ends */
           strstr(why->msg, "another process serves it");
}

static int run_mount(struct node *n, const struct set *s, uint64_t deadline_ns, struct err *err)
{
    cleanup_free char *credentials = credentials_path(n, s->key), *log = log_path(n, s->key);
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
        argv[i++] = credentials;
    }
    argv[i++] = "--";
    argv[i++] = s->uri;
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

/* The folder is there, and in memory alone (it is root's as well: only root gets here). */
static int make_mountpoint(const struct set *s, struct err *err)
{
    if (mkdir(s->mountpoint, 0755) == 0 || errno == EEXIST)
        return 0;
    return errno == ENOTCONN ? 0 : err_sys(err, errno, "make the folder %s", s->mountpoint);
}

/* The catalog of a pinned version. A set that is mounted again has it already. */
static int fetch_version(struct node *n, const struct set *s, const struct attributes *a,
                         uint64_t deadline_ns, struct err *err)
{
    cleanup_free char *credentials = credentials_path(n, s->key);
    if (!a->value[ATTR_VERSION])
        return 0;
    return catalog_fetch(n->mounter, n->conf.state, a, s->keyed ? credentials : NULL, deadline_ns,
                         err);
}

/* Seen in pods, whose users are whoever they are. */
static int make_direct(struct node *n, const struct set *s, struct err *err)
{
    cleanup_free char *folder = direct_path(n, s->key);
    if (folder_make(folder, err))
        return -1;
    return chmod(folder, 0755) ? err_sys(err, errno, "open the folder %s", folder) : 0;
}

static int bring_up(struct node *n, struct set *s, uint64_t deadline_ns, struct err *err)
{
    if (make_mountpoint(s, err) || make_direct(n, s, err) || mount_until(n, s, deadline_ns, err))
        return -1;
    counter_add(&n->stats.mounts, 1);
    set_hold(n, s);
    return 0;
}

/* The catalog of a pinned version stands among the words; another set may have it, too. */
static void drop_version(struct node *n, const struct set *gone)
{
    const char *file = NULL;
    for (size_t at = 0; at < gone->words.len; at += strlen(gone->words.data + at) + 1)
        if (strcmp(gone->words.data + at, "--catalog") == 0)
            file = gone->words.data + at + sizeof "--catalog";
    ACQUIRE(&n->lock);
    for (const struct set *s = n->sets; s && file; s = s->next)
        if (s != gone && *s->uri && memmem(s->words.data, s->words.len, file, strlen(file)))
            return;
    if (file)
        unlink(file);
}

/* What a start that failed has left. */
static void clean(struct node *n, struct set *s)
{
    drop_version(n, s);
    cleanup_free char *credentials = credentials_path(n, s->key), *log = log_path(n, s->key);
    cleanup_free char *direct = direct_path(n, s->key);
    cleanup_free char *socket = xasprintf("%s/" CONTROL_DIRECT_SOCKET, direct);
    rmdir(s->mountpoint);
    unlink(socket);
    rmdir(direct);
    unlink(credentials);
    unlink(log);
    if (state_remove(&n->sets_dir, s->key, NULL) == 0)
        empty(n, s);
}

/* A writable set for a group: its root belongs to the group and hands it down (set-gid). What was
 * there before keeps its group. */
static int own_root(struct node *n, const struct set *s, int64_t gid, struct err *err)
{
    if (gid < 0)
        return 0;
    return n->mounter->ops->own(n->mounter, s->mountpoint, gid, err);
}

int set_up(struct node *n, const char *key, const struct set_wish *wish, uint64_t deadline_ns,
           struct err *err)
{
    cleanup_set struct set_scope scope = {n, begin_or_add(n, key)};
    struct set *s = scope.set;
    if (*s->uri && is_up(n, s))
        return 0;
    if (state_known(&n->sets_dir, key, err))
        return -1;
    bool is_new = !*s->uri;
    if (is_new)
        fill(n, s, wish);
    if (set_store(n, s, err) ||
        (s->keyed && wish->credentials->len && write_credentials(n, key, wish->credentials, err)) ||
        fetch_version(n, s, wish->attributes, deadline_ns, err) ||
        bring_up(n, s, deadline_ns, err)) {
        if (is_new)
            clean(n, s);
        return -1;
    }
    node_watch_poke(n);
    if (own_root(n, s, wish->gid, err))
        return -1;
    return 0;
}

int set_heal(struct node *n, const char *key, bool *ret_done, uint64_t deadline_ns, struct err *err)
{
    cleanup_set struct set_scope scope = {n, begin_if_idle(n, key)};
    struct set *s = scope.set;
    *ret_done = false;
    if (!s || !*s->uri)
        return 0;
    if (is_up(n, s)) {
        if (!s->holds && clock_mono_ns() >= s->hold_after)
            set_hold(n, s);
        return 0;
    }
    struct mount_look look;
    struct err why = {0};
    if (s->holds && n->mounter->ops->look(n->mounter, s->mountpoint, &look, NULL) == 0 &&
        look.mounted) {
        if (n->mounter->ops->revive(n->mounter, s->held, deadline_ns, &why) == 0 || is_up(n, s)) {
            counter_add(&n->stats.revived, 1);
            log_warn(n->conf.log, "set %s: keeper and owner were killed: revived", s->uri);
            return 0;
        }
        log_warn(n->conf.log, "set %s: it could not be revived: %s", s->uri, why.msg);
    }
    set_let_go(s);
    counter_add(&n->stats.lost, 1);
    if (bring_up(n, s, deadline_ns, err))
        return err_wrap(err, "set %s was lost, and mounting it again failed", s->uri);
    log_warn(n->conf.log, "set %s: it was lost, and is mounted again", s->uri);
    counter_add(&n->stats.healed, 1);
    *ret_done = true;
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

static int end_mount(struct node *n, const struct set *s, uint64_t deadline_ns, struct err *err)
{
    const char *const argv[] = {"sampan", "umount", "--", s->mountpoint, NULL};
    struct mount_look look;
    struct mount_serving serving;
    if (n->mounter->ops->look(n->mounter, s->mountpoint, &look, err))
        return -1;
    n->mounter->ops->serving(n->mounter, s->mountpoint, &serving);
    if (!look.mounted && !serving.alive)
        return 0;
    if (n->mounter->ops->run(n->mounter, argv, deadline_ns, NULL, err) == 0)
        return 0;
    if (serving.alive)
        return -1;
    return n->mounter->ops->unbind(n->mounter, s->mountpoint, err); /* nobody is behind it */
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

/* --- binds ------------------------------------------------------------------------------------ */

#define LAYERS_MOST 1000 /* one for each time that a mount was lost under a pod */

static int is_foreign(const char *path, struct err *err)
{
    return err_set(err, ERR_LIMIT,
                   "%s: something else than a set is mounted there (unmount it first)", path);
}

static char *direct_target(const char *path)
{
    return xasprintf("%s/.sampan/direct", path);
}

/* If it cannot be had off by itself, it goes with the mount that it lies in. */
static void clear_direct(struct node *n, const char *path)
{
    cleanup_free char *to = direct_target(path);
    struct mount_look look;
    if (n->mounter->ops->look(n->mounter, to, &look, NULL) == 0 && look.mounted)
        n->mounter->ops->unbind(n->mounter, to, NULL);
}

int path_clear(struct node *n, const char *path, struct err *err)
{
    struct mount_look look;
    for (int i = 0; i < LAYERS_MOST; i++) {
        if (n->mounter->ops->look(n->mounter, path, &look, err))
            return -1;
        if (!look.mounted)
            return 0;
        if (!look.ours)
            return is_foreign(path, err);
        clear_direct(n, path);
        if (n->mounter->ops->unbind(n->mounter, path, err))
            return -1;
    }
    return err_set(err, ERR_LIMIT, "%s: more than %d mounts lie upon each other there", path,
                   LAYERS_MOST);
}

/* A mount that is new there has none yet, whatever a lost one below it has. */
static int bind_direct(struct node *n, const char *key, const char *path, bool is_new,
                       struct err *err)
{
    cleanup_free char *from = direct_path(n, key), *to = direct_target(path);
    struct mount_look there;
    if (n->mounter->ops->look(n->mounter, to, &there, err))
        return -1;
    if (there.mounted && !is_new)
        return 0;
    if (n->mounter->ops->bind(n->mounter, from, to, /* read_only= */ true, err))
        return err_wrap(err, "direct");
    return 0;
}

int set_bind(struct node *n, const char *key, const char *path, bool read_only, bool direct,
             struct err *err)
{
    cleanup_free char *from = set_mountpoint(n, key);
    struct mount_look set, there;
    if (n->mounter->ops->look(n->mounter, from, &set, err) ||
        n->mounter->ops->look(n->mounter, path, &there, err))
        return -1;
    if (there.mounted && !there.ours)
        return is_foreign(path, err);
    bool is_new = !there.mounted || !set.mounted || there.dev != set.dev;
    if (is_new && n->mounter->ops->bind(n->mounter, from, path, read_only, err))
        return -1;
    return direct ? bind_direct(n, key, path, is_new, err) : 0;
}
