/* Curves: bytes as the readers' formats say them, cut back on resume, whole whatever happened. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "events-internal.h"
#include "hash.h"
#include "mem.h"

#define T0 (1700000000ll * 1000000000)

static void expect_hex(const char *what, const struct bytes *b, const char *want)
{
    char got[1200];
    cr_assert(b->len < 500);
    hex_encode(got, b->data, b->len);
    cr_expect_str_eq(got, want, "%s: %s", what, got);
}

/* The same bytes as the readers' own writers make. */
Test(events, bytes_of_scalars)
{
    struct bytes b = {0};
    events_visualdl.head(&b, T0);
    events_visualdl.scalar(&b, T0, 0, "train/loss", 1.5);
    expect_hex("visualdl", &b,
               "1a000000000000000a18120d6d6574615f646174615f7461671880d095ffbc315200"
               "1a000000000000000a18120a747261696e2f6c6f73731880d095ffbc31250000c03f");
    bytes_clear(&b);
    events_visualdl.scalar(&b, T0, 1, "train/loss", 0.75);
    cr_expect(b.len == 36 && memcmp(b.data, "\x1c\0\0\0\0\0\0\0\x0a\x1a\x08\x01\x12\x0a", 14) == 0);
    bytes_clear(&b);
    events_tensorboard.head(&b, T0);
    events_tensorboard.scalar(&b, T0, 0, "train/loss", 1.5);
    events_tensorboard.scalar(&b, T0 + 1000000000, 1, "train/loss", 0.75);
    expect_hex("tensorboard", &b,
               "1800000000000000a37f4b22"
               "0900000040fc54d941"
               "1a0d627261696e2e4576656e743a32"
               "eced8f9d"
               "1e00000000000000d9dc1232"
               "0900000040fc54d941"
               "2a130a110a0a747261696e2f6c6f7373150000c03f"
               "88a49c68"
               "200000000000000029eda950"
               "0900004040fc54d941"
               "1001"
               "2a130a110a0a747261696e2f6c6f7373150000403f"
               "4b061218");
    bytes_release(&b);
}

static const struct events_format *const formats[] = {&events_tensorboard, &events_visualdl};

/* Every cut of a file ends at a whole record, and no byte changed goes unseen by the sums. */
Test(events, first_record_whole_or_none)
{
    for (int f = 0; f < 2; f++) {
        struct bytes b = {0};
        uint64_t step;
        struct pb_field tag;
        formats[f]->scalar(&b, T0, 300, "a/b", 2);
        for (size_t n = 0; n < b.len; n++)
            cr_expect_eq(formats[f]->first(b.data, n, &step, &tag), 0, "format %d, %zu bytes", f,
                         n);
        cr_expect_eq(formats[f]->first(b.data, b.len, &step, &tag), b.len);
        cr_expect_eq(step, 300);
        cr_expect(tag.len == 3 && memcmp(tag.data, "a/b", 3) == 0);
        for (size_t n = 0; n < b.len && f == 0; n++) {
            b.data[n] ^= 1;
            cr_expect_eq(formats[f]->first(b.data, b.len, &step, &tag), 0, "byte %zu", n);
            b.data[n] ^= 1;
        }
        bytes_release(&b);
    }
}

/* --- the folder ------------------------------------------------------------------------------- */

static char *slurp(const char *pattern, size_t *len)
{
    glob_t g;
    cr_assert_eq(glob(pattern, 0, NULL, &g), 0, "%s", pattern);
    cr_assert_eq(g.gl_pathc, 1, "%s: one file", pattern);
    int fd = open(g.gl_pathv[0], O_RDONLY);
    struct stat st;
    cr_assert(fd >= 0 && fstat(fd, &st) == 0);
    char *data = xmalloc((size_t)st.st_size + 1);
    cr_assert_eq(read(fd, data, (size_t)st.st_size), st.st_size);
    *len = (size_t)st.st_size;
    close(fd);
    globfree(&g);
    return data;
}

