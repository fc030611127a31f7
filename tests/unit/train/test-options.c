/* Options, learning rates, the order of batches, lines of the progress. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batch.h"
#include "clock.h"
#include "options.h"
#include "report.h"
#include "schedule.h"

static int read_words(struct options *o, struct conf **conf, const char *const *words,
                      struct err *err)
{
    char *argv[16] = {(char *)"sampan-train"};
    int argc = 1;
    while (words[argc - 1]) {
        argv[argc] = (char *)words[argc - 1];
        argc++;
    }
    return options_read(o, conf, argc, argv, err);
}

Test(options, paddles_words)
{
    static const char *const words[] = {"--num_passes=10", "--trainer_count=4", "--use_gpu=0",
                                        "--log_period=50", "--dot_period=10",   "--saving_period=1",
                                        "--local=0",       "--trainer_id=2",    NULL};
    struct options o;
    struct conf *conf = NULL;
    struct err err = {0};
    cr_assert_eq(read_words(&o, &conf, words, &err), 0, "%s", err.msg);
    cr_expect(o.num_passes == 10 && o.trainer_count == 4 && o.log_period == 50 &&
              o.dot_period == 10 && o.saving_period == 1 && o.local == 0 && o.trainer_id == 2);
    cr_expect_str_eq(o.device, "cpu");
    conf_free(conf);
}

Test(options, other_names_for_the_same)
{
    static const char *const words[] = {"--epochs=3",   "--batch-size=8", "--workers=2",
                                        "--save-dir=s", "--logdir=l",     NULL};
    struct options o;
    struct conf *conf = NULL;
    struct err err = {0};
    cr_assert_eq(read_words(&o, &conf, words, &err), 0, "%s", err.msg);
    cr_expect(o.num_passes == 3 && o.batch_size == 8 && o.loader_threads == 2);
    cr_expect_str_eq(o.save_dir, "s");
    cr_expect_str_eq(o.log_dir, "l");
    conf_free(conf);
}

Test(options, a_file_in_pythons_syntax)
{
    char file[] = "/tmp/sampan-unit-XXXXXX";
    int fd = mkstemp(file);
    static const char text[] = "# a comment\nmodel = \"movie\"\nbatch_size = 64\n"
                               "learning_rate = 0.05\ndata='train'\nskip_bad = True\n"
                               "own_data = False\nuse_gpu = False\nlocal = True\n";
    cr_assert_eq(write(fd, text, sizeof text - 1), (ssize_t)sizeof text - 1);
    close(fd);
    const char *const words[] = {"--config", file, "--batch_size=7", NULL};
    struct options o;
    struct conf *conf = NULL;
    struct err err = {0};
    cr_assert_eq(read_words(&o, &conf, words, &err), 0, "%s", err.msg);
    cr_expect_str_eq(o.model, "movie");
    cr_expect_str_eq(o.data, "train");
    cr_expect(o.batch_size == 7 && o.rate == 0.05);
    cr_expect(o.skip_bad && !o.own_data && o.use_gpu == 0 && o.local == 1);
    cr_expect_str_eq(o.device, "cpu");
    conf_free(conf);
    unlink(file);
}

Test(options, zero_and_one_have_words)
{
    static const char *const words[][3] = {{"--use_gpu=true"}, {"--use_gpu", "True"}};
    for (size_t i = 0; i < 2; i++) {
        struct options o;
        struct conf *conf = NULL;
        struct err err = {0};
        cr_assert_eq(read_words(&o, &conf, words[i], &err), 0, "%s", err.msg);
        cr_expect_str_eq(o.device, "cuda");
        conf_free(conf);
    }
}

Test(options, refused)
{
    static const struct {
        const char *word, *want;
    } rows[] = {
        {"--learning_rate=x", "--learning_rate: x: want a number of 0 to"},
        {"--momentum=1.5", "--momentum: 1.5: want a number of 0 to 0.999999"},
        {"--momentum=1", "--momentum: 1: want a number of 0 to 0.999999"},
        {"--ema=1", "--ema: 1: want a number of 0 to 0.999999"},
        {"--ema=0.99999999", "--ema: 0.99999999: want a number of 0 to 0.999999"},
        {"--ema=nan", "--ema: nan: want a number"},
        {"--optimizer=adam", "--optimizer: adam: want momentum or lars"},
        {"--batch_size=0", "batch_size"},
        {"--rendezvous_timeout=0", "--rendezvous_timeout: \"0\" is too short (at least 1.0s)"},
        {"--collective_timeout=999ms", "\"999ms\" is too short"},
        {"--use_gpu=maybe", "\"maybe\" is not a whole number"},
        {"--use_gpu=2", "2 is not within -1 to 1"},
        {"--trainer_id=true", "\"true\" is not a whole number"},
        {"--num_pases=1", "did you mean --num_passes?"},
        {"data", "data: an option without its name"},
        {"--save_dir=", "--save_dir: empty: want a folder"},
        {"--test_data=", "--test_data: empty: want a folder"},
        {"--comment=a-name-of-64-letters-123456789-123456789-123456789-123456789-123",
         "--comment: longer than 63 letters"},
        {"--resume=", "--resume: empty: want auto, never or a folder"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *const words[] = {rows[i].word, NULL};
        struct options o;
        struct conf *conf = NULL;
        struct err err = {0};
        cr_expect_eq(read_words(&o, &conf, words, &err), -1, "%s", rows[i].word);
        cr_expect(strstr(err.msg, rows[i].want), "%s: %s", rows[i].word, err.msg);
        conf_free(conf);
    }
}

Test(schedule, rates)
{
    static const struct {
        struct schedule s;
        uint64_t step;
        double want;
    } rows[] = {
        {{SCHEDULE_CONSTANT, 0.1, 0, 100, 0, 0}, 99, 0.1},
        {{SCHEDULE_CONSTANT, 0.1, 10, 100, 0, 0}, 0, 0.01},
        {{SCHEDULE_CONSTANT, 0.1, 10, 100, 0, 0}, 9, 0.1},
        {{SCHEDULE_STEP, 1, 0, 100, 30, 0.1}, 29, 1},
        {{SCHEDULE_STEP, 1, 0, 100, 30, 0.1}, 30, 0.1},
        {{SCHEDULE_STEP, 1, 0, 100, 30, 0.1}, 90, 0.001},
        {{SCHEDULE_COSINE, 2, 0, 100, 0, 0}, 0, 2},
        {{SCHEDULE_COSINE, 2, 0, 100, 0, 0}, 50, 1},
        {{SCHEDULE_COSINE, 2, 0, 100, 0, 0}, 100, 0},
        {{SCHEDULE_COSINE, 2, 0, 100, 0, 0}, 1000, 0},
        {{SCHEDULE_COSINE, 2, 20, 100, 0, 0}, 60, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_float_eq(schedule_rate(&rows[i].s, rows[i].step), rows[i].want, 1e-12, "row %zu",
                           i);
    enum schedule_kind k;
    struct err err = {0};
    cr_expect_eq(schedule_kind("linear", &k, &err), -1);
    cr_expect_str_eq(err.msg, "--schedule: linear: want constant, step or cosine");
}

Test(report, line)
{
    char line[256];
    struct report_options o = {.passes = 3};
    struct report_step s = {.pass = 1, .batch = 12, .pass_batches = 48};
    struct report_figures f = {.loss = 1.23456, .per_second = 812.4, .stall = 0.0123};
    report_line(line, sizeof line, &o, &s, &f, 130);
    cr_expect_str_eq(line, "[======>                 ]  25%  pass 2/3  loss 1.2346  "
                           "812 images/s  stall 1.2%  2m10s left");
    s.batch = s.pass_batches = 0; /* nothing is known yet */
    report_line(line, sizeof line, &o, &s, &f, 0);
    cr_expect(strstr(line, "  0%"));
}

