/* The walks after the copies: what is at the destination alone goes, in batches; folders go last,
 * the deepest first; and folders get their modes and times when nothing is put into them any more.
 */
#include <arpa/inet.h>
#include <string.h>

#include "sync-internal.h"

#define BATCH_KEYS    1000
#define FOLDER_MEMORY (4u << 20)

/* Deepest first: the number of its parts, turned round, before the key. */
static int add_folder(struct sorter *to, const char *key, uint32_t source, struct err *err)
{
    uint32_t depth = 0;
    for (const char *at = key; *at; at++)
        depth += *at == '/';
    uint32_t turned = htonl(~depth);
    cleanup_bytes struct bytes text = {0};
    bytes_add(&text, &turned, sizeof turned);
    bytes_add_str(&text, key);
    return sorter_add(to, text.data, text.len, &source, sizeof source, err);
}

typedef void folder_fn(struct sync_run *r, uint32_t source, const char *key);

static int each_folder(struct sync_run *r, struct sorter *s, folder_fn *fn, struct err *err)
{
    struct sorted at;
    int more;
    if (sorter_rewind(s, err))
        return -1;
    while ((more = sorter_next(s, &at, err)) > 0 && !run_is_over(r)) {
        uint32_t source;
        memcpy(&source, at.data, sizeof source);
        cleanup_free char *key =
            xstrndup((const char *)at.key + sizeof(uint32_t), at.key_len - sizeof(uint32_t));
        fn(r, source, key);
    }
    return more < 0 ? -1 : 0;
}

/* --- deleting --------------------------------------------------------------------------------- */

/* One that something is in which no listing shows (a trash, what is half written) stays. */
static void remove_folder(struct sync_run *r, uint32_t source, const char *key)
{
    struct err err = {0};
    (void)source;
    if (fetch_delete_folder(r->fetch, r->to, key, &err) == 0)
        counter_add(&r->counts.deleted, 1);
    else if (err.class != ERR_STALE)
        run_failed(r, key, &err);
}

/* Folders that go only once they are empty. */
static bool has_real_folders(const struct sync_run *r)
{
    return !(store_caps(r->to) & STORE_FLAT_LIST);
}

static void flush(struct sync_run *r, struct task **batch)
{
    if (*batch)
        run_push(r, take_ptr(batch));
}

/* What goes, on its way there. Keys come in order: what is in a folder comes right after it. */
struct going {
    struct sync_run *run;
    struct task *batch;
    struct sorter *folders; /* that go once they are empty */
    struct bytes above;     /* extra folders that the key at hand lies in, each ended by NUL */
};

static int delete_one(struct going *g, const char *key, uint64_t size, struct err *err)
{
    struct sync_run *r = g->run;
    size_t len = strlen(key);
    if (r->conf->dry) {
        counter_add(&r->counts.deleted, 1);
        if (r->watch && r->watch->would)
            r->watch->would(r->watch->arg, SYNC_DELETE, key, size);
        return 0;
    }
    if (key[len - 1] == '/' && has_real_folders(r))
        return add_folder(g->folders, key, 0, err);
    if (!g->batch)
        g->batch = task_new(TASK_DELETE, "", 0);
    bytes_add(&g->batch->keys, key, len + 1);
    if (++g->batch->n_keys == BATCH_KEYS)
        flush(r, &g->batch);
    return 0;
}

/* Where the last of the folders above begins. */
static size_t last_above(const struct going *g)
{
    size_t at = g->above.len - 1;
    while (at && g->above.data[at - 1])
        at--;
    return at;
}

/* The folders that end before the key had nothing to be kept in them. */
static int leave_folders(struct going *g, const char *key, struct err *err)
{
    while (g->above.len) {
        size_t at = last_above(g);
        const char *folder = g->above.data + at;
        if (strncmp(key, folder, strlen(folder)) == 0)
            return 0;
        if (delete_one(g, folder, 0, err))
            return -1;
        g->above.len = at;
    }
    return 0;
}

static int pass_key(struct going *g, const struct join *j, struct err *err)
{
    const char *key = j->key.data;
    if (leave_folders(g, key, err))
        return -1;
    if (j->s.there || j->is_left_out || store_is_output(key)) { /* output: of jobs */
        bytes_clear(&g->above);                                 /* the folders of what stays stay */
        return 0;
    }
    if (j->d.row.kind == SYNC_LINK && !g->run->conf->dry)
        return 0; /* gone already: see walk.c */
    if (j->d.row.kind != SYNC_FOLDER)
        return delete_one(g, key, j->d.row.size, err);
    bytes_add(&g->above, key, j->key.len + 1);
    return 0;
}

int run_delete_extra(struct sync_run *r, struct err *err)
{
    struct join j;
    struct going g = {.run = r, .folders = sorter_new(r->temp_dir, FOLDER_MEMORY)};
    int more = join_begin(&j, r, false, err) ? -1 : 1;
    j.shows_kept = true;
    r->phase = SYNC_DELETING;
    while (more > 0 && !run_is_over(r) && (more = join_next(&j, err)) > 0)
        if (pass_key(&g, &j, err))
            more = -1;
    if (more == 0 && leave_folders(&g, "", err))
        more = -1;
    join_end(&j);
    flush(r, &g.batch);
    run_drain(r);
    int result = more < 0 ? -1 : each_folder(r, g.folders, remove_folder, err);
    sorter_free(g.folders);
    bytes_release(&g.above);
    return result;
}

/* --- attributes of folders -------------------------------------------------------------------- */

static void set_folder(struct sync_run *r, uint32_t source, const char *key)
{
    struct err err = {0};
    if (meta_refresh(r, source, key, &err) == 0)
        return;
    if (r->conf->existing && err.class == ERR_NOT_FOUND)
        return; /* it was not made */
    run_failed(r, key, &err);
}

/* The folders that a key of a flat store implies, those of the key before excepted. */
static int add_implied(struct sorter *folders, const struct join *j, struct bytes *before,
                       struct err *err)
{
    for (size_t i = 0; i < j->key.len; i++) {
        if (j->key.data[i] != '/' ||
            (i < before->len && memcmp(before->data, j->key.data, i + 1) == 0))
            continue;
        cleanup_bytes struct bytes folder = {0};
        bytes_add(&folder, j->key.data, i + 1);
        if (add_folder(folders, folder.data, j->s.row.source, err))
            return -1;
    }
    bytes_clear(before);
    bytes_add(before, j->key.data, j->key.len);
    return 0;
}

int run_folder_attrs(struct sync_run *r, struct err *err)
{
    struct join j;
    struct sorter *folders = sorter_new(r->temp_dir, FOLDER_MEMORY);
    int more = join_begin(&j, r, false, err) ? -1 : 1;
    cleanup_bytes struct bytes before = {0};
    while (more > 0 && (more = join_next(&j, err)) > 0) {
        bool flat = j.s.there && (store_caps(r->sources[j.s.row.source].store) & STORE_FLAT_LIST);
        if (flat ? add_implied(folders, &j, &before, err)
                 : j.s.there && j.s.row.kind == SYNC_FOLDER &&
                       add_folder(folders, j.key.data, j.s.row.source, err))
            more = -1;
    }
    join_end(&j);
    int result = more < 0 ? -1 : each_folder(r, folders, set_folder, err);
    sorter_free(folders);
    return result;
}
