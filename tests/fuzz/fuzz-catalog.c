/* A catalog file whose bytes anybody may have changed: refused with an error, or read without harm.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "catalog.h"

static bool count(void *arg, const struct entry *e, uint64_t cookie)
{
    unsigned *left = arg;

    (void)cookie;
    (void)e;
    return --*left > 0;
}

static void read_all(struct catalog *c)
{
    struct err err = {0};
    struct entry e;
    struct unit_info u = {0};
    struct bytes path = {0};
    uint64_t id;
    unsigned left = 50;

    catalog_page(c, CATALOG_ROOT_ID, 0, count, &left, &err);
    for (uint64_t i = 0; i < 12; i++) {
        catalog_get(c, i, &e, &err);
        catalog_path(c, i, &path, &err);
        if (catalog_unit(c, i, &u, &err) == 0)
            unit_info_release(&u);
        catalog_number(c, i, &id, &err);
    }
    catalog_find(c, "class-000/000001.bin", &e, &err);
    bytes_release(&path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct catalog *c;
    struct err err = {0};
    char name[64];
    int fd = memfd_create("catalog", MFD_CLOEXEC);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    if (catalog_open(&c, name, &err) == 0) {
        read_all(c);
        catalog_unref(c);
    }
    close(fd);
    return 0;
}
