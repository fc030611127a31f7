/* The two clocks, and the offset by which tests move them. */
#include "clock.h"

#include <stdatomic.h>

static _Atomic uint64_t advanced_ns; /* tests only; 0 in every program */

static uint64_t read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec +
           atomic_load_explicit(&advanced_ns, memory_order_relaxed);
}

uint64_t clock_mono_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t clock_wall_ns(void)
{
    return (int64_t)read_clock(CLOCK_REALTIME);
}

int64_t clock_ns_of(const struct timespec *t)
{
    int64_t s = t->tv_sec;
    if (s < -CLOCK_MAX_S || s > CLOCK_MAX_S)
        return (s < 0 ? -CLOCK_MAX_S : CLOCK_MAX_S) * (int64_t)NS_PER_S;
    return s * (int64_t)NS_PER_S + t->tv_nsec;
}

struct timespec clock_timespec(int64_t ns)
{
    int64_t s = ns / (int64_t)NS_PER_S, rest = ns % (int64_t)NS_PER_S;
    if (rest < 0) {
        rest += (int64_t)NS_PER_S;
        s--;
    }
    return (struct timespec){.tv_sec = s, .tv_nsec = rest};
}

void clock_text(int64_t unix_s, char out[CLOCK_TEXT])
{
    time_t t = (time_t)unix_s;
    struct tm tm;
    if (!gmtime_r(&t, &tm) || !strftime(out, CLOCK_TEXT, "%Y-%m-%dT%H:%M:%SZ", &tm))
        *out = '\0';
}

void clock_advance(uint64_t ns)
{
    atomic_fetch_add(&advanced_ns, ns);
}
