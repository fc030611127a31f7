/*
 * The journal: one SQLite file in WAL mode, one connection, used under s->lock. A commit without a
 * sync costs some ten microseconds and survives the end of this process, whatever ends it; what
 * must survive the machine's end is synced by journal_sync(), outside the lock. Checkpoints (which
 * wait for the disk) run on a connection of their own.
 *
 * A life that follows on a kill must open it on a disk that is full to the last byte: nothing is
 * written for that. So the index of the log is in memory, not in a file beside it (`unix-excl`).
 */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>

#include "mem.h"
#include "sql.h"
#include "owed-internal.h"

#define VFS                "unix-excl" /* this process alone, any number of connections */
#define CHECKPOINT_COMMITS 2000
#define LOG_FRAMES         8192 /* of 4 KiB: 32 MiB */
#define ROOM_COMMITS       16
#define CALLS_KEPT         4096u /* answers; the kernel resends only what nobody answered */

static const char *const texts[ST_COUNT] = {
    [ST_BEGIN] = "BEGIN",     [ST_COMMIT] = "COMMIT",         [ST_ROLLBACK] = "ROLLBACK",
    [ST_PUT] = (SQL_PUT),     [ST_DROP] = SQL_DROP,           [ST_DOOM] = SQL_DOOM,
    [ST_UNDOOM] = SQL_UNDOOM, [ST_CALL] = SQL_CALL,           [ST_CALL_DROP] = SQL_CALL_DROP,
    [ST_META] = SQL_META,     [ST_UPLOAD] = SQL_UPLOAD,       [ST_UPLOAD_DROP] = SQL_UPLOAD_DROP,
    [ST_PART] = SQL_PART,     [ST_PART_DROP] = SQL_PART_DROP, [ST_PARTS_DROP] = SQL_PARTS_DROP,
};

static int failed(struct stage *s, int code, struct err *ret_err)
{
    struct err own = {0}, *err = ret_err ? ret_err : &own;
    int sys = s->journal.db ? sqlite3_system_errno(s->journal.db) : 0;
    const char *why = s->journal.db ? sqlite3_errmsg(s->journal.db) : sqlite3_errstr(code);
    enum err_class class = code == SQLITE_FULL                               ? ERR_LIMIT
                           : code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? ERR_CORRUPT
                                                                             : ERR_FAILED;
    err_set(err, class, "journal: %s/journal.db: %s (is the disk full or damaged?)", s->dir, why);
    if (sys == ENOSPC || sys == EDQUOT)
        err->class = ERR_LIMIT;
    if (err->class == ERR_LIMIT)
        room_want(s);
    return err->class == ERR_LIMIT ? -1 : disk_failed(s, DISK_JOURNAL, sys ? sys : EIO, err);
}

/* --- running statements ---------------------------------------------------------------------- */

static int run(struct stage *s, enum stmt which, struct err *err)
{
    sqlite3_stmt *st = s->journal.stmts[which];
    int code = sqlite3_step(st);
    int result = code == SQLITE_DONE || code == SQLITE_ROW ? 0 : failed(s, code & 0xff, err);
    sqlite3_reset(st);
    if (result == 0 && which != ST_ROLLBACK && sqlite3_get_autocommit(s->journal.db))
        disk_good(s, DISK_JOURNAL); /* it was written */
    return result;
}

static void bind_text(sqlite3_stmt *st, int i, const char *text)
{
    sqlite3_bind_text(st, i, text, -1, SQLITE_STATIC);
}

/* Names are bytes, not text. */
static void bind_name(sqlite3_stmt *st, int i, const char *name)
{
    if (name)
        sqlite3_bind_blob(st, i, name, (int)strlen(name), SQLITE_STATIC);
    else
        sqlite3_bind_null(st, i);
}

int journal_begin(struct stage *s, struct err *err)
{
    return run(s, ST_BEGIN, err);
}

