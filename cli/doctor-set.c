/* A set: its store, the clocks, its cache folder, its names. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "clock.h"
#include "doctor-internal.h"
#include "mem.h"
#include "volume.h"

#define SKEW_NOTE_S  30
#define SKEW_WRONG_S 300 /* S3 refuses requests from 15 minutes on */
#define NAMES_SHOWN  1000

/* --- names ------------------------------------------------------------------------------------ */

struct names {
    struct doctor *d;
    unsigned n;
};

static int bad_name(void *arg, const char *key, size_t len, const char *why, struct err *err)
{
    struct names *names = arg;
    (void)err;
    if (names->n++ == NAMES_SHOWN)
        return 1;
    finding(names->d, WRONG, "an object that is not in the mount", "rename it, or mend the link",
            "%.*s: %s", (int)(len > 1000 ? 1000 : len), key, why);
    return 0;
}

void doctor_names(struct doctor *d, const char *dir)
{
    cleanup_free char *versions = xasprintf("%s/catalog", dir);
    struct catalog *c;
    struct names names = {.d = d};
    struct err err = {0};
    if (catalog_current(&c, versions, &err)) {
        if (err.class != ERR_NOT_FOUND)
            finding(d, WRONG, "the catalog cannot be read", "sampan scan makes a new one", "%s",
                    err.msg);
        return;
    }
    if (catalog_info(c)->bad_names && catalog_bad_names(c, bad_name, &names, &err))
        finding(d, WRONG, "the catalog cannot be read", "sampan scan makes a new one", "%s",
                err.msg);
    catalog_unref(c);
}

/* --- the store -------------------------------------------------------------------------------- */

static void check_clock(struct doctor *d, struct fetch *f, struct store *s, const char *key)
{
    struct http_answer answer;
    if ((store_caps(s) & STORE_LOCAL) || fetch_head(f, s, key, &answer, NULL) || !answer.date[0])
        return;
    int64_t there = (int64_t)curl_getdate(answer.date, NULL);
    int64_t skew = clock_wall_ns() / (int64_t)NS_PER_S - there;
    if (there < 0)
        return;
    int64_t apart = skew < 0 ? -skew : skew;
    enum verdict v = apart > SKEW_WRONG_S ? WRONG : apart > SKEW_NOTE_S ? NOTE : SOUND;
    finding(d, v, v == SOUND ? "clocks" : "this clock and the store's are apart",
            v == SOUND
                ? NULL
                : "set this machine's clock (NTP): signed requests are refused at 15 minutes",
            "%lld s %s the store's", (long long)apart, skew < 0 ? "behind" : "ahead of");
}

void doctor_probed(struct doctor *d, const char *uri, const char *what, const char *why,
                   const char *key, bool may_be_empty)
{
    if (*what && *key)
        finding(d, WRONG, what, NULL, "%s: %s: %s", uri, key, why);
    else if (*what)
        finding(d, WRONG, what, NULL, "%s: %s", uri, why);
    else if (!*key && may_be_empty)
        finding(d, SOUND, "listing (nothing is stored there)", NULL, "%s", uri);
    else if (!*key)
        finding(d, NOTE, "the listing is empty: an empty mount", "check the prefix", "%s", uri);
    else
        finding(d, SOUND, "listing and reading", NULL, "%s: %s", uri, key);
}

static void check_store(struct doctor *d, struct fetch *f, struct store *s)
{
    struct store_probe p;
    probe_store(f, s, &p);
    doctor_probed(d, store_uri(s), p.what ? p.what : "", p.err.msg, p.key ? p.key : "",
                  /* may_be_empty= */ false);
    if (p.key)
        check_clock(d, f, s, p.key);
    probe_release(&p);
}

static void check_source(struct doctor *d, const char *uri, const struct store_conf *conf)
{
    struct store *s;
    struct fetch *f;
    struct fetch_conf fetch;
    struct err err = {0};
    if (store_open(&s, uri, conf, &err)) {
        finding(d, WRONG, "not a usable set", NULL, "%s", err.msg);
        return;
    }
    fetch_conf_defaults(&fetch);
    probe_patience(&fetch);
    if (fetch_new(&f, &fetch, &err)) {
        finding(d, WRONG, "transfers cannot be started", NULL, "%s", err.msg);
    } else {
        check_store(d, f, s);
        fetch_free(f);
    }
    store_close(s);
}

/* --- the cache folder ------------------------------------------------------------------------- */

/* The folder itself or, as long as it is not there, the nearest one above it. */
static void existing_above(char *path, struct stat *st)
{
    while (stat(path, st)) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path) {
            path[0] = '/';
            path[1] = '\0';
            stat(path, st);
            return;
        }
        *slash = '\0';
    }
}

static void check_folder(struct doctor *d, const struct tier_conf *tier)
{
    cleanup_free char *path = xstrdup(tier->dir);
    struct stat st;
    struct statvfs fs;
    existing_above(path, &st);
    if (!S_ISDIR(st.st_mode) || access(path, W_OK | X_OK)) {
        finding(d, WRONG, "cache folder cannot be written",
                "give another one with --cache, or change its owner", "%s: %s", path,
                S_ISDIR(st.st_mode) ? strerror(errno) : "not a folder");
        return;
    }
    if (statvfs(path, &fs))
        return;
    uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize, files;
    if (owner_few_inodes(tier->dir, &files)) {
        finding(d, WRONG, "the cache's file system has no room for more files",
                "see df -i; remove files there, or give another folder with --cache",
                "%s: %llu more, whatever bytes are free", tier->dir, (unsigned long long)files);
        return;
    }
    char want[32], have[32];
    conf_format_size(tier->limit, want);
    conf_format_size(room, have);
    bool small = strcmp(path, tier->dir) != 0 && room < tier->limit;
    finding(d, small ? NOTE : SOUND,
            small ? "less free space than the tier may take" : "cache folder",
            small ? "the tier stays smaller: it leaves the free-space floor alone" : NULL,
            "%s: %s free, limit %s", tier->dir, have, want);
}

static void check_cache(struct doctor *d, const char *set, const struct doctor_options *o,
                        const struct store_conf *store)
{
    cleanup_owner struct owner owner = {0};
    struct err err = {0};
    if (owner_resolve(&owner, set, &o->set, store, &err)) {
        finding(d, WRONG, "no cache folder", NULL, "%s", err.msg);
        return;
    }
    for (size_t i = 0; i < owner.n_tiers; i++)
        check_folder(d, &owner.tiers[i]);
    doctor_names(d, owner.dir);
}

void doctor_set(struct doctor *d, const char *set, const struct doctor_options *o)
{
    struct set sources;
    struct store_conf store;
    struct err err = {0};
    store_conf_of(&o->store, &store);
    if (volume_sources(&sources, set, &err)) {
        finding(d, WRONG, "not a usable set", NULL, "%s", err.msg);
        return;
    }
    for (size_t i = 0; i < sources.n; i++)
        check_source(d, sources.sources[i].uri, &store);
    set_release(&sources);
    check_cache(d, set, o, &store);
}
