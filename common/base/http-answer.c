/* Header lines of an answer, and the encoding of URLs: pure functions on bytes. */
#include <string.h>
#include <strings.h>

#include "clock.h"
#include "hash.h"
#include "http.h"

void http_answer_init(struct http_answer *a)
{
    *a = (struct http_answer){.content_length = -1,
                              .range_start = -1,
                              .range_end = -1,
                              .range_total = -1,
                              .last_modified = -1};
}

/* Decimal digits from *p on; -1 if there are none or too many. Moves *p past them. */
static int64_t take_number(const char **p)
{
    int64_t n = 0;
    const char *start = *p;
    for (; **p >= '0' && **p <= '9'; (*p)++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, **p - '0', &n))
            return -1;
    return *p == start ? -1 : n;
}

static int64_t whole_number(const char *text)
{
    int64_t n = take_number(&text);
    return *text ? -1 : n;
}

/* A value too long for its field is left out: half a location or tag would name another thing. */
static void copy(char *out, size_t size, const char *value)
{
    size_t len = strlen(value);
    if (len < size)
        memcpy(out, value, len + 1);
    else
        out[0] = '\0';
}

static void take_etag(struct http_answer *a, const char *value)
{
    if (strncmp(value, "W/", 2) == 0)
        value += 2;
    size_t len = strlen(value);
    if (len >= 2 && value[0] == '"' && value[len - 1] == '"') {
        value++;
        len -= 2;
    }
    a->etag[0] = '\0';
    if (len < sizeof a->etag) {
        memcpy(a->etag, value, len);
        a->etag[len] = '\0';
    }
}

/* "bytes 0-99/1234", and either part may be a star. */
static void take_range(struct http_answer *a, const char *value)
{
    if (strncasecmp(value, "bytes ", 6) != 0)
        return;
    value += 6;
    int64_t start = -1, end = -1;
    if (*value == '*') {
        value++;
    } else {
        start = take_number(&value);
        if (start < 0 || *value++ != '-')
            return;
        end = take_number(&value);
        if (end < start)
            return;
    }
    if (*value++ != '/')
        return;
    a->range_total = strcmp(value, "*") == 0 ? -1 : whole_number(value);
    a->range_start = start;
    a->range_end = end;
}

/* The metadata of an object that describe it as a file. */
static void take_meta(struct http_answer *a, const char *name, const char *value)
{
    if (strcasecmp(name, "mode") == 0)
        copy(a->meta_mode, sizeof a->meta_mode, value);
    else if (strcasecmp(name, "uid") == 0)
        copy(a->meta_uid, sizeof a->meta_uid, value);
    else if (strcasecmp(name, "gid") == 0)
        copy(a->meta_gid, sizeof a->meta_gid, value);
    else if (strcasecmp(name, "mtime") == 0)
        copy(a->meta_mtime, sizeof a->meta_mtime, value);
    else if (strcasecmp(name, "sampan-upload") == 0)
        copy(a->meta_upload, sizeof a->meta_upload, value);
}

/* Those that cost next to nothing to compare: an object may have others besides. */
static void take_sum(struct http_answer *a, const char *kind, const char *value)
{
    if (strcasecmp(kind, "type") == 0) {
        a->sum_of_parts = strcasecmp(value, "FULL_OBJECT") != 0;
    } else if (strcasecmp(kind, "crc32") == 0 || strcasecmp(kind, "crc32c") == 0 ||
               strcasecmp(kind, "crc64nvme") == 0) {
        copy(a->sum_kind, sizeof a->sum_kind, kind);
        copy(a->sum, sizeof a->sum, strchr(value, '-') ? "" : value); /* "SUM-2": of two parts */
    }
}

/* N digits; -1 if one is none. */
static int digits(const char *text, int n)
{
    int value = 0;
    for (int i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = value * 10 + text[i] - '0';
    }
    return value;
}

/* "Wed, 21 Oct 2015 07:28:00 GMT", which nearly all servers write and each answer holds: read at a
 * glance. Anything else, and what is no date, is for the library. */
