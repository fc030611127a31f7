/*
 * A version whose file is still on its way: SQLite reads it through a file system of its own, in
 * which every read first waits until its bytes are there. Nothing else is different: the same
 * statements, the same pages, the same checks.
 *
 * SQLite knows a file system (a "VFS") by its name, so each such catalog registers one for as long
 * as it lives. Why a read failed stays with the connection's file until SQLite has said that it
 * did, and sql_error() asks for it.
 */
#include "catalog-internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "mem.h"

#define WHY_CONTROL 0x53616d70 /* an operation of sqlite3_file_control() that only we know */

struct arriving {
    sqlite3_vfs vfs; /* of SQLite's own, with our way of opening */
    char name[32];
    struct catalog_pages pages;
};

struct arriving_file {
    sqlite3_file base; /* first: it is one */
    const struct arriving *of;
    struct err why;
};

static struct arriving_file *file_of(sqlite3_file *f)
{
    return (struct arriving_file *)f;
}

/* --- a file ---------------------------------------------------------------------------------- */

static int on_close(sqlite3_file *f)
{
    (void)f;
    return SQLITE_OK;
}

static int on_read(sqlite3_file *f, void *to, int len, sqlite3_int64 off)
{
    struct arriving_file *a = file_of(f);
    const struct catalog_pages *p = &a->of->pages;
    uint64_t left = (uint64_t)off < p->size ? p->size - (uint64_t)off : 0;
    size_t want = left < (uint64_t)len ? (size_t)left : (size_t)len;
    a->why = (struct err){0};
    if (want && p->wait(p->arg, (uint64_t)off, want, &a->why))
        return SQLITE_IOERR_READ;
    ssize_t n = want ? file_read(p->fd, to, want, (uint64_t)off) : 0;
    if (n < 0) {
        err_sys(&a->why, errno, "read");
        return SQLITE_IOERR_READ;
    }
    if (n == len)
        return SQLITE_OK;
    memset((char *)to + n, 0, (size_t)len - (size_t)n);
    return SQLITE_IOERR_SHORT_READ;
}

static int on_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    *ret = (sqlite3_int64)file_of(f)->of->pages.size;
    return SQLITE_OK;
}

static int no_write(sqlite3_file *f, const void *data, int len, sqlite3_int64 off)
{
    (void)f, (void)data, (void)len, (void)off;
    return SQLITE_READONLY;
}

static int no_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    (void)f, (void)size;
    return SQLITE_READONLY;
}

static int no_need(sqlite3_file *f, int flags)
{
    (void)f, (void)flags;
    return SQLITE_OK;
}

static int not_locked(sqlite3_file *f, int *ret)
{
    (void)f;
    *ret = 0;
    return SQLITE_OK;
}

static int on_control(sqlite3_file *f, int op, void *ret)
{
    if (op != WHY_CONTROL)
        return SQLITE_NOTFOUND;
    *(struct err *)ret = file_of(f)->why;
    return SQLITE_OK;
}

static int on_traits(sqlite3_file *f)
{
    (void)f;
    return SQLITE_IOCAP_IMMUTABLE;
}

static int no_sector(sqlite3_file *f)
{
    (void)f;
    return 0;
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = on_close,
    .xRead = on_read,
    .xWrite = no_write,
    .xTruncate = no_truncate,
    .xSync = no_need,
    .xFileSize = on_size,
    .xLock = no_need,
    .xUnlock = no_need,
    .xCheckReservedLock = not_locked,
    .xFileControl = on_control,
    .xSectorSize = no_sector,
    .xDeviceCharacteristics = on_traits,
};

/* --- the file system ------------------------------------------------------------------------- */

/* It has one file. SQLite would ask for others to sort what does not fit its memory: nothing that
 * reads a catalog does. */
static int on_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *ret_flags)
{
    struct arriving_file *a = file_of(f);
    f->pMethods = NULL;
    if (!name || !(flags & SQLITE_OPEN_MAIN_DB))
        return SQLITE_CANTOPEN;
    *a = (struct arriving_file){.base.pMethods = &methods, .of = vfs->pAppData};
    if (ret_flags)
        *ret_flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB;
    return SQLITE_OK;
}

static int on_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
    (void)vfs, (void)name, (void)flags;
    *ret = 0;
    return SQLITE_OK;
}

static int on_full_name(sqlite3_vfs *vfs, const char *name, int size, char *ret)
{
    (void)vfs;
    int n = snprintf(ret, (size_t)size, "%s", name);
    return n >= 0 && n < size ? SQLITE_OK : SQLITE_CANTOPEN;
}

int arriving_new(struct arriving **ret, const struct catalog_pages *pages, struct err *err)
{
    const sqlite3_vfs *own = sqlite3_vfs_find(NULL);
    if (!own)
        return err_set(err, ERR_FAILED, "SQLite has no file system");
    struct arriving *a = xcalloc(1, sizeof *a);
    a->pages = *pages;
    a->pages.fd = dup(pages->fd);
    if (a->pages.fd < 0) {
        free(a);
        return err_sys(err, errno, "open a catalog that is on its way");
    }
    snprintf(a->name, sizeof a->name, "sampan-%p", (void *)a);
    a->vfs = *own; /* clock, sleep and the like */
    a->vfs.pNext = NULL;
    a->vfs.zName = a->name;
    a->vfs.szOsFile = (int)sizeof(struct arriving_file);
    a->vfs.pAppData = a;
    a->vfs.xOpen = on_open;
    a->vfs.xAccess = on_access;
    a->vfs.xFullPathname = on_full_name;
    if (sqlite3_vfs_register(&a->vfs, /* makeDflt= */ 0) != SQLITE_OK) {
        close(a->pages.fd);
        free(a);
        return err_set(err, ERR_FAILED, "SQLite takes no other file system");
    }
    *ret = a;
    return 0;
}

void arriving_free(struct arriving *a)
{
    if (!a)
        return;
    sqlite3_vfs_unregister(&a->vfs);
    close(a->pages.fd);
    free(a);
}

const char *arriving_vfs(const struct arriving *a)
{
    return a ? a->name : NULL;
}

int arriving_await(const struct arriving *a, struct err *err)
{
    return a->pages.wait(a->pages.arg, 0, 1, err);
}

int arriving_head(const struct arriving *a, void *to, size_t len, struct err *err)
{
    ssize_t n = file_read(a->pages.fd, to, len, 0);
    return n == (ssize_t)len ? 0 : err_sys(err, n < 0 ? errno : EIO, "read");
}

int arriving_whole(const struct arriving *a, uint64_t wait_ns, struct err *err)
{
    return a->pages.whole(a->pages.arg, wait_ns, err);
}

bool arriving_why(sqlite3 *db, struct err *ret)
{
    return sqlite3_file_control(db, "main", WHY_CONTROL, ret) == SQLITE_OK && ret->class;
}
