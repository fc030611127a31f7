/* Cron expressions as sets of bits; the next match is sought day by day, then minute by minute. */
#include <assert.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "cron.h"

#define DAY        86400
#define DAYS_AHEAD (8 * 366 + 1) /* the longest gap between two 29ths of February */

struct field {
    const char *name;
    unsigned min, max;
    const char *words; /* of three letters each, for min, min + 1, … */
};
enum { MINUTE, HOUR, DAY_OF_MONTH, MONTH, WEEKDAY, N_FIELDS };
static const struct field fields[N_FIELDS] = {
    {"minute", 0, 59, ""},
    {"hour", 0, 23, ""},
    {"day", 1, 31, ""},
    {"month", 1, 12, "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"},
    {"weekday", 0, 7, "SUNMONTUEWEDTHUFRISAT"},
};

static int bad(const struct field *f, const char *text, struct err *err)
{
    return err_set(err, ERR_USAGE, "%s \"%.*s\": want %u to %u, lists, ranges or steps (*/5)",
                   f->name, (int)strcspn(text, " \t"), text, f->min, f->max);
}

static bool take_value(const struct field *f, const char **p, unsigned *ret)
{
    unsigned n = 0;
    for (unsigned i = 0; f->words[i * 3]; i++)
        if (strncasecmp(*p, f->words + i * 3ul, 3) == 0) {
            *p += 3;
            *ret = f->min + i;
            return true;
        }
    if (!isdigit((unsigned char)**p))
        return false;
    while (isdigit((unsigned char)**p) && n < 1000)
        n = n * 10 + (unsigned)(*(*p)++ - '0');
    *ret = n;
    return n >= f->min && n <= f->max;
}

/* One part of a list: VALUE, VALUE-VALUE or a star, and an optional /STEP. */
static bool take_range(const struct field *f, const char **p, uint64_t *bits)
{
    unsigned first = f->min, last = f->max, step = 1;
    bool one = false;
    if (**p == '*' || **p == '?') {
        (*p)++;
    } else {
        if (!take_value(f, p, &first))
            return false;
        last = first;
        one = **p != '-';
        if (!one && ((*p)++, !take_value(f, p, &last)))
            return false;
    }
    if (**p == '/') {
        struct field steps = {.min = 1, .max = f->max, .words = ""};
        (*p)++;
        if (!take_value(&steps, p, &step))
            return false;
        last = one ? f->max : last;
    }
    if (first > last)
        return false;
    assert(last < 64); /* both were checked against the field's bounds */
    for (unsigned n = first; n <= last; n += step)
        *bits |= 1ull << n;
    return true;
}

static int take_field(const struct field *f, const char **p, uint64_t *bits, struct err *err)
{
    const char *start = *p;
    *bits = 0;
    for (;; (*p)++) {
        if (!take_range(f, p, bits))
            return bad(f, start, err);
        if (**p != ',')
            break;
    }
    if (**p && !isblank((unsigned char)**p))
        return bad(f, start, err);
    while (isblank((unsigned char)**p))
        (*p)++;
    return 0;
}

static const char *nickname(const char *text)
{
    static const char *const names[][2] = {{"@hourly", "0 * * * *"},   {"@daily", "0 0 * * *"},
                                           {"@midnight", "0 0 * * *"}, {"@weekly", "0 0 * * 0"},
                                           {"@monthly", "0 0 1 * *"},  {"@yearly", "0 0 1 1 *"},
                                           {"@annually", "0 0 1 1 *"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcasecmp(text, names[i][0]) == 0)
            return names[i][1];
    return text;
}

int cron_parse(struct cron *ret, const char *text, struct err *err)
{
    const char *p = nickname(text);
    uint64_t bits[N_FIELDS];
    bool star[N_FIELDS];
    while (isblank((unsigned char)*p))
        p++;
    for (int i = 0; i < N_FIELDS; i++) {
        star[i] = *p == '*' || *p == '?';
        if (!*p)
            return err_set(err, ERR_USAGE,
                           "schedule \"%s\": %d fields, want 5 (minute hour day month weekday)",
                           text, i);
        if (take_field(&fields[i], &p, &bits[i], err))
            return err_wrap(err, "schedule \"%s\"", text);
    }
    if (*p)
        return err_set(err, ERR_USAGE,
                       "schedule \"%s\": more than 5 fields (minute hour day month weekday)", text);
    if (bits[WEEKDAY] & 1ull << 7)
        bits[WEEKDAY] |= 1; /* 7 is Sunday too */
    *ret = (struct cron){.minutes = bits[MINUTE],
                         .hours = bits[HOUR],
                         .days = bits[DAY_OF_MONTH],
                         .months = bits[MONTH],
                         .weekdays = bits[WEEKDAY],
                         .any_day = star[DAY_OF_MONTH],
                         .any_weekday = star[WEEKDAY]};
    return 0;
}

static bool day_matches(const struct cron *c, int64_t days)
{
    int64_t year;
    unsigned month, day;
    civil_date(days, &year, &month, &day);
    unsigned weekday = (unsigned)(((days + 4) % 7 + 7) % 7);
    bool by_day = c->days >> day & 1, by_weekday = c->weekdays >> weekday & 1;
    if (!(c->months >> month & 1))
        return false;
    return c->any_day || c->any_weekday ? by_day && by_weekday : by_day || by_weekday;
}

/* The first match of a local day that is after `after`, or -1. */
static int64_t match_in_day(const struct cron *c, const struct zone *z, int64_t days, int64_t after)
{
    for (unsigned hour = 0; hour < 24; hour++) {
        if (!(c->hours >> hour & 1))
            continue;
        for (unsigned minute = 0; minute < 60; minute++) {
            if (!(c->minutes >> minute & 1))
                continue;
            int64_t at = zone_utc(z, days * DAY + hour * 3600 + minute * 60);
            if (at > after)
                return at;
        }
    }
    return -1;
}

int64_t cron_next(const struct cron *c, const struct zone *z, int64_t after)
{
    int64_t local = after + zone_offset(z, after);
    int64_t today = local / DAY - (local % DAY < 0);
    for (int64_t day = today; day <= today + DAYS_AHEAD; day++) {
        int64_t at = day_matches(c, day) ? match_in_day(c, z, day, after) : -1;
        if (at >= 0)
            return at;
    }
    return -1;
}
