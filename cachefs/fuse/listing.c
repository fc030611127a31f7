/*
 * Folders: pages of entries for READDIR and READDIRPLUS, and the next page made ahead.
 *
 * In a walk the kernel takes a page in while we idle, then waits while we make the next one. So
 * whoever answered a page makes the one behind it at once, or the first one of the folder that a
 * walk enters next, and puts it aside. Such a page is of one version and is given out only while
 * that version is the one to list from.
 */
#include <errno.h>
#include <string.h>

#include "cleanup.h"
#include "frontend-internal.h"
#include "mem.h"

static void cleanup_catalog_fn(struct catalog **c)
{
    catalog_unref(*c);
}
#define cleanup_catalog CLEANUP(cleanup_catalog_fn)

/* --- one page --- */

struct listing {
    const struct frontend *f;
    struct page page;
};

/* Adds one entry; false: it does not fit any more. (libfuse looks at no request for these.) */
static bool listing_add(struct listing *l, const char *name, const struct fuse_entry_param *e,
                        uint64_t offset)
{
    struct page *p = &l->page;
    size_t left = p->size - p->used;
    size_t n = p->plus
                   ? fuse_add_direntry_plus(NULL, p->buf + p->used, left, name, e, (off_t)offset)
                   : fuse_add_direntry(NULL, p->buf + p->used, left, name, &e->attr, (off_t)offset);

    p->more = n > left;
    if (p->more)
        return false;
    p->used += n;
    p->last = offset;
    return true;
}

static bool listing_child(void *arg, const struct entry *e, uint64_t cookie)
{
    struct listing *l = arg;
    struct fuse_entry_param param;

    if (l->page.folder == CATALOG_ROOT_ID && !strcmp(e->name, CONTROL_DIR_NAME))
        return true; /* a source's own: shadowed by ours, and `scan` reports it */
    entry_param(l->f, e, &param);
    if (!listing_add(l, e->name, &param, dir_offset(cookie)))
        return false;
    if (e->folder && !l->page.first_folder)
        l->page.first_folder = e->id;
    return true;
}

/* "." and "..": with inode number 0 as node, so that the kernel links nothing. */
static bool listing_dots(struct listing *l, uint64_t parent)
{
    uint64_t from = l->page.offset;
    struct fuse_entry_param dot = {.attr = {.st_ino = l->page.folder, .st_mode = S_IFDIR | 0555}};
    struct fuse_entry_param up = {.attr = {.st_ino = parent, .st_mode = S_IFDIR | 0555}};

    return (from >= 1 || listing_add(l, ".", &dot, 1)) &&
           (from >= 2 || listing_add(l, "..", &up, 2));
}

/* 0 or an errno. */
static int list_catalog(struct catalog *c, struct listing *l)
{
    uint64_t folder = l->page.folder, offset = l->page.offset, parent = CATALOG_ROOT_ID;
    struct err err = {0};
    struct entry self;

    if (offset < 2) {
        if (catalog_get(c, folder, &self, &err) < 0)
            return err_errno(&err);
        if (!self.folder)
            return ENOTDIR;
        parent = self.parent ? self.parent : CATALOG_ROOT_ID;
        if (!listing_dots(l, parent))
            return 0;
    }
    if (catalog_page(c, folder, dir_cookie(offset), listing_child, l, &err) < 0) {
        l->page.more = false; /* nothing is made ahead of an error */
        if (!l->page.used)
            return err_errno(&err);
    }
    return 0; /* an error behind good entries comes with the next page */
}

/* `.sampan` or its folder. The status has a number only once it is looked up. */
static void list_own_dir(struct listing *l)
{
    struct fuse_entry_param status = {.attr = {.st_ino = INO_SNAPSHOTS, .st_mode = S_IFREG | 0444}};
    struct fuse_entry_param direct = {
        .attr = {.st_ino = INO_DIRECT_DIR, .st_mode = S_IFDIR | 0555}};
    bool inner = l->page.folder == INO_DIRECT_DIR;
    uint64_t from = l->page.offset;

    if (listing_dots(l, inner ? INO_CONTROL_DIR : CATALOG_ROOT_ID) && !inner &&
        (from >= 3 || listing_add(l, STATUS_NAME, &status, 3)) && from < 4 && l->f->conf.direct)
        listing_add(l, DIRECT_DIR_NAME, &direct, 4);
}

/* --- pages made ahead --- */

void pages_init(struct pages *p)
{
    lock_init(&p->lock, RANK_METRICS, "fuse pages");
}

