/* Batches: their order, what a thread count and a resume change, and what not. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader.h"
#include "opened.h"
#include "order.h"
#include "pictures.h"

/* One epoch's numbers and a sum of its pixels and labels; returns how many samples. */
static size_t read_epoch(struct loader *l, uint64_t *numbers, uint64_t *ret_sum)
{
    const struct loader_batch *b;
    struct err e = {0};
    size_t n = 0;
    uint64_t step = 0;
    int rc;
    *ret_sum = 0;
    while ((rc = loader_next(l, &b, &e)) > 0) {
        step = step ? step : b->step;
        cr_expect_eq(b->step, step);
        step++;
        cr_assert(n + b->n <= 64);
        const unsigned char *bytes = b->pixels;
        size_t each = (b->format == LOADER_FLOAT ? 4u : 1u) * b->h * b->w * b->c;
        for (uint32_t i = 0; i < b->n; i++) {
            numbers[n++] = b->numbers[i];
            cr_expect_eq(b->labels[i], b->numbers[i] < 10 ? 0 : b->numbers[i] < 19 ? 2 : 3);
        }
        for (size_t i = 0; i < each * b->n; i++)
            *ret_sum = *ret_sum * 1099511628211u + bytes[i] + 1;
        loader_release(l, b);
    }
    cr_assert_eq(rc, 0, "%s", e.msg);
    return n;
}

static void expect_order(const char *spec, uint64_t epoch, const uint64_t *numbers, size_t n)
{
    struct order_spec s;
    struct order *o;
    struct err e = {0};
    cr_assert_eq(order_spec_parse(&s, spec, &e), 0);
    s.epoch = epoch;
    s.batch_size = 4;
    cr_assert_eq(order_new(&o, &s, SAMPLES, &e), 0);
    cr_assert_eq(n, order_length(o));
    for (size_t i = 0; i < n; i++)
        cr_expect_eq(numbers[i], order_at(o, i), "place %zu of epoch %d", i, (int)epoch);
    order_free(o);
}

Test(loader, epochs_are_the_samplers_whatever_the_threads)
{
    char *dir = picture_set();
    uint64_t sums[2] = {0}, numbers[64];
    for (uint32_t threads = 1; threads <= 8; threads += threads == 1 ? 1 : 3) {
        for (uint32_t depth = 2; depth < 12; depth += 4) {
            struct loader_options o = picture_options(dir);
            o.threads = threads;
            o.depth = depth;
            o.epochs = 2;
            struct loader *l = open_loader(&o);
            for (uint64_t e = 0; e < 2; e++) {
                uint64_t sum;
                size_t n = read_epoch(l, numbers, &sum);
                expect_order(o.sampler, 2 + e, numbers, n);
                cr_expect(!sums[e] || sums[e] == sum, "%u threads, %u deep: other pixels", threads,
                          depth);
                sums[e] = sum;
            }
            const struct loader_batch *b;
            cr_expect(loader_next(l, &b, NULL) == 0, "no epoch is left");
            cr_expect(loader_next(l, &b, NULL) == 0);
            loader_close(l);
        }
    }
    cr_expect_neq(sums[0], sums[1], "each epoch has draws of its own");
    drop_folder(dir);
}

/* A predictor's picture is the one that a test's batch has. */
Test(loader, a_single_picture_is_that_of_a_batch)
{
    char *dir = new_folder();
    struct made m = make_jpeg(LOOK_RGB, 67, 41, 9);
    put_file(dir, "ant/0.jpg", m.data, m.len);
    struct loader_options o = picture_options(dir);
    o.crop = LOADER_CROP_CENTRE;
    o.sampler = NULL;
    struct loader *l = open_loader(&o);
    const struct loader_batch *b;
    struct err e = {0};
    float single[16 * 16 * 3];
    cr_assert_eq(loader_next(l, &b, &e), 1, "%s", e.msg);
    cr_assert_eq(loader_picture(&o, m.data, m.len, single, &e), 0, "%s", e.msg);
    cr_expect_eq(memcmp(b->pixels, single, sizeof single), 0);
    cr_expect_eq(loader_picture(&o, m.data, 40, single, &e), -1);
    cr_expect_eq(e.class, ERR_CORRUPT, "%s", e.msg);
    loader_release(l, b);
    loader_close(l);
    free(m.data);
    drop_folder(dir);
}

