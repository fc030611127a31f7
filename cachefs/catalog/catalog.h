/*
 * The catalog: one immutable version of a sample set.
 *
 * A version is one SQLite file, opened immutable and never written once published. Its name is the
 * digest of its sorted rows. Every row has a permanent id that no other row of any version of the
 * set ever gets: unchanged rows (path, size, mtime, etag, source) keep theirs from version to
 * version, a changed object gets a new one. Ids also number the units of cachefs/source.h: a sample
 * of S bytes takes max(1, ceil(S / UNIT_BYTES)) consecutive numbers. Id 1 is the root folder.
 *
 * The *number* of a sample (0..numbered-1) is its place in the order the framework reads; it
 * belongs to the version, not to the row. By default it is the sorted class-folder walk of Paddle's
 * DatasetFolder and torch's ImageFolder: for each first-level folder in byte order, for each folder
 * below it in byte order of its whole path, its files in byte order; where any numbered candidate
 * has an image extension, only those that have one are numbered (as the libraries do); files in the
 * root are numbered only if there is no folder at all. With a list, a sample's number is its line.
 *
 * All reading functions may be called from any thread; each thread gets its own statement set from
 * a small pool. Names are bytes, not text; they never contain '/' or NUL.
 */
#ifndef SAMPAN_CATALOG_H
#define SAMPAN_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"
#include "source.h"

#define CATALOG_ROOT_ID  1ull
#define CATALOG_NO_INDEX UINT64_MAX
#define CATALOG_DIGEST   64 /* hex digits of a version's name */

struct catalog;

/* Opens a version. A truncated, foreign or newer file is refused with a clear message
 * (ERR_CORRUPT). */
int catalog_open(struct catalog **ret, const char *file, struct err *err);

/* A version whose file is still on its way. */
struct catalog_pages {
    /* Returns when these bytes of the file are there. Any thread, which may hold locks below
     * RANK_CATALOG: must not wait for whoever reads catalogs. */
    int (*wait)(void *arg, uint64_t off, uint64_t len, struct err *err);
    /* The file is whole and has its name; TRANSIENT: not within that time. */
    int (*whole)(void *arg, uint64_t wait_ns, struct err *err);
    void *arg; /* outlives the catalog */
    int fd;    /* of the file, as long as it will be; duplicated */
    uint64_t size;
};
/* Opens it while it arrives; `file` is the name that it will have. */
int catalog_open_arriving(struct catalog **ret, const char *file, const struct catalog_pages *pages,
                          struct err *err);
/* Waits until its file is there as a whole (at once, if it was when it was opened): before others
 * open catalog_file(). */
int catalog_whole(const struct catalog *c, uint64_t wait_ns, struct err *err);

struct catalog *catalog_ref(struct catalog *c);
void catalog_unref(struct catalog *c);
/* The real path of its file when it was opened, or that it will have. */
const char *catalog_file(const struct catalog *c);
/* Reads every row and compares their digest with the version's name, the index of names and the
 * numbers with the rows: for a copy that came from elsewhere. About 1 us a row. */
int catalog_verify(struct catalog *c, struct err *err);

struct catalog_info {
    char digest[CATALOG_DIGEST + 1];
    uint64_t samples, bytes, numbered, bad_names;
    uint64_t folders; /* below the root */
    uint64_t next_id; /* ids at and above this one are unused in this version */
    /* Versions with the same lineage never give one id to two rows. Made when a folder's first
     * version is, kept by all that build on it; 0 in files that are older than this. */
    uint64_t lineage;
    /* A sum of all samples' ids in tree order. Two files of one digest and one sum give every path
     * the same id, whoever made them, so that ids may be said between machines; 0 in files that are
     * older than this. */
    uint64_t ids;
    int64_t scanned_at; /* Unix seconds */
    uint32_t n_sources;
};
const struct catalog_info *catalog_info(const struct catalog *c);
/* The URI of source i (as given, without secrets) and where it hangs in the tree ("" or "train/").
 */
const char *catalog_source_uri(const struct catalog *c, uint32_t i);
const char *catalog_source_at(const struct catalog *c, uint32_t i);

#define CATALOG_NO_MTIME INT64_MIN /* the source does not tell it */

struct entry {
    uint64_t id, parent; /* parent of the root is 0 */
    bool folder;
    uint64_t size;
    int64_t mtime_ns; /* or CATALOG_NO_MTIME */
    uint32_t source;
    uint64_t number; /* CATALOG_NO_INDEX: not numbered (or a folder) */
    char name[256];  /* "" for the root */
    char etag[160];  /* as the store gave it; "" if none */
};
/* A sample whose source does not tell its time is not known to be old. */
static inline bool entry_is_older(const struct entry *e, int64_t before_ns)
{
    return e->mtime_ns != CATALOG_NO_MTIME && e->mtime_ns < before_ns;
}

