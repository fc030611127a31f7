/* Which packs are rewritten, and when the trash is emptied. */
#include <criterion/criterion.h>

#include "pack-internal.h"
#include "remove.h"

#define MB (1ull << 20)

struct case_row {
    uint64_t size, live, n_live;
    bool rewrite;
};

static void check(const struct case_row *rows, size_t n, double waste, bool all, const char *what)
{
    struct packs packs = {0};
    for (size_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "p%02zu", n - i);
        struct pack *p = packs_add(&packs, name);
        p->size = rows[i].size;
        p->live = rows[i].live;
        p->n_live = rows[i].n_live;
    }
    packs_sort(&packs);
    packs_plan(&packs, 16 * MB, waste, all);
    for (size_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "p%02zu", n - i);
        const struct pack *p = packs_find(&packs, name);
        cr_assert_not_null(p);
        cr_expect_eq(p->rewrite, rows[i].rewrite, "%s: row %zu", what, i);
    }
    cr_expect_null(packs_find(&packs, "other"));
    packs_release(&packs);
}

Test(plan, wasteful_packs_are_rewritten)
{
    static const struct case_row half[] = {
        {16 * MB, 16 * MB, 9, false}, /* all alive */
        {16 * MB, 9 * MB, 9, false},
        {16 * MB, 8 * MB, 9, true},
        {16 * MB, 0, 0, false}, /* dead: nothing to move */
        {100, 0, 1, true},      /* an empty sample in a dead pack */
        {0, 0, 2, false},       /* empty samples alone */
    };
    check(half, 6, 0.5, false, "half");
    static const struct case_row all[] = {
        {16 * MB, 16 * MB, 9, false},
        {16 * MB, 16 * MB - 1, 9, true},
        {16 * MB, 0, 0, false},
    };
    check(all, 3, 0.5, true, "all");
}

Test(plan, many_thin_packs_are_joined)
{
    struct case_row rows[PACKS_THIN + 1];
    for (int i = 0; i < PACKS_THIN; i++)
        rows[i] = (struct case_row){MB, MB, 1, true};
    rows[PACKS_THIN] = (struct case_row){4 * MB, 4 * MB, 1, false};
    check(rows, PACKS_THIN + 1, 0.5, false, "enough of them");
    for (int i = 0; i < PACKS_THIN; i++)
        rows[i].rewrite = false;
    check(rows + 1, PACKS_THIN, 0.5, false, "one too few");
}

Test(trash, a_day_old)
{
    static const struct {
        const char *name;
        int64_t now;
        bool expired;
    } rows[] = {
        {"2026-11-21T120000Z-1a2b", 1795262400 + 86400, false}, /* just a day */
        {"2026-11-21T120000Z-1a2b", 1795262400 + 86401, true},
        {"2026-11-21T120000Z-1a2b", 1795262400, false},
        {"2026-11-21T120000Z-1a2b", 0, false},
        {"2001-01-01T000000Z-0001", 1795262400, true},
        {"2001-01-01T000000Z", 1795262400, false},
        {"2001-01-01T000000Z-0001x", 1795262400, false},
        {"mine", 1795262400, false},
        {"", 1795262400, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(remove_is_expired(rows[i].name, rows[i].now), rows[i].expired, "row %zu", i);
}
