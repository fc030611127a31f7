/*
 * Nodes in memory: all that the journal has, found by number, by name in a folder and by the key
 * that their object has while that is not their path. s->lock is held throughout.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "clock.h"
#include "dir.h"
#include "hash.h"
#include "mem.h"
#include "content-internal.h"
#include "owed-internal.h"

#define BUCKETS_FIRST 1024
#define INOS_RESERVED 4096 /* told to the journal at once */
#define KEY_MAX       1024 /* S3's and BOS's limit, in bytes */
#define LOCAL_ROOM    64   /* what a local store may add to a path while it writes */

/* --- tables ---------------------------------------------------------------------------------- */

static struct node **ino_bucket(struct stage *s, uint64_t ino)
{
    return &s->by_ino[hash_mix64(ino) & (s->buckets - 1)];
}

static struct node **name_bucket(struct stage *s, uint64_t parent, const char *name)
{
    return &s->by_name[hash64(name, strlen(name), parent) & (s->buckets - 1)];
}

static struct node **skey_bucket(struct stage *s, const char *key)
{
    return &s->by_skey[hash64(key, strlen(key), 1) & (s->buckets - 1)];
}

void tree_init(struct stage *s)
{
    s->buckets = BUCKETS_FIRST;
    s->by_ino = xcalloc(s->buckets, sizeof(struct node *));
    s->by_name = xcalloc(s->buckets, sizeof(struct node *));
    s->by_skey = xcalloc(s->buckets, sizeof(struct node *));
}

static void grow(struct stage *s)
{
    struct node **old = s->by_ino;
    size_t n = s->buckets;
    free(s->by_name);
    free(s->by_skey);
    s->buckets = 2 * n;
    s->by_ino = xcalloc(s->buckets, sizeof(struct node *));
    s->by_name = xcalloc(s->buckets, sizeof(struct node *));
    s->by_skey = xcalloc(s->buckets, sizeof(struct node *));
    for (size_t i = 0; i < n; i++) {
        for (struct node *node = old[i], *next; node; node = next) {
            next = node->next_ino;
            struct node **b = ino_bucket(s, node->row.ino);
            node->next_ino = *b;
            *b = node;
            if (node->in_names) {
                b = name_bucket(s, node->parent->row.ino, node->row.name);
                node->next_name = *b;
                *b = node;
            }
            if (node->row.skey) {
                b = skey_bucket(s, node->row.skey);
                node->next_skey = *b;
                *b = node;
            }
        }
    }
    free(old);
}

void record_release(struct record *r)
{
    free(r->name);
    free(r->etag);
    free(r->skey);
    free(r->target);
}

static void node_free(struct node *n)
{
    record_release(&n->row);
    free(n->why);
    free(n);
}

void tree_free(struct stage *s)
{
    for (size_t i = 0; i < s->buckets; i++)
        for (struct node *n = s->by_ino[i], *next; n; n = next) {
            next = n->next_ino;
            node_free(n);
        }
    free(s->by_ino);
    free(s->by_name);
    free(s->by_skey);
}

struct node *node_of(struct stage *s, uint64_t ino)
{
    struct node *n = *ino_bucket(s, ino);
    while (n && n->row.ino != ino)
        n = n->next_ino;
    return n;
}

struct node *node_new(struct stage *s, uint64_t ino)
{
    if (s->n_nodes >= 2 * s->buckets)
        grow(s);
    struct node *n = xcalloc(1, sizeof *n);
    n->row.ino = ino;
    n->row.etag = xstrdup("");
    struct node **b = ino_bucket(s, ino);
    n->next_ino = *b;
    *b = n;
    s->n_nodes++;
    return n;
}

struct node *child_of(struct stage *s, const struct node *folder, const char *name)
{
    struct node *n = *name_bucket(s, folder->row.ino, name);
    while (n && (n->parent != folder || strcmp(n->row.name, name) != 0))
        n = n->next_name;
    return n;
}

/* Children stand in the order of their numbers, which is nearly always that of their coming. */
void node_link(struct stage *s, struct node *parent, struct node *n)
{
    assert(!n->in_names && node_is_folder(parent));
    struct node *before = parent->last;
    while (before && before->row.ino > n->row.ino)
        before = before->before;
    n->before = before;
    n->after = before ? before->after : parent->first;
    *(n->before ? &n->before->after : &parent->first) = n;
    *(n->after ? &n->after->before : &parent->last) = n;
    n->parent = parent;
    n->row.parent = parent->row.ino;
    struct node **b = name_bucket(s, parent->row.ino, n->row.name);
    n->next_name = *b;
    *b = n;
    n->in_names = true;
    parent->folders += node_is_folder(n);
}