Test(loader, a_set_is_described)
{
    char *dir = picture_set();
    struct loader_options o = picture_options(dir);
    struct loader_info i;
    struct loader *l = open_loader(&o);
    loader_info(l, &i);
    cr_expect_eq(i.samples, SAMPLES);
    cr_expect_eq(i.classes, 4, "the empty folder is a class, as for the frameworks");
    cr_expect_eq(i.empty_classes, 1);
    cr_expect_eq(i.epoch_samples, 23);
    cr_expect_eq(i.epoch_batches, 6);
    cr_expect_eq(i.batch_bytes, 4 * 16 * 16 * 3 * 4);
    cr_expect_str_eq(loader_class(l, 1), "bee");
    cr_expect_null(loader_class(l, 4));
    cr_expect_str_eq(loader_path(l, 10), "cat/010.jpg");
    struct loader_figures f;
    loader_figures(l, &f);
    cr_expect_not_null(strstr(f.mount_why, "no mounted set"), "%s", f.mount_why);
    cr_expect(f.direct_why[0] != '\0');
    loader_close(l);
    drop_folder(dir);
}

Test(loader, a_token_goes_on_to_the_pixel)
{
    char *dir = picture_set();
    struct loader_options o = picture_options(dir);
    uint64_t numbers[64], first[64], all;
    struct loader *l = open_loader(&o);
    size_t n = read_epoch(l, first, &all);
    loader_close(l);
    for (size_t stop = 0; stop <= 6; stop++) {
        char token[LOADER_TOKEN_TEXT], after[LOADER_TOKEN_TEXT];
        struct err e = {0};
        uint64_t sum = 0;
        size_t had = 0;
        l = open_loader(&o);
        for (size_t i = 0; i < stop; i++) {
            const struct loader_batch *b;
            cr_assert(loader_next(l, &b, &e) == 1);
            for (size_t k = 0; k < (size_t)b->n * 16 * 16 * 3 * 4; k++)
                sum = sum * 1099511628211u + ((unsigned char *)b->pixels)[k] + 1;
            had += b->n;
            cr_expect_eq(b->position, had);
            cr_assert(loader_token_after(l, b, after, &e) == 0);
            loader_release(l, b);
        }
        cr_assert(loader_token(l, token, &e) == 0);
        cr_expect(!stop || strcmp(token, after) == 0);
        loader_close(l);
        struct loader_options again = o;
        again.resume = token;
        l = open_loader(&again);
        struct loader_info info;
        loader_info(l, &info);
        cr_expect_eq(info.epoch, stop < 6 ? 2 : 3, "a finished epoch is not begun again");
        const struct loader_batch *b;
        size_t at = had;
        int rc;
        while (stop < 6 && (rc = loader_next(l, &b, &e)) > 0) {
            cr_expect_eq(b->epoch, 2);
            cr_expect_eq(b->step, at / 4);
            for (uint32_t i = 0; i < b->n; i++, at++)
                cr_expect_eq(b->numbers[i], first[at]);
            for (size_t k = 0; k < (size_t)b->n * 16 * 16 * 3 * 4; k++)
                sum = sum * 1099511628211u + ((unsigned char *)b->pixels)[k] + 1;
            loader_release(l, b);
        }
        cr_expect_eq(at, n);
        cr_expect_eq(sum, all, "stopped after %zu batches", stop);
        n = read_epoch(l, numbers, &sum);
        expect_order(o.sampler, 3, numbers, n);
        n = 23;
        loader_close(l);
    }
    drop_folder(dir);
}

