/* Web servers: index pages of many kinds, and manifests. */
#include "object-testing.h"

static const struct {
    const char *uri, *prefix, *page, *items, *error;
} pages[] = {
    {"http://h/set", "", /* nginx */
     "<html>\r\n<head><title>Index of /set/</title></head>\r\n<body><h1>Index of "
     "/set/</h1><hr><pre>"
     "<a href=\"../\">../</a>\r\n"
     "<a href=\"cats/\">cats/</a>             21-Nov-2026 13:24                   -\r\n"
     "<a href=\"a%20b%26c.jpg\">a b&amp;c.jpg</a>         21-Nov-2026 13:24              115000\r\n"
     "<a href=\"big.bin\">big.bin</a>         21-Nov-2026 13:24              5G\r\n"
     "</pre><hr></body></html>",
     "cats/ folder 1795267440000000000 \na b&c.jpg 115000 1795267440000000000 \nbig.bin ? "
     "1795267440000000000 \n",
     NULL},
    {"http://h/set", "x/", /* Apache's table */
     "<table><tr><th><a href=\"?C=N;O=D\">Name</a></th></tr>"
     "<tr><td><img src=\"/icons/back.gif\"></td><td><a href=\"/set/\">Parent "
     "Directory</a></td></tr>\n"
     "<tr><td valign=\"top\"><img src=\"/i.gif\" alt=\"[   ]\"></td><td><a "
     "href=\"a.bin\">a.bin</a></td>"
     "<td align=\"right\">2026-11-21 13:24  </td><td "
     "align=\"right\">1.2K</td><td>&nbsp;</td></tr>\n"
     "<tr><td><a href=\"b.bin\"><img></a></td><td><a href=\"b.bin\">b.bin</a></td>"
     "<td align=\"right\">2026-11-21 13:24  </td><td align=\"right\"> 12 </td></tr></table>",
     "x/a.bin ? 1795267440000000000 \nx/b.bin ? ? \n", NULL},
    {"http://h", "", /* python, and links that lead elsewhere */
     "<ul><li><a href=\"a.txt\">a.txt</a></li><li><A HREF='d/'>d/</A></li>"
     "<li><a href=\"/e%2Bf\">e</a></li><li><a href=\"http://h/g\">g</a></li><li><a "
     "href=\"./i\">i</a></li>"
     "<li><a href=\"http://other/x\">x</a></li><li><a href=\"//h/x\">x</a></li><li><a "
     "href=\"mailto:a@b\">x</a>"
     "</li><li><a href=\"deep/er\">x</a></li><li><a href=\"..\">x</a></li><li><a "
     "href=\"#top\">x</a></li>"
     "<li><a href=\"%2Fx\">x</a></li><li><a href=\"a%00b\">x</a></li><li><a name=x>x</a></li>"
     "<li><a href=n%FFo>n</a></li></ul>",
     "a.txt ? ? \nd/ folder ? \ne+f ? ? \ng ? ? \ni ? ? \nx ? ? \nn\xffo ? ? \n", NULL},
    {"http://h/set", "", "<html><body>empty folder</body></html>", "", NULL},
    {"http://h/set", "d/", /* nginx: autoindex_format json */
     " [{ \"name\":\"sub\", \"type\":\"directory\", \"mtime\":\"Sat, 21 Nov 2026 13:24:12 GMT\" "
     "},\n"
     "{ \"name\":\"a.jpg\", \"type\":\"file\", \"mtime\":\"Sat, 21 Nov 2026 13:24:12 GMT\", "
     "\"size\":115000 }]",
     "d/sub/ folder 1795267452000000000 \nd/a.jpg 115000 1795267452000000000 \n", NULL},
    {"http://h/set", "", /* Caddy */
     "[{\"name\":\"s/\",\"size\":4096,\"url\":\"./s/"
     "\",\"mod_time\":\"2026-11-21T13:24:12Z\",\"is_dir\":true},"
     "{\"name\":\"a\",\"size\":3,\"mod_time\":\"2026-11-21T13:24:12.25Z\",\"is_dir\":false}]",
     "s/ folder 1795267452000000000 \na 3 1795267452250000000 \n", NULL},
    {"http://h/set", "d/", /* neither the folder itself nor the one above */
     "[{\"name\":\"..\",\"type\":\"directory\"},{\"name\":\"./\",\"is_dir\":true},"
     "{\"name\":\"..a\",\"size\":3}]",
     "d/..a 3 ? \n", NULL},
    {"http://h/set", "", "[{\"name\":\"a\",", "", "not JSON"},
    {"http://h/set", "", "[{\"name\":1}]", "", "want a string"},
    {"http://h/set", "", "hello", "", "no index page"},
    {"http://h/set", "", "", "", "no index page"},
    {"http://h/set", "", "<a href=\"x", "", NULL},
    {"http://h/set", "", /* the server ended in the midst of a page without a length */
     "<html><body><ul><li>up</li></ul><PRE class=list><a href=\"a\">a</a> <a href=\"b\">b</a", "",
     "ends in its midst"},
    {"http://h/set", "", "<table><tr><td><a href=\"a\">a</a></td>", "", "ends in its midst"},
    {"http://h/set", "", "<html><ul><li><a href=a>a</a><li><a href=b>b</a></ul>",
     "a ? ? \nb ? ? \n", NULL}, /* no end that may be left out is asked for */
    {"http://h/set", "", "<a href=\"x\">", "x ? ? \n", NULL},
    {"http://h/set", "", /* what node's servers make of it */
     "<a href=\"&#47;set/a b&#x2f;\">a b&#47;</a> <a href='c&apos;&amp;&#xfc;&#128512;.jpg'>c</a>"
     "<a href=\"d&e&nosuch;&\">d</a>",
     "a b/ folder ? \nc'&\xc3\xbc\xf0\x9f\x98\x80.jpg ? ? \nd&e&nosuch;& ? ? \n", NULL},

    {"http://h/m.tsv", "",
     "path\tsize\tmtime\tchecksum\n# a comment\n\na/b.jpg\t115000\t1700000000.25\tsha256:"
     "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\r\n"
     "./c d\t0\t2026-11-21T13:24:12Z\t5d41402abc4b2a76b9719d911017c592\nlast\t1",
     "a/b.jpg 115000 1700000000250000000 "
     "sum:sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"
     "c d 0 1795267452000000000 sum:md5:5d41402abc4b2a76b9719d911017c592\nlast 1 ? \n",
     NULL},
    {"http://h/m.tsv", "b/", "a/x\t1\nb/x\t2\n", "b/x 2 ? \n", NULL},
    {"http://h/m.tsv", "", "a\t1\t\t-\nb\t2\t\tcrc32c:9a71bb4c\n",
     "a 1 ? \nb 2 ? sum:crc32c:9a71bb4c\n", NULL},
    {"http://h/m.tsv", "", /* a mark of UTF-8, and times of other zones */
     "\xef\xbb\xbf"
     "a\t1\t2026-11-21T15:24:12+02:00\r\nb\t1\t2026-11-21T07:54:12.5-0530\r\n"
     "c\t1\t2026-11-21T14:24:12+01\r\n",
     "a 1 1795267452000000000 \nb 1 1795267452500000000 \nc 1 1795267452000000000 \n", NULL},
    {"http://h/m.tsv", "", "", "", NULL},
    {"http://h/m.tsv", "", "a\t1\nb\n", "a 1 ? \n", "line 2: no TAB"},
    {"http://h/m.tsv", "", "a\t-1\n", "", "line 1: the size is no number"},
    {"http://h/m.tsv", "", "a\t1\tyesterday\n", "", "line 1: the mtime"},
    {"http://h/m.tsv", "", "a\t1\t1\tzzz\n", "", "line 1: the checksum"},
    {"http://h/m.tsv", "", "a\t1\t1\tmd5:00\n", "", "line 1: the checksum"},
    {"http://h/m.tsv", "", "a\t1\t1\t-\tx\n", "", "line 1: too many columns"},
    {"http://h/m.tsv", "", "\t1\n", "", "line 1: an empty path"},
};

