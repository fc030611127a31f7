/* What `top` shows of two looks: exact text. */
#include <criterion/criterion.h>
#include <string.h>

#include "top-internal.h"

static const char early[] =
    "{\"mounts\":[{\"mountpoint\":\"/m\",\"uri\":\"s3://b/t\",\"state\":\"ready\",\"uptime_s\":60,"
    "\"set\":{\"samples\":1000,\"bytes\":5000},\"partition\":null,"
    "\"cache\":{\"samples\":400,\"bytes\":2000,\"tiers\":[{\"tier\":\"ssd\",\"dir\":\"/c\","
    "\"limit\":4096,\"used\":1024,\"state\":\"ok\",\"why\":\"\"}]},"
    "\"reads\":{\"total\":100,\"bytes\":0,\"mem\":0,\"disk\":90,\"peer\":0,\"store\":10,"
    "\"pushed\":0,\"errors\":0,\"p50_us\":20,\"p99_us\":900},"
    "\"fetch\":{\"requests\":10,\"bytes\":0,\"in_flight\":1,\"queued_ahead\":0},"
    "\"warmup\":{\"state\":\"running\",\"percent\":30,\"samples_done\":300,\"samples_total\":1000,"
    "\"failed\":0,\"eta_s\":70}}],\"jobs\":[]}";
static const char late[] =
    "{\"mounts\":[{\"mountpoint\":\"/m\",\"uri\":\"s3://b/t\",\"state\":\"ready\",\"uptime_s\":62,"
    "\"set\":{\"samples\":1000,\"bytes\":5000},\"partition\":null,"
    "\"cache\":{\"samples\":500,\"bytes\":2500,\"tiers\":[{\"tier\":\"ssd\",\"dir\":\"/c\","
    "\"limit\":4096,\"used\":4096,\"state\":\"full\",\"why\":\"no room\"}]},"
    "\"reads\":{\"total\":300,\"bytes\":4096,\"mem\":0,\"disk\":270,\"peer\":10,\"store\":20,"
    "\"pushed\":8,\"errors\":0,\"p50_us\":20,\"p99_us\":900},"
    "\"fetch\":{\"requests\":20,\"bytes\":2048,\"in_flight\":3,\"queued_ahead\":7},"
    "\"warmup\":{\"state\":\"running\",\"percent\":40,\"samples_done\":400,\"samples_total\":1000,"
    "\"failed\":1,\"eta_s\":12}},"
    "{\"mountpoint\":\"/n\\u001b[31m\",\"uri\":\"file:///x\",\"state\":\"lost\",\"uptime_s\":0,"
    "\"error\":\"mount /n: gone\"}],"
    "\"jobs\":[{\"id\":\"w\",\"type\":\"warmup\",\"state\":\"running\","
    "\"progress\":{\"percent\":40}}]}";

static struct json_doc *docs[2];

static struct top_frame frame(void)
{
    struct err err;
    cr_assert_eq(json_parse(&docs[0], "early", early, strlen(early), &err), 0, "%s", err.msg);
    cr_assert_eq(json_parse(&docs[1], "late", late, strlen(late), &err), 0, "%s", err.msg);
    return (struct top_frame){"2 mounts", json_root(docs[0]), json_root(docs[1]), 2};
}

static void release(struct bytes *out)
{
    bytes_release(out);
    json_doc_free(docs[0]);
    json_doc_free(docs[1]);
}

Test(top, a_screen)
{
    struct top_frame f = frame();
    struct bytes out = {0};
    top_screen(&f, 200, 50, &out);
    cr_expect_str_eq(
        out.data,
        "sampan top   2 mounts   q ends\n"
        "\n"
        "/m  s3://b/t  ready, up 1m02s\n"
        "  reads     100/s, 2.0 KiB/s, p50 20 us, p99 900 us, 0 errors\n"
        "  from      mem 0/s   disk 90/s   peer 5/s   store 5/s   pushed 4/s\n"
        "  hits      90.0 % local of 300 reads\n"
        "  store     5 requests/s, 1.0 KiB/s, 3 under way, 7 waiting\n"
        "  cached    [############............]  50.0 %  500 of 1000 samples, 2.4 KiB\n"
        "  ssd       [########################] 100.0 %  4.0 KiB of 4.0 KiB, full: no "
        "room\n"
        "  warmup    [#########...............]  40.0 %  400 of 1000, 50/s, 12.0s left, 1 "
        "failed\n"
        "\n"
        "/n?[31m  file:///x  lost, up 0ms\n"
        "  mount /n: gone\n"
        "\n"
        "jobs\n"
        "  warmup    [#########...............]  40.0 %  w, running");
    release(&out);
}

Test(top, a_small_terminal)
{
    struct top_frame f = frame();
    struct bytes out = {0};
    top_screen(&f, 12, 3, &out);
    cr_expect_str_eq(out.data, "sampan top  \n\n/m  s3://b/t");
    release(&out);
}

Test(top, lines)
{
    struct top_frame f = frame();
    struct bytes out = {0};
    top_lines(&f, false, &out);
    cr_expect_str_eq(out.data, "      100     2.0 KiB         0        90         5         5      "
                               "   4    90.0     50.0     "
                               "40.0  /m\n"
                               "        0         0 B         0         0         0         0      "
                               "   0       -      0.0     "
                               "   -  /n?[31m\n");
    release(&out);
}

Test(top, json_parses_and_a_counter_that_went_back_began_anew)
{
    struct top_frame f = frame();
    struct bytes out = {0};
    struct json_doc *doc;
    struct err err;
    struct json before = f.before;
    f.before = f.after;
    f.after = before;
    top_json(&f, &out);
    cr_expect_eq(strchr(out.data, '\n'), out.data + out.len - 1, "one line");
    cr_assert_eq(json_parse(&doc, "top", out.data, out.len, &err), 0, "%s", err.msg);
    struct json root = json_root(doc), mounts = json_get(&root, "mounts"), m = json_at(&mounts, 0);
    struct json reads = json_get(&m, "reads"), cache = json_get(&m, "cache");
    cr_expect_eq(json_num_at(&reads, "per_s"), 0);
    cr_expect_eq(json_num_at(&m, "hit_ratio"), 0.9);
    cr_expect_eq(json_uint_at(&cache, "samples"), 400);
    json_doc_free(doc);
    release(&out);
}
