/* Sizes, rates, durations: text to number and back; and the nearest known word. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "conf.h"

struct unit {
    const char *name;
    double factor;
};

#define KI 1024.0
static const struct unit size_units[] = {
    {"", 1},
    {"B", 1},
    {"K", KI},
    {"M", KI *KI},
    {"G", KI *KI *KI},
    {"T", KI *KI *KI *KI},
    {"KiB", KI},
    {"MiB", KI *KI},
    {"GiB", KI *KI *KI},
    {"TiB", KI *KI *KI *KI},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
};
static const struct unit bit_units[] = {
    {"bit", 1 / 8.0}, {"Kbit", 1e3 / 8}, {"Mbit", 1e6 / 8}, {"Gbit", 1e9 / 8}};
static const struct unit time_units[] = {
    {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}};

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* "12.5" -> 12.5; no sign, exponent, hexadecimal, infinity. Returns what follows, or NULL. */
static const char *parse_number(const char *text, double *ret)
{
    size_t len = strspn(text, "0123456789.");
    if (len == 0 || len > 24 || text[0] == '.' || text[len - 1] == '.')
        return NULL;
    char *end;
    double n = strtod(text, &end);
    if (end != text + len)
        return NULL;
    *ret = n;
    return end;
}

/* Sizes and rates in any case, as people write them; durations exactly ("M" is no minute). */
static int apply_unit(const struct unit *units, size_t n_units, bool any_case, const char *name,
                      double number, uint64_t *ret)
{
    for (size_t i = 0; i < n_units; i++) {
        if ((any_case ? strcasecmp(units[i].name, name) : strcmp(units[i].name, name)) != 0)
            continue;
        double value = number * units[i].factor;
        if (value >= 9.2e18)
            return -1;
        *ret = (uint64_t)(value + 0.5);
        return 0;
    }
    return -1;
}

int conf_size(const char *text, uint64_t *ret, struct err *err)
{
    double n;
    const char *unit = parse_number(text, &n);
    if (!unit || apply_unit(size_units, COUNT(size_units), true, unit, n, ret))
        return err_set(err, ERR_USAGE, "\"%s\" is not a size (like 512, 64K, 10GiB or 5MB)", text);
    return 0;
}

int conf_rate(const char *text, uint64_t *ret, struct err *err)
{
    char copy[64];
    size_t len = strlen(text);
    if (len >= 2 && strcasecmp(text + len - 2, "/s") == 0)
        len -= 2;
    if (len < sizeof copy) {
        memcpy(copy, text, len);
        copy[len] = '\0';
        double n;
        const char *unit = parse_number(copy, &n);
        if (unit && (apply_unit(size_units, COUNT(size_units), true, unit, n, ret) == 0 ||
                     apply_unit(bit_units, COUNT(bit_units), true, unit, n, ret) == 0))
            return 0;
    }
    return err_set(err, ERR_USAGE,
                   "\"%s\" is not a rate (bytes a second, like 6MB or 512K, or bits: 50Mbit)",
                   text);
}

bool conf_is_port(const char *text)
{
    size_t n = strlen(text);
    return n > 0 && n <= 5 && strspn(text, "0123456789") == n && atoi(text) <= UINT16_MAX;
}

int conf_duration(const char *text, uint64_t *ret, struct err *err)
{
    double n;
    const char *unit = parse_number(text, &n);
    if (unit && n == 0 && !*unit) {
        *ret = 0; /* zero needs no unit */
        return 0;
    }
    if (!unit || apply_unit(time_units, COUNT(time_units), false, unit, n, ret))
        return err_set(err, ERR_USAGE, "\"%s\" is not a duration (like 250ms, 2s, 5m, 1h or 1d)",
                       text);
    return 0;
}

void conf_format_size(uint64_t n, char out[32])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)n;
    size_t i = 0;
    for (; value >= 1023.95 && i + 1 < COUNT(names); i++)
        value /= KI;
    if (i == 0)
        snprintf(out, 32, "%llu B", (unsigned long long)n);
    else
        snprintf(out, 32, "%.1f %s", value, names[i]);
}

void conf_format_count(uint64_t n, const char *one, char out[64])
{
    snprintf(out, 64, "%llu %s%s", (unsigned long long)n, one, n == 1 ? "" : "s");
}

void conf_format_duration(double s, char out[32])
{
    if (!(s >= 0) || s > 1e9) {
        snprintf(out, 32, "?");
        return;
    }
    if (s < 0.9995) {
        snprintf(out, 32, "%.0fms", s * 1e3);
        return;
    }
    if (s < 59.95) {
        snprintf(out, 32, "%.1fs", s);
        return;
    }
    unsigned long long t = (unsigned long long)(s + 0.5);
    if (t < 3600)
        snprintf(out, 32, "%llum%02llus", t / 60, t % 60);
    else if (t < 86400)
        snprintf(out, 32, "%lluh%02llum", t / 3600, t / 60 % 60);
    else
        snprintf(out, 32, "%llud%02lluh", t / 86400, t / 3600 % 24);
}

/* --- the nearest word ------------------------------------------------------------------------- */

#define WORD_MAX      40
#define LEAST_LETTERS 5 /* "port" is one letter from "sort", and no slip */
#define LONG_WORD     9

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`. */
static unsigned edit_distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b);
    unsigned rows[3][WORD_MAX + 1];
    if (la > WORD_MAX || lb > WORD_MAX)
        return WORD_MAX;
    for (size_t j = 0; j <= lb; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= la; i++) {
        unsigned *now = rows[i % 3];
        const unsigned *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= lb; j++) {
            now[j] = min3(before[j] + 1, now[j - 1] + 1, before[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                earlier[j - 2] + 1 < now[j])
                now[j] = earlier[j - 2] + 1;
        }
    }
    return rows[la % 3][lb];
}

/* The nearest that is less than `below` away. */
static const char *nearest_below(const char *word, const char *const *candidates, size_t n,
                                 unsigned below)
{
    const char *best = NULL;
    for (size_t i = 0; i < n; i++) {
        unsigned d = edit_distance(word, candidates[i]);
        if (d < below) {
            below = d;
            best = candidates[i];
        }
    }
    return best;
}

const char *conf_nearest(const char *word, const char *const *candidates, size_t n)
{
    return nearest_below(word, candidates, n, (unsigned)(strlen(word) + 2) / 3 + 1);
}

const char *conf_mistyped(const char *word, const char *const *candidates, size_t n)
{
    size_t len = strlen(word);
    unsigned slips = len < LEAST_LETTERS ? 0 : len < LONG_WORD ? 1 : 2;
    return nearest_below(word, candidates, n, slips + 1);
}