Test(http, listings, .init = forget_environment)
{
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        struct store *s = open_store(pages[i].uri, NULL);
        cleanup_bytes struct bytes items = {0}, token = {0};
        struct err err = {0};
        int result = store_parse_list(s, pages[i].prefix, pages[i].page, strlen(pages[i].page),
                                      remember, &items, &token, &err);
        cr_expect_eq(result, pages[i].error ? -1 : 0, "row %zu: %s", i, err.msg);
        cr_expect_str_eq(text_of(&items), pages[i].items, "row %zu: %s", i, text_of(&items));
        if (pages[i].error)
            cr_expect_not_null(strstr(err.msg, pages[i].error), "row %zu: %s", i, err.msg);
        store_close(s);
    }
}

static int count_items(void *arg, const struct list_item *item, struct err *err)
{
    (void)item, (void)err;
    ++*(size_t *)arg;
    return 0;
}

/* Looking through all the rest of the page for each link would take hours. */
Test(http, a_long_page_of_links_without_end, .init = forget_environment)
{
    const size_t links = 1000000;
    struct store *s = open_store("http://h/set", NULL);
    cleanup_bytes struct bytes page = {0}, token = {0};
    struct err err = {0};
    size_t n = 0;
    for (size_t i = 0; i < links; i++)
        bytes_addf(&page, "<a href=%zu>", i);
    cr_expect_eq(store_parse_list(s, "", page.data, page.len, count_items, &n, &token, &err), 0,
                 "%s", err.msg);
    cr_expect_eq(n, links);
    store_close(s);
}

