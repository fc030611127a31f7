/*
 * What stands beside an object's bytes (--perms) and links (--links), on stores of either kind:
 *
 *   folders   the inode's mode, owner and time; symbolic links
 *   S3, BOS   the object's metadata as struct object_meta has it (object.h), which is that of
 *             writable mounts; a link is an object whose mode is a link's and whose body its target
 *
 * Listings do not tell of metadata: an object is asked by a HEAD where it matters.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "copy-internal.h"

bool keeps_meta(const struct store *s)
{
    return store_caps(s) & (STORE_LOCAL | STORE_META);
}

static bool is_local(const struct store *s)
{
    return store_caps(s) & STORE_LOCAL;
}

/* --- looking ---------------------------------------------------------------------------------- */

static int meta_of_file(struct store *s, const char *key, bool follow, struct meta *ret,
                        struct err *err)
{
    struct stat st;
    follow = follow || key[strlen(key) - 1] == '/'; /* a folder, be it behind a link */
    if (follow ? store_local_look(s, key, &st, err) : store_local_stat(s, key, &st, err))
        return -1;
    ret->known = true;
    ret->m = (struct object_meta){.mode = st.st_mode,
                                  .uid = st.st_uid,
                                  .gid = st.st_gid,
                                  .mtime_ns = clock_ns_of(&st.st_mtim)};
    return 0;
}

int meta_look(struct sync_run *r, struct store *s, const char *key, bool follow, struct meta *ret,
              struct err *err)
{
    struct http_answer a;
    *ret = (struct meta){.m.mtime_ns = LIST_MTIME_UNKNOWN};
    if (is_local(s))
        return meta_of_file(s, key, follow, ret, err);
    if (fetch_head(r->fetch, s, key, &a, err))
        return -1;
    ret->known = store_meta_of(&a, &ret->m);
    snprintf(ret->etag, sizeof ret->etag, "%s", a.etag);
    return 0;
}

/* --- giving ----------------------------------------------------------------------------------- */

void meta_to_attrs(const struct meta *m, struct local_attrs *ret)
{
    *ret = (struct local_attrs){.has_mode = m->known,
                                .has_owner = m->known,
                                .has_mtime = m->m.mtime_ns != LIST_MTIME_UNKNOWN,
                                .mode = m->m.mode & 07777,
                                .uid = m->m.uid,
                                .gid = m->m.gid,
                                .mtime_ns = m->m.mtime_ns};
}

static bool same_meta(const struct meta *a, const struct meta *b)
{
    return b->known && (a->m.mode & 07777) == (b->m.mode & 07777) && a->m.uid == b->m.uid &&
           a->m.gid == b->m.gid && a->m.mtime_ns == b->m.mtime_ns;
}

static int look_for(struct sync_run *r, struct store *s, const char *key, bool follow,
                    struct meta *ret, struct err *err)
{
    struct err e = {0};
    if (meta_look(r, s, key, follow, ret, &e) == 0)
        return 0;
    if (e.class == ERR_NOT_FOUND && key[strlen(key) - 1] == '/')
        return 0; /* a folder that is there by what lies in it alone */
    *err = e;
    return -1;
}

int meta_refresh(struct sync_run *r, uint32_t source, const char *key, struct err *err)
{
    const struct sync_source *from = &r->sources[source];
    bool folder = key[strlen(key) - 1] == '/';
    struct meta want, have;
    struct local_attrs attrs;
    if (look_for(r, from->store, key + strlen(from->at), !r->conf->links, &want, err) ||
        look_for(r, r->to, key, false, &have, err))
        return -1;
    if (!want.known || same_meta(&want, &have))
        return 0;
    if (folder && !is_local(r->to))
        return fetch_folder_as(r->fetch, r->to, key, &want.m, err);
    if (!is_local(r->to))
        return fetch_set_meta(r->fetch, r->to, key, have.etag, &want.m, err);
    meta_to_attrs(&want, &attrs);
    return store_local_set_attrs(r->to, key, &attrs, err);
}

/* --- links ------------------------------------------------------------------------------------ */

bool may_be_link(const struct store *s, const struct side *side)
{
    return side->row.kind == SYNC_LINK ||
           (side->row.kind == SYNC_OBJECT && (store_caps(s) & STORE_META) && side->row.size > 0 &&
            side->row.size < PATH_MAX);
}

