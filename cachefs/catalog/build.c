/* The builder: rows in, checked and handed to the sorters. */
#include "build-internal.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mem.h"

#define DEFAULT_MEMORY (64u << 20)
#define BAD_MEMORY     (4u << 20)
#define FOLDERS_MEMORY (8u << 20)

/* --- names ----------------------------------------------------------------------------------- */

/* Why a file system cannot hold this path, or NULL. */
static const char *bad_path(const char *path, size_t len)
{
    if (len == 0)
        return "the name is empty";
    if (len > PATH_BYTES_MAX)
        return "the path is longer than 4096 bytes";
    if (path[0] == '/')
        return "the name starts with '/'";
    if (memchr(path, '\0', len))
        return "the name contains a NUL byte";
    for (size_t at = 0; at <= len;) {
        const char *slash = memchr(path + at, '/', len - at);
        size_t part = slash ? (size_t)(slash - path) - at : len - at;
        const char *p = path + at;
        if (part == 0)
            return "a part of the path is empty ('//')";
        if (part > 255)
            return "a part of the path is longer than 255 bytes";
        if (p[0] == '.' && (part == 1 || (part == 2 && p[1] == '.')))
            return "a part of the path is '.' or '..'";
        at += part + 1;
    }
    if (len >= 7 && memcmp(path, ".sampan", 7) == 0 && (len == 7 || path[7] == '/'))
        return "the mount's own .sampan hides it";
    return NULL;
}

static int bad_add(struct catalog_builder *b, const char *path, size_t len, const char *why,
                   struct err *err)
{
    return sorter_add(b->bad, path, len, why, strlen(why) + 1, err);
}

int bad_add_key(struct catalog_builder *b, const char *key, size_t len, const char *why,
                struct err *err)
{
    cleanup_bytes struct bytes path = {0};
    bytes_add(&path, key, len);
    key_to_path(path.data, path.len);
    return bad_add(b, path.data, path.len, why, err);
}

/* --- life ------------------------------------------------------------------------------------ */

/* The folder where a source hangs is there even if the source is empty. */
static int add_source_folder(struct catalog_builder *b, uint32_t source, struct err *err)
{
    const char *at = b->ats[source];
    size_t len = strlen(at);
    if (len == 0)
        return 0;
    const char *why = at[len - 1] == '/' ? bad_path(at, len - 1) : "it does not end in '/'";
    if (why)
        return err_set(err, ERR_USAGE, "source %s can't be placed at \"%s\": %s", b->uris[source],
                       at, why);
    struct packed_row p = {.source = source, .folder = 1};
    bytes_clear(&b->key);
    bytes_add(&b->key, at, len - 1);
    path_to_key(b->key.data, b->key.len);
    return sorter_add(b->rows, b->key.data, b->key.len, &p, sizeof p, err);
}

/* The source with that URI, or -1; of one that hangs in several places, that which hangs there. */
static int64_t find_source(const struct catalog *c, const char *uri, const char *at)
{
    int64_t found = -1;
    for (uint32_t i = 0; i < c->info.n_sources; i++)
        if (strcmp(uri, c->source_uris[i]) == 0 && (found < 0 || strcmp(at, c->source_ats[i]) == 0))
            found = i;
    return found;
}

static void take_sources(struct catalog_builder *b, const struct catalog_source_row *sources,
                         uint32_t n)
{
    b->n_sources = n;
    b->uris = xcalloc(n + 1, sizeof *b->uris);
    b->ats = xcalloc(n + 1, sizeof *b->ats);
    b->previous_source = xcalloc(n + 1, sizeof *b->previous_source);
    for (uint32_t i = 0; i < n; i++) {
        b->uris[i] = xstrdup(sources[i].uri);
        b->ats[i] = xstrdup(sources[i].at ? sources[i].at : "");
        b->previous_source[i] = b->previous ? find_source(b->previous, b->uris[i], b->ats[i]) : -1;
    }
}

int catalog_builder_new(struct catalog_builder **ret, const char *dir, struct catalog *previous,
                        const struct catalog_source_row *sources, uint32_t n_sources,
                        struct err *err)
{
    struct stat st;
    if (stat(dir, &st) < 0)
        return err_sys(err, errno, "build a catalog in %s", dir);
    if (!S_ISDIR(st.st_mode))
        return err_sys(err, ENOTDIR, "build a catalog in %s", dir);
    if (n_sources == 0 || n_sources > UINT16_MAX)
        return err_set(err, ERR_USAGE, "a set of %u sources (want 1 to %u)", n_sources, UINT16_MAX);
    struct catalog_builder *b = xcalloc(1, sizeof *b);
    b->dir = xstrdup(dir);
    b->previous = previous ? catalog_ref(previous) : NULL;
    b->memory = DEFAULT_MEMORY;
    b->rows = sorter_new(dir, b->memory);
    b->bad = sorter_new(dir, BAD_MEMORY);
    b->folders = sorter_new(dir, FOLDERS_MEMORY);
    take_sources(b, sources, n_sources);
    for (uint32_t i = 0; i < n_sources; i++)
        if (add_source_folder(b, i, err) < 0) {
            catalog_builder_free(b);
            return -1;
        }
    *ret = b;
    return 0;
}

void catalog_builder_memory(struct catalog_builder *b, size_t bytes)
{
    b->memory = bytes;
    sorter_set_memory(b->rows, bytes);
}

void catalog_builder_stop(struct catalog_builder *b, catalog_stop_fn *stop, void *arg)
{
    b->stop = stop;
    b->stop_arg = arg;
}

