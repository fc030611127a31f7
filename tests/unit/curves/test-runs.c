/* Runs below a folder: found, read on as they grow, and bounded whatever comes. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "curves-testing.h"
#include "file.h"
#include "json.h"
#include "mem.h"
#include "runs.h"

static char dir[] = "/tmp/curves-XXXXXX";
static struct runs *runs;

static void world_begin(void)
{
    cr_assert_not_null(mkdtemp(dir));
    runs = runs_new(dir);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void world_end(void)
{
    runs_free(runs);
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(runs, .init = world_begin, .fini = world_end);

static void put(const char *name, int flags, const struct bytes *b)
{
    cleanup_free char *path = xasprintf("%s/%s", dir, name);
    cleanup_close int fd = open(path, O_WRONLY | O_CREAT | flags, 0644);
    cr_assert(fd >= 0 && write(fd, b->data, b->len) == (ssize_t)b->len);
}

static void folder(const char *name)
{
    cleanup_free char *path = xasprintf("%s/%s", dir, name);
    cr_assert_eq(mkdir(path, 0755), 0);
}

static void expect_list(const char *want)
{
    cleanup_bytes struct bytes got = {0};
    cr_assert_eq(runs_list(runs, &got, NULL), 0);
    cr_expect_str_eq(got.data, want);
}

/* The steps of a tag, as many as there are. */
static size_t steps_of(const char *run, const char *tag, int64_t *steps, size_t max)
{
    cleanup_bytes struct bytes got = {0};
    cleanup_json struct json_doc *doc = NULL;
    cr_assert_eq(runs_scalars(runs, run, &got, NULL), 0);
    cr_assert_eq(json_parse(&doc, "scalars", got.data, got.len, NULL), 0);
    struct json root = json_root(doc), points = json_get(&root, tag);
    size_t n = json_count(&points);
    for (size_t i = 0; i < n && i < max; i++) {
        struct json point = json_at(&points, i), step = json_at(&point, 0);
        json_as_int(&step, INT64_MIN, INT64_MAX, &steps[i], NULL);
    }
    return n;
}

#define VDL "vdlrecords.1700000000.log"
#define TB  "events.out.tfevents.1700000000.host.1.0"

Test(runs, found_in_all_folders)
{
    struct bytes file = {0};
    add_scalar(&file, EVENTS_TENSORBOARD, 1, "loss", 2);
    folder("b");
    folder("b/deep");
    folder("empty");
    put("b/deep/" TB, 0, &file);
    put(TB, 0, &file);
    put("notes.txt", 0, &file);
    cleanup_free char *loop = xasprintf("%s/b/again", dir);
    cr_assert_eq(symlink(dir, loop), 0);
    cleanup_free char *odd = xasprintf("%s/\xff", dir);
    cr_assert_eq(mkdir(odd, 0755), 0);
    put("\xff/" TB, 0, &file); /* which no page could ask for */
    cleanup_free char *want = xasprintf(
        "{\"runs\":[{\"run\":\".\",\"bytes\":%zu,\"damaged\":null,\"scalars\":[\"loss\"],"
        "\"histograms\":[],\"pr\":[],\"images\":[],\"audio\":[],\"graph\":false},{\"run\":\"b/"
        "deep\",\"bytes\":%zu,"
        "\"damaged\":null,\"scalars\":[\"loss\"],\"histograms\":[],\"pr\":[],\"images\":[],"
        "\"audio\":[],"
        "\"graph\":false}]}",
        file.len, file.len);
    expect_list(want);

    cleanup_free char *path = xasprintf("%s/%s", dir, TB);
    cleanup_free char *gone = xasprintf("%s/b/deep/%s", dir, TB);
    cr_assert(unlink(path) == 0 && unlink(gone) == 0);
    expect_list("{\"runs\":[]}");
    bytes_release(&file);
}

