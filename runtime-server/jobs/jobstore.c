/*
 * The rows: one SQLite file, one connection, used under the jobs' lock. Each change is a
 * transaction of its own that is on the disk when the call returns: a job that a client was told of
 * is there after a power loss.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "file.h"
#include "jobs-internal.h"

#define FORMAT       1
#define LOCK_WAIT_NS (3 * NS_PER_S)

struct jobstore {
    int lock; /* of the folder */
    sqlite3 *db;
    char *file;
};

/* `note` has the posting: programs before it wrote it empty, and those go on using this. */
static const char schema[] =
    "CREATE TABLE job(seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
    " type TEXT NOT NULL, options TEXT NOT NULL, state INTEGER NOT NULL, error TEXT NOT NULL,"
    " result TEXT NOT NULL, note TEXT NOT NULL, parent TEXT NOT NULL, schedule TEXT NOT NULL,"
    " zone TEXT NOT NULL, policy INTEGER NOT NULL, deadline INTEGER NOT NULL, due INTEGER NOT NULL,"
    " secret INTEGER NOT NULL, items INTEGER NOT NULL, bytes INTEGER NOT NULL,"
    " total_items INTEGER NOT NULL, total_bytes INTEGER NOT NULL, failed INTEGER NOT NULL,"
    " eta INTEGER NOT NULL, created INTEGER NOT NULL, started INTEGER NOT NULL,"
    " ended INTEGER NOT NULL, tries INTEGER NOT NULL) STRICT;"
    "CREATE INDEX job_state ON job(state);"
    "CREATE TABLE part(id TEXT NOT NULL, partition INTEGER NOT NULL, state INTEGER NOT NULL,"
    " error TEXT NOT NULL, items INTEGER NOT NULL, bytes INTEGER NOT NULL,"
    " total_items INTEGER NOT NULL, total_bytes INTEGER NOT NULL, failed INTEGER NOT NULL,"
    " eta INTEGER NOT NULL, PRIMARY KEY(id, partition)) STRICT, WITHOUT ROWID;";

/* Added to format 1, which programs without it can go on using. */
static const char additions[] = "CREATE TABLE IF NOT EXISTS wish(id TEXT PRIMARY KEY,"
                                " wish INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
                                "CREATE INDEX IF NOT EXISTS job_ended ON job(ended) WHERE ended>0;";

#define COLUMNS                                                                               \
    "seq,id,type,options,state,error,result,parent,schedule,zone,policy,deadline,due,secret," \
    "items,bytes,total_items,total_bytes,failed,eta,created,started,ended,tries,note"

/* --- statements ------------------------------------------------------------------------------ */

static int failed(struct jobstore *s, const char *what, struct err *err)
{
    int code = sqlite3_errcode(s->db) & 0xff;
    if (code == SQLITE_FULL)
        return err_sys(err, ENOSPC, "%s: %s", what, s->file);
    return err_set(err, code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? ERR_CORRUPT : ERR_FAILED,
                   "%s: %s: %s", what, s->file, sqlite3_errmsg(s->db));
}

/* Prepares and binds: `kinds` has an 's' for each text and an 'i' for each int64_t that follows. */
__attribute__((nonnull(1, 2, 3, 4))) static int query(struct jobstore *s, sqlite3_stmt **ret,
                                                      const char *sql, const char *kinds,
                                                      va_list ap, struct err *err)
{
    if (sqlite3_prepare_v2(s->db, sql, -1, ret, NULL) != SQLITE_OK)
        return failed(s, "jobs", err);
    for (int i = 0; kinds[i]; i++) {
        int rc = kinds[i] == 's' ? sqlite3_bind_text(*ret, i + 1, va_arg(ap, const char *), -1,
                                                     SQLITE_TRANSIENT)
                                 : sqlite3_bind_int64(*ret, i + 1, va_arg(ap, int64_t));
        if (rc != SQLITE_OK) {
            sqlite3_finalize(*ret);
            return failed(s, "jobs", err);
        }
    }
    return 0;
}