void catalog_builder_free(struct catalog_builder *b)
{
    if (!b)
        return;
    sorter_free(b->rows);
    sorter_free(b->bad);
    sorter_free(b->list);
    sorter_free(b->folders);
    for (uint32_t i = 0; i < b->n_sources; i++) {
        free(b->uris[i]);
        free(b->ats[i]);
    }
    free(b->uris);
    free(b->ats);
    free(b->previous_source);
    bytes_release(&b->key);
    bytes_release(&b->packed);
    free(b->list_what);
    free(b->meant);
    free(b->folder);
    if (b->old_ids)
        fclose(b->old_ids);
    catalog_unref(b->previous);
    free(b->dir);
    free(b);
}

/* --- rows ------------------------------------------------------------------------------------ */

/* The longest etag that struct entry holds; longer ones are cut here and by the store alike. */
static size_t etag_length(const char *etag)
{
    return etag ? strnlen(etag, sizeof(((struct entry *)0)->etag) - 1) : 0;
}

static int add_packed(struct catalog_builder *b, const struct row *r, bool folder, struct err *err)
{
    size_t object_len = r->object ? strlen(r->object) : 0;
    if (object_len > UINT16_MAX)
        return err_set(err, ERR_USAGE, "%s: the name of the object that holds it has %zu bytes",
                       b->key.data, object_len);
    struct packed_row p = {
        .size = r->size,
        .pack_offset = r->object ? r->pack_offset : 0,
        .mtime_ns = r->mtime_ns,
        .source = r->source,
        .etag_len = (uint16_t)etag_length(r->etag),
        .object_len = (uint16_t)object_len,
        .folder = folder,
        .has_object = r->object != NULL,
    };
    path_to_key(b->key.data, b->key.len);
    bytes_clear(&b->packed);
    bytes_add(&b->packed, &p, sizeof p);
    if (p.etag_len)
        bytes_add(&b->packed, r->etag, p.etag_len);
    if (p.object_len)
        bytes_add(&b->packed, r->object, p.object_len);
    return sorter_add(b->rows, b->key.data, b->key.len, b->packed.data, b->packed.len, err);
}

/* `path`: where the row is to lie; it is the key behind its source's place. */
static const char *bad_row(const struct row *r, const char *path, size_t len)
{
    bool folder = r->key_len > 0 && r->key[r->key_len - 1] == '/';
    const char *why = r->key_len == 0 ? "the name is empty" : NULL;
    if (!why && r->key[0] == '/')
        why = "the name starts with '/'";
    if (!why)
        why = bad_path(path, len - folder);
    if (!why && folder && r->size > 0)
        why = "the name ends in '/' but the object is not empty";
    if (!why && r->size > SIZE_MAX_BYTES)
        why = "no object is that big";
    return why;
}

bool catalog_holds_row(const struct row *r)
{
    return !bad_row(r, r->key, r->key_len);
}

int catalog_builder_add(struct catalog_builder *b, const struct row *r, struct err *err)
{
    if (r->source >= b->n_sources)
        return err_set(err, ERR_BUG, "a row of source %u in a set of %u", r->source, b->n_sources);
    bytes_clear(&b->key);
    bytes_add_str(&b->key, b->ats[r->source]);
    bytes_add(&b->key, r->key, r->key_len);
    const char *why = bad_row(r, b->key.data, b->key.len);
    if (why)
        return bad_add(b, b->key.data, b->key.len, why, err);
    bool folder = r->key[r->key_len - 1] == '/';
    b->key.len -= folder;
    return add_packed(b, r, folder, err);
}

int catalog_builder_leave_out(struct catalog_builder *b, uint32_t source, const char *key,
                              size_t len, const char *why, struct err *err)
{
    bytes_clear(&b->key);
    bytes_add_str(&b->key, b->ats[source]);
    bytes_add(&b->key, key, len);
    return bad_add(b, b->key.data, b->key.len, why, err);
}

/* --- a version from elsewhere ------------------------------------------------------------------
 */

/* Folders too: one may be empty, or newer than all that is in it. */
static int take_row(struct catalog_builder *b, const struct tree_walk *w, struct err *err)
{
    const struct row r = {.size = w->entry.folder ? 0 : w->entry.size,
                          .mtime_ns = w->entry.mtime_ns,
                          .etag = w->entry.folder ? "" : w->entry.etag,
                          .source = w->entry.source,
                          .object = !w->has_object   ? NULL
                                    : w->object.data ? w->object.data
                                                     : "",
                          .pack_offset = w->pack_offset};
    bytes_clear(&b->key);
    bytes_add(&b->key, w->key.data, w->key.len);
    return r.source < b->n_sources
               ? add_packed(b, &r, w->entry.folder, err)
               : err_set(err, ERR_CORRUPT, "%s: a row of no source", w->catalog->file);
}

static int take_rows(struct catalog_builder *b, struct catalog *from, struct err *err)
{
    struct tree_walk w;
    int got;
    if (tree_walk_begin(&w, from, CATALOG_ROOT_ID, err) < 0)
        return -1;
    while ((got = tree_walk_next(&w, err)) > 0)
        if (take_row(b, &w, err)) {
            got = -1;
            break;
        }
    tree_walk_end(&w);
    return got;
}

static int take_bad(void *arg, const char *key, size_t len, const char *why, struct err *err)
{
    return bad_add(arg, key, len, why, err);
}

int catalog_builder_take(struct catalog_builder *b, struct catalog *from, struct err *err)
{
    memcpy(b->wanted, from->info.digest, sizeof b->wanted);
    return take_rows(b, from, err) || catalog_bad_names(from, take_bad, b, err) ? -1 : 0;
}