void pages_destroy(struct pages *p)
{
    for (size_t i = 0; i < PAGES_AHEAD; i++)
        free(p->slots[i].buf);
    lock_destroy(&p->lock);
}

static bool is_asked(const struct page *have, const struct page *want)
{
    return have->buf && have->folder == want->folder && have->offset == want->offset &&
           have->size == want->size && have->plus == want->plus;
}

bool pages_take(struct pages *p, const char *version, struct page *want)
{
    ACQUIRE(&p->lock);

    for (size_t i = 0; i < PAGES_AHEAD; i++) {
        if (!is_asked(&p->slots[i], want))
            continue;
        struct page found = p->slots[i];
        p->slots[i] = (struct page){0};
        if (strcmp(found.version, version) == 0) {
            free(want->buf);
            *want = found;
            return true;
        }
        free(found.buf);
    }
    return false;
}

void pages_put(struct pages *p, const struct page *page)
{
    char *old;

    lock_take(&p->lock);
    old = p->slots[p->next].buf;
    p->slots[p->next] = *page;
    p->next = (p->next + 1) % PAGES_AHEAD;
    lock_drop(&p->lock);
    free(old);
}

static void make_page(struct frontend *f, struct catalog *c, const struct page *like,
                      uint64_t folder, uint64_t offset)
{
    struct listing l = {.f = f,
                        .page = {.folder = folder,
                                 .offset = offset,
                                 .size = like->size,
                                 .plus = like->plus,
                                 .buf = xmalloc(like->size)}};

    if (list_catalog(c, &l) || !l.page.used) {
        free(l.page.buf);
        return;
    }
    memcpy(l.page.version, catalog_info(c)->digest, sizeof(l.page.version));
    pages_put(&f->pages, &l.page);
}

#define SIBLINGS_MOST 16 /* rows looked at: among files, the next folder may be far */

struct sibling {
    uint64_t folder;
    unsigned rows;
};

static bool is_folder(void *arg, const struct entry *e, uint64_t cookie)
{
    struct sibling *s = arg;

    (void)cookie;
    s->folder = e->folder ? e->id : 0;
    return !s->folder && ++s->rows < SIBLINGS_MOST;
}

uint64_t pages_next_folder(struct catalog *c, const struct page *last)
{
    uint64_t folder = last->folder;
    struct entry e;

    if (last->first_folder)
        return last->first_folder;
    while (folder != CATALOG_ROOT_ID && catalog_get(c, folder, &e, NULL) == 0) {
        struct sibling s = {0};
        uint64_t parent = e.parent ? e.parent : CATALOG_ROOT_ID;

        if (catalog_page(c, parent, folder, is_folder, &s, NULL) < 0 || s.folder)
            return s.folder;
        folder = parent;
    }
    return 0;
}

static void make_ahead(struct frontend *f, struct catalog *c, const struct page *answered)
{
    uint64_t folder = answered->more ? answered->folder : pages_next_folder(c, answered);

    if (folder)
        make_page(f, c, answered, folder, answered->more ? answered->last : 0);
}

/* --- READDIR, READDIRPLUS --- */

/* Fills the page: one made ahead, or from the catalog. 0 or an errno. */
static int fill_page(struct frontend *f, struct catalog *c, struct listing *l)
{
    return pages_take(&f->pages, catalog_info(c)->digest, &l->page) ? 0 : list_catalog(c, l);
}

void list_folder(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, bool plus)
{
    struct frontend *f = fuse_req_userdata(req);
    size_t room = size < MAX_READ ? size : MAX_READ;
    struct listing l = {.f = f, .page = {.folder = ino, .plus = plus, .size = room}};
    cleanup_catalog struct catalog *c = NULL;
    int e = 0;

    l.page.offset = off < 0 ? 0 : (uint64_t)off;
    l.page.buf = xmalloc(room ? room : 1);
    if (off < 0) {
        e = EINVAL;
    } else if (ino_is_own_dir(&f->conf, ino)) {
        list_own_dir(&l);
    } else if (ino_is_ours(ino)) {
        e = ENOTDIR;
    } else {
        struct err err = {0};
        c = volume_catalog_of(f->volume, ino, &err);
        e = c ? fill_page(f, c, &l) : err.class == ERR_NOT_FOUND ? ESTALE : err_errno(&err);
    }
    if (e)
        fuse_reply_err(req, e);
    else
        fuse_reply_buf(req, l.page.buf, l.page.used);
    if (!e && c && l.page.used)
        make_ahead(f, c, &l.page);
    free(l.page.buf);
}