/* Of a pass that was gone on with, loss and accuracy are of all of it, speed of this run's part. */
Test(report, figures_of_a_pass_gone_on_with)
{
    struct report_options o = {.log_period = 1, .passes = 1};
    struct report r;
    struct report_figures f;
    cr_assert_eq(report_open(&r, &o, NULL), 0);
    report_resume(&r, 2, &(struct report_sums){3, 30, .loss = 45, .right = 12},
                  &(struct report_sums){0});
    cr_expect(r.epoch == 2 && r.newest.loss == 1.5 && r.newest.accuracy == 0.4);
    struct report_step s = {.pass = 2,
                            .batch = 4,
                            .samples = 10,
                            .wait_ns = 50 * NS_PER_MS,
                            .step_ns = NS_PER_S,
                            .loss = 35,
                            .right = 8};
    cr_expect(report_step(&r, &s, &f));
    cr_expect(f.loss == 3.5, "a period is of this run");
    report_pass(&r, 2, 0, &f);
    cr_expect(f.loss == 2 && f.accuracy == 0.5 && fabs(f.per_second - 10) < 1e-9 &&
              fabs(f.stall - 0.05) < 1e-12);
    report_epoch(&r, 2, 4, &f);
    s.pass = 3;
    s.batch = 1;
    report_step(&r, &s, &f);
    report_pass(&r, 3, 0, &f);
    cr_expect(f.loss == 3.5, "the next one is of this run alone");
    report_close(&r);
}

