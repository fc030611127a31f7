/* Checkpoints: what is written, what is read back, what is passed over, what stays. */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

#include "saved.h"
#include "crc.h"

static int load(struct world *w, struct checkpoint *c, struct err *err)
{
    fill(w->n, 0);
    int got = checkpoint_load(w->dir, w->n, NULL, c, w->log, err);
    fflush(w->log_file);
    return got;
}

static char *path(const struct world *w, const char *name)
{
    return xasprintf("%s/%s", w->dir, name);
}

static bool logged(const struct world *w, const char *part)
{
    return w->text && strstr(w->text, part);
}

Test(checkpoint, comes_back_to_the_bit)
{
    struct world w;
    setup(&w);
    struct checkpoint c;
    struct err err = {0};
    cr_expect_eq(load(&w, &c, &err), 0, "there is none");
    save(&w, 1, 0, 1);
    save(&w, 1, 3, 2);
    cr_assert_eq(load(&w, &c, &err), 1, "%s", err.msg);
    cr_expect(c.pass == 1 && c.batch == 3 && c.step == 13 && c.seed == 5);
    cr_expect_str_eq(c.token, "a token");
    cr_expect(c.loss == 0.1 && c.learned.samples == 24 && c.skipped == 1 && c.learned.loss == 1.0 &&
              c.learned.right == 2);
    cr_expect(c.period_batches == 2 && c.period.samples == 16 && c.period.loss == 3.0 / 7 &&
              c.period.right == 1);
    cr_expect(holds(w.n, 2));
    save(&w, 2, 0, 3);
    cr_assert_eq(load(&w, &c, &err), 1);
    cr_expect(c.pass == 2 && c.batch == 0 && holds(w.n, 3), "a whole pass is newer than a part");
    teardown(&w);
}

static size_t read_text(const char *file, char *out, size_t size)
{
    FILE *f = fopen(file, "re");
    cr_assert(f);
    size_t n = fread(out, 1, size - 1, f);
    fclose(f);
    out[n] = '\0';
    return n;
}

