/* Cutting a list's text into its items. */
#include "items.h"

#include <stdbool.h>
#include <string.h>

#define KEY "\"items\""

/* Where the string at `at` ends: behind its closing quote. */
static const char *string_end(const char *at, const char *end)
{
    for (at++; at < end; at++) {
        if (*at == '"')
            return at + 1;
        at += *at == '\\' && at + 1 < end;
    }
    return end;
}

void items_cut(const char *text, size_t len,
               void (*each)(void *arg, const char *item, size_t item_len), void *arg,
               struct bytes *rest)
{
    const char *end = text + len, *item = NULL, *copied = text;
    bool key = false, within = false; /* the list's last string was KEY; we are in its array */
    size_t depth = 0;
    for (const char *at = text, *next; at < end; at = next) {
        next = *at == '"' ? string_end(at, end) : at + 1;
        if (*at == '"' && depth == 1) {
            key = (size_t)(next - at) == strlen(KEY) && memcmp(at, KEY, strlen(KEY)) == 0;
        } else if (*at == '{' || *at == '[') {
            depth++;
            if (depth == 2 && *at == '[' && key) {
                within = true;
                bytes_add(rest, copied, (size_t)(next - copied));
            } else if (depth == 3 && within) {
                item = at;
            }
        } else if (*at == '}' || *at == ']') {
            depth -= depth > 0;
            if (depth == 2 && item) {
                each(arg, item, (size_t)(next - item));
                item = NULL;
            } else if (depth == 1 && within) {
                within = false;
                copied = at;
            }
        }
    }
    if (!within)
        bytes_add(rest, copied, (size_t)(end - copied));
}
