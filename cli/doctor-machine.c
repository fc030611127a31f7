/* This machine: what mounting needs, and the mounts that are there. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "device.h"
#include "doctor-internal.h"
#include "mem.h"
#include "mountinfo.h"

static void check_device(struct doctor *d)
{
    cleanup_close int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd >= 0)
        finding(d, SOUND, "FUSE device", NULL, "/dev/fuse");
    else if (errno == ENOENT || errno == ENODEV || errno == ENXIO)
        finding(d, WRONG, "no FUSE device",
                "load the module: modprobe fuse; in a container pass /dev/fuse in", "/dev/fuse: %s",
                strerror(errno));
    else
        finding(d, WRONG, "FUSE device cannot be opened",
                "chmod 666 /dev/fuse, or allow the device in the container", "/dev/fuse: %s",
                strerror(errno));
}

static bool find_program(const char *name, char *ret, size_t size)
{
    const char *path = getenv("PATH");
    for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
        size_t len = strcspn(p, ":");
        int n = snprintf(ret, size, "%.*s/%s", (int)len, p, name);
        if (n > 0 && (size_t)n < size && access(ret, X_OK) == 0)
            return true;
        p += len + (p[len] == ':');
    }
    return false;
}

static void check_helper(struct doctor *d)
{
    char path[512];
    struct stat st;
    if (geteuid() == 0)
        return; /* root mounts by itself */
    if (!find_program("fusermount3", path, sizeof path))
        finding(d, WRONG, "fusermount3 is missing: only root can mount", "apt-get install fuse3",
                "PATH");
    else if (stat(path, &st) || !(st.st_mode & S_ISUID))
        finding(d, WRONG, "fusermount3 is not set-uid root: only root can mount",
                "reinstall the package fuse3", "%s", path);
    else
        finding(d, SOUND, "fusermount3", NULL, "%s", path);
}

static void check_kernel(struct doctor *d)
{
    struct utsname u;
    char *end;
    if (uname(&u) || !strchr(u.release, '.')) {
        finding(d, NOTE, "kernel version unknown", NULL, "uname");
        return;
    }
    long version = strtol(u.release, &end, 10) * 1000;
    version += *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    if (version < 5010)
        finding(d, WRONG, "kernel older than 5.10: not tested", "use a newer kernel", "%s",
                u.release);
    else if (version < 6009)
        finding(d, NOTE,
                "kernel without FUSE passthrough (6.9): --profile shards copies through the daemon",
                NULL, "%s", u.release);
    else
        finding(d, SOUND, "kernel", NULL, "%s", u.release);
}

void doctor_machine(struct doctor *d)
{
    check_device(d);
    check_helper(d);
    check_kernel(d);
}

/* --- mounts ----------------------------------------------------------------------------------- */

/* `version`: of the program that answers. */
static bool answers(const struct control_mount *m, char version[64], struct err *err)
{
    cleanup_json struct json_doc *answer = NULL;
    if (ask_ping(m, ASK_PATIENCE_S, &answer, err))
        return false;
    struct json root = json_root(answer);
    snprintf(version, 64, "%s", json_str_at(&root, "version"));
    return true;
}

/* What is installed is not what runs: nobody upgraded the mount. */
static void check_program(struct doctor *d, const struct control_mount *m, const char *version)
{
    static const char gone[] = " (deleted)";
    char link[64], program[PATH_MAX];
    snprintf(link, sizeof link, "/proc/%d/exe", m->pid);
    ssize_t len = readlink(link, program, sizeof program);
    const size_t n = sizeof gone - 1;
    bool replaced = len > (ssize_t)n && memcmp(program + len - n, gone, n) == 0;
    bool other = strcmp(version, SAMPAN_VERSION) != 0;
    if (!replaced && !other)
        return;
    cleanup_free char *at = shell_word(m->mountpoint);
    cleanup_free char *cure = xasprintf("sampan upgrade %s; readers notice nothing", at);
    finding(d, NOTE,
            other ? "the mount runs another version of sampan"
                  : "the mount runs a program that was replaced or removed since",
            cure, "%s: %s, here is %s", m->mountpoint, version, SAMPAN_VERSION);
}

