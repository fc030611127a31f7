/* The walks after the copies: what is at the destination alone goes, in batches; folders go last,
 * the deepest first; and folders get their modes and times when nothing is put into them any more.
 */
#include <arpa/inet.h>
#include <string.h>

#include "sync-internal.h"

#define BATCH_KEYS    1000
#define FOLDER_MEMORY (4u << 20)

/* Deepest first: the number of its parts, turned round, before the key. */
static int add_folder(struct sorter *to, const struct bytes *key, uint32_t source, struct err *err)
{
    uint32_t depth = 0;
    for (size_t i = 0; i < key->len; i++)
        depth += key->data[i] == '/';
    uint32_t turned = htonl(~depth);
    cleanup_bytes struct bytes text = {0};
    bytes_add(&text, &turned, sizeof turned);
    bytes_add(&text, key->data, key->len);
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

static void remove_folder(struct sync_run *r, uint32_t source, const char *key)
{
    struct err err = {0};
    (void)source;
    bool local = store_caps(r->to) & STORE_LOCAL;
    if (local ? store_local_remove_folder(r->to, key, &err)
              : fetch_delete(r->fetch, r->to, key, &err))
        run_failed(r, key, &err);
    else
        counter_add(&r->counts.deleted, 1);
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

static int delete_one(struct sync_run *r, const struct join *j, struct task **batch,
                      struct sorter *folders, struct err *err)
{
    bool is_folder = j->d.row.kind == SYNC_FOLDER;
    if (r->conf->dry) {
        counter_add(&r->counts.deleted, 1);
        if (r->watch && r->watch->would)
            r->watch->would(r->watch->arg, SYNC_DELETE, j->key.data, j->d.row.size);
        return 0;
    }
    if (is_folder && has_real_folders(r))
        return add_folder(folders, &j->key, 0, err);
    if (!*batch)
        *batch = task_new(TASK_DELETE, "", 0);
    bytes_add(&(*batch)->keys, j->key.data, j->key.len);
    bytes_add_char(&(*batch)->keys, '\0');
    if (++(*batch)->n_keys == BATCH_KEYS)
        flush(r, batch);
    return 0;
}

int run_delete_extra(struct sync_run *r, struct err *err)
{
    struct join j;
    struct task *batch = NULL;
    struct sorter *folders = sorter_new(r->temp_dir, FOLDER_MEMORY);
    int more = join_begin(&j, r, false, err) ? -1 : 1;
    r->phase = SYNC_DELETING;
    while (more > 0 && !run_is_over(r) && (more = join_next(&j, err)) > 0)
        if (!j.s.there && !store_is_output(j.key.data) && /* of jobs: the source never had them */
            delete_one(r, &j, &batch, folders, err))
            more = -1;
    join_end(&j);
    flush(r, &batch);
    run_drain(r);
    int result = more < 0 ? -1 : each_folder(r, folders, remove_folder, err);
    sorter_free(folders);
    return result;
}

/* --- attributes of folders -------------------------------------------------------------------- */

static void set_folder(struct sync_run *r, uint32_t source, const char *key)
{
    struct err err = {0};
    if (meta_refresh(r, source, key, &err))
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
        if (add_folder(folders, &folder, j->s.row.source, err))
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
                       add_folder(folders, &j.key, j.s.row.source, err))
            more = -1;
    }
    join_end(&j);
    int result = more < 0 ? -1 : each_folder(r, folders, set_folder, err);
    sorter_free(folders);
    return result;
}
