/* From rows to a version: the tree, bad names, numbers, ids, units. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "support.h"

TestSuite(build, .init = folder_make, .fini = folder_remove);

Test(build, an_empty_set_is_a_valid_version)
{
    struct catalog *c = version(NULL, "");
    const struct catalog_info *i = catalog_info(c);
    uint64_t id;
    struct err e = {0};
    cr_expect_eq(i->samples, 0);
    cr_expect_eq(i->folders, 0);
    cr_expect_eq(i->numbered, 0);
    cr_expect_eq(i->n_sources, 1);
    cr_expect_eq(i->next_id, 2);
    cr_expect_str_eq(children(c, ""), "");
    cr_expect_eq(catalog_numbers(c, 0, 1, &id, &e), -1);
    cr_expect_eq(e.class, ERR_USAGE);
    catalog_unref(c);
}

Test(build, a_tree_from_keys_in_any_order)
{
    struct catalog *c = version(NULL, "b/y.jpg 7 70 e1\n"
                                      "a/x.jpg 5 50 0123456789abcdef0123456789abcdef\n"
                                      "a/deep/er/z.jpg 3 90\n"
                                      "empty/ 0 40\n");
    const struct catalog_info *i = catalog_info(c);
    struct entry e;
    cr_expect_eq(i->samples, 3);
    cr_expect_eq(i->bytes, 15);
    cr_expect_eq(i->folders, 5);
    cr_expect_str_eq(children(c, ""), "a/ b/ empty/");
    cr_expect_str_eq(children(c, "a"), "deep/ x.jpg");
    cr_expect_str_eq(children(c, "empty"), "");
    cr_expect_str_eq(catalog_source_uri(c, 0), "s3://bucket/set");
    cr_expect_str_eq(catalog_source_at(c, 0), "");
    cr_assert_eq(catalog_find(c, "a/x.jpg", &e, NULL), 0);
    cr_expect_eq(e.size, 5);
    cr_expect_eq(e.mtime_ns, 50);
    cr_expect_str_eq(e.etag, "0123456789abcdef0123456789abcdef");
    cr_expect_not(e.folder);
    cr_assert_eq(catalog_find(c, "/b/y.jpg", &e, NULL), 0);
    cr_expect_str_eq(e.etag, "e1");
    catalog_unref(c);
}

Test(build, a_folder_is_as_new_as_what_is_below_it)
{
    const struct {
        const char *path;
        int64_t mtime;
    } want[] = {{"", 90}, {"a", 90}, {"a/deep", 90}, {"b", 20}, {"c", 65}, {"d", 0}};
    struct catalog *c =
        version(NULL, "a/x 1 50\na/deep/z 1 90\nb/y 1 20\nb/ 0 10\nc/ 0 65\nd/ 0 0\n");
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct entry e;
        cr_assert_eq(catalog_find(c, want[i].path, &e, NULL), 0);
        cr_expect_eq(e.mtime_ns, want[i].mtime, "%s: %lld", want[i].path, (long long)e.mtime_ns);
        cr_expect(e.folder);
    }
    catalog_unref(c);
}

Test(build, names_that_no_file_system_can_hold)
{
    char long_part[300], long_path[4200];
    memset(long_part, 'x', 256);
    long_part[256] = '\0';
    for (int i = 0; i < 4097; i++)
        long_path[i] = i % 100 == 99 ? '/' : 'p';
    const struct {
        const char *key;
        size_t len;
        uint64_t size;
        const char *why; /* NULL: is fine */
    } rows[] = {
        {"", 0, 1, "the name is empty"},
        {"/abs", 4, 1, "the name starts with '/'"},
        {"/", 1, 0, "the name starts with '/'"},
        {"a//b", 4, 1, "a part of the path is empty ('//')"},
        {"a//", 3, 0, "a part of the path is empty ('//')"},
        {"a/./b", 5, 1, "a part of the path is '.' or '..'"},
        {"..", 2, 1, "a part of the path is '.' or '..'"},
        {"a/..", 4, 1, "a part of the path is '.' or '..'"},
        {"a\0b", 3, 1, "the name contains a NUL byte"},
        {long_part, 256, 1, "a part of the path is longer than 255 bytes"},
        {long_path, 4097, 1, "the path is longer than 4096 bytes"},
        {"full/", 5, 9, "the name ends in '/' but the object is not empty"},
        {".sampan", 7, 1, "the mount's own .sampan hides it"},
        {".sampan/x", 9, 1, "the mount's own .sampan hides it"},
        {".sampan/", 8, 0, "the mount's own .sampan hides it"},
        {"huge", 4, UINT64_MAX, "no object is that big"},
        {long_part, 255, 1, NULL},
        {long_path, 4096, 1, NULL},
        {".sampanx", 8, 1, NULL},
        {"x/.sampan", 9, 1, NULL},
        {"...", 3, 1, NULL},
        {"a b\nc\xff\xfe", 7, 1, NULL},
    };
    size_t n = sizeof rows / sizeof *rows, n_bad = 0;
    struct catalog_builder *b = builder(NULL);
    struct err e = {0};
    for (size_t i = 0; i < n; i++) {
        struct row r = {.key = rows[i].key, .key_len = rows[i].len, .size = rows[i].size};
        cr_assert_eq(catalog_builder_add(b, &r, &e), 0, "%s", e.msg);
        n_bad += rows[i].why != NULL;
    }
    struct catalog *c = finish(b, NULL);
    const char *told = bad_names(c);
    cr_expect_eq(catalog_info(c)->bad_names, n_bad);
    cr_expect_eq(catalog_info(c)->samples, n - n_bad);
    for (size_t i = 0; i < n; i++)
        if (rows[i].why) {
            cleanup_free char *line = xasprintf(
                "%.*s: %s\n", (int)(rows[i].len < 60 ? rows[i].len : 60), rows[i].key, rows[i].why);
            cr_expect(strstr(told, line) != NULL, "want %s in\n%s", line, told);
        }
    cr_expect_neq(id_of(c, "a b\nc\xff\xfe"), 0);
    catalog_unref(c);
}

