/* S3: the list of uploads in parts that were begun and neither ended nor aborted, and of the parts
 * that one of them has got. */
#include <string.h>

#include "list-xml-internal.h"
#include "s3-internal.h"

struct upload_texts {
    struct bytes key, id, next_key, next_id;
    bool truncated;
};

static void texts_release(struct upload_texts *t)
{
    bytes_release(&t->key);
    bytes_release(&t->id);
    bytes_release(&t->next_key);
    bytes_release(&t->next_id);
}

/* An element has ended: what it said is kept; true at the end of an upload. */
static bool take_element(struct upload_texts *t, const struct xml *x)
{
    if (xml_is(&x->name, "Upload"))
        return true;
    if (xml_parent_is(x, "Upload")) {
        if (xml_is(&x->name, "Key"))
            xml_take(&t->key, x);
        else if (xml_is(&x->name, "UploadId"))
            xml_take(&t->id, x);
        return false;
    }
    if (xml_is(&x->name, "NextKeyMarker"))
        xml_take(&t->next_key, x);
    else if (xml_is(&x->name, "NextUploadIdMarker"))
        xml_take(&t->next_id, x);
    else if (xml_is(&x->name, "IsTruncated"))
        t->truncated = x->text.len == 4 && memcmp(x->text.data, "true", 4) == 0;
    return false;
}

static int emit(const struct store *s, struct upload_texts *t, upload_fn *fn, void *arg,
                struct err *err)
{
    size_t prefix = strlen(s->prefix);
    int result = 0;
    if (t->key.len > prefix && t->id.len && memcmp(t->key.data, s->prefix, prefix) == 0)
        result = fn(arg, t->key.data + prefix, t->id.data, err);
    bytes_clear(&t->key);
    bytes_clear(&t->id);
    return result;
}

int s3_parse_uploads(struct store *s, const void *body, size_t len, upload_fn *fn, void *arg,
                     struct bytes *ret_token, struct err *err)
{
    CLEANUP(texts_release) struct upload_texts t = {0};
    cleanup_xml struct xml x;
    xml_init(&x, body, len);
    for (enum xml_event e; (e = xml_next(&x)) != XML_END;) {
        if (e == XML_BAD)
            return xml_error(&x, s->uri, err);
        if (e == XML_CLOSE && take_element(&t, &x) && emit(s, &t, fn, arg, err))
            return -1;
    }
    if (t.truncated && t.next_key.len) {
        url_add_marker(ret_token, "key-marker", t.next_key.data);
        if (t.next_id.len)
            url_add_marker(ret_token, "upload-id-marker", t.next_id.data);
    }
    return 0;
}

/* --- parts ------------------------------------------------------------------------------------ */

struct part_texts {
    struct bytes number, size, etag, next;
    bool truncated;
};

static void part_texts_release(struct part_texts *t)
{
    bytes_release(&t->number);
    bytes_release(&t->size);
    bytes_release(&t->etag);
    bytes_release(&t->next);
}

static bool take_part_element(struct part_texts *t, const struct xml *x)
{
    if (xml_is(&x->name, "Part"))
        return true;
    if (xml_parent_is(x, "Part")) {
        if (xml_is(&x->name, "PartNumber"))
            xml_take(&t->number, x);
        else if (xml_is(&x->name, "Size"))
            xml_take(&t->size, x);
        else if (xml_is(&x->name, "ETag"))
            xml_take(&t->etag, x);
    } else if (xml_is(&x->name, "NextPartNumberMarker")) {
        xml_take(&t->next, x);
    } else if (xml_is(&x->name, "IsTruncated")) {
        t->truncated = x->text.len == 4 && memcmp(x->text.data, "true", 4) == 0;
    }
    return false;
}

static bool number_of(const struct bytes *text, uint64_t max, uint64_t *ret)
{
    char *end;
    if (!text->len || text->data[0] < '0' || text->data[0] > '9' || text->len > 19)
        return false;
    *ret = strtoull(text->data, &end, 10);
    return !*end && *ret <= max;
}

static int emit_part(const struct store *s, struct part_texts *t, upload_part_fn *fn, void *arg,
                     struct err *err)
{
    uint64_t number, size;
    cleanup_bytes struct bytes etag = {0};
    if (!number_of(&t->number, 10000, &number) || !number_of(&t->size, INT64_MAX, &size))
        return err_set(err, ERR_CORRUPT, "%s: a part of an upload without a number or size",
                       s->uri);
    s3_take_etag(&t->etag, &etag);
    int result = fn(arg, (unsigned)number, size, etag.data ? etag.data : "", err);
    bytes_clear(&t->number);
    bytes_clear(&t->size);
    bytes_clear(&t->etag);
    return result;
}

int s3_parse_parts(struct store *s, const void *body, size_t len, upload_part_fn *fn, void *arg,
                   struct bytes *ret_token, struct err *err)
{
    CLEANUP(part_texts_release) struct part_texts t = {0};
    cleanup_xml struct xml x;
    xml_init(&x, body, len);
    for (enum xml_event e; (e = xml_next(&x)) != XML_END;) {
        if (e == XML_BAD)
            return xml_error(&x, s->uri, err);
        if (e == XML_CLOSE && take_part_element(&t, &x) && emit_part(s, &t, fn, arg, err))
            return -1;
    }
    if (t.truncated && t.next.len)
        url_add_marker(ret_token, "part-number-marker", t.next.data);
    return 0;
}
