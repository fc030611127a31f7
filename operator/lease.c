/* The rules of the Lease. */
#include "lease.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "object.h"

void lease_init(struct lease *l, const struct lease_times *times, const char *identity)
{
    *l = (struct lease){.times = *times};
    snprintf(l->identity, sizeof l->identity, "%s", identity);
}

static void copy(char *out, size_t size, const struct json *in, const char *key)
{
    const char *text;
    if (json_str_or(in, key, "", &text, NULL))
        text = ""; /* of another type: as good as absent */
    snprintf(out, size, "%s", text);
}

void lease_seen(struct lease *l, const struct json *object, uint64_t now)
{
    struct lease old = *l;
    l->known = true;
    l->exists = object != NULL;
    l->holder[0] = l->renewed[0] = l->version[0] = '\0';
    l->holder_duration = 0;
    if (object) {
        struct json spec = json_get(object, "spec"), meta = json_get(object, "metadata");
        int64_t seconds = 0;
        copy(l->holder, sizeof l->holder, &spec, "holderIdentity");
        copy(l->renewed, sizeof l->renewed, &spec, "renewTime");
        copy(l->acquired, sizeof l->acquired, &spec, "acquireTime");
        copy(l->version, sizeof l->version, &meta, "resourceVersion");
        if (json_int_or(&spec, "leaseTransitions", 0, INT32_MAX, 0, &l->transitions, NULL))
            l->transitions = 0;
        if (json_int_or(&spec, "leaseDurationSeconds", 0, 86400, 0, &seconds, NULL))
            seconds = 0;
        l->holder_duration = (uint64_t)seconds * NS_PER_S;
    }
    if (!old.known || strcmp(old.holder, l->holder) != 0 || strcmp(old.renewed, l->renewed) != 0)
        l->changed_at = now;
    if (strcmp(l->holder, l->identity) != 0)
        l->renewed_at = 0; /* another has it: whatever we thought, we do not lead */
}

void lease_written(struct lease *l, const struct json *object, uint64_t asked_at)
{
    lease_seen(l, object, asked_at);
    if (strcmp(l->holder, l->identity) == 0)
        l->renewed_at = asked_at;
}

void lease_doubt(struct lease *l)
{
    l->known = false;
}

static bool is_ours(const struct lease *l)
{
    return l->exists && strcmp(l->holder, l->identity) == 0;
}

enum lease_step lease_next(const struct lease *l, uint64_t now)
{
    uint64_t lasts =
        l->holder_duration > l->times.duration ? l->holder_duration : l->times.duration;
    if (!l->known)
        return LEASE_LOOK;
    if (!l->exists)
        return LEASE_CREATE;
    if (is_ours(l))
        return LEASE_RENEW;
    if (!*l->holder || now - l->changed_at > lasts)
        return LEASE_TAKE;
    return LEASE_WAIT;
}

bool lease_leads(const struct lease *l, uint64_t now)
{
    return l->renewed_at && now - l->renewed_at < l->times.renew_by;
}

uint64_t lease_write_until(const struct lease *l, uint64_t now)
{
    return lease_leads(l, now) ? l->renewed_at + l->times.duration - l->times.margin : 0;
}

/* "2026-01-01T00:00:00.000000Z" */
static void time_text(int64_t wall_ns, char out[40])
{
    char date[CLOCK_TEXT];
    clock_text(wall_ns / (int64_t)NS_PER_S, date);
    snprintf(out, 40, "%.19s.%06dZ", date, (int)(wall_ns % (int64_t)NS_PER_S / 1000));
}

void lease_body(const struct lease *l, enum lease_step step, bool release, const char *ns,
                const char *name, int64_t wall_ns, struct bytes *out)
{
    struct json_writer w;
    char now[40];
    time_text(wall_ns, now);
    jw_init(&w, out);
    jw_object(&w, NULL);
    if (step == LEASE_CREATE) {
        jw_str(&w, "apiVersion", "coordination.k8s.io/v1");
        jw_str(&w, "kind", "Lease");
    }
    jw_object(&w, "metadata");
    if (step == LEASE_CREATE) {
        jw_str(&w, "name", name);
        jw_str(&w, "namespace", ns);
    } else {
        jw_str(&w, "resourceVersion", l->version);
    }
    jw_end(&w);
    jw_object(&w, "spec");
    jw_str(&w, "holderIdentity", release ? "" : l->identity);
    jw_uint(&w, "leaseDurationSeconds", release ? 1 : l->times.duration / NS_PER_S);
    jw_str(&w, "renewTime", now);
    if (step == LEASE_CREATE || step == LEASE_TAKE) {
        jw_str(&w, "acquireTime", now);
        jw_int(&w, "leaseTransitions", step == LEASE_TAKE ? l->transitions + 1 : 0);
    }
    jw_end(&w);
    jw_end(&w);
}