/* NOT_FOUND if there is none. */
int catalog_lookup(struct catalog *c, uint64_t parent, const char *name, size_t name_len,
                   struct entry *ret, struct err *err);
int catalog_get(struct catalog *c, uint64_t id, struct entry *ret, struct err *err);
int catalog_find(struct catalog *c, const char *path, struct entry *ret, struct err *err);
/* The path below the root, without a leading '/'. Appends. */
int catalog_path(struct catalog *c, uint64_t id, struct bytes *ret, struct err *err);

/*
 * A directory page: calls fn for the children of `parent` behind the one with the cookie `after`
 * (0: from the start), in name order; fn returns false to stop. A child's cookie is its id. Fine
 * for a folder of 1 M entries: no page costs more than its rows.
 */
typedef bool catalog_page_fn(void *arg, const struct entry *e, uint64_t cookie);
int catalog_page(struct catalog *c, uint64_t parent, uint64_t after, catalog_page_fn *fn, void *arg,
                 struct err *err);

/* What the store needs to fetch one unit, and the cache to keep it. */
struct unit_info {
    uint64_t sample; /* id of the row */
    uint32_t block;  /* unit - sample */
    uint32_t len;    /* bytes of this unit */
    uint64_t offset; /* of the unit in the object */
    uint64_t size;   /* of the whole sample */
    uint32_t source;
    int64_t mtime_ns;
    char etag[160];
    struct bytes key;     /* the object's key below its source's prefix; released by the caller */
    uint64_t pack_offset; /* where the sample starts in the object named by key (0 unless packed) */
    bool packed;          /* the object holds other samples too: its size and time are not ours */
};
int catalog_unit(struct catalog *c, uint64_t unit, struct unit_info *ret, struct err *err);
void unit_info_release(struct unit_info *u);
static inline uint64_t unit_count(uint64_t size)
{
    return size <= UNIT_BYTES ? 1 : (size + UNIT_BYTES - 1) / UNIT_BYTES;
}
/* Of the i-th unit of a sample. */
static inline uint32_t unit_length(uint64_t size, uint64_t i)
{
    uint64_t left = size - i * UNIT_BYTES;
    return left < UNIT_BYTES ? (uint32_t)left : UNIT_BYTES;
}

/* The ids of n numbers from `first`; fails outside 0..numbered-1. */
int catalog_numbers(struct catalog *c, uint64_t first, uint64_t n, uint64_t *out, struct err *err);

/* Walks all samples in id order, starting above `after_id`; fn returns false to stop. */
typedef bool catalog_walk_fn(void *arg, const struct entry *e);
int catalog_walk(struct catalog *c, uint64_t after_id, catalog_walk_fn *fn, void *arg,
                 struct err *err);
/* The same for all samples below a folder, in number-independent walk order. */
int catalog_walk_below(struct catalog *c, uint64_t folder, catalog_walk_fn *fn, void *arg,
                       struct err *err);

/* The same in path order (byte order of the path with NUL between its parts) as rows that a builder
 * takes: `key` is the path below the root, the source is the row's. -1 from fn stops with its err.
 */
struct row;
typedef int catalog_row_fn(void *arg, const struct row *r, struct err *err);
int catalog_rows(struct catalog *c, catalog_row_fn *fn, void *arg, struct err *err);

/* Names that the source has but a file system can't hold: reported, never dropped in silence. -1
 * from fn stops with its err, 1 because that is enough. */
typedef int catalog_bad_fn(void *arg, const char *key, size_t len, const char *why,
                           struct err *err);
int catalog_bad_names(struct catalog *c, catalog_bad_fn *fn, void *arg, struct err *err);

/* What changed from `a` to `b`: kind '+' added, '-' removed, '~' changed. `old_id`/`new_id` 0 if
 * none. */
typedef bool catalog_diff_fn(void *arg, char kind, const char *path, size_t len, bool folder,
                             uint64_t old_id, uint64_t new_id);
int catalog_diff(struct catalog *a, struct catalog *b, catalog_diff_fn *fn, void *arg,
                 struct err *err);

/* --- building ------------------------------------------------------------------------------- */

/*
 * A builder takes rows in any order, from one thread, and publishes a sorted version. It knows no
 * network. `dir` is the set's catalog folder; the builder's temporary file lives there and is
 * removed by catalog_builder_free() unless it was published. `previous` (may be NULL) gives ids to
 * unchanged rows.
 */
struct catalog_builder;
struct catalog_source_row {
    const char *uri;
    const char *at; /* "" or a folder with a trailing '/' */
};
int catalog_builder_new(struct catalog_builder **ret, const char *dir, struct catalog *previous,
                        const struct catalog_source_row *sources, uint32_t n_sources,
                        struct err *err);