/* True: its daemon can be asked more. */
static bool check_mount(struct doctor *d, const struct control_mount *m)
{
    struct err why = {0};
    char version[64];
    cleanup_free char *at = shell_word(m->mountpoint), *set = shell_word(m->uri);
    cleanup_free char *cure = xasprintf("sampan umount %s", at);
    cleanup_free char *heal =
        xasprintf("sampan mount %s %s heals it, given the options it had; sampan umount %s ends it",
                  set, at, at);
    if (!m->alive && m->mounted)
        finding(d, WRONG, "dead mount: its processes have ended, readers fail", heal,
                "%s (process %d)", m->mountpoint, m->pid);
    else if (!m->alive)
        finding(d, WRONG, "stale registration: neither process nor mount is there", cure,
                "%s (process %d)", m->mountpoint, m->pid);
    else if (!m->mounted)
        finding(d, WRONG, "process without its mount (or mounted in another mount namespace)", cure,
                "%s (process %d)", m->mountpoint, m->pid);
    else if (m->recovering)
        finding(d, NOTE, "its daemon has died and is being started again",
                "sampan status shows how it goes", "%s (keeper %d)", m->mountpoint, m->keeper_pid);
    else if (!answers(m, version, &why))
        finding(d, WRONG, "the mount's process does not answer", cure, "%s: %s", m->mountpoint,
                why.msg);
    else {
        finding(d, SOUND, "mount", NULL, "%s (%s)", m->mountpoint, m->uri);
        check_program(d, m, version);
    }
    return m->alive && !m->recovering && !why.class;
}

struct registered {
    struct doctor *d;
    const struct control_mount *mounts;
    size_t n;
};

/* A dead mount whose registration is gone too (another run folder, a machine that was cleaned). */
static void look_unregistered(void *arg, const struct mount_row *row)
{
    const struct registered *r = arg;
    if (strcmp(row->type, "fuse.sampan") != 0)
        return;
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->mounts[i].mountpoint, row->mountpoint) == 0)
            return;
    if (!mount_is_dead(row->mountpoint))
        return;
    cleanup_free char *at = shell_word(row->mountpoint);
    cleanup_free char *cure = xasprintf("sampan umount %s", at);
    finding(r->d, WRONG, "dead mount: its process has ended, readers fail", cure, "%s",
            row->mountpoint);
}

void doctor_mounts(struct doctor *d)
{
    struct control_mount *mounts;
    size_t n;
    struct err err = {0};
    if (control_mounts(&mounts, &n, &err)) {
        finding(d, WRONG, "the register of mounts cannot be read", NULL, "%s", err.msg);
        return;
    }
    for (size_t i = 0; i < n; i++)
        doctor_mount(d, &mounts[i], /* whole= */ false);
    mount_each(look_unregistered, &(struct registered){d, mounts, n}, NULL);
    control_mounts_free(mounts, n);
}

/* --- one mount -------------------------------------------------------------------------------- */

/* Texts that say what to do end with it, in brackets. */
static bool says_cure(const char *why)
{
    size_t len = strlen(why);
    return len && why[len - 1] == ')';
}

static void check_tiers(struct doctor *d, const struct json *status)
{
    struct json cache = json_get(status, "cache"), tiers = json_get(&cache, "tiers");
    for (size_t i = 0; i < json_count(&tiers); i++) {
        struct json t = json_at(&tiers, i);
        const char *state = json_str_at(&t, "state"), *dir = json_str_at(&t, "dir");
        const char *why = json_str_at(&t, "why");
        if (strcmp(state, "failed") == 0)
            finding(d, WRONG, "cache tier set aside: its disk fails or its folder is gone",
                    says_cure(why) ? NULL
                                   : "replace the disk, or mount with another --cache folder",
                    "%s: %s", dir, why);
        else if (strcmp(state, "full") == 0)
            finding(d, NOTE, "cache tier is full",
                    says_cure(why) ? NULL : "a larger --cache or evict makes room", "%s: %s", dir,
                    why);
        else
            finding(d, SOUND, "cache tier", NULL, "%s", dir);
    }
}

static void check_stale(struct doctor *d, const struct control_mount *m)
{
    cleanup_bytes struct bytes request = {0};
    cleanup_json struct json_doc *answer = NULL;
    struct json_writer w;
    ask_begin(&w, &request, "stale");
    if (ask(m, &w, &request, NULL, NULL, &answer, NULL))
        return;
    cleanup_free char *at = shell_word(m->mountpoint);
    cleanup_free char *cure = xasprintf("sampan scan %s takes the new version into use", at);
    struct json root = json_root(answer), list = json_get(&root, "stale");
    for (size_t i = 0; i < json_count(&list); i++) {
        struct json s = json_at(&list, i);
        finding(d, WRONG, "object changed at the source: reading it fails with ESTALE", cure,
                "%s: %s", json_str_at(&s, "path"), json_str_at(&s, "why"));
    }
}

/* What the store refused. What merely waits for its turn is none of a doctor's business. */
static void check_pending(struct doctor *d, const struct control_mount *m,
                          const struct json *pending)
{
    cleanup_free char *at = shell_word(m->mountpoint);
    cleanup_free char *cure = xasprintf("sampan flush %s tries again", at);
    struct json items = json_get(pending, "items");
    for (size_t i = 0; i < json_count(&items); i++) {
        struct json item = json_at(&items, i);
        if (*json_str_at(&item, "why"))
            finding(d, WRONG, "not stored: the bytes are kept here", cure, "%s: %s",
                    json_str_at(&item, "path"), json_str_at(&item, "why"));
    }
    if (!json_uint_at(pending, "failed"))
        finding(d, SOUND, "nothing that was written failed to be stored", NULL, "%s", m->uri);
}

