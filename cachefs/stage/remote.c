/*
 * What is asked of the store, each a call that waits, with no lock held: the same few verbs for
 * stores that speak HTTP and for a local folder.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "clock.h"
#include "file.h"
#include "mem.h"
#include "remote-internal.h"

#define SMALL_BODY (1u << 20)
#define PAGE_BODY  (64u << 20)

static bool is_local(const struct stage *s)
{
    return s->caps & STORE_LOCAL;
}

static void seen_of_stat(const struct stat *st, const char *etag, struct seen *ret)
{
    snprintf(ret->etag, sizeof ret->etag, "%s", etag);
    ret->size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;
    ret->mtime_ns = clock_ns_of(&st->st_mtim);
}

static void meta_of_stat(const struct stat *st, struct object_meta *ret)
{
    *ret = (struct object_meta){.mode = st->st_mode,
                                .uid = st->st_uid,
                                .gid = st->st_gid,
                                .mtime_ns = clock_ns_of(&st->st_mtim)};
}

static int local_look(struct stage *s, const char *key, struct object_meta *meta, struct seen *ret,
                      struct err *err)
{
    struct stat st;
    char etag[64];
    if (store_local_stat(s->conf.store, key, &st, err))
        return -1;
    store_local_etag(&st, etag);
    seen_of_stat(&st, etag, ret);
    meta_of_stat(&st, meta);
    return 0;
}

static int local_seen(struct stage *s, const char *key, struct seen *ret, struct err *err)
{
    struct object_meta unused;
    return local_look(s, key, &unused, ret, err);
}

/* A size that no answer tells stays as it is. Where nothing is kept beside the bytes, the time is
 * the store's own, as exact as in its listings. */
static void seen_of_answer(const struct stage *s, const struct http_answer *a, struct seen *ret)
{
    struct object_meta meta = {0};
    snprintf(ret->etag, sizeof ret->etag, "%s", a->etag);
    ret->size = a->content_length < 0 ? ret->size : (uint64_t)a->content_length;
    ret->mtime_ns = a->last_modified * (int64_t)NS_PER_S;
    snprintf(ret->mark, sizeof ret->mark, "%s", a->meta_upload);
    if (s->caps & STORE_META)
        return;
    store_meta_of(a, &meta);
    ret->mtime_ns = meta.mtime_ns;
}

/* What a local file can take of it: only root gives files away. */
static struct local_attrs attrs_of(const struct object_meta *m)
{
    return (struct local_attrs){.has_mode = true,
                                .has_owner = geteuid() == 0,
                                .has_mtime = true,
                                .mode = m->mode & 07777,
                                .uid = m->uid,
                                .gid = m->gid,
                                .mtime_ns = m->mtime_ns};
}

/* --- listing --------------------------------------------------------------------------------- */

struct level {
    const struct store *store;
    const char *prefix;
    level_fn *fn;
    void *arg;
    char *left; /* of a writer that died: the first that was seen */
};

static int on_local(void *arg, const char *name, const struct stat *st, const char *etag,
                    struct err *err)
{
    const struct level *l = arg;
    struct seen seen;
    struct level_item item = {
        .name = name, .folder = S_ISDIR(st->st_mode), .known = true, .seen = &seen};
    seen_of_stat(st, etag, &seen);
    meta_of_stat(st, &item.meta);
    return l->fn(l->arg, &item, err);
}

static int on_item(void *arg, const struct list_item *i, struct err *err)
{
    struct level *l = arg;
    size_t skip = strlen(l->prefix);
    if (!l->left && store_is_left(i, store_now_ns(l->store)))
        l->left = xstrndup(i->key, i->key_len);
    if (i->unfinished || i->key_len <= skip || memcmp(i->key, l->prefix, skip) != 0)
        return 0;
    size_t len = i->key_len - skip;
    bool slash = i->key[i->key_len - 1] == '/';
    cleanup_free char *name = xstrndup(i->key + skip, len - slash);
    if (!*name || strchr(name, '/') || strlen(name) != len - slash)
        return 0; /* "a//b", or a NUL: no file system can hold that */
    struct seen seen = {.size = i->size, .mtime_ns = i->mtime_ns};
    snprintf(seen.etag, sizeof seen.etag, "%s", i->etag ? i->etag : "");
    const struct level_item item = {.name = name, .folder = i->folder || slash, .seen = &seen};
    return l->fn(l->arg, &item, err);
}

