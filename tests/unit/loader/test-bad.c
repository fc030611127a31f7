/* Samples that are no good, and others that cannot be read. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader.h"
#include "opened.h"
#include "pictures.h"

static char *set_with_bad(void)
{
    char *dir = picture_set();
    struct made m = make_jpeg(LOOK_RGB, 100, 100, 0);
    put_file(dir, "ant/003.jpg", m.data, m.len / 2);
    put_file(dir, "cat/011.jpg", "\x89PNG\r\n\x1a\n", 8);
    put_file(dir, "cat/012.jpg", "", 0);
    free(m.data);
    return dir;
}

Test(bad_samples, a_bad_sample_ends_it_with_its_path)
{
    char *dir = set_with_bad();
    for (uint32_t threads = 1; threads < 8; threads += 3) {
        struct loader_options o = picture_options(dir);
        const struct loader_batch *b;
        struct err e = {0};
        o.sampler = "sequence";
        o.threads = threads;
        o.batch = 2;
        struct loader *l = open_loader(&o);
        cr_expect(loader_next(l, &b, &e) == 1, "what comes before it is given");
        cr_expect_eq(b->numbers[1], 1);
        loader_release(l, b);
        for (int i = 0; i < 2; i++) {
            int rc = loader_next(l, &b, &e);
            cr_expect_eq(rc, -1);
            cr_expect_eq(e.class, ERR_CORRUPT);
            cr_expect_eq(strncmp(e.msg, "sample 3 (ant/003.jpg): cut off: ", 33), 0, "%s", e.msg);
        }
        cr_expect(loader_set_epoch(l, 1, &e) == 0);
        cr_expect(loader_next(l, &b, &e) == 1, "another epoch begins afresh");
        loader_release(l, b);
        loader_close(l);
    }
    drop_folder(dir);
}

Test(bad_samples, bad_samples_are_left_out_and_counted)
{
    char *dir = set_with_bad();
    for (int raw = 0; raw < 2; raw++) {
        struct loader_options o = picture_options(dir);
        const struct loader_batch *b;
        struct err e = {0};
        size_t n = 0;
        uint32_t skipped = 0;
        o.policy = LOADER_SKIP;
        o.sampler = "sequence";
        o.epochs = 1;
        if (raw) {
            o.format = LOADER_RAW;
            o.max_bytes = 1 << 20;
            char path[512];
            snprintf(path, sizeof path, "%s/ant/003.jpg", dir);
            cr_assert_eq(truncate(path, 2 << 20), 0);
        }
        struct loader *l = open_loader(&o);
        while (loader_next(l, &b, &e) > 0) {
            for (uint32_t i = 0; i < b->n; i++, n++) {
                cr_expect_eq(b->labels[i], b->numbers[i] < 10 ? 0 : b->numbers[i] < 19 ? 2 : 3);
                if (raw)
                    cr_expect(b->sizes[i] == 0 || b->data[i][0] == 0xff || b->data[i][0] == 0x89);
            }
            skipped += b->skipped;
            cr_expect_eq(b->position, n + skipped);
            loader_release(l, b);
        }
        cr_expect_eq(n, raw ? 22 : 20);
        struct loader_figures f;
        struct loader_skip skips[16];
        loader_figures(l, &f);
        cr_expect_eq(f.skipped, raw ? 1 : 3);
        cr_expect_eq(loader_skips(l, skips, 16), f.skipped);
        for (size_t i = 0; i < f.skipped; i++)
            cr_expect(skips[i].number == 3 || skips[i].number == 11 || skips[i].number == 12);
        if (raw)
            cr_expect_str_eq(skips[0].why,
                             "sample 3 (ant/003.jpg): 2097152 bytes: at most 1048576");
        loader_close(l);
    }
    drop_folder(dir);
}

/* Of bad samples alone: what cannot be read is no part of a set that a skip may leave out. */
Test(bad_samples, a_sample_that_cannot_be_read_ends_it_where_bad_ones_are_left_out)
{
    char *dir = set_with_bad();
    const char lines[] = "ant/000.jpg 0\nant/003.jpg 0\nant/001.jpg 0\nant/gone.jpg 0\n";
    char list[512];
    put_file(dir, "list", lines, sizeof lines - 1);
    snprintf(list, sizeof list, "%s/list", dir);
    for (int raw = 0; raw < 2; raw++) {
        struct loader_options o = picture_options(dir);
        const struct loader_batch *b;
        struct err e = {0};
        o.policy = LOADER_SKIP;
        o.sampler = "sequence";
        o.list = list;
        o.batch = 2;
        o.format = raw ? LOADER_RAW : LOADER_FLOAT;
        struct loader *l = open_loader(&o);
        cr_assert_eq(loader_next(l, &b, &e), 1, "%s", e.msg);
        cr_expect(raw || (b->n == 1 && b->skipped == 1), "the bad one is left out");
        loader_release(l, b);
        cr_assert_eq(loader_next(l, &b, &e), -1);
        cr_expect_eq(e.class, ERR_NOT_FOUND);
        cr_expect_str_eq(e.msg, "sample 3 (ant/gone.jpg): open: No such file or directory");
        loader_close(l);
    }
    drop_folder(dir);
}

static void *no_memory(void *arg, size_t size, struct err *err)
{
    (void)arg;
    err_set(err, ERR_LIMIT, "none of %zu bytes is left", size);
    return NULL;
}

Test(bad_samples, memory_that_is_lacking_is_no_bad_sample)
{
    char *dir = picture_set();
    struct loader_options o = picture_options(dir);
    const struct loader_batch *b;
    struct err e = {0};
    o.policy = LOADER_SKIP;
    o.format = LOADER_RAW;
    o.memory.alloc = no_memory;
    struct loader *l = open_loader(&o);
    cr_assert_eq(loader_next(l, &b, &e), -1);
    cr_expect(strstr(e.msg, "bytes is left"), "%s", e.msg);
    loader_close(l);
    drop_folder(dir);
}