static int change(struct jobstore *s, struct err *err, const char *sql, const char *kinds, ...)
{
    sqlite3_stmt *stmt;
    va_list ap;
    va_start(ap, kinds);
    int rc = query(s, &stmt, sql, kinds, ap, err);
    va_end(ap);
    if (rc)
        return -1;
    sqlite3_step(stmt);
    rc = sqlite3_finalize(stmt) == SQLITE_OK ? 0 : failed(s, "change a job", err);
    return rc;
}

static int execute(struct jobstore *s, const char *sql, struct err *err)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : failed(s, "jobs", err);
}

/* --- opening --------------------------------------------------------------------------------- */

static int64_t pragma(struct jobstore *s, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int64_t value = -1;
    if (sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        value = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return value;
}

static int set_up(struct jobstore *s, struct err *err)
{
    if (execute(s, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;", err))
        return -1;
    int64_t format = pragma(s, "PRAGMA user_version");
    if (format == FORMAT)
        return execute(s, additions, err);
    if (format != 0 || pragma(s, "SELECT count(*) FROM sqlite_schema") != 0)
        return err_set(err, ERR_CORRUPT,
                       "jobs: %s: of another program or version (format %lld, this one knows %d; "
                       "move the file away to start with no jobs)",
                       s->file, (long long)format, FORMAT);
    cleanup_free char *sql =
        xasprintf("BEGIN; %s%s PRAGMA user_version=%d; COMMIT;", schema, additions, FORMAT);
    return execute(s, sql, err);
}

/* One server a folder: each of two would take what the other runs for what a killed one left, and
 * run it as well. One that was killed may take a moment to end. */
static int lock_folder(struct jobstore *s, const char *dir, struct err *err)
{
    s->lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock < 0)
        return err_sys(err, errno, "open the jobs: %s", dir);
    if (file_lock(s->lock, LOCK_WAIT_NS) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return err_set(err, ERR_LIMIT,
                       "jobs: %s: another server keeps its jobs in this folder (give each its own)",
                       dir);
    return err_sys(err, errno, "jobs: lock %s", dir);
}

int jobstore_open(struct jobstore **ret, const char *dir, struct err *err)
{
    struct jobstore *s = xcalloc(1, sizeof *s);
    s->file = xasprintf("%s/jobs.db", dir);
    if (lock_folder(s, dir, err)) {
        jobstore_close(s);
        return -1;
    }
    mode_t old = umask(077);
    int rc = sqlite3_open_v2(
        s->file, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, NULL);
    if (rc == SQLITE_OK)
        sqlite3_busy_timeout(s->db, 5000);
    rc = rc == SQLITE_OK ? set_up(s, err) : failed(s, "open the jobs", err);
    umask(old);
    if (rc) {
        jobstore_close(s);
        return -1;
    }
    *ret = s;
    return 0;
}

void jobstore_close(struct jobstore *s)
{
    if (!s)
        return;
    sqlite3_close(s->db);
    if (s->lock >= 0)
        close(s->lock);
    free(s->file);
    free(s);
}

/* --- rows ------------------------------------------------------------------------------------ */

void row_release(struct job_row *r)
{
    char **texts[] = {&r->id,     &r->type,     &r->options, &r->error,  &r->result,
                      &r->parent, &r->schedule, &r->zone,    &r->posting};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        free(*texts[i]);
    *r = (struct job_row){0};
}

static char *column_text(sqlite3_stmt *q, int i)
{
    const char *text = (const char *)sqlite3_column_text(q, i);
    return xstrdup(text ? text : "");
}

static enum job_state column_state(sqlite3_stmt *q, int i)
{
    int n = sqlite3_column_int(q, i);
    return n >= 0 && n < JOB_STATES ? (enum job_state)n : JOB_FAILED;
}

static struct job_progress column_progress(sqlite3_stmt *q, int i)
{
    return (struct job_progress){.items = (uint64_t)sqlite3_column_int64(q, i),
                                 .bytes = (uint64_t)sqlite3_column_int64(q, i + 1),
                                 .total_items = (uint64_t)sqlite3_column_int64(q, i + 2),
                                 .total_bytes = (uint64_t)sqlite3_column_int64(q, i + 3),
                                 .failed = (uint64_t)sqlite3_column_int64(q, i + 4),
                                 .eta_s = sqlite3_column_int64(q, i + 5)};
}

static void read_row(sqlite3_stmt *q, struct job_row *ret)
{
    *ret = (struct job_row){
        .seq = sqlite3_column_int64(q, 0),
        .id = column_text(q, 1),
        .type = column_text(q, 2),
        .options = column_text(q, 3),
        .state = column_state(q, 4),
        .error = column_text(q, 5),
        .result = column_text(q, 6),
        .parent = column_text(q, 7),
        .schedule = column_text(q, 8),
        .zone = column_text(q, 9),
        .policy = (enum policy)sqlite3_column_int(q, 10),
        .deadline_s = sqlite3_column_int64(q, 11),
        .due = sqlite3_column_int64(q, 12),
        .has_secret = sqlite3_column_int(q, 13) != 0,
        .progress = column_progress(q, 14),
        .created = sqlite3_column_int64(q, 20),
        .started = sqlite3_column_int64(q, 21),
        .ended = sqlite3_column_int64(q, 22),
        .tries = sqlite3_column_int64(q, 23),
        .posting = column_text(q, 24),
    };
}

int jobstore_insert(struct jobstore *s, const struct job_row *r, struct err *err)
{
    return change(
        s, err,
        "INSERT INTO job(id,type,options,state,error,result,note,parent,schedule,zone,"
        "policy,deadline,due,secret,items,bytes,total_items,total_bytes,failed,eta,created,"
        "started,ended,tries) VALUES(?,?,?,?,'','',?,?,?,?,?,?,?,?,0,0,0,0,0,-1,?,0,0,0)",
        "sssissssiiiii", r->id, r->type, r->options, (int64_t)r->state, r->posting, r->parent,
        r->schedule, r->zone, (int64_t)r->policy, r->deadline_s, r->due, (int64_t)r->has_secret,
        r->created);
}

int jobstore_get(struct jobstore *s, const char *id, struct job_row *ret, struct err *err)
{
    sqlite3_stmt *q;
    if (sqlite3_prepare_v2(s->db, "SELECT " COLUMNS " FROM job WHERE id=?", -1, &q, NULL) !=
            SQLITE_OK ||
        sqlite3_bind_text(q, 1, id, -1, SQLITE_TRANSIENT) != SQLITE_OK)
        return failed(s, "jobs", err);
    int rc = sqlite3_step(q);
    if (rc == SQLITE_ROW)
        read_row(q, ret);
    sqlite3_finalize(q);
    if (rc == SQLITE_ROW)
        return 0;
    if (rc != SQLITE_DONE)
        return failed(s, "read a job", err);
    return err_set(err, ERR_NOT_FOUND, "job %s: there is none of that id", id);
}

/* Finalizes `q`. */
static int each_row(struct jobstore *s, sqlite3_stmt *q, row_fn *fn, void *arg, struct err *err)
{
    int rc;
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        cleanup_row struct job_row row = {0};
        read_row(q, &row);
        fn(arg, &row);
    }
    sqlite3_finalize(q);
    return rc == SQLITE_DONE ? 0 : failed(s, "list the jobs", err);
}

int jobstore_each(struct jobstore *s, enum row_filter which, row_fn *fn, void *arg, struct err *err)
{
    static const char pending[] = "WHERE state=0 AND schedule='' ORDER BY seq";
    static const char told[] =
        "WHERE state=0 AND schedule='' AND id IN (SELECT id FROM wish) ORDER BY seq";
    static const char *const where[] = {[ROWS_NEWEST_FIRST] = "ORDER BY seq DESC",
                                        [ROWS_PENDING] = pending,
                                        [ROWS_TOLD] = told,
                                        [ROWS_NOT_ENDED] = "WHERE state IN (0,1,2) ORDER BY seq",
                                        [ROWS_TEMPLATES] =
                                            "WHERE state=0 AND schedule<>'' ORDER BY seq"};
    cleanup_free char *sql = xasprintf("SELECT " COLUMNS " FROM job %s", where[which]);
    sqlite3_stmt *q;
    if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) != SQLITE_OK)
        return failed(s, "jobs", err);
    return each_row(s, q, fn, arg, err);
}