static void count_commit(struct stage *s)
{
    if (s->commits % ROOM_COMMITS == 0 && room_is_short(s))
        room_want(s);
    if (++s->commits < CHECKPOINT_COMMITS)
        return;
    s->commits = 0;
    s->checkpoint_due = true;
    cond_signal(&s->clock);
}

int journal_commit(struct stage *s, struct err *err)
{
    if (run(s, ST_COMMIT, err) == 0) {
        count_commit(s);
        return 0;
    }
    journal_rollback(s);
    return -1;
}

void journal_rollback(struct stage *s)
{
    s->ino_reserved = s->next_ino; /* so that it is said again, if it was said in there */
    if (!sqlite3_get_autocommit(s->journal.db))
        run(s, ST_ROLLBACK, NULL);
}

int journal_put(struct stage *s, const struct node *n, struct err *err)
{
    return journal_put_record(s, &n->row, err);
}

int journal_put_record(struct stage *s, const struct record *r, struct err *err)
{
    sqlite3_stmt *st = s->journal.stmts[ST_PUT];
    sqlite3_bind_int64(st, 1, (int64_t)r->ino);
    sqlite3_bind_int64(st, 2, (int64_t)r->parent);
    bind_name(st, 3, r->name ? r->name : "");
    sqlite3_bind_int(st, 4, (int)r->kind);
    sqlite3_bind_int64(st, 5, r->mode);
    sqlite3_bind_int64(st, 6, r->uid);
    sqlite3_bind_int64(st, 7, r->gid);
    sqlite3_bind_int64(st, 8, r->mtime_ns);
    sqlite3_bind_int64(st, 9, (int64_t)r->size);
    sqlite3_bind_int64(st, 10, r->flags);
    sqlite3_bind_int64(st, 11, (int64_t)r->gen);
    bind_text(st, 12, r->etag);
    bind_name(st, 13, r->skey);
    bind_name(st, 14, r->target);
    sqlite3_bind_int64(st, 15, (int64_t)r->rsize);
    sqlite3_bind_int64(st, 16, r->rmtime_ns);
    return run(s, ST_PUT, err);
}

int journal_save(struct stage *s, const struct node *n, struct err *err)
{
    if (journal_put(s, n, err)) /* a statement alone is a transaction */
        return -1;
    count_commit(s);
    return 0;
}

int journal_drop(struct stage *s, uint64_t ino, struct err *err)
{
    sqlite3_bind_int64(s->journal.stmts[ST_DROP], 1, (int64_t)ino);
    return run(s, ST_DROP, err);
}

int journal_doom(struct stage *s, const char *key, const char *upload, uint64_t ino,
                 struct err *err)
{
    sqlite3_stmt *st = s->journal.stmts[ST_DOOM];
    bind_name(st, 1, key);
    bind_text(st, 2, upload ? upload : "-");
    sqlite3_bind_int64(st, 3, (int64_t)(upload ? ino : doom_owner(s, key, ino)));
    return run(s, ST_DOOM, err);
}

int journal_undoom(struct stage *s, const char *key, const char *upload, struct err *err)
{
    sqlite3_stmt *st = s->journal.stmts[ST_UNDOOM];
    bind_name(st, 1, key);
    bind_text(st, 2, upload ? upload : "-");
    return run(s, ST_UNDOOM, err);
}

int journal_call(struct stage *s, const struct stage_call *c, uint64_t ino, struct err *err)
{
    if (!c->unique)
        return 0;
    sqlite3_stmt *st = s->journal.stmts[ST_CALL];
    sqlite3_bind_int64(st, 1, s->journal.call_slot++ % CALLS_KEPT);
    sqlite3_bind_int64(st, 2, (int64_t)c->unique);
    sqlite3_bind_int64(st, 3, (int64_t)ino);
    return run(s, ST_CALL, err);
}

int journal_call_drop(struct stage *s, const struct stage_call *c, struct err *err)
{
    if (!c->unique)
        return 0;
    sqlite3_bind_int64(s->journal.stmts[ST_CALL_DROP], 1, (int64_t)c->unique);
    return run(s, ST_CALL_DROP, err);
}

