/*
 * Who of several operators acts: the holder of a Lease (coordination.k8s.io/v1). Pure: what to do
 * next, from what was seen and when; lead.c does it.
 *
 * A holder renews every `retry`; one that could not for `renew_by` stops to act by itself; others
 * take over when they have seen no change of the Lease for `duration` of their own clock. Clocks of
 * different machines are never compared.
 */
#ifndef SAMPAN_OPERATOR_LEASE_H
#define SAMPAN_OPERATOR_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "buf.h"
#include "json.h"

struct lease_times {
    uint64_t duration, renew_by, retry, margin; /* nanoseconds */
};

struct lease {
    struct lease_times times;
    char identity[128];
    /* --- as it was seen last --- */
    bool known, exists;
    char holder[256], renewed[64], version[64], acquired[64];
    int64_t transitions;
    uint64_t holder_duration; /* as the holder says; 0: ours */
    uint64_t changed_at;      /* when we saw it change */
    uint64_t renewed_at; /* when we asked for our last renewal that worked; 0: we do not hold it */
};

enum lease_step { LEASE_LOOK, LEASE_WAIT, LEASE_CREATE, LEASE_TAKE, LEASE_RENEW };

void lease_init(struct lease *l, const struct lease_times *times, const char *identity);
/* What a GET, or the answer to our own write, showed. NULL: there is none. */
void lease_seen(struct lease *l, const struct json *object, uint64_t now);
/* Our write, asked for at `asked_at`, worked. */
void lease_written(struct lease *l, const struct json *object, uint64_t asked_at);
/* Somebody else wrote it: look again before anything else. */
void lease_doubt(struct lease *l);
enum lease_step lease_next(const struct lease *l, uint64_t now);

bool lease_leads(const struct lease *l, uint64_t now);
/* Until when our writes may be under way; 0: not at all. */
uint64_t lease_write_until(const struct lease *l, uint64_t now);

/* The object to create, or the merge patch to take, renew or (release) give it back. `wall_ns` is
 * the wall clock. */
void lease_body(const struct lease *l, enum lease_step step, bool release, const char *ns,
                const char *name, int64_t wall_ns, struct bytes *out);

#endif