Test(runs, found_behind_a_link_and_below_any_name)
{
    struct bytes file = {0}, got = {0};
    add_scalar(&file, EVENTS_TENSORBOARD, 1, "loss", 2);
    folder("\xfe");
    put("\xfe/" TB, 0, &file);
    cleanup_free char *odd = xasprintf("%s/\xfe", dir), *link = xasprintf("%s/link", dir);
    cr_assert_eq(symlink(odd, link), 0);
    const char *const names[] = {odd, link};
    for (size_t i = 0; i < 2; i++) {
        struct runs *r = runs_new(names[i]);
        bytes_clear(&got);
        cr_expect(runs_list(r, &got, NULL) == 0 && strstr(got.data, "[\"loss\"]"), "%s: %s",
                  names[i], got.data);
        runs_free(r);
    }
    bytes_release(&file);
    bytes_release(&got);
}

Test(runs, read_on_and_anew)
{
    struct bytes file = {0};
    int64_t steps[8];
    for (int i = 1; i <= 3; i++)
        add_scalar(&file, EVENTS_TENSORBOARD, i, "loss", 2);
    size_t whole = file.len / 3, kept = file.len;
    file.len = whole + 5; /* the second one is being written */
    put(TB, 0, &file);
    cr_expect_eq(steps_of(".", "loss", steps, 8), 1);
    file.len = kept;
    put(TB, O_TRUNC, &file);
    cr_expect(steps_of(".", "loss", steps, 8) == 3 && steps[2] == 3);
    /* It went on from a checkpoint: cut back to step 1, then another 2. */
    file.len = whole;
    put(TB, O_TRUNC, &file);
    cr_expect_eq(steps_of(".", "loss", steps, 8), 1);
    bytes_clear(&file);
    add_scalar(&file, EVENTS_TENSORBOARD, 2, "loss", 2);
    put(TB, O_APPEND, &file);
    cr_expect(steps_of(".", "loss", steps, 8) == 2 && steps[1] == 2);
    bytes_release(&file);
}

/* Nothing of it is waited for again and again, and what is left is read once. */
Test(runs, files_that_are_gone_are_forgotten)
{
    struct bytes one = {0}, two = {0}, got = {0};
    int64_t steps[8];
    add_scalar(&one, EVENTS_TENSORBOARD, 1, "loss", 2);
    for (int step = 2; step <= 3; step++)
        add_scalar(&two, EVENTS_TENSORBOARD, step, "loss", 2);
    put("1." TB, 0, &one);
    put("2." TB, 0, &two);
    put("net.onnx", 0, &one);
    cr_expect_eq(steps_of(".", "loss", steps, 8), 3);
    cleanup_free char *gone = xasprintf("%s/1." TB, dir), *model = xasprintf("%s/net.onnx", dir);
    cr_assert(unlink(gone) == 0 && unlink(model) == 0);
    cr_expect(steps_of(".", "loss", steps, 8) == 2 && steps[0] == 2);
    cr_expect(runs_list(runs, &got, NULL) == 0 && strstr(got.data, "\"graph\":false"), "%s",
              got.data);
    put("2." TB, 0, &one); /* before what was read last: nobody looks there again */
    cr_expect(steps_of(".", "loss", steps, 8) == 2 && steps[0] == 2);
    bytes_release(&one);
    bytes_release(&two);
    bytes_release(&got);
}

/* A page asks for each run by itself: that costs no look at all the others. */
Test(runs, who_asks_for_one_reads_no_other)
{
    struct bytes one = {0}, two = {0}, got = {0};
    struct err err = {0};
    int64_t steps[8];
    add_scalar(&one, EVENTS_TENSORBOARD, 1, "loss", 2);
    add_scalar(&two, EVENTS_TENSORBOARD, 2, "loss", 2);
    folder("a");
    folder("b");
    put("a/1." TB, 0, &one);
    put("b/1." TB, 0, &one);
    cr_assert_eq(runs_list(runs, &got, NULL), 0);
    put("b/1." TB, O_APPEND, &one);
    put("a/2." TB, 0, &two);
    cr_expect(steps_of("a", "loss", steps, 8) == 2 && steps[1] == 2, "its own new file is read");
    struct bytes both = {0};
    bytes_add(&both, one.data, one.len);
    bytes_add(&both, two.data, two.len);
    put("b/1." TB, 0, &both);
    cr_expect(steps_of("b", "loss", steps, 8) == 2 && steps[1] == 2, "what is there by now");
    cleanup_free char *first = xasprintf("%s/a/1." TB, dir), *second = xasprintf("%s/a/2." TB, dir);
    cr_assert(unlink(first) == 0 && unlink(second) == 0);
    cr_expect(runs_scalars(runs, "a", &got, &err) && err.class == ERR_NOT_FOUND);
    bytes_release(&one);
    bytes_release(&two);
    bytes_release(&both);
    bytes_release(&got);
}