struct page {
    struct stage *s;
    const char *prefix, *token;
};

static int build_page(void *arg, struct http_req *r, struct err *err)
{
    const struct page *p = arg;
    return store_req_list(p->s->conf.store, p->prefix, true, p->token, "", r, err);
}

static int level_pages(struct stage *s, struct level *l, struct err *err)
{
    cleanup_bytes struct bytes token = {0}, body = {0}, next = {0};
    bytes_add_str(&token, "");
    do {
        struct page p = {s, l->prefix, token.data};
        if (fetch_do(s->conf.fetch, s->conf.store, build_page, &p, PAGE_BODY, NULL, &body, err))
            return -1;
        bytes_clear(&next);
        if (store_parse_list(s->conf.store, l->prefix, body.data, body.len, on_item, l, &next, err))
            return -1;
        if (next.len && next.len == token.len && memcmp(next.data, token.data, next.len) == 0)
            return err_set(err, ERR_FAILED, "%s: the listing goes in circles",
                           store_uri(s->conf.store));
        bytes_clear(&token);
        bytes_add(&token, next.data ? next.data : "", next.len);
    } while (token.len && !atomic_load(&s->stopping));
    return token.len ? err_set(err, ERR_CANCELLED, "stopping") : 0; /* half of it is not all */
}

/* One a listing: a store that does not let it go is not asked for more than that. */
static void remove_left(struct stage *s, struct level *l)
{
    if (l->left)
        fetch_delete(s->conf.fetch, s->conf.store, l->left, NULL);
    free(l->left);
}

int remote_level(struct stage *s, const char *prefix, level_fn *fn, void *arg, struct err *err)
{
    struct level l = {.store = s->conf.store, .prefix = prefix, .fn = fn, .arg = arg};
    struct err why = {0};
    counter_add(&s->counts->lists, 1);
    int result = is_local(s) ? store_local_level(s->conf.store, prefix, on_local, &l, &why)
                             : level_pages(s, &l, &why);
    remove_left(s, &l);
    if (result == 0)
        return 0;
    /* A folder of a store that has folders may be gone, or not be made yet. */
    if (why.class == ERR_NOT_FOUND && s->caps & STORE_FOLDERS)
        return 0;
    if (err)
        *err = why;
    return err_wrap(err, "list \"%s\"", prefix);
}

void count_upload(struct stage *s, uint64_t len)
{
    counter_add(&s->counts->uploads, 1);
    counter_add(&s->counts->uploaded_bytes, len);
}

/* --- one object ------------------------------------------------------------------------------ */

int remote_look(struct stage *s, const char *key, struct object_meta *meta, bool *ret_known,
                struct seen *ret, struct err *err)
{
    *ret_known = true;
    if (is_local(s))
        return local_look(s, key, meta, ret, err);
    struct http_answer a;
    size_t len = strlen(key);
    if (!(s->caps & STORE_META) && len && key[len - 1] == '/')
        return err_set(err, ERR_NOT_FOUND, "no marker: %s", key);
    if (fetch_head(s->conf.fetch, s->conf.store, key, &a, err))
        return -1;
    *ret_known = store_meta_of(&a, meta);
    *ret = (struct seen){0};
    seen_of_answer(s, &a, ret);
    return 0;
}

struct put {
    struct stage *s;
    struct store_put p;
};

static int build_put(void *arg, struct http_req *r, struct err *err)
{
    const struct put *p = arg;
    return store_req_put_object(p->s->conf.store, &p->p, r, err);
}