Test(build, a_file_and_a_folder_of_one_name)
{
    struct catalog *c = version(NULL, "a 1\na/x 2\nb 3\nb/ 0\nc 4\nc.d/x 5\nc-d 6\n");
    cr_expect_str_eq(bad_names(c),
                     "a: a folder has the same name\nb: a folder has the same name\n");
    cr_expect_str_eq(children(c, ""), "a/ b/ c c-d c.d/");
    cr_expect_str_eq(children(c, "a"), "x");
    catalog_unref(c);
}

Test(build, several_sources_in_one_tree)
{
    const struct catalog_source_row sources[] = {
        {"s3://one", ""}, {"s3://two", "train/"}, {"s3://three", "train/"}, {"s3://void", "v/w/"}};
    struct catalog_builder *b;
    struct err e = {0};
    struct entry entry;
    struct unit_info u;
    cr_assert_eq(catalog_builder_new(&b, folder_name(), NULL, sources, 4, &e), 0, "%s", e.msg);
    add_rows(b, "x/1 9 0 third 2\nx/1 7 0 second 1\ntrain/y 5 0 first 0\ny 6 0 late 1\n"
                "z 8 0 only 2\n.sampan 1 0 - 1\n");
    struct catalog *c = finish(b, NULL);
    cr_expect_str_eq(bad_names(c), "train/x/1: an earlier source has the same path\n"
                                   "train/y: an earlier source has the same path\n");
    cr_expect_str_eq(children(c, "train"), ".sampan x/ y z");
    cr_expect_str_eq(children(c, "v/w"), "");
    cr_assert_eq(catalog_find(c, "train/x/1", &entry, &e), 0);
    cr_expect_str_eq(entry.etag, "second");
    cr_expect_eq(entry.source, 1);
    cr_assert_eq(catalog_unit(c, entry.id, &u, &e), 0, "%s", e.msg);
    cr_expect_str_eq(u.key.data, "x/1");
    cr_expect_eq(u.key.len, 3);
    cr_expect_eq(u.source, 1);
    unit_info_release(&u);
    cr_assert_eq(catalog_unit(c, id_of(c, "train/y"), &u, &e), 0, "%s", e.msg);
    cr_expect_str_eq(u.key.data, "train/y");
    unit_info_release(&u);
    catalog_unref(c);
}

Test(build, one_source_lists_a_name_twice)
{
    struct catalog *a = version(NULL, "x 1 10 old\nx 2 20 new\nx 1 10 old\n");
    struct catalog *b = version(NULL, "x 2 20 new\nx 1 10 old\nx 1 10 old\n");
    struct entry e;
    cr_expect_str_eq(bad_names(a), "x: the source lists this name twice\n"
                                   "x: the source lists this name twice\n");
    cr_assert_eq(catalog_find(a, "x", &e, NULL), 0);
    cr_expect_str_eq(e.etag, "new");
    cr_expect_str_eq(catalog_info(a)->digest, catalog_info(b)->digest);
    catalog_unref(a);
    catalog_unref(b);
}