/* What a run tells that goes on within a period is what one tells that was never stopped. */
Test(report, figures_of_a_period_gone_on_with)
{
    static const struct {
        uint64_t log_period;
        double want; /* of 2 batches of before and 1 more, or of that alone */
    } rows[] = {{3, 2}, {6, 2}, {1, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct report_options o = {.log_period = rows[i].log_period, .passes = 1};
        struct report r;
        struct report_figures f = {0};
        cr_assert_eq(report_open(&r, &o, NULL), 0);
        uint64_t done = rows[i].log_period - 1; /* with 1, it was another number */
        report_resume(&r, 0, &(struct report_sums){done, 10 * done, .loss = 10.0 * (double)done},
                      &(struct report_sums){rows[i].log_period == 6 ? 5 : 2, 20, .loss = 20});
        struct report_step s = {
            .batch = done + 1, .samples = 10, .step_ns = NS_PER_S, .loss = 40, .right = 8};
        cr_expect(report_step(&r, &s, &f));
        cr_expect(f.loss == rows[i].want, "row %zu: %g", i, f.loss);
        cr_expect(fabs(f.per_second - 10) < 1e-9, "row %zu: %g", i, f.per_second);
        report_close(&r);
    }
}

Test(report, figures_of_a_period)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    struct report_options o = {.terminal = out, .log_period = 2, .dot_period = 1, .passes = 1};
    struct report r;
    struct report_figures f;
    cr_assert_eq(report_open(&r, &o, NULL), 0);
    struct report_step s = {.batch = 1,
                            .pass_batches = 4,
                            .samples = 10,
                            .wait_ns = 50 * NS_PER_MS,
                            .step_ns = NS_PER_S,
                            .loss = 20,
                            .right = 5};
    cr_expect(!report_step(&r, &s, &f));
    s.batch = 2;
    s.wait_ns = 150 * NS_PER_MS;
    s.loss = 10;
    cr_expect(report_step(&r, &s, &f));
    cr_expect(fabs(f.loss - 1.5) < 1e-12 && fabs(f.accuracy - 0.5) < 1e-12 &&
              fabs(f.per_second - 10) < 1e-9 && fabs(f.stall - 0.1) < 1e-12);
    report_close(&r);
    fclose(out);
    cr_expect_str_eq(text, "..\n");
    free(text);
}

/* --- batches ---------------------------------------------------------------------------------- */

static struct batches *open_rank(uint32_t ranks, uint32_t rank, size_t batch, const char *resume)
{
    struct batches *b;
    struct err err = {0};
    struct batch_options o = {.data = "synthetic:50,4",
                              .batch = batch,
                              .seed = 9,
                              .ranks = ranks,
                              .rank = rank,
                              .height = 2,
                              .width = 2,
                              .train = true,
                              .resume = resume};
    cr_assert_eq(batch_open(&b, MODEL_PICTURES, &o, &err), 0, "%s", err.msg);
    return b;
}

/* Two ranks' batches together are those of one with twice as many. */
Test(batch, ranks_share_a_batch)
{
    struct batches *one = open_rank(1, 0, 10, NULL), *two[2];
    two[0] = open_rank(2, 0, 5, NULL);
    two[1] = open_rank(2, 1, 5, NULL);
    cr_expect_eq(one->pass_batches, 5);
    cr_expect_eq(two[0]->pass_batches, 5);
    for (int pass = 0; pass < 2; pass++) {
        struct net_batch all, part;
        cr_assert_eq(one->ops->begin(one, (uint64_t)pass, NULL), 0);
        for (int r = 0; r < 2; r++)
            cr_assert_eq(two[r]->ops->begin(two[r], (uint64_t)pass, NULL), 0);
        while (one->ops->next(one, &all, NULL) > 0)
            for (int r = 0; r < 2; r++) {
                cr_assert_eq(two[r]->ops->next(two[r], &part, NULL), 1);
                cr_expect_eq(part.n, 5);
                for (size_t i = 0; i < part.n; i++)
                    cr_expect_eq(memcmp(part.x + i * 12, all.x + (2 * i + (size_t)r) * 12,
                                        12 * sizeof(float)),
                                 0, "pass %d rank %d sample %zu", pass, r, i);
            }
        cr_expect_eq(two[0]->ops->next(two[0], &part, NULL), 0);
    }
    batch_close(one);
    batch_close(two[0]);
    batch_close(two[1]);
}