/* The steps in a folder's file of a format, "-" for the head. */
static void steps(const char *dir, int f, char *out, size_t size)
{
    char pattern[128];
    size_t len, at = 0;
    uint64_t step;
    struct pb_field tag;
    snprintf(pattern, sizeof pattern, "%s/%s", dir, f ? "vdlrecords.*" : "*tfevents*");
    char *data = slurp(pattern, &len);
    out[0] = '\0';
    for (size_t n; (n = formats[f]->first(data + at, len - at, &step, &tag)) != 0; at += n) {
        size_t used = strlen(out);
        snprintf(out + used, size - used, step ? "%d " : "- ", (int)step);
    }
    cr_expect_eq(at, len, "a torn tail of %zu bytes", len - at);
    free(data);
}

static void write_steps(const char *dir, uint64_t from, uint64_t to, uint64_t resume)
{
    struct events *e;
    struct err err = {0};
    cr_assert_eq(events_open(&e, dir, resume, false, &err), 0, "%s", err.msg);
    for (uint64_t s = from; s <= to; s++)
        events_scalar(e, "train/loss", s, 1.0 / (double)s);
    cr_expect_eq(events_flush(e, &err), 0, "%s", err.msg);
    events_close(e);
}

static void tear(const char *dir)
{
    static const char *const names[] = {"vdlrecords.*", "*tfevents*"};
    for (int i = 0; i < 2; i++) {
        char pattern[128];
        glob_t g;
        struct stat st;
        snprintf(pattern, sizeof pattern, "%s/%s", dir, names[i]);
        cr_assert_eq(glob(pattern, 0, NULL, &g), 0);
        cr_assert_eq(stat(g.gl_pathv[0], &st), 0);
        cr_assert_eq(truncate(g.gl_pathv[0], st.st_size - 7), 0);
        globfree(&g);
    }
}

static void remove_all(const char *dir)
{
    pid_t pid = fork();
    int status;
    if (pid == 0)
        _exit(execlp("rm", "rm", "-rf", dir, (char *)NULL));
    waitpid(pid, &status, 0);
}

Test(events, resumed_curves_are_one_line)
{
    char dir[] = "/tmp/sampan-unit-XXXXXX", got[200];
    cr_assert(mkdtemp(dir));
    write_steps(dir, 1, 5, 0);
    tear(dir);
    write_steps(dir, 4, 7, 3); /* the checkpoint was after step 3 */
    for (int f = 0; f < 2; f++) {
        steps(dir, f, got, sizeof got);
        cr_expect_str_eq(got, "- 1 2 3 4 5 6 7 ", "format %d: %s", f, got);
    }
    remove_all(dir);
}

/* What was told at a pass's end goes if the checkpoint is of just before, and stays if it is of
 * just after: both are of one step. */
Test(events, the_end_of_a_pass_that_goes_on_is_cut)
{
    static const char *const kept[2] = {"- 1 1 2 2 ", "- 1 1 2 "};
    struct err err = {0};
    for (int within = 0; within < 2; within++) {
        char dir[] = "/tmp/sampan-unit-XXXXXX", got[200];
        struct events *e;
        cr_assert(mkdtemp(dir));
        cr_assert_eq(events_open(&e, dir, 0, false, &err), 0, "%s", err.msg);
        for (uint64_t pass = 1; pass <= 2; pass++) {
            events_scalar(e, "train/loss", pass, 1);
            events_scalar(e, "pass/loss", pass, 1);
        }
        events_close(e);
        cr_assert_eq(events_open(&e, dir, 2, within, &err), 0, "%s", err.msg);
        events_close(e);
        for (int f = 0; f < 2; f++) {
            steps(dir, f, got, sizeof got);
            cr_expect_str_eq(got, kept[within], "format %d, within %d: %s", f, within, got);
        }
        remove_all(dir);
    }
}