struct row {
    const char *key; /* the object's key below its source's prefix, '/' between parts */
    size_t key_len;
    uint64_t size;
    int64_t mtime_ns;
    const char *etag; /* "" if none */
    uint32_t source;
    const char *object;   /* the key of the object that holds it, or NULL: the same as key */
    uint64_t pack_offset; /* its place there */
};
/* A key that ends in '/' with size 0 makes an empty folder. A name no file system can hold goes to
 * the bad names and is not an error. */
int catalog_builder_add(struct catalog_builder *b, const struct row *r, struct err *err);
/* May such a row of a source at "" be in a set, as far as it alone tells? Pure. */
bool catalog_holds_row(const struct row *r);
/* Numbers come from these lines (paths below the root) instead of the walk. Before finish. A line
 * that names no sample, or one twice, is an error that gives the line. */
int catalog_builder_list(struct catalog_builder *b, const char *text, size_t len, const char *what,
                         struct err *err);

/* What a source has and the set can't: told among the bad names, with the reason. */
int catalog_builder_leave_out(struct catalog_builder *b, uint32_t source, const char *key,
                              size_t len, const char *why, struct err *err);

/*
 * All that `from`, a version of the same sources that another folder gave its ids to, has: rows,
 * folders, bad names. Its numbers must be the walk's. What is finished gets the name of `from`,
 * with ids of this folder, or fails; and it does not become the current one.
 */
int catalog_builder_take(struct catalog_builder *b, struct catalog *from, struct err *err);

/* Memory that sorting may take (default 64 MiB); more goes to temporary files. Before the first
 * row. */
void catalog_builder_memory(struct catalog_builder *b, size_t bytes);

/* Asked now and then while the version is finished, which takes microseconds a row: true ends it
 * (ERR_CANCELLED), and there is no new version. */
typedef bool catalog_stop_fn(void *arg);
void catalog_builder_stop(struct catalog_builder *b, catalog_stop_fn *stop, void *arg);

/* Of samples; folders are not counted. */
struct catalog_diff_counts {
    uint64_t added, changed, removed;
};
/* The name of the version that finishing will make: for what must be known of it before it is
 * there. After the last row; where it fails, the builder is of no more use. */
int catalog_builder_digest(struct catalog_builder *b, const char **ret, struct err *err);
/*
 * Sorts, gives ids and numbers, computes the digest, writes and fsyncs `dir/DIGEST.catalog`, and
 * switches `dir/current` (a symlink) by rename. If nothing changed since `previous` no new version
 * is made and ret_file names the old one. `out_file` (may be NULL) additionally receives a copy.
 */
int catalog_builder_finish(struct catalog_builder *b, const char *out_file, char **ret_file,
                           struct catalog_diff_counts *ret_diff, struct err *err);
void catalog_builder_free(struct catalog_builder *b);

/* Puts a version's file from elsewhere into the folder, and makes it the current one if asked. It
 * may be there before it is durable (early.h): early_settle() then makes it so. */
int catalog_put_file(const char *dir, const char *file, const char *digest, bool current,
                     struct err *err);

/* Where a version lies in its folder (the text may go on after the digest), and which names such
 * files have. */
char *catalog_version_file(const char *dir, const char *digest);
bool catalog_is_version_name(const char *name);

/* A copy of a version's file, whole or not at all. `to` may be a file, lead to one, or be nothing
 * yet: no device, pipe, folder or link is replaced. */
int catalog_may_copy_to(const char *to, struct err *err);
int catalog_copy_file(const char *from, const char *to, struct err *err);

/* Removes what builders that died have left. The caller knows that nobody builds there: it holds
 * the lock of the owner's folder. */
void catalog_tidy(const char *dir);

/* Removes all but the `keep` newest versions (those that links lead to are always kept), and
 * what builders that died have left. Files that a catalog has open live on until it is freed. */
int catalog_prune(const char *dir, unsigned keep, struct err *err);

/* The published version of a set's catalog folder; NOT_FOUND if none is there yet. */
int catalog_current(struct catalog **ret, const char *dir, struct err *err);

/* Notes in the folder which of its versions the machine that lists the source serves; durable. And
 * which one that is: the current one if nothing was noted, or its file is lost. */
int catalog_set_told(const char *dir, const char *digest, struct err *err);
int catalog_told(struct catalog **ret, const char *dir, struct err *err);
/* Notes which version's units the cache was told of last (volume/left.c), durably ("": none; that
 * need not be durable, for the cache knows when it has lost its index); is it that? */
int catalog_set_named(const char *dir, const char *digest, struct err *err);
bool catalog_is_named(const char *dir, const char *digest);

/* Notes in the folder that this version of it is to be served, whatever is published ("": no longer
 * so); durable. And which one that is: NOT_FOUND if none, CORRUPT if its file is lost. */
int catalog_pin(const char *dir, const char *digest, struct err *err);
int catalog_pinned(struct catalog **ret, const char *dir, struct err *err);

#endif