/* The rest of an epoch stays what it was; the epochs after it are the sampler's of now. */
Test(loader, another_seed_begins_with_the_epoch_after_the_token)
{
    char *dir = picture_set();
    struct loader_options o = picture_options(dir);
    const struct loader_batch *b;
    char token[LOADER_TOKEN_TEXT], again[LOADER_TOKEN_TEXT];
    uint64_t numbers[64], sum;
    struct err e = {0};
    const char *before = "torch-distributed,seed=5,epoch=2",
               *now = "torch-distributed,seed=6,epoch=2";
    o.sampler = before;
    struct loader *l = open_loader(&o);
    cr_assert(loader_next(l, &b, &e) == 1);
    size_t n = b->n;
    memcpy(numbers, b->numbers, n * sizeof *numbers);
    loader_release(l, b);
    cr_assert(loader_token(l, token, &e) == 0);
    loader_close(l);
    o.sampler = now;
    o.resume = token;
    l = open_loader(&o);
    cr_assert(loader_next(l, &b, &e) == 1);
    memcpy(numbers + n, b->numbers, b->n * sizeof *numbers);
    n += b->n;
    loader_release(l, b);
    cr_assert(loader_token(l, again, &e) == 0);
    loader_close(l);
    o.resume = again; /* a place within it does not forget that */
    l = open_loader(&o);
    n += read_epoch(l, numbers + n, &sum);
    expect_order(before, 2, numbers, n);
    n = read_epoch(l, numbers, &sum);
    expect_order(now, 3, numbers, n);
    loader_close(l);
    drop_folder(dir);
}

/* What is told of whole epochs, and of the one to come, is so wherever the loader is. */
Test(loader, a_set_is_described_after_a_token_and_a_set_epoch)
{
    char *dir = picture_set();
    struct loader_options o = picture_options(dir);
    const struct loader_batch *b;
    struct loader_info i;
    char token[LOADER_TOKEN_TEXT];
    struct err e = {0};
    o.sampler = "torch-distributed";
    struct loader *l = open_loader(&o);
    for (uint64_t epoch = 100; epoch--;) {
        cr_assert(loader_set_epoch(l, epoch, &e) == 0);
        loader_info(l, &i); /* as like as not before a thread has prepared it */
        cr_expect_eq(i.left_batches, 6);
        cr_assert(loader_next(l, &b, &e) == 1);
        loader_release(l, b);
    }
    cr_assert(loader_token(l, token, &e) == 0);
    loader_close(l);
    o.sampler = "torch-distributed,ranks=2";
    o.resume = token;
    o.batch = 5;
    l = open_loader(&o);
    loader_info(l, &i);
    cr_expect_eq(i.left_batches, 2, "of 19 samples one of two ranks has 10");
    cr_expect_eq(i.epoch_samples, 12);
    cr_expect_eq(i.epoch_batches, 3);
    loader_close(l);
    drop_folder(dir);
}

/* One rank of an epoch, from `resume` on (NULL: its begin): what it sees in so many batches. */
static void see(const char *dir, const char *spec, const char *resume, uint32_t batch, int most,
                unsigned seen[SAMPLES], char token[LOADER_TOKEN_TEXT])
{
    struct loader_options o = picture_options(dir);
    const struct loader_batch *b;
    struct err e = {0};
    o.sampler = spec;
    o.resume = resume;
    o.batch = batch;
    struct loader *l = open_loader(&o);
    while (most-- && loader_next(l, &b, &e) > 0) {
        cr_expect(b->n <= batch);
        for (uint32_t i = 0; i < b->n; i++)
            seen[b->numbers[i]]++;
        loader_release(l, b);
    }
    cr_assert(loader_token(l, token, &e) == 0);
    loader_close(l);
}

/* Three ranks read a batch each of an epoch, two the rest of it in batches of `then`. */
static void share_an_epoch(const char *dir, const char *sampler, uint32_t then)
{
    unsigned seen[SAMPLES] = {0}, repeats = 0;
    char token[LOADER_TOKEN_TEXT], end[LOADER_TOKEN_TEXT], spec[64];
    for (int r = 0; r < 5; r++) {
        snprintf(spec, sizeof spec, "%s,ranks=%d,rank=%d", sampler, r < 3 ? 3 : 2, r % 3);
        if (r < 3)
            see(dir, spec, NULL, 4, 1, seen, token);
        else
            see(dir, spec, token, then, -1, seen, end);
    }
    for (int i = 0; i < SAMPLES; i++) {
        cr_expect(seen[i] >= 1, "sample %d was left out", i);
        repeats += seen[i] - 1;
    }
    cr_expect(repeats <= 1, "%u repeats", repeats);
}

Test(loader, ranks_share_an_epoch_and_a_rest)
{
    char *dir = picture_set();
    for (uint32_t then = 3; then <= 5; then++) {
        share_an_epoch(dir, "torch-distributed", then);
        share_an_epoch(dir, "paddle-distributed", then);
    }
    drop_folder(dir);
}

