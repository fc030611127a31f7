/*
 * Arbitrary keys and list lines into a builder: what comes out passes catalog_verify(), each number
 * leads to a sample that has it, and the counts add up; or the list is refused as ERR_USAGE.
 * Input: list lines, a 0x01 byte, then keys, each ended by 0x02 (one more byte before it: its
 * size).
 */
#include <dirent.h>
#include <stdint.h>
#include <unistd.h>

#include "catalog.h"
#include "must.h"

static char dir[64];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void empty_dir(void)
{
    DIR *d = opendir(dir);
    char name[400];
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(name, sizeof name, "%s/%s", dir, e->d_name);
        unlink(name);
    }
    closedir(d);
}

static void remove_dir(void)
{
    empty_dir();
    rmdir(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    snprintf(dir, sizeof dir, "/dev/shm/sampan-fuzz-build-XXXXXX");
    if (!mkdtemp(dir))
        abort();
    atexit(remove_dir);
    return 0;
}

static size_t add_keys(struct catalog_builder *b, const uint8_t *p, const uint8_t *end)
{
    size_t n = 0;
    while (p < end) {
        const uint8_t *stop = memchr(p, 2, (size_t)(end - p));
        stop = stop ? stop : end;
        size_t len = (size_t)(stop - p);
        uint64_t size = len ? stop[-1] % 3 * (uint64_t)UNIT_BYTES : 0;
        struct row r = {.key = (const char *)p,
                        .key_len = len ? len - 1 : 0,
                        .size = size,
                        .mtime_ns = (int64_t)len,
                        .source = (uint32_t)(len & 1)};
        must(catalog_builder_add(b, &r, NULL) == 0);
        n++;
        p = stop + 1;
    }
    return n;
}

static void check(const char *file, size_t n_rows)
{
    struct catalog *c;
    struct err e = {0};
    must(catalog_open(&c, file, &e) == 0 && catalog_verify(c, &e) == 0);
    const struct catalog_info *i = catalog_info(c);
    must(i->samples + i->bad_names <= n_rows);
    for (uint64_t k = 0; k < i->numbered; k++) {
        uint64_t id;
        struct entry entry, found;
        struct bytes path = {0};
        must(catalog_numbers(c, k, 1, &id, NULL) == 0 && catalog_get(c, id, &entry, NULL) == 0);
        must(entry.number == k && catalog_path(c, id, &path, NULL) == 0);
        must(catalog_find(c, path.data, &found, NULL) == 0 && found.id == id);
        bytes_release(&path);
    }
    catalog_unref(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct catalog_source_row sources[] = {{"s3://a", ""}, {"s3://b", "x/"}};
    const uint8_t *keys = size ? memchr(data, 1, size) : NULL, *end = data + size;
    struct catalog_builder *b;
    struct err e = {0};
    char *file = NULL;
    must(catalog_builder_new(&b, dir, NULL, sources, 2, NULL) == 0);
    size_t n = add_keys(b, keys ? keys + 1 : data, end);
    int rc = 0;
    if (keys && keys > data)
        rc = catalog_builder_list(b, (const char *)data, (size_t)(keys - data), "list", &e);
    if (rc == 0)
        rc = catalog_builder_finish(b, NULL, &file, NULL, &e);
    must(rc == 0 || e.class == ERR_USAGE);
    catalog_builder_free(b);
    if (rc == 0)
        check(file, n);
    free(file);
    empty_dir();
    return 0;
}
