#include <criterion/criterion.h>
#include <string.h>

#include "frontend-internal.h"

struct init_request {
    struct wire_in_header h;
    struct wire_init_in in;
};

static struct init_request modern(void)
{
    struct init_request r = {.h = {.opcode = WIRE_INIT, .len = sizeof(r)}};

    r.in.flags = WIRE_NO_OPEN | WIRE_NO_OPENDIR | WIRE_DO_READDIRPLUS | WIRE_READDIRPLUS_AUTO |
                 WIRE_ASYNC_READ | WIRE_MAX_PAGES | WIRE_INIT_EXT;
    r.in.flags2 = WIRE2_PASSTHROUGH | WIRE2_HAS_RESEND;
    return r;
}

Test(mask, names)
{
    struct err err = {0};
    unsigned hidden = 99;

    cr_assert_eq(probe_mask_parse(NULL, &hidden, &err), 0);
    cr_assert_eq(hidden, 0);
    cr_assert_eq(probe_mask_parse("", &hidden, &err), 0);
    cr_assert_eq(hidden, 0);
    cr_assert_eq(probe_mask_parse("no_open,notify,", &hidden, &err), 0);
    cr_assert_eq(hidden, OFFER_NO_OPEN | OFFER_NOTIFY);
    cr_assert_eq(probe_mask_parse(
                     "no_open,no_opendir,readdirplus,async_read,passthrough,notify,ioctl,max_pages,"
                     "resend",
                     &hidden, &err),
                 0);
    cr_assert_eq(hidden, OFFER_ALL);
    cr_assert_eq(probe_mask_parse("no_ope", &hidden, &err), -1);
    cr_assert_eq(err.class, ERR_USAGE);
    cr_assert(strstr(err.msg, "'no_ope'"));
}

Test(offers, come_from_the_init_request)
{
    struct init_request r = modern();

    cr_assert_eq(probe_offers(&r, sizeof(r)), OFFER_ALL);
    /* flags2 counts only where flags announce it and the request is long enough. */
    cr_assert_eq(probe_offers(&r, sizeof(r.h) + 16),
                 OFFER_ALL & ~(OFFER_PASSTHROUGH | OFFER_RESEND));
    r.in.flags &= ~WIRE_INIT_EXT;
    cr_assert_eq(probe_offers(&r, sizeof(r)), OFFER_ALL & ~(OFFER_PASSTHROUGH | OFFER_RESEND));
    r.in.flags = 0;
    cr_assert_eq(probe_offers(&r, sizeof(r)), OFFER_NOTIFY | OFFER_IOCTL);
    cr_assert_eq(probe_offers(&r, 3), OFFER_NOTIFY | OFFER_IOCTL);
}

Test(offers, hidden_ones_leave_the_request)
{
    struct init_request r = modern();

    probe_hide(&r, sizeof(r), OFFER_NO_OPEN | OFFER_PASSTHROUGH | OFFER_READDIRPLUS);
    cr_assert_eq(probe_offers(&r, sizeof(r)),
                 OFFER_ALL & ~(OFFER_NO_OPEN | OFFER_PASSTHROUGH | OFFER_READDIRPLUS));
    cr_assert_eq(r.in.flags & (WIRE_DO_READDIRPLUS | WIRE_READDIRPLUS_AUTO), 0);
}

Test(decision, table)
{
    static const struct {
        unsigned offers;
        bool shards;
        const char *backing;
        const char *mode;
        bool no_open, no_opendir, cache_dirs, passthrough;
        double timeout;
        const char *says;
    } rows[] = {
        {OFFER_ALL, false, NULL, "no_open", true, true, true, false, 86400, "no round trip"},
        {OFFER_ALL & ~OFFER_NO_OPEN, false, NULL, "open", false, true, true, false, 86400,
         "does not offer no_open"},
        {OFFER_ALL & ~OFFER_NO_OPENDIR, false, NULL, "no_open", true, false, true, false, 86400,
         "no no_opendir"},
        {OFFER_ALL & ~OFFER_READDIRPLUS, false, NULL, "no_open", true, true, true, false, 86400,
         "no readdirplus"},
        {OFFER_ALL & ~OFFER_NOTIFY, false, NULL, "no_open", true, false, false, false, 1,
         "no notifications"},
        {OFFER_ALL & ~OFFER_MAX_PAGES, false, NULL, "no_open", true, true, true, false, 86400,
         "128 KiB"},
        {OFFER_ALL & ~OFFER_ASYNC_READ, false, NULL, "no_open", true, true, true, false, 86400,
         "no async_read"},
        {0, false, NULL, "open", false, false, false, false, 1, "does not offer no_open"},
        {OFFER_ALL, true, NULL, "passthrough", false, true, true, true, 86400, "profile shards"},
        {OFFER_ALL, true, "EPERM here", "open", false, true, true, false, 86400, "EPERM here"},
        {OFFER_ALL & ~OFFER_PASSTHROUGH, true, NULL, "open", false, true, true, false, 86400,
         "does not offer it"},
        {OFFER_ALL & ~OFFER_IOCTL, true, NULL, "open", false, true, true, false, 86400,
         "can't be registered"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct decision d;

        probe_decide(rows[i].offers, rows[i].shards, rows[i].backing, &d);
        cr_assert_str_eq(d.mode, rows[i].mode, "row %zu: %s", i, d.mode);
        cr_assert_eq(d.no_open, rows[i].no_open, "row %zu", i);
        cr_assert_eq(d.no_opendir, rows[i].no_opendir, "row %zu", i);
        cr_assert_eq(d.cache_dirs, rows[i].cache_dirs, "row %zu", i);
        cr_assert_eq(d.passthrough, rows[i].passthrough, "row %zu", i);
        cr_assert(d.timeout_s == rows[i].timeout, "row %zu", i);
        cr_assert(strstr(d.why, rows[i].says), "row %zu: %s", i, d.why);
    }
}