Test(loader, fewer_samples_than_ranks)
{
    char *dir = new_folder();
    put_jpeg(dir, "a/1.jpg", LOOK_RGB, 32, 32, 0);
    put_jpeg(dir, "a/2.jpg", LOOK_RGB, 32, 32, 0);
    static const struct {
        const char *spec;
        size_t n;
    } rows[] = {{"torch-distributed,ranks=5,rank=4", 1},
                {"torch-distributed,ranks=5,rank=4,drop-last=true", 0},
                {"paddle-distributed,ranks=5,rank=3", 1}};
    for (size_t i = 0; i < 3; i++) {
        struct loader_options o = picture_options(dir);
        const struct loader_batch *b;
        struct err e = {0};
        size_t n = 0;
        o.sampler = rows[i].spec;
        o.epochs = 1;
        struct loader *l = open_loader(&o);
        int rc;
        while ((rc = loader_next(l, &b, &e)) > 0) {
            n += b->n;
            loader_release(l, b);
        }
        cr_expect_eq(rc, 0, "%s", e.msg);
        cr_expect_eq(n, rows[i].n, "%s: %zu", rows[i].spec, n);
        loader_close(l);
    }
    drop_folder(dir);
}

Test(loader, raw_batches_grow)
{
    char *dir = new_folder();
    static unsigned char big[3 << 20];
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (unsigned char)(i * 7 + i / 251);
    for (int i = 0; i < 9; i++) {
        char path[32];
        snprintf(path, sizeof path, "c/%d.bin", i);
        put_file(dir, path, big, (size_t)i * 300001);
    }
    struct loader_options o = picture_options(dir);
    const struct loader_batch *b;
    struct err e = {0};
    o.format = LOADER_RAW;
    o.sampler = "sequence";
    o.batch = 5;
    struct loader *l = open_loader(&o);
    for (int epoch = 0; epoch < 3; epoch++)
        for (size_t n = 0; loader_next(l, &b, &e) > 0; loader_release(l, b))
            for (uint32_t i = 0; i < b->n; i++, n++) {
                cr_expect_eq(b->sizes[i], n * 300001);
                cr_expect_eq(memcmp(b->data[i], big, b->sizes[i]), 0, "sample %zu", n);
            }
    loader_close(l);
    drop_folder(dir);
}

/* --- what a consumer may do --------------------------------------------------------------------
 */

Test(loader, held_batches_are_left_alone)
{
    char *dir = picture_set();
    struct loader_options o = picture_options(dir);
    const struct loader_batch *held[3], *b;
    struct err e = {0};
    o.depth = 3;
    struct loader *l = open_loader(&o);
    uint64_t numbers[3];
    for (int i = 0; i < 3; i++) {
        cr_assert(loader_next(l, &held[i], &e) == 1);
        numbers[i] = held[i]->numbers[0];
    }
    cr_expect(loader_next(l, &b, &e) == -1);
    cr_expect_eq(e.class, ERR_LIMIT);
    cr_expect(loader_set_epoch(l, 5, &e) == 0);
    loader_release(l, held[1]);
    cr_assert(loader_next(l, &b, &e) == 1);
    cr_expect_eq(b->epoch, 5);
    cr_expect_eq(b->slot, held[1]->slot);
    cr_expect(held[0]->numbers[0] == numbers[0] && held[2]->numbers[0] == numbers[2]);
    cr_expect_eq(held[0]->epoch, 2);
    loader_close(l);
    drop_folder(dir);
}

Test(loader, epochs_are_set_at_any_moment)
{
    char *dir = picture_set();
    struct loader_options o = picture_options(dir);
    const struct loader_batch *b;
    struct err e = {0};
    uint64_t numbers[64], sum;
    struct loader *l = open_loader(&o);
    for (uint64_t k = 0; k < 30; k++) {
        cr_assert(loader_set_epoch(l, k % 7, &e) == 0);
        for (uint64_t i = 0; i < k % 5; i++) {
            cr_assert(loader_next(l, &b, &e) == 1);
            cr_expect_eq(b->epoch, k % 7);
            cr_expect_eq(b->step, i);
            loader_release(l, b);
        }
    }
    cr_assert(loader_set_epoch(l, 40, &e) == 0);
    size_t n = read_epoch(l, numbers, &sum);
    expect_order(o.sampler, 40, numbers, n);
    n = read_epoch(l, numbers, &sum);
    expect_order(o.sampler, 41, numbers, n);
    loader_close(l);
    drop_folder(dir);
}

