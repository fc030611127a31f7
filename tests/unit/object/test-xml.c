/* The XML reader: what it gives, and what it refuses. */
#include <criterion/criterion.h>
#include <string.h>

#include "list-xml-internal.h"

/* "<a>" and "</a=text>" a piece; "!why" at the end if it was refused. */
static void trace(const char *text, size_t len, struct bytes *out)
{
    cleanup_xml struct xml x;
    xml_init(&x, text, len);
    for (;;) {
        switch (xml_next(&x)) {
        case XML_OPEN:
            bytes_addf(out, "<%.*s>", (int)x.name.len, x.name.text);
            break;
        case XML_CLOSE:
            bytes_addf(out, "</%.*s=%s>", (int)x.name.len, x.name.text,
                       x.text.data ? x.text.data : "");
            break;
        case XML_BAD:
            bytes_addf(out, "!%s", x.why);
            return;
        case XML_END:
            return;
        }
    }
}

Test(xml, traces)
{
    static const char *const rows[][2] = {
        {"<a>x</a>", "<a></a=x>"},
        {"\xef\xbb\xbf<?xml version=\"1.0\"?>\n<a/>\n", "<a></a=>"},
        {"<a><b>1</b><b/>tail</a>", "<a><b></b=1><b></b=></a=tail>"},
        {"<n:a xmlns:n=\"u>v\" b='/'>t</n:a >", "<a></a=t>"},
        {"<a>&lt;&gt;&amp;&quot;&apos;&#65;&#x41;&#x20AC;</a>", "<a></a=<>&\"'AA\xe2\x82\xac>"},
        {"<a>1<![CDATA[<&]]>2</a>", "<a></a=1<&2>"},
        {"<a><!-- <b> -->x</a><!-- end -->", "<a></a=x>"},
        {"<!DOCTYPE html><a>x</a>", "<a></a=x>"},
        {"<!DOCTYPE a [<!ENTITY e \"x\">]><a>&e;</a>", "!a document type with declarations"},
        {"<a>&e;</a>", "<a>!an unknown entity or a text too long"},
        {"<a>&#xD800;</a>", "<a>!an unknown entity or a text too long"},
        {"<a>&#99999999;</a>", "<a>!an unknown entity or a text too long"},
        {"<a><b></a></b>", "<a><b>!an end tag that fits no begin tag"},
        {"<a>", "<a>!the text is cut off"},
        {"<a", "!a begin tag without end"},
        {"<a b=\"", "!a begin tag without end"},
        {"<a></a", "<a>!an end tag without end"},
        {"<a/><b/>", "<a></a=>!a second root element"},
        {"</a>", "!an end tag too many"},
        {"<>", "!an element without a name"},
        {"", "!no element at all"},
        {"just words", "!no element at all"},
        {"<!-- a", "!markup without end"},
        {"<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>",
         "<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>!nested too deep"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cleanup_bytes struct bytes out = {0};
        trace(rows[i][0], strlen(rows[i][0]), &out);
        cr_expect_str_eq(out.data, rows[i][1], "%s: got %s", rows[i][0], out.data);
    }
}

Test(xml, every_truncation_ends)
{
    static const char text[] =
        "<?xml version=\"1.0\"?><!DOCTYPE a><a b='c'><d>&amp;<![CDATA[x]]></d><!--y--><e/></a>";
    for (size_t len = 0; len < sizeof text - 1; len++) {
        cleanup_bytes struct bytes out = {0};
        char *copy = malloc(len ? len : 1); /* exact, so that asan sees a step too far */
        memcpy(copy, text, len);
        trace(copy, len, &out);
        cr_expect(strchr(out.data, '!'), "%zu bytes: %s", len, out.data);
        free(copy);
    }
}

Test(xml, find_and_escape)
{
    cleanup_bytes struct bytes out = {0};
    static const char text[] = "<r><x><Code>A&amp;B</Code></x><Code>C</Code></r>";
    cr_assert(xml_find(text, strlen(text), "Code", &out));
    cr_expect_str_eq(out.data, "A&B");
    cr_expect_not(xml_find(text, strlen(text), "Key", &out));
    bytes_clear(&out);
    xml_escape(&out, "a<b>&\"\n\x01\xff", 9);
    cr_expect_str_eq(out.data, "a&lt;b&gt;&amp;&quot;&#10;&#1;\xff");
}
