/*
 * Every statement of a stage's journal. docs/formats/stage.md explains the columns.
 */
#ifndef SAMPAN_STAGE_SQL_H
#define SAMPAN_STAGE_SQL_H

#define STAGE_APP_ID 0x53616d73 /* "Sams", PRAGMA application_id */
#define STAGE_FORMAT 1          /* PRAGMA user_version */

#define SQL_SCHEMA                                                                               \
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;"                     \
    "CREATE TABLE node(ino INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name BLOB NOT NULL, "   \
    "kind INTEGER NOT NULL, mode INTEGER NOT NULL, uid INTEGER NOT NULL, gid INTEGER NOT NULL, " \
    "mtime_ns INTEGER NOT NULL, size INTEGER NOT NULL, flags INTEGER NOT NULL, "                 \
    "gen INTEGER NOT NULL, etag TEXT NOT NULL, skey BLOB, target BLOB, rsize INTEGER NOT NULL, " \
    "rmtime_ns INTEGER NOT NULL);"                                                               \
    "CREATE TABLE doomed(key BLOB NOT NULL, upload TEXT NOT NULL, ino INTEGER NOT NULL, "        \
    "PRIMARY KEY(key, upload)) WITHOUT ROWID;"                                                   \
    "CREATE TABLE upload(ino INTEGER PRIMARY KEY, key BLOB NOT NULL, id TEXT NOT NULL);"         \
    "CREATE TABLE part(ino INTEGER NOT NULL, part INTEGER NOT NULL, len INTEGER NOT NULL, "      \
    "etag TEXT NOT NULL, PRIMARY KEY(ino, part)) WITHOUT ROWID;"                                 \
    "CREATE TABLE call(slot INTEGER PRIMARY KEY, uniq INTEGER NOT NULL, ino INTEGER NOT NULL);"

#define SQL_PUT                                                                                   \
    "INSERT OR REPLACE INTO node VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, " \
    "?14, ?15, ?16)"
#define SQL_DROP      "DELETE FROM node WHERE ino = ?1"
#define SQL_DOOM      "INSERT OR REPLACE INTO doomed VALUES(?1, ?2, ?3)"
#define SQL_UNDOOM    "DELETE FROM doomed WHERE key = ?1 AND upload = ?2"
#define SQL_CALL      "INSERT OR REPLACE INTO call VALUES(?1, ?2, ?3)"
#define SQL_CALL_DROP "DELETE FROM call WHERE uniq = ?1"
#define SQL_META      "INSERT OR REPLACE INTO meta VALUES(?1, ?2)"

#define SQL_UPLOAD      "INSERT OR REPLACE INTO upload VALUES(?1, ?2, ?3)"
#define SQL_UPLOAD_DROP "DELETE FROM upload WHERE ino = ?1"
#define SQL_PART        "INSERT OR REPLACE INTO part VALUES(?1, ?2, ?3, ?4)"
#define SQL_PART_DROP   "DELETE FROM part WHERE ino = ?1 AND part = ?2"
#define SQL_PARTS_DROP  "DELETE FROM part WHERE ino = ?1"

#define SQL_NODES   "SELECT * FROM node ORDER BY ino"
#define SQL_DOOMED  "SELECT key, upload, ino FROM doomed"
#define SQL_CALLS   "SELECT uniq, ino FROM call ORDER BY uniq"
#define SQL_UPLOADS "SELECT ino, key, id FROM upload"
/* What a life that ended left under a name of no use to anybody. */
#define SQL_GROWING_DOOMED                                                            \
    "BEGIN; INSERT OR REPLACE INTO doomed SELECT key, '-', 0 FROM upload WHERE id = " \
    "'" UPLOAD_GROWS "'; DELETE FROM upload WHERE id = '" UPLOAD_GROWS "'; COMMIT"
#define SQL_UNLIST      "UPDATE node SET flags = flags & ~2048 WHERE flags & 2048" /* N_LISTED */
#define SQL_FIND_UPLOAD "SELECT key, id FROM upload WHERE ino = ?1"
#define SQL_FIND_PARTS  "SELECT part, len, etag FROM part WHERE ino = ?1"
#define SQL_FIND_META   "SELECT value FROM meta WHERE key = ?1"

#endif
