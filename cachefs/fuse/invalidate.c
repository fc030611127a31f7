/*
 * A new version: the kernel forgets the names that changed and the listings of their folders,
 * nothing else. Runs on the thread that switched the version, never on a worker
 * (frontend-internal.h says why). Open files keep their old id, and so their old bytes.
 *
 * Names are remembered for a day, so of none may the kernel hear nothing: which version it knows
 * outlives this life, and changes when all was told. What could not be told (a catalog that can't
 * be read) is told with the next switch, or by the next life, as is what a life that ended in the
 * middle did not tell.
 */
#include <errno.h>
#include <string.h>

#include "frontend-internal.h"
#include "keeper.h"
#include "mem.h"

#define LOG_MODULE "fuse"
#include "log.h"

struct invalidation {
    struct frontend *f;
    struct catalog *from, *to;
    /* The folder of the last change: a diff comes in path order, so most changes share it. */
    char *folder;
    size_t folder_len;
    uint64_t ids[2]; /* of that folder in `to` and `from`; 0: not there */
};

static uint64_t folder_id(struct catalog *c, const char *path)
{
    struct entry e;

    if (!*path)
        return CATALOG_ROOT_ID;
    return catalog_find(c, path, &e, NULL) == 0 && e.folder ? e.id : 0;
}

static void enter_folder(struct invalidation *i, const char *path, size_t len)
{
    if (i->folder && i->folder_len == len && !memcmp(i->folder, path, len))
        return;
    free(i->folder);
    i->folder = xstrndup(path, len);
    i->folder_len = len;
    i->ids[0] = folder_id(i->to, i->folder);
    i->ids[1] = folder_id(i->from, i->folder);
    for (int k = 0; k < 2; k++)
        if (i->ids[k] && (k == 0 || i->ids[1] != i->ids[0]))
            fuse_lowlevel_notify_inval_inode(i->f->session, i->ids[k], 0, 0);
}

static bool invalidate_one(void *arg, char kind, const char *path, size_t len, bool folder,
                           uint64_t old_id, uint64_t new_id)
{
    struct invalidation *i = arg;
    const char *slash = memrchr(path, '/', len);
    size_t parent_len = slash ? (size_t)(slash - path) : 0;
    const char *name = slash ? slash + 1 : path;
    size_t name_len = len - (size_t)(name - path);

    (void)kind;
    enter_folder(i, path, parent_len);
    if (folder && old_id == new_id) {
        fuse_lowlevel_notify_inval_inode(i->f->session, new_id, -1, 0); /* attributes only */
        return true;
    }
    for (int k = 0; k < 2; k++)
        if (i->ids[k] && (k == 0 || i->ids[1] != i->ids[0]))
            fuse_lowlevel_notify_inval_entry(i->f->session, i->ids[k], name, name_len);
    counter_add(&i->f->kept->invalidated, 1);
    return true;
}

static bool tell(struct frontend *f, struct catalog *from, struct catalog *to)
{
    struct invalidation i = {.f = f, .from = from, .to = to};
    struct err err = {0};
    ACQUIRE(&f->telling);

    /* Without notifications the timeouts are a second, and that is all there is. */
    bool told = !f->mode.notify || catalog_diff(from, to, invalidate_one, &i, &err) == 0;
    if (!told)
        log_error(f->log, "names of the new version may show up late: %s", err.msg);
    /* A switch that is told before what was left untold does not hide that. */
    if (told && strcmp(keeper_text_get(f->known), catalog_info(from)->digest) == 0)
        keeper_text_set(f->known, catalog_info(to)->digest, NULL);
    free(i.folder);
    return told;
}

void invalidate_on_switch(void *arg, struct catalog *from, struct catalog *to)
{
    if (tell(arg, from, to))
        invalidate_untold(arg);
}

void invalidate_begin(struct frontend *f)
{
    struct catalog *now = volume_catalog(f->volume);

    f->known = keeper_text(f->hand.state, "kernel knows", CATALOG_DIGEST);
    if (!f->adopted || !*keeper_text_get(f->known))
        keeper_text_set(f->known, catalog_info(now)->digest, NULL);
    catalog_unref(now);
}

/* The version that the kernel knows, if it is not the one served. */
static struct catalog *left_untold(struct frontend *f, struct catalog *now)
{
    char digest[CATALOG_DIGEST + 1];
    {
        ACQUIRE(&f->telling);
        snprintf(digest, sizeof(digest), "%s", keeper_text_get(f->known));
    }
    if (!*digest || strcmp(digest, catalog_info(now)->digest) == 0)
        return NULL;
    struct catalog *known = volume_catalog_named(f->volume, digest, 0);
    if (!known) {
        log_warn(f->log,
                 "what changed since version %.12s can't be told: it is kept no more, and "
                 "names may be remembered for a day",
                 digest);
        ACQUIRE(&f->telling);
        keeper_text_set(f->known, catalog_info(now)->digest, NULL);
    }
    return known;
}

void invalidate_untold(struct frontend *f)
{
    struct catalog *now = volume_catalog(f->volume), *known;
    bool told = true;

    while (told && (known = left_untold(f, now))) {
        told = tell(f, known, now);
        catalog_unref(known);
        catalog_unref(now);
        now = volume_catalog(f->volume); /* it may have been switched meanwhile */
    }
    catalog_unref(now);
}

void frontend_drop_pages(struct frontend *f, uint64_t id)
{
    if (f->mode.notify)
        fuse_lowlevel_notify_inval_inode(f->session, id, 0, 0);
    passthrough_drop(f, id);
}