/* 1: it is a link, to *ret; 0: it is none. */
static int read_target(struct sync_run *r, struct store *s, const char *key,
                       const struct side *side, struct meta *meta, struct bytes *ret,
                       struct err *err)
{
    if (!may_be_link(s, side))
        return 0;
    if (meta_look(r, s, key, false, meta, err))
        return -1;
    if (!meta->known || !S_ISLNK(meta->m.mode))
        return 0;
    bytes_clear(ret);
    if (is_local(s))
        return store_local_readlink(s, key, ret, err) ? -1 : 1;
    char target[PATH_MAX];
    /* Short when it was listed; it may be another object by now. */
    if (side->row.size == 0 || side->row.size >= sizeof target)
        return err_set(err, ERR_CORRUPT, "a link to nowhere: its target has %llu bytes",
                       (unsigned long long)side->row.size);
    const struct fetch_get get = {.store = s,
                                  .key = key,
                                  .key_len = strlen(key),
                                  .object_size = side->row.size,
                                  .etag = side->etag,
                                  .prio = PRIO_WARMUP};
    if (fetch_read(r->fetch, &get, target, side->row.size, err))
        return -1;
    if (memchr(target, '\0', side->row.size))
        return err_set(err, ERR_CORRUPT, "a link to nowhere: its target has a NUL");
    bytes_add(ret, target, side->row.size);
    return 1;
}

int link_target(const struct copying *c, struct meta *meta, struct bytes *ret, struct err *err)
{
    return read_target(c->run, c->source->store, c->from, c->src, meta, ret, err);
}

int compare_links(const struct copying *c, struct err *err)
{
    cleanup_bytes struct bytes a = {0}, b = {0};
    struct meta meta;
    int one = link_target(c, &meta, &a, err);
    int other = one < 0 ? -1 : read_target(c->run, c->run->to, c->key, c->dst, &meta, &b, err);
    if (other < 0)
        return -1;
    if (one != other)
        return 0;
    return one ? a.len == b.len && memcmp(a.data, b.data, a.len) == 0
               : compare_bytes(c, c->dst, err);
}

int put_link(const struct copying *c, const struct meta *meta, const struct bytes *target,
             struct err *err)
{
    struct sync_run *r = c->run;
    struct local_attrs attrs;
    if (!is_local(r->to)) {
        const struct fetch_put_opts opts = {.meta = &meta->m};
        return fetch_put_bytes(r->fetch, r->to, c->key, target->data, target->len, &opts, NULL,
                               err);
    }
    if (store_local_link(r->to, c->key, target->data, err))
        return -1;
    meta_to_attrs(meta, &attrs);
    attrs.has_owner = attrs.has_mode = r->conf->perms;
    return store_local_set_attrs(r->to, c->key, &attrs, err);
}

/* A link of the destination that stands where the source has a folder is not written through: it
 * may lead anywhere. Between folders, --links has the folder take its place, as rsync does, and
 * --delete-dst has deleted it by now unless a pattern keeps it. Names and links of a bucket are
 * anybody's: there nothing makes way. */
int check_parents(const struct copying *c, struct err *err)
{
    const struct sync_run *r = c->run;
    bool replaces = r->conf->links && !r->conf->delete_dst && is_local(c->source->store);
    if (!is_local(r->to) || (!r->conf->links && !r->conf->delete_dst))
        return 0;
    for (const char *slash = strchr(c->key, '/'); slash; slash = strchr(slash + 1, '/')) {
        cleanup_free char *folder = xstrndup(c->key, (size_t)(slash - c->key));
        struct stat st;
        if (slash[1] == '\0' && !replaces)
            return 0;
        if (store_local_stat(r->to, folder, &st, NULL) || !S_ISLNK(st.st_mode))
            continue;
        if (!replaces)
            return err_set(err, ERR_DENIED,
                           "\"%s\" is a link at the destination: nothing is "
                           "written through it",
                           folder);
        /* Another worker may have done so, and made the folder. */
        struct err why = {0};
        if (store_local_delete(r->to, folder, &why) && why.sys != EISDIR) {
            *err = why;
            return -1;
        }
    }
    return 0;
}
