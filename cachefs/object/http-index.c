/* Index pages: JSON of nginx and Caddy, and HTML of nearly anybody. Pure, bounded, without
 * recursion. */
#include <ctype.h>
#include <string.h>

#include "clock.h"
#include "dir.h"
#include "http-internal.h"
#include "json.h"
#include "list-xml-internal.h"
#include "mem.h"
#include "zone.h"

#define HREF_MAX    4096 /* after decoding */
#define COLUMNS_MAX 512  /* bytes looked at after a link */

/* --- JSON ------------------------------------------------------------------------------------ */

/* nginx: name, type, mtime, size; Caddy: name (folders end in '/'), is_dir, mod_time, size. */
static int emit_entry(const char *prefix, const struct json *entry, list_fn *fn, void *arg,
                      struct err *err)
{
    const char *name, *type, *mtime, *mod_time;
    bool is_dir;
    int64_t size;
    if (json_str(entry, "name", &name, err) || json_str_or(entry, "type", "file", &type, err) ||
        json_bool_or(entry, "is_dir", false, &is_dir, err) ||
        json_str_or(entry, "mtime", "", &mtime, err) ||
        json_str_or(entry, "mod_time", "", &mod_time, err) ||
        json_int_or(entry, "size", 0, INT64_MAX, -1, &size, err))
        return -1;
    is_dir |= strcmp(type, "directory") == 0;
    size_t name_len = strlen(name);
    while (name_len && name[name_len - 1] == '/')
        name_len--;
    if (!name_len || memchr(name, '/', name_len) || part_is_dots(name, name_len))
        return 0;
    cleanup_bytes struct bytes key = {0};
    bytes_addf(&key, "%s%.*s%s", prefix, (int)name_len, name, is_dir ? "/" : "");
    int64_t ns = parse_iso8601_ns(mod_time);
    time_t seconds = *mtime ? curl_getdate(mtime, NULL) : -1;
    if (ns == LIST_MTIME_UNKNOWN && seconds >= 0 && seconds < 9000000000)
        ns = (int64_t)seconds * (int64_t)NS_PER_S;
    struct list_item item = {.key = key.data,
                             .key_len = key.len,
                             .size = is_dir     ? 0
                                     : size < 0 ? LIST_SIZE_UNKNOWN
                                                : (uint64_t)size,
                             .mtime_ns = ns,
                             .etag = "",
                             .folder = is_dir};
    return fn(arg, &item, err);
}

static int parse_json(struct store *s, const char *prefix, const void *body, size_t len,
                      list_fn *fn, void *arg, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    if (json_parse(&doc, s->uri, body, len, err))
        return err_wrap(err, "list (names that are not UTF-8 need autoindex_format html)");
    struct json root = json_root(doc);
    if (json_want_array(&root, err))
        return err_wrap(err, "list");
    for (size_t i = 0; i < json_count(&root); i++) {
        struct json entry = json_at(&root, i);
        if (emit_entry(prefix, &entry, fn, arg, err))
            return -1;
    }
    return 0;
}

/* --- links ----------------------------------------------------------------------------------- */

static const char *find_nocase(const char *at, const char *end, const char *word)
{
    size_t len = strlen(word);
    for (; (size_t)(end - at) >= len; at++) {
        at = memchr(at, word[0], (size_t)(end - at) - len + 1);
        if (!at)
            return NULL;
        if (strncasecmp(at, word, len) == 0)
            return at;
    }
    return NULL;
}

/* The value of href in a tag's text. */
static bool find_href(const char *tag, const char *end, const char **ret, size_t *ret_len)
{
    for (const char *p = tag; p + 5 < end; p++) {
        if (!isspace((unsigned char)p[-1]) || strncasecmp(p, "href", 4) != 0)
            continue;
        const char *v = p + 4;
        while (v < end && isspace((unsigned char)*v))
            v++;
        if (v == end || *v++ != '=')
            continue;
        while (v < end && isspace((unsigned char)*v))
            v++;
        if (v == end)
            return false;
        char quote = *v == '"' || *v == '\'' ? *v++ : 0;
        const char *stop = v;
        while (stop < end && (quote ? *stop != quote : !isspace((unsigned char)*stop)))
            stop++;
        *ret = v;
        *ret_len = (size_t)(stop - v);
        return true;
    }
    return false;
}

/* HTML allows names that are no entity, which stay. */
static void decode_entities(struct bytes *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t used = text[i] == '&' ? xml_entity(out, text + i, text + len) : 0;
        if (!used)
            bytes_add_char(out, text[i]);
        i += used ? used : 1;
    }
}

/* The path of the page, decoded, with a '/' at both ends: "/set/train/". */
static void page_path(const struct store *s, const char *prefix, struct bytes *out)
{
    const char *path = strstr(s->endpoint.base, "://");
    path = path ? strchr(path + 3, '/') : NULL;
    size_t len = path ? strlen(path) : 0;
    bytes_reserve(out, len + strlen(prefix) + 2);
    out->len = len ? url_decode(out->data, path, len) : 0;
    bytes_add_char(out, '/');
    bytes_add_str(out, prefix);
    if (out->data[out->len - 1] != '/')
        bytes_add_char(out, '/');
}

