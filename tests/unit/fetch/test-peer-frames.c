/* The parser of answers with many samples, whole and in every pair of pieces, and what it refuses.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "buf.h"
#include "peer-frames.h"

struct seen {
    struct bytes text; /* what was called, in order */
};

static int on_begin(void *arg, const struct peer_frame *f, struct err *err)
{
    struct seen *s = arg;
    bytes_addf(&s->text, "<%u:%u:%x ", f->index, f->status, f->crc);
    return f->crc == 0xbad ? err_set(err, ERR_CORRUPT, "refused") : 0;
}

static void on_bytes(void *arg, const struct peer_frame *f, uint32_t off, const void *data,
                     size_t len)
{
    struct seen *s = arg;
    cr_assert_leq(off + len, f->len);
    bytes_add(&s->text, data, len);
}

static void on_end(void *arg, const struct peer_frame *f)
{
    struct seen *s = arg;
    bytes_addf(&s->text, " %u>", f->index);
}

static struct peer_frames parser(struct seen *s, uint32_t count)
{
    return (struct peer_frames){
        .begin = on_begin, .bytes = on_bytes, .end = on_end, .arg = s, .count = count};
}

static void add_frame(struct bytes *b, uint32_t status, uint32_t index, uint32_t crc,
                      const char *body)
{
    unsigned char head[PEER_HEAD];
    const struct peer_frame f = {status, (uint32_t)strlen(body), crc, index};
    peer_frame_head(head, &f);
    bytes_add(b, head, sizeof head);
    bytes_add_str(b, body);
}

static void begin_stream(struct bytes *b, uint32_t count)
{
    unsigned char head[PEER_HEAD];
    peer_stream_head(head, count);
    bytes_clear(b);
    bytes_add(b, head, sizeof head);
}

Test(peer_frames, come_out_whole_however_they_are_cut)
{
    static const char want[] = "<0:0:11 first 0><1:1:0  1><2:0:0  2><3:2:7 why 3>";
    cleanup_bytes struct bytes all = {0};
    begin_stream(&all, 4);
    add_frame(&all, PEER_HERE, 0, 0x11, "first");
    add_frame(&all, PEER_ABSENT, 1, 0, "");
    add_frame(&all, PEER_HERE, 2, 0, "");
    add_frame(&all, PEER_ERROR, 3, 7, "why");
    for (size_t cut = 0; cut <= all.len; cut++) {
        struct seen s = {0};
        struct peer_frames p = parser(&s, 4);
        struct err err = {0};
        cr_assert_eq(peer_frames_take(&p, all.data, cut, &err), 0, "%s", err.msg);
        cr_assert_eq(peer_frames_complete(&p), cut == all.len);
        cr_assert_eq(peer_frames_take(&p, all.data + cut, all.len - cut, &err), 0, "%s", err.msg);
        cr_assert(peer_frames_complete(&p));
        cr_assert_str_eq(s.text.data, want);
        cr_assert_eq(peer_frames_take(&p, "x", 1, &err), -1);
        bytes_release(&s.text);
    }
}

Test(peer_frames, that_lie_are_refused)
{
    static const struct {
        const char *what;
        uint32_t count, status, index, crc, len;
        bool magic;
    } rows[] = {
        {"another magic", 1, PEER_HERE, 0, 0, 0, false},
        {"too many frames", 2, PEER_HERE, 0, 0, 0, true},
        {"no frames", 0, PEER_HERE, 0, 0, 0, true},
        {"out of order", 1, PEER_HERE, 1, 0, 0, true},
        {"an unknown status", 1, 3, 0, 0, 0, true},
        {"a length beyond all bounds", 1, PEER_HERE, 0, 0, PEER_BYTES_MAX + 1, true},
        {"bytes of what is not here", 1, PEER_ABSENT, 0, 0, 1, true},
        {"a long story", 1, PEER_ERROR, 0, 0, PEER_TEXT_MAX + 1, true},
        {"a frame that the reader refuses", 1, PEER_HERE, 0, 0xbad, 0, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct seen s = {0};
        struct peer_frames p = parser(&s, 1);
        struct err err = {0};
        unsigned char head[PEER_HEAD];
        const struct peer_frame f = {rows[i].status, rows[i].len, rows[i].crc, rows[i].index};
        peer_stream_head(head, rows[i].count);
        head[0] ^= !rows[i].magic;
        int rc = peer_frames_take(&p, head, sizeof head, &err);
        peer_frame_head(head, &f);
        if (!rc)
            rc = peer_frames_take(&p, head, sizeof head, &err);
        cr_expect_eq(rc, -1, "%s", rows[i].what);
        cr_expect_eq(err.class, ERR_CORRUPT, "%s", rows[i].what);
        cr_expect(!peer_frames_complete(&p));
        bytes_release(&s.text);
    }
}
