/* mount: a set becomes a folder. The parent waits until the mount is usable or says why not. */
#define LOG_MODULE "mount"
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "dir.h"
#include "mem.h"
#include "program.h"
#include "serve-internal.h"

#define TAKEOVER_LOOKS 250 /* 20 ms each */

static const struct conf_row rows[] = {
    SET_ROWS(mount_options, set),
    {"memory", CONF_SIZE, AT(mount_options, memory), .arg = "SIZE", .dflt = "256MiB",
     .min = VOLUME_MEMORY_LEAST, .help = "Hard bound of the daemon's own resident memory"},
    {"catalog", CONF_STRING, AT(mount_options, catalog), .arg = "FILE",
     .help = "Use this catalog instead of scanning: a file; the address of a runtime server's "
             "(http://HOST:7716/v1/catalog/current or .../DIGEST), fetched with the peers' token; "
             "or of an object in a store that has its version's name (s3://BUCKET/.../DIGEST), "
             "served while it arrives"},
    {"rescan", CONF_FLAG, AT(mount_options, rescan),
     .help = "Scan the source even if a version is there already"},
    {"refresh", CONF_DURATION, AT(mount_options, refresh), .arg = "DUR",
     .help = "Look for a new version this often (off); with --writable: list a folder again when "
             "it is looked at and its listing is older (2s)"},
    {"sampler", CONF_STRING, AT(mount_options, sampler), .arg = "SPEC",
     .help = "The order to come: turns push and exact prefetch on"},
    {"partition", CONF_STRING, AT(mount_options, partition), .arg = "I/P",
     .help = "This node keeps partition I of P, counted from 0: its share of the set is pinned"},
    {"strategy", CONF_ENUM, AT(mount_options, strategy),
     .choices = "auto|sequence|random|hash|local", .dflt = "auto",
     .help = "Who keeps what of a divided set (see plan); auto: as the sampler reads"},
    {"peers", CONF_STRING, AT(mount_options, peers), .arg = "URL,URL...|URL|FILE",
     .help =
         "The runtime servers of the other nodes, in the order of the partitions; or one that "
         "knows them (GET /v1/members); or a file with a URL a line. One URL, without --partition: "
         "the version that those servers serve is served here, too"},
    {"peer-token-file", CONF_STRING, AT(mount_options, peer_token_file), .arg = "FILE",
     .help = "The token of those servers; read again when it changes"},
    {"weights", CONF_STRING, AT(mount_options, weights), .arg = "W0,W1,...",
     .help = "How much of what is dealt by hash each partition gets, in parts; one number for each "
             "(equal)"},
    {"profile", CONF_ENUM, AT(mount_options, profile), .choices = "samples|shards",
     .dflt = "samples",
     .help = "Small files, or big files read in slices (passthrough), for which each lies whole in "
             "a file below the first tier on a disk, of which all together take 7/8 at most; one "
             "that was open within the hour makes way for a warmup or evict alone"},
    {"writable", CONF_FLAG, AT(mount_options, writable),
     .help = "Files can be made, changed, renamed and removed: checkpoints, logs, outputs"},
    {"commit", CONF_STRING, AT(mount_options, commit), .arg = "WHEN",
     .help = "With --writable, when a file counts as stored: close (close and fsync wait for the "
             "store), background, or interval=DUR (open files are stored that often, too)"},
    STORE_ROWS(mount_options, store),
    {"bandwidth", CONF_RATE, AT(mount_options, bandwidth), .arg = "RATE",
     .help = "Bytes a second received at most (unlimited)"},
    {"connections", CONF_INT, AT(mount_options, connections), .arg = "N", .dflt = "64", .min = 1,
     .max = 1024, .help = "Transfers at once at most"},
    {"prefetch", CONF_INT, AT(mount_options, prefetch), .arg = "N", .min = 0, .max = 100000,
     .dflt = "0", .help = "Samples fetched ahead at most; 0: as the order and the memory allow"},
    {"ahead-bytes", CONF_SIZE, AT(mount_options, ahead_bytes), .arg = "SIZE",
     .help = "Of a set that is divided anew each epoch (--partition, and a sampler that deals): "
             "while an epoch is read, fetch what the next ones read here and is missing, so many "
             "bytes at most (none). Room is made by what is read last, never by what this epoch "
             "still reads"},
    {"push-window", CONF_SIZE, AT(mount_options, push_window), .arg = "SIZE",
     .help = "Bytes pushed into the page cache ahead of the reader at most (automatic)"},
    {"uid", CONF_INT, AT(mount_options, uid), .arg = "U", .dflt = "-1", .min = -1,
     .max = UINT32_MAX - 1, .help = "Owner of all files; -1: who mounts"},
    {"gid", CONF_INT, AT(mount_options, gid), .arg = "G", .dflt = "-1", .min = -1,
     .max = UINT32_MAX - 1, .help = "Group of all files; -1: who mounts"},
    {"allow-other", CONF_FLAG, AT(mount_options, allow_other),
     .help = "Let other users in (plain users need user_allow_other in /etc/fuse.conf)"},
    {"direct", CONF_STRING, AT(mount_options, direct), .arg = "DIR",
     .help = "Tell programs that see nothing but the mount where samples lie in the cache: at a "
             "socket in this folder, which is mounted on .sampan/direct for them"},
    {"no-hedge", CONF_FLAG, AT(mount_options, no_hedge),
     .help = "Send no second request when a first one is slow"},
    {"verify-etag", CONF_FLAG, AT(mount_options, verify_etag),
     .help = "Check each object against its ETag where that is its MD5 (0.2 ms of CPU for 100 KB)"},
    {"no-keeper", CONF_FLAG, AT(mount_options, no_keeper),
     .help = "Run without a keeper: readers fail if the daemon dies"},
    {"foreground", CONF_FLAG, AT(mount_options, foreground),
     .help = "Stay in the foreground; Ctrl-C unmounts"},
    LOG_ROWS(mount_options, log),
    QUIET_ROW(mount_options, quiet),
};