void node_unlink(struct stage *s, struct node *n)
{
    if (!n->in_names)
        return;
    struct node **b = name_bucket(s, n->parent->row.ino, n->row.name);
    while (*b != n)
        b = &(*b)->next_name;
    *b = n->next_name;
    *(n->before ? &n->before->after : &n->parent->first) = n->after;
    *(n->after ? &n->after->before : &n->parent->last) = n->before;
    n->parent->folders -= node_is_folder(n);
    n->before = n->after = n->next_name = NULL;
    n->parent = NULL;
    n->in_names = false;
}

static void skey_remove(struct stage *s, struct node *n)
{
    if (!n->row.skey)
        return;
    struct node **b = skey_bucket(s, n->row.skey);
    while (*b != n)
        b = &(*b)->next_skey;
    *b = n->next_skey;
    n->next_skey = NULL;
    going_add(s, n->row.skey, -1);
    free(n->row.skey);
    n->row.skey = NULL;
}

void node_set_skey(struct stage *s, struct node *n, char *key)
{
    skey_remove(s, n);
    n->row.skey = key;
    if (!key)
        return;
    struct node **b = skey_bucket(s, key);
    n->next_skey = *b;
    *b = n;
    going_add(s, key, 1);
}

struct node *holder_of(struct stage *s, const char *key)
{
    struct node *n = *skey_bucket(s, key);
    while (n && strcmp(n->row.skey, key) != 0)
        n = n->next_skey;
    return n;
}

bool holds_below(struct stage *s, const char *prefix)
{
    size_t len = strlen(prefix);
    for (size_t i = 0; i < s->buckets; i++)
        for (struct node *n = s->by_skey[i]; n; n = n->next_skey)
            if (strncmp(n->row.skey, prefix, len) == 0 && n->row.skey[len])
                return true;
    return false;
}

bool node_is_below(const struct node *n, const struct node *above)
{
    for (; n; n = n->parent)
        if (n == above)
            return true;
    return false;
}

/* --- life ------------------------------------------------------------------------------------ */

void node_reap(struct stage *s, struct node *n)
{
    if (!(n->row.flags & N_ORPHAN) || n->lookups || n->opens || n->pins || n->content || n->busy ||
        n->queued)
        return;
    if (journal_drop(s, n->row.ino, NULL))
        return; /* the next start drops it */
    content_discard(s, n);
    drop_list_remove(s, n);
    dirty_remove(s, n);
    skey_remove(s, n);
    struct node **b = ino_bucket(s, n->row.ino);
    while (*b != n)
        b = &(*b)->next_ino;
    *b = n->next_ino;
    s->n_nodes--;
    node_free(n);
}

/* An inode number; -1 if the journal can't keep it. */
static int ino_take(struct stage *s, uint64_t *ret, struct err *err)
{
    if (s->next_ino >= s->ino_reserved) {
        if (journal_meta(s, "next_ino", s->next_ino + INOS_RESERVED, err))
            return -1;
        s->ino_reserved = s->next_ino + INOS_RESERVED;
    }
    *ret = s->next_ino++;
    return 0;
}

struct node *node_make(struct stage *s, enum node_kind kind, const char *name, struct err *err)
{
    uint64_t ino;
    if (ino_take(s, &ino, err))
        return NULL;
    struct node *n = node_new(s, ino);
    n->row.name = xstrdup(name);
    n->row.kind = kind;
    n->row.mode = kind == NODE_FOLDER ? 0755 : kind == NODE_LINK ? 0777 : 0644;
    n->row.uid = s->conf.uid;
    n->row.gid = s->conf.gid;
    n->row.mtime_ns = clock_wall_ns();
    return n;
}

/* --- keys and names -------------------------------------------------------------------------- */

void node_key(const struct node *n, struct bytes *out)
{
    if (!n->parent)
        return;
    node_key(n->parent, out);
    bytes_add_str(out, n->row.name);
    if (node_is_folder(n))
        bytes_add_char(out, '/');
}

char *node_key_new(const struct node *n)
{
    struct bytes key = {0};
    node_key(n, &key);
    return bytes_take(&key);
}

char *node_stored_key(const struct node *n)
{
    return n->row.skey ? xstrdup(n->row.skey) : node_key_new(n);
}

static int name_refused(int e, const char *name, const char *why, struct err *err)
{
    err_set(err, ERR_USAGE, "cannot name a file so: %.255s: %s", name, why);
    if (err)
        err->sys = e;
    return -1;
}