static int64_t take_date(const char *text)
{
    static const char form[] = "..., .. ... .... ..:..:.. GMT";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    bool usual = strlen(text) == sizeof form - 1;
    for (size_t i = 0; usual && i < sizeof form - 1; i++)
        usual = form[i] == '.' || form[i] == text[i];
    int month = 0;
    while (usual && month < 12 && memcmp(months + 3 * month, text + 8, 3) != 0)
        month++;
    if (!usual || month == 12)
        return curl_getdate(text, NULL);
    int day = digits(text + 5, 2), year = digits(text + 12, 4), hour = digits(text + 17, 2);
    int minute = digits(text + 20, 2), second = digits(text + 23, 2);
    if (day < 1 || day > 31 || year < 1970 || hour < 0 || minute < 0 || second < 0)
        return curl_getdate(text, NULL);
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    int64_t past = year - 1; /* whole years, and the leap days in them since 1970 */
    int64_t days = (year - 1970) * 365ll + (past / 4 - past / 100 + past / 400 - 477) +
                   before[month] + (leap && month > 1) + day - 1;
    return ((days * 24 + hour) * 60 + minute) * 60 + second;
}

static void take_field(struct http_answer *a, const char *name, const char *value)
{
    if (strcasecmp(name, "content-length") == 0) {
        a->content_length = whole_number(value);
    } else if (strcasecmp(name, "content-range") == 0) {
        take_range(a, value);
    } else if (strcasecmp(name, "etag") == 0) {
        take_etag(a, value);
    } else if (strcasecmp(name, "location") == 0) {
        copy(a->location, sizeof a->location, value);
    } else if (strcasecmp(name, "x-amz-bucket-region") == 0) {
        copy(a->region, sizeof a->region, value);
    } else if (strcasecmp(name, "date") == 0) {
        copy(a->date, sizeof a->date, value);
    } else if (strcasecmp(name, "content-type") == 0) {
        copy(a->content_type, sizeof a->content_type, value);
    } else if (strcasecmp(name, "server") == 0) {
        copy(a->server, sizeof a->server, value);
    } else if (strcasecmp(name, "last-modified") == 0) {
        int64_t s = take_date(value);
        a->last_modified = s >= 0 && s <= CLOCK_MAX_S ? s : -1;
    } else if (strcasecmp(name, "retry-after") == 0) {
        int64_t s = whole_number(value);
        a->retry_after_s = s < 0 ? 0 : s > 86400 ? 86400 : (unsigned)s;
    } else if (strncasecmp(name, "x-amz-meta-", 11) == 0 ||
               strncasecmp(name, "x-bce-meta-", 11) == 0) {
        take_meta(a, name + 11, value);
    } else if (strncasecmp(name, "x-amz-checksum-", 15) == 0) {
        take_sum(a, name + 15, value);
    }
}

/* "HTTP/1.1 200 OK", "HTTP/2 200". */
static int status_of(const char *line)
{
    const char *blank = strchr(line, ' ');
    if (!blank)
        return 0;
    blank++;
    int64_t n = take_number(&blank);
    return n >= 100 && n <= 999 ? (int)n : 0;
}

void http_answer_line(struct http_answer *a, const char *line, size_t len)
{
    while (len && (line[len - 1] == '\r' || line[len - 1] == '\n' || line[len - 1] == ' '))
        len--;
    char text[2048];
    if (len == 0)
        a->headed = true;
    if (len == 0 || len >= sizeof text || memchr(line, '\0', len))
        return; /* no field that matters is that long */
    memcpy(text, line, len);
    text[len] = '\0';
    if (strncmp(text, "HTTP/", 5) == 0) {
        http_answer_init(a); /* a new answer: what came before was an interim one or a redirect */
        a->status = status_of(text);
        return;
    }
    char *colon = strchr(text, ':');
    if (!colon || a->headed)
        return;
    *colon = '\0';
    const char *value = colon + 1;
    value += strspn(value, " \t");
    take_field(a, text, value);
}

/* --- heads over a plain connection -------------------------------------------------------------
 */

#define HEAD_MAX (16u << 10)

/* Past the next line's end, or NULL. */
static const char *line_end(const char *p, const char *end)
{
    const char *nl = memchr(p, '\n', (size_t)(end - p));
    return nl ? nl + 1 : NULL;
}

static bool line_is(const char *line, const char *end, const char *name)
{
    size_t len = strlen(name);
    return (size_t)(end - line) > len && strncasecmp(line, name, len) == 0 && line[len] == ':';
}

/* Any other word means "close", or something that we do not know. */
static bool is_keep_alive(const char *value, const char *end)
{
    static const char word[] = "keep-alive";
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
        end--;
    return (size_t)(end - value) == strlen(word) && strncasecmp(value, word, strlen(word)) == 0;
}