static bool is_empty(const char *path)
{
    cleanup_dir DIR *d = opendir(path);
    return !d || !dir_next(d);
}

/* Is one of ours mounted right there? One whose server is being replaced is in between: those that
 * the register names are gone, and who serves it now has not said so yet. */
static bool find_ours(const char *real, struct control_mount *ret)
{
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    for (int i = 0;; i++) {
        if (control_find(real, ret, NULL))
            return false;
        bool here = ret->mounted && strcmp(ret->mountpoint, real) == 0;
        if (here && ret->alive)
            return true;
        control_mount_release(ret);
        if (!here || i == TAKEOVER_LOOKS || mount_is_dead(real))
            return false;
        nanosleep(&pause, NULL);
    }
}

/* What can be refused before a long scan is refused before it. The front end checks again. */
static int check_mountpoint(const char *path, char **ret, struct err *err)
{
    struct stat st;
    if (!*path)
        return err_set(err, ERR_USAGE,
                       "use the mount point: its name is empty (an unset variable?)");
    cleanup_free char *word = shell_word(path);
    if (stat(path, &st)) {
        if (errno == ENOTCONN)
            return err_set(
                err, ERR_USAGE,
                "use the mount point: %s: a mount whose server is gone is there, and it is "
                "not ours to take away (umount %s)",
                path, word);
        if (errno == ENOENT)
            return err_set(err, ERR_NOT_FOUND,
                           "use the mount point: %s: it does not exist (mkdir -p %s)", path, word);
        return err_sys(err, errno, "use the mount point: %s", path);
    }
    if (!S_ISDIR(st.st_mode))
        return err_set(err, ERR_USAGE, "use the mount point: %s: it is not a folder", path);
    cleanup_free char *real = realpath(path, NULL);
    if (!real)
        return err_sys(err, errno, "use the mount point: %s", path);
    cleanup_mount struct control_mount m = {0};
    if (find_ours(real, &m))
        return err_set(err, ERR_USAGE,
                       "use the mount point: %s: %s " MOUNT_SAYS_MOUNTED ", by process %d "
                       "(sampan umount %s)",
                       real, m.uri, m.pid, word);
    if (!is_empty(real))
        return err_set(
            err, ERR_USAGE,
            "use the mount point: %s: " MOUNT_SAYS_NOT_EMPTY " (mount over an empty one)", real);
    *ret = take_ptr(&real);
    return 0;
}

