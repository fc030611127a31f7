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
