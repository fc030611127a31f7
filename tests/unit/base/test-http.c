/* Requests and answers; http_do() against a server of this test's own on a loopback port. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "clock.h"
#include "http.h"
#include "mem.h"

static void lines(struct http_answer *a, const char *const *text, size_t n)
{
    http_answer_init(a);
    for (size_t i = 0; i < n; i++)
        http_answer_line(a, text[i], strlen(text[i]));
}
#define LINES(a, ...)                              \
    lines((a), (const char *const[]){__VA_ARGS__}, \
          sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

Test(http, answer_fields)
{
    struct http_answer a;
    LINES(&a, "HTTP/1.1 100 Continue\r\n", "ETag: \"old\"\r\n", "\r\n", "HTTP/1.1 206 Partial\r\n",
          "Content-Length: 100\r\n", "content-range: bytes 0-99/1234\r\n", "ETag: W/\"abc-2\"\r\n",
          "Location:  http://x/y \r\n", "x-amz-bucket-region: eu-west-1\r\n", "Retry-After: 7\r\n",
          "Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n", "Content-Type: text/html\r\n",
          "\r\n");
    cr_expect_eq(a.status, 206);
    cr_expect_eq(a.content_length, 100);
    cr_expect_eq(a.range_start, 0);
    cr_expect_eq(a.range_end, 99);
    cr_expect_eq(a.range_total, 1234);
    cr_expect_str_eq(a.etag, "abc-2");
    cr_expect_str_eq(a.location, "http://x/y");
    cr_expect_str_eq(a.region, "eu-west-1");
    cr_expect_str_eq(a.content_type, "text/html");
    cr_expect_eq(a.retry_after_s, 7);
    cr_expect_eq(a.last_modified, 1445412480);
}

Test(http, trailers_say_nothing_of_the_answer)
{
    struct http_answer a;
    LINES(&a, "HTTP/1.1 307 X\r\n", "Location: http://x/\r\n", "\r\n", "HTTP/1.1 200 OK\r\n",
          "ETag: \"abc\"\r\n", "\r\n", "ETag: \"other\"\r\n", "Content-Length: 1\r\n", "\r\n");
    cr_expect_eq(a.status, 200);
    cr_expect_str_eq(a.location, "");
    cr_expect_str_eq(a.etag, "abc");
    cr_expect_eq(a.content_length, -1);
}

Test(http, dates_of_answers)
{
    for (int64_t t = 0; t < 7258118400; t += 12345677) { /* to the year 2200 */
        char date[64], line[96];
        struct tm tm;
        struct http_answer a;
        strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&(time_t){t}, &tm));
        snprintf(line, sizeof line, "Last-Modified: %s\r\n", date);
        LINES(&a, line);
        cr_expect_eq(a.last_modified, t, "%s: %lld", date, (long long)a.last_modified);
    }
    static const struct {
        const char *line;
        int64_t want;
    } odd[] = {
        {"Last-Modified: Thu, 29 Feb 2024 23:59:59 GMT", 1709251199},
        {"Last-Modified: Sunday, 06-Nov-94 08:49:37 GMT", 784111777},
        {"Last-Modified: Sun Nov  6 08:49:37 1994", 784111777},
        {"Last-Modified: Wed, 21 Oct 2015 07:28:00 CET", 1445408880},
        {"Last-Modified: Wed, 21 Okt 2015 07:28:00 GMT", -1},
        {"Last-Modified: yesterday", -1},
        {"Last-Modified: Fri, 11 Apr 2262 00:00:00 GMT", 9223286400},
        {"Last-Modified: Sat, 12 Apr 2262 00:00:00 GMT", -1},
        {"Last-Modified: Wed, 01 Jan 1600 00:00:00 GMT", -1},
    };
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        struct http_answer a;
        LINES(&a, odd[i].line);
        cr_expect_eq(a.last_modified, odd[i].want, "%s: %lld", odd[i].line,
                     (long long)a.last_modified);
    }
}