struct link {
    char name[HREF_MAX];
    size_t len;
    bool folder;
};

/* What is left of an absolute link to our own server; NULL for others. */
static const char *own_path(const struct store *s, const char *href, size_t *len)
{
    const char *host = strstr(s->endpoint.base, "://") + 3;
    size_t origin = (size_t)(host - s->endpoint.base) + strcspn(host, "/");
    if (*len < origin || strncasecmp(href, s->endpoint.base, origin) != 0 ||
        (*len > origin && href[origin] != '/'))
        return NULL;
    *len -= origin;
    return href + origin;
}

static bool has_scheme(const char *href, size_t len)
{
    size_t n = 0;
    while (n < len &&
           (isalnum((unsigned char)href[n]) || href[n] == '+' || href[n] == '-' || href[n] == '.'))
        n++;
    return n > 0 && n < len && href[n] == ':';
}

/* True if the link leads to a thing right below the page. */
static bool take_link(const struct store *s, const struct bytes *page, const char *href, size_t len,
                      struct link *ret)
{
    cleanup_bytes struct bytes text = {0};
    if (len == 0 || len >= HREF_MAX)
        return false;
    decode_entities(&text, href, len);
    len = text.len;
    const char *p = text.data;
    const char *fragment = memchr(p, '#', len);
    len = fragment ? (size_t)(fragment - p) : len;
    if (len == 0 || memchr(p, '?', len) || (len >= 2 && memcmp(p, "//", 2) == 0))
        return false; /* "?C=N;O=D" sorts the same page */
    if (has_scheme(p, len) && !(p = own_path(s, p, &len)))
        return false;
    ret->len = url_decode(ret->name, p, len);
    char *name = ret->name;
    if (name[0] == '/') {
        if (ret->len <= page->len || memcmp(name, page->data, page->len) != 0)
            return false;
        ret->len -= page->len;
        memmove(name, name + page->len, ret->len);
    } else if (ret->len > 2 && memcmp(name, "./", 2) == 0) {
        ret->len -= 2;
        memmove(name, name + 2, ret->len);
    }
    ret->folder = ret->len && name[ret->len - 1] == '/';
    size_t bare = ret->len - (ret->folder ? 1 : 0);
    return bare && !part_is_dots(name, bare) && !memchr(name, '/', bare) &&
           !memchr(name, '\0', bare);
}

/* --- columns --------------------------------------------------------------------------------- */

static int month_of(const char *text)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (int i = 0; i < 12; i++)
        if (strncasecmp(months + 3 * (size_t)i, text, 3) == 0)
            return i + 1;
    return 0;
}

/* "01-Jan-2024" (nginx), "2024-01-31" (Apache), "2024-Jan-31" (lighttpd) -> days; -1: no date. */
static int64_t take_date(const char *word)
{
    int a = 0, b = 0, c = 0, n = 0;
    char name[4] = "";
    if (sscanf(word, "%4d-%2d-%2d%n", &a, &b, &c, &n) == 3 && n == 10 && !word[n])
        ;
    else if (sscanf(word, "%2d-%3[A-Za-z]-%4d%n", &c, name, &a, &n) == 3 && n == 11 && !word[n])
        b = month_of(name);
    else if (sscanf(word, "%4d-%3[A-Za-z]-%2d%n", &a, name, &c, &n) == 3 && n == 11 && !word[n])
        b = month_of(name);
    else
        return -1;
    if (a < 1970 || a > 2200 || b < 1 || b > 12 || c < 1 || c > 31)
        return -1;
    return civil_days(a, (unsigned)b, (unsigned)c);
}

static int64_t take_time(const char *word)
{
    int h = 0, m = 0, s = 0, n = 0;
    if (sscanf(word, "%2d:%2d%n", &h, &m, &n) != 2 || n != 5)
        return -1;
    if (word[5] == ':' && (sscanf(word + 5, ":%2d%n", &s, &n) != 1 || n != 3 || word[8]))
        return -1;
    if ((word[5] && word[5] != ':') || h < 0 || h > 23 || m < 0 || m > 59 || s < 0 || s > 60)
        return -1;
    return h * 3600 + m * 60 + s;
}

/* The words between tags, the next at each call; false at the end. */
static bool next_word(const char **at, const char *end, char word[32])
{
    const char *p = *at;
    size_t n = 0;
    while (p < end) {
        if (*p == '<') {
            const char *close = memchr(p, '>', (size_t)(end - p));
            if (n || !close)
                break;
            p = close + 1;
        } else if (isspace((unsigned char)*p)) {
            if (n)
                break;
            p++;
        } else {
            if (n < 31)
                word[n++] = *p;
            p++;
        }
    }
    word[n] = '\0';
    *at = p;
    return n > 0;
}

