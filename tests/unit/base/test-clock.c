#include <criterion/criterion.h>

#include "clock.h"

Test(clock, seconds_as_text)
{
    static const struct {
        int64_t s;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00Z"},  {1767225599, "2025-12-31T23:59:59Z"},
        {-1, "1969-12-31T23:59:59Z"}, {253402300799, "9999-12-31T23:59:59Z"},
        {253402300800, ""},           {INT64_MAX, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[CLOCK_TEXT];
        clock_text(rows[i].s, text);
        cr_expect_str_eq(text, rows[i].text, "%s", text);
    }
}

Test(clock, times_of_files_there_and_back)
{
    static const struct {
        int64_t ns, s;
        long rest;
    } rows[] = {{0, 0, 0},
                {1500000000000000007, 1500000000, 7},
                {-1, -1, 999999999},
                {-1000000000, -1, 0},
                {-1500000000, -2, 500000000},
                {INT64_MIN, -9223372037, 145224192}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct timespec t = clock_timespec(rows[i].ns);
        cr_expect(t.tv_sec == rows[i].s && t.tv_nsec == rows[i].rest, "%lld.%09ld",
                  (long long)t.tv_sec, t.tv_nsec);
        if (rows[i].ns != INT64_MIN) /* its whole seconds alone are less */
            cr_expect_eq(clock_ns_of(&t), rows[i].ns);
    }
}

/* Some file systems keep years that our times cannot tell. */
Test(clock, times_of_files_too_far_away)
{
    const struct timespec far[] = {{.tv_sec = 13569465600}, {.tv_sec = INT64_MAX}};
    const struct timespec past[] = {{.tv_sec = -13569465600}, {.tv_sec = INT64_MIN}};
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(clock_ns_of(&far[i]), 9223372035000000000, "%d: in 2262", i);
        cr_expect_eq(clock_ns_of(&past[i]), -9223372035000000000, "%d: in 1677", i);
    }
}
