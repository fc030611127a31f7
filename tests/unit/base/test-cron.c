#include <criterion/criterion.h>
#include <string.h>

#include "cron.h"

#define AT(y, m, d, h, min) (civil_days(y, m, d) * 86400 + (h)*3600 + (min)*60)

Test(cron, next_in_utc)
{
    const struct {
        const char *text;
        int64_t after, next;
    } rows[] = {
        {"* * * * *", AT(2026, 11, 21, 16, 30), AT(2026, 11, 21, 16, 31)},
        {"*/15 * * * *", AT(2026, 11, 21, 16, 30), AT(2026, 11, 21, 16, 45)},
        {"*/15 * * * *", AT(2026, 11, 21, 16, 30) - 1, AT(2026, 11, 21, 16, 30)},
        {"5,10-12 3 * * *", AT(2026, 11, 21, 3, 10), AT(2026, 11, 21, 3, 11)},
        {"0 9 * * MON-FRI", AT(2026, 11, 21, 16, 30), AT(2026, 11, 23, 9, 0)}, /* a Saturday */
        {"0 0 * * 7", AT(2026, 11, 21, 16, 30), AT(2026, 11, 22, 0, 0)},
        {"0 0 * * sun", AT(2026, 11, 21, 16, 30), AT(2026, 11, 22, 0, 0)},
        {"0 0 1 JAN *", AT(2026, 11, 21, 16, 30), AT(2027, 1, 1, 0, 0)},
        {"0 0 29 2 *", AT(2026, 11, 21, 16, 30), AT(2028, 2, 29, 0, 0)},
        {"0 0 29 2 *", AT(2097, 1, 1, 0, 0), AT(2104, 2, 29, 0, 0)},      /* 2100 is no leap year */
        {"0 0 13 * FRI", AT(2026, 11, 21, 0, 0), AT(2026, 11, 27, 0, 0)}, /* either is enough */
        {"0 0 */2 * FRI", AT(2026, 11, 21, 0, 0), AT(2026, 11, 27, 0, 0)}, /* a star: both */
        {"50/5 23 31 12 *", AT(2026, 1, 1, 0, 0), AT(2026, 12, 31, 23, 50)},
        {"@hourly", AT(2026, 11, 21, 16, 30), AT(2026, 11, 21, 17, 0)},
        {"@weekly", AT(2026, 11, 21, 16, 30), AT(2026, 11, 22, 0, 0)},
        {"@monthly", AT(2026, 11, 21, 16, 30), AT(2026, 12, 1, 0, 0)},
        {"0 0 30 2 *", AT(2026, 11, 21, 16, 30), -1},
    };
    struct zone *utc;
    cr_assert_eq(zone_open(&utc, "UTC", NULL), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct cron c;
        struct err err = {0};
        cr_assert_eq(cron_parse(&c, rows[i].text, &err), 0, "%s", err.msg);
        int64_t next = cron_next(&c, utc, rows[i].after);
        cr_expect_eq(next, rows[i].next, "%s: %lld, want %lld", rows[i].text, (long long)next,
                     (long long)rows[i].next);
    }
    zone_free(utc);
}

Test(cron, local_midnight)
{
    struct zone *z;
    struct cron c;
    cr_assert_eq(zone_open(&z, "+08:00", NULL), 0);
    cr_assert_eq(cron_parse(&c, "@daily", NULL), 0);
    cr_expect_eq(cron_next(&c, z, AT(2026, 11, 21, 16, 30)), AT(2026, 11, 22, 16, 0));
    cr_expect_eq(cron_next(&c, z, AT(2026, 11, 21, 15, 30)), AT(2026, 11, 21, 16, 0));
    zone_free(z);
}

Test(cron, refusals_name_the_field)
{
    static const char *const rows[][2] = {
        {"", "0 fields"},
        {"* * * *", "4 fields"},
        {"* * * * * *", "more than 5"},
        {"60 * * * *", "minute \"60\""},
        {"* 24 * * *", "hour \"24\""},
        {"* * 0 * *", "day \"0\""},
        {"* * * 13 *", "month \"13\""},
        {"* * * * 8", "weekday \"8\""},
        {"5-1 * * * *", "minute \"5-1\""},
        {"*/0 * * * *", "minute \"*/0\""},
        {"1,,2 * * * *", "minute \"1,,2\""},
        {"1- * * * *", "minute \"1-\""},
        {"x * * * *", "minute \"x\""},
        {"1x * * * *", "minute \"1x\""},
        {"99999999999999999999 * * * *", "minute"},
        {"@never", "minute \"@never\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct cron c;
        struct err err = {0};
        cr_expect_eq(cron_parse(&c, rows[i][0], &err), -1, "%s", rows[i][0]);
        cr_expect(strstr(err.msg, rows[i][1]), "%s: %s", rows[i][0], err.msg);
        cr_expect_eq(err.class, ERR_USAGE);
    }
}