Test(http, answer_with_odd_fields)
{
    struct http_answer a;
    LINES(&a, "HTTP/2 416\r\n", "Content-Range: bytes */77\r\n", "Content-Length: 12x\r\n",
          "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n", "no colon here\r\n");
    cr_expect_eq(a.status, 416);
    cr_expect_eq(a.range_start, -1);
    cr_expect_eq(a.range_total, 77);
    cr_expect_eq(a.content_length, -1);
    cr_expect_eq(a.retry_after_s, 0);
    LINES(&a, "HTTP/1.1 200 OK", "Content-Range: bytes 9-3/10", "Content-Range: bytes 5-6/*",
          "Content-Length: 99999999999999999999");
    cr_expect_eq(a.range_start, 5);
    cr_expect_eq(a.range_total, -1);
    cr_expect_eq(a.content_length, -1);
    char etag[300] = "ETag: \"";
    memset(etag + 7, 'x', 250);
    etag[257] = '"';
    LINES(&a, "HTTP/1.1 200 OK", etag);
    cr_expect_str_eq(a.etag, "", "a tag too long is left out, not cut");
    static const char zeros[16];
    http_answer_line(&a, zeros, sizeof zeros);
    LINES(&a, "garbage", "HTTP/1.1 abc");
    cr_expect_eq(a.status, 0);
}

