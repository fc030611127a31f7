/* What the reading files of the catalog share: connections, rows, and the walk in tree order. */
#ifndef SAMPAN_CATALOG_INTERNAL_H
#define SAMPAN_CATALOG_INTERNAL_H

#include <sqlite3.h>
#include <stdatomic.h>

#include "catalog.h"
#include "sync.h"

#define PATH_BYTES_MAX 4096u        /* of a path below the root */
#define SIZE_MAX_BYTES (1ull << 62) /* of a sample */
#define IDS_MAX        (1ull << 56) /* tables by id are sized without overflow */

enum stmt {
    STMT_GET,
    STMT_LOOKUP,
    STMT_UNIT,
    STMT_CHILDREN,
    STMT_NUMBERS,
    STMT_WALK,
    STMT_BAD,
    STMT_COUNT
};

/* A connection of one thread at a time, with its statements (NULL until first used). */
struct conn {
    sqlite3 *db;
    sqlite3_stmt *stmts[STMT_COUNT];
    struct conn *next;
};

struct catalog {
    atomic_int refs;
    char *file;
    char *uri; /* of SQLite: file:…?immutable=1&mode=ro */
    uint64_t file_bytes;
    struct catalog_info info;
    bool listed;               /* numbers come from a list, not from the walk */
    struct arriving *arriving; /* NULL: its file was whole when it was opened */
    char **source_uris, **source_ats;

    struct lock lock; /* of the two below */
    struct conn *idle;
    unsigned n_idle;
};

/* What SQLite reads a file through that is on its way (arriving.c). */
int arriving_new(struct arriving **ret, const struct catalog_pages *pages, struct err *err);
void arriving_free(struct arriving *a);             /* NULL is fine */
const char *arriving_vfs(const struct arriving *a); /* NULL of NULL: SQLite's own */
/* Waits for its beginning, and fails once none of it is believed any more. */
int arriving_await(const struct arriving *a, struct err *err);
int arriving_head(const struct arriving *a, void *to, size_t len, struct err *err);
int arriving_whole(const struct arriving *a, uint64_t wait_ns, struct err *err);
/* Why the connection's last read failed, if it is one of these. */
bool arriving_why(sqlite3 *db, struct err *ret);

/* Borrows a connection until conn_give(); never waits (a callback may borrow another). */
int conn_take(struct catalog *c, struct conn **ret, struct err *err);
void conn_give(struct catalog *c, struct conn *k);
/* The statement, reset and ready for binding. */
int conn_stmt(struct conn *k, enum stmt which, sqlite3_stmt **ret, struct err *err);

/* One step: 1 a row, 0 the end, -1 an error that names the file. */
int step(const struct catalog *c, sqlite3_stmt *s, struct err *err);
/* Fills err from the connection's last error. Returns -1. */
int sql_error(sqlite3 *db, const char *file, struct err *err);
/* ERR_CORRUPT: says what is wrong with the file and what to do. Returns -1. */
int damaged(const struct catalog *c, const char *what, struct err *err);

/* Columns 0-8 of a row (SQL_COLUMNS), checked: ERR_CORRUPT if they are not what a builder writes.
 */
int row_entry(const struct catalog *c, sqlite3_stmt *s, struct entry *ret, struct err *err);

/*
 * All entries below a folder in tree order: a folder, then what is below it, then its next sibling,
 * names in byte order. Keys of the walk are paths with NUL between the parts, so that tree order is
 * memcmp order. One statement serves any depth. No walk is longer than what the catalog counts: in
 * a damaged index a folder may lead back to itself.
 */
struct tree_level {
    uint64_t folder;
    size_t key_len; /* of the folder */
};

struct tree_walk {
    struct catalog *catalog;
    struct conn *conn;
    sqlite3_stmt *stmt;
    struct tree_level *levels;
    size_t depth, cap;
    uint64_t left;    /* entries that may still come */
    struct bytes key; /* of `entry` */
    struct entry entry;
    struct bytes object; /* of `entry`: the object's own key, if it has one */
    bool has_object;
    uint64_t pack_offset;
    bool descend; /* `entry` is a folder whose children come next */
};
int tree_walk_begin(struct tree_walk *w, struct catalog *c, uint64_t folder, struct err *err);
/* 1: `w->entry` and `w->key` are the next, 0: the end, -1. */
int tree_walk_next(struct tree_walk *w, struct err *err);
void tree_walk_end(struct tree_walk *w);

/* Turns a walk's key into a path, or back, in place. */
void key_to_path(char *key, size_t len);
void path_to_key(char *path, size_t len);
int key_compare(const struct bytes *a, const struct bytes *b);

#endif
