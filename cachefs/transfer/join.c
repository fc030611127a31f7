/*
 * The merge-join: both sorted sides walked side by side, one key at a time, together with the list
 * of wanted keys (files_from) and the uploads left behind.
 *
 * Where several sources have a key, the first source's is taken and the others are failures: which
 * one is meant, nobody said.
 */
#include <string.h>

#include "sync-internal.h"

void side_of(struct side *ret, const struct sorted *at)
{
    ret->there = true;
    memcpy(&ret->row, at->data, sizeof ret->row);
    size_t len = at->data_len - sizeof ret->row;
    if (len >= sizeof ret->etag)
        len = 0; /* no store gives such ETags: go without */
    memcpy(ret->etag, at->data + sizeof ret->row, len);
    ret->etag[len] = '\0';
}

struct sync_seen seen_of(const struct side *s)
{
    return (struct sync_seen){.there = s->there,
                              .kind = (enum sync_kind)s->row.kind,
                              .size = s->row.size,
                              .mtime_ns = s->row.mtime_ns,
                              .etag = s->etag};
}

static int compare(const void *a, size_t a_len, const void *b, size_t b_len)
{
    int c = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return c ? c : (a_len > b_len) - (a_len < b_len);
}

static int rewind_one(struct sorter *s, struct sorted *at, int *more, struct err *err)
{
    *more = 0;
    if (!s)
        return 0;
    if (sorter_rewind(s, err))
        return -1;
    *more = sorter_next(s, at, err);
    return *more < 0 ? -1 : 0;
}

int join_begin(struct join *j, struct sync_run *r, bool counts, struct err *err)
{
    *j = (struct join){.run = r, .counts = counts};
    if (rewind_one(r->src, &j->src, &j->more_src, err) ||
        rewind_one(r->dst, &j->dst, &j->more_dst, err) ||
        rewind_one(r->uploads, &j->up, &j->more_up, err) ||
        rewind_one(r->listed, &j->want, &j->more_want, err))
        return -1;
    return 0;
}

void join_end(struct join *j)
{
    bytes_release(&j->key);
    bytes_release(&j->folder);
    bytes_release(&j->aborts);
}

/* --- which keys ------------------------------------------------------------------------------- */

static void missing(const struct join *j, const char *key)
{
    struct err err = {0};
    if (!j->counts)
        return;
    err_set(&err, ERR_NOT_FOUND, "listed, but not in the source");
    run_failed(j->run, key, &err);
}

static void leave_folder(struct join *j)
{
    if (j->folder.len && !j->folder_used)
        missing(j, j->folder.data);
    bytes_clear(&j->folder);
}

static bool starts_with(const struct bytes *key, const struct bytes *folder)
{
    return folder->len && key->len >= folder->len &&
           memcmp(key->data, folder->data, folder->len) == 0;
}

static int next_wanted(struct join *j, struct err *err)
{
    j->more_want = sorter_next(j->run->listed, &j->want, err);
    return j->more_want < 0 ? -1 : 0;
}

/* A line of the list that the walk has passed: a folder's is looked at from now on. */
static int pass_line(struct join *j, struct err *err)
{
    const struct sorted *w = &j->want;
    cleanup_bytes struct bytes line = {0};
    bytes_add(&line, w->key, w->key_len);
    if (line.len && line.data[line.len - 1] == '/') {
        if (!starts_with(&line, &j->folder)) { /* else it is below one that counts already */
            leave_folder(j);
            bytes_add(&j->folder, line.data, line.len);
            j->folder_used = false;
        }
    } else if (!starts_with(&line, &j->folder)) {
        missing(j, line.data);
    }
    return next_wanted(j, err);
}

/* The line at hand is before the key (< 0), the key itself, or after it. */
static int compare_line(const struct join *j)
{
    return j->more_want ? compare(j->want.key, j->want.key_len, j->key.data, j->key.len) : 1;
}

/* 1: wanted, 0: not. */
static int is_listed(struct join *j, struct err *err)
{
    if (!j->run->listed)
        return 1;
    while (compare_line(j) < 0)
        if (pass_line(j, err))
            return -1;
    bool exact = false, is_folder = j->key.data[j->key.len - 1] == '/';
    for (; compare_line(j) == 0; exact = true) /* a list may name it twice */
        if (is_folder ? pass_line(j, err) : next_wanted(j, err))
            return -1;
    /* What the destination alone has was not meant to be missing if it is to be deleted. */
    bool found = j->s.there || j->run->deletes;
    if (starts_with(&j->key, &j->folder)) {
        j->folder_used = j->folder_used || found;
        return 1;
    }
    if (exact && !found)
        missing(j, j->key.data);
    return exact;
}

static bool is_in_range(const struct join *j)
{
    const struct sync_conf *c = j->run->conf;
    return (!c->start || strcmp(j->key.data, c->start) >= 0) &&
           (!c->end || strcmp(j->key.data, c->end) <= 0) &&
           (!c->shares || sync_share(j->key.data, j->key.len, c->shares) == c->share);
}

static void leave_out(struct join *j, bool excluded)
{
    struct live_counts *n = &j->run->counts;
    if (!j->counts || !j->s.there)
        return;
    atomic_fetch_sub_explicit(&n->found, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&n->found_bytes, j->s.row.size, memory_order_relaxed);
    if (excluded)
        counter_add(&n->excluded, 1);
}

