/* The streaming JSON writer: commas, nesting and escapes are its business alone. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "json.h"

void jw_init(struct json_writer *w, struct bytes *out)
{
    *w = (struct json_writer){.out = out};
}

size_t utf8_len(const unsigned char *p, size_t left)
{
    if (p[0] < 0x80)
        return 1;
    size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || len > left)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    bool bad = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
               (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f);
    return bad ? 0 : len;
}

bool is_utf8(const char *text, size_t len)
{
    for (size_t n; len; text += n, len -= n) {
        n = utf8_len((const unsigned char *)text, len);
        if (!n)
            return false;
    }
    return true;
}

static void add_escaped(struct bytes *out, unsigned char c)
{
    static const char shorts[][3] = {['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n", ['\f'] = "\\f",
                                     ['\r'] = "\\r", ['"'] = "\\\"", ['\\'] = "\\\\"};
    if (c < sizeof shorts / sizeof shorts[0] && shorts[c][0])
        bytes_add(out, shorts[c], 2);
    else if (c < 0x20 || c == 0x7f)
        bytes_addf(out, "\\u%04x", c);
    else
        bytes_add_char(out, (char)c);
}

static void add_string(struct bytes *out, const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    bytes_add_char(out, '"');
    for (size_t i = 0; i < len;) {
        size_t n = utf8_len(p + i, len - i);
        if (n == 0)
            bytes_add(out, "\xef\xbf\xbd", 3);
        else if (n == 1)
            add_escaped(out, p[i]);
        else
            bytes_add(out, p + i, n);
        i += n ? n : 1;
    }
    bytes_add_char(out, '"');
}

/* Comma and key before the next value. */
static void item(struct json_writer *w, const char *key)
{
    uint64_t bit = 1ull << w->depth;
    if (w->depth && (w->has_items & bit))
        bytes_add_char(w->out, ',');
    w->has_items |= bit;
    assert(!key == (w->depth == 0 || (w->is_array & bit)));
    if (key) {
        add_string(w->out, key, strlen(key));
        bytes_add_char(w->out, ':');
    }
}

static void open_container(struct json_writer *w, const char *key, bool array)
{
    item(w, key);
    bytes_add_char(w->out, array ? '[' : '{');
    w->depth++;
    assert(w->depth < 64);
    uint64_t bit = 1ull << w->depth;
    w->has_items &= ~bit;
    w->is_array = array ? w->is_array | bit : w->is_array & ~bit;
}

void jw_object(struct json_writer *w, const char *key)
{
    open_container(w, key, false);
}

void jw_array(struct json_writer *w, const char *key)
{
    open_container(w, key, true);
}

void jw_end(struct json_writer *w)
{
    assert(w->depth > 0);
    bytes_add_char(w->out, w->is_array & (1ull << w->depth) ? ']' : '}');
    w->depth--;
}

void jw_strn(struct json_writer *w, const char *key, const char *value, size_t len)
{
    item(w, key);
    add_string(w->out, value, len);
}

void jw_str(struct json_writer *w, const char *key, const char *value)
{
    if (value)
        jw_strn(w, key, value, strlen(value));
    else
        jw_raw(w, key, "null");
}

void jw_name(struct json_writer *w, const char *key, const char *name)
{
    if (is_utf8(name, strlen(name))) {
        jw_str(w, key, name);
        return;
    }
    cleanup_bytes struct bytes hex = {0};
    for (; *name; name++)
        bytes_addf(&hex, "%02x", (unsigned char)*name);
    jw_object(w, key);
    jw_str(w, "hex", hex.data);
    jw_end(w);
}

void jw_int(struct json_writer *w, const char *key, int64_t value)
{
    item(w, key);
    bytes_addf(w->out, "%" PRId64, value);
}

void jw_uint(struct json_writer *w, const char *key, uint64_t value)
{
    item(w, key);
    bytes_addf(w->out, "%" PRIu64, value);
}

void jw_num(struct json_writer *w, const char *key, double value)
{
    if (!isfinite(value)) {
        jw_raw(w, key, "null");
        return;
    }
    item(w, key);
    bytes_addf(w->out, "%.3f", value);
}

void jw_float(struct json_writer *w, const char *key, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.9g", value);
    jw_raw(w, key, isfinite(value) ? text : "null");
}

void jw_bool(struct json_writer *w, const char *key, bool value)
{
    jw_raw(w, key, value ? "true" : "false");
}

void jw_raw(struct json_writer *w, const char *key, const char *json_text)
{
    item(w, key);
    bytes_add_str(w->out, json_text);
}
