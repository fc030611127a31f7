/* Reads XML from bytes without recursion. See the header for what it takes and what it refuses. */
#include "list-xml-internal.h"

#include <stdint.h>
#include <string.h>

void xml_init(struct xml *x, const void *data, size_t len)
{
    const char *start = data ? data : "";
    *x = (struct xml){.start = start, .at = start, .end = start + len};
    if (len >= 3 && memcmp(start, "\xef\xbb\xbf", 3) == 0)
        x->at += 3;
}

void xml_release(struct xml *x)
{
    bytes_release(&x->text);
}

bool xml_is(const struct xml_name *n, const char *name)
{
    return strlen(name) == n->len && memcmp(n->text, name, n->len) == 0;
}

void xml_take(struct bytes *to, const struct xml *x)
{
    bytes_clear(to);
    bytes_add(to, x->text.data ? x->text.data : "", x->text.len);
}

bool xml_parent_is(const struct xml *x, const char *name)
{
    return x->depth > 0 && xml_is(&x->stack[x->depth - 1], name);
}

int xml_error(const struct xml *x, const char *what, struct err *err)
{
    return err_set(err, ERR_CORRUPT, "%s: not the XML that was asked for: byte %zu: %s", what,
                   (size_t)(x->at - x->start), x->why);
}

static enum xml_event bad(struct xml *x, const char *why)
{
    x->why = why;
    return XML_BAD;
}

/* --- character data -------------------------------------------------------------------------- */

static void add_utf8(struct bytes *out, uint32_t c)
{
    if (c < 0x80) {
        bytes_add_char(out, (char)c);
    } else if (c < 0x800) {
        bytes_add_char(out, (char)(0xc0 | c >> 6));
        bytes_add_char(out, (char)(0x80 | (c & 63)));
    } else if (c < 0x10000) {
        bytes_add_char(out, (char)(0xe0 | c >> 12));
        bytes_add_char(out, (char)(0x80 | (c >> 6 & 63)));
        bytes_add_char(out, (char)(0x80 | (c & 63)));
    } else {
        bytes_add_char(out, (char)(0xf0 | c >> 18));
        bytes_add_char(out, (char)(0x80 | (c >> 12 & 63)));
        bytes_add_char(out, (char)(0x80 | (c >> 6 & 63)));
        bytes_add_char(out, (char)(0x80 | (c & 63)));
    }
}

/* The digits of "&#38;" or "&#x26;" between '#' and ';'. */
static bool take_number(const char *p, size_t len, uint32_t *ret)
{
    unsigned base = 10;
    if (len && (*p == 'x' || *p == 'X')) {
        base = 16;
        p++;
        len--;
    }
    uint32_t n = 0;
    if (len == 0 || len > 8)
        return false;
    for (; len; p++, len--) {
        unsigned digit = *p >= '0' && *p <= '9'   ? (unsigned)(*p - '0')
                         : *p >= 'a' && *p <= 'f' ? (unsigned)(*p - 'a' + 10)
                         : *p >= 'A' && *p <= 'F' ? (unsigned)(*p - 'A' + 10)
                                                  : 99u;
        if (digit >= base || n > 0x10ffff)
            return false;
        n = n * base + digit;
    }
    *ret = n;
    return n <= 0x10ffff && !(n >= 0xd800 && n < 0xe000);
}

