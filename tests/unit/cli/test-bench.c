/* Orders of what a benchmark reads. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench-au-internal.h"
#include "bench-internal.h"

static void add(struct file_list *l, const char *const *paths)
{
    for (; *paths; paths++)
        file_list_add(l, *paths, strlen(*paths), 0);
}

static void expect_order(const struct file_list *l, const char *const *want)
{
    for (size_t i = 0; want[i]; i++) {
        cr_assert_lt(i, l->n);
        cr_expect_str_eq(file_list_get(l, i), want[i], "place %zu", i);
    }
}

static void make_file(const char *dir, const char *path)
{
    char full[300];
    snprintf(full, sizeof full, "%s/%s", dir, path);
    for (char *p = full + strlen(dir) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(full, 0700);
        *p = '/';
    }
    FILE *f = fopen(full, "w");
    cr_assert_not_null(f);
    fclose(f);
}

Test(bench, walk_is_the_class_folder_order)
{
    char dir[] = "/tmp/sampan-bench-XXXXXX";
    cr_assert_not_null(mkdtemp(dir));
    static const char *const paths[] = {"b/2",     "b/10",     "a/x/1", "a/x-y/1", "a/2",
                                        "a/x/y/3", "root.txt", "B/1",   NULL};
    for (size_t i = 0; paths[i]; i++)
        make_file(dir, paths[i]);
    struct file_list l = {0};
    struct err e = {0};
    cr_assert_eq(file_list_walk(&l, dir, &e), 0, "%s", e.msg);
    /* Folders by their whole path: "a/x" < "a/x-y" < "a/x/y". */
    static const char *const want[] = {"root.txt", "B/1",  "a/2", "a/x/1", "a/x-y/1",
                                       "a/x/y/3",  "b/10", "b/2", NULL};
    cr_expect_eq(l.n, 8);
    expect_order(&l, want);
    file_list_numbered(&l);
    cr_expect_eq(l.n, 7, "files in the root have no number while there are folders");
    file_list_release(&l);
    cr_expect_eq(file_list_walk(&l, "/nonexistent", &e), -1);
    cr_expect_eq(e.class, ERR_NOT_FOUND);
    for (size_t i = 0; paths[i]; i++) {
        char full[300];
        snprintf(full, sizeof full, "%s/%s", dir, paths[i]);
        unlink(full);
    }
    static const char *const folders[] = {"a/x/y", "a/x-y", "a/x", "a", "b", "B", ""};
    for (size_t i = 0; i < COUNT(folders); i++) {
        char full[300];
        snprintf(full, sizeof full, "%s/%s", dir, folders[i]);
        rmdir(full);
    }
}

Test(bench, only_images_are_numbered_where_there_are_any)
{
    static const char *const paths[] = {"a/1.JPG", "a/2.txt", "a/3.webp", "readme.png", NULL};
    static const char *const want[] = {"a/1.JPG", "a/3.webp", NULL};
    struct file_list l = {0};
    add(&l, paths);
    file_list_numbered(&l);
    cr_expect_eq(l.n, 2);
    expect_order(&l, want);
    file_list_release(&l);
}

Test(bench, shuffle_is_a_permutation_that_the_seed_decides)
{
    struct file_list a = {0}, b = {0}, c = {0};
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        file_list_add(&a, name, strlen(name), 0);
        file_list_add(&b, name, strlen(name), 0);
        file_list_add(&c, name, strlen(name), 0);
    }
    file_list_shuffle(&a, 1);
    file_list_shuffle(&b, 1);
    file_list_shuffle(&c, 2);
    bool seen[100] = {0};
    bool differs = false;
    for (size_t i = 0; i < 100; i++) {
        cr_expect_str_eq(file_list_get(&a, i), file_list_get(&b, i));
        differs = differs || strcmp(file_list_get(&a, i), file_list_get(&c, i)) != 0;
        seen[atoi(file_list_get(&a, i))] = true;
    }
    cr_expect(differs);
    for (size_t i = 0; i < 100; i++)
        cr_expect(seen[i], "%zu is missing", i);
    file_list_release(&a);
    file_list_release(&b);
    file_list_release(&c);
}