/* A mount there whose server is gone is taken away, unless somebody is about to serve it again. */
static int heal(const char *path, struct err *err)
{
    cleanup_free char *real = NULL;
    if (mount_path(path, &real, NULL))
        return 0; /* what is not there is named by check_mountpoint(), with the cure */
    struct control_mount m;
    bool known = control_find(real, &m, NULL) == 0;
    bool its = known && strcmp(m.mountpoint, real) == 0, kept = its && m.alive;
    if (its && control_is_abandoned(&m))
        mount_make_dead(real);
    if (known)
        control_mount_release(&m);
    if (kept || !mount_is_dead(real))
        return 0; /* check_mountpoint() looks at the rest */
    if (mount_end(real, /* lazy= */ true, err))
        return err_wrap(err, "take the dead mount away");
    control_unregister(real);
    return 0;
}

/* A first start that was killed cannot clean up: this process waited for it. */
static void clean_after(struct owner *owner, const char *mountpoint)
{
    assert(mountpoint); /* it was checked before anything was started */
    if (mount_is_dead(mountpoint))
        mount_end(mountpoint, /* lazy= */ true, NULL);
    control_forget(mountpoint);
    owner_clean(owner);
}

/* Becomes the keeper, which starts this program again as its first life. Returns on failure. */
static int become_keeper(const char *program, const struct conf *c, const struct serve_conf *conf,
                         struct err *err)
{
    struct keeper_fds fds = {
        .dev = -1, .listen = -1, .report = conf->start ? daemon_pipe(conf->start) : -1};
    struct keeper_state *state;
    unsigned n_desks;
    uint64_t desk_bytes;
    served_of(conf->options)->desks(&n_desks, &desk_bytes);
    if (keeper_state_make(n_desks, desk_bytes, &fds.state, err) ||
        keeper_state_map(fds.state, &state, err) || kept_store(state, c, conf, err))
        return -1;
    keeper_state_unmap(state);
    static char name[] = "sampan", verb[] = "mount";
    char *const argv[] = {name, verb, (char *)(uintptr_t)conf->set,
                          (char *)(uintptr_t)conf->mountpoint, NULL};
    return keeper_start(program, argv, &fds, /* adopt= */ false, NULL, err);
}

/* In this process, from here to the end of the mount. */
static int serve_here(struct serve_conf *conf, struct owner *owner, struct err *err)
{
    program_raise_files();
    program_keep_secrets();
    int result = owner_lock(owner, err);
    if (!result)
        result = serve(conf, err);
    if (result && !conf->was_ready)
        owner_unmake(owner);
    return result;
}

static int run_server(const char *keeper, const struct conf *c, struct serve_conf *conf,
                      struct owner *owner, struct err *err)
{
    return keeper ? become_keeper(keeper, c, conf, err) : serve_here(conf, owner, err);
}

static int run_daemon(const char *keeper, const struct conf *c, struct serve_conf *conf,
                      struct owner *owner, struct err *err)
{
    struct daemon_start *start;
    int who = daemon_fork(&start, err);
    if (who < 0)
        clean_after(owner, conf->mountpoint);
    if (who != 0)
        return who < 0 ? -1 : 0;
    conf->start = start;
    struct err why = {0};
    int result = run_server(keeper, c, conf, owner, &why);
    if (result && conf->start)
        daemon_failed(conf->start, &why);
    exit(result ? err_exit_code(&why) : 0);
}