/* Stores without ETags are asked what the object looks like to a listing. */
static int learn(struct stage *s, const char *key, const char *etag, struct seen *ret,
                 struct err *err)
{
    snprintf(ret->etag, sizeof ret->etag, "%s", etag);
    if (*etag)
        return 0;
    struct http_answer a;
    if (fetch_head(s->conf.fetch, s->conf.store, key, &a, err))
        return -1;
    seen_of_answer(s, &a, ret);
    return 0;
}

/* What changed in a folder of this machine is as good as in another store when it is on the disk:
 * the journal forgets it. */
static int keep_name(struct stage *s, const char *key, struct err *err)
{
    return is_local(s) ? store_local_sync_name(s->conf.store, key, err) : 0;
}

/* With what the store keeps beside the bytes; `ret_etag` "" where it says none. */
static int put_whole(struct stage *s, const struct store_put *put, const struct fetch_watch *watch,
                     char ret_etag[160], struct err *err)
{
    if (!(s->caps & STORE_META))
        return fetch_put_bytes(s->conf.fetch, s->conf.store, put->key, put->body, put->len, NULL,
                               ret_etag, err);
    struct put p = {s, *put};
    struct http_answer a;
    if (fetch_do_watched(s->conf.fetch, s->conf.store, build_put, &p, SMALL_BODY, watch, &a, NULL,
                         err))
        return -1;
    snprintf(ret_etag, 160, "%s", a.etag);
    return 0;
}

int remote_put(struct stage *s, const char *key, const void *body, size_t len,
               const struct object_meta *meta, const struct fetch_watch *watch, struct seen *ret,
               struct err *err)
{
    char sum[STORE_SUM_SIZE], etag[160];
    store_payload_sum(s->conf.store, body, len, sum);
    const struct store_put put = {.key = key, .body = body, .len = len, .meta = meta, .sum = sum};
    *ret = (struct seen){.size = len, .mtime_ns = LIST_MTIME_UNKNOWN};
    if (put_whole(s, &put, watch, etag, err) || learn(s, key, etag, ret, err))
        return err_wrap(err, "write \"%s\"", key);
    count_upload(s, len);
    return 0;
}

static int read_staged(void *arg, uint64_t off, void *buf, size_t len, struct err *err)
{
    const int *fd = arg;
    ssize_t n = file_read(*fd, buf, len, off);
    if (n < 0)
        return err_sys(err, errno, "read a staged file");
    memset((char *)buf + n, 0, len - (size_t)n); /* cut meanwhile: the caller does it again */
    return 0;
}

int remote_put_file(struct stage *s, const char *key, const char *temp, int fd, uint64_t len,
                    const struct object_meta *meta, struct seen *ret, struct err *err)
{
    const struct local_attrs attrs = attrs_of(meta);
    const struct fetch_stream stream = {.store = s->conf.store,
                                        .key = key,
                                        .len = len,
                                        .read = read_staged,
                                        .arg = &fd,
                                        .temp = temp,
                                        .opts = {.attrs = &attrs}};
    *ret = (struct seen){.size = len, .mtime_ns = clock_wall_ns()};
    if (fetch_put_stream(s->conf.fetch, &stream, err) ||
        (is_local(s) ? local_seen(s, key, ret, err) : learn(s, key, "", ret, err)))
        return err_wrap(err, "write \"%s\"", key);
    count_upload(s, len);
    return 0;
}

int remote_marker(struct stage *s, const char *key, const struct object_meta *meta, struct err *err)
{
    const struct local_attrs attrs = attrs_of(meta);
    const struct store_put put = {.key = key, .body = "", .meta = meta};
    char etag[160];
    if (s->caps & STORE_FOLDERS)
        return fetch_folder(s->conf.fetch, s->conf.store, key, err) ||
                       (is_local(s) && store_local_set_attrs(s->conf.store, key, &attrs, err)) ||
                       keep_name(s, key, err)
                   ? -1
                   : 0;
    return put_whole(s, &put, NULL, etag, err) ? err_wrap(err, "make the folder \"%s\"", key) : 0;
}