/* Who begins anew loses nothing of the run before, nor takes it for its own. */
Test(events, an_earlier_run_is_set_aside)
{
    char dir[] = "/tmp/sampan-unit-XXXXXX", got[200], *place;
    struct err err = {0};
    cr_assert(mkdtemp(dir));
    for (int run = 0; run < 3; run++) {
        cleanup_free char *lines = xasprintf("%s/" EVENTS_LINES, dir);
        cleanup_free char *want = xasprintf("%s/earlier-%d", dir, run);
        cr_assert_eq(events_set_aside(dir, &place, &err), 0, "%s", err.msg);
        cr_expect(run ? place && strcmp(place, want) == 0 : !place, "run %d: %s", run, place);
        cr_expect_eq(access(lines, F_OK), -1);
        free(place);
        write_steps(dir, 1, (uint64_t)run + 2, 0);
        fclose(fopen(lines, "we"));
        for (int f = 0; f < 2; f++) {
            steps(dir, f, got, sizeof got);
            cr_expect_str_eq(got, run == 0 ? "- 1 2 " : run == 1 ? "- 1 2 3 " : "- 1 2 3 4 ");
            steps(run ? want : dir, f, got, sizeof got);
            cr_expect_str_eq(got, run == 2 ? "- 1 2 3 " : "- 1 2 ");
        }
        cleanup_free char *moved = xasprintf("%s/" EVENTS_LINES, want);
        cr_expect(!run || access(moved, F_OK) == 0);
    }
    remove_all(dir);
}

/* Of a net that has made a step; without one nothing is told of what it costs. TensorBoard alone.
 */
static void write_graph(struct events *e)
{
    static const float x[4 * 4 * 3];
    static const int32_t label;
    struct backend *b;
    struct err err = {0};
    cr_assert_eq(backend_cpu(&b, 1, &err), 0, "%s", err.msg);
    struct net *n = net_new(b, "small");
    net_softmax_loss(n, net_dense(n, net_image(n, 4, 4, 3), 2), 0);
    cr_assert_eq(net_finish(n, 1, 1, &err), 0, "%s", err.msg);
    events_graph(e, n);
    events_costs(e, n, 3);
    net_measure(n);
    net_step(n, &(struct net_batch){.n = 1, .x = x, .labels = &label}, true);
    events_costs(e, n, 4);
    net_free(n);
    backend_close(b);
}

Test(events, other_kinds_are_whole_records)
{
    char dir[] = "/tmp/sampan-unit-XXXXXX", got[200];
    struct events *e;
    struct err err = {0};
    struct events_pr pr = {0};
    float x[100] = {0};
    uint8_t rgb[5 * 4 * 3];
    cr_assert(mkdtemp(dir));
    cr_assert_eq(events_open(&e, dir, 0, false, &err), 0, "%s", err.msg);
    for (int i = 0; i < 100; i++) {
        x[i] = (float)i;
        events_pr_add(&pr, i / 100.0, i >= 50);
    }
    memset(rgb, 7, sizeof rgb);
    events_histogram(e, "w", 1, x, 100);
    events_image(e, "i", 2, rgb, 5, 4);
    events_pr_curve(e, "p", 3, &pr);
    write_graph(e);
    cr_expect_eq(events_flush(e, &err), 0, "%s", err.msg);
    events_close(e);
    for (int f = 0; f < 2; f++) {
        steps(dir, f, got, sizeof got);
        cr_expect_str_eq(got, f == 0 ? "- 1 2 3 - 4 " : "- 1 2 3 ");
    }
    remove_all(dir);
}