/* A mount without a keeper is worth more than none: it is said, and it goes on. */
static char *look_for_keeper(const struct mount_options *o)
{
    struct err err = {0};
    char *path = NULL;
    if (!o->no_keeper && keeper_find(&path, &err))
        fprintf(stderr,
                "sampan mount: %s: mounting without one: readers will fail if the daemon "
                "dies\n",
                err.msg);
    return path;
}

static int check_direct(const struct mount_options *o, struct err *err)
{
    struct stat st;
    if (!o->direct)
        return 0;
    if (o->direct[0] != '/' || stat(o->direct, &st) || !S_ISDIR(st.st_mode))
        return err_set(err, ERR_USAGE, "--direct: %s: want the absolute path of a folder",
                       o->direct);
    return 0;
}

/* The keeper, the control socket and the mount table are reached through it. */
static int check_proc(struct err *err)
{
    if (access("/proc/self/fd", F_OK))
        return err_set(err, ERR_FAILED, "/proc is not there (mount -t proc proc /proc)");
    return 0;
}

static int run(const struct conf *c, const void *options, struct err *err)
{
    const struct mount_options *o = options;
    cleanup_free char *mountpoint = NULL, *keeper = NULL, *set = NULL;
    struct serve_conf conf = {.options = o, .set = conf_arg(c, 0)};
    struct store_conf store;
    cleanup_owner struct owner owner = {0};
    store_conf_of(&o->store, &store);
    owner.for_outputs = o->writable;
    if (check_proc(err) || check_direct(o, err) || heal(conf_arg(c, 1), err) ||
        check_mountpoint(conf_arg(c, 1), &mountpoint, err) ||
        owner_resolve(&owner, conf.set, &o->set, &store, err) ||
        outputs_check(o, &owner, conf.set, &store, err) || owner_make(&owner, err) ||
        check_cache_folders(&owner, mountpoint, err) ||
        check_nested(conf.set, &store, &owner, mountpoint, err)) {
        owner_unmake(&owner);
        return -1;
    }
    /* What is told of the mount leads there from any folder. */
    set = strstr(conf.set, "://") ? xstrdup(conf.set) : path_absolute(conf.set);
    conf.set = set;
    conf.mountpoint = mountpoint;
    conf.owner = &owner;
    conf.store = &store;
    keeper = look_for_keeper(o);
    if (!o->foreground)
        return run_daemon(keeper, c, &conf, &owner, err);
    int result = run_server(keeper, c, &conf, &owner, err);
    if (result && keeper)
        owner_unmake(&owner);
    return result;
}

const struct command cmd_mount = {
    .name = "mount",
    .args = "SET MOUNTPOINT",
    .summary = "show a set of samples as a folder",
    .about =
        "Lists SET (or uses the version that is there, and asks the store whether a sample of it "
        "may "
        "be read), mounts it at MOUNTPOINT and returns when the mount is usable. A store that is "
        "away is said, and what is cached is served. If anything fails it says why and leaves "
        "nothing behind.\n\n"
        "SET is a URI (file:///DIR, s3://BUCKET/PREFIX, minio://HOST:PORT/BUCKET/PREFIX, "
        "bos://BUCKET.ENDPOINT/PREFIX, http(s)://HOST/PATH/, (s)webhdfs://HOST:PORT/PATH, "
        "hdfs://HOST/PATH), a folder, a catalog file, or a set file that joins several. Keys come "
        "from --credentials, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, "
        "AWS_PROFILE, BCE_ACCESS_KEY_ID and BCE_SECRET_ACCESS_KEY; a URI with a password in it is "
        "refused.\n\n"
        "The first tier on a disk is also the owner's folder: catalog versions, index and control "
        "socket lie there, and it belongs to one mount at a time. Who mounts with another one as "
        "the first begins anew: what is cached in all of them goes. SIGTERM and SIGINT unmount "
        "cleanly.\n\n"
        "A sampler's SPEC is NAME[,key=value]..., for example "
        "paddle-distributed,ranks=4,batch-size=64,shuffle=true.",
    .min_args = 2,
    .max_args = 2,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct mount_options),
    .run = run,
};