int journal_meta(struct stage *s, const char *key, uint64_t value, struct err *err)
{
    sqlite3_stmt *st = s->journal.stmts[ST_META];
    bind_text(st, 1, key);
    sqlite3_bind_int64(st, 2, (int64_t)value);
    return run(s, ST_META, err);
}

int journal_upload(struct stage *s, uint64_t ino, const char *key, const char *id, struct err *err)
{
    sqlite3_stmt *st = s->journal.stmts[ST_UPLOAD];
    struct node *n = node_of(s, ino);
    if (n)
        n->has_upload = true;
    sqlite3_bind_int64(st, 1, (int64_t)ino);
    bind_name(st, 2, key);
    bind_text(st, 3, id);
    return run(s, ST_UPLOAD, err);
}

int journal_upload_drop(struct stage *s, uint64_t ino, struct err *err)
{
    sqlite3_bind_int64(s->journal.stmts[ST_UPLOAD_DROP], 1, (int64_t)ino);
    sqlite3_bind_int64(s->journal.stmts[ST_PARTS_DROP], 1, (int64_t)ino);
    return run(s, ST_PARTS_DROP, err) || run(s, ST_UPLOAD_DROP, err) ? -1 : 0;
}

int journal_part(struct stage *s, uint64_t ino, unsigned part, uint64_t len, const char *etag,
                 struct err *err)
{
    sqlite3_stmt *st = s->journal.stmts[ST_PART];
    sqlite3_bind_int64(st, 1, (int64_t)ino);
    sqlite3_bind_int(st, 2, (int)part);
    sqlite3_bind_int64(st, 3, (int64_t)len);
    bind_text(st, 4, etag);
    return run(s, ST_PART, err);
}

int journal_part_drop(struct stage *s, uint64_t ino, unsigned part, struct err *err)
{
    sqlite3_stmt *st = s->journal.stmts[ST_PART_DROP];
    sqlite3_bind_int64(st, 1, (int64_t)ino);
    sqlite3_bind_int(st, 2, (int)part);
    return run(s, ST_PART_DROP, err);
}

bool call_answered(struct stage *s, const struct stage_call *c, uint64_t *ret_ino)
{
    size_t low = 0, high = s->n_answers;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->answers[mid].unique < c->unique)
            low = mid + 1;
        else
            high = mid;
    }
    if (!c->unique || low == s->n_answers || s->answers[low].unique != c->unique)
        return false;
    *ret_ino = s->answers[low].ino;
    return true;
}

int journal_sync(struct stage *s, struct err *err)
{
    if (fdatasync(s->journal.wal_fd)) {
        int code = errno;
        err_sys(err, code, "sync the journal: %s/journal.db-wal", s->dir);
        return disk_failed(s, DISK_JOURNAL_SYNC, code, err);
    }
    disk_good(s, DISK_JOURNAL_SYNC);
    return 0;
}

int journal_barrier(struct stage *s, struct err *err)
{
    uint64_t want;
    {
        ACQUIRE(&s->lock);
        want = s->resolved;
        if (s->resolved_synced >= want)
            return 0;
    }
    if (journal_sync(s, err))
        return -1;
    ACQUIRE(&s->lock);
    if (s->resolved_synced < want)
        s->resolved_synced = want;
    return 0;
}

int journal_barrier_held(struct stage *s, struct err *err)
{
    if (s->resolved_synced >= s->resolved)
        return 0;
    lock_drop(&s->lock);
    int result = journal_barrier(s, err);
    lock_take(&s->lock);
    return result;
}

/* --- opening --------------------------------------------------------------------------------- */

