#include <criterion/criterion.h>
#include <string.h>

#include "buf.h"
#include "zone.h"

/* A zone file without a table: one type, and the rule for all years. */
static struct zone *by_rule(const char *rule)
{
    struct bytes file = {0};
    struct zone *z = NULL;
    struct err err = {0};
    for (int part = 0; part < 2; part++) {
        static const unsigned char head[44] = {'T', 'Z', 'i', 'f', '2', [39] = 1, [43] = 4};
        static const unsigned char type[6] = {0};
        bytes_add(&file, head, sizeof head);
        bytes_add(&file, type, sizeof type);
        bytes_add(&file, "UTC", 4);
    }
    bytes_addf(&file, "\n%s\n", rule);
    cr_expect_eq(zone_parse(&z, rule, file.data, file.len, &err), 0, "%s", err.msg);
    bytes_release(&file);
    return z;
}

Test(zone, rules)
{
    static const struct {
        const char *rule;
        int64_t utc;
        int32_t offset;
    } rows[] = {
        {"CET-1CEST,M3.5.0,M10.5.0/3", 1711846799, 3600},
        {"CET-1CEST,M3.5.0,M10.5.0/3", 1711846800, 7200},
        {"CET-1CEST,M3.5.0,M10.5.0/3", 1729990799, 7200},
        {"CET-1CEST,M3.5.0,M10.5.0/3", 1729990800, 3600},
        {"CET-1CEST,M3.5.0,M10.5.0/3", 4118000000, 7200},
        {"EST5EDT,M3.2.0,M11.1.0", 1710053999, -18000},
        {"EST5EDT,M3.2.0,M11.1.0", 1710054000, -14400},
        {"EST5EDT,M3.2.0,M11.1.0", 1730613599, -14400},
        {"EST5EDT,M3.2.0,M11.1.0", 1730613600, -18000},
        {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 1712415599, 39600},
        {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 1712415600, 37800},
        {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 1728142199, 37800},
        {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 1728142200, 39600},
        {"CST-8", 4118000000, 28800},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct zone *z = by_rule(rows[i].rule);
        cr_expect_eq(zone_offset(z, rows[i].utc), rows[i].offset, "row %zu: %d", i,
                     zone_offset(z, rows[i].utc));
        zone_free(z);
    }
}

Test(zone, days_of_a_rule_skip_the_leap_day_or_count_it)
{
    struct zone *julian = by_rule("ABC0DEF,J60/0,J300"), *plain = by_rule("ABC0DEF,60/0,300");
    int64_t march_1 = civil_days(2024, 3, 1) * 86400;
    cr_expect_eq(zone_offset(julian, march_1 - 1), 0);
    cr_expect_eq(zone_offset(julian, march_1), 3600);
    cr_expect_eq(zone_offset(plain, march_1 - 1), 0);
    cr_expect_eq(zone_offset(plain, march_1), 3600);
    march_1 = civil_days(2023, 3, 1) * 86400;
    cr_expect_eq(zone_offset(julian, march_1), 3600);
    cr_expect_eq(zone_offset(plain, march_1), 0, "the 60th day after the first of January");
    zone_free(julian);
    zone_free(plain);
}

Test(zone, local_time_that_is_skipped_or_comes_twice)
{
    struct zone *z = by_rule("CET-1CEST,M3.5.0,M10.5.0/3");
    cr_expect_eq(zone_utc(z, civil_days(2024, 3, 31) * 86400 + 9000), 1711846800, "at the jump");
    cr_expect_eq(zone_utc(z, civil_days(2024, 10, 27) * 86400 + 9000), 1729989000, "the first");
    cr_expect_eq(zone_utc(z, civil_days(2024, 7, 1) * 86400),
                 civil_days(2024, 7, 1) * 86400 - 7200);
    zone_free(z);
}

Test(zone, names_and_offsets)
{
    static const struct {
        const char *name;
        int64_t utc;
        int32_t offset; /* -1: refused */
    } rows[] = {
        {"", 0, 0},         {"UTC", 0, 0},      {"+08:00", 0, 28800},     {"-05:30", 0, -19800},
        {"+24:00", 0, -1},  {"+8x", 0, -1},     {"../etc/passwd", 0, -1}, {"/etc/passwd", 0, -1},
        {".hidden", 0, -1}, {"No/Such", 0, -1}, {"A/../B", 0, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct zone *z = NULL;
        struct err err = {0};
        int rc = zone_open(&z, rows[i].name, &err);
        cr_expect_eq(rc, rows[i].offset == -1 ? -1 : 0, "%s: %s", rows[i].name, err.msg);
        if (rc == 0)
            cr_expect_eq(zone_offset(z, rows[i].utc), rows[i].offset, "%s", rows[i].name);
        else
            cr_expect(strstr(err.msg, "time zone"), "%s", err.msg);
        zone_free(z);
    }
}

Test(zone, foreign_and_cut_files_are_refused)
{
    static const char *const texts[] = {"", "TZif",
                                        "TZif2 and then nothing that makes sense, on and on"};
    struct zone *z = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        cr_expect_eq(zone_parse(&z, "x", texts[i], strlen(texts[i]), NULL), -1);
    unsigned char huge[88] = {'T', 'Z', 'i', 'f', '2', [32] = 0xff, [36] = 0xff, [39] = 1};
    cr_expect_eq(zone_parse(&z, "x", huge, sizeof huge, NULL), -1);
}

Test(zone, calendar)
{
    for (int64_t day = -800000; day < 800000; day += 37) {
        int64_t year;
        unsigned month, mday;
        civil_date(day, &year, &month, &mday);
        cr_assert_eq(civil_days(year, month, mday), day);
    }
    cr_expect_eq(civil_days(2026, 11, 21), 20778);
}
