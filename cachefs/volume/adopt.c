/*
 * A catalog file from elsewhere (--catalog FILE, or a SET that is one).
 *
 * Ids name bytes in the cache and pages in the kernel. Two catalogs that were made apart may give
 * one id to two samples; served on one cache folder, that would be wrong bytes. So a file is taken
 * only if each of its ids is the same row in the newest version that the folder knows, or was never
 * given out by it. A version's name says nothing of ids: where the folder has that version, its own
 * file is used.
 */
#define LOG_MODULE "volume"
#include "volume-internal.h"

#include <unistd.h>

#include "early.h"
#include "log.h"

#define PAGE_ROWS 256

struct page {
    struct catalog *catalog;
    struct entry rows[PAGE_ROWS];
    size_t n, at;
    uint64_t after;
};

static bool page_row(void *arg, const struct entry *e)
{
    struct page *p = arg;
    p->rows[p->n++] = *e;
    return p->n < PAGE_ROWS;
}

/* The row under the cursor, or NULL at the end. */
static const struct entry *page_peek(struct page *p, struct err *err)
{
    if (p->at == p->n) {
        p->at = p->n = 0;
        if (catalog_walk(p->catalog, p->after, page_row, p, err) || p->n == 0)
            return NULL;
        p->after = p->rows[p->n - 1].id;
    }
    return &p->rows[p->at];
}

static bool same_row(const struct entry *a, const struct entry *b)
{
    return a->parent == b->parent && a->size == b->size && a->mtime_ns == b->mtime_ns &&
           strcmp(a->name, b->name) == 0 && strcmp(a->etag, b->etag) == 0;
}

static int conflict(const char *file, const struct entry *theirs, const struct entry *ours,
                    struct err *err)
{
    return err_set(err, ERR_USAGE,
                   "catalog %s: id %llu is \"%s\" there and %s%s%s in the catalog that this cache "
                   "was filled by (scan on top of that catalog, or use another cache folder)",
                   file, (unsigned long long)theirs->id, theirs->name, ours ? "\"" : "",
                   ours ? ours->name : "a sample that is gone", ours ? "\"" : "");
}

/* Every id of `theirs` that was ever given out by `ours` must be the same row there. */
static int check_pages(struct page *ours, struct page *theirs, const char *file, struct err *err)
{
    struct err e = {0};
    uint64_t given_out = catalog_info(ours->catalog)->next_id;
    const struct entry *x = page_peek(ours, &e), *y = page_peek(theirs, &e);
    while (y && y->id < given_out && !e.class) {
        if (x && x->id < y->id) {
            ours->at++;
            x = page_peek(ours, &e);
            continue;
        }
        if (!x || x->id != y->id || !same_row(x, y))
            return conflict(file, y, x && x->id == y->id ? x : NULL, err);
        theirs->at++;
        y = page_peek(theirs, &e);
    }
    if (e.class && err)
        *err = e;
    return e.class ? -1 : 0;
}

static int check_ids(struct catalog *known, struct catalog *c, const char *file, struct err *err)
{
    struct page *pages = xcalloc(2, sizeof *pages);
    pages[0].catalog = known;
    pages[1].catalog = c;
    int rc = check_pages(&pages[0], &pages[1], file, err);
    free(pages);
    return rc;
}

/* `current` stays the version that has given out most ids: what is scanned next builds on it. */
static int take_in(struct catalog *c, const char *file, const char *dir, struct err *err)
{
    const struct catalog_info *info = catalog_info(c);
    struct catalog *known = NULL;
    struct err e = {0};
    if (catalog_current(&known, dir, &e)) {
        if (e.class == ERR_NOT_FOUND)
            return catalog_put_file(dir, file, info->digest, /* current= */ true, err);
        if (err)
            *err = e;
        return err_wrap(err, "catalog in %s", dir);
    }
    bool newer = info->next_id > catalog_info(known)->next_id;
    int rc = check_ids(known, c, file, err);
    catalog_unref(known);
    return rc ? rc : catalog_put_file(dir, file, info->digest, /* current= */ newer, err);
}

int version_adopt(const char *file, const char *dir, struct catalog **ret, struct err *err)
{
    struct catalog *c;
    if (catalog_open(&c, file, err))
        return -1;
    cleanup_free char *path = catalog_version_file(dir, catalog_info(c)->digest);
    int rc = access(path, F_OK) == 0 ? 0 : take_in(c, file, dir, err);
    catalog_unref(c);
    return rc ? -1 : catalog_open(ret, path, err);
}

/* --- made durable while it is served --------------------------------------------------------- */

struct settling {
    struct log *log;
    char *files[2];
};

static void *settle_main(void *arg)
{
    struct settling *s = arg;
    for (size_t i = 0; i < sizeof s->files / sizeof s->files[0]; i++) {
        struct err err = {0};
        if (early_is_marked(s->files[i]) && early_settle(s->files[i], &err))
            log_warn(s->log, "after a power cut this catalog would be fetched again: %s", err.msg);
        free(s->files[i]);
    }
    free(s);
    return NULL;
}

int version_settle_start(struct volume *v, const char *named, struct err *err)
{
    const char *version = catalog_file(v->versions[0]);
    if (!early_is_marked(version) && !(named && early_is_marked(named)))
        return 0;
    struct settling *s = xcalloc(1, sizeof *s);
    *s = (struct settling){v->conf.log, {xstrdup(version), xstrdup(named ? named : version)}};
    int e = thread_start(&v->settle_thread, "settle-catalog", settle_main, s);
    v->settle_started = !e;
    return e ? err_thread(err, e, "start a thread that makes the catalog durable") : 0;
}

void version_settle_stop(struct volume *v)
{
    if (v->settle_started)
        pthread_join(v->settle_thread, NULL);
}