static int exec(struct stage *s, const char *sql, struct err *err)
{
    int code = sqlite3_exec(s->journal.db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : failed(s, code & 0xff, err);
}

static int number(struct stage *s, const char *sql, int64_t *ret, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int code = sqlite3_prepare_v2(s->journal.db, sql, -1, &st, NULL);
    if (code == SQLITE_OK && (code = sqlite3_step(st)) == SQLITE_ROW)
        *ret = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return code == SQLITE_ROW ? 0 : failed(s, code & 0xff, err);
}

static int make(struct stage *s, struct err *err)
{
    cleanup_free char *stamp =
        xasprintf("PRAGMA application_id=%d; PRAGMA user_version=%d;", STAGE_APP_ID, STAGE_FORMAT);
    char *uri = sqlite3_mprintf("INSERT INTO meta VALUES('uri', %Q), ('next_ino', 2);",
                                store_uri(s->conf.store));
    int result = exec(s, "BEGIN; " SQL_SCHEMA, err) || exec(s, uri, err) || exec(s, stamp, err) ||
                         exec(s, "COMMIT", err)
                     ? -1
                     : 0;
    sqlite3_free(uri);
    return result;
}

static int check_uri(struct stage *s, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int result = -1;
    if (sqlite3_prepare_v2(s->journal.db, SQL_FIND_META, -1, &st, NULL) != SQLITE_OK)
        return failed(s, SQLITE_CORRUPT, err);
    bind_text(st, 1, "uri");
    const char *uri =
        sqlite3_step(st) == SQLITE_ROW ? (const char *)sqlite3_column_text(st, 0) : "";
    if (uri && strcmp(uri, store_uri(s->conf.store)) == 0)
        result = 0;
    else
        err_set(err, ERR_LIMIT,
                "the stage of another store: %s: it may hold what is owed to %s, not to %s (give "
                "another cache folder; or mount that there, flush it, unmount, and remove this)",
                s->dir, uri ? uri : "?", store_uri(s->conf.store));
    sqlite3_finalize(st);
    return result;
}

static int check_format(struct stage *s, struct err *err)
{
    int64_t app = 0, format = 0, tables = 0;
    if (number(s, "PRAGMA application_id", &app, err) ||
        number(s, "PRAGMA user_version", &format, err) ||
        number(s, "SELECT count(*) FROM sqlite_schema", &tables, err))
        return -1;
    if (app == 0 && format == 0 && tables == 0)
        return make(s, err);
    if (app != STAGE_APP_ID)
        return err_set(err, ERR_CORRUPT,
                       "not a stage's journal: %s/journal.db (give another folder)", s->dir);
    if (format != STAGE_FORMAT)
        return err_set(err, ERR_CORRUPT,
                       "a journal of format %lld, this program knows %d: %s/journal.db (use the "
                       "version that wrote it, and settle)",
                       (long long)format, STAGE_FORMAT, s->dir);
    return check_uri(s, err);
}

static int prepare(struct stage *s, struct err *err)
{
    for (size_t i = 0; i < ST_COUNT; i++) {
        int code = sqlite3_prepare_v3(s->journal.db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                      &s->journal.stmts[i], NULL);
        if (code != SQLITE_OK)
            return failed(s, code & 0xff, err);
    }
    return 0;
}

int journal_open(struct stage *s, struct err *err)
{
    cleanup_free char *path = xasprintf("%s/journal.db", s->dir);
    cleanup_free char *wal = xasprintf("%s/journal.db-wal", s->dir);
    s->journal.wal_fd = -1;
    int code =
        sqlite3_open_v2(path, &s->journal.db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, VFS);
    if (code != SQLITE_OK)
        return failed(s, code & 0xff, err);
    sqlite3_busy_timeout(s->journal.db, 10000);
    if (exec(s, "PRAGMA journal_mode=WAL", err) || exec(s, "PRAGMA synchronous=NORMAL", err) ||
        exec(s, "PRAGMA wal_autocheckpoint=0", err) || exec(s, "PRAGMA temp_store=MEMORY", err) ||
        exec(s, "PRAGMA trusted_schema=OFF", err) || check_format(s, err) || prepare(s, err))
        return -1;
    s->journal.wal_fd = open(wal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->journal.wal_fd < 0)
        return err_sys(err, errno, "open the journal's log: %s", wal);
    /* A life that was killed may have committed more than it synced; and names are on the disk when
     * their folder is. */
    cleanup_close int dir = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || fsync(dir))
        return err_sys(err, errno, "sync the folder: %s", s->dir);
    return journal_sync(s, err);
}

