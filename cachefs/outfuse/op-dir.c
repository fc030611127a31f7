/*
 * Folders. A listing's place is the inode number of its last entry, so nothing is kept between two
 * READDIRs and any life can go on with it. `.sampan` is in no listing.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include "mem.h"
#include "outfuse-internal.h"
#include "sampan-ioctl.h"

/* Offsets 1 and 2 are "." and "..", above them the stage's cookies. */
#define DOTS 2

struct listing {
    struct call *c;
    char *buf;
    size_t size, used;
    uint64_t ino;
    bool plus;
    bool hides_control; /* the root: a store's own .sampan is shadowed by ours */
};

static bool listing_add(struct listing *l, const char *name, const struct wire_entry_out *entry,
                        uint64_t offset)
{
    size_t len = strlen(name);
    size_t head = l->plus ? sizeof(struct wire_direntplus) : sizeof(struct wire_dirent);
    size_t room = WIRE_ALIGN(head + len);
    char *at = l->buf + l->used;
    struct wire_dirent *d = (void *)(l->plus ? at + sizeof(struct wire_entry_out) : at);

    if (room > l->size - l->used)
        return false;
    memset(at, 0, room);
    if (l->plus)
        memcpy(at, entry, sizeof(*entry));
    *d = (struct wire_dirent){.ino = entry->attr.ino,
                              .off = offset,
                              .namelen = (uint32_t)len,
                              .type = IFTODT(entry->attr.mode)};
    memcpy((char *)(d + 1), name, len);
    l->used += room;
    return true;
}

/* With attributes the kernel takes the entry as looked up, so it is. What only the store could tell
 * it asks for by itself, if anybody wants to know: node 0 says nothing about the entry. */
static bool add_child(void *arg, const char *name, const struct stage_attr *attr, uint64_t cookie)
{
    struct listing *l = arg;
    const struct stage_call look = {.uid = l->c->who.uid, .gid = l->c->who.gid, .wait = false};
    struct wire_entry_out entry;
    struct stage_attr known;

    if (l->hides_control && !strcmp(name, CONTROL_DIR_NAME))
        return true;
    entry_of_stage(attr, &entry);
    if (!l->plus)
        return listing_add(l, name, &entry, cookie + DOTS);
    if (stage_lookup(l->c->f->stage, &look, l->ino, name, &known, NULL) == 0)
        entry_of_stage(&known, &entry);
    else
        entry.nodeid = 0;
    if (listing_add(l, name, &entry, cookie + DOTS))
        return true;
    if (entry.nodeid)
        stage_forget(l->c->f->stage, entry.nodeid, 1);
    return false;
}

/* Node 0: the kernel links nothing. */
static bool add_dots(struct listing *l, uint64_t ino, uint64_t from)
{
    struct wire_entry_out dot = {.attr = {.ino = ino, .mode = S_IFDIR}};

    return (from >= 1 || listing_add(l, ".", &dot, 1)) &&
           (from >= 2 || listing_add(l, "..", &dot, 2));
}

/* The status has a number only once it is looked up. */
static void list_control_dir(struct listing *l, uint64_t from)
{
    struct wire_entry_out status = {.attr = {.ino = INO_SNAPSHOTS, .mode = S_IFREG}};

    if (add_dots(l, INO_CONTROL_DIR, from) && from < 3)
        listing_add(l, STATUS_NAME, &status, 3);
}

static int list(struct call *c, bool plus, struct err *err)
{
    const struct wire_read_in *in = c->in;
    uint64_t ino = c->h->nodeid;
    size_t size = in->size < MAX_WRITE ? in->size : MAX_WRITE;
    struct listing l = {
        .c = c, .ino = ino, .plus = plus, .size = size, .hides_control = ino == STAGE_ROOT};
    int rc = 0;

    c->more = l.buf = xmalloc(size ? size : 1);
    if (ino == INO_CONTROL_DIR)
        list_control_dir(&l, in->offset);
    else if (ino_is_ours(ino))
        return err_sys(err, ENOTDIR, "%s", STATUS_NAME);
    else if (add_dots(&l, ino, in->offset))
        rc = stage_readdir(c->f->stage, &c->who, ino, in->offset <= DOTS ? 0 : in->offset - DOTS,
                           add_child, &l, err);
    c->more_len = l.used;
    return rc;
}

int out_readdir(struct call *c, struct err *err)
{
    return list(c, /* plus= */ false, err);
}

int out_readdirplus(struct call *c, struct err *err)
{
    return list(c, /* plus= */ true, err);
}

void forget_listed(struct outfuse *f, const void *more, size_t len)
{
    for (size_t at = 0; at + sizeof(struct wire_direntplus) <= len;) {
        const struct wire_direntplus *d = (const void *)((const char *)more + at);

        if (d->entry.nodeid && !ino_is_ours(d->entry.nodeid))
            stage_forget(f->stage, d->entry.nodeid, 1);
        at += WIRE_ALIGN(sizeof(*d) + d->dirent.namelen);
    }
}

int out_opendir(struct call *c, struct err *err)
{
    (void)err;
    c->out.open = (struct wire_open_out){0};
    c->out_len = sizeof(c->out.open);
    return 0;
}

int out_releasedir(struct call *c, struct err *err)
{
    (void)c;
    (void)err;
    return 0;
}

/* Of the root: all that is owed. Of another folder: the names in it, which are in the journal (and,
 * with commit close, in the store) since the call that changed them returned. */
int out_fsyncdir(struct call *c, struct err *err)
{
    return (c->h->nodeid == STAGE_ROOT ? stage_sync : stage_sync_names)(c->f->stage, &c->who, err);
}

int out_ioctl(struct call *c, struct err *err)
{
    const struct wire_ioctl_in *in = c->in;
    struct outfuse *f = c->f;
    cleanup_bytes struct bytes text = {0};
    struct sampan_ioc_status *status;

    if (c->h->nodeid != STAGE_ROOT || !(in->flags & WIRE_IOCTL_DIR))
        return err_sys(err, ENOTTY, "ioctl");
    c->out.ioctl = (struct wire_ioctl_out){0};
    c->out_len = sizeof(c->out.ioctl);
    if (in->cmd == SAMPAN_IOC_HUSH)
        return 0; /* nothing is pushed here */
    if (in->cmd != SAMPAN_IOC_STATUS || !f->conf.status)
        return err_sys(err, ENOTTY, "ioctl");
    f->conf.status(f->conf.status_arg, &text);
    if (in->out_size < sizeof(*status) || text.len > sizeof(status->json))
        return err_sys(err, E2BIG, "ioctl: the status");
    status = xcalloc(1, sizeof(*status));
    status->len = (uint32_t)text.len;
    if (text.len)
        memcpy(status->json, text.data, text.len);
    c->more = status;
    c->more_len = sizeof(*status);
    return 0;
}