Test(build, sources_that_cannot_be_placed)
{
    const char *const ats[] = {"train", "/train/", "a//b/", "../", ".sampan/"};
    for (size_t i = 0; i < sizeof ats / sizeof *ats; i++) {
        struct catalog_source_row s = {"s3://b", ats[i]};
        struct catalog_builder *b;
        struct err e = {0};
        cr_expect_eq(catalog_builder_new(&b, "/tmp", NULL, &s, 1, &e), -1, "%s", ats[i]);
        cr_expect_eq(e.class, ERR_USAGE);
    }
}

/* --- numbers ---------------------------------------------------------------------------------- */

Test(build, numbers_follow_the_class_walk)
{
    /* As sorted(os.walk(class)) gives it: folders by whole path, so that "c/a-b" is before "c/a/x".
     */
    struct catalog *c = version(NULL, "d/1.jpg\nc/a/x/1.jpg\nc/a-b/1.jpg\nc/a/2.jpg\nc/z.jpg\n"
                                      "c-1/1.jpg\nc/a/1.jpg\nc/A.JPG\n");
    cr_expect_str_eq(by_number(c), "c/A.JPG c/z.jpg c/a/1.jpg c/a/2.jpg c/a-b/1.jpg c/a/x/1.jpg "
                                   "c-1/1.jpg d/1.jpg");
    catalog_unref(c);
}

Test(build, deeper_folders_sort_by_the_whole_path)
{
    struct catalog *c = version(NULL, "c/x/a/1.jpg\nc/x/a-b/1.jpg\nc/x/1.jpg\nc/x-y/1.jpg\n");
    /* '-' sorts before '/': c/x, c/x-y, c/x/a, c/x/a-b */
    cr_expect_str_eq(by_number(c), "c/x/1.jpg c/x-y/1.jpg c/x/a/1.jpg c/x/a-b/1.jpg");
    catalog_unref(c);
}

Test(build, only_images_are_numbered_where_there_are_any)
{
    const struct {
        const char *rows, *want;
    } cases[] = {
        {"a/1.txt\na/2.TIFF\nb/3.webp\nb/labels.csv\nroot.jpg", "a/2.TIFF b/3.webp"},
        {"a/1.txt\nb/labels.csv\nroot.jpg", "a/1.txt b/labels.csv"},
        {"1.txt\n2.jpg\n3.png\n", "2.jpg 3.png"},
        {"1.txt\n2.bin\n", "1.txt 2.bin"},
        {"1.jpg\nempty/ 0", ""},
        {"a/.jpg\na/x.jpeg\na/x.jpegs\na/x.ppm\na/x.bmp\na/x.pgm\na/x.tif",
         "a/.jpg a/x.bmp a/x.jpeg a/x.pgm a/x.ppm a/x.tif"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct catalog *c = version(NULL, cases[i].rows);
        cr_expect_str_eq(by_number(c), cases[i].want, "case %zu: %s", i, by_number(c));
        catalog_unref(c);
    }
}

Test(build, numbers_over_many_chunks)
{
    struct catalog_builder *b = builder(NULL);
    struct err e = {0};
    const uint64_t n = 2750;
    for (uint64_t i = 0; i < n; i++) {
        char key[40];
        int len = snprintf(key, sizeof key, "c%llu/%06llu.jpg", (unsigned long long)(i / 1000),
                           (unsigned long long)((i * 7) % n));
        /* every 600th is a large one, so that ids are no single run */
        struct row r = {.key = key, .key_len = (size_t)len, .size = i % 600 ? 1 : 3 * UNIT_BYTES};
        cr_assert_eq(catalog_builder_add(b, &r, &e), 0);
    }
    struct catalog *c = finish(b, NULL);
    uint64_t *ids = xcalloc(n, sizeof *ids);
    cr_assert_eq(catalog_numbers(c, 0, n, ids, &e), 0, "%s", e.msg);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t id;
        struct entry entry;
        cr_assert_eq(catalog_numbers(c, i, 1, &id, &e), 0);
        cr_assert_eq(id, ids[i]);
        cr_assert_eq(catalog_get(c, id, &entry, &e), 0);
        cr_assert_eq(entry.number, i);
        cr_assert(i == 0 || id > ids[i - 1]);
    }
    cr_expect_eq(catalog_numbers(c, n - 1, 2, ids, &e), -1);
    cr_expect_eq(catalog_numbers(c, UINT64_MAX, 2, ids, &e), -1);
    cr_expect_eq(catalog_numbers(c, n, 0, ids, &e), 0);
    free(ids);
    catalog_unref(c);
}