Test(bench, samplers_give_their_ranks_order)
{
    static const char *const paths[] = {"a/0", "a/1", "a/2", "a/3", "a/4",
                                        "a/5", "a/6", "a/7", NULL};
    struct file_list l = {0};
    struct err e = {0};
    add(&l, paths);
    cr_assert_eq(file_list_sample(&l, "sequence", &e), 0, "%s", e.msg);
    cr_expect_eq(l.n, 8);
    expect_order(&l, paths);
    cr_expect_eq(file_list_sample(&l, "no-such-sampler", &e), -1);
    cr_expect_eq(e.class, ERR_USAGE);
    file_list_release(&l);
}

Test(bench, quantiles)
{
    static const uint64_t v[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    cr_expect_eq(sorted_quantile(v, 10, 0.5), 6);
    cr_expect_eq(sorted_quantile(v, 10, 0.99), 10);
    cr_expect_eq(sorted_quantile(v, 1, 0.5), 1);
    cr_expect_eq(sorted_quantile(v, 0, 0.5), 0);
}

Test(bench, accelerators_are_those_of_the_benchmark)
{
    static const struct {
        const char *name;
        double samples_per_s; /* of one that never waits */
        double mb_per_s;
    } rows[] = {{"resnet50", 1786, 204.8}, {"resnet50-a100", 920, 105.4}, {"RetinaNet", 505, 163.0},
                {"unet3d", 21.7, 3177},    {"unet3d-b200", 43.2, 6335},   {"cosmoflow", 286, 808}};
    struct err e = {0};
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct au_model *m = au_model_find(rows[i].name, &e);
        cr_assert_not_null(m, "%s", e.msg);
        double rate = m->batch / m->step_s, mb = rate * (double)m->bytes / 1e6;
        cr_expect(rate > 0.995 * rows[i].samples_per_s && rate < 1.005 * rows[i].samples_per_s);
        cr_expect(mb > 0.995 * rows[i].mb_per_s && mb < 1.005 * rows[i].mb_per_s, "%s: %g MB/s",
                  m->name, mb);
    }
    cr_expect_null(au_model_find("alexnet", &e));
    cr_expect_eq(e.class, ERR_USAGE);
}

Test(bench, utilisations_are_drawn)
{
    struct err e = {0};
    struct au_conf conf = {.model = au_model_find("retinanet", &e), .accelerators = 2};
    struct au_run runs[] = {{.dir = "/mnt/<a>", .au = 0.5}, {.dir = "/b", .known = true, .au = 1}};
    struct au_report r = {&conf, runs, 2};
    struct bytes out = {0};
    au_report_svg(&r, &out);
    cr_expect_eq(strncmp(out.data, "<svg ", 5), 0);
    cr_expect_not_null(strstr(out.data, "/mnt/&#60;a&#62; blind</text><rect x=\"250\" y=\"50\" "
                                        "width=\"250.0\""));
    cr_expect_not_null(strstr(out.data, ">100.00 %</text>"));
    cr_expect_not_null(strstr(out.data, "85 % asked for"));
    cr_expect_str_eq(out.data + out.len - 7, "</svg>\n");
    bytes_release(&out);
}

/* A picture is XML whatever folders are called: the end of a long name begins with a letter. */
Test(bench, names_of_folders_are_drawn)
{
    static const struct {
        const char *dir, *drawn;
    } rows[] = {
        {"\u00fcxxxxxxxxxxxxxxxxxxxxxxxxx", "\u00fcxxxxxxxxxxxxxxxxxxxxxxxxx"},
        {"/mnt/\u00fc\u4e2dxxxxxxxxxxxxxxxxxxxxxxxxx", "\u4e2dxxxxxxxxxxxxxxxxxxxxxxxxx"},
        {"/a\xff\xc3(&\x01", "/a\ufffd\ufffd(&#38;"},
        {"/\xef\xbf\xbf", "/\ufffd"},
        {"", ""},
    };
    struct err e = {0};
    struct au_conf conf = {.model = au_model_find("retinanet", &e), .accelerators = 1};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct au_run run = {.dir = rows[i].dir, .au = 0.5};
        struct au_report r = {&conf, &run, 1};
        cleanup_bytes struct bytes out = {0}, want = {0};
        au_report_svg(&r, &out);
        bytes_addf(&want, "text-anchor=\"end\">%s blind</text>", rows[i].drawn);
        cr_expect_not_null(strstr(out.data, want.data), "%s in %s", want.data, out.data);
    }
}