void journal_close(struct stage *s)
{
    for (size_t i = 0; i < ST_COUNT; i++)
        sqlite3_finalize(s->journal.stmts[i]);
    sqlite3_close(s->journal.db);
    if (s->journal.wal_fd >= 0)
        close(s->journal.wal_fd);
}

/* By the PRAGMA: sqlite3_wal_checkpoint_v2() on a connection that has read nothing yet, and so does
 * not know that there is a log, does nothing and calls that a success. */
bool journal_checkpoint(struct stage *s)
{
    cleanup_free char *path = xasprintf("%s/journal.db", s->dir);
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    bool is_long = false;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, VFS) == SQLITE_OK &&
        sqlite3_prepare_v2(db, "PRAGMA wal_checkpoint(PASSIVE)", -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW)
        is_long = sqlite3_column_int(st, 1) > LOG_FRAMES;
    sqlite3_finalize(st);
    sqlite3_close(db);
    return is_long;
}

/* --- loading --------------------------------------------------------------------------------- */

static char *take_bytes(sqlite3_stmt *st, int i)
{
    if (sqlite3_column_type(st, i) == SQLITE_NULL)
        return NULL;
    const void *data = sqlite3_column_blob(st, i);
    return xstrndup(data ? data : "", (size_t)sqlite3_column_bytes(st, i));
}

static void take_row(struct stage *s, sqlite3_stmt *st)
{
    uint64_t ino = (uint64_t)sqlite3_column_int64(st, 0);
    if (ino >= s->next_ino)
        s->next_ino = s->ino_reserved = ino + 1; /* a damaged journal: no number is used twice */
    struct node *n = ino == STAGE_ROOT ? s->root : node_new(s, ino);
    struct record *r = &n->row;
    r->parent = (uint64_t)sqlite3_column_int64(st, 1);
    free(r->name);
    r->name = take_bytes(st, 2);
    r->kind = (enum node_kind)sqlite3_column_int(st, 3);
    r->mode = (mode_t)sqlite3_column_int64(st, 4);
    r->uid = (uid_t)sqlite3_column_int64(st, 5);
    r->gid = (gid_t)sqlite3_column_int64(st, 6);
    r->mtime_ns = sqlite3_column_int64(st, 7);
    r->size = (uint64_t)sqlite3_column_int64(st, 8);
    r->flags = (unsigned)sqlite3_column_int64(st, 9);
    if (s->conf.fresh)
        r->flags &= ~(unsigned)N_LISTED;
    r->gen = (uint64_t)sqlite3_column_int64(st, 10);
    free(r->etag);
    r->etag = take_bytes(st, 11);
    char *skey = take_bytes(st, 12);
    if (skey)
        node_set_skey(s, n, skey);
    r->target = take_bytes(st, 13);
    r->rsize = (uint64_t)sqlite3_column_int64(st, 14);
    r->rmtime_ns = sqlite3_column_int64(st, 15);
}

static void take_doomed(struct stage *s, sqlite3_stmt *st)
{
    cleanup_free char *key = take_bytes(st, 0);
    const char *upload = (const char *)sqlite3_column_text(st, 1);
    bool object = !upload || strcmp(upload, "-") == 0;
    doom_add(s, key, object ? NULL : upload, object ? (uint64_t)sqlite3_column_int64(st, 2) : 0);
}

static void take_answer(struct stage *s, sqlite3_stmt *st)
{
    s->answers = xrealloc(s->answers, (s->n_answers + 1) * sizeof *s->answers);
    s->answers[s->n_answers++] = (struct call_answer){(uint64_t)sqlite3_column_int64(st, 0),
                                                      (uint64_t)sqlite3_column_int64(st, 1)};
}