int jobstore_in_state(struct jobstore *s, enum job_state state, row_fn *fn, void *arg,
                      struct err *err)
{
    sqlite3_stmt *q;
    if (sqlite3_prepare_v2(s->db, "SELECT " COLUMNS " FROM job WHERE state=? ORDER BY seq DESC", -1,
                           &q, NULL) != SQLITE_OK)
        return failed(s, "jobs", err);
    sqlite3_bind_int(q, 1, (int)state);
    return each_row(s, q, fn, arg, err);
}

static int forget_one(struct jobstore *s, const char *id, struct err *err)
{
    return change(s, err, "DELETE FROM job WHERE id=?", "s", id) ||
                   change(s, err, "DELETE FROM part WHERE id=?", "s", id) ||
                   change(s, err, "DELETE FROM wish WHERE id=?", "s", id)
               ? -1
               : 0;
}

int jobstore_replace(struct jobstore *s, const struct job_row *r, struct err *err)
{
    if (execute(s, "BEGIN IMMEDIATE", err))
        return -1;
    if (forget_one(s, r->id, err) || jobstore_insert(s, r, err) || execute(s, "COMMIT", err)) {
        execute(s, "ROLLBACK", NULL);
        return -1;
    }
    return 0;
}

/* --- changes --------------------------------------------------------------------------------- */

