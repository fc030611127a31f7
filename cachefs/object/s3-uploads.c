/* S3: the list of uploads in parts that were begun and neither ended nor aborted. */
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

static void take(struct bytes *to, const struct xml *x)
{
    bytes_clear(to);
    bytes_add(to, x->text.data ? x->text.data : "", x->text.len);
}

/* An element has ended: what it said is kept; true at the end of an upload. */
static bool take_element(struct upload_texts *t, const struct xml *x)
{
    if (xml_is(&x->name, "Upload"))
        return true;
    if (xml_parent_is(x, "Upload")) {
        if (xml_is(&x->name, "Key"))
            take(&t->key, x);
        else if (xml_is(&x->name, "UploadId"))
            take(&t->id, x);
        return false;
    }
    if (xml_is(&x->name, "NextKeyMarker"))
        take(&t->next_key, x);
    else if (xml_is(&x->name, "NextUploadIdMarker"))
        take(&t->next_id, x);
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