int name_check(const struct stage *s, const struct node *parent, const char *name, struct err *err)
{
    size_t len = strlen(name);
    if (len == 0 || name_is_dots(name) || strchr(name, '/'))
        return name_refused(EINVAL, name, "no name of one file (choose another)", err);
    if (len > NAME_MAX)
        return name_refused(ENAMETOOLONG, name, "longer than 255 bytes (choose a shorter one)",
                            err);
    bool local = s->caps & STORE_LOCAL;
    if (!store_can_name(s->conf.store, name))
        return name_refused(EILSEQ, name, "the store takes UTF-8 only (choose another)", err);
    cleanup_bytes struct bytes key = {0};
    node_key(parent, &key);
    const char *prefix = strstr(store_uri(s->conf.store), "://");
    prefix = prefix ? strchr(prefix + 3, '/') : NULL;
    if (key.len + len + 1 + (prefix ? strlen(prefix + 1) : 0) >
        (local ? PATH_MAX - LOCAL_ROOM : KEY_MAX))
        return name_refused(ENAMETOOLONG, name,
                            "the whole path is longer than a key of the store may be", err);
    return 0;
}

/* --- attributes ------------------------------------------------------------------------------ */

static uint64_t node_valid_ns(const struct stage *s, const struct node *n)
{
    const struct node *folder = n->parent;
    if (!folder)
        return s->conf.refresh_ns;
    uint64_t age = clock_mono_ns() - folder->listed_ns;
    if (folder->listed_ns && age < s->conf.refresh_ns)
        return s->conf.refresh_ns - age;
    return n->row.flags & N_STORED ? 0 : s->conf.refresh_ns;
}

static mode_t kind_bits(const struct node *n)
{
    switch (n->row.kind) {
    case NODE_FOLDER:
        return S_IFDIR;
    case NODE_LINK:
        return S_IFLNK;
    default:
        /* An object of somebody else that is short enough may yet turn out to be a link. */
        return n->row.flags & N_KNOWN || n->row.size >= PATH_MAX ? S_IFREG : 0;
    }
}

void node_touch_names(struct node *folder, struct node *child)
{
    int64_t now = clock_wall_ns();
    if (folder)
        folder->names_ns = folder->touched_ns = now;
    if (child)
        child->touched_ns = now;
}

void node_attr(struct stage *s, const struct node *n, struct stage_attr *ret)
{
    int64_t mtime = n->row.mtime_ns == LIST_MTIME_UNKNOWN ? 0 : n->row.mtime_ns;
    if (n->names_ns && n->names_ns > mtime)
        mtime = n->names_ns;
    int64_t ctime_ns = n->touched_ns > mtime ? n->touched_ns : mtime;
    uint64_t size = node_is_folder(n) ? 4096 : n->row.size;
    *ret = (struct stage_attr){
        .st = {.st_ino = n->row.ino,
               .st_mode = kind_bits(n) | n->row.mode,
               .st_nlink = n->row.flags & N_ORPHAN ? 0
                           : node_is_folder(n)     ? 2 + n->folders
                                                   : 1,
               .st_uid = n->row.uid,
               .st_gid = n->row.gid,
               .st_size = (off_t)size,
               .st_blocks = (blkcnt_t)((size + 511) / 512),
               .st_blksize = 1 << 17,
               .st_mtim = clock_timespec(mtime),
               .st_ctim = clock_timespec(ctime_ns),
               .st_atim = clock_timespec(n->atime_ns ? n->atime_ns : mtime)},
        .valid_ns = node_valid_ns(s, n),
    };
}

/* --- handles --------------------------------------------------------------------------------- */

#define GEN_BITS (63 - FH_INO_BITS)

static uint64_t gen_bits(const struct node *n)
{
    return (n->row.gen & ((1ull << GEN_BITS) - 1)) << FH_INO_BITS;
}

uint64_t handle_make(const struct node *n, int flags)
{
    return n->row.ino | gen_bits(n) | (open_changes(flags) ? FH_WRITES : 0);
}

bool handle_is_stale(const struct node *n, uint64_t fh)
{
    uint64_t back = (n->row.gen - (fh >> FH_INO_BITS)) & ((1ull << GEN_BITS) - 1);
    return back > n->same_back;
}

struct node *handle_node(struct stage *s, uint64_t fh, struct err *err)
{
    struct node *n = node_of(s, fh & ((1ull << FH_INO_BITS) - 1));
    if (!n || n->row.kind != NODE_FILE) {
        err_set(err, ERR_STALE, "an open file that is not known here any more");
        if (err)
            err->sys = EBADF;
        return NULL;
    }
    return n;
}
