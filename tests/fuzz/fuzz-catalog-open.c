/*
 * Arbitrary bytes as a catalog file: opening refuses or every reader answers or errs; none crashes
 * or loops. Where the bytes look like a database the length in its header is put right, so that
 * damage deeper inside is reached.
 */
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "catalog.h"

static char path[64];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    snprintf(path, sizeof path, "/dev/shm/sampan-fuzz-open-%d", (int)getpid());
    return 0;
}

static bool write_input(const uint8_t *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    uint32_t page = size >= 100 ? (uint32_t)data[16] << 8 | data[17] : 0;
    bool whole = page >= 512 && size % page == 0;
    if (whole) {
        uint32_t n = (uint32_t)size / page;
        uint8_t be[4] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
        if (pwrite(fd, be, 4, 28) != 4 || pwrite(fd, data + 24, 4, 92) != 4)
            abort();
    }
    close(fd);
    return whole;
}

static bool see_page(void *arg, const struct entry *e, uint64_t cookie)
{
    unsigned *left = arg;
    (void)e, (void)cookie;
    return --*left > 0;
}

static bool see_row(void *arg, const struct entry *e)
{
    return see_page(arg, e, 0);
}

static int see_bad(void *arg, const char *key, size_t len, const char *why, struct err *err)
{
    (void)key, (void)len, (void)why, (void)err;
    return see_page(arg, NULL, 0) ? 0 : 1;
}

static bool see_change(void *arg, char kind, const char *name, size_t len, bool folder,
                       uint64_t old_id, uint64_t new_id)
{
    (void)kind, (void)name, (void)len, (void)folder, (void)old_id, (void)new_id;
    return see_page(arg, NULL, 0);
}

static void read_all(struct catalog *c)
{
    struct entry e;
    struct bytes text = {0};
    unsigned left = 1000;
    catalog_verify(c, NULL);
    catalog_page(c, CATALOG_ROOT_ID, 0, see_page, &left, NULL);
    catalog_walk(c, 0, see_row, &left, NULL);
    catalog_walk_below(c, CATALOG_ROOT_ID, see_row, &left, NULL);
    catalog_bad_names(c, see_bad, &left, NULL);
    catalog_diff(c, c, see_change, &left, NULL);
    catalog_find(c, "a/b.jpg", &e, NULL);
    for (uint64_t i = 0; i < 40; i++) {
        struct unit_info u;
        uint64_t id;
        if (catalog_unit(c, i, &u, NULL) == 0)
            unit_info_release(&u);
        catalog_get(c, i, &e, NULL);
        catalog_path(c, i, &text, NULL);
        catalog_numbers(c, i, 1, &id, NULL);
        catalog_page(c, 1 + i % 4, i, see_page, &left, NULL);
    }
    bytes_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct catalog *c;
    struct err e = {0};
    write_input(data, size);
    if (catalog_open(&c, path, &e) == 0) {
        read_all(c);
        catalog_unref(c);
    } else if (!e.class || !e.msg[0]) {
        abort();
    }
    unlink(path);
    return 0;
}
