/* Time: one monotonic and one wall clock, behind a value so that tests can move them. */
#ifndef SAMPAN_BASE_CLOCK_H
#define SAMPAN_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S  1000000000ull
#define NS_PER_MS 1000000ull

uint64_t clock_mono_ns(void);
int64_t clock_wall_ns(void);
/* A file's time as stat(2) tells it, in nanoseconds since 1970, and back; before that, too. What 64
 * bits of them cannot tell (before 1678, after 2261) is the first or last second that they can. */
#define CLOCK_MAX_S (INT64_MAX / (int64_t)NS_PER_S - 1)
int64_t clock_ns_of(const struct timespec *t);
struct timespec clock_timespec(int64_t ns);
/* Seconds since 1970 as "2026-01-01T00:00:00Z"; "" where a year has more than four digits. */
#define CLOCK_TEXT 21
void clock_text(int64_t unix_s, char out[CLOCK_TEXT]);

/* Moves both clocks of this process forward by `ns` from now on (tests only). */
void clock_advance(uint64_t ns);

#endif
