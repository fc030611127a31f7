/*
 * A packed set at a store (docs/formats/packed-set.md): the small object that names its current
 * catalog, and the catalog itself. Both come from elsewhere: nothing in them is believed unchecked.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "do-internal.h"
#include "file.h"
#include "hash.h"
#include "json.h"
#include "mem.h"

#define POINTER_MAX (64u << 10)
#define FORMAT      1
#define PIECE       (4u << 20)
#define CATALOG_MAX (1ull << 40)

static int build_pointer(void *arg, struct http_req *r, struct err *err)
{
    static const char key[] = FETCH_PACKED_POINTER;
    return store_req_get(arg, key, sizeof key - 1, 0, 0, r, err);
}

static int read_pointer(struct fetch *f, struct store *s, struct bytes *ret, struct http_answer *a,
                        struct err *err)
{
    static const char key[] = FETCH_PACKED_POINTER;
    struct stat st;
    if (!(store_caps(s) & STORE_LOCAL))
        return whole_wait(f, s, PRIO_READER, build_pointer, s, POINTER_MAX, a, ret, err);
    if (store_local_stat(s, key, &st, err))
        return -1;
    if (!S_ISREG(st.st_mode) || st.st_size > (off_t)POINTER_MAX)
        return err_set(err, ERR_CORRUPT, "%s%s: no pointer to a catalog", store_uri(s), key);
    bytes_reserve(ret, (size_t)st.st_size + 1);
    ret->len = (size_t)st.st_size;
    ret->data[ret->len] = '\0';
    return store_local_read(s, key, sizeof key - 1, 0, ret->data, ret->len, 0, 0, err);
}

int packed_pointer_parse(const void *text, size_t len, struct packed_pointer *ret, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    const char *digest, *previous;
    int64_t format, size;
    if (json_parse(&doc, FETCH_PACKED_POINTER, text, len, err))
        return -1;
    struct json root = json_root(doc);
    if (json_want_object(&root, err) || json_int(&root, "format", 1, INT64_MAX, &format, err) ||
        json_str(&root, "catalog", &digest, err) ||
        json_str_or(&root, "previous", "", &previous, err) ||
        json_int(&root, "size", 1, (int64_t)CATALOG_MAX, &size, err))
        return -1;
    if (format != FORMAT)
        return err_set(err, ERR_FAILED,
                       "%s: written by a newer version (format %lld; update sampan)",
                       FETCH_PACKED_POINTER, (long long)format);
    if (!hex_is(digest, CATALOG_DIGEST) || (*previous && !hex_is(previous, CATALOG_DIGEST)))
        return err_set(err, ERR_CORRUPT, "%s: that is no catalog's name", FETCH_PACKED_POINTER);
    *ret = (struct packed_pointer){.size = (uint64_t)size};
    memcpy(ret->digest, digest, CATALOG_DIGEST);
    memcpy(ret->previous, previous, strlen(previous));
    return 0;
}

void packed_pointer_write(const struct packed_pointer *p, struct bytes *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_uint(&w, "format", FORMAT);
    jw_str(&w, "catalog", p->digest);
    jw_uint(&w, "size", p->size);
    jw_str(&w, "previous", p->previous);
    jw_end(&w);
    bytes_add_char(out, '\n');
}

int fetch_packed_pointer(struct fetch *f, struct store *s, struct packed_pointer *ret,
                         struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    struct http_answer a;
    struct err e = {0};
    http_answer_init(&a);
    if (read_pointer(f, s, &text, &a, &e)) {
        /* "Denied" is what some servers say of what is not there; others have a page for
         * everything, here one that is longer than any pointer. */
        if (e.class == ERR_NOT_FOUND || e.class == ERR_DENIED ||
            (e.class == ERR_LIMIT && a.status == 200))
            return 0;
        if (err)
            *err = e;
        return err_wrap(err, "look for a packed set");
    }
    if (text.len == 0 || text.data[0] != '{')
        return 0; /* a server that has a page for everything */
    return packed_pointer_parse(text.data, text.len, ret, err) ? -1 : 1;
}

static int copy_to(struct fetch *f, struct store *s, const char *key, uint64_t size, int fd,
                   const char *file, struct err *err)
{
    cleanup_free char *buf = xmalloc(PIECE);
    struct fetch_get g = {.store = s,
                          .key = key,
                          .key_len = strlen(key),
                          .object_size = size,
                          .etag = "",
                          .prio = PRIO_READER};
    for (uint64_t off = 0; off < size;) {
        size_t len = size - off < PIECE ? (size_t)(size - off) : PIECE;
        g.off = off;
        if (fetch_read(f, &g, buf, len, err))
            return -1;
        if (file_write(fd, buf, len, off))
            return err_sys(err, errno, "write %s", file);
        off += len;
    }
    return 0;
}

int fetch_packed_catalog(struct fetch *f, struct store *s, const struct packed_pointer *p,
                         const char *file, struct catalog **ret, struct err *err)
{
    struct catalog *c = NULL;
    cleanup_free char *key = xasprintf(FETCH_PACKED_CATALOG "%s", p->digest);
    cleanup_close int fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, errno, "write %s", file);
    int result = copy_to(f, s, key, p->size, fd, file, err);
    if (result == 0)
        result = catalog_open(&c, file, err);
    if (result == 0 && strcmp(catalog_info(c)->digest, p->digest) != 0)
        result = err_set(err, ERR_CORRUPT, "it is another catalog than its name says");
    if (result == 0)
        result = catalog_verify(c, err);
    if (result) {
        if (c)
            catalog_unref(c);
        unlink(file);
        return err_wrap(err, "packed set %s: %s", store_uri(s), key);
    }
    *ret = c;
    return 0;
}
