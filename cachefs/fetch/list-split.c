/* Where a span of keys is cut: see list-internal.h. */
#include <string.h>

#include "list-internal.h"

#define PLACES_MAX 64 /* that are thought of, those next to `last` first */

/* `last` up to `at`, and then `c`. */
struct place {
    size_t at;
    char c;
};

static bool raisable(char c)
{
    return c >= ' ' && c < '~'; /* the result is still one character of ASCII */
}

/* The last character that may well follow in a row of names: of digits, hexadecimal ones, letters.
 */
static char last_of_row(char c)
{
    static const char rows[][3] = {"09", "af", "fz", "AF", "FZ"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (c >= rows[i][0] && c <= rows[i][1])
            return rows[i][1];
    return c;
}

static void place_write(const char *last, struct place p, struct bytes *ret)
{
    bytes_clear(ret);
    bytes_add(ret, last, p.at);
    bytes_add_char(ret, p.c);
}

struct places {
    struct place of[PLACES_MAX]; /* ascending */
    size_t n;
};

/* The places that differ from `last` in the character `at`, at most `most` of them. */
static void add_places(const struct span *s, const char *last, size_t at, size_t most,
                       struct places *to)
{
    struct bytes key = {0};
    char c = last[at], end = raisable(c) ? last_of_row(c) : c;
    for (char next = (char)(c + 1); raisable(c) && next <= end + 1 && next <= '~' && most; next++) {
        if (to->n == PLACES_MAX || (s->folders && next == '/'))
            break;
        struct place p = {at, next};
        place_write(last, p, &key);
        if (*s->end && strcmp(key.data, s->end) >= 0)
            break;
        to->of[to->n++] = p;
        most--;
    }
    bytes_release(&key);
}

/* Before the first '/' in a span of one level: a folder's name could fall on both sides. */
static size_t last_place(const struct span *s, const char *last)
{
    size_t start = strlen(s->prefix);
    return s->folders ? start + strcspn(last + start, "/") : strlen(last);
}

size_t span_cuts(const struct span *s, const char *first, const char *last, size_t most,
                 struct bytes *ret)
{
    size_t start = strlen(s->prefix), differ = 0;
    if (strncmp(last, s->prefix, start) != 0)
        return 0;
    size_t end = last_place(s, last);
    while (last[differ] && first[differ] == last[differ])
        differ++;
    struct places places = {.n = 0};
    for (size_t at = differ < end ? differ + 1 : end; at-- > start;)
        add_places(s, last, at, PLACES_MAX, &places);
    for (size_t at = differ + 1; at < end && !places.n; at++)
        add_places(s, last, at, 1, &places);
    size_t n = places.n < most ? places.n : most;
    for (size_t i = 0; i < n; i++)
        place_write(last, places.of[(2 * i + 1) * places.n / (2 * n)], &ret[i]);
    return n;
}