static void write_text(const char *file, const char *text)
{
    FILE *f = fopen(file, "we");
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void cut_out(char *text, const char *key)
{
    char *from = strstr(text, key);
    cr_assert(from, "%s", key);
    const char *end = strchr(from, '}') + 2;
    memmove(from, end, strlen(end) + 1);
}

#define STATE 8192 /* bytes of text */

static void get_state(const struct world *w, const char *place, char text[STATE])
{
    cleanup_free char *name = xasprintf("%s/state.json", place), *state = path(w, name);
    cr_assert(read_text(state, text, STATE) < STATE - 1);
}

/* Made by hand, and whole. */
static void put_state(const struct world *w, const char *place, const char *text)
{
    char mark[64];
    cleanup_free char *name = xasprintf("%s/state.json", place), *state = path(w, name),
                      *done_name = xasprintf("%s/done", place), *done = path(w, done_name);
    write_text(state, text);
    snprintf(mark, sizeof mark, "sampan-checkpoint 1 %08x\n", crc32c(0, text, strlen(text)));
    write_text(done, mark);
}

/* Older programs did not write what was learned of the pass, nor of the period. */
Test(checkpoint, of_an_older_program)
{
    struct world w;
    setup(&w);
    char text[STATE];
    struct checkpoint c;
    struct err err = {0};
    save(&w, 1, 3, 2);
    get_state(&w, "pass-00001-batch-000000003", text);
    cut_out(text, "\"learned\":{");
    cut_out(text, "\"period\":{");
    put_state(&w, "pass-00001-batch-000000003", text);
    cr_assert_eq(load(&w, &c, &err), 1, "%s", w.text);
    cr_expect(c.batch == 3 && c.learned.samples == 0 && c.learned.loss == 0 && holds(w.n, 2));
    cr_expect(c.period_batches == 0 && c.period.samples == 0 && c.period.loss == 0);
    teardown(&w);
}

/* Else what has no file would begin at zeros. */
Test(checkpoint, of_a_file_that_is_named_twice)
{
    struct world w;
    setup(&w);
    char text[STATE], twice[2 * STATE];
    struct checkpoint c;
    struct err err = {0};
    save(&w, 1, 0, 2);
    get_state(&w, "pass-00000", text);
    cut_out(text, "{\"name\":\"___fc_layer_1__.w0\"");
    const char *last = strstr(text, "{\"name\":\"momentum\"");
    snprintf(twice, sizeof twice, "%.*s,%s", (int)(strlen(text) - strlen("]}\n")), text, last);
    put_state(&w, "pass-00000", twice);
    cr_expect_eq(load(&w, &c, &err), -1);
    cr_expect(strstr(err.msg, "another model (___fc_layer_1__.w0 does not fit)"), "%s", err.msg);
    teardown(&w);
}

Test(checkpoint, layout_is_paddles)
{
    struct world w;
    setup(&w);
    unsigned char head[16];
    struct stat st;
    save(&w, 3, 0, 1);
    cleanup_free char *file = path(&w, "pass-00002/___fc_layer_0__.wbias"),
                      *done = path(&w, "pass-00002/done");
    int fd = open(file, O_RDONLY);
    cr_assert(fd >= 0);
    cr_assert_eq(read(fd, head, sizeof head), 16);
    static const unsigned char want[16] = {0, 0, 0, 0, 4, 0, 0, 0, 8};
    cr_expect_eq(memcmp(head, want, 16), 0);
    cr_expect(fstat(fd, &st) == 0 && st.st_size == 16 + 8 * 4);
    close(fd);
    cr_expect_eq(access(done, F_OK), 0);
    teardown(&w);
}

/* Each way of being torn: the one before it is taken, and the log says why. Where there is none
 * before it, nothing of it is: training begins anew from its begin. */
Test(checkpoint, torn_ones_are_passed_over)
{
    static const struct {
        const char *file;
        long cut; /* to this length; -1: removed, -2: a byte changed */
        const char *why;
    } rows[] = {
        {"done", -1, "it was never finished"},
        {"done", 5, "state.json: it is torn or damaged"},
        {"state.json", 40, "state.json: it is torn or damaged"},
        {"state.json", -1, "state.json: No such file"},
        {"state.json", -2, "state.json: it is torn or damaged"},
        {"momentum", 100, "momentum: it is torn or damaged"},
        {"momentum", -2, "momentum: it is torn or damaged"},
        {"___fc_layer_1__.w0", -1, "___fc_layer_1__.w0: No such file"},
        {"___fc_layer_1__.w0", 0, "___fc_layer_1__.w0: it is torn or damaged"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world w;
        setup(&w);
        struct checkpoint c;
        struct err err = {0};
        save(&w, 1, 0, 1);
        save(&w, 2, 0, 2);
        cleanup_free char *name = xasprintf("pass-00001/%s", rows[i].file), *file = path(&w, name);
        if (rows[i].cut >= 0)
            cr_assert_eq(truncate(file, rows[i].cut), 0);
        else if (rows[i].cut == -1)
            cr_assert_eq(unlink(file), 0);
        else {
            int fd = open(file, O_RDWR);
            cr_assert_eq(pwrite(fd, "~", 1, 30), 1);
            close(fd);
        }
        cr_expect_eq(load(&w, &c, &err), 1, "row %zu: %s", i, err.msg);
        cr_expect(c.pass == 1 && holds(w.n, 1), "row %zu", i);
        cr_expect(logged(&w, "pass-00001 is passed over: ") && logged(&w, rows[i].why),
                  "row %zu: %s", i, w.text);
        cleanup_free char *before = path(&w, "pass-00000/done");
        cr_assert_eq(unlink(before), 0);
        c = (struct checkpoint){.seed = 7};
        cr_expect_eq(load(&w, &c, &err), 0, "row %zu: %s", i, err.msg);
        cr_expect(c.seed == 7 && c.pass == 0 && c.step == 0, "row %zu: pass %d", i, (int)c.pass);
        teardown(&w);
    }
}

/* It may be whole: neither an older one is taken, nor does training begin anew. */
Test(checkpoint, one_that_cannot_be_read_is_not_torn)
{
    static const struct {
        const char *file;
        bool folder; /* in its place; else a link that leads nowhere but to itself */
        const char *why;
    } rows[] = {
        {"state.json", true, "/pass-00001: state.json: Is a directory"},
        {"momentum", true, "/pass-00001: momentum: Is a directory"},
        {"___fc_layer_1__.w0", true, "/pass-00001: ___fc_layer_1__.w0: Is a directory"},
        {"___fc_layer_1__.w0", false, "___fc_layer_1__.w0: Too many levels of symbolic links"},
        {"done", false, ": pass-00001/done: Too many levels of symbolic links"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world w;
        setup(&w);
        struct checkpoint c;
        struct err err = {0};
        save(&w, 1, 0, 1);
        save(&w, 2, 0, 2);
        cleanup_free char *name = xasprintf("pass-00001/%s", rows[i].file), *file = path(&w, name);
        cr_assert_eq(unlink(file), 0);
        cr_assert_eq(rows[i].folder ? mkdir(file, 0700) : symlink(rows[i].file, file), 0);
        cr_expect_eq(load(&w, &c, &err), -1, "row %zu", i);
        cr_expect(strstr(err.msg, rows[i].why), "row %zu: %s", i, err.msg);
        cr_expect(strcmp(rows[i].file, "done") == 0 || strstr(err.msg, "or --resume never"),
                  "row %zu: %s", i, err.msg);
        cr_expect(holds(w.n, 0), "row %zu: nothing of it got into the net", i);
        teardown(&w);
    }
}

Test(checkpoint, of_another_model)
{
    struct world w;
    setup(&w);
    struct checkpoint c;
    struct err err = {0};
    struct net *mine = w.n, *wider = net_of(w.b, "mlp", 9), *softmax = net_of(w.b, "softmax", 8);
    w.n = wider;
    save(&w, 2, 0, 2);
    w.n = mine;
    cr_expect_eq(load(&w, &c, &err), -1);
    cr_expect(strstr(err.msg, "none is of this model: it is of another model") &&
                  strstr(err.msg, "another --save_dir, or --resume never"),
              "%s", err.msg);
    cr_expect(holds(w.n, 0), "nothing of it got into the net");
    save(&w, 1, 0, 1);
    cr_expect_eq(load(&w, &c, &err), 1);
    cr_expect(c.pass == 1 && holds(w.n, 1));
    w.n = softmax;
    cr_expect_eq(load(&w, &c, &err), -1);
    cr_expect(strstr(err.msg, "of another model (mlp)"), "%s", err.msg);
    w.n = mine;
    net_free(wider);
    net_free(softmax);
    teardown(&w);
}

static int folders(const struct world *w)
{
    int n = 0;
    for (int pass = 0; pass < 10; pass++) {
        char name[32];
        snprintf(name, sizeof name, "pass-%05d", pass);
        cleanup_free char *p = path(w, name);
        n |= (access(p, F_OK) == 0) << pass;
    }
    return n;
}

Test(checkpoint, keeps_the_newest)
{
    struct world w;
    setup(&w);
    struct err err = {0};
    for (uint64_t pass = 1; pass <= 5; pass++) {
        struct checkpoint c = {.pass = pass, .step = pass};
        cr_assert_eq(checkpoint_save(w.dir, w.n, &c, NULL, 2, NULL, 0, &err), 0, "%s", err.msg);
        cr_expect_eq(folders(&w), pass == 1 ? 1 : 3 << (pass - 2), "after %d", (int)pass);
    }
    cleanup_free char *done = path(&w, "pass-00004/done"), *other = path(&w, "pass-of-others");
    cr_assert_eq(unlink(done), 0);
    cr_assert_eq(mkdir(other, 0700), 0);
    struct checkpoint c = {.pass = 6, .step = 6};
    cr_assert_eq(checkpoint_save(w.dir, w.n, &c, NULL, 2, NULL, 0, &err), 0);
    cr_expect_eq(folders(&w), 0x38, "a torn one does not count among those kept");
    cr_expect_eq(access(other, F_OK), 0, "what is no checkpoint stays");
    teardown(&w);
}

static int entries(const struct world *w)
{
    int n = 0;
    DIR *d = opendir(w->dir);
    cr_assert(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

Test(checkpoint, written_over_itself)
{
    struct world w;
    setup(&w);
    struct checkpoint c;
    struct err err = {0};
    save(&w, 1, 0, 1);
    save(&w, 1, 0, 4);
    cr_assert_eq(load(&w, &c, &err), 1, "%s", err.msg);
    cr_expect(holds(w.n, 4));
    cr_expect_eq(entries(&w), 1, "nothing is left beside it");
    teardown(&w);
}

/* What cannot be written to its end costs nothing that is whole, not even one of the same name. */
Test(checkpoint, a_whole_one_outlives_a_failed_writing_of_its_name)
{
    struct world w;
    setup(&w);
    struct checkpoint c = {.pass = 1};
    struct err err = {0};
    save(&w, 1, 0, 1);
    const struct param *last = net_param(w.n, net_n_params(w.n) - 1);
    fill(w.n, 2);
    net_weights(w.n)[last->at + last->n - 1] = INFINITY;
    cr_expect_eq(checkpoint_save(w.dir, w.n, &c, NULL, 0, NULL, 0, &err), -1);
    cr_expect(strstr(err.msg, "/pass-00000 is not saved"), "%s", err.msg);
    cr_expect_eq(load(&w, &c, &err), 1, "it is gone");
    cr_expect(holds(w.n, 1));
    cr_expect_eq(entries(&w), 1, "nothing is left beside it");
    /* The next one makes do with what a killed run has left. */
    cleanup_free char *beside = path(&w, "saving.new"), *left = path(&w, "saving.new/momentum");
    for (uint64_t pass = 1; pass <= 2; pass++) { /* one of the same name, one of another */
        cr_assert_eq(mkdir(beside, 0700), 0);
        write_text(left, "half of it");
        save(&w, pass, 0, (float)(pass + 2));
        cr_expect_eq(load(&w, &c, &err), 1);
        cr_expect(holds(w.n, (float)(pass + 2)));
        cr_expect_eq(entries(&w), (int)pass);
    }
    teardown(&w);
}

/* On a mount that cannot exchange two folders one is out of its place for a moment. */
Test(checkpoint, one_that_was_about_to_be_replaced)
{
    struct world w;
    setup(&w);
    struct checkpoint c;
    struct err err = {0};
    save(&w, 1, 0, 1);
    save(&w, 1, 3, 2);
    cleanup_free char *place = path(&w, "pass-00001-batch-000000003"),
                      *old = path(&w, "pass-00001-batch-000000003.old");
    cr_assert_eq(rename(place, old), 0);
    cr_assert_eq(load(&w, &c, &err), 1, "%s", err.msg);
    cr_expect(c.batch == 3 && holds(w.n, 2), "an older one");
    cr_assert_eq(mkdir(place, 0700), 0); /* the next one of its name is being written */
    cr_assert_eq(load(&w, &c, &err), 1, "%s", err.msg);
    cr_expect(c.batch == 3 && holds(w.n, 2), "an older one");
    save(&w, 1, 3, 4);
    cr_assert_eq(load(&w, &c, &err), 1, "%s", err.msg);
    cr_expect(c.batch == 3 && holds(w.n, 4));
    cr_expect_eq(entries(&w), 2, "nothing is left beside it");
    teardown(&w);
}

Test(checkpoint, folder_that_cannot_be_written)
{
    struct world w;
    setup(&w);
    struct checkpoint c = {.pass = 1};
    struct err err = {0};
    cleanup_free char *file = path(&w, "file"), *below = path(&w, "file/below");
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    cr_expect_eq(checkpoint_save(file, w.n, &c, NULL, 0, NULL, 0, &err), -1);
    cr_expect(strstr(err.msg, "Not a directory"), "%s", err.msg);
    cr_expect_eq(checkpoint_save(below, w.n, &c, NULL, 0, NULL, 0, &err), -1);
    /* A full disk, as the writer sees it. */
    cleanup_free char *pass = path(&w, "pass-00000"),
                      *full = path(&w, "pass-00000/___fc_layer_2__.w0");
    cr_assert_eq(mkdir(pass, 0700), 0);
    cr_assert_eq(mkdir(full, 0700), 0);
    err_clear(&err);
    cr_expect_eq(checkpoint_save(w.dir, w.n, &c, NULL, 0, NULL, 0, &err), -1);
    cr_expect(strstr(err.msg, "checkpoint: write ") && strstr(err.msg, "___fc_layer_2__.w0"), "%s",
              err.msg);
    cleanup_free char *done = path(&w, "pass-00000/done");
    cr_expect_neq(access(done, F_OK), 0);
    teardown(&w);
}

Test(checkpoint, a_mean_that_was_not_kept_begins_at_the_weights)
{
    struct world w;
    setup(&w);
    struct checkpoint c;
    struct err err = {0};
    save(&w, 1, 0, 3);
    cr_assert_eq(net_track_mean(w.n, &err), 0);
    net_mean(w.n)[0] = 42;
    cr_assert_eq(load(&w, &c, &err), 1, "%s", err.msg);
    cr_expect(holds(w.n, 3));
    cr_expect_eq(memcmp(net_mean(w.n), net_weights(w.n), net_floats(w.n) * sizeof(float)), 0);
    teardown(&w);
}

Test(checkpoint, mean_is_kept)
{
    struct world w;
    setup(&w);
    struct checkpoint c;
    struct err err = {0};
    cr_assert_eq(net_track_mean(w.n, &err), 0);
    net_mean(w.n)[0] = 42;
    save(&w, 1, 0, 1);
    net_mean(w.n)[0] = 0;
    cr_assert_eq(load(&w, &c, &err), 1, "%s", err.msg);
    cr_expect_eq(net_mean(w.n)[0], 42);
    struct net *plain = net_of(w.b, "mlp", 8), *mine = w.n;
    w.n = plain;
    cr_expect_eq(load(&w, &c, &err), 1, "loaded without --ema: %s", err.msg);
    w.n = mine;
    net_free(plain);
    teardown(&w);
}

Test(checkpoint, by_its_name)
{
    struct world w;
    struct checkpoint c = {0};
    setup(&w);
    save(&w, 1, 0, 1);
    save(&w, 2, 0, 2);
    struct {
        const char *name;
        int want;
        float with;
        enum err_class class;
    } rows[] = {{"", 1, 2, ERR_NONE},
                {"/pass-00000", 1, 1, ERR_NONE},
                {"/pass-00001", 1, 2, ERR_NONE},
                {"/pass-00009", -1, 0, ERR_NOT_FOUND},
                {"/empty", -1, 0, ERR_NOT_FOUND}};
    cleanup_free char *empty = xasprintf("%s/empty", w.dir);
    cr_assert_eq(mkdir(empty, 0755), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = {0};
        cleanup_free char *at = xasprintf("%s%s", w.dir, rows[i].name);
        fill(w.n, 9);
        cr_expect_eq(checkpoint_load_named(at, w.n, NULL, &c, w.log, &err), rows[i].want,
                     "row %zu: %s", i, err.msg);
        cr_expect_eq(err.class, rows[i].class, "row %zu: %s", i, err.msg);
        cr_expect(rows[i].want < 0 || holds(w.n, rows[i].with), "row %zu", i);
    }
    teardown(&w);
}

Test(checkpoint, end_of_a_pass_before)
{
    static const struct {
        uint64_t before;
        const char *want; /* NULL: none */
    } rows[] = {{0, NULL}, {1, "/pass-00000"}, {2, "/pass-00000"}, {3, "/pass-00002"}};
    struct world w;
    setup(&w);
    save(&w, 1, 0, 1);
    save(&w, 1, 7, 1);
    save(&w, 2, 0, 1);
    save(&w, 3, 0, 1);
    save(&w, 3, 4, 1);
    cleanup_free char *place = path(&w, "pass-00003-batch-000000004/"),
                      *torn = path(&w, "pass-00001/done");
    cr_assert_eq(unlink(torn), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cleanup_free char *got = checkpoint_pass_end(place, rows[i].before);
        cr_expect(rows[i].want ? got && strstr(got, rows[i].want) : !got, "row %zu: %s", i,
                  got ? got : "none");
    }
    teardown(&w);
}

/* What a predictor builds the net by; and a checkpoint of a program that did not write it. */
/* What could not be trained on from is no checkpoint; the one before it stays. */
Test(checkpoint, numbers_that_are_none_are_not_saved)
{
    struct world w;
    struct checkpoint c = {.pass = 2};
    struct err err = {0};
    setup(&w);
    save(&w, 1, 0, 1);
    const struct param *last = net_param(w.n, net_n_params(w.n) - 1);
    fill(w.n, 2);
    net_weights(w.n)[last->at + last->n - 1] = INFINITY;
    cr_expect_eq(checkpoint_save(w.dir, w.n, &c, NULL, 3, NULL, 0, &err), -1);
    cr_expect(strstr(err.msg, last->name) && strstr(err.msg, "is not saved"), "%s", err.msg);
    cr_expect_eq(load(&w, &c, &err), 1);
    cr_expect(holds(w.n, 1));
    teardown(&w);
}
