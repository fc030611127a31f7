/*
 * Time zones as values: local time of a named zone without the process's TZ, so that two threads
 * can ask for two zones. Reads the system's zone files (TZif) and their rule for the years beyond.
 */
#ifndef SAMPAN_BASE_ZONE_H
#define SAMPAN_BASE_ZONE_H

#include <stdint.h>

#include "err.h"

struct zone;
/* "" or "UTC", a fixed offset "+08:00", or a name of the zone database ("Asia/Shanghai"), which
 * lies in $TZDIR or /usr/share/zoneinfo. */
int zone_open(struct zone **ret, const char *name, struct err *err);
/* A zone file's bytes; `what` names them in errors. */
int zone_parse(struct zone **ret, const char *what, const void *data, size_t len, struct err *err);
void zone_free(struct zone *z);

/* Seconds east of Greenwich at this moment (seconds since 1970). */
int32_t zone_offset(const struct zone *z, int64_t utc);
/* The moment at which clocks show `local` (seconds since 1970 as if the zone were UTC): of two the
 * first; when the clocks jump over it, the moment of the jump. */
int64_t zone_utc(const struct zone *z, int64_t local);

/* Days since 1970-01-01 of a date of the Gregorian calendar, and back. */
int64_t civil_days(int64_t year, unsigned month, unsigned day);
void civil_date(int64_t days, int64_t *ret_year, unsigned *ret_month, unsigned *ret_day);

#endif