/* --- units ------------------------------------------------------------------------------------ */

Test(build, large_samples_take_consecutive_units)
{
    struct catalog *c = version(NULL, "a 4194304 1 e\nb 4194305 2 e\nc 12582912 3 e\nd 0 4 e\n");
    uint64_t a = id_of(c, "a"), b = id_of(c, "b");
    const struct {
        uint64_t unit, sample;
        uint32_t block, len;
    } want[] = {{a, a, 0, 4194304},         {b, b, 0, 4194304},         {b + 1, b, 1, 1},
                {b + 2, b + 2, 0, 4194304}, {b + 4, b + 2, 2, 4194304}, {b + 5, b + 5, 0, 0}};
    struct unit_info u;
    struct err e = {0};
    cr_expect_eq(b, a + 1);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        cr_assert_eq(catalog_unit(c, want[i].unit, &u, &e), 0, "%zu: %s", i, e.msg);
        cr_expect_eq(u.sample, want[i].sample, "%zu", i);
        cr_expect_eq(u.block, want[i].block, "%zu", i);
        cr_expect_eq(u.len, want[i].len, "%zu", i);
        cr_expect_eq(u.offset, (uint64_t)want[i].block * UNIT_BYTES);
        cr_expect_str_eq(u.etag, "e");
        unit_info_release(&u);
    }
    const uint64_t none[] = {0, CATALOG_ROOT_ID, b + 6, UINT64_MAX};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        cr_expect_eq(catalog_unit(c, none[i], &u, &e), -1);
        cr_expect_eq(e.class, ERR_NOT_FOUND);
    }
    catalog_unref(c);
}

Test(build, a_unit_of_a_removed_sample_is_unknown)
{
    struct catalog *a = version(NULL, "a 1\nb 9000000\nc 1\n");
    uint64_t b = id_of(a, "b");
    struct catalog *later = version(a, "a 1\nc 1\n");
    struct unit_info u;
    struct err e = {0};
    for (uint64_t unit = b; unit < b + 3; unit++) {
        cr_expect_eq(catalog_unit(later, unit, &u, &e), -1);
        cr_expect_eq(e.class, ERR_NOT_FOUND);
    }
    catalog_unref(a);
    catalog_unref(later);
}

Test(build, packed_samples_know_their_object)
{
    struct catalog_builder *b = builder(NULL);
    struct err e = {0};
    struct unit_info u;
    struct row r = {.key = "a/1.jpg",
                    .key_len = 7,
                    .size = 100,
                    .etag = "",
                    .object = "packs/0001.tar",
                    .pack_offset = 512};
    cr_assert_eq(catalog_builder_add(b, &r, &e), 0);
    struct catalog *c = finish(b, NULL);
    cr_assert_eq(catalog_unit(c, id_of(c, "a/1.jpg"), &u, &e), 0, "%s", e.msg);
    cr_expect_str_eq(u.key.data, "packs/0001.tar");
    cr_expect_eq(u.pack_offset, 512);
    cr_expect_eq(u.size, 100);
    unit_info_release(&u);
    catalog_unref(c);
}

Test(build, little_memory_gives_the_same_version)
{
    char digest[CATALOG_DIGEST + 1];
    for (int small = 0; small < 2; small++) {
        struct catalog_builder *b = builder(NULL);
        struct err e = {0};
        if (small)
            catalog_builder_memory(b, 2000);
        for (unsigned i = 0; i < 3000; i++) {
            char key[40], etag[40];
            unsigned k = i * 1237 % 3000;
            int len = snprintf(key, sizeof key, "c%u/d%u/%u.jpg", k % 7, k % 11, k);
            snprintf(etag, sizeof etag, "%u-%u", k, k);
            struct row r = {.key = key, .key_len = (size_t)len, .size = k, .etag = etag};
            cr_assert_eq(catalog_builder_add(b, &r, &e), 0, "%s", e.msg);
        }
        struct catalog *c = finish(b, NULL);
        if (small)
            cr_expect_str_eq(catalog_info(c)->digest, digest);
        memcpy(digest, catalog_info(c)->digest, sizeof digest);
        catalog_unref(c);
    }
}
