/*
 * A version that stays: one of those that are kept is served until it is let go, whatever is
 * published meanwhile. That is noted in the catalog's folder (a link, `pinned`), so that it holds
 * for the next mount too, and the version's file is not pruned.
 *
 * Ids are permanent, so going back is a switch like any other: what did not change keeps its id and
 * its cached bytes; what did has its old id again, whose bytes are cached still, or are fetched if
 * the source has the object as it was, or are stale.
 *
 * A machine that never had the version takes it from one of its peers that keeps it: the same rows,
 * by ids of its own.
 */
#define LOG_MODULE "volume"
#include "volume-internal.h"

#include <string.h>
#include <unistd.h>

#include "log.h"
#include "peer.h"

#define SHORT_NAME 8 /* digits at least of a name that is cut short */

/* A version's name; one that is cut short, as texts for people have it, is that of the one version
 * kept here that begins so. */
static int whole_name(struct volume *v, const char *text, char ret[CATALOG_DIGEST + 1],
                      struct err *err)
{
    size_t len = strlen(text), found = 0;
    bool hex = strspn(text, "0123456789abcdef") == len;
    if (hex && len == CATALOG_DIGEST) {
        memcpy(ret, text, len + 1);
        return 0;
    }
    ACQUIRE(&v->lock);
    for (size_t i = 0; hex && len >= SHORT_NAME && i < VERSIONS_KEPT && v->versions[i]; i++) {
        const char *name = catalog_info(v->versions[i])->digest;
        if (strncmp(name, text, len) != 0)
            continue;
        memcpy(ret, name, CATALOG_DIGEST + 1);
        found++;
    }
    return found == 1 ? 0
                      : err_set(err, ERR_USAGE,
                                "\"%.80s\": want the name of a version, %d hexadecimal digits, or "
                                "the first %d or more of one that is kept (the status lists them)",
                                text, CATALOG_DIGEST, SHORT_NAME);
}

/* Which there are, as the end of a sentence. */
static int not_kept(struct volume *v, const char *digest, struct err *err)
{
    cleanup_bytes struct bytes names = {0};
    ACQUIRE(&v->lock);
    for (size_t i = 0; i < VERSIONS_KEPT && v->versions[i]; i++)
        bytes_addf(&names, "%s%s", i ? ", " : "", catalog_info(v->versions[i])->digest);
    return err_set(err, ERR_NOT_FOUND, "version %s is not kept here (there are: %s)", digest,
                   names.data);
}

/* Can it be served in the place of those that were served before? */
static bool is_ours(struct volume *v, struct catalog *c)
{
    if (!sources_match(&v->sources, c))
        return false;
    ACQUIRE(&v->lock);
    return !v->versions[0] || catalog_info(v->versions[0])->lineage == catalog_info(c)->lineage;
}

/* Of those that are open, or of the folder's: another process may have published it. */
static struct catalog *find_kept(struct volume *v, const char *folder, const char *digest)
{
    struct catalog *c = volume_catalog_named(v, digest, 0);
    cleanup_free char *file = catalog_version_file(folder, digest);
    if (c || catalog_open(&c, file, NULL))
        return c;
    if (is_ours(v, c) && strcmp(catalog_info(c)->digest, digest) == 0)
        return c;
    catalog_unref(c);
    return NULL;
}

/* Theirs, as a version of this folder's. */
static int take_in(struct volume *v, const char *folder, struct catalog *theirs,
                   struct catalog **ret, struct err *err)
{
    struct scan s = {.conf = &v->conf, .sources = &v->sources, .previous = version_longest(v)};
    struct catalog_builder *b = NULL;
    cleanup_free char *file = NULL;
    int rc = catalog_verify(theirs, err);
    if (!rc && !sources_match(&v->sources, theirs))
        rc = err_set(err, ERR_CORRUPT, "another machine sent a version of another set");
    if (!rc)
        rc = scan_builder(&s, folder, &b, err);
    if (!rc)
        rc = catalog_builder_take(b, theirs, err);
    if (!rc)
        rc = catalog_builder_finish(b, NULL, &file, NULL, err);
    catalog_builder_free(b);
    catalog_unref(s.previous);
    return rc ? rc : catalog_open(ret, file, err);
}

static int take_from_peer(struct volume *v, const char *folder, const char *digest,
                          struct catalog **ret, struct err *err)
{
    cleanup_free char *file = xasprintf("%s/.build-%d-peer", folder, (int)getpid());
    struct catalog *theirs = NULL;
    if (peer_catalog_any(v->peers, digest, file, err))
        return -1;
    int rc = catalog_open(&theirs, file, err);
    if (!rc && strcmp(catalog_info(theirs)->digest, digest) != 0)
        rc = err_set(err, ERR_CORRUPT, "another machine sent version %.12s",
                     catalog_info(theirs)->digest);
    if (!rc)
        rc = take_in(v, folder, theirs, ret, err);
    catalog_unref(theirs);
    unlink(file);
    if (rc)
        return err_wrap(err, "take version %.12s from another machine", digest);
    cache_recount(v->cache);
    return 0;
}