int remote_link(struct stage *s, const char *key, const char *target,
                const struct object_meta *meta, struct seen *ret, struct err *err)
{
    const struct local_attrs attrs = attrs_of(meta);
    if (!is_local(s))
        return remote_put(s, key, target, strlen(target), meta, NULL, ret, err);
    if (store_local_link(s->conf.store, key, target, err) ||
        store_local_set_attrs(s->conf.store, key, &attrs, err) || keep_name(s, key, err))
        return -1;
    return local_seen(s, key, ret, err);
}

/* --- reading --------------------------------------------------------------------------------- */

/* A store without ETags sends whatever has the name now: is it still what was seen before? */
static int same_still(struct stage *s, const char *key, const struct record *row, struct err *err)
{
    struct http_answer a;
    struct seen now = {0};
    if (is_local(s) || s->caps & STORE_META || *row->etag || row->rmtime_ns == LIST_MTIME_UNKNOWN)
        return 0;
    if (fetch_head(s->conf.fetch, s->conf.store, key, &a, err))
        return -1;
    seen_of_answer(s, &a, &now);
    if (now.size == row->rsize && now.mtime_ns == row->rmtime_ns)
        return 0;
    return err_set(err, ERR_STALE, "read \"%s\": the object was replaced meanwhile", key);
}

int remote_read(struct stage *s, const char *key, const struct record *row, uint64_t off, void *buf,
                uint32_t len, struct err *err)
{
    if (!*key)
        return err_set(err, ERR_STALE, "read a file that was removed: what is not here is gone");
    const struct fetch_get g = {.store = s->conf.store,
                                .key = key,
                                .key_len = strlen(key),
                                .off = off,
                                .len = len,
                                .object_size = row->rsize,
                                .mtime_ns = is_local(s) ? row->rmtime_ns : 0,
                                .etag = is_local(s) ? "" : row->etag,
                                .dest = buf,
                                .prio = PRIO_READER};
    return fetch_get_wait(s->conf.fetch, &g, err) || same_still(s, key, row, err) ? -1 : 0;
}

int remote_target(struct stage *s, const char *key, uint64_t size, struct bytes *ret,
                  struct err *err)
{
    if (is_local(s))
        return store_local_readlink(s->conf.store, key, ret, err);
    char target[PATH_MAX] = "";
    const struct record row = {
        .rsize = size, .etag = (char[]){""}, .rmtime_ns = LIST_MTIME_UNKNOWN};
    if (size >= sizeof target)
        return err_set(err, ERR_CORRUPT, "no link: \"%s\": its target has %llu bytes", key,
                       (unsigned long long)size);
    if (size && remote_read(s, key, &row, 0, target, (uint32_t)size, err))
        return -1;
    bytes_clear(ret);
    bytes_add(ret, target, strlen(target));
    return 0;
}

/* --- moving and deleting --------------------------------------------------------------------- */

struct copy {
    struct stage *s;
    struct store_copy c;
};

static int build_copy(void *arg, struct http_req *r, struct err *err)
{
    const struct copy *c = arg;
    return store_req_copy_object(c->s->conf.store, &c->c, r, err);
}

/* Stores that rename by themselves. */
static int move_there(struct stage *s, const char *from, const char *to,
                      const struct object_meta *meta, struct seen *ret, struct err *err)
{
    const struct local_attrs attrs = attrs_of(meta);
    const char *slash = strrchr(to, '/');
    cleanup_free char *folder = slash ? xstrndup(to, (size_t)(slash - to) + 1) : NULL;
    if (strcmp(from, to) != 0 &&
        ((folder && fetch_folder(s->conf.fetch, s->conf.store, folder, err)) ||
         fetch_rename(s->conf.fetch, s->conf.store, from, to, err)))
        return -1;
    if (!is_local(s))
        return 0; /* it keeps no attributes, and nothing changes by a rename */
    if (store_local_set_attrs(s->conf.store, to, &attrs, err) || keep_name(s, from, err) ||
        keep_name(s, to, err))
        return -1;
    return local_seen(s, to, ret, err);
}