static _Atomic int taken, given;

static void *take(void *arg, size_t size, struct err *err)
{
    if (arg && atomic_load(&taken) == 2) {
        err_set(err, ERR_LIMIT, "no pinned memory left");
        return NULL;
    }
    atomic_fetch_add(&taken, 1);
    return aligned_alloc(64, size);
}

static void give(void *arg, void *p, size_t size)
{
    (void)arg, (void)size;
    atomic_fetch_add(&given, 1);
    free(p);
}

Test(loader, batches_lie_where_the_caller_says)
{
    char *dir = picture_set();
    struct loader_options o = picture_options(dir);
    uint64_t numbers[64], sum;
    struct loader *l;
    struct err e = {0};
    o.depth = 4;
    o.memory = (struct loader_memory){take, give, NULL};
    l = open_loader(&o);
    read_epoch(l, numbers, &sum);
    loader_close(l);
    cr_expect(atomic_load(&taken) == 4 && atomic_load(&given) == 4);
    atomic_store(&taken, 0);
    o.memory.arg = &e;
    cr_expect(loader_open(&l, &o, &e) == -1);
    cr_expect_str_eq(e.msg, "loader: the buffer of a batch: no pinned memory left");
    cr_expect_eq(atomic_load(&given), 6);
    drop_folder(dir);
}

