#include <criterion/criterion.h>
#include <string.h>

#include "clock.h"
#include "lease.h"

static const struct lease_times times = {15 * NS_PER_S, 10 * NS_PER_S, 2 * NS_PER_S, 2 * NS_PER_S};

static struct json_doc *lease_of(const char *holder, const char *renewed, int version)
{
    struct bytes text = {0};
    struct json_doc *doc;
    bytes_addf(&text,
               "{\"metadata\":{\"resourceVersion\":\"%d\"},\"spec\":{\"holderIdentity\":\"%s\","
               "\"renewTime\":\"%s\",\"leaseDurationSeconds\":15,\"leaseTransitions\":4}}",
               version, holder, renewed);
    cr_assert_eq(json_parse(&doc, "lease", text.data, text.len, NULL), 0);
    bytes_release(&text);
    return doc;
}

static void see(struct lease *l, const char *holder, const char *renewed, uint64_t now)
{
    struct json_doc *doc = lease_of(holder, renewed, 7);
    struct json root = json_root(doc);
    lease_seen(l, &root, now);
    json_doc_free(doc);
}

static void written(struct lease *l, const char *holder, const char *renewed, uint64_t asked)
{
    struct json_doc *doc = lease_of(holder, renewed, 8);
    struct json root = json_root(doc);
    lease_written(l, &root, asked);
    json_doc_free(doc);
}

#define S(n) ((n)*NS_PER_S)

Test(operator_lease, looks_then_creates)
{
    struct lease l;
    lease_init(&l, &times, "me");
    cr_assert_eq(lease_next(&l, S(100)), LEASE_LOOK);
    lease_seen(&l, NULL, S(100));
    cr_assert_eq(lease_next(&l, S(100)), LEASE_CREATE);
    cr_assert(!lease_leads(&l, S(100)));
    cr_assert_eq(lease_write_until(&l, S(100)), 0);
    written(&l, "me", "t0", S(100));
    cr_assert(lease_leads(&l, S(101)));
    cr_assert_eq(lease_write_until(&l, S(101)), S(113));
    cr_assert_eq(lease_next(&l, S(102)), LEASE_RENEW);
}

Test(operator_lease, a_leader_that_cannot_renew_stops_by_itself)
{
    struct lease l;
    lease_init(&l, &times, "me");
    written(&l, "me", "t0", S(100));
    cr_assert(lease_leads(&l, S(110) - 1));
    cr_assert(!lease_leads(&l, S(110)));
    cr_assert_eq(lease_write_until(&l, S(110)), 0);
    lease_doubt(&l);
    cr_assert_eq(lease_next(&l, S(111)), LEASE_LOOK);
    see(&l, "me", "t0", S(112)); /* nobody took it: it may be renewed */
    cr_assert(!lease_leads(&l, S(112)));
    cr_assert_eq(lease_next(&l, S(112)), LEASE_RENEW);
    written(&l, "me", "t1", S(112));
    cr_assert(lease_leads(&l, S(112)));
}

Test(operator_lease, others_wait_by_their_own_clock)
{
    struct lease l;
    lease_init(&l, &times, "me");
    see(&l, "you", "t0", S(100));
    cr_assert_eq(lease_next(&l, S(115)), LEASE_WAIT);
    see(&l, "you", "t1", S(115)); /* it was renewed */
    cr_assert_eq(lease_next(&l, S(130)), LEASE_WAIT);
    see(&l, "you", "t1", S(130)); /* it was not */
    cr_assert_eq(lease_next(&l, S(130) + 1), LEASE_TAKE);
    see(&l, "them", "t2", S(131)); /* somebody was faster */
    cr_assert_eq(lease_next(&l, S(131)), LEASE_WAIT);
    see(&l, "", "t3", S(132)); /* given back */
    cr_assert_eq(lease_next(&l, S(132)), LEASE_TAKE);
}

Test(operator_lease, who_sees_another_holder_leads_no_more)
{
    struct lease l;
    lease_init(&l, &times, "me");
    written(&l, "me", "t0", S(100));
    see(&l, "you", "t1", S(101));
    cr_assert(!lease_leads(&l, S(101)));
    cr_assert_eq(lease_write_until(&l, S(101)), 0);
    cr_assert_eq(lease_next(&l, S(101)), LEASE_WAIT);
}

Test(operator_lease, bodies)
{
    static const struct {
        enum lease_step step;
        bool release;
        const char *want;
    } rows[] = {
        {LEASE_CREATE, false,
         "{\"apiVersion\":\"coordination.k8s.io/"
         "v1\",\"kind\":\"Lease\",\"metadata\":{\"name\":\"l\","
         "\"namespace\":\"n\"},\"spec\":{\"holderIdentity\":\"me\",\"leaseDurationSeconds\":15,"
         "\"renewTime\":\"2026-01-02T03:04:05.000006Z\",\"acquireTime\":\"2026-01-02T03:04:05."
         "000006Z\",\"leaseTransitions\":0}}"},
        {LEASE_TAKE, false,
         "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{\"holderIdentity\":\"me\","
         "\"leaseDurationSeconds\":15,\"renewTime\":\"2026-01-02T03:04:05.000006Z\","
         "\"acquireTime\":\"2026-01-02T03:04:05.000006Z\",\"leaseTransitions\":5}}"},
        {LEASE_RENEW, false,
         "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{\"holderIdentity\":\"me\","
         "\"leaseDurationSeconds\":15,\"renewTime\":\"2026-01-02T03:04:05.000006Z\"}}"},
        {LEASE_RENEW, true,
         "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{\"holderIdentity\":\"\","
         "\"leaseDurationSeconds\":1,\"renewTime\":\"2026-01-02T03:04:05.000006Z\"}}"},
    };
    struct lease l;
    lease_init(&l, &times, "me");
    see(&l, "you", "t0", S(1));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bytes out = {0};
        lease_body(&l, rows[i].step, rows[i].release, "n", "l", 1767323045000006000, &out);
        cr_assert_str_eq(out.data, rows[i].want, "row %zu: %s", i, out.data);
        bytes_release(&out);
    }
}
