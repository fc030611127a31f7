/* A sample's bytes: from its pack, else by open, read, close. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "clock.h"
#include "loader-internal.h"

/* One thread adds, others look: no locked instruction. */
static void count(_Atomic uint64_t *c, uint64_t n)
{
    uint64_t was = atomic_load_explicit(c, memory_order_relaxed);
    atomic_store_explicit(c, was + n, memory_order_relaxed);
}

static int read_all(int fd, unsigned char *to, size_t size, struct err *err)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(fd, to + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "read at %zu", done);
        if (n == 0)
            return err_set(err, ERR_STALE, "it ends at %zu of %zu bytes", done, size);
        done += (size_t)n;
    }
    return 0;
}

static int check_size(const struct reader *r, uint64_t size, struct err *err)
{
    if (size <= r->max_bytes)
        return 0;
    return err_set(err, ERR_LIMIT, "%llu bytes: at most %llu", (unsigned long long)size,
                   (unsigned long long)r->max_bytes);
}

static int read_file(const struct reader *r, const char *path, room_fn *room, void *arg, void **ret,
                     size_t *ret_len, struct err *err)
{
    struct stat st;
    cleanup_close int fd = openat(r->dir, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open");
    if (fstat(fd, &st))
        return err_sys(err, errno, "look at it");
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_CORRUPT, "not a file");
    size_t size = (size_t)st.st_size;
    void *at = check_size(r, (uint64_t)st.st_size, err) ? NULL : room(arg, size, err);
    if (!at || read_all(fd, at, size, err))
        return -1;
    *ret = at;
    *ret_len = size;
    return 0;
}

/* 1: it was not to be had from a pack. */
static int read_direct(const struct reader *r, uint64_t number, struct direct_hand *hand,
                       struct counts *c, room_fn *room, void *arg, void **ret, size_t *ret_len,
                       struct err *err)
{
    size_t size;
    if (!direct_find(r->direct, hand, number, &size))
        return 1;
    void *at = check_size(r, size, err) ? NULL : room(arg, size, err);
    if (!at)
        return -1;
    if (!direct_copy(r->direct, hand, at)) {
        count(&c->corrupt, 1);
        return 1;
    }
    count(&c->direct_samples, 1);
    count(&c->direct_bytes, size);
    *ret = at;
    *ret_len = size;
    return 0;
}

int reader_read(const struct reader *r, uint64_t number, struct direct_hand *hand, struct counts *c,
                room_fn *room, void *arg, void **ret, size_t *ret_len, struct err *err)
{
    int rc = r->direct ? read_direct(r, number, hand, c, room, arg, ret, ret_len, err) : 1;
    if (rc <= 0)
        return rc;
    if (r->direct_only)
        return err_set(err, ERR_NOT_FOUND, "not in a pack of the cache (warm it up)");
    if (read_file(r, file_list_get(&r->index->files, number), room, arg, ret, ret_len, err))
        return -1;
    count(&c->mount_samples, 1);
    count(&c->mount_bytes, *ret_len);
    return 0;
}
