/*
 * Cron expressions: "MINUTE HOUR DAY MONTH WEEKDAY", each a list of numbers, ranges and steps
 * ("1,5-9", "0-59/15", "MON-FRI", "JAN"), or @hourly @daily @weekly @monthly @yearly. As in cron,
 * if day and weekday are both restricted either is enough. In the hour that clocks skip, a time
 * runs at the jump; in the hour that comes twice, once.
 */
#ifndef SAMPAN_BASE_CRON_H
#define SAMPAN_BASE_CRON_H

#include <stdbool.h>
#include <stdint.h>

#include "err.h"
#include "zone.h"

struct cron {
    uint64_t minutes, hours, days, months, weekdays; /* bit n: n is in the list */
    bool any_day, any_weekday;                       /* the field starts with a star */
};
int cron_parse(struct cron *ret, const char *text, struct err *err);
/* The first moment after `after` (seconds since 1970) that matches; -1: none within 8 years (the
 * 30th of February). */
int64_t cron_next(const struct cron *c, const struct zone *z, int64_t after);

#endif