int remote_move(struct stage *s, const char *from, const char *to, const struct object_meta *meta,
                const char *etag, bool *ret_left, struct seen *ret, struct err *err)
{
    *ret_left = !(s->caps & STORE_RENAME) && strcmp(from, to) != 0;
    if (s->caps & STORE_RENAME)
        return move_there(s, from, to, meta, ret, err);
    struct copy c = {s, {.from = from, .to = to, .if_match = etag, .meta = meta}};
    cleanup_bytes struct bytes body = {0};
    struct http_answer a;
    char tag[160] = "";
    if (fetch_do(s->conf.fetch, s->conf.store, build_copy, &c, SMALL_BODY, &a, &body, err))
        return err_wrap(err, "copy \"%s\" to \"%s\"", from, to);
    store_parse_etag(s->conf.store, body.data, body.len, tag);
    counter_add(&s->counts->copies, 1);
    return learn(s, to, tag, ret, err);
}

int remote_delete(struct stage *s, const char *key, struct err *err)
{
    size_t len = strlen(key);
    bool folder = len && key[len - 1] == '/';
    struct err why = {0};
    int result = folder ? fetch_delete_folder(s->conf.fetch, s->conf.store, key, &why)
                        : fetch_delete(s->conf.fetch, s->conf.store, key, &why);
    if (result == 0)
        result = keep_name(s, key, &why);
    /* A folder that somebody else put something into stays. */
    if (result == 0 || (folder && why.class == ERR_STALE)) {
        counter_add(&s->counts->deletes, 1);
        return 0;
    }
    if (err)
        *err = why;
    return -1;
}

struct many {
    struct stage *s;
    const char *const *keys;
    size_t n;
    struct bytes body;
};

static int build_many(void *arg, struct http_req *r, struct err *err)
{
    struct many *m = arg;
    return store_req_delete_many(m->s->conf.store, m->keys, m->n, &m->body, r, err);
}

int remote_delete_many(struct stage *s, const char *const *keys, size_t n, struct err *err)
{
    struct many m = {.s = s, .keys = keys, .n = n};
    cleanup_bytes struct bytes body = {0};
    int result =
        fetch_do(s->conf.fetch, s->conf.store, build_many, &m, PAGE_BODY, NULL, &body, err);
    bytes_release(&m.body);
    if (result || store_parse_delete_many(s->conf.store, body.data, body.len, err))
        return -1;
    counter_add(&s->counts->deletes, n); /* what is done: who waits for the rest counts on it */
    return 0;
}

/* --- uploads in parts that nobody will end --------------------------------------------------- */

static int abort_one(struct stage *s, const char *key, const char *upload, struct err *err)
{
    struct err why = {0};
    if (fetch_upload_abort(s->conf.fetch, s->conf.store, key, upload, &why) == 0 ||
        why.class == ERR_NOT_FOUND)
        return 0;
    if (err)
        *err = why;
    return -1;
}

struct left {
    struct stage *s;
    const char *key, *keep; /* keep: an upload's name, or NULL */
};

static int on_upload(void *arg, const char *key, const char *upload, struct err *err)
{
    const struct left *l = arg;
    bool ends = strcmp(key, l->key) == 0 && (!l->keep || strcmp(upload, l->keep) != 0);
    return ends ? abort_one(l->s, key, upload, err) : 0;
}

int remote_abort(struct stage *s, const char *key, const char *upload, struct err *err)
{
    /* The process died between asking for an upload and learning its name. */
    return *upload ? abort_one(s, key, upload, err) : remote_abort_others(s, key, NULL, err);
}

int remote_abort_others(struct stage *s, const char *key, const char *keep, struct err *err)
{
    struct left l = {s, key, keep};
    return fetch_uploads(s->conf.fetch, s->conf.store, key, on_upload, &l, err);
}
