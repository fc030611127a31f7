/* How a life ended, and what follows from it. */
#include "deaths-internal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "channel.h"

#define SLOTS_A_LOOK 64

uint64_t life_oom_kills(void)
{
    char text[16384];
    size_t len = 0;
    ssize_t n = 1;
    int fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
    for (; fd >= 0 && n > 0; len += n > 0 ? (size_t)n : 0) /* a call gives a page at most */
        n = read(fd, text + len, sizeof text - 1 - len);
    if (fd >= 0)
        close(fd);
    text[len] = '\0';
    const char *row = strstr(text, "\noom_kill ");
    return row ? strtoull(row + sizeof "\noom_kill " - 1, NULL, 10) : 0;
}

struct life_start life_start_look(struct keeper_state *s)
{
    return (struct life_start){.answered = atomic_load(&s->answered),
                               .oom_kills = life_oom_kills()};
}

bool death_is_crash(const struct death *d)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
        if (d->signal == crashes[i])
            return true;
    return false;
}

/* Somebody wanted this process gone, not the mount: that is no fault of the program's. */
static bool is_from_outside(const struct death *d)
{
    if (!d->known)
        return !d->hung;
    if (d->hung || d->out_of_memory)
        return false;
    return d->signal == SIGKILL || d->signal == SIGTERM || d->signal == SIGINT;
}

void death_describe(const struct death *d, char *out, size_t size)
{
    if (d->hung)
        snprintf(out, size, "it hung, and was killed");
    else if (!d->known)
        snprintf(out, size, "it ended");
    else if (d->out_of_memory)
        snprintf(out, size, "the kernel killed it: out of memory");
    else if (is_from_outside(d))
        snprintf(out, size, "it was killed from outside (signal %d)", d->signal);
    else if (d->signal)
        snprintf(out, size, "it died of signal %d (%s)", d->signal, strsignal(d->signal));
    else if (d->code == 127)
        snprintf(out, size, "it could not be started");
    else
        snprintf(out, size, "it ended with code %d", d->code);
}

bool death_count(struct keeper_part *part, const struct death *d)
{
    char how[128];
    death_describe(d, how, sizeof how);
    part->last_signal = d->signal;
    part->last_code = d->code;
    if (d->answered)
        part->idle_deaths = 0;
    else if (!is_from_outside(d) && part->idle_deaths < UINT32_MAX)
        part->idle_deaths++;
    bool brake = part->idle_deaths >= KEEPER_BRAKE;
    if (brake && !part->degraded)
        snprintf(part->why, sizeof part->why,
                 "%u lives in a row ended without having answered a request; the last one: %s",
                 part->idle_deaths, how);
    else if (!part->degraded)
        snprintf(part->why, sizeof part->why, "%s", how);
    return brake;
}

/* --- suspects --------------------------------------------------------------------------------- */

struct state_layout state_layout_of(const struct keeper_state *s)
{
    return (struct state_layout){
        .n_desks = s->n_desks, .desks = s->desks, .desk_bytes = s->desk_bytes, .slots = s->slots};
}

struct round {
    struct keeper_part *part;
    bool add; /* the second pass: those that are new */
    bool seen[KEEPER_SUSPECTS];
};

static void note(struct round *round, const struct keeper_request *r)
{
    struct keeper_suspect *all = round->part->suspects;
    const struct keeper_suspect it = {
        .opcode = r->opcode, .deaths = 1, .nodeid = r->nodeid, .offset = keeper_place(r)};
    size_t empty = KEEPER_SUSPECTS;
    if (r->len == 0 || r->opcode == 0)
        return;
    for (size_t i = 0; i < KEEPER_SUSPECTS; i++) {
        if (!all[i].opcode) {
            empty = empty < KEEPER_SUSPECTS ? empty : i;
        } else if (all[i].opcode == it.opcode && all[i].nodeid == it.nodeid &&
                   all[i].offset == it.offset) {
            if (!round->seen[i] && all[i].deaths < UINT32_MAX)
                all[i].deaths++;
            round->seen[i] = true;
            return;
        }
    }
    if (round->add && empty < KEEPER_SUSPECTS) {
        all[empty] = it;
        round->seen[empty] = true;
    }
}

/* By pread: looking at a hole of the memfd through a mapping would fill it with a page. */
static void each_in_hand(struct round *round, const struct state_layout *at, int fd)
{
    static struct keeper_slot look[SLOTS_A_LOOK];
    for (uint32_t i = 0; i < at->n_desks; i++)
        if (pread(fd, look, sizeof look[0], (off_t)(at->desks + i * at->desk_bytes)) ==
            sizeof look[0])
            note(round, &look[0].request);
    for (uint32_t i = 0; i < KEEPER_SLOTS; i += SLOTS_A_LOOK) {
        off_t from = (off_t)(at->slots + (uint64_t)i * KEEPER_SLOT_BYTES);
        if (pread(fd, look, sizeof look, from) != sizeof look)
            return;
        for (size_t k = 0; k < SLOTS_A_LOOK; k++)
            note(round, &look[k].request);
    }
}

void suspects_count(struct keeper_part *part, const struct state_layout *at, int state_fd)
{
    struct round round = {.part = part};
    each_in_hand(&round, at, state_fd);
    for (size_t i = 0; i < KEEPER_SUSPECTS; i++)
        if (!round.seen[i] && part->suspects[i].deaths < KEEPER_DEATHS)
            part->suspects[i].opcode = 0;
    round.add = true;
    each_in_hand(&round, at, state_fd);
}