Test(events, a_file_that_may_not_grow_ends_with_a_whole_record)
{
    char dir[] = "/tmp/sampan-unit-XXXXXX", got[200];
    struct events *e;
    struct err err = {0};
    const struct rlimit little = {200, 200};
    cr_assert(mkdtemp(dir));
    cr_assert_eq(events_open(&e, dir, 0, false, &err), 0, "%s", err.msg);
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &little), 0);
    for (uint64_t s = 1; s < 9; s++)
        events_scalar(e, "train/loss", s, 1);
    cr_expect_eq(events_flush(e, &err), -1);
    cr_expect(strstr(err.msg, "curves: write in /tmp/"), "%s", err.msg);
    events_close(e);
    for (int f = 0; f < 2; f++) { /* steps() finds a torn tail */
        steps(dir, f, got, sizeof got);
        cr_expect(strncmp(got, "- 1 2 ", 6) == 0, "format %d: %s", f, got);
    }
    remove_all(dir);
}

Test(events, folder_that_cannot_be)
{
    struct events *e;
    struct err err = {0};
    cr_expect_eq(events_open(&e, "/proc/nowhere", 0, false, &err), -1);
    cr_expect(strstr(err.msg, "curves: make /proc/nowhere"), "%s", err.msg);
}

/* --- what is drawn ---------------------------------------------------------------------------- */

Test(events, histograms)
{
    struct histogram h;
    float x[61];
    for (int i = 0; i < 61; i++)
        x[i] = (float)i / 2;
    x[60] = NAN;
    histogram_of(&h, x, 61);
    cr_expect(h.n == 60 && h.min == 0 && h.max == 29.5);
    double all = 0;
    for (int i = 0; i < 30; i++) {
        cr_expect_eq(h.counts[i], 2, "bin %d: %g", i, h.counts[i]);
        all += h.counts[i];
    }
    cr_expect_eq(all, 60);
    histogram_of(&h, x + 60, 1);
    cr_expect(h.n == 0 && h.min == 0 && h.edges[30] > h.edges[0], "nothing but a NaN");
    histogram_of(&h, x + 4, 1);
    cr_expect(h.n == 1 && h.counts[0] == 1 && h.min == 2);
}

Test(events, precision_and_recall)
{
    struct events_pr p = {0};
    struct pr_curve c;
    events_pr_add(&p, 0.905, 1);
    events_pr_add(&p, 0.805, 0);
    events_pr_add(&p, 0.305, 1);
    events_pr_add(&p, 0.105, 0);
    pr_curve_of(&c, &p);
    cr_expect(c.tp[0] == 2 && c.fp[0] == 2 && c.tn[0] == 0 && c.fn[0] == 0);
    cr_expect(c.tp[50] == 1 && c.fp[50] == 1 && c.tn[50] == 1 && c.fn[50] == 1);
    cr_expect(c.precision[50] == 0.5 && c.recall[50] == 0.5);
    cr_expect(c.precision[90] == 1 && c.recall[90] == 0.5);
    cr_expect(c.precision[100] == 1 && c.recall[100] == 0, "no judgement at all");
}

Test(events, protobuf_is_read_back)
{
    struct bytes b = {0};
    struct pb_field f;
    pb_varint(&b, 1, UINT64_MAX);
    pb_text(&b, 17, "text");
    pb_double(&b, 3, 1);
    pb_float(&b, 4, 1);
    const char *p = b.data;
    size_t len = b.len;
    cr_expect(pb_next(&p, &len, &f) == 1 && f.number == 1 && f.value == UINT64_MAX);
    cr_expect(pb_next(&p, &len, &f) == 1 && f.number == 17 && f.len == 4);
    cr_expect(pb_next(&p, &len, &f) == 1 && f.number == 3 && f.len == 8);
    cr_expect(pb_next(&p, &len, &f) == 1 && f.number == 4 && f.len == 4);
    cr_expect_eq(pb_next(&p, &len, &f), 0);
    for (size_t n = 1; n < b.len; n++) { /* cut anywhere, it never reads past the end */
        char *copy = xmalloc(n);
        memcpy(copy, b.data, n);
        const char *at = copy;
        size_t left = n;
        while (pb_next(&at, &left, &f) == 1)
            ;
        free(copy);
    }
    bytes_release(&b);
}
