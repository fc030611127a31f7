/* Kubernetes quantities: a decimal number and a suffix, binary (Ki) or decimal (k), or an exponent.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"

static const struct {
    const char *name;
    double factor;
} suffixes[] = {{"", 1},
                {"Ki", 1024},
                {"Mi", 1048576.0},
                {"Gi", 1073741824.0},
                {"Ti", 1099511627776.0},
                {"k", 1e3},
                {"M", 1e6},
                {"G", 1e9},
                {"T", 1e12},
                {"Pi", 1125899906842624.0},
                {"P", 1e15},
                {"E", 1e18},
                {"m", 1e-3},
                {"Ei", 1152921504606846976.0}};

static bool is_number(const char *text, size_t len)
{
    size_t digits = 0, dots = 0;
    for (size_t i = 0; i < len; i++) {
        digits += text[i] >= '0' && text[i] <= '9';
        dots += text[i] == '.';
    }
    return digits > 0 && dots < 2 && digits + dots == len;
}

int api_quantity(const char *text, uint64_t *ret, struct err *err)
{
    size_t len = strspn(text, "0123456789.");
    const char *suffix = text + len;
    double factor = 0;
    char *end;
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (strcmp(suffix, suffixes[i].name) == 0)
            factor = suffixes[i].factor;
    if (factor == 0 && (*suffix == 'e' || *suffix == 'E')) {
        long exponent = strtol(suffix + 1, &end, 10);
        if (end > suffix + 1 && !*end && exponent >= -18 && exponent <= 18)
            factor = pow(10, (double)exponent);
    }
    if (!is_number(text, len) || factor == 0)
        return err_set(err, ERR_USAGE, "\"%s\": want a quantity, as 10Gi or 500M", text);
    /* Whole numbers are exact beyond 2^53 too. */
    if (!memchr(text, '.', len) && factor >= 1) {
        errno = 0;
        unsigned long long n = strtoull(text, &end, 10);
        if (!errno && n <= UINT64_MAX / (uint64_t)factor) {
            *ret = n * (uint64_t)factor;
            return 0;
        }
    }
    double bytes = ceil(strtod(text, NULL) * factor);
    if (bytes >= 18446744073709551615.0)
        return err_set(err, ERR_USAGE, "\"%s\": more than any disk holds", text);
    *ret = (uint64_t)bytes;
    return 0;
}