/* One line behind the status line. False: not for us. */
static bool head_line(const char *line, const char *end, struct http_answer *a,
                      struct http_framing *f)
{
    if (*line == ' ' || *line == '\t' || memchr(line, '\0', (size_t)(end - line)))
        return false; /* a folded line; or a lie */
    if (line_is(line, end, "transfer-encoding"))
        return false;
    if (line_is(line, end, "connection")) {
        f->keep = f->keep && is_keep_alive(line + strlen("connection:"), end);
        return true;
    }
    bool length = line_is(line, end, "content-length");
    if (length && a->content_length >= 0)
        return false; /* two of them */
    http_answer_line(a, line, (size_t)(end - line));
    return !length || a->content_length >= 0;
}

enum http_head http_answer_head(const char *data, size_t len, struct http_answer *ret,
                                struct http_framing *framing)
{
    static const char version[] = "HTTP/1.1 ";
    const char *end = data + len, *line = data, *next;
    size_t shown = len < sizeof version - 1 ? len : sizeof version - 1;
    if (memcmp(data, version, shown) != 0)
        return HEAD_OTHER;
    http_answer_init(ret);
    *framing = (struct http_framing){.keep = true};
    while ((next = line_end(line, end))) {
        bool empty = next - line == 1 || (next - line == 2 && *line == '\r');
        if (empty && line > data)
            break;
        if (line == data)
            http_answer_line(ret, line, (size_t)(next - line));
        else if (!head_line(line, next, ret, framing))
            return HEAD_OTHER;
        line = next;
    }
    if (!next)
        return len < HEAD_MAX ? HEAD_MORE : HEAD_OTHER;
    if (ret->status < 200 || ret->status == 204 || ret->status == 304 || ret->content_length < 0)
        return HEAD_OTHER;
    framing->head_len = (size_t)(next - data);
    framing->body_len = (uint64_t)ret->content_length;
    return HEAD_PLAIN;
}

static bool all_visible(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] >= 0x7f || text[i] == '#')
            return false;
    return true;
}

bool http_plain_request(const struct http_req *r, struct bytes *text, struct bytes *origin)
{
    static const char scheme[] = "http://";
    const char *host = r->url.data + sizeof scheme - 1;
    const char *method = r->method == HTTP_GET    ? "GET"
                         : r->method == HTTP_HEAD ? "HEAD"
                         : r->method == HTTP_PUT  ? "PUT"
                                                  : NULL;
    if (!method || r->url.len < sizeof scheme ||
        memcmp(r->url.data, scheme, sizeof scheme - 1) != 0 ||
        !all_visible(r->url.data, r->url.len))
        return false;
    size_t host_len = strcspn(host, "/?");
    const char *path = host + host_len;
    if (!host_len || memchr(host, '@', host_len) || memchr(host, '%', host_len) ||
        http_header_get(r, "Host"))
        return false;
    bytes_add(origin, host, host_len);
    if (host_len > 3 && memcmp(host + host_len - 3, ":80", 3) == 0)
        host_len -= 3; /* as the library writes it, and signatures have it */
    bytes_addf(text, "%s %s%s HTTP/1.1\r\nHost: %.*s\r\nUser-Agent: %s\r\nAccept: */*\r\n", method,
               *path == '/' ? "" : "/", path, (int)host_len, host, HTTP_AGENT);
    if (r->method == HTTP_PUT)
        bytes_addf(text, "Content-Length: %zu\r\n", r->body_len);
    for (size_t i = 0; i < r->n_headers; i++) {
        bytes_add(text, r->headers[i].data, r->headers[i].len);
        bytes_add_str(text, "\r\n");
    }
    bytes_add_str(text, "\r\n");
    return true;
}

/* --- URL encoding ----------------------------------------------------------------------------- */

static bool unreserved(unsigned char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void url_encode(struct bytes *out, const char *text, size_t len, bool keep_slash)
{
    static const char digits[] = "0123456789ABCDEF";
    bytes_reserve(out, len);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (unreserved(c) || (c == '/' && keep_slash)) {
            bytes_add_char(out, (char)c);
        } else {
            char hex[3] = {'%', digits[c >> 4], digits[c & 15]};
            bytes_add(out, hex, sizeof hex);
        }
    }
}

size_t url_decode(char *out, const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        int hi = -1, lo = -1;
        if (text[i] == '%' && i + 2 < len && (hi = hex_digit(text[i + 1])) >= 0)
            lo = hex_digit(text[i + 2]);
        if (lo >= 0) {
            out[n++] = (char)(hi << 4 | lo);
            i += 2;
        } else {
            out[n++] = text[i];
        }
    }
    return n;
}