Test(batch, goes_on_where_a_token_says)
{
    char token[BATCH_TOKEN_LEN];
    float want[12 * 7];
    struct net_batch in;
    struct batches *b = open_rank(1, 0, 7, NULL);
    cr_assert_eq(b->ops->begin(b, 3, NULL), 0);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(b->ops->next(b, &in, NULL), 1);
    cr_assert_eq(b->ops->token(b, token, NULL), 0);
    cr_assert_eq(b->ops->next(b, &in, NULL), 1);
    memcpy(want, in.x, sizeof want);
    batch_close(b);
    b = open_rank(1, 0, 7, token);
    cr_assert_eq(b->ops->begin(b, 3, NULL), 0);
    cr_assert_eq(b->ops->next(b, &in, NULL), 1);
    cr_expect_eq(memcmp(want, in.x, sizeof want), 0);
    batch_close(b);
}

/* Its numbers would name other samples, or none. */
Test(batch, a_token_of_another_set)
{
    char token[BATCH_TOKEN_LEN];
    struct net_batch in;
    struct batches *b = open_rank(1, 0, 7, NULL);
    struct err err = {0};
    cr_assert_eq(b->ops->begin(b, 0, NULL), 0);
    cr_assert_eq(b->ops->next(b, &in, NULL), 1);
    cr_assert_eq(b->ops->token(b, token, NULL), 0);
    batch_close(b);
    const struct batch_options o = {.data = "synthetic:49,4",
                                    .batch = 7,
                                    .seed = 9,
                                    .ranks = 1,
                                    .height = 2,
                                    .width = 2,
                                    .train = true,
                                    .resume = token};
    cr_expect_eq(batch_open(&b, MODEL_PICTURES, &o, &err), -1);
    cr_expect_str_eq(err.msg, "--data: resume token: of a set of 50 samples, here are 49");
}