/* An upload whose node is gone, or whose beginning was never confirmed, is aborted. */
static void take_upload(struct stage *s, sqlite3_stmt *st)
{
    uint64_t ino = (uint64_t)sqlite3_column_int64(st, 0);
    struct node *n = node_of(s, ino);
    const char *id = (const char *)sqlite3_column_text(st, 2);
    if (n && (n->row.flags & N_DIRTY) && !(n->row.flags & N_ORPHAN) && id && *id) {
        n->has_upload = true;
        return;
    }
    cleanup_free char *key = take_bytes(st, 1);
    doom_add(s, key, id ? id : "", ino);
}

static int for_each(struct stage *s, const char *sql, void (*take)(struct stage *, sqlite3_stmt *),
                    struct err *err)
{
    sqlite3_stmt *st = NULL;
    int code = sqlite3_prepare_v2(s->journal.db, sql, -1, &st, NULL);
    if (code == SQLITE_OK)
        while ((code = sqlite3_step(st)) == SQLITE_ROW)
            take(s, st);
    sqlite3_finalize(st);
    return code == SQLITE_DONE ? 0 : failed(s, code & 0xff, err);
}

static int find_number(struct stage *s, const char *key, uint64_t *ret)
{
    sqlite3_stmt *st = NULL;
    int result = -1;
    if (sqlite3_prepare_v2(s->journal.db, SQL_FIND_META, -1, &st, NULL) == SQLITE_OK) {
        bind_text(st, 1, key);
        if (sqlite3_step(st) == SQLITE_ROW) {
            *ret = (uint64_t)sqlite3_column_int64(st, 0);
            result = 0;
        }
    }
    sqlite3_finalize(st);
    return result;
}

bool journal_is(struct stage *s, const char *key, uint64_t value)
{
    uint64_t known;
    return find_number(s, key, &known) == 0 && known == value;
}

int journal_load(struct stage *s, struct err *err)
{
    if (find_number(s, "next_ino", &s->next_ino))
        return err_set(err, ERR_CORRUPT, "damaged: %s/journal.db: no next inode number", s->dir);
    s->ino_reserved = s->next_ino;
    if (s->conf.fresh)
        exec(s, SQL_UNLIST, NULL); /* on a full disk they stay, and are old listings */
    if (exec(s, SQL_GROWING_DOOMED, err) || for_each(s, SQL_NODES, take_row, err) ||
        for_each(s, SQL_DOOMED, take_doomed, err))
        return -1;
    if (!s->conf.fresh && for_each(s, SQL_CALLS, take_answer, err))
        return -1;
    s->journal.call_slot = (unsigned)s->n_answers;
    if (s->conf.fresh && exec(s, "DELETE FROM call", err))
        return -1;
    return for_each(s, SQL_UPLOADS, take_upload, err);
}

bool journal_find_upload(struct stage *s, uint64_t ino, char **ret_key, char **ret_id,
                         journal_part_fn *fn, void *arg)
{
    sqlite3_stmt *st = NULL;
    bool found = false;
    if (sqlite3_prepare_v2(s->journal.db, SQL_FIND_UPLOAD, -1, &st, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(st, 1, (int64_t)ino);
        if (sqlite3_step(st) == SQLITE_ROW) {
            *ret_key = take_bytes(st, 0);
            *ret_id = take_bytes(st, 1);
            found = true;
        }
    }
    sqlite3_finalize(st);
    if (!found)
        return false;
    st = NULL;
    if (sqlite3_prepare_v2(s->journal.db, SQL_FIND_PARTS, -1, &st, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(st, 1, (int64_t)ino);
        while (sqlite3_step(st) == SQLITE_ROW)
            fn(arg, (unsigned)sqlite3_column_int(st, 0), (uint64_t)sqlite3_column_int64(st, 1),
               (const char *)sqlite3_column_text(st, 2));
    }
    sqlite3_finalize(st);
    return true;
}
