/*
 * Every statement of a catalog file, and what marks the file as one. docs/formats/catalog.md
 * explains the columns. The schema's text is compared byte by byte when a file is opened: a file
 * whose tables are views, or carry triggers, is refused before anything runs.
 */
#ifndef SAMPAN_CATALOG_SQL_H
#define SAMPAN_CATALOG_SQL_H

#define CATALOG_APP_ID 0x53616d70u /* "Samp", PRAGMA application_id */
#define CATALOG_FORMAT 1u          /* PRAGMA user_version */

/* Ids in one row of `numbers`: 4 000 bytes, so that a row never leaves its page of 4 096. */
#define NUMBERS_CHUNK 500u

/* No row of `node` is shorter, its place in the index counted: a file can't hold more of them. */
#define NODE_BYTES_MIN 16u

#define SQL_TABLE_META "CREATE TABLE meta(key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID"
#define SQL_TABLE_SOURCE \
    "CREATE TABLE source(i INTEGER PRIMARY KEY, uri TEXT NOT NULL, at TEXT NOT NULL)"
#define SQL_TABLE_NODE                                                                        \
    "CREATE TABLE node(id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name BLOB NOT NULL, " \
    "kind INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, etag, "         \
    "source INTEGER NOT NULL, number INTEGER, object BLOB, pack_offset INTEGER)"
#define SQL_TABLE_NUMBERS "CREATE TABLE numbers(chunk INTEGER PRIMARY KEY, ids BLOB NOT NULL)"
#define SQL_TABLE_BAD \
    "CREATE TABLE bad(i INTEGER PRIMARY KEY, key BLOB NOT NULL, why TEXT NOT NULL)"
#define SQL_INDEX_NAME "CREATE UNIQUE INDEX node_name ON node(parent, name)"

#define SQL_COLUMNS "id, parent, name, kind, size, mtime_ns, etag, source, number"

#define SQL_GET "SELECT " SQL_COLUMNS " FROM node WHERE id = ?1"
#define SQL_LOOKUP \
    "SELECT " SQL_COLUMNS " FROM node INDEXED BY node_name WHERE parent = ?1 AND name = ?2"
#define SQL_UNIT                                                                                   \
    "SELECT " SQL_COLUMNS ", object, pack_offset FROM node WHERE id <= ?1 ORDER BY id DESC LIMIT " \
    "1"
/* Rows by their names, and whether a row has the name under which the index has it. */
#define SQL_CHILDREN                                                                          \
    "SELECT r.id, i.parent, i.name, r.kind, r.size, r.mtime_ns, r.etag, r.source, r.number, " \
    "r.object, r.pack_offset, r.parent = i.parent AND r.name = i.name "                       \
    "FROM node AS i INDEXED BY node_name LEFT JOIN node AS r ON r.id = i.id "                 \
    "WHERE i.parent = ?1 AND i.name > ?2 ORDER BY i.name"
#define SQL_NUMBERS "SELECT ids FROM numbers WHERE chunk = ?1"
#define SQL_WALK    "SELECT " SQL_COLUMNS " FROM node WHERE id > ?1 AND kind = 0 ORDER BY id"
#define SQL_BAD     "SELECT key, why FROM bad ORDER BY i"

#define SQL_META    "SELECT key, value FROM meta"
#define SQL_SOURCES "SELECT i, uri, at FROM source ORDER BY i"
#define SQL_SCHEMA  "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"
#define SQL_LAST_ID "SELECT max(id) FROM node"

#define SQL_ADD_META    "INSERT INTO meta VALUES(?1, ?2)"
#define SQL_ADD_SOURCE  "INSERT INTO source VALUES(?1, ?2, ?3)"
#define SQL_ADD_NODE    "INSERT INTO node VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
#define SQL_ADD_NUMBERS "INSERT INTO numbers VALUES(?1, ?2)"
#define SQL_ADD_BAD     "INSERT INTO bad(key, why) VALUES(?1, ?2)"

#endif