/* With the mount's own keys, by its own way. */
static void check_sources(struct doctor *d, const struct control_mount *m, bool writable)
{
    cleanup_bytes struct bytes request = {0};
    cleanup_json struct json_doc *answer = NULL;
    struct json_writer w;
    struct err err = {0};
    ask_begin(&w, &request, "probe");
    if (ask(m, &w, &request, NULL, NULL, &answer, &err)) { /* an older program perhaps */
        finding(d, NOTE, "the store was not asked", NULL, "%s: %s", m->uri, err.msg);
        return;
    }
    struct json root = json_root(answer), sources = json_get(&root, "sources");
    for (size_t i = 0; i < json_count(&sources); i++) {
        struct json s = json_at(&sources, i);
        doctor_probed(d, json_str_at(&s, "uri"), json_str_at(&s, "what"), json_str_at(&s, "why"),
                      json_str_at(&s, "key"), writable);
    }
}

static void check_peers(struct doctor *d, const struct json *status)
{
    struct json peers = json_get(status, "peers");
    const char *why = json_str_at(status, "peers_why"),
               *astray = json_str_at(status, "follows_why");
    if (*why)
        finding(d, WRONG, "who the other machines are cannot be asked", NULL, "%s", why);
    if (*astray)
        finding(d, WRONG, "the version of the set's servers is not served here", NULL, "%s",
                astray);
    for (size_t i = 0; i < json_count(&peers); i++) {
        struct json p = json_at(&peers, i);
        const char *state = json_str_at(&p, "state"), *url = json_str_at(&p, "url");
        if (strcmp(state, "lost") == 0)
            finding(d, WRONG, "another machine's server is lost: the store is asked instead",
                    "is sampan serve running there?", "%s", json_str_at(&p, "why"));
        else if (strcmp(state, "denied") == 0)
            finding(d, WRONG, "another machine's server refuses this mount",
                    "give its token with --peer-token-file, or sampan set", "%s: %s", url,
                    json_str_at(&p, "why"));
        else if (strcmp(state, "version") == 0)
            finding(d, NOTE, "another machine serves another version: the store is asked instead",
                    "scan both, or set them one version", "%s: %s", url, json_str_at(&p, "why"));
    }
}

/* A version that comes from a store, where it does not. */
static void check_arriving(struct doctor *d, const struct json *status)
{
    struct json arriving = json_get(status, "catalog_arriving");
    const char *why = json_str_at(&arriving, "why");
    if (!*why)
        return;
    bool refused = false;
    json_bool_or(&arriving, "refused", false, &refused, NULL);
    if (refused)
        finding(d, WRONG, "the catalog is not believed: every look-up fails", NULL, "%s", why);
    else
        finding(d, WRONG, "the catalog does not come: look-ups of what is missing fail", NULL, "%s",
                why);
}

void doctor_mount(struct doctor *d, const struct control_mount *m, bool whole)
{
    cleanup_json struct json_doc *answer = NULL;
    if (!check_mount(d, m) || ask_status(m, &answer, NULL))
        return;
    struct json root = json_root(answer), status = json_get(&root, "status");
    struct json set = json_get(&status, "set"), pending = json_get(&status, "pending");
    if (status_refuses(&status)) {
        cleanup_free char *at = shell_word(m->mountpoint);
        cleanup_free char *cure =
            xasprintf("it is tried again now and then; sampan upgrade %s does so at once", at);
        finding(d, WRONG, "degraded: every read fails", cure, "%s: %s", m->mountpoint,
                json_str_at(&status, "why"));
        return;
    }
    if (!json_uint_at(&status, "keeper_pid"))
        finding(d, NOTE, "no keeper: readers fail if the daemon dies",
                "mount again without --no-keeper, with sampan-keeper installed", "%s",
                m->mountpoint);
    if (pending.node) {
        check_pending(d, m, &pending);
        check_tiers(d, &status);
        if (whole)
            check_sources(d, m, /* writable= */ true);
        return;
    }
    if (json_uint_at(&set, "samples") == 0)
        finding(d, NOTE, "the set is empty", "is the name right?", "%s", m->uri);
    check_tiers(d, &status);
    check_arriving(d, &status);
    check_peers(d, &status);
    check_stale(d, m);
    if (!whole)
        return;
    check_sources(d, m, /* writable= */ false);
    if (*json_str_at(&status, "dir"))
        doctor_names(d, json_str_at(&status, "dir"));
}