/* Is a file of this name open in this process? */
static bool is_open(const char *name)
{
    char target[4096];
    for (int fd = 3; fd < 256; fd++) {
        cleanup_free char *link = xasprintf("/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        if (strstr(target, name))
            return true;
    }
    return false;
}

static void *ask_for_long(void *arg)
{
    cleanup_bytes struct bytes got = {0};
    int *code = arg;
    *code = runs_scalars(runs, "long", &got, NULL);
    return NULL;
}

/* A file that nobody reads to its end is cut off when the others have their answers. */
Test(runs, a_long_file_keeps_only_its_own_run, .timeout = 60)
{
    cleanup_bytes struct bytes b = {0}, list = {0};
    cleanup_free char *path = xasprintf("%s/long/" VDL, dir), *other = xasprintf("%s/kept", dir);
    int64_t step;
    int code = -1;
    pthread_t asks;
    add_scalar(&b, EVENTS_VISUALDL, 3, "loss", 0.5f);
    folder("long");
    folder("short");
    put("long/" VDL, 0, &b);
    put("short/" VDL, 0, &b);
    cr_assert_eq(truncate(path, 1ll << 40), 0); /* what follows are records of no bytes */
    cr_assert_eq(link(path, other), 0);
    cr_assert_eq(pthread_create(&asks, NULL, ask_for_long, &code), 0);
    while (!is_open("long/" VDL))
        sched_yield();
    cr_expect_eq(steps_of("short", "loss", &step, 1), 1);
    cr_expect_eq(runs_list(runs, &list, NULL), 0);
    cr_expect(strstr(list.data, "{\"run\":\"long\",\"bytes\":"), "%s", list.data);
    cr_expect_eq(unlink(path), 0); /* whoever looks meanwhile leaves the run to its reader */
    bytes_clear(&list);
    cr_expect_eq(runs_list(runs, &list, NULL), 0);
    cr_expect(strstr(list.data, "{\"run\":\"long\",\"bytes\":"), "%s", list.data);
    cr_expect_eq(truncate(other, 0), 0);
    cr_assert_eq(pthread_join(asks, NULL), 0);
    cr_expect_eq(code, 0);
    expect_list(
        "{\"runs\":[{\"run\":\"short\",\"bytes\":30,\"damaged\":null,\"scalars\":"
        "[\"loss\"],\"histograms\":[],\"pr\":[],\"images\":[],\"audio\":[],\"graph\":false}]}");
}

Test(runs, many_points_are_thinned)
{
    struct bytes file = {0};
    static int64_t steps[POINTS_KEPT + 1];
    for (int i = 0; i < 5000; i++)
        add_scalar(&file, EVENTS_VISUALDL, i, "loss", 2);
    put("vdlrecords.1.log", 0, &file);
    size_t n = steps_of(".", "loss", steps, POINTS_KEPT + 1);
    cr_assert(n > POINTS_KEPT / 2 && n <= POINTS_KEPT + 1, "%zu", n);
    cr_expect_eq(steps[n - 1], 4999, "the newest");
    for (size_t i = 0; i + 1 < n; i++)
        cr_assert_eq(steps[i], 8 * (int64_t)i, "point %zu is of step %ld", i, (long)steps[i]);
    bytes_release(&file);
}

/* As our trainer writes them, both formats side by side say the same: once. */
Test(runs, both_formats_are_one_run)
{
    struct bytes a = {0}, b = {0};
    int64_t steps[4];
    add_scalar(&a, EVENTS_TENSORBOARD, 1, "loss", 2);
    add_scalar(&b, EVENTS_VISUALDL, 1, "loss", 2);
    put("vdlrecords.1.log", 0, &b);
    cr_expect_eq(steps_of(".", "loss", steps, 4), 1);
    put(TB, 0, &a);
    cr_expect_eq(steps_of(".", "loss", steps, 4), 1);
    bytes_release(&a);
    bytes_release(&b);
}

/* A tag is what the page asks by: what it could not say again it is not told. */
Test(runs, tags_are_texts)
{
    struct bytes file = {0}, got = {0};
    add_scalar(&file, EVENTS_TENSORBOARD, 1, "\xff", 2);
    add_scalar(&file, EVENTS_TENSORBOARD, 1, "\"</script>\n\xc3\xa9", 2);
    put(TB, 0, &file);
    cr_assert_eq(runs_list(runs, &got, NULL), 0);
    cr_expect(strstr(got.data, "\"scalars\":[\"\\\"</script>\\n\xc3\xa9\"]"), "%s", got.data);
    bytes_release(&file);
    bytes_release(&got);
}

Test(runs, damage_is_told)
{
    struct bytes file = {0}, got = {0};
    add_scalar(&file, EVENTS_TENSORBOARD, 1, "loss", 2);
    size_t one = file.len;
    add_scalar(&file, EVENTS_TENSORBOARD, 2, "loss", 2);
    file.data[file.len - 6] ^= 1;
    put(TB, 0, &file);
    cr_assert_eq(runs_list(runs, &got, NULL), 0);
    cleanup_free char *want =
        xasprintf("\"damaged\":\"" TB " is damaged at byte %zu, what follows is lost\"", one);
    cr_expect(strstr(got.data, want), "%s", got.data);
    bytes_release(&file);
    bytes_release(&got);
}

/* A copy over a file leaves its inode, and may be as long or longer. */
Test(runs, written_over_in_place)
{
    struct bytes good = {0}, bad = {0}, anew = {0}, other = {0}, got = {0};
    int64_t steps[5];
    for (int step = 1; step <= 3; step++)
        add_scalar(&good, EVENTS_TENSORBOARD, step, "loss", 2);
    bytes_add(&bad, good.data, good.len);
    bad.data[bad.len / 2] ^= 1;
    for (int step = 7; step <= 9; step++)
        add_scalar(&anew, EVENTS_TENSORBOARD, step, "loss", 2);
    for (int step = 11; step <= 15; step++)
        add_scalar(&other, EVENTS_TENSORBOARD, step, "a longer name", 2);

    put(TB, 0, &bad);
    cr_expect_eq(steps_of(".", "loss", steps, 3), 1);
    put(TB, O_APPEND, &good); /* its writer goes on: what follows is lost all the same */
    cr_expect_eq(steps_of(".", "loss", steps, 3), 1);
    put(TB, O_TRUNC, &good); /* it was mended */
    cr_expect_eq(steps_of(".", "loss", steps, 3), 3);
    cr_assert_eq(runs_list(runs, &got, NULL), 0);
    cr_expect(strstr(got.data, "\"damaged\":null"), "%s", got.data);

    /* Cut off and gone on with, as our trainer does, past what was read. */
    good.len /= 3;
    put(TB, O_TRUNC, &good);
    put(TB, O_APPEND, &anew);
    cr_expect(steps_of(".", "loss", steps, 5) == 4 && steps[1] == 7 && steps[3] == 9);
    good.len *= 3;

    put(TB, O_TRUNC, &other); /* another run's: where it was read on no record begins */
    cr_expect_eq(steps_of(".", "a longer name", steps, 5), 5);
    cr_expect_eq(steps_of(".", "loss", steps, 3), 0);
    bad.data[20] ^= 1; /* damaged from its first record on */
    put(TB, O_TRUNC, &bad);
    cr_expect_eq(steps_of(".", "loss", steps, 3), 0);
    put(TB, O_TRUNC, &good);
    cr_expect_eq(steps_of(".", "loss", steps, 3), 3);
    bytes_release(&good);
    bytes_release(&bad);
    bytes_release(&anew);
    bytes_release(&other);
    bytes_release(&got);
}

/* --- images, histograms, graphs --------------------------------------------------------------- */

static void add_image(struct bytes *out, int64_t step, const char *encoded)
{
    cleanup_bytes struct bytes part = {0}, value = {0}, record = {0};
    pb_text(&part, 4, encoded);
    pb_text(&value, 1, "in");
    pb_bytes(&value, 4, part.data, part.len);
    event_record(&record, step, &value);
    add_record(out, EVENTS_TENSORBOARD, &record);
}

Test(runs, images_are_read_where_they_lie)
{
    struct bytes file = {0}, got = {0};
    const char *type = NULL;
    struct err err = {0};
    add_scalar(&file, EVENTS_TENSORBOARD, 1, "loss", 2);
    size_t first = file.len;
    add_image(&file, 1, "\x89PNG one");
    size_t second = file.len;
    add_image(&file, 2, "<svg>");
    put(TB, 0, &file);
    cleanup_free char *want =
        xasprintf("[[1,1700000000.000,\"0-%zu-0\"],[2,1700000000.000,\"0-%zu-0\"]]", first, second);
    cr_assert_eq(runs_images(runs, ".", "in", &got, NULL), 0);
    cr_expect_str_eq(got.data, want);
    bytes_clear(&got);
    cleanup_free char *place = xasprintf("0-%zu-0", first);
    cr_assert_eq(runs_image(runs, ".", "in", place, &got, &type, NULL), 0);
    cr_expect_str_eq(got.data, "\x89PNG one");
    cr_expect_str_eq(type, "image/png");
    cleanup_free char *page = xasprintf("0-%zu-0", second);
    cr_expect(runs_image(runs, ".", "in", page, &got, &type, &err) && err.class == ERR_NOT_FOUND,
              "what a browser might run is not handed out");
    cr_expect(runs_image(runs, ".", "in", "0-0-0", &got, &type, &err) &&
              err.class == ERR_NOT_FOUND);
    cr_expect(runs_image(runs, "..", "in", place, &got, &type, &err) && err.class == ERR_NOT_FOUND);
    cr_expect(runs_images(runs, ".", "loss", &got, &err) && err.class == ERR_NOT_FOUND);
    bytes_release(&file);
    bytes_release(&got);
}

/* Nothing but the value itself tells: who asks again gets what is there now. */
Test(runs, a_file_that_was_written_over_is_read_anew)
{
    cleanup_bytes struct bytes old = {0}, got = {0};
    const char *type = NULL;
    add_image(&old, 1, "\x89PNG one");
    cleanup_free char *second = xasprintf("0-%zu-0", old.len);
    add_image(&old, 2, "\x89PNG two");
    const struct {
        const char *run, *place, *first;
    } rows[] = {{"another value is there", "0-0-0", "\x89PNG new"},
                {"none is", second, "\x89PNG longer"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cleanup_bytes struct bytes new = {0};
        cleanup_free char *name = xasprintf("%s/" TB, rows[i].run);
        struct err err = {0};
        folder(rows[i].run);
        put(name, 0, &old);
        cr_assert_eq(runs_image(runs, rows[i].run, "in", rows[i].place, &got, &type, NULL), 0);
        add_image(&new, 3, rows[i].first);
        add_image(&new, 4, "\x89PNG two");
        put(name, 0, &new);
        cr_expect(runs_image(runs, rows[i].run, "in", rows[i].place, &got, &type, &err));
        cr_expect_eq(err.class, ERR_TRANSIENT, "%s", err.msg);
        bytes_clear(&got);
        cr_assert_eq(runs_images(runs, rows[i].run, "in", &got, NULL), 0);
        cr_expect(strstr(got.data, "[3,") && strstr(got.data, "[4,"), "%s", got.data);
    }
}

Test(runs, sounds_are_read_where_they_lie)
{
    cleanup_bytes struct bytes file = {0}, got = {0}, sound = {0}, value = {0}, record = {0};
    const char *type = NULL;
    struct err err = {0};
    pb_text(&sound, 4, "RIFF one");
    pb_varint(&value, 1, 7);
    pb_text(&value, 2, "voice");
    pb_bytes(&value, 6, sound.data, sound.len);
    pb_bytes(&record, 1, value.data, value.len);
    add_record(&file, EVENTS_VISUALDL, &record);
    put(VDL, 0, &file);
    cr_assert_eq(runs_audio(runs, ".", "voice", &got, NULL), 0);
    cr_expect_str_eq(got.data, "[[7,0.000,\"0-0-0\"]]");
    bytes_clear(&got);
    cr_assert_eq(runs_clip(runs, ".", "voice", "0-0-0", &got, &type, NULL), 0);
    cr_expect_str_eq(got.data, "RIFF one");
    cr_expect_str_eq(type, "audio/wav");
    cr_expect(runs_image(runs, ".", "voice", "0-0-0", &got, &type, &err) &&
              err.class == ERR_NOT_FOUND);
    cr_expect(runs_clip(runs, ".", "voice", "0-1-0", &got, &type, &err) &&
              err.class == ERR_NOT_FOUND);
}

Test(runs, histograms_of_all_steps_evenly)
{
    struct bytes file = {0}, got = {0};
    for (int step = 0; step < 50; step++) {
        cleanup_bytes struct bytes histo = {0}, value = {0}, record = {0};
        pb_doubles(&histo, 1, (double[]){1, 2}, 2);
        pb_doubles(&histo, 2, (double[]){0, 0.5, 1}, 3);
        pb_varint(&value, 1, (uint64_t)step);
        pb_text(&value, 2, "w");
        pb_bytes(&value, 8, histo.data, histo.len);
        pb_bytes(&record, 1, value.data, value.len);
        add_record(&file, EVENTS_VISUALDL, &record);
    }
    put("vdlrecords.1.log", 0, &file);
    cr_assert_eq(runs_histograms(runs, ".", "w", &got, NULL), 0);
    cleanup_json struct json_doc *doc = NULL;
    cr_assert_eq(json_parse(&doc, "histograms", got.data, got.len, NULL), 0);
    struct json all = json_root(doc);
    size_t n = json_count(&all);
    cr_assert(n > BARS_SHOWN / 2 && n <= BARS_SHOWN, "%zu", n);
    struct json last = json_at(&all, n - 1);
    cleanup_bytes struct bytes text = {0};
    json_text(&last, &text);
    cr_expect_str_eq(text.data, "{\"step\":49,\"edges\":[0,0.5,1],\"counts\":[1,2]}");
    bytes_release(&file);
    bytes_release(&got);
}

/* As VisualDL writes it. */
static void add_pr(struct bytes *out, int64_t step, size_t n_precision, size_t n_recall)
{
    static const double precision[] = {0.25, 0.5, 1}, recall[] = {1, 0.75, 0};
    cleanup_bytes struct bytes curve = {0}, value = {0}, record = {0};
    pb_varints(&curve, 1, (uint64_t[]){3, 2, 0}, 3);
    pb_doubles(&curve, 5, precision, n_precision);
    pb_doubles(&curve, 6, recall, n_recall);
    pb_varint(&value, 1, (uint64_t)step);
    pb_text(&value, 2, "test");
    pb_bytes(&value, 9, curve.data, curve.len);
    pb_bytes(&record, 1, value.data, value.len);
    add_record(out, EVENTS_VISUALDL, &record);
}

Test(runs, precision_and_recall)
{
    struct bytes file = {0}, got = {0};
    add_pr(&file, 1, 3, 3);
    add_pr(&file, 2, 3, 2); /* which belongs to which? */
    add_pr(&file, 3, 0, 0);
    add_pr(&file, 4, 1, 1);
    put("vdlrecords.1.log", 0, &file);
    cr_assert_eq(runs_pr(runs, ".", "test", &got, NULL), 0);
    cr_expect_str_eq(got.data, "[{\"step\":1,\"recall\":[1,0.75,0],\"precision\":[0.25,0.5,1]},"
                               "{\"step\":4,\"recall\":[1],\"precision\":[0.25]}]");
    bytes_release(&file);
    bytes_release(&got);
}

static void add_node(struct bytes *graph, unsigned name, unsigned op, unsigned input,
                     unsigned output, const char *const text[4])
{
    cleanup_bytes struct bytes node = {0};
    pb_text(&node, name, text[0]);
    pb_text(&node, op, text[1]);
    pb_text(&node, input, text[2]);
    if (output)
        pb_text(&node, output, text[3]);
    pb_bytes(graph, 1, node.data, node.len);
}

Test(runs, graphs)
{
    struct bytes graph = {0}, file = {0}, event = {0}, model = {0}, got = {0};
    struct err err = {0};
    /* A model: what is no node is passed over. */
    pb_varint(&model, 1, 8);
    pb_text(&graph, 2, "net");
    add_node(&graph, 3, 4, 1, 2, (const char *[]){"n", "Conv", "x", "y"});
    pb_bytes(&graph, 5, "weights", 7);
    add_node(&graph, 3, 4, 1, 2, (const char *[]){"", "Relu", "y", "z"});
    pb_bytes(&model, 7, graph.data, graph.len);
    put("net.onnx", 0, &model);
    cr_assert_eq(runs_graph(runs, ".", &got, NULL), 0);
    cr_expect_str_eq(got.data, "{\"nodes\":[[\"n\",\"Conv\",[\"x\"],[\"y\"]],"
                               "[\"\",\"Relu\",[\"y\"],[\"z\"]]]}");
    /* Cut anywhere, it is damaged, and nothing worse. */
    for (size_t n = 0; n + 1 < model.len; n++) {
        struct bytes part = {.data = model.data, .len = n};
        put("net.onnx", O_TRUNC, &part);
        bytes_clear(&got);
        cr_expect(runs_graph(runs, ".", &got, &err) && err.class == ERR_CORRUPT, "%zu bytes", n);
    }
    /* An event file's own graph comes first. */
    bytes_clear(&graph);
    bytes_clear(&got);
    add_node(&graph, 1, 2, 3, 0, (const char *[]){"conv", "Conv2D", "data:0", ""});
    pb_bytes(&event, 4, graph.data, graph.len);
    add_record(&file, EVENTS_TENSORBOARD, &event);
    put(TB, 0, &file);
    cr_assert_eq(runs_graph(runs, ".", &got, NULL), 0);
    cr_expect_str_eq(got.data, "{\"nodes\":[[\"conv\",\"Conv2D\",[\"data:0\"]]]}");
    bytes_release(&graph);
    bytes_release(&file);
    bytes_release(&event);
    bytes_release(&model);
    bytes_release(&got);
}

/* Event.8 of two devices: step_stats.dev_stats {device, node_stats {name, micros, memory, nanos}}.
 */
static void add_costs(struct bytes *event, const char *tag, double time, uint64_t micros)
{
    cleanup_bytes struct bytes steps = {0}, run = {0}, tagged = {0};
    for (int i = 0; i < 2; i++) {
        cleanup_bytes struct bytes device = {0}, node = {0}, memory = {0};
        pb_text(&device, 1, i ? "/device:GPU:0" : "/device:CPU:0");
        pb_text(&node, 1, "conv");
        pb_varint(&node, 2, 77);
        pb_varint(&node, 5, micros);
        for (int k = 0; k < 2; k++) {
            bytes_clear(&memory);
            pb_text(&memory, 1, "pool");
            pb_varint(&memory, 2, 500);
            pb_bytes(&node, 6, memory.data, memory.len);
        }
        if (i)
            pb_varint(&node, 16, 1500);
        pb_bytes(&device, 2, node.data, node.len);
        pb_bytes(&steps, 1, device.data, device.len);
    }
    pb_bytes(&run, 1, steps.data, steps.len);
    pb_text(&tagged, 1, tag);
    pb_bytes(&tagged, 2, run.data, run.len);
    bytes_clear(event);
    pb_double(event, 1, time);
    pb_bytes(event, 8, tagged.data, tagged.len);
}

Test(runs, what_nodes_cost)
{
    struct bytes graph = {0}, file = {0}, event = {0}, got = {0};
    add_costs(&event, "old", 1, 9);
    add_record(&file, EVENTS_TENSORBOARD, &event);
    put(TB, 0, &file);
    struct err err = {0};
    cr_expect(runs_graph(runs, ".", &got, &err) && err.class == ERR_NOT_FOUND, "of no graph");
    bytes_clear(&file);
    bytes_clear(&event);
    bytes_clear(&got);
    add_node(&graph, 1, 2, 3, 0, (const char *[]){"conv", "Conv2D", "data", ""});
    pb_bytes(&event, 4, graph.data, graph.len);
    add_record(&file, EVENTS_TENSORBOARD, &event);
    add_costs(&event, "new", 3, 7); /* is newer than what follows */
    add_record(&file, EVENTS_TENSORBOARD, &event);
    add_costs(&event, "older", 2, 8);
    add_record(&file, EVENTS_TENSORBOARD, &event);
    put(TB, O_APPEND, &file);
    cr_assert_eq(runs_graph(runs, ".", &got, &err), 0, "%s", err.msg);
    cr_expect_str_eq(got.data, "{\"nodes\":[[\"conv\",\"Conv2D\",[\"data\"]]],\"costs\":{\"tag\":"
                               "\"new\",\"devices\":[\"/device:CPU:0\",\"/device:GPU:0\"],"
                               "\"nodes\":[[\"conv\",0,7.000,1000],[\"conv\",1,1.500,1000]]}}");
    bytes_release(&graph);
    bytes_release(&file);
    bytes_release(&event);
    bytes_release(&got);
}

/* A length that begins in the graph and goes on behind it would lead back to its begin, for ever.
 */
Test(runs, a_model_that_leads_back, .timeout = 60)
{
    static const char text[] = "\x3a\x01\x2a\xf5\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    const struct bytes model = {.data = (char *)(uintptr_t)text, .len = sizeof text - 1};
    struct bytes got = {0};
    struct err err = {0};
    put("net.onnx", 0, &model);
    cr_expect(runs_graph(runs, ".", &got, &err) && err.class == ERR_CORRUPT);
    bytes_release(&got);
}

/* A file of any length makes no answer of any length. */
Test(runs, a_graph_too_large_to_be_shown)
{
    struct bytes input = {0}, node = {0}, graph = {0}, event = {0}, file = {0}, got = {0};
    struct err err = {0};
    char name[6000];
    memset(name, 'x', sizeof name);
    pb_bytes(&input, 3, name, sizeof name);
    pb_bytes(&graph, 1, input.data, input.len);
    pb_bytes(&event, 4, graph.data, graph.len);
    add_record(&file, EVENTS_TENSORBOARD, &event);
    put(TB, 0, &file);
    cr_expect(runs_graph(runs, ".", &got, &err) == 0 && got.len < 5000, "a name is cut: %zu",
              got.len);
    while (node.len < 32u << 20)
        bytes_add(&node, input.data, input.len);
    bytes_clear(&graph);
    bytes_clear(&event);
    bytes_clear(&file);
    pb_bytes(&graph, 1, node.data, node.len);
    pb_bytes(&event, 4, graph.data, graph.len);
    add_record(&file, EVENTS_TENSORBOARD, &event);
    put(TB, O_TRUNC, &file);
    bytes_clear(&got);
    cr_expect(runs_graph(runs, ".", &got, &err) && err.class == ERR_LIMIT && got.len < 17u << 20,
              "%zu bytes", got.len);
    bytes_release(&input);
    bytes_release(&node);
    bytes_release(&graph);
    bytes_release(&event);
    bytes_release(&file);
    bytes_release(&got);
}
