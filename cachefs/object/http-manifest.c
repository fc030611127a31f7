/* manifest.tsv: what a web server holds, one line an object. The format stands in http-internal.h.
 */
#include <string.h>

#include "clock.h"
#include "http-internal.h"
#include "mem.h"

struct cell {
    const char *text;
    size_t len;
};

static bool take_size(struct cell c, uint64_t *ret)
{
    uint64_t n = 0;
    if (c.len == 0 || c.len > 18)
        return false;
    for (size_t i = 0; i < c.len; i++) {
        if (c.text[i] < '0' || c.text[i] > '9')
            return false;
        n = n * 10 + (uint64_t)(c.text[i] - '0');
    }
    *ret = n;
    return true;
}

/* "1700000000", "1700000000.25" or ISO 8601. */
static bool take_mtime(struct cell c, int64_t *ret)
{
    char text[40];
    if (c.len == 0) {
        *ret = LIST_MTIME_UNKNOWN;
        return true;
    }
    if (c.len >= sizeof text)
        return false;
    memcpy(text, c.text, c.len);
    text[c.len] = '\0';
    *ret = parse_iso8601_ns(text);
    if (*ret != LIST_MTIME_UNKNOWN)
        return true;
    const char *dot = memchr(c.text, '.', c.len);
    uint64_t seconds;
    if (!take_size((struct cell){c.text, dot ? (size_t)(dot - c.text) : c.len}, &seconds) ||
        seconds > 9000000000ull)
        return false;
    int64_t ns = 0, unit = 100000000;
    for (const char *p = dot ? dot + 1 : c.text + c.len; p < c.text + c.len; p++, unit /= 10) {
        if (*p < '0' || *p > '9')
            return false;
        ns += (*p - '0') * unit;
    }
    *ret = (int64_t)seconds * (int64_t)NS_PER_S + ns;
    return true;
}

static bool is_hex(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!strchr("0123456789abcdefABCDEF", text[i]) || !text[i])
            return false;
    return true;
}

/* To "sum:KIND:HEX", or "" for none. */
static bool take_checksum(struct cell c, char out[160])
{
    static const struct {
        const char *name;
        size_t len;
    } kinds[] = {{"sha256", 64}, {"md5", 32}, {"crc32c", 8}};
    out[0] = '\0';
    if (c.len == 0 || (c.len == 1 && c.text[0] == '-'))
        return true;
    const char *colon = memchr(c.text, ':', c.len);
    const char *hex = colon ? colon + 1 : c.text;
    size_t hex_len = c.len - (size_t)(hex - c.text);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t name_len = strlen(kinds[i].name);
        if (colon && (name_len != (size_t)(colon - c.text) ||
                      strncasecmp(c.text, kinds[i].name, name_len) != 0))
            continue;
        if (hex_len != kinds[i].len || !is_hex(hex, hex_len))
            continue;
        snprintf(out, 160, "sum:%s:%.*s", kinds[i].name, (int)hex_len, hex);
        return true;
    }
    return false;
}

static size_t split(const char *line, size_t len, struct cell cells[5])
{
    size_t n = 0;
    for (const char *p = line, *end = line + len; n < 5; n++) {
        const char *tab = memchr(p, '\t', (size_t)(end - p));
        cells[n] = (struct cell){p, (size_t)((tab ? tab : end) - p)};
        if (!tab)
            return n + 1;
        p = tab + 1;
    }
    return n;
}

struct manifest {
    struct store *s;
    const char *prefix;
    size_t line;
};

static int bad_line(const struct manifest *m, const char *why, struct err *err)
{
    return err_set(err, ERR_CORRUPT,
                   "bad manifest: %s: line %zu: %s (want PATH TAB SIZE TAB MTIME TAB CHECKSUM)",
                   m->s->uri, m->line, why);
}

static int take_line(struct manifest *m, const char *line, size_t len, list_fn *fn, void *arg,
                     struct err *err)
{
    struct cell cells[5] = {0};
    char etag[160];
    struct list_item item = {.etag = etag};
    size_t n = split(line, len, cells);
    if (n < 2 || n > 4)
        return bad_line(m, n < 2 ? "no TAB" : "too many columns", err);
    if (m->line == 1 && cells[1].len == 4 && memcmp(cells[1].text, "size", 4) == 0)
        return 0; /* names of columns */
    if (cells[0].len == 0)
        return bad_line(m, "an empty path", err);
    if (memchr(cells[0].text, '\0', cells[0].len))
        return bad_line(m, "a NUL in the path", err);
    if (!take_size(cells[1], &item.size))
        return bad_line(m, "the size is no number", err);
    if (!take_mtime(cells[2].text ? cells[2] : (struct cell){"", 0}, &item.mtime_ns))
        return bad_line(m, "the mtime is neither Unix seconds nor ISO 8601", err);
    if (!take_checksum(cells[3].text ? cells[3] : (struct cell){"", 0}, etag))
        return bad_line(m, "the checksum is neither sha256, md5 nor crc32c", err);
    struct cell path = cells[0];
    if (path.len > 2 && memcmp(path.text, "./", 2) == 0)
        path = (struct cell){path.text + 2, path.len - 2};
    size_t prefix_len = strlen(m->prefix);
    if (path.len < prefix_len || memcmp(path.text, m->prefix, prefix_len) != 0)
        return 0;
    item.key = path.text;
    item.key_len = path.len;
    item.folder = path.text[path.len - 1] == '/' && item.size == 0;
    return fn(arg, &item, err);
}

int http_parse_manifest(struct store *s, const char *prefix, const void *body, size_t len,
                        list_fn *fn, void *arg, struct err *err)
{
    struct manifest m = {.s = s, .prefix = prefix};
    const char *at = body ? body : "", *end = at + len;
    if (len >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
        at += 3; /* some editors begin a file with a mark that it is UTF-8 */
    while (at < end) {
        const char *nl = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((nl ? nl : end) - at);
        m.line++;
        size_t bare = n && at[n - 1] == '\r' ? n - 1 : n;
        if (bare && at[0] != '#' && take_line(&m, at, bare, fn, arg, err))
            return -1;
        at = nl ? nl + 1 : end;
    }
    return 0;
}
