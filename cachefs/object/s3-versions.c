/* S3: what an object was before it was replaced or deleted, where the bucket keeps that. */
#include <string.h>

#include "list-xml-internal.h"
#include "s3-internal.h"

struct version_texts {
    bool url_encoded, truncated;
    bool ours; /* something on this page is about the key */
    struct bytes key, id, etag, size;
    struct bytes next_key, next_id;
};

static void texts_release(struct version_texts *t)
{
    bytes_release(&t->key);
    bytes_release(&t->id);
    bytes_release(&t->etag);
    bytes_release(&t->size);
    bytes_release(&t->next_key);
    bytes_release(&t->next_id);
}

static void take_of_version(struct version_texts *t, const struct xml *x)
{
    if (xml_is(&x->name, "Key"))
        s3_take_key(&x->text, t->url_encoded, &t->key);
    else if (xml_is(&x->name, "VersionId"))
        xml_take(&t->id, x);
    else if (xml_is(&x->name, "Size"))
        xml_take(&t->size, x);
    else if (xml_is(&x->name, "ETag"))
        s3_take_etag(&x->text, &t->etag);
}

static void take_of_page(struct version_texts *t, const struct xml *x)
{
    if (xml_is(&x->name, "IsTruncated"))
        t->truncated = x->text.len == 4 && memcmp(x->text.data, "true", 4) == 0;
    else if (xml_is(&x->name, "NextKeyMarker"))
        s3_take_key(&x->text, t->url_encoded, &t->next_key);
    else if (xml_is(&x->name, "NextVersionIdMarker"))
        xml_take(&t->next_id, x);
}

static bool is_key(const struct store *s, const struct bytes *text, const char *key)
{
    size_t prefix = strlen(s->prefix), len = strlen(key);
    return text->data && text->len == prefix + len && memcmp(text->data, s->prefix, prefix) == 0 &&
           memcmp(text->data + prefix, key, len) == 0;
}

/* A version, or the mark of a deletion, has ended. Keys that only begin like ours are passed over,
 * and so is what lacks an id, an ETag or a size. */
static int emit(const struct store *s, struct version_texts *t, const char *key, version_fn *fn,
                void *arg, struct err *err)
{
    uint64_t size;
    int result = 0;
    bool ours = is_key(s, &t->key, key);
    t->ours = t->ours || ours;
    if (ours && t->id.len && t->etag.len && s3_take_size(&t->size, &size))
        result = fn(arg, t->id.data, size, t->etag.data, err);
    bytes_clear(&t->key);
    bytes_clear(&t->id);
    bytes_clear(&t->etag);
    bytes_clear(&t->size);
    return result;
}

static int read_page(struct version_texts *t, struct xml *x, const struct store *s, const char *key,
                     version_fn *fn, void *arg, struct err *err)
{
    for (enum xml_event e; (e = xml_next(x)) != XML_END;) {
        if (e == XML_BAD)
            return xml_error(x, s->uri, err);
        if (e == XML_OPEN && x->depth == 1 && !xml_is(&x->name, "ListVersionsResult"))
            return err_set(err, ERR_CORRUPT, "list versions %s: the answer is none, but <%.*s>",
                           s->uri, (int)(x->name.len < 60 ? x->name.len : 60), x->name.text);
        if (e != XML_CLOSE)
            continue;
        bool entry = xml_is(&x->name, "Version") || xml_is(&x->name, "DeleteMarker");
        if (xml_parent_is(x, "Version") || xml_parent_is(x, "DeleteMarker"))
            take_of_version(t, x);
        else if (entry && emit(s, t, key, fn, arg, err))
            return -1;
        else if (x->depth == 1)
            take_of_page(t, x);
    }
    return 0;
}

int s3_parse_versions(struct store *s, const char *key, const void *body, size_t len,
                      version_fn *fn, void *arg, struct bytes *ret_token, struct err *err)
{
    CLEANUP(texts_release)
    struct version_texts t = {.url_encoded = s3_says_url_encoded(body, len)};
    cleanup_xml struct xml x;
    xml_init(&x, body, len);
    if (read_page(&t, &x, s, key, fn, arg, err))
        return -1;
    /* Markers are the server's own words: MinIO's key has more in it than a key. */
    if (t.truncated && t.ours && t.next_key.len) {
        url_add_marker(ret_token, "key-marker", t.next_key.data);
        if (t.next_id.len)
            url_add_marker(ret_token, "version-id-marker", t.next_id.data);
    }
    return 0;
}
