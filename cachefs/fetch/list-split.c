/* Where a span of keys is cut: see list-internal.h. */
#include <string.h>

#include "list-internal.h"

static bool raisable(unsigned char c)
{
    return c >= ' ' && c < '~'; /* the result is still one character of ASCII */
}

bool span_split(const struct span *s, const char *last, struct bytes *ret)
{
    size_t start = strlen(s->prefix), len = strlen(last);
    if (strncmp(last, s->prefix, start) != 0)
        return false;
    for (size_t i = start; i < len; i++) {
        unsigned char c = (unsigned char)last[i];
        if (s->folders && (c == '/' || c + 1 == '/'))
            return false;
        if (!raisable(c))
            continue;
        bytes_clear(ret);
        bytes_add(ret, last, i);
        bytes_add_char(ret, (char)(c + 1));
        if (!*s->end || strcmp(ret->data, s->end) < 0)
            return true;
    }
    return false;
}