static const struct head_row {
    const char *text;
    enum http_head how;
    int status;
    uint64_t body_len;
    bool keep;
} head_rows[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n", HEAD_PLAIN, 200, 12, true},
    {"HTTP/1.1 206 Partial\ncontent-length:5\n\n", HEAD_PLAIN, 206, 5, true},
    {"HTTP/1.1 404 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", HEAD_PLAIN, 404, 0, false},
    {"HTTP/1.1 200 OK\r\nConnection: Keep-Alive \r\nContent-Length: 1\r\n\r\n", HEAD_PLAIN, 200, 1,
     true},
    {"HTTP/1.1 200 OK\r\nConnection: x, keep-alive\r\nContent-Length: 1\r\n\r\n", HEAD_PLAIN, 200,
     1, false},
    {"", HEAD_MORE, 0, 0, false},
    {"HTT", HEAD_MORE, 0, 0, false},
    {"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n", HEAD_MORE, 0, 0, false},
    {"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r", HEAD_MORE, 0, 0, false},
    {"HTTP/1.0 200 OK\r\nContent-Length: 12\r\n\r\n", HEAD_OTHER, 0, 0, false},
    {"HTTP/2 200\r\nContent-Length: 12\r\n\r\n", HEAD_OTHER, 0, 0, false},
    {"not HTTP at all", HEAD_OTHER, 0, 0, false},
    {"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n", HEAD_OTHER, 0, 0, false},
    {"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", HEAD_OTHER, 0, 0, false},
    {"HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n", HEAD_OTHER, 0, 0, false},
    {"HTTP/1.1 200 OK\r\n\r\n", HEAD_OTHER, 0, 0, false},
    {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", HEAD_OTHER, 0, 0, false},
    {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", HEAD_OTHER, 0, 0, false},
    {"HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n", HEAD_OTHER, 0, 0, false},
    {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", HEAD_OTHER, 0, 0, false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", HEAD_OTHER, 0, 0, false},
    {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\ntransfer-encoding:gzip\r\n\r\n", HEAD_OTHER, 0, 0,
     false},
    {"HTTP/1.1 200 OK\r\nContent-Length:\r\n 12\r\n\r\n", HEAD_OTHER, 0, 0, false},
};

Test(http, plain_heads)
{
    for (size_t i = 0; i < sizeof head_rows / sizeof head_rows[0]; i++) {
        const struct head_row *r = &head_rows[i];
        struct http_answer a;
        struct http_framing f;
        cleanup_bytes struct bytes text = {0};
        bytes_add_str(&text, r->text);
        enum http_head how = http_answer_head(text.data ? text.data : "", text.len, &a, &f);
        cr_expect_eq(how, r->how, "%s", r->text);
        if (how != HEAD_PLAIN || r->how != HEAD_PLAIN)
            continue;
        cr_expect_eq(a.status, r->status, "%s", r->text);
        cr_expect_eq(f.body_len, r->body_len, "%s", r->text);
        cr_expect_eq(f.keep, r->keep, "%s", r->text);
        cr_expect_eq(f.head_len, text.len, "%s", r->text);
        bytes_add_str(&text, "body");
        cr_expect_eq(http_answer_head(text.data, text.len, &a, &f), HEAD_PLAIN);
        cr_expect_eq(f.head_len, text.len - 4, "the body is no part of the head");
    }
}

Test(http, a_head_without_end_is_not_plain)
{
    cleanup_bytes struct bytes text = {0};
    struct http_answer a;
    struct http_framing f;
    bytes_add_str(&text, "HTTP/1.1 200 OK\r\nX: ");
    while (text.len < 16384)
        bytes_add_char(&text, 'x');
    cr_expect_eq(http_answer_head(text.data, 16383, &a, &f), HEAD_MORE);
    cr_expect_eq(http_answer_head(text.data, 16384, &a, &f), HEAD_OTHER);
}

static const struct plain_row {
    const char *url;
    const char *origin; /* NULL: for the library */
    const char *starts;
} plain_rows[] = {
    {"http://h:8000/b/k%20y", "h:8000", "GET /b/k%20y HTTP/1.1\r\nHost: h:8000\r\n"},
    {"http://h:80/a?x=1", "h:80", "GET /a?x=1 HTTP/1.1\r\nHost: h\r\n"},
    {"http://h?x=1", "h", "GET /?x=1 HTTP/1.1\r\nHost: h\r\n"},
    {"http://[::1]:80/a", "[::1]:80", "GET /a HTTP/1.1\r\nHost: [::1]\r\n"},
    {"https://h/a", NULL, NULL},
    {"http://u:p@h/a", NULL, NULL},
    {"http:///a", NULL, NULL},
    {"http://h/a b", NULL, NULL},
    {"http://h/a#b", NULL, NULL},
    {"http://h/a\r\nX: y", NULL, NULL},
    {"http://[fe80::1%251]/a", NULL, NULL},
    {"http", NULL, NULL},
};

Test(http, plain_requests)
{
    for (size_t i = 0; i < sizeof plain_rows / sizeof plain_rows[0]; i++) {
        const struct plain_row *r = &plain_rows[i];
        cleanup_http_req struct http_req req;
        cleanup_bytes struct bytes text = {0}, origin = {0};
        http_req_init(&req, HTTP_GET);
        bytes_add_str(&req.url, r->url);
        http_header(&req, "Range", "bytes=0-9");
        bool plain = http_plain_request(&req, &text, &origin);
        cr_expect_eq(plain, r->origin != NULL, "%s", r->url);
        if (!plain || !r->origin)
            continue;
        cr_expect_str_eq(origin.data, r->origin);
        cr_expect_eq(strncmp(text.data, r->starts, strlen(r->starts)), 0, "%s", text.data);
        cr_expect(strstr(text.data, "\r\nRange: bytes=0-9\r\n\r\n"), "%s", text.data);
        req.method = HTTP_HEAD;
        bytes_clear(&text);
        cr_expect(http_plain_request(&req, &text, &origin));
        cr_expect_eq(strncmp(text.data, "HEAD ", 5), 0, "%s", text.data);
        req.method = HTTP_PUT;
        req.body_len = 17;
        bytes_clear(&text);
        cr_expect(http_plain_request(&req, &text, &origin));
        cr_expect_eq(strncmp(text.data, "PUT ", 4), 0, "%s", text.data);
        cr_expect(strstr(text.data, "\r\nContent-Length: 17\r\n"), "%s", text.data);
        req.method = HTTP_POST;
        cr_expect_not(http_plain_request(&req, &text, &origin));
    }
}

Test(http, headers)
{
    struct http_req r;
    http_req_init(&r, HTTP_PUT);
    http_header(&r, "X-One", "%d", 1);
    http_header(&r, "x-one", "two\r\nX-Evil: %s", "yes");
    http_header(&r, "X-Empty", "%s", "");
    cr_expect_eq(r.n_headers, 2);
    cr_expect_str_eq(http_header_get(&r, "X-ONE"), "two  X-Evil: yes");
    cr_expect_str_eq(http_header_get(&r, "x-empty"), "");
    cr_expect_null(http_header_get(&r, "x-on"));
    http_req_release(&r);
    cr_expect_eq(r.n_headers, 0);
}

Test(http, url_encoding)
{
    struct bytes b = {0};
    url_encode(&b, "a b/c+\xc3\xa9~-._%", 13, true);
    cr_expect_str_eq(b.data, "a%20b/c%2B%C3%A9~-._%25");
    bytes_clear(&b);
    url_encode(&b, "a/b", 3, false);
    cr_expect_str_eq(b.data, "a%2Fb");
    bytes_release(&b);
    static const struct {
        const char *in, *out;
    } rows[] = {{"a%20b", "a b"}, {"%2f+", "/+"}, {"%", "%"},
                {"%2", "%2"},     {"%zz", "%zz"}, {"a%00", "a"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char out[32] = "";
        size_t n = url_decode(out, rows[i].in, strlen(rows[i].in));
        cr_expect_eq(strncmp(out, rows[i].out, strlen(rows[i].out)), 0, "%s", rows[i].in);
        cr_expect_leq(n, strlen(rows[i].in));
    }
}

Test(http, transport_failures_say_what_to_do)
{
    static const struct {
        CURLcode code;
        enum err_class class;
        const char *word;
    } rows[] = {
        {CURLE_COULDNT_RESOLVE_HOST, ERR_TRANSIENT, "--endpoint"},
        {CURLE_PEER_FAILED_VERIFICATION, ERR_FAILED, "--ca-file"},
        {CURLE_COULDNT_CONNECT, ERR_TRANSIENT, "could not connect"},
        {CURLE_OPERATION_TIMEDOUT, ERR_TRANSIENT, "in time"},
        {CURLE_COULDNT_RESOLVE_PROXY, ERR_TRANSIENT, "HTTPS_PROXY"},
        {CURLE_GOT_NOTHING, ERR_TRANSIENT, "transfer failed"},
        {CURLE_URL_MALFORMAT, ERR_USAGE, "not a usable address"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err e = {0};
        cr_expect_eq(
            http_transport_error(rows[i].code, "detail", "https://me:pw@h:1/k?sig=abc", &e), -1);
        cr_expect_eq(e.class, rows[i].class, "%s", e.msg);
        cr_expect_not_null(strstr(e.msg, rows[i].word), "%s", e.msg);
        cr_expect_not_null(strstr(e.msg, "https://h:1"), "%s", e.msg);
        cr_expect_null(strstr(e.msg, "abc"), "no query in an error");
        cr_expect_null(strstr(e.msg, "pw"), "no password in an error");
    }
}

Test(http, a_proxy_that_refuses_a_tunnel_is_named)
{
    static const struct {
        const char *detail;
        enum err_class class;
        const char *word;
    } rows[] = {
        {"CONNECT tunnel failed, response 407", ERR_DENIED, "password"},
        {"CONNECT tunnel failed, response 403", ERR_DENIED, "NO_PROXY"},
        {"CONNECT tunnel failed, response 503", ERR_TRANSIENT, "NO_PROXY"},
        {"something else failed, response 407", ERR_TRANSIENT, "transfer failed"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err e = {0};
        http_transport_error(CURLE_RECV_ERROR, rows[i].detail, "https://h:1/k", &e);
        cr_expect_eq(e.class, rows[i].class, "%s", e.msg);
        cr_expect_not_null(strstr(e.msg, rows[i].word), "%s", e.msg);
    }
}

/* Told again it is the same text. */
Test(http, how_long_it_waited_is_told_in_seconds)
{
    static const struct {
        const char *detail, *want;
    } rows[] = {
        {"Failed to connect to h port 1 after 3 ms: Couldn't connect",
         "Failed to connect to h port 1: Couldn't connect ("},
        {"Operation timed out after 10003 milliseconds with 0 bytes received",
         "Operation timed out after 10 s with 0 bytes received ("},
        {"Operation timed out after 1999 milliseconds", "Operation timed out after 2 s ("},
        {"gave up after 3 tries", "gave up after 3 tries ("},
        {"after all", "after all ("},
        {"the day after ", "the day after  ("},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err e = {0};
        http_transport_error(CURLE_COULDNT_CONNECT, rows[i].detail, "http://h:1/", &e);
        cr_assert(strstr(e.msg, rows[i].want), "%s", e.msg);
    }
}

/* --- a server of one answer ------------------------------------------------------------------- */

struct server {
    int fd;
    char url[64];
    const char *answer;
    char request[8192];
    pthread_t thread;
};

static bool request_is_whole(const char *text)
{
    const char *end = strstr(text, "\r\n\r\n");
    const char *length = strcasestr(text, "content-length:");
    return end && (!length || strlen(end + 4) >= strtoul(length + 15, NULL, 10));
}

static void *serve(void *arg)
{
    struct server *s = arg;
    int fd = accept(s->fd, NULL, NULL);
    size_t len = 0;
    while (!request_is_whole(s->request)) {
        ssize_t n = recv(fd, s->request + len, sizeof s->request - 1 - len, 0);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    send(fd, s->answer, strlen(s->answer), MSG_NOSIGNAL);
    close(fd);
    return NULL;
}

static void server_start(struct server *s, const char *answer)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    *s = (struct server){.answer = answer};
    s->fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(bind(s->fd, (struct sockaddr *)&a, len) == 0 && listen(s->fd, 1) == 0);
    getsockname(s->fd, (struct sockaddr *)&a, &len);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d/a/../b?x=1", ntohs(a.sin_port));
    pthread_create(&s->thread, NULL, serve, s);
}

static void server_end(struct server *s)
{
    pthread_join(s->thread, NULL);
    close(s->fd);
}

static int ask(struct server *s, enum http_method method, const char *body, size_t max,
               struct http_answer *a, struct bytes *out, struct err *e)
{
    static const struct http_peer peer = {.proxy = ""};
    struct http_req r;
    http_req_init(&r, method);
    bytes_add_str(&r.url, s->url);
    r.body = body;
    r.body_len = body ? strlen(body) : 0;
    http_header(&r, "X-Test", "%s", "yes");
    http_header(&r, "X-Empty", "%s", "");
    int result = http_do(&r, &peer, 10 * NS_PER_S, max, a, out, e);
    http_req_release(&r);
    return result;
}

Test(http, methods_on_the_wire)
{
    static const struct {
        enum http_method method;
        const char *body, *first;
    } rows[] = {
        {HTTP_GET, NULL, "GET /a/../b?x=1 HTTP/1.1\r\n"},
        {HTTP_PUT, "hello", "PUT /a/../b?x=1 HTTP/1.1\r\n"},
        {HTTP_PUT, NULL, "PUT /a/../b?x=1 HTTP/1.1\r\n"},
        {HTTP_POST, "hi", "POST /a/../b?x=1 HTTP/1.1\r\n"},
        {HTTP_DELETE, NULL, "DELETE /a/../b?x=1 HTTP/1.1\r\n"},
        {HTTP_DELETE, "{}", "DELETE /a/../b?x=1 HTTP/1.1\r\n"},
        {HTTP_PATCH, "{}", "PATCH /a/../b?x=1 HTTP/1.1\r\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct server s;
        struct http_answer a;
        struct err e = {0};
        cleanup_bytes struct bytes body = {0};
        server_start(&s, "HTTP/1.1 404 Not\r\nContent-Length: 4\r\nETag: \"t\"\r\n\r\nnope");
        cr_assert_eq(ask(&s, rows[i].method, rows[i].body, 100, &a, &body, &e), 0, "%s", e.msg);
        server_end(&s);
        cr_expect_eq(a.status, 404, "any status is a success here");
        cr_expect_str_eq(a.etag, "t");
        cr_expect_str_eq(body.data, "nope");
        cr_expect_eq(strncmp(s.request, rows[i].first, strlen(rows[i].first)), 0, "%s", s.request);
        cr_expect_not_null(strstr(s.request, "X-Test: yes\r\n"));
        cr_expect_not_null(strstr(s.request, "X-Empty:\r\n"), "%s", s.request);
        cr_expect_null(strcasestr(s.request, "expect:"));
        cr_expect_null(strcasestr(s.request, "content-type:"));
        cr_expect_null(strcasestr(s.request, "accept-encoding:"));
        if (rows[i].body)
            cr_expect_not_null(strstr(s.request, rows[i].body));
        else if (rows[i].method == HTTP_PUT)
            cr_expect_not_null(strcasestr(s.request, "content-length: 0\r\n"), "%s", s.request);
    }
}

Test(http, head_has_no_body)
{
    struct server s;
    struct http_answer a;
    struct err e = {0};
    cleanup_bytes struct bytes body = {0};
    server_start(&s, "HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n");
    cr_assert_eq(ask(&s, HTTP_HEAD, NULL, 100, &a, &body, &e), 0, "%s", e.msg);
    server_end(&s);
    cr_expect_eq(a.content_length, 12345);
    cr_expect_eq(body.len, 0);
}

Test(http, failures)
{
    struct server s;
    struct http_answer a;
    struct err e = {0};
    cleanup_bytes struct bytes body = {0};
    server_start(&s, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789");
    cr_expect_eq(ask(&s, HTTP_GET, NULL, 9, &a, &body, &e), -1);
    cr_expect_eq(e.class, ERR_LIMIT);
    cr_expect_str_eq(e.msg, "answer longer than 9 bytes");
    server_end(&s);
    server_start(&s, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123");
    cr_expect_eq(ask(&s, HTTP_GET, NULL, 100, &a, &body, &e), -1, "a truncated body");
    cr_expect_eq(e.class, ERR_TRANSIENT);
    server_end(&s);
    cr_expect_eq(ask(&s, HTTP_GET, NULL, 100, &a, &body, &e), -1, "nobody listens any more");
    cr_expect_not_null(strstr(e.msg, "could not connect: http://127.0.0.1:"), "%s", e.msg);
    snprintf(s.url, sizeof s.url, "file:///etc/passwd");
    cr_expect_eq(ask(&s, HTTP_GET, NULL, 100, &a, &body, &e), -1, "http and https alone");
    cr_expect_eq(e.class, ERR_USAGE);
}

Test(http, redirects_are_followed_only_when_asked)
{
    struct server s;
    struct http_answer a;
    cleanup_bytes struct bytes body = {0};
    server_start(&s,
                 "HTTP/1.1 307 There\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n");
    cr_expect_eq(ask(&s, HTTP_GET, NULL, 100, &a, &body, NULL), 0);
    server_end(&s);
    cr_expect_eq(a.status, 307);
    cr_expect_str_eq(a.location, "file:///etc/passwd");
}