/* What stands after a link, up to the next one: a date, a time, and a size if it is exact. */
static void take_columns(const char *at, const char *end, struct list_item *item)
{
    char word[32] = "";
    int64_t days = -1, seconds = -1;
    item->mtime_ns = LIST_MTIME_UNKNOWN;
    item->size = LIST_SIZE_UNKNOWN;
    while (days < 0 && next_word(&at, end, word))
        if ((days = take_date(word)) < 0 && strcmp(word, "&nbsp;") != 0)
            return;
    if (days < 0 || !next_word(&at, end, word) || (seconds = take_time(word)) < 0)
        return;
    item->mtime_ns = (days * 86400 + seconds) * (int64_t)NS_PER_S;
    if (!next_word(&at, end, word))
        return;
    size_t digits = strspn(word, "0123456789");
    if (digits && digits < 19 && !word[digits]) /* "1.2K" is rounded */
        item->size = strtoull(word, NULL, 10);
}

/* --- the page -------------------------------------------------------------------------------- */

static const char *find_last_nocase(const char *at, const char *end, const char *word)
{
    const char *last = NULL;
    while ((at = find_nocase(at, end, word)))
        last = at++;
    return last;
}

/*
 * A page that comes without its length and ends with the connection may be the beginning of one:
 * taken for all of it, what stood behind would be gone from the set. HTML lets nobody leave out the
 * end of these, and lists are made of them.
 */
static bool is_cut(const char *body, const char *end)
{
    static const char *const pairs[][2] = {{"<pre", "</pre"},
                                           {"<table", "</table"},
                                           {"<ul", "</ul"},
                                           {"<ol", "</ol"},
                                           {"<div", "</div"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const char *open = find_last_nocase(body, end, pairs[i][0]);
        if (open && !find_nocase(open, end, pairs[i][1]))
            return true;
    }
    return false;
}

static int parse_html(struct store *s, const char *prefix, const char *body, size_t len,
                      list_fn *fn, void *arg, struct err *err)
{
    cleanup_bytes struct bytes page = {0}, key = {0}, last = {0};
    page_path(s, prefix, &page);
    size_t prefix_len = strlen(prefix);
    bool slash = prefix_len && prefix[prefix_len - 1] != '/';
    const char *end = body + len;
    bool closes = true; /* is there an end of a link's text? It is not sought again in vain */
    for (const char *at = body; (at = find_nocase(at, end, "<a"));) {
        const char *tag = at + 2;
        const char *tag_end = memchr(tag, '>', (size_t)(end - tag));
        if (!tag_end)
            break;
        at = tag_end + 1;
        const char *href;
        size_t href_len;
        struct link link;
        if (!isspace((unsigned char)*tag) || !find_href(tag + 1, tag_end, &href, &href_len) ||
            !take_link(s, &page, href, href_len, &link))
            continue;
        const char *text_end = closes ? find_nocase(at, end, "</a>") : NULL;
        closes = text_end != NULL;
        at = closes ? text_end + 4 : at;
        const char *stop = find_nocase(at, end, "<a");
        stop = stop ? stop : end;
        if ((size_t)(stop - at) > COLUMNS_MAX)
            stop = at + COLUMNS_MAX;
        struct list_item item = {.etag = "", .folder = link.folder};
        take_columns(at, stop, &item);
        if (link.folder)
            item.size = 0;
        bytes_clear(&key);
        bytes_addf(&key, "%s%s", prefix, slash ? "/" : "");
        bytes_add(&key, link.name, link.len);
        if (key.data && last.data && key.len == last.len &&
            memcmp(key.data, last.data, key.len) == 0)
            continue; /* an icon and a name may both be links */
        bytes_clear(&last);
        bytes_add(&last, key.data ? key.data : "", key.len);
        item.key = key.data;
        item.key_len = key.len;
        if (fn(arg, &item, err))
            return -1;
    }
    return 0;
}

int http_parse_index(struct store *s, const char *prefix, const void *body, size_t len, list_fn *fn,
                     void *arg, struct err *err)
{
    const char *text = body ? body : "";
    size_t i = 0;
    while (i < len && isspace((unsigned char)text[i]))
        i++;
    if (i < len && text[i] == '[') {
        cleanup_free char *folder = prefix_from_path(prefix);
        return parse_json(s, folder, text, len, fn, arg, err);
    }
    if (!find_nocase(text, text + len, "<a") && !find_nocase(text, text + len, "<html") &&
        !find_nocase(text, text + len, "<pre"))
        return err_set(
            err, ERR_CORRUPT,
            "list %s%s: the answer is no index page (turn the server's directory listing on, or "
            "write a manifest.tsv)",
            s->uri, prefix);
    if (is_cut(text, text + len))
        return err_set(err, ERR_CORRUPT,
                       "list %s%s: the index page ends in its midst (is the server ending, or a "
                       "proxy before it? try again)",
                       s->uri, prefix);
    return parse_html(s, prefix, text, len, fn, arg, err);
}