Test(http, requests, .init = forget_environment)
{
    struct store *s = open_store("http://h:81/set", NULL);
    struct http_req r;
    cr_assert_eq(store_req_list(s, "a b", true, "", "", &r, NULL), 0);
    cr_expect_str_eq(r.url.data, "http://h:81/set/a%20b/");
    cr_expect(r.follow);
    http_req_release(&r);
    cr_assert_eq(store_req_get(s, "k?", 2, 1, 2, &r, NULL), 0);
    cr_expect_str_eq(r.url.data, "http://h:81/set/k%3F");
    cr_expect_null(http_header_get(&r, "If-Match"));
    struct http_answer a;
    http_answer_init(&a);
    enum store_again again;
    struct err err = {0};
    a.status = 206;
    cr_expect_eq(store_classify(s, &r, &a, "", 0, &again, &err), 0);
    a.status = 200;
    cr_expect_eq(store_classify(s, &r, &a, "", 0, &again, &err), -1);
    cr_expect_not_null(strstr(err.msg, "ignores byte ranges"));
    a.status = 404;
    cr_expect_eq(store_classify(s, &r, &a, "", 0, &again, &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND);
    a.status = 403;
    cr_expect_eq(store_classify(s, &r, &a, "", 0, &again, &err), -1);
    cr_expect_eq(err.class, ERR_DENIED);
    cr_expect_not_null(strstr(err.msg, "open to all?"), "%s", err.msg);
    http_req_release(&r);
    cr_assert_eq(store_req_list(s, "a b", true, "", "", &r, NULL), 0);
    cr_expect_eq(store_classify(s, &r, &a, "", 0, &again, &err), -1);
    cr_expect_not_null(strstr(err.msg, "directory listing"), "%s", err.msg);
    cr_expect_eq(again, AGAIN_NO);
    http_req_release(&r);
    cr_expect_eq(store_req_put(s, "k", 1, "", 0, &r, &err), -1);
    cr_expect_not_null(strstr(err.msg, "HTTP stores do not offer it"));
    cr_expect_eq(store_caps(s), STORE_HEADS);
    store_close(s);
    s = open_store("http://h:81/set/manifest.tsv", NULL);
    cr_expect_eq(store_caps(s), STORE_FLAT_LIST | STORE_HEADS);
    cr_assert_eq(store_req_list(s, "x/", false, "", "", &r, NULL), 0);
    cr_expect_str_eq(r.url.data, "http://h:81/set/manifest.tsv");
    http_req_release(&r);
    store_close(s);
}

Test(http, sums)
{
    struct err err = {0};
    cr_expect_eq(store_check_sum("plain-etag", "hello", 5, &err), 0);
    cr_expect_eq(store_check_sum("sum:md5:5D41402ABC4B2A76B9719D911017C592", "hello", 5, &err), 0);
    cr_expect_eq(store_check_sum("sum:crc32c:9a71bb4c/tag", "hello", 5, &err), 0);
    cr_expect_eq(store_check_sum("sum:crc32c:9a71bb4/tag", "hello", 5, &err), -1);
    err_clear(&err);
    cr_expect_eq(store_check_sum("sum:crc32c:9a71bb4c", "hello", 5, &err), 0);
    cr_expect_eq(store_check_sum("sum:crc32c:9a71bb4c", "hellO", 5, &err), -1);
    cr_expect_eq(err.class, ERR_CORRUPT);
}

static struct http_answer answer_of(const char *etag, int64_t last_modified)
{
    struct http_answer a;
    http_answer_init(&a);
    snprintf(a.etag, sizeof a.etag, "%s", etag);
    a.last_modified = last_modified;
    return a;
}

Test(http, what_tells_versions_apart)
{
    static const struct {
        const char *listed, *etag;
        int64_t last_modified;
        const char *want;
    } rows[] = {
        {"", "tag", 5, "tag"},
        {"", "", 5, "time:5"},
        {"", "", -1, ""},
        {"older", "tag", 5, "tag"},
        {"sum:md5:00", "tag", 5, "sum:md5:00/tag"},
        {"sum:md5:00", "", 5, "sum:md5:00"},
        {"sum:md5:00/tag", "tag", 5, "sum:md5:00/tag"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char etag[160];
        struct http_answer a = answer_of(rows[i].etag, rows[i].last_modified);
        snprintf(etag, sizeof etag, "%s", rows[i].listed);
        store_etag_add(etag, &a);
        cr_expect_str_eq(etag, rows[i].want, "row %zu: %s", i, etag);
        cr_expect_eq(store_check_etag(etag, &a, NULL), 0, "row %zu", i);
    }
    static const struct {
        const char *catalog, *etag;
        int64_t last_modified;
        bool stale;
    } checks[] = {
        {"", "tag", 5, false},           {"tag", "", 5, false},
        {"tag", "tag", 5, false},        {"tag", "tab", 5, true},
        {"time:5", "tag", 5, false},     {"time:5", "tag", 6, true},
        {"time:5", "", -1, false},       {"sum:md5:00", "tag", 5, false},
        {"sum:md5:00/a", "a", 5, false}, {"sum:md5:00/a", "b", 5, true},
    };
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        struct http_answer a = answer_of(checks[i].etag, checks[i].last_modified);
        struct err err = {0};
        bool stale = store_check_etag(checks[i].catalog, &a, &err) != 0;
        cr_expect_eq(stale, checks[i].stale, "row %zu", i);
        cr_expect_eq(err.class, stale ? ERR_STALE : ERR_NONE);
    }
}