/* 1: it is this run's; 0: it is not. */
static int is_ours(struct join *j, struct err *err)
{
    const struct sync_conf *c = j->run->conf;
    int listed = is_listed(j, err);
    if (listed < 0)
        return -1;
    bool is_folder = (j->s.there ? j->s.row.kind : j->d.row.kind) == SYNC_FOLDER;
    if (!listed || !is_in_range(j) || (is_folder && !c->dirs)) {
        leave_out(j, false);
        return 0;
    }
    bool pass = sync_rules_pass(c->rules, c->n_rules, c->match_full_path, j->key.data, j->key.len);
    if (!pass)
        leave_out(j, true);
    return pass;
}

/* --- the walk --------------------------------------------------------------------------------- */

static void again(const struct join *j, const struct side *other)
{
    struct err err = {0};
    if (!j->counts || other->row.kind == SYNC_FOLDER)
        return;
    err_set(&err, ERR_USAGE, "%s has it too: that of %s was taken",
            store_uri(j->run->sources[other->row.source].store),
            store_uri(j->run->sources[j->s.row.source].store));
    run_failed(j->run, j->key.data, &err);
}

static bool is_key(const struct join *j, const struct sorted *at)
{
    return compare(at->key, at->key_len, j->key.data, j->key.len) == 0;
}

static int take_source(struct join *j, struct err *err)
{
    struct side other;
    side_of(&j->s, &j->src);
    while ((j->more_src = sorter_next(j->run->src, &j->src, err)) > 0 && is_key(j, &j->src)) {
        side_of(&other, &j->src);
        again(j, &other);
        atomic_fetch_sub_explicit(&j->run->counts.found, j->counts, memory_order_relaxed);
        atomic_fetch_sub_explicit(&j->run->counts.found_bytes, j->counts ? other.row.size : 0,
                                  memory_order_relaxed);
    }
    return j->more_src < 0 ? -1 : 0;
}

static int take_destination(struct join *j, struct err *err)
{
    side_of(&j->d, &j->dst);
    j->more_dst = sorter_next(j->run->dst, &j->dst, err);
    return j->more_dst < 0 ? -1 : 0;
}

static int take_uploads(struct join *j, struct err *err)
{
    bytes_clear(&j->aborts);
    while (j->more_up > 0) {
        int c = compare(j->up.key, j->up.key_len, j->key.data, j->key.len);
        if (c > 0)
            return 0;
        if (c == 0) {
            bytes_add(&j->aborts, j->up.data, j->up.data_len);
            bytes_add_char(&j->aborts, '\0');
        }
        j->more_up = sorter_next(j->run->uploads, &j->up, err);
    }
    return j->more_up;
}

static int take_key(struct join *j, struct err *err)
{
    int c = !j->more_src   ? 1
            : !j->more_dst ? -1
                           : compare(j->src.key, j->src.key_len, j->dst.key, j->dst.key_len);
    const struct sorted *least = c <= 0 ? &j->src : &j->dst;
    bytes_clear(&j->key);
    bytes_add(&j->key, least->key, least->key_len);
    j->s.there = j->d.there = false;
    if (c <= 0 && take_source(j, err))
        return -1;
    if (c >= 0 && take_destination(j, err))
        return -1;
    return take_uploads(j, err);
}

/* A folder of a flat store is there by what lies in it, whether its marker was listed or not. */
static bool lies_below(const struct join *j, int more, const struct sorted *next)
{
    return more && j->key.data[j->key.len - 1] == '/' && next->key_len > j->key.len &&
           memcmp(next->key, j->key.data, j->key.len) == 0;
}

/* False: the folder of the destination is one of the source too, which does not list it. */
static bool imply_folders(struct join *j)
{
    if (!j->d.there && j->s.row.kind == SYNC_FOLDER && lies_below(j, j->more_dst, &j->dst))
        j->d = (struct side){.there = true,
                             .row = {.mtime_ns = LIST_MTIME_UNKNOWN, .kind = SYNC_FOLDER}};
    return j->s.there || j->d.row.kind != SYNC_FOLDER || !lies_below(j, j->more_src, &j->src);
}

static int end_of_list(struct join *j, struct err *err)
{
    while (j->run->listed && j->more_want)
        if (pass_line(j, err))
            return -1;
    leave_folder(j);
    return 0;
}

int join_next(struct join *j, struct err *err)
{
    const struct sync_conf *c = j->run->conf;
    while (j->more_src || j->more_dst) {
        if (run_is_over(j->run)) /* millions may be left out in a row */
            return err_set(err, ERR_CANCELLED, "told to stop");
        if (take_key(j, err))
            return -1;
        int ours = is_ours(j, err);
        if (ours < 0)
            return -1;
        j->is_left_out = !ours && j->shows_kept && j->d.there;
        if (j->is_left_out) {
            j->s.there = false;
            return 1;
        }
        if (!ours || !imply_folders(j))
            continue;
        if (j->s.there && c->limit && j->looked_at == c->limit) {
            leave_out(j, false);
            continue; /* what is left is only counted out */
        }
        j->looked_at += j->s.there;
        return 1;
    }
    return end_of_list(j, err);
}