int jobstore_set_state(struct jobstore *s, const char *id, enum job_state state, int64_t now,
                       const char *error, const char *result, struct err *err)
{
    bool runs = state == JOB_RUNNING, ends = job_state_final(state);
    return change(s, err,
                  "UPDATE job SET state=?2, error=coalesce(?3,error), result=coalesce(?4,result),"
                  " started=CASE WHEN ?5 AND started=0 THEN ?7 ELSE started END,"
                  " ended=CASE WHEN ?6 THEN ?7 ELSE 0 END, tries=tries+?5 WHERE id=?1",
                  "sissiii", id, (int64_t)state, error, result, (int64_t)runs, (int64_t)ends, now);
}

int jobstore_set_progress(struct jobstore *s, const char *id, const struct job_progress *p,
                          struct err *err)
{
    return change(s, err,
                  "UPDATE job SET items=?2, bytes=?3, total_items=?4, total_bytes=?5, failed=?6,"
                  " eta=?7 WHERE id=?1",
                  "siiiiii", id, (int64_t)p->items, (int64_t)p->bytes, (int64_t)p->total_items,
                  (int64_t)p->total_bytes, (int64_t)p->failed, p->eta_s);
}

int jobstore_set_wish(struct jobstore *s, const char *id, enum job_wish wish, struct err *err)
{
    if (wish == JOB_GO_ON)
        return change(s, err, "DELETE FROM wish WHERE id=?", "s", id);
    return change(s, err, "INSERT OR REPLACE INTO wish VALUES(?,?)", "si", id, (int64_t)wish);
}

enum job_wish jobstore_wish(struct jobstore *s, const char *id)
{
    sqlite3_stmt *q;
    int wish = JOB_GO_ON;
    if (sqlite3_prepare_v2(s->db, "SELECT wish FROM wish WHERE id=?", -1, &q, NULL) != SQLITE_OK)
        return JOB_GO_ON;
    if (sqlite3_bind_text(q, 1, id, -1, SQLITE_TRANSIENT) == SQLITE_OK &&
        sqlite3_step(q) == SQLITE_ROW)
        wish = sqlite3_column_int(q, 0);
    sqlite3_finalize(q);
    return wish == JOB_PAUSE || wish == JOB_CANCEL ? (enum job_wish)wish : JOB_GO_ON;
}

