#include "support.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mem.h"

static char folder[64];
static char text[1 << 16];

void folder_make(void)
{
    snprintf(folder, sizeof folder, "/tmp/sampan-catalog-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

const char *folder_name(void)
{
    return folder;
}

void folder_remove(void)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(folder);
}

void add_rows(struct catalog_builder *b, const char *rows)
{
    cleanup_free char *copy = xstrdup(rows);
    char *save;
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char path[5000], etag[200] = "";
        unsigned long long size = 0;
        long long mtime = 0;
        unsigned source = 0;
        struct err e = {0};
        cr_assert_geq(sscanf(line, "%4999s %llu %lld %199s %u", path, &size, &mtime, etag, &source),
                      1);
        struct row r = {.key = path,
                        .key_len = strlen(path),
                        .size = size,
                        .mtime_ns = mtime,
                        .etag = strcmp(etag, "-") ? etag : "",
                        .source = source};
        cr_assert_eq(catalog_builder_add(b, &r, &e), 0, "%s", e.msg);
    }
}

struct catalog_builder *builder(struct catalog *previous)
{
    static const struct catalog_source_row source = {"s3://bucket/set", ""};
    struct catalog_builder *b;
    struct err e = {0};
    cr_assert_eq(catalog_builder_new(&b, folder, previous, &source, 1, &e), 0, "%s", e.msg);
    return b;
}

struct catalog *finish(struct catalog_builder *b, struct catalog_diff_counts *diff)
{
    struct catalog *c;
    struct err e = {0};
    char *file;
    cr_assert_eq(catalog_builder_finish(b, NULL, &file, diff, &e), 0, "%s", e.msg);
    catalog_builder_free(b);
    cr_assert_eq(catalog_open(&c, file, &e), 0, "%s", e.msg);
    cr_assert_eq(catalog_verify(c, &e), 0, "%s", e.msg);
    free(file);
    return c;
}

struct catalog *version(struct catalog *previous, const char *rows)
{
    struct catalog_builder *b = builder(previous);
    add_rows(b, rows);
    return finish(b, NULL);
}

uint64_t id_of(struct catalog *c, const char *path)
{
    struct entry e;
    return catalog_find(c, path, &e, NULL) == 0 ? e.id : 0;
}

const char *by_number(struct catalog *c)
{
    cleanup_bytes struct bytes out = {0};
    struct err e = {0};
    for (uint64_t i = 0; i < catalog_info(c)->numbered; i++) {
        uint64_t id;
        struct entry entry;
        cr_assert_eq(catalog_numbers(c, i, 1, &id, &e), 0, "%s", e.msg);
        cr_assert_eq(catalog_get(c, id, &entry, &e), 0, "%s", e.msg);
        cr_assert_eq(entry.number, i);
        if (i)
            bytes_add_char(&out, ' ');
        cr_assert_eq(catalog_path(c, id, &out, &e), 0, "%s", e.msg);
    }
    snprintf(text, sizeof text, "%s", out.data ? out.data : "");
    return text;
}

static bool child(void *arg, const struct entry *e, uint64_t cookie)
{
    struct bytes *out = arg;
    cr_expect_eq(cookie, e->id);
    bytes_addf(out, "%s%s%s", out->len ? " " : "", e->name, e->folder ? "/" : "");
    return true;
}

const char *children(struct catalog *c, const char *path)
{
    cleanup_bytes struct bytes out = {0};
    struct err e = {0};
    cr_assert_eq(catalog_page(c, id_of(c, path), 0, child, &out, &e), 0, "%s", e.msg);
    snprintf(text, sizeof text, "%s", out.data ? out.data : "");
    return text;
}

static int bad(void *arg, const char *key, size_t len, const char *why, struct err *err)
{
    (void)err;
    bytes_addf(arg, "%.*s: %s\n", (int)(len < 60 ? len : 60), key, why);
    return 0;
}

const char *bad_names(struct catalog *c)
{
    cleanup_bytes struct bytes out = {0};
    struct err e = {0};
    cr_assert_eq(catalog_bad_names(c, bad, &out, &e), 0, "%s", e.msg);
    snprintf(text, sizeof text, "%s", out.data ? out.data : "");
    return text;
}

static bool change(void *arg, char kind, const char *path, size_t len, bool is_folder,
                   uint64_t old_id, uint64_t new_id)
{
    struct bytes *out = arg;
    cr_expect_eq(old_id == 0, kind == '+');
    cr_expect_eq(new_id == 0, kind == '-');
    bytes_addf(out, "%s%c%.*s%s", out->len ? " " : "", kind, (int)len, path, is_folder ? "/" : "");
    return true;
}

const char *changes(struct catalog *a, struct catalog *b)
{
    cleanup_bytes struct bytes out = {0};
    struct err e = {0};
    cr_assert_eq(catalog_diff(a, b, change, &out, &e), 0, "%s", e.msg);
    snprintf(text, sizeof text, "%s", out.data ? out.data : "");
    return text;
}