/* One that is here, or comes. */
static int find(struct volume *v, const char *folder, const char *digest, struct catalog **ret,
                struct err *err)
{
    struct err e = {0};
    *ret = find_kept(v, folder, digest);
    if (*ret || take_from_peer(v, folder, digest, ret, &e) == 0)
        return 0;
    if (e.class == ERR_NOT_FOUND)
        return not_kept(v, digest, err);
    if (err)
        *err = e;
    return -1;
}

static int check_numbering(struct volume *v, struct catalog *c, struct err *err)
{
    bool right;
    if (numbering_check(v, c, &right, err))
        return -1;
    return right ? 0
                 : err_set(err, ERR_USAGE,
                           "version %.12s is numbered otherwise than by the sampler's list= (set "
                           "another sampler first, or another version)",
                           catalog_info(c)->digest);
}

static void set_pinned(struct volume *v, bool pinned)
{
    ACQUIRE(&v->lock);
    v->pinned = pinned;
}

static int go_to(struct volume *v, const char *folder, const char *digest, bool pinned,
                 struct err *err)
{
    struct catalog *c;
    if (find(v, folder, digest, &c, err))
        return -1;
    if (check_numbering(v, c, err) || catalog_pin(folder, pinned ? digest : "", err)) {
        catalog_unref(c);
        return -1;
    }
    set_pinned(v, pinned);
    version_switch(v, c);
    return 0;
}

/* First of all it is let go: where the newest cannot take its place here, it can in a new mount. */
static int unpin(struct volume *v, const char *folder, struct err *err)
{
    struct catalog *c;
    if (!version_is_pinned(v))
        return 0;
    if (catalog_pin(folder, "", err))
        return -1;
    set_pinned(v, false);
    if (version_newest(v, folder, &c, err))
        return err_wrap(err, "the version is no longer pinned, but is still served");
    version_switch(v, c);
    return 0;
}

int version_go_to(struct volume *v, const char *digest, bool pinned, struct err *err)
{
    cleanup_bytes struct bytes folder = {0};
    if (catalog_folder(&v->conf, &folder, err))
        return -1;
    if (!gate_enter(&v->gate))
        return err_set(err, ERR_CANCELLED, "the volume is closing");
    int rc = scan_claim(v, err);
    if (!rc) {
        rc = *digest ? go_to(v, folder.data, digest, pinned, err) : unpin(v, folder.data, err);
        catalog_prune(folder.data, VERSIONS_KEPT, NULL); /* a leftover is no reason to fail */
        scan_end(v);
    }
    if (!rc && !*digest) /* whoever made the newest need not have known the sampler's list */
        rc = number_anew(v, err);
    gate_leave(&v->gate);
    return rc;
}

int volume_set_version(struct volume *v, const char *digest, struct err *err)
{
    char name[CATALOG_DIGEST + 1] = "";
    if (*digest && whole_name(v, digest, name, err))
        return -1;
    if (named_catalog(v) && !version_is_remote(v))
        return *digest ? err_set(err, ERR_USAGE,
                                 "this mount shows the version of %s (mount without --catalog)",
                                 named_catalog(v))
                       : 0;
    if (follow_is_on(v))
        return *digest ? err_set(err, ERR_USAGE,
                                 "this mount serves the version that the servers of its set serve "
                                 "(set it there, or take the mount's peers away first)")
                       : 0;
    return version_go_to(v, name, /* pinned= */ true, err);
}

int pinned_open(struct volume *v, const char *folder, struct catalog **ret, struct err *err)
{
    struct err e = {0};
    int rc = catalog_pinned(ret, folder, &e);
    if (!rc && !is_ours(v, *ret))
        rc = err_set(&e, ERR_CORRUPT, "the version that is pinned is of another set");
    else if (!rc && check_numbering(v, *ret, &e))
        rc = err_wrap(&e, "a version is pinned");
    set_pinned(v, !rc);
    if (!rc)
        return 1;
    if (*ret)
        catalog_unref(take_ptr(ret));
    if (e.class == ERR_NOT_FOUND)
        return 0;
    if (e.class == ERR_CORRUPT) {
        log_warn(v->conf.log, "no version is pinned any more, the newest is served: %s", e.msg);
        return catalog_pin(folder, "", err);
    }
    if (err)
        *err = e;
    return -1;
}