int jobstore_set_posting(struct jobstore *s, const char *id, const char *posting, struct err *err)
{
    return change(s, err, "UPDATE job SET note=?2 WHERE id=?1", "ss", id, posting);
}

int jobstore_set_due(struct jobstore *s, const char *id, int64_t due, struct err *err)
{
    return change(s, err, "UPDATE job SET due=?2 WHERE id=?1", "si", id, due);
}

int jobstore_spawn(struct jobstore *s, const struct job_row *child, int64_t next_due,
                   struct err *err)
{
    if (execute(s, "BEGIN IMMEDIATE", err))
        return -1;
    if (jobstore_insert(s, child, err) || jobstore_set_due(s, child->parent, next_due, err) ||
        execute(s, "COMMIT", err)) {
        execute(s, "ROLLBACK", NULL);
        return -1;
    }
    return 0;
}

int jobstore_set_part(struct jobstore *s, const char *id, uint32_t partition, enum job_state state,
                      const struct job_progress *p, const char *error, struct err *err)
{
    return change(s, err,
                  "INSERT OR REPLACE INTO part SELECT ?1,?2,?3,?4,?5,?6,?7,?8,?9,?10 FROM job"
                  " WHERE id=?1",
                  "siisiiiiii", id, (int64_t)partition, (int64_t)state, error ? error : "",
                  (int64_t)p->items, (int64_t)p->bytes, (int64_t)p->total_items,
                  (int64_t)p->total_bytes, (int64_t)p->failed, p->eta_s);
}

int jobstore_parts(struct jobstore *s, const char *id, part_fn *fn, void *arg, struct err *err)
{
    sqlite3_stmt *q;
    int rc = sqlite3_prepare_v2(s->db,
                                "SELECT partition,state,error,items,bytes,total_items,total_bytes,"
                                "failed,eta FROM part WHERE id=? ORDER BY partition",
                                -1, &q, NULL);
    if (rc != SQLITE_OK || sqlite3_bind_text(q, 1, id, -1, SQLITE_TRANSIENT) != SQLITE_OK)
        return failed(s, "jobs", err);
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        cleanup_free char *error = column_text(q, 2);
        struct job_progress p = column_progress(q, 3);
        fn(arg, (uint32_t)sqlite3_column_int64(q, 0), column_state(q, 1), &p, error);
    }
    sqlite3_finalize(q);
    return rc == SQLITE_DONE ? 0 : failed(s, "read a job", err);
}

int jobstore_recover(struct jobstore *s, struct err *err)
{
    return change(s, err, "UPDATE job SET state=?2 WHERE state=?1", "ii", (int64_t)JOB_RUNNING,
                  (int64_t)JOB_PENDING);
}

int jobstore_forget(struct jobstore *s, int64_t ended_before, struct err *err)
{
#define OLD    "ended>0 AND ended<?" /* by the index: what ended later is not looked at */
#define OF_OLD " WHERE id IN (SELECT id FROM job WHERE " OLD ")"
    return change(s, err, "DELETE FROM part" OF_OLD, "i", ended_before) ||
                   change(s, err, "DELETE FROM wish" OF_OLD, "i", ended_before) ||
                   change(s, err, "DELETE FROM job WHERE " OLD, "i", ended_before)
               ? -1
               : 0;
}

int jobstore_count(struct jobstore *s, uint64_t ret[JOB_STATES], struct err *err)
{
    sqlite3_stmt *q;
    int rc;
    memset(ret, 0, JOB_STATES * sizeof ret[0]);
    if (sqlite3_prepare_v2(s->db, "SELECT state,count(*) FROM job GROUP BY state", -1, &q, NULL) !=
        SQLITE_OK)
        return failed(s, "jobs", err);
    while ((rc = sqlite3_step(q)) == SQLITE_ROW)
        ret[column_state(q, 0)] += (uint64_t)sqlite3_column_int64(q, 1);
    sqlite3_finalize(q);
    return rc == SQLITE_DONE ? 0 : failed(s, "count the jobs", err);
}