Test(batch, refused)
{
    static const struct {
        const char *data, *want;
        enum model_data kind;
        const char *sampler;
    } rows[] = {
        {NULL, "--test_data: missing", MODEL_PICTURES, NULL},
        {"synthetic:5", "want synthetic:SAMPLES,CLASSES", MODEL_PICTURES, NULL},
        {"synthetic:5,1", "CLASSES (of 2 classes or more)", MODEL_PICTURES, NULL},
        {"synthetic:-1,3", "want synthetic:SAMPLES,CLASSES", MODEL_PICTURES, NULL},
        {"synthetic:5,99999999999", "want synthetic:SAMPLES,CLASSES", MODEL_PICTURES, NULL},
        {"synthetic:99999999999999999999,3", "at most ", MODEL_PICTURES, NULL},
        {"synthetic:0,3", "no sample is there", MODEL_PICTURES, NULL},
        {"/nowhere", "/nowhere/users.dat: No such file", MODEL_RATINGS, NULL},
        {"synthetic:5,3", "--sampler: ranks=4: but the job has 1", MODEL_PICTURES,
         "paddle-distributed,ranks=4,batch-size=4"},
        {"synthetic:5,3", "--sampler: batch-size=8: but --batch_size is 4", MODEL_PICTURES,
         "paddle-distributed,ranks=1,batch-size=8"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct batches *b;
        struct err err = {0};
        struct batch_options o = {.data = rows[i].data,
                                  .sampler = rows[i].sampler,
                                  .batch = 4,
                                  .ranks = 1,
                                  .height = 2,
                                  .width = 2};
        cr_expect_eq(batch_open(&b, rows[i].kind, &o, &err), -1);
        cr_expect(strstr(err.msg, rows[i].want), "row %zu: %s", i, err.msg);
    }
    struct batches *b;
    struct err err = {0};
    const struct batch_options vast = {
        .data = "synthetic:5,3", .batch = 1 << 20, .ranks = 1, .height = 1 << 14, .width = 1 << 14};
    cr_expect_eq(batch_open(&b, MODEL_PICTURES, &vast, &err), -1);
    cr_expect(strstr(err.msg, "no room for batches of 3.0 PiB"), "%s", err.msg);
}

static void write_lines(const char *dir, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void expect_rows(const char *dir, const char *users, const char *movies)
{
    struct batches *b;
    struct err err = {0};
    const struct batch_options o = {.data = dir, .batch = 4, .ranks = 1, .train = true};
    write_lines(dir, "users.dat", users);
    write_lines(dir, "movies.dat", movies);
    cr_assert_eq(batch_open(&b, MODEL_RATINGS, &o, &err), 0, "%s", err.msg);
    cr_expect_eq(b->shape.rows[MOVIE_USER], 16, "%d", b->shape.rows[MOVIE_USER]);
    cr_expect_eq(b->shape.rows[MOVIE_ID], 8, "%d", b->shape.rows[MOVIE_ID]);
    batch_close(b);
}

/* Embeddings have as many rows as before where lines change places: a checkpoint fits. */
Test(batch, tables_of_ratings_are_those_of_any_order_of_lines)
{
    char dir[] = "/tmp/sampan-unit-XXXXXX", path[128];
    cr_assert(mkdtemp(dir));
    write_lines(dir, "ratings.dat", "1::2::5::9\n9::7::1::9\n");
    expect_rows(dir, "1::F::20::1::0\n2::M::30::2::0\n9::M::30::2::0\n",
                "1::A (1990)::War\n2::B (1991)::War\n7::C (1992)::Drama\n");
    expect_rows(dir, "9::M::30::2::0\n2::M::30::2::0\n1::F::20::1::0\n",
                "2::B (1991)::War\n7::C (1992)::Drama\n1::A (1990)::War\n");
    static const char *const names[] = {"users.dat", "movies.dat", "ratings.dat", ""};
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        cr_expect_eq(remove(path), 0);
    }
}

/* A mount and the trainer may be given the same text. */
Test(batch, a_sampler_that_says_what_the_job_is)
{
    struct batches *b;
    struct err err = {0};
    struct batch_options o = {.data = "synthetic:5,3",
                              .sampler = "paddle-distributed,ranks=1,rank=0,batch-size=4,"
                                         "shuffle=true",
                              .batch = 4,
                              .ranks = 1,
                              .height = 2,
                              .width = 2};
    cr_assert_eq(batch_open(&b, MODEL_PICTURES, &o, &err), 0, "%s", err.msg);
    batch_close(b);
}

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

Test(report, json_lines)
{
    char *text = NULL, *line[5], *rest;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    struct report r;
    struct report_figures f;
    struct report_options o = {.json = out, .log_period = 2, .passes = 1};
    struct report_step s = {.pass = 3,
                            .batch = 1,
                            .step = 7,
                            .samples = 4,
                            .wait_ns = 250000000,
                            .step_ns = 500000000,
                            .loss = 8,
                            .right = 1};
    cr_assert_eq(report_open(&r, &o, NULL), 0);
    report_step(&r, &s, &f);
    s.batch = 2;
    s.step = 8;
    report_step(&r, &s, &f);
    report_pass(&r, 3, 2, &f);
    struct report_test t = {3, 8, 10, 1, 0.5, 0.75};
    report_test(&r, &t);
    report_epoch(&r, 3, 8, &f);
    report_end(&r, 8, "done", "");
    report_close(&r);
    fclose(out);
    size_t n = 0;
    for (char *l = strtok_r(text, "\n", &rest); l && n < 5; l = strtok_r(NULL, "\n", &rest))
        line[n++] = l;
    cr_assert_eq(n, 3);
    cr_expect_str_eq(line[0], "{\"event\":\"step\",\"epoch\":3,\"step\":8,\"loss\":2,"
                              "\"accuracy\":0.25,\"samples_per_s\":8.000,"
                              "\"stall_percent\":50.000}");
    cr_expect_str_eq(line[1],
                     "{\"event\":\"epoch\",\"epoch\":3,\"step\":8,\"loss\":2,"
                     "\"accuracy\":0.25,\"samples_per_s\":8.000,"
                     "\"stall_percent\":50.000,\"test_loss\":0.5,"
                     "\"test_accuracy\":0.75,\"test_skipped\":1,\"samples\":8,\"skipped\":2}");
    cr_expect(has(line[2], "{\"event\":\"summary\",\"epoch\":3,\"step\":8,\"loss\":2,"
                           "\"accuracy\":0.25,\"samples_per_s\":8.000,\"stall_percent\":50.000,"
                           "\"state\":\"done\",\"samples\":8,\"skipped\":2,\"seconds\":") &&
                  has(line[2], ",\"checkpoint\":null}"),
              "%s", line[2]);
    free(text);
}
