/*
 * Zone files: a table of moments at which the offset changes and, for what comes after the table, a
 * rule in the form of POSIX's TZ variable.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "buf.h"
#include "mem.h"
#include "zone.h"

#define DAY           86400
#define ZONE_FILE_MAX (1u << 20)

/* When in a year a rule's change happens. */
struct change {
    enum { NEVER, MONTH_WEEK, JULIAN, DAY_OF_YEAR } kind;
    unsigned month, week, day; /* JULIAN: day 1..365, no 29 February; DAY_OF_YEAR: 0..365 */
    int32_t time;              /* seconds after midnight, as clocks show before the change */
};

struct zone {
    size_t n;
    int64_t *at;     /* offset[i] holds from at[i] on; at[0] is INT64_MIN */
    int32_t *offset; /* seconds east */
    bool has_rule;   /* for moments after the table */
    int32_t standard, summer;
    struct change to_summer, to_standard;
};

/* --- the calendar ----------------------------------------------------------------------------- */

/* Years are counted from March, so that the leap day is their last. */
int64_t civil_days(int64_t year, unsigned month, unsigned day)
{
    int64_t y = year - (month <= 2);
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t of_era = y - era * 400;
    int64_t of_year = (153 * (int64_t)(month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

void civil_date(int64_t days, int64_t *ret_year, unsigned *ret_month, unsigned *ret_day)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t of_era = z - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t march_month = (5 * of_year + 2) / 153;
    *ret_day = (unsigned)(of_year - (153 * march_month + 2) / 5 + 1);
    *ret_month = (unsigned)(march_month < 10 ? march_month + 3 : march_month - 9);
    *ret_year = year + era * 400 + (*ret_month <= 2);
}

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static unsigned weekday(int64_t days)
{
    return (unsigned)(((days + 4) % 7 + 7) % 7); /* 1970-01-01 was a Thursday */
}

/* --- the rule --------------------------------------------------------------------------------- */

/* Local seconds since 1970 at which clocks change in `year`. */
static int64_t change_at(const struct change *c, int64_t year)
{
    int64_t day = civil_days(year, 1, 1);
    switch (c->kind) {
    case MONTH_WEEK: {
        int64_t first = civil_days(year, c->month, 1);
        int64_t next =
            c->month == 12 ? civil_days(year + 1, 1, 1) : civil_days(year, c->month + 1, 1);
        day = first + (c->day + 7 - weekday(first)) % 7 + 7 * (int64_t)(c->week - 1);
        while (day >= next)
            day -= 7; /* week 5: the last one */
        break;
    }
    case JULIAN:
        day += c->day - 1 + (is_leap(year) && c->day > 59);
        break;
    case DAY_OF_YEAR:
        day += c->day;
        break;
    case NEVER:
        break;
    }
    return day * DAY + c->time;
}

static int32_t rule_offset(const struct zone *z, int64_t utc)
{
    if (z->to_summer.kind == NEVER)
        return z->standard;
    int64_t year;
    unsigned month, day;
    int64_t local = utc + z->standard;
    civil_date(local / DAY - (local % DAY < 0), &year, &month, &day);
    int64_t begin = change_at(&z->to_summer, year) - z->standard;
    int64_t end = change_at(&z->to_standard, year) - z->summer;
    bool summer = begin < end ? utc >= begin && utc < end : utc >= begin || utc < end;
    return summer ? z->summer : z->standard;
}

static bool take_name(const char **p)
{
    const char *start = *p;
    if (**p == '<') {
        const char *end = strchr(*p, '>');
        *p = end ? end + 1 : *p;
        return end != NULL;
    }
    while (isalpha((unsigned char)**p))
        (*p)++;
    return *p - start >= 3;
}

static bool take_uint(const char **p, unsigned max, unsigned *ret)
{
    unsigned n = 0;
    if (!isdigit((unsigned char)**p))
        return false;
    while (isdigit((unsigned char)**p) && n <= max)
        n = n * 10 + (unsigned)(*(*p)++ - '0');
    *ret = n;
    return n <= max;
}

/* [+-]hh[:mm[:ss]], up to a week as newer files have it. */
static bool take_time(const char **p, int32_t *ret)
{
    int sign = **p == '-' ? -1 : 1;
    unsigned part[3] = {0};
    if (**p == '-' || **p == '+')
        (*p)++;
    if (!take_uint(p, 167, &part[0]))
        return false;
    for (int i = 1; i < 3 && **p == ':'; i++) {
        (*p)++;
        if (!take_uint(p, 59, &part[i]))
            return false;
    }
    *ret = sign * (int32_t)(part[0] * 3600 + part[1] * 60 + part[2]);
    return true;
}

static bool take_separator(const char **p, char c)
{
    return *(*p)++ == c;
}

static bool take_change(const char **p, struct change *ret)
{
    bool good;
    *ret = (struct change){.time = 7200};
    if (*(*p)++ != ',')
        return false;
    if (**p == 'M') {
        (*p)++;
        ret->kind = MONTH_WEEK;
        good = take_uint(p, 12, &ret->month) && take_separator(p, '.') &&
               take_uint(p, 5, &ret->week) && take_separator(p, '.') &&
               take_uint(p, 6, &ret->day) && ret->month >= 1 && ret->week >= 1;
    } else {
        ret->kind = **p == 'J' ? JULIAN : DAY_OF_YEAR;
        *p += **p == 'J';
        good = take_uint(p, 365, &ret->day) && (ret->kind != JULIAN || ret->day >= 1);
    }
    if (!good || **p != '/')
        return good;
    (*p)++;
    return take_time(p, &ret->time);
}

/* "CET-1CEST,M3.5.0,M10.5.0/3": offsets are west of Greenwich. */
static bool parse_rule(struct zone *z, const char *text)
{
    int32_t west;
    if (!take_name(&text) || !take_time(&text, &west))
        return false;
    z->standard = -west;
    if (!*text)
        return true;
    z->summer = z->standard + 3600;
    if (!take_name(&text))
        return false;
    if (*text && *text != ',') {
        if (!take_time(&text, &west))
            return false;
        z->summer = -west;
    }
    return take_change(&text, &z->to_summer) && take_change(&text, &z->to_standard) && !*text;
}

/* --- the file --------------------------------------------------------------------------------- */

struct header {
    char magic[4], version;
    uint64_t isut, isstd, leaps, times, types, chars;
};
#define HEADER_BYTES 44u

static uint64_t big(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v = v << 8 | p[i];
    return v;
}

static bool parse_header(struct header *h, const unsigned char *p, size_t len)
{
    if (len < HEADER_BYTES || memcmp(p, "TZif", 4) != 0)
        return false;
    *h = (struct header){.version = (char)p[4],
                         .isut = big(p + 20, 4),
                         .isstd = big(p + 24, 4),
                         .leaps = big(p + 28, 4),
                         .times = big(p + 32, 4),
                         .types = big(p + 36, 4),
                         .chars = big(p + 40, 4)};
    return h->types > 0;
}

static uint64_t body_bytes(const struct header *h, unsigned time_size)
{
    return h->times * time_size + h->times + h->types * 6 + h->chars + h->leaps * (time_size + 4) +
           h->isstd + h->isut;
}

static bool parse_table(struct zone *z, const struct header *h, const unsigned char *p)
{
    const unsigned char *index = p + h->times * 8;
    const unsigned char *types = index + h->times;
    z->n = h->times + 1;
    z->at = xcalloc(z->n, sizeof *z->at);
    z->offset = xcalloc(z->n, sizeof *z->offset);
    z->at[0] = INT64_MIN;
    z->offset[0] = (int32_t)(uint32_t)big(types, 4);
    for (size_t i = 0; i < h->times; i++) {
        if (index[i] >= h->types)
            return false;
        z->at[i + 1] = (int64_t)big(p + i * 8, 8);
        z->offset[i + 1] = (int32_t)(uint32_t)big(types + index[i] * 6ul, 4);
        if (z->at[i + 1] < z->at[i])
            return false;
    }
    for (size_t i = 0; i < z->n; i++)
        if (z->offset[i] < -DAY * 2 || z->offset[i] > DAY * 2)
            return false;
    return true;
}

static bool parse_file(struct zone *z, const unsigned char *p, size_t len)
{
    struct header h;
    if (!parse_header(&h, p, len) || h.version < '2')
        return false;
    uint64_t skip = HEADER_BYTES + body_bytes(&h, 4);
    if (skip >= len || !parse_header(&h, p + skip, len - skip))
        return false;
    p += skip + HEADER_BYTES;
    len -= skip + HEADER_BYTES;
    uint64_t body = body_bytes(&h, 8);
    if (body > len || !parse_table(z, &h, p))
        return false;
    p += body;
    len -= body;
    const unsigned char *end = len > 1 ? memchr(p + 1, '\n', len - 1) : NULL;
    if (!end || p[0] != '\n')
        return false;
    cleanup_free char *rule = xstrndup((const char *)p + 1, (size_t)(end - p) - 1);
    z->has_rule = *rule && parse_rule(z, rule);
    return z->has_rule || !*rule;
}

int zone_parse(struct zone **ret, const char *what, const void *data, size_t len, struct err *err)
{
    struct zone *z = xcalloc(1, sizeof *z);
    if (!parse_file(z, data, len)) {
        zone_free(z);
        return err_set(err, ERR_USAGE, "time zone %s: not a zone file of version 2 or later", what);
    }
    *ret = z;
    return 0;
}

static struct zone *fixed_zone(int32_t offset)
{
    struct zone *z = xcalloc(1, sizeof *z);
    z->n = 1;
    z->at = xcalloc(1, sizeof *z->at);
    z->offset = xcalloc(1, sizeof *z->offset);
    z->at[0] = INT64_MIN;
    z->offset[0] = offset;
    return z;
}

/* Letters, digits and "_+-/", no part that starts with a dot: never a way out of the folder. */
static bool is_name(const char *name)
{
    if (!isalpha((unsigned char)name[0]))
        return false;
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_+-/", *p))
            return false;
    return strlen(name) < 100;
}

int zone_open(struct zone **ret, const char *name, struct err *err)
{
    const char *p = name;
    int32_t offset;
    if (!*name || strcmp(name, "UTC") == 0) {
        *ret = fixed_zone(0);
        return 0;
    }
    if ((*name == '+' || *name == '-') && take_time(&p, &offset) && !*p && offset > -DAY &&
        offset < DAY) {
        *ret = fixed_zone(offset);
        return 0;
    }
    if (!is_name(name))
        return err_set(err, ERR_USAGE,
                       "time zone \"%s\": want a name like Asia/Shanghai, or +08:00", name);
    const char *dir = getenv("TZDIR");
    cleanup_free char *path = xasprintf("%s/%s", dir ? dir : "/usr/share/zoneinfo", name);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_set(err, ERR_USAGE,
                       "time zone \"%s\": %s: %s (is the name right? is the package tzdata "
                       "installed? an offset like +08:00 needs none)",
                       name, path, strerror(errno));
    cleanup_free char *data = xmalloc(ZONE_FILE_MAX);
    ssize_t n = read(fd, data, ZONE_FILE_MAX);
    if (n < 0)
        return err_sys(err, errno, "time zone \"%s\": read %s", name, path);
    return zone_parse(ret, name, data, (size_t)n, err);
}

void zone_free(struct zone *z)
{
    if (!z)
        return;
    free(z->at);
    free(z->offset);
    free(z);
}

/* --- asking ----------------------------------------------------------------------------------- */

int32_t zone_offset(const struct zone *z, int64_t utc)
{
    size_t low = 0, high = z->n; /* at[low] <= utc < at[high] */
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (z->at[mid] <= utc)
            low = mid;
        else
            high = mid;
    }
    return low == z->n - 1 && z->has_rule ? rule_offset(z, utc) : z->offset[low];
}

int64_t zone_utc(const struct zone *z, int64_t local)
{
    int32_t before = zone_offset(z, local - DAY), after = zone_offset(z, local + DAY);
    int32_t more = before > after ? before : after, less = before > after ? after : before;
    if (zone_offset(z, local - more) == more)
        return local - more; /* the earlier one of two */
    if (zone_offset(z, local - less) == less)
        return local - less;
    int64_t low = local - DAY, high = local + DAY; /* the clocks jump over it: find the jump */
    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2;
        if (zone_offset(z, mid) == before)
            low = mid;
        else
            high = mid;
    }
    return high;
}