size_t xml_entity(struct bytes *out, const char *p, const char *end)
{
    static const struct {
        const char *name;
        char c;
    } entities[] = {
        {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};
    size_t left = (size_t)(end - p);
    for (size_t i = 0; i < sizeof entities / sizeof entities[0]; i++) {
        size_t len = strlen(entities[i].name);
        if (left >= len && memcmp(p, entities[i].name, len) == 0) {
            bytes_add_char(out, entities[i].c);
            return len;
        }
    }
    const char *semicolon = memchr(p, ';', left < 12 ? left : 12);
    uint32_t c;
    if (left < 3 || p[1] != '#' || !semicolon ||
        !take_number(p + 2, (size_t)(semicolon - p) - 2, &c))
        return 0;
    add_utf8(out, c);
    return (size_t)(semicolon - p) + 1;
}

static bool take_text(struct xml *x)
{
    while (x->at < x->end && *x->at != '<') {
        if (*x->at == '&') {
            size_t len = xml_entity(&x->text, x->at, x->end);
            if (!len)
                return false;
            x->at += len;
            continue;
        }
        size_t run = 1;
        while (x->at + run < x->end && x->at[run] != '<' && x->at[run] != '&')
            run++;
        bytes_add(&x->text, x->at, run);
        x->at += run;
    }
    return x->text.len <= XML_TEXT_MAX;
}

/* --- markup ---------------------------------------------------------------------------------- */

static bool starts_with(const struct xml *x, const char *text)
{
    size_t len = strlen(text);
    return (size_t)(x->end - x->at) >= len && memcmp(x->at, text, len) == 0;
}

/* Moves past the next `end`; gives what stood before it. */
static bool skip_past(struct xml *x, const char *end, struct xml_name *ret_inside)
{
    size_t len = strlen(end);
    const char *found = memmem(x->at, (size_t)(x->end - x->at), end, len);
    if (!found)
        return false;
    *ret_inside = (struct xml_name){x->at, (size_t)(found - x->at)};
    x->at = found + len;
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static struct xml_name take_name(struct xml *x)
{
    const char *start = x->at;
    while (x->at < x->end && !is_blank(*x->at) && !strchr("/>=<\"'&", *x->at))
        x->at++;
    const char *colon = memchr(start, ':', (size_t)(x->at - start));
    if (colon)
        start = colon + 1;
    return (struct xml_name){start, (size_t)(x->at - start)};
}

/* To the '>' that ends a begin tag; attributes are not looked at, but their quotes are. */
static bool skip_attributes(struct xml *x)
{
    char quote = 0;
    for (; x->at < x->end; x->at++) {
        if (quote) {
            quote = *x->at == quote ? 0 : quote;
        } else if (*x->at == '"' || *x->at == '\'') {
            quote = *x->at;
        } else if (*x->at == '>') {
            x->closes_itself = x->at[-1] == '/';
            x->at++;
            return true;
        } else if (*x->at == '<') {
            return false;
        }
    }
    return false;
}

static enum xml_event open_element(struct xml *x)
{
    x->at++;
    x->name = take_name(x);
    if (!x->name.len)
        return bad(x, "an element without a name");
    if (x->depth == 0 && x->has_root)
        return bad(x, "a second root element");
    if (x->depth == XML_DEPTH_MAX)
        return bad(x, "nested too deep");
    if (!skip_attributes(x))
        return bad(x, "a begin tag without end");
    x->stack[x->depth++] = x->name;
    x->has_root = true;
    bytes_clear(&x->text);
    return XML_OPEN;
}

static enum xml_event close_element(struct xml *x)
{
    x->at += 2;
    struct xml_name name = take_name(x);
    while (x->at < x->end && is_blank(*x->at))
        x->at++;
    if (x->at == x->end || *x->at != '>')
        return bad(x, "an end tag without end");
    x->at++;
    if (x->depth == 0)
        return bad(x, "an end tag too many");
    const struct xml_name *open = &x->stack[x->depth - 1];
    if (open->len != name.len || memcmp(open->text, name.text, name.len) != 0)
        return bad(x, "an end tag that fits no begin tag");
    x->name = *open;
    x->depth--;
    x->closed = true;
    return XML_CLOSE;
}

/* "<?…?>", "<!--…-->", "<![CDATA[…]]>", "<!DOCTYPE …>". False: refused, `why` is set. */
static bool take_aside(struct xml *x)
{
    struct xml_name inside;
    x->why = "markup without end";
    if (starts_with(x, "<?"))
        return skip_past(x, "?>", &inside);
    if (starts_with(x, "<!--"))
        return skip_past(x, "-->", &inside);
    if (starts_with(x, "<![CDATA[")) {
        x->at += strlen("<![CDATA[");
        if (!skip_past(x, "]]>", &inside))
            return false;
        bytes_add(&x->text, inside.text, inside.len);
        x->why = "a text too long";
        return x->text.len <= XML_TEXT_MAX;
    }
    if (!skip_past(x, ">", &inside))
        return false;
    x->why = "a document type with declarations";
    return !memchr(inside.text, '[', inside.len);
}

static enum xml_event at_end(struct xml *x)
{
    if (x->depth)
        return bad(x, "the text is cut off");
    return x->has_root ? XML_END : bad(x, "no element at all");
}

enum xml_event xml_next(struct xml *x)
{
    if (x->closes_itself) {
        x->closes_itself = false;
        x->name = x->stack[--x->depth];
        bytes_clear(&x->text);
        return XML_CLOSE;
    }
    if (x->closed)
        bytes_clear(&x->text);
    x->closed = false;
    for (;;) {
        if (!take_text(x))
            return bad(x, "an unknown entity or a text too long");
        if (x->at == x->end)
            return at_end(x);
        if (starts_with(x, "</"))
            return close_element(x);
        if (!starts_with(x, "<?") && !starts_with(x, "<!"))
            return open_element(x);
        if (!take_aside(x))
            return XML_BAD;
    }
}

/* --- conveniences ---------------------------------------------------------------------------- */

bool xml_find(const void *data, size_t len, const char *name, struct bytes *ret)
{
    cleanup_xml struct xml x;
    xml_init(&x, data, len);
    for (;;) {
        enum xml_event e = xml_next(&x);
        if (e == XML_END || e == XML_BAD)
            return false;
        if (e == XML_CLOSE && xml_is(&x.name, name)) {
            bytes_clear(ret);
            bytes_add(ret, x.text.data ? x.text.data : "", x.text.len);
            return true;
        }
    }
}

void xml_escape(struct bytes *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '<')
            bytes_add_str(out, "&lt;");
        else if (c == '>')
            bytes_add_str(out, "&gt;");
        else if (c == '&')
            bytes_add_str(out, "&amp;");
        else if (c == '"')
            bytes_add_str(out, "&quot;");
        else if (c < 0x20)
            bytes_addf(out, "&#%u;", c);
        else
            bytes_add_char(out, (char)c);
    }
}
