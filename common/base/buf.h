/*
 * Bytes: a growing byte string, and a refcounted buffer that belongs to a bounded pool.
 *
 * struct bytes  grows, has one owner, is always followed by a NUL that `len` does not count.
 * struct buf    fixed capacity, shared by reference; the data path's bytes land in one of these
 *               once, and both the reply and the pack are written from it.
 */
#ifndef SAMPAN_BASE_BUF_H
#define SAMPAN_BASE_BUF_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "cleanup.h"

struct bytes {
    char *data; /* NULL while empty and never grown */
    size_t len;
    size_t cap;
};

void bytes_release(struct bytes *b); /* frees the data, leaves it empty and usable */
void bytes_wipe(struct bytes *b);    /* the same for what is secret: overwrites it first */
void bytes_clear(struct bytes *b);   /* length 0, keeps the memory */
void bytes_reserve(struct bytes *b, size_t more);
void bytes_add(struct bytes *b, const void *data, size_t len);
void bytes_add_str(struct bytes *b, const char *text);
void bytes_add_char(struct bytes *b, char c);
__attribute__((format(printf, 2, 3))) void bytes_addf(struct bytes *b, const char *fmt, ...);
char *bytes_take(struct bytes *b); /* the NUL-ended text, now the caller's; never NULL */

#define cleanup_bytes CLEANUP(bytes_release)
#define cleanup_wiped CLEANUP(bytes_wipe)

struct pool;

struct buf {
    atomic_int refs;
    size_t len; /* bytes that are valid */
    size_t cap;
    struct pool *pool; /* charged with `cap` until the last reference goes */
    unsigned char *data;
};

struct buf *buf_ref(struct buf *b);
void buf_unref(struct buf *b); /* NULL is fine */

static inline void cleanup_buf_fn(struct buf **b)
{
    buf_unref(*b);
}
#define cleanup_buf CLEANUP(cleanup_buf_fn)

#endif
