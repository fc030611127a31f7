/* A growing byte string. (Refcounted buffers are made by pools: mem.c.) */
#include "buf.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"

void bytes_release(struct bytes *b)
{
    free(b->data);
    *b = (struct bytes){0};
}

void bytes_wipe(struct bytes *b)
{
    if (b->data)
        explicit_bzero(b->data, b->cap);
    bytes_release(b);
}

void bytes_clear(struct bytes *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

void bytes_reserve(struct bytes *b, size_t more)
{
    size_t want;
    if (__builtin_add_overflow(b->len, more, &want) || __builtin_add_overflow(want, 1, &want))
        want = SIZE_MAX; /* no system gives that: xrealloc() ends the process with a message */
    if (want <= b->cap)
        return;
    size_t cap = b->cap < 64 ? 64 : b->cap + b->cap / 2;
    if (cap < want)
        cap = want;
    b->data = xrealloc(b->data, cap);
    b->cap = cap;
    b->data[b->len] = '\0';
}

void bytes_add(struct bytes *b, const void *data, size_t len)
{
    bytes_reserve(b, len);
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void bytes_add_str(struct bytes *b, const char *text)
{
    bytes_add(b, text, strlen(text));
}

void bytes_add_char(struct bytes *b, char c)
{
    bytes_add(b, &c, 1);
}

void bytes_addf(struct bytes *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    assert(n >= 0);
    bytes_reserve(b, (size_t)n);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
    va_end(again);
    b->len += (size_t)n;
}

char *bytes_take(struct bytes *b)
{
    char *text = b->data ? b->data : xstrdup("");
    *b = (struct bytes){0};
    return text;
}