Test(loader, what_cannot_be_is_refused)
{
    char *dir = picture_set(), *empty = new_folder();
    struct err e = {0};
    struct loader *l;
    static const struct {
        const char *sampler, *resume;
        uint32_t batch;
        enum err_class class;
        const char *part;
    } rows[] = {
        {"randm", NULL, 4, ERR_USAGE, "randm"},
        {"random,batch-size=8", NULL, 4, ERR_USAGE, "batches of 4, and batch-size=8"},
        {"sequence", "nonsense", 4, ERR_USAGE, "resume token"},
        {"sequence", NULL, 2000000, ERR_USAGE, "at most"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct loader_options o = picture_options(dir);
        o.sampler = rows[i].sampler;
        o.resume = rows[i].resume;
        o.batch = rows[i].batch;
        cr_expect(loader_open(&l, &o, &e) == -1, "row %zu", i);
        cr_expect_eq(e.class, rows[i].class, "row %zu: %s", i, e.msg);
        cr_expect_not_null(strstr(e.msg, rows[i].part), "%s", e.msg);
    }
    struct loader_options o = picture_options(empty);
    put_folder(empty, "class");
    cr_expect(loader_open(&l, &o, &e) == -1);
    cr_expect_eq(e.class, ERR_NOT_FOUND);
    o.dir = "/nonexistent";
    cr_expect(loader_open(&l, &o, &e) == -1);
    cr_expect_eq(e.class, ERR_NOT_FOUND);
    o = picture_options(dir);
    o.crop = LOADER_CROP_CENTRE;
    o.resize = UINT32_MAX;
    cr_expect(loader_open(&l, &o, &e) == -1);
    cr_expect_not_null(strstr(e.msg, "resize 4294967295: at most "), "%s", e.msg);
    o = picture_options(dir);
    o.direct = LOADER_DIRECT_ONLY;
    cr_expect(loader_open(&l, &o, &e) == -1);
    cr_expect_not_null(strstr(e.msg, "directly"), "%s", e.msg);
    drop_folder(dir);
    drop_folder(empty);
}

static void put_list(const char *dir, const char *text)
{
    put_file(dir, "train.txt", text, strlen(text));
}

Test(loader, a_list_gives_numbers_and_labels)
{
    char *dir = picture_set(), *lists = new_folder();
    char list[512];
    put_list(lists, "dog/020.jpg 7\n./ant/000.jpg\t0\n\ncat/013.jpg 1\r\ndog/019.jpg  2\n");
    snprintf(list, sizeof list, "%s/train.txt", lists);
    struct loader_options o = picture_options(dir);
    const struct loader_batch *b;
    struct err e = {0};
    o.list = list;
    o.sampler = "sequence";
    struct loader *l = open_loader(&o);
    struct loader_info i;
    loader_info(l, &i);
    cr_expect_eq(i.classes, 8);
    cr_assert(loader_next(l, &b, &e) == 1, "%s", e.msg);
    cr_expect_eq(b->n, 4);
    cr_expect(b->labels[0] == 7 && b->labels[1] == 0 && b->labels[2] == 1 && b->labels[3] == 2);
    cr_expect_str_eq(loader_path(l, 1), "ant/000.jpg");
    loader_close(l);
    put_list(lists, "dog/020.jpg\ncat/013.jpg\n");
    l = open_loader(&o);
    cr_assert(loader_next(l, &b, &e) == 1, "%s", e.msg);
    cr_expect(b->n == 2 && b->labels[0] == -1 && b->labels[1] == -1);
    loader_close(l);
    drop_folder(dir);
    drop_folder(lists);
}

/* A sample whose read hangs (a pipe that nobody writes to): who asks within a time is answered, and
 * loses nothing. */
Test(loader, a_batch_that_is_late_is_given_later)
{
    char *dir = picture_set(), *lists = new_folder();
    char list[512], hangs[512];
    put_list(lists, "cat/pipe 1\nant/000.jpg 0\n");
    snprintf(list, sizeof list, "%s/train.txt", lists);
    snprintf(hangs, sizeof hangs, "%s/cat/pipe", dir);
    cr_assert_eq(mkfifo(hangs, 0600), 0);
    struct loader_options o = picture_options(dir);
    const struct loader_batch *b = NULL;
    struct err e = {0};
    o.list = list;
    o.sampler = "sequence";
    o.epochs = 1;
    o.policy = LOADER_SKIP;
    struct loader *l = open_loader(&o);
    cr_expect_eq(loader_next_within(l, 0, &b, &e), LOADER_LATE);
    cr_expect_eq(loader_next_within(l, 20 * 1000 * 1000, &b, &e), LOADER_LATE);
    cr_expect_null(b);
    close(open(hangs, O_WRONLY)); /* it comes to be read: no picture */
    cr_assert_eq(loader_next(l, &b, &e), 1, "%s", e.msg);
    cr_expect(b->n == 1 && b->skipped == 1 && b->numbers[0] == 1);
    loader_release(l, b);
    cr_expect_eq(loader_next_within(l, 0, &b, &e), 0);
    loader_close(l);
    drop_folder(lists);
    drop_folder(dir);
}

/* The epoch that is read ahead hangs: going back to the first is not waited for. */
Test(loader, another_epoch_is_not_waited_for_longer_than_is_said)
{
    char *dir = picture_set(), *lists = new_folder();
    char list[512], sample[512], aside[512], hangs[512];
    put_list(lists, "ant/000.jpg 0\nant/001.jpg 0\n");
    snprintf(list, sizeof list, "%s/train.txt", lists);
    snprintf(sample, sizeof sample, "%s/ant/000.jpg", dir);
    snprintf(aside, sizeof aside, "%s/ant/aside", dir);
    snprintf(hangs, sizeof hangs, "%s/ant/pipe", dir);
    cr_assert_eq(mkfifo(hangs, 0600), 0);
    struct loader_options o = picture_options(dir);
    const struct loader_batch *b = NULL;
    struct err e = {0};
    o.list = list;
    o.sampler = "sequence";
    o.batch = 1;
    o.depth = 2; /* the next epoch is read when the first batch is given back */
    struct loader *l = open_loader(&o);
    cr_assert_eq(loader_next(l, &b, &e), 1, "%s", e.msg);
    cr_assert(!rename(sample, aside) && !link(hangs, sample));
    loader_release(l, b);
    cr_assert_eq(loader_next(l, &b, &e), 1, "%s", e.msg);
    loader_release(l, b);
    cr_assert_eq(loader_next(l, &b, &e), 0);
    cr_expect_eq(loader_next_within(l, 20 * 1000 * 1000, &b, &e), LOADER_LATE, "it hangs");
    cr_expect_eq(loader_set_epoch_within(l, 0, 0, &e), LOADER_LATE);
    cr_expect_eq(loader_set_epoch_within(l, 0, 20 * 1000 * 1000, &e), LOADER_LATE);
    cr_expect_not(loader_rest(l, 1000 * 1000));
    cr_assert_eq(rename(aside, sample), 0);
    close(open(hangs, O_WRONLY)); /* it comes: no picture, but nobody wants it any more */
    cr_expect(loader_rest(l, UINT64_MAX));
    cr_expect_eq(loader_set_epoch_within(l, 0, 0, &e), 0, "%s", e.msg);
    cr_assert_eq(loader_next(l, &b, &e), 1, "%s", e.msg);
    cr_expect(b->n == 1 && b->numbers[0] == 0 && b->epoch == 0);
    loader_close(l);
    drop_folder(lists);
    drop_folder(dir);
}

struct held_up {
    sem_t entered, go;
    int asked;
};

static void *third_waits(void *arg, size_t size, struct err *err)
{
    struct held_up *h = arg;
    (void)err;
    if (++h->asked == 3) {
        sem_post(&h->entered);
        sem_wait(&h->go);
    }
    return malloc(size);
}

static void free_held_up(void *arg, void *p, size_t size)
{
    (void)arg, (void)size;
    free(p);
}

/* What is finished of the epoch that was left is none of the one that is awaited. */
Test(loader, no_batch_comes_before_another_epoch_is_set)
{
    char *dir = picture_set();
    struct held_up h = {0};
    struct loader_options o = picture_options(dir);
    const struct loader_batch *b = NULL;
    struct err e = {0};
    sem_init(&h.entered, 0, 0);
    sem_init(&h.go, 0, 0);
    o.sampler = "sequence";
    o.format = LOADER_RAW;
    o.batch = 1;
    o.depth = 3;
    o.threads = 1;
    o.memory = (struct loader_memory){third_waits, free_held_up, &h};
    struct loader *l = open_loader(&o);
    cr_assert_eq(loader_next(l, &b, &e), 1, "%s", e.msg);
    sem_wait(&h.entered); /* the second batch is done */
    cr_assert_eq(loader_set_epoch_within(l, 0, 0, &e), LOADER_LATE);
    loader_release(l, b);
    cr_expect_eq(loader_next_within(l, 0, &b, &e), LOADER_LATE);
    sem_post(&h.go);
    cr_assert_eq(loader_set_epoch(l, 0, &e), 0, "%s", e.msg);
    cr_assert_eq(loader_next(l, &b, &e), 1, "%s", e.msg);
    cr_expect(b->numbers[0] == 0 && b->step == 0);
    loader_close(l);
    drop_folder(dir);
}

Test(loader, a_list_with_wrong_lines_is_refused_by_line)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"../../etc/passwd 1\n", "../../etc/passwd: want a path below"},
        {"a/.. 1\n", "a/..: want a path below"},
        {"dog/020.jpg 7\n\ncat/013.jpg\n", "line 3: cat/013.jpg: no label, and lines before"},
        {"dog/020.jpg 7\ncat/013.jpg -1\n", "line 2: cat/013.jpg -1: no label"},
        {"dog/020.jpg 7\ncat/013.jpg 2147483647\n", "line 2: cat/013.jpg 2147483647: no label"},
        {"dog/020.jpg 7\ncat/013.jpg cat\n", "line 2: cat/013.jpg cat: no label"},
        {"dog/020.jpg\ncat/013.jpg 1\n", "line 2: cat/013.jpg: a label, and lines before"},
    };
    char *dir = picture_set(), *lists = new_folder(), list[512];
    snprintf(list, sizeof list, "%s/train.txt", lists);
    struct loader_options o = picture_options(dir);
    o.list = list;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct loader *l;
        struct err e = {0};
        put_list(lists, rows[i].text);
        cr_assert_eq(loader_open(&l, &o, &e), -1, "row %zu", i);
        cr_expect_eq(e.class, ERR_USAGE, "row %zu", i);
        cr_expect_not_null(strstr(e.msg, rows[i].want), "row %zu: %s", i, e.msg);
    }
    /* One that cannot be read is not a shorter one. */
    struct loader *l;
    struct err e = {0};
    o.list = lists;
    cr_assert_eq(loader_open(&l, &o, &e), -1);
    cr_expect_not_null(strstr(e.msg, ": Is a directory"), "%s", e.msg);
    drop_folder(dir);
    drop_folder(lists);
}
